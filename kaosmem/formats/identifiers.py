"""Ids of calls and names of tools within the limits of providers."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

_PLAIN = re.compile(r"[a-zA-Z0-9_-]+")
_NOT_PLAIN = re.compile(r"[^a-zA-Z0-9_-]")
_DIGEST_CHARS = 12
_MAX_ID_CHARS = 64


def plain_id(text: str, *, max_chars: int) -> str:
    """Return an id made of any text, the same for the same text and, in practice, for no other."""
    digest = hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_CHARS]
    return f"{_NOT_PLAIN.sub('_', text)[: max_chars - _DIGEST_CHARS - 1] or 'id'}-{digest}"


def tool_name(name: str, *, max_chars: int) -> str:
    """Return a tool's name as a provider takes it: an underscore replaces each character that it refuses."""
    return _NOT_PLAIN.sub("_", name)[:max_chars] or "_"


class CallIds:
    """Gives each call of one request a plain id of its own, and its results the same one.

    A stored id that is plain and new stays as it is; one that was used before in the request is numbered.
    taken: ids that the request has already.
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._latest: dict[str, str] = {}  # stored id -> id given to its latest call

    def call(self, stored: str) -> str:
        """Return the id of the next call."""
        first = given = _plain(stored)
        number = 1
        while given in self._taken:
            number += 1
            given = f"{first}-{number}"
        self._taken.add(given)
        self._latest[stored] = given
        return given

    def result(self, stored: str) -> str:
        """Return the id of the latest call with that stored id."""
        return self._latest.get(stored) or _plain(stored)


def _plain(stored: str) -> str:
    return stored if _PLAIN.fullmatch(stored) else plain_id(stored, max_chars=_MAX_ID_CHARS)
