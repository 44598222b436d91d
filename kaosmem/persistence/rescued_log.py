"""The intact records of a damaged log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from kaosmem.errors import CorruptionError, UnsupportedVersionError
from kaosmem.persistence.fragments import Fragment, fragments, lost_stretches, mended, vouch
from kaosmem.persistence.layout import log_file
from kaosmem.persistence.manifest import txn_prefix
from kaosmem.persistence.records import Record, is_torn, record_of, torn_tail

_SEQS_LOST_AT_ONCE = 100_000
"""What may be missing before a line that cannot be checked, for it to be believed."""


@dataclass
class RescuedLog:
    """The intact records of a log, by seq.

    firsts: of its segments. places: of each line, and of what may have been one, the seq that it has or may have had.
    unchecked: seqs of records whose checksums build on what is lost. torn: bytes of a commit that was never finished.
    """

    records: dict[int, Record] = field(default_factory=dict)
    firsts: Sequence[int] = ()
    places: list[tuple[int, Fragment]] = field(default_factory=list)
    unchecked: set[int] = field(default_factory=set)
    torn: list[tuple[int, Fragment]] = field(default_factory=list)

    @property
    def is_damaged(self) -> bool:
        """Return whether there are bytes that are not what was written."""
        return any(not fragment.is_sound for _, fragment in self.places)

    @property
    def last(self) -> int:
        """Return the seq of the last record, intact or not."""
        return max((seq for seq, _ in self.places), default=0)

    def gaps(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the first and last seq of each stretch of records after `start` and up to `end` that are lost."""
        known = [start, *sorted(seq for seq in self.records if start < seq <= end), end + 1]
        return [(before + 1, after - 1) for before, after in pairwise(known) if after - before > 1]

    def damage(self, start: int) -> Iterator[CorruptionError]:
        """Yield what is to be said of the log after record `start`."""
        lost = [place for place in self.places if not place[1].is_sound]
        gaps = self.gaps(start, self.last)
        for gap in gaps:
            yield self._lost(gap, [fragment for seq, fragment in lost if gap[0] <= seq <= gap[1]])
        rest = {fragment for seq, fragment in lost if seq > start and not any(a <= seq <= b for a, b in gaps)}
        for stretch in lost_stretches((fragment for _, fragment in self.places), lambda each: each not in rest):
            size = sum(fragment.size for fragment in stretch)
            yield _at(stretch[0], f"{size} bytes are not what was written, but no record is lost by that")
        for seq, fragment in self.places:
            if seq <= start or not fragment.is_sound:
                continue
            if fragment.is_mended:
                yield mended(fragment)
            elif seq in self.unchecked:
                what = f"record {seq} cannot be checked, as what precedes it is lost, and is served as it is"
                yield _at(fragment, what, seq)
        if self.torn:
            size = sum(fragment.size for _, fragment in self.torn)
            seq, first = self.torn[0]
            yield torn_tail(first.path, first.start, seq, size)

    def _lost(self, gap: tuple[int, int], lost: Sequence[Fragment]) -> CorruptionError:
        records = f"record {gap[0]} is" if gap[0] == gap[1] else f"records {gap[0]} to {gap[1]} are"
        if lost:
            size = sum(fragment.size for fragment in lost)
            return _at(lost[0], f"{size} bytes are not what was written, and {records} lost", gap[0])
        after = next((fragment for seq, fragment in self.places if seq == gap[1] + 1), None)
        if after is not None and after.start:
            return _at(after, f"{records} missing before it", gap[0])
        path = log_file(gap[0])
        return CorruptionError(f"there is a gap in the log: {records} in no file", file=path, byte=0, seq=gap[0])


