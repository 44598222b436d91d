"""Files derived from the log: snapshots, joined segments, stored indexes.

A snapshot lets older files go.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any
from zlib import crc32

from kaosmem.errors import ConflictError, CorruptionError
from kaosmem.persistence.commit import LogView, check_same_log, read_log_end, read_log_view
from kaosmem.persistence.files.archive import NewArchive
from kaosmem.persistence.files.lines import decode_line, encode_line
from kaosmem.persistence.files.records import LogHead
from kaosmem.persistence.layout import (
    ARCHIVE,
    INDEX,
    LOG,
    PURGE,
    SNAP,
    archive_file,
    index_files,
    list_archives,
    list_segments,
    list_snapshots,
    log_file,
    snapshot_file,
)
from kaosmem.persistence.recovery import read_snapshot
from kaosmem.persistence.steps import (
    Delete,
    DeleteLeftovers,
    Draft,
    List,
    Lock,
    Publish,
    Read,
    Step,
    Steps,
    Write,
)
from kaosmem.types import JSONDict, JSONObject

ROLL_UP = 16
"""As many segments of about the same size are rolled up into one.

Opening reads at most 15 of each power of 16.
"""


def store_snapshot(
    head: LogHead,
    seq: int,
    lines: Iterable[bytes],
    archive: NewArchive,
    *,
    sound: Collection[int],
    purged: int,
) -> Steps[bool]:
    """Store the state after record `seq` and what left it. Delete the files that it replaces.

    Returns whether it is stored: not where a newer state is.
    Raises ConflictError if the log is no longer the one that `head` is of.

    Args:
        archive: It is read before the lines, which name it.
        sound: Other snapshots that were read or written whole.
        purged: Up to where the writer knows of files deleted because something was to be forgotten.
    """
    view = yield from _view(head)
    if seq <= max(view.snapshots, default=0):
        return False
    before = _sound_before(seq, sound, view.snapshots)
    drafts = []
    if not archive.is_empty:
        drafts.append((yield from _drafted(archive, seq)))
    path = snapshot_file(seq)
    drafts.append((path, (yield Draft(path, lines))))
    yield Lock(create=False)
    snapshots = (yield from _view(head)).snapshots
    if seq <= max(snapshots, default=0) or (before and before not in snapshots):
        return False
    failure = yield from _publish(drafts)
    segments = yield from list_segments()
    snapshots = yield from list_snapshots()
    newest = max(snapshots, default=0)
    was_purged = newest > seq and (yield from _purged(newest)) > max(seq, purged)
    was_deleted = newest == seq and min(segments, default=seq + 1) > seq
    if was_purged or was_deleted:  # where nothing locks: what was just written must not come back
        for path, _ in reversed(drafts):
            yield Delete(path, at_once=True)
    if failure is not None:
        raise failure
    if was_purged or was_deleted:
        return False
    yield from plan_pruning(segments, snapshots, newest=seq, sound={*sound, seq})
    return True


def _publish(drafts: Iterable[tuple[str, Any]]) -> Steps[OSError | None]:
    """Publish drafts. Return the error of the storage: they may be there all the same."""
    try:
        yield from (Publish(path, draft) for path, draft in drafts)
    except OSError as error:
        return error
    return None


def _drafted(archive: NewArchive, seq: int) -> Steps[tuple[str, Any]]:
    """Prepare an archive file, and return its path, which its bytes decide, and the draft."""
    draft = yield Draft(archive_file(seq, 0), archive)
    (listed,) = archive.listed
    return listed.path, draft


def _view(head: LogHead) -> Steps[LogView]:
    """Return the present view of the log.

    Raises ConflictError if it is another log than that of `head`.
    """
    view = yield from read_log_view(head)
    check_same_log(head, view)
    return view


def purge(
    head: LogHead,
    lines: Iterable[bytes],
    archive: NewArchive,
    *,
    locks: bool,
) -> Steps[None]:
    """Store the state after `head` alone, and delete every older file.

    No byte of what was forgotten is found again.

    Args:
        archive: The one archive in the place of all, read before the lines.
        locks: Whether a lock keeps other writers out.

    Raises:
        ConflictError: If the log no longer ends at `head`.
    """
    yield Lock(create=False)
    yield from read_log_end(head)
    yield Write(PURGE, [b"unfinished"])
    own = ""
    if not archive.is_empty:
        own, draft = yield from _drafted(archive, head.seq)
        yield Publish(own, draft)
    yield Write(snapshot_file(head.seq), lines)
    for seq in (yield from list_snapshots()):
        if seq < head.seq:
            yield Delete(snapshot_file(seq), at_once=True)
    for seq, path in (yield from list_archives()):
        # Where nothing locks, another may purge at the same record, and its snapshot may come last.
        if seq < head.seq or (locks and seq == head.seq and path != own):
            yield Delete(path, at_once=True)
    # After the snapshot: a writer that stores an index looks for that afterwards.
    for name in sorted((yield List(INDEX))):
        yield Delete(f"{INDEX}/{name}", at_once=True)
    for first in (yield from list_segments()):
        if first <= head.seq:
            # Where names alone keep writers apart, none may be free while one may still want it.
            yield Delete(log_file(first), at_once=True) if locks else _blank(first)
    if locks:
        for folder in (SNAP, ARCHIVE, INDEX, LOG):
            yield DeleteLeftovers(folder)
    yield Delete(PURGE, at_once=True)


def roll_up(commits: Sequence[tuple[int, int]]) -> Steps[tuple[int, int]]:
    """Store small segments as one under the name of the first.

    Return its first record and number of commits.

    Raises FileNotFoundError where one is gone.

    Args:
        commits: Of each segment, ascending, the seq of its first record and its number of commits.
    """
    firsts = [first for first, _ in commits]
    begin = firsts[0]
    lines: list[bytes] = []
    for first in firsts:
        part: bytes = yield Read(log_file(first))
        known = begin + len(lines) - first
        if not part or known < 0:
            raise FileNotFoundError(log_file(first))
        # Another may have rolled up a part with what follows it, which is there already then.
        lines += part.removesuffix(b"\n").split(b"\n")[known:]
    whole = b"\n".join(lines) + b"\n"
    yield Write(log_file(begin), [whole])
    newest = max((yield from list_snapshots()), default=0)
    if newest >= begin and (yield from _purged(newest)) >= begin:
        yield _blank(begin)  # what was forgotten meanwhile must not come back
    elif not set(firsts).issubset((yield from list_segments())):  # nor what was pruned
        yield Delete(log_file(begin), at_once=True)
    return begin, sum(count for _, count in commits)


def segments_to_roll_up(commits: Sequence[tuple[int, int]]) -> int:
    """Return how many of the newest segments should become one, or 0; `commits` as in `roll_up`."""
    newest = [count for _, count in commits[-ROLL_UP:]]
    if len(newest) == ROLL_UP and len(set(newest)) == 1:
        return ROLL_UP
    return 0


def plan_pruning(
    segments: Sequence[int],
    snapshots: Sequence[int],
    *,
    newest: int,
    sound: Iterable[int],
) -> list[Step]:
    """Return the steps that delete the files that the two newest sound snapshots replace.

    Snapshots go first: one without its log could not be told from damage.

    Args:
        sound: Snapshots that were read or written whole; without one before `newest` everything
            stays.
    """
    before = _sound_before(newest, sound, snapshots)
    if not before:
        return []
    unneeded = [snapshot_file(seq) for seq in snapshots if seq < newest and seq != before]
    for first, following in pairwise(segments):
        if following <= before + 1:
            unneeded.append(log_file(first))
    return [Delete(path) for path in unneeded]


def _sound_before(newest: int, sound: Iterable[int], snapshots: Container[int]) -> int:
    """Return the newest stored snapshot before another that was read or written whole, else 0."""
    return max((seq for seq in sound if seq < newest and seq in snapshots), default=0)


def erase(paths: Iterable[str]) -> Steps[None]:
    """Delete files at once. A segment of the log is left blank, so that its name stays taken."""
    for path in paths:
        if path.startswith(f"{LOG}/"):
            yield Write(path, [b""])
        else:
            yield Delete(path, at_once=True)


def _blank(first: int) -> Write:
    """Return the step that leaves a segment blank."""
    return Write(log_file(first), [b""])


def _purged(snapshot: int) -> Steps[int]:
    """Return up to where a snapshot says that older files were deleted, 0 if it is gone.

    Raises CorruptionError.
    """
    try:
        return (yield from read_snapshot(snapshot)).purged
    except FileNotFoundError:
        return 0


VERSION = 1
_CRC_BYTES = 4


def encode_index(
    path: str,
    header: JSONObject,
    chunks: Iterable[bytes],
    *,
    ranker: str = "",
) -> Iterator[bytes]:
    """Yield an index file: a line that describes it, the index, and the checksum of both.

    Args:
        path: Its path, which states its section and commit.
        ranker: Name of the ranker that made the index.
    """
    line, crc = encode_line({"index": VERSION, "path": path, "ranker": ranker, "d": header}, 0)
    yield line
    for chunk in chunks:
        crc = crc32(chunk, crc)
        yield chunk
    yield crc.to_bytes(_CRC_BYTES, "little")


def decode_index(data: bytes, path: str, *, ranker: str = "") -> tuple[JSONDict, memoryview]:
    """Return the header of an index file and the index.

    Raises CorruptionError for any other file.
    """
    end = data.find(b"\n")
    fields, crc = decode_line(data[: max(0, end)], 0)
    header = fields.pop("d", None)
    fields.pop("crc")
    if fields != {"index": VERSION, "path": path, "ranker": ranker} or type(header) is not dict:
        raise CorruptionError("it is another index")
    index = memoryview(data)[end + 1 : -_CRC_BYTES]
    stated = data[-_CRC_BYTES:]
    is_long_enough = end + _CRC_BYTES < len(data)
    if not is_long_enough or crc32(index, crc).to_bytes(_CRC_BYTES, "little") != stated:
        raise CorruptionError("the checksum does not fit")
    return header, index


def read_index(
    section: str,
    txns: Container[str],
    ranker: str,
    *,
    since: int,
) -> Steps[tuple[JSONDict, memoryview] | None]:
    """Return the header and bytes of a section's newest index by a ranker, None without one.

    Args:
        txns: The ids of the known commits. The log may have been cut back since another was made.
        since: The record before which everything was deleted, as something was forgotten.
    """
    for seq, txn, path in reversed(index_files((yield List(INDEX)), section)):
        if txn in txns and seq >= since:
            with suppress(CorruptionError, FileNotFoundError):
                return decode_index((yield Read(path)), path, ranker=ranker)
    return None


def indexed_commits() -> Steps[set[str]]:
    """Return the ids of the commits that index files are of."""
    return {txn for _, txn, _ in index_files((yield List(INDEX)))}


def store_index(
    head: LogHead,
    section: str,
    path: str,
    chunks: Iterable[bytes],
    *,
    seq: int,
    sound: Collection[int],
) -> Steps[bool]:
    """Store an index of a section after record `seq`. Delete the older ones.

    Returns whether it is stored: not beside a snapshot that the writer does not know. Something may
    have been forgotten before that, whose words the index may hold.
    Raises ConflictError if the log is no longer the one that `head` is of.

    Args:
        sound: Snapshots that were read or written whole.
    """
    draft = yield Draft(path, chunks)
    yield Lock(create=False)
    if not (yield from _is_welcome(head, path, sound)):
        return False
    failure = yield from _publish([(path, draft)])
    is_welcome = yield from _is_welcome(head, path, sound)  # where nothing locks
    if failure is not None:
        raise failure
    if is_welcome:
        for older, _, each in index_files((yield List(INDEX)), section):
            if older < seq:
                yield Delete(each, at_once=True)
    return is_welcome


def _is_welcome(
    head: LogHead,
    path: str,
    sound: Collection[int],
) -> Steps[bool]:
    """Return whether an index may be stored. If not, delete the file at its path.

    Raises ConflictError.
    """
    try:
        view = yield from _view(head)
    except (ConflictError, OSError):
        yield Delete(path, at_once=True)
        raise
    # Another writer may have forgotten something before its snapshot, which is not read here.
    is_known = max(view.snapshots, default=0) in (0, *sound)
    if not is_known:
        yield Delete(path, at_once=True)
    return is_known
