"""The intact part of a damaged session: the newest readable snapshot and the valid records since.

A line is valid if its checksum goes on from the line before it. A damaged line costs itself alone: the next line goes
on from the checksum that it states, or that it should state.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from kaosmem.errors import CorruptionError, InvalidNameError, UnsupportedVersionError
from kaosmem.names import check_name
from kaosmem.persistence.files.archive import Entry
from kaosmem.persistence.files.items import ItemFile, decoded_entries, header_of, item_of
from kaosmem.persistence.files.lines import chained_crc, parse_object, split_lines
from kaosmem.persistence.files.manifest import (
    OLDER_TEXTS,
    Blob,
    Identity,
    ListedArchive,
    check_archives,
    fill,
    foreign,
    last_line,
    missing,
    other_id,
    read_identity,
    txn_prefix,
)
from kaosmem.persistence.files.records import (
    TXNS_KEPT,
    Head,
    Record,
    read_tail,
    record_of,
    stated_blobs,
    torn_tail,
)
from kaosmem.persistence.layout import (
    ARCHIVE,
    LOG,
    SNAP,
    archive_files,
    log_file,
    numbers,
    segments,
    snapshot_file,
)
from kaosmem.persistence.recovery import (
    LOOKS,
    Recovered,
    Recovery,
    changed_meanwhile,
    check_version,
    is_purge_unfinished,
)
from kaosmem.persistence.steps import List, Noted, Read, Steps
from kaosmem.sections.operations import Update, parse_operation
from kaosmem.types import JSONValue

LOST = "lost"
"""The field that names the item of an update whose text is lost."""
_OLDER_ITEMS = "an item that they changed is as it was before"
_BEGINNING = b'{"crc":"'
_STATEMENT = re.compile(rb'\{"crc":"([0-9a-f]{8})",')


def salvage(
    cause: CorruptionError, session: str = "", *, is_noted: bool = False
) -> Steps[Recovery]:
    """Return the intact part of a session, and the damage.

    cause: the reason why it cannot be recovered; raised if nothing is intact. session, is_noted: as
        in `recover`.
    Raises UnsupportedVersionError, and ConflictError if other writers move the session's files all
    the time.
    """
    for _ in range(LOOKS):
        noted = (yield Noted()) if is_noted else None
        listed = (yield List(LOG)), (yield List(SNAP))
        try:
            found = yield from _salvaged(*listed, session, noted[0] if noted else 0)
        except FileNotFoundError:
            continue
        if listed == ((yield List(LOG)), (yield List(SNAP))):
            if found is None:
                raise cause
            damage = found.recovered.damage
            is_end_lost = noted is not None and found.head.seq < noted[0]
            if not damage or (is_end_lost and all(error.file != cause.file for error in damage)):
                damage.append(cause)
            return found
    raise changed_meanwhile()


def _salvaged(
    log: Collection[str], snapshots: Collection[str], session: str, noted: int
) -> Steps[Recovery | None]:
    """Return the intact part of a session, None if there are files and nothing of them is intact.

    noted: the number of the last record that a writer noted, 0 for none.
    """
    damage: list[CorruptionError] = []
    identity = yield from _own_identity(session, damage)
    log_id = identity.log_id if identity else ""
    newest = max(numbers(snapshots), default=0)
    base = yield from _base(numbers(snapshots), log, log_id, session, damage)
    log_id = log_id or base.log_id
    found = yield from _read_log(log, base, log_id, damage)
    records = found.records
    if (newest or records or found.bad) and not (records or base.items or base.header):
        return None
    last_segment = max(*numbers(log), base.purged, 0)
    named = identity.segment if identity else 0
    is_end_unknown = named > max(last_segment, noted)
    damage += found.lost(max(newest, noted), named if is_end_unknown else 0)
    yield from _fill_items(base, damage)
    yield from _fill_records(records, damage)
    archives = base.archives if base.log_id else None  # where nothing names them
    damage += yield from check_archives(archives or ())
    in_order = [records[seq] for seq in sorted(records)]
    txns = (*base.txns, *(record.txn for record in in_order if record.k == 0))[-TXNS_KEPT:]
    return Recovery(
        Recovered(
            base.header if base.log_id else None, base.items, in_order, damage, is_partial=True
        ),
        Head(max([base.seq, *records]), txns=txns, log_id=log_id),
        torn=b"",
        segments=tuple((first, 0) for first in numbers(log)),
        snapshot=newest,
        snapshot_bytes=0,
        log_bytes=0,
        purged=base.purged,
        has_leftovers=False,
        texts={},
        archives=archives,
    )


def _own_identity(session: str, damage: list[CorruptionError]) -> Steps[Identity | None]:
    """Return the identity of a session, None without it. Enter another's identity in the damage."""
    identity = (yield from read_identity()) if session else None
    if isinstance(identity, CorruptionError):
        damage.append(identity)
        return None
    if identity and identity.session != session:
        damage.append(other_id(identity.session, session))
        return None
    return identity


