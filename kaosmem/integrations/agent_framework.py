"""Microsoft Agent Framework 1.x: a chat middleware, a `HistoryProvider`, and a `CompactionStrategy`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from copy import copy
from typing import Any

from kaosmem.arguments import check_instance
from kaosmem.compaction import CompactionStrategy
from kaosmem.errors import needs_extra
from kaosmem.integrations import part_tables as part
from kaosmem.integrations.conversations import Conversations, Framework
from kaosmem.integrations.model_calls import PackedCalls
from kaosmem.integrations.part_tables import PartTable
from kaosmem.persistence.storage.places import Location
from kaosmem.types import JSONDict
from kaosmem.types.items import ChatMessage

with needs_extra("agent-framework"):
    from agent_framework import (
        EXCLUDED_KEY,
        ChatContext,
        ChatMiddleware,
        Content,
        HistoryProvider,
        Message,
        included_messages,
    )

_CALL = {"call_id": part.ID, "name": part.NAME, "arguments": part.ARGUMENTS}
_RESULT = {"call_id": part.RESULT_ID, "result": part.RESULT, "exception": part.ERROR}
_THOUGHT = {"type": "text_reasoning", "id": part.REASONING_ID}
_IMAGE = {"media_type": part.MEDIA_TYPE}
_PARTS = PartTable(
    "type",
    {"type": "text", "text": part.TEXT},
    {**_THOUGHT, "text": part.THINKING, "protected_data": part.SIGNATURE},
    {**_THOUGHT, "protected_data": part.SEALED},
    {"type": "function_call", **_CALL},
    {"type": "function_result", **_RESULT},
    {"type": "uri", "uri": part.URL, **_IMAGE},
    {"type": "data", "uri": part.DATA_URL, **_IMAGE},
)


def read_message(message: Message) -> list[ChatMessage]:
    """Return a message as a list of one."""
    blocks = _PARTS.read(map(_part, message.contents))
    return [ChatMessage(str(message.role), blocks)]


def _part(content: Content) -> JSONDict:
    """Return a part as a dict. A result with images and the like has its parts as blocks."""
    part = content.to_dict()
    items = part.get("items") or ()
    if any(item["type"] != "text" for item in items):
        part["result"] = _PARTS.read(items)
    return part


def write_message(message: ChatMessage) -> Message:
    """Return a message of the framework."""
    parts = _PARTS.write(message.blocks)
    return Message(message.role, list(map(Content.from_dict, parts)))


_FRAMEWORK = Framework(
    read_message,
    write_message,
    id_remedy="run the agent with session=agent.create_session(session_id=...)",
)


class KaosmemMiddleware(PackedCalls, ChatMiddleware):
    """Keeps each session of an agent in a session of kaosmem, and packs each request of its model.

    Args:
        location: The place of the sessions. Each `AgentSession` has one, by its `session_id`.
        options: Further arguments of `ModelCalls`, such as `budget`.
    """

    framework = _FRAMEWORK

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Pack a request, and keep its reply."""
        conversation = None if context.session is None else context.session.session_id
        options = dict(context.options or {})
        packed = await self.calls.request(
            context.messages,
            conversation=conversation,
            system=options.get("instructions") or "",
            tools=[tool.to_json_schema_spec() for tool in options.get("tools") or ()],
        )
        context.messages = list(map(_unnamed, packed.messages))
        context.options = {**options, "instructions": packed.system}

        async def keep(response: Any) -> None:
            interrupted = context.stream and response.finish_reason is None
            await self.calls.keep(
                response.messages, conversation=conversation, interrupted=interrupted
            )

        context.stream_result_hooks.append(keep)
        await call_next()
        if not context.stream and context.result is not None:
            await keep(context.result)


def _unnamed(message: Message) -> Message:
    """Return a message without the agent's name, which a reply gets only at the end of its run."""
    if message.role == "user":
        return message
    unnamed = copy(message)
    unnamed.author_name = None
    return unnamed


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
        self._kept = Conversations(location, _FRAMEWORK, **session)

    async def get_messages(self, session_id: str | None, **_: Any) -> list[Message]:
        """Return the live messages of a session."""
        return await self._kept.all(session_id)

    async def save_messages(
        self,
        session_id: str | None,
        messages: Sequence[Message],
        **_: Any,
    ) -> None:
        """Store messages at the end of a session."""
        await self._kept.keep(messages, conversation=session_id)


class KaosmemCompaction:
    """A strategy of kaosmem as a `CompactionStrategy` of Agent Framework.

    A message that the strategy leaves out leaves the list, and one that it shortens is replaced.
    The messages themselves stay as they are, and so does a history that holds them.

    Args:
        strategy: A strategy of `kaosmem.compaction`.

    Raises:
        InvalidArgumentError: If it is none.
    """

    def __init__(self, strategy: CompactionStrategy) -> None:
        self.strategy = check_instance(strategy, CompactionStrategy, "strategy")

    async def __call__(self, messages: list[Message]) -> bool:
        """Shorten a list of messages in place. Return whether it has changed."""
        excluded = [each for each in messages if each.additional_properties.get(EXCLUDED_KEY)]
        shown = included_messages(messages)
        history = [read_message(message)[0] for message in shown]
        given = dict(zip(map(id, history), shown, strict=True))
        left = await self.strategy.compact(history)
        kept = [given.get(id(said)) or write_message(said) for said in left]
        messages[:] = [*excluded, *kept]
        return given.keys() != {id(said) for said in left}
