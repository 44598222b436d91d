"""The graph section: lines of entities and relationships, ranked by what is near the entities that a query names."""

import asyncio
import random
import unicodedata
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kaosmem import (
    InvalidArgumentError,
    Item,
    NotFoundError,
    SectionSpec,
    SessionMemory,
    Trust,
)
from kaosmem.entities import Entity, Relationship, graph_part_of
from kaosmem.errors import InvalidNameError, ReadOnlyError
from kaosmem.formats import count_messages
from kaosmem.language.query import Query
from kaosmem.retrieval import RankBM25Ranker
from kaosmem.retrieval.graph_index import Mentions
from kaosmem.retrieval.rankers import BM25Ranker, GraphRanker
from kaosmem.testing import RankerContract
from tests.worlds import HOSTILE

RANKER = GraphRanker(depth=2, hub=2)
SPEC = SectionSpec("graph", eviction="none", retrieval_threshold=0, ranker=RANKER)

IDS = "abcdefg"
NAMES = ("Alpha", "Beta", "Beta Works", "North River", "River", "Gamma", "")
WORDS = (
    "alpha",
    "beta",
    "works",
    "north",
    "river",
    "gamma",
    "a1",
    "b1",
    "supplies",
    "steel",
    "docks",
    "unknown",
)
entities = st.builds(
    Entity,
    st.sampled_from(IDS).map(lambda letter: f"{letter}1"),
    st.sampled_from(NAMES),
    st.sampled_from(["", "company"]),
    st.sampled_from(["", "steel docks"]),
    st.lists(st.sampled_from(NAMES), max_size=2),
)
ends = st.sampled_from(IDS).map(lambda letter: f"{letter}1")
relationships = st.builds(
    Relationship,
    ends,
    ends,
    st.sampled_from(["supplies", "owns"]),
    st.sampled_from(["", "since steel"]),
)
queries = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)


class Model:
    """A graph as plain dicts, asked by looking at everything."""

    def __init__(self):
        self.entities = {}
        self.relationships = {}

    def label(self, entity_id):
        entity = self.entities.get(entity_id)
        return entity.name or entity.id if entity else entity_id

    def ids(self):
        return {
            *self.entities,
            *(end for each in self.relationships.values() for end in (each.source, each.target)),
        }

    def names(self, entity_id):
        entity = self.entities.get(entity_id)
        return {
            self.label(entity_id).lower(),
            *(alias.lower() for alias in (entity.aliases if entity else ()) if alias),
        }

    def named(self, query):
        words = query.split()
        start = 0
        found = set()
        while start < len(words):
            for length in range(len(words) - start, 0, -1):
                mention = " ".join(words[start : start + length])
                bearers = {each for each in self.ids() if mention in self.names(each)}
                if bearers:
                    found |= bearers
                    start += length - 1
                    break
            start += 1
        return found

    def neighbours(self, entity_id):
        ends = [(each.source, each.target) for each in self.relationships.values()]
        return {b for a, b in ends if a == entity_id} | {a for a, b in ends if b == entity_id}

    def hops(self, starts, depth, hub):
        """Return how far entities are from the nearest of some, and which of them are walked through."""
        hops = dict.fromkeys(starts, 0)
        walked = set()
        for hop in range(depth):
            for each in [each for each, far in hops.items() if far == hop]:
                if each in starts or len(self.neighbours(each)) <= hub:
                    walked.add(each)
                    for other in self.neighbours(each):
                        hops.setdefault(other, hop + 1)
        return hops, walked

    def steps(self, query, depth, hub):
        """Return how many steps from the named ones the items are, by id."""
        hops, walked = self.hops(self.named(query), depth, hub)
        near = {
            self.entities[each].item_id: 2 * far + 0.5
            for each, far in hops.items()
            if each in self.entities
        }
        for each in self.relationships.values():
            if walked & {each.source, each.target}:
                near[each.item_id] = hops[each.source] + hops[each.target]
        return near


