"""A `HistoryProvider` over sessions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agent_framework import HistoryProvider, Message

from kaosmem.integrations.agent_framework.messages import ID_REMEDY, read_message, write_message
from kaosmem.integrations.conversations import Conversations, on_loop
from kaosmem.persistence.storage.places import Location


class KaosmemHistoryProvider(HistoryProvider):
    """The history of an agent's sessions is the live messages of sessions of kaosmem.

    With a `KaosmemMiddleware` at the same place, which stores messages itself, give
    `store_inputs=False, store_outputs=False`.

    Args:
        location: The place of the sessions. Each `AgentSession` has one, by its `session_id`.
        source_id: The framework's name of this provider.
        load_messages: Whether a run begins with the history.
        store_inputs: Whether the inputs of runs are stored.
        store_outputs: Whether the messages of responses are stored.
        session: Further arguments of `Sessions`, such as `namespace` and `sections`.
    """

    def __init__(
        self,
        location: Location,
        source_id: str = "kaosmem",
        *,
        load_messages: bool = True,
        store_inputs: bool = True,
        store_outputs: bool = True,
        **session: Any,
    ) -> None:
        super().__init__(
            source_id,
            load_messages=load_messages,
            store_inputs=store_inputs,
            store_outputs=store_outputs,
        )
        self._kept: Conversations[Message] = Conversations(
            location,
            read=read_message,
            write=write_message,
            id_remedy=ID_REMEDY,
            **session,
        )

    async def get_messages(self, session_id: str | None, **_: Any) -> list[Message]:
        """Return the live messages of a session."""
        return await on_loop(self._kept.all(session_id))

    async def save_messages(
        self,
        session_id: str | None,
        messages: Sequence[Message],
        **_: Any,
    ) -> None:
        """Store messages at the end of a session."""
        await on_loop(self._kept.keep(session_id, messages))
