"""Paths of a session's files, relative to its folder."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable

from kaosmem.errors import CorruptionError
from kaosmem.names import path_of

LOG, SNAP, ARCHIVE, QUARANTINE, BLOB, LOCK = "log", "snap", "archive", "quarantine", "blob", "lock"
INDEX = "index"
"""Indexes, which can be made anew.

They are not in `snap/`, which tells whether a session has changed.
"""

SESSION = "session.json"
"""Which session the folder is of."""

PURGE = "purge"
"""There while what was forgotten is deleted from the files."""

FOLDERS = (SNAP, LOG, ARCHIVE, QUARANTINE, BLOB, INDEX)

OWN = (*FOLDERS, LOCK, SESSION, PURGE)
"""The names of everything in a session's folder."""

_ARCHIVE = re.compile(r"([0-9]{20})-[0-9a-f]{8}\.jsonl")
_NUMBERED = re.compile(r"([0-9]{20})\.jsonl")
_BLOB = re.compile(r"([0-9]{1,19})-[0-9A-Za-z]+-[0-9]+")
_INDEX = re.compile(r"(.+)-([0-9]{20})\.bin")
_CUT = re.compile(r"([0-9]{20})-[0-9]+-[0-9a-f]{8}")

_STATES = {SNAP: _NUMBERED, ARCHIVE: _ARCHIVE, INDEX: _INDEX}
"""Names of files with the state after a record. The number of the record is their last group."""

_RECORDS = {LOG: _NUMBERED, QUARANTINE: _CUT, BLOB: _BLOB}
"""Names of files with a record and, in the log, the records after it."""


def log_file(seq: int) -> str:
    """Return the segment whose first record is number `seq`."""
    return f"{LOG}/{seq:020d}.jsonl"


def snapshot_file(seq: int) -> str:
    """Return the snapshot of the state after record `seq`."""
    return f"{SNAP}/{seq:020d}.jsonl"


def archive_file(seq: int, crc: int) -> str:
    """Return the items evicted or replaced up to record `seq`, since the snapshot before.

    crc: checksum of its last line. Two writers that archive up to one record write two files.
    """
    return f"{ARCHIVE}/{seq:020d}-{crc:08x}.jsonl"


def archive_files(names: Iterable[str]) -> list[tuple[int, str]]:
    """Return the record and the path of each archive file among `names`, ascending."""
    found = (match for name in names if (match := _ARCHIVE.fullmatch(name)))
    return sorted((int(match[1]), f"{ARCHIVE}/{match[0]}") for match in found)


def quarantine_file(segment: int, start: int, crc: int) -> str:
    """Return the path for bytes cut from a segment.

    Their digest is in it, so that a retry writes the same file.
    """
    return f"{QUARANTINE}/{segment:020d}-{start}-{crc:08x}"


def blob_name(seq: int, txn: str, number: int) -> str:
    """Return the name of a long text of a commit. seq: number of the commit's first record."""
    return f"{seq}-{txn}-{number}"


def blob_order(name: str) -> tuple[int, str]:
    """Return what sorts the names of long texts by their commits."""
    match = _BLOB.fullmatch(name)
    return int(match[1]) if match else 0, name


def is_blob_until(name: str, seq: int) -> bool:
    """Return whether a long text is of a commit whose first record has a number up to `seq`.

    Once record `seq` is in the log, such a commit is in the log too, or can never come to it.
    """
    match = _BLOB.fullmatch(name)
    return match is not None and int(match[1]) <= seq


def blob_file(name: str) -> str:
    """Return where a long text is kept."""
    return f"{BLOB}/{name}"


def index_file(section: str, seq: int) -> str:
    """Return the path of the index of a section after record `seq`."""
    return f"{INDEX}/{path_of(section)}-{seq:020d}.bin"


def index_numbers(names: Iterable[str], section: str | None = None) -> list[int]:
    """Return the records of index files, ascending: those of a section, or all."""
    wanted = None if section is None else path_of(section)
    found = (match for name in names if (match := _INDEX.fullmatch(name)))
    return sorted(int(match[2]) for match in found if wanted in (None, match[1]))


def older_files(paths: Iterable[str], record: int, referenced: Container[str]) -> list[str]:
    """Return the files from before an erasure at a record, which deletes them.

    paths: of the session's files that are not blank; a blank segment keeps its name taken.
        referenced: the names of
    the long texts that are still needed.
    """
    return [path for path in sorted(paths) if _is_older(path, record, referenced)]


def _is_older(path: str, record: int, referenced: Container[str]) -> bool:
    folder, _, name = path.partition("/")
    if match := folder in _STATES and _STATES[folder].fullmatch(name):
        return int(match[match.re.groups]) < record
    if match := folder in _RECORDS and _RECORDS[folder].fullmatch(name):
        return int(match[1]) <= record and name not in referenced
    return False


def numbers(names: Iterable[str]) -> list[int]:
    """Return the numbers of the numbered files among `names`, ascending."""
    return sorted(number for name in names if (number := _number(name)))


def segments(names: Iterable[str]) -> list[int]:
    """Return the seq of the first record of each segment of the log, ascending.

    names: of the files in the log. Raises CorruptionError for one that is no segment.
    """
    found = {_number(name): name for name in sorted(names, reverse=True)}
    if foreign := found.get(0):
        raise CorruptionError(
            f"{LOG + '/' + foreign!r} is not a segment of a session log; move it elsewhere, or "
            "open another session",
            file=f"{LOG}/{foreign}",
        )
    return sorted(found)


def _number(name: str) -> int:
    match = _NUMBERED.fullmatch(name)
    return int(match[1]) if match else 0
