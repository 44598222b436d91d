"""The intact part of a damaged session: its newest whole snapshot, and the valid lines after it.

A line is valid if its checksum goes on from the line before it, which may be damaged elsewhere. So
damage costs the lines that it hits. The damage that is returned names the records and the number of
items that are lost. Nothing is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from kaosmem.errors import CorruptionError
from kaosmem.persistence.files.archive import Entry
from kaosmem.persistence.files.items import ItemFile, decoded_entries, header_of, item_of
from kaosmem.persistence.files.lines import chained_crc, parse_object, split_lines
from kaosmem.persistence.files.manifest import (
    OLDER_TEXTS,
    Identity,
    ListedArchive,
    check_archives,
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
    torn_tail,
)
from kaosmem.persistence.layout import (
    ARCHIVE,
    LOG,
    SNAP,
    archive_files,
    log_file,
    numbers,
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

_OLDER_ITEMS = "an item that they changed is as it was before"
_STATEMENT = re.compile(rb'\{"crc":"([0-9a-f]{8})",')


def salvage(
    cause: CorruptionError, session: str = "", *, is_noted: bool = False
) -> Steps[Recovery]:
    """Return the intact part of a session, and the damage.

    Args:
        cause: The reason why the session cannot be recovered.
        session: The id that the session is opened under, as in `recover`.
        is_noted: Whether writers note the last record, as in `recover`.

    Raises:
        CorruptionError: The cause, if nothing is intact.
        UnsupportedVersionError: If a newer version has written to the session.
        ConflictError: If other writers move the session's files all the time.
    """
    for _ in range(LOOKS):
        try:
            found = yield from _salvaged(session, is_noted=is_noted)
        except FileNotFoundError:  # another writer has deleted a file since it was listed
            continue
        if found is None:
            raise cause
        damage = found.recovered.damage
        if not any(cause.file == each.file or cause.seq == each.seq for each in damage):
            damage.append(cause)
        return found
    raise changed_meanwhile()


def _salvaged(session: str, *, is_noted: bool) -> Steps[Recovery | None]:
    """Return the intact part of a session, None if there are files and nothing of them is intact.

    Raises:
        FileNotFoundError: If a file is gone that was listed.
    """
    noted = (yield Noted()) if is_noted else None
    last_noted = noted[0] if noted else 0
    damage: list[CorruptionError] = []
    identity = yield from _own_identity(session, damage)
    log_id = identity.log_id if identity else ""
    log = numbers((yield List(LOG)))
    snapshots = numbers((yield List(SNAP)))
    newest = max(snapshots, default=0)
    base = yield from _base(snapshots, log, log_id, session, damage)
    found = yield from _read_log(log, base, log_id or base.log_id, damage)
    if (newest or found.records or found.bad) and not (found.records or base.items or base.header):
        return None
    named = identity.segment if identity else 0
    if named <= max(*log, base.purged, last_noted, 0):
        named = 0  # all that the segment had is known
    damage += _lost(found, base.seq, max(newest, last_noted), named)
    records = [found.records[seq] for seq in sorted(found.records)]
    archives = base.archives if base.log_id else None  # None: nothing names them
    damage += yield from check_archives(archives or ())
    txns = (*base.txns, *(record.txn for record in records if record.k == 0))[-TXNS_KEPT:]
    header = base.header if base.log_id else None
    return Recovery(
        Recovered(header, base.items, records, damage, is_partial=True),
        Head(max([base.seq, *found.records]), txns=txns, log_id=log_id or base.log_id),
        segments=tuple((first, 0) for first in log),
        snapshot=newest,
        purged=base.purged,
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

    Attributes:
        start: Its first byte.
        end: The byte after it.
        crc: The checksum that it states, None without one.
        fields: None if it is not valid.
    """

    start: int
    end: int
    crc: int | None
    fields: dict[str, Any]


def _lines(data: bytes, crc: int | None) -> Iterator[_Line]:
    """Yield the lines of a file, valid or not.

    Args:
        crc: The checksum that the first line goes on from. If it is lost (None), the first line
            cannot be checked and is not valid.
    """
    before = {crc}
    end = 0
    for raw in split_lines(data):
        start = end
        end = min(start + len(raw) + 1, len(data))
        if start == end:
            return
        statement = _STATEMENT.match(raw)
        stated = int(statement[1], 16) if statement else None
        computed = {chained_crc(raw, each) for each in before if each is not None}
        fields: dict[str, Any] = {}
        if stated in computed:
            with suppress(CorruptionError):
                fields = parse_object(raw)
        yield _Line(start, end, stated, fields)
        # The damage of a line may be in its checksum.
        before = {stated} if fields or len(computed) > 1 else {stated, *computed}


def _read(path: str, damage: list[CorruptionError]) -> Steps[bytes]:
    """Return the bytes of a file, none if a link, FIFO, device or folder is in its place."""
    try:
        data: bytes = yield Read(path)
    except CorruptionError as error:
        damage.append(error)
        return b""
    return data


