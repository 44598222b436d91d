"""The operating system's calls for a local disk; a test replaces them."""

from __future__ import annotations

import errno
import os
import stat
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import TypeAlias

from kaosmem.errors import CorruptionError

# No links are followed, and no FIFO's other end is waited for.
_CAREFULLY = (
    getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
)
_BINARY = getattr(os, "O_BINARY", 0)
_CHUNK_BYTES = 2**24
_LOCK_S = 60.0
"""How long a lock is waited for.

Its holder writes at most one commit, or the whole session where it forgets.
"""
_sync_data = getattr(os, "fdatasync", os.fsync)


LeaveLine: TypeAlias = Callable[[], None]
"""Lets the next one in line go on."""


class Disk:
    """A local disk, by whole paths. Everything may raise OSError."""

    def open(self, path: str, flags: int) -> int:
        """Return the descriptor of a regular file, made for its owner alone.

        Raises CorruptionError for any other.
        """
        try:
            descriptor = os.open(path, flags | _CAREFULLY | _BINARY, 0o600)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENXIO):
                raise irregular_file(path) from None
            raise
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise irregular_file(path)
        return descriptor

    def close(self, descriptor: int) -> None:
        """Let go of a descriptor, and of its lock."""
        os.close(descriptor)

    def read(
        self,
        descriptor: int,
        start: int,
        size: int | None = None,
    ) -> bytes:
        """Return a file's bytes from `start` on, `size` of them or all."""
        if size is None:
            size = max(0, os.fstat(descriptor).st_size - start)
        os.lseek(descriptor, start, os.SEEK_SET)
        chunks = []
        while chunk := os.read(descriptor, min(size, _CHUNK_BYTES)):
            chunks.append(chunk)
            size -= len(chunk)
        return b"".join(chunks)

    def write(
        self,
        descriptor: int,
        data: memoryview,
        start: int | None = None,
    ) -> int:
        """Write bytes and return how many.

        They go to the end of a file that was opened to append, else after the last write.

        Args:
            start: The byte to write at, of a file that was not opened to append.
        """
        if start is not None:
            os.lseek(descriptor, start, os.SEEK_SET)
        return os.write(descriptor, data)

    def size(self, descriptor: int) -> int:
        """Return how many bytes a file has."""
        return os.fstat(descriptor).st_size

    def inode(self, descriptor: int) -> int:
        """Return the number that tells a file from its copies."""
        return os.fstat(descriptor).st_ino

    def truncate(self, descriptor: int, size: int) -> None:
        """Cut a file to its first `size` bytes."""
        os.ftruncate(descriptor, size)

    def sync(self, descriptor: int) -> None:
        """Make a file's bytes and size durable."""
        _sync_data(descriptor)

    def age_s(self, path: str, now: float) -> float:
        """Return how long before `now`, in seconds since 1970, a file was changed."""
        return now - os.lstat(path).st_mtime

    def list(self, folder: str) -> list[str]:
        """Return the names in a folder. Raises FileNotFoundError."""
        return os.listdir(folder)  # noqa: PTH208

    def is_folder(self, path: str) -> bool:
        """Return whether a folder is there."""
        try:
            return stat.S_ISDIR(os.stat(path).st_mode)  # noqa: PTH116
        except (FileNotFoundError, NotADirectoryError):
            return False

    def is_link(self, path: str) -> bool:
        """Return whether a symbolic link is there."""
        try:
            return stat.S_ISLNK(os.lstat(path).st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return False

    def make_folder(self, path: str) -> None:
        """Make a folder for its owner alone. Raises FileExistsError, FileNotFoundError."""
        os.mkdir(path, 0o700)  # noqa: PTH102

    def remove_folder(self, path: str) -> None:
        """Delete an empty folder."""
        os.rmdir(path)  # noqa: PTH106

    def sync_folder(self, path: str) -> None:
        """Make durable which files are in a folder, under which names."""
        if sys.platform == "win32":  # where a folder cannot be opened
            return
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def replace(self, old: str, new: str) -> None:
        """Move a file to another path and replace the file there."""
        os.replace(old, new)  # noqa: PTH105

    def unlink(self, path: str) -> None:
        """Delete a file. Raises FileNotFoundError."""
        os.unlink(path)  # noqa: PTH108

    def lock(self, descriptor: int) -> None:
        """Wait for the lock of a file, and hold it until its descriptor is closed.

        Raises TimeoutError after 60 s. Close the descriptor then: the lock may still be given to
        it.
        """
        if _try_lock(descriptor):  # without a thread
            return
        twin = os.dup(descriptor)
        waiting = _waited_for(twin)
        with suppress(TimeoutError):
            waiting.result(_LOCK_S)
        if waiting.cancel():
            raise TimeoutError(
                errno.ETIMEDOUT, f"another writer has held the session's lock for {_LOCK_S:.0f} s"
            )
        waiting.result()
        os.close(twin)

    def line_up(self, folder: str) -> Future[LeaveLine]:
        """Return the end of a wait in line, as `Storage` says: a lock on a folder.

        Raises OSError.
        """
        return _waited_for(os.open(folder, os.O_RDONLY))

    def unlock(self, descriptor: int) -> None:
        """Let go of a file's lock."""
        _unlock(descriptor)

    def is_at(self, descriptor: int, path: str) -> bool:
        """Return whether an open file still has a path."""
        try:
            return os.path.samestat(os.fstat(descriptor), os.lstat(path))
        except FileNotFoundError:
            return False


def irregular_file(path: str) -> CorruptionError:
    """Return the error for a path that is no plain file or folder."""
    return CorruptionError(
        f"{path!r} is a link, a FIFO or a device, a file in place of a folder, or a folder in "
        "place of a file; "
        "put the session's own file or folder back",
        file=path,
    )


def _waited_for(descriptor: int) -> Future[LeaveLine]:
    """Return the end of a wait for a lock, in a thread of its own.

    The system keeps a queue of all waits.

    Such a wait cannot be called off. If its future is cancelled, the descriptor is closed at its
    end.
    """
    future: Future[LeaveLine] = Future()
    if _try_lock(descriptor):  # without a thread
        future.set_result(partial(_leave, descriptor))
        return future

    def wait() -> None:
        try:
            _lock(descriptor)
        except OSError as error:
            os.close(descriptor)
            if future.set_running_or_notify_cancel():
                future.set_exception(error)
            return
        if future.set_running_or_notify_cancel():
            future.set_result(partial(_leave, descriptor))
        else:
            _leave(descriptor)

    threading.Thread(target=wait, name="kaosmem-lock", daemon=True).start()
    return future


def _leave(descriptor: int) -> None:
    """Let go of a lock and of its descriptor."""
    _unlock(descriptor)  # a forked process may have the descriptor, too
    os.close(descriptor)


if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int) -> bool:
        os.lseek(descriptor, 0, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _lock(descriptor: int) -> None:
        os.lseek(descriptor, 0, os.SEEK_SET)
        while True:
            try:
                return msvcrt.locking(descriptor, msvcrt.LK_LOCK, 1)
            except OSError as error:  # after ten tries, one a second
                if error.errno != errno.EDEADLOCK:
                    raise

    def _unlock(descriptor: int) -> None:
        os.lseek(descriptor, 0, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _try_lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX)

    def _unlock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