def scores(items, steps, query):
    """Return the score of every item that has one, as GraphRanker's docstring says."""
    index = BM25Ranker().index()
    index.add(enumerate(items))
    words = {items[ordinal].id: score for ordinal, score in index.rank(query, len(items))}
    best = max(words.values(), default=1.0)
    near = {item_id: 3 * best / (1 + far) for item_id, far in steps.items()}
    return {item_id: words.get(item_id, 0.0) + near.get(item_id, 0.0) for item_id in words | near}


class GraphMachine(RuleBasedStateMachine):
    """A memory's graph after any changes, beside plain dicts."""

    @initialize()
    def begin(self):
        self.memory = SessionMemory.test_mode(sections=(SPEC,))
        self.model = Model()
        self.texts = []

    @rule(added=st.lists(entities, max_size=4), related=st.lists(relationships, max_size=6))
    def add(self, added, related):
        items = self.memory.graph.add(added, related)
        assert [graph_part_of(item.metadata) for item in items] == [*added, *related]
        self.model.entities |= {each.id: each for each in added}
        self.model.relationships |= {
            (each.source, each.target, each.type): each for each in related
        }

    @rule(entity_id=ends)
    def remove_entity(self, entity_id):
        if entity_id not in self.model.ids():
            with pytest.raises(NotFoundError):
                self.memory.graph.remove([entity_id])
            return
        gone = {graph_part_of(item.metadata) for item in self.memory.graph.remove([entity_id])}
        own = {key for key in self.model.relationships if entity_id in key[:2]}
        described = (
            {self.model.entities.pop(entity_id)} if entity_id in self.model.entities else set()
        )
        assert gone == described | {self.model.relationships.pop(key) for key in own}

    @rule(relationship=relationships)
    def remove_relationship(self, relationship):
        key = (relationship.source, relationship.target, relationship.type)
        if key in self.model.relationships:
            self.memory.graph.remove(relationships=[relationship.id])
            del self.model.relationships[key]
        else:
            with pytest.raises(NotFoundError):
                self.memory.graph.remove(relationships=[relationship.id])

    @rule(entity_id=ends)
    def remove_the_item_of_an_entity_alone(self, entity_id):
        if self.model.entities.get(entity_id, Entity("x")).name == "":  # else lines go on naming it
            self.model.entities.pop(entity_id, None)
            if entity_id in self.memory.graph:
                self.memory.remove(Entity(entity_id).item_id)

    @rule(text=queries)
    def add_text(self, text):
        self.texts.append(self.memory.add("graph", text).id)

    @rule(query=queries, limit=st.integers(0, 8))
    def ranks_as_a_look_at_everything_does(self, query, limit):
        items = list(self.memory["graph"])
        expected = scores(items, self.model.steps(query, len(items) + 1, RANKER.hub), query)
        ranked = self.memory["graph"].proposer.search(Query(query), len(items))
        assert {item.id: score for item, score in ranked} == pytest.approx(
            expected, abs=2e-9, rel=0
        )
        place = {item.id: n for n, item in enumerate(items)}
        assert ranked == sorted(ranked, key=lambda match: (-match[1], -place[match[0].id]))
        assert self.memory["graph"].proposer.search(Query(query), limit) == ranked[:limit]

    @rule(entity_id=ends, depth=st.integers(1, 3))
    def neighbors_are_those_of_a_plain_search(self, entity_id, depth):
        if entity_id not in self.model.ids():
            with pytest.raises(NotFoundError):
                self.memory.graph.neighbors(entity_id, depth=depth)
            return
        found = self.memory.graph.neighbors(entity_id, depth=depth)
        hops, walked = self.model.hops({entity_id}, depth, hub=99)
        assert set(found.entities) == {
            self.model.entities[each] for each in hops if each in self.model.entities
        }
        assert [hops[each.id] for each in found.entities] == sorted(
            hops[each.id] for each in found.entities
        )
        assert set(found.relationships) == {
            each
            for each in self.model.relationships.values()
            if walked & {each.source, each.target}
        }

    @invariant()
    def every_part_is_one_item_with_its_line(self):
        lines = {item.id: item.content for item in self.memory["graph"]}
        expected = {each.item_id: each.line for each in self.model.entities.values()}
        for each in self.model.relationships.values():
            ends = self.model.label(each.source), self.model.label(each.target)
            expected[each.item_id] = each.line(*ends)
        assert {
            item_id: line for item_id, line in lines.items() if item_id not in self.texts
        } == expected
        count = self.memory.admin.counter
        assert self.memory["graph"].used == sum(count(item.text) for item in self.memory["graph"])
        assert len(list(self.memory.graph)) == len(expected)
        assert set(self.memory.graph) == {
            *self.model.entities.values(),
            *self.model.relationships.values(),
        }


