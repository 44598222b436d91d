"""A session: opening, filling, showing, saving."""

from kaosmem.persistence import StoredSession
from kaosmem.session.directory import (
    delete_idle_sessions,
    delete_namespace,
    delete_session,
    list_namespaces,
    list_sessions,
    stored_sessions,
)
from kaosmem.session.memory import SessionMemory
from kaosmem.session.options import SessionOptions
from kaosmem.session.receipts import ErasureReceipt
from kaosmem.session.saving.repair import RepairReport, repair_session
from kaosmem.session.window import Window

__all__ = [
    "ErasureReceipt",
    "RepairReport",
    "SessionMemory",
    "SessionOptions",
    "StoredSession",
    "Window",
    "delete_idle_sessions",
    "delete_namespace",
    "delete_session",
    "list_namespaces",
    "list_sessions",
    "repair_session",
    "stored_sessions",
]
