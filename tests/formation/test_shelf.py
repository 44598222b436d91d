"""Formed facts on a shelf of a long-term memory: each once, and gone when their source is forgotten."""

import asyncio
import itertools
import random
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest

from kaosmem import (
    DEFAULT_SECTIONS,
    InvalidArgumentError,
    SectionSpec,
    SessionMemory,
    SessionOptions,
)
from kaosmem.backends import open_stores
from kaosmem.errors import SourceError
from kaosmem.formation import FactShelf, FormsFrom, PatternFormer
from kaosmem.session import RetentionPolicy
from kaosmem.stores import InMemoryLongTermMemory
from tests.formation.formers import LineFormer, check_shelf


class CrashingStore(InMemoryLongTermMemory):
    """Fails after a number of calls, before or after the work of the call."""

    left = 1_000
    crashes_after = False

    async def save(self, *args, **kwargs):
        self.left -= 1
        if self.left == 0 and not self.crashes_after:
            raise OSError
        saved = await super().save(*args, **kwargs)
        if self.left == 0:
            raise OSError
        return saved


async def facts(store, namespace="one"):
    found = await store.search("agent", "home pet car live value", namespace, limit=50)
    return sorted(fact.content for fact in found)


def plan_for(store, former=None, **when):
    return FormsFrom(former or LineFormer(), shelf=FactShelf(store, "agent", "one"), **when)


async def test_facts_are_versions_with_their_speaker_and_sources():
    store = InMemoryLongTermMemory()
    plan = plan_for(store)
    memory = SessionMemory.test_mode()
    for day, home in (("2023-05-08", "Oslo"), ("2024-06-01", "Bergen")):
        memory.add("messages", f"home: {home}", role="Ann", metadata={"timestamp": day})
        await memory.form(plan)
    assert await facts(store) == ["home: Bergen"]
    assert await facts(store, "two") == []
    versions = await store.versions("agent", "home", "one")
    assert [version.item.content for version in versions] == ["home: Oslo", "home: Bergen"]
    assert versions[0].item.metadata["speaker"] == "Ann"
    memory.add("messages", "home has ended!", role="Ann", metadata={"timestamp": "2024-07-01"})
    await memory.form(plan)
    assert await facts(store) == []


@pytest.mark.parametrize("crashes_after", [False, True])
@pytest.mark.parametrize("at", [1, 2, 3])
async def test_a_crash_saves_no_fact_twice(crashes_after, at):
    """A formation that fails while it saves facts is finished by the next one."""
    store = CrashingStore()
    store.left = at
    store.crashes_after = crashes_after
    plan = plan_for(store)
    memory = SessionMemory.test_mode()
    texts = ["car: value 1", "home: value 2", "pet: value 3"]
    memory.add_many("messages", texts)
    with pytest.raises(OSError):
        await memory.form(plan)
    async with SessionMemory.open(memory.admin.fs, "test") as again:
        await again.form(plan)
        await again.form(plan)
    assert await facts(store) == texts
    for key in ("car", "home", "pet"):
        assert len(await store.versions("agent", key, "one")) == 1


async def test_two_workers_leave_one_fact():
    store = InMemoryLongTermMemory()
    shelf = FactShelf(store, "agent", "one")
    memory = SessionMemory.test_mode()
    item = memory.add("findings", "home: value", key="home")
    await asyncio.gather(shelf.put(item), shelf.put(item))
    assert await facts(store) == ["home: value"]


async def test_a_database_keeps_facts_and_loses_what_is_forgotten(tmp_path):
    """The tests of PostgreSQL and Redis check the same."""
    async with open_stores(str(tmp_path)) as stores:
        await check_shelf(stores.facts)


