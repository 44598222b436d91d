"""Units of a history: entries that stay together, and its repair."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, count
from typing import NamedTuple, TypeAlias

from kaosmem.arguments import STRICT_JSON
from kaosmem.memos import memoized
from kaosmem.types import ContentBlock, OpaqueBlock
from kaosmem.types.content import TextBlock, ToolResultBlock, ToolUseBlock
from kaosmem.types.items import ChatMessage, Item, StoredItem

_Waiting: TypeAlias = dict[str, list[int]]
"""By the id of a call, the ordinals of the entries whose call of it has no result, ascending."""


class Link(NamedTuple):
    """The ties of one entry of a history to others.

    Attributes:
        calls: Ids of the tool calls that the entry makes.
        answers: Ids of the tool calls whose results the entry holds.
        mixed: The entry holds words beside its results. They must not be lost with the results.
        served: Ids of the provider's own tool calls of which the entry has the call or the result
            alone. Entries that share an id stay together, as the provider refuses a result without
            its call.
    """

    calls: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
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
        return not (self.calls or self.answers or self.served)

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


@memoized(128)
def _plain_link(role: str) -> Link:
    return Link(role=role)


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


@memoized(128)
def _served_call(kind: str, data: str) -> _ServedCall:
    """Return the call that a part of a provider's own tool is, or answers."""
    for end, names, is_result in _KINDS_OF_CALLS:
        if kind.endswith(end):
            part = STRICT_JSON.decode(data)
            if isinstance(part.get(kind), dict):
                fields = part[kind]
            else:
                fields = part
            for name in names:
                if isinstance(fields.get(name), str):
                    return _ServedCall(fields[name], is_result, kind.endswith(_ANSWERED))
            return _NO_CALL
    return _NO_CALL


