"""OpenAI Agents SDK 0.24: a filter of the model's input for a `RunConfig`, and a `Session`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agents import FunctionTool, ModelResponse, RunHooks
from agents.items import TResponseInputItem
from agents.memory.session_settings import SessionSettings, resolve_session_limit
from agents.run_config import CallModelData, ModelInputData

from kaosmem.formats import messages_apart, parse_message, render_messages
from kaosmem.integrations.model_calls import (
    ModelCalls,
    conversation_session_id,
    in_loop,
    tool_schema,
)
from kaosmem.persistence.storage.places import Location
from kaosmem.session.memory import SessionMemory
from kaosmem.session.sessions import Sessions
from kaosmem.types.items import Item

_FORMAT = "openai-responses"
_AS_GIVEN = "openai_agents_items"
"""Metadata of a message: its items as the SDK gave them, if the format would write others."""
_ID_REMEDY = "give conversation=..."


class KaosmemFilter(RunHooks[Any]):
    """Keeps a conversation in a session, and packs each request of its agents' models.

    Agents that hand a conversation over to each other have a window each. With
    `Runner.run(..., hooks=...)`, a reply is stored at once; a `KaosmemSession` stores it, too.

    Args:
        location: The place of the sessions.
        conversation: The id of the conversation, or a function that tells it by the context of the
            run.
        options: Further arguments of `ModelCalls`, such as `budget`.
    """

    def __init__(
        self, location: Location, *, conversation: str | Callable[[Any], str], **options: Any
    ) -> None:
        self.conversation = conversation
        self.calls: ModelCalls[TResponseInputItem] = ModelCalls(
            location,
            id_remedy=_ID_REMEDY,
            **{"format": _FORMAT, **options},
        )

    @in_loop
    async def __call__(self, data: CallModelData[Any]) -> ModelInputData:
        """Pack a request."""
        tools = [
            tool_schema(tool.name, tool.description, tool.params_json_schema)
            for tool in data.agent.tools
            if isinstance(tool, FunctionTool)
        ]
        packed = await self.calls.request(
            self._named(data.context),
            data.model_data.input,
            system=data.model_data.instructions or "",
            tools=tools,
            agent=data.agent.name,
        )
        return ModelInputData(input=packed.messages, instructions=packed.system or None)

    @in_loop
    async def on_llm_end(self, context: Any, agent: Any, response: ModelResponse) -> None:
        """Keep a reply."""
        await self.calls.keep(self._named(context.context), response.to_input_items())

    def _named(self, context: Any) -> str:
        named = self.conversation
        return named if isinstance(named, str) else named(context)


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
