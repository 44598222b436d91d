"""A session: opening, filling, showing, saving."""

from kaosmem.persistence.storage.places import StoredSession
from kaosmem.sections.retention import RetentionPolicy
from kaosmem.session.directory import (
    delete_idle_sessions,
    delete_namespace,
    list_namespaces,
    stored_sessions,
)
from kaosmem.session.forgetting import ErasureReceipt
from kaosmem.session.retention import RetentionReport
from kaosmem.session.saving.repair import RepairReport

__all__ = [
    "ErasureReceipt",
    "RepairReport",
    "RetentionPolicy",
    "RetentionReport",
    "StoredSession",
    "delete_idle_sessions",
    "delete_namespace",
    "list_namespaces",
    "stored_sessions",
]
