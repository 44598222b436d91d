"""Everything that a power loss, a kill, or a second power loss may make of a session's life."""

from __future__ import annotations

import secrets
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import count

import pytest

from kaosmem.errors import KaosmemError
from tests.persistence.crashes.promises import BrokenPromiseError, Session, Witness, check
from tests.persistence.crashes.scenarios import committing
from tests.persistence.worlds import OPENING, add
from tests.simulation.disk import SimulatedDisk

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

    def __add__(self, other):
        return Count(
            self.points + other.points,
            self.states + other.states,
            self.points_again + other.points_again,
            self.states_again + other.states_again,
        )


@contextmanager
def counted_tokens(first):
    """Give out ids that are counted instead of random, so that the same acts write the same bytes."""
    numbers = count(first)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            secrets, "token_hex", lambda size=8: f"{next(numbers):0{2 * size}x}"[-2 * size :]
        )
        yield


@contextmanager
def broken_by_errors():
    """Take an error where the disk does what it is asked to for a broken promise."""
    try:
        yield
    except (KaosmemError, OSError) as error:
        raise BrokenPromiseError(f"a session is stuck: {error!r}") from error


def live(acts, *, killed_at=None):
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
    if killed_at is not None:
        close_all(disk)
    assert not disk.descriptors
    if killed_at is None:
        witness.look()
    return witness


def close_all(disk):
    """Close the files of a killed process. No other has any open then."""
    for descriptor in [*disk.descriptors]:
        disk.close(descriptor)


def kill(disk, at, call):
    """End the process at a call and at all after it: it does not clean up."""
    if disk.calls >= at:
        raise KilledError


def go_on(disk, promise, then=(), *, watched=True):
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
    assert not disk.descriptors
    witness.look()
    return witness


def overtake(before, acts, then, at):
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
        close_all(disk)
        witness = Witness(disk)
        survivor.witness = witness
        survivor.promised(*killed.promise.possible, forgotten=killed.promise.forgotten)
        for act in then:
            act(survivor)
        survivor.commit_after(add("next", WIDER_THAN_A_SECTOR), add("after next"))
    assert not disk.descriptors
    witness.look()
    return witness, is_whole


class Explorer:
    """Checks every state that a crash leaves, each different one once."""

    def __init__(self):
        self.counted = Count()
        self._seen = set()

    def crash(
        self,
        acts,
        *,
        at_most=1_000_000,
        again=1,
        then=(),
    ):
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

    def kill(self, acts, *, every=1, then=()):
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

    def overtake(self, before, acts, then, *, every=1):
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

    def go_on(self, disk, promise, then, *, watched=True):
        """Check what a power loss leaves while the session is recovered, committed to and gone on with."""
        self._check_again(go_on(disk, promise, then, watched=watched))

    def _check_again(self, again):
        self.counted.points_again += again.points
        for image, promised in again.found:
            self.counted.states_again += self.check(image, promised)

    def check(self, image, promise):
        """Check a state, and return whether it is a new one."""
        histories = tuple(tuple(len(commit) for commit in history) for history in promise.possible)
        state = frozenset(image.items()), histories, promise.forgotten
        is_new = state not in self._seen
        if is_new:
            self._seen.add(state)
            check(image, promise)
        return is_new
