"""Small inputs that ask for much."""

import pytest

from kaosmem import CorruptionError, InvalidArgumentError, SectionSpec, SessionMemory
from kaosmem.persistence.files.lines import MAX_LINE_BYTES
from kaosmem.sections.spec import MAX_SECTIONS, check_specs
from kaosmem.types import items
from tests.places import in_memory
from tests.stored import changed, ids_at, logged, memory_at


async def test_a_session_has_so_many_sections_at_most(tmp_path):
    """More sections than a session may have are refused when they are given and when a log describes them."""
    with pytest.raises(ValueError, match=str(MAX_SECTIONS)):
        check_specs(SectionSpec(f"s{number}") for number in range(MAX_SECTIONS + 1))
    many = {f"s{number}": {"name": f"s{number}"} for number in range(MAX_SECTIONS + 1)}
    files = changed(
        await logged(tmp_path, "a"), 0, lambda fields: fields["d"]["sections"].update(many)
    )
    with pytest.raises(CorruptionError, match="sections"):
        await ids_at(in_memory(files))


TOO_LARGE = [
    {"content": "x", "metadata": {"nested": [[]] * 600}},
    {"content": "x", "metadata": {"long": ["y" * 1_000] * 20}},
    {"content": "x", "tags": ["z" * 1_000] * 20},
    {"content": "x", "metadata": {"long": "y" * 20_000}},
    {"content": "word " * 2_100},
]


def test_an_item_has_so_many_blocks_at_most(monkeypatch):
    """Blocks count among the objects that an item may have; here it may have a thousand."""
    monkeypatch.setattr(items, "MAX_ITEM_CONTAINERS", 1_000)
    memory = SessionMemory.test_mode()
    block = {"type": "text", "text": "t"}
    memory.add("documents", [block] * 990)
    with pytest.raises(InvalidArgumentError, match="split it"):
        memory.add("documents", [block] * 1_000)
    assert len(memory["documents"]) == 1


async def test_what_could_not_be_stored_is_refused_before_it_is_taken(tmp_path, monkeypatch):
    """An item too large for one record leaves the session as it was, and later saves work."""
    assert 6 * items.MAX_ITEM_CHARS < MAX_LINE_BYTES  # as JSON writes a control character
    monkeypatch.setattr(items, "MAX_ITEM_CHARS", 10_000)
    monkeypatch.setattr(items, "MAX_ITEM_CONTAINERS", 500)
    async with memory_at(tmp_path) as memory:
        for given in TOO_LARGE:
            with pytest.raises(InvalidArgumentError, match="split it"):
                memory.add("documents", **given)
        memory.add("documents", "word", id="long", metadata={"long": "\x01" * 9_000})
        await memory.save()
    async with memory_at(tmp_path) as memory:
        assert [len(item.metadata["long"]) for item in memory["documents"]] == [9_000]


@pytest.mark.parametrize("kind", ["lists", "mappings", "values"])
def test_shared_references_are_refused_before_they_are_copied(kind):
    """Metadata that is small in memory, and vast in JSON as its parts stand in many places, costs little time."""
    shared = ["x"] * (10_000 if kind == "values" else 1)
    for _ in range(60 if kind != "values" else 1):
        shared = (
            {"a": shared, "b": shared}
            if kind == "mappings"
            else [shared] * (1_000 if kind == "values" else 2)
        )
    memory = SessionMemory.test_mode()
    with pytest.raises(InvalidArgumentError, match="shared"):
        memory.add("documents", "x", metadata={"shared": shared})
    assert not list(memory["documents"])
