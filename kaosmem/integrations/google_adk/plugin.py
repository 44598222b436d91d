"""A plugin of a runner or an app."""

from __future__ import annotations

from typing import Any

from google.adk.agents.callback_context import CallbackContext
from google.adk.models import LlmRequest, LlmResponse
from google.adk.plugins import BasePlugin
from google.genai import types

from kaosmem.integrations.model_calls import ModelCalls, in_loop, joined_names
from kaosmem.persistence.storage.places import Location


class KaosmemPlugin(BasePlugin):
    """Keeps each session of a user in a session of kaosmem, and packs each request of its agents.

    Agents of one session have a window each.

    Args:
        location: The place of the sessions.
        options: Further arguments of `ModelCalls`, such as `budget`.
    """

    def __init__(self, location: Location, **options: Any) -> None:
        super().__init__(name="kaosmem")
        self.calls: ModelCalls[Any] = ModelCalls(
            location, id_remedy="run the agent in a session", **{"format": "gemini", **options}
        )

    @in_loop
    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> None:
        """Pack a request."""
        config = llm_request.config
        given = config.system_instruction
        tools = [tool.model_dump(exclude_none=True, mode="json") for tool in config.tools or ()]
        packed = await self.calls.request(
            _conversation(callback_context),
            llm_request.contents,
            system=given if isinstance(given, str) else "",
            tools=tools,
            agent=callback_context.agent_name,
        )
        if packed.static:
            llm_request.append_instructions([packed.static])
        llm_request.contents = [types.Content.model_validate(each) for each in packed.messages]

    @in_loop
    async def after_model_callback(
        self, *, callback_context: CallbackContext, llm_response: LlmResponse
    ) -> None:
        """Keep a reply."""
        if llm_response.content is not None and not llm_response.partial:
            await self.calls.keep(_conversation(callback_context), [llm_response.content])


def _conversation(context: CallbackContext) -> str:
    session = context.session
    return joined_names(session.app_name, session.user_id, session.id)
