"""The sessions of a place: listing, change detection and deletion."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any

from kaosmem.errors import NotFoundError
from kaosmem.names import name_of, path_of, shown, shown_location
from kaosmem.persistence.layout import LOG, SNAP
from kaosmem.persistence.storage import (
    Location,
    as_durability_error,
    check_no_other,
    filesystem_of,
    folders_at,
    open_storage,
    remove_namespace,
    session_folders,
)

# The time of a file's last change, as filesystems call it.
_TIMES = ("mtime", "LastModified", "last_modified", "updated", "modified", "created")


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A session as its files show it, unopened.

    size_bytes: of all its files. saved: the time of the last commit, None if the filesystem does not tell.
    """

    session_id: str
    size_bytes: int
    saved: datetime | None


def fingerprint(location: Location, session_id: str, namespace: str = "default") -> Hashable:
    """Return a value that changes with every commit to a session, made from the sizes of its files alone.

    Raises DurabilityError.
    """
    storage = open_storage(location, namespace, session_id)
    with as_durability_error("reading the session"):
        return tuple(tuple(sorted(storage.sizes(folder).items())) for folder in (LOG, SNAP))


def list_sessions(location: Location, namespace: str = "default") -> list[str]:
    """Return the ids of a namespace's sessions, sorted. Raises InvalidNameError, DurabilityError."""
    with as_durability_error("listing the sessions"):
        folders = session_folders(location, namespace)
    return sorted(name for folder in folders if (name := name_of(folder)) is not None)


def unknown_session(location: Location, session_id: str, namespace: str) -> NotFoundError:
    """Return the error for a session that is not stored. It names the stored session with the nearest id."""
    stored = list_sessions(location, namespace)
    nearest = get_close_matches(session_id, stored, n=1, cutoff=0.0)
    there = (
        f"the nearest of {len(stored):,} is {nearest[0]!r}"
        if nearest
        else "none is stored there; open one for writing to make it"
    )
    return NotFoundError(
        f"no session {shown(session_id)} in {shown_location(location)}, namespace {namespace!r}; {there}"
    )


def list_namespaces(location: Location) -> list[str]:
    """Return the namespaces that hold a session, sorted. Raises InvalidNameError, DurabilityError."""
    with as_durability_error("listing the namespaces"):
        found = [name for folder in folders_at(location) if (name := name_of(folder)) is not None]
        return sorted(name for name in found if list_sessions(location, name))


def stored_sessions(location: Location, namespace: str = "default") -> list[StoredSession]:
    """Return the sessions of a namespace, the last saved first. Raises InvalidNameError, DurabilityError."""
    found = [_stored(location, namespace, session_id) for session_id in list_sessions(location, namespace)]
    earliest = datetime.min.replace(tzinfo=UTC)
    return sorted(found, key=lambda session: session.saved or earliest, reverse=True)


def _stored(location: Location, namespace: str, session_id: str) -> StoredSession:
    filesystem = filesystem_of(location)
    with as_durability_error("listing the sessions"):
        files: Mapping[str, Mapping[str, Any]] = filesystem.find(
            f"{path_of(namespace)}/{path_of(session_id)}", detail=True
        )
    log = [info for path, info in files.items() if f"/{LOG}/" in f"/{path}"]
    size = sum(info.get("size") or 0 for info in files.values())
    return StoredSession(session_id, size, _last_change(log or files.values()))


def _last_change(files: Iterable[Mapping[str, Any]]) -> datetime | None:
    times = (next((info[name] for name in _TIMES if info.get(name)), None) for info in files)
    return max((_as_time(time) for time in times if time is not None), default=None)


def _as_time(time: float | str | datetime) -> datetime:
    if isinstance(time, int | float):
        return datetime.fromtimestamp(time, UTC)
    parsed = datetime.fromisoformat(time) if isinstance(time, str) else time
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def delete_session(location: Location, session_id: str, namespace: str = "default") -> None:
    """Delete a session, if there is one. Raises InvalidNameError, DurabilityError."""
    storage = open_storage(location, namespace, session_id)
    with as_durability_error("the deletion"):
        if not storage.sizes(LOG):
            check_no_other(storage)
        storage.delete()


def delete_namespace(location: Location, namespace: str) -> list[str]:
    """Delete all sessions of a namespace, and return their ids, sorted. Raises InvalidNameError, DurabilityError."""
    deleted: set[str] = set()
    while found := list_sessions(location, namespace):
        for session_id in found:
            delete_session(location, session_id, namespace)
        if deleted.issuperset(found):  # its writers make them anew
            break
        deleted.update(found)
    remove_namespace(location, namespace)
    return sorted(deleted)


def delete_idle_sessions(location: Location, namespace: str = "default", *, before: datetime) -> list[str]:
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
