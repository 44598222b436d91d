"""OpenHands SDK 1.x: a condenser of an agent. It needs Python 3.12 or newer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import chain, groupby
from typing import Any

from pydantic import ConfigDict, PrivateAttr

from kaosmem.errors import needs_extra
from kaosmem.integrations.chat_dicts import read_chat_dict, write_chat_dict
from kaosmem.integrations.conversations import Framework, run_and_wait
from kaosmem.integrations.model_calls import ModelCalls
from kaosmem.types import JSONDict
from kaosmem.types.content import ToolResultBlock
from kaosmem.types.items import ChatMessage

with needs_extra("openhands"):
    from openhands.sdk.context.condenser import CondenserBase
    from openhands.sdk.context.view import View
    from openhands.sdk.event import (
        ActionEvent,
        Event,
        LLMConvertibleEvent,
        MessageEvent,
        ObservationEvent,
        SystemPromptEvent,
    )
    from openhands.sdk.llm import Message

Group = tuple[LLMConvertibleEvent, ...]
"""The events of one message: the calls of a reply, or one event."""
_AS_SENT = {"cache_enabled": False, "vision_enabled": True, "function_calling_enabled": True}


def grouped(events: Sequence[Any]) -> list[Group]:
    """Return events with one element for each message, without system prompts.

    A call of `finish` and its result are one answer in words: else the session takes the question
    for one that nobody answered.
    """
    said: list[LLMConvertibleEvent] = []
    answers = {event.action_id: _answer(event) for event in events if _is_finish(event)}
    for event in events:
        if _is_finish(event):
            said.append(answers[event.action_id])
        elif event.id not in answers and not isinstance(event, SystemPromptEvent):
            said.append(event)
    return [tuple(group) for _, group in groupby(said, key=_message_id)]


def _is_finish(event: Event) -> bool:
    return isinstance(event, ObservationEvent) and event.tool_name == "finish"


def _answer(event: ObservationEvent) -> MessageEvent:
    message = Message(role="assistant", content=event.to_llm_message().content)
    return MessageEvent(id=event.id, source="agent", llm_message=message)


def _message_id(event: LLMConvertibleEvent) -> str:
    return event.llm_response_id if isinstance(event, ActionEvent) else event.id


def read_group(group: Group) -> list[ChatMessage]:
    """Return the message of a group, in a list."""
    (message,) = LLMConvertibleEvent.events_to_messages(list(group))
    plain = {"force_string_serializer": False, "send_reasoning_content": False}
    return read_chat_dict(message.to_chat_dict(**_AS_SENT, **plain))


def write_group(message: ChatMessage) -> Group:
    """Return a message as a group of one event."""
    written = write_chat_dict(message)
    if not isinstance(written["content"], str):
        written["content"] = list(map(_part, written["content"]))
    calls = written.pop("tool_calls", ())
    if calls:
        written["tool_calls"] = [
            {**call["function"], "id": call["id"], "origin": "completion"} for call in calls
        ]
    result = message.blocks[0]
    if isinstance(result, ToolResultBlock):
        written["name"] = result.name
    return (MessageEvent(source="environment", llm_message=Message.model_validate(written)),)


def _part(part: JSONDict) -> JSONDict:
    if part["type"] == "text":
        return part
    return {"type": "image", "image_urls": [part["image_url"]["url"]]}


_FRAMEWORK = Framework(read_group, write_group)


class KaosmemCondenser(CondenserBase):
    """Keeps a conversation in a session, and packs each request of its agent.

    The events of the conversation stay as they are: the condenser returns a view of them. With
    `Conversation(..., callbacks=[condenser.keep])`, the last reply of a run is stored at once.

    Further arguments are those of `ModelCalls`, such as `budget`.

    Attributes:
        location: The place of the sessions, as a text: it is stored with the conversation.
        conversation: The id of the conversation. Each agent has its own.
    """

    model_config = ConfigDict(extra="allow")
    location: str
    conversation: str
    _calls: ModelCalls = PrivateAttr()

    def model_post_init(self, context: Any) -> None:
        """Open the place of the sessions."""
        options: dict[str, Any] = self.model_extra or {}
        self._calls = ModelCalls(self.location, _FRAMEWORK, self.conversation, **options)

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
        packed = run_and_wait(
            self._calls.request(grouped(view.events), system="\n".join(texts), tools=tools)
        )
        static = write_group(ChatMessage("system", packed.static)) if packed.static else ()
        return View(events=[*prompts, *static, *chain.from_iterable(packed.messages)])

    async def acondense(self, view: View, agent_llm: Any = None) -> View:
        """Pack a request."""
        return await asyncio.to_thread(self.condense, view)

    def keep(self, event: Event) -> None:
        """Store a reply of the agent. Other events are stored with the next request."""
        if _is_finish(event) or (isinstance(event, MessageEvent) and event.source == "agent"):
            run_and_wait(self._calls.keep(grouped([event])))
