"""`what_if` shows what other budgets and rankers would show, and changes nothing."""

import re
from functools import partial

import pytest

from kaosmem import (
    DEFAULT_SECTIONS,
    BM25Ranker,
    InvalidArgumentError,
    SessionMemory,
    WindowTooSmallError,
)
from kaosmem.assembly.context import Reason

QUERY = "Which guest of room 7 wants breakfast?"
BUDGETS = 120, 400, 2_000
SECTIONS = DEFAULT_SECTIONS.replace(findings={"budget": 400, "eviction": "lru"})


async def _fill(memory):
    """Fill a session: with evicted and replaced findings, a history, and documents."""
    memory.add("role", "You are a careful clerk of a hotel.")
    memory.add_many("documents", [f"Room {n} costs {n} euros a night." for n in range(80)])
    for n in range(60):
        memory.add("findings", f"The guest of room {n} wants breakfast.", key=f"wish-{n % 50}")
        memory.add("messages", f"What does the guest of room {n} want?")
        memory.add("messages", f"Breakfast, with a view to the sea {n}.", role="assistant")


def _uses(memory):
    return [list(section.held.entries()) for section in memory]


async def test_it_shows_what_the_session_would_show_and_changes_nothing(tmp_path):
    """Each context has the bytes of a session that was opened with that ranker and asked so."""
    async with SessionMemory.open(tmp_path, sections=SECTIONS, trace=True) as memory:
        await _fill(memory)
    async with SessionMemory.open(tmp_path, sections=SECTIONS, trace=True) as memory:
        memory.add("findings", "The guest of room 99 wants breakfast.")
        before = _uses(memory)
        found = await memory.what_if(QUERY, budgets=BUDGETS, rankers=[BM25Ranker()])
        assert _uses(memory) == before
        assert memory._session.trace.total == 0
        memory.remove(next(reversed(memory["findings"])).id)
        again = await memory.what_if(QUERY, budgets=BUDGETS, rankers=[BM25Ranker()])
    opened = partial(SessionMemory.open, tmp_path, sections=SECTIONS, read_only=True)
    async with opened() as memory:
        own = [await memory.assemble_context(QUERY, budget=size) for size in BUDGETS]
    async with opened(ranker=BM25Ranker()) as memory:
        bm25 = [await memory.assemble_context(QUERY, budget=size) for size in BUDGETS]
    assert [again.contexts[size, "own"].text for size in BUDGETS] == [each.text for each in own]
    assert [again.contexts[size, "bm25"].text for size in BUDGETS] == [each.text for each in bm25]
    assert any("room 99" in context.text for context in found.contexts.values())
    reasons = {decision.reason for context in own for decision in context.decisions}
    assert Reason.RECALLED in reasons


async def test_it_prints_the_differences():
    """The counts of a row are those of the difference."""
    memory = SessionMemory.test_mode(sections=SECTIONS)
    await _fill(memory)
    found = await memory.what_if(QUERY, budgets=[400, 120], rankers=[BM25Ranker(), BM25Ranker()])
    assert [*found.contexts] == [
        (size, name) for size in (120, 400) for name in ("own", "bm25", "bm25 (2)")
    ]
    assert found.difference(120) is None
    more = found.difference(400)
    assert all(item in found.contexts[400, "own"].items for item in more.items("in"))
    same = found.difference(400, "bm25 (2)")
    assert same == found.difference(400, "bm25")
    rows = [re.split(" {2,}", line.strip()) for line in str(found).splitlines()[2:8]]
    assert rows[0][:2] == ["120", "own"]
    assert rows[3][5] == str(more)
    assert repr(found) == str(found)


async def test_bad_arguments_are_refused_by_name():
    memory = SessionMemory.test_mode()
    memory.add("role", "You are a careful clerk of a hotel, who never forgets a guest.")
    bad = [
        {"budgets": []},
        {"budgets": 100},
        {"budgets": [-1]},
        {"budgets": [100], "rankers": ["bm25"]},
        {"budgets": [100], "rankers": BM25Ranker()},
    ]
    for arguments in bad:
        with pytest.raises(InvalidArgumentError, match=r"budget|ranker"):
            await memory.what_if("rooms", **arguments)
    with pytest.raises(WindowTooSmallError):
        await memory.what_if("rooms", budgets=[5, 500])
