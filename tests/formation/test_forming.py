"""Formation: each message is formed once, into versions that their sources say."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaosmem import (
    DEFAULT_SECTIONS,
    InvalidArgumentError,
    NotFoundError,
    SectionSpec,
    SessionMemory,
    Trust,
)
from kaosmem.compaction import SummarizationCompaction, Summarizer
from kaosmem.errors import ReadOnlyError
from kaosmem.formation import Draft, EpisodeFormer, FormsFrom, PatternFormer, ProposedChange
from kaosmem.persistence.storage.objects import IsolatedMemoryFileSystem
from kaosmem.testing import ScriptedLLM
from tests.formation.formers import LineFormer, WaitingFormer
from tests.gist import gist


def findings(memory):
    return [item.text for item in memory["findings"]]


async def formed(memory, *messages, **fields):
    """Add messages, form them, and return the texts of the applied changes."""
    for text in messages:
        memory.add("messages", text, **fields)
    return [str(change) for change in await memory.form(LineFormer())]


async def test_a_message_is_formed_once():
    """A second formation of the same messages, also in another process, forms nothing."""
    memory = SessionMemory.test_mode()
    assert await formed(memory, "home: I live in Oslo.", "Nothing here") == [
        "home: I live in Oslo."
    ]
    assert await formed(memory) == []
    async with SessionMemory.open(memory.admin.fs, "test") as again:
        former = LineFormer()
        assert await again.form(former) == []
        assert former.said == []
        assert await formed(again, "pet: I have a cat.") == ["pet: I have a cat."]


async def test_a_formed_item_says_where_it_comes_from():
    memory = SessionMemory.test_mode()
    said = memory.add(
        "messages", "home: I live in Oslo.", role="Ann", metadata={"timestamp": "2024-05-06"}
    )
    (change,) = await memory.form(LineFormer())
    assert change.item.sources == (said.id,)
    assert change.item.role == "Ann"
    assert change.item.trust == said.trust
    assert change.item.metadata["quote"] in said.text
    assert change.item.metadata["timestamp"] == "2024-05-06"
    assert [each.id for each in await memory.archive.expand(change.item.id)] == [said.id]


async def test_a_name_in_other_letters_is_the_same_speaker():
    """A key has the speaker in lower case, and so a value of `ann` is one of `Ann`."""
    memory = SessionMemory.test_mode()
    for role, home in (("Ann", "Oslo"), ("ann", "Bergen")):
        memory.add("messages", f"I live in {home}.", role=role)
    await memory.form(PatternFormer())
    assert findings(memory) == ["I live in Bergen."]
    assert not len(memory.proposals)


async def test_an_older_value_is_an_earlier_version():
    """Facts may be told in any order: the section follows their times."""
    memory = SessionMemory.test_mode()
    await formed(memory, "home: I live in Bergen.", metadata={"timestamp": "2024-06-01"})
    await formed(memory, "home: I lived in Oslo.", metadata={"timestamp": "2023-06-01"})
    assert findings(memory) == ["home: I live in Bergen."]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"role": "Bob", "metadata": {"timestamp": "2024-06-01"}}, "another speaker"),
        ({"trust": Trust.EXTERNAL, "metadata": {"timestamp": "2024-06-01"}}, "lower trust"),
        ({}, "no clear time"),
    ],
)
async def test_a_doubtful_value_stands_beside_the_other(fields, reason):
    """It is marked where it is shown, until a person accepts or rejects it."""
    memory = SessionMemory.test_mode()
    memory.add("messages", "home: I live in Oslo.", metadata={"timestamp": "2024-05-06"})
    memory.add("messages", "home: I live in Bergen.", **fields)
    _, disputed = await memory.form(LineFormer())
    assert "proposal" in disputed.item.metadata
    assert findings(memory) == ["home: I live in Oslo.", "home: I live in Bergen."]
    context = await memory.assemble_context("home", budget=300, sections=["findings"])
    assert "disputed" in context.text
    (proposal,) = memory.proposals
    assert proposal.metadata["proposal"]["doubt"] == reason
    memory.proposals.accept(proposal.id)
    assert findings(memory) == ["home: I live in Bergen."]
    assert not len(memory.proposals)


@pytest.mark.parametrize("times", [("2020-05-06", ""), ("", "2024-05-06")])
async def test_a_value_told_after_an_import_is_a_new_version(times):
    """A text without a time was said when it was added, or before."""
    memory = SessionMemory.test_mode()  # its clock begins in 2024
    for home, time in zip(("Oslo", "Bergen"), times, strict=True):
        await formed(memory, f"home: I live in {home}.", metadata={"timestamp": time})
    assert findings(memory) == ["home: I live in Bergen."]
    assert not len(memory.proposals)


async def test_a_person_corrects_the_assistant():
    """The assistant's word is a guess about a person. It does not replace the person's own."""
    memory = SessionMemory.test_mode()
    await formed(memory, "home: You live in Oslo, I think.", role="assistant")
    await formed(memory, "home: I live in Bergen.")
    assert findings(memory) == ["home: I live in Bergen."]
    assert not len(memory.proposals)
    await formed(memory, "home: You live in Oslo.", role="assistant")
    assert [each.metadata["proposal"]["doubt"] for each in memory.proposals] == ["another speaker"]


async def test_an_end_told_before_a_fact_began_waits():
    """A conversation of 2020 that is imported later does not end a fact of 2024."""
    memory = SessionMemory.test_mode()
    await formed(memory, "work: I work at Acme.", metadata={"timestamp": "2024-05-06"})
    await formed(memory, "work has ended!", metadata={"timestamp": "2020-05-06"})
    assert findings(memory) == ["work: I work at Acme."]
    (proposal,) = memory.proposals
    assert proposal.metadata["proposal"]["doubt"] == "told before it began"


async def test_a_rejected_value_leaves():
    memory = SessionMemory.test_mode()
    memory.add("messages", "home: I live in Oslo.", role="Ann")
    memory.add("messages", "home: Ann lives in Bergen.", role="Bob")
    await memory.form(LineFormer())
    (proposal,) = memory.proposals
    memory.proposals.reject(proposal.id)
    assert findings(memory) == ["home: I live in Oslo."]
    with pytest.raises(NotFoundError):
        memory.proposals.reject(proposal.id)


async def test_nothing_is_retired_in_doubt():
    """A clear retirement ends the fact. A doubtful one waits for a person."""
    memory = SessionMemory.test_mode()
    memory.add("messages", "home: I live in Oslo.", role="Ann")
    memory.add("messages", "home is Oslo no more, says Bob!", role="Bob")
    memory.add("messages", "work has ended!", role="Ann")
    await memory.form(LineFormer())
    assert findings(memory) == ["home: I live in Oslo."]
    assert memory.proposals.refused == {"nothing to retire": 1}
    (proposal,) = memory.proposals
    stated = proposal.metadata["proposal"]
    assert (stated["action"], stated["doubt"]) == ("retire", "another speaker")
    memory.proposals.accept(proposal.id)
    assert findings(memory) == []
    await formed(memory, "pet: a cat named Tom.", "pet is no more!", role="Ann")
    assert findings(memory) == []


async def test_what_says_nothing_new_is_refused():
    memory = SessionMemory.test_mode()
    await formed(memory, "home: I live in Oslo.", "home:  I live in OSLO.")
    assert findings(memory) == ["home: I live in Oslo."]
    assert memory.proposals.refused == {"nothing new": 1}


async def test_a_new_value_is_a_new_version():
    """So is a value that held before, if another one holds now."""
    memory = SessionMemory.test_mode()
    await formed(memory, "home: Oslo.", "home: Bergen.", "home: Oslo.")
    assert findings(memory) == ["home: Oslo."]
    assert len(await memory.versions("home")) == 3


async def test_messages_that_were_taken_back_are_not_formed():
    memory = SessionMemory.test_mode()
    gone = memory.add("messages", "home: I live in Oslo.")
    expired = memory.add("messages", "pet: I have a cat.", ttl_s=1)
    memory.remove(gone.id)
    assert await formed(memory) == []
    assert expired.text not in findings(memory)


async def test_evicted_and_compacted_messages_are_formed_from_their_words():
    sections = DEFAULT_SECTIONS.replace(messages={"budget": 40})
    memory = SessionMemory.test_mode(sections=sections)
    texts = [f"fact{number}: it is number {number}." for number in range(20)]
    assert await formed(memory, *texts) == texts


async def test_each_message_of_a_summary_is_formed():
    """Also the one whose place the summary took."""
    summarizer = Summarizer(ScriptedLLM(lambda request: gist(request, most=3)), max_kept_tokens=0)
    compaction = SummarizationCompaction(summarizer, 40, 10, max_summary_tokens=20)
    talk = SectionSpec("messages", budget=80, placement="history", compaction=compaction)
    memory = SessionMemory.test_mode(sections=(talk, SectionSpec("findings")))
    texts = [f"fact {letter}: it is a nice one of many things here." for letter in "abcdefghij"]
    for text in texts:
        memory.add("messages", text)
        await memory.assemble_context(budget=250)
    assert any(item.sources for item in memory["messages"])
    assert [str(change) for change in await memory.form(LineFormer())] == texts


async def test_review_lets_everything_wait():
    memory = SessionMemory.test_mode()
    memory.add("messages", "home: I live in Oslo.")
    assert await memory.form(FormsFrom(LineFormer(), review=True)) == []
    await memory.save()
    async with SessionMemory.open(memory.admin.fs, "test") as again:
        (proposal,) = again.proposals
        context = await again.assemble_context("home", budget=300, sections=["findings"])
        assert "Oslo" not in context.text
        again.proposals.accept(proposal.id)
        assert findings(again) == ["home: I live in Oslo."]
        assert again["findings"].keyed("home") is not None


async def test_a_draft_may_cover_a_part():
    """The former is asked for the rest until it covers nothing, then by the next formation."""
    memory = SessionMemory.test_mode()
    memory.add_many("messages", ["a: one.", "b: two."])
    former = LineFormer(covered=1)
    await memory.form(former)
    assert former.said == ["a: one.", "b: two.", "b: two."]
    former.covered = 0
    memory.add("messages", "c: three.")
    former.said.clear()
    await memory.form(former)
    await memory.form(former)
    assert former.said == ["c: three.", "c: three."]


async def test_what_cannot_be_formed_is_refused_at_once():
    memory = SessionMemory.test_mode()
    for section in ("role", "messages"):
        with pytest.raises(InvalidArgumentError, match="use 'query' with forms_from"):
            await memory.form(LineFormer(), section=section)
    with pytest.raises(NotFoundError):
        await memory.form(FormsFrom(LineFormer(), ("nowhere",)))
    with pytest.raises(InvalidArgumentError):
        await memory.form("no former")
    with pytest.raises(InvalidArgumentError):
        SectionSpec("facts", placement="static", forms_from=FormsFrom(LineFormer()))
    memory.add("messages", "home: I live in Oslo.")
    await memory.save()
    async with SessionMemory.open(memory.admin.fs, "test", read_only=True) as frozen:
        with pytest.raises(ReadOnlyError):
            await frozen.form(LineFormer())


# Forgetting.


@pytest.mark.parametrize("review", [False, True])
async def test_forgetting_a_message_erases_what_was_formed_from_it(review):
    """Formed items, their versions and open proposals go, and the files hold none of them."""
    memory = SessionMemory.test_mode()
    said = memory.add("messages", "home: the secret is Svolvaer.")
    other = memory.add("messages", "pet: a cat.")
    await memory.form(FormsFrom(LineFormer(), review=review))
    receipt = await memory.forget(said.id)
    assert len(receipt.derived) == 1
    assert await memory.admin.verify(receipt) == ()
    kept = findings(memory) + [each.text for each in memory.proposals]
    assert kept == [other.text]
    for path in memory.admin.fs.find(""):
        assert b"Svolvaer" not in memory.admin.fs.cat_file(path)
    async with SessionMemory.open(memory.admin.fs, "test") as again:
        assert findings(again) + [each.text for each in again.proposals] == [other.text]


async def test_what_was_forgotten_meanwhile_is_not_formed():
    """A message that is forgotten while a model thinks leaves nothing."""
    memory = SessionMemory.test_mode()
    said = memory.add("messages", "home: I live in Oslo.")
    former = WaitingFormer()
    forming = asyncio.create_task(memory.form(former))
    await former.has_begun.wait()
    await memory.forget(said.id)
    former.may_end.set()
    assert await forming == []
    assert findings(memory) == []


# Beside the turns.


def planned(former, **plan):
    facts = SectionSpec("facts", forms_from=FormsFrom(former, **plan))
    return SessionMemory.test_mode(sections=(*DEFAULT_SECTIONS, facts))


async def test_no_turn_waits_for_a_formation():
    former = WaitingFormer()
    memory = planned(former, every_turns=1)
    memory.add("messages", "home: I live in Oslo.")
    await memory.save()
    await memory.assemble_context(budget=500)
    await former.has_begun.wait()
    await memory.assemble_context(budget=500)
    assert not len(memory["facts"])
    former.may_end.set()
    await memory._formations.settle()
    assert [item.text for item in memory["facts"]] == ["home: I live in Oslo."]


async def test_a_formation_beside_the_turns_saves_nothing():
    """A turn that ends by an exception leaves nothing, whatever was formed meanwhile."""
    memory = planned(LineFormer(), every_turns=1)
    memory.add("messages", "home: I live in Oslo.")
    await memory.save()
    with pytest.raises(RuntimeError):
        async with memory:
            memory.add("messages", "pet: I have a cat.")
            await memory.assemble_context(budget=500)
            await memory._formations.settle()
            assert [item.text for item in memory["facts"]] == ["home: I live in Oslo."]
            raise RuntimeError
    async with SessionMemory.open(memory.admin.fs, "test", sections=memory.sections) as again:
        assert len(again["messages"]) == 1
        assert not len(again["facts"])
        await again.form()
        assert [item.text for item in again["facts"]] == ["home: I live in Oslo."]


async def test_a_plan_forms_at_the_end_and_when_idle():
    memory = planned(LineFormer(), at_close=True)
    async with memory:
        memory.add("messages", "home: I live in Oslo.")
    async with SessionMemory.open(memory.admin.fs, "test", sections=memory.sections) as again:
        assert len(again["facts"]) == 1
    former = WaitingFormer()
    idle = planned(former, idle_s=0.001)
    idle.add("messages", "home: I live in Oslo.")
    await idle.save()
    await idle.assemble_context(budget=500)
    await former.has_begun.wait()
    former.may_end.set()
    await idle._formations.settle()
    assert len(idle["facts"]) == 1


async def test_workers_of_one_turn_form_every_few_turns():
    """A worker that opens the session for one turn counts the messages that wait."""
    memory = planned(LineFormer(), every_turns=3)
    seen = []
    for number in range(6):
        opened = SessionMemory.open(memory.admin.fs, "test", sections=memory.sections)
        async with opened as worker:
            worker.add("messages", f"fact{number}: it is number {number}.")
            await worker.assemble_context(budget=500)
            worker.add("messages", "Noted.", role="assistant")
        seen.append(len(worker["facts"]))
    assert seen == [0, 0, 2, 2, 4, 4]


async def test_a_failure_beside_the_turns_becomes_a_notice():
    class Broken:
        name = "broken"

        async def propose(self, said, known):
            raise OSError("secret")

    memory = planned(Broken(), every_turns=1)
    memory.add("messages", "home: I live in Oslo.")
    await memory.save()
    await memory.assemble_context(budget=500)
    await memory._formations.settle()
    assert any("was not formed" in notice for notice in memory.notices)
    assert not any("secret" in notice for notice in memory.notices)


# Two workers, crashes and replays.


_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["say", "form", "crash", "forget", "save", "beside"]),
        st.integers(0, 1),
        st.integers(0, 3),
    ),
    max_size=14,
)


@given(_STEPS)
async def test_each_message_is_formed_exactly_once_whatever_happens(
    steps,
):
    """After any schedule of two workers with crashes, each stored message is one formed item."""
    fs = IsolatedMemoryFileSystem()
    facts = SectionSpec("facts", eviction="none", forms_from=FormsFrom(LineFormer()))
    specs = (*DEFAULT_SECTIONS, facts)
    opened = [None, None]
    memories = [None, None]

    async def start(worker):
        opened[worker] = SessionMemory.open(fs, "s", sections=specs)
        memories[worker] = await opened[worker].__aenter__()

    async def stop(worker, error):
        try:
            kind = type(error) if error else None
            await opened[worker].__aexit__(kind, error, None)
        except RuntimeError:
            pass

    for worker in (0, 1):
        await start(worker)
    number = 0
    for step, worker, choice in steps:
        memory = memories[worker]
        if step == "say":
            number += 1
            memory.add("messages", f"k{number}: value {number}")
        elif step == "form":
            await memory.form(LineFormer(), section="facts")
        elif step == "beside":
            (formation,) = memory._formations.planned
            await memory._formations.form_beside(formation)
        elif step == "save":
            await memory.save()
        elif step == "crash":
            await stop(worker, RuntimeError())
            await start(worker)
        else:
            await memory.admin.refresh()
            held = [*memory["messages"]]
            if held:
                await memory.forget(held[choice % len(held)].id)
    for worker in (0, 1):
        await stop(worker, None)
    async with SessionMemory.open(fs, "s", sections=specs) as memory:
        await memory.form(LineFormer(), section="facts")
        said = sorted(item.text for item in memory["messages"])
        assert sorted(item.text for item in memory["facts"]) == said


@pytest.mark.parametrize(
    ("key", "first", "second", "is_disputed"),
    [
        ("ann/home", "Ann lives in Oslo.", "Tea is served cold.", True),
        ("ann/home", "Ann lives in Oslo.", "Ann moved to Rome.", False),
        ("ann/pet", "I have a cat.", "I moved to Rome.", True),
        ("ann/favourite colour", "It is teal.", "My favourite is petrol.", False),
    ],
)
async def test_a_proposal_without_words_of_its_own_key_is_disputed(key, first, second, is_disputed):
    """A model that gives a key to another fact replaces nothing."""

    class Twin(LineFormer):
        async def propose(self, said, known):
            return Draft(
                [ProposedChange(each.text, each.text, (each.id,), key=key) for each in said]
            )

    memory = SessionMemory.test_mode()
    memory.add_many("messages", [first, second])
    _, change = await memory.form(Twin())
    assert ("proposal" in change.item.metadata) == is_disputed


async def test_kinds_have_sections_of_their_own():
    """Each section takes its kinds. The others are no refusals."""
    sections = [SectionSpec("messages", placement="history")]
    for name, kind in (("facts", "semantic"), ("rules", "procedural")):
        plan = FormsFrom(PatternFormer(), kinds=(kind,))
        sections.append(SectionSpec(name, forms_from=plan))
    memory = SessionMemory.test_mode(sections=sections)
    memory.add("messages", "I live in Oslo. From now on, always answer in French.")
    await memory.form()
    assert [item.text for item in memory["facts"]] == ["I live in Oslo."]
    assert [item.text for item in memory["rules"]] == ["From now on, always answer in French."]
    assert memory.proposals.refused == {}
    with pytest.raises(InvalidArgumentError, match="semantic, episodic, procedural"):
        FormsFrom(PatternFormer(), kinds=("rules",))


@pytest.mark.parametrize("former", [PatternFormer(), EpisodeFormer()])
async def test_the_event_loop_goes_on_beside_a_formation(former):
    """A turn of another session does not wait until an import is read."""
    memory = SessionMemory.test_mode()
    said = memory.add_many("messages", [f"I live in house {number}." for number in range(50)])
    turns = 0

    async def take_turns():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(take_turns())
    await former.propose(said, [])
    task.cancel()
    assert turns > 40


async def test_a_former_returns_a_draft_and_a_session_has_one():
    """Errors that name their remedy, in place of nothing, or of an attribute that lacks."""
    memory = SessionMemory.test_mode()
    with pytest.raises(InvalidArgumentError, match="give a former"):
        await memory.form()

    class ListFormer(LineFormer):
        async def propose(self, said, known):
            return []

    memory.add("messages", "home: Oslo")
    with pytest.raises(InvalidArgumentError, match="return a Draft"):
        await memory.form(ListFormer())


class CostlyFormer:
    """Spends ten tokens for each draft, and forms nothing."""

    name = "costly"
    budget = 25

    async def propose(self, said, known):
        return Draft(spent=10)


async def test_a_former_spends_each_token_once():
    """What it has spent in one section is not counted again with what it spends in another one."""
    memory = SessionMemory.test_mode()
    memory.add("messages", "I live in Oslo.")
    for section in ("findings", "lessons"):
        await memory.form(CostlyFormer(), section=section)
    memory.add("messages", "I like tea.")
    await memory.form(CostlyFormer(), section="findings")
    assert not any("has spent" in notice for notice in memory.notices)
    memory.add("messages", "I like rain.")
    await memory.form(CostlyFormer(), section="findings")
    assert any("has spent its 25 tokens" in notice for notice in memory.notices)
