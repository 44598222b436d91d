"""A `Session` of the SDK over the messages of a session."""

from __future__ import annotations

from typing import Any

from agents.items import TResponseInputItem
from agents.memory.session_settings import SessionSettings, resolve_session_limit

from kaosmem.integrations.conversations import Conversations, in_loop
from kaosmem.persistence.storage.places import Location


class KaosmemSession:
    """A `Session` of the SDK: the history of a conversation is the messages of a session.

    The history holds the live messages. A message that the section evicts leaves the history, with
    the results of its calls, and stays in the archive.

    Args:
        location: The place of the sessions.
        conversation: The id of the conversation.
        session_settings: The SDK's settings, such as the default limit of `get_items`.
        options: Further arguments of `Sessions`, such as `namespace` and `sections`.
    """

    session_settings: SessionSettings | None = None

    def __init__(
        self,
        location: Location,
        *,
        conversation: str,
        **options: Any,
    ) -> None:
        self.session_id = conversation
        self.session_settings = options.pop("session_settings", None)
        self._kept: Conversations[TResponseInputItem] = Conversations(
            location, format="openai-responses", **options
        )

    @in_loop
    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the live items in their order.

        Args:
            limit: The number of newest items. None: the limit of the settings, or all.
        """
        items = await self._kept.all(self.session_id)
        newest = resolve_session_limit(limit, self.session_settings)
        if newest is None:
            return items
        return items[-newest:] if newest > 0 else []

    @in_loop
    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Store items at the end. The items of one reply are one message."""
        await self._kept.keep(self.session_id, items, as_given=True)

    @in_loop
    async def pop_item(self) -> TResponseInputItem | None:
        """Move the newest item to the archive, and return it. None: there is none."""
        return await self._kept.pop(self.session_id)

    @in_loop
    async def clear_session(self) -> None:
        """Move all items to the archive."""
        await self._kept.clear(self.session_id)
