"""An agent of LangChain's `create_agent`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver

from kaosmem.integrations.langchain import KaosmemMiddleware
from tests.integrations.script import INSTRUCTIONS, TOOL, Script, Seen, read_page


class _Model(BaseChatModel):
    script: Any

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self

    def _generate(self, messages: Any, *args: Any, **options: Any) -> ChatResult:
        text, call = self.script.reply([*map(_seen, messages)])
        calls = (
            [] if call is None else [{"name": TOOL, "args": call["arguments"], "id": call["id"]}]
        )
        return ChatResult(generations=[ChatGeneration(message=AIMessage(text, tool_calls=calls))])


def _seen(message: BaseMessage) -> Seen:
    calls = [call["id"] or "" for call in getattr(message, "tool_calls", ())]
    answers = (message.tool_call_id,) if isinstance(message, ToolMessage) else ()
    return Seen(message.type, str(message.text), tuple(calls), answers)


class LangChainAgent:
    def __init__(self, root: Path, *, budget: int | None, name: str = "main") -> None:
        self.script = Script()
        middleware = (
            [] if budget is None else [KaosmemMiddleware(root, budget=budget, namespace=name)]
        )
        self._agent: Any = create_agent(
            _Model(script=self.script),
            [read_page],
            system_prompt=INSTRUCTIONS,
            middleware=middleware,
            checkpointer=InMemorySaver(),
        )

    async def ask(self, conversation: str, question: str) -> None:
        await self._agent.ainvoke(
            {"messages": [("user", question)]},
            config={"configurable": {"thread_id": conversation}},
        )
