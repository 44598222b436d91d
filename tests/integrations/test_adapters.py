"""Each adapter keeps the promises of kaosmem in the real package of its framework."""

from __future__ import annotations

import asyncio
from importlib import import_module
from itertools import pairwise
from pathlib import Path

import pytest

from kaosmem.formats import count_messages
from tests.integrations.script import MakeAgent, Seen

BUDGET = 2_500
AGENTS = {
    "langchain": "LangChainAgent",
    "pydantic_ai": "PydanticAIAgent",
    "agent_framework": "AgentFrameworkAgent",
}


@pytest.fixture(params=AGENTS)
def make(request: pytest.FixtureRequest) -> MakeAgent:
    module = import_module(f"tests.integrations.agents.{request.param}")
    made: MakeAgent = getattr(module, AGENTS[request.param])
    return made


def tokens(request: list[Seen]) -> int:
    """Return about the tokens of a request: those of its texts."""
    return count_messages([{"role": "user", "content": seen.text} for seen in request], "openai")


def rebases(requests: list[list[Seen]]) -> int:
    """Return how often a request does not begin with the one before it."""
    pairs = pairwise(requests)
    return sum(later[: len(earlier)] != earlier for earlier, later in pairs)


async def test_requests_grow_within_the_budget(make: MakeAgent, tmp_path: Path) -> None:
    """Each request begins with the one before, but for few; each is in the budget and whole."""
    agent = make(tmp_path, budget=BUDGET)
    for number in range(1, 21):
        await agent.ask("talk", f"What is the code of room {number}?")
    requests = agent.script.requests
    assert len(requests) == 40
    assert 1 <= rebases(requests) <= 6
    for number, request in enumerate(requests):
        assert tokens(request) <= BUDGET
        calls = [call for seen in request for call in seen.calls]
        answers = [call for seen in request for call in seen.answers]
        assert calls == answers
        if number % 2:
            assert answers[-1] == f"call_{number}"
        else:
            assert f"room {number // 2 + 1}?" in request[-1].text


async def test_three_agents_do_not_mix(make: MakeAgent, tmp_path: Path) -> None:
    """Agents of one process, with conversations of the same name, see their own messages alone."""
    names = ("one", "two", "three")
    agents = [make(tmp_path, budget=BUDGET, name=name) for name in names]
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


async def test_an_agent_goes_on_in_another_process(make: MakeAgent, tmp_path: Path) -> None:
    """A new agent without the framework's history continues the window of the last one."""
    first = make(tmp_path, budget=BUDGET)
    await first.ask("talk", "Who owns the deal?")
    second = make(tmp_path, budget=BUDGET)
    await second.ask("talk", "Since when?")
    last, request = first.script.requests[-1], second.script.requests[0]
    assert request[: len(last)] == last
    assert [seen.text for seen in request[len(last) :]] == ["Answer 2.", "Since when?"]
