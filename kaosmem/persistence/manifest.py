"""The files that a session needs, as its other files name them.

`session.json` is written right after the first commit, and after the first one in each segment where commits are
appended: it tells a session whose log is gone from a new one, and a log of another session from its own. A snapshot
names the archive files with the texts that these need, and the older files that would replace it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from kaosmem.errors import CorruptionError
from kaosmem.names import shown
from kaosmem.persistence.layout import SESSION, archive_file, blob_file, log_file, snapshot_file
from kaosmem.persistence.lines import decode_line, encode_line
from kaosmem.persistence.steps import Read, ReadParts, Steps, Write
from kaosmem.types import JSONValue


class Identity(NamedTuple):
    """Which session a folder is of.

    session: the id that it was created under. log_id: the random id of its log. segment: the last segment that was
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
class Listed:
    """An archive file as a snapshot names it.

    seq: number of the last record before it was written. crc: checksum of its last line, which covers all lines.
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
    def from_list(cls, stored: object) -> Listed:
        """Return the entry that `to_list` stored. Raises CorruptionError."""
        match stored:
            case [int(seq), int(crc), int(size), int(start), dict(blobs)] if 0 <= start < size:
                if all(type(each) is int and each > 0 for each in blobs.values()):
                    return cls(seq, crc, size, start, blobs)
        raise CorruptionError("an archive file is not named as it should be")


def check_archives(archives: Iterable[Listed]) -> Steps[list[CorruptionError]]:
    """Return an error for each archive file and each of its long texts that is missing or another file.

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
                damage.append(missing(file.path))
            except CorruptionError as error:
                damage.append(error)
        return damage
    return []


def _check_files(files: Sequence[_Needed]) -> Steps[None]:
    if not files:
        return
    parts = [part for path, size, start, data in files for part in ((path, start, len(data) or 1), (path, size - 1, 2))]
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
        f"{path!r} is another file than the snapshot names, which has {size:,} bytes; bring it back from a copy",
        file=path,
    )


def spare_files(segments: Sequence[int], before: int, seq: int) -> list[int]:
    """Return the snapshot before that of record `seq`, 0 for none, and the segments that lead from one to the other."""
    unneeded = {first for first, following in pairwise(segments) if following <= before + 1}
    return [before, *(first for first in segments if first <= seq and first not in unneeded)]


def check_spare(spare: Sequence[int], snapshots: Collection[int], segments: Collection[int]) -> list[CorruptionError]:
    """Return an error for each file that is missing of those that would replace the newest snapshot."""
    remedy = "nothing is lost, as long as the newest snapshot is whole"
    gone = [missing(snapshot_file(seq), remedy) for seq in spare[:1] if seq and seq not in snapshots]
    return gone + [missing(log_file(first), remedy) for first in spare[1:] if first not in segments]


def txn_prefix(log_id: str) -> str:
    """Return the characters with which the id of each commit to a log begins."""
    return log_id[:6]


def write_identity(identity: Identity) -> Steps[None]:
    """Store the identity of a session."""
    session, log_id, segment = identity
    yield Write(SESSION, [encode_line({"session": session, "log": log_id, "segment": segment}, 0)[0]])


def read_identity() -> Steps[Identity | CorruptionError | None]:
    """Return the stored identity of a session: an error if it is damaged, None if it is missing."""
    try:
        data: bytes = yield Read(SESSION)
        fields: Mapping[str, Any] = decode_line(data.removesuffix(b"\n"), 0)[0]
    except (FileNotFoundError, NotADirectoryError):  # who lists the log is told of a file in place of a folder
        return None
    except CorruptionError as error:
        return CorruptionError(f"{SESSION!r} is damaged: {error}; the next save writes it anew", file=SESSION)
    match fields:
        case {"session": str(session), "log": str(log_id), "segment": int(segment)}:
            return Identity(session, log_id, segment)
    return CorruptionError(f"{SESSION!r} is no identity of a session; the next save writes it anew", file=SESSION)


def foreign(path: str, session: str) -> CorruptionError:
    """Return the error for a file of another session. session: the id that the folder is opened under."""
    return CorruptionError(
        f"{path!r} is a file of another session than {shown(session)}; bring back the own one from a copy", file=path
    )


def other_log(path: str) -> CorruptionError:
    """Return the error for a log or snapshot that the identity of the session is not of."""
    return CorruptionError(
        f"{path!r} and {SESSION!r} are of two sessions; bring back the own one of them from a copy, or delete "
        f"{SESSION!r} if the log is the own one",
        file=path,
    )


def other_id(stored: str, session: str) -> CorruptionError:
    """Return the error for a session that was created under another id."""
    return CorruptionError(
        f"{SESSION!r} says that the session was created as {shown(stored)}, not as {shown(session)}: this is a copy of "
        f"its folder; open it under its own id, or let `kaosmem repair` make a session {shown(session)} of its own",
        file=SESSION,
    )
