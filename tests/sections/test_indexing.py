"""Sections are indexed beside the event loop, while they change."""

import asyncio
import gc
import random
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.corpus import seeded_texts
from kaosmem import BM25Ranker, DenseRanker, Item, LinearRanker, SectionSpec, SessionMemory
from kaosmem.persistence.storage.objects import IsolatedMemoryFileSystem
from kaosmem.retrieval.linear_index import LinearIndex
from kaosmem.sections import lazy_index

WORDS = "alpha beta gamma delta epsilon zeta eta theta iota kappa".split()


class Watchdog:
    """The longest time for which an event loop stood still.

    It is the lesser of the time on the wall and of the processor time that this process took in it:
    the latter leaves out what other processes took, and the former that several threads may work at
    once.
    """

    def __init__(self):
        self.longest_s = 0.0

    async def watch(self):
        while True:
            wall = time.perf_counter()
            cpu = time.process_time()
            await asyncio.sleep(0.001)
            self.longest_s = max(
                self.longest_s, min(time.perf_counter() - wall, time.process_time() - cpu) - 0.001
            )


async def stall_of(work):
    """Await work, and return for how long the event loop stood still meanwhile."""
    dog = Watchdog()
    watch = asyncio.create_task(dog.watch())
    await asyncio.sleep(0.01)
    await work
    await asyncio.sleep(0.01)
    watch.cancel()
    return dog.longest_s


async def filled(place, size):
    async with SessionMemory.open(place) as memory:
        for number, text in enumerate(seeded_texts(size, words=120)):
            memory.add("documents", text, metadata={"source": f"{number // 40}.md"})


async def share_of(work):
    """Await work, and return which share of its processor time the event loop stood still for at most."""
    started = time.process_time()
    stall = await stall_of(work)
    return stall / (time.process_time() - started)


@contextmanager
def own_objects_only(*, collecting):
    """Keep the collector from the objects that this process has already, most of which are the test tools' own."""
    gc.collect()
    gc.freeze()
    if not collecting:
        gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


@pytest.mark.timed
async def test_the_event_loop_goes_on_while_a_section_is_indexed(tmp_path):
    """It never stands still for as long as indexing takes: the longest stall is a small share of that."""
    await filled(tmp_path, 2_000)
    LinearRanker().index().rank("imports", 1)
    async with SessionMemory.open(tmp_path) as memory:
        memory.admin.counter("warm")
        await memory.assemble_context("warm", budget=1_000, sections=["messages"])
        started = time.process_time()
        stall = await stall_of(memory.admin.prepare())
        assert stall < (time.process_time() - started) / 4


@pytest.mark.timed
async def test_the_event_loop_goes_on_while_files_come_in_and_items_are_forgotten(
    tmp_path,
):
    """The passages of a large file, those of its next version, and forgetting stop it for a quarter of their time."""
    texts, changed = (seeded_texts(1_500, seed=seed, words=120) for seed in range(2))
    memory = SessionMemory.test_mode(counter="estimate")
    (tmp_path / "a.md").write_text("\n\n".join(texts))
    LinearRanker().index().rank("imports", 1)
    with own_objects_only(collecting=False):
        shares = {"ingest": await share_of(memory.ingest(tmp_path))}
        (tmp_path / "a.md").write_text("\n\n".join(changed))
        shares["ingest again"] = await share_of(memory.ingest(tmp_path))
        await memory.save()
        await memory.admin.prepare()
        shares["forget"] = await share_of(
            memory.forget(*[item.id for item in memory["documents"]][:1_200])
        )
    assert max(shares.values()) < 1 / 4, shares


