"""The intact parts of a damaged session, and a list of the missing ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from kaosmem.errors import CorruptionError
from kaosmem.persistence.items import ItemFile, decode_items
from kaosmem.persistence.layout import LOG, SNAP, log_file, numbers, segments, snapshot_file
from kaosmem.persistence.manifest import Blob, Identity, Listed, check_archives, fill, foreign, other_id, read_identity
from kaosmem.persistence.records import TXNS_KEPT, Head
from kaosmem.persistence.recovery import (
    LOOKS,
    Recovered,
    Recovery,
    changed_meanwhile,
    check_version,
    is_purge_unfinished,
)
from kaosmem.persistence.rescued_items import RescuedItems, rescue_items
from kaosmem.persistence.rescued_log import RescuedLog, rescue_log
from kaosmem.persistence.steps import List, Read, Steps
from kaosmem.types import JSONValue


def salvage(cause: CorruptionError, session: str = "") -> Steps[Recovery]:
    """Return what is intact of a session, exactly as it was where that can be told, else as near as can be.

    cause: why it can't be recovered; raised where nothing is intact. session: as in `recover`.
    Raises UnsupportedVersionError, and ConflictError where other writers move the session's files all the time.
    """
    for _ in range(LOOKS):
        identity = (yield from read_identity()) if session else None
        log, snapshots = (yield List(LOG)), (yield List(SNAP))
        found = _Salvage(session)
        try:
            found.note_identity(identity)
            yield from found.read_snapshots(numbers(snapshots))
            yield from found.read_log(log)
            yield from found.fill()
            found.damage += yield from check_archives(found.archives or ())
        except FileNotFoundError:
            continue
        if (log, snapshots) == ((yield List(LOG)), (yield List(SNAP))):
            return found.recovery(cause)
    raise changed_meanwhile()


@dataclass
class _Salvage:
    """What was found so far.

    base, base_bytes: the newest snapshot that is whole. parts: of newer ones that are not, ascending.
    purged: up to where snapshots say that older files are to be gone.
    session: the id that the session is opened under. log_id: the id of its log, "" where that is not known.
    """

    session: str = ""
    log_id: str = ""
    damage: list[CorruptionError] = field(default_factory=list)
    base: ItemFile | None = None
    base_bytes: int = 0
    has_header: bool = True
    parts: list[RescuedItems] = field(default_factory=list)
    purged: int = 0
    newest: int = 0
    log: RescuedLog = field(default_factory=RescuedLog)
    lacks_text: bool = False

    @property
    def archives(self) -> tuple[Listed, ...] | None:
        """Return the archive files that belong to the session, None where no snapshot tells."""
        named = [file for file in self._files() if file.log_id]
        if named:
            return named[-1].archives
        return None

    def note_identity(self, identity: Identity | CorruptionError | None) -> None:
        """Enter which log is the session's own; of another session's identity, that it is one."""
        if isinstance(identity, CorruptionError):
            self.damage.append(identity)
        elif identity and identity.session != self.session:
            self.damage.append(other_id(identity.session, self.session))
        elif identity:
            self.log_id = identity.log_id

    def read_snapshots(self, seqs: Sequence[int]) -> Steps[None]:
        """Read the newest sound snapshot, and what is intact of those after it."""
        self.newest = max(seqs, default=0)
        for seq in reversed(seqs):
            path = snapshot_file(seq)
            try:
                data = yield Read(path)
                found = decode_items(data, path)
                if found.seq != seq:
                    raise CorruptionError(f"{path!r} is the snapshot of record {found.seq}", file=path)
                if self.log_id not in ("", found.log_id):
                    raise foreign(path, self.session)
            except CorruptionError as error:
                if error.byte is None:  # no file, or another's
                    self.damage.append(error)
                    continue
                rescued = rescue_items(data, path, seq)
                self.parts.insert(0, rescued)
                self.purged = max(self.purged, rescued.file.purged)
            else:
                self.base, self.base_bytes = found, len(data)
                break
        if self.parts and not self.parts[-1].has_header and (yield from is_purge_unfinished()):
            self.purged = max(self.purged, self.parts[-1].file.seq)
        if self.base and self.base.seq < self.purged:
            self.base = None
        self.purged = max(self.purged, self.base.purged if self.base else 0)
        self.parts = [part for part in self.parts if part.file.seq >= self.purged]

    def read_log(self, names: Iterable[str]) -> Steps[None]:
        """Read what is intact of the log, and choose what the session is put together from."""
        try:
            segments(names)
        except CorruptionError as error:
            self.damage.append(error)
        files = []
        for first in numbers(names):
            path = log_file(first)
            try:
                files.append((first, (yield Read(path))))
            except CorruptionError as error:
                self.damage.append(error)
        heads = {file.seq: file.crc for file in self._files() if file.log_id or file.crc}
        log_id = self.log_id or (self.base.log_id if self.base else "")
        self.log = rescue_log(files, heads={0: 0} | heads, log_id=log_id)
        for record in self.log.records.values():
            check_version(record)
        for part in list(self.parts):
            self.damage += part.damage
            seq = part.file.seq
            if (self.base or not self.purged) and not self.log.gaps(self._start, seq):
                self.parts.remove(part)  # the log has all that it has
            elif part.lost == 0:
                self.base, self.has_header = part.file, part.has_header
                self.parts = [later for later in self.parts if later.file.seq > seq]
        self.damage += self.log.damage(self._told_from)

    def fill(self) -> Steps[None]:
        """Put long texts in their places; without its text an item or record is left out."""
        for file in self._files():
            for data, blobs in file.lacking:
                if not (yield from self._filled(data, blobs, f"an item of {snapshot_file(file.seq)!r}")):
                    file.items[:] = [(section, item) for section, item in file.items if item is not data]
        for seq, record in list(self.log.records.items()):
            is_needed = seq > self._start
            if not is_needed or not (yield from self._filled(record.data, record.blobs, f"record {seq}", seq=seq)):
                del self.log.records[seq]

    def recovery(self, cause: CorruptionError) -> Recovery:
        """Return what was found, with what is missing. Raises `cause` where nothing was."""
        is_exact = self._is_exact
        records = [record for _, record in sorted(self.log.records.items())]
        if self.newest > max(self._start, *self.log.records, 0):
            self.damage.append(_unreached(self.newest))
        base, parts = self.base, [part.file for part in self.parts]
        is_something = records or base or any(file.items or file.header for file in parts)
        if not is_something and (parts or self.log.is_damaged):
            raise cause
        if not self.damage:
            self.damage.append(cause)
        recovered = Recovered(
            base.header if base and self.has_header else None,
            base.items if base else [],
            records,
            self.damage,
            parts=parts,
            is_partial=not is_exact,
        )
        txns = (*(base.txns if base else ()), *(record.txn for record in records if record.k == 0))
        ends = [(seq, crc) for file in self._files() for seq, crc in [(file.seq, file.crc)]]
        seq, crc = max([*ends, *((record.seq, 0) for record in records)], default=(0, 0))
        head = Head(seq, crc, txns=txns[-TXNS_KEPT:], log_id=self.log_id or (base.log_id if base else ""))
        firsts = tuple((first, 0) for first in self.log.firsts)
        return Recovery(
            *(recovered, head, b"", firsts, self.newest, self.base_bytes, 0, self.purged, False, {}),
            archives=self.archives,
        )

    @property
    def _start(self) -> int:
        """Return the record that the log is needed from."""
        return max(self.purged, self.base.seq if self.base else 0)

    @property
    def _told_from(self) -> int:
        """Return the record after which it is known that there was a log, which a snapshot may have made unneeded."""
        if self.base or not self.parts:
            return self._start
        return max(self._start, min([self.parts[-1].file.seq, *(seq - 1 for seq in self.log.records)]))

    @property
    def _is_exact(self) -> bool:
        """Return whether what was found is the state of the session at the end of its log."""
        start = self.base.seq if self.base else 0
        last = max(self.newest, self.log.last, start)
        is_whole = self.has_header and not self.parts and not self.lacks_text and start >= self.purged
        return is_whole and not self.log.gaps(start, last) and max(self.log.unchecked, default=0) <= start

    def _files(self) -> Iterator[ItemFile]:
        if self.base:
            yield self.base
        yield from (part.file for part in self.parts)

    def _filled(
        self, data: dict[str, JSONValue], blobs: Sequence[Blob], whose: str, *, seq: int | None = None
    ) -> Steps[bool]:
        """Fill in the texts that data lacks, and return whether it is of use.

        seq: of a record, whose lists go on without the elements that lack their texts.
        """
        for blob in blobs:
            try:
                yield from fill(data, [blob])
            except CorruptionError as error:
                self.lacks_text = True
                what = f"{error}; {whose} lacks its text of {blob.size} bytes"
                self.damage.append(CorruptionError(what, file=error.file, byte=0, seq=seq))
                if seq is None or not _cut_out(data, blob.path):
                    return False
        for name in {str(blob.path[0]) for blob in blobs}:
            if isinstance(data[name], list):
                data[name] = [element for element in data[name] if element is not None]
        return True


def _cut_out(data: dict[str, JSONValue], path: Sequence[str | int]) -> bool:
    """Put None in the place of the element of a list in data that a path leads through, if there is one."""
    match path:
        case [str(name), int(index), _, *_] if isinstance(elements := data.get(name), list) and index < len(elements):
            elements[index] = None
            return True
    return False


def _unreached(newest: int) -> CorruptionError:
    path = snapshot_file(newest)
    return CorruptionError(f"the session went on up to record {newest}; {path!r} had it all", file=path, seq=newest)
