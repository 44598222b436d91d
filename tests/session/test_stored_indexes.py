"""What ranks a section is kept with the session: it saves time, and changes nothing."""

import asyncio

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kaosmem.persistence.log as log_module
from kaosmem import (
    BM25Ranker,
    LinearRanker,
    SectionSpec,
    SessionMemory,
)
from kaosmem.language.analysis import analyze
from kaosmem.persistence.layout import INDEX
from kaosmem.persistence.steps import Draft
from kaosmem.persistence.storage.local import LocalStorage
from kaosmem.persistence.storage.objects import IsolatedMemoryFileSystem
from kaosmem.retrieval import RankBM25Ranker
from kaosmem.retrieval.linear_index import LinearIndex
from kaosmem.sections import lazy_index
from tests.places import files_in, in_memory

CANARY = "quetzalcoatl"
WORDS = "alpha beta gamma delta epsilon zeta eta theta iota kappa".split()
SPECS = (
    SectionSpec("messages", 60, placement="history", recall=0.5, retrieval_threshold=0),
    SectionSpec("documents", eviction="none", retrieval_threshold=0),
    SectionSpec("notes", 60, retrieval_threshold=0),
    SectionSpec("scratch", eviction="none", retrieval_threshold=0, persistence="none"),
)
MIN = 6


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Indexes are kept of small sections, and snapshots come early."""
    monkeypatch.setattr(lazy_index, "MIN_STORED", MIN)
    monkeypatch.setattr(log_module, "MIN_LOG_BYTES", 2_000)


def text(number):
    return " ".join(WORDS[number // 10**each % 10] for each in range(4)) + f" {number}"


def opened(place, **options):
    return SessionMemory.open(place, sections=SPECS, **options)


def indexes(place):
    return {
        path.rpartition("/")[2]: data
        for path, data in files_in(place).items()
        if f"/{INDEX}/" in path
    }


async def asked(memory, query="alpha beta 3"):
    context = await memory.assemble_context(query, budget=120)
    decisions = [(each.item_id, each.included, each.rank, each.score) for each in context.decisions]
    found = [(item.id, score) for item, score in memory.search(query, limit=50, archived=False)]
    return context.text, decisions, found


async def filled(place, count=20, **options):
    """Store a session that was asked, so that it has indexes."""
    async with opened(place, **options) as memory:
        for number in range(count):
            memory.add("documents", text(number), id=f"d{number}")
            memory.add("messages", text(number), id=f"m{number}", role="user")
        await asked(memory)


async def asked_anew(place, **options):
    """Return what a session answers that has no index."""
    files = {path: data for path, data in files_in(place).items() if f"/{INDEX}/" not in path}
    async with opened(in_memory(files, ""), **options) as memory:
        return await asked(memory)


class Reads:
    """Which indexes were read back into a ranker's index."""

    def __init__(self, monkeypatch):
        self.count = 0
        original = LinearIndex.load

        def load(index, data):
            self.count += 1
            return original(index, data)

        monkeypatch.setattr(LinearIndex, "load", load)


OPS = st.sampled_from(
    ["add", "say", "note", "update", "remove", "forget", "ask", "save", "open", "other"]
)


@settings(
    deadline=None, max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    ops=st.lists(st.tuples(OPS, st.integers(0, 9_999)), min_size=5, max_size=40),
    ranker=st.sampled_from([None, BM25Ranker()]),
)
def test_whatever_happens_a_kept_index_changes_nothing(ops, ranker):
    """After each opening the session says what one says that makes its index anew."""
    place = IsolatedMemoryFileSystem()

    async def turn(ops):
        async with opened(place, ranker=ranker) as memory:
            assert await asked(memory) == await asked_anew(place, ranker=ranker)
            for op, number in ops:
                await do(memory, op, number)

    async def do(memory, op, number):
        live = [item.id for spec in memory.sections for item in memory[spec.name]]
        if op in ("add", "say", "note"):
            section = {"add": "documents", "say": "messages", "note": "notes"}[op]
            memory.add(section, text(number), role="user")
        elif op in ("update", "remove", "forget") and live:
            chosen = live[number % len(live)]
            if op == "update":
                memory.update(chosen, text(number))
            elif op == "remove":
                memory.remove(chosen)
            else:
                await memory.forget(chosen)
        elif op == "ask":
            await memory.assemble_context(text(number), budget=100)
        elif op == "save":
            await memory.save()
        elif op == "other":
            await memory.save()
            async with opened(place, ranker=ranker) as other:
                other.add("documents", text(number))
                await other.assemble_context(text(number), budget=100)

    turns = [[("add", each) for each in range(MIN + 2)]]
    for op, number in ops:
        if op == "open":
            turns.append([])
        else:
            turns[-1].append((op, number))

    async def run():
        for each in (*turns, []):
            await turn(each)

    asyncio.run(run())


