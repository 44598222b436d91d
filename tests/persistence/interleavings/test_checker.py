"""The model checker itself: it takes every schedule, each once, and finds what is wrong in small protocols."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from functools import partial
from math import factorial
from typing import Any

import pytest

from kaosmem.persistence.steps import (
    Append,
    Read,
    Write,
)
from tests.persistence.interleavings.model_checker import (
    Scenario,
    ViolationError,
    explore,
)
from tests.persistence.interleavings.runs import (
    Acknowledge,
    Files,
    Process,
    World,
)
from tests.persistence.interleavings.simulations import SimulatedDisk

Protocol = Generator[Any, Any, Any]
COUNTER = World(Files.of({"n": (b"0", 0.0)}))


def value(world: World) -> int:
    return int(world.files["n"][0])


def reads(steps: int) -> Protocol:
    """Read a file so many times."""
    for _ in range(steps):
        yield Read("n")


def adds_one() -> Protocol:
    """Count in a file, as if nobody else did."""
    number = int((yield Read("n")))
    yield Write("n", [b"%d" % (number + 1)])
    yield Acknowledge(object)


def two(process: Process, **more: Any) -> Scenario:
    return Scenario(
        SimulatedDisk(),
        {"a": process, "b": process},
        start=COUNTER,
        at_end=lambda world, _: counted(world, 2),
        **more,
    )


def counted(world: World, expected: int) -> None:
    assert value(world) == expected, f"{expected} were counted as {value(world)}"


@pytest.mark.parametrize("steps", [(2, 2), (3, 4), (1, 2, 3), (2, 2, 2)])
@pytest.mark.parametrize("merged", [True, False])
def test_every_schedule_is_taken_once(steps, merged):
    """Protocols of n and m steps have (n + m)! / (n! m!) schedules, whether equal states are merged or not."""
    processes = {f"p{number}": partial(reads, count) for number, count in enumerate(steps)}
    coverage = explore(Scenario(SimulatedDisk(), processes, start=COUNTER), merged=merged)
    expected = factorial(sum(steps))
    for count in steps:
        expected //= factorial(count)
    assert coverage.schedules == expected


def test_a_lost_update_is_found_with_the_shortest_schedule():
    """Two that read before either writes count as one, which takes four steps to see."""
    with pytest.raises(ViolationError, match="2 were counted as 1") as caught:
        explore(two(adds_one))
    assert [name for name, _, _ in caught.value.schedule] in [
        list("abab"),
        list("abba"),
        list("baab"),
        list("baba"),
    ]
    assert "Read(n, 0, None)" in str(caught.value)


def test_an_append_is_seen_in_parts():
    """A reader may see a line of which not all is there, and after a kill it stays so."""

    def appends() -> Protocol:
        yield Append("f", 0, b"one\ntwo\n")

    seen = set()

    def at_end(world: World, results: Mapping[str, Any]) -> None:
        seen.add(world.files.get("f", (b"", 0.0))[0])

    explore(Scenario(SimulatedDisk(), {"a": appends}, {"part": 1, "kill": 1}, at_end=at_end))
    assert seen == {b"", b"one\n", b"one\ntwo", b"one\ntwo\n"}
