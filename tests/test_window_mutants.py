"""Named faults of windows: the checks of requests catch each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from kaosmem.assembly import growth, windows
from kaosmem.formats.anthropic import AnthropicFormat
from kaosmem.formats.identifiers import CallIds
from kaosmem.session import windows as session_windows
from tests.windows import World

Patch = pytest.MonkeyPatch


def keep_all_thinking(patch: Patch) -> None:
    """A rebase keeps the thinking from before it."""
    patch.setattr(session_windows, "without_thinking", lambda specs, proposals, **_: proposals)


def keep_the_thinking_of_other_windows(patch: Patch) -> None:
    """Each reply counts as one to the window's last request."""
    patch.setattr(growth, "bound", lambda units, foreign: list(units))


def notice_no_other_window(patch: Patch) -> None:
    """A turn of another window is not noted."""
    patch.setattr(windows.Window, "beside", lambda self, turn: self)


def append_beyond_the_budget(patch: Patch) -> None:
    """A turn is appended whether it fits or not."""
    patch.setattr(growth.Growth, "fits", property(lambda self: True))


def count_the_reply_twice(patch: Patch) -> None:
    """The tokens that prime the reply are counted in each turn."""
    appended = growth.Growth._appended.fget
    patch.setattr(growth.Growth, "_appended", property(lambda self: appended(self) + 3))


def forget_the_base(patch: Patch) -> None:
    """A request consists of the last turn alone."""
    after = windows.Window.after
    patch.setattr(
        windows.Window, "after", lambda self, turn: replace(after(self, turn), messages=tuple(turn["messages"]))
    )


def hand_out_the_state(patch: Patch) -> None:
    """The caller's markers end up in the window."""
    kept: dict[str, object] = {}
    patch.setattr(windows.json, "loads", lambda text: kept.setdefault(text, {"role": "user", "content": text}))


def overlook_updates(patch: Patch) -> None:
    """An updated item stays visible as it was."""
    patch.setattr(session_windows, "_is_updated", lambda *_: False)


def overlook_changes(patch: Patch) -> None:
    """A removed item stays visible."""
    patch.setattr(session_windows, "_is_changed", lambda *_: False)


def overlook_forgetting(patch: Patch) -> None:
    """A forgotten item stays visible."""
    patch.setattr(session_windows.Windows, "forget", lambda *_: None)


def keep_old_facts(patch: Patch) -> None:
    """A superseded fact is not corrected."""
    patch.setattr(session_windows, "_corrections", lambda *_: [])


def ignore_other_settings(patch: Patch) -> None:
    """A window goes on under another budget and other static sections."""
    patch.setattr(growth.Request, "settings", property(lambda self: {}))


def number_calls_anew(patch: Patch) -> None:
    """An id of a call that the request has already is given again."""
    init = CallIds.__init__
    patch.setattr(CallIds, "__init__", lambda self, taken=(): init(self))


def overlook_late_results(patch: Patch) -> None:
    """A result that comes after its call was shown without one is left out, and other messages with it."""
    patch.setattr(
        session_windows,
        "gained",
        lambda window, request: {
            spec.name: [
                unit
                for unit in sorted(request.proposals[spec.name].candidates, key=lambda unit: unit.position)
                if not unit.orphan and any(item.id not in window.shown for item in unit.items)
            ]
            for spec in request.histories
        },
    )


def mix_two_writers(patch: Patch) -> None:
    """After a conflict, the window goes on as this writer had it."""

    def follow(self: session_windows.Windows, ours: list[dict[str, object]], *_: object, **__: object) -> None:
        self.journal = [dict(turn) for turn in ours]  # type: ignore[arg-type]

    patch.setattr(session_windows.Windows, "follow", follow)


def record_no_items(patch: Patch) -> None:
    """A record does not say which items became visible."""
    patch.setattr(growth, "_visible", lambda items, request: {})


def keep_all_texts(patch: Patch) -> None:
    """A record holds items of a section that is not kept on disk."""
    take = session_windows.Windows._take
    patch.setattr(session_windows.Windows, "_take", lambda self, turn, specs=(): take(self, turn))


def open_with_the_user(patch: Patch) -> None:
    """A turn that begins with the assistant gets an opening, and its ids are those of a new request."""
    render = AnthropicFormat.render
    patch.setattr(AnthropicFormat, "render", lambda self, layout, after=(): render(self, layout))


MUTANTS = [
    keep_all_thinking,
    keep_the_thinking_of_other_windows,
    notice_no_other_window,
    append_beyond_the_budget,
    count_the_reply_twice,
    forget_the_base,
    hand_out_the_state,
    overlook_updates,
    overlook_changes,
    overlook_forgetting,
    keep_old_facts,
    ignore_other_settings,
    number_calls_anew,
    overlook_late_results,
    mix_two_writers,
    record_no_items,
    keep_all_texts,
    open_with_the_user,
]


def long_conversation(world: World) -> None:
    """Many turns, until the window is full twice."""
    world.add("role", "Be brief.")
    for _ in range(10):
        world.add("documents")
    for _ in range(16):
        world.say()
        world.call()
    assert "full" in world.rebased
    assert world.bound > 10


def changing_facts(world: World) -> None:
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


def loops_of_tools(world: World) -> None:
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
    assert context is not None
    assert "late" in str(context.messages)


def several_windows(world: World) -> None:
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


def marked_by_the_caller(world: World) -> None:
    """A caller puts cache markers into its copy of the messages."""
    for _ in range(4):
        world.say()
        context = world.call(reply="none")
        assert context is not None
        world.sent["main"][-1].messages = [dict(message) for message in context.messages]
        for place in context.cache_breakpoints:
            context.messages[place]["cache_control"] = {"type": "ephemeral"}


def notes_of_one_process(world: World) -> None:
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
    loops_of_tools,
    several_windows,
    marked_by_the_caller,
    notes_of_one_process,
]


def played(scenario: Callable[[World], None]) -> None:
    with asyncio.Runner() as runner:
        world = World(runner)
        try:
            scenario(world)
        finally:
            world.close()


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_windows_as_they_are_pass(scenario: Callable[[World], None]) -> None:
    """Without a fault, each scenario passes."""
    played(scenario)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_each_fault_is_caught(mutant: Callable[[Patch], None], monkeypatch: Patch) -> None:
    """At least one scenario fails with the fault."""
    mutant(monkeypatch)
    failures = 0
    for scenario in SCENARIOS:
        try:
            played(scenario)
        except Exception:  # whatever a fault leads to
            failures += 1
            break
    assert failures


def test_the_mutants_are_many_and_named() -> None:
    """There are at least twelve, and each says its fault."""
    assert len({mutant.__doc__ for mutant in MUTANTS if mutant.__doc__}) >= 12
