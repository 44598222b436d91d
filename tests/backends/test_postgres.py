"""Stores in a real PostgreSQL server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import asynccontextmanager
from itertools import count
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from kaosmem import ChatMessage, DurabilityError, InvalidArgumentError
from kaosmem.backends.postgres import (
    AGEGraphStore,
    PgTaskStore,
    PgVectorMemory,
    PgVectorStore,
    PostgresDatabase,
    PostgresHistoryProvider,
    PostgresLongTermMemory,
    PostgresShortTermMemory,
)
from kaosmem.backends.postgres.graph import MAX_LABELS
from kaosmem.errors import InvalidNameError, NotOpenedError, UnsupportedVersionError
from kaosmem.stores import InMemoryFileStore, Relationship, Task, VectorDocument
from kaosmem.stores.labels import condition
from kaosmem.testing.contracts.vector import FILTERS, METADATA
from tests.backends.hostile_values import NOTHING, SECRET, HostileValues, everything, read, write
from tests.embeddings import Words
from tests.formation.formers import check_shelf
from tests.servers import check_example, postgres_server
from tests.stores.compared import (
    ComparedGraph,
    ComparedHistory,
    ComparedLongTerm,
    ComparedShortTerm,
    ComparedTask,
    ComparedVector,
)

INJECTIONS = (
    "' OR 1=1 --",
    "a'; DROP TABLE threads; --",
    'a" OR "1"="1',
    "%",
    "_",
    "a\\' OR 1=1 --",
    "a $1",
    "%s",
    "a' UNION SELECT message FROM messages --",
    "set_config('kaosmem.tenant', 'one', false)",
)

_schemas = count(1)


@pytest.fixture(scope="module")
def postgres():
    """The URL of a server."""
    with postgres_server() as url:
        yield url


class OnPostgres:
    """A store for a tenant of its own. All tenants share a schema, whose tables are made once."""

    examples, steps = 5, 15
    kind: Callable[[PostgresDatabase], Any]

    @pytest.fixture(autouse=True)
    def _server(self, postgres):
        self.url = postgres

    async def make(self):
        return self.of_tenant(f"t{next(_schemas)}")

    async def reopen(self, store):
        await self.close(store)
        return self.of_tenant(store._database.tenant)

    def of_tenant(self, tenant):
        self.database = PostgresDatabase(
            self.url, schema="contracts", tenant=tenant, max_connections=4
        )
        return self.over(self.database)

    async def close(self, store):
        await self.database.close()

    def over(self, database):
        return type(self).kind(database)


class TestPostgresHistory(OnPostgres, ComparedHistory):
    kind = PostgresHistoryProvider


class TestPostgresShortTerm(OnPostgres, ComparedShortTerm):
    kind = PostgresShortTermMemory


class TestPostgresTasks(OnPostgres, ComparedTask):
    kind = PgTaskStore


class TestPostgresLongTerm(OnPostgres, ComparedLongTerm):
    def over(self, database):
        return PostgresLongTermMemory(database, clock=self.clock)


class TestPgVectorMemory(OnPostgres, ComparedLongTerm):
    def over(self, database):
        return PgVectorMemory(database, Words(), clock=self.clock)


class TestAGEGraph(OnPostgres, ComparedGraph):
    kind = AGEGraphStore


class TestPgVectors(OnPostgres, ComparedVector):
    kind = PgVectorStore


class TestPgVectorsByNeighbours(OnPostgres, ComparedVector):
    def over(self, database):
        return PgVectorStore(database, index="hnsw")


class TestHostileValuesInPostgres(HostileValues):
    @pytest.fixture(autouse=True)
    def _server(self, postgres):
        self.url = postgres

    @asynccontextmanager
    async def given(self):
        async with database(self.url) as opened:
            yield stores_of(opened)


def database(url, schema="", **options):
    return PostgresDatabase(url, schema=schema or f"t{next(_schemas)}", **options)


def stores_of(opened):
    """Return a store of each kind that PostgreSQL has."""
    return {
        "history": PostgresHistoryProvider(opened),
        "state": PostgresShortTermMemory(opened),
        "facts": PostgresLongTermMemory(opened),
        "vectors": PgVectorStore(opened),
        "graph": AGEGraphStore(opened),
        "tasks": PgTaskStore(opened),
    }


async def test_a_tenant_sees_and_changes_nothing_of_another(postgres):
    """Under the same ids nothing is found, and deleting everything leaves the other's rows."""
    async with database(postgres, tenant="one") as one:
        own = SimpleNamespace(**stores_of(one), files=InMemoryFileStore())
        others = stores_of(one.for_tenant("other"))
        await write(own, "victim", SECRET)
        found = await read(SimpleNamespace(**others), "victim", SECRET)
        assert found == NOTHING
        for store in others.values():
            await store.delete_all()
        assert await read(own, "victim", SECRET) == everything("victim", SECRET)


