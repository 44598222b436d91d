"""A `Session` of the SDK over the messages of a session."""

from __future__ import annotations

from typing import Any

from agents.items import TResponseInputItem
from agents.memory.session_settings import SessionSettings, resolve_session_limit

from kaosmem.formats import messages_apart, parse_message, render_messages
from kaosmem.integrations.model_calls import (
    conversation_session_id,
    in_loop,
)
from kaosmem.persistence.storage.places import Location
from kaosmem.session.memory import SessionMemory
from kaosmem.session.sessions import Sessions
from kaosmem.types.items import Item

_FORMAT = "openai-responses"
_AS_GIVEN = "openai_agents_items"
"""Metadata of a message: its items as the SDK gave them, if the format would write others."""
_ID_REMEDY = "give conversation=..."


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

    def __init__(
        self,
        location: Location,
        *,
        conversation: str,
        session_settings: SessionSettings | None = None,
        **options: Any,
    ) -> None:
        self.session_id = conversation
        self.session_settings = session_settings
        self._id = conversation_session_id(conversation, _ID_REMEDY)
        self._sessions = Sessions(location, **options)

    @in_loop
    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the live items in their order.

        Args:
            limit: The number of newest items. None: the limit of the settings, or all.
        """
        items = []
        async with self._sessions.turn(self._id) as memory:
            for item in memory["messages"]:
                items += _items_of(item)
        newest = resolve_session_limit(limit, self.session_settings)
        if newest is None:
            return items
        return items[-newest:] if newest > 0 else []

    @in_loop
    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Store items at the end. The items of one reply are one message."""
        async with self._sessions.turn(self._id) as memory:
            _store(memory, items)

    @in_loop
    async def pop_item(self) -> TResponseInputItem | None:
        """Move the newest item to the archive, and return it. None: there is none."""
        async with self._sessions.turn(self._id) as memory:
            newest = next(reversed(memory["messages"]), None)
            if newest is None:
                return None
            *rest, popped = _items_of(newest)
            memory.remove(newest.id)
            _store(memory, rest)
        return popped

    @in_loop
    async def clear_session(self) -> None:
        """Move all items to the archive."""
        async with self._sessions.turn(self._id) as memory:
            for item in list(memory["messages"]):
                memory.remove(item.id)


def _store(memory: SessionMemory, items: list[TResponseInputItem]) -> None:
    for message in messages_apart(items, _FORMAT):
        parsed = parse_message(message, _FORMAT)
        given = message if isinstance(message, list) else [message]
        metadata = None
        if render_messages([parsed], _FORMAT).messages != given:
            metadata = {_AS_GIVEN: given}
        memory.add_message(message, format=_FORMAT, metadata=metadata)


def _items_of(item: Item) -> list[Any]:
    given: Any = item.metadata.get(_AS_GIVEN)
    return list(given or render_messages([item.message], _FORMAT).messages or [])
