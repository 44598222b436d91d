"""Windows that only grow: every request of an epoch is the one before, and what one turn appends."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.windows import World


@pytest.fixture
def world() -> Iterator[World]:
    with asyncio.Runner() as runner:
        world = World(runner)
        yield world
        world.close()


def turns(world: World, number: int, **options: object) -> None:
    for _ in range(number):
        world.say()
        world.call(**options)  # type: ignore[arg-type]


def test_a_window_grows_until_it_is_full(world: World) -> None:
    """Each request begins with the one before; a full window is packed anew, and its thinking is left out."""
    world.add("role", "Be brief.")
    for _ in range(30):
        world.add("documents")
    turns(world, 40)
    assert world.rebased[0] == "new"
    assert set(world.rebased[1:]) == {"", "full"}
    assert world.rebased.count("full") < 12
    assert world.bound > 60


def test_a_window_goes_on_in_another_process(world: World) -> None:
    """The next request after reopening has the same bytes before it, and its thinking is still valid."""
    for _ in range(10):
        world.add("documents")
    for _ in range(6):
        world.say()
        world.call()
        world.reopen()
    assert world.rebased == ["new", *[""] * 5]
    assert world.bound == 15


def test_a_loop_of_tools_appends_no_block(world: World) -> None:
    """Within one user turn only replies and results are appended, with their thinking."""
    for _ in range(30):
        world.add("documents")
    world.say()
    world.call(budget=4_000)
    world.say("And the fee of house 3?")
    first = world.call(budget=4_000, reply="tool")
    assert first is not None
    assert "<context>" in str(first.messages[-1])
    for _ in range(5):
        world.answer()
        context = world.call(budget=4_000, reply="tool")
        assert context is not None
        assert "<context>" not in str(context.messages[len(first.messages) :])
    world.answer()
    world.call(budget=4_000)
    assert world.rebased == ["new", *[""] * 7]
    assert world.bound == sum(range(8))


@pytest.mark.parametrize("section", ["documents", "findings", "messages"])
@pytest.mark.parametrize("change", ["update", "remove", "forget"])
@pytest.mark.parametrize("reopens", [False, True])
def test_what_is_no_longer_true_ends_an_epoch(world: World, section: str, change: str, reopens: bool) -> None:
    """A window that shows an updated, removed or forgotten item is packed anew, in another process too."""
    item_id = world.add(section, role="user" if section == "messages" else None)
    world.add("messages", role="user")
    world.call()
    world.say()
    world.call()
    getattr(world, change)(item_id)
    if reopens:
        world.reopen()
    world.say()
    world.call()
    turns(world, 2)
    assert world.rebased == ["new", "", "forgotten" if change == "forget" else "changed", "", ""]


def test_a_replaced_fact_is_corrected_at_the_end(world: World) -> None:
    """The new version of a visible fact is appended, marked as newer, whatever the question."""
    world.add("findings", key="fee")
    turns(world, 2)
    new = world.add("findings", "Something else entirely.", key="fee")
    world.say("Good morning.")
    context = world.call()
    assert context is not None
    assert context.rebased is None
    assert f"[*, newer] {world.texts[new]}" in str(context.messages[-1])
    turns(world, 1)
    assert world.rebased == ["new", "", "", ""]


def test_two_windows_of_one_session(world: World) -> None:
    """Thinking of a reply to one window is left out of the other, and stays valid in its own."""
    for _ in range(5):
        for window in ("main", "side"):
            world.say()
            world.call(window, budget=3_000)
    assert world.rebased.count("new") == 2
    assert world.rebased.count("") == 8
    assert world.bound == 2 * sum(range(5))


@pytest.mark.parametrize("continues", [False, True])
@pytest.mark.parametrize("replies", [False, True])
def test_two_writers_of_one_window(world: World, continues: bool, replies: bool) -> None:
    """If two writers go on from one request, the window is packed anew, and no message is lost."""
    turns(world, 2)
    world.save()
    mine = world.say()
    if continues:
        world.call()
    elif replies:
        world.memory.add_message({"role": "assistant", "content": world.second_reply()}, format="anthropic")
    with world.forked():
        others = world.say()
        world.call()
    assert {mine, others} <= {item.id for item in world.memory["messages"]}
    turns(world, 2)
    assert world.rebased[-2:] == (["writers", ""] if continues or replies else ["", ""])


def test_another_worker_continues_a_window(world: World) -> None:
    """A handle that is still open takes in the turns of another one, and goes on from them."""
    turns(world, 2)
    world.save()
    with world.forked():
        turns(world, 2)
    turns(world, 1)
    assert world.rebased == ["new", "", "", "", ""]


def test_a_request_that_appends_nothing_is_a_request(world: World) -> None:
    """Thinking of a reply to it is left out of another window."""
    world.say()
    world.call("side", reply="none")
    world.call("main", reply="none")
    world.call("side")
    world.call("main")
    assert world.rebased == ["new", "new", "", ""]
    assert world.bound == 0
