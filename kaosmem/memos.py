"""Caches of results for texts, cleared together when something is forgotten."""

from __future__ import annotations

from collections.abc import Callable

_CLEARS: list[Callable[[], None]] = []


def register_memo(clear: Callable[[], None]) -> None:
    """Register the function that clears a memo.

    Each memo that outlives a call and holds texts, names or roles needs one.
    """
    _CLEARS.append(clear)


def clear_memos() -> None:
    """Clear all that this process remembers of texts. It is computed again when it is needed."""
    for clear in _CLEARS:
        clear()
