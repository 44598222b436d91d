"""Whatever befalls its processes, disk and network, a session loses nothing, shows nothing forgotten and ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.simulation.life import ACTS, lived
from tests.simulation.loss import LOSSES
from tests.tables import add_table

Table = dict[str, tuple[int, int]]
PLACES = "disk", "objects"
SEEDS, STEPS = 25, 600


@pytest.fixture(scope="module")
def table(request: pytest.FixtureRequest) -> Iterator[Table]:
    """Counts to be printed once all tests have added to them."""
    counts: Table = {}
    yield counts
    add_table(request.config, ("simulation", "steps", "states"), counts)


def live(place: str, seeds: range, steps: int, table: Table) -> Counter[str]:
    """Return how often each act and each fault happened."""
    counts: Counter[str] = Counter()
    for seed in seeds:
        world = lived(seed, is_local=place == "disk", steps=steps)
        counts += world.counts
        before = table.get(place, (0, 0))
        table[place] = before[0] + world.steps, before[1] + world.checks
    return counts


@pytest.mark.parametrize("place", PLACES)
def test_no_history_breaks_a_promise(place: str, table: Table) -> None:
    """A failure prints its seed; `python -m tests.simulation SEED PLACE` prints the shortest list of steps to it."""
    counts = live(place, range(SEEDS), STEPS, table)
    faults = {*LOSSES, "repaired", "kill", "clock back", "clock ahead", "error", "late"}
    faults |= (
        {"power loss", "full", "short", "lost pages", "missing"}
        if place == "disk"
        else {"lost", "doubled", "compacted"}
    )
    happened = {*ACTS, "read", "forgotten", "snap", "archive", "blob", "index"}
    assert all(counts[each] for each in faults | happened), counts


@pytest.mark.soak
@pytest.mark.parametrize("first", range(1_000, 1_500, 20))
@pytest.mark.parametrize("place", PLACES)
def test_a_million_steps_break_no_promise(place: str, first: int, table: Table) -> None:
    live(place, range(first, first + 20), 1_000, table)