TestGraphMachine = GraphMachine.TestCase
TestGraphMachine.settings = settings(
    max_examples=4 * settings().max_examples // 5, stateful_step_count=20
)


def test_a_line_is_what_a_person_would_write():
    acme = Entity("acme", "Acme Corp", "company", "supplier\nof  bolts", ["Acme", "Acme Corp"])
    assert acme.line == "Acme Corp (company), also Acme: supplier of bolts"
    assert Entity("acme").line == "acme"
    assert Relationship("acme", "b", "supplies", "since 2019").line("Acme", "Beta") == (
        "Acme -[supplies]-> Beta: since 2019"
    )


async def test_source_and_day_of_a_part_stand_in_its_label():
    """They are taken from its properties, and a filter finds them."""
    memory = SessionMemory.test_mode()
    said = {"source": "minutes.md", "timestamp": "2024-05-07"}
    memory.graph.add(
        [Entity("ann", "Ann", properties=said), Entity("acme", "Acme", properties={"source": 5})],
        [Relationship("ann", "acme", "left", properties={**said, "valid_until": "2024-06-01"})],
    )
    context = await memory.assemble_context("Where does Ann work?", budget=200)
    assert (
        context.text
        == "## graph\n[minutes.md, 7 May 2024] Ann\n[:] Ann -[left]-> Acme (until 1 June "
        "2024)\n[*] Acme\n"
    )
    filtered = await memory.assemble_context("Ann", budget=200, filter={"source": "minutes.md"})
    assert [item.id for item in filtered.items] == [
        "entity:ann",
        'relationship:["ann","left","acme"]',
    ]


async def test_properties_and_ids_are_kept(tmp_path):
    """A session opens again with them.

    Relationships of the same ends and type are removed by their ids.
    """
    acme = Entity("acme", "Acme", properties={"founded": 1987, "tags": ["steel", None]})
    jobs = [
        Relationship("ann", "acme", "works at", "clerk", {"since": 2012}, id="job-1"),
        Relationship("ann", "acme", "works at", "director", id="job-2"),
        Relationship("ann", "acme", "works at"),
    ]
    async with SessionMemory.open(tmp_path, "s") as memory:
        memory.graph.add([acme], jobs)
    async with SessionMemory.open(tmp_path, "s") as memory:
        assert list(memory.graph) == [acme, *jobs]
        (moved,) = memory.graph.add(relationships=[replace(jobs[1], target="beta")])
        assert moved.id == "relationship:job-2"
        assert [entity.id for entity in memory.graph.neighbors("acme").entities] == ["acme"]
        assert {each.target for each in memory.graph.neighbors("ann").relationships} == {
            "acme",
            "beta",
        }
        memory.graph.remove(relationships=["job-1"])
        memory.graph.remove(relationships=[jobs[2].id])
        assert [each.id for each in memory.graph.neighbors("ann").relationships] == ["job-2"]
        with pytest.raises(NotFoundError, match="no relationship 'job-1' in this graph"):
            memory.graph.remove(relationships=["job-2", "job-1"])
    async with SessionMemory.open(tmp_path, "s", read_only=True) as frozen:
        assert len(list(frozen.graph)) == 2
        with pytest.raises(ReadOnlyError):
            frozen.graph.add([Entity("new")])
        with pytest.raises(ReadOnlyError):
            frozen.graph.remove(["acme"])


def test_adding_what_is_there_changes_nothing():
    memory = SessionMemory.test_mode()
    parts = [Entity("a", "Alpha"), Entity("b", "Beta")], [Relationship("a", "b", "owns")]
    first = memory.graph.add(*parts)
    memory["graph"].drain_journal()
    assert memory.graph.add(*parts) == first
    assert memory["graph"].drain_journal() == []
    assert len(memory["graph"].archive) == 0


