"""What the caller of a session log was promised, and whether a disk keeps it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from kaosmem.errors import ConflictError, KaosmemError
from kaosmem.persistence.files.records import Change
from kaosmem.persistence.log import SessionLog
from kaosmem.persistence.storage.local import LocalStorage
from kaosmem.testing import paths_holding
from tests.persistence.worlds import newest
from tests.simulation import power_loss
from tests.simulation.disk import SimulatedDisk

ROOT, NAME, FOLDER = Path("/disk"), "s", "/disk/default/s"

Commit = tuple[Change, ...]
History = tuple[Commit, ...]
Items = dict[str, tuple[str, Mapping[str, Any]]]


class BrokenPromiseError(AssertionError):
    """A disk does not keep what was promised."""


@dataclass(eq=False, frozen=True)
class Promise:
    """What a session must hold.

    possible: the histories that it may have, that of what was acknowledged first; () for a session
        that is not there.
    forgotten: texts that no file may hold.
    """

    possible: tuple[History, ...] = ((),)
    forgotten: frozenset[str] = frozenset()

    @cached_property
    def digest(self):
        """Return a number that equal promises share."""
        return hash((repr(self.possible), self.forgotten))


@dataclass
class Holding:
    """What a session holds: its items by id, in order, and those that were evicted."""

    seq: int = 0
    live: Items = field(default_factory=dict)
    evicted: Items = field(default_factory=dict)

    @classmethod
    def after(cls, history):
        """Return what a session with these commits holds."""
        changes = [change for commit in history for change in commit]
        holding = cls(len(changes))
        for change in changes:
            holding.apply(change.section, change.op, change.data)
        return holding

    @classmethod
    def read(cls, log, recovered):
        """Return what a session was opened with; what was evicted before its snapshot is in the archive."""
        holding = cls(log.seq, {data["id"]: (section, data) for section, data in recovered.items})
        for record in recovered.records:
            holding.apply(record.section, record.op, record.data)
        return holding

    def apply(self, section, op, data):
        """Do what a change says."""
        match op:
            case "add":
                self.live[data["id"]] = section, data
            case "evict":
                self.evicted[data["id"]] = self.live.pop(data["id"])
            case "forget":
                self.live.pop(data["id"], None)
                self.evicted.pop(data["id"], None)


def words_of(history):
    """Return what stands for an index of what a session with these commits holds."""
    return json.dumps(list(Holding.after(history).live.values())).encode()


def evict(item_id):
    return Change("messages", "evict", {"id": item_id})


def storage_on(disk):
    """Return the session's storage on a disk."""
    return LocalStorage(ROOT, "default", "s", disk=disk)


@contextmanager
def durability_errors_alone():
    """Take an error of the disk that is raised as it is, instead of a DurabilityError, for a broken promise."""
    try:
        yield
    except OSError as error:
        if not isinstance(error, KaosmemError):
            raise BrokenPromiseError(f"a write raises {error!r}") from error
        raise


class Witness:
    """Watches a disk: before each call that changes it, what a power loss may leave, with the promise of the moment."""

    def __init__(self, disk):
        self.promise = Promise()
        self.points = 0
        self.states = {}
        self.disk = disk
        disk.watch = self.look

    def look(self, call=""):
        """Note what a power loss may leave now."""
        self.points += 1
        for image in power_loss.states(self.disk):
            self.states.setdefault((frozenset(image.items()), self.promise), image)

    @property
    def found(self):
        """Each different state, with what was promised then."""
        return [(image, promise) for (_, promise), image in self.states.items()]


