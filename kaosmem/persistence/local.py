"""A session on a local disk: a lock, appends that reach the disk, and files that are replaced as a whole."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from kaosmem.errors import ConflictError, CorruptionError
from kaosmem.persistence.commit import Append, Create, Delete, Step, Truncate, Write
from kaosmem.persistence.layout import FOLDERS, LOCK, LOG

_ABANDONED_S = 3600.0
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_BINARY = getattr(os, "O_BINARY", 0)
_sync_data = getattr(os, "fdatasync", os.fsync)


class LocalStorage:
    """The files of one session on a local disk."""

    appends = True

    def __init__(self, root: Path, namespace: str, session: str) -> None:
        self._root = root
        self._namespace = root / namespace
        self._folder = self._namespace / session

    def list(self, folder: str) -> dict[str, int]:
        """Return the size of each file in a folder, by name. Dot files belong to others."""
        sizes = {}
        try:
            with os.scandir(self._plain(folder)) as entries:
                for entry in entries:
                    if not entry.name.startswith("."):
                        status = entry.stat(follow_symlinks=False)
                        _check_regular(status.st_mode, f"{folder}/{entry.name}")
                        sizes[entry.name] = status.st_size
        except FileNotFoundError:
            return {}
        return sizes

    def foreign(self) -> str | None:
        """Return the name of something in the session's folder that kaosmem did not put there, or None."""
        try:
            names = sorted(entry.name for entry in self._plain().iterdir())
        except FileNotFoundError:
            return None
        return next((name for name in names if name not in (*FOLDERS, LOCK) and not name.startswith(".")), None)

    def read(self, path: str, start: int = 0) -> bytes:
        """Return a file's bytes from `start` on."""
        with os.fdopen(self._open(path, os.O_RDONLY), "rb") as file:
            file.seek(start)
            return file.read()

    def perform(self, step: Step) -> None:
        """Do a step, durably."""
        match step:
            case Append(path, size, data):
                self._append(path, size, data)
            case Write(path, chunks):
                self._write(path, chunks)
            case Truncate(path, size):
                descriptor = self._open(path, os.O_WRONLY)
                try:
                    os.ftruncate(descriptor, size)
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)
            case Delete(path):
                target = self._path(path)
                target.unlink(missing_ok=True)
                _sync_folder(target.parent)
            case Create(path):
                raise ValueError(f"{path!r} is on a local disk, where commits are appended")

    @contextmanager
    def lock(self, *, create: bool) -> Iterator[None]:
        """Hold the session's lock. Raises ConflictError if the session is gone and `create` is False."""
        descriptor = self._lock(create)
        try:
            yield
        finally:
            os.close(descriptor)

    def delete(self) -> None:
        """Delete the session: renamed out of sight first, so that nobody sees a part of it."""
        trash = self._namespace / f".deleted-{self._folder.name}"
        if trash.is_dir():
            shutil.rmtree(trash)
        if not self._plain().is_dir():
            return
        with self.lock(create=True):
            if sys.platform != "win32":
                self._folder.rename(trash)
        if sys.platform == "win32":  # an open file, the lock, keeps a folder from being renamed there
            self._folder.rename(trash)
        _sync_folder(self._namespace)
        shutil.rmtree(trash)

    def _append(self, path: str, size: int, data: bytes) -> None:
        if size == 0:
            _make_folder(self._path(path).parent)
        descriptor = self._open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            if os.fstat(descriptor).st_size != size:
                raise OSError(errno.EIO, f"{path!r} changed under the lock", path)
            try:
                left = memoryview(data)
                while left:
                    left = left[os.write(descriptor, left) :]
                _sync_data(descriptor)
                if size == 0:
                    _sync_folder(self._path(path).parent)
            except BaseException:
                os.ftruncate(descriptor, size)
                os.fsync(descriptor)
                raise
        finally:
            os.close(descriptor)

    def _write(self, path: str, chunks: Iterable[bytes]) -> None:
        target = self._path(path)
        _make_folder(target.parent)
        self._sweep(target.parent)
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
        try:
            with os.fdopen(self._open_exclusive(temporary), "wb", buffering=2**20) as file:
                file.writelines(chunks)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _sync_folder(target.parent)

    def _sweep(self, folder: Path) -> None:
        """Delete what a writer that was killed left half-written."""
        for temporary in folder.glob(".*.tmp"):
            if temporary.lstat().st_mtime < time.time() - _ABANDONED_S:
                temporary.unlink(missing_ok=True)

    def _lock(self, create: bool) -> int:
        while True:
            if create:
                _make_folder(self._plain())
            try:
                descriptor = self._open(LOCK, os.O_RDWR | os.O_CREAT)
            except FileNotFoundError:
                raise ConflictError("the session was deleted since it was read; open it again") from None
            try:
                _flock(descriptor)
                if os.path.samestat(os.fstat(descriptor), self._path(LOCK).stat()):
                    return descriptor
            except FileNotFoundError:
                pass  # deleted while this waited for the lock
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)

    def _open(self, path: str, flags: int) -> int:
        """Open a regular file without following links or waiting for a FIFO's other end."""
        try:
            descriptor = os.open(self._path(path), flags | _NOFOLLOW | _BINARY, 0o600)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENXIO):
                raise _irregular(path) from None
            raise
        try:
            _check_regular(os.fstat(descriptor).st_mode, path)
        except CorruptionError:
            os.close(descriptor)
            raise
        return descriptor

    def _open_exclusive(self, path: Path) -> int:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NOFOLLOW | _BINARY, 0o600)

    def _path(self, path: str) -> Path:
        folder, _, name = path.rpartition("/")
        return self._plain(folder) / name

    def _plain(self, folder: str = "") -> Path:
        """Return a folder of the session. Raises CorruptionError if a link stands on the way below the root."""
        whole = self._folder / folder
        for part in (self._namespace, self._folder, whole):
            if part.is_symlink():
                raise _irregular(str(part.relative_to(self._root)))
        return whole


def list_folders(root: Path, namespace: str) -> list[str]:
    """Return the names of the folders in a namespace that hold a log."""
    folder = root / namespace
    try:
        entries = sorted(folder.iterdir())
    except FileNotFoundError:
        return []
    return [
        entry.name
        for entry in entries
        if not entry.is_symlink() and (entry / LOG).is_dir() and any((entry / LOG).iterdir())
    ]


def _irregular(path: str) -> CorruptionError:
    return CorruptionError(
        f"{path!r} is a link, FIFO or device, which kaosmem does not follow; put the file itself there", file=path
    )


def _check_regular(mode: int, path: str) -> None:
    if not stat.S_ISREG(mode):
        raise _irregular(path)


def _make_folder(folder: Path) -> None:
    """Make a folder and those above it, each durable in the one above."""
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)
    _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    if sys.platform != "win32":  # where a folder cannot be opened
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


if sys.platform == "win32":
    import msvcrt

    def _flock(descriptor: int) -> None:
        while True:
            try:
                return msvcrt.locking(descriptor, msvcrt.LK_LOCK, 1)
            except OSError as error:  # after ten tries, one a second
                if error.errno != errno.EDEADLOCK:
                    raise

else:
    import fcntl

    def _flock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