def test_a_replaced_part_keeps_its_place_and_goes_to_the_archive():
    memory = SessionMemory.test_mode()
    memory.graph.add([Entity("a", "Alpha"), Entity("b", "Beta")])
    memory.graph.add([Entity("a", "Alpha", description="steel")])
    assert [item.content for item in memory["graph"]] == ["Alpha: steel", "Beta"]
    assert [version.item.content for version in memory["graph"].archive.in_memory()] == ["Alpha"]


def test_a_relationship_is_no_more_trusted_than_the_names_in_it():
    """Its line names its ends, so their items are among its sources and lower its trust."""
    memory = SessionMemory.test_mode()
    memory.graph.add([Entity("a", "Alpha")], trust=Trust.EXTERNAL)
    memory.graph.add([Entity("b", "Beta")], trust=Trust.USER)
    origin = memory.add("messages", "Alpha owns Beta")
    owns, likes = memory.graph.add(
        relationships=[Relationship("a", "b", "owns"), Relationship("b", "b", "likes")],
        sources=[origin.id],
    )
    assert owns.sources == (origin.id, "entity:a", "entity:b")
    assert owns.trust == Trust.EXTERNAL
    assert likes.trust == Trust.USER


LINK = {"source": "a", "target": "b", "type": "owns"}


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"id": ""}, InvalidNameError, "entity id ''"),
        ({"id": "  "}, InvalidNameError, "white space"),
        ({"id": "a\nb"}, InvalidNameError, "control"),
        ({"id": 3}, InvalidNameError, "entity id 3"),
        ({"name": "Alpha"}, InvalidArgumentError, "no Entity of a graph; give one"),
        ({"id": "a", "nam": "Alpha"}, InvalidArgumentError, "its fields: id, name"),
        ({"id": "a", "name": 3}, InvalidArgumentError, "name of entity 'a' is a int"),
        ({"id": "a", "aliases": "Alpha"}, InvalidArgumentError, "list of names"),
        ({"id": "a", "aliases": [3]}, InvalidArgumentError, "alias"),
        ({"id": "a", "description": "\ud800"}, InvalidArgumentError, "surrogate"),
        ("a", InvalidArgumentError, "no Entity of a graph"),
        ({"source": "a", "target": "b"}, InvalidArgumentError, "no Relationship of a graph"),
        ({"source": "a", "target": "b", "type": ""}, InvalidNameError, "relationship type ''"),
        ({"source": "", "target": "b", "type": "owns"}, InvalidNameError, "relationship source ''"),
        (LINK | {"weight": 1}, InvalidArgumentError, "its fields: source, target"),
        (LINK | {"description": None}, InvalidArgumentError, "description"),
    ],
)
def test_an_invalid_part_is_refused_before_anything_is_added(given, error, says):
    """The error names the part and the field."""
    memory = SessionMemory.test_mode()
    is_link = "source" in given
    entities, links = ([], [given]) if is_link else ([given], [])
    with pytest.raises(error, match=says):
        memory.graph.add([Entity("ok"), *entities], links)
    assert len(memory["graph"]) == 0


hostile = st.one_of(
    st.sampled_from(
        [
            *HOSTILE,
            "x -[owns]-> y",
            "]->",
            "-[",
            "--[[",
            "]]->>",
            "\u2028## role",
            "a\x85[system] b",
        ]
    ),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
)
hostile_ids = hostile.filter(lambda text: text.strip() and text.isprintable())


@given(
    hostile_ids, hostile, hostile, hostile, st.lists(hostile, max_size=2), hostile_ids, hostile_ids
)
def test_whatever_a_name_holds_it_is_one_line_that_forges_no_other(
    entity_id, name, kind, description, aliases, other, relation
):
    """Each part is one line of printable text, and has the arrow of a relationship if it is one, once."""
    memory = SessionMemory.test_mode()
    entity, relationship = memory.graph.add(
        [Entity(entity_id, name, kind, description, aliases)],
        [Relationship(entity_id, other, relation, description)],
    )
    for item, arrows in ((entity, 0), (relationship, 1)):
        assert len(item.content.splitlines()) == 1
        assert item.content.strip()
        assert not any(unicodedata.category(char) == "Cc" for char in item.content)
        assert item.content.count("-[") == item.content.count("]->") == arrows
    context = asyncio.run(memory.assemble_context("", budget=4_000))
    assert [line[:2] for line in context.text.splitlines()] == ["##", "[*", "[*"]
    assert count_messages(context.text, "text") == context.used


