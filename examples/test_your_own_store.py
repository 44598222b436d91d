"""A store of your own: four methods over SQLite that pass the contract, used by an unchanged agent."""

from __future__ import annotations

import json
import shutil
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

import pytest

from kaosmem import InvalidArgumentError, SessionMemory
from kaosmem.sources import StateSource
from kaosmem.stores import InMemoryShortTermMemory, ShortTermMemory
from kaosmem.testing import ShortTermContract


class SqliteSessionState(ShortTermMemory):
    """A ShortTermMemory in a table; each method gets checked values and is one transaction."""

    def __init__(self, database: str) -> None:
        self.database = database
        self._connection = sqlite3.connect(database)
        self._connection.execute(
            "create table if not exists states (session text primary key, state text)"
        )

    async def list_states(self) -> list[str]:
        rows = self._connection.execute("select session, state from states")
        return sorted(session for session, state in rows if state != "{}")

    async def delete_all(self) -> None:
        with self._connection:
            self._connection.execute("delete from states")

    async def _read(self, session_id: str) -> dict[str, Any]:
        rows = self._connection.execute("select state from states where session = ?", [session_id])
        return json.loads(next(rows, ("{}",))[0])

    async def _change(
        self, session_id: str, patch: dict[str, Any], *, replace: bool
    ) -> dict[str, Any]:
        with self._connection:
            # Others wait until this has read and written.
            self._connection.execute("begin immediate")
            state = {} if replace else await self._read(session_id)
            text = json.dumps(state | patch)
            self._connection.execute("replace into states values (?, ?)", [session_id, text])
        return json.loads(text)

    def close(self) -> None:
        self._connection.close()


class TestSqliteSessionState(ShortTermContract):
    """It passes what every ShortTermMemory passes."""

    async def make(self) -> SqliteSessionState:
        return SqliteSessionState(str(Path(tempfile.mkdtemp(), "states.db")))

    async def reopen(self, store: SqliteSessionState) -> SqliteSessionState:
        """Prove that what was acknowledged is in the file.

        The contract of a store in memory says `durable = False`.
        """
        store.close()
        return SqliteSessionState(store.database)

    async def close(self, store: SqliteSessionState) -> None:
        store.close()
        # Both are closed, the reopened store too.
        shutil.rmtree(Path(store.database).parent, ignore_errors=True)


async def turn(state: ShortTermMemory, session_id: str, question: str) -> str:
    """Plan a step and return what the model is shown, as an agent would, on whatever keeps its state."""
    memory = SessionMemory.test_mode(session_id=session_id)
    await memory.attach(StateSource(state, session_id))
    known = await state.get_state(session_id)
    steps = [*known.get("steps", []), f"step {len(known.get('steps', [])) + 1}"]
    await state.update_state(session_id, {"steps": steps, "asked": question})
    memory.add("messages", question)
    return (await memory.assemble_context(budget=200)).text


@pytest.mark.parametrize("make", [InMemoryShortTermMemory, lambda: SqliteSessionState(":memory:")])
async def test_the_same_agent_runs_on_either(make: Any) -> None:
    """In memory while it is tested, in the database when it is in use."""
    state = make()
    shown = [await turn(state, "deal-42", question) for question in ("Who signs?", "And when?")]
    assert shown[0].endswith('## state\n[*] asked: Who signs?\n[*] steps: ["step 1"]\n')
    assert shown[1].endswith('## state\n[*] asked: And when?\n[*] steps: ["step 1","step 2"]\n')
    with pytest.raises(InvalidArgumentError):
        await state.set_state("deal-42", {"steps": {1, 2}})
    if isinstance(state, SqliteSessionState):
        state.close()
