"""Everything that a power loss, a kill, or a second power loss may make of a session's life."""

from __future__ import annotations

import secrets
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import count

import pytest

from kaosmem.errors import KaosmemError
from tests.persistence.crashes.promises import BrokenPromiseError, Promise, Session, Witness, check
from tests.persistence.crashes.scenarios import Act, committing
from tests.persistence.worlds import OPENING, add
from tests.simulation.disk import Image, SimulatedDisk

WIDER_THAN_A_SECTOR = "text " * 110


class KilledError(BaseException):
    """The process is no more, and does not clean up."""


@dataclass
class Count:
    """How much was looked at: moments of a crash, and different disks after one, the first time and the second."""

    points: int = 0
    states: int = 0
    points_again: int = 0
    states_again: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(
            self.points + other.points,
            self.states + other.states,
            self.points_again + other.points_again,
            self.states_again + other.states_again,
        )


@contextmanager
def counted_tokens(first: int) -> Iterator[None]:
    """Give out ids that are counted instead of random, so that the same acts write the same bytes."""
    numbers = count(first)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            secrets, "token_hex", lambda size=8: f"{next(numbers):0{2 * size}x}"[-2 * size :]
        )
        yield


@contextmanager
def broken_by_errors() -> Iterator[None]:
    """Take an error where the disk does what it is asked to for a broken promise."""
    try:
        yield
    except (KaosmemError, OSError) as error:
        raise BrokenPromiseError(f"a session is stuck: {error!r}") from error


def live(acts: Sequence[Act], *, killed_at: int | None = None) -> Witness:
    """Return what was seen of a life that nothing disturbs, or which ends at a call, with what it left in the cache."""
    disk = SimulatedDisk()
    witness = Witness(disk)
    if killed_at is not None:
        disk.watch = partial(kill, disk, disk.calls + killed_at)
    with counted_tokens(0), broken_by_errors():
        session = Session(disk, witness=witness)
        with suppress(KilledError):
            for act in acts:
                act(session)
        session.log.close()
    assert not disk.descriptors
    if killed_at is None:
        witness.look()
    return witness


def kill(disk: SimulatedDisk, at: int, call: str) -> None:
    """End the process at a call and at all after it: it does not clean up."""
    if disk.calls >= at:
        raise KilledError


def go_on(
    disk: SimulatedDisk, promise: Promise, then: Sequence[Act] = (), *, watched: bool = True
) -> Witness:
    """Return what was seen while a new handle recovered the session, committed to it and went on."""
    witness = Witness(disk)
    if not watched:
        disk.watch = None
    with counted_tokens(2**20), broken_by_errors():
        session = Session(disk, promise=promise, witness=witness)
        session.promised(*session.promise.possible)
        opening = () if session.history else (OPENING,)
        for act in (
            committing(*opening, add("next", WIDER_THAN_A_SECTOR), add("after next")),
            *then,
        ):
            act(session)
        session.log.close()
    assert not disk.descriptors
    witness.look()
    return witness


def overtake(
    before: Sequence[Act], acts: Sequence[Act], then: Sequence[Act], at: int
) -> tuple[Witness, bool]:
    """Return what was seen while one handle went on after another was killed, and whether that had done its acts."""
    disk = SimulatedDisk()
    with counted_tokens(0), broken_by_errors():
        survivor = Session(disk)
        for each in before:
            each(survivor)
        killed = Session(disk, promise=survivor.promise)
        disk.watch = partial(kill, disk, disk.calls + at)
        is_whole = False
        with suppress(KilledError):
            for act in acts:
                act(killed)
            is_whole = True
        killed.log.close()
        witness = Witness(disk)
        survivor.witness = witness
        survivor.promised(*killed.promise.possible, forgotten=killed.promise.forgotten)
        for act in then:
            act(survivor)
        survivor.commit_after(add("next", WIDER_THAN_A_SECTOR), add("after next"))
        survivor.log.close()
    assert not disk.descriptors
    witness.look()
    return witness, is_whole


class Explorer:
    """Checks every state that a crash leaves, each different one once."""

    def __init__(self) -> None:
        self.counted = Count()
        self._seen: set[Hashable] = set()

    def crash(
        self,
        acts: Sequence[Act],
        *,
        at_most: int = 1_000_000,
        again: int = 1,
        then: Sequence[Act] = (),
    ) -> None:
        """Check what a power loss leaves of a life, and a second one of the commit after the first.

        at_most: about how many of the states after the first are gone on from. again: of these,
            each which gets a second loss. then: what follows that commit.
        Raises BrokenPromiseError.
        """
        witness = live(acts)
        self.counted.points += witness.points
        for image, promise in witness.found:
            self.counted.states += self.check(image, promise)
        stride = 1 + len(witness.found) // at_most
        for number, (image, promise) in enumerate(witness.found[::stride]):
            self.go_on(SimulatedDisk(image), promise, then, watched=number % again == 0)

    def kill(self, acts: Sequence[Act], *, every: int = 1, then: Sequence[Act] = ()) -> None:
        """Check what a power loss leaves where a writer was killed at a call and another went on at once.

        every: of the calls at which it is killed.
        """
        for at in count(step=every):
            killed = live(acts, killed_at=at)
            self.counted.points += 1
            self.go_on(killed.disk, killed.promise, then)
            if killed.disk.calls < at:
                return
        raise AssertionError

    def overtake(
        self, before: Sequence[Act], acts: Sequence[Act], then: Sequence[Act], *, every: int = 1
    ) -> None:
        """Check what a power loss leaves where a writer was killed at a call and one with an open log went on.

        every: of the calls at which it is killed.
        """
        for at in count(step=every):
            self.counted.points += 1
            again, is_whole = overtake(before, acts, then, at)
            self._check_again(again)
            if is_whole:
                return
        raise AssertionError

    def go_on(
        self, disk: SimulatedDisk, promise: Promise, then: Sequence[Act], *, watched: bool = True
    ) -> None:
        """Check what a power loss leaves while the session is recovered, committed to and gone on with."""
        self._check_again(go_on(disk, promise, then, watched=watched))

    def _check_again(self, again: Witness) -> None:
        self.counted.points_again += again.points
        for image, promised in again.found:
            self.counted.states_again += self.check(image, promised)

    def check(self, image: Image, promise: Promise) -> bool:
        """Check a state, and return whether it is a new one."""
        histories = tuple(tuple(len(commit) for commit in history) for history in promise.possible)
        state = frozenset(image.items()), histories, promise.forgotten
        is_new = state not in self._seen
        if is_new:
            self._seen.add(state)
            check(image, promise)
        return is_new