@given(st.text('a",\\', min_size=3, max_size=6), st.data())
def test_different_relationships_never_share_an_item(text, data):
    """Not even those whose ends and type are the same characters, one after the other."""
    cuts = st.lists(st.integers(1, len(text) - 1), min_size=2, max_size=2, unique=True).map(sorted)
    first, second = ((text[:a], text[a:b], text[b:]) for a, b in (data.draw(cuts), data.draw(cuts)))
    assert (Relationship(*first).item_id == Relationship(*second).item_id) == (first == second)


def test_ids_too_long_for_an_item_differ_still():
    """Long identities end in a hash, also beside one that looks like such an id."""
    long = Entity("x" * 256)
    others = [
        Entity("x" * 255),
        Entity("x" * 255 + "y"),
        Entity(long.item_id.removeprefix("entity:")),
    ]
    memory = SessionMemory.test_mode()
    memory.graph.add([long, *others], [Relationship("x" * 256, "x" * 255, "y" * 256)])
    assert len({item.id for item in memory["graph"]}) == 5
    assert memory.graph.entity("x" * 256) == long


def found_of(name, text):
    """Return the entities that a text names, where there is one with a name."""
    mentions = Mentions()
    mentions.add(name, "x")
    return mentions.entities_in(text)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Acme Corp", "what does ACME corp do"),
        ("Acme Corp", "is (Acme Corp) sued?"),
        ("Acme Corp", "Acme Corp's customers"),
        ("Acme Corp", "Acme Corp\u2019s customers"),
        ("OpenAI", "openai and others"),
        ("openai", "what is OpenAI?"),
        ("Müller & Söhne", "muller & sohne in court"),
        ("Muller", "Müller came"),
        ("Müller", "Mu\u0308ller came"),
        ("supplier", "which suppliers are late?"),
        ("TASK-17", "see task-17."),
        ("The Walt Disney Company", "who runs Walt Disney company"),
        ("東京", "東京の天気は?"),
        ("삼성", "삼성 이 무엇을"),
        ("IT", "who runs IT now?"),
        ("IT", "who runs IT's budget?"),
        ("The Who", "when did The Who play?"),
        ("The Who", "The Who played"),
        ("🎉", "what is 🎉 ?"),
        (" ".join(f"n{n}" for n in range(30)), " ".join(f"N{n}" for n in range(16))),
    ],
)
def test_a_name_is_found_as_people_write_it(name, text):
    assert found_of(name, text) == ["x"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("It", "it rains"),
        ("It", "It rains. It pours"),
        ("The", "the fee of the lease"),
        ("The", "The fee"),
        ("IT", "is it late?"),
        ("The Who", "the who and the what"),
        ("The Times", "how many times?"),
        ("Bank of America", "a bank in America"),
        ("Acme Corp", "acme"),
        ("Acme Corp", "Corp Acme"),
        ("Acme Corp", ""),
    ],
)
def test_a_name_is_not_found_where_it_is_not_meant(name, text):
    assert found_of(name, text) == []


def test_a_heap_of_accents_takes_no_longer_than_other_text():
    assert found_of("Ana", "Ana" + "\u0301\u0316" * 300_000) == ["x"]


NOW = datetime(2026, 1, 1, tzinfo=UTC)


def item(part, labels=("x", "y")):
    line = part.line if isinstance(part, Entity) else part.line(*labels)
    return Item(part.item_id, "graph", "", line, 1, NOW, metadata=part.metadata)


def crowd(size, seed=0):
    """Return a dense graph around Alpha."""
    rng = random.Random(seed)
    called = [Entity(f"e{n}", f"Name{n}" if n else "Alpha", aliases=["Twin"]) for n in range(size)]
    triples = {
        (f"e{rng.randrange(size // 4)}", f"e{rng.randrange(size)}", rng.choice("pqr"))
        for _ in range(6 * size)
    }
    return [*map(item, called), *(item(Relationship(*triple)) for triple in sorted(triples))]


