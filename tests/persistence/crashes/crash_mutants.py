"""Faults put on purpose into what the session log does to a local disk, and how each shows."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pytest

from kaosmem.persistence import commit, tail
from kaosmem.persistence.layout import ARCHIVE, BLOB, INDEX, LOG, QUARANTINE, SNAP
from kaosmem.persistence.local import LocalStorage
from kaosmem.persistence.steps import Append, Delete, Publish, Write
from tests.persistence.crashes.failing_disk import FailingDisk
from tests.persistence.crashes.rewritten_protocols import Patch, last, log_deleted_first, rewriting, without
from tests.persistence.crashes.scenarios import SCENARIOS, SHORT
from tests.simulation.disk import SimulatedDisk

OPENS_NOT, HOLDS_OTHER, IS_STUCK = "can't be read", "possible are", "is stuck"
LOSES_EVICTED = "can't be retrieved"
LEAVES_DAMAGE, FORGETS_NOT, LOSES_TORN = "left damage", "forgotten text", "torn tail are in no file"


def dropping(call: str, method: str, among: str = "") -> Patch:
    """Leave out a call to the disk wherever one method of the storage makes it, for paths that hold `among`."""

    def put(patch: pytest.MonkeyPatch) -> None:
        original, dropped = getattr(LocalStorage, method), getattr(SimulatedDisk, call)
        inside = False

        def mutant(self: LocalStorage, path: str, *given: Any) -> Any:
            nonlocal inside
            inside = among in path
            try:
                return original(self, path, *given)
            finally:
                inside = False

        patch.setattr(LocalStorage, method, mutant)
        patch.setattr(SimulatedDisk, call, lambda disk, *given: None if inside else dropped(disk, *given))

    return put


def sync_before_write(patch: pytest.MonkeyPatch) -> None:
    def mutant(self: LocalStorage, descriptor: int, data: bytes) -> None:
        self._disk.sync(descriptor)
        original(self, descriptor, data)

    original = LocalStorage._write_all
    patch.setattr(LocalStorage, "_write_all", mutant)
    dropping("sync", "_append")(patch)


def torn_tail_stays(patch: pytest.MonkeyPatch) -> None:
    original = LocalStorage._append

    def mutant(self: LocalStorage, path: str, size: int, data: bytes) -> None:
        with suppress(FileNotFoundError):
            size = sum(map(len, self._read(path, [(0, None)])))
        original(self, path, size, data)

    patch.setattr(commit, "_cut", lambda head, torn: [])
    patch.setattr(LocalStorage, "_append", mutant)


def others_bytes_not_synced(patch: pytest.MonkeyPatch) -> None:
    append, write, sync = LocalStorage._append, LocalStorage._write_all, SimulatedDisk.sync
    is_before_write = False

    def mutant(self: LocalStorage, *given: Any) -> None:
        nonlocal is_before_write
        is_before_write = True
        append(self, *given)

    def writing(self: LocalStorage, *given: Any) -> None:
        nonlocal is_before_write
        is_before_write = False
        write(self, *given)

    patch.setattr(LocalStorage, "_append", mutant)
    patch.setattr(LocalStorage, "_write_all", writing)
    patch.setattr(SimulatedDisk, "sync", lambda disk, *given: None if is_before_write else sync(disk, *given))


def newline_with_the_commit(patch: pytest.MonkeyPatch) -> None:
    original = commit._plan_append

    def mutant(*given: Any) -> Any:
        steps, head = original(*given)
        if len(steps) > 1 and isinstance(steps[-2], Append):
            steps[-2:] = [replace(steps[-2], data=steps[-2].data + steps[-1].data)]
        return steps, head

    patch.setattr(commit, "_plan_append", mutant)


def segment_after_snapshot(patch: pytest.MonkeyPatch) -> None:
    original = commit._plan_append

    def mutant(head: Any, sight: Any, given: Any) -> Any:
        steps, after = original(head, sight, given)
        newest = max(sight.snapshots, default=0)
        if head.segment <= newest and head.seq + 1 not in sight.segments:
            guessed = newest + 1
            steps[-1] = replace(steps[-1], path=commit.log_file(guessed))
            after = replace(after, segment=guessed)
        return steps, after

    patch.setattr(commit, "_plan_append", mutant)


def half_commits_visible(patch: pytest.MonkeyPatch) -> None:
    original = tail.decode_records

    def mutant(*given: Any, **named: Any) -> Any:
        return ((record._replace(k=0), crc) for record, crc in original(*given, **named))

    patch.setattr(tail, "decode_records", mutant)


def truncated_before_quarantine(patch: pytest.MonkeyPatch) -> None:
    original = commit._cut
    patch.setattr(commit, "_cut", lambda head, torn: original(head, torn)[::-1])


def truncated_without_quarantine(patch: pytest.MonkeyPatch) -> None:
    original = commit._cut
    patch.setattr(commit, "_cut", lambda head, torn: original(head, torn)[1:])


def deleted_in_place(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LocalStorage, "delete", lambda self: self._remove(self._folder))


def forgetting_not_synced(patch: pytest.MonkeyPatch) -> None:
    dropping("sync_folder", "_delete")(patch)
    dropping("sync_folder", "_sweep_all")(patch)


def failed_sync_repeated(patch: pytest.MonkeyPatch) -> None:
    sync = FailingDisk.__getattr__

    def mutant(disk: FailingDisk, name: str) -> Any:
        call = sync(disk, name)
        return call if name != "sync" else lambda fd: _twice(call, fd)

    patch.setattr(FailingDisk, "__getattr__", mutant)


def _twice(call: Callable[[int], None], fd: int) -> None:
    try:
        call(fd)
    except OSError:
        call(fd)


def folders_synced_by_who_opens(patch: pytest.MonkeyPatch) -> None:
    append = LocalStorage._append

    def mutant(self: LocalStorage, path: str, size: int, data: bytes) -> None:
        if path in self._open:
            self._synced.setdefault(path, size)
        append(self, path, size, data)

    patch.setattr(LocalStorage, "_append", mutant)


def without_sweep(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LocalStorage, "_sweep_all", lambda self, folder: None)


@dataclass(frozen=True, slots=True)
class Mutant:
    """A fault, a scenario that it breaks, and how.

    by: what finds it: an explorer's `crash`, `kill` or `overtake`, to `forget` after a kill, or calls that `fail`.
    """

    name: str
    put: Patch
    scenario: str
    breaks: str
    by: str = "crash"


LIVES = {**SCENARIOS, **SHORT}

MUTANTS = (
    Mutant("a commit is acknowledged before its sync", dropping("sync", "_append"), "a commit", HOLDS_OTHER),
    Mutant("the sync is before the write", sync_before_write, "a commit", HOLDS_OTHER),
    Mutant("a new segment's folder is not synced", dropping("sync_folder", "_sync_folders"), "rolls", HOLDS_OTHER),
    Mutant("a snapshot is not synced", dropping("sync", "_draft", SNAP), "a snapshot", LEAVES_DAMAGE),
    Mutant("a snapshot's rename is not synced", dropping("sync_folder", "_publish", SNAP), "snapshots", OPENS_NOT),
    Mutant(
        "the log goes before its snapshot", rewriting("store_snapshot", log_deleted_first), "a snapshot", HOLDS_OTHER
    ),
    Mutant("a torn tail is not cut", torn_tail_stays, "torn tail", IS_STUCK),
    Mutant("a torn tail is cut without quarantine", truncated_without_quarantine, "torn tail", LOSES_TORN),
    Mutant("a torn tail is cut before its quarantine", truncated_before_quarantine, "torn tail", LOSES_TORN),
    Mutant("the quarantine is not synced", dropping("sync", "_write", QUARANTINE), "torn tail", LOSES_TORN),
    Mutant("a cut is not synced", dropping("sync", "_truncate"), "torn by NULs", OPENS_NOT),
    Mutant("what a killed writer left is not synced", others_bytes_not_synced, "a commit", OPENS_NOT, "kill"),
    Mutant("a missing newline is written with the next commit", newline_with_the_commit, "a commit", OPENS_NOT),
    Mutant("a blob is stored after its commit", rewriting("append", last(Write, BLOB)), "a blob", OPENS_NOT),
    Mutant("a blob is not synced", dropping("sync", "_write", BLOB), "a blob", OPENS_NOT),
    Mutant("a blob's rename is not synced", dropping("sync_folder", "_write", BLOB), "a blob", OPENS_NOT),
    Mutant("a segment is named after the snapshot", segment_after_snapshot, "late snapshots", IS_STUCK),
    Mutant(
        "the archive is after the snapshot",
        rewriting("store_snapshot", last(Publish, ARCHIVE)),
        "a snapshot",
        LOSES_EVICTED,
    ),
    Mutant("the archive is not synced", dropping("sync", "_draft", ARCHIVE), "a snapshot", OPENS_NOT),
    Mutant("half a commit is shown", half_commits_visible, "several sections", HOLDS_OTHER),
    Mutant(
        "the log goes before the forgetting snapshot", rewriting("purge", log_deleted_first), "forgotten", HOLDS_OTHER
    ),
    Mutant("forgetting leaves the archives", rewriting("purge", without(Delete, ARCHIVE)), "forgotten", FORGETS_NOT),
    Mutant("forgetting leaves the log", rewriting("purge", without(Delete, LOG)), "forgotten at once", FORGETS_NOT),
    Mutant("forgetting leaves the blob", rewriting("purge", without(Delete, BLOB)), "forget a blob", FORGETS_NOT),
    Mutant(
        "forgetting leaves the quarantine",
        rewriting("purge", without(Delete, QUARANTINE)),
        "forget a torn tail",
        FORGETS_NOT,
    ),
    Mutant(
        "forgetting leaves the indexes",
        rewriting("purge", without(Delete, INDEX)),
        "forgotten with an index",
        FORGETS_NOT,
    ),
    Mutant("forgetting leaves half-written indexes", without_sweep, "an index", FORGETS_NOT, "forget"),
    Mutant("what is deleted is not synced", forgetting_not_synced, "forgotten", FORGETS_NOT),
    Mutant("a session is deleted in place", deleted_in_place, "deletion", HOLDS_OTHER),
    Mutant("forgetting leaves half-written files", without_sweep, "a snapshot", FORGETS_NOT, "forget"),
    Mutant(
        "a roll leaves the segment before to the cache",
        dropping("sync", "_sync"),
        "a commit before a snapshot",
        OPENS_NOT,
        "overtake",
    ),
    Mutant("a commit found after an error is not synced", dropping("sync", "_sync"), "a commit", HOLDS_OTHER, "fail"),
    Mutant("a failed sync is repeated", failed_sync_repeated, "a commit", HOLDS_OTHER, "fail"),
    Mutant("who opens a segment syncs its folder", folders_synced_by_who_opens, "a commit", HOLDS_OTHER, "fail"),
)
