"""A framework's own history is kept in a session: in order, as it was given, and in any process."""

import pytest
from agent_framework import Agent as AgentOfFramework
from agent_framework import Message
from agents import RunConfig, Runner, Session
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from kaosmem import InvalidArgumentError, SyncSessionMemory
from kaosmem.integrations.agent_framework import KaosmemHistoryProvider, KaosmemMiddleware
from kaosmem.integrations.langchain import KaosmemMiddleware as LangChainMiddleware
from kaosmem.integrations.openai_agents import KaosmemFilter, KaosmemSession
from kaosmem.integrations.pydantic_ai import KaosmemCapability
from tests.integrations.agents.agent_framework import ScriptedClient
from tests.integrations.agents.openai_agents import OpenAIAgentsAgent
from tests.integrations.script import INSTRUCTIONS, Script, read_page

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")

CALL = {"type": "function_call", "id": "f", "call_id": "c", "name": "read", "arguments": "{}"}
REASONING = {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "sealed"}
RESULT = {"type": "function_call_output", "call_id": "c", "output": "Page 1."}
SAID = {
    "id": "m",
    "role": "assistant",
    "status": "completed",
    "type": "message",
    "content": [{"type": "output_text", "text": "One page.", "annotations": []}],
}
QUESTION = {"role": "user", "content": "How many pages?"}
ITEMS = [QUESTION, REASONING, CALL, RESULT, SAID, QUESTION, QUESTION]


async def test_a_session_of_openai_agents_gives_back_what_it_took(tmp_path):
    """Items come back equal, equal ones twice, to another object; they are popped one at a time."""
    session = KaosmemSession(tmp_path, conversation="deal-42")
    assert isinstance(session, Session)
    await session.add_items(ITEMS)
    other = KaosmemSession(tmp_path, conversation="deal-42")
    assert await other.get_items() == ITEMS
    assert await other.get_items(limit=3) == ITEMS[-3:]
    assert await other.get_items(limit=0) == []
    for number in range(len(ITEMS) - 1, -1, -1):
        assert await other.pop_item() == ITEMS[number]
        assert await session.get_items() == ITEMS[:number]
    assert await session.pop_item() is None
    await session.add_items(ITEMS)
    with SyncSessionMemory.open(tmp_path, "deal-42") as memory:
        question = next(iter(memory["messages"]))
    await other.clear_session()
    assert await session.get_items() == []
    with SyncSessionMemory.open(tmp_path, "deal-42") as memory:
        assert memory.fetch(question.id).text == QUESTION["content"]


async def test_a_session_and_a_filter_of_openai_agents_share_a_conversation(tmp_path):
    """Each message is stored once, whether the SDK's session or the filter tells it first."""
    made = OpenAIAgentsAgent(tmp_path, budget=None)
    for question in ("First?", "Second?"):
        kept = KaosmemFilter(tmp_path, conversation="talk", budget=2_500)
        config = RunConfig(call_model_input_filter=kept, tracing_disabled=True)
        session = KaosmemSession(tmp_path, conversation="talk")
        await Runner.run(made.agent, question, session=session, run_config=config)
    said = [item.get("content") for item in await session.get_items() if "role" in item]
    assert said[0] == "First?"
    assert said[2] == "Second?"
    assert len(await session.get_items()) == 8
    last = made.script.requests[-1]
    assert [seen.role for seen in last].count("user") == 2


def an_agent(script, *, provider, middleware=()):
    return AgentOfFramework(
        ScriptedClient(script),
        INSTRUCTIONS,
        tools=[read_page],
        context_providers=[provider],
        middleware=list(middleware),
    )


