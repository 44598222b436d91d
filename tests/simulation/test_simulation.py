"""Whatever befalls its processes, disk and network, a session loses nothing, shows nothing forgotten and ends."""

from collections import Counter

import pytest

from tests.simulation.life import ACTS, lived
from tests.simulation.loss import LOSSES
from tests.tables import add_table

PLACES = "disk", "objects"
SEEDS = 2, *range(8, 15)
"""Of the first fifteen lives, these find each fault of `tests/mutants`, and have all that happens."""
STEPS = 600
HAPPENED = {*ACTS, "read", "forgotten", "snap", "archive", "index"}
COMMON = {"is deleted", "repaired", "kill", "clock back", "clock ahead", "error", "late"}
"""Faults that a short run has many of."""

SOAKED = 500_000
RARE = {
    "disk": {*LOSSES, "power loss", "full", "short", "lost pages", "missing"},
    "objects": {*LOSSES, "lost", "doubled", "compacted"},
}


@pytest.fixture(scope="module")
def table(request):
    """Counts to be printed once all tests have added to them."""
    counts = {}
    yield counts
    add_table(request.config, ("simulation", "steps", "states"), counts)


def live(place, seeds, steps, table):
    """Return how often each act and each fault happened."""
    counts = Counter()
    for seed in seeds:
        world = lived(seed, is_local=place == "disk", steps=steps)
        counts += world.counts
        before = table.get(place, (0, 0))
        table[place] = before[0] + world.steps, before[1] + world.checks
    return counts


@pytest.mark.parametrize("place", PLACES)
def test_no_history_breaks_a_promise(place, table):
    """A failure prints its seed; `python -m tests.simulation SEED PLACE` prints the shortest list of steps to it."""
    counts = live(place, SEEDS, STEPS, table)
    assert all(counts[each] for each in COMMON | HAPPENED), counts


@pytest.mark.soak
@pytest.mark.parametrize("place", PLACES)
def test_a_million_steps_break_no_promise(place, table):
    """Each place has half of them, in lives of 1,000 steps and of 3,000; every kind of act and fault is among them."""
    counts = Counter()
    seed = 1_000
    while table.get(place, (0, 0))[0] < SOAKED:
        counts += live(place, range(seed, seed + 1), 1_000 if seed % 10 else 3_000, table)
        seed += 1
        print(
            f"{place}: {table[place][0]:,} of {SOAKED:,} steps, {table[place][1]:,} states",
            end="\r",
        )
    assert all(counts[each] for each in COMMON | RARE[place] | HAPPENED), counts
