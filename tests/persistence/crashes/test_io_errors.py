"""An error of any call to the disk loses nothing that was acknowledged, and no longer than it lasts."""

import pytest

from tests.persistence.crashes.failing_disk import LASTING, ONCE
from tests.persistence.crashes.scenarios import SCENARIOS, SHORT
from tests.persistence.crashes.trials import REMEDIES, try_all
from tests.tables import add_table


@pytest.fixture(scope="module")
def table(request):
    """Counts to be printed once all tests have added to them."""
    counts = {}
    yield counts
    rows = {name: (count, 0) for name, count in {**counts, "all": sum(counts.values())}.items()}
    add_table(request.config, ("error of each call in turn", "errors", "lost"), rows)


FAULTS = {
    **{f"once: {fault.name}": fault for fault in ONCE},
    **{f"lasting: {fault.name}": fault for fault in LASTING},
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", SHORT)
def test_no_error_of_the_disk_loses_anything(name, fault, table):
    """Whichever call fails, a write fails with a DurabilityError at most, and doing it again, opening the session
    again, or going on with the same handle gives each record once, durably.

    Each fault is met at a third of the calls, the next fault at the next third; the soak takes all.
    """
    first = [*FAULTS].index(fault) % 3
    failed = try_all(SHORT[name], FAULTS[fault], REMEDIES, first=first, step=3)
    if not failed:  # of few calls none is in this third
        failed = try_all(SHORT[name], FAULTS[fault], REMEDIES)
    table[fault] = table.get(fault, 0) + failed
    assert failed


@pytest.mark.soak
@pytest.mark.parametrize("remedy", REMEDIES)
@pytest.mark.parametrize("name", SCENARIOS)
def test_every_remedy_helps_against_every_error(name, remedy, table):
    for fault in FAULTS:
        table[fault] = table.get(fault, 0) + try_all(SCENARIOS[name], FAULTS[fault], [remedy])