async def test_a_connection_that_names_no_tenant_sees_no_rows(postgres):
    """The database itself refuses, whatever the statement; with another tenant's name there are no rows."""
    async with database(postgres, tenant="one") as one:
        await PostgresHistoryProvider(one).append(
            "a", ChatMessage("user", "secret"), session_id="s"
        )
        with psycopg.connect(postgres, autocommit=True) as connection:
            connection.execute(f"SET search_path = {one.schema}")
            with pytest.raises(psycopg.errors.UndefinedObject):
                connection.execute("SELECT * FROM messages")
            connection.execute("SELECT set_config('kaosmem.tenant', 'other', false)")
            for table in ("messages", "threads"):
                assert connection.execute(f"SELECT * FROM {table}").fetchall() == []
                assert connection.execute(f"DELETE FROM {table}").rowcount == 0
        assert await PostgresHistoryProvider(one).count_messages("a", "s") == 1


async def test_many_starting_workers_migrate_once(postgres):
    """Eight workers that start together on an empty database all work."""
    schema = f"t{next(_schemas)}"
    workers = [database(postgres, schema, max_connections=2) for _ in range(8)]
    await asyncio.gather(
        *(
            PostgresShortTermMemory(each).update_state("s", {str(n): n})
            for n, each in enumerate(workers)
        )
    )
    assert await PostgresShortTermMemory(workers[0]).get_state("s") == {str(n): n for n in range(8)}
    for each in workers:
        await each.close()


async def test_a_newer_schema_is_refused(postgres):
    """The error tells both versions and the remedy, and nothing is changed."""
    async with database(postgres) as known:
        pass
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(
            f"INSERT INTO {known.schema}.migrations (part, version) VALUES ('tables', 99)"
        )
    with pytest.raises(UnsupportedVersionError, match="newer kaosmem"):
        await PostgresShortTermMemory(database(postgres, known.schema)).get_state("s")


async def test_a_transaction_that_loses_a_conflict_is_tried_again(postgres):
    """Of four that change one value at once, in isolation from each other, each takes part in the result."""
    async with database(postgres, max_connections=4) as shared:
        states = PostgresShortTermMemory(shared)
        all_read = threading.Barrier(4)
        await states.set_state("s", {"number": 0})
        tries = count()

        def increase(cursor):
            cursor.execute("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")
            (number,) = cursor.execute("SELECT value FROM states").fetchone()
            if next(tries) < 4:
                all_read.wait(60)
            cursor.execute("UPDATE states SET value = %s", (str(int(number) + 1),))

        await asyncio.gather(*(shared.run(increase) for _ in range(4)))
        assert await states.get_state("s") == {"number": 4}
        assert next(tries) > 4


