"""Files of a session that are no files, and bytes that ask to be run."""

from pathlib import Path

import pytest

from kaosmem import CorruptionError, InvalidArgumentError
from tests.places import in_memory
from tests.stored import (
    LOG,
    ids_at,
    logged,
    memory_at,
)


async def refused(files, error=CorruptionError):
    """The error that opening raises, having left every file as it was."""
    filesystem = in_memory(files)
    before = {path: file.getvalue() for path, file in filesystem.store.items()}
    with pytest.raises(error) as caught:
        async with memory_at(filesystem):
            pass
    assert {path: file.getvalue() for path, file in filesystem.store.items()} == before
    return caught.value


async def test_nothing_is_ever_unpickled(tmp_path):
    """A pickle in the place of a record, or of a whole log, is damage; no module here imports pickle or its kin."""
    marker = tmp_path / "marker"
    pickled = b"\x80\x04cos\nsystem\n(S'touch " + str(marker).encode() + b"'\ntR."
    files = await logged(tmp_path / "root", "a")
    await refused({LOG: files[LOG] + pickled + b"\n"})
    await refused({LOG: pickled + b"\n"})
    assert not marker.exists()
    for source in Path(__file__).parents[2].joinpath("kaosmem").rglob("*.py"):
        words = source.read_text(encoding="utf-8").split()
        assert not {"pickle", "marshal", "shelve", "dill"} & set(words), source


async def test_json_that_asks_to_be_an_object_stays_json(tmp_path):
    """Keys that other decoders make objects of are keys."""
    hostile = {
        "lc": 1,
        "type": "constructor",
        "id": ["os", "system"],
        "kwargs": {"command": "true"},
    }
    metadata = {
        "a": hostile,
        "py/object": "os.system",
        "__reduce__": ["os.system", ["true"]],
        "$ref": "#/x",
    }
    async with memory_at(tmp_path) as memory:
        memory.add("messages", "text", id="a", metadata=metadata)
    async with memory_at(tmp_path) as memory:
        assert memory["messages"].peek("a").metadata == metadata


UNSTORABLE = {
    "integers": [2**64, 2**70, 2**63, -(2**63) - 1],
    "floats": [float("nan"), float("inf"), float("-inf"), float("1e999")],
    "surrogates": ["a\ud800", "\udfffb"],
}


@pytest.mark.parametrize("values", UNSTORABLE.values(), ids=UNSTORABLE)
async def test_what_json_cannot_hold_is_refused_on_the_way_in(values, tmp_path):
    """Integers past 64 bits, floats that are no number and lone surrogates leave nothing behind; saving still works."""
    async with memory_at(tmp_path) as memory:
        memory.add("messages", "text", id="a")
        for value in values:
            for metadata in ({"x": value}, {"x": [{"y": value}]}):
                with pytest.raises(InvalidArgumentError):
                    memory.add("messages", "text", metadata=metadata)
            if isinstance(value, str):
                with pytest.raises(
                    InvalidArgumentError, match=f"position {value.index(max(value))}"
                ):
                    memory.add("messages", value)
            if isinstance(value, int):
                with pytest.raises(InvalidArgumentError):
                    memory.add("messages", "text", priority=value)
    assert await ids_at(tmp_path) == ["a"]
