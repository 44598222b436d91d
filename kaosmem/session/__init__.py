"""A session: opening, filling, showing, saving."""

from kaosmem.session.memory import SessionMemory, delete_session, list_sessions
from kaosmem.session.repair import RepairReport, repair_session

__all__ = ["RepairReport", "SessionMemory", "delete_session", "list_sessions", "repair_session"]