class _Line(NamedTuple):
    """A line of a file.

    start: its first byte. crc: the checksum that it states. fields: None if it is not valid.
    is_exact: nothing but a newline stands beside it.
    """

    start: int
    size: int
    crc: int
    fields: dict[str, Any] | None
    is_exact: bool


def _lines(data: bytes, crc: int | None) -> Iterator[_Line]:
    """Yield the lines of a file, valid or not.

    crc: the checksum that the first line goes on from. If it is lost (None), the first line is not
        checked.
    """
    start = 0
    before = [] if crc is None else [crc]  # the checksums that the next line may go on from
    *lines, rest = split_lines(data)
    for raw in [*lines, rest] if rest else lines:
        line = raw[
            max(0, raw.find(_BEGINNING)) : raw.rfind(b"}") + 1
        ]  # without a byte order mark or carriage return
        computed = [chained_crc(line, each) for each in before]
        stated = _stated(line)
        fields = None
        if stated in computed or (crc is None and start == 0 and stated is not None):
            with suppress(CorruptionError):
                fields = parse_object(line)
        size = min(len(raw) + 1, len(data) - start)
        yield _Line(start, size, stated or 0, fields, is_exact=raw == line and size > len(raw))
        start += size
        last = _stated(
            raw[max(0, raw.rfind(_BEGINNING)) :]
        )  # of two lines whose newline is damaged
        possible = [stated] if fields else [*before[:1], *computed[:1], stated, last]
        before = [each for each in possible if each is not None]


def _stated(line: bytes) -> int | None:
    """Return the checksum that a line states, None for one that states none."""
    found = _STATEMENT.match(line)
    return int(found[1], 16) if found else None


def _items(data: bytes, path: str, seq: int) -> tuple[ItemFile, CorruptionError | None]:
    """Return the valid items of a snapshot or archive file, and its damage.

    Without its header, it is of record `seq` and has no `log_id`. Raises UnsupportedVersionError.
    """
    file = ItemFile(seq)
    count = None
    is_exact = True
    bad: list[int] = []
    for line in _lines(data, 0):
        fields = line.fields or {}
        is_exact &= line.is_exact
        try:
            if fields and line.start == 0:
                file = header_of(fields)
            elif type(fields.get("end")) is int:
                count = fields["end"]
            else:
                section, item = item_of(fields)
                file.items.append((section, item))
                if blobs := stated_blobs(fields):
                    file.lacking.append((item, blobs))
        except CorruptionError:
            bad.append(line.start)
    if file.log_id and is_exact and not bad and count == len(file.items):
        return file, None
    lost = (
        "its end is lost"
        if count is None
        else f"{count - len(file.items)} of its {count} items are lost"
    )
    if not file.log_id:
        lost += ", and its header"
    return file, _damaged(path, bad[0] if bad else len(data), f"{lost}; {OLDER_TEXTS}")


def _damaged(path: str, byte: int, what: str, seq: int | None = None) -> CorruptionError:
    return CorruptionError(
        f"{path!r} is damaged at byte {byte}: {what}", file=path, byte=byte, seq=seq
    )


def _base(
    seqs: Sequence[int],
    log: Iterable[str],
    log_id: str,
    session: str,
    damage: list[CorruptionError],
) -> Steps[ItemFile]:
    """Return the newest whole snapshot, an empty one without it.

    A session in which something was forgotten has one snapshot and no log before it: if that is
    damaged, its intact items are returned.
    """
    part = None
    purged = 0
    for seq in reversed(seqs):
        path = snapshot_file(seq)
        try:
            data = yield Read(path)
        except CorruptionError as unread:  # a link, FIFO, device or folder
            damage.append(unread)
            continue
        file, error = _items(data, path, seq)
        if file.seq != seq or (file.log_id and log_id not in ("", file.log_id)):
            damage.append(foreign(path, session))
        elif error is not None:
            damage.append(error)
            if part is None:
                is_purge = not file.log_id and (yield from is_purge_unfinished())
                part = file
                purged = seq if is_purge else file.purged
        elif seq >= purged:  # else a crash has left it undeleted
            return file
    begins = 1 in numbers(log) and (
        yield Read(log_file(1), 0, 1)
    )  # it is blank if something was forgotten
    return part if part and (purged or not begins) else ItemFile(0)


