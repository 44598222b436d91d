"""Commits to the log: the own ones, those of others, and the part since the last snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from kaosmem.errors import ConflictError, CorruptionError
from kaosmem.persistence.files.manifest import SessionIdentity, write_identity
from kaosmem.persistence.files.records import TXNS_KEPT, Commit, LogHead, Record, read_tail
from kaosmem.persistence.layout import list_segments, list_snapshots, log_file
from kaosmem.persistence.recovery import Recovered, recover, recover_since
from kaosmem.persistence.steps import (
    Append,
    Create,
    Delete,
    Lock,
    Read,
    Step,
    Steps,
    Sync,
    TakenError,
    Truncate,
)


class LogView(NamedTuple):
    """A writer's view of the log.

    Attributes:
        segments, snapshots: Listed, ascending.
        tail: Bytes of segment `head.segment` from `head.last` on.
    """

    segments: Sequence[int] = ()
    snapshots: Sequence[int] = ()
    tail: bytes = b""


class LogChanges(NamedTuple):
    """The commits of others since a handle read the log.

    Attributes:
        recovered: All commits since then, or the whole session.
        is_whole: Whether it is the whole session.
        records: The records of others, None if the log no longer reaches back to where the handle
            was.
        is_settled: The handle's own commit, of which it does not know, is there.
    """

    recovered: Recovered
    is_whole: bool
    records: list[Record] | None
    is_settled: bool


def append(
    head: LogHead,
    commit: Commit,
    identity: SessionIdentity | None = None,
    *,
    snapshot: int,
) -> Steps[LogHead]:
    """Add a commit to the end of the log, and return where that is then.

    Raises ConflictError if the log no longer ends at `head`, CorruptionError if it ends in damage.

    Args:
        identity: The identity of the session, if it is to be stored before the commit.
        snapshot: The newest that is known; a segment that begins before it is not gone on with.
    """
    yield Lock(create=head.seq == 0)
    view, cuts = yield from read_log_end(head, snapshot=snapshot)
    if identity is not None:
        yield from write_identity(identity)
    yield from cuts
    if _is_followed(head, view) or head.segment <= max(view.snapshots, default=0):
        if head.segment in view.segments:
            # A writer may have been killed before its commit was durable. The commit must not be
            # missing before the next segment.
            yield Sync(log_file(head.segment), head.began)
        head = head.before(head.seq + 1)
    after = _after(head, commit, head.size + len(commit.data))
    last = after.seq, after.crc
    yield Append(log_file(head.segment), head.size, commit.data, head.began, last)
    return after


def create(
    head: LogHead,
    torn: bytes,
    commit: Commit,
    identity: SessionIdentity | None = None,
    *,
    look_first: bool,
) -> Steps[LogHead]:
    """Store a commit as a segment of its own, and return where the log ends then.

    The name of the segment is the compare-and-swap: the first writer that creates it has the next
    record.
    Raises ConflictError if another was first, or the session was deleted meanwhile.

    Args:
        torn: The bytes that were found after the head in its segment.
        identity: As for `append`.
        look_first: So much time has passed that the name may have been taken and be free again.
    """
    if look_first:
        check_unmoved(head, (yield from read_log_view(head)))
    if identity is not None:
        yield from write_identity(identity)
    if torn:
        yield _cut(head)
    path = log_file(head.seq + 1)
    try:
        yield Create(path, commit.data)
    except TakenError:
        raise conflict(head) from None
    if not (yield from _is_still_there(head)):
        yield Delete(path, at_once=True)
        raise _replaced()
    head = head._replace(segment=head.seq + 1)
    return _after(head, commit, len(commit.data))


def _is_still_there(head: LogHead) -> Steps[bool]:
    """Return whether the record before a commit is still stored.

    Only storage without locks needs it: a deletion may come between.
    """
    if not head.seq:
        return True
    if head.size:
        try:
            before: bytes = yield Read(log_file(head.segment), head.last)
        except FileNotFoundError:
            return False
        if before:  # else it is blank, as something was forgotten
            return _is_last(before, head)
    segments = yield from list_segments()
    if segments and segments[0] <= head.seq:
        return True
    return head.seq in (yield from list_snapshots())


def catch_up(
    head: LogHead,
    unsettled: Commit | None,
    *,
    whole: bool = False,
) -> Steps[LogChanges]:
    """Return the commits after `head`.

    Raises ConflictError if the log is no longer the one that `head` is of, or has so much in it
    that nobody can tell whether the unsettled commit is there.

    Args:
        unsettled: A commit that may or may not have reached the log.
        whole: Read the whole session.
    """
    txn = "" if unsettled is None else unsettled.txn
    recovered = None
    try:
        if whole:
            recovered = yield from recover()
        check_same_log(head, (yield from read_log_view(head)))
        since = yield from recover_since(head)
    except (ConflictError, CorruptionError, FileNotFoundError):
        # Forgotten or pruned away, or truly damaged.
        return (yield from _read_anew(head, txn))
    if recovered is None:
        recovered = since
    after = [record for record in since.records if record.seq <= recovered.head.seq]
    others = [record for record in after if record.txn != txn]
    return LogChanges(recovered, whole, others, len(others) < len(after))


def _read_anew(head: LogHead, txn: str) -> Steps[LogChanges]:
    """Return the whole session, where the log no longer reaches back to `head`.

    Raises as `catch_up`.

    Args:
        txn: The id of the unsettled commit, "" without one.
    """
    state = yield from recover()
    if head.seq and (state.head.log_id != head.log_id or state.head.seq < head.seq):
        raise _replaced() from None
    is_settled = txn in state.head.txns
    if txn and not is_settled and head.txns and head.txns[-1] not in state.head.txns:
        raise ConflictError(
            f"others have made {TXNS_KEPT} commits or more since this one failed, and nobody can "
            "tell whether it took effect; open the session again and look"
        ) from None
    return LogChanges(state, True, None, is_settled)


def settle(head: LogHead, unnamed: SessionIdentity | None) -> Steps[None]:
    """Make the log durable up to `head`, where commits are appended.

    The records that were read may be in a cache alone.

    Args:
        unnamed: The identity of the session if the stored one does not name the last segment.
    """
    yield Lock(create=False)
    with suppress(FileNotFoundError):  # then all is in a snapshot
        yield Sync(log_file(head.segment), head.began)
    if unnamed is not None:
        yield from write_identity(unnamed)


def read_log_view(head: LogHead, *, snapshot: int | None = None) -> Steps[LogView]:
    """Return the changes that another writer may have made.

    Args:
        snapshot: The newest that is known, if others do not matter as long as the log ends in the
            segment of `head`.
    """
    segments = yield from list_segments()
    if snapshot is not None and segments and segments[-1] == head.segment:
        snapshots = [snapshot]
    else:
        snapshots = yield from list_snapshots()
    tail = b""
    if head.segment in segments:
        tail = yield Read(log_file(head.segment), head.last)
    return LogView(segments, snapshots, tail)


def read_log_end(
    head: LogHead, *, snapshot: int | None = None
) -> Steps[tuple[LogView, list[Step]]]:
    """Return the view of a log that ends at `head`, and the steps that cut torn remains after that.

    Raises ConflictError if the log goes on after `head`, CorruptionError if it ends in damage.
    """
    view = yield from read_log_view(head, snapshot=snapshot)
    check_unmoved(head, view)
    cuts = _cut_torn(head, view.tail[head.size - head.last :])
    if _is_followed(head, view):  # its writer may have been killed in its first commit
        following = head.before(head.seq + 1)
        cuts += _cut_torn(following, (yield Read(log_file(following.segment))))
    return view, cuts


def _is_followed(head: LogHead, view: LogView) -> bool:
    """Return whether another segment begins after the last record."""
    return head.segment != head.seq + 1 and head.seq + 1 in view.segments


def check_same_log(head: LogHead, view: LogView) -> None:
    """Raise ConflictError if the log of `head` was deleted, as far as can be seen."""
    if not head.seq:
        return
    is_same = head.segment in view.segments
    if head.size:
        is_same &= _is_last(view.tail, head)
    else:  # a snapshot holds all that it is of, or a segment was just begun
        is_same |= head.seq in view.snapshots
    if not is_same:
        raise _replaced()


def check_unmoved(head: LogHead, view: LogView) -> None:
    """Raise ConflictError if the log goes on after `head`, as far as names tell."""
    check_same_log(head, view)
    if max(view.segments, default=0) > head.seq + 1 or max(view.snapshots, default=0) > head.seq:
        raise conflict(head)


def conflict(head: LogHead) -> ConflictError:
    """Return the error for a log that goes on after `head`."""
    return ConflictError(
        f"another writer has committed after record {head.seq}, so nothing was written; "
        "open the session again and repeat the change"
    )


def _is_last(line: bytes, head: LogHead) -> bool:
    """Return whether the bytes at `head.last` begin as the last record does."""
    return head.last == head.size or line.startswith(b'{"crc":"%08x",' % head.crc)


def _replaced() -> ConflictError:
    """Return the error for a session that is no longer the one that was read."""
    return ConflictError(
        "the session was deleted, replaced or shortened since it was read, so nothing was written; "
        "open it again"
    )


def _cut_torn(head: LogHead, beyond: bytes) -> list[Step]:
    """Return the steps that leave nothing after the last record in its segment.

    Raises ConflictError for a commit there, CorruptionError for damage.
    """
    if not beyond:
        return []
    tail = read_tail(beyond, head, start=head.size, path=log_file(head.segment))
    if tail.records:
        raise conflict(head)
    if tail.fault:
        raise tail.fault
    return [_cut(head)]


def _cut(head: LogHead) -> Step:
    """Return the step that cuts a segment after its last record."""
    return Truncate(log_file(head.segment), head.size)


def _after(
    head: LogHead,
    commit: Commit,
    size: int,
) -> LogHead:
    """Return the end of the log after a commit, which makes its segment `size` bytes long."""
    return LogHead(
        seq=head.seq + len(commit.lines),
        crc=commit.crc,
        segment=head.segment,
        size=size,
        last=size - len(commit.lines[-1]),
        began=size - len(commit.data),
        txns=(*head.txns, commit.txn)[-TXNS_KEPT:],
        log_id=head.log_id or commit.txn,
    )


class LogEnd(NamedTuple):
    """The end of a log at some time.

    Attributes:
        head: Where it was.
        log_bytes: The log since the snapshot before, up to there.
    """

    head: LogHead
    log_bytes: int


class LogSinceSnapshot:
    """The part of a log since its last snapshot. It grows with each commit, and a snapshot cuts it.

    Attributes:
        start: The record that this handle knows the log from.
        snapshot_bytes, log_bytes: Of the last snapshot, and of the records after it.
        sound: The two newest snapshots that were read or written whole.
        segments: Each the seq of its first record and its number of commits.
        txns: The ids of all known commits. The log has more.
    """

    def __init__(self, recovered: Recovered) -> None:
        self.start = recovered.head.seq
        self.snapshot_bytes = recovered.snapshot_bytes
        self.log_bytes = recovered.log_bytes
        self.sound = {recovered.snapshot} - {0}
        self.segments = list(recovered.segments)
        self.txns = set(recovered.txns)

    def follow(self, recovered: Recovered) -> None:
        """Note the later commits of others."""
        self.log_bytes += recovered.log_bytes
        self.txns |= recovered.txns
        known = {first for first, _ in self.segments}
        for segment in recovered.segments:
            if segment[0] not in known:
                self.segments.append(segment)

    def cut(self, at: LogEnd, *, snapshot_bytes: int) -> None:
        """Note that the state at an earlier end of the log is stored."""
        seq = at.head.seq
        self.start = seq
        self.sound = set(sorted(self.sound | {seq})[-2:])
        self.snapshot_bytes = snapshot_bytes
        self.log_bytes -= at.log_bytes
        self.segments = [(first, count) for first, count in self.segments if first > seq]

    def begin_anew(self, head: LogHead, *, snapshot_bytes: int) -> None:
        """Note that only the state at `head` is stored."""
        self.sound = set()
        self.cut(LogEnd(head, self.log_bytes), snapshot_bytes=snapshot_bytes)
        self.segments = []
