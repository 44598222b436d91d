"""Caches of results for texts, cleared together when something is forgotten."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

_CLEARS: list[Callable[[], None]] = []


def register_memo(clear: Callable[[], None]) -> None:
    """Register the function that clears a memo.

    Each memo that outlives a call and holds texts, names or roles needs one.
    """
    _CLEARS.append(clear)


def memoized(most: int | None) -> Callable[[F], F]:
    """Let a function remember its last `most` results, until something is forgotten."""

    def remembering(make: F) -> F:
        found = lru_cache(most)(make)
        register_memo(found.cache_clear)
        return cast("F", found)

    return remembering


def clear_memos() -> None:
    """Clear all that this process remembers of texts. It is computed again when it is needed."""
    for clear in _CLEARS:
        clear()
