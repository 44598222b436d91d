"""Sessions in a place: their storages, listing and deletion."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from kaosmem.errors import (
    CorruptionError,
    DurabilityError,
    InvalidNameError,
    KaosmemError,
    MissingExtraError,
    NotFoundError,
)
from kaosmem.names import check_name, name_of, path_of, shown, shown_location
from kaosmem.persistence.layout import FOLDERS, LOG, SNAP
from kaosmem.persistence.steps import Performer
from kaosmem.persistence.storage.disk import LeaveLine

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem


Location: TypeAlias = "str | os.PathLike[str] | AbstractFileSystem"
"""A path, a URL that fsspec understands, or a filesystem, whose root is then meant."""


class Storage(Performer, Protocol):
    """The files of one session. Paths are relative to its folder."""

    @property
    def appends(self) -> bool:
        """Return whether a commit is appended under a lock.

        If not, it is stored under a name of its own.
        """

    def line_up(self) -> Future[LeaveLine] | None:
        """Return the end of a wait in line with other writers, None if there is no line.

        The line keeps no writer out. It gives turns, in order, to writers that others outran. A
        writer calls the result when its turn is over. To give up a place, cancel the future.
        """

    def sizes(self, folder: str) -> dict[str, int]:
        """Return how many bytes each file in a folder has, by name; {} if there is none."""

    def state(self, folder: str) -> Hashable:
        """Return a value that changes if a file in a folder changes or is replaced by another."""

    def foreign(self) -> str | None:
        """Return the name of a file in the session's folder that is not kaosmem's, or None."""

    def keeps_versions(self) -> bool | None:
        """Return whether old versions of deleted files stay, None if the storage does not tell."""

    def old_versions(self) -> set[str]:
        """Return the paths of files that have an old version, as far as the storage tells.

        Raises OSError if the storage refuses to tell.
        """

    def delete(self) -> None:
        """Delete the session."""


def open_storage(
    location: Location,
    namespace: str,
    session_id: str,
    *,
    single_writer: bool = False,
) -> Storage:
    """Return the storage of a session. Raises InvalidNameError before any I/O."""
    parent = path_of(check_name(namespace, "namespace"))
    name = path_of(check_name(session_id, "session id"))
    return folder_storage(location, parent, name, single_writer=single_writer)


def folder_storage(
    location: Location,
    parent: str,
    name: str,
    *,
    single_writer: bool = False,
) -> Storage:
    """Return the storage of a folder two levels below a location, given by the path segments."""
    root = _root(location)
    if isinstance(root, Path):
        from kaosmem.persistence.storage.local import LocalStorage

        return LocalStorage(root, parent, name)
    from kaosmem.persistence.storage.objects import ObjectStorage

    filesystem, path = root
    prefix = "/".join(filter(None, (path, parent, name)))
    return ObjectStorage(filesystem, prefix, single_writer=single_writer)


def session_folders(location: Location, namespace: str) -> list[str]:
    """Return the folder names of a namespace's sessions. Raises InvalidNameError before any I/O."""
    place = path_of(check_name(namespace, "namespace"))
    folders = folders_at(location, place)
    root = _root(location)
    if not isinstance(root, Path):
        return folders
    from kaosmem.persistence.storage.local import holds_session

    return [name for name in folders if holds_session(root / place / name)]


def folders_at(location: Location, folder: str = "") -> list[str]:
    """Return the names of the folders in a folder of a location, sorted.

    Of an object store, those that hold an object.
    """
    root = _root(location)
    if isinstance(root, Path):
        from kaosmem.persistence.storage.local import list_folders

        return list_folders(root / folder)
    from kaosmem.persistence.storage.objects import list_prefixes

    filesystem, path = root
    return list_prefixes(filesystem, "/".join(filter(None, (path, folder))))


def stored_files(storage: Storage) -> set[str]:
    """Return the paths of a session's files that are not blank. Raises DurabilityError."""
    paths: set[str] = set()
    with as_durability_error("listing the files"):
        for folder in FOLDERS:
            for name, size in storage.sizes(folder).items():
                if size:
                    paths.add(f"{folder}/{name}")
    return paths


def check_no_other(storage: Storage) -> None:
    """Raise CorruptionError if a folder without a log holds files that are not a session's."""
    name = storage.foreign()
    if name is not None:
        raise CorruptionError(
            f"the folder is not a session's: it holds {name!r} and no log; choose another place or "
            "id",
            file=name,
        )


@contextmanager
def as_durability_error(what: str) -> Iterator[None]:
    """Raise an OSError of the storage as a DurabilityError with the same errno."""
    try:
        yield
    except KaosmemError:  # which may be an OSError, too
        raise
    except OSError as error:
        failure = DurabilityError(f"{what} failed: {error}; what was saved is safe, try again")
        failure.errno = error.errno
        raise failure from error


