"""What several processes do to one session at a time, and what has to hold whatever the order of their steps."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from kaosmem.errors import KaosmemError
from kaosmem.persistence.steps import Lock
from kaosmem.persistence.storage.places import Storage
from kaosmem.testing import paths_holding
from tests.persistence.interleavings.actors import Actor, contents, reader, secret
from tests.persistence.interleavings.clients import Calls, DiskClient, object_client
from tests.persistence.interleavings.model_checker import DAY_S, Medium, Scenario, alone
from tests.persistence.interleavings.oracle import item_ids
from tests.persistence.interleavings.runs import Files, World
from tests.persistence.interleavings.simulations import Remove, SimulatedDisk, SimulatedObjects

Turn = Generator[Any, Any, Any]


class Kind(NamedTuple):
    """A storage, and how real code gets at it."""

    medium: Medium
    client: Callable[[Calls], Storage]


KINDS = {
    "disk": Kind(SimulatedDisk(), DiskClient),
    "objects": Kind(SimulatedObjects(), object_client),
}
EMPTY = World(Files.of({}))
FORGETTABLE = {"x2"}


def acting(kind, name, *turns, since=None):
    """Return the process of one who opens the session and takes these turns.

    since: the world in which it has opened the session already.
    """

    def process():
        actor = Actor(name, kind.client)
        if since is None:
            yield from actor.open()
        else:
            undisturbed(kind, since, actor.open())
        for turn in turns:
            yield from turn(actor)
        return actor.ids

    return process


def saves(*ids):
    return lambda actor: actor.save(*ids)


def snapshots(actor):
    return actor.snapshot()


def indexes(actor):
    return actor.index()


def rests(actor):
    return actor.rest()


def forgets(item_id):
    return lambda actor: actor.forget(item_id)


def reads(kind):
    return lambda: reader("reader", kind.client, check_read)


def stored(kind, *turns):
    """Return a world in which one has taken these turns, a day ago."""
    return replace(alone(kind.medium, EMPTY, acting(kind, "base", *turns)), clock=DAY_S)


def check_facts(ids, facts):
    """Assert that what was acknowledged is there, once and after what came before it."""
    gone = {fact[1] for fact in facts if fact[0] == "forgotten"}
    assert not gone & {*ids}, f"{gone & {*ids}} was forgotten"
    assert len({*ids}) == len(ids), f"twice: {ids}"
    for fact in facts:
        if fact[0] != "forgotten":
            item_id, before = fact
            expected = tuple(known for known in (*before, item_id) if known not in FORGETTABLE)
            found = tuple(known for known in ids if known not in FORGETTABLE)
            assert found[: len(expected)] == expected, (
                f"{expected} was acknowledged, and {found} is there"
            )


def check_read(ids, facts, world):
    """Assert that a reader saw what was acknowledged before it began, and a beginning of what is there after."""
    check_facts(ids, facts)
    check_whole(ids)
    now = item_ids(contents(world))
    kept = tuple(known for known in ids if known in now or known not in FORGETTABLE)
    assert (
        tuple(known for known in now if known in kept or known not in FORGETTABLE)[: len(kept)]
        == kept
    ), f"{ids} was read, {now} is there"


def check_whole(ids):
    """Assert that no commit is there by half: `a1+` is committed with `a1`, after it."""
    for index, item_id in enumerate(ids):
        if item_id.endswith("+"):
            assert index
            assert ids[index - 1] == item_id[:-1], f"half a commit: {ids}"
    for first in ("a1", "b1"):
        assert (first in ids) == (f"{first}+" in ids), f"half a commit: {ids}"


def checked(kind):
    """Return the invariant: what is stored holds what was acknowledged, and opening the session tells the same."""
    opened = {}

    def invariant(world):
        ids = item_ids(contents(world))
        check_facts(ids, world.facts)
        check_whole(ids)
        if world.files not in opened:
            try:
                opened[world.files] = read_back(kind, world)
            except KaosmemError as error:
                raise AssertionError(f"the session cannot be opened: {error!r}") from error
        assert opened[world.files] == ids, f"{opened[world.files]} is read where {ids} is stored"

    return invariant


def read_back(kind, world):
    actor = Actor("", kind.client)
    undisturbed(kind, world, actor.open())
    indexed = []
    undisturbed(kind, world, collected(actor.read_index(), indexed))
    known = [item_id for item_id in actor.ids if item_id not in FORGETTABLE]
    found = [item_id for item_id in indexed if item_id not in FORGETTABLE]
    assert found == known[: len(found)], (
        f"an index of {indexed} is used where {actor.ids} is stored"
    )
    return actor.ids


def collected(turn, found):
    found += yield from turn


def undisturbed(kind, world, turn):
    """Take a turn that only reads, in a world where nothing else happens."""
    answer = None
    with suppress(StopIteration):
        while True:
            performed = kind.medium.perform(world, "", turn.send(answer))
            assert performed
            assert performed[0] == world
            answer = performed[1].value


def deletes(kind):
    """Return the process of one who deletes the session."""

    def on_disk():
        yield Lock(True)
        yield Remove()

    def of_objects():
        calls = Calls()
        yield from calls.carry_out(lambda: object_client(calls).delete())

    return on_disk if kind.client is DiskClient else of_objects


def scenario(kind, cast, faults):
    """Return what is checked of a cast: at every moment, at each reader's return and at the end."""
    world, processes = cast
    # Who is killed, or gives a step up that is on its way, may leave what a next forgetting
    # deletes.
    at_end = no_trace if not {*faults} & {"kill", "late"} else lambda world, results: None
    return Scenario(
        kind.medium, processes, faults, start=world, invariant=checked(kind), at_end=at_end
    )


