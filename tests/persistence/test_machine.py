"""The state machines that come with the package, over every kind of place that tests know."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from kaosmem.persistence import Location, SessionLog
from kaosmem.persistence.memory import IsolatedMemoryFileSystem
from kaosmem.testing import SessionLogMachine, StorageMachine
from tests.persistence.test_objects import Bucket


class MemoryStorage(StorageMachine):
    def place(self) -> Location:
        return IsolatedMemoryFileSystem()


class BucketStorage(StorageMachine):
    def place(self) -> Location:
        return Bucket()


class LocalStorage(StorageMachine):
    def place(self) -> Location:
        self.folder = tempfile.TemporaryDirectory()
        return Path(self.folder.name, "größe ☃")

    def teardown(self) -> None:
        self.folder.cleanup()


class MemorySessionLog(SessionLogMachine):
    def place(self) -> Location:
        return IsolatedMemoryFileSystem()


class BucketSessionLog(SessionLogMachine):
    def place(self) -> Location:
        return Bucket()


class LocalSessionLog(SessionLogMachine):
    def place(self) -> Location:
        self.folder = tempfile.TemporaryDirectory()
        return Path(self.folder.name, "größe ☃")

    def teardown(self) -> None:
        self.folder.cleanup()


TestMemoryStorage = MemoryStorage.TestCase
TestBucketStorage = BucketStorage.TestCase
TestLocalStorage = LocalStorage.TestCase
TestMemorySessionLog = MemorySessionLog.TestCase
TestBucketSessionLog = BucketSessionLog.TestCase
TestLocalSessionLog = LocalSessionLog.TestCase
for machine in [each for name, each in [*globals().items()] if name.startswith("Test")]:
    machine.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
