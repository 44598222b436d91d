"""Counters that lie."""

import pytest

from kaosmem import InvalidArgumentError, SessionMemory


@pytest.mark.parametrize("count", [-1, -(2**70), 1.5, "3", None, float("nan")])
def test_a_counter_that_counts_nothing_possible_is_refused(count):
    """A count below 0 or that is no whole number is an error, and the section stays as it was."""
    memory = SessionMemory.test_mode(counter=lambda text: count if text == "bad" else len(text))
    memory.add("messages", "good")
    with pytest.raises(InvalidArgumentError, match="count"):
        memory.add("messages", "bad")
    with pytest.raises(InvalidArgumentError, match="count"):
        memory.update(next(iter(memory["messages"])).id, "bad")
    assert [item.text for item in memory["messages"]] == ["good"]
    assert memory.admin.used == 4


def test_a_counter_that_raises_changes_nothing():
    """What a counter raises is raised, and the section stays as it was."""

    def count(text):
        if text == "bad":
            raise RuntimeError("no tokens today")
        return len(text)

    memory = SessionMemory.test_mode(counter=count)
    memory.add("messages", "good")
    with pytest.raises(RuntimeError, match="today"):
        memory.add("messages", "bad")
    assert [item.text for item in memory["messages"]] == ["good"]
