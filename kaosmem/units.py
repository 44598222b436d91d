"""What belongs together in a history: a call and its results, a parallel batch, a signed reasoning loop."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import count, pairwise

from kaosmem.errors import InvalidArgumentError
from kaosmem.memos import register_memo
from kaosmem.types import ChatMessage, ContentBlock, Item, ThinkingBlock, ToolResultBlock, ToolUseBlock, UnreadItem

NO_RESULT = "no result was recorded for this call"


@dataclass(frozen=True, slots=True)
class Link:
    """What ties one entry of a history to others.

    calls, answers: ids of the tool calls that the entry makes, and of those whose results it holds.
    batch: entries with the same one stay together.
    loop: the entry carries reasoning that the provider signs.
    mixed: the entry holds something beside its results, which must not be lost with them.
    """

    calls: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    batch: str | None = None
    loop: bool = False
    role: str = ""
    mixed: bool = False

    @classmethod
    def of(cls, message: ChatMessage | Item) -> Link:
        """Return the link that a message's content blocks make."""
        if isinstance(message, UnreadItem) or isinstance(message.content, str):
            return _plain_link(message.role)
        blocks = message.content
        answers = tuple(block.tool_use_id for block in blocks if isinstance(block, ToolResultBlock))
        return cls(
            calls=tuple(block.id for block in blocks if isinstance(block, ToolUseBlock)),
            answers=answers,
            loop=any(isinstance(block, ThinkingBlock) and block.is_sealed for block in blocks),
            role=message.role,
            mixed=0 < len(answers) < len(blocks),
        )

    @property
    def is_plain(self) -> bool:
        """Return whether nothing in the entry itself ties it to another."""
        return not self.calls and not self.answers and self.batch is None

    @property
    def is_results(self) -> bool:
        """Return whether the entry holds tool results and nothing else."""
        return bool(self.answers) and not self.calls and not self.mixed


@lru_cache(maxsize=128)
def _plain_link(role: str) -> Link:
    return Link(role=role)


register_memo(_plain_link.cache_clear)


class _Unit:
    """Entries that stay together. What `Units._match` reckons from `links` is kept beside them."""

    __slots__ = ("batches", "first", "last", "links", "orphans", "unanswered", "unmatched")

    def __init__(self, ordinal: int, link: Link) -> None:
        self.links = {ordinal: link}
        self.first = self.last = ordinal
        self.unanswered = 0  # calls without a result
        self.unmatched = 0  # results without a call
        self.orphans: set[int] = set()
        self.batches = {link.batch} - {None}