def no_trace(world, _):
    """Assert that what was forgotten is in no file."""
    for fact in world.facts:
        if fact[0] == "forgotten":
            traces = paths_holding(contents(world), secret(fact[1]))
            assert not traces, f"{fact[1]} is still in {traces}"


Turns = tuple[Callable[[Actor], Turn], ...]

STARTED = (saves("x1"), snapshots, saves("x2"), snapshots, saves("x3"))
SAVES_A, SAVES_B = saves("a1", "a1+"), saves("b1", "b1+")


@dataclass(frozen=True)
class Plan:
    """A cast on any storage.

    base: what was done a day ago. actors: what each does who has opened the session, but for those
        in `opening`.
    """

    base: Turns
    actors: Mapping[str, Turns]
    reader: bool = False
    opening: str = ""

    def cast(self, kind):
        world = stored(kind, *self.base)
        return world, self.processes(kind, world)

    def processes(self, kind, world):
        """Return who is there, each having opened the session in this world or about to."""
        processes = {
            name: acting(kind, name, *turns, since=None if name in self.opening else world)
            for name, turns in self.actors.items()
        }
        return processes | ({"reader": reads(kind)} if self.reader else {})


PLANS = {
    "a first open by two writers": Plan(
        (), {"a": (SAVES_A, saves("a2")), "b": (SAVES_B,)}, opening="ab"
    ),
    "two writers": Plan(STARTED, {"a": (SAVES_A, saves("a2")), "b": (SAVES_B,)}, opening="ab"),
    "two writers, a reader": Plan(STARTED, {"a": (SAVES_A,), "b": (SAVES_B,)}, reader=True),
    "two writers of a new session, a reader": Plan(
        (), {"a": (SAVES_A,), "b": (SAVES_B,)}, reader=True
    ),
    "three writers": Plan(STARTED, {"a": (SAVES_A,), "b": (SAVES_B,), "c": (saves("c1"),)}),
    "two writers, a snapshotter": Plan(
        STARTED, {"a": (SAVES_A,), "b": (SAVES_B,), "s": (snapshots,)}
    ),
    "two snapshotters": Plan(STARTED, {"a": (SAVES_A, snapshots), "s": (saves("s1"), snapshots)}),
    "two cleanings, a reader": Plan(
        (saves("x1"), saves("x3")),
        {"s": (saves("s1"), snapshots, saves("s2"), snapshots)},
        reader=True,
    ),
    "a writer, a cleaner, a reader": Plan(
        STARTED, {"a": (SAVES_A, snapshots), "b": (SAVES_B,)}, reader=True
    ),
    "a stale writer, a cleaner": Plan(
        STARTED, {"a": (SAVES_A,), "s": (saves("s1"), snapshots, saves("s2"), snapshots)}
    ),
    "a writer, a snapshotter, one who opens": Plan(
        (saves("x1"),), {"a": (SAVES_A,), "b": (SAVES_B,), "s": (snapshots,)}, opening="bs"
    ),
    "a writer, a forgetter": Plan(STARTED, {"a": (SAVES_A,), "f": (forgets("x2"),)}),
    "a snapshotter, a forgetter": Plan(STARTED, {"a": (SAVES_A, snapshots), "f": (forgets("x2"),)}),
    "two forgetters": Plan(
        (saves("x1"), saves("x2")), {"f": (forgets("x2"),), "g": (forgets("x2"),)}
    ),
    "a forgetter, a reader": Plan((saves("x1"), saves("x2")), {"f": (forgets("x2"),)}, reader=True),
    "a forgetter in one segment, a reader": Plan(
        (saves("x1", "x2"),), {"f": (forgets("x2"),)}, reader=True
    ),
    "a forgetter after a snapshot, a reader": Plan(
        (saves("x1"), saves("x2"), snapshots, saves("x3")), {"f": (forgets("x2"),)}, reader=True
    ),
    "a writer, a forgetter, a reader": Plan(
        STARTED, {"a": (SAVES_A,), "f": (forgets("x2"),)}, reader=True
    ),
    "an indexer, a snapshotter": Plan(
        (saves("x1"), indexes), {"i": (saves("i1"), indexes), "s": (saves("s1"), snapshots)}
    ),
    "two indexers": Plan(
        (saves("x1"), indexes), {"a": (SAVES_A, indexes), "i": (saves("i1"), indexes)}
    ),
    "an indexer, a forgetter": Plan(
        (saves("x1"), saves("x2")), {"i": (indexes,), "f": (forgets("x2"),)}
    ),
    "an indexer, a forgetter and a snapshot": Plan(
        (saves("x1"), saves("x2"), indexes),
        {"i": (indexes,), "f": (forgets("x2"), saves("f1"), snapshots)},
    ),
    "days between": Plan(
        STARTED,
        {
            "a": (rests, SAVES_A),
            "s": (rests, saves("s1"), snapshots, rests, saves("s2"), snapshots),
        },
    ),
}
