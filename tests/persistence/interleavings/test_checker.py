"""The model checker itself: it takes every schedule, each once, and finds what is wrong in small protocols."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import permutations
from math import comb, factorial
from typing import Any

import pytest

from kaosmem.persistence.steps import (
    Append,
    Create,
    Delete,
    List,
    Lock,
    Read,
    TakenError,
    Write,
    run,
)
from tests.persistence.interleavings.clients import Calls, DiskClient, object_client
from tests.persistence.interleavings.model_checker import (
    Coverage,
    Scenario,
    ViolationError,
    explore,
)
from tests.persistence.interleavings.runs import (
    Acknowledge,
    Began,
    Expect,
    Files,
    Process,
    Rest,
    World,
)
from tests.persistence.interleavings.simulations import SimulatedDisk, SimulatedObjects, Unlock

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


def adds_one_locked() -> Protocol:
    """Count in a file under a lock."""
    yield Lock(True)
    yield from adds_one()
    yield Unlock()


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
def test_every_schedule_is_taken_once(steps: tuple[int, ...], merged: bool) -> None:
    """Protocols of n and m steps have (n + m)! / (n! m!) schedules, whether equal states are merged or not."""
    processes = {f"p{number}": partial(reads, count) for number, count in enumerate(steps)}
    coverage = explore(Scenario(SimulatedDisk(), processes, start=COUNTER), merged=merged)
    expected = factorial(sum(steps))
    for count in steps:
        expected //= factorial(count)
    assert coverage.schedules == expected


def test_merged_states_are_those_of_the_grid() -> None:
    """Readers do not see each other, so a state is how far each has come: far fewer than schedules."""
    coverage = explore(
        Scenario(SimulatedDisk(), {"a": partial(reads, 8), "b": partial(reads, 8)}, start=COUNTER)
    )
    assert coverage == Coverage(states=81, schedules=comb(16, 8))


@pytest.mark.parametrize("fault", ["lost", "error"])
def test_a_fault_may_happen_at_each_step_once(fault: str) -> None:
    """Three writes by one process that goes on after an error: no fault, or one of three."""

    def writes() -> Protocol:
        for number in range(3):
            with suppress(OSError):
                yield Write("n", [b"%d" % number])

    start = World(Files.of({}))
    assert explore(Scenario(SimulatedDisk(), {"a": writes}, {fault: 1}, start=start)).schedules == 4
    assert explore(Scenario(SimulatedDisk(), {"a": writes}, {fault: 2}, start=start)).schedules == 7


def test_a_lost_update_is_found_with_the_shortest_schedule() -> None:
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


def test_a_lock_keeps_updates_apart() -> None:
    """Under a lock the count is right in all schedules: only who is first is left open."""
    assert explore(two(adds_one_locked)).schedules == 2


def test_a_kill_frees_the_lock() -> None:
    """With one kill the other still counts, and what was acknowledged is in the count."""

    def at_end(world: World, results: Mapping[str, Any]) -> None:
        assert value(world) >= 1
        assert world.holder == ""

    explore(replace(two(adds_one_locked, faults={"kill": 1}), at_end=at_end))


def test_waiting_for_ever_is_found() -> None:
    """A protocol that never unlocks keeps the other from ending."""

    def keeps() -> Protocol:
        yield Lock(True)

    with pytest.raises(ViolationError, match="deadlock"):
        explore(two(keeps))


def test_what_a_protocol_raises_is_found() -> None:
    """A protocol that does not catch what a storage raises has a schedule that shows it."""

    def reads_missing() -> Protocol:
        if "x" in (yield List("f")):
            yield Read("f/x")

    def deletes() -> Protocol:
        yield Write("f/x", [b"1"])
        yield Delete("f/x")

    with pytest.raises(ViolationError, match="FileNotFoundError"):
        explore(Scenario(SimulatedDisk(), {"a": reads_missing, "b": deletes}))


def test_an_append_is_seen_in_parts() -> None:
    """A reader may see a line of which not all is there, and after a kill it stays so."""

    def appends() -> Protocol:
        yield Append("f", 0, b"one\ntwo\n")

    seen = set()

    def at_end(world: World, results: Mapping[str, Any]) -> None:
        seen.add(world.files.get("f", (b"", 0.0))[0])

    explore(Scenario(SimulatedDisk(), {"a": appends}, {"part": 1, "kill": 1}, at_end=at_end))
    assert seen == {b"", b"one\n", b"one\ntwo", b"one\ntwo\n"}


def test_facts_are_known_at_once() -> None:
    """A process that begins after another was told of its success knows of it; no schedule shows it too early."""
    pairs = set()

    def tells() -> Protocol:
        yield Write("f/x", [b"1"])
        yield Acknowledge("stored")

    def asks() -> Protocol:
        facts = yield Began()
        pairs.add((bool(facts), bool((yield List("f")))))

    explore(Scenario(SimulatedObjects(), {"a": tells, "b": asks}))
    assert pairs == {(False, False), (True, True)}


def test_an_expectation_is_checked_where_it_stands() -> None:
    """What a process expects of the world is checked before anybody else takes a step."""

    def expects(rereads: bool) -> Protocol:
        yield Write("n", [b"1"])
        if rereads:
            yield Read("n")
        yield Expect(lambda world: counted(world, 1))

    def breaks() -> Protocol:
        yield Write("n", [b"2"])

    explore(Scenario(SimulatedObjects(), {"a": partial(expects, False), "b": breaks}))
    with pytest.raises(ViolationError, match="1 were counted as 2"):
        explore(Scenario(SimulatedObjects(), {"a": partial(expects, True), "b": breaks}))


def test_an_invariant_is_checked_of_every_world() -> None:
    """A state that is only passed through is found too."""

    def leaves_no_trace() -> Protocol:
        yield Write("n", [b"1"])
        yield Write("n", [b"0"])

    with pytest.raises(ViolationError, match="0 were counted as 1") as caught:
        explore(
            Scenario(
                SimulatedObjects(),
                {"a": leaves_no_trace},
                start=COUNTER,
                invariant=lambda world: counted(world, 0),
            )
        )
    assert len(caught.value.schedule) == 1


def test_time_passes_only_between_operations() -> None:
    """A day passes before or between two operations of two steps each, or not at all, but never within one."""
    times = set()

    def works() -> Protocol:
        for number in range(2):
            now = yield Rest()
            yield Write(f"{number}", [b"1"])
            times.add((number, now, (yield Read(f"{number}"))))

    coverage = explore(Scenario(SimulatedObjects(), {"a": works}, {"day": 1}))
    assert {now for _, now, _ in times} == {0.0, 86_400.0}
    assert coverage.schedules == 3


def counts_by_names(name: str) -> Process:
    """Add a file under the next number that is free, found by looking and then storing if absent."""

    def protocol() -> Protocol:
        number = len((yield List("f"))) + 1
        while True:
            try:
                yield Create(f"f/{number}", name.encode())
                return number
            except TakenError:
                number += 1

    def process() -> Protocol:
        calls = Calls()
        return calls.carry_out(lambda: run(protocol(), object_client(calls)))

    return process


@pytest.mark.parametrize("faults", [{}, {"lost": 1}, {"kill": 1}, {"lost": 2}])
def test_names_as_compare_and_swap_are_each_won_once(faults: dict[str, int]) -> None:
    """Three that store under the next free name each get one of their own, also where an answer is lost."""

    def at_end(world: World, results: Mapping[str, Any]) -> None:
        winners = {results[name]: name for name in "abc" if results[name]}
        assert len(winners) == 3 - sum(results[name] is None for name in "abc")
        for number, name in winners.items():
            assert world.files[f"f/{number}"][0] == name.encode()

    processes = {name: counts_by_names(name) for name in "abc"}
    assert explore(Scenario(SimulatedObjects(), processes, faults, at_end=at_end)).schedules > len(
        list(permutations("abc"))
    )


def test_a_lock_is_freed_where_a_protocol_ends() -> None:
    """As `run` does it, also where the protocol fails."""

    def fails() -> Protocol:
        yield Lock(True)
        raise OSError("no space")

    def tries() -> Protocol:
        calls = Calls()
        try:
            yield from calls.carry_out(lambda: run(fails(), DiskClient(calls)))
        except OSError:
            return "failed"

    def at_end(world: World, results: Mapping[str, Any]) -> None:
        assert results == {"a": "failed", "b": "failed"}
        assert not world.holder

    explore(Scenario(SimulatedDisk(), {"a": tries, "b": tries}, at_end=at_end))