async def test_a_server_that_does_not_answer_raises_a_typed_error(postgres):
    """After `timeout_s`, with the remedy, for a lock that another holds and for a server that is away; no password."""
    async with (
        database(postgres) as patient,
        database(postgres, patient.schema, timeout_s=1) as impatient,
    ):
        history = PostgresHistoryProvider(patient)
        await history.append("a", ChatMessage("user", "1"), session_id="s")
        with psycopg.connect(postgres) as connection:
            connection.execute(f"LOCK TABLE {patient.schema}.messages")
            with pytest.raises(DurabilityError, match="timeout_s"):
                await PostgresHistoryProvider(impatient).append(
                    "a", ChatMessage("user", "2"), session_id="s"
                )
        await history.append("a", ChatMessage("user", "3"), session_id="s")
        assert await history.count_messages("a", "s") == 2
    away = database("postgresql://app:hidden@127.0.0.1:9/agents", timeout_s=1)
    with pytest.raises(DurabilityError) as caught:
        await PostgresHistoryProvider(away).count_messages("a", "s")
    assert "hidden" not in str(caught.value)
    await away.close()


def test_settings_that_cannot_be_used_are_refused():
    """The error of a URL shows no password."""
    with pytest.raises(InvalidNameError) as caught:
        PostgresDatabase("mysql://user:hidden@host/database")
    assert "hidden" not in str(caught.value)
    for options in (
        {"schema": "a b"},
        {"schema": 'a"b'},
        {"schema": "a" * 64},
        {"tenant": ""},
        {"max_connections": 0},
        {"timeout_s": 0},
    ):
        with pytest.raises((InvalidNameError, InvalidArgumentError)):
            PostgresDatabase("postgresql://host/database", **options)


async def test_the_server_tests_equalities(postgres):
    """It sends those documents alone that have a value, and all that another filter lets pass."""
    async with database(postgres) as filtering:
        await PgVectorStore(filtering).add(
            VectorDocument("text", name, embedding=(1.0, 0.0), metadata=metadata)
            for name, metadata in METADATA.items()
        )
        for given, passing in FILTERS:
            tested = condition(given, "labels && ARRAY[{}]")

            def ask(cursor, tested=tested):
                cursor.execute(f"SELECT id FROM documents WHERE {tested}")
                return {name for (name,) in cursor}

            sent = await filtering.run(ask, part="vectors")
            assert sent >= set(passing.split()), given
            if given in ({"source": "a.pdf"}, {"tags": {"$in": ["y", "z"]}}, {"year": 2021.0}):
                assert sent == set(passing.split()), given


def test_the_example_of_the_docs_runs(postgres):
    """With the URL of this server it prints the text below it."""
    check_example("postgres", "postgresql://app@db/agents", postgres)


async def test_a_graph_answers_cypher_with_bound_parameters(postgres):
    """Rows are mappings; text in parameters is a value, whatever it says; another tenant's graph is out of reach."""
    async with (
        database(postgres, tenant="one") as one,
        database(postgres, one.schema, tenant="other") as other,
    ):
        graph = AGEGraphStore(one)
        theirs = AGEGraphStore(other)
        names = ["Acme", *INJECTIONS]
        await graph.add_relationships(
            {"source": "hub", "target": name, "type": "owns"} for name in names
        )
        await graph.add_entities(
            [{"id": "Acme", "name": "Acme Corp", "properties": {"since": 2019}}]
        )
        assert await graph.query_cypher(
            "MATCH (:Entity {id: 'hub'})-[r:owns]->(e:Entity) WHERE e.id = $id "
            "RETURN e.name AS name, e.properties.since, r.type ORDER BY name",
            {"id": "Acme"},
            columns=["name", "since", "type"],
        ) == [{"name": "Acme Corp", "since": 2019, "type": "owns"}]
        for name in names:
            found = await graph.query_cypher(
                "MATCH (e:Entity) WHERE e.id = $id RETURN e.id", {"id": name}, columns=["id"]
            )
            assert found == [{"id": name}]
            assert [each.id for each in (await graph.get_neighbors(name)).entities] == [name, "hub"]
            assert (await theirs.get_neighbors(name)).entities == ()
        count = "MATCH (e) RETURN count(e)"
        assert await theirs.query_cypher(count, columns=["entities"]) == [{"entities": 0}]
        assert (
            await graph.query_cypher("MATCH (e:Entity) WHERE e.id = '50%s' SET e.seen = true") == []
        )
        for refused, columns in (
            ("MATCH (e RETURN e", ["e"]),
            ("RETURN *", ["a"]),
            ("RETURN 1", []),
            ("RETURN 1, 2", ["a"]),
            ("RETURN 1, 2", ["a", "a"]),
            ("RETURN 1", "a"),
            ("RETURN unknown(1)", ["a"]),
        ):
            with pytest.raises(InvalidArgumentError):
                await graph.query_cypher(refused, columns=columns)


