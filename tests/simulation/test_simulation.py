"""Whatever befalls its processes, disk and network, a session loses nothing, shows nothing forgotten and ends."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.simulation.life import lived
from tests.tables import add_table

Table = dict[str, tuple[int, int]]
PLACES = "disk", "objects"
STEPS = 600


@pytest.fixture(scope="module")
def table(request: pytest.FixtureRequest) -> Iterator[Table]:
    """Counts to be printed once all tests have added to them."""
    counts: Table = {}
    yield counts
    add_table(request.config, ("simulation", "steps", "states"), counts)


def live(place: str, seeds: range, steps: int, table: Table) -> None:
    for seed in seeds:
        world = lived(seed, is_local=place == "disk", steps=steps)
        before = table.get(place, (0, 0))
        table[place] = before[0] + world.steps, before[1] + world.checks


@pytest.mark.parametrize("first", range(0, 40, 5))
@pytest.mark.parametrize("place", PLACES)
def test_no_history_breaks_a_promise(place: str, first: int, table: Table) -> None:
    """A failure prints its seed; `python -m tests.simulation SEED PLACE` prints the shortest list of steps to it."""
    live(place, range(first, first + 5), STEPS, table)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(1_000, 1_500, 20))
@pytest.mark.parametrize("place", PLACES)
def test_a_million_steps_break_no_promise(place: str, first: int, table: Table) -> None:
    live(place, range(first, first + 20), 1_000, table)
