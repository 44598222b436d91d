"""Sessions on a filesystem of your own: forty lines over SQLite, proved by state machines."""

from __future__ import annotations

import sqlite3
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from fsspec import AbstractFileSystem
from hypothesis import settings

from kaosmem import SessionMemory
from kaosmem.testing import SessionLogMachine, StorageMachine


class SqliteFileSystem(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """Files as rows of a table, whose primary key lets nobody create one twice."""

    protocol = "sqlite"
    cachable = False

    def __init__(self, database: str) -> None:
        super().__init__()
        self.database = database
        self._ask("create table if not exists files (path text primary key, data blob, modified real)")

    def _ask(self, query: str, *values: Any) -> list[Any]:
        with closing(sqlite3.connect(self.database, timeout=60)) as connection, connection:
            return connection.execute(query, values).fetchall()

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        verb = "insert" if mode == "create" else "replace"  # raises IntegrityError where the path is taken
        self._ask(f"{verb} into files values (?, ?, ?)", path.strip("/"), value, time.time())

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any) -> bytes:
        return self._row("data", path)[start:end]

    def modified(self, path: str) -> float:
        return self._row("modified", path)

    def rm_file(self, path: str) -> None:
        self._ask("delete from files where path = ?", path.strip("/"))

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> list[Any]:
        folder = f"{path.strip('/')}/".lstrip("/")
        infos: dict[str, dict[str, Any]] = {}
        for name, size in self._ask("select path, length(data) from files where path like ?", f"{folder}%"):
            if name.startswith(folder):  # `like` ignores case, and takes `_` for any character
                entry, _, below = name.removeprefix(folder).partition("/")
                kind = "directory" if below else "file"
                infos[entry] = {"name": folder + entry, "type": kind, "size": 0 if below else size}
        return [*infos.values()] if detail else [info["name"] for info in infos.values()]

    def _row(self, column: str, path: str) -> Any:
        for (value,) in self._ask(f"select {column} from files where path = ?", path.strip("/")):
            return value
        raise FileNotFoundError(path)


async def test_a_session_lives_in_a_database(tmp_path: Path) -> None:
    """What one process saves, another opens; all of it is in the one file."""
    database = str(tmp_path / "agents.db")
    async with SessionMemory.open(SqliteFileSystem(database), "deal-42") as memory:
        memory.add("messages", "Can either side terminate for convenience?", role="user")
    async with SessionMemory.open(SqliteFileSystem(database), "deal-42", read_only=True) as memory:
        assert [item.content for item in memory["messages"]] == ["Can either side terminate for convenience?"]


class InADatabase:
    """A database for each example, opened anew by each that looks."""

    def place(self) -> SqliteFileSystem:
        self.folder = tempfile.TemporaryDirectory()
        return SqliteFileSystem(str(Path(self.folder.name, "agents.db")))

    def reopened(self, place: SqliteFileSystem) -> SqliteFileSystem:
        return SqliteFileSystem(place.database)

    def teardown(self) -> None:
        self.folder.cleanup()


class SqliteStorage(InADatabase, StorageMachine):
    """The filesystem itself: what is stored is listed and read back, and of two who create a file one wins."""


class SqliteSessionLog(InADatabase, SessionLogMachine):
    """Sessions on it: no commit, snapshot or kill in any order loses what was acknowledged."""


# Before you rely on it, let Hypothesis try more of both.
TestSqliteStorage = SqliteStorage.TestCase
TestSqliteStorage.settings = settings(max_examples=4, stateful_step_count=20, deadline=None)
TestSqliteSessionLog = SqliteSessionLog.TestCase
TestSqliteSessionLog.settings = settings(max_examples=4, stateful_step_count=10, deadline=None)