async def test_forgetting_reaches_the_shelf_in_another_process(tmp_path):
    """The receipt names the facts, and verifying it asks the shelf."""
    async with open_stores(str(tmp_path)) as stores:
        plan = plan_for(stores.facts)
        memory = SessionMemory.test_mode()
        said = memory.add("messages", "home: value 1")
        memory.add("messages", "pet: value 2")
        await memory.form(plan)
        async with SessionMemory.open(memory.admin.fs, "test") as again:
            with pytest.raises(SourceError, match="one/agent"):
                await again.forget(said.id)
            assert len(await stores.facts.versions("agent", "home", "one")) == 1
            # Nothing is erased yet, so that a repeated call reaches the fact.
            assert again.get(said.id).text == "home: value 1"
            await again.form(plan)
            receipt = await again.forget(said.id)
            assert [*receipt.sources] == ["one/agent"]
            assert await again.admin.verify(receipt) == ()
        assert await facts(stores.facts) == ["pet: value 2"]
        assert await stores.facts.versions("agent", "home", "one") == []
        async with SessionMemory.open(memory.admin.fs, "test") as third:
            (reason,) = await third.admin.verify(receipt)
            assert "FactShelf" in reason


@pytest.mark.parametrize("when", [{"at_close": True}, {"every_turns": 1}])
async def test_a_session_that_ends_leaves_no_fact_behind(when):
    """A later session may never be opened, so that nobody else would take its facts to the shelf."""
    store = InMemoryLongTermMemory()
    plan = plan_for(store, **when)
    async with SessionMemory.test_mode(
        sections=[SectionSpec("messages"), SectionSpec("formed", forms_from=plan)]
    ) as memory:
        memory.add("messages", "home: value 1", role="user")
        await memory.save()
        await memory.assemble_context(budget=100)
    assert await facts(store) == ["home: value 1"]


async def test_a_shelf_follows_corrections_and_removals():
    store = InMemoryLongTermMemory()
    plan = plan_for(store)
    memory = SessionMemory.test_mode()
    memory.add_many("messages", ["home: value 1", "pet: value 2", "car: value 3"])
    home, pet, car = await memory.form(plan)
    memory.update(home.item.id, "home: value 4")
    memory.remove(pet.item.id)
    await memory.form(plan)
    assert await facts(store) == ["car: value 3", "home: value 4"]
    # The next versions are history, and stay.
    memory.add("messages", "car: value 5")
    await memory.form(plan)
    await memory.form(plan)
    assert len(await store.versions("agent", "car", "one")) == 2
    await memory.admin.retain(RetentionPolicy(max_tokens=0))
    async with SessionMemory.open(memory.admin.fs, "test") as again:
        await again.form(plan)
        assert await facts(store) == []
        receipt = await again.forget(car.item.id)
        assert await again.admin.verify(receipt) == ()


async def test_a_disputed_fact_comes_to_the_shelf_when_a_person_accepts_it():
    store = InMemoryLongTermMemory()
    plan = plan_for(store)
    memory = SessionMemory.test_mode()
    for speaker, text in (("Ann", "home: value 1"), ("Bob", "home: value 2")):
        memory.add("messages", text, role=speaker)
    await memory.form(plan)
    assert await facts(store) == ["home: value 1"]
    (proposal,) = memory.proposals
    memory.proposals.accept(proposal.id)
    await memory.form(plan)
    assert await facts(store) == ["home: value 2"]
    memory.add("messages", "home: value 3", role="Ann")
    await memory.form(plan)
    memory.proposals.reject(next(iter(memory.proposals)).id)
    await memory.form(plan)
    assert await facts(store) == ["home: value 2"]


NUMBERS = itertools.count()


async def told(store, *said, review=False):
    """Form what is said in a session of its own, and return the session and its plan."""
    plan = plan_for(store, review=review)
    memory = SessionMemory.test_mode(session_id=f"session-{next(NUMBERS)}")
    for speaker, text in said:
        memory.add("messages", text, role=speaker)
    return memory, plan, await memory.form(plan)