def _answered(
    ordinal: int,
    link: Link,
    waiting: _Waiting,
) -> dict[str, int]:
    """Match each result of an entry with the latest call of its id that has no result yet.

    An entry may answer its own call.

    Args:
        waiting: The calls of the entry come to it, and those that it answers leave it.

    Returns:
        By the ids of the calls that it answers, the ordinals of the entries that made them.
    """
    for call in dict.fromkeys(link.calls):
        waiting.setdefault(call, []).append(ordinal)
    answered = {}
    for call in dict.fromkeys(link.answers):
        callers = waiting.get(call)
        if callers:
            answered[call] = callers.pop()
            if not callers:
                del waiting[call]
    return answered


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
    ...     units.add(ordinal, link)
    >>> units.is_waiting(1)
    True
    >>> units.add(2, Link(answers=("c1",), role="tool"))
    >>> units.members(2)
    (1, 2)
    """

    def __init__(self) -> None:
        # The ascending ordinals of each unit, one list for all its entries.
        self._members: dict[int, list[int]] = {}
        # Of the entries that later ones may join.
        self._links: dict[int, Link] = {}
        self._waiting: _Waiting = {}  # as of `_answered`
        self._tied: dict[str, int] = {}
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
        links = {}
        members: dict[int, list[int]] = {}
        for ordinal, link, first in entries:
            links[ordinal] = link
            members.setdefault(first, []).append(ordinal)
        units = cls()
        for unit in members.values():
            if len(unit) > 1 or not links[unit[0]].is_plain:
                units._members |= dict.fromkeys(unit, unit)
                units._links |= {ordinal: links[ordinal] for ordinal in unit}
                units._settle(unit)
        units.asking = asking
        return units

    @property
    def are_tied(self) -> bool:
        """Return whether something ties any entry to others."""
        return bool(self._members)

    def joins(self, ordinal: int, link: Link) -> set[int]:
        """Return the first ordinals of the units that an entry would join.

        The entry is new, or gets another link.
        """
        return {unit[0] for unit in self._joined(ordinal, link)}

    def add(self, ordinal: int, link: Link) -> None:
        """Place the next entry. Its ordinal is above all others.

        It takes time in proportion to the entry, unless it makes several units one.
        """
        if link.speaks:
            self.asking = ordinal if link.calls else None
        if link.is_plain:
            return
        joined = self._joined(ordinal, link)
        if len(joined) > 1:
            self._place(ordinal, link)
            return
        # Nothing changes among the entries before, so the matching of the unit goes on.
        unit = joined[0] if joined else []
        unit.append(ordinal)
        self._members[ordinal] = unit
        self._links[ordinal] = link
        self._tied |= dict.fromkeys(link.served, ordinal)
        _answered(ordinal, link, self._waiting)

    def replace(self, ordinal: int, link: Link) -> None:
        """Give an entry another link: it keeps its companions, and may gain some."""
        is_alone = ordinal not in self._members and link.is_plain
        if not is_alone and self._links.get(ordinal) != link:
            self._place(ordinal, link)

    def remove(self, ordinals: Iterable[int]) -> list[int]:
        """Take entries out, and return the first ordinals of the rests of their units."""
        touched: dict[int, list[int]] = {}
        for ordinal in ordinals:
            if ordinal == self.asking:
                self.asking = None
            self._leave(ordinal)
            unit = self._members.pop(ordinal, None)
            if unit is not None:
                touched[id(unit)] = unit
        for unit in touched.values():
            unit[:] = [member for member in unit if member in self._members]
            self._settle(unit)
        return [unit[0] for unit in touched.values() if unit]

    def detach(self, ordinals: Iterable[int]) -> None:
        """Let the entries of whole units keep their places, but let no later entry join them."""
        for ordinal in ordinals:
            if ordinal == self.asking:
                self.asking = None
            self._leave(ordinal)
            if len(self._members.get(ordinal, ())) == 1:
                del self._members[ordinal]

    def add_detached(self, members: Iterable[int]) -> None:
        """Add a unit of several entries that no later entry joins: their ordinals, ascending."""
        unit = list(members)
        self._members |= dict.fromkeys(unit, unit)

    def members(self, ordinal: int) -> tuple[int, ...]:
        """Return the ordinals of an entry's unit, ascending."""
        unit = self._members.get(ordinal)
        if unit is None:
            return (ordinal,)
        return tuple(unit)

    def is_alone(self, ordinal: int) -> bool:
        """Return whether nothing ties an entry to others."""
        return len(self._members.get(ordinal, ())) < 2

    def of(self, ordinals: Iterable[int]) -> Iterator[tuple[int, ...]]:
        """Return the ordinals of the units of some entries, each unit once."""
        return map(self.members, dict.fromkeys(self.firsts(ordinals)))

    def first(self, ordinal: int) -> int:
        """Return the first ordinal of an entry's unit."""
        unit = self._members.get(ordinal)
        if unit is None:
            return ordinal
        return unit[0]

    def last(self, ordinal: int) -> int:
        """Return the last ordinal of an entry's unit."""
        unit = self._members.get(ordinal)
        if unit is None:
            return ordinal
        return unit[-1]

    def firsts(self, ordinals: Iterable[int]) -> list[int]:
        """Return the first ordinal of the unit of each entry."""
        if not self._members:
            return list(ordinals)
        return [self.first(ordinal) for ordinal in ordinals]

    @property
    def awaited(self) -> tuple[int, ...]:
        """Return the ordinals of the unit that waits for results, if one does."""
        asking = self.asking
        if asking is None or not self.is_open(asking):
            return ()
        return self.members(asking)

    def is_open(self, ordinal: int) -> bool:
        """Return whether an entry's unit has a call without a result."""
        for member in self._members.get(ordinal, ()):
            link = self._links.get(member)
            calls = () if link is None else link.calls
            if any(member in self._waiting.get(call, ()) for call in calls):
                return True
        return False

    def is_waiting(self, ordinal: int) -> bool:
        """Return whether an entry's unit has an open call, and no other entry has spoken since."""
        return self.asking in self._members.get(ordinal, ()) and self.is_open(ordinal)

    def is_orphan(self, ordinal: int) -> bool:
        """Return whether a unit holds nothing but results, whose calls are missing or answered.

        Nothing is known of the entries of units that no later entry joins.
        """
        if ordinal not in self._links:
            return False
        return all(self._links[member].is_results for member in self._members[ordinal])

    def _joined(self, ordinal: int, link: Link) -> list[list[int]]:
        """Return the units that an entry would join with another link."""
        if self._links.get(ordinal) == link:
            return []
        partners = []
        for call in link.answers:
            callers = self._waiting.get(call, [])
            before = bisect_left(callers, ordinal)
            if before and call not in link.calls:
                partners.append(callers[before - 1])
        partners += [self._tied[tie] for tie in link.served if tie in self._tied]
        units = [self._members[partner] for partner in partners]
        return list({id(unit): unit for unit in units}.values())

    def _place(self, ordinal: int, link: Link) -> None:
        """Put an entry, new or with another link, in one unit with all that it joins.

        All move to the largest of their units, so that each entry moves log n times at most.
        """
        units = self._joined(ordinal, link)
        self._leave(ordinal)
        self._links[ordinal] = link
        own = self._members.setdefault(ordinal, [ordinal])
        largest = max([own, *units], key=len)
        if own is not largest:
            units.append(own)
        for unit in units:
            if unit is not largest:
                largest += unit
                self._members |= dict.fromkeys(unit, largest)
        largest.sort()
        self._settle(largest)

    def _settle(self, unit: Iterable[int]) -> None:
        """Match the calls and results of a unit anew among themselves, as `repaired` does."""
        links = {ordinal: self._links[ordinal] for ordinal in unit if ordinal in self._links}
        for ordinal in links:
            self._leave(ordinal)
        self._links |= links
        waiting: _Waiting = {}
        for ordinal, link in links.items():
            _answered(ordinal, link, waiting)
        for call, callers in waiting.items():
            for caller in callers:
                insort(self._waiting.setdefault(call, []), caller)
        for ordinal, link in links.items():
            self._tied |= dict.fromkeys(link.served, ordinal)

    def _leave(self, ordinal: int) -> None:
        """Let no later entry join an entry."""
        link = self._links.pop(ordinal, None)
        if link is None:
            return
        for call in link.calls:
            callers = self._waiting.get(call, [])
            if ordinal in callers:
                callers.remove(ordinal)
            if not callers:
                self._waiting.pop(call, None)
        for tie in link.served:
            if self._tied.get(tie) == ordinal:
                del self._tied[tie]


def cuts(
    lasts: Iterable[int],
    start: int = 0,
    shown: Container[int] = (),
) -> list[int]:
    """Return the ordinals from a cut on where no unit is on both sides.

    Args:
        lasts: The last ordinal of the unit of each entry from there on.
        shown: Ordinals of entries that are shown in any case, so that their units may be cut.
    """
    found = []
    reach = -1
    ordinal = start - 1
    for ordinal, last in enumerate(lasts, start):
        if reach < ordinal:
            found.append(ordinal)
        if ordinal not in shown:
            reach = max(reach, last)
    return [*found, ordinal + 1]


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
    distinct = _without_unmatched([with_distinct_calls(each) for each in messages])
    links = list(map(Link.of, distinct))
    results: dict[tuple[int, str], ChatMessage] = {}
    waiting: _Waiting = {}
    for position, link in enumerate(links):
        for call, caller in _answered(position, link, waiting).items():
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


def with_distinct_calls(message: ChatMessage) -> ChatMessage:
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


def _with_notes(
    message: ChatMessage,
    unmatched: set[int],
    places: Iterator[int],
) -> ChatMessage:
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
