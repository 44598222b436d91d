"""The session log: the commits of a session, with its snapshots, archives and indexes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from kaosmem.errors import CorruptionError, KaosmemError
from kaosmem.persistence.checkpoint import (
    encode_index,
    erase,
    indexed_commits,
    purge,
    read_index,
    store_index,
    store_snapshot,
)
from kaosmem.persistence.commit import LogEnd
from kaosmem.persistence.commit_log import CommitLog
from kaosmem.persistence.files.archive import Entry, NewArchive
from kaosmem.persistence.files.items import ItemFile, encode_items
from kaosmem.persistence.files.records import LogHead
from kaosmem.persistence.layout import index_file, older_files
from kaosmem.persistence.recovery import Recovered, recover
from kaosmem.persistence.salvage import salvage
from kaosmem.persistence.steps import run
from kaosmem.persistence.storage.places import (
    Location,
    Storage,
    as_durability_error,
    check_no_other,
    open_storage,
    stored_files,
)
from kaosmem.types import JSONDict, JSONObject

MIN_LOG_BYTES = 256 * 1024
"""A snapshot is not worth taking for a shorter log."""

_UNDER_WAY_S = 0.001, 0.01, 0.1
"""The pause before a torn commit is looked at again: another writer may be appending it."""


class SessionLog(CommitLog):
    """The durable history of one session, for one caller at a time.

    A snapshot may be stored while commits go on.
    """

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
                recovered = run(recover(session_id), storage)
            except CorruptionError as error:
                if not read_only:
                    raise
                recovered = run(salvage(error, session_id), storage)
            if not recovered.segments and not recovered.snapshot:
                check_no_other(storage)
        log = cls(storage, recovered, session_id, read_only=read_only, clock=clock)
        if recovered.purged and not (read_only or storage.appends):
            log.late_files = older_files(stored_files(storage), recovered.purged)
        return log, recovered

    @property
    def snapshot_due(self) -> bool:
        """Return whether the log since the last snapshot is as long as that snapshot."""
        since = self._since_snapshot
        return since.log_bytes >= max(since.snapshot_bytes, MIN_LOG_BYTES)

    def snapshot(
        self,
        header: JSONObject,
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
            if self.archives.is_outdated or self.has_leftovers:
                return False
            sound = {*self._since_snapshot.sound}
            purged = self.archives.purged
        if self._is_forgetting(purged):
            return False
        seq = at.head.seq
        log_id = self._head.log_id
        archive = NewArchive(archived, seq=seq, log_id=log_id, counter=header.get("counter"))
        file = replace(
            self._snapshot_file(at.head, header, purged),
            archives=tuple(self.archives.listed or ()),
            txns=(*self._indexed_commits(), *at.head.txns),
        )
        sizes: list[int] = []
        lines = _lines(file, items, archive, sizes)
        with as_durability_error("the snapshot"):
            storing = store_snapshot(self._head, seq, lines, archive, sound=sound, purged=purged)
            stored = run(storing, self.storage)
        if stored:
            with self._measures:
                self.archives.listed = (*(self.archives.listed or ()), *archive.listed)
                self._since_snapshot.cut(at, snapshot_bytes=sum(sizes))
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

    def _indexed_commits(self) -> list[str]:
        """Return the ids of the known commits of which an index is stored."""
        with as_durability_error("the snapshot"):
            indexed = run(indexed_commits(), self.storage)
        with self._measures:
            return sorted(indexed & self._since_snapshot.txns)

    def store_index(
        self,
        section: str,
        header: JSONObject,
        chunks: Iterable[bytes],
        *,
        at: LogEnd,
        ranker: str = "",
    ) -> bool:
        """Keep the index of a section as it was at an earlier end of the log.

        Returns whether it is kept: not beside a snapshot of another writer that was not read here.
        Older ones of the section are deleted. Raises as `snapshot`.

        Args:
            header: Fields by which the caller decides whether it can use the index.
            at: The end of the log at the time of the index.
            ranker: Name of the index's ranker.
        """
        self._check_writable()
        with self._measures:
            head = self._head
            sound = {*self._since_snapshot.sound}
            is_known = not self._since_snapshot.txns.isdisjoint(at.head.txns[-1:])
        if not is_known:  # the log was read anew since, without it
            return False
        path = index_file(section, at.head.seq, at.head.txns[-1])
        lines = encode_index(path, header, chunks, ranker=ranker)
        storing = store_index(head, section, path, lines, seq=at.head.seq, sound=sound)
        with as_durability_error("the index"):
            return run(storing, self.storage)

    def index(self, section: str, ranker: str = "") -> tuple[JSONDict, memoryview] | None:
        """Return the header and the bytes of a ranker's index of a section.

        Return None if none can be used.
        """
        with self._measures:
            txns = {*self._since_snapshot.txns}
        try:
            reading = read_index(section, txns, ranker, since=self.archives.purged)
            return run(reading, self.storage)
        except (KaosmemError, OSError):  # all that it says can be made anew
            return None

    def purge(
        self,
        header: JSONObject,
        items: Iterable[Entry],
        *,
        archived: Iterable[Entry],
    ) -> None:
        """Store the state after the last record alone, and delete everything older at once.

        Raises as `snapshot`, and ConflictError where another has committed meanwhile.

        Args:
            archived: All versions that are to be kept, those in archive files included, oldest
                first.
        """
        self._check_writable()
        head = self._head
        counter = header.get("counter")
        if not self.archives.counters <= {counter}:
            counter = None
        archive = NewArchive(archived, seq=head.seq, log_id=head.log_id, counter=counter)
        sizes: list[int] = []
        file = self._snapshot_file(head, header, head.seq)
        lines = _lines(file, items, archive, sizes)
        with as_durability_error("forgetting"):
            run(purge(head, lines, archive, locks=self.storage.appends), self.storage)
        with self._measures:
            self._head = head.before(0)
            self._torn = b""
            self._has_tombstone = False
            self.archives.listed = archive.listed
            self._since_snapshot.begin_anew(head, snapshot_bytes=sum(sizes))
            self.archives.purged = head.seq
            self.has_leftovers = False

    def delete_late_files(self) -> None:
        """Delete the files that a server stored after their erasure.

        Raises ReadOnlyError, DurabilityError.
        """
        self._check_writable()
        with as_durability_error("forgetting"):
            run(erase(self.late_files), self.storage)
        self.late_files = []

    def _snapshot_file(
        self,
        head: LogHead,
        header: JSONObject,
        purged: int,
    ) -> ItemFile:
        """Return a snapshot at an end of the log, without items and archives."""
        return ItemFile(head.seq, head.crc, head.txns, self._head.log_id, purged, header)


def _lines(
    file: ItemFile,
    items: Iterable[Entry],
    archive: NewArchive,
    sizes: list[int],
) -> Iterator[bytes]:
    """Yield the lines of a snapshot, and enter their sizes.

    Args:
        file: The snapshot, without items and without its newest archive file.
        archive: That file, which is read before the first line.
    """
    file = replace(file, archives=(*file.archives, *archive.listed))
    for line in encode_items(file, items):
        sizes.append(len(line))
        yield line
