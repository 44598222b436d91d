"""What asking a graph costs, and that it does not depend on how large the graph is."""

from __future__ import annotations

import asyncio
import gc
import random
import re
from collections.abc import Callable
from functools import cache
from itertools import islice, product
from statistics import median
from time import process_time

import networkx
import pytest

from kaosmem import Context, SessionMemory
from kaosmem.entities import Entity, Relationship, graph_part_of
from kaosmem.language.query import Query
from kaosmem.retrieval.rankers import BM25Ranker, GraphRanker
from kaosmem.sections.section import Section

SIZES = (1_000, 10_000, 100_000)
LIMIT = 1_000
SYLLABLES = (
    "ka",
    "lo",
    "mi",
    "ren",
    "tor",
    "vas",
    "bel",
    "cor",
    "dun",
    "fel",
    "gri",
    "han",
    "jol",
    "kem",
    "lun",
    "mar",
)
KINDS = ("supplies", "owns", "employs", "sued", "invested in")
SUFFIXES = ("Corp", "Ltd", "Group", "Labs")


def names(count: int) -> list[str]:
    """Return so many names, no two alike."""
    rng = random.Random(count)
    words = [
        "".join(syllables).title() for syllables in islice(product(SYLLABLES, repeat=4), 5 * count)
    ]
    return [f"{word} {rng.choice(SUFFIXES)}" for word in rng.sample(words, count)]


