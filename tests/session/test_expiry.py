"""Items with a time to live: no context shows them after their end, whoever asks and however."""

import asyncio
import re
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kaosmem.persistence.log as log_module
from kaosmem import InvalidArgumentError, SectionSpec, SessionMemory, SessionOptions
from kaosmem.compaction import SummarizationCompaction, Summarizer
from kaosmem.compaction.model_requests import ModelRequests
from kaosmem.persistence.storage.objects import IsolatedMemoryFileSystem
from kaosmem.sections.default_sections import DEFAULT_SECTIONS
from kaosmem.sections.substitution import compacted_in
from kaosmem.testing import ScriptedLLM
from kaosmem.testing.contracts.store import Clock
from kaosmem.tokens.counters import EstimateCounter

WORD = re.compile(r"fact\d+x")


def quoting(prompt):
    """A summary that repeats every fact: the worst that a model can do to what is to end."""
    return f"Said {' '.join(dict.fromkeys(WORD.findall(prompt[-1].text)))}."


MODEL = Summarizer(ModelRequests(ScriptedLLM(quoting), pause_s=0))
SPECS = (
    SectionSpec("role", placement="static", eviction="none"),
    SectionSpec("messages", budget=60, placement="history", eviction="fifo", recall=0.3),
    SectionSpec("notes", budget=60, eviction="lru", recall=0.3, retrieval_threshold=0),
    SectionSpec("documents", eviction="none"),
    SectionSpec("scratch", persistence="none"),
    SectionSpec(
        "talk",
        budget=80,
        placement="history",
        compaction=SummarizationCompaction(MODEL, 40, 10, max_summary_tokens=40),
    ),
)


def opened(place, clock, *, missing_ok=False, **given):
    return SessionMemory.open(
        place,
        sections=SPECS,
        options=SessionOptions(clock=clock, missing_ok=missing_ok),
        counter=EstimateCounter(),
        **given,
    )


async def texts(memory, clock, query):
    """All that assemblies of several kinds, and a search, show of a session."""
    start = clock() - timedelta(days=2)
    before = memory.at(as_of=start + timedelta(days=1, hours=23))
    contexts = [
        await memory.assemble_context(query, budget=120),
        await memory.assemble_context(query, budget=1_000),
        await before.assemble_context(query, budget=1_000),
        await memory.at(known_at=clock()).assemble_context(query, budget=1_000),
        await memory.assemble_context(query, budget=1_000, format="openai"),
    ]
    found = [item.text for item, _ in memory.search(query, limit=50)]
    found += [item.text for item, _ in await before.search(query, limit=50)]
    return [
        context.text if context.format == "text" else str(context.messages) for context in contexts
    ] + found


OPS = ("add", "add", "add", "wait", "look", "look", "window", "save", "reopen", "read")
steps = st.tuples(
    st.sampled_from(OPS),
    st.integers(0, 1),
    st.sampled_from(("messages", "notes", "documents", "scratch", "talk", "talk")),
    st.sampled_from((None, 10, 20, 60)),
    st.integers(1, 25),
)


@given(played=st.lists(steps, max_size=25))
def test_no_context_shows_an_item_after_its_end(played):
    """Live, evicted, summarized, stored, opened read-only or seen as of the past, by two writers, in windows or not."""
    asyncio.run(_play(played))


