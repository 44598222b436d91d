"""A ranker of your own: one file with the ranker and its index, given to a section, which passes the contract."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kaosmem import Item, SectionSpec, SessionMemory
from kaosmem.language.analysis import analyze
from kaosmem.retrieval.ranker import check_new, unknown_ordinal
from kaosmem.testing import RankerContract


class SharedWords:
    """Ranks items by the share of their words that the query has too."""

    name = "shared-words"

    def index(self) -> SharedWordsIndex:
        return SharedWordsIndex()


class SharedWordsIndex:
    """The words of each entry, by its ordinal: a number that is larger for a newer entry."""

    def __init__(self) -> None:
        self._words: dict[int, set[str]] = {}

    def __len__(self) -> int:
        return len(self._words)

    def add(self, entries: Iterable[tuple[int, Item]]) -> None:
        self._words |= {
            ordinal: {*analyze(item.text)} for ordinal, item in check_new(entries, self._words)
        }

    def update(self, ordinal: int, item: Item) -> None:
        self.remove(ordinal)
        self._words[ordinal] = {*analyze(item.text)}

    def remove(self, ordinal: int) -> None:
        if ordinal not in self._words:
            raise unknown_ordinal(ordinal)
        del self._words[ordinal]

    def rank(
        self, query: str, limit: int, *, among: Collection[int] | None = None
    ) -> list[tuple[int, float]]:
        wanted = {*analyze(query)}
        chosen = self._words.keys() if among is None else self._words.keys() & {*among}
        shared = {each: len(wanted & self._words[each]) for each in chosen}
        scored = [
            (round(many / len(self._words[each]) ** 0.5, 9), each)
            for each, many in shared.items()
            if many
        ]
        return [(ordinal, score) for score, ordinal in sorted(scored, reverse=True)[:limit]]


class TestSharedWords(RankerContract):
    """Run by pytest: all that a section asks of a ranker."""

    def make(self) -> SharedWords:
        return SharedWords()


async def test_a_section_shows_the_notes_that_share_most_words() -> None:
    notes = SectionSpec("notes", ranker=SharedWords(), retrieval_threshold=0)
    memory = SessionMemory.test_mode(sections=(notes,))
    memory.add_many(
        "notes", ["The rent is due in May.", "The deposit is two rents.", "Ann keeps the keys."]
    )
    context = await memory.assemble_context("Who keeps the keys?", budget=16)
    assert [item.text for item in context.items] == ["Ann keeps the keys."]
