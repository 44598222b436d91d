"""Turns of a session for the tools of a server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from mcp.server.mcpserver.exceptions import ToolError

from kaosmem.errors import ConflictError, KaosmemError
from kaosmem.session.memory import SessionMemory
from kaosmem.session.sessions import Sessions

T = TypeVar("T")

MAX_ATTEMPTS = 5
"""Number of times that a call runs if other processes change the same items."""


class SessionTurns:
    """The turns of one session, in which the tools of a server run.

    Args:
        sessions: The sessions of the server.
        session_id: The session.
        section: The section that gets what a model remembers.
        max_tokens: Size of a result, in tokens of the session's counter.
    """

    def __init__(
        self, sessions: Sessions, session_id: str, *, section: str, max_tokens: int
    ) -> None:
        self._sessions = sessions
        self._session_id = session_id
        self.section = section
        self.max_tokens = max_tokens

    async def run(self, work: Callable[[SessionMemory], Awaitable[T]]) -> T:
        """Return the result of a function of the memory, and save what it changed.

        If another process changed the same items meanwhile, the function runs again on the stored
        session.

        Raises:
            ToolError: If the function or the save raises a KaosmemError. Nothing has changed then.
        """
        attempts = MAX_ATTEMPTS
        while True:
            attempts -= 1
            try:
                async with self._sessions.turn(self._session_id) as memory:
                    return await work(memory)
            except ConflictError as error:
                if not attempts:
                    raise ToolError(str(error)) from error
            except KaosmemError as error:
                raise ToolError(str(error)) from error
