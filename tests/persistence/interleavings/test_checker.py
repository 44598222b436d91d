"""The model checker itself: it takes every schedule, each once, and finds what is wrong in small protocols."""

from functools import partial
from math import factorial

import pytest

from kaosmem.persistence.steps import (
    Read,
)
from tests.persistence.interleavings.model_checker import (
    Scenario,
    explore,
)
from tests.persistence.interleavings.runs import (
    Files,
    World,
)
from tests.persistence.interleavings.simulations import SimulatedDisk

COUNTER = World(Files.of({"n": (b"0", 0.0)}))


def value(world):
    return int(world.files["n"][0])


def reads(steps):
    """Read a file so many times."""
    for _ in range(steps):
        yield Read("n")


def two(process, **more):
    return Scenario(
        SimulatedDisk(),
        {"a": process, "b": process},
        start=COUNTER,
        at_end=lambda world, _: counted(world, 2),
        **more,
    )


def counted(world, expected):
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
