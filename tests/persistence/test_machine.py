"""The state machines of sessions, over every kind of place that tests know."""

from __future__ import annotations

import tempfile
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from kaosmem.persistence.storage.objects import IsolatedMemoryFileSystem
from tests.persistence.storage_machine import StorageMachine
from tests.persistence.worlds import Bucket


class IgnoresCase(Bucket):
    """Stores names that differ in case alone as one, as Windows does."""

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **options: Any) -> None:
        super().pipe_file(path.lower(), value, mode)

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **options: Any
    ) -> bytes:
        return super().cat_file(path.lower(), start, end)

    def ls(self, path: str, detail: bool = True, **options: Any) -> Any:
        return super().ls(path.lower(), detail)

    def rm_file(self, path: str) -> None:
        super().rm_file(path.lower())

    def modified(self, path: str) -> Any:
        return super().modified(path.lower())


class MemoryStorage(StorageMachine):
    def place(self) -> IsolatedMemoryFileSystem:
        return IsolatedMemoryFileSystem()


class BucketStorage(StorageMachine):
    def place(self) -> Bucket:
        return Bucket()


class CaselessStorage(StorageMachine):
    def place(self) -> Bucket:
        return IgnoresCase()


class LocalStorage(StorageMachine):
    def place(self) -> Path:
        self.folder = tempfile.TemporaryDirectory()
        return Path(self.folder.name, "größe ☃")

    def teardown(self) -> None:
        self.folder.cleanup()


SqliteFileSystem = run_path(
    str(Path(__file__).parents[2] / "examples" / "test_your_own_filesystem.py")
)["SqliteFileSystem"]


class DatabaseStorage(LocalStorage):
    """The filesystem of the example: a database for each session, opened anew by each that looks."""

    def place(self) -> Any:
        self.folder = tempfile.TemporaryDirectory()
        return SqliteFileSystem(str(Path(self.folder.name, "agents.db")))

    def reopened(self, place: Any) -> Any:
        return SqliteFileSystem(place.database)


MACHINES = (
    MemoryStorage,
    BucketStorage,
    CaselessStorage,
    LocalStorage,
    DatabaseStorage,
)


@pytest.mark.parametrize("machine", MACHINES)
def test_every_place_keeps_sessions(machine):
    """Whatever is stored, read and deleted in any order is there, and nothing else is."""
    run_state_machine_as_test(machine, settings=settings(max_examples=8, stateful_step_count=25))


@pytest.mark.soak
@pytest.mark.parametrize("machine", MACHINES)
def test_every_place_keeps_sessions_for_long(machine):
    run_state_machine_as_test(machine, settings=settings(max_examples=500, stateful_step_count=50))