@pytest.mark.parametrize("ranker", [GraphRanker(), GraphRanker(3, hub=5, max_relationships=40)])
def test_changes_leave_no_trace_however_the_index_came_about(ranker):
    """The same entries and query give the same ranking, also where there are more relationships than are walked."""
    rng = random.Random(1)
    entries = list(enumerate(crowd(60)))
    fresh = ranker.index()
    changed = ranker.index()
    fresh.add(entries)
    shuffled = rng.sample(entries, len(entries))
    changed.add((ordinal, replace(each, metadata={})) for ordinal, each in shuffled[:100])
    changed.add((ordinal + 10_000, each) for ordinal, each in shuffled)
    for entry in shuffled[100:]:
        changed.add([entry])
    for ordinal, each in shuffled[:100]:
        changed.update(ordinal, each)
    for ordinal, _ in rng.sample(shuffled, len(shuffled)):
        changed.remove(ordinal + 10_000)
    among = [ordinal for ordinal, _ in shuffled[::3]]
    for query in ("Alpha", "p of Name3 and Alpha", "Name7 q", "Twin", "nothing", ""):
        ranked = fresh.rank(query, 1_000)
        assert changed.rank(query, 1_000) == ranked
        assert changed.rank(query, 7) == ranked[:7]
        assert changed.rank(query, 30) == ranked[:30]
        assert changed.rank(query, 1_000, among=among) == [
            match for match in ranked if match[0] in set(among)
        ]
        assert (
            changed.rank(query, 5, among=[*among, 99_999])
            == fresh.rank(query, 1_000, among=among)[:5]
        )
    assert len(changed) == len(entries)


class TestGraphRanker(RankerContract):
    """Texts that are no part of a graph."""

    def make(self):
        return GraphRanker()


def test_a_hub_gives_the_best_of_its_relationships_and_room_for_what_is_behind_them():
    """Of 2,000 relationships those with the query's words come first, then the newest; half the room is kept."""
    hub = [Entity("hub", "Hub"), Entity("e17", "Lion Works")]
    lines = [item(each) for each in hub]
    lines += [
        item(Relationship("hub", f"e{n}", "sues" if n == 17 else "partners"), ("Hub", f"e{n}"))
        for n in range(2_000)
    ]
    lines.append(item(Relationship("e17", "far", "based in"), ("Lion Works", "far")))
    index = GraphRanker(max_relationships=100).index()
    index.add(enumerate(lines))
    ranked = [ordinal for ordinal, _ in index.rank("Whom does Hub sue?", 1_000)]
    near = {ordinal for ordinal, score in index.rank("Whom does Hub sue?", 20_000) if score > 3.5}
    assert set(ranked[:2]) == {0, 2 + 17}
    assert {1, len(lines) - 1} < near
    assert sum(1 for ordinal in near if 2 <= ordinal < len(lines) - 1) == 50


def test_without_room_for_all_those_between_named_entities_come_first_then_the_newest_of_each():
    named = [Entity("a", "Alpha", aliases=["Ay"]), Entity("b", "Beta", aliases=["Bee"])]
    lines = [*map(item, named), item(Relationship("a", "b", "knows"))]
    for n in range(50):
        lines += [
            item(Relationship("a", f"x{n}", "knows")),
            item(Relationship("b", f"y{n}", "knows")),
        ]
    index = GraphRanker(1, max_relationships=6).index()
    index.add(enumerate(lines))
    last = len(lines)
    assert {ordinal for ordinal, _ in index.rank("ay and bee", 100)} == {
        0,
        1,
        2,
        *range(last - 5, last),
    }


def test_what_is_named_by_words_that_no_line_is_found_by_is_found():
    index = GraphRanker().index()
    index.add(
        enumerate([item(Entity("it", "IT")), item(Relationship("it", "x", "runs"), ("IT", "x"))])
    )
    assert index.rank("who is in IT?", 5) == [(0, 2.0), (1, 1.5)]


