"""Files that other files name: long texts, archives and the identity."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from kaosmem.errors import CorruptionError
from kaosmem.names import shown
from kaosmem.persistence.files.lines import decode_line, encode_line
from kaosmem.persistence.layout import (
    SESSION,
    archive_file,
    blob_file,
    blob_order,
)
from kaosmem.persistence.steps import Read, ReadParts, Steps, Write
from kaosmem.types import JSONValue

MAX_TEXT_BYTES = 64 * 1024
"""A longer text is kept in a file of its own."""


Place: TypeAlias = Callable[[str, bytes], str | None]
"""Given a long text's SHA-256 and bytes, return the name of its file, or None to leave it there."""


@dataclass(frozen=True, slots=True)
class Blob:
    """A text that a record's data lacks.

    path: where in the data it belongs. name: of its file. sha256, size: of its bytes, as
        hexadecimal and number.
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
            case [[*keys], str(name), str(sha256), int(size)] if (
                keys and _is_plain(name) and type(size) is int
            ):
                path = tuple(key for key in keys if isinstance(key, str | int))
                if len(path) == len(keys):
                    return cls(path, name, sha256, size)
        raise CorruptionError("what names a text kept elsewhere is of the wrong type")


class KnownTexts:
    """The long texts that a session's files hold, by the names of their files and by their SHA-256.

    names: by SHA-256; of a text that is stored twice, the last, so that all writers name the same
        file.
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        """texts: SHA-256 by name."""
        self.names: dict[str, str] = {}
        self._sha256s: dict[str, str] = {}
        self.add(texts)

    def add(self, texts: Mapping[str, str]) -> None:
        """Note texts, SHA-256 by name, which are stored too."""
        self._sha256s |= texts
        for name, sha256 in texts.items():
            self.names[sha256] = max(name, self.names.get(sha256, name), key=blob_order)

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

        return place if names else leave_in_line


def leave_in_line(sha256: str, text: bytes) -> None:
    """Leave every text where it is."""


def spill(data: Mapping[str, JSONValue], place: Place) -> tuple[dict[str, JSONValue], list[Blob]]:
    """Return data with None for each long text that is stored elsewhere, and their names."""
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
    """Put the long texts back into data.

    Raises CorruptionError if one is missing or has changed.
    """
    for blob in blobs:
        path = blob_file(blob.name)
        try:
            text: bytes = yield Read(path)
        except FileNotFoundError:
            raise CorruptionError(
                f"{path!r} is missing; bring it back from a copy", file=path
            ) from None
        if len(text) != blob.size or hashlib.sha256(text).hexdigest() != blob.sha256:
            raise CorruptionError(
                f"{path!r} is not what was written; bring it back from a copy", file=path
            )
        try:
            holder = data
            for key in blob.path[:-1]:
                holder = holder[key]
            holder[blob.path[-1]] = text.decode()
        except (LookupError, TypeError, UnicodeDecodeError):
            raise CorruptionError(
                f"the text in {path!r} belongs nowhere in its record", file=path
            ) from None


def has_long_text(value: Any) -> bool:
    """Return whether data may have a text that is kept elsewhere.

    Data that no line can hold has none.
    """
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


OLDER_TEXTS = "an older text may stand for what it held; bring it back from a copy"
"""What the loss of an archive file costs."""


class Identity(NamedTuple):
    """Which session a folder is of.

    session: the id that it was created under. log_id: the random id of its log. segment: the last
        segment that was
    begun under a lock, by its first record, which the log holds for good.
    """

    session: str
    log_id: str
    segment: int


class _Needed(NamedTuple):
    """A file with its size, and the bytes that stand at one place of it."""

    path: str
    size: int
    start: int
    data: bytes


@dataclass(frozen=True, slots=True)
class ListedArchive:
    """An archive file as a snapshot names it.

    seq: number of the last record before it was written. crc: checksum of its last line, which
        covers all lines.
    size, start: its bytes, and the byte at which its last line begins.
    blobs: by name, the sizes of the long texts that its items lack.
    """

    seq: int
    crc: int
    size: int
    start: int
    blobs: Mapping[str, int] = field(default_factory=dict)

    @property
    def path(self) -> str:
        """Return the path of the file."""
        return archive_file(self.seq, self.crc)

    def check(self, last_line: bytes) -> None:
        """Raise CorruptionError for the last line of another file."""
        if not last_line.startswith(self._beginning):
            raise another(self.path, self.size)

    def needed(self) -> Iterator[_Needed]:
        """Yield the file and those of its long texts."""
        yield _Needed(self.path, self.size, self.start, self._beginning)
        for name, size in self.blobs.items():
            yield _Needed(blob_file(name), size, 0, b"")

    @property
    def _beginning(self) -> bytes:
        return b'{"crc":"%08x",' % self.crc

    def to_list(self) -> list[JSONValue]:
        """Return it as JSON values."""
        return [self.seq, self.crc, self.size, self.start, dict(self.blobs)]

    @classmethod
    def from_list(cls, stored: object) -> ListedArchive:
        """Return the entry that `to_list` stored. Raises CorruptionError."""
        match stored:
            case [int(seq), int(crc), int(size), int(start), dict(blobs)] if 0 <= start < size:
                if all(type(each) is int and each > 0 for each in blobs.values()):
                    return cls(seq, crc, size, start, blobs)
        raise CorruptionError("an archive file is not named as it should be")