async def test_a_later_session_goes_on_from_the_facts_of_an_earlier_one():
    """The conflict rule is the same, wherever the known fact was formed."""
    store = InMemoryLongTermMemory()
    await told(store, ("Ann", "home: value 1"), ("Ann", "pet: value 2"))
    # The same words are no second fact.
    await told(store, ("Ann", "home: value 1"))
    assert len(await store.versions("agent", "home", "one")) == 1
    # Another speaker's value waits.
    memory, _, _ = await told(store, ("Bob", "home: value 3"))
    assert [item.metadata["proposal"]["doubt"] for item in memory.proposals] == ["another speaker"]
    assert await facts(store) == ["home: value 1", "pet: value 2"]
    # The same speaker ends a fact, and gives another one a new value.
    _, _, changes = await told(store, ("Ann", "pet has ended!"), ("Ann", "home: value 4"))
    assert [(change.change.action, str(change)) for change in changes] == [
        ("retire", "pet: value 2"),
        ("add", "home: value 4"),
    ]
    assert await facts(store) == ["home: value 4"]
    assert len(await store.versions("agent", "home", "one")) == 2


async def test_facts_without_a_key_stand_on_the_shelf_once():
    store = InMemoryLongTermMemory()
    for name in ("one", "two"):
        memory = SessionMemory.test_mode(session_id=name)
        memory.add("messages", "I prefer a home with a pet.")
        await memory.form(plan_for(store, PatternFormer()))
    assert await facts(store) == ["I prefer a home with a pet."]


async def test_a_former_knows_the_facts_of_earlier_sessions():
    """A model gives a new value the key of the known fact, if it knows this fact."""
    store = InMemoryLongTermMemory()
    await told(store, ("Ann", "home: value 1"))
    known = []

    class Knowing(LineFormer):
        async def propose(self, said, known_items):
            known.extend((item.key, item.text) for item in known_items)
            return await super().propose(said, known_items)

    memory = SessionMemory.test_mode(session_id="later")
    memory.add("messages", "My home is elsewhere.")
    await memory.form(plan_for(store, Knowing()))
    assert known == [("home", "home: value 1")]


async def test_a_doubtful_end_of_a_fact_of_an_earlier_session_is_refused():
    """A person decides only what the session holds."""
    store = InMemoryLongTermMemory()
    await told(store, ("Ann", "home: value 1"))
    memory, _, _ = await told(store, ("Ann", "home has ended!"), review=True)
    assert len(memory.proposals) == 0
    assert memory.proposals.refused == {"review, and the fact is of another session": 1}
    assert await facts(store) == ["home: value 1"]


async def test_an_accepted_end_ends_no_value_that_was_told_later():
    store = InMemoryLongTermMemory()
    memory, _, _ = await told(store, ("Ann", "home: value 1"))
    memory.add("messages", "home has ended!", role="Ann")
    shelf = FactShelf(store, "agent", "one")
    await memory.form(FormsFrom(LineFormer(), shelf=shelf, review=True))
    memory.add("messages", "home: value 2", role="Ann")
    await memory.form(FormsFrom(LineFormer(), shelf=shelf))
    memory.proposals.accept(next(iter(memory.proposals)).id)
    await memory.form(FormsFrom(LineFormer(), shelf=shelf))
    assert [item.text for item in memory["findings"]] == ["home: value 2"]
    assert await facts(store) == ["home: value 2"]


async def test_a_fact_holds_from_the_day_on_which_it_was_said_and_no_longer_than_its_message():
    """It is not its formation that says when it began."""
    now = datetime(2026, 1, 5, tzinfo=UTC)
    store = InMemoryLongTermMemory(clock=lambda: now)
    options = SessionOptions(clock=lambda: now)
    monday = SessionMemory.test_mode(session_id="monday", options=options)
    wednesday = SessionMemory.test_mode(session_id="wednesday", options=options)
    plan = plan_for(store)
    monday.add("messages", "home: value 1")
    monday.add("messages", "car: value 3", ttl_s=10 * 86_400)
    now += timedelta(days=2)
    wednesday.add("messages", "home: value 2")
    await wednesday.form(plan)
    now += timedelta(days=2)
    await monday.form(plan)  # so late
    assert await facts(store) == ["car: value 3", "home: value 2"]
    now += timedelta(days=7)
    assert await facts(store) == ["home: value 2"]


