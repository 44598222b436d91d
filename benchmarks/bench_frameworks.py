"""A loop of 200 model calls in each framework: alone, cut to the newest messages, and with kaosmem.

Half of the calls answer a question on a room, of which the agent read the page half as many
questions ago. Each row is one framework in its real package, with the same scripted model. `python
-m benchmarks.bench_frameworks` prints the table for the frameworks that are installed.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from kaosmem import get_counter
from tests.integrations.script import Agent, Seen, read_page
from tests.integrations.test_adapters import AGENTS

QUESTIONS = 100
BUDGET = 8_000
_COUNT = get_counter(None)


class Gain(NamedTuple):
    """What the requests of a loop cost and show.

    sent: tokens of all requests. cached: share of them that the request before begins with.
    evidence: share of questions whose page is in their request.
    """

    sent: int
    cached: float
    evidence: float

    def __str__(self) -> str:
        return f"{self.sent:,} | {self.cached:.2f} | {self.evidence:.2f}"


def gain(requests: Sequence[Sequence[Seen]]) -> Gain:
    """Return what requests cost and show: two for each question."""
    sizes = [sum(_COUNT(seen.text) for seen in request) for request in requests]
    cached = sum(map(_shared, pairwise(requests)))
    shown = 0
    for number in range(1, QUESTIONS + 1):
        fact = read_page(_asked(number)).partition(".")[0]
        shown += any(fact in seen.text for seen in requests[2 * number - 2])
    return Gain(sum(sizes), cached / sum(sizes), shown / QUESTIONS)


def _shared(pair: tuple[Sequence[Seen], Sequence[Seen]]) -> int:
    """Return the tokens of the leading messages that two requests have in common."""
    tokens = 0
    for earlier, later in zip(*pair, strict=False):
        if earlier != later:
            break
        tokens += _COUNT(later.text)
    return tokens


def _asked(number: int) -> int:
    return (number + 1) // 2


def newest(request: Sequence[Seen]) -> list[Seen]:
    """Return the instructions and the newest messages that fit the budget, calls with results."""
    kept: list[Seen] = []
    room = BUDGET - _COUNT(request[0].text)
    for seen in reversed(request[1:]):
        room -= _COUNT(seen.text)
        if room < 0:
            break
        kept.insert(0, seen)
    while kept and kept[0].answers:
        kept.pop(0)
    return [request[0], *kept]


def make(framework: str, root: Path, budget: int | None) -> Agent:
    """Return an agent of a framework."""
    module = import_module(f"tests.integrations.agents.{framework}")
    agent: Agent = getattr(module, AGENTS[framework])(root, budget=budget)
    return agent


async def run(agent: Agent) -> list[list[Seen]]:
    """Return the requests of an agent that answers all questions."""
    for number in range(1, QUESTIONS + 1):
        await agent.ask("talk", f"What is the code of room {_asked(number)}?")
    return agent.script.requests


def row(framework: str) -> tuple[Gain, Gain, Gain]:
    """Return the gains of a framework alone, cut to the newest messages, and with kaosmem."""
    with tempfile.TemporaryDirectory() as folder:
        alone = asyncio.run(run(make(framework, Path(folder), None)))
        kept = asyncio.run(run(make(framework, Path(folder), BUDGET)))
    return gain(alone), gain([newest(request) for request in alone]), gain(kept)


@pytest.mark.timed
@pytest.mark.parametrize("framework", ["langchain", "pydantic_ai"])
def test_the_gain(framework: str) -> None:
    """With kaosmem, a loop sends fewer tokens than alone, and shows more than its newest ones."""
    alone, cut, kept = row(framework)
    assert kept.sent < alone.sent / 2
    assert kept.cached > cut.cached + 0.2
    assert kept.evidence > cut.evidence + 0.2


if __name__ == "__main__":
    for name in AGENTS:
        try:
            print(f"| {name} |", " | ".join(map(str, row(name))), "|", flush=True)
        except ModuleNotFoundError as error:
            print(f"| {name} | {error} |", flush=True)
