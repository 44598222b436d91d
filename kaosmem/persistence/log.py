"""The session log: commits, snapshots and the archive of one session."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING

from kaosmem.errors import ConflictError, CorruptionError, DurabilityError, KaosmemError, ReadOnlyError
from kaosmem.names import check_item_id, name_of
from kaosmem.persistence import layout
from kaosmem.persistence.commit import (
    Sight,
    Step,
    TakenError,
    Write,
    check_same_log,
    check_unmoved,
    conflict,
    plan_append,
    plan_create,
    plan_pruning,
    segments_to_roll_up,
)
from kaosmem.persistence.items import decode_items, encode_items, find_item
from kaosmem.persistence.objects import RETENTION_S
from kaosmem.persistence.records import FORMAT_VERSION, Change, Commit, encode_commit
from kaosmem.persistence.recovery import Head, Recovered, Recovery, recover
from kaosmem.persistence.storage import Location, Storage, filesystem_of, open_storage, session_folders
from kaosmem.types import JSONValue

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

MIN_LOG_BYTES = 256 * 1024
"""A snapshot is not worth taking for a shorter log."""

_LOOKS = 10


class SessionLog:
    """The durable history of one session, for one caller at a time.

    After a DurabilityError a commit of the same changes may be tried again; after a ConflictError the session has
    to be opened again.
    """

    def __init__(
        self,
        location: Location,
        storage: Storage,
        recovery: Recovery,
        *,
        read_only: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._location = location
        self._storage = storage
        self._read_only = read_only
        self._head = recovery.head
        self._torn = recovery.torn
        self._segments = list(recovery.segments)
        self._sound = {recovery.snapshot} - {0}
        self._snapshot_bytes = recovery.snapshot_bytes
        self._log_bytes = recovery.log_bytes
        # By the last record of each commit since the snapshot: its checksum, and the log's bytes up to it.
        self._ends = {recovery.head.seq: (recovery.head.crc, recovery.log_bytes)}
        self._clock = clock
        self._seen_at = clock()
        self._unsettled: tuple[str, list[Change]] | None = None

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
        """Return the log of a session and what it holds; nothing is written, a session that is missing included.

        location: a path, a URL that fsspec knows, or a filesystem, whose root is then meant.
        read_only: serve what precedes damage and list the rest.
        single_writer: the caller vouches that nobody else writes, so the storage need not.
        Raises InvalidNameError before any I/O, CorruptionError, UnsupportedVersionError.
        """
        storage = open_storage(location, namespace, session_id, single_writer=single_writer)
        try:
            recovery = _recover(storage)
        except CorruptionError:
            if not read_only:
                raise
            recovery = _recover(storage, lenient=True)
        return cls(location, storage, recovery, read_only=read_only, clock=clock), recovery.recovered

    @property
    def fs(self) -> AbstractFileSystem:
        """Return a filesystem whose root is where the namespaces are: a location that opens the session again."""
        return filesystem_of(self._location)

    @property
    def seq(self) -> int:
        """Return the number of the last committed record, 0 before the first."""
        return self._head.seq

    @property
    def txns(self) -> tuple[str, ...]:
        """Return the ids of the newest commits, oldest first."""
        return self._head.txns

    @property
    def snapshot_due(self) -> bool:
        """Return whether the log since the last snapshot is as long as that snapshot."""
        return self._log_bytes >= max(self._snapshot_bytes, MIN_LOG_BYTES)

    def commit(self, changes: Sequence[Change]) -> int:
        """Make `changes` durable, all or none, and return the number of the last record.

        The first change of a session holds its `version`, FORMAT_VERSION.
        Raises ConflictError, InvalidContentError or ReadOnlyError with nothing written, and DurabilityError.
        """
        self._check_writable()
        if not changes:
            return self.seq
        if self.seq == 0 and changes[0].data.get("version") != FORMAT_VERSION:
            raise ValueError(f"a session's first change needs data={{'version': {FORMAT_VERSION}, ...}}")
        commit = encode_commit(changes, self._txn(changes), seq=self._head.seq, crc=self._head.crc)
        self._unsettled = commit.txn, list(changes)
        with _as_durability_error("the commit"), self._storage.lock(create=self.seq == 0):
            steps, head = self._plan(commit)
            try:
                for step in steps:
                    self._storage.perform(step)
            except TakenError:
                raise conflict(self._head) from None
        self._unsettled = None
        self._advance(head, commit)
        return self.seq

    def snapshot(
        self,
        header: Mapping[str, JSONValue],
        items: Iterable[tuple[str, Mapping[str, JSONValue]]],
        *,
        archived: Iterable[tuple[str, Mapping[str, JSONValue]]] = (),
        seq: int,
    ) -> None:
        """Store the state after record `seq`, the last of a commit since the snapshot before, and prune.

        A state that is stored already is not stored again.
        items: (section, data) in the order to be read back. archived: items evicted or replaced since the snapshot
        before, oldest first, each with its `id`; kept for good.
        Raises InvalidContentError, ReadOnlyError, DurabilityError.
        """
        self._check_writable()
        if not seq or seq not in self._ends:
            raise ValueError(f"record {seq} is not the last of a commit since the snapshot before")
        if seq in self._sound:
            return
        check_same_log(self._head, self._look())
        crc, log_bytes = self._ends[seq]
        encoded = encode_items(header, items, seq=seq, crc=crc, txns=self._head.txns)
        size = 0

        def measured() -> Iterator[bytes]:
            nonlocal size
            for line in encoded:
                size += len(line)
                yield line

        with _as_durability_error("the snapshot"):
            evicted = iter(archived)
            if (first := next(evicted, None)) is not None:
                lines = encode_items({}, chain([first], evicted), seq=seq)
                self._storage.perform(Write(layout.archive_file(seq), lines))
            self._storage.perform(Write(layout.snapshot_file(seq), measured()))
            self._sound.add(seq)
            with self._storage.lock(create=False):
                self._prune(seq)
        self._snapshot_bytes = size
        self._log_bytes -= log_bytes
        self._ends = {end: (crc, at - log_bytes) for end, (crc, at) in self._ends.items() if end >= seq}
        self._segments = [(first, commits) for first, commits in self._segments if first > seq]

    def archived(self, item_id: str) -> tuple[str, dict[str, JSONValue]] | None:
        """Return the section and data of the newest archived version of an item, or None."""
        check_item_id(item_id)
        for seq in reversed(layout.numbers(self._storage.list(layout.ARCHIVE))):
            path = layout.archive_file(seq)
            if (found := find_item(self._storage.read(path), item_id, path)) is not None:
                return found
        return None

    def archive(self) -> Iterator[tuple[str, dict[str, JSONValue]]]:
        """Yield the section and data of every archived version, oldest first. Raises CorruptionError."""
        for seq in layout.numbers(self._storage.list(layout.ARCHIVE)):
            path = layout.archive_file(seq)
            yield from decode_items(self._storage.read(path), path).items

    def close(self) -> None:
        """Refuse further writes; everything committed is durable already."""
        self._read_only = True

    def _check_writable(self) -> None:
        if self._read_only:
            raise ReadOnlyError("the session was opened read-only or is closed; open it for writing")

    def _txn(self, changes: Sequence[Change]) -> str:
        """Return the id of a commit: after a failure, of the same commit if the changes are the same."""
        if self._unsettled is not None and self._unsettled[1] == list(changes):
            return self._unsettled[0]
        return secrets.token_hex(8)

    def _plan(self, commit: Commit) -> tuple[list[Step], Head]:
        if self._storage.appends:
            return plan_append(self._head, self._look(), commit)
        if self._clock() - self._seen_at > RETENTION_S / 2:
            # The next name may have been taken and be free again.
            check_unmoved(self._head, self._look())
        return plan_create(self._head, self._torn, commit)

    def _look(self) -> Sight:
        """Return what another writer may have changed."""
        segments = layout.segments(self._storage.list(layout.LOG))
        snapshots = layout.numbers(self._storage.list(layout.SNAP))
        head, tail, following = self._head, b"", b""
        if head.segment in segments:
            tail = self._storage.read(layout.log_file(head.segment), head.last)
        if head.seq + 1 in segments and head.segment != head.seq + 1:
            following = self._storage.read(layout.log_file(head.seq + 1))
        return Sight(segments, snapshots, tail, following)

    def _advance(self, head: Head, commit: Commit) -> None:
        self._head, self._torn, self._seen_at = head, b"", self._clock()
        self._log_bytes += len(commit.data)
        self._ends[head.seq] = head.crc, self._log_bytes
        if not self._storage.appends:
            self._segments.append((head.segment, 1))
            self._roll_up()

    def _roll_up(self) -> None:
        """Store the newest small segments as one, under the name of the first, so that opening reads few files."""
        while count := segments_to_roll_up(self._segments):
            parts = self._segments[-count:]
            try:
                data = [self._storage.read(layout.log_file(first)) for first, _ in parts]
                whole = b"".join(part if part.endswith(b"\n") else part + b"\n" for part in data)
                self._storage.perform(Write(layout.log_file(parts[0][0]), [whole]))
            except OSError:  # the commit stands, and so do the small segments
                return
            self._segments[-count:] = [(parts[0][0], sum(commits for _, commits in parts))]

    def _prune(self, newest: int) -> None:
        segments = layout.segments(self._storage.list(layout.LOG))
        snapshots = layout.numbers(self._storage.list(layout.SNAP))
        steps = plan_pruning(segments, snapshots, newest=newest, sound=self._sound)
        for step in steps:
            self._storage.perform(step)
        self._sound &= {*sorted(self._sound)[-2:]}


def fingerprint(location: Location, session_id: str, namespace: str = "default") -> Hashable:
    """Return what changes whenever something is committed to a session, from the sizes of its files alone."""
    storage = open_storage(location, namespace, session_id)
    return tuple(tuple(sorted(storage.list(folder).items())) for folder in (layout.LOG, layout.SNAP))


def list_sessions(location: Location, namespace: str = "default") -> list[str]:
    """Return the ids of a namespace's sessions, sorted. Raises InvalidNameError."""
    folders = session_folders(location, namespace)
    return sorted(name for folder in folders if (name := name_of(folder)) is not None)


