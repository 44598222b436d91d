"""Facts of a long-term memory that change: what a question about now, about the past, or as of a time is shown."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaosmem import SessionMemory, SessionOptions
from kaosmem.language.dates import past_question
from kaosmem.language.query import Query
from kaosmem.sources import FactSource
from kaosmem.stores import InMemoryLongTermMemory
from kaosmem.testing.contracts.store import Clock

OLD, NEW = "The user's address is 1 Elm Street.", "The user's address is 9 Oak Avenue."


def day(number):
    return datetime(2024, 1, 1, tzinfo=UTC) + timedelta(days=number)


days = st.integers(0, 9)


async def moved(others=0, **old):
    """Return facts in which an address was replaced, among so many others, and a session that shows them."""
    facts = await replaced(others, **old)
    return facts, await session_over(facts)


async def replaced(others=0, **old):
    """Return facts in which an address was replaced, among so many others."""
    facts = InMemoryLongTermMemory()
    metadata = {"timestamp": "2023-03-01", **old}
    await facts.save("a", OLD, key="address", metadata=metadata)
    for number in range(others):
        await facts.save(
            "a",
            f"Note {number}: the user's {('cat', 'dog', 'car')[number % 3]} has number {number}.",
        )
    await facts.save("a", NEW, key="address", metadata={"timestamp": "2024-06-01"})
    return facts


async def session_over(facts):
    """Return a session that shows facts."""
    memory = SessionMemory.test_mode()
    await memory.attach(FactSource(facts, "a"))
    return memory


@pytest.fixture(scope="module", params=[0, 1, 40, 2_000])
def others(request):
    """Return a number of other facts, and the store that holds them, which no test changes."""
    return request.param, asyncio.run(replaced(request.param))


@pytest.mark.parametrize(
    "query",
    [
        "What was the user's address before?",
        "What was the user's address in May 2024?",
        "What was the user's original address?",
        "Who lived at 1 Elm Street before?",
    ],
)
async def test_a_question_about_the_past_is_shown_both(others, query):
    """The replaced version stands right before the current one, each with the interval in which it held."""
    memory = await session_over(others[1])
    lines = (await memory.assemble_context(query, budget=200)).text.splitlines()
    at = lines.index(f"[1 March 2023 until 1 June 2024] {OLD}")
    assert lines[at + 1] == f"[since 1 June 2024] {NEW}"


@pytest.mark.parametrize(
    "query", ["What is the user's address?", "The user's address in July 2024?"]
)
async def test_a_question_about_now_is_shown_the_current_one(others, query):
    """A superseded fact is not shown, even if everything fits."""
    number, facts = others
    memory = await session_over(facts)
    context = await memory.assemble_context(query, budget=200 if number > 40 else 2_000)
    assert OLD not in context.text
    assert f"[1 June 2024] {NEW}" in context.text


@pytest.mark.parametrize("others", [0, 40])
async def test_a_current_version_is_found_by_the_words_of_a_replaced_one(others):
    """How a change is told has often no word of the question. A deleted version brings none back."""
    facts = await replaced(others)
    moved_id = await facts.save("a", "Moved to Rome in July.", key="address")
    memory = await session_over(facts)
    context = await memory.assemble_context("The user's address is where?", budget=300)
    assert "Moved to Rome" in context.text
    assert OLD not in context.text
    assert NEW not in context.text
    await facts.delete("a", moved_id)
    context = await memory.assemble_context("The user's address is where?", budget=300)
    assert "address" not in context.text


async def test_the_version_that_holds_is_found_beside_an_announced_one():
    """The question has words of the version that holds, and none of the one that is to begin."""
    facts = InMemoryLongTermMemory()
    await facts.save("a", NEW, key="address", metadata={"timestamp": "2023-06-01"})
    await facts.save("a", "Moves to Rome.", key="address", metadata={"timestamp": "2099-06-01"})
    memory = SessionMemory.test_mode(options=SessionOptions(clock=lambda: day(200)))
    await memory.attach(FactSource(facts, "a"))
    context = await memory.assemble_context("The user's address is where?", budget=300)
    assert f"[1 June 2023 until 1 June 2099] {NEW}" in context.text
    assert "[since 1 June 2099] Moves to Rome." in context.text


async def test_source_and_speaker_stand_beside_the_interval():
    _, memory = await moved(source="session_5", speaker="Emi")
    text = (await memory.assemble_context("What was the user's address before?", budget=200)).text
    assert (
        f"[session_5, 1 March 2023 until 1 June 2024]\nEmi: {OLD}\n[since 1 June 2024] {NEW}"
        in text
    )


async def test_many_versions_of_one_fact_crowd_out_no_other():
    """Of a fact that changed a thousand times, a question about the past gets what it asks for."""
    facts = InMemoryLongTermMemory()
    memory = SessionMemory.test_mode()
    await facts.save(
        "a", "The meter of the north gate counts visitors.", metadata={"timestamp": "2020-01-01"}
    )
    for number in range(1_000):
        day = (datetime(2021, 1, 1) + timedelta(days=number)).isoformat()
        await facts.save(
            "a", f"The meter reads {number} now.", key="meter", metadata={"timestamp": day}
        )
    await memory.attach(FactSource(facts, "a"))
    text = (await memory.assemble_context("What did the meter read before?", budget=400)).text
    assert "The meter of the north gate" in text
    assert "The meter reads 998 now." in text
    assert "The meter reads 999 now." in text
    assert text.count("reads") <= 3


_subjects = st.sampled_from(
    ["The launch of Apollo is planned for day", "The rent of the flat in Oslo is now"]
)


@given(
    st.lists(st.tuples(_subjects, st.integers(1, 4), days), min_size=1, max_size=6),
    st.sampled_from(
        ["When is the launch of Apollo?", "What is the rent of the flat in Oslo?", "launch, rent 2"]
    ),
    st.integers(10, 120),
)
def test_a_fact_is_shown_only_with_those_that_correct_it(told, query, budget):
    """Of the facts without keys that a query finds, each subject's newest value is shown last, in any budget.

    The best match may be shown alone. It is said then that it is possibly replaced.
    """

    async def main():
        facts = InMemoryLongTermMemory()
        memory = SessionMemory.test_mode()
        for subject, value, held in sorted(told, key=lambda each: each[2]):
            metadata = {"timestamp": day(held).isoformat(), "speaker": "Emi", "source": "chat"}
            await facts.save("a", f"{subject} {value}.", metadata=metadata)
        await memory.attach(FactSource(facts, "a"))
        context = await memory.assemble_context(query, budget=budget)
        shown = [item.text for item in context.items]
        for subject in {text.rpartition(" ")[0] for text in shown}:
            of_subject = [text for text in shown if text.startswith(subject)]
            last = max(held for each, _, held in told if each == subject)
            values = {
                f"{subject} {value}."
                for each, value, held in told
                if each == subject and held == last
            }
            is_alone = f"possibly replaced): {of_subject[-1]}\n" in context.text
            assert of_subject[-1] in values or (is_alone and len(of_subject) == 1)

    asyncio.run(main())


async def test_a_fact_whose_live_version_is_gone_is_not_shown():
    """Once the current version is forgotten or has expired, no question about the past brings an older one back."""
    for expires in (True, False):
        clock = Clock()
        memory = SessionMemory.test_mode()
        facts = InMemoryLongTermMemory(clock=clock)
        await facts.save("a", OLD, key="address", metadata={"timestamp": "2023-03-01"})
        new = await facts.save("a", NEW, key="address", ttl=60)
        await memory.attach(FactSource(facts, "a"))
        if expires:
            clock.advance(60)
        else:
            await memory.forget(f"facts/{new}")
        for query in ("What is the user's address?", "What was the user's address before?"):
            assert "address" not in (await memory.assemble_context(query, budget=400)).text


@pytest.mark.parametrize(
    ("times", "shown"),
    [
        ({"as_of": "2023-05-01"}, OLD),
        ({"as_of": "2024-06-01"}, NEW),
        ({"as_of": "2022-05-01"}, ""),
        ({"known_at": "2026-01-15"}, OLD),
        ({"known_at": "2025-12-31"}, ""),
        ({"known_at": "2026-03-01"}, NEW),
        ({"as_of": "2025-01-01", "known_at": "2026-01-15"}, OLD),
    ],
)
async def test_a_session_asks_its_facts_for_other_times(times, shown):
    """`as_of` chooses the version that held at a time, `known_at` the one that the store had been told by a time."""
    clock = Clock()
    memory = SessionMemory.test_mode()
    facts = InMemoryLongTermMemory(clock=clock)
    await facts.save("a", OLD, key="address", metadata={"timestamp": "2023-03-01"})
    clock.advance(30 * 86_400)
    await facts.save("a", NEW, key="address", metadata={"timestamp": "2024-06-01"})
    await memory.attach(FactSource(facts, "a"))
    context = await memory.at(**times).assemble_context("What is the user's address?", budget=200)
    assert [item.text for item in context.items] == ([shown] if shown else [])


async def test_a_filter_leaves_out_versions_too():
    """A replaced version that a filter leaves out is not shown, nor one whose successor is left out."""
    _, memory = await moved(source="a.md")
    query = "What was the user's address before?"
    for source in ("a.md", "b.md"):
        assert (
            await memory.assemble_context(query, budget=400, filter={"source": source})
        ).items == ()
    shown = await memory.assemble_context(query, budget=400, filter={"source": {"$exists": False}})
    assert [item.text for item in shown.items] == [NEW]
    unknown = await memory.assemble_context(
        query, budget=400, filter={"year": 2024}
    )  # a field that no fact has
    assert unknown.items == ()
    both = await memory.assemble_context(query, budget=400, filter={"$if_present": {"year": 2024}})
    assert [item.text for item in both.items] == [OLD, NEW]


@given(
    told=st.lists(st.tuples(st.sampled_from(["k", "m", None]), days, days | st.none()), max_size=8),
    as_of=days | st.none(),
    known_at=days | st.none(),
)
def test_as_of_and_known_at_are_exact(told, as_of, known_at):
    """What is shown is what a plain list says: told by one time, begun by another, and not superseded by then.

    told: key, days after the fact before it, day from which it holds.
    """
    clock = Clock()
    facts = InMemoryLongTermMemory(clock=None)
    clock._now = day(0)
    facts = InMemoryLongTermMemory(clock=clock)
    model = []  # key, begin, known from, id

    async def tell():
        for key, later, begins in told:
            clock.advance(later * 86_400)
            metadata = None if begins is None else {"timestamp": day(begins).isoformat()}
            fact_id = await facts.save("a", "the word", key=key, metadata=metadata)
            [version] = [
                each
                for each in await facts.versions("a", key or fact_id)
                if each.item.id == fact_id
            ]
            model.append((key or fact_id, version.valid_from, clock(), fact_id))
        query = Query("word", as_of=None if as_of is None else day(as_of))
        query = Query(
            "word", as_of=query.as_of, known_at=None if known_at is None else day(known_at)
        )
        proposal = await FactSource(facts, "a").propose(query, cap=10_000)
        return [unit.items[0].id.removeprefix("facts/") for unit in proposal.candidates]

    shown = asyncio.run(tell())
    expected = {}
    for key, begin, known, fact_id in model:
        if (known_at is None or known <= day(known_at)) and (as_of is None or begin <= day(as_of)):
            before = expected.get(key)
            if before is None or begin >= before[0]:
                expected[key] = begin, fact_id
    assert sorted(shown) == sorted(fact_id for _, fact_id in expected.values())


@given(
    st.lists(
        st.tuples(st.sampled_from(["k", "m"]), days, st.sampled_from(["word", "other"])), max_size=8
    ),
    st.sampled_from(
        ["word", "word before", "other at first", "was there ever a word", "word in 2024"]
    ),
    st.sampled_from([30, 60, 1_000]),
)
def test_no_replaced_version_is_shown_without_its_successor(told, query, budget):
    """Whatever a question about the past finds, each fact's current version follows all its replaced ones."""
    facts = InMemoryLongTermMemory()
    memory = SessionMemory.test_mode()

    async def main():
        for key, begins, text in told:
            await facts.save(
                "a", f"{text} of {key}", key=key, metadata={"timestamp": day(begins).isoformat()}
            )
        await memory.attach(FactSource(facts, "a"))
        items = (await memory.assemble_context(query, budget=budget)).items
        for key in {item.key for item in items if item.key}:
            of_key = [item.id for item in items if item.key == key]
            assert of_key[-1] == f"facts/{(await facts.versions('a', key))[-1].item.id}"
            assert len(of_key) == 1 or past_question(query) is not None

    asyncio.run(main())
