"""The part of a log since its last snapshot, by file."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, replace

from kaosmem.persistence.records import Commit
from kaosmem.persistence.recovery import Recovery
from kaosmem.persistence.tail import Head


@dataclass(frozen=True, slots=True)
class End:
    """Where a commit ends.

    crc: checksum of its last record. txn: its id. log_bytes: of the log since the snapshot, up to there.
    """

    crc: int
    txn: str
    log_bytes: int

    @classmethod
    def of(cls, head: Head, log_bytes: int) -> End:
        """Return the end of the last commit."""
        return cls(head.crc, head.txns[-1] if head.txns else "", log_bytes)


class Extent:
    """The part of a log since its last snapshot. It grows with each commit, and a snapshot cuts it.

    snapshot_bytes, log_bytes: of the last snapshot, and of the records after it.
    sound: the two newest snapshots that were read or written whole.
    segments: each the seq of its first record and its number of commits.
    commits: by their last records, the ids of those since the snapshot, and of older ones that an index is kept of.
    """

    def __init__(self, recovery: Recovery) -> None:
        self.snapshot_bytes, self.log_bytes = recovery.snapshot_bytes, recovery.log_bytes
        self.sound = {recovery.snapshot} - {0}
        self.segments = list(recovery.segments)
        self.commits = dict(recovery.commits)
        # By the last record of each commit since the snapshot.
        self._ends = {recovery.head.seq: End.of(recovery.head, recovery.log_bytes)}

    def end(self, seq: int) -> End | None:
        """Return where the commit ends whose last record is `seq`, None where a newer state is stored.

        Raises ValueError if no commit since the snapshot ends there.
        """
        if 0 < seq < min(self._ends):
            return None  # others have stored a newer state, from which this log goes on
        if seq not in self._ends:
            raise ValueError(f"record {seq} is not the last of a commit since the snapshot before")
        return self._ends[seq]

    def add(self, head: Head, commit: Commit) -> None:
        """Note a commit, after which the log ends at `head`."""
        self.log_bytes += len(commit.data)
        self._ends[head.seq] = End.of(head, self.log_bytes)
        self.commits[head.seq] = commit.txn

    def follow(self, recovery: Recovery) -> None:
        """Note the later commits of others."""
        self.log_bytes += recovery.log_bytes
        self.commits |= recovery.commits
        self._ends[recovery.head.seq] = End.of(recovery.head, self.log_bytes)
        known = {first for first, _ in self.segments}
        self.segments += (segment for segment in recovery.segments if segment[0] not in known)

    def cut(self, seq: int, end: End, *, snapshot_bytes: int, indexed: Container[int]) -> None:
        """Note that the state after record `seq`, where a commit ends, is stored.

        indexed: the last records of older commits that indexes are kept of.
        """
        self.sound = {*sorted({*self.sound, seq})[-2:]}
        self.snapshot_bytes = snapshot_bytes
        self.log_bytes -= end.log_bytes
        kept = {at: each for at, each in self._ends.items() if at >= seq}
        self._ends = {at: replace(each, log_bytes=each.log_bytes - end.log_bytes) for at, each in kept.items()}
        self.segments = [(first, count) for first, count in self.segments if first > seq]
        self.commits = {last: txn for last, txn in self.commits.items() if last >= seq or last in indexed}

    def begin_anew(self, head: Head, *, snapshot_bytes: int) -> None:
        """Note that the state at `head` is stored, and nothing else is there any more."""
        self.snapshot_bytes, self.log_bytes = snapshot_bytes, 0
        self.sound, self.segments = {head.seq}, []
        self._ends = {head.seq: End.of(head, 0)}
        self.commits = {last: txn for last, txn in self.commits.items() if last == head.seq}
