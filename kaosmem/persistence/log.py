"""The session log: commits, snapshots and the archive of one session."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from kaosmem.errors import ConflictError, CorruptionError, KaosmemError, ReadOnlyError
from kaosmem.persistence.archives import Archives
from kaosmem.persistence.checkpoint import (
    encode_index,
    erase,
    indexed_records,
    purge,
    read_index,
    roll_up,
    segments_to_roll_up,
    store_index,
    store_snapshot,
)
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
from kaosmem.persistence.files.archive import (
    Entry,
    NewArchive,
    new_archive,
)
from kaosmem.persistence.files.items import ItemFile, encode_items
from kaosmem.persistence.files.manifest import (
    Identity,
    ListedArchive,
    txn_prefix,
    write_identity,
)
from kaosmem.persistence.files.records import FORMAT_VERSION, Change, Commit, Head, encode_commit
from kaosmem.persistence.layout import older_files
from kaosmem.persistence.recovery import (
    Recovered,
    recover,
)
from kaosmem.persistence.salvage import salvage
from kaosmem.persistence.steps import Steps, run
from kaosmem.persistence.storage.places import (
    Location,
    Storage,
    as_durability_error,
    check_no_other,
    open_storage,
    stored_files,
)
from kaosmem.sections.operations import Forget
from kaosmem.types import JSONValue

T = TypeVar("T")

MIN_LOG_BYTES = 256 * 1024
"""A snapshot is not worth taking for a shorter log."""

_UNDER_WAY_S = 0.001, 0.01, 0.1
"""The pause before a torn commit is looked at again: another writer may be appending it."""

_TRUSTED_S = 60.0
"""For how long what was seen of an object store may be relied on."""


class SessionLog:
    """The durable history of one session, for one caller at a time.

    A snapshot may be stored while commits go on.

    After a DurabilityError, a commit of the same changes may be tried again. After a ConflictError,
    `catch_up` returns the changes of other writers, and `adopt` goes on from there.
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
        self._late: list[str] = []
        self._measures = threading.Lock()
        self.archives = Archives(storage, recovered, salvages=read_only)
        # The first writer may have been killed before the identity was durable. Only a log of one
        # commit may lack it.
        is_first_alone = len(recovered.head.txns) == 1 and not recovered.snapshot
        is_unsure = storage.appends and is_first_alone
        self._named = 0 if is_unsure else recovered.named  # the segment that the identity names
        self._start_from(recovered)

    def _start_from(self, recovered: Recovered) -> None:
        self._head, self._torn, self._seen_at = recovered.head, recovered.torn, self._clock()
        self._since_snapshot = LogSinceSnapshot(recovered)
        self.archives.start_from(recovered)
        self._has_leftovers = recovered.has_leftovers
        self._has_tombstone = any(record.op == Forget.op for record in recovered.records)

    @classmethod
    def open(
        cls,
        location: Location,
        session_id: str,
        *,
        namespace: str = "default",
        read_only: bool = False,
        single_writer: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> tuple[SessionLog, Recovered]:
        """Return the log of a session and its state.

        Nothing is written, even for a missing session.

        Raises InvalidNameError before any I/O, CorruptionError, UnsupportedVersionError.

        Args:
            location: A path, a URL that fsspec knows, or a filesystem, whose root is then meant.
            read_only: Serve the intact part and list the rest.
            single_writer: The caller vouches for being the only writer, so the storage need not.
        """
        storage = open_storage(location, namespace, session_id, single_writer=single_writer)
        log, recovered = cls.over(storage, session_id, read_only=read_only, clock=clock)
        if storage.appends:
            for pause_s in _UNDER_WAY_S:
                if not log._torn:
                    break
                time.sleep(pause_s)
                log, recovered = cls.over(storage, session_id, read_only=read_only, clock=clock)
        return log, recovered

    @classmethod
    def over(
        cls,
        storage: Storage,
        session_id: str = "",
        *,
        read_only: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> tuple[SessionLog, Recovered]:
        """Return the log that a storage holds, and its state, as `open` does.

        Args:
            session_id: Without it, the identity of the session is neither stored nor checked.
        """
        with as_durability_error("reading the session"):
            try:
                recovered = run(recover(session_id, is_noted=storage.appends), storage)
            except CorruptionError as error:
                if not read_only:
                    raise
                recovered = run(salvage(error, session_id, is_noted=storage.appends), storage)
            if not recovered.segments and not recovered.snapshot:
                check_no_other(storage)
        log = cls(storage, recovered, session_id, read_only=read_only, clock=clock)
        if recovered.purged and not (read_only or storage.appends):
            log._late = older_files(stored_files(storage), recovered.purged)
        return log, recovered

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

    @property
    def has_leftovers(self) -> bool:
        """Return whether files are left that a forgetting should have deleted."""
        return self._has_leftovers

    @property
    def snapshot_due(self) -> bool:
        """Return whether the log since the last snapshot is as long as that snapshot."""
        return self._since_snapshot.log_bytes >= max(
            self._since_snapshot.snapshot_bytes, MIN_LOG_BYTES
        )

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
        is_retry = self._unsettled is not None and self._unsettled[1] == list(changes)
        commit = self._unsettled[0] if self._unsettled and is_retry else self._encoded(changes)
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
        self._has_tombstone |= any(change.op == Forget.op for change in changes)
        self._advance(head, commit)
        return self.seq

    def steps_of(self, commit: Commit) -> Steps[Head]:
        """Return the protocol of a commit.

        The identity of the session names the last segment once that has a commit.
        """
        first = None
        if self._session_id and self.seq and not self._named:
            first = Identity(self._session_id, self._head.log_id, 0)
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

    def _unnamed(self, head: Head) -> Identity | None:
        """Return the identity to be stored if the stored one does not name the last segment."""
        segment = self._last_segment(head)
        if not self._session_id or segment == self._named:
            return None
        return Identity(self._session_id, head.log_id, segment)

    def _last_segment(self, head: Head) -> int:
        """Return the last segment that is held for good. Objects may be rolled up into the first."""
        return head.segment if self.storage.appends else 1

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
            self._head, self._torn, self._seen_at = recovered.head, recovered.torn, self._clock()
            self._has_tombstone |= any(record.op == Forget.op for record in recovered.records)
            self._since_snapshot.follow(recovered)

    def snapshot(
        self,
        header: Mapping[str, JSONValue],
        items: Iterable[Entry],
        *,
        archived: Iterable[Entry] = (),
        at: LogEnd,
    ) -> bool:
        """Store the state at an earlier end of the log, and prune.

        Args:
            items: The section and data of each item, in the order to be read back.
            archived: Items evicted or replaced since the snapshot before, oldest first, each with
                its `id`. They are kept for good.
            at: The end of the log at the time of the state.

        Returns:
            Whether it was stored: not where a newer state is stored, nor where another writer is
            forgetting.

        Raises:
            InvalidArgumentError: If JSON can't hold a value.
            ReadOnlyError: If the log is read-only or closed.
            DurabilityError: If the storage fails.
            ConflictError: If the session is gone.
        """
        self._check_writable()
        if self._session_id and not self._named:  # the next commit names it
            return False
        with self._measures:
            if at.head.seq < self._since_snapshot.start:  # a newer state is known
                return False
            # Another writer may finish an unfinished purge at any time, and delete archive files
            # that are named here.
            if self.archives.is_outdated or self._has_leftovers:
                return False
            sound = {*self._since_snapshot.sound}
            purged = self.archives.purged
        if self._is_forgetting(purged):
            return False
        seq = at.head.seq
        commits = self._indexed_commits(seq)
        archive = self._new_archive(archived, seq, header.get("counter"))
        file = self._snapshot_file(at.head, header, purged)
        file = replace(file, commits=commits, archives=tuple(self.archives.listed or ()))
        sizes = list[int]()
        lines = _lines(file, items, archive, sizes)
        with as_durability_error("the snapshot"):
            storing = store_snapshot(self._head, seq, lines, archive, sound=sound, purged=purged)
            stored = run(storing, self.storage)
        if stored:
            with self._measures:
                self.archives.listed = _listed(self.archives.listed or (), archive)
                self._since_snapshot.cut(at, snapshot_bytes=sum(sizes), indexed=commits)
        return stored

    def _is_forgetting(self, purged: int) -> bool:
        """Return whether the log has a tombstone that the next snapshot would hide.

        A snapshot holds no tombstone: a later opening would not know that files still hold the
        forgotten texts.
        """
        if (self._has_tombstone or purged) and not self.storage.appends:
            # Nothing locks: another writer may have deleted archive files that would be named.
            self.archives.look()
        return self.archives.is_outdated or self._has_tombstone

    def _indexed_commits(self, seq: int) -> dict[int, str]:
        """Return the ids of the commits before a record of which an index is stored."""
        with as_durability_error("the snapshot"):
            indexed = {*run(indexed_records(), self.storage)}
        with self._measures:
            known = self._since_snapshot.commits.items()
            return {last: txn for last, txn in known if last < seq and last in indexed}

    def store_index(
        self,
        section: str,
        header: Mapping[str, JSONValue],
        chunks: Iterable[bytes],
        *,
        at: LogEnd,
        ranker: str = "",
    ) -> bool:
        """Keep the index of a section as it was at an earlier end of the log.

        Returns whether it is kept: not where something was forgotten since. Older ones of the
        section are deleted. Raises as `snapshot`.

        Args:
            header: Fields by which the caller decides whether it can use the index.
            at: The end of the log at the time of the index.
            ranker: Name of the index's ranker.
        """
        self._check_writable()
        seq = at.head.seq
        with self._measures:
            head = self._head
            sound = {*self._since_snapshot.sound}
            txn = self._since_snapshot.commits.get(seq)
        if txn is None or txn not in at.head.txns:  # the log was read anew since, without it
            return False
        lines = encode_index(section, header, chunks, seq=seq, txn=txn, ranker=ranker)
        with as_durability_error("the index"):
            return run(
                store_index(head, section, lines, seq=seq, sound=sound),
                self.storage,
            )

    def index(
        self, section: str, ranker: str = ""
    ) -> tuple[dict[str, JSONValue], memoryview] | None:
        """Return the header and the bytes of a ranker's index of a section.

        Return None if none can be used.
        """
        with self._measures:
            commits = dict(self._since_snapshot.commits)
        try:
            return run(read_index(section, commits, ranker), self.storage)
        except (KaosmemError, OSError):  # all that it says can be made anew
            return None

    def purge(
        self, header: Mapping[str, JSONValue], items: Iterable[Entry], *, archived: Iterable[Entry]
    ) -> None:
        """Store the state after the last record alone, and delete everything older at once.

        Raises as `snapshot`, and ConflictError where another has committed meanwhile.

        Args:
            archived: All versions that are to be kept, those in archive files included, oldest
                first.
        """
        self._check_writable()
        head = self._head
        counter = (
            header.get("counter") if self.archives.counters <= {header.get("counter")} else None
        )
        archive = self._new_archive(archived, head.seq, counter)
        sizes: list[int] = []
        lines = _lines(self._snapshot_file(head, header, head.seq), items, archive, sizes)
        with as_durability_error("forgetting"):
            run(purge(head, lines, archive, locks=self.storage.appends), self.storage)
        with self._measures:
            self._head = head.before(0)
            self._torn = b""
            self._has_tombstone = False
            self.archives.listed = _listed((), archive)
            self._since_snapshot.begin_anew(head, snapshot_bytes=sum(sizes))
            self.archives.purged = head.seq
            self._has_leftovers = False

    @property
    def has_late_files(self) -> bool:
        """Return whether a server has stored files after their erasure.

        It may carry out requests that their senders gave up.
        """
        return bool(self._late)

    def delete_late_files(self) -> None:
        """Delete the files that a server stored after their erasure.

        Raises ReadOnlyError, DurabilityError.
        """
        self._check_writable()
        with as_durability_error("forgetting"):
            run(erase(self._late), self.storage)
        self._late = []

    @property
    def mark(self) -> tuple[str, int, str]:
        """Return the id of the log, the number of its last record, and that record's checksum."""
        return self._head.log_id, self.seq, f"{self._head.crc:08x}"

    def close(self) -> None:
        """Refuse further writes; everything committed is durable already."""
        self._read_only = True
        self.storage.close()

    def _check_writable(self) -> None:
        if self._read_only:
            raise ReadOnlyError(
                "the session was opened read-only or is closed; open it for writing"
            )

    def _encoded(self, changes: Sequence[Change]) -> Commit:
        txn = txn_prefix(self._head.log_id) + secrets.token_hex(5 if self.seq else 8)
        return encode_commit(
            changes,
            txn,
            seq=self._head.seq,
            crc=self._head.crc,
        )

    def _snapshot_file(self, head: Head, header: Mapping[str, JSONValue], purged: int) -> ItemFile:
        """Return a snapshot at an end of the log, without items and archives."""
        return ItemFile(head.seq, head.crc, head.txns, self._head.log_id, purged, header)

    def _new_archive(
        self, archived: Iterable[Entry], seq: int, counter: JSONValue
    ) -> NewArchive | None:
        named = counter if isinstance(counter, str) else None
        return new_archive(archived, seq=seq, log_id=self._head.log_id, counter=named)

    def _is_settled_alone(self) -> bool:
        """Return whether the failed commit alone has come to the log. If so, go on from it."""
        log_changes = self.catch_up()
        if not log_changes.is_settled or log_changes.records != []:
            return False
        self.adopt(log_changes)
        return True

    def _advance(self, head: Head, commit: Commit) -> None:
        with self._measures:
            self._head, self._torn, self._seen_at = head, b"", self._clock()
            self._since_snapshot.log_bytes += len(commit.data)
            self._since_snapshot.commits[head.seq] = commit.txn
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


def _lines(
    file: ItemFile, items: Iterable[Entry], archive: NewArchive | None, sizes: list[int]
) -> Iterator[bytes]:
    """Yield the lines of a snapshot, and enter their sizes.

    Args:
        file: The snapshot, without items and without its newest archive file.
        archive: That file, if it has one, which is read before the first line.
    """
    for line in encode_items(replace(file, archives=_listed(file.archives, archive)), items):
        sizes.append(len(line))
        yield line


def _listed(archives: Iterable[ListedArchive], new: NewArchive | None) -> tuple[ListedArchive, ...]:
    """Return archive files, the new one last, once it is read."""
    return (
        (*archives, new.listed) if new is not None and new.listed is not None else tuple(archives)
    )
