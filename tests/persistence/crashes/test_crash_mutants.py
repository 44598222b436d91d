"""The checks of `test_crashes` and `test_io_errors` fail for each fault put into the log, and for the right reason."""

from __future__ import annotations

import pytest

from tests.persistence.crashes.crash_mutants import LIVES, MUTANTS, Mutant
from tests.persistence.crashes.exploration import Explorer
from tests.persistence.crashes.failing_disk import LASTING, ONCE
from tests.persistence.crashes.promises import BrokenPromiseError
from tests.persistence.crashes.scenarios import FORGET, FORGOTTEN, OVERTAKEN, SHORT
from tests.persistence.crashes.trials import retry, try_all


def find(mutant: Mutant) -> None:
    """Do what is to find a fault."""
    match mutant.by:
        case "crash":
            Explorer().crash(LIVES[mutant.scenario])
        case "kill":
            Explorer().kill(LIVES[mutant.scenario])
        case "overtake":
            Explorer().overtake(*OVERTAKEN[mutant.scenario])
        case "forget":
            Explorer().kill(FORGOTTEN[mutant.scenario], then=[FORGET])
        case "fail":
            for fault in (*ONCE, *LASTING):
                try_all(LIVES[mutant.scenario], fault, [retry])


@pytest.mark.parametrize("name", SHORT)
def test_no_fault_is_found_without_one(name: str) -> None:
    Explorer().crash(SHORT[name], every=4)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_each_fault_is_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check that passes without the fault fails with it, for the reason that it is there for."""
    mutant.put(monkeypatch)
    with pytest.raises(BrokenPromiseError, match=mutant.breaks):
        find(mutant)
