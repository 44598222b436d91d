"""The sessions of a place: listing, change detection and deletion."""

from __future__ import annotations

from collections.abc import Hashable
from difflib import get_close_matches

from kaosmem.errors import UnknownSessionError
from kaosmem.names import name_of, shown, shown_location
from kaosmem.persistence.layout import LOG, SNAP
from kaosmem.persistence.storage import Location, as_durability_error, check_no_other, open_storage, session_folders


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


def delete_session(location: Location, session_id: str, namespace: str = "default") -> None:
    """Delete a session, if there is one. Raises InvalidNameError, DurabilityError."""
    storage = open_storage(location, namespace, session_id)
    with as_durability_error("the deletion"):
        if not storage.sizes(LOG):
            check_no_other(storage)
        storage.delete()
