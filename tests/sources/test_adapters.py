"""What each kind of store shows, how it is narrowed, fetched and forgotten."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaosmem import ImageBlock, NotFoundError, Reason, SectionSpec, SessionMemory, Trust
from kaosmem.errors import MissingFileError, SourceError
from kaosmem.language.query import Query
from kaosmem.sections import NamedSource
from kaosmem.sources import (
    BlobHandle,
    BlobSource,
    FactSource,
    GraphSource,
    StateSource,
    TaskSource,
    VectorSource,
)
from kaosmem.stores import (
    Entity,
    InMemoryLongTermMemory,
    Relationship,
    Task,
    TaskStatus,
    VectorDocument,
)
from tests.sources.stores import FORGETTING, Stores, WordVectorClient, attached, forgets


@pytest.fixture
def stores():
    return Stores.new()


@pytest.fixture
def memory():
    return SessionMemory.test_mode()


async def shown(memory, source, query="", budget=1_000, **options):
    """Return the texts that one source alone brings."""
    name = next((name for name, each in memory.admin.sources.items() if each is source), None)
    name = name or await memory.attach(source)
    context = await memory.assemble_context(query, budget=budget, sections=[name], **options)
    assert context.sources[name].status == "ok"
    return [item.text for item in context.items]


@pytest.mark.parametrize("budget", [256, 512, 2_000])
async def test_documents_leave_room_for_the_relations_of_an_entity(stores, memory, budget):
    """Any number of documents match a name, and the graph has a line that answers in a few tokens."""
    for number in range(200):
        text = f"Room {number}: the Lindgren lamp works in the dark, {'and so on ' * (number % 9)}."
        memory.add("documents", text)
    graph = GraphSource(stores.graph)
    works = Relationship("lindgren", "uppsala", "works in")
    await graph.add([Entity("lindgren", "Dr. Lindgren"), Entity("uppsala", "Uppsala")], [works])
    await memory.attach(graph)
    context = await memory.assemble_context("Where does Dr. Lindgren work?", budget=budget)
    assert "-[works in]-> Uppsala" in context.text
    assert context.by_section["documents"].items > 1


async def test_facts_that_answer_come_best_first_with_their_scores(stores, memory):
    """The facts of this agent and namespace are ranked by the question, and shown oldest first."""
    for text in (
        "Ada likes tea",
        "the notice period is thirty days",
        "Ada's notice period is ninety days",
    ):
        await stores.facts.save("a", text)
    await stores.facts.save("a", "the notice period of another namespace", namespace="other")
    await stores.facts.save("b", "the notice period of another agent")
    facts = FactSource(stores.facts, "a")
    context = await memory.assemble_context(
        "Ada's notice period", budget=500, sections=[await memory.attach(facts)]
    )
    texts = [
        "Ada likes tea",
        "the notice period is thirty days",
        "Ada's notice period is ninety days",
    ]
    assert [item.text for item in context.items] == texts
    ranks = [context.decision(item.id).rank for item in context.items]
    assert ranks == [3, 2, 1]
    assert await shown(memory, facts) == []
    found = await stores.facts.search("a", "notice")
    proposal = await facts.propose(Query("notice"), cap=100)
    assert [unit.score for unit in proposal.candidates] == [each.score for each in found]
    (item,) = proposal.candidates[0].items
    assert item.created_at.isoformat() == found[0].metadata["timestamp"]
    assert item.trust is Trust.EXTERNAL


async def test_a_store_is_asked_until_twice_the_cap_is_found(stores):
    """Small texts fill a cap as large ones do, and what a filter leaves out keeps no room from what passes."""
    for number in range(600):
        await stores.facts.save("a", f"notice {number}")
    facts = FactSource(stores.facts, "a")
    proposal = await facts.propose(Query("notice"), cap=500)
    assert 1_000 <= sum(unit.tokens for unit in proposal.candidates) < 1_010
    large = [
        VectorDocument("notice " * 400 + str(n), f"large{n}", metadata={"kind": "large"})
        for n in range(40)
    ]
    small = [
        VectorDocument(f"notice {n}", f"small{n}", metadata={"kind": "small"}) for n in range(40)
    ]
    await stores.vectors.add([*large, *small])
    memory = SessionMemory.test_mode()
    vectors = VectorSource(stores.vectors, WordVectorClient())
    texts = await shown(memory, vectors, "notice", budget=100, filter={"kind": "small"})
    assert len(texts) > 5
    assert max(map(len, texts)) < 10


async def test_a_store_that_changes_between_two_answers_gives_no_item_twice():
    """What moved down the list since it was first asked for is proposed once."""

    class Growing(InMemoryLongTermMemory):
        async def search(self, agent_id, query, namespace="default", limit=5, **named):
            await self.save(agent_id, "notice notice")
            return await super().search(agent_id, query, namespace=namespace, limit=limit, **named)

    store = Growing()
    for number in range(100):
        await store.save("a", f"notice {number}")
    proposal = await FactSource(store, "a").propose(Query("notice"), cap=500)
    ids = [item.id for unit in proposal.candidates for item in unit.items]
    assert len(set(ids)) == len(ids) > 50


async def test_what_can_not_be_shown_keeps_no_room(stores, memory):
    """Copies of one text, and texts larger than the cap, do not crowd out the others that were found."""
    for _ in range(100):
        await stores.facts.save(
            "a", "notice notice period of Acme, given by hand on the first of a month"
        )
    await stores.facts.save("a", "notice " + "word " * 500)
    await stores.facts.save(
        "a", "a notice period of Birch, among the many other words that make it rank last of all"
    )
    texts = await shown(memory, FactSource(stores.facts, "a"), "notice period", budget=70)
    assert len(texts) == 2
    assert any("Birch" in text for text in texts)


async def test_a_state_is_lines_in_order_of_its_keys(stores, memory):
    """Values are JSON but for texts, and a state that changes is shown as it is now."""
    state = StateSource(stores.state, "s")
    assert await shown(memory, state) == []
    await stores.state.set_state(
        "s", {"step": 2, "goal": "ship it", "done": ["a", "b"], "über": None}
    )
    assert await shown(memory, state) == [
        'done: ["a","b"]',
        "goal: ship it",
        "step: 2",
        "über: null",
    ]
    await stores.state.update_state("s", {"step": 3})
    assert "step: 3" in await shown(memory, state, "an unrelated question")
    assert await shown(memory, state, filter={"key": "goal"}) == ["goal: ship it"]
    assert await shown(memory, state, filter={"source": "a.md"}) == []
    assert len(await shown(memory, state, filter={"$if_present": {"source": "a.md"}})) == 4
    assert (await memory.fetch("state/step")).text == "step: 3"
    with pytest.raises(NotFoundError):
        await memory.fetch("state/steps")


async def test_vectors_come_by_cosine_and_a_filter_narrows_where_there_is_its_field(stores, memory):
    """A filter of fields that no document has lets nothing through; a query without words finds nothing."""
    texts = {
        "cat": "a cat on a mat",
        "dog": "a dog in the fog",
        "law": "the governing law of the contract",
    }
    await stores.vectors.add(
        VectorDocument(text, key, metadata={"kind": key}) for key, text in texts.items()
    )
    vectors = VectorSource(stores.vectors, WordVectorClient())
    await memory.attach(vectors)
    (embedding,) = await WordVectorClient().embed(["kittens"])
    found = await stores.vectors.search(embedding)
    context = await memory.assemble_context("kittens", budget=500)
    assert context.items[0].text == texts["cat"]
    for each in found:
        decision = context.decision(f"vectors/{each.id}")
        assert (decision.score, decision.reason) == (each.score, Reason.RELEVANT)
    assert await shown(memory, vectors, "kittens", filter={"kind": {"$in": ["law", "dog"]}}) == [
        texts[each.id] for each in found if each.id != "cat"
    ]
    assert await shown(memory, vectors, "kittens", filter={"year": 2024}) == []
    unknown = await memory.assemble_context("kittens", budget=500, filter={"kinds": "cat"})
    assert unknown.notices == (
        "the filter leaves out all of 'vectors': none has the field 'kinds'; the nearest is 'kind'",
    )
    misspelled = await memory.assemble_context(
        "kittens", budget=500, filter={"kinds": {"$ne": "cat"}}
    )
    assert (misspelled.items, misspelled.notices) == ((), unknown.notices)
    assert len(await shown(memory, vectors, "kittens", filter={"$if_present": {"year": 2024}})) == 3
    assert await shown(memory, vectors, "kittens", filter={"kind": "bird"}) == []
    assert await shown(memory, vectors) == []


async def test_a_query_that_means_nothing_finds_nothing(stores, memory):
    """Where a client embeds it as zeros, which have no direction, the source is well and has nothing to say."""

    class Zeros:
        async def embed(self, texts):
            return [[0.0] * 256 for _ in texts]

    await stores.vectors.add([VectorDocument("a cat on a mat", "cat")])
    assert await shown(memory, VectorSource(stores.vectors, Zeros()), "?!") == []


async def test_a_graph_shows_what_is_around_the_named(stores, memory):
    """As lines, also two steps away and under names that only the source knows; nothing where none is named."""
    graph = GraphSource(
        stores.graph, [{"id": "acme", "name": "Acme Corp", "aliases": ["the bridge builder"]}]
    )
    await stores.graph.add_entities(
        [{"id": "acme", "name": "Acme Corp"}, {"id": "far", "name": "Far Away"}]
    )
    await graph.add(
        [{"id": "beta", "name": "Beta Bolts"}, {"id": "lyon", "name": "Lyon"}],
        [
            {"source": "beta", "target": "acme", "type": "supplies", "description": "bolts"},
            {"source": "beta", "target": "lyon", "type": "ships from"},
            {"source": "lyon", "target": "far", "type": "twinned with"},
        ],
    )
    lines = await shown(memory, graph, "What could delay Acme Corp?")
    assert "Beta Bolts -[supplies]-> Acme Corp: bolts" in lines
    assert "Lyon" in lines
    assert not any("Far Away" in line for line in lines)
    assert set(lines) == set(await shown(memory, graph, "What could delay the bridge builder?"))
    assert await shown(memory, graph, "What could delay it?") == []
    for item in (await memory.assemble_context("Acme Corp", budget=500)).items:
        assert await memory.fetch(item.id) == item
    for unknown in (
        "relations/entity:",
        "relations/x",
        "relations/relationship:[1]",
        "relations/entity:nobody",
    ):
        with pytest.raises(NotFoundError):
            await memory.fetch(unknown)


async def test_relationships_of_the_same_ends_are_told_apart(stores, memory):
    """Each of them is shown, fetched and forgotten by its own id."""
    jobs = [
        {
            "source": "ann",
            "target": "acme",
            "type": "works at",
            "id": "job-1",
            "description": "clerk",
        },
        {
            "source": "ann",
            "target": "acme",
            "type": "works at",
            "id": "job-2",
            "description": "director",
        },
        {"source": "ann", "target": "acme", "type": "works at"},
    ]
    graph = GraphSource(stores.graph)
    await graph.add([Entity("ann", "Ann"), Entity("acme", "Acme")], jobs)
    assert len(await shown(memory, graph, "Where does Ann work?")) == 5
    item = await memory.fetch('relations/relationship:["ann","job-2"]')
    assert item.text == "Ann -[works at]-> Acme: director"
    await memory.forget(item.id, 'relations/relationship:["ann","works at","acme"]')
    left = (await stores.graph.get_neighbors("ann")).relationships
    assert [each.id for each in left] == ["job-1"]
    for unknown in (
        "[]",
        '["ann"]',
        '["ann","job-2"]',
        '["ann",5]',
        '["ann","a","b","c"]',
        "5",
        '[["ann"],"job-1"]',
        "{}",
    ):
        with pytest.raises(NotFoundError):
            await memory.fetch(f"relations/relationship:{unknown}")


def link(source, target, begin=None, end=None):
    stated = {name: value for name, value in (("valid_from", begin), ("valid_until", end)) if value}
    return Relationship(
        source, target, "moved to", properties=stated, id=f"{source}-{target}-{begin}-{end}"
    )


_years = st.none() | st.integers(2000, 2009).map(str)


@given(
    st.lists(
        st.tuples(st.sampled_from("abcdef"), st.sampled_from("abcdef"), _years, _years), max_size=12
    ),
    st.integers(2000, 2009),
)
def test_a_walk_as_of_a_time_is_the_walk_of_then(links, year):
    """It shows what a store would show that held the relationships of that time alone."""
    dated = [
        link(a, b, begin and f"{begin}-01-01", end and f"{end}-01-01") for a, b, begin, end in links
    ]
    then = [
        each
        for each, (*_, begin, end) in zip(dated, links, strict=True)
        if (begin is None or int(begin) <= year) and (end is None or year < int(end))
    ]
    query = Query("a", as_of=datetime(year, 1, 1, tzinfo=UTC))

    async def texts(relationships):
        graph = GraphSource(Stores.new().graph, depth=9)
        await graph.add([Entity("a")], relationships)
        proposal = await graph.propose(query, cap=10_000)
        return {unit.items[0].text for unit in proposal.candidates}

    assert asyncio.run(texts(dated)) == asyncio.run(texts(then))


async def test_a_board_shows_what_is_open_first(stores, memory):
    """In its own order, under the status, whatever the query; narrowed by status."""
    await stores.tasks.create_task_list(
        "c", "a", [Task("t1", "read"), Task("t2", "write\nit"), Task("t3", "file")]
    )
    for status in (TaskStatus.IN_PROGRESS, TaskStatus.SUCCEEDED):
        await stores.tasks.update_status("c", "a", "t1", status)
    for status in (TaskStatus.IN_PROGRESS, TaskStatus.FAILED):
        await stores.tasks.update_status("c", "a", "t3", status)
    await stores.tasks.increment_retry("c", "a", "t3")
    board = TaskSource(stores.tasks, "c", "a")
    assert await shown(memory, board, "read") == [
        "t2: write it",
        "t3: file (retry 1 of 3)",
        "t1: read",
    ]
    text = (await memory.assemble_context("read", budget=500)).text
    assert "## tasks\n[planned] t2: write it\n[in_progress] t3: file" in text
    assert await shown(memory, board, filter={"status": "succeeded"}) == ["t1: read"]
    assert (await memory.fetch("tasks/t2")).role == "planned"
    assert await shown(memory, TaskSource(stores.tasks, "c", "b")) == []


async def test_an_artefact_is_a_handle_until_it_is_fetched(stores, memory):
    """Text comes whole, an image as one, other bytes as a URL; the newest is first, or what the query asks for."""
    files = BlobSource(stores.files)
    await memory.attach(files)
    report = "Umsätze des Jahres: gut. " * 10_000
    await files.upload("report.txt", report.encode(), content_type="text/plain")
    await files.upload("chart.png", b"\x89PNG\x00", content_type="image/png")
    await files.upload("model.bin", b"\x00\xff" * 50, content_type="application/octet-stream")
    texts = await shown(memory, files, budget=500)
    assert texts[:2] == [
        "model.bin (application/octet-stream, 100 bytes)",
        "chart.png (image/png, 5 bytes)",
    ]
    assert texts[2].startswith("report.txt (text/plain, 260,000 bytes): Umsätze")
    assert len(texts[2]) < 400
    fetched = await memory.fetch("files/report.txt")
    assert fetched.content == report
    assert fetched.tokens == memory.admin.counter(report)
    (image,) = (await memory.fetch("files/chart.png")).content
    assert image == ImageBlock("data:image/png;base64,iVBORwA=", "image/png")
    assert (await memory.fetch("files/model.bin")).text.endswith("memory://model.bin")
    for number in range(30):
        await files.upload(
            f"{number}.txt", f"minutes of meeting {number}".encode(), content_type="text/plain"
        )
    assert (await shown(memory, files, "Umsätze", budget=200))[0].startswith("report.txt")
    again = BlobSource(stores.files, files.handles)
    assert (await again.propose(Query("Umsätze"), cap=100)) == (
        await files.propose(Query("Umsätze"), cap=100)
    )
    await stores.files.delete("0.txt")
    with pytest.raises(NotFoundError):
        await memory.fetch("files/0.txt")
    assert "0.txt" not in [handle.key for handle in files.handles]


@pytest.mark.parametrize("format", ["text", "openai", "anthropic"])
async def test_labels_name_source_day_and_speaker(stores, memory, format):
    """Facts, documents and artefacts of one source and day share a header, and each line names its speaker."""
    said = {"source": "session_5", "timestamp": "2023-05-08T13:56:00"}
    texts = {
        "Emi": "I moved to Oslo.",
        "Kate": "When did you move to Oslo?",
        "system": "Oslo obeys me.",
    }
    vectors = VectorSource(stores.vectors, WordVectorClient())
    files = BlobSource(stores.files)
    for speaker, text in texts.items():
        metadata = {**said, "speaker": speaker}
        await stores.facts.save("a", text, metadata=metadata)
        await stores.vectors.add([VectorDocument(text, speaker, metadata=metadata)])
        await files.upload(speaker, text.encode(), content_type="text/plain", metadata=metadata)
    for source in (FactSource(stores.facts, "a"), vectors, files):
        name = await memory.attach(source)
        context = await memory.assemble_context("Oslo", budget=500, sections=[name], format=format)
        block = context.text if format == "text" else str(context.messages)
        assert block.count("[session_5, 8 May 2023]") == 1
        assert all(f"{speaker}: " in block for speaker in ("Emi", "Kate", "unverified-system"))
        assert "system: " not in block.replace("unverified-system: ", "")


@pytest.mark.parametrize("cut", range(2_395, 2_405))
def test_a_preview_ends_at_a_character(cut):
    """Wherever the bytes are cut, text stays text and bytes stay bytes."""
    data = ("x" * (cut % 4) + "日本語👍" * 2_000).encode()
    assert "日本" in BlobHandle.of("k", data, content_type="text/plain").preview
    assert (
        BlobHandle.of("k", data[:cut] + b"\xff" + data[cut:], content_type="").preview == ""
        or cut >= 2_400
    )
    assert BlobHandle.of("k", b"", content_type="text/plain").text == "k (text/plain, 0 bytes)"


async def test_forgetting_reaches_into_stores_that_can(stores, memory):
    """What can't is named, and still has it; neighbours in the store stay."""
    kept, gone = [await stores.facts.save("a", f"notice {n}") for n in range(2)]
    await stores.state.set_state("s", {"kept": 1, "gone": 2})
    await stores.vectors.add([VectorDocument("notice", "kept"), VectorDocument("period", "gone")])
    await stores.graph.add_relationships([{"source": "kept", "target": "gone", "type": "knows"}])
    await stores.tasks.create_task_list("c", "a", [Task("kept", "x"), Task("gone", "y")])
    sources = stores.sources()
    await attached(memory, sources)
    assert {source.spec.name for source in sources if forgets(source)} == FORGETTING
    blobs = next(source for source in sources if isinstance(source, BlobSource))
    for key in ("kept", "gone"):
        await blobs.upload(key, key.encode(), content_type="text/plain")
    derived = memory.add("findings", "derived", sources=[f"facts/{gone}"])
    await memory.forget(f"facts/{gone}", "vectors/gone", "relations/entity:gone", "files/gone")
    assert derived.id not in memory
    assert await stores.facts.get("a", gone) is None
    assert await stores.facts.get("a", kept) is not None
    assert [each.id for each in await stores.vectors.get(["kept", "gone"])] == ["kept"]
    around = await stores.graph.get_neighbors("kept")
    assert (around.entities, around.relationships) == ((Entity("kept"),), ())
    assert [handle.key for handle in blobs.handles] == ["kept"]
    for item_id, name in (("state/gone", "state"), ("tasks/gone", "tasks")):
        with pytest.raises(SourceError, match=name):
            await memory.forget(item_id)
        assert (await memory.fetch(item_id)).id == item_id
    with pytest.raises(MissingFileError):
        await stores.files.download("gone")
    await stores.graph.add_relationships([{"source": "kept", "target": "near", "type": "knows"}])
    await memory.forget('relations/relationship:["kept","knows","near"]')
    assert not (await stores.graph.get_neighbors("kept")).relationships
    with pytest.raises(NotFoundError):
        await memory.fetch("facts/")


