"""A session on a filesystem of whole objects: a commit is the first object under its name."""

from __future__ import annotations

import errno
import secrets
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from inspect import iscoroutinefunction
from typing import Any
from weakref import WeakKeyDictionary

from fsspec import AbstractFileSystem
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from kaosmem.errors import DurabilityError, KaosmemError
from kaosmem.persistence.layout import FOLDERS, LOG, SESSION, foreign_name
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
    TakenError,
    Truncate,
    Write,
)

RETENTION_S = 24 * 3600.0
"""The time for which an unneeded file stays.

No slow reader misses it, and no slow writer finds its name free.
"""

_STAMPS = ("ETag", "etag", "e_tag", "md5Hash", "LastModified", "last_modified", "mtime", "created")
"""Names under which filesystems list a digest of a file, or the time of its last change."""

_TRIES = 3
_PAUSES_S = 0.0, 0.05, 0.2, 0.8
"""The pauses before each try to create an object.

While another writer's request is under way, S3 may refuse to create
the object (409, ConditionalRequestConflict) before it can be read."""
_PUT_LIMIT_S, _SLOWEST_BYTES_PER_S = 60.0, 64 * 1024
"""How long storing an object may take.

On a network that stands still, s3fs waits for the server's leave to send.
"""
_creating = threading.Lock()
_conditional: WeakKeyDictionary[AbstractFileSystem, set[str]] = WeakKeyDictionary()


