"""The intact part of a damaged session: the newest valid snapshot and every valid record after it. The rest is named.

A line is valid if its checksum goes on from the line before it. A damaged line costs itself alone: the next line goes
on from the checksum that it states.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby, islice, pairwise
from typing import Any, NamedTuple

from kaosmem.errors import CorruptionError
from kaosmem.persistence.files.archive import Entry
from kaosmem.persistence.files.items import ItemFile, decode_items, decoded_entries, header_of, item_of
from kaosmem.persistence.files.lines import chained_crc, parse_object, split_lines
from kaosmem.persistence.files.manifest import (
    OLDER_TEXTS,
    Blob,
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
from kaosmem.persistence.files.records import TXNS_KEPT, Head, Record, is_torn, record_of, stated_blobs, torn_tail
from kaosmem.persistence.layout import ARCHIVE, LOG, SNAP, archive_files, log_file, numbers, segments, snapshot_file
from kaosmem.persistence.recovery import (
    LOOKS,
    Recovered,
    Recovery,
    changed_meanwhile,
    check_version,
    is_purge_unfinished,
)
from kaosmem.persistence.steps import List, Noted, Read, Steps
from kaosmem.sections.operations import Update
from kaosmem.types import JSONValue

LOST = "lost"
"""The field that names the item of an update whose text is lost."""
_STATEMENT = re.compile(rb'\{"crc":"([0-9a-f]{8})",')
_BASES = 8
"""How many checksums of damaged lines the next line is tried with."""
_MAX_PIECES = 20
"""How many lines a line is tried as. Metadata may look like the beginning of a line, too."""
_OLDER = "an item that they changed is as it was before"


def salvage(cause: CorruptionError, session: str = "", *, is_noted: bool = False) -> Steps[Recovery]:
    """Return the intact part of a session, and the damage.

    cause: the reason why it cannot be recovered; raised if nothing is intact. session, is_noted: as in `recover`.
    Raises UnsupportedVersionError, and ConflictError if other writers move the session's files all the time.
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


