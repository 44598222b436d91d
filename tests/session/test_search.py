"""A search finds what a context can show, live or archived, and says where it is."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from kaosmem import SectionSpec, SessionMemory, SessionOptions
from kaosmem.persistence import log as session_log

SPECS = (
    SectionSpec("notes", 200, retrieval_threshold=5),
    SectionSpec("audit", 200, in_context=False),
)
FACT = "The vault code of the Zurich office is 4711."
QUESTION = "What is the vault code in Zurich?"
WEATHER = [f"On day {day} the weather was {('fine', 'dull', 'wet')[day % 3]}." for day in range(60)]


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Snapshots come early, and with them archive files."""
    monkeypatch.setattr(session_log, "MIN_LOG_BYTES", 1_000)


async def stored(memory):
    """Save often enough that archived items leave the memory."""
    for _ in range(2):
        memory.add("notes", "A note beside it.")
        await memory.save()
        await memory._session.saver._checkpoints.finished()


def told(memory, section="notes"):
    """Add a fact and so many notes that it is evicted, and return its id."""
    fact = memory.add(section, FACT, metadata={"tenant": "acme"})
    for text in WEATHER:
        memory.add(section, text)
    assert fact.id not in memory
    return fact.id


async def test_a_search_finds_what_was_evicted():
    """The hit says so, and unpacks as item and score.

    An option narrows the search to live items.
    """
    memory = SessionMemory.test_mode(sections=SPECS)
    fact_id = told(memory)
    hit = memory.search(QUESTION)[0]
    item, score = hit
    assert (item.id, item.text, hit.section, hit.is_archived) == (fact_id, FACT, "notes", True)
    assert (item, score) == (hit[0], hit[1]) == (hit.item, hit.score)
    assert score > 0
    live = memory.search(QUESTION, archived=False)
    assert all(hit.item.id in memory and not hit.is_archived for hit in live)
    assert memory.search(QUESTION, filter={"tenant": "acme"}) == [hit]
    assert memory.search(QUESTION, filter={"tenant": "globex"}) == []
    assert memory.notices == ()


async def test_a_search_of_stored_archives_names_what_it_leaves_out(tmp_path):
    """A search opens no archive. `prepare` does, for all later searches, contexts and saves."""
    async with SessionMemory.open(tmp_path, sections=SPECS) as memory:
        fact_id = told(memory)
        told(memory, "audit")
    async with SessionMemory.open(tmp_path, sections=SPECS) as memory:
        assert memory.notices == ()
        assert fact_id not in {item.id for item, _ in memory.search(QUESTION)}
        (notice,) = memory.notices
        assert re.match(r"a search left out \d+ archived items of section 'notes', which", notice)
        assert "await memory.admin.prepare() before it" in notice
        await memory.admin.prepare()
        assert memory.notices == ()
        assert memory.search(QUESTION)[0].item.id == fact_id
        await memory.assemble_context("weather", budget=500)
        told(memory)
        await stored(memory)
        assert [hit.item.text for hit in memory.search(QUESTION, limit=2)] == [FACT, FACT]
        assert memory.notices == ()
        memory.search(QUESTION, "audit")
        assert "section 'audit'" in memory.notices[0]
        await memory.admin.prepare()
        assert memory.search(QUESTION, "audit")[0].item.text == FACT
        assert memory.notices == ()


async def test_a_search_finds_each_id_once_and_nothing_forgotten(tmp_path):
    """An id that is live again is found live, and a forgotten item nowhere, however its text was read."""
    async with SessionMemory.open(tmp_path, sections=SPECS) as memory:
        memory.add("notes", FACT, id="fact")
        for text in WEATHER:
            memory.add("notes", text)
        await stored(memory)
        memory.add("notes", "The vault code of Zurich is 1234.", id="fact")
    async with SessionMemory.open(tmp_path, sections=SPECS) as memory:
        await memory.admin.prepare()
        hits = [hit for hit in memory.search(QUESTION, limit=50) if hit.item.id == "fact"]
        assert [(hit.item.text, hit.is_archived) for hit in hits] == [
            ("The vault code of Zurich is 1234.", False)
        ]
        await memory.forget("fact")
        assert not any("vault" in hit.item.text for hit in memory.search(QUESTION, limit=50))


async def test_removed_items_and_earlier_texts_are_fetched_and_not_found():
    """A search finds what may be shown now; an id and an earlier time find the rest."""
    now = [datetime(2026, 1, 1, tzinfo=UTC)]
    memory = SessionMemory.test_mode(options=SessionOptions(clock=lambda: now[0]))
    removed = memory.add("findings", "The vault code is 4711.")
    memory.remove(removed.id)
    updated = memory.add("findings", "The vault code is 1234.")
    now[0] += timedelta(days=1)
    memory.update(updated.id, "The safe is open.")
    assert memory.search("vault code") == []
    assert await memory.fetch(removed.id) == removed
    before = await memory.at(known_at="2026-01-01").assemble_context("vault code", budget=200)
    assert [item.text for item in before.items] == ["The vault code is 1234."]


async def test_a_superseded_version_is_found_as_an_archived_one(tmp_path):
    """The live version is a hit of its own."""
    async with SessionMemory.open(tmp_path) as memory:
        for name in ("Ann", "Bob"):
            memory.add("findings", f"{name} owns the deal.", key="owner")
    async with SessionMemory.open(tmp_path) as memory:
        await memory.admin.prepare()
        hits = {hit.item.text: hit.is_archived for hit in memory.search("Who owns the deal?")}
        assert hits == {"Bob owns the deal.": False, "Ann owns the deal.": True}


async def test_an_attached_section_is_searched_with_its_archive(tmp_path):
    """The hit names the attached section as this session does."""
    other = SessionMemory.test_mode(sections=SPECS)
    told(other)
    memory = SessionMemory.test_mode(sections=SPECS)
    name = await memory.attach(other["notes"])
    hit = memory.search(QUESTION)[0]
    assert (hit.item.text, hit.section, hit.is_archived) == (FACT, name, True)


@pytest.mark.parametrize("limit", [0, 1, 3, 1_000])
async def test_a_search_keeps_its_limit(limit):
    """Archived items count towards it, and expired ones are not found."""
    memory = SessionMemory.test_mode(sections=SPECS)
    memory.add("notes", FACT, ttl_s=0.5)
    told(memory)
    found = memory.search("vault code weather", limit=limit)
    assert len(found) == min(limit, len({hit.item.id for hit in found}))
    assert sum(hit.item.text == FACT for hit in found) == min(limit, 1)
