"""What stores cost: those in memory beside the bare work, and those in SQLite beside those in memory."""

from __future__ import annotations

import asyncio
import gc
import random
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import networkx
import numpy as np
import pytest
from numpy.typing import NDArray

from kaosmem import ChatMessage
from kaosmem.backends.sqlite.database import SqliteDatabase
from kaosmem.backends.sqlite.stores import SqliteHistoryProvider, SqliteLongTermMemory
from kaosmem.backends.sqlite.vectors import SqliteVectorStore
from kaosmem.language.analysis import analyze
from kaosmem.stores import (
    HistoryProvider,
    InMemoryGraphStore,
    InMemoryHistoryProvider,
    InMemoryLongTermMemory,
    InMemoryVectorStore,
    LongTermMemory,
    Relationship,
    VectorDocument,
    VectorStore,
)

ROUNDS = 15
BATCH = 1_000


def embeddings(count: int, dimensions: int) -> NDArray[np.float32]:
    """Return random directions, each of length 1."""
    vectors = np.random.default_rng(count).standard_normal((count, dimensions)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


async def filled_vectors(
    vectors: NDArray[np.float32], store: VectorStore | None = None
) -> VectorStore:
    store = InMemoryVectorStore() if store is None else store
    for start in range(0, len(vectors), BATCH):
        rows = enumerate(vectors[start : start + BATCH].tolist(), start)
        await store.add(
            VectorDocument("text", f"d{row:06}", vector, {"even": row % 2 == 0})
            for row, vector in rows
        )
    return store


def nearest_rows(
    vectors: NDArray[np.float32], query: NDArray[np.float32], limit: int
) -> list[tuple[int, float]]:
    """Return the best rows by the bare product and argpartition."""
    scores = vectors @ query
    best = np.argpartition(scores, -limit)[-limit:]
    best = best[np.argsort(-scores[best])]
    return list(zip(best.tolist(), scores[best].tolist(), strict=True))


async def check_vectors(
    store: VectorStore, vectors: NDArray[np.float32], query: NDArray[np.float32]
) -> None:
    """Compare what the store finds with the bare product, and what passes a filter with the even rows."""
    for limit in (1, 10, 50):
        found = await store.search(query.tolist(), limit=limit)
        bare = nearest_rows(vectors, query, limit)
        assert [each.id for each in found] == [f"d{row:06}" for row, _ in bare]
        assert [each.score for each in found] == pytest.approx(
            [score for _, score in bare], abs=1e-5
        )
    found = await store.search(query.tolist(), limit=5, filter={"even": True})
    assert [each.id for each in found] == [
        f"d{2 * row:06}" for row, _ in nearest_rows(vectors[::2], query, 5)
    ]


def random_graph(size: int) -> list[Relationship]:
    """Return so many relationships, ten for three entities."""
    rng = random.Random(size)
    count = size * 3 // 10
    triples: dict[tuple[str, str, str], None] = {}
    while len(triples) < size:
        source, target = rng.sample(range(count), 2)
        triples[f"e{source}", f"e{target}", rng.choice(["owns", "sued", "supplies"])] = None
    return [Relationship(*triple) for triple in triples]


def networkx_graph(relationships: list[Relationship]) -> Any:
    graph = networkx.MultiGraph()
    graph.add_edges_from(
        (each.source, each.target, (each.source, each.target, each.type)) for each in relationships
    )
    return graph


def walked(graph: Any, entity: str, depth: int) -> tuple[set[str], set[tuple[str, str, str]]]:
    """Return the entities around one, and the relationships on the way, as networkx walks."""
    hops = networkx.single_source_shortest_path_length(graph, entity, cutoff=depth)
    edges = graph.edges([each for each, far in hops.items() if far < depth], keys=True)
    return set(hops), {key for _, _, key in edges}


async def check_graph(store: InMemoryGraphStore, graph: Any, entity: str, depth: int) -> None:
    found = await store.get_neighbors(entity, depth=depth)
    entities, edges = walked(graph, entity, depth)
    assert {each.id for each in found.entities} == entities
    assert {(each.source, each.target, each.type) for each in found.relationships} == edges
    assert (len(found.entities), len(found.relationships)) == (len(entities), len(edges))


async def filled_history(count: int, store: HistoryProvider | None = None) -> HistoryProvider:
    store = InMemoryHistoryProvider() if store is None else store
    await store.append_many(
        "a", (ChatMessage("user", f"message {n}") for n in range(count)), session_id="s"
    )
    return store


async def last_50(store: HistoryProvider) -> list[ChatMessage]:
    count = await store.count_messages("a", session_id="s")
    return await store.get_messages("a", session_id="s", limit=50, offset=max(0, count - 50))


def random_facts(count: int) -> list[str]:
    """Return texts of twenty words, some of which are common."""
    rng = random.Random(count)
    words = ["".join(rng.choices("abcdefghijklmnop", k=6)) for _ in range(20_000)]
    weights = [1 / (rank + 10) for rank in range(len(words))]
    return [" ".join(rng.choices(words, weights, k=20)) for _ in range(count)]


def questions(facts: list[str], count: int) -> list[str]:
    """Return five words of a fact, for each question."""
    rng = random.Random(1)
    return [" ".join(rng.sample(rng.choice(facts).split(), 5)) for _ in range(count)]


async def check_facts(store: LongTermMemory, reference: LongTermMemory, asked: list[str]) -> None:
    """Compare what both stores find: the same texts in the same order, with nearly the same scores.

    In memory, logarithms have 16 bits.
    """
    for query in asked:
        found, expected = await store.search("a", query), await reference.search("a", query)
        assert [each.content for each in found] == [each.content for each in expected]
        assert [each.score for each in found] == pytest.approx(
            [each.score for each in expected], rel=1e-3
        )


def full_text_search(facts: list[str]) -> Callable[[str], list[Any]]:
    """Return a search by FTS5 of SQLite over the same terms."""
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE VIRTUAL TABLE facts USING fts5(terms, content='')")
    connection.executemany(
        "INSERT INTO facts (rowid, terms) VALUES (?, ?)",
        ((n, " ".join(analyze(text))) for n, text in enumerate(facts)),
    )

    def search(query: str) -> list[Any]:
        terms = " OR ".join(f'"{term}"' for term in analyze(query))
        return connection.execute(
            "SELECT rowid FROM facts WHERE facts MATCH ? ORDER BY rank LIMIT 5", (terms,)
        ).fetchall()

    return search


async def test_stores_in_sqlite_find_what_those_in_memory_find(tmp_path: Path) -> None:
    vectors = embeddings(2_000, 32)
    facts = random_facts(500)
    async with SqliteDatabase(tmp_path / "a.sqlite", durable=False) as database:
        store = await filled_vectors(vectors, SqliteVectorStore(database))
        for query in embeddings(5, 32):
            await check_vectors(store, vectors, query)
        messages = await last_50(await filled_history(1_000, SqliteHistoryProvider(database)))
        assert [message.text for message in messages] == [f"message {n}" for n in range(950, 1_000)]
        mine = SqliteLongTermMemory(database)
        reference = InMemoryLongTermMemory()
        for store_of in (mine, reference):
            for text in facts:
                await store_of.save("a", text)
        await check_facts(mine, reference, questions(facts, 20))


async def test_a_search_finds_what_the_bare_product_finds() -> None:
    vectors = embeddings(2_000, 32)
    store = await filled_vectors(vectors)
    for query in embeddings(5, 32):
        await check_vectors(store, vectors, query)


async def test_a_walk_finds_what_networkx_finds() -> None:
    relationships = random_graph(2_000)
    store = InMemoryGraphStore()
    graph = networkx_graph(relationships)
    await store.add_relationships(relationships)
    for entity in random.Random(1).sample(sorted(graph), 20):
        for depth in (1, 2, 3):
            await check_graph(store, graph, entity, depth)


async def test_the_last_messages_are_the_newest() -> None:
    messages = await last_50(await filled_history(1_000))
    assert [message.text for message in messages] == [f"message {n}" for n in range(950, 1_000)]


async def compared(
    ours: Callable[[int], Awaitable[object]], bare: Callable[[int], Any], clock: Callable[[], float]
) -> tuple[float, float]:
    """Return the medians of two costs in ms, taken in turn, so that a slow moment meets both."""
    costs: tuple[list[float], list[float]] = ([], [])
    gc.collect()
    for turn in range(ROUNDS + 1):
        begin = clock()
        await ours(turn)
        between = clock()
        made = bare(turn)
        if isinstance(made, Awaitable):
            await made
        if turn:  # the first one warms up
            costs[0].append((between - begin) * 1e3)
            costs[1].append((clock() - between) * 1e3)
    return median(costs[0]), median(costs[1])


@pytest.mark.timed
async def test_a_search_costs_little_more_than_the_bare_product(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """100,000 vectors of 384 numbers: at most twice the product and argpartition, by the clock on the wall."""
    vectors = embeddings(100_000, 384)
    queries = embeddings(ROUNDS + 1, 384)
    begin = process_time()
    store = await filled_vectors(vectors)
    table = [f"adding 100,000 documents: {process_time() - begin:.1f} s of CPU"]
    await check_vectors(store, vectors, queries[0])
    ratios = []
    asked = [query.tolist() for query in queries]
    for limit in (5, 50):
        ours, bare = await compared(
            lambda turn, limit=limit: store.search(asked[turn], limit=limit),
            lambda turn, limit=limit: nearest_rows(vectors, queries[turn], limit),
            perf_counter,
        )
        ratios.append(ours / bare)
        table.append(
            f"search, limit {limit}: {ours:.1f} ms, bare {bare:.1f} ms, ratio {ours / bare:.2f}"
        )
    ours, bare = await compared(
        lambda turn: store.search(asked[turn], filter={"even": True}),
        lambda turn: nearest_rows(vectors, queries[turn], 5),
        perf_counter,
    )
    table.append(f"search with a filter that half pass: {ours:.1f} ms, bare without {bare:.1f} ms")
    with capsys.disabled():
        print("", *table, sep="\n")
    assert max(ratios) <= 2


@pytest.mark.timed
async def test_a_walk_costs_little_more_than_networkx_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """100,000 relationships, to depth 2: at most twice networkx's walk over the same graph."""
    relationships = random_graph(100_000)
    store = InMemoryGraphStore()
    graph = networkx_graph(relationships)
    await store.add_relationships(relationships)
    starts = random.Random(1).sample(sorted(graph), 200)
    for entity in starts[:20]:
        await check_graph(store, graph, entity, 2)

    async def ours(turn: int) -> None:
        for entity in starts:
            await store.get_neighbors(entity, depth=2)

    def bare(turn: int) -> None:
        for entity in starts:
            walked(graph, entity, 2)

    def hops_alone(turn: int) -> None:
        for entity in starts:
            networkx.single_source_shortest_path_length(graph, entity, cutoff=2)

    ours_ms, bare_ms = await compared(ours, bare, process_time)
    _, hops_ms = await compared(ours, hops_alone, process_time)
    with capsys.disabled():
        each = [ms / len(starts) * 1e3 for ms in (ours_ms, bare_ms, hops_ms)]
        print(
            f"\nneighbours: {each[0]:.0f} us, networkx {each[1]:.0f} us, ratio "
            f"{ours_ms / bare_ms:.2f}",
            end="",
        )
        print(f" (its hops alone, without relationships: {each[2]:.0f} us)")
    assert ours_ms <= 2 * bare_ms


@pytest.mark.timed
async def test_reading_the_last_messages_costs_the_same_at_any_length(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The last 50 of 100,000 messages cost what they cost of 100."""
    short, long = await filled_history(100), await filled_history(100_000)

    async def read(store: HistoryProvider) -> None:
        for _ in range(500):
            await last_50(store)

    long_ms, short_ms = await compared(lambda _: read(long), lambda _: read(short), process_time)
    with capsys.disabled():
        print(
            f"\nthe last 50 messages of 100,000: {long_ms * 2:.1f} us, of 100: {short_ms * 2:.1f} "
            "us",
            end="",
        )
        print(f", ratio {long_ms / short_ms:.2f}")
    assert long_ms <= 1.5 * short_ms


@pytest.mark.timed
async def test_sqlite_searches_vectors_as_fast_as_memory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """100,000 vectors of 384 numbers, kept warm: at most one and a half times the store in memory."""
    vectors = embeddings(100_000, 384)
    queries = embeddings(ROUNDS + 1, 384)
    asked = [query.tolist() for query in queries]
    in_memory = await filled_vectors(vectors)
    async with SqliteDatabase(tmp_path / "a.sqlite") as database:
        begin = perf_counter()
        await filled_vectors(vectors, SqliteVectorStore(database))
        table = [f"adding 100,000 documents, a thousand at a time: {perf_counter() - begin:.1f} s"]
        store = SqliteVectorStore(database)
        begin = perf_counter()
        await store.search(asked[0])
        table.append(f"the first search of a process: {perf_counter() - begin:.1f} s")
        await check_vectors(store, vectors, queries[0])
        ours, theirs = await compared(
            lambda turn: store.search(asked[turn]),
            lambda turn: in_memory.search(asked[turn]),
            perf_counter,
        )
        table.append(f"search: {ours:.1f} ms, in memory {theirs:.1f} ms, ratio {ours / theirs:.2f}")

        async def add_and_search(turn: int) -> None:
            await store.upsert([VectorDocument("text", "new", asked[turn])])
            assert (await store.search(asked[turn], limit=1))[0].id == "new"

        changed, _ = await compared(
            add_and_search, lambda turn: store.search(asked[turn]), perf_counter
        )
        table.append(f"a change, made durable, and a search that finds it: {changed:.1f} ms")
    with capsys.disabled():
        print("", *table, sep="\n")
    assert ours <= 1.5 * theirs


@pytest.mark.timed
async def test_sqlite_reads_the_last_messages_at_any_length(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last 50 of 100,000 messages cost what they cost of 100.

    Appending alone waits for the disk, together not.
    """
    async with (
        SqliteDatabase(tmp_path / "a.sqlite") as database,
        SqliteDatabase(tmp_path / "b.sqlite") as other,
    ):
        long = SqliteHistoryProvider(database)
        short = SqliteHistoryProvider(other)
        await filled_history(100_000, long)
        await filled_history(100, short)
        long_ms, short_ms = await compared(
            lambda _: _repeated(lambda: last_50(long), 20),
            lambda _: _repeated(lambda: last_50(short), 20),
            process_time,
        )
        messages = [ChatMessage("user", f"message {n}") for n in range(1_000)]
        begin = perf_counter()
        for message in messages[:100]:
            await long.append("b", message, session_id="s")
        alone_ms = (perf_counter() - begin) * 10
        begin = perf_counter()
        await asyncio.gather(*(long.append("c", message, session_id="s") for message in messages))
        together_ms = perf_counter() - begin
        assert await long.count_messages("c", session_id="s") == 1_000
    with capsys.disabled():
        print(
            f"\nthe last 50 messages of 100,000: {long_ms / 20:.2f} ms of CPU, of 100: "
            f"{short_ms / 20:.2f} ms",
            end="",
        )
        print(f", ratio {long_ms / short_ms:.2f}")
        print(
            f"a durable append: {alone_ms:.2f} ms one after the other, {together_ms:.2f} ms each "
            "of 1,000 at once"
        )
    assert long_ms <= 1.5 * short_ms


@pytest.mark.timed
async def test_sqlite_finds_facts_as_fast_as_fts5(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """20,000 facts of one agent: the index of words in a plain table beside FTS5 over the same terms."""
    facts = random_facts(20_000)
    asked = questions(facts, ROUNDS + 1)
    in_memory = InMemoryLongTermMemory()
    search = full_text_search(facts)
    async with SqliteDatabase(tmp_path / "a.sqlite") as database:
        store = SqliteLongTermMemory(database)
        begin = perf_counter()
        for start in range(0, len(facts), BATCH):
            await asyncio.gather(*(store.save("a", text) for text in facts[start : start + BATCH]))
        table = [f"saving 20,000 facts, a thousand at once: {perf_counter() - begin:.1f} s"]
        for text in facts:
            await in_memory.save("a", text)
        await check_facts(store, in_memory, asked)
        ours, bare = await compared(
            lambda turn: store.search("a", asked[turn]),
            lambda turn: search(asked[turn]),
            process_time,
        )
        _, memory_ms = await compared(
            lambda turn: store.search("a", asked[turn]),
            lambda turn: in_memory.search("a", asked[turn]),
            process_time,
        )
    table.append(f"search: {ours:.1f} ms of CPU, FTS5 {bare:.1f} ms, in memory {memory_ms:.1f} ms")
    with capsys.disabled():
        print("", *table, sep="\n")
    assert ours <= 2 * bare


async def _repeated(work: Callable[[], Awaitable[object]], times: int) -> None:
    for _ in range(times):
        await work()
