"""Records of the log, one change a line: commits, and the remains of a crash at the end."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kaosmem.errors import CorruptionError, UnsupportedVersionError
from kaosmem.names import shown
from kaosmem.persistence.files.lines import decode_line, encode_line, parse_object, split_lines
from kaosmem.types import JSONDict, JSONObject

FORMAT_VERSION = 1

_STATED = "seq", "k", "txn", "sec", "op", "d"
_KINDS = int, int, str, str, str, dict
_FIELDS = frozenset({"crc", *_STATED})


@dataclass(frozen=True, slots=True)
class Change:
    """A change that a caller wants to be logged.

    Attributes:
        section: "" for the session itself.
        op: The caller's word for the change.
    """

    section: str
    op: str
    data: JSONObject = field(repr=False)


class Record(NamedTuple):
    """A change as committed: a tuple, since one is made of each line of a log that is read.

    Attributes:
        seq: Its place in the session, from 1, without gaps.
        k: The records still to come in its commit.
        txn: The id of its commit.
    """

    seq: int
    k: int
    txn: str
    section: str
    op: str
    data: JSONDict

    def __repr__(self) -> str:
        # Without its data, which are content.
        return f"Record(seq={self.seq}, k={self.k}, txn={self.txn!r}, section={self.section!r}, op={self.op!r})"


@dataclass(frozen=True, slots=True)
class Commit:
    """Changes encoded to follow one record: their lines, and the checksum of the last."""

    txn: str
    lines: tuple[bytes, ...] = field(repr=False)
    crc: int

    @property
    def data(self) -> bytes:
        """Return the bytes to store."""
        return b"".join(self.lines)


def encode_commit(
    changes: Sequence[Change],
    txn: str,
    *,
    seq: int,
    crc: int,
) -> Commit:
    """Return the lines of `changes`, as the records after number `seq`, whose checksum is `crc`.

    Raises InvalidArgumentError for data that could not be read back.
    """
    lines: list[bytes] = []
    for number, change in enumerate(changes, 1):
        fields: dict[str, Any] = {
            "seq": seq + number,
            "k": len(changes) - number,
            "txn": txn,
            "sec": change.section,
            "op": change.op,
            "d": change.data,
        }
        line, crc = encode_line(fields, crc)
        lines.append(line)
    return Commit(txn, tuple(lines), crc)


def decode_record(
    line: bytes,
    *,
    seq: int,
    crc: int,
) -> tuple[Record, int]:
    """Return the record of a line without its newline, and its checksum.

    Raises CorruptionError, or UnsupportedVersionError for a whole record with fields that are not
    known here.

    Args:
        seq: The number that the record must have.
        crc: The checksum of the record before.
    """
    fields, found = decode_line(line, crc)
    record = record_of(fields)
    if record.seq != seq:
        raise CorruptionError(f"record {record.seq} stands where record {seq} belongs")
    return record, found


def unknown_version(version: int) -> UnsupportedVersionError:
    """Return the error for a session in a newer version of the format."""
    return UnsupportedVersionError(
        f"the session was stored in version {shown(version)} of its format, and {FORMAT_VERSION} "
        "is the newest "
        "known here; open it with a newer kaosmem"
    )


def record_of(fields: dict[str, Any]) -> Record:
    """Return the record that a line's fields are. Raises as `decode_record`."""
    stated: Iterable[Any] = map(fields.get, _STATED)
    record = Record(*stated)
    if tuple(map(type, record)) != _KINDS or record.seq <= 0 or record.k < 0:
        raise CorruptionError("a record's field is missing or of the wrong type")
    if len(fields) == len(_FIELDS):
        return record
    # The first one is the checksum, whose name may be damaged in a line that is rescued.
    _, *names = fields
    unknown_fields = set(names) - _FIELDS
    if not unknown_fields:
        return record
    unknown = ", ".join(map(shown, sorted(unknown_fields)[:5]))
    version = shown(fields.get("v", record.data.get("version", "newer")))
    raise UnsupportedVersionError(
        f"record {record.seq} has fields of a version ({version}) that is not known here: "
        f"{unknown}; "
        "open the session with a newer kaosmem"
    )


TXNS_KEPT = 64
_SECTOR_BYTES = 512
_NULS = re.compile(rb"\0+")
REMEDY = "read_only=True opens what is intact, `kaosmem repair` rescues it into a new session, a copy brings back all"


