"""An agent of Haystack."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from haystack import component
from haystack.components.agents import Agent
from haystack.dataclasses import ChatMessage, ToolCall
from haystack.tools import create_tool_from_function

from kaosmem.integrations.haystack import KaosmemChatGenerator
from tests.integrations.script import INSTRUCTIONS, Script, Seen, read_page


@component
class _Generator:
    def __init__(self, script: Script) -> None:
        self.script = script

    @component.output_types(replies=list[ChatMessage])
    def run(
        self,
        messages: list[ChatMessage],
        generation_kwargs: dict[str, Any] | None = None,
        tools: Any = None,
        streaming_callback: Any = None,
    ) -> dict[str, list[ChatMessage]]:
        text, call = self.script.reply([*map(_seen, messages)])
        calls = [] if call is None else [ToolCall("read_page", call["arguments"], call["id"])]
        return {"replies": [ChatMessage.from_assistant(text or None, tool_calls=calls)]}


def _seen(message: ChatMessage) -> Seen:
    calls = [call.id or "" for call in message.tool_calls]
    answers = [result.origin.id or "" for result in message.tool_call_results]
    results = [str(result.result) for result in message.tool_call_results]
    return Seen(message.role, "".join([*message.texts, *results]), tuple(calls), tuple(answers))


class HaystackAgent:
    def __init__(self, root: Path, *, budget: int | None, name: str = "main") -> None:
        self.script = Script()
        generator: Any = _Generator(self.script)
        if budget is not None:
            generator = KaosmemChatGenerator(generator, root, budget=budget, namespace=name)
        self._has_kaosmem = budget is not None
        self._agent = Agent(
            chat_generator=generator,
            tools=[create_tool_from_function(read_page)],
            system_prompt=INSTRUCTIONS,
        )
        self._histories: dict[str, list[ChatMessage]] = {}

    async def ask(self, conversation: str, question: str) -> None:
        history = self._histories.get(conversation, [])
        named = {"conversation": conversation} if self._has_kaosmem else None
        messages = [*history, ChatMessage.from_user(question)]
        result = await asyncio.to_thread(
            self._agent.run, messages=messages, generation_kwargs=named
        )
        said = result["messages"]
        self._histories[conversation] = [each for each in said if each.role != "system"]
