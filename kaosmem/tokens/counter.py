"""The TokenCounter protocol, and any function as a counter."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol, runtime_checkable

from kaosmem.errors import InvalidBudgetError
from kaosmem.names import shown_name
from kaosmem.types import MAX_INTEGER


@runtime_checkable
class TokenCounter(Protocol):
    """Counts the tokens of a text.

    name: stored in the session's log. A session that is opened with another name is counted again.
    additive: whether the counts of parts add up to the count of the whole, if a text is cut before a line that begins
        with neither white space nor `/`, or before a space after a visible ASCII character. If it is False, a context
        is counted as a whole.

    >>> from kaosmem import SessionMemory
    >>> memory = SessionMemory.test_mode(counter=len)  # any function from str to int
    >>> memory.add("findings", "four").tokens
    4
    """

    @property
    def name(self) -> str: ...

    @property
    def additive(self) -> bool: ...

    def __call__(self, text: str) -> int: ...

    def count_many(self, texts: Sequence[str]) -> list[int]: ...


class CallableCounter:
    """Counts with any function from str to int. Nothing is assumed of it, so contexts are counted as a whole.

    Raises InvalidBudgetError if its result is no number of tokens.
    """

    additive = False

    def __init__(self, count: Callable[[str], int]) -> None:
        self._count = count
        self.name = f"{getattr(count, '__module__', '?')}.{getattr(count, '__qualname__', type(count).__name__)}"

    def __repr__(self) -> str:
        return f"CallableCounter({self.name})"

    def __call__(self, text: str) -> int:
        return check_tokens(self._count(text), self.name)

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """Return the count of each text."""
        return [check_tokens(self._count(text), self.name) for text in texts]


def check_tokens(count: object, counter: str) -> int:
    """Return a counter's answer as a plain int from 0 to 2^63 - 1, as a log can hold. Raises InvalidBudgetError."""
    if type(count) is not int and not isinstance(count, bool):
        with suppress(TypeError):
            count = int(operator.index(count))  # type: ignore[arg-type]
    if type(count) is int and 0 <= count <= MAX_INTEGER:
        return count
    raise InvalidBudgetError(
        f"counter {counter} gives a count of {shown_name(count)}; have it return a whole number of tokens from 0 up"
    )
