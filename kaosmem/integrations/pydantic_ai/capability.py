"""A capability of an agent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pydantic_ai import messages as ai
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.tools import RunContext

from kaosmem.integrations.model_calls import ModelCalls, in_loop, tool_schema
from kaosmem.integrations.pydantic_ai.messages import read_message, write_message
from kaosmem.persistence.storage.places import Location


class KaosmemCapability(AbstractCapability[Any]):
    """Keeps each conversation of an agent in a session, and packs each request of its model.

    The message history of the run stays as it is: the capability changes the request alone. System
    prompts of the messages come first in each request.

    Args:
        location: The place of the sessions. Each `conversation_id` has one.
        options: Further arguments of `ModelCalls`, such as `budget`.
    """

    def __init__(self, location: Location, **options: Any) -> None:
        super().__init__()
        remedy = "run the agent with conversation_id=..."
        self.calls: ModelCalls[ai.ModelMessage] = ModelCalls(
            location, read=read_message, write=write_message, id_remedy=remedy, **options
        )

    @in_loop
    async def before_model_request(self, ctx: RunContext[Any], request_context: Any) -> Any:
        """Pack a request."""
        given = request_context.model_request_parameters
        tools = [
            tool_schema(tool.name, tool.description, tool.parameters_json_schema)
            for tool in (*given.function_tools, *given.output_tools)
        ]
        packed = await self.calls.request(
            ctx.conversation_id,
            request_context.messages,
            system="\n\n".join(part.content for part in given.instruction_parts or ()),
            tools=tools,
        )
        prompt = [ai.ModelRequest([ai.SystemPromptPart(packed.static)])] if packed.static else []
        return replace(request_context, messages=[*prompt, *packed.messages])

    @in_loop
    async def after_model_request(
        self,
        ctx: RunContext[Any],
        *,
        request_context: Any,
        response: ai.ModelResponse,
    ) -> ai.ModelResponse:
        """Keep a reply."""
        interrupted = response.state != "complete"
        await self.calls.keep(ctx.conversation_id, [response], interrupted=interrupted)
        return response
