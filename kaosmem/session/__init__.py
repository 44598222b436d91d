"""A session: opening, filling, showing, saving."""

from kaosmem.persistence import StoredSession
from kaosmem.session.memory import SessionMemory
from kaosmem.session.opening import (
    delete_idle_sessions,
    delete_namespace,
    delete_session,
    list_namespaces,
    list_sessions,
    stored_sessions,
)
from kaosmem.session.receipts import ErasureReceipt
from kaosmem.session.saving.repair import RepairReport, repair_session

__all__ = [
    "ErasureReceipt",
    "RepairReport",
    "SessionMemory",
    "StoredSession",
    "delete_idle_sessions",
    "delete_namespace",
    "delete_session",
    "list_namespaces",
    "list_sessions",
    "repair_session",
    "stored_sessions",
]
