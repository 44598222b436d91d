"""Files that other files name: archives and the identity."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kaosmem.errors import CorruptionError
from kaosmem.names import shown
from kaosmem.persistence.files.lines import decode_line, encode_line
from kaosmem.persistence.layout import SESSION, archive_file
from kaosmem.persistence.steps import Read, ReadParts, Steps, Write

OLDER_TEXTS = "an older text may stand for what it held; bring it back from a copy"
"""What the loss of an archive file costs."""


class SessionIdentity(NamedTuple):
    """Which session a folder is of.

    Attributes:
        session: The id that it was created under.
        log_id: The random id of its log.
        segment: The last segment that was begun under a lock, by its first record, which the log
            holds for good.
    """

    session: str
    log_id: str
    segment: int


class ListedArchive(NamedTuple):
    """An archive file as a snapshot names it.

    Attributes:
        seq: Number of the last record before it was written.
        crc: Checksum of its last line, which covers all lines.
        size: Its size in bytes.
        start: The byte at which its last line begins.
    """

    seq: int
    crc: int
    size: int
    start: int

    @property
    def path(self) -> str:
        """Return the path of the file."""
        return archive_file(self.seq, self.crc)

    def check(self, last_line: bytes) -> None:
        """Raise CorruptionError for the last line of another file."""
        if not last_line.startswith(self.beginning):
            raise replaced_file(self.path, self.size)

    @property
    def beginning(self) -> bytes:
        """Return the first bytes of its last line."""
        return b'{"crc":"%08x",' % self.crc

    @classmethod
    def from_list(cls, stored: object) -> ListedArchive:
        """Return the entry of a list of its fields. Raises CorruptionError."""
        match stored:
            case [int(seq), int(crc), int(size), int(start)] if 0 <= start < size:
                return cls(seq, crc, size, start)
        raise CorruptionError("an archive file is not named as it should be")


def check_archives(archives: Iterable[ListedArchive]) -> Steps[list[CorruptionError]]:
    """Return an error for each archive file that is missing or another file.

    A file is known by its size and the checksum of its last line, so that no file is read whole.
    """
    files = list(archives)
    damage: list[CorruptionError] = []
    try:
        yield from _check_files(files)
    except (CorruptionError, FileNotFoundError):
        for file in files:
            try:
                yield from _check_files([file])
            except FileNotFoundError:
                damage.append(missing_file(file.path, OLDER_TEXTS))
            except CorruptionError as error:
                damage.append(error)
    return damage


def _check_files(files: Sequence[ListedArchive]) -> Steps[None]:
    if not files:
        return
    parts: list[tuple[str, int, int]] = []
    for file in files:
        parts.append((file.path, file.start, len(file.beginning)))
        parts.append((file.path, file.size - 1, 2))
    found: list[bytes] = yield ReadParts(tuple(parts))
    for file, beginning, end in zip(files, found[::2], found[1::2], strict=True):
        if not beginning.startswith(file.beginning) or len(end) != 1:
            raise replaced_file(file.path, file.size)


def last_line(data: bytes) -> bytes:
    """Return the last line of a file."""
    return data[data.rfind(b"\n", 0, -1) + 1 :]


def missing_file(path: str, remedy: str = "bring it back from a copy") -> CorruptionError:
    """Return the error for a file that is not there."""
    return CorruptionError(f"{path!r} is missing; {remedy}", file=path)


def replaced_file(path: str, size: int) -> CorruptionError:
    """Return the error for a file that is not the one that was written."""
    return CorruptionError(
        f"{path!r} is another file than the snapshot names, which has {size:,} bytes; bring it "
        "back from a copy",
        file=path,
    )


def txn_prefix(log_id: str) -> str:
    """Return the characters with which the id of each commit to a log begins."""
    return log_id[:6]


def write_identity(identity: SessionIdentity) -> Steps[None]:
    """Store the identity of a session."""
    session, log_id, segment = identity
    line, _ = encode_line({"session": session, "log": log_id, "segment": segment}, 0)
    yield Write(SESSION, [line])


def read_identity() -> Steps[SessionIdentity | CorruptionError | None]:
    """Return the stored identity of a session: an error if it is damaged, None if it is missing."""
    try:
        data: bytes = yield Read(SESSION)
        fields, _ = decode_line(data.removesuffix(b"\n"), 0)
    except (FileNotFoundError, NotADirectoryError):
        # Who lists the log is told of a file in place of a folder.
        return None
    except CorruptionError as error:
        return CorruptionError(
            f"{SESSION!r} is damaged: {error}; the next save writes it anew", file=SESSION
        )
    match fields:
        case {"session": str(session), "log": str(log_id), "segment": int(segment)}:
            return SessionIdentity(session, log_id, segment)
    return CorruptionError(
        f"{SESSION!r} is no identity of a session; the next save writes it anew", file=SESSION
    )


def file_of_other_log(path: str) -> CorruptionError:
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