class LogHead(NamedTuple):
    """Where the log ends.

    Attributes:
        seq, crc: Of the last committed record.
        segment: The segment that a next record would follow in, by the seq of its first record; 0
            for none.
        size: That segment's bytes up to the end of the last committed record.
        last: Where the line of that record begins in it; `size` if it stands elsewhere.
        began: Where its commit begins in it; `size` if it stands elsewhere.
        txns: Ids of the newest commits, oldest first.
        log_id: The id of the session's first commit, which tells it from another under the same
            name.
    """

    seq: int = 0
    crc: int = 0
    segment: int = 0
    size: int = 0
    last: int = 0
    began: int = 0
    txns: tuple[str, ...] = ()
    log_id: str = ""

    def before(self, segment: int) -> LogHead:
        """Return the same end of the log, where the next record begins a segment."""
        return self._replace(segment=segment, size=0, last=0, began=0)


@dataclass(frozen=True, slots=True)
class SegmentTail:
    """The bytes after a known record in a segment.

    Attributes:
        records: The committed ones.
        head: The log's end with them.
        torn: Bytes of a commit that was never finished.
        fault: Damage that no crash explains; the bytes after it are in neither.
    """

    records: list[Record]
    head: LogHead
    torn: bytes = field(default=b"", repr=False)
    fault: CorruptionError | None = None

    @property
    def commits(self) -> int:
        """Return how many commits the records are."""
        return sum(record.k == 0 for record in self.records)


def read_tail(
    data: bytes,
    head: LogHead,
    *,
    start: int,
    path: str,
) -> SegmentTail:
    """Return the records that bytes of the segment `head.segment`, from `start` on, add to `head`.

    A commit is torn if its last line has no newline, or if sectors of it were never written (see
    `is_torn`), and no other commit follows.
    """
    lines = split_lines(data)
    records: list[Record] = []
    committed = 0  # how many of them are of whole commits
    began = start  # where the last commit begins
    seq = head.seq
    crc = head.crc
    offset = start
    end = None
    txns = deque(head.txns, TXNS_KEPT)
    fault = None
    for number, line in enumerate(lines[:-1], 1):
        try:
            record, next_crc = decode_record(line, seq=seq + 1, crc=crc)
            if len(records) > committed:
                _check_follows(record, records[-1])
        except CorruptionError as error:
            unfinished = records[committed:]
            if not is_torn(line, lines[number:], unfinished, start=offset, commit_start=began):
                fault = damage_at(str(error), path, offset, seq + 1)
            break
        seq = record.seq
        crc = next_crc
        last = offset
        offset += len(line) + 1
        records.append(record)
        if record.k == 0:
            end = seq, crc, head.segment, offset, last, began
            committed = len(records)
            began = offset
            txns.append(record.txn)
    if end is not None:
        head = LogHead(*end, tuple(txns), head.log_id or records[0].txn)
    del records[committed:]
    if fault:
        return SegmentTail(records, head, fault=fault)
    return SegmentTail(records, head, data[head.size - start :])


def is_torn(
    line: bytes,
    after: Sequence[bytes],
    unfinished: Sequence[Record],
    *,
    start: int,
    commit_start: int,
) -> bool:
    """Return whether a crash while one commit was being written explains a bad line with a newline.

    A crash leaves whole sectors unwritten, which read as NULs. Any other NUL is a damaged byte of a
    commit that may have been acknowledged: not of one that has fewer lines than it counts, the last
    of them cut.

    Args:
        start: Byte of the segment at which the line begins.
        commit_start: Byte of the segment at which the commit of the line begins.
    """
    txns = {record.txn for record in unfinished}
    for other in after:
        with suppress(CorruptionError):  # a line that has not the form of a record
            txns.add(record_of(parse_object(other)).txn)
    if len(txns) > 1:
        return False
    if unfinished and after[-1] and len(after) < unfinished[-1].k:
        return True
    has_hole = False
    for hole in _NULS.finditer(line):
        begin = start + hole.start()
        end = start + hole.end()
        if (begin != commit_start and begin % _SECTOR_BYTES) or end % _SECTOR_BYTES:
            return False
        has_hole = True
    return has_hole


def torn_tail(
    path: str,
    byte: int,
    seq: int,
    size: int,
) -> CorruptionError:
    """Return the notice about a commit that was never finished."""
    return CorruptionError(
        f"{path!r} ends in {size} bytes of an unfinished commit, which are left out",
        file=path,
        byte=byte,
        seq=seq,
    )


def damage_at(
    reason: str,
    path: str,
    byte: int,
    seq: int,
) -> CorruptionError:
    """Return the error for damage at a place in the log."""
    return CorruptionError(
        f"{path!r} is damaged at byte {byte}, record {seq}: {reason}; {REMEDY}",
        file=path,
        byte=byte,
        seq=seq,
    )


def _check_follows(record: Record, before: Record) -> None:
    """Raise unless a record is the next of the commit that the one before has begun."""
    if (record.k, record.txn) != (before.k - 1, before.txn):
        raise CorruptionError(f"another commit begins before {shown(before.txn)} is complete")
