"""The intact part of a damaged session: its newest whole snapshot, and every line that fits.

A line fits if its checksum goes on from the line before it, which may be damaged elsewhere. So
damage costs the lines that it hits. The damage that is returned names the records and the number of
items that are lost. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any, NamedTuple

from kaosmem.errors import CorruptionError
from kaosmem.persistence.files.archive import Entry
from kaosmem.persistence.files.items import ItemFile, decoded_entries, header_of, item_of
from kaosmem.persistence.files.lines import (
    chained_crc,
    checksum,
    parse_object,
    split_lines,
    stated_crc,
)
from kaosmem.persistence.files.manifest import (
    OLDER_TEXTS,
    ListedArchive,
    SessionIdentity,
    check_archives,
    missing_file,
    other_id,
    read_identity,
    txn_prefix,
)
from kaosmem.persistence.files.records import LogHead, Record, read_tail, record_of, torn_tail
from kaosmem.persistence.layout import (
    LOG,
    archive_file,
    list_archives,
    list_snapshots,
    log_file,
    numbers,
    snapshot_file,
)
from kaosmem.persistence.recovery import (
    MAX_READ_ATTEMPTS,
    Recovered,
    changed_meanwhile,
    check_version,
    is_purge_unfinished,
)
from kaosmem.persistence.steps import List, Read, ReadNote, Steps

_OLDER_ITEMS = "an item that was changed there is as it was before"


def salvage(cause: CorruptionError, session: str = "") -> Steps[Recovered]:
    """Return the intact part of a session, and the damage.

    Args:
        cause: The reason why the session cannot be recovered.
        session: The id that the session is opened under, as in `recover`.

    Raises:
        CorruptionError: The cause, if nothing is intact.
        UnsupportedVersionError: If a newer version has written to the session.
        ConflictError: If other writers move the session's files all the time.
    """
    for _ in range(MAX_READ_ATTEMPTS):
        try:
            found = yield from _salvaged(session)
        except FileNotFoundError:  # another writer has deleted a file since it was listed
            continue
        if found is None:
            raise cause
        for each in found.damage:
            if cause.file == each.file or cause.seq == each.seq:
                return found
        found.damage.append(cause)
        return found
    raise changed_meanwhile()


def _salvaged(session: str) -> Steps[Recovered | None]:
    """Return the intact part of a session, None if there are files and nothing of them is intact.

    Raises FileNotFoundError if a file is gone that was listed.
    """
    damage: list[CorruptionError] = []
    noted = yield ReadNote()
    identity = yield from _own_identity(session, damage)
    log = numbers((yield List(LOG)))
    snapshots = yield from list_snapshots()
    base = yield from _base(snapshots, log, identity.log_id, damage)
    log_id = identity.log_id or base.log_id
    records, lost = yield from _read_log(log, base, log_id, damage)
    last_noted = noted[0] if noted else 0
    newest = max([last_noted, *snapshots])
    if (newest or records or lost) and not (records or base.items or base.header):
        return None
    is_named_lost = identity.segment > max([last_noted, base.purged, *log])
    damage += _gaps(records, lost, base.seq, newest, identity.segment if is_named_lost else 0)
    archives = None  # nothing names them
    header = None
    if base.log_id:
        archives = base.archives
        header = base.header
    damage += yield from check_archives(archives or ())
    found = [records[seq] for seq in sorted(records)]
    return Recovered(
        LogHead(max([base.seq, *records]), log_id=log_id),
        header,
        base.items,
        found,
        damage,
        is_partial=True,
        segments=tuple((first, 0) for first in log),
        snapshot=max(snapshots, default=0),
        purged=base.purged,
        archives=archives,
    )


def _own_identity(session: str, damage: list[CorruptionError]) -> Steps[SessionIdentity]:
    """Return the identity of a session, one without a log and a segment if it is lost."""
    found = None
    if session:
        found = yield from read_identity()
    if isinstance(found, SessionIdentity):
        if found.session == session:
            return found
        found = other_id(found.session, session)
    if found is not None:
        damage.append(found)
    return SessionIdentity(session, "", 0)


class _Line(NamedTuple):
    """A line of a file.

    Attributes:
        start: Its first byte.
        end: The byte after it.
        crc: The checksum that it states, None without one.
        fields: Empty if it does not fit.
    """

    start: int
    end: int
    crc: int | None
    fields: dict[str, Any]


def _lines(data: bytes, crc: int | None) -> Iterator[_Line]:
    """Yield the lines of a file, whether they fit or not.

    Args:
        crc: The checksum that the first line goes on from. If it is lost (None), the first line
            does not fit.
    """
    stated_before = crc  # the checksum that the line before states
    found_before = crc  # the checksum that the bytes of the line before have
    end = 0
    for raw in split_lines(data):
        start = end
        end = min(start + len(raw) + 1, len(data))
        if start == end:
            return
        stated = None
        with suppress(CorruptionError):
            stated = stated_crc(raw)
        fields = _fitting(raw, stated_before) or _fitting(raw, found_before)
        yield _Line(start, end, stated, fields)
        found_before = stated
        if not fields:
            found_before = None if stated_before is None else chained_crc(raw, stated_before)
        stated_before = stated


def _fitting(raw: bytes, crc: int | None) -> dict[str, Any]:
    """Return the fields of a line that goes on from a checksum, {} if it does not."""
    if crc is not None:
        with suppress(CorruptionError):
            checksum(raw, crc)
            return parse_object(raw)
    return {}


def _read(path: str, damage: list[CorruptionError]) -> Steps[bytes]:
    """Return the bytes of a file, none if a link, FIFO, device or folder is in its place."""
    try:
        data: bytes = yield Read(path)
    except CorruptionError as error:
        damage.append(error)
        return b""
    return data


def _items(
    path: str,
    seq: int,
    log_id: str,
    damage: list[CorruptionError],
) -> Steps[tuple[ItemFile, bool] | None]:
    """Return the intact items of a snapshot or archive file, and whether it is whole.

    Return None for a file of another session or another record. Raises UnsupportedVersionError.

    Args:
        seq: The record of a file without its header, which then has no `log_id`.
        log_id: The id of the session's log, "" if it is lost.
    """
    file = ItemFile(seq)
    count = None
    last = None
    data = yield from _read(path, damage)
    sound_bytes = len(data)  # up to the first line that does not fit
    for line in _lines(data, 0):
        last = line.crc
        try:
            if line.fields and line.start == 0:
                file = header_of(line.fields)
            elif type(line.fields.get("end")) is int:
                count = line.fields["end"]
            else:
                file.items.append(item_of(line.fields))
        except CorruptionError:
            sound_bytes = min(sound_bytes, line.start)
    is_sound = sound_bytes == len(data)
    is_whole = file.log_id != "" and is_sound and count == len(file.items)
    is_own = file.seq == seq and file.log_id in ("", log_id or file.log_id)
    if is_whole:
        is_own &= path in (snapshot_file(seq), archive_file(seq, last or 0))
    if not is_own:
        foreign = (
            f"{path!r} is a file of another session or another time; bring back the own one from "
            "a copy"
        )
        damage.append(CorruptionError(foreign, file=path))
        return None
    if not is_whole:
        damage.append(_damaged(path, sound_bytes, _lost_items(file, count)))
    return file, is_whole


def _lost_items(file: ItemFile, count: int | None) -> str:
    """Return what is lost of a file.

    Args:
        count: The number of items that it had, None if it is lost.
    """
    lost = "its end is lost"
    if count is not None:
        lost = f"{count - len(file.items)} of its {count} items are lost"
    if not file.log_id:
        lost += ", and its header"
    return f"{lost}; {OLDER_TEXTS}"


def _damaged(
    path: str,
    byte: int,
    what: str,
    seq: int | None = None,
) -> CorruptionError:
    """Return the error for a damaged place, and for what is lost there."""
    return CorruptionError(
        f"{path!r} is damaged or missing at byte {byte}: {what}", file=path, byte=byte, seq=seq
    )


def _base(
    snapshots: Sequence[int],
    log: Sequence[int],
    log_id: str,
    damage: list[CorruptionError],
) -> Steps[ItemFile]:
    """Return the newest whole snapshot, an empty one without it.

    A session in which something was forgotten has one snapshot and no log before it: if that is
    damaged, its intact items are returned.
    """
    part = None
    purged = 0
    for seq in reversed(snapshots):
        found = yield from _items(snapshot_file(seq), seq, log_id, damage)
        if found is None:
            continue
        file, is_whole = found
        if is_whole and seq >= purged:  # else a crash has left it undeleted
            return file
        if part is None:
            is_purge = not file.log_id and (yield from is_purge_unfinished())
            part = file
            purged = file.purged
            if is_purge:
                purged = seq
    # The first segment is blank if something was forgotten.
    begins = 1 in log and (yield Read(log_file(1)))
    if part and (purged or not begins):
        return part
    return ItemFile(0)


_Place = tuple[str, int]
"""A file, and a byte in it."""


def _read_log(
    firsts: Sequence[int],
    base: ItemFile,
    log_id: str,
    damage: list[CorruptionError],
) -> Steps[tuple[dict[int, Record], dict[int, _Place]]]:
    """Return the records after a snapshot, and the places of the lines that do not fit.

    Both are by numbers. A line that does not fit has the number that its record may have had.
    Raises UnsupportedVersionError.
    """
    records: dict[int, Record] = {}
    lost: dict[int, _Place] = {}
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
            end = _end(lines, LogHead(seq, crc or 0, first))
            tail = read_tail(data[end.size :], end, start=end.size, path=path)
            if tail.torn:
                damage.append(torn_tail(path, end.size, end.seq + 1, len(tail.torn)))
                lines = [each for each in lines if each[0].end <= end.size]
        for line, record in lines:
            seq = record.seq if record else seq + 1
            if record or seq not in crcs:
                crcs[seq] = line.crc
            if record and seq > base.seq:
                records.setdefault(seq, record)
            elif seq > base.seq:
                lost.setdefault(seq, (path, line.start))
    return records, lost


def _record(line: _Line, log_id: str) -> Record | None:
    """Return the record of a line, None if it does not fit or is of another log.

    Raises UnsupportedVersionError.
    """
    try:
        record = record_of(line.fields)
    except CorruptionError:
        return None
    check_version(record)
    if record.txn.startswith(txn_prefix(log_id)):
        return record
    return None


def _end(lines: Sequence[tuple[_Line, Record | None]], head: LogHead) -> LogHead:
    """Return where the last whole commit of a segment ends. Without one, return `head`."""
    for line, record in lines:
        if record and record.k == 0:
            head = LogHead(record.seq, line.crc or 0, head.segment, line.end)
    return head


def _gaps(
    records: Mapping[int, Record],
    lost: Mapping[int, _Place],
    start: int,
    newest: int,
    segment: int,
) -> Iterator[CorruptionError]:
    """Yield the damage of a log.

    Args:
        records: The records that `_read_log` returns.
        lost: The damage that `_read_log` returns.
        start: The record that the log begins after.
        newest: The last record that is known to have been stored, 0 for none.
        segment: The segment that the session's identity names, if it is missing, else 0. Its first
            record was stored, and nobody knows how many followed.
    """
    end = max([newest, start, segment - 1, *records, *lost])
    for before, after in pairwise(sorted([start, *records, end + 1])):
        first = before + 1
        if first == after:
            continue
        which = f"record {first} is"
        if first < after - 1:
            which = f"records {first} to {after - 1} are"
        path, byte = lost.get(first, (log_file(first), 0))
        yield _damaged(path, byte, f"{which} lost; {_OLDER_ITEMS}", first)
    if segment:  # a snapshot may hold its first records
        which = f"record {end + 1} and all later ones are lost"
        yield _damaged(log_file(segment), 0, f"{which}; {_OLDER_ITEMS}", end + 1)


def salvage_archive(
    archives: Sequence[ListedArchive] | None,
    *,
    since: int,
    log_id: str,
) -> Steps[tuple[list[Entry], list[CorruptionError]]]:
    """Return the intact versions of the archives, oldest first, and the damage.

    Args:
        archives: None if no snapshot names them. Then all files of this log from record `since` on
            are read.
    """
    damage: list[CorruptionError] = []
    entries: list[Entry] = []
    if archives is None:
        stored = yield from list_archives()
        files = [file for file in stored if file[0] >= since]
    else:
        files = [(each.seq, each.path) for each in archives]
    for seq, path in files:
        try:
            found = yield from _items(path, seq, log_id, damage)
        except FileNotFoundError:
            damage.append(missing_file(path, OLDER_TEXTS))
            continue
        if found is not None:
            entries += decoded_entries(found[0].items)
    return entries, damage
