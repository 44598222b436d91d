"""An agent of Pydantic AI."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic_ai import Agent
from pydantic_ai import messages as ai
from pydantic_ai.models.function import AgentInfo, FunctionModel

from kaosmem.integrations.pydantic_ai import KaosmemCapability
from tests.integrations.script import INSTRUCTIONS, TOOL, Script, Seen, read_page


class PydanticAIAgent:
    def __init__(self, root: Path, *, budget: int | None, name: str = "main") -> None:
        self.script = Script()
        self._histories: dict[str, list[ai.ModelMessage]] = {}
        kept = [] if budget is None else [KaosmemCapability(root, budget=budget, namespace=name)]
        self._agent = Agent(
            FunctionModel(self._reply),
            instructions=INSTRUCTIONS,
            tools=[read_page],
            capabilities=kept,
        )

    def _reply(self, messages: list[ai.ModelMessage], info: AgentInfo) -> ai.ModelResponse:
        instructions = Seen("instructions", info.instructions or "")
        text, call = self.script.reply([instructions, *_seen(messages)])
        if call is None:
            return ai.ModelResponse([ai.TextPart(text)])
        return ai.ModelResponse([ai.ToolCallPart(TOOL, call["arguments"], call["id"])])

    async def ask(self, conversation: str, question: str) -> None:
        result = await self._agent.run(
            question,
            message_history=self._histories.get(conversation),
            conversation_id=conversation,
        )
        self._histories[conversation] = result.all_messages()


def _seen(messages: Sequence[ai.ModelMessage]) -> Iterator[Seen]:
    for message in messages:
        for part in message.parts:
            if isinstance(part, ai.ToolCallPart):
                yield Seen("call", part.args_as_json_str(), (part.tool_call_id,))
            elif isinstance(part, ai.ToolReturnPart):
                yield Seen("result", part.model_response_str(), (), (part.tool_call_id,))
            else:
                yield Seen(part.part_kind, _text(part.content))


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(map(str, content))
