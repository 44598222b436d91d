"""A session on a local disk: a lock, synced appends, and files that are replaced as a whole."""

from __future__ import annotations

import errno
import math
import os
import re
import secrets
import sys
import threading
import time
from collections.abc import Hashable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any
from zlib import crc32

from kaosmem.errors import ConflictError, CorruptionError
from kaosmem.persistence.layout import LOCK, LOG, SESSION, SNAP, foreign_name
from kaosmem.persistence.steps import (
    Append,
    Create,
    Delete,
    DeleteLeftovers,
    Discard,
    Draft,
    List,
    Lock,
    Publish,
    Read,
    ReadNote,
    ReadParts,
    Step,
    Sync,
    Truncate,
    Write,
)
from kaosmem.persistence.storage.disk import Disk, LeaveLine, irregular_file

_ABANDONED_S = 3600.0
_LOCK_TRIES = 100
_END_BYTES = 4096
_NOTE = re.compile(rb" ([0-9]{20}) ([0-9a-f]{8}) ")
_RENAMES_OPEN = sys.platform != "win32"  # where an open file can be neither deleted nor renamed


class LocalStorage:
    """The files of one session on a local disk. No file stays open between commits."""

    appends = True

    def __init__(
        self,
        root: Path,
        namespace: str,
        session: str,
        *,
        disk: Disk | None = None,
    ) -> None:
        self._root = root.as_posix()
        self._namespace = (root / namespace).as_posix()
        self._folder = f"{self._namespace}/{session}"
        self._disk = Disk() if disk is None else disk
        self._lock_file = -1  # its descriptor, while this handle holds the lock
        self._plain: set[str] = set()  # whole paths that no link stands in, since the last lock
        # Whole paths whose names are durable. A log never gives a name twice.
        self._findable: set[str] = set()
        # Whether the last commit may be in a cache alone, as the lock file says.
        self._is_unsure = False
        # A lock on a file keeps other descriptors out, not other threads.
        self._threads = threading.Lock()
        self._pid = os.getpid()

    def perform(self, step: Step) -> Any:
        """Do a step, durably, and return its answer."""
        match step:
            case List(folder):
                return self._list(folder)
            case Read(path, start):
                return self._read_parts(((path, start, None),))[0]
            case ReadParts(parts):
                return self._read_parts(parts)
            case Lock(create):
                return self._lock(create)
            case Append(path, size, data, since, last):
                return self._append(self._path(path), size, data, since, last)
            case ReadNote():
                return self._noted()
            case Sync(path, since):
                return self._sync(self._path(path), since)
            case DeleteLeftovers(folder):
                return self._sweep_all(self._path(folder))
            case Write(path, chunks):
                whole = self._path(path)
                return self._publish(whole, self._draft(whole, chunks))
            case Draft(path, chunks):
                return self._draft(self._path(path), chunks)
            case Publish(path, draft):
                return self._publish(self._path(path), draft)
            case Discard(_, draft):
                return self._discard(draft)
            case Truncate(path, size):
                return self._truncate(self._path(path), size)
            case Delete(path):
                return self._delete(self._path(path))
            case Create(path):
                raise ValueError(f"{path!r} is on a local disk, where commits are appended")

    def line_up(self) -> Future[LeaveLine] | None:
        """Wait in line with other writers, as `Storage` says."""
        # Folders can be locked on a local disk, but not everywhere, nor on Windows.
        with suppress(OSError):
            return self._disk.line_up(self._folder)
        return None

    def unlock(self) -> None:
        """Let other writers in again."""
        try:
            self._disk.unlock(self._lock_file)  # a forked process may have the descriptor, too
        finally:
            with suppress(OSError):  # the descriptor is gone either way
                self._disk.close(self._lock_file)
            self._threads.release()

    def sizes(self, folder: str) -> dict[str, int]:
        """Return how many bytes each file in a folder has, by name."""
        sizes = {}
        for name in self._list(folder):
            try:
                with self._opened(self._path(f"{folder}/{name}"), os.O_RDONLY) as descriptor:
                    sizes[name] = self._disk.size(descriptor)
            except FileNotFoundError:
                continue
            except CorruptionError:  # no file; who reads it is told
                sizes[name] = 0
        return sizes

    def state(self, folder: str) -> Hashable:
        """Return a value that changes with the sizes and the ends of a folder's files."""
        sizes = sorted(self.sizes(folder).items())
        parts = []
        for name, size in sizes:
            parts.append((f"{folder}/{name}", max(0, size - _END_BYTES), _END_BYTES))
        try:
            ends = tuple(map(crc32, self._read_parts(parts)))
        except (FileNotFoundError, CorruptionError):  # who reads the session is told
            ends = ()
        return tuple(sizes), ends

    def keeps_versions(self) -> bool:
        """Return False: a disk keeps nothing of a deleted file. Its backups are copies."""
        return False

    def old_versions(self) -> set[str]:
        """Return an empty set."""
        return set()

    def foreign(self) -> str | None:
        """Return the name of a file in the session's folder that is not kaosmem's, or None."""
        try:
            names = self._disk.list(self._folder)
        except FileNotFoundError:
            return None
        return foreign_name(names)

    def delete(self) -> None:
        """Delete the session: renamed out of view first, so that no reader sees a part of it.

        No power loss brings its files back.
        """
        self._check_no_links(self._folder)
        trash = f"{self._namespace}/.deleted-{self._folder.rpartition('/')[2]}"
        # An earlier deletion, which may have ended before it was durable.
        if self._disk.is_folder(trash):
            self._disk.sync_folder(self._namespace)
            self._remove_durably(trash)
        if not self._disk.is_folder(self._folder):
            return
        self._lock(create=True)
        try:
            if _RENAMES_OPEN:
                self._disk.replace(self._folder, trash)
        finally:
            self.unlock()
        if not _RENAMES_OPEN:  # the lock is an open file
            self._disk.replace(self._folder, trash)
        self._findable.clear()
        self._disk.sync_folder(self._namespace)
        self._remove_durably(trash)

    def _list(self, folder: str) -> set[str]:
        """Return the names of the files in a folder. Dot files belong to others."""
        path = self._path(folder)
        self._check_no_links(path)
        try:
            return {name for name in self._disk.list(path) if not name.startswith(".")}
        except FileNotFoundError:
            return set()
        except NotADirectoryError:
            raise irregular_file(path) from None

    def _read_parts(self, parts: Iterable[tuple[str, int, int | None]]) -> list[bytes]:
        """Return parts of files, of each its path, its first byte and its size, None for the rest.

        Parts of one file that follow each other are read together.
        """
        found = []
        for path, each in groupby(parts, itemgetter(0)):
            with self._opened(self._path(path), os.O_RDONLY) as descriptor:
                for _, start, size in each:
                    found.append(self._disk.read(descriptor, start, size))
        return found

    def _append(
        self,
        path: str,
        size: int,
        data: bytes,
        since: int,
        last: tuple[int, int] | None,
    ) -> None:
        folder = path.rpartition("/")[0]
        if size == 0:
            self._make_folder(folder)
        with self._opened(path, os.O_RDWR | os.O_APPEND | os.O_CREAT) as descriptor:
            if self._disk.size(descriptor) != size:
                raise OSError(errno.EIO, "a segment changed under the lock", path)
            if self._is_unsure:
                self._rewrite(path, since)  # it must not reach the disk after what follows it
            self._note_unsure(True)
            try:
                self._write_all(descriptor, data)
                self._disk.sync(descriptor)
                if path not in self._findable:
                    self._sync_folders(folder)
            except BaseException:
                # What was written is not acknowledged. Written again it is written anew: no sync is
                # merely repeated.
                self._findable.discard(path)
                self._disk.truncate(descriptor, size)
                self._disk.sync(descriptor)
                raise
        self._findable.add(path)
        with suppress(OSError):  # then the next writer writes this commit again
            self._note_unsure(False, last)

    def _rewrite(self, path: str, since: int) -> None:
        """Make a file durable.

        Args:
            since: The byte from which on its bytes are written again: after a failed sync, Linux
                takes them for written.
        """
        with self._opened(path, os.O_RDWR) as descriptor:  # not to append
            self._write_all(descriptor, self._disk.read(descriptor, since), since)
            self._disk.sync(descriptor)

    def _sync(self, path: str, since: int) -> None:
        if self._is_unsure:
            self._rewrite(path, since)
        if path not in self._findable:
            self._sync_folders(path.rpartition("/")[0])

    def _note_unsure(self, is_unsure: bool, last: tuple[int, int] | None = None) -> None:
        """Say in the lock file whether a commit is under way.

        It stays so if a process is killed or a sync fails.

        The note itself is never synced: after a power loss, all bytes that are found are durable.

        Args:
            last: The record to be noted as durable, by its number and checksum. Without it, the
                note before stays.
        """
        note = b"1" if is_unsure else b"0"
        if last is not None:
            note += _note_of(last, self._disk.inode(self._lock_file))
        self._disk.write(self._lock_file, memoryview(note), 0)
        self._is_unsure = is_unsure

    def _noted(self) -> tuple[int, int] | None:
        """Return the record that the lock file notes as durable, None without a readable note.

        A copied lock file has another inode, and its note says nothing: it may have been copied
        after the log.
        """
        try:
            with self._opened(self._path(LOCK), os.O_RDONLY) as descriptor:
                note = self._disk.read(descriptor, 1)
                inode = self._disk.inode(descriptor)
        except (CorruptionError, OSError):  # a writer is told of a link in its place
            return None
        match = _NOTE.match(note)
        if match is None:
            return None
        last = int(match[1]), int(match[2], 16)
        if note.startswith(_note_of(last, inode)):
            return last
        return None

    def _draft(self, path: str, chunks: Iterable[bytes]) -> str:
        """Write a file under a name of its own beside the path, and return that."""
        folder, _, name = path.rpartition("/")
        self._make_folder(folder)
        self._sweep(folder)
        draft = f"{folder}/.{name}.{secrets.token_hex(4)}.tmp"
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL
        try:
            with self._opened(draft, flags) as descriptor:
                for chunk in _gathered(chunks):
                    self._write_all(descriptor, chunk)
                self._disk.sync(descriptor)
        except BaseException:
            self._discard(draft)
            raise
        return draft

    def _publish(self, path: str, draft: str) -> None:
        try:
            self._disk.replace(draft, path)
        except BaseException:
            self._discard(draft)
            raise
        self._disk.sync_folder(path.rpartition("/")[0])
        self._disk.sync_folder(self._folder)  # another may have made the folder, and been killed

    def _discard(self, draft: str) -> None:
        with suppress(OSError):
            self._disk.unlink(draft)

    def _sync_folders(self, folder: str) -> None:
        """Make a file findable.

        The process that made it or its folders may have been killed before that.
        """
        for each in (folder, self._folder, self._namespace, self._root):
            self._disk.sync_folder(each)
        with suppress(PermissionError):
            self._disk.sync_folder(self._root.rpartition("/")[0] or "/")

    def _write_all(
        self,
        descriptor: int,
        data: bytes,
        start: int | None = None,
    ) -> None:
        left = memoryview(data)
        while left:
            written = self._disk.write(descriptor, left, start)
            if not written:
                raise OSError(errno.EIO, "the disk takes no more bytes")
            left = left[written:]
            start = None

    def _sweep_all(self, folder: str) -> None:
        with suppress(FileNotFoundError):
            self._sweep(folder, min_age_s=-math.inf)
            self._disk.sync_folder(folder)

    def _sweep(self, folder: str, *, min_age_s: float = _ABANDONED_S) -> None:
        """Delete the half-written files of a killed writer."""
        now = time.time()
        for name in self._disk.list(folder):
            path = f"{folder}/{name}"
            if name.startswith(".") and name.endswith(".tmp"):
                with suppress(FileNotFoundError):
                    if self._disk.age_s(path, now) > min_age_s:
                        self._disk.unlink(path)

    def _truncate(self, path: str, size: int) -> None:
        # Until the next commit: killed before the sync, the torn bytes may come back.
        self._note_unsure(True)
        with self._opened(path, os.O_WRONLY) as descriptor:
            self._disk.truncate(descriptor, size)
            self._disk.sync(descriptor)

    def _delete(self, path: str) -> None:
        with suppress(FileNotFoundError):
            self._disk.unlink(path)
            self._disk.sync_folder(path.rpartition("/")[0])

    def _lock(self, create: bool) -> None:
        """Hold the session's lock.

        Raises ConflictError if the session is gone and `create` is False.
        """
        if self._pid != os.getpid():
            # In the process that this one is forked from, a thread may write.
            self._threads = threading.Lock()
            self._pid = os.getpid()
        self._threads.acquire()
        try:
            self._plain.clear()
            self._check_no_links(self._folder)
            for _ in range(_LOCK_TRIES):
                if self._try_lock(create):
                    return
            raise OSError(
                errno.EBUSY, "the lock was deleted each time it was opened", self._path(LOCK)
            )
        except BaseException:
            self._threads.release()
            raise

    def _try_lock(self, create: bool) -> bool:
        """Return whether the lock is held.

        False: it was deleted, and perhaps made anew, since it was opened.
        """
        path = self._path(LOCK)
        if create:
            self._make_folder(self._folder)
        try:
            descriptor = self._disk.open(path, os.O_RDWR | os.O_CREAT)
        except FileNotFoundError:
            if not create:
                raise ConflictError(
                    "the session was deleted since it was read; open it again"
                ) from None
            if self._disk.is_folder(self._folder):
                raise
            return False
        is_held = False
        try:
            self._disk.lock(descriptor)
            self._is_unsure = self._disk.read(descriptor, 0, 1) == b"1"
            is_held = self._disk.is_at(descriptor, path)
        finally:
            if not is_held:
                self._disk.close(descriptor)
        self._lock_file = descriptor
        return is_held

    @contextmanager
    def _opened(self, path: str, flags: int) -> Iterator[int]:
        """Give the descriptor of a file."""
        descriptor = self._disk.open(path, flags)
        try:
            yield descriptor
        finally:
            self._disk.close(descriptor)

    def _make_folder(self, folder: str) -> None:
        """Make a folder and those above it, each durable in the one above."""
        if self._disk.is_folder(folder):
            return
        above = folder.rpartition("/")[0]
        if above and above != folder:
            self._make_folder(above)
        with suppress(FileExistsError):
            self._disk.make_folder(folder)
        self._disk.sync_folder(above or "/")

    def _remove_durably(self, folder: str) -> None:
        self._remove(folder)
        self._disk.sync_folder(self._namespace)

    def _remove(self, folder: str) -> None:
        """Delete a folder and its content."""
        for name in self._disk.list(folder):
            path = f"{folder}/{name}"
            if self._disk.is_folder(path) and not self._disk.is_link(path):
                self._remove(path)
            else:
                self._disk.unlink(path)
        self._disk.remove_folder(folder)

    def _path(self, path: str) -> str:
        return f"{self._folder}/{path}"

    def _check_no_links(self, path: str) -> None:
        """Raise CorruptionError if a link stands in the path of a folder of the session."""
        if path not in self._plain:
            for each in (self._namespace, self._folder, path):
                if self._disk.is_link(each):
                    raise irregular_file(each)
            self._plain.add(path)


def _note_of(last: tuple[int, int], inode: int) -> bytes:
    """Return the note of a record in a lock file, with a checksum: a power loss may tear it."""
    note = b" %020d %08x %020d" % (*last, inode)
    return note + b" %08x\n" % crc32(note)


def list_folders(folder: Path) -> list[str]:
    """Return the names of the folders in a folder, sorted. Links are passed over."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except FileNotFoundError:
        return []
    except NotADirectoryError:
        raise irregular_file(folder.as_posix()) from None


def holds_session(folder: Path) -> bool:
    """Return whether a session is in a folder, and not only the files of others."""
    if (folder / SESSION).exists():
        return True
    for name in (LOG, SNAP):
        files = folder / name
        if files.is_dir() and any(files.iterdir()):
            return True
    return False


def _gathered(chunks: Iterable[bytes]) -> Iterable[bytes]:
    """Return the same bytes in fewer, larger chunks."""
    gathered = []
    size = 0
    for chunk in chunks:
        gathered.append(chunk)
        size += len(chunk)
        if size >= 2**20:
            yield b"".join(gathered)
            gathered = []
            size = 0
    yield b"".join(gathered)
