"""Common parts of the rules of several providers."""

from __future__ import annotations

import re
from binascii import a2b_base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, TypeAlias

from kaosmem.types import JSONValue

Messages: TypeAlias = Sequence[Mapping[str, JSONValue]]
Faults: TypeAlias = Iterator[tuple[int, str]]
"""The position of a message, and its fault as the rest of a sentence that begins with the message."""

MEDIA_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")
_ADDRESS = re.compile(r"https?://\S+", re.IGNORECASE)


class Rule(Protocol):
    """Yields the faults of messages.

    Its name is the rule's, its docstring says the rule and where it comes from.
    """

    @property
    def __name__(self) -> str: ...

    def __call__(self, messages: Messages) -> Faults: ...


def is_address(url: object) -> bool:
    """Say whether it is the address of something on the web."""
    return isinstance(url, str) and _ADDRESS.fullmatch(url) is not None


def is_base64(data: object) -> bool:
    """Say whether it is the base64 text of at least one byte."""
    try:
        return isinstance(data, str) and bool(a2b_base64(data, strict_mode=True))
    except ValueError:
        return False
