"""An agent of the OpenAI Agents SDK."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage, function_tool
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from kaosmem.integrations.openai_agents import KaosmemFilter
from tests.integrations.script import INSTRUCTIONS, TOOL, Script, Seen, read_page


class _Model(Model):
    def __init__(self, script: Script) -> None:
        self.script = script

    async def get_response(  # type: ignore[override]
        self, system_instructions: str | None, input: Any, *_: Any, **__: Any
    ) -> ModelResponse:
        given = Seen("instructions", system_instructions or "")
        text, call = self.script.reply([given, *_seen(input)])
        if call is None:
            part = ResponseOutputText(text=text, type="output_text", annotations=[])
            said: Any = ResponseOutputMessage(
                id="m", content=[part], role="assistant", status="completed", type="message"
            )
        else:
            arguments = json.dumps(call["arguments"])
            said = ResponseFunctionToolCall(
                call_id=call["id"], name=TOOL, arguments=arguments, type="function_call"
            )
        return ModelResponse(output=[said], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **options: Any) -> Any:
        raise NotImplementedError


def _seen(items: Sequence[Any]) -> Iterator[Seen]:
    for item in items:
        if item.get("type") == "function_call":
            yield Seen("call", item["arguments"], (item["call_id"],))
        elif item.get("type") == "function_call_output":
            yield Seen("result", str(item["output"]), (), (item["call_id"],))
        else:
            content = item["content"]
            parts = [content] if isinstance(content, str) else [part["text"] for part in content]
            yield Seen(item["role"], "".join(parts))


class OpenAIAgentsAgent:
    def __init__(self, root: Path, *, budget: int | None, name: str = "main") -> None:
        self.script = Script()
        self.agent = Agent(
            name=name,
            instructions=INSTRUCTIONS,
            model=_Model(self.script),
            tools=[function_tool(read_page)],
        )
        self._root = root
        self._options = {"budget": budget, "namespace": name}
        self._histories: dict[str, list[Any]] = {}

    async def ask(self, conversation: str, question: str) -> None:
        kept = None
        if self._options["budget"] is not None:
            options: dict[str, Any] = self._options
            kept = KaosmemFilter(self._root, conversation=conversation, **options)
        history = self._histories.get(conversation, [])
        result = await Runner.run(
            self.agent,
            [*history, {"role": "user", "content": question}],
            hooks=kept,
            run_config=RunConfig(call_model_input_filter=kept, tracing_disabled=True),
        )
        self._histories[conversation] = result.to_input_list()
