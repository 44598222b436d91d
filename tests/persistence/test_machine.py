"""The state machines of sessions, over every kind of place that tests know."""

import tempfile
from pathlib import Path
from runpy import run_path

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from kaosmem.persistence.storage.objects import IsolatedMemoryFileSystem
from tests.persistence.storage_machine import StorageMachine
from tests.persistence.worlds import Bucket


class IgnoresCase(Bucket):
    """Stores names that differ in case alone as one, as Windows does."""

    def pipe_file(self, path, value, mode="overwrite", **options):
        super().pipe_file(path.lower(), value, mode)

    def cat_file(self, path, start=None, end=None, **options):
        return super().cat_file(path.lower(), start, end)

    def ls(self, path, detail=True, **options):
        return super().ls(path.lower(), detail)

    def rm_file(self, path):
        super().rm_file(path.lower())

    def modified(self, path):
        return super().modified(path.lower())


class MemoryStorage(StorageMachine):
    def place(self):
        return IsolatedMemoryFileSystem()


class BucketStorage(StorageMachine):
    def place(self):
        return Bucket()


class CaselessStorage(StorageMachine):
    def place(self):
        return IgnoresCase()


class LocalStorage(StorageMachine):
    def place(self):
        self.folder = tempfile.TemporaryDirectory()
        return Path(self.folder.name, "größe ☃")

    def teardown(self):
        self.folder.cleanup()


SqliteFileSystem = run_path(
    str(Path(__file__).parents[2] / "examples" / "test_your_own_filesystem.py")
)["SqliteFileSystem"]


class DatabaseStorage(LocalStorage):
    """The filesystem of the example: a database for each session, opened anew by each that looks."""

    def place(self):
        self.folder = tempfile.TemporaryDirectory()
        return SqliteFileSystem(str(Path(self.folder.name, "agents.db")))

    def reopened(self, place):
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
