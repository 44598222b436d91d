"""Several writers, cleaners and readers of one session, in every order of their steps, with faults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import pytest

from kaosmem.errors import ConflictError, CorruptionError
from kaosmem.persistence import checkpoint, commit, indexes, recovery
from kaosmem.persistence import log as log_module
from tests.persistence.interleavings import mutants
from tests.persistence.interleavings.actors import contents, txns
from tests.persistence.interleavings.casts import (
    KINDS,
    PLANS,
    SAVES_A,
    STARTED,
    Kind,
    Turn,
    acting,
    deletes,
    read_back,
    saves,
    scenario,
    stored,
)
from tests.persistence.interleavings.clients import object_client
from tests.persistence.interleavings.model_checker import Coverage, Scenario, ViolationError, explore
from tests.persistence.interleavings.oracle import item_ids
from tests.persistence.interleavings.runs import World
from tests.tables import add_table

Table = dict[str, Coverage]

DISK, OBJECTS = "disk", "objects"
FAULTS = {
    DISK: [{}, {"lost": 1}, {"error": 1}, {"kill": 1}, {"part": 1}, {"part": 1, "kill": 1}],
    OBJECTS: [{}, {"lost": 1}, {"error": 1}, {"kill": 1}, {"late": 1}],
}
BRIEF = [
    (DISK, "a first open by two writers", {"lost": 1}),
    (DISK, "a first open by two writers", {"part": 1, "kill": 1}),
    (DISK, "two writers", {"lost": 1}),
    (DISK, "two writers", {"error": 1}),
    (DISK, "two writers", {"part": 1, "kill": 1}),
    (DISK, "two writers, a reader", {"lost": 1}),
    (DISK, "two writers, a reader", {"part": 1, "kill": 1}),
    (DISK, "two writers of a new session, a reader", {"part": 1, "kill": 1}),
    (DISK, "three writers", {"kill": 1}),
    (DISK, "two writers, a snapshotter", {"kill": 1}),
    (DISK, "two snapshotters", {"kill": 1}),
    (DISK, "two cleanings, a reader", {"error": 1}),
    (DISK, "two cleanings, a reader", {"part": 1, "kill": 1}),
    (DISK, "a writer, a cleaner, a reader", {}),
    (DISK, "a writer, a snapshotter, one who opens", {"part": 1}),
    (DISK, "a writer, a forgetter", {"kill": 1}),
    (DISK, "a forgetter, a reader", {"kill": 1}),
    (DISK, "an indexer, a snapshotter", {"kill": 1}),
    (DISK, "two indexers", {"kill": 1}),
    (DISK, "an indexer, a forgetter", {"kill": 1}),
    (OBJECTS, "an indexer, a snapshotter", {}),
    (OBJECTS, "two indexers", {}),
    (OBJECTS, "an indexer, a forgetter", {}),
    (OBJECTS, "an indexer, a forgetter", {"lost": 1}),
    (OBJECTS, "an indexer, a forgetter", {"error": 1}),
    (OBJECTS, "an indexer, a forgetter and a snapshot", {}),
    (OBJECTS, "a first open by two writers", {"lost": 1}),
    (OBJECTS, "a first open by two writers", {"late": 1}),
    (OBJECTS, "two writers", {"lost": 1}),
    (OBJECTS, "two writers", {"kill": 1}),
    (OBJECTS, "two writers, a reader", {"lost": 1}),
    (OBJECTS, "two writers of a new session, a reader", {"error": 1}),
    (OBJECTS, "two cleanings, a reader", {"lost": 1, "kill": 1}),
    (OBJECTS, "a writer, a forgetter", {}),
    (OBJECTS, "a forgetter, a reader", {"lost": 1}),
    (OBJECTS, "a forgetter in one segment, a reader", {"kill": 1}),
    (OBJECTS, "a forgetter after a snapshot, a reader", {"kill": 1}),
]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments that are rolled up by twos, and ids of commits that are the same in every run."""
    monkeypatch.setattr(checkpoint, "ROLL_UP", 2)
    monkeypatch.setattr(log_module, "secrets", txns)


@pytest.fixture(scope="module")
def table(request: pytest.FixtureRequest) -> Iterator[Table]:
    """Counts to be printed once all tests have added to them."""
    counts: Table = {}
    yield counts
    rows = {**counts, "all": Coverage(*map(sum, zip((0, 0), *counts.values(), strict=True)))}
    header = ("interleavings", "states", f"{'schedules':>26}", "violations")
    add_table(request.config, header, {name: (*count, 0) for name, count in rows.items()})


def title(storage: str, name: str, faults: Mapping[str, int]) -> str:
    return f"{storage}: {name}" + "".join(f", {count} {fault}" for fault, count in faults.items())


@pytest.mark.parametrize(("storage", "name", "faults"), BRIEF, ids=[title(*case) for case in BRIEF])
def test_no_interleaving_loses_anything(storage: str, name: str, faults: dict[str, int], table: Table) -> None:
    """Whatever the order of steps and the faults, all that was acknowledged is there, once, whole and in order."""
    kind = KINDS[storage]
    table[title(storage, name, faults)] = explore(scenario(kind, PLANS[name].cast(kind), faults))


