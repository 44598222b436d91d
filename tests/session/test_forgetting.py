"""Forgetting in memory: after it nothing of an item, nor of what was derived from it, is anywhere in the process."""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict, deque
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

import numpy as np
import pytest

from kaosmem import (
    BM25Ranker,
    ImageBlock,
    Section,
    SectionSpec,
    SessionMemory,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from kaosmem.errors import ReadOnlyError
from kaosmem.language.query import Query
from kaosmem.retrieval import GraphRanker, RankBM25Ranker
from kaosmem.sections import ForgettingSource
from kaosmem.sections.eviction import POLICIES
from kaosmem.sections.substitution import derived_from
from kaosmem.session.source_registry import SourceRegistry
from kaosmem.testing import paths_holding
from kaosmem.tokens import get_counter
from tests.canary import modules_of, traces
from tests.session.notes import ErasableNotes, Notes, item

# What no other text holds, in scripts that are analysed each in its own way.
NEEDLES = ("qzxj", "龘靐", "ъьщэ", "ψξθζ", "پژگڤ", "🦤🪶")
CANARY = (
    "qzxj Qzxjkanarie, QZXJ! qzxjversicherungsgesellschaft Qzxjrückversicherungsfrist l'qzxjavocat "
    "qzxj_snake_case "
    "QzxjCamelCase2 qzxj.os.path QZXJ-17 qzxj's 4.2(qzxj) 龘靐 書龘靐文 ъьщэканарейка ψξθζος پژگڤ 🦤🪶 "
    + "qzxj"
    * 20
)
NOISE = "the notice period {0} of clause {0} is thirty-{0} days for either party {0}"
EVICTING = tuple(policy for policy in POLICIES if policy not in ("none", "refuse"))
FORMATS = ("text", "openai", "anthropic")

SPECS = (
    SectionSpec("role", priority=100, placement="static", eviction="none"),
    SectionSpec("playbooks", 8_000, 80, placement="static", eviction="none"),
    SectionSpec("messages", 2_600, 90, 0.3, placement="history", recent=4),
    SectionSpec("side", 2_600, 20, placement="history", persistence="none"),
    SectionSpec("documents", None, 50, 0.2, eviction="none", retrieval_threshold=0),
    SectionSpec("bm25", None, 50, eviction="none", retrieval_threshold=0, ranker=BM25Ranker()),
    SectionSpec(
        "reference", None, 50, eviction="none", retrieval_threshold=0, ranker=RankBM25Ranker()
    ),
    SectionSpec("graph", None, 45, eviction="none", retrieval_threshold=0, ranker=GraphRanker()),
    SectionSpec("audit", None, 0, eviction="none", in_context=False),
    SectionSpec("refuse", 2_000, 10, eviction="refuse", retrieval_threshold=0),
    *(SectionSpec(policy, 400, 10, eviction=policy, retrieval_threshold=0) for policy in EVICTING),
)
TEXT_SECTIONS = tuple(spec.name for spec in SPECS if spec.name != "graph")


@pytest.fixture(autouse=True)
def _a_process_that_knows_nothing():
    """Other tests' memos are not this test's."""
    from kaosmem.memos import clear_memos

    clear_memos()


def test_the_search_finds_what_a_module_remembers():
    """The terms of a ranked text are found in the memos of the module that analyses it."""
    from kaosmem.language.analysis import analyze

    assert not traces(NEEDLES, modules_of())
    analyze(CANARY)
    found = traces(NEEDLES, modules_of())
    assert any("_ChunkTerms" in way for way in found)
    assert any("_PairTerms" in way for way in found)
    assert any("_lru_cache_wrapper" in way for way in found)


def filled():
    """Return a session with the canary in every kind of section and state, and the ids of those items to forget."""
    memory = SessionMemory.test_mode(sections=SPECS, counter="estimate")
    return memory, fill(memory, mark="qzxj")


def fill(memory, *, mark):
    """Put the canary into every kind of section and state; return the ids of those items, which begin with a mark."""
    forgotten = []

    def add(section, content, **given):
        return memory.add(section, content, **given)

    memory.add("role", "You read contracts.")
    for name in TEXT_SECTIONS:
        for number in range(3):
            add(name, NOISE.format(number), metadata={"source": f"{number}.md"})
    for name in TEXT_SECTIONS:
        item = add(
            name,
            f"{CANARY} of {name}",
            id=f"{mark}-{name}",
            key="key-qzxj",
            tags=("qzxj-tag",),
            metadata={"source": "qzxj/龘靐.md", "qzxj": "qzxj", "lines": [1, 2]},
        )
        forgotten.append(item.id)
        replaced = add(name, f"first {CANARY}", id=f"updated-{name}")
        memory.update(replaced.id, f"second {CANARY}")
        removed = add(name, f"removed {CANARY}", id=f"removed-{name}")
        memory.remove(removed.id)
        forgotten += [replaced.id, removed.id]
    forgotten += [item.id for item in spoken(memory)]
    forgotten.append(
        memory.graph.add([{"id": mark, "name": "Qzxj Ltd", "aliases": ["QZXJ"]}])[0].id
    )
    memory.graph.add(
        [{"id": "acme", "name": "Acme"}, {"id": "beta"}],
        [
            {"source": "acme", "target": mark, "type": "owns"},
            {"source": "acme", "target": "beta", "type": "supplies"},
        ],
    )
    derive(memory, forgotten[0])
    return forgotten


def spoken(memory):
    """Add a call with the canary, its results, an image and a speaker of that name to the histories."""
    added = []
    for name in ("messages", "side"):
        call = ToolUseBlock("call-qzxj", "find", json.dumps({"q": CANARY}, ensure_ascii=False))
        added.append(memory.add(name, [call, ToolUseBlock("call-2", "find")], role="assistant"))
        added.append(memory.add(name, [ToolResultBlock("call-qzxj", CANARY)], role="tool"))
        memory.add(name, [ToolResultBlock("call-2", "found")], role="tool")
        image = ImageBlock("https://example.org/qzxj.png")
        added.append(memory.add(name, [TextBlock(CANARY), image], role="qzxjspeaker"))
        added.append(memory.add(name, "a plain text", role="qzxjspeaker"))
    return added


def derive(memory, source):
    """Add what was derived from an item in three steps, some of it evicted, updated or archived."""
    for step in range(3):
        derived = memory.add(
            "documents", f"summary {step} of {CANARY}", sources=[source], id=f"step-{step}"
        )
        other = memory.add("lru", f"note {step} on {CANARY}", sources=[derived.id])
        memory.add(
            "messages", f"said {step}: {CANARY}", sources=[derived.id, other.id], role="assistant"
        )
        source = derived.id
    memory.update("step-1", "by now the summary says nothing of it")
    memory.remove("step-2")


def crowd(memory):
    """Add so much that bounded sections evict most of what they held."""
    for names, count in ((("messages", "side"), 150), (EVICTING, 40)):
        for number in range(count):
            for name in names:
                memory.add(name, NOISE.format(number), priority=1)


def versions(memory):
    """Yield all that a memory knows, live and archived."""
    for spec in memory.sections:
        yield from memory[spec.name]
        yield from (version.item for version in memory[spec.name].archive.in_memory())


async def ask(memory):
    """Rank, filter, search and assemble for the canary, in every format, whole and cut."""
    contexts = []
    for number, query in enumerate((CANARY, "qzxj", "龘靐", None, "notice period")):
        contexts.append(
            await memory.assemble_context(query, budget=20_000, format=FORMATS[number % 3])
        )
        cut = FORMATS[(number + 1) % 3]
        contexts.append(
            await memory.assemble_context(query, budget=6_000, format=cut, overflow="cut")
        )
    contexts.append(await memory.assemble_context(CANARY, budget=20_000, filter={"qzxj": "qzxj"}))
    contexts.append(
        await memory.assemble_context(CANARY, budget=20_000, filter={"source": "qzxj/龘靐.md"})
    )
    for name in (spec.name for spec in memory.sections):
        memory.search(CANARY, name)
    memory.graph.neighbors("acme", depth=2)
    return contexts


def forget(memory, item_ids):
    """Forget items and what was derived from them in all sections, and return their ids."""
    doomed = derived_from(item_ids, versions(memory))
    memory._session.saver.trace.forget(doomed)
    for spec in memory.sections:
        memory[spec.name].drain_journal()
        memory[spec.name].forget(doomed)
        memory[spec.name].index.purge()
    return doomed


def handed_over(context):
    """Return all that a context gives away but the query, which is the user's."""
    shown = [context.rendered, context.items, context.decisions, context.by_section]
    return f"{shown!r}{[(item.to_dict(), item.text) for item in context.items]!r}".casefold()


async def test_not_a_byte_of_what_is_forgotten_is_in_memory():
    """Nor of what was derived from it: in no section, index, memo or cache, and in no later context of the session."""
    memory, item_ids = filled()
    await ask(memory)
    crowd(memory)  # evicts it where a section is bounded
    contexts = await ask(memory)
    assert any("qzxj" in handed_over(context) for context in contexts)
    assert len(traces(NEEDLES, [memory])) > 100
    del contexts
    doomed = forget(memory, item_ids)
    assert {"step-0", "step-1", "step-2"} <= doomed
    assert traces(NEEDLES, [memory, *modules_of()]) == []
    await _goes_on_without(memory, item_ids)


async def _goes_on_without(memory, item_ids):
    """Make sure that no query, format or budget shows any of these items, and that what is left is still shown."""
    queries = (CANARY, "qzxj", "龘靐", "summary", "Acme", None, "notice period")
    for turn in range(len(queries)):
        memory.add("messages", f"question {turn} about the notice period", role="user")
        budget = (3_000, 20_000)[turn % 2]
        context = await memory.assemble_context(
            queries[turn], budget=budget, format=FORMATS[turn % 3]
        )
        assert context.items
        shown = handed_over(context)
        assert not [needle for needle in NEEDLES if needle in shown]
        for item_id in item_ids:
            with pytest.raises(KeyError):
                context.decision(item_id)
    assert memory.graph.entity("acme")
    assert not memory.graph.entity("qzxj")
    assert [edge.target for edge in memory.graph.neighbors("acme").relationships] == ["beta"]


async def test_a_session_forgets_wherever_it_is_stored(tmp_path):
    """In its files, in memory, and in what it shows when it is opened again; ids alone are kept, as tombstones."""
    async with SessionMemory.open(tmp_path, "room", sections=SPECS, counter="estimate") as memory:
        item_ids = fill(memory, mark="item")
        await ask(memory)
        crowd(memory)
        await memory.save()
        assert paths_holding(tmp_path, *NEEDLES)
        await memory.forget(item_ids[0])
        await memory._session.saver.forget(
            item_ids
        )  # the others at once: each alone writes the session anew
        assert paths_holding(tmp_path, *NEEDLES) == []
        assert traces(NEEDLES, [memory, *modules_of()]) == []
        memory.add("messages", "still in use")
    async with SessionMemory.open(tmp_path, "room", sections=SPECS, counter="estimate") as memory:
        for context in await ask(memory):
            assert not [needle for needle in NEEDLES if needle in handed_over(context)]
    assert paths_holding(tmp_path, *NEEDLES) == []


async def test_ranking_after_forgetting_is_as_if_it_had_never_been():
    """Every ranker gives the scores that it gives without what is forgotten."""
    memory, item_ids = filled()
    await ask(memory)
    forget(memory, item_ids)
    for name in ("documents", "bm25", "reference", "graph", "messages"):
        section = memory[name]
        fresh = Section(section.spec)
        for each in section:
            fresh.add(each)
        for query in ("notice period", "Acme supplies", CANARY):
            assert sorted(section.proposer.search(Query(query), 50), key=repr) == sorted(
                fresh.proposer.search(Query(query), 50), key=repr
            )


def test_a_relationship_is_derived_from_its_ends_where_no_item_names_sources():
    """In a static section too, whose items have no sources: its line says their names."""
    spec = SectionSpec("graph", placement="static", eviction="none", ranker=GraphRanker())
    memory = SessionMemory.test_mode(sections=[spec], counter="estimate")
    acme, beta, supplies = memory.graph.add(
        [{"id": "a", "name": "Acme"}, {"id": "b", "name": "Beta"}],
        [{"source": "b", "target": "a", "type": "supplies"}],
    )
    assert supplies.sources == ()
    for end in (acme, beta):
        assert derived_from([end.id], memory["graph"]) == {end.id, supplies.id}
    assert derived_from([supplies.id], memory["graph"]) == {supplies.id}


def history(*items):
    section = Section(SectionSpec("s", 40, placement="history", retrieval_threshold=0))
    for each in items:
        section.add(each)
    section.drain_journal()
    return section


CALL = item("call", content=(ToolUseBlock("1", "f"), ToolUseBlock("2", "f")), role="assistant")
RESULTS = (
    item("first", content=(ToolResultBlock("1", "found"),), role="tool"),
    item("second", content=(ToolResultBlock("2", "found"),), role="tool"),
)


@pytest.mark.parametrize("restarted", [False, True], ids=["in memory", "restarted"])
def test_orphans_among_what_was_evicted_are_not_recalled(restarted):
    """Nor after a restart, where what was evicted is read from its archive; what has its call still comes back."""
    section = history(CALL, *RESULTS, item("next"), *map(item, "abc"))
    archived = section.archive.in_memory()
    if restarted:
        state = section.state()
        entries = list(section.held.entries())
        section = Section.restore(section.spec, state, entries)
        section.load(archived)
    assert ["call", "first", "second"] in earlier(section)
    section.forget({"first"}, stored=archived if restarted else ())
    assert ["call", "second"] in earlier(section)
    section.forget({"call"}, stored=archived if restarted else ())
    assert "second" not in chain.from_iterable(earlier(section))


def earlier(section):
    return [
        [each.id for each in unit.items]
        for unit in section.proposer.propose(Query(""), cap=100).earlier
    ]


async def test_sources_forget_what_they_hold_and_those_that_cannot_are_named():
    """Under an item's own id and under the one that names the source; a source without the item is not asked."""
    assert isinstance(ErasableNotes(), ForgettingSource)
    assert not isinstance(Notes(), ForgettingSource)
    memory = SessionMemory.test_mode()
    erasable = ErasableNotes(a="1", b="2", c="3")
    fixed = Notes(b="2")
    bystander = Notes(z="26")
    registry = SourceRegistry(
        {spec.name: memory[spec.name] for spec in memory.sections}, counter=get_counter("estimate")
    )
    for source in (erasable, fixed, bystander):
        registry.attach(source, None)
    assert await registry.forget(["a", "notes/c", "nowhere"]) == ({"notes": ("a", "c")}, [])
    assert list(erasable.notes) == ["b"]
    assert await registry.forget(["b"]) == ({"notes": ("b",)}, ["notes-2"])
    assert not erasable.notes
    assert await registry.forget(["notes-3/z"]) == ({}, ["notes-3"])
    assert list(fixed.notes) + list(bystander.notes) == ["b", "z"]


async def test_a_section_of_another_session_cannot_forget():
    """What it holds is named, also what it has evicted and could still recall."""
    room = SessionMemory.test_mode(sections=SPECS, counter="estimate")
    memory = SessionMemory.test_mode()
    old = room.add("messages", "an old message of the room", id="old")
    crowd(room)
    assert room.get(old.id) is None
    assert await memory.attach(room["messages"], name="room") == "room"
    registry = memory._session.registry
    assert await registry.forget([next(iter(room["messages"])).id]) == ({}, ["room"])
    assert await registry.forget(["old"]) == ({}, ["room"])
    assert await registry.forget(["nowhere"]) == ({}, [])
    assert await memory.fetch("old") == old


async def test_a_session_read_before_is_dropped_from_the_process(tmp_path):
    """What a process keeps of sessions opened read-only is let go of, however they were opened."""
    from kaosmem.session.opening import Opening, SharedSessions

    async with SessionMemory.open(tmp_path, "room", counter="estimate") as room:
        room.add("documents", CANARY)
    shared = SharedSessions()

    def opening(location, session_id="room", namespace="default"):
        sections = (SectionSpec("documents", eviction="none"),)
        return Opening(location, session_id, namespace, sections, "estimate", None)

    def read(location):
        return shared.read(opening(location))

    kept = await asyncio.to_thread(read, tmp_path)
    assert await asyncio.to_thread(read, str(tmp_path)) is kept
    shared.drop(opening(tmp_path, "other"))
    shared.drop(opening(tmp_path, namespace="other"))
    assert traces(NEEDLES, [shared])
    shared.drop(opening(f"file://{tmp_path}"))
    assert traces(NEEDLES, [shared]) == []
    assert await asyncio.to_thread(read, tmp_path) is not kept


@dataclass
class Holder:
    held: object


def holders(planted):
    """Return objects that hold a text, each in its own way."""

    @lru_cache(maxsize=4)
    def bounded(text):
        return len(text)

    def closure():
        return planted

    bounded(planted)

    class Slotted:
        __slots__ = ("held",)

    slotted = Slotted()
    slotted.held = {"deep": [(deque([planted]),)]}
    encoded = planted.encode()
    return {
        "argument of a memo": bounded,
        "closure": closure,
        "slot": slotted,
        "field": Holder(OrderedDict(key=planted)),
        "part of a longer text": [f"before {planted.upper()} after"],
        "UTF-16": [planted.encode("utf-16")],
        "buffer": [memoryview(encoded)],
        "array of characters": [np.array([planted])],
        "array of objects": [np.array([planted, None], dtype=object)],
    }


@pytest.mark.parametrize("where", holders(""))
def test_the_search_finds_what_is_planted(where):
    """Wherever a text may hide it is found, so that finding nothing means something."""
    planted = "".join(["plant", "ed-", "canary"])
    assert traces([planted], [holders(planted)[where]])
    assert not traces([planted], [holders("nothing")[where]])


def test_a_frozen_section_forgets_nothing():
    """One that is shared by a session opened read-only refuses it, as any change."""
    section = history(item("a"))
    section.freeze()
    with pytest.raises(ReadOnlyError):
        section.forget({"a"})
    assert "a" in section