def test_nearer_hops_fill_a_window_before_newer_lines_without_a_connection():
    """Hops beyond the depth come in their order.

    Lines without a connection are shown only with the whole section.
    """
    names = ["Acme", "Bolt", "Crane", "Dyer", "Elm", "Fox", "Gull", "Hart"]
    memory = SessionMemory.test_mode()
    chain = [Relationship(one, other, "supplies") for one, other in pairwise(names)]
    memory.graph.add([Entity(name, name, "company") for name in names], chain)
    memory.graph.add([Entity(f"stranger{n}", f"Stranger {n}", "firm") for n in range(300)])
    ranked = [
        item.content for item, _ in memory["graph"].proposer.search(Query("What of Acme?"), 50)
    ]
    assert [line.split()[0] for line in ranked if "->" not in line] == names
    for budget in range(80, 400, 40):
        context = asyncio.run(memory.assemble_context("What of Acme?", budget=budget))
        shown = {item.content.split(" (")[0] for item in context.items}
        known = [name for name in names if name in shown]
        assert known == names[: len(known)]
        assert not any("Stranger" in line for line in shown)
    whole = asyncio.run(memory.assemble_context("What of Acme?", budget=20_000))
    assert len(whole.items) == len(memory["graph"])


def test_text_without_structure_is_ranked_by_its_words():
    """Notes in the section, and metadata that is no part of a graph, are lines like any other."""
    memory = SessionMemory.test_mode(sections=(SPEC,))
    memory.graph.add([Entity("a", "Alpha")], [Relationship("a", "b", "owns")])
    note = memory.add(
        "graph",
        "Deliveries come late in winter",
        metadata={"entity": "a", "relationship": {"source": 1}},
    )
    memory.add("graph", "other", id="entity:b", metadata={"entity": {"id": "c"}})
    assert memory["graph"].proposer.search(Query("late delivery"), 5)[0][0] == note
    assert [
        item.content
        for item, _ in memory["graph"].proposer.search(Query("late delivery at Alpha"), 5)
    ] == [
        "Alpha",
        "Alpha -[owns]-> b",
        "Deliveries come late in winter",
    ]
    assert "b" not in memory.graph
    assert list(memory.graph) == [Entity("a", "Alpha"), Relationship("a", "b", "owns"), Entity("c")]


def test_another_ranker_may_rank_the_words():
    ranker = GraphRanker(words=RankBM25Ranker())
    assert ranker.name == "graph-2-rank-bm25"
    index = ranker.index()
    reference = GraphRanker(words=BM25Ranker()).index()
    for each in (index, reference):
        each.add(enumerate(crowd(20)))
    ours = [ordinal for ordinal, _ in index.rank("Alpha p", 500)]
    expected = [ordinal for ordinal, _ in reference.rank("Alpha p", 500)]
    assert ours[:20] == expected[:20]
    assert sorted(ours) == sorted(expected)


@pytest.mark.parametrize(
    "given", [{"depth": 0}, {"hub": 0}, {"max_relationships": 0}, {"depth": 1.5}, {"hub": True}]
)
def test_a_parameter_out_of_range_is_refused(given):
    with pytest.raises(ValueError, match=f"{next(iter(given))} is .* whole number"):
        GraphRanker(**given)


def test_a_longer_name_evicts_what_no_longer_fits_with_it():
    """The lines that name it are written anew, and the oldest of them give way."""
    memory = SessionMemory.test_mode(sections=(replace(SPEC, budget=120, eviction="fifo"),))
    memory.graph.add([Entity("h", "H")], [Relationship("h", f"x{n}", "owns") for n in range(12)])
    long = Entity("h", "A name that is so much longer than the one before")
    memory.graph.add([long], pinned=True)
    lines = [each.content for each in memory["graph"]]
    assert memory["graph"].used <= 120
    assert 1 < len(lines) < 13
    assert all(line.startswith(long.name) for line in lines)


def test_a_section_that_is_no_graph_says_so():
    with pytest.raises(NotFoundError, match="no section 'graph'"):
        _ = SessionMemory.test_mode(sections=(SectionSpec("notes"),)).graph
    with pytest.raises(NotFoundError, match="ranker=GraphRanker"):
        _ = SessionMemory.test_mode(sections=(SectionSpec("graph"),)).graph


