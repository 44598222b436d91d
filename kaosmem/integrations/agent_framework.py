"""Microsoft Agent Framework 1.x: a chat middleware, and a `HistoryProvider`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from agent_framework import (
    EXCLUDED_KEY,
    ChatContext,
    ChatMiddleware,
    Content,
    HistoryProvider,
    Message,
)

from kaosmem.compaction import CompactionStrategy
from kaosmem.integrations.model_calls import Calls, ModelCalls, on_loop, unknown_part
from kaosmem.persistence.storage.places import Location
from kaosmem.types import ContentBlock
from kaosmem.types.content import (
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    block_text,
)
from kaosmem.types.items import ChatMessage

_ID_REMEDY = "run the agent with session=agent.create_session(session_id=...)"


class KaosmemMiddleware(ChatMiddleware):
    """Keeps each session of an agent in a session of kaosmem, and packs each request of its model.

    Args:
        location: The place of the sessions. Each `AgentSession` has one, by its `session_id`.
        options: Further arguments of `ModelCalls`, such as `budget`.
    """

    def __init__(self, location: Location, **options: Any) -> None:
        self.calls: ModelCalls[Message] = ModelCalls(
            location, read=_read, write=_write, id_remedy=_ID_REMEDY, **options
        )

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Pack a request, and keep its reply."""
        conversation = None if context.session is None else context.session.session_id
        options = dict(context.options or {})
        packed = await on_loop(
            self.calls.request(
                conversation,
                context.messages,
                system=options.get("instructions") or "",
                tools=[tool.to_json_schema_spec() for tool in options.get("tools") or ()],
            )
        )
        context.messages = packed.messages
        context.options = {**options, "instructions": packed.system}

        async def keep(response: Any) -> None:
            interrupted = context.stream and response.finish_reason is None
            await on_loop(self.calls.keep(conversation, response.messages, interrupted=interrupted))

        context.stream_result_hooks.append(keep)
        await call_next()
        if not context.stream and context.result is not None:
            await keep(context.result)


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
        self._calls: ModelCalls[Message] = ModelCalls(
            location, read=_read, write=_write, id_remedy=_ID_REMEDY, budget=1, **session
        )

    async def get_messages(
        self, session_id: str | None, *, state: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[Message]:
        """Return the live messages of a session."""
        return await on_loop(self._calls.all(session_id))

    async def save_messages(
        self,
        session_id: str | None,
        messages: Sequence[Message],
        *,
        state: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Store messages at the end of a session."""
        await on_loop(self._calls.keep(session_id, messages))


class KaosmemCompaction:
    """A strategy of kaosmem as a `CompactionStrategy` of Agent Framework.

    A message that the strategy leaves out leaves the list, and one that it shortens is replaced.
    The messages themselves stay as they are, and so does a history that holds them.

    Args:
        strategy: A strategy of `kaosmem.compaction`.
    """

    def __init__(self, strategy: CompactionStrategy) -> None:
        self.strategy = strategy

    async def __call__(self, messages: list[Message]) -> bool:
        """Shorten a list of messages in place. Return whether it has changed."""
        excluded = [each for each in messages if each.additional_properties.get(EXCLUDED_KEY)]
        shown = [each for each in messages if not each.additional_properties.get(EXCLUDED_KEY)]
        history = list(map(_message, shown))
        given = dict(zip(map(id, history), shown, strict=True))
        left = await self.strategy.compact(history)
        messages[:] = [*excluded, *(given.get(id(said)) or _write(said, {}) for said in left)]
        return given.keys() != {id(said) for said in left}


def _read(message: Message) -> list[ChatMessage]:
    return [_message(message)]


def _message(message: Message) -> ChatMessage:
    return ChatMessage(str(message.role), tuple(map(_block, message.contents)))


def _block(content: Content) -> ContentBlock:
    call_id = content.call_id or ""
    match content.type:
        case "text":
            return TextBlock(content.text or "")
        case "text_reasoning":
            return ThinkingBlock(content.text or "", content.protected_data or "")
        case "function_call":
            return ToolUseBlock(call_id, content.name or "", content.arguments or "{}")
        case "function_result":
            is_error = content.exception is not None
            return ToolResultBlock(call_id, str(content.result or ""), is_error)
        case "uri" | "data" if (content.media_type or "").startswith("image/"):
            return ImageBlock(content.uri or "", content.media_type or "")
    return unknown_part(content.type, content.to_dict())


def _write(message: ChatMessage, calls: Calls) -> Message:
    contents = [_content(block) for block in message.blocks]
    return Message(message.role, contents)


def _content(block: ContentBlock) -> Content:
    match block:
        case ThinkingBlock():
            return Content.from_text_reasoning(
                text=block.thinking, protected_data=block.signature or None
            )
        case ToolUseBlock():
            return Content.from_function_call(block.id, block.name, arguments=block.arguments)
        case ToolResultBlock():
            error = block_text(block) if block.is_error else None
            return Content.from_function_result(
                block.tool_use_id, result=block_text(block), exception=error
            )
        case ImageBlock(url=url):
            return Content.from_uri(url, media_type=block.media_type or "image/*")
    return Content.from_text(block_text(block))
