"""An agent of CrewAI, with native calls of tools."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from crewai import Agent, BaseLLM
from crewai.tools import tool
from pydantic import PrivateAttr

from kaosmem.integrations.crewai import kaosmem_llm
from tests.integrations.script import INSTRUCTIONS, TOOL, Script, Seen, read_page


class ScriptedLLM(BaseLLM):
    _script: Script = PrivateAttr()

    def call(self, messages: Any, *_: Any, **__: Any) -> Any:
        text, call = self._script.reply([*map(_seen, messages)])
        if call is None:
            return text
        function = SimpleNamespace(name=TOOL, arguments=json.dumps(call["arguments"]))
        return [SimpleNamespace(id=call["id"], type="function", function=function)]

    def supports_function_calling(self) -> bool:
        return True


def _seen(message: Any) -> Seen:
    calls = tuple(call["id"] for call in message.get("tool_calls") or ())
    answers = (message["tool_call_id"],) if message["role"] == "tool" else ()
    return Seen(message["role"], str(message.get("content") or ""), calls, answers)


class CrewAIAgent:
    def __init__(self, root: Path, *, budget: int | None, name: str = "main") -> None:
        os.environ["CREWAI_STORAGE_DIR"] = str(root / "crewai")
        self.script = Script()
        self._root = root
        self._options: dict[str, Any] = {"budget": budget, "namespace": name}
        self._tool = tool(TOOL)(read_page)

    async def ask(self, conversation: str, question: str) -> None:
        llm: BaseLLM = ScriptedLLM(model="scripted")
        llm._script = self.script
        if self._options["budget"] is not None:
            llm = kaosmem_llm(llm, self._root, conversation=conversation, **self._options)
        agent = Agent(
            role="analyst", goal="Answer.", backstory=INSTRUCTIONS, llm=llm, tools=[self._tool]
        )
        await asyncio.to_thread(agent.kickoff, question)
