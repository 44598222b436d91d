"""Paths of a session's files, relative to its folder."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kaosmem.errors import CorruptionError
from kaosmem.names import path_of

LOG, SNAP, ARCHIVE, QUARANTINE, BLOB, LOCK = "log", "snap", "archive", "quarantine", "blob", "lock"
INDEX = "index"
"""What ranks, which can be made anew: not in `snap/`, which is looked at to tell whether a session has changed."""

PURGE = "purge"
"""There while what was forgotten is deleted from the files."""

FOLDERS = (SNAP, LOG, ARCHIVE, QUARANTINE, BLOB, INDEX)

_NUMBERED = re.compile(r"([0-9]{20})\.jsonl")
_INDEX = re.compile(r"(.+)-([0-9]{20})\.bin")


def log_file(seq: int) -> str:
    """Return the segment whose first record is number `seq`."""
    return f"{LOG}/{seq:020d}.jsonl"


def snapshot_file(seq: int) -> str:
    """Return the snapshot of the state after record `seq`."""
    return f"{SNAP}/{seq:020d}.jsonl"


def archive_file(seq: int) -> str:
    """Return the items evicted or replaced up to record `seq`, since the snapshot before."""
    return f"{ARCHIVE}/{seq:020d}.jsonl"


def quarantine_file(segment: int, start: int, crc: int) -> str:
    """Return where bytes cut from a segment go: named by what they are, so that a retry writes the same file."""
    return f"{QUARANTINE}/{segment:020d}-{start}-{crc:08x}"


def blob_file(name: str) -> str:
    """Return where a long text is kept."""
    return f"{BLOB}/{name}"


def index_file(section: str, seq: int) -> str:
    """Return the index of a section as it was after record `seq`."""
    return f"{INDEX}/{path_of(section)}-{seq:020d}.bin"


def index_numbers(names: Iterable[str], section: str | None = None) -> list[int]:
    """Return the records that the index files of a section, or of all, are of, ascending."""
    found = (match for name in names if (match := _INDEX.fullmatch(name)))
    return sorted(int(match[2]) for match in found if section is None or match[1] == path_of(section))


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
            f"{LOG + '/' + foreign!r} is not a segment of a session log; move it elsewhere, or open another session",
            file=f"{LOG}/{foreign}",
        )
    return sorted(found)


def _number(name: str) -> int:
    match = _NUMBERED.fullmatch(name)
    return int(match[1]) if match else 0
