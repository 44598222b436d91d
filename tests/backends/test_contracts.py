"""The stores that need no server pass the contracts that come with the package."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from kaosmem.backends import FolderFileStore
from kaosmem.backends.sqlite.database import SqliteDatabase
from kaosmem.backends.sqlite.stores import (
    SqliteGraphStore,
    SqliteHistoryProvider,
    SqliteLongTermMemory,
    SqliteShortTermMemory,
    SqliteTaskStore,
    SqliteVectorMemory,
)
from kaosmem.backends.sqlite.vectors import SqliteVectorStore
from kaosmem.persistence.storage.disk import Disk
from kaosmem.persistence.storage.objects import IsolatedMemoryFileSystem
from tests.embeddings import Words
from tests.stores.compared import (
    ComparedBlob,
    ComparedGraph,
    ComparedHistory,
    ComparedLongTerm,
    ComparedShortTerm,
    ComparedTask,
    ComparedVector,
)


class OnSqlite:
    """A store in a database of its own.

    The disk is not waited for, since the machine does not crash here.
    """

    examples = 6  # each opens a file, and reopens it
    kind: Callable[[SqliteDatabase], Any]
    folder: Path

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path):
        self.folder = tmp_path
        self.numbers = count()

    async def make(self):
        return self.over(self.folder / f"{next(self.numbers)}.sqlite")

    async def reopen(self, store):
        await self.close(store)
        return self.over(store._database.path)

    async def close(self, store):
        await store._database.close()

    def over(self, path):
        return type(self).kind(SqliteDatabase(path, durable=False))


class TestSqliteHistory(OnSqlite, ComparedHistory):
    kind = SqliteHistoryProvider


class TestSqliteShortTerm(OnSqlite, ComparedShortTerm):
    kind = SqliteShortTermMemory


class TestSqliteLongTerm(OnSqlite, ComparedLongTerm):
    def over(self, path):
        return SqliteLongTermMemory(SqliteDatabase(path, durable=False), clock=self.clock)


class TestSqliteVectorMemory(OnSqlite, ComparedLongTerm):
    def over(self, path):
        return SqliteVectorMemory(SqliteDatabase(path, durable=False), Words(), clock=self.clock)


class TestSqliteVectors(OnSqlite, ComparedVector):
    kind = SqliteVectorStore


class Alternating(SqliteVectorStore):
    """Asks two instances in turn, as two processes would."""

    def __init__(self, database):
        super().__init__(database)
        self._other = SqliteVectorStore(database)
        self._turns = count()

    def __getattribute__(self, name):
        own = object.__getattribute__(self, name)
        is_others = not name.startswith("_") and next(object.__getattribute__(self, "_turns")) % 2
        return getattr(object.__getattribute__(self, "_other"), name) if is_others else own


class TestSqliteVectorsOfTwoInstances(OnSqlite, ComparedVector):
    kind = Alternating


class TestSqliteGraph(OnSqlite, ComparedGraph):
    kind = SqliteGraphStore


class TestSqliteTasks(OnSqlite, ComparedTask):
    kind = SqliteTaskStore


class TestFilesInAFolder(ComparedBlob):
    examples = 6

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path, monkeypatch):
        self.folder = tmp_path
        self.numbers = count()
        for name in ("sync", "sync_folder"):  # the machine does not crash here
            monkeypatch.setattr(Disk, name, lambda disk, place: None)

    async def make(self):
        return FolderFileStore(self.folder / str(next(self.numbers)), clock=self.clock)

    async def reopen(self, store):
        return FolderFileStore(store._location, clock=self.clock)


class TestFilesOnAnotherFilesystem(TestFilesInAFolder):
    async def make(self):
        return FolderFileStore(IsolatedMemoryFileSystem(), clock=self.clock)