async def test_a_graph_refuses_values_that_it_cannot_hold(postgres):
    """They are refused before the server sees them.

    The type of a relationship is a value, not a label.
    """
    nested = 1
    for _ in range(20_000):
        nested = [nested]
    async with database(postgres) as opened:
        graph = AGEGraphStore(opened)
        for value in (2**70, nested, "a\0b", {"a\0b": 1}, float("nan")):
            with pytest.raises(InvalidArgumentError):
                await graph.query_cypher("RETURN $value", {"value": value})
        hostile = "Mem) RETURN n UNION MATCH (m"
        await graph.add_relationships([{"source": "a", "target": "b", "type": hostile}])
        (found,) = (await graph.get_neighbors("a", relationship_types=[hostile])).relationships
        assert found.type == hostile


async def test_one_database_serves_all_tenants(postgres):
    """120 tenants at once share four connections, and each sees its own rows, also after errors and cancelled calls."""
    async with database(postgres, max_connections=4) as shared:
        tenants = [shared.for_tenant(f"tenant {number}") for number in range(120)]

        async def live(number):
            state = PostgresShortTermMemory(tenants[number])
            history = PostgresHistoryProvider(tenants[number])
            for step in range(3):
                await state.update_state("s", {"own": number, str(step): step})
            if number % 3 == 0:
                with pytest.raises(DurabilityError):
                    await tenants[number].run(lambda cursor: cursor.execute("SELECT 1 / 0"))
            if number % 3 == 1:
                call = asyncio.create_task(
                    history.append("a", ChatMessage("user", "cancelled"), session_id="c")
                )
                await asyncio.sleep(0)
                call.cancel()
                await asyncio.gather(call, return_exceptions=True)
            await history.append("a", ChatMessage("user", f"of {number}"), session_id="s")
            assert await state.get_state("s") == {"own": number, "0": 0, "1": 1, "2": 2}
            assert [message.text for message in await history.get_messages("a", "s")] == [
                f"of {number}"
            ]

        await asyncio.gather(*map(live, range(len(tenants))))
        async with shared.for_tenant("another") as other:  # leaving the block closes nothing
            assert await PostgresHistoryProvider(other).list_threads() == []
        with psycopg.connect(postgres) as connection:
            open_now = connection.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'kaosmem' AND "
                "query LIKE %s",
                ("%kaosmem.tenant%",),
            ).fetchone()
            assert open_now[0] <= 4
        assert await PostgresHistoryProvider(tenants[0]).list_threads() == [("a", "s")]
        with pytest.raises(InvalidNameError):
            shared.for_tenant("")
    with pytest.raises(NotOpenedError):
        await PostgresHistoryProvider(tenants[0]).list_threads()


