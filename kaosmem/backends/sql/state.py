"""States of sessions in a SQL database."""

from __future__ import annotations

from typing import Any

from kaosmem.arguments import json_text
from kaosmem.backends.base import value_of
from kaosmem.backends.sql.database import SqlDatabase, Transaction
from kaosmem.stores.state import ShortTermMemory
from kaosmem.types import JSONDict


class SqlShortTermMemory(ShortTermMemory):
    """A ShortTermMemory in a SQL database: a row for each name.

    A patch costs its own size, not that of the state.
    """

    def __init__(self, database: SqlDatabase[Any]) -> None:
        self._database = database

    async def list_states(self) -> list[str]:
        rows = await self._database.rows(
            "SELECT DISTINCT session FROM states WHERE tenant = :tenant"
        )
        return [session for (session,) in rows]

    async def delete_all(self) -> None:
        await self._database.change("DELETE FROM states WHERE tenant = :tenant")

    async def _read(self, session_id: str) -> JSONDict:
        return await self._database.read(lambda transaction: _state(transaction, session_id))

    async def _change(
        self,
        session_id: str,
        patch: JSONDict,
        *,
        replace: bool,
    ) -> JSONDict:
        def change(transaction: Transaction) -> JSONDict:
            transaction.lock("state", session_id)
            if replace:
                transaction.change(
                    "DELETE FROM states WHERE tenant = :tenant AND session = :session",
                    session=session_id,
                )
            transaction.each(
                "INSERT INTO states (tenant, session, name, value) "
                "VALUES (:tenant, :session, :name, :value) "
                "ON CONFLICT (tenant, session, name) DO UPDATE SET value = excluded.value",
                [
                    {"session": session_id, "name": name.encode(), "value": json_text(value)}
                    for name, value in patch.items()
                ],
            )
            return _state(transaction, session_id)

        return await self._database.write(change)


def _state(transaction: Transaction, session_id: str) -> JSONDict:
    rows = transaction.rows(
        "SELECT name, value FROM states WHERE tenant = :tenant AND session = :session ORDER BY number",
        session=session_id,
    )
    return {name.decode(): value_of(text) for name, text in rows}
