"""Common parts of the rules of several providers."""

from __future__ import annotations

import re
from binascii import a2b_base64
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Protocol, TypeAlias

from kaosmem.types import JSONObject

Messages: TypeAlias = Sequence[JSONObject]
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


def faults_of_roles(messages: Messages, fields: Mapping[str, Collection[str]]) -> Faults:
    """Yield the messages of an unknown role, and those with fields that their role has not."""
    for position, message in enumerate(messages):
        known = fields.get(str(message.get("role")))
        if known is None:
            yield position, f"has the role {message.get('role')!r}"
        elif unknown := set(message).difference(known):
            yield position, f"has unknown fields {sorted(unknown)}"


def parts_of(holder: JSONObject) -> list[JSONObject]:
    """Return the parts of the content of a message or of a part, none for a text."""
    content = holder.get("content")
    return content if isinstance(content, list) else []


def parts_of_type(messages: Messages, kind: str) -> Iterator[tuple[int, JSONObject]]:
    """Yield the parts of a type, each with the position of its message."""
    for position, message in enumerate(messages):
        for part in parts_of(message):
            if part.get("type") == kind:
                yield position, part


def is_address(url: object) -> bool:
    """Say whether it is the address of something on the web."""
    return isinstance(url, str) and _ADDRESS.fullmatch(url) is not None


def is_base64(data: object) -> bool:
    """Say whether it is the base64 text of at least one byte."""
    try:
        return isinstance(data, str) and bool(a2b_base64(data, strict_mode=True))
    except ValueError:
        return False
