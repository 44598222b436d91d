"""A streamed run keeps its reply as a run without a stream does."""

import pytest
from agent_framework import (
    Agent as FrameworkAgent,
)
from agent_framework import (
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponseUpdate,
    Content,
)
from langchain.agents import create_agent
from langchain_core.language_models import GenericFakeChatModel
from pydantic_ai import Agent
from pydantic_ai.models.function import FunctionModel

from kaosmem import SessionMemory
from kaosmem.integrations.agent_framework import KaosmemMiddleware as FrameworkMiddleware
from kaosmem.integrations.langchain import KaosmemMiddleware
from kaosmem.integrations.pydantic_ai import KaosmemCapability

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")

KEPT = ["Who owns the deal?", "Ann owns it."]


DELTAS = ("Ann ", "owns ", "it.")


async def said(root):
    """Return the texts that a session has. A mark says which reply was interrupted."""
    async with SessionMemory.open(root, "talk") as memory:
        items = [*memory["messages"]]
    return [item.text + " (interrupted)" * ("interrupted" in item.metadata) for item in items]


async def test_a_stream_of_langchain_keeps_the_reply(tmp_path):
    """The chunks of the reply are one message, as soon as the stream ends."""
    model = GenericFakeChatModel(messages=iter([KEPT[1]]))
    agent = create_agent(model, middleware=[KaosmemMiddleware(tmp_path, budget=2_500)])
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


async def stream(messages, info):
    for delta in DELTAS:
        yield delta


def capability(root):
    return KaosmemCapability(root, budget=2_500)


async def test_a_stream_of_pydantic_ai_keeps_the_reply(tmp_path):
    """The deltas of the reply are one message, as soon as the run ends."""
    agent = Agent(FunctionModel(stream_function=stream), capabilities=[capability(tmp_path)])
    async with agent.run_stream(KEPT[0], conversation_id="talk") as result:
        deltas = [delta async for delta in result.stream_text(delta=True, debounce_by=None)]
    assert "".join(deltas) == KEPT[1]
    assert await said(tmp_path) == KEPT


async def test_an_interrupted_stream_of_pydantic_ai_keeps_what_came(tmp_path):
    """A program that leaves the stream early has the first delta, with a mark."""
    agent = Agent(FunctionModel(stream_function=stream), capabilities=[capability(tmp_path)])
    async with agent.run_stream(KEPT[0], conversation_id="talk") as result:
        async for _ in result.stream_text(delta=True, debounce_by=None):
            break
    assert await said(tmp_path) == [KEPT[0], "Ann  (interrupted)"]


class StreamingClient(ChatMiddlewareLayer, BaseChatClient):
    def _inner_get_response(self, **_):
        return self._build_response_stream(self._updates())

    async def _updates(self):
        for delta in DELTAS:
            finish = "stop" if delta == DELTAS[-1] else None
            content = Content.from_text(delta)
            yield ChatResponseUpdate(contents=[content], role="assistant", finish_reason=finish)


def framework_stream(root):
    kept = FrameworkMiddleware(root, budget=2_500)
    agent = FrameworkAgent(StreamingClient(), middleware=[kept])
    return agent.run(KEPT[0], stream=True, session=agent.create_session(session_id="talk"))


async def test_a_stream_of_agent_framework_keeps_the_reply(tmp_path):
    """The updates of the reply are one message, as soon as the stream ends."""
    deltas = [update.text async for update in framework_stream(tmp_path)]
    assert "".join(deltas) == KEPT[1]
    assert await said(tmp_path) == KEPT


async def test_an_interrupted_stream_of_agent_framework_keeps_what_came(tmp_path):
    """A program that leaves the stream early has the first update, with a mark."""
    async with framework_stream(tmp_path) as updates:
        async for _ in updates:
            break
    assert await said(tmp_path) == [KEPT[0], "Ann  (interrupted)"]
