"""Values that some query language would obey are data: as ids, names, texts and queries, in every kind of store."""

from types import SimpleNamespace

import pytest_asyncio

from kaosmem import ChatMessage
from kaosmem.stores import (
    InMemoryFileStore,
    InMemoryGraphStore,
    InMemoryHistoryProvider,
    InMemoryLongTermMemory,
    InMemoryShortTermMemory,
    InMemoryTaskStore,
    InMemoryVectorStore,
    Relationship,
    Task,
    VectorDocument,
)

PAYLOADS = (
    "'; DROP TABLE messages; --",
    "' OR '1'='1",
    "x' UNION SELECT message FROM messages --",
    '"; DELETE FROM facts; --',
    "B'}) RETURN n.text UNION MATCH (n) RETURN n.text //",
    "'$$) as (v agtype); DROP TABLE victim; --'",
    "\\'...",
    "tenant'] = 'B' OR true //",
    'secret" OR secret* NEAR(secret) content:secret',
    "%",
    "_____",
    "*",
    "a$[0]",
    "{}",
    "?1 :name @name",
    "victim:victim",
    "victim/victim",
    "../victim",
    "日本 🙂",
)
SECRET = "The victim's secret is 4711."
NOTHING = [[], {}, [], [], [], [], [], [], None]
"""What `read` returns where nothing was written."""


async def write(stores, name, text):
    """Store a text of somebody in each kind of store, under names made of theirs."""
    await stores.history.append(name, ChatMessage(name, text), session_id=name, run_id=name)
    await stores.state.set_state(name, {name: text})
    await stores.facts.save(name, text, namespace=name, key=name, metadata={name: name})
    await stores.vectors.add([VectorDocument(text, name, (1, 0), {name: name})], collection=name)
    await stores.graph.add_relationships(
        [Relationship(name, f"thing of {name}", name, text, {name: name})]
    )
    await stores.tasks.create_task_list(name, name, [Task(name, text)])
    await stores.files.upload(name, text.encode(), content_type="text/plain")


async def read(stores, name, query):
    """Return all texts that somebody finds in each kind of store."""
    board = await stores.tasks.get_task_list(name, name)
    return [
        [each.text for each in await stores.history.get_messages(name, session_id=name)],
        await stores.state.get_state(name),
        [
            each.content
            for each in await stores.facts.search(
                name, query, namespace=name, superseded=True, limit=99
            )
        ],
        [each.item.content for each in await stores.facts.versions(name, name, namespace=name)],
        [each.id for each in await stores.vectors.search((1, 0), collection=name, limit=99)],
        [each.text for each in await stores.vectors.get([name], collection=name)],
        [
            each.id
            for each in await stores.vectors.search((1, 0), collection=name, filter={name: name})
        ],
        [
            each.description
            for each in (
                await stores.graph.get_neighbors(name, relationship_types=[name])
            ).relationships
        ],
        [task.title for task in board.tasks] if board else None,
    ]


def everything(name, text):
    return [[text], {name: text}, [text], [text], [name], [text], [name], [text], [text]]


class HostileValues:
    """Tests of one store of each kind.

    A subclass gives the stores of a backend; the others are in memory.
    """

    def given(self):
        """Return an asynchronous context manager of new stores by kind."""
        raise NotImplementedError

    @pytest_asyncio.fixture
    async def stores(self):
        """Provide stores that hold a victim's secret in each kind."""
        in_memory = {
            "history": InMemoryHistoryProvider(),
            "state": InMemoryShortTermMemory(),
            "facts": InMemoryLongTermMemory(),
            "vectors": InMemoryVectorStore(),
            "graph": InMemoryGraphStore(),
            "tasks": InMemoryTaskStore(),
            "files": InMemoryFileStore(),
        }
        async with self.given() as given:
            opened = SimpleNamespace(**in_memory | given)
            await write(opened, "victim", SECRET)
            yield opened

    async def test_a_hostile_name_reads_and_changes_nothing_of_others(self, stores):
        """Whoever has such a name finds nothing of the victim, then exactly their own, and deletes nothing else."""
        for name in PAYLOADS:
            assert await read(stores, name, SECRET) == NOTHING, name
            await write(stores, name, f"secret of {name}")
        for name in PAYLOADS:
            assert await read(stores, name, SECRET) == everything(name, f"secret of {name}"), name
            await stores.history.clear_run(name, session_id=name, run_id=name)
            await stores.state.clear(name)
            await stores.facts.clear(name, namespace=name)
            await stores.vectors.delete([name], collection=name)
            await stores.graph.delete_entity(name)
            await stores.files.delete(name)
            assert (await read(stores, name, SECRET))[:-1] == NOTHING[:-1]
        assert await read(stores, "victim", SECRET) == everything("victim", SECRET)
        assert await stores.files.download("victim") == SECRET.encode()

    async def test_a_hostile_value_is_kept_as_it_is(self, stores):
        """Texts, roles, keys of states and metadata, and filters mean what they say."""
        for value in PAYLOADS:
            await stores.history.append("a", ChatMessage(value, value), session_id="s")
            await stores.state.update_state("s", {value: value})
            memory_id = await stores.facts.save("a", value, metadata={value: value})
            await stores.vectors.upsert(
                [VectorDocument(value, value, (1, 0), {value: value})], collection="c"
            )
            memory = await stores.facts.get("a", memory_id)
            assert (memory.content, memory.metadata[value]) == (value, value)
            found = await stores.vectors.search((1, 0), collection="c", filter={value: value})
            assert [each.id for each in found] == [value]
            assert (
                await stores.vectors.search((1, 0), collection="c", filter={value: "other"}) == []
            )
        assert [each.text for each in await stores.history.get_messages("a", session_id="s")] == [
            *PAYLOADS
        ]
        assert await stores.state.get_state("s") == {value: value for value in PAYLOADS}

    async def test_a_hostile_query_is_words(self, stores):
        """A query finds facts of its own namespace by their words, and no word in it is an operator."""
        await stores.facts.save("a", "The notice period is thirty days.")
        for query in (
            *PAYLOADS,
            "notice AND NOT period",
            "NEAR(notice, period)",
            '"notice',
            "notice*",
            "content : notice",
        ):
            found = await stores.facts.search("a", query)
            assert [each.content for each in found] == ["The notice period is thirty days."] * (
                "notice" in query
            )
