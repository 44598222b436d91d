"""Appenders, compactors and those who clear, interleaved at every await: nothing is lost, nothing comes back."""

import asyncio
import random
import re
from collections import Counter
from itertools import count

import pytest

from kaosmem import ChatMessage, ConflictError
from kaosmem.compaction import SummarizationCompaction
from kaosmem.compaction.transcript import is_record
from kaosmem.context import AgentContext, ContextConfig, HistoryRetention
from kaosmem.stores import InMemoryHistoryProvider
from tests.gist import gist

RUNS = ("one", "two", "three")
CANARY = re.compile(r"canary-\d+")


def canaries(messages):
    return {canary for message in messages for canary in CANARY.findall(message.text)}


class World:
    """What happened: which canaries are in the history, by run, and which were cleared from it."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.kept = {}
        self.cleared = set()
        self.seen = Counter()
        self.numbers = count()

    async def pause(self):
        for _ in range(self.rng.choice([0, 0, 1, 2, 5])):
            await asyncio.sleep(0)

    def clear(self, runs):
        gone = {canary for canary, run in self.kept.items() if run in runs}
        self.kept = {canary: run for canary, run in self.kept.items() if canary not in gone}
        self.cleared |= gone
        self.seen["cleared"] += len(gone)


class SlowHistory(InMemoryHistoryProvider):
    """Takes its time before and after each thing that it does at once."""

    def __init__(self, world):
        super().__init__()
        self.world = world

    async def append_many(self, agent_id, messages, *, session_id, run_id=""):
        messages = list(messages)
        await self.world.pause()
        await super().append_many(agent_id, messages, session_id=session_id, run_id=run_id)
        if any(map(is_record, messages)):
            self.world.seen["recorded"] += 1
            if canaries(messages) & self.world.cleared:
                self.world.seen["recorded too late"] += 1
        else:
            self.world.kept |= dict.fromkeys(canaries(messages), run_id)
        await self.world.pause()

    async def get_messages(self, agent_id, *, session_id, limit=None, offset=0):
        await self.world.pause()
        read = await super().get_messages(
            agent_id, session_id=session_id, limit=limit, offset=offset
        )
        await self.world.pause()
        return read

    async def clear(self, agent_id, *, session_id):
        await self.world.pause()
        await super().clear(agent_id, session_id=session_id)
        self.world.clear(RUNS)
        await self.world.pause()

    async def clear_run(self, agent_id, *, session_id, run_id):
        await self.world.pause()
        await super().clear_run(agent_id, session_id=session_id, run_id=run_id)
        self.world.clear([run_id])
        self.world.seen["swept"] += run_id not in RUNS
        await self.world.pause()


class SlowModel:
    """Sums up in a few words, while others act."""

    def __init__(self, world):
        self.world = world

    async def chat(self, messages, *, tools=()):
        for _ in range(3):
            await self.world.pause()
        return ChatMessage("assistant", self.world.rng.choice(["So: ", "Well: "]) + gist(messages))


async def append(context, world, run):
    for _ in range(8):
        await world.pause()
        # Ids that come again, those of messages that were cleared among them.
        name = world.rng.choice(["", f"m{world.rng.randrange(6)}"])
        new = [ChatMessage("user", f"canary-{next(world.numbers)} " + "word " * 30, id=name)]
        new += [ChatMessage("assistant", f"canary-{next(world.numbers)} " + "word " * 30)]
        await context.append(new, "s", run)


async def look(context, world):
    for _ in range(5):
        await world.pause()
        gone = set(world.cleared)
        try:
            window = await context.get_prompt_window("s", budget=world.rng.choice([None, 10_000]))
        except ConflictError:
            world.seen["conflict"] += 1
        else:
            assert not canaries(window) & gone, (
                "a window shows what was cleared before it was asked for"
            )


async def clear(context, world):
    for _ in range(3):
        for _ in range(world.rng.randrange(20)):
            await world.pause()
        if world.rng.random() < 0.3:
            await context.clear("s")
        else:
            await context.end_run("s", world.rng.choice(RUNS))


async def schedule(seed):
    """Run one schedule, check what is left of it and return what happened."""
    world = World(seed)
    history = SlowHistory(world)
    strategy = SummarizationCompaction(SlowModel(world), 150, 150, max_summary_tokens=2_000)
    config = ContextConfig(history, strategy, retention=HistoryRetention.RUN)
    one, other = (AgentContext(config, "agent", rng=world.rng) for _ in range(2))
    actors = [append(one, world, run) for run in RUNS] + [
        look(one, world),
        look(other, world),
        clear(other, world),
    ]
    world.rng.shuffle(actors)
    await asyncio.gather(*actors)

    window = await one.get_prompt_window("s")
    originals = [each for message in window for each in await one.expand("s", message.id)]
    found = Counter(canary for message in originals for canary in CANARY.findall(message.text))
    assert found == Counter([*world.kept]), "a message was lost, or is there twice"
    assert canaries(window) <= {*world.kept}, "a window shows what was cleared"
    stored = await history.get_messages("agent", session_id="s")
    assert canaries(stored) == {*world.kept}, "something of what was cleared is still stored"
    assert await other.get_prompt_window("s") == window
    return world.seen


def run_schedules(seeds):
    seen = Counter()
    for seed in seeds:
        seen += asyncio.run(schedule(seed))
    return seen


def test_nothing_is_lost_and_nothing_comes_back():
    """Whoever acts while a model thinks, between a look and a record, or after it; and all of that happens."""
    seen = run_schedules(range(24))
    assert {"recorded", "recorded too late", "cleared", "swept"} <= {*seen}, seen


@pytest.mark.soak
def test_nothing_is_lost_in_many_schedules():
    seen = run_schedules(range(60, 10_000))
    assert {"recorded", "recorded too late", "cleared", "swept", "conflict"} <= {*seen}, seen
