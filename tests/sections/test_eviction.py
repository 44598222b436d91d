"""Eviction: each policy's exact order, and a queue that agrees with sorting everything."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kaosmem import (
    InvalidArgumentError,
    Reason,
    SectionFullError,
    SectionSpec,
    SessionMemory,
    ToolResultBlock,
    ToolUseBlock,
)
from kaosmem.sections.eviction import POLICIES, EvictionQueue, EvictionStats, combined_stats

UNIT = EvictionStats(first=0, last=0, items=1, tokens=1, priority=0, uses=0, last_use=0, pinned=0)
EVICTING = [name for name, policy in POLICIES.items() if policy.key]


def units(**columns):
    """Return units in stored order with these values."""
    rows = zip(*columns.values(), strict=True)
    return [
        replace(UNIT, **({"first": place, "last": place} | dict(zip(columns, row, strict=True))))
        for place, row in enumerate(rows)
    ]


class Queue:
    """An eviction queue over units in a dict."""

    def __init__(self, policy, held):
        self._held = held
        self._queue = EvictionQueue(POLICIES[policy], held.get)
        self.push = self._queue.push

    def choose_victims(self, newcomer, **asked):
        return self._queue.choose_victims(newcomer, **asked, firsts=[*self._held])


@pytest.mark.parametrize(
    ("policy", "held", "order"),
    [
        ("fifo", units(last=[9, 1, 2]), [0, 1, 2]),
        ("lifo", units(last=[9, 1, 2]), [0, 2, 1]),
        ("lru", units(last_use=[5, 3, 3, 4]), [1, 2, 3, 0]),
        ("lfu", units(uses=[1, 0, 1, 0], last_use=[2, 9, 1, 3]), [3, 1, 2, 0]),
        ("priority", units(priority=[1, 0, -1, 0]), [2, 1, 3, 0]),
    ],
)
def test_each_policy_evicts_in_its_own_order(policy, held, order):
    """fifo by the first item, lifo by the last, lru and lfu by use, priority by priority; then the oldest."""
    known = {unit.first: unit for unit in held}
    newcomer = replace(UNIT, first=99, priority=99)
    victims = Queue(policy, known).choose_victims(newcomer, own=(), tokens=0, items=len(held))
    assert victims == order


def test_calls_that_wait_for_their_results_stay():
    """Until another message speaks: then they are abandoned, and leave in their turn."""
    spec = SectionSpec("messages", placement="history", eviction="fifo", max_items=2)
    memory = SessionMemory.test_mode(sections=(spec,), counter="estimate")
    call = memory.add("messages", [ToolUseBlock("c1", "look_up")], role="assistant")
    for number in range(3):
        memory.add("messages", f"note {number}", role="system")
        assert call.id in memory["messages"]
    memory.add("messages", "Go on.", role="user")
    assert call.id not in memory["messages"]


def test_a_units_standing_combines_those_of_its_items():
    """Priority and use are the highest, age the span, all else the sum."""
    older = EvictionStats(
        first=3, last=5, items=2, tokens=7, priority=0, uses=2, last_use=8, pinned=0
    )
    newer = EvictionStats(
        first=4, last=9, items=1, tokens=2, priority=4, uses=1, last_use=6, pinned=1
    )
    assert combined_stats([newer, older]) == EvictionStats(3, 9, 3, 9, 4, 3, 8, 1)


STANDINGS = st.builds(
    EvictionStats,
    first=st.just(0),
    last=st.just(0),
    items=st.integers(1, 3),
    tokens=st.integers(0, 5),
    priority=st.integers(0, 2),
    uses=st.integers(0, 2),
    last_use=st.integers(0, 2),
    pinned=st.just(0),
)
CHANGES = st.lists(
    st.tuples(st.sampled_from(["put", "drop", "hide", "choose"]), st.integers(0, 7), STANDINGS),
    max_size=120,
)


@given(st.sampled_from(EVICTING), CHANGES)
@settings(max_examples=2 * settings().max_examples)
def test_the_queue_chooses_what_sorting_all_units_would(policy, changes):
    """Lazy deletion never shows: after any changes the victims are the first in the policy's order."""
    known = {}
    queue = Queue(policy, known)
    for change, first, given_standing in changes:
        unit = replace(given_standing, first=first, last=first + given_standing.items)
        if change == "put":
            known[first] = unit
            queue.push(first)
        elif change in ("drop", "hide"):
            known.pop(first, None)
            queue.push(first)
        else:
            newcomer = replace(unit, priority=unit.priority + 1)
            own = {first}
            chosen = queue.choose_victims(newcomer, own=own, tokens=unit.tokens, items=unit.items)
            assert chosen == by_sorting(policy, known, newcomer, own, unit.tokens, unit.items)
            for victim in chosen or ():
                del known[victim]


