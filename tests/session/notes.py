"""Sources that hold notes."""

from datetime import UTC, datetime

from kaosmem import Item, Proposal, SectionSpec


def item(item_id, *, sources=(), content="text", role="user"):
    created_at = datetime(2026, 1, 1, tzinfo=UTC)
    return Item(item_id, "s", role, content, 10, created_at, sources=tuple(sources))


class Notes:
    """A source that holds notes; it cannot forget."""

    spec = SectionSpec("notes", None, 50)

    def __init__(self, **notes):
        self.notes = {key: item(key, content=text) for key, text in notes.items()}

    async def propose(self, query, *, cap, wanted=None):
        return Proposal.of([(each, None) for each in self.notes.values()])

    async def get(self, item_id):
        return self.notes.get(item_id)


class ErasableNotes(Notes):
    """One that can."""

    async def forget(self, item_ids):
        for item_id in item_ids:
            del self.notes[item_id]