def same_place(location: Location) -> Hashable:
    """Return a key that is equal for locations of the same place."""
    return _root(location)


def filesystem_of(location: Location) -> AbstractFileSystem:
    """Return a filesystem whose root is the location."""
    if not isinstance(location, str | os.PathLike):
        return location
    from fsspec.implementations.dirfs import DirFileSystem
    from fsspec.implementations.local import LocalFileSystem

    root = _root(location)
    if isinstance(root, Path):
        return DirFileSystem(path=str(root), fs=LocalFileSystem())
    filesystem, path = root
    return DirFileSystem(path=path, fs=filesystem)


def _root(location: Location) -> Path | tuple[AbstractFileSystem, str]:
    """Return the local folder that a location is, or else its filesystem and the path in it."""
    if isinstance(location, os.PathLike) or (isinstance(location, str) and "://" not in location):
        return _folder(location)
    from fsspec.implementations.local import LocalFileSystem

    from kaosmem.persistence.storage.objects import inner_filesystem

    filesystem, path = _filesystem(location)
    # Filesystems that leave credentials in the path, such as s3fs and fsspec's http, log them.
    if isinstance(location, str) and "@" in path.rpartition("://")[2].partition("/")[0]:
        raise InvalidNameError(
            f"no session can be kept in {shown_location(location)}: its filesystem takes no "
            "credentials in the URL; "
            "give them in the environment, or pass an fsspec filesystem"
        )
    inner, below = inner_filesystem(filesystem, path)
    if isinstance(inner, LocalFileSystem):
        return _folder(below or "/")
    return filesystem, path.rstrip("/")


def _filesystem(location: Location) -> tuple[AbstractFileSystem, str]:
    """Return the filesystem that a URL names, and the path in it; a filesystem with its root.

    Raises:
        InvalidNameError: If it is neither, or fsspec cannot read the URL.
        MissingExtraError: If the filesystem's package is not installed.
        DurabilityError: If the server can't be reached.
    """
    from fsspec import AbstractFileSystem
    from fsspec.core import url_to_fs

    if isinstance(location, AbstractFileSystem):
        return location, ""
    if not isinstance(location, str):
        raise InvalidNameError(
            f"no session can be kept in {shown_location(location)}; give a folder, a URL or an "
            "fsspec filesystem"
        )
    try:
        found: tuple[AbstractFileSystem, str] = url_to_fs(location)
    except ImportError as error:
        raise MissingExtraError(
            f"{shown_location(location)} needs a package that is not installed: {error}"
        ) from error
    except ValueError:  # whose message may show what the URL holds
        raise InvalidNameError(
            f"no session can be kept in {shown_location(location)}, which fsspec cannot read; give "
            "a folder, or a URL "
            "whose scheme it knows"
        ) from None
    except Exception as error:
        raise _unreachable(location, error) from None
    return found


