"""A model checker: every order in which the steps of several protocols can reach a storage, faults included.

A protocol is a generator that yields steps and is sent what a storage answers. What it has been answered so far
decides what it does next, so a state is what is stored and each process's answers. States are explored breadth first,
equal ones once; the schedule that is reported for a violation is therefore as short as any.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, NamedTuple, Protocol

from tests.persistence.interleavings.runs import (
    Acknowledge,
    Answer,
    Began,
    Expect,
    Files,
    Point,
    Process,
    Rest,
    World,
    shown,
)

DAY_S = 86_400.0


class Medium(Protocol):
    """A simulated storage: a pure function of the world."""

    def perform(self, world, process, step):
        """Return the world and the answer after a step, or None while it has to wait."""

    def faults(self, step):
        """Return which of lost, late, error and kill may happen to a step."""

    def parts(self, world, process, step):
        """Yield worlds in which a part of the step is done, and what remains to be done."""

    def released(self, world, process):
        """Return the world without what the operating system frees for a process that was killed."""


@dataclass(frozen=True)
class Scenario:
    """Processes on one storage, and what has to hold.

    faults: how often at most, in one run, each of these happens: "lost", a step takes effect and
        its answer is a
    TimeoutError; "late", the same, and it takes effect any time later; "error", an OSError without
    effect; "kill", a process stops for good; "part", others may see a step half done; "day", time
    passes between operations.
    invariant: holds of every world. at_end: holds of the last, given what the processes returned;
        None for a kill.
    """

    medium: Medium
    processes: Mapping[str, Process]
    faults: Mapping[str, int] = field(default_factory=dict)
    invariant: Callable[[World], None] = lambda world: None
    at_end: Callable[[World, Mapping[str, Any]], None] = lambda world, results: None
    start: World = field(default_factory=lambda: World(Files.of({})))


class Coverage(NamedTuple):
    """How much was explored: different states, and the schedules that lead through them."""

    states: int
    schedules: int


class ViolationError(AssertionError):
    """A schedule after which something that must hold does not.

    schedule: for each step the process, the step and what came of it.
    """

    def __init__(self, reason, schedule):
        lines = [
            f"{number:3} {name}: {shown(step)} -> {answer}"
            for number, (name, step, answer) in enumerate(schedule, 1)
        ]
        super().__init__("\n".join([reason, *lines]))
        self.reason = reason
        self.schedule = list(schedule)


class Standing(NamedTuple):
    """A process in a state: where its run is, what remains of a step half done, and whether it was killed."""

    point: Point
    remains: Any = None
    killed: bool = False


class State(NamedTuple):
    world: World
    standings: tuple[Standing, ...]
    faults: tuple[tuple[str, int], ...]


class Outcome(NamedTuple):
    """What came of a step: the answer, or else what remains to be done, and the fault that it took."""

    world: World
    answer: Answer | None = None
    remains: Any = None
    fault: str = ""

    def __str__(self):
        said = (
            ""
            if self.answer is None
            else getattr(self.answer.error, "__name__", None) or shown(self.answer.value)
        )
        return " ".join(filter(None, [self.fault.upper(), said]))


def explore(scenario, *, merged=True):
    """Check every schedule of a scenario.

    Raises ViolationError for the first that is as short as any.

    merged: explore equal states once; the number of schedules is the same without.
    """
    points = [Point(process) for process in scenario.processes.values()]
    try:
        return _Exploration(scenario, points).run(merged)
    finally:
        for point in points:
            point.discard()


def alone(medium, world, process):
    """Return the world after a process that nobody and nothing disturbed."""
    worlds = []
    explore(
        Scenario(medium, {"": process}, start=world, at_end=lambda after, _: worlds.append(after))
    )
    (after,) = worlds
    return after


class _Exploration:
    def __init__(self, scenario, points):
        self.scenario = scenario
        self.names = list(scenario.processes)
        standings = tuple(map(Standing, points))
        self.first = State(scenario.start, standings, tuple(sorted(scenario.faults.items())))
        self.origins = {}
        self._checked = set()
        self._performed = {}
        self.faults = {name for name, most in scenario.faults.items() if most}

    def run(self, merged):
        numbers = count()
        key = (lambda state: state) if merged else (lambda state: (state, next(numbers)))
        start = self.first
        for index in range(len(start.standings)):
            start = self._settled(start, index, None, None)
        level = {key(start): (start, 1)}
        states = schedules = 0
        while level:
            states += len(level)
            following = {}
            for at, (state, ways) in level.items():
                is_end = True
                for after, event in self._moves(state, at):
                    is_end = False
                    reached = key(after)
                    known = following.get(reached)
                    following[reached] = after, ways + (known[1] if known else 0)
                    if known is None:
                        self.origins[reached] = at, event
                if is_end:
                    schedules += ways
                    self._end(state, at)
            level = following
        return Coverage(states, schedules)

    def _moves(self, state, at):
        left = dict(state.faults)
        for index, (name, standing) in enumerate(zip(self.names, state.standings, strict=True)):
            if standing.killed or standing.point.is_over:
                continue
            began = self._begun(state.world, standing)
            step = began.remains or began.point.step
            for outcome in self._outcomes(state.world, name, began, step):
                if outcome.fault and not left.get(outcome.fault):
                    continue
                after = _standing(began, outcome)
                event = name, step, outcome
                yield (
                    self._settled(
                        _moved(state, index, outcome.world, after, outcome.fault), index, at, event
                    ),
                    event,
                )
        for world, event in self._circumstances(state.world, left.get("day", 0), state.standings):
            after = State(
                world, state.standings, _spent(state.faults, "day" if event[0] == "time" else "")
            )
            yield self._settled(after, 0, at, event), event

    def _circumstances(self, world, days, standings):
        """Yield what may happen without any process."""
        going_on = [
            standing.point
            for standing in standings
            if not (standing.killed or standing.point.is_over)
        ]
        if days and going_on and all(point.rests for point in going_on):
            yield replace(world, clock=world.clock + DAY_S), ("time", "a day passes", "")
        for index, step in enumerate(world.late):
            without = replace(world, late=world.late[:index] + world.late[index + 1 :])
            performed = self.scenario.medium.perform(without, "", step)
            yield performed[0], ("network", step, "arrives late")

    def _begun(self, world, standing):
        """Return the process with what it asks at the start of its next step answered."""
        point = standing.point
        while isinstance(point.step, (Began, Rest)):
            point = point.after(
                Answer(world.facts if isinstance(point.step, Began) else world.clock)
            )
        assert point is standing.point or not point.is_over, (
            "no step follows where a process began or rested"
        )
        return standing if point is standing.point else Standing(point)

    def _outcomes(self, world, name, standing, step):
        """Return what may come of a step."""
        key = standing, world
        known = self._performed.get(key)
        if known is None:
            known = self._performed[key] = list(self._performances(world, name, step))
        return known

    def _performances(self, world, name, step):
        medium = self.scenario.medium
        performed = medium.perform(world, name, step)
        if performed is None:
            return
        after, answer = performed
        yield Outcome(after, answer)
        possible = {*medium.faults(step)} & self.faults
        if "error" in possible:
            yield Outcome(world, Answer("input/output error", OSError), fault="error")
        if after != world:
            if "lost" in possible:
                yield Outcome(after, Answer("the answer was lost", TimeoutError), fault="lost")
            if "late" in possible:
                late = replace(world, late=(*world.late, step))
                yield Outcome(late, Answer("no answer came", TimeoutError), fault="late")
            if "kill" in possible:  # to everybody else, a kill before any other step looks the same
                yield Outcome(medium.released(world, name), fault="kill")
        if "part" in self.faults:
            for part, remains in medium.parts(world, name, step):
                yield Outcome(part, remains=remains, fault="part")

    def _settled(self, state, index, at, event):
        """Return a state with what a process does at once with its last step done, checked."""
        try:
            standing = state.standings[index]
            world = state.world
            point = standing.point
            while isinstance(point.step, (Acknowledge, Expect)) and not standing.killed:
                if isinstance(point.step, Expect):
                    point.step.holds(world)
                else:
                    world = replace(world, facts=world.facts | {point.step.fact})
                point = point.after(Answer())
            if point.failure is not None:
                raise AssertionError(
                    f"{self.names[index]} raised {point.failure!r}"
                ) from point.failure
            if point is not standing.point:
                state = _moved(state, index, world, Standing(point), "")
            if state.world not in self._checked:
                self._checked.add(state.world)
                self.scenario.invariant(state.world)
        except AssertionError as error:
            raise ViolationError(str(error), self._schedule(at, event)) from error
        return state

    def _end(self, state, at):
        ends = dict(zip(self.names, state.standings, strict=True))
        waiting = [
            name
            for name, standing in ends.items()
            if not (standing.killed or standing.point.is_over)
        ]
        try:
            assert not waiting, f"deadlock: {', '.join(waiting)} wait for ever"
            self.scenario.at_end(
                state.world, {name: standing.point.result for name, standing in ends.items()}
            )
        except AssertionError as error:
            raise ViolationError(str(error), self._schedule(at, None)) from error

    def _schedule(self, at, event):
        events = [event] if event else []
        while at in self.origins:
            at, earlier = self.origins[at]
            events.append(earlier)
        return events[::-1]


def _standing(began, outcome):
    if outcome.fault == "kill":
        return began._replace(killed=True)
    if outcome.answer is None:
        return began._replace(remains=outcome.remains)
    return Standing(began.point.after(outcome.answer))


def _moved(state, index, world, standing, fault):
    standings = (*state.standings[:index], standing, *state.standings[index + 1 :])
    return State(world, standings, _spent(state.faults, fault))


def _spent(faults, fault):
    return tuple((name, left - (name == fault)) for name, left in faults) if fault else faults
