"""Units of a history: entries that stay together, and its repair."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, count
from typing import NamedTuple

from kaosmem.arguments import STRICT_JSON
from kaosmem.memos import register_memo
from kaosmem.types import ContentBlock, OpaqueBlock
from kaosmem.types.content import TextBlock, ToolResultBlock, ToolUseBlock
from kaosmem.types.items import ChatMessage, Item, StoredItem


@dataclass(frozen=True, slots=True)
class Link:
    """The ties of one entry of a history to others.

    Attributes:
        calls: Ids of the tool calls that the entry makes.
        answers: Ids of the tool calls whose results the entry holds.
        batch: Entries with the same batch stay together.
        mixed: The entry holds words beside its results. They must not be lost with the results.
        served: Ids of the provider's own tool calls of which the entry has the call or the result
            alone. Entries that share an id stay together, as the provider refuses a result without
            its call.
    """

    calls: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    batch: str | None = None
    role: str = ""
    mixed: bool = False
    served: tuple[str, ...] = ()

    @classmethod
    def of(cls, message: ChatMessage | Item | StoredItem) -> Link:
        """Return the ties that the content blocks of a message make."""
        if isinstance(message, StoredItem) or isinstance(message.content, str):
            return _plain_link(message.role)
        blocks = message.content
        answers = tuple(block.tool_use_id for block in blocks if isinstance(block, ToolResultBlock))
        return cls(
            calls=tuple(block.id for block in blocks if isinstance(block, ToolUseBlock)),
            answers=answers,
            role=message.role,
            mixed=0 < len(answers) < len(blocks),
            served=_served(blocks),
        )

    @property
    def is_plain(self) -> bool:
        """Return whether nothing in the entry itself ties it to another."""
        return not self.calls and not self.answers and not self.ties

    @property
    def ties(self) -> tuple[str, ...]:
        """Return the names under which the entry stays together with others."""
        return self.served if self.batch is None else (*self.served, self.batch)

    @property
    def is_results(self) -> bool:
        """Return whether the entry holds tool results only."""
        return bool(self.answers) and not self.calls and not self.mixed

    @property
    def speaks(self) -> bool:
        """Return whether the entry is more than a tool's result, a summary or a system message.

        Calls that are still open are abandoned once another entry speaks.
        """
        return bool(self.calls) or (
            self.role not in ("tool", "system", "summary") and not self.is_results
        )


@lru_cache(maxsize=128)
def _plain_link(role: str) -> Link:
    return Link(role=role)


register_memo(_plain_link.cache_clear)


def _served(blocks: Iterable[ContentBlock]) -> tuple[str, ...]:
    """Return the ids of a provider's own tool calls of which blocks hold one part alone.

    The parts are the call and its result.
    """
    alone: dict[str, None] = {}
    for block in blocks:
        if isinstance(block, OpaqueBlock):
            call = _served_call(block.kind, block.data).id
            if call in alone:
                del alone[call]
            elif call:
                alone[call] = None
    return tuple(alone)


class _ServedCall(NamedTuple):
    """The call that a part of a provider's own tool makes or answers.

    Attributes:
        id: The id of the call, "" if the part has none.
        is_result: The part answers the call.
        is_answered: The provider refuses the call without its result.
    """

    id: str
    is_result: bool
    is_answered: bool = False


_NO_CALL = _ServedCall("", False)
_KINDS_OF_CALLS = (
    ("mcp_approval_response", ("approval_request_id",), True),
    ("mcp_approval_request", ("id",), False),
    ("tool_use", ("id",), False),
    ("tool_result", ("tool_use_id",), True),
    ("_call_output", ("call_id", "id"), True),
    ("tool_search_output", ("call_id",), True),
    ("program", ("call_id",), False),
    ("program_output", ("call_id",), True),
    ("_call", ("call_id",), False),
    ("toolUse", ("toolUseId",), False),
    ("toolResult", ("toolUseId",), True),
    ("toolCall", ("id",), False),
    ("toolResponse", ("id",), True),
)
"""By the end of a part's kind, the fields with the id of the call, and whether it is a result."""
_ANSWERED = ("_call", "mcp_approval_request")


