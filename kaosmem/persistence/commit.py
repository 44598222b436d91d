"""What a commit, a snapshot's pruning and a roll-up do to a session's files, decided without I/O.

Each decision is a list of steps that a storage performs in order, each durable before the next begins; a crash
between or within them leaves what `recovery` reads as the state before or after the commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias
from zlib import crc32

from kaosmem.errors import ConflictError
from kaosmem.persistence.layout import log_file, quarantine_file, snapshot_file
from kaosmem.persistence.records import Commit
from kaosmem.persistence.recovery import TXNS_KEPT, Head, read_tail

ROLL_UP = 16
"""Segments of as many commits each that are rolled up into one: opening reads at most 15 of each power of 16."""


class TakenError(Exception):
    """A file was to be created under a name that is taken."""


@dataclass(frozen=True, slots=True)
class Append:
    """Add `data` at byte `size`, the end of the file, with one write; a size of 0 makes the file."""

    path: str
    size: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Create:
    """Store a file if nothing is stored under its path."""

    path: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Write:
    """Store a whole file, in place of what is there: all of it or nothing."""

    path: str
    chunks: Iterable[bytes]


@dataclass(frozen=True, slots=True)
class Truncate:
    """Cut a file to its first `size` bytes; a file that would be empty may go."""

    path: str
    size: int


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a file that is no longer needed, now or later."""

    path: str


Step: TypeAlias = Append | Create | Write | Truncate | Delete


@dataclass(frozen=True, slots=True)
class Sight:
    """What a writer that holds the lock sees.

    segments, snapshots: listed, ascending.
    tail: bytes of segment `head.segment` from `head.last` on.
    following: bytes of segment `head.seq + 1`, if that is another and exists.
    """

    segments: Sequence[int] = ()
    snapshots: Sequence[int] = ()
    tail: bytes = b""
    following: bytes = b""


def plan_append(head: Head, sight: Sight, commit: Commit) -> tuple[list[Step], Head]:
    """Return the steps that append `commit` to the log, and the head after them.

    Raises ConflictError if the log does not end at `head` any more, CorruptionError if it ends in damage.
    """
    check_unmoved(head, sight)
    head, steps = _cut_tail(head, sight.tail[head.size - head.last :])
    if head.seq + 1 in sight.segments and head.segment != head.seq + 1:
        head = replace(head, segment=head.seq + 1, size=0, last=0, whole=True)
        head, cut = _cut_tail(head, sight.following)
        steps += cut
    elif head.segment <= max(sight.snapshots, default=0):
        head = replace(head, segment=head.seq + 1, size=0, last=0, whole=True)
    data = commit.data if head.whole else b"\n" + commit.data
    steps.append(Append(log_file(head.segment), head.size, data))
    return steps, _after(head, commit, head.size + len(data))


def plan_create(head: Head, torn: bytes, commit: Commit) -> tuple[list[Step], Head]:
    """Return the steps that store `commit` as a segment of its own, and the head after them.

    torn: what recovery found after the head in its segment. The name of the segment is the compare-and-swap:
    whoever creates it first has the next record.
    """
    steps = _cut(head, torn) if torn else []
    head = replace(head, segment=head.seq + 1)
    steps.append(Create(log_file(head.segment), commit.data))
    return steps, _after(head, commit, len(commit.data))


def plan_pruning(segments: Sequence[int], snapshots: Sequence[int], *, newest: int, sound: Iterable[int]) -> list[Step]:
    """Return the steps that delete what the snapshot `newest` and the sound one before it make unneeded.

    sound: snapshots that were read or written whole; without one before `newest` everything stays.
    Snapshots go first: one without its log could not be told from damage.
    """
    before = max((seq for seq in sound if seq < newest and seq in snapshots), default=0)
    if not before:
        return []
    unneeded = [first for first, following in pairwise(segments) if following <= before + 1]
    return [
        *(Delete(snapshot_file(seq)) for seq in snapshots if seq < newest and seq != before),
        *(Delete(log_file(first)) for first in unneeded),
    ]


def segments_to_roll_up(commits: Sequence[tuple[int, int]]) -> int:
    """Return how many of the newest segments should become one, or 0.

    commits: for each segment, ascending, the seq of its first record and its number of commits.
    """
    newest = [count for _, count in commits[-ROLL_UP:]]
    return ROLL_UP if len(newest) == ROLL_UP and len(set(newest)) == 1 else 0


def check_same_log(head: Head, sight: Sight) -> None:
    """Raise ConflictError if the log that `head` is of is not there any more."""
    gone = head.size > 0 and head.segment not in sight.segments
    if gone or (head.last < head.size and not sight.tail.startswith(b'{"crc":"%08x",' % head.crc)):
        raise ConflictError(
            "the session was deleted or replaced since it was read, so nothing was written; open it again"
        )


def check_unmoved(head: Head, sight: Sight) -> None:
    """Raise ConflictError if the log goes on after `head`, as far as names tell."""
    check_same_log(head, sight)
    if max(sight.segments, default=0) > head.seq + 1:
        raise conflict(head)


def conflict(head: Head) -> ConflictError:
    """Return the error for a log that goes on after `head`."""
    return ConflictError(
        f"another writer has committed after record {head.seq}, so nothing was written; "
        "open the session again and repeat the change"
    )


def _cut_tail(head: Head, beyond: bytes) -> tuple[Head, list[Step]]:
    """Return the head and the steps that leave nothing after it. Raises ConflictError for another's commit."""
    if not head.whole and beyond.startswith(b"\n"):
        head, beyond = replace(head, size=head.size + 1, whole=True), beyond[1:]
    tail = read_tail(beyond, head, start=head.size, path=log_file(head.segment))
    if tail.records:
        raise conflict(head)
    if tail.fault:
        raise tail.fault
    return head, _cut(head, tail.torn) if tail.torn else []


def _cut(head: Head, torn: bytes) -> list[Step]:
    return [
        Write(quarantine_file(head.segment, head.size, crc32(torn)), [torn]),
        Truncate(log_file(head.segment), head.size),
    ]


def _after(head: Head, commit: Commit, size: int) -> Head:
    return Head(
        seq=head.seq + len(commit.lines),
        crc=commit.crc,
        segment=head.segment,
        size=size,
        last=size - len(commit.lines[-1]),
        txns=(*head.txns, commit.txn)[-TXNS_KEPT:],
    )
