"""Storages for the model checker: what a local disk and an object store do to a world, a step at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kaosmem.errors import ConflictError
from kaosmem.persistence.layout import LOCK
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
    Sync,
    Truncate,
    Write,
)
from tests.persistence.interleavings.runs import Answer


@dataclass(frozen=True, slots=True)
class Unlock:
    """Let other writers in again."""


@dataclass(frozen=True, slots=True)
class Remove:
    """Put a whole session out of view, as a rename of its folder does."""


@dataclass(frozen=True, slots=True)
class More:
    """Write the rest of an append, at the end of the file as it is then."""

    path: str
    data: bytes
    last: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class ReadOn:
    """Read what stands after `data`, which was read before, in the file as it is then."""

    path: str
    start: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Age:
    """Answered by how long ago an object was stored, in seconds."""

    path: str


class SimulatedDisk:
    """A local disk: writers lock and append, readers see an append half done, a kill frees the lock."""

    def perform(self, world, process, step):
        match step:
            case Lock(create):
                if world.holder:
                    return None
                if LOCK not in world.files and not create:
                    return world, Answer("the session was deleted", ConflictError)
                return replace(
                    _stored(world, LOCK, world.files.get(LOCK, (b"", 0.0))[0]), holder=process
                ), Answer()
            case Unlock():
                return replace(
                    world, holder="" if world.holder == process else world.holder
                ), Answer()
            case Remove():
                return replace(world, files=type(world.files).of({}), holder=""), Answer()
            case Append(path, size, data, _, last):
                before = world.files.get(path, (b"", 0.0))[0]
                if len(before) != size:
                    return world, Answer("the file changed under the lock", OSError)
                return _noting(_stored(world, path, before + data), last), Answer()
            case ReadNote():
                note = world.files.get(LOCK, (b"", 0.0))[0]
                return world, Answer(tuple(map(int, note.split())) or None)
            case Sync(path) if path not in world.files:
                return world, Answer(path, FileNotFoundError)
            case Sync() | DeleteLeftovers():
                return world, Answer()
            case More(path, data, last):
                return _noting(
                    _stored(world, path, world.files.get(path, (b"", 0.0))[0] + data), last
                ), Answer()
            case ReadOn(path, start, data):
                return world, Answer(
                    data + world.files.get(path, (b"", 0.0))[0][start + len(data) :]
                )
            case Truncate(path, size):
                return _stored(world, path, world.files[path][0][:size]), Answer()
            case Create(path):
                raise ValueError(f"{path!r} is on a local disk, where commits are appended")
        return _whole(world, step)

    def faults(self, step):
        if isinstance(step, (Lock, Unlock, Remove)):
            return ("kill",)
        return ("lost", "error", "kill")

    def parts(self, world, process, step):
        match step:
            case Append(path, size, data, _, last) if (
                len(world.files.get(path, (b"", 0.0))[0]) == size
            ):
                for cut in sorted(
                    {0, len(data) // 2, data.find(b"\n") + 1, len(data) - 1} - {len(data)}
                ):
                    yield (
                        _stored(world, path, world.files.get(path, (b"", 0.0))[0] + data[:cut]),
                        More(path, data[cut:], last),
                    )
            case Read(path, start) if path in world.files:
                yield world, ReadOn(path, start, world.files[path][0][start:])

    def released(self, world, process):
        return replace(world, holder="") if world.holder == process else world


class SimulatedObjects:
    """An object store: whole objects, stored if absent or in place of another; what is listed or read is up to date."""

    def perform(self, world, process, step):
        match step:
            case Create(path, data):
                if path in world.files:
                    return world, Answer("412 precondition failed", FileExistsError)
                return _stored(world, path, data), Answer()
            case Age(path):
                if path not in world.files:
                    return world, Answer(path, FileNotFoundError)
                return world, Answer(world.clock - world.files[path][1])
        return _whole(world, step)

    def faults(self, step):
        return ("lost", "late", "error", "kill")

    def parts(self, world, process, step):
        return ()

    def released(self, world, process):
        return world


def _whole(world, step):
    match step:
        case Draft(_, chunks):
            return world, Answer(b"".join(chunks))
        case Publish(path, draft):
            return _stored(world, path, draft), Answer()
        case Discard():
            return world, Answer()
        case List(folder):
            within = f"{folder}/"
            return world, Answer(
                frozenset(path[len(within) :] for path in world.files if path.startswith(within))
            )
        case Read(path, start):
            if path not in world.files:
                return world, Answer(path, FileNotFoundError)
            return world, Answer(world.files[path][0][start:])
        case ReadParts(parts):
            if gone := next((path for path, _, _ in parts if path not in world.files), None):
                return world, Answer(gone, FileNotFoundError)
            return world, Answer(
                tuple(world.files[path][0][start:][:size] for path, start, size in parts)
            )
        case Write(path, chunks):
            return _stored(world, path, b"".join(chunks)), Answer()
        case Delete(path):
            if path not in world.files:
                return world, Answer()
            return replace(world, files=world.files.after(path, None, world.clock)), Answer()
    raise TypeError(f"{step!r} is no step")


def _noting(world, last):
    """Note the last record of a commit in the lock file, which is never read half written."""
    return world if last is None else _stored(world, LOCK, b"%d %d" % last)


def _stored(world, path, data):
    files = world.files.after(path, data, world.clock)
    return world if files is world.files else replace(world, files=files)