def by_sorting(
    policy,
    known,
    newcomer,
    own,
    tokens,
    items,
):
    chosen = []
    for unit in sorted(known.values(), key=POLICIES[policy].order):
        if tokens <= 0 and items <= 0:
            break
        if unit.first in own:
            continue
        if POLICIES[policy].spares(unit, newcomer):
            return None
        chosen.append(unit.first)
        tokens -= unit.tokens
        items -= unit.items
    return chosen if tokens <= 0 and items <= 0 else None


@pytest.mark.parametrize("priorities", [[5, 5, 5], [1, 1, 2]])
async def test_an_outranked_newcomer_is_archived(priorities):
    """Under `priority` an item below all others goes to the archive at once, and `refuse` is what raises."""
    sections = (
        SectionSpec("findings", max_items=3, eviction="priority"),
        SectionSpec("few", 1, eviction="refuse"),
    )
    memory = SessionMemory.test_mode(sections=sections)
    kept = [
        memory.add("findings", f"important {number}", priority=rank)
        for number, rank in enumerate(priorities)
    ]
    low = memory.add("findings", "an aside on harbours")
    assert low.id not in memory
    assert list(memory["findings"]) == kept
    assert await memory.fetch(low.id) == low
    raised = memory.update(kept[0].id, "important still")  # takes no more room than it has
    assert raised.id in memory
    with pytest.raises(SectionFullError):
        memory.add("findings", "pinned", pinned=True)
    memory.add("few", "a")
    with pytest.raises(SectionFullError):
        memory.add("few", "b")
    await memory.save()
    async with SessionMemory.open(memory.admin.fs, "test", sections=sections) as again:
        assert [item.id for item in again["findings"]] == [item.id for item in kept]
        assert (await again.fetch(low.id)).text == low.text
        context = await again.assemble_context("harbours", budget=200)
        assert context.decision(low.id).reason in (Reason.RECALLED, Reason.ARCHIVED, Reason.NO_ROOM)


def test_a_part_of_a_unit_is_never_evicted():
    """A record that would part a call from its result is refused, and nothing changes."""
    memory = SessionMemory.test_mode(sections=(SectionSpec("messages", placement="history"),))
    memory.add("messages", [ToolUseBlock("c1", "look_up")], role="assistant")
    memory.add("messages", [ToolResultBlock("c1", "4711")], role="tool")
    held = memory["messages"].held
    with pytest.raises(InvalidArgumentError, match="whole units"):
        held.evict([*held][:1], {})
    assert len(held) == 2


def test_an_update_that_outgrows_its_rank_is_archived():
    """A live item whose new text finds no room among higher ones leaves; both texts stay in the archive."""
    memory = SessionMemory.test_mode(
        sections=(SectionSpec("findings", 10, eviction="priority"),), counter=len
    )
    high = memory.add("findings", "a" * 6, priority=5)
    low = memory.add("findings", "b" * 3)
    memory.update(low.id, "c" * 7)
    assert list(memory["findings"]) == [high]
    assert [version.item.text for version in memory["findings"].archive.in_memory()] == [
        "bbb",
        "c" * 7,
    ]
