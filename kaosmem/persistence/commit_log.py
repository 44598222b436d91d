"""The commits of one session."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterable, Sequence

from kaosmem.errors import ConflictError, CorruptionError, ReadOnlyError
from kaosmem.persistence.archives import Archives
from kaosmem.persistence.checkpoint import roll_up, segments_to_roll_up
from kaosmem.persistence.commit import (
    LogChanges,
    LogEnd,
    LogSinceSnapshot,
    append,
    catch_up,
    conflict,
    create,
    settle,
)
from kaosmem.persistence.files.manifest import SessionIdentity, txn_prefix, write_identity
from kaosmem.persistence.files.records import (
    FORMAT_VERSION,
    Change,
    Commit,
    LogHead,
    Record,
    encode_commit,
)
from kaosmem.persistence.recovery import Recovered
from kaosmem.persistence.steps import Steps, run
from kaosmem.persistence.storage.places import Storage, as_durability_error
from kaosmem.sections.operations import Forget

_TRUSTED_S = 60.0
"""For how long what was seen of an object store may be relied on."""


class CommitLog:
    """The commits of one session, for one caller at a time.

    After a DurabilityError, a commit of the same changes may be tried again. After a ConflictError,
    `catch_up` returns the changes of other writers, and `adopt` goes on from there.

    Attributes:
        has_leftovers: Whether files are left that a forgetting should have deleted.
        late_files: The files that a server has stored after their erasure. It may carry out
            requests that their senders gave up.
    """

    def __init__(
        self,
        storage: Storage,
        recovered: Recovered,
        session_id: str = "",
        *,
        read_only: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.storage = storage
        self._session_id = session_id
        self._read_only = read_only
        self._clock = clock
        self._unsettled: tuple[Commit, list[Change]] | None = None
        self.late_files: list[str] = []
        self._measures = threading.Lock()
        self.archives = Archives(storage, recovered, salvages=read_only)
        # The first writer may have been killed before the identity was durable. Only a log of one
        # commit may lack it.
        is_first_alone = len(recovered.head.txns) == 1 and not recovered.snapshot
        self._named = recovered.named  # the segment that the identity names
        if storage.appends and is_first_alone:
            self._named = 0
        self._start_from(recovered)

    def _start_from(self, recovered: Recovered) -> None:
        """Go on from the state of the whole session."""
        self._has_tombstone = False
        self._see(recovered.head, recovered.torn, recovered.records)
        self._since_snapshot = LogSinceSnapshot(recovered)
        self.archives.start_from(recovered)
        self.has_leftovers = recovered.has_leftovers

    def _see(
        self,
        head: LogHead,
        torn: bytes,
        later: Iterable[Record | Change],
    ) -> None:
        """Note where the log ends now, and whether its later records have a tombstone."""
        self._head = head
        self._torn = torn
        self._seen_at = self._clock()
        for each in later:
            if each.op == Forget.op:
                self._has_tombstone = True

    @property
    def seq(self) -> int:
        """Return the number of the last committed record, 0 before the first."""
        return self._head.seq

    @property
    def end(self) -> LogEnd:
        """Return the present end of the log, for a snapshot or an index of the state at this time."""
        with self._measures:
            return LogEnd(self._head, self._since_snapshot.log_bytes)

    @property
    def damage(self) -> tuple[CorruptionError, ...]:
        """Return the damage found so far, and its consequences."""
        return tuple(self.archives.damage)

    def commit(self, changes: Sequence[Change]) -> int:
        """Make `changes` durable, all or none, and return the number of the last record.

        The first change of a session holds its `version`, FORMAT_VERSION.
        Raises ConflictError, InvalidArgumentError or ReadOnlyError with nothing written, and
        DurabilityError.
        """
        self._check_writable()
        if not changes:
            return self.seq
        if self.seq == 0 and changes[0].data.get("version") != FORMAT_VERSION:
            raise ValueError(
                f"a session's first change needs data={{'version': {FORMAT_VERSION}, ...}}"
            )
        if self.archives.is_outdated:
            raise conflict(self._head)
        is_retry = False
        if self._unsettled is not None:
            commit, before = self._unsettled
            is_retry = before == list(changes)
        if not is_retry:
            commit = self._encoded(changes)
        self._unsettled = commit, list(changes)
        with as_durability_error("the commit"):
            try:
                head = run(self.steps_of(commit), self.storage)
            except ConflictError:
                if is_retry and self._is_settled_alone():
                    return self.seq
                if not is_retry and self.storage.appends:
                    # elsewhere it may be there, its answer lost, under what others did since
                    self._unsettled = None
                raise
        self._unsettled = None
        self._named = self._last_segment(head)
        self._advance(head, commit, changes)
        return self.seq

    def steps_of(self, commit: Commit) -> Steps[LogHead]:
        """Return the protocol of a commit.

        The identity of the session names the last segment once that has a commit.
        """
        first = None
        if self._session_id and self.seq and not self._named:
            first = SessionIdentity(self._session_id, self._head.log_id, 0)
        if self.storage.appends:
            snapshot = max(self._since_snapshot.sound, default=0)
            head = yield from append(self._head, commit, first, snapshot=snapshot)
        else:
            look_first = self._clock() - self._seen_at > _TRUSTED_S
            head = yield from create(self._head, self._torn, commit, first, look_first=look_first)
        unnamed = self._unnamed(head)
        if unnamed is not None:
            yield from write_identity(unnamed)
        return head

    def _unnamed(self, head: LogHead) -> SessionIdentity | None:
        """Return the identity to be stored if the stored one does not name the last segment."""
        segment = self._last_segment(head)
        if not self._session_id or segment == self._named:
            return None
        return SessionIdentity(self._session_id, head.log_id, segment)

    def _last_segment(self, head: LogHead) -> int:
        """Return the last segment that is held for good. Objects may be rolled up into the first."""
        if self.storage.appends:
            return head.segment
        return 1

    def catch_up(self, *, whole: bool = False) -> LogChanges:
        """Return the later commits of others, and whether a failed commit is stored.

        Nothing changes here.

        Args:
            whole: Return the state of the whole session with them.

        Raises ConflictError if the log was replaced by another, CorruptionError, DurabilityError.
        """
        with as_durability_error("reading what others committed"):
            unsettled = self._unsettled and self._unsettled[0]
            catching_up = catch_up(self._head, unsettled, whole=whole or self.archives.is_outdated)
            log_changes = run(catching_up, self.storage)
            if log_changes.is_settled:
                head = log_changes.recovered.head
                run(settle(head, self._unnamed(head)), self.storage)
            return log_changes

    def adopt(self, log_changes: LogChanges) -> None:
        """Go on from the result of `catch_up`."""
        recovered = log_changes.recovered
        self._unsettled = None
        with self._measures:
            if log_changes.is_whole:
                self._start_from(recovered)
                return
            self._see(recovered.head, recovered.torn, recovered.records)
            self._since_snapshot.follow(recovered)

    @property
    def mark(self) -> tuple[str, int, str]:
        """Return the id of the log, the number of its last record, and that record's checksum."""
        return self._head.log_id, self.seq, f"{self._head.crc:08x}"

    def close(self) -> None:
        """Refuse further writes; everything committed is durable already."""
        self._read_only = True

    def _check_writable(self) -> None:
        if self._read_only:
            raise ReadOnlyError(
                "the session was opened read-only or is closed; open it for writing"
            )

    def _encoded(self, changes: Sequence[Change]) -> Commit:
        """Return changes as the next commit, under a random id."""
        head = self._head
        txn = txn_prefix(head.log_id) + secrets.token_hex(5 if head.seq else 8)
        return encode_commit(changes, txn, seq=head.seq, crc=head.crc)

    def _is_settled_alone(self) -> bool:
        """Return whether the failed commit alone has come to the log. If so, go on from it."""
        log_changes = self.catch_up()
        if not log_changes.is_settled or log_changes.records != []:
            return False
        self.adopt(log_changes)
        return True

    def _advance(
        self,
        head: LogHead,
        commit: Commit,
        changes: Iterable[Change],
    ) -> None:
        """Go on after an own commit."""
        with self._measures:
            self._see(head, b"", changes)
            self._since_snapshot.log_bytes += len(commit.data)
            self._since_snapshot.txns.add(commit.txn)
            if not self.storage.appends:
                self._since_snapshot.segments.append((head.segment, 1))
        if not self.storage.appends:
            self._roll_up()

    def _roll_up(self) -> None:
        """Make the newest small segments one, so that opening reads few files."""
        while count := segments_to_roll_up(self._since_snapshot.segments):
            try:
                rolled = run(roll_up(self._since_snapshot.segments[-count:]), self.storage)
            except OSError:  # the commit stands, and so do the small segments
                return
            with self._measures:
                self._since_snapshot.segments[-count:] = [rolled]