def check_archives(archives: Iterable[ListedArchive]) -> Steps[list[CorruptionError]]:
    """Return an error for each archive file or long text of it that is missing or another file.

    A file is known by its size and the checksum of its last line, so that no file is read whole.
    """
    files = [file for each in archives for file in each.needed()]
    try:
        yield from _check_files(files)
    except (CorruptionError, FileNotFoundError):
        damage = []
        for file in files:
            try:
                yield from _check_files([file])
            except FileNotFoundError:
                damage.append(missing(file.path, OLDER_TEXTS))
            except CorruptionError as error:
                damage.append(error)
        return damage
    return []


def _check_files(files: Sequence[_Needed]) -> Steps[None]:
    if not files:
        return
    parts = [
        part
        for path, size, start, data in files
        for part in ((path, start, len(data) or 1), (path, size - 1, 2))
    ]
    found: list[bytes] = yield ReadParts(tuple(parts))
    for file, data, end in zip(files, found[::2], found[1::2], strict=True):
        if not data.startswith(file.data) or len(end) != 1:
            raise another(file.path, file.size)


def last_line(data: bytes) -> bytes:
    """Return the last line of a file."""
    return data[data.rfind(b"\n", 0, -1) + 1 :]


def missing(path: str, remedy: str = "bring it back from a copy") -> CorruptionError:
    """Return the error for a file that is not there."""
    return CorruptionError(f"{path!r} is missing; {remedy}", file=path)


def another(path: str, size: int) -> CorruptionError:
    """Return the error for a file that is not the one that was written."""
    return CorruptionError(
        f"{path!r} is another file than the snapshot names, which has {size:,} bytes; bring it "
        "back from a copy",
        file=path,
    )


def txn_prefix(log_id: str) -> str:
    """Return the characters with which the id of each commit to a log begins."""
    return log_id[:6]


def write_identity(identity: Identity) -> Steps[None]:
    """Store the identity of a session."""
    session, log_id, segment = identity
    yield Write(
        SESSION, [encode_line({"session": session, "log": log_id, "segment": segment}, 0)[0]]
    )


def read_identity() -> Steps[Identity | CorruptionError | None]:
    """Return the stored identity of a session: an error if it is damaged, None if it is missing."""
    try:
        data: bytes = yield Read(SESSION)
        fields: Mapping[str, Any] = decode_line(data.removesuffix(b"\n"), 0)[0]
    except (
        FileNotFoundError,
        NotADirectoryError,
    ):  # who lists the log is told of a file in place of a folder
        return None
    except CorruptionError as error:
        return CorruptionError(
            f"{SESSION!r} is damaged: {error}; the next save writes it anew", file=SESSION
        )
    match fields:
        case {"session": str(session), "log": str(log_id), "segment": int(segment)}:
            return Identity(session, log_id, segment)
    return CorruptionError(
        f"{SESSION!r} is no identity of a session; the next save writes it anew", file=SESSION
    )


def foreign(path: str, session: str) -> CorruptionError:
    """Return the error for a file of another session.

    session: the id that the folder is opened under.
    """
    return CorruptionError(
        f"{path!r} is a file of another session than {shown(session)}; bring back the own one from "
        "a copy",
        file=path,
    )


def other_log(path: str) -> CorruptionError:
    """Return the error for a log or snapshot that the identity of the session is not of."""
    return CorruptionError(
        f"{path!r} and {SESSION!r} are of two sessions; bring back the own one of them from a "
        "copy, or delete "
        f"{SESSION!r} if the log is the own one",
        file=path,
    )


def other_id(stored: str, session: str) -> CorruptionError:
    """Return the error for a session that was created under another id."""
    return CorruptionError(
        f"{SESSION!r} says that the session was created as {shown(stored)}, not as "
        f"{shown(session)}: this is a copy of "
        "its folder; open it under its own id, or let `kaosmem repair` make a session "
        f"{shown(session)} of its own",
        file=SESSION,
    )