class ObjectStorage:
    """The files of one session under a prefix of a filesystem."""

    appends = False

    def __init__(
        self,
        filesystem: AbstractFileSystem,
        prefix: str,
        *,
        single_writer: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._filesystem = filesystem
        self._prefix = prefix
        self._single_writer = single_writer

        self._clock = clock
        self._in_memory = isinstance(inner_filesystem(filesystem)[0], MemoryFileSystem)

    def perform(self, step: Step) -> Any:
        """Do a step, durably, and return its answer.

        Raises TakenError for a Create that came second.
        """
        match step:
            case List(folder):
                return set(self.sizes(folder))
            case Read(path, start):
                return self._read(path, start)
            case ReadParts(parts):
                return self._read_parts(parts)
            case Lock() | Sync() | DeleteLeftovers() | Discard() | ReadNote():
                # the name of a commit is the compare-and-swap, and what is stored is durable
                return None
            case Draft(_, chunks):
                return b"".join(chunks)
            case _:
                return self._change(step)

    def _change(self, step: Create | Write | Publish | Truncate | Delete | Append) -> None:
        with _as_durability_error(step.path):
            match step:
                case Create(path, data):
                    self._create(path, data)
                case Write(path, chunks):
                    self._put(path, b"".join(chunks))
                case Publish(path, draft):
                    self._put(path, draft)
                case Truncate(path, 0):
                    self._filesystem.rm_file(f"{self._prefix}/{path}")
                case Truncate(path, size):
                    self._put(path, self._read(path)[:size])
                case Delete(path, at_once):
                    self._delete(path, at_once=at_once)
                case Append(path):
                    raise ValueError(
                        f"{path!r} is not on a local disk, where alone commits are appended"
                    )

    def line_up(self) -> None:
        """Return None: writers race for the next name, and none waits for another."""

    def unlock(self) -> None:
        """Do nothing: there is no lock."""

    def sizes(self, folder: str) -> dict[str, int]:
        """Return how many bytes each file in a folder has, by name.

        Dot files belong to others.
        """
        sizes = {}
        for name, info in _entries(self._filesystem, f"{self._prefix}/{folder}"):
            if info["type"] == "file" and not name.startswith("."):
                sizes[name] = info.get("size") or 0
        return sizes

    def state(self, folder: str) -> Hashable:
        """Return a value that changes with the sizes and the stamps of a folder's files."""
        found = []
        for name, info in _entries(self._filesystem, f"{self._prefix}/{folder}"):
            stamp = next(filter(None, map(info.get, _STAMPS)), "")
            found.append((name, info.get("size"), str(stamp)))
        return tuple(sorted(found))

    def foreign(self) -> str | None:
        """Return the name of something under the prefix that kaosmem did not put there, or None."""
        return foreign_name(name for name, _ in _entries(self._filesystem, self._prefix))

    def keeps_versions(self) -> bool | None:
        """Return whether the bucket has or had versioning.

        Return None if it is not S3, or refuses to tell.
        """
        filesystem, path = inner_filesystem(self._filesystem, self._prefix)
        if self._in_memory:
            return False
        if not hasattr(filesystem, "call_s3"):
            return None
        try:
            bucket, _, _ = filesystem.split_path(path)
            answer = filesystem.call_s3("get_bucket_versioning", Bucket=bucket)
        except Exception:
            # An erasure holds as far as it goes, whatever the server says of its versions.
            return None
        return "Status" in answer  # "Suspended" keeps the versions from before

    def old_versions(self) -> set[str]:
        """Return the paths of the files that have an old version.

        Only S3 is asked.
        """
        filesystem, path = inner_filesystem(self._filesystem, self._prefix)
        if not hasattr(filesystem, "call_s3") or self.keeps_versions() is False:
            return set()
        bucket, key, _ = filesystem.split_path(path)
        asked = {"Bucket": bucket, "Prefix": f"{key}/"}
        old: set[str] = set()
        while True:
            with _as_os_error():
                answer = filesystem.call_s3("list_object_versions", **asked)
            for version in answer.get("Versions", ()):
                if not version["IsLatest"] and version["Size"]:
                    old.add(version["Key"].removeprefix(asked["Prefix"]))
            if not answer.get("IsTruncated"):
                return old
            asked["KeyMarker"] = answer["NextKeyMarker"]
            asked["VersionIdMarker"] = answer.get("NextVersionIdMarker") or ""

    def delete(self) -> None:
        """Delete the session: snapshots first, then the log from its oldest segment on.

        So no part of it looks whole.
        """
        # As long as something is there: writers who do not know of it go on storing.
        for _ in range(_TRIES):
            paths = []
            for folder in FOLDERS:
                paths += [f"{folder}/{name}" for name in sorted(self.sizes(folder))]
            for path in paths:
                self._remove(path)
            if not paths:
                break
        # Last: what is left until then is no session.
        self._remove(SESSION)
        with _as_durability_error(self._prefix), suppress(FileNotFoundError):
            self._filesystem.rm(self._prefix, recursive=True)  # folders, where there are any

    def _remove(self, path: str) -> None:
        """Delete a file if it is there. Raises DurabilityError."""
        with _as_durability_error(path), suppress(FileNotFoundError):
            self._filesystem.rm_file(f"{self._prefix}/{path}")

    def _read(
        self,
        path: str,
        start: int = 0,
        size: int | None = None,
    ) -> bytes:
        whole = self._current(path)
        end = None if size is None else start + size
        data: bytes
        # a range even for the whole object, as s3fs asks for the size before it reads an object
        # without one
        try:
            data = self._filesystem.cat_file(whole, start=start, end=end)
            return data
        except FileNotFoundError:
            raise
        except Exception:
            # Stores answer a range that is not there, or of an empty object, in ways of their own.
            pass
        with _as_os_error():
            data = self._filesystem.cat_file(whole)
        return data[start:end]

    def _read_parts(self, parts: Sequence[tuple[str, int, int]]) -> list[bytes]:
        """Return parts of objects, asked for together."""
        current = {path: self._current(path) for path, _, _ in parts}
        found: Sequence[Any] = [None] * len(parts)
        with suppress(Exception):
            paths = [current[path] for path, _, _ in parts]
            starts = [start for _, start, _ in parts]
            ends = [start + size for _, start, size in parts]
            found = self._filesystem.cat_ranges(paths, starts, ends, on_error="return")
        return [
            data if isinstance(data, bytes) else self._read(*part)
            for data, part in zip(found, parts, strict=True)
        ]

    def _current(self, path: str) -> str:
        """Return an object's path in the filesystem, which then asks the server for it.

        s3fs answers from an earlier listing that an object is absent, though another writer has
        stored it since.
        """
        whole = f"{self._prefix}/{path}"
        self._filesystem.invalidate_cache(whole)
        return whole

    def _create(self, path: str, data: bytes) -> None:
        """Store a file if its name is free.

        The file that is stored afterwards decides, not the answer of the server. An answer may be
        lost, and servers refuse in different words.

        Raises:
            TakenError: If the name is taken.
        """
        if not (self._single_writer or self._in_memory):
            self._check_conditional()
        failure: Exception | None = None
        for pause_s in _PAUSES_S:
            if pause_s:  # a pause of 0 s lets another process run first
                time.sleep(pause_s)
            try:
                self._put_if_absent(path, data)
                return
            except Exception as error:
                failure = error
                if self._is_stored(path, data):
                    return
        raise DurabilityError(f"{path!r} could not be stored: {failure}; save again") from failure

    def _is_stored(self, path: str, data: bytes) -> bool:
        """Return whether a file is stored.

        Raises:
            TakenError: If another file is stored under its name.
        """
        try:
            stored = self._read(path)
        except FileNotFoundError:
            return False
        # Another writer may have rolled it up with what follows already.
        if stored.startswith(data):
            return True
        raise TakenError(path)

    def _put_if_absent(self, path: str, data: bytes) -> None:
        """Store a file. Raises an error of the filesystem if its name is taken."""
        if not (self._single_writer or self._in_memory):
            self._put(path, data, mode="create")
            return
        with _creating:
            if self._filesystem.isfile(f"{self._prefix}/{path}"):
                raise FileExistsError(path)
            self._put(path, data)

    def _put(
        self,
        path: str,
        data: bytes,
        **options: Any,
    ) -> None:
        whole = f"{self._prefix}/{path}"
        if _takes_timeout(self._filesystem):
            options["timeout"] = _PUT_LIMIT_S + len(data) / _SLOWEST_BYTES_PER_S
        try:
            self._filesystem.pipe_file(whole, data, **options)
        except FileNotFoundError:  # a filesystem with real folders
            self._filesystem.makedirs(whole.rpartition("/")[0], exist_ok=True)
            self._filesystem.pipe_file(whole, data, **options)

    def _delete(self, path: str, *, at_once: bool) -> None:
        with suppress(FileNotFoundError):  # gone already
            if at_once or self._age_s(path) >= RETENTION_S:
                self._filesystem.rm_file(f"{self._prefix}/{path}")

    def _age_s(self, path: str) -> float:
        """Return how long ago an object was stored.

        Return 0 if the filesystem does not tell: then the object stays.
        """
        try:
            modified = as_time(self._filesystem.modified(f"{self._prefix}/{path}"))
            return self._clock() - modified.timestamp()
        except NotImplementedError:
            return 0.0

    def _check_conditional(self) -> None:
        """Raise DurabilityError if a second writer could overwrite a commit. Find out once."""
        bucket = self._prefix.partition("/")[0]
        if bucket in _conditional.setdefault(self._filesystem, set()):
            return
        probe = f"{LOG}/.probe-{secrets.token_hex(8)}"
        refused = _is_overridden(self._filesystem)
        if refused:
            self._put(probe, b"1", mode="create")
            with suppress(Exception):  # what is stored says whether it was refused
                self._put(probe, b"2", mode="create")
            refused = self._read(probe) == b"1"
            self._filesystem.rm_file(f"{self._prefix}/{probe}")
        if not refused:
            raise DurabilityError(
                f"{type(self._filesystem).__name__} does not store a file only if it is absent, so "
                "two writers could lose each other's commits; use storage that does, or open with "
                "options=SessionOptions(single_writer=True)"
            )
        _conditional[self._filesystem].add(bucket)


def list_prefixes(filesystem: AbstractFileSystem, prefix: str) -> list[str]:
    """Return the names of the folders under a prefix that hold an object, sorted.

    Some servers list a folder for minutes after its last object was deleted.
    """
    folders = [name for name, info in _entries(filesystem, prefix) if info["type"] == "directory"]
    if not folders:
        return []
    with _as_os_error():
        paths = filesystem.find(prefix)  # of a thousand objects, one request
    above = len(_parts(prefix))
    below = [_parts(path)[above:] for path in paths]
    filled = {parts[0] for parts in below if len(parts) > 1}
    for name in folders:
        # A filesystem may pass over a folder that it fails to list, so the rest is looked at.
        if name not in filled and _holds_object(filesystem, f"{prefix}/{name}"):
            filled.add(name)
    return sorted(filled.intersection(folders))


def _holds_object(filesystem: AbstractFileSystem, folder: str) -> bool:
    """Return whether there is an object in a folder, or in a folder inside it."""
    folders = []
    for name, info in _entries(filesystem, folder):
        if info["type"] != "directory":
            return True
        folders.append(f"{folder}/{name}")
    return any(_holds_object(filesystem, each) for each in folders)


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]


