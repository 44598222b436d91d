"""A chat middleware."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from agent_framework import ChatContext, ChatMiddleware, Message

from kaosmem.integrations.agent_framework.messages import ID_REMEDY, read_message, write_message
from kaosmem.integrations.model_calls import ModelCalls, on_loop
from kaosmem.persistence.storage.places import Location


class KaosmemMiddleware(ChatMiddleware):
    """Keeps each session of an agent in a session of kaosmem, and packs each request of its model.

    Args:
        location: The place of the sessions. Each `AgentSession` has one, by its `session_id`.
        options: Further arguments of `ModelCalls`, such as `budget`.
    """

    def __init__(self, location: Location, **options: Any) -> None:
        self.calls: ModelCalls[Message] = ModelCalls(
            location, read=read_message, write=write_message, id_remedy=ID_REMEDY, **options
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