def rescue_log(files: Iterable[tuple[int, bytes]], *, heads: Mapping[int, int], log_id: str = "") -> RescuedLog:
    """Return what is intact of a log.

    files: of each segment the seq of its first record, and its bytes, ascending. heads: checksums of records by seq.
    log_id: of the session's log, as far as it is known.
    A record that cannot be checked, as what precedes it is lost, is taken as it stands, unless it is of another log.
    Raises UnsupportedVersionError.
    """
    files = list(files)
    found = [fragment for first, data in files for fragment in fragments(data, log_file(first))]
    stated: dict[int, set[int]] = {seq: {crc} for seq, crc in heads.items()}
    for fragment in found:
        if fragment.claimed_seq is not None and fragment.stated is not None:
            stated.setdefault(fragment.claimed_seq, set()).add(fragment.stated)
    vouch(found, stated_before=lambda fragment: stated.get((fragment.claimed_seq or 0) - 1, ()))
    log = RescuedLog(firsts=[first for first, _ in files])
    for fragment in found:
        _take(fragment, log, log_id)
    log.places = list(_places(found, log.firsts))
    told = {*stated, *(seq for seq, fragment in log.places if fragment.stated is not None)}
    for seq, fragment in log.places:
        is_whole = not fragment.is_sound and seq == fragment.claimed_seq and fragment.fields is not None
        if is_whole and seq not in log.records and seq - 1 not in told:
            _take_unchecked(seq, fragment, log, log_id)
    _leave_out_torn(log)
    return log


def _take(fragment: Fragment, log: RescuedLog, log_id: str) -> None:
    """Add the record of a sound line; what is none is not sound."""
    if fragment.is_sound and fragment.fields is not None:
        try:
            record = record_of(fragment.fields)
        except CorruptionError:
            fragment.is_sound = False
        else:
            if record.seq == fragment.claimed_seq and record.txn.startswith(txn_prefix(log_id)):
                log.records.setdefault(record.seq, record)
            else:  # a number that no record has, or another session's record
                fragment.is_sound = False


def _take_unchecked(seq: int, fragment: Fragment, log: RescuedLog, log_id: str) -> None:
    """Add the record of a line of which nothing says what its checksum should build on."""
    try:
        record = record_of(fragment.fields or {})
    except (CorruptionError, UnsupportedVersionError):
        return
    if not record.txn.startswith(txn_prefix(log_id)):
        return
    log.records[seq] = record
    fragment.is_sound = True
    log.unchecked.add(seq)


def _places(found: Sequence[Fragment], firsts: Sequence[int]) -> Iterator[tuple[int, Fragment]]:
    """Yield each fragment with its seq: of one that is not sound what it says, if that can be, else the next one."""
    sound = {fragment.claimed_seq for fragment in found if fragment.is_sound}
    path, begin, end, following = "", 0, 0, 0
    for fragment in found:
        if fragment.path != path:
            path, begin = fragment.path, next(first for first in firsts if log_file(first) == fragment.path)
            end = next((first for first in firsts if first > begin), 0)
            following = begin
        claimed = fragment.claimed_seq
        limit = end or max(begin, following) + _SEQS_LOST_AT_ONCE
        if claimed is not None and (fragment.is_sound or (claimed not in sound and begin <= claimed < limit)):
            following = claimed
        yield following, fragment
        following += 1


def _leave_out_torn(log: RescuedLog) -> None:
    """Take out what a crash left of a last commit that was never acknowledged."""
    tail: list[tuple[int, Fragment]] = []
    for seq, fragment in reversed(log.places):
        record = log.records.get(seq) if fragment.is_sound else None
        if fragment.path != log.places[-1][1].path or (record is not None and record.k == 0):
            break
        tail.insert(0, (seq, fragment))
    unfinished = [log.records[seq] for seq, fragment in tail if fragment.is_sound]
    for index, (_, fragment) in enumerate(tail):
        after = [other.raw for _, other in tail[index + 1 :]]
        if fragment.is_sound or not fragment.ends:
            continue
        began = tail[0][1].start
        if not is_torn(fragment.raw, after, unfinished, start=fragment.start, commit_start=began):
            return
    log.torn = tail
    for seq, fragment in tail:
        if fragment.is_sound:
            log.records.pop(seq, None)
    log.places = log.places[: len(log.places) - len(tail)]


def _at(fragment: Fragment, what: str, seq: int | None = None) -> CorruptionError:
    path, byte = fragment.path, fragment.start
    return CorruptionError(f"{path!r} is damaged at byte {byte}: {what}", file=path, byte=byte, seq=seq)
