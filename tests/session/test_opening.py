"""Opening a session: what is stored comes back as it was, or is refused with a typed error before it is used."""

import asyncio
import gc
import json
import pickle
import shutil
import weakref
from contextlib import contextmanager
from dataclasses import FrozenInstanceError, dataclass, replace

import numpy as np
import pytest

from kaosmem import (
    DEFAULT_SECTIONS,
    BM25Ranker,
    CorruptionError,
    Item,
    SectionSpec,
    SessionMemory,
)
from kaosmem.errors import InvalidArgumentError
from kaosmem.persistence.files.lines import encode_line
from kaosmem.persistence.storage.objects import IsolatedMemoryFileSystem
from kaosmem.types.items import StoredItem
from tests.places import files_in, in_memory, put

STORED = {
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
LEAST = "id", "role", "content", "tokens", "created_at", "trust"
WRONG = {
    "id": (1, None, ["a"]),
    "role": (None, 0),
    "content": (None, 1, {"type": "text"}, [{"type": "text"}], [{"type": "other"}]),
    "tokens": (-1, "1", 1.0, True, None),
    "created_at": ("yesterday", "2024-01-01T00:00:00", 0, None),
    "trust": (5, -1, "3", True, 3.0, [3], None),
    "priority": ("1", 1.5, False, None),
    "pinned": (1, "yes", None),
    "tags": ("abc", {"a": 1}, [1], [None], 0),
    "metadata": ([], "x", 0),
    "key": (1, [], False),
    "sources": ("abc", [1], {}),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_stored_field_of_the_wrong_type_is_refused(name):
    """No item is made of a field that is not what `to_dict` stores, and the error does not show it."""
    for value in WRONG[name]:
        with pytest.raises(InvalidArgumentError) as raised:
            Item.from_dict({**STORED, name: value}, "documents")
        assert "yesterday" not in str(raised.value)
        assert raised.value.__cause__ is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("id", "another"),
        ("role", "assistant"),
        ("tokens", 1),
        ("tokens", "1"),
        ("trust", 9),
        ("position", 7),
        ("content", 5),
    ],
)
async def test_a_plain_item_that_makes_no_sense_is_refused_when_it_is_read(tmp_path, name, value):
    """Opening takes a snapshot's word for its plain items; what is not so is a CorruptionError, and goes nowhere."""
    with forged(await stored(tmp_path)) as lines:
        item_id = lines[1]["d"]["id"]
        lines[1]["d"][name] = value
    for ask in (
        SessionMemory.fetch,
        lambda memory, _: memory.assemble_context("word", budget=10**6),
    ):
        async with SessionMemory.open(tmp_path, read_only=True) as memory:
            with pytest.raises(CorruptionError) as raised:
                await ask(memory, item_id)
            assert "yesterday" not in str(raised.value)


async def test_opening_and_asking_decode_few_items(tmp_path, monkeypatch):
    """Of plain items those are decoded that somebody asks for, and a session of them is what it was."""
    async with SessionMemory.open(tmp_path) as memory:
        memory.add_many("documents", [f"{number} " + "word " * 200 for number in range(300)])
        before = list(memory["documents"])
    asked = []
    item = StoredItem.item
    monkeypatch.setattr(StoredItem, "item", lambda stored: asked.append(stored.id) or item(stored))
    async with SessionMemory.open(tmp_path) as memory:
        assert await memory.fetch(before[7].id) == before[7]
        memory.remove(before[8].id)
        assert memory["documents"].used == sum(
            item.tokens for item in before if item is not before[8]
        )
        assert len(asked) == 2
        assert list(memory["documents"]) == [*before[:8], *before[9:]]
        assert len(asked) == len(set(asked)) == 300


async def stored(folder, *, pinned=False):
    """Store 300 items, the first of them pinned or plain, and return the snapshot."""
    async with SessionMemory.open(folder) as memory:
        memory.add("documents", "yesterday " + "word " * 200, pinned=pinned)
        memory.add_many("documents", [f"{number} " + "word " * 200 for number in range(299)])
    (snapshot,) = folder.rglob("snap/*.jsonl")
    return snapshot


@contextmanager
def forged(snapshot):
    """Give the lines of a file to be changed, and store them under checksums that fit."""
    lines = [json.loads(line) for line in snapshot.read_bytes().splitlines()]
    yield lines
    chain = 0
    data = b""
    for line in lines:
        encoded, chain = encode_line(
            {field: each for field, each in line.items() if field != "crc"}, chain
        )
        data += encoded
    snapshot.write_bytes(data)


async def test_a_closed_session_is_freed_without_the_garbage_collector(tmp_path):
    """A full collection of a large session would stop the event loop."""
    gc.disable()
    try:
        async with SessionMemory.open(tmp_path) as memory:
            memory.add_many("documents", [f"Room {number} is free." for number in range(30)])
            await memory.assemble_context("Is room 7 free?", budget=200)
            await memory.versions("room")
            section = weakref.ref(memory["documents"])
        del memory
        assert section() is None
    finally:
        gc.enable()


