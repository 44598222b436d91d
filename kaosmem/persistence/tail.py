"""The end of a log: commits, remains of a crash, and damage that no crash explains."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from kaosmem.errors import CorruptionError
from kaosmem.names import shown
from kaosmem.persistence.lines import split_lines
from kaosmem.persistence.records import Record, claimed_txn, decode_records

TXNS_KEPT = 64
_SECTOR_BYTES = 512
_NULS = re.compile(rb"\0+")
REMEDY = "read_only=True opens what is intact, `kaosmem repair` rescues it into a new session, a copy brings back all"


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
    """The bytes after a known record in a segment.

    records: the committed ones.
    head: the log's end with them.
    torn: bytes of a commit that was never finished.
    fault: damage that no crash explains; the bytes after it are in neither.
    """

    records: list[Record]
    head: Head
    torn: bytes = field(default=b"", repr=False)
    fault: CorruptionError | None = None

    @property
    def commits(self) -> int:
        """Return how many commits the records are."""
        return sum(record.k == 0 for record in self.records)


def read_tail(data: bytes, head: Head, *, start: int, path: str) -> Tail:
    """Return the records that `data`, the bytes of segment `head.segment` from `start` on, add to `head`.

    A commit is torn if its last line has no newline, or if sectors of it were never written (see `is_torn`), and no
    other commit follows. A last line whole but for its newline is a record.
    """
    lines = split_lines(data)
    records: list[Record] = []
    committed = 0  # how many of them are of whole commits
    began = start  # where the last commit begins
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
            if not is_rest and not is_torn(
                line, lines[index + 1 :], records[committed:], start=offset, commit_start=began
            ):
                fault = located(str(error), path, offset, seq + 1)
            break
        seq, crc = record.seq, next_crc
        last, offset = offset, offset + len(line) + (not is_rest)
        records.append(record)
        if record.k == 0:
            committed, began = len(records), offset
            txns.append(record.txn)
            end = seq, crc, offset, last, not is_rest
    if end is not None:
        seq, crc, offset, last, is_whole = end
        log_id = head.log_id or records[0].txn
        head = Head(seq, crc, head.segment, offset, last, is_whole, tuple(txns), log_id)
    del records[committed:]
    return Tail(records, head, torn=b"" if fault else data[head.size - start :], fault=fault)


def is_torn(
    line: bytes, after: Sequence[bytes], unfinished: Sequence[Record], *, start: int, commit_start: int
) -> bool:
    """Return whether a crash while one commit was being written explains a bad line with a newline.

    A crash leaves whole sectors unwritten, which read as NULs. Any other NUL is a damaged byte of a commit that may
    have been acknowledged.
    start, commit_start: bytes of the segment at which the line and its commit begin.
    """
    holes = [(start + hole.start(), start + hole.end()) for hole in _NULS.finditer(line)]
    if not holes or any(
        (begin != commit_start and begin % _SECTOR_BYTES) or end % _SECTOR_BYTES for begin, end in holes
    ):
        return False
    txns = {record.txn for record in unfinished}
    txns.update(txn for other in after if (txn := claimed_txn(other)) is not None)
    return len(txns) <= 1


def torn_tail(path: str, byte: int, seq: int, size: int) -> CorruptionError:
    """Return the notice about a commit that was never finished."""
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


def _check_follows(record: Record, before: Record) -> None:
    """Raise unless a record is the next of the commit that the one before has begun."""
    if (record.k, record.txn) != (before.k - 1, before.txn):
        raise CorruptionError(f"another commit begins before {shown(before.txn)} is complete")
