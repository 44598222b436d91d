"""One turn and its reasons: the part that a context and a stored turn have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from kaosmem.arguments import check_text
from kaosmem.assembly.why import Why, answer, find_items, never_stored
from kaosmem.errors import InvalidArgumentError

if TYPE_CHECKING:
    from kaosmem.assembly.context import Decision, SectionUse, SourceReport
    from kaosmem.filters import MetadataFilter
    from kaosmem.types.items import Item


@dataclass(frozen=True, slots=True)
class Cutoff:
    """Where the share of one section ended.

    Attributes:
        offered: The number of items that the section offered.
        lowest: The lowest score that is in, None if no ranked item is in.
    """

    offered: int
    lowest: float | None


@dataclass(frozen=True, kw_only=True, repr=False)
class AssembledTurn:
    """One turn: the shown items in order, and a decision for every item.

    The attributes are those of a `Context`, which is a turn that was just assembled. asked: names
    of the sections and sources that could be shown.
    """

    format: str
    query: str
    budget: int
    used: int
    frame: int
    items: tuple[Item, ...]
    by_section: Mapping[str, SectionUse]
    sources: Mapping[str, SourceReport]
    asked: tuple[str, ...] = ()
    window: str = ""
    epoch: int = 0
    rebased: str | None = None
    prefix_tokens: int = 0
    appended: int = 0
    notices: tuple[str, ...] = ()
    before: tuple[Item, ...] | None = field(default=None, compare=False)
    filter: MetadataFilter | None = field(default=None, compare=False)
    _proposed: Callable[[], tuple[Decision, ...]] = field(compare=False)
    _others: Callable[[str], Decision] = field(compare=False)
    _judge: Callable[[], float | None] = field(compare=False)
    _known: Callable[[bool], Iterable[Item]] = field(compare=False)

    @cached_property
    def decisions(self) -> tuple[Decision, ...]:
        """One decision for every proposed item, sections as declared, ranks ascending."""
        return self._proposed()

    @cached_property
    def cutoffs(self) -> dict[str, Cutoff]:
        """Where the share of each section ended that offered an item."""
        offered = Counter(each.section for each in self.decisions)
        lowest: dict[str, float] = {}
        for each in self.decisions:
            if each.included and each.score is not None:
                so_far = lowest.get(each.section, each.score)
                lowest[each.section] = min(each.score, so_far)
        return {name: Cutoff(count, lowest.get(name)) for name, count in offered.items()}

    @cached_property
    def _by_id(self) -> dict[str, Decision]:
        return {decision.item_id: decision for decision in self.decisions}

    @property
    def confidence(self) -> float | None:
        """Return how likely the evidence for the query is in the context, 0 to 1.

        None for a query without terms.

        It compares the words of the query with those of the shown items, whatever ranks them. It is
        computed when it is first asked. With `min_confidence`, it is that of the context before
        retrieved items were left out.

        >>> from kaosmem import SessionMemory
        >>> memory = SessionMemory.test_mode()
        >>> added = memory.add_many("documents", [f"Room {n} costs {n} euros." for n in range(100)])
        >>> known = await memory.assemble_context("What does room 17 cost?", budget=200)
        >>> unknown = await memory.assemble_context("Which wine goes with oysters?", budget=200)
        >>> known.confidence > 0.8, unknown.confidence < 0.4
        (True, True)
        """
        return self._judge()

    def decision(self, item_id: str) -> Decision:
        """Return why any item is in or out.

        Raises NotFoundError for an id that the session does not know.
        """
        proposed = self._by_id.get(item_id)
        if proposed is None:
            return self._others(item_id)
        return proposed

    def why(self, words: str) -> Why:
        """Return why an item is in or out, in one or two sentences with numbers.

        If no item in memory has the words, the archive files of a stored session are read.

        Args:
            words: The id or the key of an item, a part of its source or text, or most of its words.

        Raises:
            InvalidArgumentError: If the words are blank.
            CorruptionError: If the archive files are damaged.

        >>> from kaosmem import SessionMemory
        >>> memory = SessionMemory.test_mode()
        >>> added = memory.add_many("documents", [f"Room {n} costs {n} euros." for n in range(100)])
        >>> context = await memory.assemble_context("What does room 17 cost?", budget=40)
        >>> context.why("room 5 costs").decision.reason
        <Reason.OUTRANKED: 'outranked'>
        """
        if not check_text(words, "words").strip():
            raise InvalidArgumentError("words are blank; give an item's id, or words of its text")
        for with_files in (False, True):
            found, nearest = find_items(words, self._items(with_files=with_files))
            if found:
                return answer(self, self.decision(found[0].id), len(found) - 1)
        return never_stored(self, words, nearest)

    def _items(self, *, with_files: bool) -> Iterator[Item]:
        """Yield the shown items, then the offered ones, then the others, live ones first."""
        yield from self.items
        for decision in self.decisions:
            if decision.item is not None:
                yield decision.item
        yield from reversed([*self._known(with_files)])

    def explain(self, *, misses: int = 10, color: bool = False) -> str:
        """Return a report of at most 80 columns: sums, items with reasons, the nearest `misses`.

        The sums add up to the budget. The cutoff of a section is its lowest score that is in.

        Args:
            misses: The number of items to list that are out.
            color: Use the colours of a terminal.
        """
        from kaosmem.assembly.explanation import explanation

        return explanation(self, misses=misses, color=color)

    def nearest_misses(self, count: int = 10) -> list[Decision]:
        """Return decisions on the items that came closest to being in: by score, then by rank."""
        missed = [decision for decision in self.decisions if not decision.included]
        missed.sort(key=lambda decision: (-(decision.score or 0.0), decision.rank or 0))
        return missed[:count]

    def _repr_html_(self) -> str:
        from kaosmem.assembly.explanation import html

        return html(self)