class Units:
    """Entries of a growing history, named by ascending ordinals, grouped into what stays together.

    An entry's place is decided once, when it comes, and entries that share a unit never part: taking some out
    only opens calls or orphans results among those that stay. Plain entries that stand alone are not stored.

    A result joins the latest unanswered call with its id. An assistant entry that calls under signed reasoning
    begins a loop; assistant and tool entries join it until somebody else speaks.
    """

    def __init__(self) -> None:
        self._units: dict[int, _Unit] = {}
        self._waiting: dict[str, list[int]] = {}  # call id -> ordinals of its unanswered calls, ascending
        self._batches: dict[str | None, _Unit] = {}
        self._loop: _Unit | None = None

    @classmethod
    def restore(cls, entries: Iterable[tuple[int, Link, int]], *, loop: int | None) -> Units:
        """Return units as they were, deciding nothing again.

        entries: ordinal, link and the first ordinal of its unit, ascending. loop: first ordinal of the open loop.
        """
        entries = list(entries)
        leaders = {first for ordinal, _, first in entries if first != ordinal} | {loop}
        units = cls()
        for ordinal, link, first in entries:
            unit = units._units.get(first)
            if unit is not None:
                unit.links[ordinal] = link
                units._units[ordinal] = unit
            elif not link.is_plain or ordinal in leaders:
                units._units[ordinal] = _Unit(ordinal, link)
        for unit in dict.fromkeys(units._units.values()):
            units._match(unit)
        units._loop = None if loop is None else units._units[loop]
        return units

    def several(self) -> list[int]:
        """Return the first ordinals of the units of several entries."""
        return list({unit.first: None for unit in self._units.values() if len(unit.links) > 1})

    @property
    def loop(self) -> int | None:
        """Return the first ordinal of the loop that the next entry may join."""
        return None if self._loop is None else self._loop.first

    def joins(self, ordinal: int, link: Link) -> set[int]:
        """Return the first ordinals of the units that an entry, new or given another link, would join."""
        return {unit.first for unit in self._joined(ordinal, link)}

    def add(self, ordinal: int, link: Link) -> set[int]:
        """Place the next entry, its ordinal above all others; return the first ordinals of the units that it joined."""
        if self._loop is None and link.is_plain:
            return set()
        joined = self._joined(ordinal, link)
        firsts = {unit.first for unit in joined}
        answered: dict[str, int] = {}
        if joined or not link.is_plain:
            unit = self._merged([*joined, _Unit(ordinal, link)])
            self._units[ordinal] = unit
            if link.batch is not None:
                self._batches[link.batch] = unit
            answered = _answer(self._waiting, ordinal, link)
            unit.unanswered += len(set(link.calls)) - len(answered)
            unit.unmatched += len(set(link.answers)) - len(answered)
            if link.is_results and not answered:
                unit.orphans.add(ordinal)
            if len(joined) > 1 and unit.unmatched:  # results of the one may meet calls of the other
                self._match(unit)
            if link.loop and link.calls and link.role == "assistant":
                self._loop = unit
        if link.role not in ("assistant", "tool", "system") and not answered and not link.is_results:
            self._loop = None
        return firsts

    def replace(self, ordinal: int, link: Link) -> None:
        """Give an entry another link: it keeps its companions, and may gain some."""
        unit = self._units.get(ordinal)
        joined = self._joined(ordinal, link)
        if unit is None:
            if link.is_plain and not joined:
                return
            unit = _Unit(ordinal, link)
        elif unit.links[ordinal] == link:
            return
        else:
            self._stop_waiting(ordinal, unit.links[ordinal])
            unit.links[ordinal] = link
        unit = self._merged(list(dict.fromkeys([*joined, unit])))
        self._units[ordinal] = unit
        self._match(unit)

    def remove(self, ordinals: Iterable[int]) -> None:
        """Take entries out; those that shared a unit with them stay together."""
        touched: dict[_Unit, None] = {}
        for ordinal in ordinals:
            unit = self._units.pop(ordinal, None)
            if unit is not None:
                self._stop_waiting(ordinal, unit.links.pop(ordinal))
                touched[unit] = None
        for unit in touched:
            self._match(unit)

    def ties(self, ordinal: int) -> bool:
        """Return whether something ties an entry to others, there or not."""
        return ordinal in self._units

    def members(self, ordinal: int) -> tuple[int, ...]:
        """Return the ordinals of an entry's unit, ascending."""
        unit = self._units.get(ordinal)
        return (ordinal,) if unit is None else tuple(sorted(unit.links))

    def first(self, ordinal: int) -> int:
        """Return the first ordinal of an entry's unit."""
        unit = self._units.get(ordinal)
        return ordinal if unit is None else unit.first

    def last(self, ordinal: int) -> int:
        """Return the last ordinal of an entry's unit."""
        unit = self._units.get(ordinal)
        return ordinal if unit is None else unit.last

    def firsts(self, ordinals: Iterable[int]) -> list[int]:
        """Return the first ordinal of the unit of each entry."""
        units = self._units
        return [units[ordinal].first if ordinal in units else ordinal for ordinal in ordinals]

    def lasts(self, ordinals: Iterable[int]) -> list[int]:
        """Return the last ordinal of the unit of each entry."""
        units = self._units
        return [units[ordinal].last if ordinal in units else ordinal for ordinal in ordinals]

    def is_open(self, ordinal: int) -> bool:
        """Return whether an entry's unit has a call without a result."""
        unit = self._units.get(ordinal)
        return unit is not None and unit.unanswered > 0

    def is_orphan(self, ordinal: int) -> bool:
        """Return whether an entry's unit is nothing but results whose calls are missing or already answered."""
        unit = self._units.get(ordinal)
        return unit is not None and len(unit.orphans) == len(unit.links)

    def _joined(self, ordinal: int, link: Link) -> list[_Unit]:
        joined: dict[_Unit, None] = {}
        present = self._units.get(ordinal)
        if present is not None and present.links[ordinal] == link:
            return []
        for call in link.answers:
            waiting = self._waiting.get(call, ())
            earlier = bisect_left(waiting, ordinal)
            if earlier and call not in link.calls:  # an entry may answer its own call
                joined[self._units[waiting[earlier - 1]]] = None
        if link.batch in self._batches:
            joined[self._batches[link.batch]] = None
        loop = self._loop
        is_orphan = link.is_results and not joined  # stays out, so that it can be left out alone
        if loop is not None and ordinal > loop.last and link.role in ("assistant", "tool") and not is_orphan:
            joined[loop] = None
        return list(joined)

    def _merged(self, units: list[_Unit]) -> _Unit:
        """Return the largest of the units, the others poured into it: each entry moves log n times at most."""
        kept = max(units, key=lambda unit: len(unit.links))
        for unit in units:
            if unit is not kept:
                kept.links |= unit.links
                kept.first, kept.last = min(kept.first, unit.first), max(kept.last, unit.last)
                kept.unanswered += unit.unanswered
                kept.unmatched += unit.unmatched
                kept.orphans |= unit.orphans
                kept.batches |= unit.batches
                self._units |= dict.fromkeys(unit.links, kept)
                self._batches |= dict.fromkeys(unit.batches, kept)
                if unit is self._loop:
                    self._loop = kept
        return kept

    def _match(self, unit: _Unit) -> None:
        """Reckon a unit anew from its links: calls and results are matched among themselves, as in `repair`."""
        for batch in unit.batches:
            self._batches.pop(batch, None)
        for ordinal, link in unit.links.items():
            self._stop_waiting(ordinal, link)
        waiting: dict[str, list[int]] = {}
        unit.orphans.clear()
        unit.unmatched = 0
        for ordinal, link in sorted(unit.links.items()):
            answered = _answer(waiting, ordinal, link)
            unit.unmatched += len(set(link.answers)) - len(answered)
            if link.is_results and not answered:
                unit.orphans.add(ordinal)
        for call, ordinals in waiting.items():
            for ordinal in ordinals:
                insort(self._waiting.setdefault(call, []), ordinal)
        unit.unanswered = sum(map(len, waiting.values()))
        unit.batches = {link.batch for link in unit.links.values()} - {None}
        self._batches |= dict.fromkeys(unit.batches, unit)
        if unit.links:
            unit.first, unit.last = min(unit.links), max(unit.links)
        elif unit is self._loop:
            self._loop = None

    def _stop_waiting(self, ordinal: int, link: Link) -> None:
        for call in link.calls:
            waiting = self._waiting.get(call, [])
            place = bisect_left(waiting, ordinal)
            if waiting[place : place + 1] == [ordinal]:
                del waiting[place]
                if not waiting:
                    del self._waiting[call]


