"""Faults put into the log's protocols on purpose: storages that do not do what they were asked, and older mistakes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kaosmem.persistence import indexes
from kaosmem.persistence.commit import catch_up
from kaosmem.persistence.layout import INDEX, LOG, SNAP, log_file
from kaosmem.persistence.objects import ObjectStorage
from kaosmem.persistence.steps import Append, Create, Delete, List, Lock, Read, Steps, TakenError, Write
from kaosmem.persistence.storage import Storage


class Disobedient:
    """A storage that passes all on."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    def __getattr__(self, name: str) -> Any:
        return getattr(self.storage, name)

    def perform(self, step: Any) -> Any:
        return self.storage.perform(step)


class NeverLocks(Disobedient):
    """Appends without the lock."""

    def perform(self, step: Any) -> Any:
        return None if isinstance(step, Lock) else self.storage.perform(step)


class UnlocksTooEarly(Disobedient):
    """Frees the lock once it is known what to append, and then appends."""

    def perform(self, step: Any) -> Any:
        if isinstance(step, Append):
            self.storage.unlock()
        return self.storage.perform(step)


class LooksBeforeLocking(Disobedient):
    """Takes the lock only when something is to be written, with what was seen before."""

    waiting: Lock | None = None

    def perform(self, step: Any) -> Any:
        if isinstance(step, Lock):
            self.waiting = step
            return None
        if self.waiting and not isinstance(step, (List, Read)):
            self.storage.perform(self.waiting)
            self.waiting = None
        return self.storage.perform(step)


class StoresUnconditionally(Disobedient):
    """Stores a commit over whatever has its name."""

    def perform(self, step: Any) -> Any:
        return self.storage.perform(Write(step.path, [step.data]) if isinstance(step, Create) else step)


class ListsSnapshotsFirst(Disobedient):
    """Lists `snap/` before `log/`: what is pruned in between is missing from both."""

    listed: set[str] | None = None

    def perform(self, step: Any) -> Any:
        if isinstance(step, List) and step.folder == LOG:
            self.listed = self.storage.perform(List(SNAP))
        if isinstance(step, List) and step.folder == SNAP and self.listed is not None:
            listed, self.listed = self.listed, None
            return listed
        return self.storage.perform(step)


class DeletesAtOnce(Disobedient):
    """Deletes without retention: a name is free again while somebody still means to take it."""

    def perform(self, step: Any) -> Any:
        return self.storage.perform(replace(step, at_once=True) if isinstance(step, Delete) else step)


class LeavesIndexes(Disobedient):
    """Deletes no index when something is forgotten."""

    def perform(self, step: Any) -> Any:
        is_index = isinstance(step, Delete) and step.path.startswith(INDEX)
        return None if is_index else self.storage.perform(step)


class SnapshotLast(Disobedient):
    """Stores a snapshot when what it makes unneeded is deleted already."""

    def __init__(self, storage: Storage) -> None:
        super().__init__(storage)
        self.waiting: list[Write] = []

    def perform(self, step: Any) -> Any:
        if isinstance(step, Write) and step.path.startswith(SNAP):
            self.waiting.append(Write(step.path, [b"".join(step.chunks)]))
            return None
        if isinstance(step, List) and step.folder == SNAP:
            return self.storage.perform(step) | {write.path.removeprefix(f"{SNAP}/") for write in self.waiting}
        return self.storage.perform(step)

    def unlock(self) -> None:
        for write in self.waiting:
            self.storage.perform(write)
        self.waiting = []
        self.storage.unlock()


class TakesAnyFailureForTaken(ObjectStorage):
    """Reports a commit whose answer was lost as another's."""

    def _create(self, path: str, data: bytes) -> None:
        self._check_conditional()
        try:
            self._put_if_absent(path, data)
        except Exception as error:
            raise TakenError(path) from error


def roll_up_that_deletes_first(commits: Sequence[tuple[int, int]]) -> Steps[tuple[int, int]]:
    """Delete the small segments before the one in their place is stored."""
    parts = []
    for first, _ in commits:
        parts.append((yield Read(log_file(first))))
    for first, _ in commits:
        yield Delete(log_file(first), at_once=True)
    yield Write(log_file(commits[0][0]), [b"".join(parts)])
    return commits[0][0], sum(count for _, count in commits)


def roll_up_that_trusts_names(commits: Sequence[tuple[int, int]]) -> Steps[tuple[int, int]]:
    """Join segments of which one may hold what the next holds too, rolled up by another."""
    parts = []
    for first, _ in commits:
        parts.append((yield Read(log_file(first))))
    yield Write(log_file(commits[0][0]), [b"".join(parts)])
    return commits[0][0], sum(count for _, count in commits)


def catch_up_without_txn(head: Any, unsettled: Any) -> Any:
    """Take an own commit, whose answer was lost, for another's."""
    return catch_up(head, None)


def taken_for_there(head: Any) -> Any:
    """Take what a commit follows for stored still."""
    yield from ()
    return True


def freed(first: int) -> Delete:
    """Free the name of what is to be forgotten."""
    return Delete(log_file(first), at_once=True)


def index_trusted(head: Any, seq: int, sound: Any) -> Any:
    """Store an index without looking what was forgotten meanwhile."""
    yield from ()
    return True


def index_trusted_on_the_way(head: Any, path: str, seq: int, sound: Any) -> Any:
    """Look what was forgotten before an index is stored, and not afterwards."""
    is_stored = path.partition("/")[2] in (yield List(INDEX))
    return is_stored or (yield from indexes._is_clean(head, seq, sound))


def blanks_trusted(walk: Any, snapshots: Any) -> Steps[None]:
    """Take a segment that was emptied between list and read for the end of the log."""
    yield from ()
