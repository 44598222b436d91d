"""Caches of results for texts, cleared together when something is forgotten."""

from __future__ import annotations

from collections.abc import Callable

_CLEARS: list[Callable[[], None]] = []


def register_memo(clear: Callable[[], None]) -> None:
    """Enter how a memo is cleared: every one that outlives a call and holds what texts, names or roles said."""
    _CLEARS.append(clear)


def clear_memos() -> None:
    """Clear all that this process remembers of texts; it is found again as it is asked for."""
    for clear in _CLEARS:
        clear()
