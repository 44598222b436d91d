"""Paths of a session's files, relative to its folder, and the steps that list them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kaosmem.errors import CorruptionError
from kaosmem.names import path_of
from kaosmem.persistence.steps import List, Steps

LOG = "log"
SNAP = "snap"
ARCHIVE = "archive"
LOCK = "lock"
INDEX = "index"
"""Indexes, which can be made anew.

They are not in `snap/`, which tells whether a session has changed.
"""

SESSION = "session.json"
"""Which session the folder is of."""

PURGE = "purge"
"""There while what was forgotten is deleted from the files."""

FOLDERS = (SNAP, LOG, ARCHIVE, INDEX)

OWN = (*FOLDERS, LOCK, SESSION, PURGE)
"""The names of everything in a session's folder."""

_ARCHIVE = re.compile(r"([0-9]{20})-[0-9a-f]{8}\.jsonl")
_NUMBERED = re.compile(r"([0-9]{20})\.jsonl")
_INDEX = re.compile(r"(.+)-([0-9a-f]+)-([0-9]{20})\.bin")

_STATES = {SNAP: _NUMBERED, ARCHIVE: _ARCHIVE, INDEX: _INDEX}
"""Names of files with the state after a record. The number of the record is their last group."""


def log_file(seq: int) -> str:
    """Return the segment whose first record is number `seq`."""
    return f"{LOG}/{seq:020d}.jsonl"


def snapshot_file(seq: int) -> str:
    """Return the snapshot of the state after record `seq`."""
    return f"{SNAP}/{seq:020d}.jsonl"


def archive_file(seq: int, crc: int) -> str:
    """Return the items evicted or replaced up to record `seq`, since the snapshot before.

    Args:
        crc: Checksum of its last line. Two writers that archive up to one record write two files.
    """
    return f"{ARCHIVE}/{seq:020d}-{crc:08x}.jsonl"


def list_archives() -> Steps[list[tuple[int, str]]]:
    """Return the record and the path of each stored archive file, ascending."""
    found = []
    for name in (yield List(ARCHIVE)):
        match = _ARCHIVE.fullmatch(name)
        if match is not None:
            found.append((int(match[1]), f"{ARCHIVE}/{name}"))
    return sorted(found)


def list_snapshots() -> Steps[list[int]]:
    """Return the record of each stored snapshot, ascending."""
    return numbers((yield List(SNAP)))


def list_segments() -> Steps[list[int]]:
    """Return the stored segments of the log as `segments` does."""
    return segments((yield List(LOG)))


def index_file(section: str, seq: int, txn: str) -> str:
    """Return the path of the index of a section after record `seq`, the last of commit `txn`."""
    return f"{INDEX}/{path_of(section)}-{txn}-{seq:020d}.bin"


def index_files(names: Iterable[str], section: str | None = None) -> list[tuple[int, str, str]]:
    """Return the record, the commit and the path of index files, ascending.

    Args:
        section: The section that they are of; None for all.
    """
    wanted = None if section is None else path_of(section)
    found = []
    for name in names:
        match = _INDEX.fullmatch(name)
        if match is not None and wanted in (None, match[1]):
            found.append((int(match[3]), match[2], f"{INDEX}/{name}"))
    return sorted(found)


def foreign_name(names: Iterable[str]) -> str | None:
    """Return the first name in a session's folder that is not kaosmem's, or None.

    Dot files belong to others.
    """
    for name in sorted(names):
        if name not in OWN and not name.startswith("."):
            return name
    return None


def older_files(paths: Iterable[str], record: int) -> list[str]:
    """Return the files from before an erasure at a record, which deletes them.

    Args:
        paths: The session's files that are not blank. A blank segment keeps its name taken.
    """
    return sorted(path for path in paths if _is_older(path, record))


def _is_older(path: str, record: int) -> bool:
    """Return whether a file is from before an erasure at a record."""
    folder, _, name = path.partition("/")
    if folder in _STATES:
        match = _STATES[folder].fullmatch(name)
        return match is not None and int(match[match.re.groups]) < record
    return folder == LOG and 0 < _number(name) <= record


def numbers(names: Iterable[str]) -> list[int]:
    """Return the numbers of the numbered files among `names`, ascending."""
    found = set(map(_number, names))
    found.discard(0)
    return sorted(found)


def segments(names: Iterable[str]) -> list[int]:
    """Return the seq of the first record of each segment of the log, ascending.

    Args:
        names: Of the files in the log. Raises CorruptionError for one that is no segment.
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
    """Return the number of a numbered file, 0 for any other."""
    match = _NUMBERED.fullmatch(name)
    if match is None:
        return 0
    return int(match[1])
