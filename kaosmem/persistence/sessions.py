"""The sessions of a place: listing, change detection and deletion."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any

from kaosmem.errors import UnknownSessionError
from kaosmem.names import name_of, path_of, shown, shown_location
from kaosmem.persistence.layout import LOG, SNAP
from kaosmem.persistence.storage import (
    Location,
    as_durability_error,
    check_no_other,
    filesystem_of,
    open_storage,
    session_folders,
)

# The time of a file's last change, as filesystems call it.
_TIMES = ("mtime", "LastModified", "last_modified", "updated", "modified", "created")


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A session as its files show it, unopened.

    size: bytes of all its files. saved: the time of the last commit, None if the filesystem does not tell.
    """

    session_id: str
    size: int
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


def unknown_session(location: Location, session_id: str, namespace: str) -> UnknownSessionError:
    """Return the error for a session that is not stored. It names the stored session with the nearest id."""
    stored = list_sessions(location, namespace)
    nearest = get_close_matches(session_id, stored, n=1, cutoff=0.0)
    there = f"the nearest of {len(stored):,} is {nearest[0]!r}" if nearest else "none is stored there"
    return UnknownSessionError(
        f"no session {shown(session_id)} in {shown_location(location)}, namespace {namespace!r}; {there}"
    )


def stored_sessions(location: Location, namespace: str = "default") -> list[StoredSession]:
    """Return the sessions of a namespace, the last saved first. Raises InvalidNameError."""
    found = []
    for session_id in list_sessions(location, namespace):
        filesystem = filesystem_of(location)
        folder = f"{path_of(namespace)}/{path_of(session_id)}"
        files: Mapping[str, Mapping[str, Any]] = filesystem.find(folder, detail=True)
        log = [info for path, info in files.items() if f"/{LOG}/" in f"/{path}"]
        size = sum(info.get("size") or 0 for info in files.values())
        found.append(StoredSession(session_id, size, _last_change(log or files.values())))
    earliest = datetime.min.replace(tzinfo=UTC)
    return sorted(found, key=lambda session: session.saved or earliest, reverse=True)


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
