"""What counts: the protocol, and any function as a counter."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from kaosmem.errors import InvalidBudgetError
from kaosmem.names import shown_name


@runtime_checkable
class TokenCounter(Protocol):
    """Counts the tokens of a text.

    name: what the session's log calls it; another name on open recounts the session.
    additive: whether counts of parts add up to the count of the whole where a text is cut before a line that begins
        with neither white space nor `/`, and before a space that follows a visible ASCII character.
        Where it is False, a context is counted as a whole.
    """

    @property
    def name(self) -> str: ...

    @property
    def additive(self) -> bool: ...

    def __call__(self, text: str) -> int: ...

    def count_many(self, texts: Sequence[str]) -> list[int]: ...


class CallableCounter:
    """Counts with any function from str to int. Nothing is assumed of it, so contexts are counted as a whole.

    Raises InvalidBudgetError where it returns what is no number of tokens.
    """

    additive = False

    def __init__(self, count: Callable[[str], int]) -> None:
        self._count = count
        self.name = f"{getattr(count, '__module__', '?')}.{getattr(count, '__qualname__', type(count).__name__)}"

    def __repr__(self) -> str:
        return f"CallableCounter({self.name})"

    def __call__(self, text: str) -> int:
        return self._checked(self._count(text))

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """Return the count of each text."""
        return [self._checked(self._count(text)) for text in texts]

    def _checked(self, count: object) -> int:
        try:
            tokens = operator.index(count)  # type: ignore[arg-type]
            if tokens >= 0:
                return tokens
        except TypeError:
            pass
        raise InvalidBudgetError(
            f"counter {self.name} gives a count of {shown_name(count)}; have it return a whole number from 0 up"
        )
