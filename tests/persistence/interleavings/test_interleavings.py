"""Several writers, cleaners and readers of one session, in every order of their steps, with faults."""

from contextlib import suppress

import pytest

from kaosmem.errors import ConflictError, CorruptionError
from kaosmem.persistence import checkpoint, commit_log
from tests.persistence.interleavings.actors import contents, txns
from tests.persistence.interleavings.casts import (
    KINDS,
    PLANS,
    SAVES_A,
    STARTED,
    acting,
    deletes,
    read_back,
    saves,
    scenario,
    stored,
)
from tests.persistence.interleavings.model_checker import Coverage, Scenario, explore
from tests.persistence.interleavings.oracle import item_ids
from tests.tables import add_table

DISK, OBJECTS = "disk", "objects"
FAULTS = {
    DISK: [{}, {"lost": 1}, {"error": 1}, {"kill": 1}, {"part": 1}, {"part": 1, "kill": 1}],
    OBJECTS: [{}, {"lost": 1}, {"error": 1}, {"kill": 1}, {"late": 1}],
}
BRIEF = [
    (DISK, "two writers", {"lost": 1}),
    (DISK, "two writers", {"part": 1}),
    (DISK, "a forgetter, a reader", {}),
    (DISK, "an indexer, a forgetter", {}),
    (DISK, "a writer, a forgetter", {}),
    (OBJECTS, "two writers", {"lost": 1}),
    (OBJECTS, "an indexer, a forgetter", {}),
    (OBJECTS, "a writer, a forgetter", {}),
    (OBJECTS, "two forgetters", {}),
    (OBJECTS, "a forgetter in one segment, a reader", {}),
    (OBJECTS, "a forgetter after a snapshot, a reader", {}),
]


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Segments that are rolled up by twos, and ids of commits that are the same in every run."""
    monkeypatch.setattr(checkpoint, "ROLL_UP", 2)
    monkeypatch.setattr(commit_log, "secrets", txns)


@pytest.fixture(scope="module")
def table(request):
    """Counts to be printed once all tests have added to them."""
    counts = {}
    yield counts
    rows = {**counts, "all": Coverage(*map(sum, zip((0, 0), *counts.values(), strict=True)))}
    header = ("interleavings", "states", f"{'schedules':>26}", "violations")
    add_table(request.config, header, {name: (*count, 0) for name, count in rows.items()})


def title(storage, name, faults):
    return f"{storage}: {name}" + "".join(f", {count} {fault}" for fault, count in faults.items())


@pytest.mark.parametrize(("storage", "name", "faults"), BRIEF, ids=[title(*case) for case in BRIEF])
def test_no_interleaving_loses_anything(storage, name, faults, table):
    """Whatever the order of steps and the faults, all that was acknowledged is there, once, whole and in order."""
    kind = KINDS[storage]
    table[title(storage, name, faults)] = explore(scenario(kind, PLANS[name].cast(kind), faults))


@pytest.mark.soak
@pytest.mark.parametrize("storage", KINDS)
@pytest.mark.parametrize("name", PLANS)
def test_no_interleaving_of_any_plan_loses_anything(storage, name, table):
    """The same for every plan, each with every fault."""
    kind = KINDS[storage]
    for faults in FAULTS[storage] if name != "days between" else [{"day": 1}]:
        table[title(storage, name, faults)] = explore(
            scenario(kind, PLANS[name].cast(kind), faults)
        )


@pytest.mark.parametrize("storage", KINDS)
def test_a_writer_never_writes_into_a_session_made_anew(storage, table):
    """Who has a session open that is deleted and made anew is told so; the new one has its own items alone.

    Where nothing locks, who opens the session while the other takes its commit back may be told of damage.
    """
    kind = KINDS[storage]
    told = () if storage == DISK else (CorruptionError,)
    world = stored(kind, *STARTED)

    def recreates():
        yield from deletes(kind)()
        with suppress(*told):
            yield from acting(kind, "n", saves("n1", "n1+"))()

    def stale():
        with suppress(ConflictError):
            yield from acting(kind, "a", SAVES_A, since=world)()

    def at_end(after, _):
        found = item_ids(contents(after))
        assert found == read_back(kind, after)
        assert found == ("n1", "n1+") or (told and not found)

    made_anew = Scenario(kind.medium, {"a": stale, "n": recreates}, start=world, at_end=at_end)
    table[title(storage, "a stale writer, a deletion, another session", {})] = explore(made_anew)
