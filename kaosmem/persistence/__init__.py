"""The session log: what a session holds, durable on any fsspec filesystem. All of it is synchronous."""

from kaosmem.persistence.log import SessionLog, delete_session, list_sessions
from kaosmem.persistence.records import FORMAT_VERSION, Change, Record
from kaosmem.persistence.recovery import Recovered

__all__ = ["FORMAT_VERSION", "Change", "Record", "Recovered", "SessionLog", "delete_session", "list_sessions"]