def _folder(given: str | os.PathLike[str]) -> Path:
    """Return a local folder, which need not be there yet.

    Raises InvalidNameError for a file and an impossible path.
    """
    try:
        path = Path(given).expanduser().resolve()
        is_file = path.is_file()
    # Too long, a loop, no home, no working directory, a NUL, bytes in place of a text.
    except (OSError, RuntimeError, TypeError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise InvalidNameError(
            f"no session can be kept in {shown_location(given)}: {why}; give the absolute path of "
            "a folder"
        ) from None
    if is_file:
        raise InvalidNameError(
            f"no session can be kept in {shown(str(path))}, which is a file; give a folder"
        )
    return path


def _unreachable(location: Location, error: Exception) -> DurabilityError:
    """Return the error for a server that can't be reached.

    The message of its own may show credentials.
    """
    why = type(error).__name__
    failure = DurabilityError(
        f"{shown_location(location)} can't be reached: {why}; check that it runs, and try again"
    )
    failure.errno = error.errno if isinstance(error, OSError) else None
    return failure


# The time of a file's last change, as filesystems call it.
_TIMES = ("mtime", "LastModified", "last_modified", "updated", "modified", "created")


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A session as its files show it, unopened.

    Attributes:
        size_bytes: Of all its files.
        saved: The time of the last commit, None if the filesystem does not tell.
    """

    session_id: str
    size_bytes: int
    saved: datetime | None


def fingerprint(
    location: Location,
    session_id: str,
    namespace: str = "default",
) -> Hashable:
    """Return a value that changes with every commit to a session, and if it is made anew.

    Raises DurabilityError.
    """
    storage = open_storage(location, namespace, session_id)
    with as_durability_error("reading the session"):
        return storage.state(LOG), storage.state(SNAP)


def list_sessions(location: Location, namespace: str = "default") -> list[str]:
    """Return the ids of a namespace's sessions, sorted.

    Raises InvalidNameError, DurabilityError.
    """
    with as_durability_error("listing the sessions"):
        return _names_of(session_folders(location, namespace))


def _names_of(folders: Iterable[str]) -> list[str]:
    """Return the names of folders, sorted, without the folders of others."""
    return sorted(name for name in map(name_of, folders) if name is not None)


def unknown_session(
    location: Location,
    session_id: str,
    namespace: str,
) -> NotFoundError:
    """Return the error for a session that is not stored.

    It names another namespace that has the id, else the stored session with the nearest id.
    """
    stored = list_sessions(location, namespace)
    nearest = get_close_matches(session_id, stored, n=1, cutoff=0.0)
    there = "none is stored there; `kaosmem assemble PATH --session URL` makes one, or a program without read_only"
    if nearest:
        there = f"the nearest of {len(stored):,} is {nearest[0]!r}"
    for other in list_namespaces(location):
        if session_id in list_sessions(location, other):
            there = f"namespace {other!r} has one"
    folder, _, name = str(location).rstrip("/").rpartition("/")
    if isinstance(location, str | os.PathLike) and folder and not list_namespaces(location):
        with suppress(KaosmemError):
            if session_id in list_sessions(folder, name):
                there = f"namespace {name!r} of {shown_location(folder)} has one"
    return NotFoundError(
        f"no session {shown(session_id)} in {shown_location(location)}, namespace {namespace!r}; "
        f"{there}"
    )


def list_namespaces(location: Location) -> list[str]:
    """Return the namespaces that hold a session, sorted.

    Raises InvalidNameError, DurabilityError.
    """
    with as_durability_error("listing the namespaces"):
        return [name for name in _names_of(folders_at(location)) if list_sessions(location, name)]


def stored_sessions(location: Location, namespace: str = "default") -> list[StoredSession]:
    """Return the sessions of a namespace, the last saved first.

    Raises InvalidNameError, DurabilityError.
    """
    earliest = datetime.min.replace(tzinfo=UTC)
    session_ids = list_sessions(location, namespace)
    found = [_stored(location, namespace, session_id) for session_id in session_ids]
    return sorted(found, key=lambda session: session.saved or earliest, reverse=True)


def _stored(
    location: Location,
    namespace: str,
    session_id: str,
) -> StoredSession:
    """Return a session as its files show it."""
    filesystem = filesystem_of(location)
    folder = f"{path_of(namespace)}/{path_of(session_id)}"
    with as_durability_error("listing the sessions"):
        files: Mapping[str, Mapping[str, Any]] = filesystem.find(folder, detail=True)
    log = []
    size = 0
    for path, info in files.items():
        size += info.get("size") or 0
        if LOG in path.split("/")[:-1]:
            log.append(info)
    return StoredSession(session_id, size, _last_change(log or files.values()))


def _last_change(files: Iterable[Mapping[str, Any]]) -> datetime | None:
    """Return the time of the last change of some files, None if the filesystem does not tell."""
    from kaosmem.persistence.storage.objects import as_time

    times = []
    for info in files:
        stated = list(filter(None, map(info.get, _TIMES)))
        if stated:
            times.append(as_time(stated[0]))
    return max(times, default=None)


def delete_session(
    location: Location,
    session_id: str,
    namespace: str = "default",
) -> bool:
    """Delete a session, and return whether there was one.

    Raises InvalidNameError, DurabilityError.
    """
    storage = open_storage(location, namespace, session_id)
    with as_durability_error("the deletion"):
        has_log = bool(storage.sizes(LOG))
        if not has_log:
            check_no_other(storage)
        is_there = has_log or bool(storage.sizes(SNAP))
        storage.delete()
    return is_there


def delete_namespace(location: Location, namespace: str) -> list[str]:
    """Delete all sessions of a namespace, and return their ids, sorted.

    Raises InvalidNameError, DurabilityError.
    """
    deleted = list_sessions(location, namespace)
    for session_id in deleted:
        delete_session(location, session_id, namespace)
    root = _root(location)
    if isinstance(root, Path):  # an object store has no folders
        with suppress(OSError):  # not empty, or gone
            (root / path_of(namespace)).rmdir()
    return deleted


def delete_idle_sessions(
    location: Location,
    namespace: str = "default",
    *,
    before: datetime,
) -> list[str]:
    """Delete the sessions that were saved last before a time, and return their ids, sorted.

    Raises InvalidNameError, DurabilityError.
    """

    def is_idle(session: StoredSession) -> bool:
        return session.saved is not None and session.saved < before

    deleted = []
    for session in filter(is_idle, stored_sessions(location, namespace)):
        if is_idle(_stored(location, namespace, session.session_id)):  # not in use again
            delete_session(location, session.session_id, namespace)
            deleted.append(session.session_id)
    return sorted(deleted)
