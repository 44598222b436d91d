"""A filter of the model's input for a `RunConfig`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agents import FunctionTool, ModelResponse, RunHooks
from agents.items import TResponseInputItem
from agents.run_config import CallModelData, ModelInputData

from kaosmem.integrations.model_calls import ModelCalls, in_loop, tool_schema
from kaosmem.persistence.storage.places import Location


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
        self,
        location: Location,
        *,
        conversation: str | Callable[[Any], str],
        **options: Any,
    ) -> None:
        self.conversation = conversation
        self.calls: ModelCalls[TResponseInputItem] = ModelCalls(
            location, **{"format": "openai-responses", **options}
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
    async def on_llm_end(
        self,
        context: Any,
        agent: Any,
        response: ModelResponse,
    ) -> None:
        """Keep a reply."""
        await self.calls.keep(self._named(context.context), response.to_input_items())

    def _named(self, context: Any) -> str:
        named = self.conversation
        return named if isinstance(named, str) else named(context)
