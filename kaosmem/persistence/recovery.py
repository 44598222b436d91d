"""Reading a session's stored state: its newest sound snapshot, and the log after it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from kaosmem.errors import ConflictError, CorruptionError
from kaosmem.persistence.files.items import ItemFile, Stored, decode_items
from kaosmem.persistence.files.manifest import (
    ListedArchive,
    SessionIdentity,
    check_archives,
    file_of_other_log,
    missing_file,
    other_id,
    read_identity,
)
from kaosmem.persistence.files.records import (
    FORMAT_VERSION,
    REMEDY,
    LogHead,
    Record,
    SegmentTail,
    damage_at,
    read_tail,
    torn_tail,
    unknown_version,
)
from kaosmem.persistence.layout import (
    LOCK,
    LOG,
    PURGE,
    SESSION,
    list_archives,
    list_snapshots,
    log_file,
    numbers,
    segments,
    snapshot_file,
)
from kaosmem.persistence.steps import List, Read, ReadNote, Steps
from kaosmem.types import JSONObject

MAX_READ_ATTEMPTS = 10
_GONE = "bring it back from a copy, or delete the session"


@dataclass(frozen=True)
class Recovered:
    """The state that opening a session found, with the fields that a writer needs.

    Attributes:
        head: Where the log ends.
        header, items: Of the newest sound snapshot: the caller's state, and (section, data) in
            stored order, plain items not decoded; None and empty without one.
        records: Committed after that snapshot.
        damage: The faults and their consequences, with a tail torn by a crash among them.
        is_partial: It is the intact part of a damaged session. Items or records may be lost.
        torn: Bytes at the log's end to be cut at the next commit, in segment `head.segment` after
            `head.size`.
        segments: The segments read, each the seq of its first record and its number of commits.
        snapshot: Seq of the snapshot used, 0 for none, and its size.
        log_bytes: Of the records after it.
        purged: As that snapshot says it.
        has_leftovers: Files from before that record are there still.
        txns: Ids of the commits since the snapshot, and of those that it names.
        archives: The archive files that belong to the session, oldest first; None where no snapshot
            tells.
        named: The segment that the stored identity of the session names, 0 without one.
    """

    head: LogHead
    header: JSONObject | None = field(default=None, repr=False)
    items: list[tuple[str, Stored]] = field(default_factory=list, repr=False)
    records: list[Record] = field(default_factory=list)
    damage: list[CorruptionError] = field(default_factory=list)
    is_partial: bool = False
    torn: bytes = field(default=b"", repr=False)
    segments: tuple[tuple[int, int], ...] = ()
    snapshot: int = 0
    snapshot_bytes: int = 0
    log_bytes: int = 0
    purged: int = 0
    has_leftovers: bool = False
    txns: frozenset[str] = frozenset()
    archives: tuple[ListedArchive, ...] | None = ()
    named: int = 0


def recover(session: str = "") -> Steps[Recovered]:
    """Return the state of a session.

    Look again as long as other writers move its files meanwhile.

    Raises CorruptionError, UnsupportedVersionError and ConflictError.

    Args:
        session: The id that it is opened under; without it, the session of the files is not
            checked.
    """
    seen = None
    told: list[str] = []
    for _ in range(MAX_READ_ATTEMPTS):
        # First the note and the identity, which are stored after their records, and then the log: a
        # snapshot listed after it cannot lack the log that follows it.
        noted = None
        identity = None
        if session:
            noted = yield ReadNote()
            identity = yield from read_identity()
        log = yield List(LOG)
        snapshots = yield from list_snapshots()
        try:
            recovered = yield from _recovered(log, snapshots, identity)
            if not session:
                return recovered
            yield from _check_own(recovered, session, identity, max(numbers(log), default=0))
            _check_noted(recovered.head, noted)
        except (CorruptionError, FileNotFoundError):
            if seen == (log, snapshots):
                raise
            seen = log, snapshots
            continue
        damage = list(map(str, recovered.damage))
        # Another writer may have stored a missing file since; a torn tail alone is believed at
        # once.
        believed = 1 if recovered.torn else 0
        if len(damage) <= believed or damage == told:
            return recovered
        told = damage
        del recovered  # or two states would be in memory
    raise changed_meanwhile()


def recover_since(head: LogHead) -> Steps[Recovered]:
    """Return the commits after `head`, without a snapshot.

    Raises CorruptionError if the log lacks them.
    """
    log = yield List(LOG)
    snapshots = yield from list_snapshots()
    walk = _SegmentReader(head)
    yield from walk.run(log, snapshots)
    return walk.recovered


def _recovered(
    log: Collection[str],
    snapshots: Sequence[int],
    identity: SessionIdentity | CorruptionError | None,
) -> Steps[Recovered]:
    damage: list[CorruptionError] = []
    log_id = ""
    named = 0
    if isinstance(identity, SessionIdentity):
        log_id = identity.log_id
        named = identity.segment
    base, snapshot_bytes = yield from _newest_snapshot(snapshots, log_id, damage)
    walk = _SegmentReader(LogHead(base.seq, base.crc, txns=base.txns, log_id=base.log_id))
    try:
        yield from walk.run(log, snapshots)
    except CorruptionError as error:
        raise _with(error, damage) from error
    head = walk.head
    if log_id and head.log_id not in ("", log_id):
        if walk.firsts:
            raise file_of_other_log(log_file(walk.firsts[0]))
        raise file_of_other_log(snapshot_file(base.seq))
    if walk.torn:
        damage.append(torn_tail(log_file(head.segment), head.size, head.seq + 1, len(walk.torn)))
    gone = yield from check_archives(base.archives)
    if gone:
        raise _with(gone[0], [*gone[1:], *damage])
    has_leftovers = bool(base.purged) and (yield from is_purge_unfinished())
    found = walk.recovered
    return replace(
        found,
        header=base.header if snapshot_bytes else None,
        items=base.items,
        damage=damage,
        snapshot=base.seq,
        snapshot_bytes=snapshot_bytes,
        purged=base.purged,
        has_leftovers=has_leftovers,
        txns=found.txns.union(base.txns),
        archives=base.archives,
        named=named,
    )


def archives_after_purge(
    purged: int, known: Sequence[ListedArchive]
) -> Steps[Sequence[ListedArchive] | None]:
    """Return the archives of the newest snapshot if others have deleted known ones, else None.

    Raises ConflictError if others move the snapshots each time that they are read.

    Args:
        purged: Up to which record files are known to be deleted. Two writers may have done that up
            to the same record.
    """
    for _ in range(MAX_READ_ATTEMPTS):
        try:
            snapshots = yield from list_snapshots()
            newest, _ = yield from _newest_snapshot(snapshots, "", [])
        except FileNotFoundError:
            # Another has deleted it since it was listed, and stored a newer one.
            continue
        before = [each.path for each in known if each.seq <= purged]
        after = [each.path for each in newest.archives if each.seq <= purged]
        is_purged_again = newest.purged == purged > 0 and before != after
        if newest.purged > purged or is_purged_again:
            return newest.archives
        return None
    raise changed_meanwhile()


def read_snapshot(seq: int) -> Steps[ItemFile]:
    """Return the snapshot of a record. Raises FileNotFoundError, CorruptionError."""
    path = snapshot_file(seq)
    return decode_items((yield Read(path)), path)


def is_purge_unfinished() -> Steps[bool]:
    """Return whether files may be left that a forgetting should have deleted."""
    try:
        yield Read(PURGE)
    except FileNotFoundError:
        return False
    return True


def changed_meanwhile() -> ConflictError:
    """Return the error for a session whose files others move each time that it is read."""
    return ConflictError(
        f"other writers changed the session {MAX_READ_ATTEMPTS} times while it was read; "
        "open it again"
    )


class _SegmentReader:
    """The segments read in order, from a known record on."""

    def __init__(self, head: LogHead) -> None:
        self.firsts: Sequence[int] = ()
        self.head = head
        self.records: list[Record] = []
        self.torn = b""
        self.met_blank = False
        self.commits: dict[int, int] = {}
        self.log_bytes = 0

    @property
    def recovered(self) -> Recovered:
        """Return what was read."""
        return Recovered(
            self.head,
            records=self.records,
            torn=self.torn,
            segments=tuple(self.commits.items()),
            log_bytes=self.log_bytes,
            txns=frozenset(record.txn for record in self.records),
        )

    def run(self, log: Collection[str], snapshots: Sequence[int]) -> Steps[None]:
        """Read the segments until the log ends.

        Args:
            log: The names of the files in the log.
            snapshots: Those that were listed after it.

        Raises:
            CorruptionError: If the log is damaged, or does not reach the newest snapshot.
            FileNotFoundError: If a later snapshot has emptied a segment since it was listed.
        """
        self.firsts = numbers(log)
        yield from self._read_segments(max(snapshots, default=0))
        segments(log)
        _check_reaches(self.head.seq, snapshots)
        if self.met_blank and (yield from list_snapshots()) != snapshots:
            raise FileNotFoundError(log_file(self.head.segment))

    def _read_segments(self, newest_snapshot: int) -> Steps[None]:
        while segment := self._next():
            path = log_file(segment)
            data = yield Read(path)
            self.met_blank |= not data and segment == self.head.seq + 1
            known = self.head.seq + 1 - segment
            start, last = _skip_lines(data, known)
            if known > 0 and start == last and self.head.seq > newest_snapshot:
                # Only what a snapshot holds is deleted. A writer may take back a commit that
                # failed, after others have read it.
                raise damage_at("records that were here are gone", path, start, self.head.seq)
            # Without a new commit, the last one begins where it did: it may have to be written
            # again.
            began = self.head.began if segment == self.head.segment else start
            begin = self.head._replace(segment=segment, size=start, last=last, began=began)
            tail = read_tail(data[start:], begin, start=start, path=path)
            self.records += tail.records
            self.head = tail.head
            self.torn = tail.torn
            self.commits[segment] = tail.commits
            self.log_bytes += self.head.size - start
            if begin.seq == 0:
                _check_first(tail)
            if tail.fault:
                raise tail.fault
            if self.torn and self.firsts[-1] > max(self.head.seq, segment):
                self.torn = b""
                raise damage_at("a commit is incomplete", path, self.head.size, self.head.seq + 1)

    def _next(self) -> int:
        """Return the segment to read for the next record, 0 at the log's end.

        Segments that begin before it repeat records of another segment: they were rolled up.
        """
        wanted = self.head.seq + 1
        following = bisect_right(self.firsts, wanted)
        nearest = self.firsts[following - 1] if following else 0
        if nearest and nearest not in self.commits and (nearest == wanted or not self.commits):
            return nearest
        if following == len(self.firsts):
            return 0
        if not self.records:
            for first in reversed(self.firsts[:following]):
                if first not in self.commits:
                    return first
        path = log_file(self.firsts[following])
        raise CorruptionError(
            f"there is a gap in the log: record {wanted} is in no file, {path!r} comes next; "
            f"bring back the missing file from a copy; {REMEDY}",
            file=path,
            byte=0,
            seq=wanted,
        )


def _with(error: CorruptionError, damage: Sequence[CorruptionError]) -> CorruptionError:
    """Return the error with other damage that led to it."""
    message = "; ".join(map(str, (error, *damage)))
    return CorruptionError(message, file=error.file, byte=error.byte, seq=error.seq)


def _newest_snapshot(
    snapshots: Sequence[int],
    log_id: str,
    damage: list[CorruptionError],
) -> Steps[tuple[ItemFile, int]]:
    """Return the newest sound snapshot and its size, an empty one and 0 without one."""
    for seq in reversed(snapshots):
        path = snapshot_file(seq)
        data = yield Read(path)
        try:
            found = decode_items(data, path)
            if found.seq != seq:
                raise CorruptionError(f"{path!r} is the snapshot of record {found.seq}")
            if log_id not in ("", found.log_id):
                raise file_of_other_log(path)
            return found, len(data)
        except CorruptionError as error:
            message = f"{error}; the snapshot before and more of the log are used"
            damage.append(CorruptionError(message, file=path, byte=error.byte))
    return ItemFile(0), 0


def _check_own(
    recovered: Recovered,
    session: str,
    identity: SessionIdentity | CorruptionError | None,
    newest: int,
) -> Steps[None]:
    """Raise CorruptionError for another session's files, a lost end, or a lost session's remains.

    Enter faults of the identity alone in the damage. newest: the last segment of the log.
    """
    head = recovered.head
    damage = recovered.damage
    # Only an erasure deletes the last segment. A snapshot may hold its first commits, and not its
    # newest.
    segment = 0
    if isinstance(identity, SessionIdentity) and identity.session == session:
        segment = identity.segment
    if head.seq < segment or max(newest, recovered.purged) < segment:
        raise missing_file(log_file(segment), f"or its commits are; {_GONE}")
    if head.seq == 0:
        archives = yield from list_archives()
        if archives:
            path = archives[0][1]
            raise CorruptionError(
                f"{path!r} is here, but neither a log nor a snapshot; {_GONE}", file=path
            )
        return
    if isinstance(identity, SessionIdentity):
        if identity.session != session:
            raise other_id(identity.session, session)
    elif isinstance(identity, CorruptionError):
        damage.append(identity)
    elif recovered.snapshot or len(head.txns) > 1:
        # Else its writer may have been killed before it stored it.
        damage.append(missing_file(SESSION, "the next save writes it anew"))


def _check_noted(head: LogHead, noted: tuple[int, int] | None) -> None:
    """Raise CorruptionError if the log lacks the record that a writer noted, or has another."""
    if noted is None or head.seq > noted[0] or (head.seq, head.crc) == noted:
        return
    seq = min(head.seq + 1, noted[0])
    if seq == noted[0]:
        lost = f"record {seq}, which was"
    else:
        lost = f"records {seq} to {noted[0]}, which were"
    path = log_file(head.segment or 1)
    raise CorruptionError(
        f"{path!r} is an older copy, or was cut: it lacks {lost} saved, as {LOCK!r} notes; bring "
        "back the newest file, "
        f"or empty the file {LOCK!r} to go on without what is lost; {REMEDY}",
        file=path,
        byte=head.size,
        seq=seq,
    )


def _check_reaches(seq: int, snapshots: Sequence[int]) -> None:
    """Raise unless the records read reach at least as far as the newest snapshot, sound or not."""
    if snapshots and seq < snapshots[-1]:
        path = snapshot_file(snapshots[-1])
        raise CorruptionError(
            f"records {seq + 1} to {snapshots[-1]} are in no sound file; bring back {path!r} or "
            "the log from a copy; "
            f"{REMEDY}",
            file=path,
            seq=seq + 1,
        )


def _check_first(tail: SegmentTail) -> None:
    """Raise unless the log begins as a log of kaosmem in a known version."""
    if tail.records:
        check_version(tail.records[0])
    elif tail.torn[:1] not in (b"", b"{", b"\0"):
        raise _no_session()


def check_version(record: Record) -> None:
    """Raise UnsupportedVersionError for a record that states a newer version of the format.

    Raises CorruptionError for the first record of a log if it states none.
    """
    if record.section and record.seq > 1:
        return
    version = record.data.get("version")
    if type(version) is not int or version < 1:
        if record.seq == 1:
            raise _no_session()
    elif version > FORMAT_VERSION:
        raise unknown_version(version)


def _no_session() -> CorruptionError:
    """Return the error for a log that does not begin as one of kaosmem."""
    return CorruptionError(
        f"{log_file(1)!r} does not begin with the version of its format, so it is no kaosmem "
        "session",
        file=log_file(1),
        byte=0,
        seq=1,
    )


def _skip_lines(data: bytes, count: int) -> tuple[int, int]:
    """Return where the first line after `count` lines begins, and where the last of those did."""
    start = last = 0
    for _ in range(count):
        end = data.find(b"\n", start) + 1
        if not end:
            return len(data), len(data)
        start, last = end, start
    return start, last
