"""Windows in the situations in which they have failed: every request is checked as a provider checks it."""

import asyncio

import pytest

from tests.assembly.windows import World


def long_conversation(world):
    """Many turns, until the window is full twice."""
    world.add("role", "Be brief.")
    for _ in range(10):
        world.add("documents")
    for _ in range(24):
        world.say()
        world.call()
    assert "full" in world.rebased
    assert world.bound > 10


def changing_facts(world):
    """Visible items are updated, removed, forgotten and superseded."""
    for change in ("update", "remove", "forget"):
        item_id = world.add("documents")
        world.add("findings", key="fee")
        for _ in range(2):
            world.say()
            world.call()
        getattr(world, change)(item_id)
        world.say()
        world.call()
        world.add("findings", key="fee")
        world.say()
        world.call(block=0)


def facts_that_are_replaced_before_a_call(world):
    """A visible fact is updated and replaced, or its successor leaves before anybody has asked."""
    for before in ("", "update"):
        for after in ("", "remove", "forget", "expire"):
            world.add("findings", key=f"fee {before} {after}")
            world.say()
            world.call(budget=2_000)
            world.replace(world.facts[-1], before=before, after=after)
            for question in ("Good morning.", ""):
                world.say(question)
                world.call(budget=2_000)
            last = ["changed" if before or after else "", ""]
            assert world.rebased[-2:] == last, (before, after)


def loops_of_tools(world):
    """Ids of calls come again, a result comes late, and nothing visible is repeated."""
    world.add("documents")
    world.say()
    world.call(budget=3_000)
    world.say()
    for _ in range(7):
        world.call(budget=3_000, reply="tool")
        world.answer()
    assert sum(str(each).count("<context>") for each in world.sent["main"][-1].messages) == 1
    context = world.call(budget=3_000, reply="tool")
    assert context is not None
    assert world.rebased == ["new", *[""] * 8]
    world.call(budget=3_000, reply="none")
    world.answer("late")
    context = world.call(budget=3_000)
    assert "late" in str(context.messages)


def several_windows(world):
    """Two windows, of which one changes its budget, and two writers."""
    for window in ("main", "side", "main", "side", "main"):
        world.say()
        world.call(window, budget=2_000 if window == "side" else 900)
    world.call("side", budget=2_000)
    world.call("main", reply="tool")
    world.call("side", budget=1_500)
    world.answer()
    world.call("main")
    world.save()
    world.say()
    world.call("main")
    with world.forked():
        world.say()
        world.call("main")
    world.say()
    world.call("main")
    world.call("main", budget=1_000)
    assert "writers" in world.rebased
    assert world.rebased.count("budget") == 2


def marked_by_the_caller(world):
    """A caller puts cache markers into its copy of the messages."""
    for _ in range(4):
        world.say()
        context = world.call(reply="none")
        world.sent["main"][-1].messages = [dict(message) for message in context.messages]
        for place in context.cache_breakpoints:
            context.messages[place]["cache_control"] = {"type": "ephemeral"}


def notes_of_one_process(world):
    """Visible items are of a section that is not kept on disk, and another process goes on."""
    world.add("working")
    for _ in range(2):
        world.say()
        world.call()
    world.reopen()
    world.say()
    world.call()
    assert world.rebased == ["new", "", "unstored"]


SCENARIOS = [
    long_conversation,
    changing_facts,
    facts_that_are_replaced_before_a_call,
    loops_of_tools,
    several_windows,
    marked_by_the_caller,
    notes_of_one_process,
]


def played(scenario):
    with asyncio.Runner() as runner:
        world = World(runner)
        try:
            scenario(world)
        finally:
            world.close()


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_every_request_is_sound(scenario):
    """No request breaks a rule of a provider, forgets its beginning or shows what is gone."""
    played(scenario)
