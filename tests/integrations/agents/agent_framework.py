"""An agent of Microsoft Agent Framework."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    Message,
)

from kaosmem.integrations.agent_framework import KaosmemMiddleware
from tests.integrations.script import INSTRUCTIONS, TOOL, Script, Seen, read_page


class ScriptedClient(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):  # type: ignore[misc]
    def __init__(self, script: Script) -> None:
        super().__init__()
        self.script = script

    async def _inner_get_response(
        self,
        *,
        messages: Sequence[Message],
        stream: bool,
        options: Mapping[str, Any],
        **others: Any,
    ) -> ChatResponse:
        instructions = Seen("instructions", options.get("instructions") or "")
        text, call = self.script.reply([instructions, *map(_seen, messages)])
        content = Content.from_text(text)
        if call is not None:
            content = Content.from_function_call(call["id"], TOOL, arguments=call["arguments"])
        return ChatResponse(messages=[Message("assistant", [content])])


def _seen(message: Message) -> Seen:
    calls = [each.call_id or "" for each in message.contents if each.type == "function_call"]
    results = [each for each in message.contents if each.type == "function_result"]
    text = message.text or "".join(str(each.result) for each in results)
    role = f"{message.role} {message.author_name or ''}".strip()
    return Seen(role, text, tuple(calls), tuple(each.call_id or "" for each in results))


class AgentFrameworkAgent:
    def __init__(self, root: Path, *, budget: int | None, name: str = "main") -> None:
        self.script = Script()
        kept = [] if budget is None else [KaosmemMiddleware(root, budget=budget, namespace=name)]
        self._agent = Agent(
            ScriptedClient(self.script), INSTRUCTIONS, tools=[read_page], middleware=kept
        )
        self._sessions: dict[str, Any] = {}

    async def ask(self, conversation: str, question: str) -> None:
        if conversation not in self._sessions:
            session = self._agent.create_session(session_id=conversation)
            self._sessions[conversation] = session
        await self._agent.run(question, session=self._sessions[conversation])