class _Stretch(NamedTuple):
    """Lines that are not valid. first, last: the numbers of the records that they may have been."""

    path: str
    start: int
    size: int
    first: int
    last: int


@dataclass
class _Log:
    """The log after a record: the valid records by number, and the rest."""

    start: int
    records: dict[int, Record] = field(default_factory=dict)
    bad: list[_Stretch] = field(default_factory=list)
    unchecked: list[tuple[int, str]] = field(default_factory=list)

    def note_bad(self, line: _Line, path: str, seq: int) -> None:
        """Add a line that is not valid. seq: the number of the next record."""
        last = self.bad[-1] if self.bad else None
        if last and (last.path, last.start + last.size) == (path, line.start):
            self.bad[-1] = last._replace(size=last.size + line.size, last=seq)
        else:
            self.bad.append(_Stretch(path, line.start, line.size, seq, seq))

    def lost(self, newest: int, named: int) -> Iterator[CorruptionError]:
        """Yield the damage.

        Args:
            newest: The last record that is known to have been stored, 0 for none.
            named: The segment that the session's identity names, if it is missing, else 0. Its
                first record was stored, and nobody knows how many followed.
        """
        bad = [stretch for stretch in self.bad if stretch.last > self.start]
        end = max([newest, self.start, *self.records, *(stretch.last for stretch in bad)])
        end = max(end, named - 1)
        yield from self._gaps(end, bad)
        if named:
            path = log_file(named)
            first = end + 1  # a snapshot may hold the first records of the segment
            what = f"record {first} and all later ones are lost; {_OLDER_ITEMS}"
            yield CorruptionError(
                f"{path!r} is missing, so {what}; bring it back from a copy", file=path, seq=first
            )
        for at in bad:
            yield _damaged(
                at.path, at.start, f"{at.size} bytes are not valid, and no record is lost"
            )
        for seq, path in self.unchecked:
            what = f"record {seq} cannot be checked, as what precedes it is lost, and is served as it is"
            yield _damaged(path, 0, what, seq)

    def _gaps(self, end: int, bad: list[_Stretch]) -> Iterator[CorruptionError]:
        """Yield the damage of each range of records that are lost, up to a record.

        Args:
            bad: The lines that are not valid. Those that stand for a lost range are taken out.
        """
        for before, after in pairwise(sorted([self.start, *self.records, end + 1])):
            first = before + 1
            last = after - 1
            if first > last:
                continue
            which = f"record {first} is" if first == last else f"records {first} to {last} are"
            at = next((each for each in bad if each.last >= first and each.first <= last), None)
            if at is None:
                gap = f"there is a gap in the log: {which} in no valid file; {_OLDER_ITEMS}"
                yield CorruptionError(gap, file=log_file(first), byte=0, seq=first)
            else:
                bad.remove(at)
                what = f"{at.size} bytes are not valid, and {which} lost; {_OLDER_ITEMS}"
                yield _damaged(at.path, at.start, what, first)


def _read_log(
    names: Collection[str], base: ItemFile, log_id: str, damage: list[CorruptionError]
) -> Steps[_Log]:
    """Return the log after a snapshot. Raises UnsupportedVersionError."""
    try:
        segments(names)
    except CorruptionError as error:
        damage.append(error)
    log = _Log(base.seq)
    crcs = {0: 0} | ({base.seq: base.crc} if base.log_id else {})
    firsts = numbers(names)
    for first in firsts:
        path = log_file(first)
        try:
            data = yield Read(path)
        except CorruptionError as error:  # a link, FIFO, device or folder
            damage.append(error)
            continue
        lines = [(line, _record(line, log_id)) for line in _lines(data, crcs.get(first - 1))]
        if first == firsts[-1]:
            lines = _without_torn(lines, data, first, crcs.get(first - 1, 0), damage)
        _read_segment(lines, first, log, crcs)
    return log


def _read_segment(
    lines: list[tuple[_Line, Record | None]], first: int, log: _Log, crcs: dict[int, int]
) -> None:
    """Add the lines of the segment that begins with record `first`.

    crcs: checksums of records by number.
    """
    path = log_file(first)
    seq = first - 1
    is_checked = seq in crcs
    for line, record in lines:
        is_believed = not is_checked and line.start == 0
        if record is None or (is_believed and not (record.seq == first and _is_plausible(record))):
            seq += 1
            log.note_bad(line, path, seq)
            continue
        seq = record.seq
        crcs[seq] = line.crc
        if seq > log.start:
            log.records.setdefault(seq, record)
            if is_believed:
                log.unchecked.append((seq, path))


def _record(line: _Line, log_id: str) -> Record | None:
    """Return the record of a line, None if it is not valid or of another log.

    Raises UnsupportedVersionError.
    """
    try:
        record = record_of(line.fields or {})
    except CorruptionError:
        return None
    check_version(record)
    return record if record.txn.startswith(txn_prefix(log_id)) else None