@lru_cache(maxsize=128)
def _served_call(kind: str, data: str) -> _ServedCall:
    """Return the call that a part of a provider's own tool is, or answers."""
    for end, names, is_result in _KINDS_OF_CALLS:
        if kind.endswith(end):
            part = STRICT_JSON.decode(data)
            fields = part[kind] if isinstance(part.get(kind), dict) else part
            for name in names:
                if isinstance(fields.get(name), str):
                    return _ServedCall(fields[name], is_result, kind.endswith(_ANSWERED))
            return _NO_CALL
    return _NO_CALL


register_memo(_served_call.cache_clear)


class WaitingCalls:
    """The calls without a result. Each id has the ascending ordinals of the entries that make it."""

    def __init__(self) -> None:
        self._ordinals: dict[str, list[int]] = {}

    def __len__(self) -> int:
        """Return how many calls wait."""
        return sum(map(len, self._ordinals.values()))

    def before(self, call: str, ordinal: int) -> int | None:
        """Return the latest entry before an ordinal whose call of this id waits, None without one."""
        waiting = self._ordinals.get(call, ())
        earlier = bisect_left(waiting, ordinal)
        return waiting[earlier - 1] if earlier else None

    def enter(self, ordinal: int, link: Link) -> dict[str, int]:
        """Enter the newest entry's calls, and take out the calls that it answers.

        Returns:
            The ordinals of the entries whose calls it answers, by id.
        """
        for call in dict.fromkeys(link.calls):
            self._ordinals.setdefault(call, []).append(ordinal)
        answered = {}
        for call in dict.fromkeys(link.answers):
            if call in self._ordinals:
                answered[call] = self._ordinals[call].pop()
                if not self._ordinals[call]:
                    del self._ordinals[call]
        return answered

    def add(self, other: WaitingCalls) -> None:
        """Enter calls of other entries."""
        for call, ordinals in other._ordinals.items():
            for ordinal in ordinals:
                insort(self._ordinals.setdefault(call, []), ordinal)

    def remove(self, ordinal: int, link: Link) -> None:
        """Take out those of an entry's calls that wait."""
        for call in link.calls:
            waiting = self._ordinals.get(call, [])
            place = bisect_left(waiting, ordinal)
            if waiting[place : place + 1] == [ordinal]:
                del waiting[place]
                if not waiting:
                    del self._ordinals[call]


class _Unit:
    """Entries that stay together, with sums that `Units._match` computes from their links."""

    __slots__ = ("batches", "first", "last", "links", "orphans", "unanswered", "unmatched")

    def __init__(self, ordinal: int, link: Link) -> None:
        self.links = {ordinal: link}
        self.first = ordinal
        self.last = ordinal
        self.unanswered = 0  # calls without a result
        self.unmatched = 0  # results without a call
        self.orphans: set[int] = set()
        self.batches = set(link.ties)