def _answer(waiting: dict[str, list[int]], ordinal: int, link: Link) -> dict[str, int]:
    """Enter an entry's calls into `waiting`, take out those that it answers and return where they were made."""
    for call in dict.fromkeys(link.calls):
        waiting.setdefault(call, []).append(ordinal)
    answered = {}
    for call in dict.fromkeys(link.answers):
        if call in waiting:
            answered[call] = waiting[call].pop()
            if not waiting[call]:
                del waiting[call]
    return answered


def cut_points(links: Sequence[Link]) -> list[int]:
    """Return where a history may be cut: the positions, 0 to n, with no unit on both sides."""
    units = Units()
    for position, link in enumerate(links):
        units.add(position, link)
    cuts = []
    reach = -1
    for position in range(len(links)):
        if reach < position:
            cuts.append(position)
        reach = max(reach, units.last(position))
    return [*cuts, len(links)]


def next_cut(cuts: Sequence[int], position: int) -> int:
    """Return the first of the cut points, ascending, from `position` on. Raises InvalidArgumentError past the last."""
    place = bisect_left(cuts, position)
    if place == len(cuts):
        raise InvalidArgumentError(f"no cut from {position} on: the last is {cuts[-1]}; cut there, or before it")
    return cuts[place]


def roundest_first(positions: Sequence[int]) -> list[int]:
    """Return the ranks of ascending positions where a history may be cut, those first that stay the roundest for long.

    A position is as round as the number that can be halved most often from it back to, and without, the one before. Of
    those in a range that moves on the roundest is the same for many moves, whoever looks and however much came before.
    """
    rounds = [
        (one ^ other).bit_length() for one, other in pairwise([*(each - 1 for each in positions[:1]), *positions])
    ]
    return sorted(range(len(positions)), key=lambda rank: (-rounds[rank], rank))