@pytest.mark.parametrize("is_same_process", [True, False])
async def test_what_is_forgotten_while_it_comes_to_the_shelf_is_gone(is_same_process):
    """Here, or by another writer."""
    has_begun = asyncio.Event()
    may_end = asyncio.Event()

    class SlowStore(InMemoryLongTermMemory):
        async def save(self, *args, **kwargs):
            has_begun.set()
            await may_end.wait()
            return await super().save(*args, **kwargs)

    store = SlowStore()
    plan = plan_for(store)
    memory = SessionMemory.test_mode()
    said = memory.add("messages", "home: value 1")
    forming = asyncio.create_task(memory.form(plan))
    await has_begun.wait()
    specs = [*DEFAULT_SECTIONS, SectionSpec("formed", forms_from=plan)]  # it knows the shelf
    async with SessionMemory.open(memory.admin.fs, "test", sections=specs) as other:
        forgetting = memory if is_same_process else other
        receipt = await forgetting.forget(said.id)
        assert len(receipt.derived) == 1
    may_end.set()
    await forming
    assert await facts(store) == []
    assert await memory.admin.verify(receipt) == ()


class FlakyStore(InMemoryLongTermMemory):
    """Fails now and then, before or after the work of a call."""

    def __init__(self, rng):
        super().__init__()
        self.rng = rng
        self.rate = rng.choice([0, 0.1, 0.3])

    async def save(self, *args, **kwargs):
        self._fail()
        saved = await super().save(*args, **kwargs)
        self._fail()
        return saved

    async def delete(self, *args, **kwargs):
        self._fail()
        await super().delete(*args, **kwargs)
        self._fail()

    def _fail(self):
        if self.rng.random() < self.rate:
            raise OSError


async def change(memory, rng, number):
    """Make one change of a session by chance."""
    key = rng.choice(["home", "pet"])
    facts = [*memory["findings"]]
    proposals = [*memory.proposals]
    match rng.randrange(7):
        case 0 if facts:
            item = rng.choice(facts)
            memory.update(item.id, f"{item.text.partition(':')[0]}: value {number}")
        case 1 if facts:
            memory.remove(rng.choice(facts).id)
        case 2 if proposals:
            memory.proposals.accept(rng.choice(proposals).id)
        case 3 if proposals:
            memory.proposals.reject(rng.choice(proposals).id)
        case 4:
            memory.add("messages", f"{key} has ended!", role="Ann")
        case _:
            text = f"{key}: value {rng.choice([1, number])}"
            memory.add("messages", text, role=rng.choice(["Ann", "Ann", "Bob"]))
    await memory.save()


@pytest.mark.parametrize("seed", range(40))
async def test_the_shelf_has_what_the_session_holds_true(seed):
    """Whatever was corrected, removed, disputed and decided, and wherever the store failed."""
    rng = random.Random(seed)
    store = FlakyStore(rng)
    plan = plan_for(store)
    place = SessionMemory.test_mode().admin.fs
    for number in range(2, 30):
        async with SessionMemory.open(place, "test") as memory:
            await change(memory, rng, number)
            if rng.random() < 0.5:
                with suppress(OSError):
                    await memory.form(plan)
    store.rate = 0
    async with SessionMemory.open(place, "test") as memory:
        await memory.form(plan)
        settled = [item for item in memory["findings"] if "proposal" not in item.metadata]
        assert await facts(store) == sorted(item.text for item in settled)


def test_a_shelf_needs_a_store():
    with pytest.raises(InvalidArgumentError):
        FactShelf("facts", "agent")
