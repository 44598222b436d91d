"""Times to live of stored values."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Generic, TypeVar

from kaosmem.arguments import Clock, check_clock

K = TypeVar("K", bound=Hashable)


class Expiries(Generic[K]):
    """The keys that expire.

    Args:
        clock: Gives times with a zone; None is the computer's. Raises InvalidArgumentError.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = check_clock(clock)
        self._times: dict[K, float] = {}
        self._earliest = math.inf
        """No key expires before this time."""

    def set(self, key: K, time: float | None) -> None:
        """Let a key expire at a time, in seconds since 1970. None: never."""
        self.discard(key)
        if time is not None:
            self._times[key] = time
            self._earliest = min(self._earliest, time)

    def discard(self, key: K) -> None:
        """Let a key stay."""
        self._times.pop(key, None)

    def pop_due(self) -> list[K]:
        """Return the keys whose time has come, once."""
        if not self._times:
            return []
        now = self.clock().timestamp()
        if now < self._earliest:
            return []
        due = [key for key, time in self._times.items() if time <= now]
        for key in due:
            del self._times[key]
        self._earliest = min(self._times.values(), default=math.inf)
        return due
