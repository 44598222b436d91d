"""The view of a session at another time."""

import pytest

from kaosmem import InvalidArgumentError, NotFoundError, SessionMemory

OLD = "Ann lives in Oslo."
NEW = "Ann lives in Bergen."


def moved():
    """Return a session with a fact of 2023 and its replacement of 2024."""
    memory = SessionMemory.test_mode()
    for day, home in (("2023-03-01", "Oslo"), ("2024-06-01", "Bergen")):
        metadata = {"timestamp": day, "home": home}
        memory.add("findings", f"Ann lives in {home}.", key="home", metadata=metadata)
    return memory


async def found(view, query="Where does Ann live?"):
    return [hit.item.text for hit in await view.search(query)]


async def test_a_search_finds_the_version_that_held():
    """A search of the view sees one version of each time."""
    memory = moved()
    assert await found(memory.at(as_of="2022-01-01")) == []
    assert await found(memory.at(as_of="2023-12-01")) == [OLD]
    assert await found(memory.at(as_of="2025-01-01")) == [NEW]


async def test_a_search_finds_what_the_session_knew():
    """An item that was added later is unknown, and so is an item of an attached section."""
    memory = moved()
    other = SessionMemory.test_mode()
    other.add("documents", "Ann lives in a house.")
    await memory.attach(other["documents"])
    assert await found(memory.at(known_at="2023-12-31")) == []
    first = next(iter(memory["findings"].archive.in_memory())).item
    assert await found(memory.at(known_at=first.created_at)) == [OLD, "Ann lives in a house."]


async def test_a_search_takes_the_arguments_of_the_session():
    """A section, a limit and a filter narrow it, and an unknown section is refused."""
    view = moved().at(as_of="2025-01-01")
    assert await view.search("Ann", "documents") == []
    assert await view.search("Ann", filter={"home": "Oslo"}) == []
    assert await view.search("Ann", limit=0) == []
    with pytest.raises(NotFoundError):
        await view.search("Ann", "contracts")


async def test_a_view_marks_no_use_and_forgets():
    """Asking the past changes nothing, and a forgotten item is gone from an open view."""
    memory = moved()
    view = memory.at(as_of="2025-01-01")
    (live,) = memory["findings"]
    before = repr(memory), memory["findings"].used
    context = await view.assemble_context("Where does Ann live?", budget=200)
    assert [item.text for item in context.items] == [NEW]
    assert (repr(memory), memory["findings"].used) == before
    await memory.forget(live.id)
    assert await found(view) == []


async def test_a_view_needs_a_time():
    """A view without a time, or with a wrong one, is refused at once."""
    memory = SessionMemory.test_mode()
    with pytest.raises(InvalidArgumentError, match="give as_of, known_at, or both"):
        memory.at()
    with pytest.raises(InvalidArgumentError, match="known_at"):
        memory.at(known_at="yesterday")
