"""Sources that hold notes."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from kaosmem import Item, Proposal, SectionSpec
from kaosmem.filters import MetadataFilter
from kaosmem.language.query import Query


def item(
    item_id: str, *, sources: Iterable[str] = (), content: object = "text", role: str = "user"
) -> Item:
    created_at = datetime(2026, 1, 1, tzinfo=UTC)
    return Item(item_id, "s", role, content, 10, created_at, sources=tuple(sources))  # type: ignore[arg-type]


class Notes:
    """A source that holds notes; it cannot forget."""

    spec = SectionSpec("notes", None, 50)

    def __init__(self, **notes: str) -> None:
        self.notes = {key: item(key, content=text) for key, text in notes.items()}

    async def propose(
        self, query: Query, *, cap: int, wanted: MetadataFilter | None = None
    ) -> Proposal:
        return Proposal.of([(each, None) for each in self.notes.values()])

    async def get(self, item_id: str) -> Item | None:
        return self.notes.get(item_id)


class ErasableNotes(Notes):
    """One that can."""

    async def forget(self, item_ids: Iterable[str]) -> None:
        for item_id in item_ids:
            del self.notes[item_id]
