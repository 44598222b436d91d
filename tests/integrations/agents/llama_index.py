"""A function agent of LlamaIndex."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms import types as llama
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.memory import BaseMemory, ChatMemoryBuffer
from llama_index.core.tools import FunctionTool
from pydantic import PrivateAttr

from kaosmem.integrations.llama_index import KaosmemMemory
from tests.integrations.script import INSTRUCTIONS, TOOL, Script, Seen, read_page


class _Model(MockFunctionCallingLLM):
    _script: Script = PrivateAttr()

    def __init__(self, script: Script) -> None:
        super().__init__()
        self._script = script

    async def achat(self, messages: Sequence[llama.ChatMessage], **_: Any) -> llama.ChatResponse:
        text, call = self._script.reply([*map(_seen, messages)])
        blocks: list[Any] = [llama.TextBlock(text=text)] if call is None else []
        if call is not None:
            arguments = call["arguments"]
            block = llama.ToolCallBlock(
                tool_call_id=call["id"], tool_name=TOOL, tool_kwargs=arguments
            )
            blocks.append(block)
        return llama.ChatResponse(message=llama.ChatMessage(blocks, role="assistant"))


def _seen(message: llama.ChatMessage) -> Seen:
    calls = [
        block.tool_call_id or "" for block in message.blocks if block.block_type == "tool_call"
    ]
    answer = message.additional_kwargs.get("tool_call_id")
    answers = (answer,) if answer else ()
    return Seen(message.role.value, message.content or "", tuple(calls), answers)


class LlamaIndexAgent:
    def __init__(self, root: Path, *, budget: int | None, name: str = "main") -> None:
        self.script = Script()
        self._root = root
        self._budget = budget
        self._name = name
        self._memories: dict[str, BaseMemory] = {}
        self._agent = FunctionAgent(
            llm=_Model(self.script),
            tools=[FunctionTool.from_defaults(read_page)],
            system_prompt=INSTRUCTIONS,
            streaming=False,
        )

    def _memory(self, conversation: str) -> BaseMemory:
        if conversation not in self._memories:
            memory: BaseMemory = ChatMemoryBuffer.from_defaults(token_limit=10**6)
            if self._budget is not None:
                # The agent adds its instructions and a loop of tools.
                kept: dict[str, Any] = {"budget": self._budget - 500, "namespace": self._name}
                memory = KaosmemMemory(self._root, conversation=conversation, **kept)
            self._memories[conversation] = memory
        return self._memories[conversation]

    async def ask(self, conversation: str, question: str) -> None:
        await self._agent.run(question, memory=self._memory(conversation))