def _is_plausible(record: Record) -> bool:
    """Return whether a record that cannot be checked has a known kind and a section's name."""
    try:
        check_name(record.section or "session", "section")
        parse_operation(record.section, record.op, record.data)
    except (InvalidNameError, UnsupportedVersionError):
        return False
    except (LookupError, TypeError, ValueError):  # it may lack a long text
        return True
    return True


def _without_torn(
    lines: list[tuple[_Line, Record | None]],
    data: bytes,
    first: int,
    crc: int,
    damage: list[CorruptionError],
) -> list[tuple[_Line, Record | None]]:
    """Return the lines of the last segment without the remains of a commit that was cut short."""
    count = 0
    head = Head(first - 1, crc, first)
    path = log_file(first)
    for number, (line, record) in enumerate(lines, 1):
        if record and record.k == 0:
            count = number
            head = Head(record.seq, line.crc, first, line.start + line.size)
    torn = read_tail(data[head.size :], head, start=head.size, path=path).torn
    if not torn:
        return lines
    damage.append(torn_tail(path, head.size, head.seq + 1, len(torn)))
    return lines[:count]


def _fill(
    data: dict[str, JSONValue],
    blobs: Iterable[Blob],
    what: str,
    damage: list[CorruptionError],
    seq: int | None = None,
) -> Steps[list[Sequence[str | int]]]:
    """Put long texts in their places, and return the places of the texts that are lost."""
    lost: list[Sequence[str | int]] = []
    for blob in blobs:
        try:
            yield from fill(data, [blob])
        except CorruptionError as error:
            lost.append(blob.path)
            what_is_lost = f"{error}; {what} lacks its text of {blob.size} bytes"
            damage.append(CorruptionError(what_is_lost, file=error.file, byte=0, seq=seq))
    return lost


def _fill_items(file: ItemFile, damage: list[CorruptionError]) -> Steps[None]:
    """Put long texts in their places. Leave out an item without its text."""
    lacking = set()
    for data, blobs in file.lacking:
        if (yield from _fill(data, blobs, "an item", damage)):
            lacking.add(id(data))
    file.items[:] = [entry for entry in file.items if id(entry[1]) not in lacking]


def _fill_records(records: dict[int, Record], damage: list[CorruptionError]) -> Steps[None]:
    """Put long texts in their places.

    Leave out a record, or the element of one, without its text.
    """
    for seq, record in [*records.items()]:
        lost = yield from _fill(record.data, record.blobs, f"record {seq}", damage, seq)
        elements: set[tuple[str, int]] = set()
        for path in lost:
            match path:
                case [str(name), int(index), _, *_]:
                    elements.add((name, index))
                case _ if seq in records:
                    _leave_out(record, records)
        for name, index in sorted(elements, reverse=True):
            with suppress(LookupError, TypeError):  # the record makes no sense
                del record.data[name][index]


def _leave_out(record: Record, records: dict[int, Record]) -> None:
    """Leave out a record whose text is lost.

    If it is an update, keep the id of its item and its time.
    """
    del records[record.seq]
    match record.op, record.data:
        case Update.op, {"item": {"id": str(item_id)}, "at": str(at)}:
            records[record.seq] = record._replace(data={LOST: item_id, "at": at}, blobs=())


def salvage_archive(
    archives: Sequence[ListedArchive] | None, *, since: int, log_id: str
) -> Steps[tuple[list[Entry], list[CorruptionError]]]:
    """Return the intact versions of the archives, oldest first, and the damage.

    archives: None if no snapshot names them; then all files of this log from record `since` on are
        read.
    """
    damage: list[CorruptionError] = []
    entries: list[Entry] = []
    listed = {each.path: each for each in archives or ()}
    files = [(each.seq, each.path) for each in archives or ()]
    if archives is None:
        files = [(seq, path) for seq, path in archive_files((yield List(ARCHIVE))) if seq >= since]
    for seq, path in files:
        try:
            data = yield Read(path)
            file, error = _items(data, path, seq)
            if file.log_id and (file.seq, file.log_id) != (seq, log_id or file.log_id):
                raise foreign(path, "this one")
            if error is not None:
                damage.append(error)
            elif path in listed:
                listed[path].check(last_line(data))
        except FileNotFoundError:
            damage.append(missing(path, OLDER_TEXTS))
            continue
        except CorruptionError as error:  # a link, FIFO, device or folder, or another file
            damage.append(error)
            continue
        yield from _fill_items(file, damage)
        entries += decoded_entries(file.items)
    return entries, damage
