"""The session log: durable on any fsspec filesystem, with synchronous calls."""

from kaosmem.persistence.archive import Entry
from kaosmem.persistence.commit import News
from kaosmem.persistence.disk import Leave
from kaosmem.persistence.erasure import Erasure
from kaosmem.persistence.items import decoded
from kaosmem.persistence.log import SessionLog
from kaosmem.persistence.records import FORMAT_VERSION, Change, Record
from kaosmem.persistence.recovery import Recovered
from kaosmem.persistence.storage import (
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
    "Leave",
    "Location",
    "News",
    "Record",
    "Recovered",
    "SessionLog",
    "StoredSession",
    "decoded",
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
