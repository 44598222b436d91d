"""A POSIX filesystem in memory, with a page cache that a power loss takes away."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from kaosmem.persistence.storage.disk import irregular_file

_WRITING = os.O_WRONLY | os.O_RDWR

Image = Mapping[str, bytes | None]
"""What is on a disk, by path: a file's bytes, or None for a folder. The root is not in it."""


@dataclass(frozen=True, slots=True)
class Written:
    """Bytes that a file got at a place."""

    start: int
    data: bytes

    def on(self, content):
        """Return the content with them; what lies between its end and them reads as NULs."""
        return (
            content[: self.start].ljust(self.start, b"\0")
            + self.data
            + content[self.start + len(self.data) :]
        )


@dataclass(frozen=True, slots=True)
class Torn:
    """A write of which the file got the size alone, or some pieces, each with its place.

    Elsewhere it is as before.
    """

    end: int
    pieces: tuple[tuple[int, bytes], ...] = ()

    def on(self, content):
        """Return the content with them; new bytes in no piece read as NULs."""
        content = content.ljust(self.end, b"\0")
        for start, data in self.pieces:
            content = content[:start] + data + content[start + len(data) :]
        return content


@dataclass(frozen=True, slots=True)
class Truncated:
    """A file cut, or filled with NULs, to a size."""

    size: int

    def on(self, content):
        """Return the content so cut."""
        return content[: self.size].ljust(self.size, b"\0")


@dataclass(eq=False)
class File:
    """A file: what is on the disk, what has been done to it since, in order, and what a reader sees."""

    durable: bytes = b""
    unsynced: list[Written | Torn | Truncated] = field(default_factory=list)
    content: bytes = b""
    locked_by: int | None = None

    def change(self, change):
        self.unsynced.append(change)
        self.content = change.on(self.content)

    def sync(self):
        for change in self.unsynced:
            self.durable = change.on(self.durable)
        self.unsynced.clear()

    def lose_pages(self):
        """Take what is unsynced for written, though only its size will ever be."""
        self.unsynced = [
            Torn(change.start + len(change.data)) if isinstance(change, Written) else change
            for change in self.unsynced
        ]


@dataclass(eq=False)
class Folder:
    """A folder: its entries on the disk, the changes since, each a few entries set or gone, and its entries."""

    durable: dict[str, Node] = field(default_factory=dict)
    unsynced: list[tuple[tuple[str, Node | None], ...]] = field(default_factory=list)
    entries: dict[str, Node] = field(default_factory=dict)

    def change(self, *change):
        self.unsynced.append(change)
        set_entries(self.entries, change)

    def sync(self):
        self.durable = dict(self.entries)
        self.unsynced.clear()


Node = File | Folder


def set_entries(entries, change):
    """Set each name to its node, or remove it."""
    for name, node in change:
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node


