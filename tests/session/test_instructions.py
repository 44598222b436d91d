"""Instructions and tools of one call: counted, first in the request, not stored, free to change."""

import pytest

from kaosmem import (
    ChatMessage,
    InvalidArgumentError,
    SessionMemory,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
    Window,
    WindowTooSmallError,
)
from kaosmem.formats import FORMATS, count_messages
from kaosmem.testing import paths_holding
from tests.prefix_binding import PrefixBinding

SYSTEM = "Zanzibar agents answer in one sentence."


def tools_of(name):
    is_neutral = name in ("blocks", "text")
    return SessionMemory.test_mode().tools("openai" if is_neutral else name)


def talk(memory, turns=6):
    memory.add("role", "You are careful.")
    for turn in range(turns):
        memory.add("documents", f"Room {turn} costs {turn} euros a night, breakfast included.")
        memory.add("messages", f"What does room {turn} cost?", role="user")
        memory.add("messages", f"{turn} euros.", role="assistant")
    memory.add("messages", "And which room is the cheapest?", role="user")


def recounted(context, counter, tools):
    handed_over = context.text if context.format == "text" else context.messages
    system = context.rendered.system or ""
    return count_messages(
        handed_over,
        context.format,
        system=system,
        tools=tools,
        counter=counter,
    )


def uneven(text):
    """Count more for texts that stand together than for each of them."""
    return len(text) // 4 + len(text) ** 2 // 50_000


@pytest.mark.parametrize("counter", [None, uneven], ids=["o200k", "uneven"])
@pytest.mark.parametrize("window", [None, "main"])
@pytest.mark.parametrize("name", FORMATS)
async def test_they_are_counted_and_stand_first(name, window, counter):
    """The request holds them before all else, counts what it says, and stays in the budget."""
    tools = tools_of(name)
    for budget in (900, 1_200, 4_000):
        memory = SessionMemory.test_mode(counter=counter)
        talk(memory)
        try:
            context = await memory.assemble_context(
                budget=budget, reserve=50, format=name, window=window, system=SYSTEM, tools=tools
            )
        except WindowTooSmallError:
            assert counter is uneven or name == "anthropic"
            continue
        assert context.used == recounted(context, counter, tools) <= context.budget == budget - 50
        assert context.used == context.frame + sum(u.used for u in context.by_section.values())
        rendered = context.rendered
        first = rendered.text or rendered.system or str(rendered.messages[0]["content"])
        assert first.startswith(SYSTEM)
        assert list(context.tools) == tools


async def test_they_are_not_stored():
    """No file of the session holds them, nor does its next request without them."""
    memory = SessionMemory.test_mode()
    talk(memory)
    await memory.assemble_context(
        budget=4_000, format="openai", window="main", system=SYSTEM, tools=tools_of("openai")
    )
    await memory.save()
    fs = memory.admin.fs
    assert not paths_holding(fs, "Zanzibar")
    context = await memory.assemble_context(budget=4_000, format="openai", window="main")
    assert "Zanzibar" not in str(context.messages)
    assert context.epoch == 1


class Agent:
    """An agent with signed thinking: its provider refuses thinking that is bound to another request."""

    def __init__(self, memory, window, system):
        self.memory = memory
        self.window = window
        self.system = system
        self.tools = tools_of("anthropic")[:2]
        self.provider = PrefixBinding()
        self.thinking = 0

    async def turn(self, question):
        self.memory.add("messages", question, role="user")
        context = await self.memory.assemble_context(
            budget=16_000,
            format="anthropic",
            window=self.window,
            system=self.system,
            tools=self.tools,
        )
        asked = (context.messages, context.system)
        self.thinking = self.provider.check(*asked, tools=self.tools)
        reply = self.provider.reply(
            *asked, tools=self.tools, content=[{"type": "text", "text": f"To: {question}"}]
        )
        self.memory.add_message({"role": "assistant", "content": reply}, format="anthropic")
        return context


