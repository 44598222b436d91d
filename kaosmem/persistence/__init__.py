"""The session log: durable on any fsspec filesystem, with synchronous calls."""

from kaosmem.persistence.commit import LogChanges
from kaosmem.persistence.erasure import Erasure
from kaosmem.persistence.files.archive import Entry
from kaosmem.persistence.files.items import decoded_entries
from kaosmem.persistence.files.records import FORMAT_VERSION, Change, Record
from kaosmem.persistence.log import SessionLog
from kaosmem.persistence.recovery import Recovered
from kaosmem.persistence.storage.disk import LeaveLine
from kaosmem.persistence.storage.places import (
    Location,
    StoredSession,
    delete_idle_sessions,
    delete_namespace,
    delete_session,
    filesystem_of,
    fingerprint,
    list_namespaces,
    list_sessions,
    same_place,
    stored_sessions,
    unknown_session,
)

__all__ = [
    "FORMAT_VERSION",
    "Change",
    "Entry",
    "Erasure",
    "LeaveLine",
    "Location",
    "LogChanges",
    "Record",
    "Recovered",
    "SessionLog",
    "StoredSession",
    "decoded_entries",
    "delete_idle_sessions",
    "delete_namespace",
    "delete_session",
    "filesystem_of",
    "fingerprint",
    "list_namespaces",
    "list_sessions",
    "same_place",
    "stored_sessions",
    "unknown_session",
]
