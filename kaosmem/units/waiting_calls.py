"""Tool calls that wait for a result, and the results that answer them."""

from __future__ import annotations

from bisect import bisect_left, insort

from kaosmem.units.link import Link


class WaitingCalls:
    """The calls without a result, by id, each with the ordinals of the entries that make it, ascending."""

    def __init__(self) -> None:
        self._ordinals: dict[str, list[int]] = {}

    def __len__(self) -> int:
        """Return how many calls wait."""
        return sum(map(len, self._ordinals.values()))

    def before(self, call: str, ordinal: int) -> int | None:
        """Return the latest entry before another one that makes a call of this id; None if none waits."""
        waiting = self._ordinals.get(call, ())
        earlier = bisect_left(waiting, ordinal)
        return waiting[earlier - 1] if earlier else None

    def enter(self, ordinal: int, link: Link) -> dict[str, int]:
        """Enter the newest entry's calls, take out those that it answers and return by id where these were made."""
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