class Units:
    """Entries of a growing history, named by ascending ordinals, grouped into units.

    A unit is an assistant's answer with its thinking, its calls and their results. Its entries
    never part: the place of an entry is decided when it comes, and removals only open calls or
    orphan results among the rest. A result joins the latest unanswered call with its id. Plain
    entries that stand alone are not stored.

    Attributes:
        asking: The entry whose calls wait for results. It is None once another entry speaks: a call
            that is still open then is abandoned, although a late result still joins it.

    >>> units = Units()
    >>> for ordinal, link in enumerate([Link(role="user"), Link(("c1",), role="assistant")]):
    ...     _ = units.add(ordinal, link)
    >>> units.is_waiting(1)
    True
    >>> units.add(2, Link(answers=("c1",), role="tool"))
    {1}
    >>> units.members(2)
    (1, 2)
    """

    def __init__(self) -> None:
        self._units: dict[int, _Unit] = {}
        self._waiting = WaitingCalls()
        self._batches: dict[str, _Unit] = {}
        # By ordinal, the members of a detached unit of several: one tuple for all, no object.
        self._detached: dict[int, tuple[int, ...]] = {}
        self._detached_results: set[int] = set()
        self.asking: int | None = None

    @contextmanager
    def abandoned(self) -> Iterator[None]:
        """Let no entry wait for results inside the block."""
        asking = self.asking
        self.asking = None
        try:
            yield
        finally:
            self.asking = asking

    @classmethod
    def restore(cls, entries: Iterable[tuple[int, Link, int]], *, asking: int | None) -> Units:
        """Return units as they were, without deciding anything again.

        Args:
            entries: Ordinal, link and the first ordinal of the unit, ascending.
        """
        entries = list(entries)
        leaders = {first for ordinal, _, first in entries if first != ordinal}
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
        units.asking = asking
        return units

    @property
    def are_tied(self) -> bool:
        """Return whether something ties any entry to others."""
        return bool(self._units or self._detached)

    def joins(self, ordinal: int, link: Link) -> set[int]:
        """Return the first ordinals of the units that an entry would join.

        The entry is new, or gets another link.
        """
        return {unit.first for unit in self._joined(ordinal, link)}

    def add(self, ordinal: int, link: Link) -> set[int]:
        """Place the next entry. Its ordinal is above all others.

        Returns:
            The first ordinals of the units that it joined.
        """
        if link.speaks:
            self.asking = ordinal if link.calls else None
        if link.is_plain:
            return set()
        joined = self._joined(ordinal, link)
        firsts = {unit.first for unit in joined}
        unit = self._merged([*joined, _Unit(ordinal, link)])
        self._units[ordinal] = unit
        self._batches |= dict.fromkeys(link.ties, unit)
        answered = self._waiting.enter(ordinal, link)
        unit.unanswered += len(set(link.calls)) - len(answered)
        unit.unmatched += len(set(link.answers)) - len(answered)
        if link.is_results and not answered:
            unit.orphans.add(ordinal)
        if len(joined) > 1 and unit.unmatched:  # results of the one may meet calls of the other
            self._match(unit)
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
            self._waiting.remove(ordinal, unit.links[ordinal])
            unit.links[ordinal] = link
        unit = self._merged(list(dict.fromkeys([*joined, unit])))
        self._units[ordinal] = unit
        self._match(unit)

    def remove(self, ordinals: Iterable[int]) -> list[int]:
        """Take entries out, and return the first ordinals of the rests of their units."""
        touched: dict[_Unit, None] = {}
        for ordinal in ordinals:
            unit = self._units.pop(ordinal, None)
            if ordinal == self.asking:
                self.asking = None
            if unit is None:
                self._remove_detached(ordinal)
            else:
                self._waiting.remove(ordinal, unit.links.pop(ordinal))
                touched[unit] = None
        for unit in touched:
            self._match(unit)
        return [unit.first for unit in touched if unit.links]

    def detach(self, ordinals: Iterable[int]) -> None:
        """Let the entries of whole units keep their places, but let no later entry join them."""
        for ordinal in ordinals:
            if ordinal == self.asking:
                self.asking = None
            unit = self._units.get(ordinal)
            if unit is None:
                continue
            self._leave(unit)
            for member, link in unit.links.items():
                del self._units[member]
                if link.is_results:
                    self._detached_results.add(member)
            self.add_detached(sorted(unit.links))

    def add_detached(self, members: Iterable[int], results: Iterable[int] = ()) -> None:
        """Add a unit that no later entry joins.

        Args:
            members: The ordinals of its entries, ascending.
            results: The ordinals of entries that hold tool results only, of this unit or others.
        """
        unit = tuple(members)
        if len(unit) > 1:
            self._detached |= dict.fromkeys(unit, unit)
        self._detached_results.update(results)

    def _remove_detached(self, ordinal: int) -> None:
        self._detached_results.discard(ordinal)
        rest = tuple(at for at in self._detached.pop(ordinal, ()) if at != ordinal)
        for member in rest:
            if len(rest) > 1:
                self._detached[member] = rest
            else:
                del self._detached[member]

    def ties(self, ordinal: int) -> bool:
        """Return whether something ties an entry to others, there or not."""
        return ordinal in self._units or ordinal in self._detached

    def members(self, ordinal: int) -> tuple[int, ...]:
        """Return the ordinals of an entry's unit, ascending."""
        unit = self._units.get(ordinal)
        if unit is not None:
            return tuple(sorted(unit.links))
        return self._detached.get(ordinal) or (ordinal,)

    def first(self, ordinal: int) -> int:
        """Return the first ordinal of an entry's unit."""
        unit = self._units.get(ordinal)
        if unit is not None:
            return unit.first
        return self._detached[ordinal][0] if ordinal in self._detached else ordinal

    def last(self, ordinal: int) -> int:
        """Return the last ordinal of an entry's unit."""
        unit = self._units.get(ordinal)
        if unit is not None:
            return unit.last
        return self._detached[ordinal][-1] if ordinal in self._detached else ordinal

    def firsts(self, ordinals: Iterable[int]) -> list[int]:
        """Return the first ordinal of the unit of each entry."""
        if not self.are_tied:
            return list(ordinals)
        return [self.first(ordinal) for ordinal in ordinals]

    def is_open(self, ordinal: int) -> bool:
        """Return whether an entry's unit has a call without a result."""
        unit = self._units.get(ordinal)
        return unit is not None and unit.unanswered > 0

    def is_waiting(self, ordinal: int) -> bool:
        """Return whether an entry's unit has an open call, and no other entry has spoken since."""
        return self.is_open(ordinal) and self.asking in self._units[ordinal].links

    def is_orphan(self, ordinal: int) -> bool:
        """Return whether all entries of a unit are results without a call.

        Their calls are missing, or have another result.
        """
        unit = self._units.get(ordinal)
        if unit is not None:
            return len(unit.orphans) == len(unit.links)
        results = self._detached_results
        return bool(results) and results.issuperset(self.members(ordinal))

    def _joined(self, ordinal: int, link: Link) -> list[_Unit]:
        joined: dict[_Unit, None] = {}
        present = self._units.get(ordinal)
        if present is not None and present.links[ordinal] == link:
            return []
        for call in link.answers:
            caller = self._waiting.before(call, ordinal)
            if caller is not None and call not in link.calls:  # an entry may answer its own call
                joined[self._units[caller]] = None
        for tie in link.ties:
            if tie in self._batches:
                joined[self._batches[tie]] = None
        return list(joined)

    def _merged(self, units: list[_Unit]) -> _Unit:
        """Return the largest of the units, with the entries of the others.

        So each entry moves log n times at most.
        """
        kept = max(units, key=lambda unit: len(unit.links))
        for unit in units:
            if unit is not kept:
                kept.links |= unit.links
                kept.first = min(kept.first, unit.first)
                kept.last = max(kept.last, unit.last)
                kept.unanswered += unit.unanswered
                kept.unmatched += unit.unmatched
                kept.orphans |= unit.orphans
                kept.batches |= unit.batches
                self._units |= dict.fromkeys(unit.links, kept)
                self._batches |= dict.fromkeys(unit.batches, kept)
        return kept

    def _match(self, unit: _Unit) -> None:
        """Compute a unit's sums anew from its links.

        Its calls and results are matched among themselves, as in `repair`.
        """
        self._leave(unit)
        waiting = WaitingCalls()
        unit.orphans.clear()
        unit.unmatched = 0
        for ordinal, link in sorted(unit.links.items()):
            answered = waiting.enter(ordinal, link)
            unit.unmatched += len(set(link.answers)) - len(answered)
            if link.is_results and not answered:
                unit.orphans.add(ordinal)
        unit.unanswered = len(waiting)
        unit.batches = set(chain.from_iterable(link.ties for link in unit.links.values()))
        if unit.links:
            unit.first = min(unit.links)
            unit.last = max(unit.links)
        self._waiting.add(waiting)
        self._batches |= dict.fromkeys(unit.batches, unit)

    def _leave(self, unit: _Unit) -> None:
        """Let no later entry join a unit, until it is matched anew."""
        for batch in unit.batches:
            self._batches.pop(batch, None)
        for ordinal, link in unit.links.items():
            self._waiting.remove(ordinal, link)


