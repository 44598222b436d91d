"""The units of a view: an answer's calls of tools with their results."""

from __future__ import annotations

from bisect import bisect_left


class Round:
    """The calls of one answer and their results, by their ordinals in a view.

    members: all of them, ascending. results: the number of results. open: the calls without a result, with their ids.
    """

    __slots__ = ("members", "open", "response", "results")

    def __init__(self, response: str) -> None:
        self.response = response
        self.members: list[int] = []
        self.open: dict[int, str] = {}
        self.results = 0


class Rounds:
    """The rounds of a growing view. Calls of one response are one round; a result joins the latest open call of its id.

    This is `Units` for events: each makes one call or brings one result, and only whole rounds go. It takes a fourth of
    the time.

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