def delete_session(location: Location, session_id: str, namespace: str = "default") -> None:
    """Delete a session, if there is one. Raises InvalidNameError, DurabilityError."""
    storage = open_storage(location, namespace, session_id)
    with _as_durability_error("the deletion"):
        if not storage.list(layout.LOG):
            _check_no_other(storage)
        storage.delete()


def _recover(storage: Storage, *, lenient: bool = False) -> Recovery:
    """Return a session's state, looked for again as long as other writers move its files meanwhile."""
    seen = None
    for _ in range(_LOOKS):
        # The log first: a snapshot listed after it cannot lack the log that follows it.
        log = storage.list(layout.LOG)
        snapshots = layout.numbers(storage.list(layout.SNAP))
        try:
            if not log:
                _check_no_other(storage)
            return recover(log, snapshots, storage.read, lenient=lenient)
        except (CorruptionError, FileNotFoundError):
            if seen == (log.keys(), snapshots):
                raise
            seen = log.keys(), snapshots
    raise ConflictError(f"other writers changed the session {_LOOKS} times while it was read; open it again")


def _check_no_other(storage: Storage) -> None:
    """Raise CorruptionError if a folder without a log holds files that are not a session's."""
    if (name := storage.foreign()) is not None:
        raise CorruptionError(
            f"the folder is not a session's: it holds {name!r} and no log; choose another place or id", file=name
        )


@contextmanager
def _as_durability_error(what: str) -> Iterator[None]:
    """Raise an OSError of the storage as a DurabilityError with the same errno."""
    try:
        yield
    except KaosmemError:
        raise
    except OSError as error:
        failure = DurabilityError(f"{what} could not be made durable: {error}; nothing is lost, save again")
        failure.errno = error.errno
        raise failure from error
