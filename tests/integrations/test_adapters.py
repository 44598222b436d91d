"""Each adapter keeps the promises of kaosmem in the real package of its framework."""

import asyncio
import subprocess
import sys
import tomllib
from contextlib import asynccontextmanager
from importlib import import_module
from itertools import pairwise
from pathlib import Path

import pytest

from kaosmem.formats import count_messages
from kaosmem.integrations.conversations import Conversations

# Frameworks warn of the packages that they need, and of their own types.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")

PROJECT = Path(__file__).parents[2] / "pyproject.toml"
BUDGET = 2_500
LONG_PROMPTS = {"smolagents": 2_000}
"""Tokens of the instructions that a framework adds."""
AGENTS = {
    "openai_agents": "OpenAIAgentsAgent",
    "google_adk": "GoogleADKAgent",
    "strands": "StrandsAgent",
    "llama_index": "LlamaIndexAgent",
    "smolagents": "SmolagentsAgent",
    "haystack": "HaystackAgent",
    "crewai": "CrewAIAgent",
    "litellm": "LiteLLMAgent",
    "langchain": "LangChainAgent",
    "pydantic_ai": "PydanticAIAgent",
    "agent_framework": "AgentFrameworkAgent",
}
if sys.version_info >= (3, 12):
    AGENTS["openhands"] = "OpenHandsAgent"

IN_EXTRA_TEST = ("agent_framework", "langchain", "openai_agents", "pydantic_ai")
"""Frameworks that the extra `test` installs. Those of the others run with `-m frameworks`."""


def chosen(name):
    marks = [] if name in IN_EXTRA_TEST else [pytest.mark.frameworks]
    return pytest.param(name, marks=marks)


@pytest.fixture(params=map(chosen, AGENTS))
def framework(request):
    return request.param


@pytest.fixture
def make(framework):
    try:
        module = import_module(f"tests.integrations.agents.{framework}")
    except ImportError as error:
        if framework in IN_EXTRA_TEST:
            raise
        pytest.skip(f"{error}; install the extra '{framework.replace('_', '-')}'")
    return getattr(module, AGENTS[framework])


@pytest.fixture
def budget(framework):
    return BUDGET + LONG_PROMPTS.get(framework, 0)


def tokens(request):
    """Return about the tokens of a request: those of its texts."""
    return count_messages([{"role": "user", "content": seen.text} for seen in request], "openai")


def rebases(requests):
    """Return how often a request does not begin with the one before it."""
    pairs = pairwise(requests)
    return sum(later[: len(earlier)] != earlier for earlier, later in pairs)


IMPORT_ALONE = """
import sys
for package in ("agents", "agent_framework", "anthropic", "crewai", "google.adk", "haystack",
                "langchain", "litellm", "llama_index", "mcp", "openhands", "pydantic_ai",
                "smolagents", "strands"):
    sys.modules[package] = None
from importlib import import_module
for adapter in sys.argv[1:]:
    try:
        import_module(f"kaosmem.integrations.{adapter}")
    except Exception as error:
        print(type(error).__name__, str(error).rpartition("pip install ")[2])
"""


def test_an_adapter_without_its_framework_names_its_extra():
    """The package of a framework often has another name than its import: `agents` is not the one."""
    adapters = [*AGENTS, "openhands", "anthropic_memory", "mcp"]
    extras = {"anthropic_memory": "anthropic"}
    command = [sys.executable, "-W", "ignore", "-c", IMPORT_ALONE, *adapters]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    named = [extras.get(adapter, adapter).replace("_", "-") for adapter in adapters]
    expected = [f"MissingExtraError 'kaosmem[{extra}]'" for extra in named]
    assert done.stdout.splitlines() == expected
    known = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert known.keys() >= {*named}


async def test_requests_grow_within_the_budget(make, budget, tmp_path):
    """Each request begins with the one before, but for few; each is in the budget and whole."""
    agent = make(tmp_path, budget=budget)
    for number in range(1, 21):
        await agent.ask("talk", f"What is the code of room {number}?")
    requests = agent.script.requests
    assert len(requests) == 40
    assert 1 <= rebases(requests) <= 6
    for number, request in enumerate(requests):
        assert tokens(request) <= budget
        calls = [call for seen in request for call in seen.calls]
        answers = [call for seen in request for call in seen.answers]
        assert calls == answers
        if number % 2:
            assert answers[-1] == f"call_{number}"
        else:
            assert f"room {number // 2 + 1}?" in request[-1].text


async def test_three_agents_do_not_mix(make, budget, tmp_path):
    """Agents of one process, with conversations of the same name, see their own messages alone."""
    names = ("agent-1", "agent-2", "agent-3")
    agents = [make(tmp_path, budget=budget, name=name) for name in names]
    for number in range(3):
        asked = [
            agent.ask("talk", f"Question {number} of {name}?")
            for agent, name in zip(agents, names, strict=True)
        ]
        await asyncio.gather(*asked)
    for agent, name in zip(agents, names, strict=True):
        said = "".join(seen.text for seen in agent.script.requests[-1])
        assert [name in said for name in names] == [name == each for each in names]
        assert said.count("Question") == 3
        assert rebases(agent.script.requests) == 0


async def test_an_agent_goes_on_in_another_process(make, budget, tmp_path):
    """A new agent without the framework's history continues the window of the last one."""
    first = make(tmp_path, budget=budget)
    await first.ask("talk", "Who owns the deal?")
    second = make(tmp_path, budget=budget)
    await second.ask("talk", "Since when?")
    last, request = first.script.requests[-1], second.script.requests[0]
    assert request[: len(last)] == last
    *kept, question = (seen.text for seen in request[len(last) :])
    assert len(kept) == 1
    assert "Answer 2." in kept[0]
    assert "Since when?" in question


async def test_a_question_is_asked_again(make, budget, tmp_path):
    """The request of another agent has the question twice, and the answer between them."""
    first = make(tmp_path, budget=budget)
    second = make(tmp_path, budget=budget)
    for agent in (first, second):
        await agent.ask("talk", "Who owns the deal?")
    last = [seen.text for seen in second.script.requests[-1]]
    asked = [place for place, text in enumerate(last) if "Who owns the deal?" in text]
    assert len(asked) == 2
    assert any("Answer 2." in text for text in last[asked[0] : asked[1]])


async def test_static_sections_come_before_the_question(make, budget, monkeypatch, tmp_path):
    """Each request has what the session holds in static sections once, before the question."""
    turn = Conversations.turn

    @asynccontextmanager
    async def with_a_playbook(self, conversation):
        async with turn(self, conversation) as memory:
            if not memory["playbooks"]:
                memory.add("playbooks", "Answer in one word.")
            yield memory

    monkeypatch.setattr(Conversations, "turn", with_a_playbook)
    agent = make(tmp_path, budget=budget)
    await agent.ask("talk", "Who owns the deal?")
    for request in agent.script.requests:
        said = "".join(seen.text for seen in request)
        assert said.count("Answer in one word.") == 1
        assert said.index("Answer in one word.") < said.index("Who owns the deal?")
