"""A streamed run keeps its reply as a run without a stream does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import GenericFakeChatModel
from pydantic_ai import Agent
from pydantic_ai.models.function import FunctionModel

from kaosmem import SessionMemory
from kaosmem.integrations.langchain import KaosmemMiddleware
from kaosmem.integrations.pydantic_ai import KaosmemCapability

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")

KEPT = ["Who owns the deal?", "Ann owns it."]


async def said(root: Path) -> list[str]:
    async with SessionMemory.open(root, "talk") as memory:
        return [item.text for item in memory["messages"]]


async def test_a_stream_of_langchain_keeps_the_reply(tmp_path: Path) -> None:
    """The chunks of the reply are one message, as soon as the stream ends."""
    model = GenericFakeChatModel(messages=iter([KEPT[1]]))
    agent: Any = create_agent(model, middleware=[KaosmemMiddleware(tmp_path, budget=2_500)])
    chunks = []
    async for chunk, _ in agent.astream(
        {"messages": [("user", KEPT[0])]},
        config={"configurable": {"thread_id": "talk"}},
        stream_mode="messages",
    ):
        chunks.append(chunk.text)
    assert "".join(chunks) == KEPT[1]
    assert len([chunk for chunk in chunks if chunk]) > 1
    assert await said(tmp_path) == KEPT


async def test_a_stream_of_pydantic_ai_keeps_the_reply(tmp_path: Path) -> None:
    """The deltas of the reply are one message, as soon as the run ends."""

    async def stream(messages: Any, info: Any) -> AsyncIterator[str]:
        for delta in ("Ann ", "owns ", "it."):
            yield delta

    kept = KaosmemCapability(tmp_path, budget=2_500)
    agent = Agent(FunctionModel(stream_function=stream), capabilities=[kept])
    async with agent.run_stream(KEPT[0], conversation_id="talk") as result:
        deltas = [delta async for delta in result.stream_text(delta=True, debounce_by=None)]
    assert "".join(deltas) == KEPT[1]
    assert await said(tmp_path) == KEPT