def _entries(filesystem: AbstractFileSystem, folder: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and details of each entry of a folder, without the filesystem's cache."""
    # Without a path, DirFileSystem keeps the listings of folders in it.
    filesystem.invalidate_cache(folder)
    try:
        with _as_os_error():
            infos = filesystem.ls(folder, detail=True)
    except FileNotFoundError:
        return
    for info in infos:
        path = info["name"].rstrip("/")
        if path.strip("/") != folder.strip("/"):  # some stores list a folder's marker in the folder
            yield path.rpartition("/")[2], info


def inner_filesystem(
    filesystem: AbstractFileSystem, path: str = ""
) -> tuple[AbstractFileSystem, str]:
    """Return the filesystem of which others show a folder, and a path in it."""
    while isinstance(filesystem, DirFileSystem):
        above = filesystem.path
        if above and path:
            path = f"{above.rstrip('/')}/{path}"
        else:
            path = above or path
        filesystem = filesystem.fs
    return filesystem, path


def _takes_timeout(filesystem: AbstractFileSystem) -> bool:
    """Return whether `pipe_file` is a coroutine.

    fsspec waits for one without end unless it is told a timeout.
    """
    filesystem, _ = inner_filesystem(filesystem)
    return iscoroutinefunction(getattr(filesystem.pipe_file, "__wrapped__", None))


def _is_overridden(filesystem: AbstractFileSystem) -> bool:
    """Return whether the filesystem stores files in its own way.

    The way of fsspec looks first and then overwrites.
    """
    filesystem, _ = inner_filesystem(filesystem)
    return filesystem.async_impl or type(filesystem).pipe_file is not AbstractFileSystem.pipe_file


def as_time(time: float | str | datetime) -> datetime:
    """Return the time that a filesystem states in one of several forms, UTC without a zone."""
    if isinstance(time, int | float):
        return datetime.fromtimestamp(time, UTC)
    parsed = datetime.fromisoformat(time) if isinstance(time, str) else time
    if parsed.tzinfo:
        return parsed
    return parsed.replace(tzinfo=UTC)


@contextmanager
def _as_os_error() -> Iterator[None]:
    """Raise an error of a filesystem's own kind, met in reading, as OSError.

    Its message may show credentials.
    """
    try:
        yield
    except (KaosmemError, OSError):
        raise
    except Exception as error:
        raise OSError(errno.EIO, f"the filesystem raised {type(error).__name__}") from error


@contextmanager
def _as_durability_error(path: str) -> Iterator[None]:
    """Raise any error of a filesystem as DurabilityError."""
    try:
        yield
    except (KaosmemError, TakenError):
        raise
    except Exception as error:
        raise DurabilityError(
            f"{path!r} could not be stored or deleted: {error}; try again"
        ) from error


class IsolatedMemoryFileSystem(MemoryFileSystem):  # type: ignore[misc]  # fsspec has no types
    """A MemoryFileSystem with files of its own: `memory://` elsewhere is one store per process."""

    cachable = False
    protocol = "memory"

    def __init__(self, **storage_options: Any) -> None:
        super().__init__(**storage_options)
        self.store: dict[str, Any] = {}
        self.pseudo_dirs: list[str] = [""]

    # fsspec compares filesystems by their arguments, which are the same for all of these.
    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)
