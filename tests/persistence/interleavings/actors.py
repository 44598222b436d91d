"""Those who share a session in the model checker: writers, snapshotters, readers and forgetters, with the real log."""

from __future__ import annotations

import copy
from contextlib import suppress
from typing import TypeVar

from kaosmem.errors import ConflictError, DurabilityError
from kaosmem.persistence.commit import LogSinceSnapshot
from kaosmem.persistence.files.records import Change
from kaosmem.persistence.layout import log_file
from kaosmem.persistence.log import SessionLog
from tests.persistence.interleavings.clients import Calls
from tests.persistence.interleavings.oracle import item_ids
from tests.persistence.interleavings.runs import Acknowledge, Began, Expect, Rest
from tests.persistence.worlds import OPENING, add

_Result = TypeVar("_Result")

TRIES = 6


class Txns:
    """Ids of commits that are the same whenever an operation is run anew, in the place of the module `secrets`."""

    next = ""

    def token_hex(self, _):
        return self.next


txns = Txns()


def secret(item_id):
    """Return an item's text, which is to be found nowhere once the item is forgotten."""
    return f"secret of {item_id}"


def contents(world):
    return {path: data for path, (data, _) in world.files.items()}


class Actor:
    """One who has the session open.

    ids: of the items that it knows of, in the order of their commits.
    """

    def __init__(self, name, storage):
        self.name = name
        self.ids = ()
        self.now = 0.0
        self._calls = Calls()
        self._make_storage = storage
        self._log: SessionLog
        self._operations = 0

    def open(self):
        """Read the session, again if the storage fails."""
        while True:
            try:
                self._log, recovered = yield from self._do(self._opened)
                break
            except OSError:
                continue
        self.ids = _item_ids(recovered)

    def save(self, *ids):
        """Commit items, on top of what others have committed if need be, and tell the world."""
        for _ in range(TRIES):
            changes = [
                *([] if self._log.seq else [OPENING]),
                *(add(item_id, secret(item_id)) for item_id in ids),
            ]
            try:
                yield from self._do(lambda changes=changes: self._log.commit(changes))
            except DurabilityError:
                continue
            except ConflictError:
                yield Expect(_another_moved_the_log(self.ids, ids, self._log._head.segment))
                if (yield from self.catch_up()):
                    break
            else:
                self.ids += ids
                break
        else:
            raise AssertionError(f"{self.name} could not save in {TRIES} tries")
        for item_id in ids:
            yield Acknowledge((item_id, self.ids[: self.ids.index(item_id)]))

    def catch_up(self):
        """Take over what others have committed, and return whether the unsettled commit is among it."""
        log_changes = yield from self._again(lambda: self._log.catch_up())
        self._log.adopt(log_changes)
        known = () if log_changes.is_whole else self.ids
        self.ids = _item_ids(log_changes.recovered, known)
        return log_changes.is_settled

    def snapshot(self):
        """Store the state and prune; not where another has forgotten something since, and deleted what came before."""
        items = self._items()
        try:
            return (yield from self._again(lambda: self._log.snapshot({}, items, at=self._log.end)))
        except ConflictError:
            yield Expect(_another_moved_the_log(self.ids, (), self._log._head.segment))
            return False

    def index(self):
        """Keep an index of what is known; not where another has shortened the log or forgotten something since."""
        header = {"ids": list(self.ids)}
        words = [secret(item_id).encode() for item_id in self.ids]
        with suppress(ConflictError):
            yield from self._again(
                lambda: self._log.store_index("messages", header, words, at=self._log.end)
            )

    def read_index(self):
        """Return the ids of what is in the index that is kept, none without one."""
        found = yield from self._do(lambda: self._log.index("messages"))
        if found is None:
            return ()
        assert bytes(found[1]) == b"".join(secret(item_id).encode() for item_id in found[0]["ids"])
        return tuple(found[0]["ids"])

    def forget(self, item_id):
        """Commit that an item is to be forgotten, and delete everything older."""
        change = Change("messages", "forget", {"id": item_id})
        archived = [
            ("messages", {"id": "archived", "by": self.name})
        ]  # no other writes the same file
        for _ in range(TRIES):
            try:
                if item_id in self.ids:
                    yield from self._do(lambda: self._log.commit([change]))
                    self.ids = tuple(known for known in self.ids if known != item_id)
                yield from self._do(lambda: self._log.purge({}, self._items(), archived=archived))
            except DurabilityError:
                continue
            except ConflictError:
                if (yield from self.catch_up()):
                    self.ids = tuple(known for known in self.ids if known != item_id)
            else:
                break
        else:
            raise AssertionError(f"{self.name} could not forget in {TRIES} tries")
        yield Acknowledge(("forgotten", item_id))

    def rest(self):
        """Let time pass."""
        self.now = yield Rest()

    def _items(self):
        return [("messages", {"id": item_id, "content": secret(item_id)}) for item_id in self.ids]

    def _opened(self):
        return SessionLog.over(self._make_storage(self._calls), clock=lambda: self.now)

    def _again(self, operation):
        for _ in range(TRIES):
            try:
                return (yield from self._do(operation))
            except DurabilityError:
                continue
        raise AssertionError(f"{self.name} could not finish in {TRIES} tries")

    def _do(self, operation):
        """Carry out an operation on the log, which is put back as it was wherever it is run anew."""
        log = getattr(self, "_log", None)
        before = _twin(vars(log)) if log else {}
        self._operations += 1
        number = self._operations

        def run():
            if log is not None:
                vars(log).update(_twin(before), storage=self._make_storage(self._calls))
            txns.next = f"{self.name}{number}"
            return operation()

        return (yield from self._calls.carry_out(run))


def reader(name, storage, check):
    """Open the session and check what it holds against what was acknowledged before and what is there after."""
    actor = Actor(name, storage)
    facts = yield Began()
    yield from actor.open()
    ids = actor.ids
    yield Expect(lambda world: check(ids, facts, world))
    return ids


def _item_ids(recovered, known=()):
    found = [*known, *(str(item["id"]) for _, item in recovered.items)]
    for record in recovered.records:
        if record.op == "add":
            found.append(str(record.data["id"]))
        elif record.op == "forget":
            found.remove(str(record.data["id"]))
    return tuple(found)


def _another_moved_the_log(known, own, segment):
    """Return the assertion that another has committed, or deleted the segment that the log was known to end in."""

    def holds(world):
        files = contents(world)
        stored = item_ids(files)
        is_deleted = segment and not files.get(log_file(segment))
        assert is_deleted or {*stored} - {*own} != {*known}, (
            f"a conflict with nobody: {known} known, {stored} stored"
        )

    return holds


def _twin(attributes):
    return {name: _copy(value) for name, value in attributes.items()}


def _copy(value):
    if isinstance(value, dict | list | set):
        return copy.copy(value)
    if isinstance(value, LogSinceSnapshot):
        twin = copy.copy(value)
        vars(twin).update(_twin(vars(value)))
        return twin
    return value
