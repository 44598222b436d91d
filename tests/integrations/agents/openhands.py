"""An agent of the OpenHands SDK. It needs Python 3.12 or newer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from openhands.sdk import Agent, Conversation
from openhands.sdk.llm import LLMResponse, Message, MessageToolCall, TextContent
from openhands.sdk.testing import TestLLM
from openhands.sdk.tool import (
    Action,
    Observation,
    Tool,
    ToolDefinition,
    ToolExecutor,
    register_tool,
)
from pydantic import PrivateAttr

from kaosmem.integrations.openhands import KaosmemCondenser
from tests.integrations.script import INSTRUCTIONS, TOOL, Script, Seen, read_page


class PageAction(Action):
    page: int


class PageObservation(Observation):
    pass


class _Reader(ToolExecutor[PageAction, PageObservation]):
    def __call__(self, action: PageAction, conversation: Any = None) -> PageObservation:
        return PageObservation.from_text(read_page(action.page))


class ReadPageTool(ToolDefinition[PageAction, PageObservation]):
    name = TOOL

    @classmethod
    def create(cls, *_: Any, **__: Any) -> Sequence[ReadPageTool]:
        return [
            cls(
                description="Read one page of the file.",
                action_type=PageAction,
                observation_type=PageObservation,
                executor=_Reader(),
            )
        ]


register_tool(TOOL, ReadPageTool)


class ScriptedLLM(TestLLM):
    _script: Script = PrivateAttr()

    def completion(self, messages: list[Message], *args: Any, **options: Any) -> LLMResponse:
        text, call = self._script.reply([*map(_seen, messages)])
        calls = None
        if call is not None:
            arguments = json.dumps(call["arguments"])
            said = MessageToolCall(
                id=call["id"], name=TOOL, arguments=arguments, origin="completion"
            )
            calls = [said]
        message = Message(role="assistant", content=[TextContent(text=text)], tool_calls=calls)
        self._scripted_responses.append(message)
        return super().completion(messages)


def _seen(message: Message) -> Seen:
    calls = tuple(call.id for call in message.tool_calls or ())
    answers = () if message.tool_call_id is None else (message.tool_call_id,)
    text = "".join(part.text for part in message.content if isinstance(part, TextContent))
    return Seen(message.role, text, calls, answers)


class OpenHandsAgent:
    def __init__(self, root: Path, *, budget: int | None, name: str = "main") -> None:
        self.script = Script()
        self._root = root
        self._options: dict[str, Any] = {"budget": budget, "namespace": name}
        self._conversations: dict[str, Any] = {}

    def _conversation(self, name: str) -> Any:
        if name not in self._conversations:
            llm = ScriptedLLM(model="scripted")
            llm._script = self.script
            condenser = None
            callbacks = []
            if self._options["budget"] is not None:
                condenser = KaosmemCondenser(
                    location=str(self._root), conversation=name, **self._options
                )
                callbacks.append(condenser.keep)
            self._conversations[name] = Conversation(
                Agent(
                    llm=llm,
                    tools=[Tool(name=TOOL)],
                    include_default_tools=[],
                    system_prompt=INSTRUCTIONS,
                    condenser=condenser,
                ),
                workspace=str(self._root / "workspace"),
                callbacks=callbacks,
                visualizer=None,
            )
        return self._conversations[name]

    async def ask(self, conversation: str, question: str) -> None:
        await asyncio.to_thread(self._ask, self._conversation(conversation), question)

    def _ask(self, conversation: Any, question: str) -> None:
        conversation.send_message(question)
        conversation.run()