def _salvaged(log: Collection[str], snapshots: Collection[str], session: str, noted: int) -> Steps[Recovery | None]:
    """Return the intact part of a session, None if there are files and nothing of them is intact.

    noted: the number of the last record that a writer noted, 0 for none.
    """
    damage: list[CorruptionError] = []
    log_id = yield from _log_id(session, damage)
    newest = max(numbers(snapshots), default=0)
    base, is_exact = yield from _base(numbers(snapshots), log, log_id, session, damage)
    log_id = log_id or base.log_id
    places = yield from _places(log, base, log_id, damage)
    records = {place.seq: place.record for place in reversed(places) if place.record and place.seq > base.seq}
    is_exact &= _name_lost(places, base.seq, max(newest, noted), damage)
    is_exact &= yield from _filled(base, records, damage)
    archives = base.archives if base.log_id else None  # where nothing names them
    damage += yield from check_archives(archives or ())
    if (newest or places) and not (records or base.items or base.header):
        return None
    in_order = [records[seq] for seq in sorted(records)]
    header = base.header if base.log_id else None
    txns = (*base.txns, *(record.txn for record in in_order if record.k == 0))[-TXNS_KEPT:]
    seq, crc = max([(base.seq, base.crc), *((each, 0) for each in records)])
    return Recovery(
        Recovered(header, base.items, in_order, damage, not is_exact),
        Head(seq, crc, txns=txns, log_id=log_id),
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


def _log_id(session: str, damage: list[CorruptionError]) -> Steps[str]:
    """Return the id of the log that the identity of a session names, "" without one. Name another's identity."""
    identity = (yield from read_identity()) if session else None
    if isinstance(identity, CorruptionError):
        damage.append(identity)
    elif identity and identity.session != session:
        damage.append(other_id(identity.session, session))
    elif identity:
        return identity.log_id
    return ""


def _base(
    seqs: Sequence[int], log: Iterable[str], log_id: str, session: str, damage: list[CorruptionError]
) -> Steps[tuple[ItemFile, bool]]:
    """Return the newest valid snapshot, an empty one without it, and whether it is whole.

    A session in which something was forgotten has one snapshot and no log before it: if that is damaged, its intact
    items are returned.
    """
    part, purged = None, 0
    for seq in reversed(seqs):
        path = snapshot_file(seq)
        try:
            data = yield Read(path)
            found = decode_items(data, path)
            if found.seq != seq:
                raise CorruptionError(f"{path!r} is the snapshot of record {found.seq}", file=path)
            if log_id not in ("", found.log_id):
                raise foreign(path, session)
        except CorruptionError as error:
            if part is not None or error.byte is None:
                damage.append(error)
                continue
            intact = _intact_items(data, path, seq, damage)
            if intact.seq == seq and ("" in (log_id, intact.log_id) or intact.log_id == log_id):
                part, purged = intact, intact.purged
                if not part.log_id and (yield from is_purge_unfinished()):
                    purged = seq
            continue
        if seq >= purged:  # else a crash has left it undeleted
            return found, True
        break
    begins = 1 in numbers(log) and (yield Read(log_file(1), 0, 1))  # it is blank if something was forgotten
    return (part, False) if part and (purged or not begins) else (ItemFile(0), True)


def salvage_archive(
    archives: Sequence[ListedArchive] | None, *, since: int, log_id: str
) -> Steps[tuple[list[Entry], list[CorruptionError]]]:
    """Return the intact versions of the archives, oldest first, and the damage.

    archives: None if no snapshot names them; then all files of this log from record `since` on are read.
    """
    damage: list[CorruptionError] = []
    entries: list[Entry] = []
    files: list[tuple[int, str, ListedArchive | None]]
    if archives is None:
        files = [(seq, path, None) for seq, path in archive_files((yield List(ARCHIVE))) if seq >= since]
    else:
        files = [(each.seq, each.path, each) for each in archives]
    for seq, path, listed in files:
        try:
            data = yield Read(path)
            file = _archive(data, seq, path, listed, log_id, damage)
        except FileNotFoundError:
            damage.append(missing(path, OLDER_TEXTS))
            continue
        except CorruptionError as error:  # a link, FIFO, device or folder, or another file
            damage.append(error)
            continue
        yield from _filled(file, {}, damage)
        entries += decoded_entries(file.items)
    return entries, damage


def _archive(
    data: bytes, seq: int, path: str, listed: ListedArchive | None, log_id: str, damage: list[CorruptionError]
) -> ItemFile:
    """Return the intact part of an archive file. Raises CorruptionError for another file in its place."""
    try:
        file = decode_items(data, path)
        if listed:
            listed.check(last_line(data))
    except CorruptionError as error:
        told: list[CorruptionError] = []
        file = _intact_items(data, path, seq, told)
        if file.log_id and (file.seq, file.log_id) != (seq, log_id or file.log_id):
            raise error
        damage += told
    return file


class _Line(NamedTuple):
    """A line of a damaged file. start: its first byte. fields: None if it is not valid. ends: it has its newline."""

    start: int
    raw: bytes
    fields: dict[str, Any] | None
    ends: bool


def _intact_lines(data: bytes, crcs: Sequence[int] | None) -> Iterator[_Line]:
    """Yield the lines of a file, valid or not.

    crcs: checksums that the first line may go on from; None if they are lost, and it is taken without a check.
    """
    bases, stated = crcs, list(crcs or ())
    for start, raw, ends in _pieces(data):
        line = raw[: raw.rfind(b"}") + 1]  # what follows is no part of it, as a carriage return
        statement = _STATEMENT.match(line)
        own = [int(statement[1], 16)] if statement else []
        computed = [chained_crc(line, crc) for crc in bases or ()]
        fields = _parsed(line) if own and (bases is None or own[0] in computed) else None
        stated = own if fields else [*stated, *own][-_BASES:]
        bases = stated if fields else [*stated, *computed[:_BASES]]  # where its own statement alone is damaged
        yield _Line(start, raw, fields, ends)


def _pieces(data: bytes) -> Iterator[tuple[int, bytes, bool]]:
    """Yield the first byte of each line, its bytes, and whether a newline ends it: where it is damaged, none does."""
    start = 0
    *lines, rest = split_lines(data)
    for number, line in enumerate([*lines, rest] if rest else lines):
        begins = [match.start() for match in islice(_STATEMENT.finditer(line), _MAX_PIECES)]
        is_one = begins == [0] or _parsed(line[: line.rfind(b"}") + 1])
        bounds = [0] if is_one else sorted({0, *begins})
        for begin, end in pairwise([*bounds, len(line)]):
            yield start + begin, line[begin:end], end == len(line) and number < len(lines)
        start += len(line) + 1


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        return parse_object(line)
    except CorruptionError:
        return None


def _intact_items(data: bytes, path: str, seq: int, damage: list[CorruptionError]) -> ItemFile:
    """Return the valid items of a damaged file, without a `log_id` if its header is lost.

    Raises UnsupportedVersionError.
    """
    file, count = ItemFile(seq), None
    bad: list[int] = []
    for line in _intact_lines(data, (0,)):
        fields = line.fields or {}
        try:
            if line.fields is not None and line.start == 0:
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
    lost = "its end is lost" if count is None else f"{count - len(file.items)} of its {count} items are lost"
    if not file.log_id:
        lost += ", and its header"
    at = bad[0] if bad else len(data)
    what = f"{path!r} is damaged at byte {at}: {lost}; {OLDER_TEXTS}"
    damage.append(CorruptionError(what, file=path, byte=at))
    return file


class _Place(NamedTuple):
    """A line of the log. seq: of its record, or the next one if it is not valid. is_checked: by the line before it."""

    seq: int
    path: str
    start: int
    size: int
    record: Record | None
    is_checked: bool = True


def _places(names: Iterable[str], base: ItemFile, log_id: str, damage: list[CorruptionError]) -> Steps[list[_Place]]:
    """Return the lines of the log. Raises UnsupportedVersionError."""
    try:
        segments(names)
    except CorruptionError as error:
        damage.append(error)
    ends = {0: 0} | ({base.seq: base.crc} if base.log_id else {})
    places: list[_Place] = []
    firsts = numbers(names)
    for first in firsts:
        path = log_file(first)
        try:
            data = yield Read(path)
        except CorruptionError as error:  # a link, FIFO, device or folder
            damage.append(error)
            continue
        seq = first - 1
        crcs = (ends[seq],) if seq in ends else None
        lines = [(line, _record(line, log_id)) for line in _intact_lines(data, crcs)]
        if crcs is None and lines and (record := lines[0][1]) and record.seq != first:
            lines[0] = lines[0][0], None
        if first == firsts[-1]:
            lines = _without_torn(lines, path, damage)
        for line, record in lines:
            seq = record.seq if record else seq + 1
            is_checked = crcs is not None or line.start > 0
            places.append(_Place(seq, path, line.start, len(line.raw) + line.ends, record, is_checked))
            if record:
                ends[seq] = int(line.raw[8:16], 16)
    return places


def _record(line: _Line, log_id: str) -> Record | None:
    """Return the record of a line, None if it is not valid or of another log. Raises UnsupportedVersionError."""
    try:
        record = record_of(line.fields or {})
    except CorruptionError:
        return None
    check_version(record)
    return record if record.txn.startswith(txn_prefix(log_id)) else None


def _without_torn(
    lines: list[tuple[_Line, Record | None]], path: str, damage: list[CorruptionError]
) -> list[tuple[_Line, Record | None]]:
    """Return the lines of the last segment without the remains of a commit that a crash has cut short."""
    end = 1 + max((number for number, (_, record) in enumerate(lines) if record and record.k == 0), default=-1)
    tail = lines[end:]
    rest = [b""] if tail and tail[-1][0].ends else []
    for number, (line, record) in enumerate(tail):
        if record or not line.ends:
            continue
        unfinished = [record for _, record in tail[:number] if record]
        after = [other.raw for other, _ in tail[number + 1 :]] + rest
        if not is_torn(line.raw, after, unfinished, start=line.start, commit_start=tail[0][0].start):
            return lines
    if tail:
        size = sum(len(line.raw) + line.ends for line, _ in tail)
        seq = 1 + max((record.seq for _, record in lines[:end] if record), default=0)
        damage.append(torn_tail(path, tail[0][0].start, seq, size))
    return lines[:end]


def _name_lost(places: Sequence[_Place], start: int, newest: int, damage: list[CorruptionError]) -> bool:
    """Name the damage of the log after record `start`. Return whether no record is lost.

    newest: the last record that is known to have been stored: of the newest snapshot, valid or not, or noted.
    """
    bad: list[list[_Place]] = []
    for (_, is_bad), each in groupby(places, lambda place: (place.path, place.record is None)):
        if is_bad:
            bad.append([*each])
    told = {start, *(place.seq for place in places if place.record and place.seq > start)}
    end = max(newest, start, *(place.seq for place in places), 0)
    gaps = [(a + 1, b - 1) for a, b in pairwise([*sorted(told), end + 1]) if b - a > 1]
    for first, last in gaps:
        which = f"record {first} is" if first == last else f"records {first} to {last} are"
        at = next((each for each in bad if each[-1].seq >= first and each[0].seq <= last), None)
        if at:
            bad.remove(at)
            size = sum(place.size for place in at)
            what = f"{size} bytes are not valid, and {which} lost; {_OLDER}"
            damage.append(_at(at[0].path, at[0].start, what, first))
        else:
            gap = f"there is a gap in the log: {which} in no valid file; {_OLDER}"
            damage.append(CorruptionError(gap, file=log_file(first), byte=0, seq=first))
    for at in bad:
        if at[-1].seq > start:
            size = sum(place.size for place in at)
            damage.append(_at(at[0].path, at[0].start, f"{size} bytes are not valid, and no record is lost", None))
    for place in places:
        if place.record and not place.is_checked and place.seq > start:
            what = f"record {place.seq} cannot be checked, as what precedes it is lost, and is served as it is"
            damage.append(_at(place.path, 0, what, place.seq))
    return not gaps


def _at(path: str, byte: int, what: str, seq: int | None) -> CorruptionError:
    return CorruptionError(f"{path!r} is damaged at byte {byte}: {what}", file=path, byte=byte, seq=seq)


def _filled(file: ItemFile, records: dict[int, Record], damage: list[CorruptionError]) -> Steps[bool]:
    """Put long texts in their places. Leave out an item or record without its text. Return whether none was."""
    is_whole = True
    for data, blobs in file.lacking:
        for _, error in (yield from _unfilled(data, blobs)):
            is_whole = False
            damage.append(CorruptionError(f"{error}; an item lacks its text", file=error.file, byte=0))
            file.items[:] = [each for each in file.items if each[1] is not data]
    for record in list(records.values()):
        for blob, error in (yield from _unfilled(record.data, record.blobs)):
            is_whole = False
            what = f"{error}; record {record.seq} lacks its text of {blob.size} bytes"
            damage.append(CorruptionError(what, file=error.file, byte=0, seq=record.seq))
            if _cut_out(record.data, blob.path):
                continue
            records.pop(record.seq, None)
            if update := _lost_update(record):
                records[record.seq] = update
        for name, value in record.data.items():
            if record.blobs and isinstance(value, list):
                record.data[name] = [element for element in value if element is not None]
    return is_whole


def _unfilled(data: dict[str, JSONValue], blobs: Iterable[Blob]) -> Steps[list[tuple[Blob, CorruptionError]]]:
    """Put long texts in their places, and return an error for each that is lost."""
    lost = []
    for blob in blobs:
        try:
            yield from fill(data, [blob])
        except CorruptionError as error:
            lost.append((blob, error))
    return lost


def _lost_update(record: Record) -> Record | None:
    """Return a record that says which item an update changed whose text is lost, None for any other record."""
    match record.op, record.data:
        case Update.op, {"item": {"id": str(item_id)}, "at": str(at)}:
            return record._replace(data={LOST: item_id, "at": at}, blobs=())
    return None


def _cut_out(data: dict[str, JSONValue], path: Sequence[str | int]) -> bool:
    """Put None in the place of the list element that a path leads through, and return whether there is one."""
    match path:
        case [str(name), int(index), _, *_] if isinstance(elements := data.get(name), list) and index < len(elements):
            elements[index] = None
            return True
    return False