async def _play(played):
    place = IsolatedMemoryFileSystem()
    clock = Clock()
    smallest = log_module.MIN_LOG_BYTES
    log_module.MIN_LOG_BYTES = 1_000
    ends = {}
    managers = {}
    memories = {}

    def check(shown):
        said = {word for text in shown for word in WORD.findall(text)}
        over = {word for word, end in ends.items() if end is not None and end <= clock()}
        assert not said & over

    async def close(writer):
        memories.pop(writer)
        await managers.pop(writer).__aexit__(None, None, None)

    try:
        for op, writer, section, ttl_s, size in played:
            if writer not in memories:
                managers[writer] = opened(place, clock)
                memories[writer] = await managers[writer].__aenter__()
            memory = memories[writer]
            match op:
                case "add":
                    # Of a talk so much that it is soon to be summarized.
                    for _ in range(4 if section == "talk" else 1):
                        word = f"fact{len(ends)}x"
                        item = memory.add(section, f"{word} {'and ' * size}", ttl_s=ttl_s)
                        assert item.expires_at == (
                            None if ttl_s is None else clock() + timedelta(seconds=ttl_s)
                        )
                        ends[word] = item.expires_at
                case "wait":
                    clock.advance(size)
                case "look":
                    check(await texts(memory, clock, f"fact{size % max(1, len(ends))}x and"))
                case "window":
                    context = await memory.assemble_context(
                        "and", budget=600, format="openai", window="main"
                    )
                    check([str(context.messages)])
                case "save":
                    await memory.save()
                case "reopen":
                    await close(writer)
                case "read":
                    async with opened(place, clock, read_only=True, missing_ok=True) as reader:
                        check(await texts(reader, clock, "and"))
        for writer in list(memories):
            await close(writer)
        clock.advance(100)
        async with opened(place, clock) as memory:
            check(await texts(memory, clock, "and"))
            kept = {
                item.text.split()[0] for section in memory.sections for item in memory[section.name]
            }
            assert not kept & {word for word, end in ends.items() if end is not None}
    finally:
        log_module.MIN_LOG_BYTES = smallest


async def test_an_expired_item_is_archived_and_can_be_forgotten():
    """The next context or save takes it out of its section; `fetch` finds it until it is forgotten."""
    clock = Clock()
    memory = SessionMemory.test_mode(options=SessionOptions(clock=clock))
    code = memory.add("findings", "The door code is 4711.", ttl_s=60)
    memory.add("findings", "Ann owns the deal.")
    clock.advance(59)
    assert "4711" in (await memory.assemble_context("door", budget=200)).text
    clock.advance(1)
    context = await memory.assemble_context("door", budget=200)
    assert ("4711" in context.text, "Ann" in context.text) == (False, True)
    assert code.id not in memory
    assert (await memory.fetch(code.id)).text == "The door code is 4711."
    await memory.forget(code.id)
    with pytest.raises(KeyError):
        await memory.fetch(code.id)


@pytest.mark.parametrize("ttl_s", [0, -1, float("inf"), float("nan"), "60", True, 1e300])
def test_a_time_to_live_is_a_number_of_seconds(ttl_s):
    """Anything else is refused, and nothing is added."""
    memory = SessionMemory.test_mode(sections=DEFAULT_SECTIONS)
    with pytest.raises(InvalidArgumentError, match="ttl_s"):
        memory.add("findings", "text", ttl_s=ttl_s)
    assert not memory["findings"]


async def test_a_summary_ends_with_the_first_item_that_it_stands_for():
    """The others are in the archive, and nothing of the expired one is shown."""
    clock = Clock()
    sections = [replace(spec, budget=130) if spec.name == "talk" else spec for spec in SPECS]
    memory = SessionMemory.test_mode(
        sections=sections, options=SessionOptions(clock=clock), counter=EstimateCounter()
    )
    for number in range(8):
        memory.add("talk", f"fact{number}x {'and ' * 12}", ttl_s=60 if number == 1 else None)
    before = await memory.assemble_context(budget=1_000, sections=["talk"])
    assert compacted_in(memory["talk"])
    assert ("fact1x" in before.text, "fact1x and" in before.text) == (True, False)
    clock.advance(60)
    after = await memory.assemble_context(budget=1_000, sections=["talk"])
    assert ("fact1x" in after.text, "fact7x and" in after.text) == (False, True)
    assert not any("fact1x" in item.text for item in memory["talk"])


def test_a_derived_item_ends_with_the_first_of_its_sources():
    """It may end earlier, but not later."""
    memory = SessionMemory.test_mode(options=SessionOptions(clock=Clock()))
    short = memory.add("findings", "The door code is 4711.", ttl_s=60)
    long = memory.add("findings", "Ann owns the deal.", ttl_s=600)
    derived = memory.add("findings", "Ann knows the code.", sources=[short.id, long.id], ttl_s=300)
    assert derived.expires_at == short.expires_at
    earlier = memory.add("findings", "Ann knows a code.", sources=[short.id], ttl_s=30)
    assert earlier.expires_at < short.expires_at
    assert memory.update(short.id, "The door code is 4712.").expires_at == short.expires_at
