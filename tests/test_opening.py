"""Opening a session: what is stored comes back as it was, or is refused with a typed error before it is used."""

from __future__ import annotations

import gc
import json
import pickle
from collections.abc import Mapping
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import pytest

from kaosmem import CorruptionError, Item, SectionSpec, SessionMemory
from kaosmem.errors import InvalidContentError
from kaosmem.persistence.lines import encode_line
from kaosmem.session.opening import Opening

STORED: Mapping[str, Any] = {
    "id": "a",
    "role": "user",
    "content": "text",
    "tokens": 1,
    "created_at": "2024-01-01T00:00:00+00:00",
    "trust": 3,
    "priority": 2,
    "pinned": True,
    "tags": ["t"],
    "metadata": {"source": "s"},
    "key": "k",
    "sources": ["b"],
}
WRONG = [
    *(("id", value) for value in (1, None, ["a"])),
    *(("role", value) for value in (None, 0)),
    *(("content", value) for value in (None, 1, {"type": "text"}, [{"type": "text"}], [{"type": "other"}])),
    *(("tokens", value) for value in (-1, "1", 1.0, True, None)),
    *(("created_at", value) for value in ("yesterday", "2024-01-01T00:00:00", 0, None)),
    *(("trust", value) for value in (5, -1, "3", True, 3.0, [3], None)),
    *(("priority", value) for value in ("1", 1.5, False, None)),
    *(("pinned", value) for value in (1, "yes", None)),
    *(("tags", value) for value in ("abc", {"a": 1}, [1], [None], 0)),
    *(("metadata", value) for value in ([], "x", 0)),
    *(("key", value) for value in (1, [], False)),
    *(("sources", value) for value in ("abc", [1], {})),
]


def test_a_stored_item_is_as_good_as_a_new_one() -> None:
    """An item that is read back is equal to what was stored, frozen, and can be copied and pickled."""
    item = Item.from_dict(STORED, "documents")
    assert type(item) is Item
    assert item.to_dict() == STORED
    assert item == replace(item) == pickle.loads(pickle.dumps(item))
    assert item.size("form", lambda _: 7) == 7
    with pytest.raises(FrozenInstanceError):
        item.tokens = 2  # type: ignore[misc]


def test_a_stored_item_without_what_has_its_default_is_whole() -> None:
    """What `to_dict` leaves out comes back as its default, its own for each item."""
    least = {name: STORED[name] for name in ("id", "role", "content", "tokens", "created_at", "trust")}
    first, second = Item.from_dict(least, "documents"), Item.from_dict(least, "documents")
    assert first == second
    assert first.to_dict() == least
    assert first.metadata is not second.metadata


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_stored_field_of_the_wrong_type_is_refused(name: str, value: object) -> None:
    """No item is made of a field that is not what `to_dict` stores, and the error does not show it."""
    with pytest.raises(InvalidContentError) as raised:
        Item.from_dict({**STORED, name: value}, "documents")
    assert "yesterday" not in str(raised.value)
    assert raised.value.__cause__ is None


@pytest.mark.parametrize("name", ["id", "role", "content", "tokens", "created_at", "trust"])
def test_a_stored_item_that_lacks_a_field_is_refused(name: str) -> None:
    with pytest.raises(InvalidContentError):
        Item.from_dict({field: value for field, value in STORED.items() if field != name}, "documents")


@pytest.mark.parametrize(
    ("name", "value"),
    [("tokens", "1"), ("trust", 9), ("position", -1), ("position", 7), ("position", "0"), ("position", 0.0)],
)
async def test_a_snapshot_that_makes_no_sense_is_refused_at_opening(tmp_path: Path, name: str, value: object) -> None:
    """A snapshot whose checksums fit and whose items do not raises CorruptionError before the session is used."""
    async with SessionMemory.open(tmp_path) as memory:
        memory.add_many("documents", [f"{number} " + "word " * 200 for number in range(300)])
    (snapshot,) = tmp_path.rglob("snap/*.jsonl")
    lines = [json.loads(line) for line in snapshot.read_bytes().splitlines()]
    lines[1]["d"][name] = value
    chain, data = 0, b""
    for line in lines:
        encoded, chain = encode_line({field: each for field, each in line.items() if field != "crc"}, chain)
        data += encoded
    snapshot.write_bytes(data)
    with pytest.raises(CorruptionError):
        async with SessionMemory.open(tmp_path):
            pytest.fail("it was opened")


async def test_what_a_log_says_was_archived_is_not_logged_again(tmp_path: Path) -> None:
    """A section saved as a whole logs each version that left it once, however often the session is opened."""
    notes = [SectionSpec("notes", persistence="snapshot")]
    async with SessionMemory.open(tmp_path, sections=notes) as memory:
        memory.add("notes", "version 0", id="a")
    for number in range(1, 4):
        async with SessionMemory.open(tmp_path, sections=notes) as memory:
            memory.update("a", f"version {number}")
    async with SessionMemory.open(tmp_path, sections=notes) as memory:
        assert [version.item.text for version in memory["notes"].archive.in_memory()] == [
            f"version {number}" for number in range(3)
        ]


@pytest.mark.parametrize("is_enabled", [True, False])
@pytest.mark.parametrize("is_frozen", [True, False])
def test_opening_leaves_the_collector_of_garbage_as_it_was(tmp_path: Path, is_enabled: bool, is_frozen: bool) -> None:
    """Whoever has switched it off, or has frozen what it should pass over, finds it so after opening a session."""
    opening = Opening(tmp_path, "default", "default", [SectionSpec("notes")], None, None)
    try:
        if not is_enabled:
            gc.disable()
        if is_frozen:
            gc.freeze()
        opening.read()
        assert gc.isenabled() is is_enabled
        assert bool(gc.get_freeze_count()) is is_frozen
    finally:
        gc.unfreeze()
        gc.enable()
