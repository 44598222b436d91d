"""Texts that tokenizers choke on, counters that lie, budgets that are none, filters that are programs."""

from __future__ import annotations

from typing import Any

import pytest

from kaosmem import InvalidArgumentError, SectionSpec, SessionMemory
from kaosmem.sections import check_specs
from tests.bad_inputs.stored import COUNTER

LONG = {
    "BI-112 blanks": " " * 1_000_000,
    "BI-112 line ends": "\n" * 300_000,
    "BI-114 carets": "^" * 1_000_000,
    "BI-114 joined emoji": "👨‍👩‍👧‍👦" * 20_000,
    "BI-114 base64": "QUJDREVGR0g0MTIzNDU2Nzg5" * 40_000,
}


@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
@pytest.mark.parametrize("counter", [None, "estimate"])
def test_a_text_of_one_run_is_counted(text: str, counter: str | None) -> None:
    """A million of one character is counted, and never at more than its bytes."""
    memory = SessionMemory.test_mode(counter=counter)
    assert 0 < memory.counter(text) <= len(text.encode())


@pytest.mark.parametrize(
    "filter", [{"text": {"$regex": "(a+)+$"}}, {"$where": "1"}, "(a+)+$", {"a": {"$match": "(a+)+$"}}]
)
def test_bi_115_there_are_no_patterns_in_filters(filter: Any) -> None:
    """A filter compares; a regular expression in it is refused or compared as text."""
    memory = SessionMemory.test_mode(counter=COUNTER)
    memory.add("documents", "a" * 40 + "!", metadata={"text": "a" * 40 + "!"})
    with pytest.raises(InvalidArgumentError):
        memory.search("a", filter=filter)


@pytest.mark.parametrize(
    "filter",
    [
        {"$where": "sleep(9)"},
        {"score": {">": "0 OR 1=1"}},
        {"$or": {"a": 1}},
        "$.x == 99 || 1 == 1",
        {"a": {"$gt": None}},
    ],
    ids=["BI-101", "BI-101-operator", "BI-101-or", "BI-099", "BI-101-none"],
)
async def test_a_filter_is_no_program(filter: Any) -> None:
    """An operator that is not known, and a filter that is text, are refused before anything is asked."""
    memory = SessionMemory.test_mode(counter=COUNTER)
    memory.add("documents", "text", metadata={"score": 1})
    with pytest.raises((InvalidArgumentError, AssertionError)):
        found = (await memory.assemble_context("text", budget=50, filter=filter)).items
        # `>` is no operator but a field of the value: nothing has it.
        assert found, "the filter was a value that no item has"


@pytest.mark.parametrize("count", [-1, -(2**70), 1.5, "3", None, float("nan")])
def test_bi_116_a_counter_that_counts_nothing_possible_is_refused(count: Any) -> None:
    """A count below 0 or that is no whole number is an error, and the section stays as it was."""
    memory = SessionMemory.test_mode(counter=lambda text: count if text == "bad" else len(text))
    memory.add("messages", "good")
    with pytest.raises(InvalidArgumentError, match="count"):
        memory.add("messages", "bad")
    with pytest.raises(InvalidArgumentError, match="count"):
        memory.update(next(iter(memory["messages"])).id, "bad")
    assert [item.text for item in memory["messages"]] == ["good"]
    assert memory.used == 4


def test_bi_116_a_counter_that_raises_changes_nothing() -> None:
    """What a counter raises is raised, and the section stays as it was."""

    def count(text: str) -> int:
        if text == "bad":
            raise RuntimeError("no tokens today")
        return len(text)

    memory = SessionMemory.test_mode(counter=count)
    memory.add("messages", "good")
    with pytest.raises(RuntimeError, match="today"):
        memory.add("messages", "bad")
    assert [item.text for item in memory["messages"]] == ["good"]


async def test_bi_117_budgets_are_whole_numbers_from_0_up() -> None:
    """Of a window and of a section: 0 holds nothing, and what is no such number is refused before anything is done."""
    memory = SessionMemory.test_mode(counter=COUNTER, sections=[SectionSpec("documents", 0), SectionSpec("findings")])
    memory.add("findings", "text")
    assert (await memory.assemble_context("text", budget=0)).items == ()
    assert len((await memory.assemble_context("text", budget=2**63)).items) == 1
    for budget in (-1, float("nan"), float("inf"), 1.5, "9", True, None):
        with pytest.raises(InvalidArgumentError):
            await memory.assemble_context("text", budget=budget)  # type: ignore[arg-type]
        if budget is not None:
            with pytest.raises(InvalidArgumentError):
                SectionSpec("s", budget)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError):
        SectionSpec("s", 2**63)
    with pytest.raises(ValueError, match="priority"):
        SectionSpec("s", priority=2**63)


@pytest.mark.parametrize("floors", [(0.6, 0.5), (1.5,), (-0.1,), (float("nan"),)])
def test_bi_117_floors_add_up_to_the_window_at_most(floors: tuple[float, ...]) -> None:
    """Shares of a window that add up to more than the whole are refused when they are configured."""
    with pytest.raises(ValueError, match="floor"):
        check_specs(SectionSpec(f"s{number}", floor=floor) for number, floor in enumerate(floors))
