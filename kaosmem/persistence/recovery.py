"""What a session's stored bytes say: which records are committed, where a tail is torn, what is damaged."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kaosmem.errors import ConflictError, CorruptionError, UnsupportedVersionError
from kaosmem.names import shown
from kaosmem.persistence.blobs import fill
from kaosmem.persistence.items import ItemFile, decode_items
from kaosmem.persistence.layout import LOG, PURGE, SNAP, log_file, numbers, segments, snapshot_file
from kaosmem.persistence.records import FORMAT_VERSION, Record, claimed_txn, decode_records
from kaosmem.persistence.steps import List, Read, Steps
from kaosmem.types import JSONValue

TXNS_KEPT = 64
REMEDY = "read_only=True opens what is intact, `kaosmem repair` rescues it into a new session, a copy brings back all"
LOOKS = 10


@dataclass(frozen=True, slots=True)
class Head:
    """Where the log ends.

    seq, crc: of the last committed record.
    segment: the segment that a next record would follow in, by the seq of its first record; 0 for none.
    size: that segment's bytes up to the end of the last committed record.
    last: where the line of that record begins in it; `size` if it stands elsewhere.
    whole: the record has its newline.
    txns: ids of the newest commits, oldest first.
    log_id: the id of the session's first commit, which tells it from another under the same name.
    """

    seq: int = 0
    crc: int = 0
    segment: int = 0
    size: int = 0
    last: int = 0
    whole: bool = True
    txns: tuple[str, ...] = ()
    log_id: str = ""


@dataclass(frozen=True, slots=True)
class Tail:
    """What stands after a known record in a segment.

    records: the committed ones.
    head: the log's end with them.
    torn: bytes of a commit that was never finished.
    fault: damage that no crash explains; what stands after it is in neither.
    """

    records: list[Record]
    head: Head
    torn: bytes = field(default=b"", repr=False)
    fault: CorruptionError | None = None

    @property
    def commits(self) -> int:
        """Return how many commits the records are."""
        return sum(record.k == 0 for record in self.records)


@dataclass(frozen=True)
class Recovered:
    """What opening a session found.

    header, items: of the newest sound snapshot: the caller's state, and (section, data) in stored order;
    None and empty without one.
    records: committed after that snapshot.
    damage: what is damaged, and what that costs; a tail that a crash has torn is among it.
    is_partial: it is not all there is, or ever was: `records` has gaps, or stand for themselves. parts: what is intact
    of snapshots that are newer than `header` and `items`, each of which stands after the record of its number.
    """

    header: dict[str, JSONValue] | None = field(default=None, repr=False)
    items: list[tuple[str, dict[str, JSONValue]]] = field(default_factory=list, repr=False)
    records: list[Record] = field(default_factory=list)
    damage: list[CorruptionError] = field(default_factory=list)
    parts: list[ItemFile] = field(default_factory=list, repr=False)
    is_partial: bool = False


@dataclass(frozen=True, slots=True)
class Recovery:
    """What opening a session found, with what a writer needs to go on.

    torn: bytes at the log's end to be cut at the next commit, in segment `head.segment` after `head.size`.
    segments: the segments read, each the seq of its first record and its number of commits.
    snapshot: seq of the snapshot used, 0 for none, and its size; log_bytes: of the records after it.
    purged: as that snapshot says it. has_leftovers: files from before that record are there still.
    names: by SHA-256, the names of long texts in what was read.
    """

    recovered: Recovered
    head: Head
    torn: bytes
    segments: tuple[tuple[int, int], ...]
    snapshot: int
    snapshot_bytes: int
    log_bytes: int
    purged: int
    has_leftovers: bool
    names: Mapping[str, str]


def read_tail(data: bytes, head: Head, *, start: int, path: str) -> Tail:
    """Return what `data`, the bytes of segment `head.segment` from `start` on, adds to `head`.

    A commit is torn if no newline follows what is there of it, or if bytes that were never written (NULs) stand
    before that newline, and nothing of another commit comes after. A last line whole but for its newline is a
    record. Source: the design's section on recovery.
    """
    lines = data.split(b"\n")
    records: list[Record] = []
    committed = 0  # how many of them are of whole commits
    seq, crc, offset = head.seq, head.crc, start
    end = None
    txns = deque(head.txns, TXNS_KEPT)
    fault = None
    decoded = decode_records(lines[:-1], seq=seq + 1, crc=crc)
    for index, line in enumerate(lines):
        is_rest = index == len(lines) - 1
        if is_rest:
            line = line[: line.rfind(b"}") + 1]
            if not line:
                break
            decoded = decode_records((line,), seq=seq + 1, crc=crc)
        try:
            record, next_crc = next(decoded)
            if len(records) > committed:
                _check_follows(record, records[-1])
        except CorruptionError as error:
            if not is_rest and not is_torn(line, lines[index + 1 :], records[committed:]):
                fault = located(str(error), path, offset, seq + 1)
            break
        seq, crc = record.seq, next_crc
        last, offset = offset, offset + len(line) + (not is_rest)
        records.append(record)
        if record.k == 0:
            committed = len(records)
            txns.append(record.txn)
            end = seq, crc, offset, last, not is_rest
    if end is not None:
        seq, crc, offset, last, is_whole = end
        log_id = head.log_id or records[0].txn
        head = Head(seq, crc, head.segment, offset, last, is_whole, tuple(txns), log_id)
    del records[committed:]
    return Tail(records, head, torn=b"" if fault else data[head.size - start :], fault=fault)


def recover() -> Steps[Recovery]:
    """Return the state of a session, looked for again as long as other writers move its files meanwhile.

    Raises CorruptionError, UnsupportedVersionError and ConflictError.
    """
    seen = None
    for _ in range(LOOKS):
        # The log first: a snapshot listed after it cannot lack the log that follows it.
        log = yield List(LOG)
        snapshots = numbers((yield List(SNAP)))
        try:
            return (yield from _recovery(log, snapshots))
        except (CorruptionError, FileNotFoundError):
            if seen == (log, snapshots):
                raise
            seen = log, snapshots
    raise ConflictError(f"other writers changed the session {LOOKS} times while it was read; open it again")


def recover_since(head: Head) -> Steps[Recovery]:
    """Return what was committed after `head`, without a snapshot. Raises CorruptionError where the log lacks it."""
    log = yield List(LOG)
    snapshots = numbers((yield List(SNAP)))
    walk = _Walk(head)
    yield from walk.run(numbers(log))
    segments(log)
    _check_reaches(walk.head.seq, snapshots)
    yield from _check_blank(walk, snapshots)
    return (yield from _found(walk, None, 0, Recovered(records=walk.records)))


def _recovery(log: Collection[str], snapshots: Sequence[int]) -> Steps[Recovery]:
    damage: list[CorruptionError] = []
    base, snapshot_bytes = yield from _newest_snapshot(snapshots, damage)
    walk = _Walk(Head(base.seq, base.crc, txns=base.txns, log_id=base.log_id) if base else Head())
    try:
        yield from walk.run(numbers(log))
        segments(log)
        _check_reaches(walk.head.seq, snapshots)
    except CorruptionError as error:
        raise _with(error, damage) from error
    yield from _check_blank(walk, snapshots)
    if walk.torn:
        head = walk.head
        damage.append(torn_tail(log_file(head.segment), head.size, head.seq + 1, len(walk.torn)))
    recovered = Recovered(base.header if base else None, base.items if base else [], walk.records, damage)
    return (yield from _found(walk, base, snapshot_bytes, recovered))


def _check_blank(walk: _Walk, snapshots: Sequence[int]) -> Steps[None]:
    """Raise FileNotFoundError if a segment was empty because of a snapshot stored since it was listed."""
    if walk.met_blank and numbers((yield List(SNAP))) != [*snapshots]:
        raise FileNotFoundError(log_file(walk.head.segment))


def _found(walk: _Walk, base: ItemFile | None, snapshot_bytes: int, recovered: Recovered) -> Steps[Recovery]:
    """Return a recovery, its long texts in their places."""
    lacking = list(base.lacking) if base else []
    lacking += ((record.data, record.blobs) for record in walk.records if record.blobs)
    for data, blobs in lacking:
        yield from fill(data, blobs)
    purged = base.purged if base else 0
    has_leftovers = bool(purged) and (yield from _is_there(PURGE))
    return Recovery(
        recovered,
        walk.head,
        walk.torn,
        tuple(walk.commits.items()),
        base.seq if base else 0,
        snapshot_bytes,
        walk.log_bytes,
        purged,
        has_leftovers,
        {blob.sha256: blob.name for _, blobs in lacking for blob in blobs},
    )


def _is_there(path: str) -> Steps[bool]:
    try:
        yield Read(path)
    except FileNotFoundError:
        return False
    return True


def torn_tail(path: str, byte: int, seq: int, size: int) -> CorruptionError:
    """Return what is to be said of a commit that was never finished."""
    return CorruptionError(
        f"{path!r} ends in {size} bytes of an unfinished commit, which are left out", file=path, byte=byte, seq=seq
    )


def located(reason: str, path: str, byte: int, seq: int) -> CorruptionError:
    """Return the error for damage at a place in the log."""
    return CorruptionError(
        f"{path!r} is damaged at byte {byte}, record {seq}: {reason}; {REMEDY}",
        file=path,
        byte=byte,
        seq=seq,
    )


class _Walk:
    """The segments read in order, from a known record on."""

    def __init__(self, head: Head) -> None:
        self.firsts: Sequence[int] = ()
        self.head = head
        self.records: list[Record] = []
        self.torn = b""
        self.met_blank = False
        self.commits: dict[int, int] = {}
        self.log_bytes = 0

    def run(self, firsts: Sequence[int]) -> Steps[None]:
        """Read these segments until the log ends. Raises CorruptionError; what was read before it stands."""
        self.firsts = firsts
        while (segment := self._next()) is not None:
            path = log_file(segment)
            data = yield Read(path)
            self.met_blank |= not data and segment == self.head.seq + 1
            start, last = _skip_lines(data, self.head.seq + 1 - segment)
            begin = replace(self.head, segment=segment, size=start, last=last, whole=True)
            tail = read_tail(data[start:], begin, start=start, path=path)
            self.records += tail.records
            self.head, self.torn = tail.head, tail.torn
            self.commits[segment] = tail.commits
            self.log_bytes += self.head.size - start
            if begin.seq == 0:
                _check_first(tail)
            if tail.fault:
                raise tail.fault
            if self.torn and self.firsts[-1] > max(self.head.seq, segment):
                self.torn = b""
                raise located("a commit is incomplete", path, self.head.size, self.head.seq + 1)

    def _next(self) -> int | None:
        """Return the segment to read for the next record, or None at the log's end.

        Segments that begin before it hold what another holds too: they were rolled up.
        """
        wanted = self.head.seq + 1
        following = bisect_right(self.firsts, wanted)
        nearest = self.firsts[following - 1] if following else 0
        if nearest and nearest not in self.commits and (nearest == wanted or not self.commits):
            return nearest
        if following == len(self.firsts):
            return None
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


def _newest_snapshot(snapshots: Sequence[int], damage: list[CorruptionError]) -> Steps[tuple[ItemFile | None, int]]:
    for seq in reversed(snapshots):
        path = snapshot_file(seq)
        data = yield Read(path)
        try:
            found = decode_items(data, path)
            if found.seq != seq:
                raise CorruptionError(f"{path!r} is the snapshot of record {found.seq}")
            return found, len(data)
        except CorruptionError as error:
            message = f"{error}; the snapshot before and more of the log are used"
            damage.append(CorruptionError(message, file=path, byte=error.byte))
    return None, 0


def _check_reaches(seq: int, snapshots: Sequence[int]) -> None:
    """Raise unless what was read reaches at least as far as the newest snapshot, sound or not, did."""
    if snapshots and seq < snapshots[-1]:
        path = snapshot_file(snapshots[-1])
        raise CorruptionError(
            f"records {seq + 1} to {snapshots[-1]} are in no sound file; bring back {path!r} or the log from a copy; "
            f"{REMEDY}",
            file=path,
            seq=seq + 1,
        )


def _check_first(tail: Tail) -> None:
    """Raise unless the log begins as one of ours, in a version that is known here."""
    if tail.records:
        check_version(tail.records[0])
    elif tail.torn[:1] not in (b"", b"{", b"\0"):
        raise _no_session()


def check_version(record: Record) -> None:
    """Raise UnsupportedVersionError for a record that states a newer version of the format.

    Raises CorruptionError for the first record of a log if it states none.
    """
    version = record.data.get("version") if not record.section or record.seq == 1 else FORMAT_VERSION
    if type(version) is not int or version < 1:
        if record.seq == 1:
            raise _no_session()
    elif version > FORMAT_VERSION:
        raise UnsupportedVersionError(
            f"the session was stored in version {shown(version)} of its format, and {FORMAT_VERSION} is the newest "
            "known here; open it with a newer kaosmem"
        )


def _no_session() -> CorruptionError:
    return CorruptionError(
        f"{log_file(1)!r} does not begin with the version of its format, so it is no kaosmem session",
        file=log_file(1),
        byte=0,
        seq=1,
    )


def _check_follows(record: Record, before: Record) -> None:
    """Raise unless a record is the next of the commit that the one before has begun."""
    if (record.k, record.txn) != (before.k - 1, before.txn):
        raise CorruptionError(f"another commit begins before {shown(before.txn)} is complete")


def is_torn(line: bytes, after: Sequence[bytes], unfinished: Sequence[Record]) -> bool:
    """Return whether a crash while one commit was being written explains a bad line with a newline.

    What a crash leaves unwritten reads as NULs, in whole sectors; a lone NUL elsewhere is a damaged byte.
    """
    if not line.startswith(b"\0") and b"\0\0" not in line:
        return False
    txns = {record.txn for record in unfinished}
    txns.update(txn for other in after if (txn := claimed_txn(other)) is not None)
    return len(txns) <= 1


def _skip_lines(data: bytes, count: int) -> tuple[int, int]:
    """Return where the first line after `count` lines begins, and where the last of those did."""
    start = last = 0
    for _ in range(count):
        end = data.find(b"\n", start) + 1
        if not end:
            return len(data), len(data)
        start, last = end, start
    return start, last