@pytest.mark.parametrize("own", ["documents", "findings"])
async def test_news_of_another_writer_are_read_in_another_thread(own, monkeypatch):
    """Neither where both have changed a section nor where only the other has does the event loop decode the items."""
    memory = SessionMemory.test_mode(counter="estimate")
    memory.add_many("documents", seeded_texts(300, words=20))
    await memory.save()
    decoded = []
    from_dict = Item.from_dict

    def note(stored, section):
        if threading.current_thread() is threading.main_thread():
            decoded.append(stored["id"])
        return from_dict(stored, section)

    async with SessionMemory.open(
        memory.admin.fs, memory.admin.session_id, counter="estimate"
    ) as other:
        other.add_many("documents", seeded_texts(300, seed=1, words=20))
        await other.save()
        mine = memory.add(own, "my own")
        monkeypatch.setattr(Item, "from_dict", staticmethod(note))
        await memory.save()
    assert {*decoded} <= {mine.id}
    assert len(memory["documents"]) == 600 + (own == "documents")


async def test_an_ingestion_that_was_saved_half_done_is_finished_by_the_next(
    tmp_path,
):
    """Another task saves while the passages of one file come in, and the process ends there."""
    (tmp_path / "a.md").write_text("\n\n".join(seeded_texts(300, words=120)))
    memory = SessionMemory.test_mode(counter="estimate")
    task = asyncio.create_task(memory.ingest(tmp_path))
    while len(memory["documents"]) < 50:
        await asyncio.sleep(0)
    await memory.save()
    task.cancel()
    whole = SessionMemory.test_mode(counter="estimate")
    await whole.ingest(tmp_path)
    async with SessionMemory.open(
        memory.admin.fs, memory.admin.session_id, counter="estimate"
    ) as again:
        assert 50 <= len(again["documents"]) < len(whole["documents"])
        report = await again.ingest(tmp_path)
        assert report.changed == ("a.md",)
        assert [item.text for item in again["documents"]] == [
            item.text for item in whole["documents"]
        ]
        assert (await again.ingest(tmp_path)).unchanged == ("a.md",)


# prepare


