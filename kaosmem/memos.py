"""Caches of results for texts, cleared together when something is forgotten."""

from __future__ import annotations

from collections.abc import Callable

_CLEARS: list[Callable[[], None]] = []


def register_memo(clear: Callable[[], None]) -> None:
    """Register the function that clears a memo: each that outlives a call and holds texts, names or roles."""
    _CLEARS.append(clear)


def clear_memos() -> None:
    """Clear all that this process remembers of texts; it is found again as it is asked for."""
    for clear in _CLEARS:
        clear()
