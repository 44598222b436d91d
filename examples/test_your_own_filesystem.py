"""Sessions on a filesystem of your own: forty lines over SQLite, tried by several writers."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from fsspec import AbstractFileSystem

from kaosmem import SessionMemory
from kaosmem.testing import paths_holding


class SqliteFileSystem(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """Files as rows of a table, whose primary key lets nobody create one twice."""

    protocol = "sqlite"
    cachable = False

    def __init__(self, database: str) -> None:
        super().__init__()
        self.database = database
        self._ask(
            "create table if not exists files (path text primary key, data blob, modified real)"
        )

    def _ask(self, query: str, *values: Any) -> list[Any]:
        with closing(sqlite3.connect(self.database, timeout=60)) as connection, connection:
            return connection.execute(query, values).fetchall()

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        # An insert raises IntegrityError if the path is taken.
        verb = "insert" if mode == "create" else "replace"
        self._ask(f"{verb} into files values (?, ?, ?)", path.strip("/"), value, time.time())

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any
    ) -> bytes:
        return self._row("data", path)[start:end]

    def modified(self, path: str) -> float:
        return self._row("modified", path)

    def rm_file(self, path: str) -> None:
        self._ask("delete from files where path = ?", path.strip("/"))

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> list[Any]:
        folder = f"{path.strip('/')}/".lstrip("/")
        infos: dict[str, dict[str, Any]] = {}
        for name, size in self._ask(
            "select path, length(data) from files where path like ?", f"{folder}%"
        ):
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
        assert [item.content for item in memory["messages"]] == [
            "Can either side terminate for convenience?"
        ]


async def test_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    """Four writers save to one session at the same time, each with a connection of its own."""
    database = str(tmp_path / "agents.db")

    async def write(name: str) -> None:
        async with SessionMemory.open(SqliteFileSystem(database), "deal-42") as memory:
            for turn in range(5):
                memory.add("messages", f"{name}-{turn}")
                await memory.save()

    await asyncio.gather(*map(write, "abcd"))
    async with SessionMemory.open(SqliteFileSystem(database), "deal-42", read_only=True) as memory:
        said = [item.text for item in memory["messages"]]
    for name in "abcd":
        assert [text for text in said if text.startswith(name)] == [
            f"{name}-{turn}" for turn in range(5)
        ]
    assert len(said) == 20


async def test_a_forgotten_text_is_in_no_file(tmp_path: Path) -> None:
    """The filesystem deletes what the session deletes."""
    place = SqliteFileSystem(str(tmp_path / "agents.db"))
    async with SessionMemory.open(place, "deal-42") as memory:
        item = memory.add("findings", "The password is xyzzy.")
        await memory.save()
        assert paths_holding(place, "xyzzy")
        await memory.forget(item.id)
    assert paths_holding(place, "xyzzy") == []
