"""A session: opened, filled, shown and saved."""

from kaosmem.session.memory import SessionMemory, delete_session, list_sessions

__all__ = ["SessionMemory", "delete_session", "list_sessions"]