def _items(data: bytes, path: str, seq: int) -> tuple[ItemFile, CorruptionError | None]:
    """Return the valid items of a snapshot or archive file, and its damage.

    Without its header, it is of record `seq` and has no `log_id`. Raises UnsupportedVersionError.
    """
    file = ItemFile(seq)
    count = None
    bad: list[int] = []
    for line in _lines(data, 0):
        try:
            if line.fields and line.start == 0:
                file = header_of(line.fields)
            elif type(line.fields.get("end")) is int:
                count = line.fields["end"]
            else:
                file.items.append(item_of(line.fields))
        except CorruptionError:
            bad.append(line.start)
    if file.log_id and not bad and count == len(file.items):
        return file, None
    lost = "its end is lost"
    if count is not None:
        lost = f"{count - len(file.items)} of its {count} items are lost"
    if not file.log_id:
        lost += ", and its header"
    return file, _damaged(path, bad[0] if bad else len(data), f"{lost}; {OLDER_TEXTS}")


def _damaged(path: str, byte: int, what: str, seq: int | None = None) -> CorruptionError:
    return CorruptionError(
        f"{path!r} is damaged or missing at byte {byte}: {what}", file=path, byte=byte, seq=seq
    )


def _base(
    snapshots: Sequence[int],
    log: Sequence[int],
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
    for seq in reversed(snapshots):
        path = snapshot_file(seq)
        file, error = _items((yield from _read(path, damage)), path, seq)
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
    # The first segment is blank if something was forgotten.
    begins = 1 in log and (yield Read(log_file(1), 0, 1))
    return part if part and (purged or not begins) else ItemFile(0)


@dataclass(frozen=True)
class _Log:
    """The log after a snapshot.

    Attributes:
        records: The valid records by number.
        bad: The lines that are not valid, as path and first byte, by the number that their record
            may have had.
    """

    records: dict[int, Record] = field(default_factory=dict)
    bad: dict[int, tuple[str, int]] = field(default_factory=dict)


def _read_log(
    firsts: Sequence[int], base: ItemFile, log_id: str, damage: list[CorruptionError]
) -> Steps[_Log]:
    """Return the log after a snapshot. Raises UnsupportedVersionError."""
    log = _Log()
    crcs: dict[int, int | None] = {0: 0}
    if base.log_id:
        crcs[base.seq] = base.crc
    for first in firsts:
        path = log_file(first)
        data = yield from _read(path, damage)
        seq = first - 1
        crc = crcs.get(seq)
        lines = [(line, _record(line, log_id)) for line in _lines(data, crc)]
        if first == firsts[-1]:
            lines = _without_torn(lines, data, Head(seq, crc or 0, first), damage)
        for line, record in lines:
            seq = record.seq if record else seq + 1
            if record or seq not in crcs:
                crcs[seq] = line.crc
            if record and seq > base.seq:
                log.records.setdefault(seq, record)
            elif seq > base.seq:
                log.bad.setdefault(seq, (path, line.start))
    return log


def _record(line: _Line, log_id: str) -> Record | None:
    """Return the record of a line, None if it is not valid or of another log.

    Raises UnsupportedVersionError.
    """
    try:
        record = record_of(line.fields)
    except CorruptionError:
        return None
    check_version(record)
    return record if record.txn.startswith(txn_prefix(log_id)) else None


def _without_torn(
    lines: list[tuple[_Line, Record | None]],
    data: bytes,
    head: Head,
    damage: list[CorruptionError],
) -> list[tuple[_Line, Record | None]]:
    """Return the lines of the last segment without the remains of a commit that was cut short.

    Args:
        head: The end of the log before the segment.
    """
    count = 0
    path = log_file(head.segment)
    for number, (line, record) in enumerate(lines, 1):
        if record and record.k == 0:
            count = number
            head = Head(record.seq, line.crc or 0, head.segment, line.end)
    torn = read_tail(data[head.size :], head, start=head.size, path=path).torn
    if not torn:
        return lines
    damage.append(torn_tail(path, head.size, head.seq + 1, len(torn)))
    return lines[:count]


def _lost(log: _Log, start: int, newest: int, named: int) -> Iterator[CorruptionError]:
    """Yield the damage of a log.

    Args:
        start: The record that the log begins after.
        newest: The last record that is known to have been stored, 0 for none.
        named: The segment that the session's identity names, if it is missing, else 0. Its first
            record was stored, and nobody knows how many followed.
    """
    end = max([newest, start, named - 1, *log.records, *log.bad])
    for before, after in pairwise(sorted([start, *log.records, end + 1])):
        first = before + 1
        if first == after:
            continue
        which = f"records {first} to {after - 1} are" if first < after - 1 else f"record {first} is"
        path, byte = log.bad.get(first, (log_file(first), 0))
        yield _damaged(path, byte, f"{which} lost; {_OLDER_ITEMS}", first)
    if named:
        # A snapshot may hold the first records of the segment.
        what = f"record {end + 1} and all later ones are lost; {_OLDER_ITEMS}"
        yield CorruptionError(
            f"{log_file(named)!r} is missing, so {what}; bring it back from a copy",
            file=log_file(named),
            seq=end + 1,
        )


def salvage_archive(
    archives: Sequence[ListedArchive] | None, *, since: int, log_id: str
) -> Steps[tuple[list[Entry], list[CorruptionError]]]:
    """Return the intact versions of the archives, oldest first, and the damage.

    Args:
        archives: None if no snapshot names them. Then all files of this log from record `since` on
            are read.
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
        entries += decoded_entries(file.items)
    return entries, damage
