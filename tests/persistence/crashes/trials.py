"""Acts of a session's life on a disk that fails, and what helps then."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count

from kaosmem.errors import KaosmemError
from tests.persistence.crashes.exploration import counted_tokens
from tests.persistence.crashes.failing_disk import FailingDisk
from tests.persistence.crashes.promises import BrokenPromiseError, Promise, Session, check
from tests.persistence.crashes.scenarios import Act
from tests.persistence.worlds import OPENING, add
from tests.simulation import power_loss
from tests.simulation.disk import Image, SimulatedDisk


@dataclass(frozen=True, slots=True)
class Moment:
    """An act of a session's life, with the disk and the promise of the act before it, and that act."""

    image: Image
    promise: Promise
    before: Act
    act: Act


def moments(acts):
    """Yield each act of a life."""
    disk = SimulatedDisk()
    with counted_tokens(0):
        session = Session(disk)
        before = lambda session: None  # noqa: E731
        for act in acts:
            yield Moment(disk.image, session.promise, before, act)
            before(session)
            before = act


def trial(moment, fault, remedy):
    """Do an act on a failing disk, then what is to help, and return whether a call failed.

    At the error, and after the remedy, every state that a power loss may leave is checked.
    """
    disk = SimulatedDisk(moment.image)
    failing = FailingDisk(disk, fault)
    with counted_tokens(2**30):
        session = Session(failing, promise=moment.promise)
        moment.before(session)
        failing.break_down()
        try:
            moment.act(session)
        except OSError:
            check_all(disk, session.promise)
            failing.heal()
            try:
                remedy(session, moment.act)
            except (KaosmemError, OSError) as error:
                raise BrokenPromiseError(f"the disk is healed, and still: {error!r}") from error
        failing.heal()
        check_all(disk, session.promise)
    assert not disk.descriptors
    return failing.hits > 0


def check_all(disk, promise):
    for image in power_loss.states(disk):
        check(image, promise)


def retry(session, act):
    """Do the same again: it takes effect once."""
    act(session)


def reopen(session, act):
    """Open the session again and commit something else: it is not refused."""
    session.open()
    session.commit(*(() if session.history else (OPENING,)), add("next"))


def go_on(session, act):
    """Commit something else, after what may have become of the act."""
    if session.log is None or () in session.promise.possible:
        session.open()
    session.commit_after(*(() if session.history else (OPENING,)), add("next"))


REMEDIES = retry, reopen, go_on


def try_all(
    acts,
    fault,
    remedies,
    *,
    first=0,
    step=1,
):
    """Let calls of each act fail, with one of the remedies in turn, and return how many have failed.

    first, step: Which calls of an act fail, one in each trial. By default each does.
    """
    failed = 0
    for moment in moments(acts):
        for number, at in enumerate(count(first, step)):
            remedy = remedies[number % len(remedies)]
            if not trial(moment, replace(fault, at=at), remedy):
                break
            failed += 1
    return failed
