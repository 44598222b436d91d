"""Answers with their results in a growing view, and the entries that stay for their role."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Collection, Iterator

from kaosmem.conversation.events import ActionEvent, ConversationEvent, EventSource


class Round:
    """The calls of one answer and their results, by their ordinals in a view.

    members: all of them, ascending. results: the number of results. open: the calls without a
        result, with their ids.
    """

    __slots__ = ("members", "open", "response", "results")

    def __init__(self, response: str) -> None:
        self.response = response
        self.members: list[int] = []
        self.open: dict[int, str] = {}
        self.results = 0


class Rounds:
    """The rounds of a growing view.

    Calls of one response are one round; a result joins the latest open call of its id.

    This is `Units` for events: each makes one call or brings one result, and only whole rounds go.
    It takes a fourth of the time.

    >>> rounds = Rounds()
    >>> _ = rounds.add_call(0, "a", response="r"), rounds.add_call(1, "b", response="r")
    >>> rounds.add_result(2, "a").members
    [0, 1, 2]
    """

    def __init__(self) -> None:
        self.by_member: dict[int, Round] = {}
        self._by_response: dict[str, Round] = {}
        self._open: dict[str, list[int]] = {}  # ordinals of open calls by their id, ascending

    def add_call(self, ordinal: int, call_id: str, *, response: str = "") -> Round:
        """Place a call, its ordinal above all others, and return its round."""
        found = self._by_response.get(response)
        if found is None:
            found = Round(response)
            if response:
                self._by_response[response] = found
        found.members.append(ordinal)
        found.open[ordinal] = call_id
        self.by_member[ordinal] = found
        if call_id in self._open:
            self._open[call_id].append(ordinal)
        else:
            self._open[call_id] = [ordinal]
        return found

    def add_result(self, ordinal: int, call_id: str) -> Round | None:
        """Place a result, its ordinal above all others, and return its round, or None if no call waits for it."""
        callers = self._open.get(call_id)
        if callers is None:
            return None
        caller = callers.pop()
        if not callers:
            del self._open[call_id]
        found = self.by_member[ordinal] = self.by_member[caller]
        found.members.append(ordinal)
        found.results += 1
        del found.open[caller]
        return found

    def remove(self, gone: Round) -> None:
        """Take a whole round out."""
        for ordinal in gone.members:
            del self.by_member[ordinal]
        for ordinal, call_id in gone.open.items():
            callers = self._open[call_id]
            del callers[bisect_left(callers, ordinal)]
            if not callers:
                del self._open[call_id]
        if self._by_response.get(gone.response) is gone:
            del self._by_response[gone.response]


STANDING_LISTS = frozenset({"task_list", "task_tracker", "todo_write", "workspace"})
"""Kinds of events, and names of tools, that say how things stand: of each the newest is kept."""


class Landmarks:
    """The ordinals of entries of a growing view by their role, so that no other entry need be looked at."""

    def __init__(self) -> None:
        self._found: defaultdict[str, list[int]] = defaultdict(list)  # ascending

    def add(self, ordinal: int, event: ConversationEvent) -> None:
        """Note an entry, as it is shown."""
        for name in _names(event):
            insort(self._found[name], ordinal)

    def remove(self, ordinals: Collection[int]) -> None:
        """Leave out some."""
        first = min(ordinals)
        last = max(ordinals)
        for found in self._found.values():
            start = bisect_left(found, first)
            stop = bisect_right(found, last)
            found[start:stop] = [each for each in found[start:stop] if each not in ordinals]

    def cut(self, ordinal: int) -> None:
        """Leave out all from an ordinal on."""
        for ordinals in self._found.values():
            del ordinals[bisect_left(ordinals, ordinal) :]

    def kept(self) -> set[int]:
        """Return the ordinals that no condenser forgets.

        These are pinned events, system messages, the first and the newest user message, what users
        said since the agent last spoke to them, with what it said, and the newest list of tasks.
        """
        users, spoken, asked = (self._found[name] for name in ("user", "spoken", "asked"))
        kept = {*self._found["pinned"], *self._found["system"], *users[:1], *users[-1:]}
        unanswered = asked[bisect_left(asked, spoken[-1]) if spoken else 0 :]
        if unanswered:
            kept.update(spoken[-1:], unanswered)
        return kept.union(*(self._found[name][-1:] for name in STANDING_LISTS))


def _names(event: ConversationEvent) -> Iterator[str]:
    """Yield the names under which an entry is found."""
    call = None
    if event.pinned:
        yield "pinned"
    if isinstance(event, ActionEvent):
        call = event.call
        if event.source is EventSource.USER:
            yield "asked"
        if call is None and event.role in ("system", "user"):
            yield event.role
        elif call is None and event.role == "assistant" and event.kind == "message":
            yield "spoken"
    for name in {getattr(event, "kind", ""), call.name if call else ""}:
        if name in STANDING_LISTS:
            yield name
