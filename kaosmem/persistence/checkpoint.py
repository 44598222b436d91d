"""Shortening a session's log: snapshots, removal of old segments, merging of small ones."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise

from kaosmem.errors import ConflictError
from kaosmem.persistence.commit import check_last, check_same_log, look
from kaosmem.persistence.items import decode_items
from kaosmem.persistence.layout import (
    ARCHIVE,
    BLOB,
    INDEX,
    LOG,
    PURGE,
    QUARANTINE,
    SNAP,
    archive_file,
    blob_file,
    is_blob_until,
    log_file,
    numbers,
    segments,
    snapshot_file,
)
from kaosmem.persistence.steps import Delete, Discard, Draft, List, Lock, Publish, Read, Step, Steps, Sweep, Write
from kaosmem.persistence.tail import Head

ROLL_UP = 16
"""Segments of as many commits each that are rolled up into one: opening reads at most 15 of each power of 16."""


def store_snapshot(
    head: Head,
    seq: int,
    lines: Iterable[bytes],
    archived: Iterable[bytes] | None,
    *,
    sound: Collection[int],
    purged: int,
) -> Steps[bool]:
    """Store the state after record `seq` and what left it, and delete what that makes unneeded.

    Returns whether it is stored: not where a newer state is.
    archived: lines of a file, None for nothing. sound: other snapshots that were read or written whole.
    purged: up to where the writer knows of files deleted because something was to be forgotten.
    Raises ConflictError if the log is no longer the one that `head` is of.
    """
    if not (yield from _is_newest(head, seq)):
        return False
    files = {} if archived is None else {archive_file(seq): archived}
    drafts = []
    for path, each in {**files, snapshot_file(seq): lines}.items():
        drafts.append((path, (yield Draft(path, each))))
    yield Lock(create=False)
    try:
        is_newest = yield from _is_newest(head, seq)
    except (ConflictError, OSError):
        yield from (Discard(path, draft) for path, draft in drafts)
        raise
    if not is_newest:
        yield from (Discard(path, draft) for path, draft in drafts)
        return False
    failure = None
    try:
        yield from (Publish(path, draft) for path, draft in drafts)
    except OSError as error:  # they may be there all the same
        failure = error
    first_segments = segments((yield List(LOG)))
    snapshots = numbers((yield List(SNAP)))
    newest = max(snapshots, default=0)
    was_purged = newest > seq and (yield from _purged(newest)) > max(seq, purged)
    was_deleted = newest == seq and not any(first <= seq for first in first_segments)
    if was_purged or was_deleted:  # where nothing locks: what was just written must not come back
        yield Delete(snapshot_file(seq), at_once=True)
        yield Delete(archive_file(seq), at_once=True)
    if failure is not None:
        raise failure
    if was_purged or was_deleted:
        return False
    yield from plan_pruning(first_segments, snapshots, newest=seq, sound={*sound, seq})
    return True


def _is_newest(head: Head, seq: int) -> Steps[bool]:
    """Return whether a snapshot after record `seq` would be the newest. Raises ConflictError."""
    sight = yield from look(head)
    check_same_log(head, sight)
    return seq > max(sight.snapshots, default=0)


def purge(
    head: Head,
    lines: Iterable[bytes],
    archived: Iterable[bytes] | None,
    *,
    kept: Collection[str],
    locks: bool,
) -> Steps[None]:
    """Store the state after `head` as all that there is, and delete every older file, so that no byte is found again.

    archived: lines of one archive in the place of all. kept: names of the long texts that the lines need, once read.
    locks: whether a lock keeps other writers out. If not, a long text of a commit under way stays.
    Raises ConflictError if the log does not end at `head` any more.
    """
    yield Lock(create=False)
    check_last(head, (yield from look(head)))
    yield Write(PURGE, [b"unfinished"])
    if archived is not None:
        yield Write(archive_file(head.seq), archived)
    yield Write(snapshot_file(head.seq), lines)
    for seq in numbers((yield List(SNAP))):
        if seq < head.seq:
            yield Delete(snapshot_file(seq), at_once=True)
    for seq in numbers((yield List(ARCHIVE))):
        if seq < head.seq or (seq == head.seq and archived is None):
            yield Delete(archive_file(seq), at_once=True)
    for folder in (QUARANTINE, INDEX):  # after the snapshot: who stores an index looks for that afterwards
        for name in sorted((yield List(folder))):
            yield Delete(f"{folder}/{name}", at_once=True)
    for name in sorted((yield List(BLOB)) - {*kept}):
        yield Delete(blob_file(name), at_once=locks or is_blob_until(name, head.seq))
    for first in segments((yield List(LOG))):
        if first <= head.seq:
            # Where names alone keep writers apart, none may be free while one may still want it.
            yield Delete(log_file(first), at_once=True) if locks else _blank(first)
    if locks:
        for folder in (SNAP, ARCHIVE, QUARANTINE, INDEX, BLOB, LOG):
            yield Sweep(folder)
    yield Delete(PURGE, at_once=True)


def roll_up(commits: Sequence[tuple[int, int]]) -> Steps[tuple[int, int]]:
    """Store small segments as one, under the name of the first, and return its first record and number of commits.

    commits: of each segment, ascending, the seq of its first record and its number of commits.
    Raises FileNotFoundError where one is gone.
    """
    firsts = [first for first, _ in commits]
    lines: list[bytes] = []
    for first in firsts:
        part: bytes = yield Read(log_file(first))
        if not part or first > firsts[0] + len(lines):
            raise FileNotFoundError(log_file(first))
        # Another may have rolled up a part with what follows it, which is there already then.
        lines += part.removesuffix(b"\n").split(b"\n")[firsts[0] + len(lines) - first :]
    yield Write(log_file(firsts[0]), [b"\n".join([*lines, b""])])
    newest = max(numbers((yield List(SNAP))), default=0)
    if newest >= firsts[0] and (yield from _purged(newest)) >= firsts[0]:
        yield _blank(firsts[0])  # what was forgotten meanwhile must not come back
    elif not {*firsts} <= {*segments((yield List(LOG)))}:  # nor what was pruned
        yield Delete(log_file(firsts[0]), at_once=True)
    return firsts[0], sum(count for _, count in commits)


def segments_to_roll_up(commits: Sequence[tuple[int, int]]) -> int:
    """Return how many of the newest segments should become one, or 0; `commits` as in `roll_up`."""
    newest = [count for _, count in commits[-ROLL_UP:]]
    return ROLL_UP if len(newest) == ROLL_UP and len(set(newest)) == 1 else 0


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


def _blank(first: int) -> Write:
    return Write(log_file(first), [b""])


def _purged(snapshot: int) -> Steps[int]:
    """Return what `purged_by` does, 0 for a snapshot that is gone."""
    try:
        return (yield from purged_by(snapshot))
    except FileNotFoundError:
        return 0


def purged_by(snapshot: int) -> Steps[int]:
    """Return up to where a snapshot says that older files were deleted, 0 where it does not say.

    Raises FileNotFoundError, CorruptionError.
    """
    path = snapshot_file(snapshot)
    return decode_items((yield Read(path)), path).purged
