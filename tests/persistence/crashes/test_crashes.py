"""Whatever a crash leaves of a session, it opens, with all that was acknowledged and no half of a commit."""

from dataclasses import astuple

import pytest

from tests.persistence.crashes.exploration import Count, Explorer
from tests.persistence.crashes.scenarios import (
    FORGET,
    FORGOTTEN,
    OVERTAKEN,
    SCENARIOS,
    SHORT,
    SNAPSHOT,
    adding,
)
from tests.simulation import power_loss
from tests.tables import add_table

LIVES = {**SCENARIOS, **SHORT}
LONGER = {"snapshots", "archive", "forget"}
BRIEF = {
    *SHORT,
    "torn tail",
    "torn by NULs",
    "rolls",
    "late snapshots",
    "forget a torn tail",
    "deletion",
}
BRIEF |= {"a snapshot", "an index", "a commit before a snapshot"}
MANY_CALLS = {"rolls", "late snapshots", "deletion"}
MANY_STATES = "an index", "a snapshot"
_KILLED_AT_EACH = {
    **dict.fromkeys(LIVES, 20),
    **dict.fromkeys(SHORT, 10),
    **dict.fromkeys(MANY_CALLS, 40),
    "forgotten": 30,
    # A larger step may miss the one call after which a cut is in the cache alone.
    "torn tail": 1,
    "torn by NULs": 1,
}
"""Of so many calls, a life is killed at one."""


def each(names):
    """Return names as parameters: beside the simulation of whole sessions, the default run tries few of them."""
    return [pytest.param(name, marks=() if name in BRIEF else pytest.mark.soak) for name in names]


@pytest.fixture(autouse=True)
def _more_combinations_in_a_soak(request, monkeypatch):
    """Let a soak test combine more states of several files."""
    if request.node.get_closest_marker("soak"):
        monkeypatch.setattr(power_loss, "MAX_FILES", power_loss.MAX_FILES_OF_A_SOAK)


@pytest.fixture(scope="module")
def table(request):
    """Counts to be printed once all tests have added to them."""
    counts = {}
    yield counts
    rows = {**counts, "all": sum(counts.values(), Count())}
    header = ("crashes", "moments", "states", "moments after it", "states after it", "lost")
    add_table(request.config, header, {name: (*astuple(count), 0) for name, count in rows.items()})


@pytest.mark.parametrize("name", each(LIVES))
def test_no_power_loss_loses_anything(name, table):
    """Every state after every call keeps the promise, and so does each that follows some of them."""
    explorer = Explorer()
    explorer.crash(LIVES[name], at_most=30, again=6)
    table[f"power, then power again: {name}"] = explorer.counted
    assert explorer.counted.states_again > 20


@pytest.mark.parametrize("name", each(sorted(LIVES.keys() - LONGER)))
def test_who_goes_on_after_a_kill_loses_nothing_by_a_power_loss(name, table):
    """What a killed writer left in the page cache alone is no trap for the next, wherever power fails then."""
    explorer = Explorer()
    explorer.kill(LIVES[name], every=_KILLED_AT_EACH[name])  # the soak test kills at each call
    table[f"kill, then power: {name}"] = explorer.counted
    assert explorer.counted.points > 3


@pytest.mark.parametrize("name", each(FORGOTTEN))
def test_who_forgets_after_a_kill_forgets_for_good(name, table):
    """What a killed writer left half-written, deleted in the cache alone, or began to forget is gone as well."""
    explorer = Explorer()
    explorer.kill(FORGOTTEN[name], every=8, then=[FORGET])
    table[f"kill, then forget and power: {name}"] = explorer.counted


@pytest.mark.parametrize("name", each(OVERTAKEN))
def test_who_is_there_when_another_is_killed_loses_nothing_by_a_power_loss(name, table):
    """Neither does who had the session open all the time and goes on from what the other left."""
    explorer = Explorer()
    every = 4 if name in MANY_STATES else 1  # the soak test kills at each call
    explorer.overtake(*OVERTAKEN[name], every=every)
    table[f"another's kill, then power: {name}"] = explorer.counted
    assert explorer.counted.points > 4


@pytest.mark.soak
@pytest.mark.parametrize("name", OVERTAKEN)
def test_who_is_there_when_another_is_killed_at_any_call_loses_nothing(name, table):
    """As above, at each call."""
    explorer = Explorer()
    explorer.overtake(*OVERTAKEN[name])
    table[f"soak: another's kill, then power: {name}"] = explorer.counted


@pytest.mark.soak
@pytest.mark.parametrize("name", FORGOTTEN)
def test_who_forgets_after_a_kill_at_any_call_forgets_for_good(name, table):
    """As above, at each call."""
    explorer = Explorer()
    explorer.kill(FORGOTTEN[name], then=[FORGET])
    table[f"soak: kill, then forget and power: {name}"] = explorer.counted


@pytest.mark.soak
@pytest.mark.parametrize("name", LIVES)
def test_no_second_power_loss_in_a_longer_life_loses_anything(name, table):
    """All states after all states, where a snapshot and another commit follow the one after recovery."""
    explorer = Explorer()
    explorer.kill(LIVES[name])
    longer = (
        *LIVES[name],
        *(act for n in range(4) for act in (adding(f"m{n}", f"n{n}"), SNAPSHOT)),
    )
    explorer.crash(longer, then=(SNAPSHOT, adding("last"), SNAPSHOT))
    explorer.kill(longer, then=(SNAPSHOT, adding("last"), SNAPSHOT))
    table[f"soak: {name}"] = explorer.counted
