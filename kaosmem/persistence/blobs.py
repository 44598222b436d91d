"""Long texts, kept in files of their own beside the log; records name them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from kaosmem.errors import CorruptionError
from kaosmem.persistence.layout import blob_file
from kaosmem.persistence.steps import Read, Steps
from kaosmem.types import JSONValue

MAX_TEXT_BYTES = 64 * 1024
"""A longer text is kept in a file of its own."""


Place: TypeAlias = Callable[[str, bytes], str | None]
"""Given a long text's SHA-256 and bytes, the name of the file that has it, or None to leave it where it is."""


@dataclass(frozen=True, slots=True)
class Blob:
    """A text that a record's data lacks.

    path: where in the data it belongs. name: of its file. sha256, size: of its bytes, as hexadecimal and number.
    """

    path: tuple[str | int, ...]
    name: str
    sha256: str
    size: int

    def to_list(self) -> list[JSONValue]:
        """Return the reference as JSON values."""
        return [list(self.path), self.name, self.sha256, self.size]

    @classmethod
    def from_list(cls, stored: object) -> Blob:
        """Return the reference that `to_list` stored. Raises CorruptionError."""
        match stored:
            case [[*keys], str(name), str(sha256), int(size)] if keys and _is_plain(name) and type(size) is int:
                path = tuple(key for key in keys if isinstance(key, str | int))
                if len(path) == len(keys):
                    return cls(path, name, sha256, size)
        raise CorruptionError("what names a text kept elsewhere is of the wrong type")


class KnownTexts:
    """The long texts that a session's files hold, by the names of their files and by their SHA-256.

    names: by SHA-256; of a text that is stored twice, one.
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        """texts: SHA-256 by name."""
        self.names: dict[str, str] = {}
        self._sha256s: dict[str, str] = {}
        self.add(texts)

    def add(self, texts: Mapping[str, str]) -> None:
        """Note texts, SHA-256 by name, which are stored too."""
        self._sha256s |= texts
        self.names |= {sha256: name for name, sha256 in texts.items()}

    def only(self, names: Iterable[str]) -> KnownTexts:
        """Return the texts of these names."""
        return KnownTexts({name: self._sha256s[name] for name in names})

    def place(self, used: set[str] | None = None) -> Place:
        """Return a function that gives the name of each of these texts and enters it in `used`."""
        names = self.names

        def place(sha256: str, text: bytes) -> str | None:
            name = names.get(sha256)
            if name is not None and used is not None:
                used.add(name)
            return name

        return place if names else in_line


def in_line(sha256: str, text: bytes) -> None:
    """Leave every text where it is."""


def spill(data: Mapping[str, JSONValue], place: Place) -> tuple[dict[str, JSONValue], list[Blob]]:
    """Return data with None for each long text that is stored elsewhere, and the names of these texts."""
    blobs: list[Blob] = []

    def without_long(value: Any, path: tuple[str | int, ...]) -> Any:
        if isinstance(value, str):
            if len(value) * 4 <= MAX_TEXT_BYTES:
                return value
            text = value.encode()
            sha256 = hashlib.sha256(text).hexdigest()
            if len(text) <= MAX_TEXT_BYTES or (name := place(sha256, text)) is None:
                return value
            blobs.append(Blob(path, name, sha256, len(text)))
            return None
        if isinstance(value, dict):
            return {key: without_long(each, (*path, key)) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [without_long(each, (*path, index)) for index, each in enumerate(value)]
        return value

    if not has_long_text(data):
        return dict(data), blobs
    return without_long(dict(data), ()), blobs


def fill(data: Any, blobs: Iterable[Blob]) -> Steps[None]:
    """Put the long texts back into data. Raises CorruptionError if one is missing or has changed."""
    for blob in blobs:
        path = blob_file(blob.name)
        try:
            text: bytes = yield Read(path)
        except FileNotFoundError:
            raise CorruptionError(f"{path!r} is missing; bring it back from a copy", file=path) from None
        if len(text) != blob.size or hashlib.sha256(text).hexdigest() != blob.sha256:
            raise CorruptionError(f"{path!r} is not what was written; bring it back from a copy", file=path)
        try:
            holder = data
            for key in blob.path[:-1]:
                holder = holder[key]
            holder[blob.path[-1]] = text.decode()
        except (LookupError, TypeError, UnicodeDecodeError):
            raise CorruptionError(f"the text in {path!r} belongs nowhere in its record", file=path) from None


def has_long_text(value: Any) -> bool:
    """Return whether there may be a text in data that is kept elsewhere; not in data that no line can hold."""
    try:
        return _has_long(value)
    except RecursionError:
        return False


def _has_long(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) * 4 > MAX_TEXT_BYTES
    if isinstance(value, dict):
        return any(map(_has_long, value.values()))
    return isinstance(value, list | tuple) and any(map(_has_long, value))


def _is_plain(name: str) -> bool:
    """Return whether a stored name can only be of a file beside the others."""
    return name.isascii() and name.replace("-", "").isalnum()
