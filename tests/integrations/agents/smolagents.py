"""An agent of smolagents."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from smolagents import ChatMessage, MessageRole, Model, Tool, ToolCallingAgent
from smolagents.models import ChatMessageToolCall, ChatMessageToolCallFunction
from smolagents.monitoring import LogLevel

from kaosmem.integrations.smolagents import KaosmemModel
from tests.integrations.script import TOOL, Script, Seen, read_page


class _ReadPage(Tool):
    name = TOOL
    description = "Read one page of the file."
    inputs = {"page": {"type": "integer", "description": "The number of the page."}}  # noqa: RUF012
    output_type = "string"

    def forward(self, page: int) -> str:
        return read_page(page)


class _Model(Model):
    def __init__(self, script: Script) -> None:
        super().__init__(model_id="scripted")
        self.script = script

    def generate(self, messages: list[ChatMessage], *args: Any, **options: Any) -> ChatMessage:
        text, call = self.script.reply([*_seen(messages)])
        name, arguments = TOOL, {}
        if call is None:
            name, arguments = "final_answer", {"answer": text}
        else:
            arguments = call["arguments"]
        function = ChatMessageToolCallFunction(arguments, name)
        call_id = f"call_{self.script.replies}"
        calls = [ChatMessageToolCall(function, call_id, "function")]
        return ChatMessage(MessageRole.ASSISTANT, tool_calls=calls)


def _seen(messages: list[ChatMessage]) -> Iterator[Seen]:
    call = ""
    for message in messages:
        text = "".join(part["text"] for part in message.content or () if isinstance(part, dict))
        if message.role == MessageRole.TOOL_CALL:
            call = re.findall("call_[0-9]+", text)[0]
            yield Seen("call", text, (call,))
        elif message.role == MessageRole.TOOL_RESPONSE:
            yield Seen("result", text, (), (call,))
            call = "no call"
        else:
            yield Seen(message.role.value, text)


class SmolagentsAgent:
    def __init__(self, root: Path, *, budget: int | None, name: str = "main") -> None:
        self.script = Script()
        self._root = root
        self._budget = budget
        self._name = name
        self._agents: dict[str, ToolCallingAgent] = {}

    def _agent(self, conversation: str) -> ToolCallingAgent:
        if conversation not in self._agents:
            model: Model = _Model(self.script)
            callbacks = []
            if self._budget is not None:
                kept: dict[str, Any] = {"budget": self._budget, "namespace": self._name}
                model = KaosmemModel(model, self._root, conversation=conversation, **kept)
                callbacks.append(model.keep)
            self._agents[conversation] = ToolCallingAgent(
                tools=[_ReadPage()],
                model=model,
                step_callbacks=callbacks,
                verbosity_level=LogLevel.OFF,
            )
        return self._agents[conversation]

    async def ask(self, conversation: str, question: str) -> None:
        await asyncio.to_thread(self._agent(conversation).run, question, reset=False)
