"""OpenAI Agents SDK 0.24: a filter of the model's input for a `RunConfig`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agents import FunctionTool
from agents.items import TResponseInputItem
from agents.run_config import CallModelData, ModelInputData

from kaosmem.integrations.model_calls import ModelCalls
from kaosmem.persistence.storage.places import Location


class KaosmemFilter:
    """Keeps a conversation in a session, and packs each request of its agents' models.

    Agents that hand a conversation over to each other have a window each.

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
            id_remedy="give conversation=...",
            **{"format": "openai-responses", **options},
        )

    async def __call__(self, data: CallModelData[Any]) -> ModelInputData:
        """Pack a request."""
        named = self.conversation
        tools = [tool for tool in data.agent.tools if isinstance(tool, FunctionTool)]
        packed = await self.calls.request(
            named if isinstance(named, str) else named(data.context),
            data.model_data.input,
            system=data.model_data.instructions or "",
            tools=[_schema(tool) for tool in tools],
            agent=data.agent.name,
        )
        return ModelInputData(input=packed.messages, instructions=packed.system or None)


def _schema(tool: FunctionTool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.params_json_schema,
    }