async def test_preparing_indexes_ahead_and_says_how_far_it_is():
    """The numbers rise to the number of items; the next question indexes nothing."""
    memory = SessionMemory.test_mode()
    memory.add_many("documents", [f"note {number}" for number in range(200)])
    memory.add("lessons", "a lesson")
    told = []
    await memory.admin.prepare(progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (201, 201)
    assert [done for done, _ in told] == sorted({done for done, _ in told})
    assert {total for _, total in told} == {201}
    assert not memory["documents"].proposer.unindexed and not memory["lessons"].proposer.unindexed
    await memory.admin.prepare(progress=lambda *_: pytest.fail("nothing is left"))


class SlowEmbedder:
    """Embeds by counting letters, and can be stopped while it does."""

    name, dimensions = "slow", 26

    def __init__(self):
        self.threads = []
        self.fails = 0

    def embed(self, texts):
        self.threads.append(threading.get_ident())
        if self.fails:
            self.fails -= 1
            raise OSError("the model is not there")
        return np.array(
            [[text.count(chr(97 + each)) for each in range(26)] for text in texts], np.float32
        )

    embed_queries = embed


async def test_a_single_text_is_embedded_in_another_thread(monkeypatch):
    """A model may take long for one text, so a turn after one addition goes to a thread, too."""
    embedder = SlowEmbedder()
    monkeypatch.setattr(embedder, "embed_queries", lambda texts: np.ones((len(texts), 26)))
    spec = SectionSpec("documents", retrieval_threshold=0, ranker=DenseRanker(embedder=embedder))
    memory = SessionMemory.test_mode(sections=(spec,))
    for number in range(3):
        memory.add("documents", f"note {number}")
        await memory.assemble_context("which note?", budget=100)
    assert len(embedder.threads) == 3
    assert threading.get_ident() not in embedder.threads


@pytest.mark.parametrize("ranker", [BM25Ranker(), LinearRanker()])
async def test_a_few_short_texts_are_indexed_at_once(ranker, monkeypatch):
    """A turn after a few additions goes to no thread, and finds them; many go to one."""
    spec = SectionSpec("documents", retrieval_threshold=0, ranker=ranker)
    memory = SessionMemory.test_mode(sections=(spec,))
    memory.add_many("documents", seeded_texts(50))
    await memory.assemble_context("zebra", budget=100)
    calls = []

    async def to_thread(work):
        calls.append(work)
        return work()

    monkeypatch.setattr(asyncio, "to_thread", to_thread)
    added = memory.add("documents", "The zebra is ill.")
    context = await memory.assemble_context("zebra", budget=100)
    assert context.decision(added.id).score
    assert not calls
    memory.add_many("documents", seeded_texts(50, seed=1))
    await memory.assemble_context("zebra", budget=100)
    assert calls


async def test_what_could_not_be_indexed_is_indexed_by_the_next_question():
    """An embedder that fails costs one question, and nothing is embedded twice."""
    embedder = SlowEmbedder()
    spec = SectionSpec("documents", ranker=DenseRanker(embedder=embedder))
    memory = SessionMemory.test_mode(sections=(spec,))
    memory.add_many("documents", [f"note {number}" for number in range(100)])
    embedder.fails = 1
    with pytest.raises(OSError, match="not there"):
        await memory.admin.prepare()
    memory.remove(next(iter(memory["documents"])).id)
    osprey = memory.add("documents", "osprey")
    context = await memory.assemble_context("osprey", budget=40)
    assert context.decision(osprey.id).rank == 1
    assert memory["documents"].proposer.unindexed == 0
    with index_of(memory["documents"]) as index:
        assert len(index) == len(memory["documents"])


# what changes meanwhile


@contextmanager
def index_of(section):
    with section.index.asked() as index:
        yield index


def check_index(memory):
    """Check that each section ranks as one would that has the same items and was indexed at once."""
    for spec in memory.sections:
        section = memory[spec.name]
        held = section.held
        ranker = spec.ranker or LinearRanker()
        anew = ranker.index()
        anew.add([(at, held.read(at)) for at in (*held.evicted, *held)])
        with index_of(section) as index:
            assert sorted(index.ordinals.tolist()) == sorted(anew.ordinals.tolist())
            for query in ("alpha beta 3", "kappa", "note theta 17"):
                assert index.rank(query, 50) == anew.rank(query, 50)


SPECS = (
    SectionSpec("documents", eviction="none", retrieval_threshold=0),
    SectionSpec("notes", 120, retrieval_threshold=0, ranker=BM25Ranker()),
    SectionSpec("messages", 120, placement="history", recall=0.5),
)


class Stepping:
    """Lets another thread index so long only, then lets the loop change the section, in a drawn order."""

    def __init__(self, monkeypatch, rng):
        for name in ("add", "update", "remove"):
            original = getattr(LinearIndex, name)

            def slow(index, *args, original=original):
                if threading.current_thread() is not threading.main_thread():
                    time.sleep(rng.random() * 0.002)
                return original(index, *args)

            monkeypatch.setattr(LinearIndex, name, slow)


def change(memory, rng, number):
    section = rng.choice(SPECS).name
    text = " ".join(rng.choice(WORDS) for _ in range(4)) + f" {number}"
    live = [item.id for item in memory[section]]
    match rng.choice(["add", "add", "update", "remove"]) if live else "add":
        case "add":
            memory.add(section, text, role="user" if section == "messages" else None)
        case "update":
            memory.update(rng.choice(live), text)
        case "remove":
            memory.remove(rng.choice(live))


@pytest.mark.parametrize("seed", range(3))
async def test_what_changes_while_it_is_indexed_is_indexed(seed, monkeypatch):
    """Whatever is added, updated, evicted, removed and forgotten meanwhile, whoever asks, and who gives up waiting."""
    rng = random.Random(seed)
    monkeypatch.setattr(lazy_index, "_BATCH", 3)
    monkeypatch.setattr(lazy_index, "MIN_STORED", 5)
    Stepping(monkeypatch, random.Random(seed))
    place = IsolatedMemoryFileSystem()
    for _ in range(3):
        async with SessionMemory.open(place, sections=SPECS) as memory:
            for number in range(20):
                change(memory, rng, number)
            tasks = []
            for number in range(60):
                change(memory, rng, number)
                match rng.randrange(12):
                    case 0:
                        tasks.append(
                            asyncio.create_task(memory.assemble_context("alpha beta", budget=100))
                        )
                    case 1:
                        tasks.append(asyncio.create_task(memory.admin.prepare()))
                    case 2 if tasks:
                        rng.choice(tasks).cancel()
                    case 3:
                        await memory.save()
                    case 4 if live := [item.id for item in memory["documents"]]:
                        await memory.forget(rng.choice(live))
                    case 5:
                        memory.search("beta gamma")
                    case _:
                        await asyncio.sleep(rng.random() * 0.004)
            done = await asyncio.gather(*tasks, return_exceptions=True)
            assert {type(each) for each in done if isinstance(each, BaseException)} <= {
                asyncio.CancelledError
            }
            await memory.admin.prepare()
            check_index(memory)


async def test_all_who_ask_at_once_share_one_index(monkeypatch):
    """Each entry is indexed once, and all are told the same; one that gives up costs the others nothing."""
    entries = []
    begun = threading.Event()
    go_on = threading.Event()
    add = LinearIndex.add

    def slow(self, new):
        begun.set()
        assert go_on.wait(60)
        add(self, [(entries.append(at), (at, each))[1] for at, each in new])

    monkeypatch.setattr(LinearIndex, "add", slow)
    memory = SessionMemory.test_mode(sections=(SectionSpec("documents", eviction="none"),))
    memory.add_many("documents", seeded_texts(700, words=20))
    tasks = [asyncio.create_task(memory.assemble_context("of the", budget=500)) for _ in range(5)]
    assert await asyncio.to_thread(begun.wait, 60)
    tasks[0].cancel()
    go_on.set()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(done[0], asyncio.CancelledError)
    assert len({context.text for context in done[1:]}) == 1
    assert sorted(entries) == list(range(700))


def test_event_loops_of_several_threads_share_one_index(tmp_path, monkeypatch):
    """A session that is opened read-only by all of them is indexed once."""
    indexed = []
    append = LinearIndex._append
    monkeypatch.setattr(
        LinearIndex,
        "_append",
        lambda self, ordinals, *given: (
            indexed.extend(ordinals),
            append(self, ordinals, *given),
        )[1],
    )

    async def fill():
        async with SessionMemory.open(tmp_path, sections=SPECS[:1]) as memory:
            memory.add_many("documents", seeded_texts(600, words=20))

    async def ask():
        async with SessionMemory.open(tmp_path, sections=SPECS[:1], read_only=True) as memory:
            return (await memory.assemble_context("of the", budget=500)).text

    asyncio.run(fill())
    texts = []
    threads = [threading.Thread(target=lambda: texts.append(asyncio.run(ask()))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(texts) == 3 and len({*texts}) == 1
    assert sorted(indexed) == list(range(600))


@given(
    ops=st.lists(
        st.tuples(st.sampled_from(["add", "update", "remove", "index"]), st.integers(0, 99)),
        max_size=40,
    )
)
def test_batches_in_any_order_come_to_the_index_of_all(ops):
    """Changes between batches are noted, however they overlap."""
    memory = SessionMemory.test_mode(sections=SPECS)
    section = memory["documents"]
    for number in range(12):
        memory.add("documents", f"{WORDS[number % 10]} {number}")
    for op, number in ops:
        live = [item.id for item in section]
        if op == "add":
            memory.add("documents", f"{WORDS[number % 10]} note {number}")
        elif op == "update" and live:
            memory.update(live[number % len(live)], f"{WORDS[number % 10]} theta {number}")
        elif op == "remove" and live:
            memory.remove(live[number % len(live)])
        elif op == "index":
            section.index.catch_up()
    check_index(memory)