NO_RESULT = "no result was recorded for this call"


def repair(messages: Iterable[ChatMessage]) -> list[ChatMessage]:
    """Return messages in which each call is directly followed by its one result.

    Results are in the order of the calls.

    A late result moves up to its call. A repeated result, or one without a call, is left out. A
    missing result is stated as an error. Each result becomes a `tool` message of its own; the rest
    of its message stays in place. If a message repeats the id of a call, its later calls get new
    ids, and the result belongs to the first. A note stands for the result of a provider's own tool
    whose call is missing, and for a call of such a tool that the provider refuses without its
    result.

    >>> from kaosmem.types.items import ChatMessage
    >>> from kaosmem.types.content import ToolUseBlock
    >>> call = ChatMessage("assistant", (ToolUseBlock("c1", "search"),))
    >>> [message.text for message in repair([call])]
    ['search({})', 'no result was recorded for this call']
    """
    return list(chain.from_iterable(repaired(messages)))


def repaired(messages: Iterable[ChatMessage]) -> list[list[ChatMessage]]:
    """Return, for each message, the messages that `repair` puts in its place."""
    distinct = _without_unmatched([_with_distinct_calls(each) for each in messages])
    links = list(map(Link.of, distinct))
    waiting = WaitingCalls()
    results: dict[tuple[int, str], ChatMessage] = {}
    for position, link in enumerate(links):
        for call, caller in waiting.enter(position, link).items():
            results[caller, call] = _result_message(distinct[position], call)
    parts = []
    for position, (message, link) in enumerate(zip(distinct, links, strict=True)):
        part = [] if link.is_results else [message]
        if link.answers and part:
            part = [replace(message, content=_without_results(message))]
        for call in link.calls:
            missing = ToolResultBlock(call, NO_RESULT, is_error=True)
            part.append(results.get((position, call)) or ChatMessage("tool", (missing,)))
        parts.append(part)
    return parts


