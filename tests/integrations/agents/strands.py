"""An agent of Strands."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from strands import Agent, tool
from strands.models import Model

from kaosmem.integrations.strands import KaosmemPlugin
from tests.integrations.script import INSTRUCTIONS, TOOL, Script, Seen, read_page


class _Model(Model):
    def __init__(self, script: Script) -> None:
        self.script = script

    def update_config(self, **_: Any) -> None:
        pass

    def get_config(self) -> Any:
        return {"model_id": "scripted"}

    def structured_output(self, *args: Any, **options: Any) -> Any:
        raise NotImplementedError

    async def stream(
        self, messages: Any, tool_specs: Any = None, system_prompt: Any = None, **_: Any
    ) -> AsyncGenerator[Any, None]:
        instructions = Seen("instructions", system_prompt or "")
        text, call = self.script.reply([instructions, *map(_seen, messages)])
        yield {"messageStart": {"role": "assistant"}}
        start: dict[str, Any] = {}
        delta: dict[str, Any] = {"text": text}
        if call is not None:
            start = {"toolUse": {"toolUseId": call["id"], "name": TOOL}}
            page = call["arguments"]["page"]
            delta = {"toolUse": {"input": f'{{"page": {page}}}'}}
        yield {"contentBlockStart": {"start": start}}
        yield {"contentBlockDelta": {"delta": delta}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn" if call is None else "tool_use"}}


def _seen(message: Any) -> Seen:
    blocks = message["content"]
    calls = [block["toolUse"]["toolUseId"] for block in blocks if "toolUse" in block]
    results = [block["toolResult"] for block in blocks if "toolResult" in block]
    texts = [block.get("text", "") for block in blocks]
    texts += [part.get("text", "") for result in results for part in result["content"]]
    answers = tuple(result["toolUseId"] for result in results)
    return Seen(message["role"], "".join(texts), tuple(calls), answers)


class StrandsAgent:
    def __init__(self, root: Path, *, budget: int | None, name: str = "main") -> None:
        self.script = Script()
        self._root = root
        self._options: dict[str, Any] = {"budget": budget, "namespace": name}
        self._agents: dict[str, Agent] = {}

    async def ask(self, conversation: str, question: str) -> None:
        if conversation not in self._agents:
            kept = []
            if self._options["budget"] is not None:
                kept.append(KaosmemPlugin(self._root, conversation=conversation, **self._options))
            self._agents[conversation] = Agent(
                model=_Model(self.script),
                tools=[tool(read_page)],
                system_prompt=INSTRUCTIONS,
                plugins=kept,
                callback_handler=None,
            )
        await self._agents[conversation].invoke_async(question)
