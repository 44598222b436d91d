"""Histories, states, facts, graphs and tasks in SQLite."""

from __future__ import annotations

from kaosmem.arguments import json_text
from kaosmem.backends.sql.facts import SqlFacts, SqlLongTermMemory
from kaosmem.backends.sql.graph import SqlGraphStore
from kaosmem.backends.sql.history import SqlHistoryProvider
from kaosmem.backends.sql.meanings import SqlVectorMemory
from kaosmem.backends.sql.state import SqlShortTermMemory
from kaosmem.backends.sql.tasks import SqlTaskStore
from kaosmem.stores.facts import FactRow

_BYTES = 4  # of a number in single precision


class SqliteHistoryProvider(SqlHistoryProvider):
    """A HistoryProvider in a file of SQLite.

    Reading a part of a thread costs the same at any length.

    Args:
        clock: Gives the times of messages, with a zone.

    >>> from kaosmem import ChatMessage
    >>> from kaosmem.backends.sqlite.database import SqliteDatabase
    >>> from kaosmem.backends.sqlite.stores import SqliteHistoryProvider
    >>> async with SqliteDatabase("agent.sqlite") as database:
    ...     history = SqliteHistoryProvider(database)
    ...     message = ChatMessage("user", "Who owns the deal?")
    ...     await history.append("analyst", message, session_id="room-7")
    >>> async with SqliteDatabase("agent.sqlite") as database:  # in another process, for example
    ...     await SqliteHistoryProvider(database).count_messages("analyst", session_id="room-7")
    1
    """


class SqliteShortTermMemory(SqlShortTermMemory):
    """A ShortTermMemory in a file of SQLite.

    A patch costs its own size, not that of the state.

    >>> from kaosmem.backends.sqlite.database import SqliteDatabase
    >>> from kaosmem.backends.sqlite.stores import SqliteShortTermMemory
    >>> async with SqliteDatabase("agent.sqlite") as database:
    ...     states = SqliteShortTermMemory(database)
    ...     await states.set_state("room-7", {"step": 1, "plan": "ask"})
    ...     await states.update_state("room-7", {"step": 2})
    {'step': 2, 'plan': 'ask'}
    """


class SqliteTaskStore(SqlTaskStore):
    """A TaskStore in a file of SQLite. Of several processes that start one task, one succeeds.

    >>> from kaosmem.stores import Task
    >>> from kaosmem.backends.sqlite.database import SqliteDatabase
    >>> from kaosmem.backends.sqlite.stores import SqliteTaskStore
    >>> async with SqliteDatabase("agent.sqlite") as database:
    ...     store = SqliteTaskStore(database)
    ...     task = Task("read", "Read the contract")
    ...     board = await store.create_task_list("deal-42", "reader", [task])
    ...     print((await store.update_status("deal-42", "reader", "read", "in_progress")).render())
    - [in_progress] read: Read the contract
    """


class SqliteGraphStore(SqlGraphStore):
    """A GraphStore in a file of SQLite.

    >>> from kaosmem.backends.sqlite.database import SqliteDatabase
    >>> from kaosmem.backends.sqlite.stores import SqliteGraphStore
    >>> async with SqliteDatabase("agent.sqlite") as database:
    ...     store = SqliteGraphStore(database)
    ...     await store.add_relationships([{"source": "acme", "target": "beta", "type": "supplies"}])
    ...     [entity.id for entity in (await store.get_neighbors("acme")).entities]
    ['acme', 'beta']
    """


class SqliteLongTermMemory(SqlLongTermMemory):
    """A LongTermMemory in a file of SQLite.

    It ranks facts as an InMemoryLongTermMemory does, by BM25. Each namespace of an agent has its
    own index and statistics.

    Args:
        clock: Returns times with a zone.

    >>> from kaosmem.backends.sqlite.database import SqliteDatabase
    >>> from kaosmem.backends.sqlite.stores import SqliteLongTermMemory
    >>> async with SqliteDatabase("agent.sqlite") as database:
    ...     facts = SqliteLongTermMemory(database)
    ...     old_id = await facts.save("analyst", "The customer prefers calls.", key="contact")
    ...     new_id = await facts.save("analyst", "The customer prefers letters.", key="contact")
    ...     [fact.content for fact in await facts.search("analyst", "customer")]
    ['The customer prefers letters.']
    """


class SqliteVectorMemory(SqlVectorMemory, SqliteLongTermMemory):
    """A LongTermMemory in a file of SQLite that ranks facts by meaning.

    The score of a fact is the cosine of its embedding with that of the query. Every fact of the
    namespace is compared.

    Args:
        embedding_client: Makes the embeddings. All have the same number of dimensions: another
            model needs another namespace. Facts that a SqliteLongTermMemory has saved get theirs
            with the first search.
        min_score: A search returns the facts with a larger cosine, -1 to 1.
        clock: Returns times with a zone.

    >>> from kaosmem.backends.sqlite.database import SqliteDatabase
    >>> from kaosmem.backends.sqlite import SqliteVectorMemory
    >>> class Colours:
    ...     async def embed(self, texts):
    ...         return [(float("red" in text or "crimson" in text), 0.1) for text in texts]
    >>> async with SqliteDatabase("meanings.sqlite") as database:
    ...     facts = SqliteVectorMemory(database, Colours(), min_score=0.9)
    ...     for text in ("The door is crimson.", "The roof is flat."):
    ...         memory_id = await facts.save("analyst", text)
    ...     [fact.content for fact in await facts.search("analyst", "anything red")]
    ['The door is crimson.']
    """

    _dimensions = f"length(direction) / {_BYTES}"
    _direction = ":direction"

    def _encoded(self, embedding: tuple[float, ...]) -> bytes:
        from kaosmem.stores.unit_vectors import unit_of

        return unit_of(embedding).astype("<f4").tobytes()

    def _nearest(
        self,
        rows: SqlFacts,
        asked: tuple[float, ...],
        limit: int,
        *,
        superseded: bool,
    ) -> list[tuple[FactRow, float]]:
        import numpy as np

        from kaosmem.stores.unit_vectors import cosines_of, unit_of

        held = rows.rows(
            "SELECT facts.number, direction FROM facts JOIN meanings ON fact = facts.number",
            "(:superseded OR valid_until IS NULL) ORDER BY facts.number DESC",
            superseded=superseded,
        )
        if not held:
            return []
        joined = b"".join(direction for _, direction in held)
        directions = np.frombuffer(joined, "<f4").reshape(len(held), -1)
        cosines = cosines_of(directions.astype(np.float64), unit_of(asked).astype(np.float64))
        cosine_of = {}
        for place in np.argsort(-cosines, kind="stable")[:limit]:
            if cosines[place] > self._min_score:
                cosine_of[held[place][0]] = float(cosines[place])
        found = rows.select(
            f"facts.number IN (SELECT term FROM {rows.pairs} AS best)",
            pairs=json_text([[number, 0] for number in cosine_of]),
        )
        row_of = {each.number: each for each in found}
        return [(row_of[number], cosine) for number, cosine in cosine_of.items()]