@pytest.mark.parametrize("has_middleware", [False, True])
async def test_a_history_provider_goes_on_in_another_process(has_middleware, tmp_path):
    """A new agent gets the whole conversation, calls and results included, each message once."""
    script = Script()
    for question in ("First?", "Second?"):
        middleware = [KaosmemMiddleware(tmp_path, budget=2_500)] if has_middleware else []
        stores = not has_middleware
        provider = KaosmemHistoryProvider(tmp_path, store_inputs=stores, store_outputs=stores)
        agent = an_agent(script, provider=provider, middleware=middleware)
        await agent.run(question, session=agent.create_session(session_id="talk"))
    first, second = script.requests[1], script.requests[-1]
    assert second[: len(first)] == first
    assert [seen.text for seen in second if seen.role == "user"] == ["First?", "Second?"]
    assert [seen.answers for seen in second if seen.answers] == [("call_1",), ("call_3",)]
    kept = await KaosmemHistoryProvider(tmp_path).get_messages("talk")
    assert [message.role for message in kept] == ["user", "assistant", "tool", "assistant"] * 2


async def test_a_message_that_is_shown_as_it_was_said_is_the_frameworks_own(tmp_path):
    """A result of a tool, too, keeps what only its framework knows, such as an artifact."""
    call = {"name": "read", "args": {"page": 1}, "id": "c"}
    result = ToolMessage("Page 1.", tool_call_id="c", artifact={"bytes": 9})
    said = [HumanMessage("How many?"), AIMessage("", tool_calls=[call]), result]
    calls = LangChainMiddleware(tmp_path, budget=2_500).calls
    packed = await calls.request(said, conversation="talk")
    assert [id(message) for message in packed.messages] == [id(message) for message in said]


async def test_a_history_provider_needs_the_id_of_a_session(tmp_path):
    """Conversations of several users never share a session by accident."""
    with pytest.raises(InvalidArgumentError, match="create_session"):
        await KaosmemHistoryProvider(tmp_path).get_messages(None)


@pytest.mark.parametrize("adapter", [KaosmemMiddleware, LangChainMiddleware, KaosmemCapability])
async def test_a_speaker_whom_no_provider_knows_is_a_user_under_a_line(adapter, tmp_path):
    """Providers refuse other roles. The name stays, and what the program added is told once."""
    with SyncSessionMemory.open(tmp_path, "talk") as memory:
        memory.add("messages", "Who owns the deal?")
        memory.add("messages", "It was Bob.", role="critic")
        memory.add("messages", "I see.", role="assistant")
    calls = adapter(tmp_path, budget=2_500).calls
    packed = await calls.request([], conversation="talk")
    said = [message for each in packed.messages for message in calls.framework.read(each)]
    assert [message.role for message in said] == ["user", "user", "assistant"]
    assert '<message from="critic">' in said[1].text
    assert "It was Bob." in said[1].text


async def test_a_question_that_the_filter_stored_first_is_stored_once(tmp_path):
    """A streamed run packs its first request before the SDK stores the question."""
    session = KaosmemSession(tmp_path, conversation="talk")
    kept = KaosmemFilter(tmp_path, conversation="talk", budget=2_500)
    for _ in range(2):
        await kept.calls.request([*await session.get_items(), QUESTION])
        await session.add_items([QUESTION])
        await session.add_items([SAID])
    assert await session.get_items() == [QUESTION, SAID, QUESTION, SAID]


async def test_a_history_with_another_speaker_is_known_again(tmp_path):
    """The provider of the history gives the line, and the middleware knows the message by it."""
    with SyncSessionMemory.open(tmp_path, "talk") as memory:
        memory.add("messages", "Who owns the deal?")
        memory.add("messages", "It was Bob.", role="critic")
    given = await KaosmemHistoryProvider(tmp_path).get_messages("talk")
    assert [(message.role, message.text) for message in given][1] == (
        "user",
        '<message from="critic">\n It was Bob.',
    )
    calls = KaosmemMiddleware(tmp_path, budget=2_500).calls
    await calls.request([*given, Message("user", ["And since when?"])], conversation="talk")
    with SyncSessionMemory.open(tmp_path, "talk") as memory:
        said = [(item.role, item.text) for item in memory["messages"]]
    assert said == [
        ("user", "Who owns the deal?"),
        ("critic", "It was Bob."),
        ("user", "And since when?"),
    ]