def repair(messages: Iterable[ChatMessage]) -> list[ChatMessage]:
    """Return messages in which each call is directly followed by its one result, in the order of the calls.

    A late result moves up to its call, a repeated or orphaned one is left out, a missing one is stated as an
    error. Each result becomes a `tool` message of its own; what else its message held stays in place. Where a message
    repeats an id, its later calls get ids of their own, and the one result is the first call's.
    """
    distinct = list(map(_with_distinct_calls, messages))
    links = list(map(Link.of, distinct))
    waiting: dict[str, list[int]] = {}
    results: dict[tuple[int, str], ChatMessage] = {}
    for position, link in enumerate(links):
        for call, caller in _answer(waiting, position, link).items():
            results[caller, call] = _result_message(distinct[position], call)
    repaired = []
    for position, (message, link) in enumerate(zip(distinct, links, strict=True)):
        if not link.answers:
            repaired.append(message)
        elif not link.is_results:
            repaired.append(replace(message, content=_without_results(message)))
        for call in link.calls:
            missing = ToolResultBlock(call, NO_RESULT, is_error=True)
            repaired.append(results.get((position, call)) or ChatMessage("tool", (missing,)))
    return repaired


def _result_message(message: ChatMessage, call: str) -> ChatMessage:
    """Return a call's result as a message of its own: the same message where it is nothing else."""
    for block in message.blocks:
        if isinstance(block, ToolResultBlock) and block.tool_use_id == call:
            alone = replace(message, role="tool", content=(block,))
            return message if message == alone else alone
    raise KeyError(call)


def _with_distinct_calls(message: ChatMessage) -> ChatMessage:
    """Return a message whose calls have ids of their own: the same message where they do."""
    calls = [block.id for block in message.blocks if isinstance(block, ToolUseBlock)]
    if len(set(calls)) == len(calls):
        return message
    taken = set(calls)
    seen: set[str] = set()
    blocks: list[ContentBlock] = []
    for block in message.blocks:
        if isinstance(block, ToolUseBlock) and block.id in seen:
            new = next(name for number in count(2) if (name := f"{block.id}-{number}") not in taken)
            taken.add(new)
            block = replace(block, id=new)
        elif isinstance(block, ToolUseBlock):
            seen.add(block.id)
        blocks.append(block)
    return replace(message, content=tuple(blocks))


def _without_results(message: ChatMessage) -> tuple[ContentBlock, ...]:
    return tuple(block for block in message.blocks if not isinstance(block, ToolResultBlock))
