"""Strands Agents 1.x: a plugin of an agent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kaosmem.errors import needs_extra
from kaosmem.formats.bedrock import BedrockFormat
from kaosmem.formats.fields import extra_fields, extra_text
from kaosmem.formats.shaped_blocks import Block
from kaosmem.integrations.conversations import Framework
from kaosmem.integrations.model_calls import ModelCalls
from kaosmem.persistence.storage.places import Location
from kaosmem.types import ContentBlock, JSONObject
from kaosmem.types.content import ToolUseBlock

with needs_extra("strands"):
    from strands import Agent
    from strands.hooks import AfterModelCallEvent
    from strands.middleware import InvokeModelStage
    from strands.middleware.stages import InvokeModelContext
    from strands.plugins import Plugin
    from strands.types.content import split_system_prompt


_CALL_FIELDS = ("reasoningSignature",)
"""Gemini refuses a call without it."""


class StrandsFormat(BedrockFormat):
    """Converse's messages with the fields that the framework's models need of a call and a result."""

    success_mark = "success"

    def read(self, block: JSONObject) -> ContentBlock:
        """Return a block as a content block."""
        made = super().read(block)
        if isinstance(made, ToolUseBlock):
            return replace(made, extra=extra_text(block["toolUse"], _CALL_FIELDS))
        return made

    def write(self, block: ContentBlock) -> Block | None:
        """Return a block as the framework has it."""
        written: Any = super().write(block)
        if isinstance(block, ToolUseBlock):
            written["toolUse"] |= extra_fields(block.extra, _CALL_FIELDS)
        return written


_FRAMEWORK = Framework(
    format=StrandsFormat(), id_remedy="give conversation=..., or the agent a session manager"
)


class KaosmemPlugin(Plugin):
    """Keeps the conversation of an agent in a session, and packs each request of its model.

    Args:
        location: The place of the sessions. Each `session_id` of an agent has one. Give the agent a
            session manager, or give conversation, to name it.
        conversation: The id of the conversation.
        options: Further arguments of `ModelCalls`, such as `budget`.
    """

    name = "kaosmem"

    def __init__(
        self,
        location: Location,
        *,
        conversation: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        self.conversation = conversation
        self.calls = ModelCalls(location, _FRAMEWORK, conversation, **options)

    def init_agent(self, agent: Agent) -> None:
        """Take the place before the model of an agent."""
        agent.add_middleware(InvokeModelStage.Input, self.pack)
        agent.add_hook(self.keep, AfterModelCallEvent)

    async def pack(self, context: InvokeModelContext) -> InvokeModelContext:
        """Pack a request."""
        text, prompt = split_system_prompt(context.system_prompt)
        packed = await self.calls.request(
            list(map(_said, context.messages)),
            conversation=self._named(context.agent),
            system=text or "",
            tools=context.tool_specs,
        )
        if packed.static:
            prompt = [*(prompt or ()), {"text": packed.static}]
        return context.replace(messages=packed.messages, system_prompt=prompt)

    async def keep(self, event: AfterModelCallEvent) -> None:
        """Keep a reply."""
        response = event.stop_response
        if response is not None and not event.retry:
            interrupted = response.stop_reason == "cancelled"
            said = [_said(response.message)]
            await self.calls.keep(
                said, conversation=self._named(event.agent), interrupted=interrupted
            )

    def _named(self, agent: Any) -> Any:
        return self.conversation or agent.session_id


def _said(message: Any) -> dict[str, Any]:
    return {"role": message["role"], "content": message["content"]}