class Session:
    """A caller of one session: what it committed, and what it was promised."""

    def __init__(self, disk, *, promise=None, witness=None):
        self.disk = disk
        self.witness = witness
        self.log = None
        self.promise = promise or Promise()
        self.promised(*self.promise.possible)
        self.open()

    def open(self):
        """Take a new handle on the session, which must hold one of the histories that are possible."""
        self.log, recovered = SessionLog.over(storage_on(self.disk), NAME)
        self.damage = recovered.damage
        self.history = held(self.log, recovered, self.promise)
        self.evicted = Holding.read(self.log, recovered).evicted

    def commit(self, *changes):
        after = (*self.history, changes)
        self.promised(*self.promise.possible, *[after][: after not in self.promise.possible])
        with durability_errors_alone():
            self.log.commit(changes)
        before = Holding.after(self.history).evicted
        now = Holding.after(after).evicted
        self.evicted |= {
            item_id: item for item_id, item in now.items() if item != before.get(item_id)
        }
        self.evicted = {item_id: item for item_id, item in self.evicted.items() if item_id in now}
        self.history = after
        self.promised(after)

    def commit_after(self, *changes):
        """Commit, after whatever others have committed since this handle was opened."""
        try:
            self.commit(*changes)
        except ConflictError:
            self.log.adopt(self.log.catch_up())
            self.promised(*(history for history in self.promise.possible if changes not in history))
            found = [
                history
                for history in self.promise.possible
                if Holding.after(history).seq == self.log.seq
            ]
            if not found:
                raise BrokenPromiseError(
                    f"caught up to record {self.log.seq}, where no history ends"
                ) from None
            self.history = found[0]
            self.commit(*changes)

    def snapshot(self, *meanwhile):
        """Store the state, after other changes are committed if there are any."""
        at = self.log.end
        archived = dict(self.evicted)
        items = list(Holding.after(self.history).live.values())
        if meanwhile and meanwhile not in self.history:
            self.commit(*meanwhile)
        with durability_errors_alone():
            self.log.snapshot({"count": len(items)}, items, archived=archived.values(), at=at)
        self.evicted = {
            item_id: item for item_id, item in self.evicted.items() if item_id not in archived
        }

    def index(self):
        """Keep an index of what the session holds."""
        with durability_errors_alone():
            self.log.store_index(
                "messages", {"seq": self.log.seq}, [words_of(self.history)], at=self.log.end
            )

    def forget(self, item_id, text):
        """Forget an item, so that its text is nowhere any more."""
        holding = Holding.after(self.history)
        if item_id in holding.live or item_id in holding.evicted:
            self.commit(Change("messages", "forget", {"id": item_id}))
        self.promised(self.history)
        archived = [*self.log.archives.all(), *self.evicted.values()]
        items = Holding.after(self.history).live.values()
        kept = [entry for entry in archived if entry[1]["id"] != item_id]
        with durability_errors_alone():
            try:
                self.log.purge({}, items, archived=kept)
            except ConflictError:  # with what was begun before an error
                self.log.adopt(self.log.catch_up())
                self.log.purge({}, items, archived=kept)
        self.evicted = {}
        self.promised(self.history, forgotten=self.promise.forgotten | {text})

    def tear(self, torn, *, sector=0):
        """Leave bytes at the end of the log, as a writer that was killed does; the session is to be opened again.

        sector: NULs up to the end of a sector of this size come before them.
        """
        disk = getattr(self.disk, "disk", self.disk)
        segment = max(path for path in disk.image if path.startswith(f"{FOLDER}/log/"))
        watch = disk.watch
        disk.watch = None
        descriptor = disk.open(segment, os.O_WRONLY | os.O_APPEND)
        torn = bytes(-disk.size(descriptor) % sector if sector else 0) + torn
        disk.write(descriptor, torn)
        disk.sync(descriptor)
        disk.close(descriptor)
        disk.watch = watch
        self.promised(self.history)

    def delete(self):
        self.promised(self.history, ())
        storage_on(self.disk).delete()
        self.promised(())
        self.open()

    def promised(self, *possible, **other):
        """Note what is promised from now on."""
        self.promise = replace(self.promise, possible=possible, **other)
        if self.witness is not None:
            self.witness.promise = self.promise


def held(log, recovered, promise):
    """Return which of the promised histories a session has. Raises BrokenPromiseError."""
    found = Holding.read(log, recovered)
    for history in promise.possible:
        expected = Holding.after(history)
        if (found.seq, list(found.live.items())) == (expected.seq, list(expected.live.items())):
            for item_id, item in expected.evicted.items():
                if item != found.evicted.get(item_id) and item != newest(log, item_id):
                    raise BrokenPromiseError(f"evicted item {item_id!r} can't be retrieved")
            return history
    seqs = [Holding.after(history).seq for history in promise.possible]
    raise BrokenPromiseError(f"{found.seq} records with {list(found.live)}, possible are {seqs}")


def check_index(log, history):
    """Raise BrokenPromiseError if the session has an index that is not of a state that it was in."""
    found = log.index("messages")
    if found is not None:
        ended = [history[:count] for count in range(len(history) + 1)]
        words = {len(sum(each, ())): words_of(each) for each in ended}
        if words.get(found[0]["seq"]) != bytes(found[1]):
            raise BrokenPromiseError("an index is of another state")


@lru_cache(maxsize=10_000)
def holds(path, content, forgotten):
    """Return whether a file holds a forgotten text. Most files are the same in many states."""
    return bool(paths_holding({path: content}, *forgotten))


_KEPT = set()
"""Digests of the disks that keep their promises. Many acts leave the same disk."""


def check(image, promise):
    """Raise BrokenPromiseError unless a disk that was restarted keeps a promise.

    Each disk is looked at once with each promise.
    """
    digest = hash((frozenset(image.items()), promise.digest))
    if digest not in _KEPT:
        _look_at(image, promise)
        _KEPT.add(digest)


def _look_at(image, promise):
    disk = SimulatedDisk(image)
    try:
        log, recovered = SessionLog.over(storage_on(disk), NAME)
        history = held(log, recovered, promise)
        check_index(log, history)
    except (KaosmemError, OSError) as error:
        raise BrokenPromiseError(f"the session can't be read: {error!r}") from error
    if disk.calls:
        raise BrokenPromiseError("reading the session wrote something")
    if strange := [damage for damage in recovered.damage if "unfinished commit" not in str(damage)]:
        raise BrokenPromiseError(f"a power loss left damage: {strange}")
    if found := [
        path
        for path, content in image.items()
        if promise.forgotten and holds(path, content, promise.forgotten)
    ]:
        raise BrokenPromiseError(f"a forgotten text is in {found}")