async def test_the_type_of_a_relationship_is_its_label(postgres):
    """A pattern finds it; a type that is no label has one that resembles it, and keeps its name as a property."""
    async with database(postgres) as opened:
        graph = AGEGraphStore(opened)
        types = ("WORKS_AT", "works at", "2nd owner", "属于", "IN", "Entity", "x" * 200)
        await graph.add_relationships([Relationship("ann", "acme", each) for each in types])
        for label, found in (
            ("WORKS_AT", 1),
            ("works_at", 1),
            ("_2nd_owner", 1),
            ("Relationship", 2),
            ("x" * 63, 1),
        ):
            query = f"MATCH (a)-[r:{label}]->(b) RETURN r.type"
            rows = await graph.query_cypher(query, columns=["type"])
            assert len(rows) == found, label
        query = "MATCH (a)-[:WORKS_AT]->(b) RETURN a.id, b.id"
        named = await graph.query_cypher(query, columns=["a", "b"])
        assert named == [{"a": "ann", "b": "acme"}]
        around = await graph.get_neighbors("ann", relationship_types=["works at", "属于"])
        assert {each.type for each in around.relationships} == {"works at", "属于"}
        await graph.add_relationships(
            [Relationship("ann", "acme", "LEFT", id=around.relationships[0].id)]
        )
        assert len((await graph.get_neighbors("ann")).relationships) == len(types)


async def test_the_number_of_labels_is_bounded(postgres):
    """Further types share a label, and are found by their type."""
    async with database(postgres) as opened:
        graph = AGEGraphStore(opened)
        await graph.add_relationships(
            [Relationship("hub", f"n{n}", f"type {n}") for n in range(MAX_LABELS + 20)]
        )
        query = "MATCH ()-[r]->() RETURN DISTINCT label(r)"
        labels = await graph.query_cypher(query, columns=["label"])
        assert len(labels) == MAX_LABELS
        for number in (0, MAX_LABELS + 19):
            around = await graph.get_neighbors(
                "n" + str(number), relationship_types=[f"type {number}"]
            )
            assert [each.source for each in around.relationships] == ["hub"]


async def test_parts_of_the_graph_that_queries_made_are_for_queries(postgres):
    """Other methods pass them over, also beside their own parts, and `delete_all` deletes them."""
    async with database(postgres) as opened:
        graph = AGEGraphStore(opened)
        await graph.add_relationships([Relationship("acme", "oslo", "IN")])
        for query in (
            "CREATE (:Person {name: 'Bob'})",
            "CREATE (:Entity {id: 'own'})",
            "MATCH (a:Person), (b:Entity {id: 'acme'}) CREATE (a)-[:OWNS]->(b)",
            "MATCH (a:Entity {id: 'oslo'}), (b:Entity {id: 'acme'}) CREATE (a)-[:OWNS]->(b)",
        ):
            await graph.query_cypher(query)
        assert await graph.list_entities() == ["acme", "oslo"]
        around = await graph.get_neighbors("acme", depth=2)
        assert [each.id for each in around.entities] == ["acme", "oslo"]
        assert [each.type for each in around.relationships] == ["IN"]
        assert await graph.get_entities(["own"]) == []
        query = "MATCH (a)-[:OWNS]->(b) RETURN count(a)"
        assert await graph.query_cypher(query, columns=["edges"]) == [{"edges": 2}]
        await graph.add_relationships([Relationship("acme", "own", "OWNS")])
        assert await graph.list_entities() == ["acme", "oslo", "own"]
        await graph.delete_entity("own")
        assert await graph.list_entities() == ["acme", "oslo"]
        await graph.delete_all()
        query = "MATCH (e) RETURN count(e)"
        assert await graph.query_cypher(query, columns=["left"]) == [{"left": 0}]


async def test_of_workers_that_start_one_task_a_single_one_succeeds(postgres):
    """The others get InvalidArgumentError, at any speed."""
    schema = f"t{next(_schemas)}"
    workers = [database(postgres, schema, max_connections=2) for _ in range(4)]
    boards = [PgTaskStore(each) for each in workers]
    await boards[0].create_task_list("c", "a", [Task(str(n), "work") for n in range(10)])

    async def take(board, task):
        try:
            await board.update_status("c", "a", str(task), "in_progress")
        except InvalidArgumentError:
            return False
        return True

    taken = await asyncio.gather(*(take(board, task) for task in range(10) for board in boards))
    assert sum(taken) == 10
    for each in workers:
        await each.close()


async def test_formed_facts_stand_on_a_shelf(postgres):
    async with database(postgres) as opened:
        await check_shelf(PostgresLongTermMemory(opened))