async def test_a_session_is_closed_when_no_thread_starts_any_more(tmp_path):
    """A session that is left at the end of the program releases its files without an error."""
    with pytest.raises(KeyError, match="left"):
        async with SessionMemory.open(tmp_path, "s") as memory:
            memory.add("findings", "The fee is due in May.")
            await memory.save()
            await asyncio.get_running_loop().shutdown_default_executor()
            raise KeyError("left")
    assert memory._session.is_closed


def test_a_stored_item_is_as_good_as_a_new_one():
    """An item that is read back is equal to what was stored, frozen, and can be copied and pickled."""
    item = Item.from_dict(STORED, "documents")
    assert type(item) is Item
    assert item.to_dict() == STORED
    assert item == replace(item) == pickle.loads(pickle.dumps(item))
    assert item.memo("form", lambda _: 7) == 7
    with pytest.raises(FrozenInstanceError):
        item.tokens = 2


def test_a_stored_item_without_what_has_its_default_is_whole():
    """What `to_dict` leaves out comes back as its default, its own for each item."""
    least = {name: STORED[name] for name in LEAST}
    first = Item.from_dict(least, "documents")
    second = Item.from_dict(least, "documents")
    assert first == second
    assert first.to_dict() == least
    assert first.metadata is not second.metadata


@pytest.mark.parametrize("name", LEAST)
def test_a_stored_item_that_lacks_a_field_is_refused(name):
    with pytest.raises(InvalidArgumentError):
        Item.from_dict(
            {field: value for field, value in STORED.items() if field != name}, "documents"
        )


@pytest.mark.parametrize(
    "wrong",
    [
        {"section": [["documents", 0], ["documents", 300]]},
        {"section": [["documents", 301]]},
        {"section": [["documents", 299]]},
        {"section": [["documents"]]},
        {"section": [[5, 300]]},
        {"section": 300},
        {"position": [0] * 300},
        {"position": ["1"] * 300},
        {"id": ["one"]},
        {"id": [1] * 300},
        {"id": ["same"] * 300},
        {"tokens": ["1"] * 300},
        {"role": ["user"]},
        {"other": [None] * 300},
    ],
    ids=lambda wrong: str(wrong)[:40],
)
async def test_a_summary_that_makes_no_sense_is_not_believed(tmp_path, wrong):
    """A snapshot that says nonsense of its plain items at its end is refused, or the log is used instead of it."""
    with forged(await stored(tmp_path)) as lines:
        items = [line["d"]["id"] for line in lines[1:-1]]
        lines[-1]["plain"] |= wrong
    try:
        async with SessionMemory.open(tmp_path) as memory:
            assert [item.id for item in memory["documents"]] == items
            assert memory.damage
    except CorruptionError:
        assert wrong in ({"position": [0] * 300}, {"id": ["same"] * 300})


@pytest.mark.parametrize("kind", ["folder", "objects"])
async def test_a_session_that_others_made_anew_is_read_anew(tmp_path, kind):
    """A process that shares a read-only session sees another one of the same size, rebuilt or from a copy."""

    def place_of(files):
        if kind == "objects":
            return in_memory(files, "")
        place = tmp_path / "other"
        shutil.rmtree(place, ignore_errors=True)
        put(place, files)
        return place

    async def with_rent(files, rent):
        place = place_of(files)
        async with SessionMemory.open(place, "corpus") as memory:
            memory.add("documents", f"The rent is {rent} euros.", key="rent")
        return files_in(place)

    shown = tmp_path / "shown" if kind == "folder" else IsolatedMemoryFileSystem()
    backup = await with_rent({}, 900)
    versions = [
        (900, backup),
        (901, await with_rent({}, 901)),
        (902, await with_rent(backup, 902)),
        (903, await with_rent(backup, 903)),
    ]
    sizes = []
    for rent, files in versions:
        if rent > 900:
            put(shown, dict.fromkeys(files_in(shown)))
        put(shown, files)
        sizes.append({path: len(data) for path, data in files.items() if "log/" in path})
        async with SessionMemory.open(shown, "corpus", read_only=True) as memory:
            assert [item.text for item in memory["documents"]] == [f"The rent is {rent} euros."]
    assert sizes[0] == sizes[1]
    assert sizes[2] == sizes[3]


@dataclass(frozen=True)
class RankerWithArray:
    """A ranker that equals no other one: NumPy compares arrays place by place."""

    weights: np.ndarray
    name: str = "with array"

    def index(self):
        return BM25Ranker().index()


async def test_equal_openings_share_a_read_only_session(tmp_path):
    """Specs and rankers are compared by their values, and a ranker without equality by itself."""
    async with SessionMemory.open(tmp_path, "room") as memory:
        memory.add("documents", "Notice is thirty days.")
    weights = RankerWithArray(np.zeros(2)), RankerWithArray(np.zeros(2))
    held = []
    for ranker in (BM25Ranker(), BM25Ranker(), weights[0], weights[0], weights[1]):
        sections = (*DEFAULT_SECTIONS, SectionSpec("notes", 100))
        opening = SessionMemory.open(
            tmp_path, "room", sections=sections, ranker=ranker, read_only=True
        )
        async with opening as memory:
            held.append(memory["documents"])
    assert held[0] is held[1]
    assert held[2] is held[3]
    assert len({*map(id, held)}) == 3
