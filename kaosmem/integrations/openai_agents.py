"""OpenAI Agents SDK 0.24: a filter of the model's input for a `RunConfig`, and a `Session`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kaosmem.errors import needs_extra
from kaosmem.integrations.conversations import Conversations, Framework
from kaosmem.integrations.model_calls import ModelCalls
from kaosmem.persistence.storage.places import Location

with needs_extra("openai-agents"):
    from agents import FunctionTool, ModelResponse, RunHooks
    from agents.items import TResponseInputItem
    from agents.memory.session_settings import SessionSettings, resolve_session_limit
    from agents.run_config import CallModelData, ModelInputData

_FRAMEWORK = Framework(format="openai-responses")
_NAMED_BY_RUNS = replace(_FRAMEWORK, id_remedy="return one from the function conversation=")


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
        if callable(conversation):
            self.calls = ModelCalls(location, _NAMED_BY_RUNS, **options)
        else:
            self.calls = ModelCalls(location, _FRAMEWORK, conversation, **options)

    async def __call__(self, data: CallModelData[Any]) -> ModelInputData:
        """Pack a request."""
        tools = [
            {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.params_json_schema,
            }
            for tool in data.agent.tools
            if isinstance(tool, FunctionTool)
        ]
        packed = await self.calls.request(
            data.model_data.input,
            conversation=self._named(data.context),
            system=data.model_data.instructions or "",
            tools=tools,
            agent=data.agent.name,
        )
        return ModelInputData(input=packed.messages, instructions=packed.system or None)

    async def on_llm_end(
        self,
        context: Any,
        agent: Any,
        response: ModelResponse,
    ) -> None:
        """Keep a reply."""
        await self.calls.keep(response.to_input_items(), conversation=self._named(context.context))

    def _named(self, context: Any) -> str | None:
        """Return the id that the program's function tells. None: all runs have the given one."""
        return self.conversation(context) if callable(self.conversation) else None


class KaosmemSession:
    """A `Session` of the SDK: the history of a conversation is the messages of a session.

    The history holds the live messages. A message that the section evicts leaves the history, with
    the results of its calls, and stays in the archive.

    Args:
        location: The place of the sessions.
        conversation: The id of the conversation.
        options: Further arguments of `Sessions`, such as `namespace` and `sections`, and the SDK's
            `session_settings`, such as the default limit of `get_items`.
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
        self._kept = Conversations(location, _FRAMEWORK, conversation, **options)

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the live items in their order.

        Args:
            limit: The number of newest items. None: the limit of the settings, or all.
        """
        items = await self._kept.all()
        newest = resolve_session_limit(limit, self.session_settings)
        if newest is None:
            return items
        return items[-newest:] if newest > 0 else []

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Store items at the end. The items of one reply are one message."""
        await self._kept.keep(items, as_given=True)

    async def pop_item(self) -> TResponseInputItem | None:
        """Move the newest item to the archive, and return it. None: there is none."""
        return await self._kept.pop()

    async def clear_session(self) -> None:
        """Move all items to the archive."""
        await self._kept.clear()