@cache
def graph(size: int, hub: int = 0) -> tuple[list[Entity], list[Relationship]]:
    """Return a graph of so many relationships, 10 for 3 entities; the last of these has `hub` more."""
    rng = random.Random(size)
    called = names(size * 3 // 10)
    entities = [
        Entity(f"e{n}", name, "company", f"founded 19{n % 100:02}") for n, name in enumerate(called)
    ]
    triples: dict[tuple[str, str, str], None] = {}
    while len(triples) < size:
        source, target = rng.sample(range(len(entities) - 1), 2)
        triples[f"e{source}", f"e{target}", rng.choice(KINDS)] = None
    triples |= dict.fromkeys((f"e{len(entities) - 1}", f"e{n}", "partner of") for n in range(hub))
    return entities, [
        Relationship(*triple, f"since 20{n % 24:02}") for n, triple in enumerate(triples)
    ]


@cache
def filled(size: int, hub: int = 0) -> SessionMemory:
    memory = SessionMemory.test_mode()
    memory.graph.add(*graph(size, hub))
    return memory


def questions(entities: list[Entity], count: int) -> list[str]:
    rng = random.Random(count)
    return [f"Who sued {rng.choice(entities[:-1]).name}?" for _ in range(count)]


def scanned(section: Section, query: str, ranker: GraphRanker) -> tuple[dict[str, float], float]:
    """Return the score of each item that has one, by a look at each name, each relationship and each line.

    Hops beyond the ranker's depth count nothing here. The second value is the most that they can add.
    """
    items = list(section)
    parts = {item.id: graph_part_of(item.metadata) for item in items}
    entities = {part.id: item_id for item_id, part in parts.items() if isinstance(part, Entity)}
    relationships = [
        (item_id, part) for item_id, part in parts.items() if isinstance(part, Relationship)
    ]
    whole = networkx.Graph((part.source, part.target) for _, part in relationships)
    whole.add_nodes_from(entities)
    named = {
        each
        for each, item_id in entities.items()
        if re.search(rf"\b{parts[item_id].name}\b", query)
    }
    closed = {each for each in whole if len(whole[each]) > ranker.hub} - named
    walk = networkx.DiGraph(whole.to_directed())
    walk.remove_edges_from([(hub, other) for hub in closed for other in whole[hub]])
    hops = networkx.multi_source_dijkstra_path_length(walk, named, cutoff=ranker.depth)
    passed = {each for each, far in hops.items() if far < ranker.depth} - closed
    steps = {entities[each]: 2 * far + 0.5 for each, far in hops.items()}
    for item_id, part in relationships:
        if passed & {part.source, part.target}:
            steps[item_id] = hops[part.source] + hops[part.target]
    index = BM25Ranker().index()
    index.add(enumerate(items))
    words = {items[ordinal].id: score for ordinal, score in index.rank(query, len(items))}
    pull = 3 * max(words.values(), default=1.0)
    near = {item_id: pull / (1 + far) for item_id, far in steps.items()}
    scores = {key: round(words.get(key, 0.0) + near.get(key, 0.0), 9) for key in words | near}
    return scores, pull / (2 + ranker.depth)  # a relationship of a hub one hop away


@pytest.mark.parametrize(("size", "hub"), [(100, 0), (1_000, 0), (1_000, 110)])
def test_a_query_brings_what_a_look_at_everything_finds(size: int, hub: int) -> None:
    """The items and scores are those of plain networkx over the whole graph."""
    section = filled(size, hub)["graph"]
    entities = graph(size, hub)[0]
    for query in [*questions(entities, 5), f"Who sued {entities[-1].name}?"]:
        expected, most_beyond = scanned(section, query, GraphRanker())
        ranked = section.proposer.search(Query(query), len(section))
        for item, score in ranked:
            added = score - expected.pop(item.id, 0.0)
            assert added == pytest.approx(0, abs=2e-9) or 0 < added <= most_beyond + 2e-9
        assert not expected
        assert section.proposer.search(Query(query), 20) == ranked[:20]


def cpu_ms(action: Callable[[str], object], queries: list[str]) -> float:
    durations = []
    gc.collect()
    for query in queries:
        begin = process_time()
        action(query)
        durations.append((process_time() - begin) * 1e3)
    return median(durations)


@pytest.mark.timed
def test_a_query_costs_about_the_same_at_any_size(capsys: pytest.CaptureFixture[str]) -> None:
    """In ms of CPU, medians: a query that names one entity of about 7 relationships, and one that names the hub."""
    heads = (
        "add, us each",
        "index, s",
        "query",
        "its words",
        "assemble",
        "hub of",
        "its query",
        "by a scan",
    )
    table = [f"{'edges':>9}" + "".join(f"{head:>14}" for head in heads)]
    queries = {}
    for size in SIZES:
        hub = size // 10
        (entities, relationships), begin = graph(size, hub), process_time()
        memory = filled(size, hub)
        added = process_time() - begin
        section = memory["graph"]
        begin = process_time()
        section.proposer.search(Query(""), 1)
        made = process_time() - begin
        plain = BM25Ranker().index()
        plain.add(enumerate(section))
        asked = questions(entities, 100)
        of_hub = [f"Who sued {entities[-1].name}?"] * 9
        for query in asked:
            section.proposer.search(
                Query(query), LIMIT
            )  # what analysis remembers of words is not what is measured
        queries[size] = cpu_ms(
            lambda query, section=section: section.proposer.search(Query(query), LIMIT), asked
        )
        figures = (
            added / (len(entities) + len(relationships)) * 1e6,
            made,
            queries[size],
            cpu_ms(lambda query, plain=plain: plain.rank(query, LIMIT), asked),
            cpu_ms(lambda query, memory=memory: assembled(memory, query), asked[:20]),
            hub,
            cpu_ms(
                lambda query, section=section: section.proposer.search(Query(query), LIMIT), of_hub
            ),
            cpu_ms(
                lambda query, section=section: scanned(section, query, GraphRanker()), asked[:1]
            ),
        )
        table.append(f"{size:9,}" + "".join(f"{figure:14,.2f}" for figure in figures))
        filled.cache_clear()
    table.append(
        f"a query at {max(SIZES):,} edges: {queries[max(SIZES)] / queries[min(SIZES)]:.1f} times "
        "one at 1,000"
    )
    with capsys.disabled():
        print("", *table, sep="\n")


def assembled(memory: SessionMemory, query: str) -> Context:
    return asyncio.run(memory.assemble_context(query, budget=4_000))
