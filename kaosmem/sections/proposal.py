"""The Source protocol, and a source's proposal for a window: units in order of value."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, Protocol, runtime_checkable

from kaosmem.errors import InvalidArgumentError
from kaosmem.filters import MetadataFilter
from kaosmem.formats.labels import LabelStyle
from kaosmem.language.query import Query
from kaosmem.sections.spec import SectionSpec
from kaosmem.types import JSONDict
from kaosmem.types.items import Item, item_dict, item_of_dict
from kaosmem.types.versions import aware

_CLEARLY_BETTER = 1.5
"""Scores of versions differ by less if the question names neither value: they share their words."""


_LEAST_EXCERPT = 512
"""A message of fewer tokens is recalled whole."""


_ROLES_OF_AGENTS = frozenset({"assistant", "tool", "system", "developer", "summary"})
"""The roles whose messages begin no day: they belong to a question, or to the application."""


def excerpt_tokens(room: int) -> int:
    """Return the most tokens of one earlier message, in a room for all that are recalled.

    Of a longer one, an excerpt is recalled.
    """
    return max(_LEAST_EXCERPT, room // 8)


class Candidate(NamedTuple):
    """One unit that a source proposes: a tuple, since hundreds are made in each turn.

    Attributes:
        items: The items in stored order.
        position: Number of items that the section had ever taken before the first of them.
        cut: A history may start with the unit.
        must: The unit must be shown.
        orphan: The unit is nothing but results without a call.
        rank: Its place in the order of want, from 1.
        score: Its score for the query, None if it was not ranked.
        tokens: The tokens of all its items.
        recalled: The unit is shown as an earlier one. It was evicted, or stands before the place
            where a history is cut.
        needs: Positions of the units that are shown with it, oldest first. A replaced version
            always has them beside it, a unit that others may correct has them where they fit.
        is_replaced: The unit is a replaced version, or one that is yet to begin. It is never shown
            without the current one.
        display_order: The key that orders it where it is shown, () for its position. A replaced
            version stands before the current one.
        positions: Of each of several items, the number of items taken before it.
        days: The day of the user's message before and that of this one, if they differ.
    """

    items: tuple[Item, ...]
    position: int
    cut: bool
    must: bool
    orphan: bool
    rank: int
    score: float | None
    tokens: int
    recalled: bool = False
    needs: tuple[int, ...] = ()
    is_replaced: bool = False
    display_order: tuple[int, ...] = ()
    positions: tuple[int, ...] = ()
    days: tuple[str, str] | None = None

    @classmethod
    def alone(cls, item: Item, position: int, rank: int, score: float | None) -> Candidate:
        """Return an item that stands alone as a candidate."""
        return cls((item,), position, False, False, False, rank, score, item.tokens)


def with_items(unit: Candidate, items: Iterable[Item]) -> Candidate:
    """Return a unit with other items in the places of its own, and their tokens."""
    shown = tuple(items)
    return unit._replace(items=shown, tokens=sum(item.tokens for item in shown))


@dataclass(frozen=True, slots=True)
class Hit:
    """An item that a search found, with its score. A hit unpacks as `(item, score)`.

    Attributes:
        section: The name of the section or attached section that it is in.
        is_archived: Whether it was evicted or superseded, and is in the archive of the section.

    >>> from kaosmem import SessionMemory
    >>> memory = SessionMemory.test_mode()
    >>> for name in ("Ann", "Bob"):
    ...     item = memory.add("findings", f"{name} owns the deal.", key="owner")
    >>> for hit in memory.search("Who owns the deal?"):
    ...     item, score = hit
    ...     print(item.text, hit.section, hit.is_archived)
    Bob owns the deal. findings False
    Ann owns the deal. findings True
    """

    item: Item
    score: float
    section: str
    is_archived: bool = False

    def __iter__(self) -> Iterator[Any]:
        return iter((self.item, self.score))

    def __getitem__(self, place: int) -> Any:
        return (self.item, self.score)[place]

    def to_dict(self) -> JSONDict:
        """Return the hit as JSON values, its item included."""
        return {
            "item": item_dict(self.item),
            "score": self.score,
            "section": self.section,
            "is_archived": self.is_archived,
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Hit:
        """Return the hit that `to_dict` returned. Raises InvalidArgumentError."""
        try:
            item = item_of_dict(stored["item"])
            return cls(item, stored["score"], stored["section"], stored["is_archived"])
        except (KeyError, TypeError, AttributeError) as error:
            raise InvalidArgumentError(
                f"this is no hit ({type(error).__name__}); give the value that to_dict() returned"
            ) from None


@dataclass(frozen=True, slots=True)
class CandidatePool:
    """All items that a section could propose, evicted ones included.

    Attributes:
        items, tokens: How many there are.
        frequencies: Number of items with each term of the query, if its index knows.
    """

    items: int
    tokens: int
    frequencies: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Proposal:
    """The units that a source proposes for a context.

    Attributes:
        candidates: The units in order of want.
        earlier: The units of a history that may be recalled, in order of worth.
        taken: Number of items that the section has ever taken.
        evicted: Number of items that it holds no more, and may recall.
        pool: All that the source could propose, None if it does not know.
        is_all: The source proposes all its live items whatever the query. They are few, it does not
            rank, or it is a history that has no more.
        signals: Returns the parts of the score of the candidate at a position, by name, or nothing
            if the ranker does not tell them.
        error: The name of the error's type, if the proposal is incomplete.
        unanswered: The reason why the filter lets no item through, if it cannot be compared with
            any of them.
        unrelated: Positions of candidates that nothing in the query speaks for. They are shown only
            if the section fits whole.
        offers_all: All live items that pass the filter are among the candidates.
        has_no_match: A store was searched and found nothing for the query.
    """

    candidates: tuple[Candidate, ...]
    earlier: tuple[Candidate, ...] = ()
    taken: int = 0
    evicted: int = 0
    pool: CandidatePool | None = None
    is_all: bool = False
    signals: Callable[[int], Mapping[str, float]] = field(
        default=lambda _: {}, repr=False, compare=False
    )
    error: str = ""
    unanswered: str = ""
    unrelated: frozenset[int] = frozenset()
    offers_all: bool = False
    has_no_match: bool = False

    @classmethod
    def of(cls, ranked: Iterable[tuple[Item, float | None]]) -> Proposal:
        """Return a proposal of items that stand alone.

        Args:
            ranked: The items, best first, each with its score, None for one not ranked. If each
                item has a `timestamp`, the items are shown in the order of these times, oldest
                first; else they are shown best first.
        """
        listed = list(ranked)
        ordered = oldest_first([item for item, _ in listed])
        positions = {id(item): position for position, item in enumerate(ordered)}
        candidates = tuple(
            Candidate.alone(item, positions[id(item)], rank, score)
            for rank, (item, score) in enumerate(listed, 1)
        )
        return cls(candidates, is_all=all(score is None for _, score in listed))

    @property
    def units(self) -> tuple[Candidate, ...]:
        """Return all units, those of a history that may be recalled last."""
        return (*self.candidates, *self.earlier)

    def changed(self, change: Callable[[Iterable[Candidate]], Iterable[Candidate]]) -> Proposal:
        """Return the proposal with other units in the place of each of its two lists."""
        candidates = tuple(change(self.candidates))
        earlier = tuple(change(self.earlier))
        return replace(self, candidates=candidates, earlier=earlier)

    def filtered(self, keep: Callable[[Candidate], bool]) -> Proposal:
        """Return the proposal with the units alone that pass a test."""
        return self.changed(partial(filter, keep))

    def with_days(self, labels: LabelStyle) -> Proposal:
        """Return the proposal of a history whose units know where another day begins.

        A day begins with a message of a user, so that no reply is torn from its question.
        """
        units = [*self.candidates]
        before = ""
        for place in sorted(range(len(units)), key=lambda place: units[place].position):
            first = units[place].items[0]
            day = "" if first.role in _ROLES_OF_AGENTS else labels.day(first)
            if before and day and day != before:
                units[place] = units[place]._replace(days=(before, day))
            before = day or before
        return replace(self, candidates=tuple(units))


def oldest_first(items: Sequence[Item]) -> Sequence[Item]:
    """Return items in the order of their timestamps, as they are if one has none."""
    times = {id(item): aware(item.timestamp) for item in items if item.timestamp}
    if len(times) < len(items):
        return items
    return sorted(items, key=lambda item: times[id(item)])


def is_found(score: float | None, current: float | None) -> bool:
    """Return whether a question finds a replaced version clearly better than the current one."""
    return score is not None and score > _CLEARLY_BETTER * (current or 0.0)


@runtime_checkable
class Source(Protocol):
    """Offers candidates for a window."""

    @property
    def spec(self) -> SectionSpec:
        """Return the spec: how the source is budgeted and shown."""
        ...

    async def propose(
        self,
        query: Query,
        *,
        cap: int,
        wanted: MetadataFilter | None = None,
    ) -> Proposal:
        """Return units worth about twice `cap` tokens, the most wanted first.

        Args:
            wanted: Propose only items that pass this filter. The session leaves out all others.
        """
        ...

    async def get(self, item_id: str) -> Item | None:
        """Return an item in full, or None."""
        ...


@runtime_checkable
class ForgettingSource(Source, Protocol):
    """A source that can forget."""

    async def forget(self, item_ids: Collection[str]) -> None:
        """Erase items, by the ids that `get` knows, and everything that is derived from them."""
        ...


@runtime_checkable
class NamedSource(Source, Protocol):
    """A source whose ids begin with its name and a slash. Ids of two sources never collide."""

    def named(self, name: str) -> Source:
        """Return the source under another name. Both share the same items."""
        ...