def _result_message(message: ChatMessage, call: str) -> ChatMessage:
    """Return a call's result as a message of its own.

    Return the same message if it holds only that result.
    """
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
            names = (f"{block.id}-{number}" for number in count(2))
            new = next(name for name in names if name not in taken)
            taken.add(new)
            block = replace(block, id=new)
        elif isinstance(block, ToolUseBlock):
            seen.add(block.id)
        blocks.append(block)
    return replace(message, content=tuple(blocks))


def _without_unmatched(messages: list[ChatMessage]) -> list[ChatMessage]:
    """Put a note in the place of each part of a provider's own tool that lacks its other part.

    This holds for a result without its call, and for a call that the provider refuses without its
    result.
    """
    parts: list[OpaqueBlock] = []
    for message in messages:
        parts += [block for block in message.blocks if isinstance(block, OpaqueBlock)]
    if not parts:
        return messages
    called: set[str] = set()
    unmatched: set[int] = set()
    waiting: dict[str, int] = {}
    for place, part in enumerate(parts):
        call = _served_call(part.kind, part.data)
        if call.is_result:
            waiting.pop(call.id, None)
            if call.id not in called:
                unmatched.add(place)
        elif call.id:
            called.add(call.id)
            if call.is_answered:
                waiting[call.id] = place
    unmatched.update(waiting.values())
    if not unmatched:
        return messages
    places = count()
    return [_with_notes(message, unmatched, places) for message in messages]


def _with_notes(message: ChatMessage, unmatched: set[int], places: Iterator[int]) -> ChatMessage:
    blocks: list[ContentBlock] = []
    for block in message.blocks:
        if isinstance(block, OpaqueBlock) and next(places) in unmatched:
            is_result = _served_call(block.kind, block.data).is_result
            missing = "call" if is_result else "result"
            blocks.append(TextBlock(f"[{block.kind}, whose {missing} is missing]"))
        else:
            blocks.append(block)
    if tuple(blocks) == message.blocks:
        return message
    return replace(message, content=tuple(blocks))


def _without_results(message: ChatMessage) -> tuple[ContentBlock, ...]:
    return tuple(block for block in message.blocks if not isinstance(block, ToolResultBlock))