async def test_a_graph_may_stand_in_the_system_message():
    """What the application itself says there is derived from nothing."""
    memory = SessionMemory.test_mode(sections=(replace(SPEC, placement="static"),))
    memory.graph.add([Entity("a", "Alpha")], [Relationship("a", "b", "owns")])
    context = await memory.assemble_context("", budget=100, format="openai")
    assert "Alpha -[owns]-> b" in context.messages[0]["content"]
    assert [(each.sources, each.trust) for each in memory["graph"]] == [((), Trust.APPLICATION)] * 2
    memory.graph.add([Entity("b", "Beta")], trust=Trust.EXTERNAL)
    assert [(each.sources, each.trust) for each in memory["graph"]][1] == ((), Trust.EXTERNAL)


def test_looking_at_a_graph():
    memory = SessionMemory.test_mode()
    graph = memory.graph
    graph.add([Entity("a", "Alpha")], [Relationship("a", "b", "owns")])
    assert "a" in graph
    assert "b" not in graph
    assert graph.entity("b") is None
    with pytest.raises(ValueError, match="depth is 0"):
        graph.neighbors("a", depth=0)


@pytest.mark.parametrize(
    ("begin", "end", "shown"),
    [
        ("2012", "2019-05", "(2012 until May 2019)"),
        (2012, None, "(since 2012)"),
        (None, "2019-05-01", "(until 1 May 2019)"),
    ],
)
def test_a_relationship_begins_and_ends_with_a_year_or_a_month(begin, end, shown):
    """An end by a year is its first moment. So an ended fact never shows as if it still held."""
    stated = {"valid_from": begin, "valid_until": end}
    job = Relationship("ann", "acme", "works at", properties=stated)
    assert job.line("Ann", "Acme") == f"Ann -[works at]-> Acme {shown}"
    for year, holds in ((2011, begin is None), (2015, True), (2020, end is None)):
        assert job.validity.covers(datetime(year, 6, 1, tzinfo=UTC)) == holds


@pytest.mark.parametrize("end", ["last year", "2019-13", 5, True, [2019]])
def test_an_end_that_is_no_time_is_refused(end):
    with pytest.raises(InvalidArgumentError, match=r"valid_until is .+ give a time"):
        Relationship("ann", "acme", "works at", properties={"valid_until": end})


async def test_as_of_shows_the_relationships_that_held_then(tmp_path):
    """Their own interval counts, not when the session was told; the ends that it names are shown with them."""
    async with SessionMemory.open(str(tmp_path), "s", counter="estimate") as memory:
        jobs = [
            Relationship(
                "ann",
                "acme",
                "works at",
                properties={"valid_from": "2019-05-01", "valid_until": "2023-02-01"},
            ),
            Relationship(
                "ann", "beta", "works at", properties={"valid_from": "2023-02-01T00:00:00+02:00"}
            ),
            Relationship("acme", "oslo", "based in", properties={"valid_until": "2021-01-01"}),
        ]
        memory.graph.add([{"id": "ann", "name": "Ann Smith"}, {"id": "acme"}, {"id": "beta"}], jobs)
        memory.graph.add([{"id": "rome", "name": "Rome"}])
        await memory.save()
        for as_of, expected in (
            ("2018-01-01", {"acme", "Acme's seat"}),
            ("2019-05-01", {"Ann Smith", "acme", "Acme job", "Acme's seat"}),
            ("2023-01-31", {"Ann Smith", "acme", "Acme job"}),
            ("2023-02-01", {"Ann Smith", "beta", "Beta job"}),
        ):
            context = await memory.at(as_of=as_of).assemble_context(
                "Where does Ann Smith work?", budget=2_000
            )
            names = dict(
                zip(
                    (each.item_id for each in jobs),
                    ("Acme job", "Beta job", "Acme's seat"),
                    strict=True,
                )
            )
            shown = {names.get(item.id, item.text) for item in context.items}
            assert shown == expected, as_of
        memory.graph.remove(relationships=[jobs[0].id])
        context = await memory.at(as_of="2020-01-01").assemble_context("Ann", budget=2_000)
        assert jobs[0].item_id in {item.id for item in context.items}  # it ended today