class SimulatedDisk:
    """The calls of `Disk` on a filesystem in memory that does no more than POSIX promises.

    `sync` makes one file's data and size durable, but not its name; `sync_folder` one folder's
    entries, but not their data. `power_loss.states` lists what a disk may hold after a power loss
    at this moment.

    watch: called with the name of each call that changes something, before it does.
    """

    def __init__(self, image=None, watch=None):
        self.root = Folder()
        self.watch = watch
        self.calls = 0
        self._files = {}
        self._positions = {}
        self._next = 3
        for path, content in sorted((image or {}).items()):
            folder, name = self._place(path)
            folder.entries[name] = Folder() if content is None else File(content, content=content)
            folder.durable[name] = folder.entries[name]

    @property
    def image(self):
        """What a reader sees of the disk now."""
        return dict(_walk(self.root, ""))

    @property
    def descriptors(self):
        """Which descriptors are open."""
        return frozenset(self._files)

    def open(self, path, flags):
        folder, name = self._place(path)
        node = folder.entries.get(name)
        if node is None and not flags & os.O_CREAT:
            raise _error(errno.ENOENT, path)
        if node is not None and flags & os.O_CREAT and flags & os.O_EXCL:
            raise _error(errno.EEXIST, path)
        if isinstance(node, Folder):
            raise (
                _error(errno.EISDIR, path)
                if flags & (_WRITING | os.O_CREAT)
                else irregular_file(path)
            )
        if node is None:
            self._changing("open")
            node = File()
            folder.change((name, node))
        self._files[self._next] = node, flags
        self._next += 1
        return self._next - 1

    def close(self, fd):
        self.unlock(fd)
        del self._files[fd]

    def read(self, fd, start=0, size=None):
        file, flags = self._open(fd)
        if flags & os.O_WRONLY:
            raise _error(errno.EBADF, str(fd))
        return file.content[start:][:size]

    def write(self, fd, data, start=None):
        file = self._writable(fd)
        appends = bool(self._open(fd)[1] & os.O_APPEND)
        self._changing("write")
        at = (
            len(file.content) if appends else self._positions.get(fd, 0) if start is None else start
        )
        file.change(Written(at, bytes(data)))
        self._positions[fd] = at + len(data)
        return len(data)

    def size(self, fd):
        return len(self._open(fd)[0].content)

    def inode(self, fd):
        self._open(fd)
        return 1

    def truncate(self, fd, size):
        file = self._writable(fd, errno.EINVAL)
        self._changing("truncate")
        file.change(Truncated(size))

    def sync(self, fd):
        file, _ = self._open(fd)
        self._changing("sync")
        file.sync()

    def lose_pages(self, fd):
        """Do what Linux does where a sync fails: take the pages for clean, so that no later sync writes them."""
        self._open(fd)[0].lose_pages()

    def age_s(self, path, now):
        """Return 0: no time passes, so no half-written file is old enough to be swept away."""
        self._node(path)
        return 0.0

    def list(self, folder):
        return list(self._folder(folder).entries)

    def is_folder(self, path):
        try:
            return isinstance(self._node(path), Folder)
        except OSError:
            return False

    def is_link(self, path):
        return False

    def make_folder(self, path):
        folder, name = self._place(path)
        if name in folder.entries:
            raise _error(errno.EEXIST, path)
        self._changing("make_folder")
        folder.change((name, Folder()))

    def sync_folder(self, path):
        node = self._node(path)
        self._changing("sync_folder")
        node.sync()

    def remove_folder(self, path):
        folder, name = self._place(path)
        if self._folder(path).entries:
            raise _error(errno.ENOTEMPTY, path)
        self._changing("remove_folder")
        folder.change((name, None))

    def replace(self, old, new):
        (folder, name), (target, new_name) = self._place(old), self._place(new)
        node = self._node(old)
        there = target.entries.get(new_name)
        assert folder is target, "a rename between folders is not simulated"
        if isinstance(there, Folder) and isinstance(node, File):
            raise _error(errno.EISDIR, new)
        if isinstance(there, File) and isinstance(node, Folder):
            raise _error(errno.ENOTDIR, new)
        if isinstance(there, Folder) and there is not node and there.entries:
            raise _error(errno.ENOTEMPTY, new)
        if there is node:
            return
        self._changing("replace")
        folder.change((new_name, node), (name, None))

    def unlink(self, path):
        folder, name = self._place(path)
        if isinstance(self._node(path), Folder):
            raise _error(errno.EISDIR, path)
        self._changing("unlink")
        folder.change((name, None))

    def lock(self, fd):
        file, _ = self._open(fd)
        assert file.locked_by in (None, fd), (
            "the lock is held already: one thread would wait for itself"
        )
        file.locked_by = fd

    def unlock(self, fd):
        file, _ = self._open(fd)
        if file.locked_by == fd:
            file.locked_by = None

    def line_up(self, folder):
        raise OSError(errno.ENOTSUP, "no folder can be locked", folder)

    def is_at(self, fd, path):
        try:
            return self._open(fd)[0] is self._node(path)
        except FileNotFoundError:
            return False

    def _changing(self, call):
        if self.watch is not None:
            self.watch(call)
        self.calls += 1

    def _open(self, fd):
        try:
            return self._files[fd]
        except KeyError:
            raise _error(errno.EBADF, str(fd)) from None

    def _writable(self, fd, number=errno.EBADF):
        file, flags = self._open(fd)
        if not flags & _WRITING:
            raise _error(number, str(fd))
        return file

    def _place(self, path):
        """Return the folder that a path is in, and its name there."""
        above, _, name = path.rstrip("/").rpartition("/")
        return self._folder(above), name

    def _folder(self, path):
        node = self._node(path)
        if not isinstance(node, Folder):
            raise _error(errno.ENOTDIR, path)
        return node

    def _node(self, path):
        node = self.root
        for part in filter(None, path.split("/")):
            if not isinstance(node, Folder):
                raise _error(errno.ENOTDIR, path)
            if part not in node.entries:
                raise _error(errno.ENOENT, path)
            node = node.entries[part]
        return node


def _walk(folder, above):
    for name, node in folder.entries.items():
        path = f"{above}/{name}"
        if isinstance(node, File):
            yield path, node.content
        else:
            yield path, None
            yield from _walk(node, path)


def _error(number, path):
    return OSError(number, os.strerror(number), path)