@pytest.mark.soak
@pytest.mark.parametrize("storage", KINDS)
@pytest.mark.parametrize("name", PLANS)
def test_no_interleaving_of_any_plan_loses_anything(storage: str, name: str, table: Table) -> None:
    """The same for every plan, each with every fault."""
    kind = KINDS[storage]
    for faults in FAULTS[storage] if name != "days between" else [{"day": 1}]:
        table[title(storage, name, faults)] = explore(scenario(kind, PLANS[name].cast(kind), faults))


@pytest.mark.parametrize("storage", KINDS)
def test_a_writer_never_writes_into_a_session_made_anew(storage: str, table: Table) -> None:
    """Who has a session open that is deleted and made anew is told so; the new one has its own items alone.

    Where nothing locks, who opens the session while the other takes its commit back may be told of damage.
    """
    kind = KINDS[storage]
    told = () if storage == DISK else (CorruptionError,)
    world = stored(kind, *STARTED)

    def recreates() -> Turn:
        yield from deletes(kind)()
        with suppress(*told):
            yield from acting(kind, "n", saves("n1", "n1+"))()

    def stale() -> Turn:
        with suppress(ConflictError):
            yield from acting(kind, "a", SAVES_A, since=world)()

    def at_end(after: World, _: Mapping[str, Any]) -> None:
        found = item_ids(contents(after))
        assert found == read_back(kind, after)
        assert found == ("n1", "n1+") or (told and not found)

    made_anew = Scenario(kind.medium, {"a": stale, "n": recreates}, start=world, at_end=at_end)
    table[title(storage, "a stale writer, a deletion, another session", {})] = explore(made_anew)


class Mutation(NamedTuple):
    """A fault in the protocol, and the plan that shows it.

    made: a storage that disobeys, or what is to be in the place of `replaced`: a module and a name in it.
    also: what is replaced beside it, where two parts guard against the same.
    """

    made: Any
    storage: str
    plan: str
    faults: Mapping[str, int] = {}
    replaced: tuple[Any, str] | None = None
    also: tuple[Any, str, Any] | None = None

    def kind(self) -> Kind:
        medium, client = KINDS[self.storage]
        if self.replaced:
            return Kind(medium, client)
        if issubclass(self.made, mutants.Disobedient):
            return Kind(medium, lambda calls: self.made(client(calls)))
        return Kind(medium, lambda calls: object_client(calls, self.made))


MUTATIONS = [
    Mutation(mutants.NeverLocks, DISK, "two writers", {"part": 1}),
    Mutation(mutants.UnlocksTooEarly, DISK, "two writers", {"part": 1}),
    Mutation(mutants.LooksBeforeLocking, DISK, "two writers", {"part": 1}),
    Mutation(mutants.StoresUnconditionally, OBJECTS, "two writers"),
    Mutation(mutants.ListsSnapshotsFirst, DISK, "a forgetter, a reader"),
    Mutation(mutants.blanks_trusted, OBJECTS, "a forgetter in one segment, a reader", {}, (recovery, "_check_blank")),
    Mutation(mutants.LeavesIndexes, DISK, "an indexer, a forgetter"),
    Mutation(mutants.index_trusted, DISK, "an indexer, a forgetter", {}, (indexes, "_is_clean")),
    Mutation(mutants.index_trusted_on_the_way, OBJECTS, "an indexer, a forgetter", {}, (indexes, "_is_welcome")),
    Mutation(mutants.SnapshotLast, DISK, "a writer, a forgetter"),
    Mutation(
        mutants.DeletesAtOnce,
        OBJECTS,
        "a stale writer, a cleaner",
        also=(commit, "_is_still_there", mutants.taken_for_there),
    ),
    Mutation(mutants.TakesAnyFailureForTaken, OBJECTS, "two writers", {"lost": 1}),
    Mutation(mutants.roll_up_that_deletes_first, OBJECTS, "two writers", {}, (log_module, "roll_up")),
    Mutation(mutants.roll_up_that_trusts_names, OBJECTS, "two writers", {}, (log_module, "roll_up")),
    Mutation(mutants.catch_up_without_txn, DISK, "two writers", {"lost": 1}, (log_module, "catch_up")),
    Mutation(mutants.freed, OBJECTS, "a writer, a forgetter", {}, (checkpoint, "_blank")),
    Mutation(commit.check_unmoved, DISK, "a writer, a forgetter", {}, (checkpoint, "check_last")),
]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.made.__name__)
def test_a_fault_in_the_protocol_is_caught(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each mutant loses, doubles or mixes something in some schedule, and the check says which."""
    kind, plan = KINDS[mutation.storage], PLANS[mutation.plan]
    world, _ = plan.cast(kind)
    if mutation.replaced:
        monkeypatch.setattr(*mutation.replaced, mutation.made)
    if mutation.also:
        monkeypatch.setattr(*mutation.also)
    with pytest.raises(ViolationError) as caught:
        explore(scenario(kind, (world, plan.processes(mutation.kind(), world)), mutation.faults))
    assert caught.value.schedule
