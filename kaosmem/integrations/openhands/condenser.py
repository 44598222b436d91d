"""A condenser of an agent."""

from __future__ import annotations

import asyncio
from itertools import chain
from typing import Any

from openhands.sdk.context.condenser import CondenserBase
from openhands.sdk.context.view import View
from openhands.sdk.event import Event, MessageEvent, SystemPromptEvent
from pydantic import ConfigDict, PrivateAttr

from kaosmem.integrations.model_calls import ModelCalls, now
from kaosmem.integrations.openhands.messages import Group, grouped, read_group, write_group
from kaosmem.types.items import ChatMessage


class KaosmemCondenser(CondenserBase):
    """Keeps a conversation in a session, and packs each request of its agent.

    The events of the conversation stay as they are: the condenser returns a view of them. With
    `Conversation(..., callbacks=[condenser.keep])`, the last reply of a run is stored at once.

    Args:
        location: The place of the sessions, as a text: it is stored with the conversation.
        conversation: The id of the conversation. Each agent has its own.
        options: Further arguments of `ModelCalls`, such as `budget`.
    """

    model_config = ConfigDict(extra="allow")
    location: str
    conversation: str
    _calls: ModelCalls[Group] = PrivateAttr()

    def model_post_init(self, context: Any) -> None:
        """Open the place of the sessions."""
        options: dict[str, Any] = self.model_extra or {}
        self._calls = ModelCalls(self.location, read=read_group, write=write_group, **options)

    def condense(self, view: View, agent_llm: Any = None) -> View:
        """Pack a request."""
        prompts = [event for event in view.events if isinstance(event, SystemPromptEvent)]
        texts = []
        tools = []
        for prompt in prompts:
            texts += [part.text for part in prompt.to_llm_message().content]
            tools += [
                tool.to_openai_tool(add_security_risk_prediction=True) for tool in prompt.tools
            ]
        packed = now(
            self._calls.request(
                self.conversation, grouped(view.events), system="\n".join(texts), tools=tools
            )
        )
        static = write_group(ChatMessage("system", packed.static)) if packed.static else ()
        return View(events=[*prompts, *static, *chain.from_iterable(packed.messages)])

    async def acondense(self, view: View, agent_llm: Any = None) -> View:
        """Pack a request."""
        return await asyncio.to_thread(self.condense, view)

    def keep(self, event: Event) -> None:
        """Store a reply of the agent. Other events are stored with the next request."""
        if isinstance(event, MessageEvent) and event.source == "agent":
            now(self._calls.keep(self.conversation, [(event,)]))