async def test_a_forgotten_entity_is_found_by_none_of_its_names(stores, memory):
    """Not even where another is stored under its id."""
    graph = GraphSource(stores.graph)
    await graph.add([{"id": "e1", "name": "Ada Lovelace", "aliases": ["the countess"]}])
    assert await shown(memory, graph, "Who is the countess?") == ["Ada Lovelace, also the countess"]
    await memory.forget("relations/entity:e1")
    await stores.graph.add_entities([{"id": "e1", "name": "Charles"}])
    assert await shown(memory, graph, "Who is the countess, Ada Lovelace?") == []


async def test_two_sources_of_a_kind_never_share_an_id(stores, memory):
    """The second is numbered, its ids too; forgetting in one leaves the other."""
    for agent in ("a", "b"):
        await stores.tasks.create_task_list("c", agent, [Task("t", f"of {agent}")])
        await stores.vectors.add([VectorDocument(f"notice of {agent}", "1")], collection=agent)
    for agent in ("a", "b"):
        await memory.attach(TaskSource(stores.tasks, "c", agent))
        await memory.attach(VectorSource(stores.vectors, WordVectorClient(), collection=agent))
    assert all(isinstance(source, NamedSource) for source in memory.admin.sources.values())
    context = await memory.assemble_context("notice", budget=500)
    assert {item.id: item.text for item in context.items} == {
        "tasks/t": "t: of a",
        "vectors/1": "notice of a",
        "tasks-2/t": "t: of b",
        "vectors-2/1": "notice of b",
    }
    assert "## tasks\n[planned] t: of b" in context.text
    await memory.forget("vectors/1")
    assert (await memory.fetch("vectors-2/1")).text == "notice of b"
    assert await stores.vectors.list_collections() == ["b"]


@pytest.mark.parametrize("placement", ["static", "history"])
async def test_a_store_is_shown_in_the_block_alone(stores, placement):
    """It can't be made a system message, nor turns of the conversation."""
    spec = replace(SectionSpec("x"), placement=placement)
    for source in (
        lambda: FactSource(stores.facts, "a", spec=spec),
        lambda: StateSource(stores.state, "s", spec=spec),
    ):
        with pytest.raises(ValueError, match="query"):
            source()