# when it is written and read


async def filled_more(place, count):
    async with opened(place) as memory:
        for _ in range(count):
            memory.add("documents", text(len(memory["documents"])))
        await asked(memory)


async def test_it_is_written_anew_when_a_tenth_is_missing(place):
    """Neither before, however many open the session, nor where nobody has ranked."""
    await filled(place, 100)
    first = indexes(place)
    async with opened(place) as memory:
        memory.add_many("documents", map(text, range(100, 150)))
    for _ in range(3):
        async with opened(place) as memory:
            memory.remove(next(iter(memory["documents"])).id)
        assert indexes(place) == first
    await filled_more(place, 1)
    assert indexes(place).keys() != first.keys()
    second = indexes(place)
    for _ in range(3):
        await filled_more(place, 4)
        assert indexes(place) == second
    await filled_more(place, 20)
    assert indexes(place) != second


async def test_a_full_disk_costs_the_index_alone(tmp_path, monkeypatch):
    """The save succeeds, and a notice says that no index was written."""
    perform = LocalStorage.perform

    def full(self, step):
        if isinstance(step, Draft) and step.path.startswith(INDEX):
            raise OSError(28, "No space left on device")
        return perform(self, step)

    monkeypatch.setattr(LocalStorage, "perform", full)
    async with opened(tmp_path) as memory:
        memory.add_many("documents", map(text, range(20)))
        await asked(memory)
        await memory.save()
    assert [
        notice
        for notice in memory.notices
        if "no index of section 'documents' was written" in notice
    ]
    assert CANARY not in str(memory.notices)
    assert indexes(tmp_path) == {}
    async with opened(tmp_path) as memory:
        assert len(memory["documents"]) == 20


# what is not of the session


class Renamed(LinearRanker):
    """A ranker of another name with indexes of the same format."""

    @property
    def name(self):
        return "renamed"


async def test_a_session_that_is_read_only_reads_it_and_writes_none(place, monkeypatch):
    await filled(place)
    before = files_in(place)
    reads = Reads(monkeypatch)
    async with opened(place, read_only=True) as memory:
        found = await asked(memory)
        assert reads.count == 2
        async with SessionMemory.open(IsolatedMemoryFileSystem(), sections=()) as other:
            await other.attach(memory["documents"])
            await other.assemble_context("alpha", budget=100)
    assert reads.count == 2
    assert files_in(place) == before
    assert found == await asked_anew(place)


@pytest.mark.parametrize(
    "ranker", [RankBM25Ranker(), LinearRanker(analyze=lambda text: analyze(text))]
)
async def test_a_ranker_whose_index_cannot_be_kept_does_without(ranker, place):
    await filled(place, ranker=ranker)
    assert indexes(place) == {}


async def test_what_no_file_holds_is_in_no_index(place):
    """Nor that of a section with persistence none."""
    async with opened(place) as memory:
        memory.add_many("scratch", [f"{CANARY} {number}" for number in range(20)])
        memory.add("documents", "one")
        await asked(memory)
    assert indexes(place) == {}


@pytest.mark.parametrize(
    ("kept", "now"),
    [
        ({"ranker": BM25Ranker()}, {}),
        ({"ranker": Renamed()}, {}),
        ({}, {"counter": lambda text: (len(text) + 7) // 8}),
    ],
    ids=["another ranker", "one of another name with the same bytes", "another counter"],
)
async def test_an_index_of_another_ranker_or_counter_is_replaced(kept, now, place, monkeypatch):
    """It is not read, as its terms or sizes are others, and an own index is stored once."""
    await filled(place, **kept)
    assert indexes(place)
    reads = Reads(monkeypatch)
    for expected in (0, 2):
        async with opened(place, **now) as memory:
            assert await asked(memory) == await asked_anew(place, **now)
        assert reads.count == expected