async def test_a_window_goes_on_when_they_change_without_thinking_that_they_invalidate():
    """The messages stay a prefix; thinking under other instructions or tools is left out, and it is said."""
    memory = SessionMemory.test_mode()
    agent = Agent(memory, "main", "Be brief.")
    before = [await agent.turn(f"question {turn}") for turn in range(3)][-1]
    assert agent.thinking == 2
    agent.system = "Be thorough."
    changed = await agent.turn("question 3")
    assert agent.thinking == 0
    assert changed.epoch == 1
    assert changed.prefix_tokens == 0
    assert "thinking in 3 messages is left out" in changed.notices[-1]
    spoken = [message for message in changed.messages if message["role"] == "user"]
    assert spoken[:3] == [message for message in before.messages if message["role"] == "user"]
    following = await agent.turn("question 4")
    assert agent.thinking == 1
    assert following.messages[: len(changed.messages)] == changed.messages
    assert following.prefix_tokens == changed.used
    for context in (changed, following):
        assert context.used == recounted(context, None, agent.tools)
        assert context.frame >= 0
    agent.tools = agent.tools[:1]
    await agent.turn("question 5")
    assert agent.thinking == 0
    await memory.save()
    fs = memory.admin.fs
    async with SessionMemory.open(fs, "test") as again:
        agent.memory = again
        continued = await agent.turn("question 6")
    assert agent.thinking == 1
    assert continued.epoch == 1


async def test_the_models_whose_thinking_is_not_bound_keep_it():
    """A model without preserved thinking, and reasoning of OpenAI, stay valid under other instructions."""
    for name, model in (("anthropic", "claude-opus-4-5"), ("openai-responses", None)):
        memory = SessionMemory.test_mode()
        memory.add("messages", "Who?", role="user")
        window = Window("main", model=model)
        seal = "" if name == "openai-responses" else "c2VhbA=="
        data = "c2VhbA==" if name == "openai-responses" else ""
        thought = ThinkingBlock("hm", seal, data, provider=name)
        await memory.assemble_context(budget=4_000, format=name, window=window, system="A")
        memory.add_message(ChatMessage("assistant", (thought, TextBlock("Ann."))))
        memory.add("messages", "Since when?", role="user")
        context = await memory.assemble_context(
            budget=4_000, format=name, window=window, system="B"
        )
        assert "c2VhbA==" in str(context.messages)
        assert not context.notices


async def test_two_agents_share_a_session_through_one_window_each():
    """Each has its own instructions and window: no window is packed anew, and no thinking is refused."""
    memory = SessionMemory.test_mode()
    agents = [Agent(memory, name, f"You are {name}.") for name in ("ann", "bob")]
    for turn in range(6):
        agent = agents[turn % 2]
        context = await agent.turn(f"question {turn}")
        assert context.epoch == 1
        assert context.system.startswith(f"You are {agent.window}.")
    assert dict(memory.windows).keys() == {"ann", "bob"}


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"system": None}, "system is a NoneType"),
        ({"tools": [len]}, "a tool is a dict or an object"),
        ({"tools": "search"}, "tools"),
        ({"tools": [{"name": float("nan")}]}, "a tool"),
    ],
)
async def test_other_values_are_refused(given, reason):
    """A function is no schema; the error says what to give."""
    memory = SessionMemory.test_mode()
    with pytest.raises(InvalidArgumentError, match=reason):
        await memory.assemble_context(budget=100, format="openai", **given)


async def test_too_little_room_is_told_with_the_sums():
    """Instructions larger than the budget, or than what the newest message leaves, are refused."""
    memory = SessionMemory.test_mode()
    memory.add("messages", "word " * 50, role="user")
    for budget in (20, 60):
        with pytest.raises(WindowTooSmallError):
            await memory.assemble_context(budget=budget, format="openai", system="word " * 30)
    call = ToolUseBlock("c1", "find")
    memory.add_message(ChatMessage("assistant", (call,)))
    assert (await memory.assemble_context(budget=200, format="openai", system="word")).used <= 200


async def test_the_sums_of_a_window_that_is_too_small_name_the_instructions_of_the_call():
    """The budget is the one that was given, and raising it by what is missing is enough."""
    memory = SessionMemory.test_mode()
    memory.add("messages", "What does the room to the north cost, with breakfast and a view?")
    call = {"format": "openai", "system": "You plan the work.", "tools": memory.tools("openai")}
    with pytest.raises(WindowTooSmallError) as caught:
        await memory.assemble_context(budget=100, **call)
    budget = caught.value.need["(instructions and tools)"]
    with pytest.raises(WindowTooSmallError, match=f"a window of {budget} tokens") as caught:
        await memory.assemble_context(budget=budget, **call)
    need = caught.value.need
    assert need["(instructions and tools)"] == budget
    assert need["messages"] > 0
    context = await memory.assemble_context(budget=sum(need.values()), **call)
    assert budget < context.used <= sum(need.values())
