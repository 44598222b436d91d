"""Settings of a session that few callers change."""

from __future__ import annotations

from dataclasses import dataclass

from kaosmem.arguments import Clock, check_clock


@dataclass(frozen=True, kw_only=True)
class SessionOptions:
    """Settings of a session that few callers change.

    Args:
        clock: A function that returns aware times. The default is the computer's clock.
        missing_ok: With `read_only`, an id that is not stored gives an empty session instead of
            NotFoundError.
        single_writer: No other process writes to the session, so the filesystem need not tell
            writers apart.

    >>> from datetime import UTC, datetime
    >>> from kaosmem import SessionMemory
    >>> options = SessionOptions(clock=lambda: datetime(2026, 11, 25, tzinfo=UTC))
    >>> memory = SessionMemory.test_mode(options=options)
    >>> memory.add("findings", "Ann owns the deal.").created_at.year
    2026
    """

    clock: Clock | None = None
    missing_ok: bool = False
    single_writer: bool = False

    def clock_or(self, default: Clock) -> Clock:
        """Return the clock, or a default if none is given. Raises InvalidArgumentError."""
        if self.clock is None:
            return default
        return check_clock(self.clock)


DEFAULT_OPTIONS = SessionOptions()
