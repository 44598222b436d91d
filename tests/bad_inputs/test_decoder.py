"""Stored bytes that are torn, damaged, foreign or hostile."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kaosmem import CorruptionError, InvalidArgumentError, SessionMemory
from kaosmem.errors import UnsupportedVersionError
from kaosmem.persistence.lines import MAX_LINE_BYTES
from tests.bad_inputs.stored import (
    LOG,
    changed,
    everything_in,
    folder_of,
    ids_at,
    in_memory,
    lines_of,
    logged,
    memory_at,
    rewritten,
    segment_of,
    session,
)
from tests.persistence.damage.forgery import seal


async def refused(files: dict[str, bytes], error: type[Exception] = CorruptionError) -> Exception:
    """The error that opening raises, having left every file as it was."""
    filesystem = in_memory(files)
    before = {path: file.getvalue() for path, file in filesystem.store.items()}
    with pytest.raises(error) as caught:
        async with memory_at(filesystem):
            pass
    assert {path: file.getvalue() for path, file in filesystem.store.items()} == before
    return caught.value


@pytest.mark.parametrize("tail", [b'{"crc":"7c1', b"\0" * 512], ids=["BI-029", "BI-030"])
async def test_a_torn_tail_is_left_out_said_and_cut(tail: bytes, tmp_path: Path) -> None:
    """Readers pass over half a line, or NULs, and say so; the next commit moves it aside; nothing saved is lost."""
    await session(tmp_path, "a")
    with segment_of(tmp_path).open("ab") as file:
        file.write(tail)
    async with memory_at(tmp_path, read_only=True) as memory:
        assert [item.id for item in memory["messages"]] == ["a"]
        assert any("unfinished" in notice for notice in memory.notices)
    await session(tmp_path, "b")
    assert await ids_at(tmp_path) == ["a", "b"]
    (cut,) = (folder_of(tmp_path) / "quarantine").iterdir()
    assert cut.read_bytes() == tail


async def test_bi_031_a_batch_without_its_end_is_invisible(tmp_path: Path) -> None:
    """Of a commit that lacks its last record nothing is seen, and the next commit cuts it."""
    await session(tmp_path, "a")
    async with memory_at(tmp_path) as memory:
        for item_id in "bcd":
            memory.add("messages", "text", id=item_id)
    whole = segment_of(tmp_path).read_bytes()
    segment_of(tmp_path).write_bytes(b"".join(whole.splitlines(keepends=True)[:-1]))
    assert await ids_at(tmp_path) == ["a"]
    await session(tmp_path, "e")
    assert await ids_at(tmp_path) == ["a", "e"]


async def test_bi_032_a_flipped_bit_is_found_and_located(tmp_path: Path) -> None:
    """The error names file, byte and record; read-only serves the rest and says what is missing."""
    files = await logged(tmp_path, "a", "b", "c")
    lines = lines_of(files)[LOG]
    start = sum(len(line) + 1 for line in lines[:2])
    broken = bytearray(files[LOG])
    broken[start + 40] ^= 4
    error = await refused({LOG: bytes(broken)})
    assert isinstance(error, CorruptionError)
    assert (error.file, error.byte, error.seq) == (LOG, start, 3)
    async with memory_at(in_memory({LOG: bytes(broken)}), read_only=True) as memory:
        assert "b" not in memory
        assert "a" in memory
        assert any(LOG in notice for notice in memory.notices)


@pytest.mark.parametrize("how", ["swapped", "lost", "repeated"])
async def test_bi_034_lines_out_of_their_order_are_damage(how: str, tmp_path: Path) -> None:
    """Lines swapped, lost or repeated are found, though each is sound alone."""
    files = await logged(tmp_path, "a", "b", "c", "d")
    lines = lines_of(files)[LOG]
    first, second = lines[2:4]
    lines[2:4] = {"swapped": [second, first], "lost": [second], "repeated": [first, first, second]}[how]
    await refused({LOG: b"\n".join([*lines, b""])})


async def test_bi_035_a_line_of_another_session_is_damage(tmp_path: Path) -> None:
    """A sound line of another session with the same number is not taken for a record of this one."""
    here = await logged(tmp_path / "here", "a", "b")
    there = await logged(tmp_path / "there", "x", "y", "z")
    await refused({LOG: here[LOG] + lines_of(there)[LOG][-1] + b"\n"})


async def test_bi_036_a_missing_segment_is_a_gap() -> None:
    """Without a segment from the middle a session is damaged, not shorter."""
    memory = SessionMemory.test_mode(session_id="s", counter="estimate")
    for number in range(4):
        memory.add("messages", "text", id=f"i{number}")
        await memory.save()
    logs = sorted(path for path in memory.fs.store if "/log/" in path)
    assert len(logs) == 4
    memory.fs.rm_file(logs[2])
    with pytest.raises(CorruptionError, match="gap"):
        async with memory_at(memory.fs):
            pass


async def test_bi_037_with_a_damaged_snapshot_the_log_says_the_same(tmp_path: Path) -> None:
    """The state is made of an older snapshot, or of the log alone, and the damage is said."""
    async with memory_at(tmp_path) as memory:
        for number in range(40):
            memory.add("documents", "word " * 3_000, id=f"i{number}")
            await memory.save()
    snapshots = sorted((folder_of(tmp_path) / "snap").iterdir())
    assert snapshots
    data = bytearray(snapshots[-1].read_bytes())
    data[len(data) // 2] ^= 1
    snapshots[-1].write_bytes(bytes(data))
    async with memory_at(tmp_path, read_only=True) as memory:
        assert [item.id for item in memory["documents"]] == [f"i{number}" for number in range(40)]
        assert any(snapshots[-1].name in notice for notice in memory.notices)


@pytest.mark.parametrize("content", [b"", b"x", b"{", b"\n", b"\0", b"\n\n", b"\0\n"])
async def test_bi_039_next_to_nothing_is_no_session_or_a_torn_one(content: bytes) -> None:
    """A log of no byte, or one, or an empty line is opened as empty or refused as damage; nothing else happens."""
    try:
        assert await ids_at(in_memory({LOG: content})) == []
    except CorruptionError:
        assert content


@pytest.mark.parametrize("how", ["mark", "lines", "bytes"])
async def test_bi_040_what_an_editor_does_to_a_file_is_damage(how: str, tmp_path: Path) -> None:
    """A byte order mark, CRLF and bytes that are no UTF-8 are damage, even where the checksums fit."""
    files = await logged(tmp_path, "a", "b")
    if how == "mark":
        await refused({LOG: b"\xef\xbb\xbf" + files[LOG]})
    elif how == "lines":
        await refused({LOG: files[LOG].replace(b"\n", b"\r\n")})
        await refused(seal({path: [line + b"\r" for line in lines] for path, lines in lines_of(files).items()}))
    else:
        await refused(rewritten(files, 1, b'"text"', b'"\xff\xfe"'))


SEPARATORS = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\x1dh\x1ei\rj\nk\r\nl\0m\ufeffn\u202eo"


async def test_bi_041_047_characters_that_end_lines_elsewhere_come_back(tmp_path: Path) -> None:
    """Separators and NUL are text: they come back as they were from every filesystem, and split no line of a log."""
    memory = SessionMemory.test_mode(session_id="s", counter="estimate")
    for place in (tmp_path, memory.fs):
        async with memory_at(place) as written:
            written.add("messages", SEPARATORS, id="a", metadata={"m": SEPARATORS})
        async with memory_at(place) as read:
            assert (read["messages"].peek("a").text, read["messages"].peek("a").metadata["m"]) == (SEPARATORS,) * 2
    assert segment_of(tmp_path).read_bytes().count(b"\n") == 2


@pytest.mark.parametrize("bomb", [b"[" * 100_000, b"[" * 100_000 + b"]" * 100_000, b'{"a":' * 100_000])
async def test_bi_042_a_depth_bomb_is_refused(bomb: bytes, tmp_path: Path) -> None:
    """100,000 lists or objects in each other, their checksum right, are refused before they are parsed."""
    await refused(rewritten(await logged(tmp_path, "a"), 1, b'"text"', bomb))


UNSTORABLE: dict[str, list[Any]] = {
    "BI-044": [2**64, 2**70, 2**63, -(2**63) - 1],
    "BI-045": [float("nan"), float("inf"), float("-inf"), float("1e999")],
    "BI-046": ["a\ud800", "\udfffb"],
}


@pytest.mark.parametrize("values", UNSTORABLE.values(), ids=UNSTORABLE)
async def test_what_json_cannot_hold_is_refused_on_the_way_in(values: list[Any], tmp_path: Path) -> None:
    """Integers past 64 bits, floats that are no number and lone surrogates leave nothing behind; saving still works."""
    async with memory_at(tmp_path) as memory:
        memory.add("messages", "text", id="a")
        for value in values:
            for metadata in ({"x": value}, {"x": [{"y": value}]}):
                with pytest.raises(InvalidArgumentError):
                    memory.add("messages", "text", metadata=metadata)
            if isinstance(value, str):
                with pytest.raises(InvalidArgumentError, match=f"position {value.index(max(value))}"):
                    memory.add("messages", value)
            if isinstance(value, int):
                with pytest.raises(InvalidArgumentError):
                    memory.add("messages", "text", priority=value)
    assert await ids_at(tmp_path) == ["a"]


@pytest.mark.parametrize(
    "value",
    [b"18446744073709551616", b"1180591620717411303424", b"NaN", b"Infinity", b"-Infinity", b"1e999", b'"\\ud800"'],
    ids=["BI-044", "BI-044-2**70", "BI-045", "BI-045-inf", "BI-045-minus", "BI-045-1e999", "BI-046"],
)
async def test_what_json_cannot_hold_is_damage_in_a_log(value: bytes, tmp_path: Path) -> None:
    """A log that says so, its checksums right, was not written here."""
    await refused(rewritten(await logged(tmp_path, "a"), 1, b'"text"', value))


FIELDS: dict[str, Any] = {
    **{f"no {name}": lambda fields, name=name: fields.pop(name) for name in ("seq", "k", "txn", "sec", "op", "d")},
    **{
        f"seq {value!r}": lambda fields, value=value: fields.update(seq=value)
        for value in ("2", True, 2.0, None, [2], 0, -1, 3)
    },
    "k -1": lambda fields: fields.update(k=-1),
    "k 0.0": lambda fields: fields.update(k=0.0),
    "txn 5": lambda fields: fields.update(txn=5),
    "d a list": lambda fields: fields.update(d=[]),
    "no item": lambda fields: fields["d"].pop("item"),
    "an item of another kind": lambda fields: fields["d"].update(item=[1]),
    "no evicted": lambda fields: fields["d"].pop("evicted"),
    "evicted that is not there": lambda fields: fields["d"].update(evicted=["nobody"]),
    "tokens that are text": lambda fields: fields["d"]["item"].update(tokens="9"),
    "tokens below 0": lambda fields: fields["d"]["item"].update(tokens=-9),
    "an id that is a number": lambda fields: fields["d"]["item"].update(id=1),
    "a section that nobody described": lambda fields: fields.update(sec="nowhere"),
}


@pytest.mark.parametrize("change", FIELDS.values(), ids=FIELDS)
async def test_bi_049_a_record_without_its_fields_is_damage(change: Any, tmp_path: Path) -> None:
    """A field missing or of another type, its checksum right, is a typed error."""
    await refused(changed(await logged(tmp_path, "a"), 1, change))


async def test_bi_050_a_newer_format_is_refused_by_its_version(tmp_path: Path) -> None:
    """A record with a field of later days, and a session of version 99, say which version; no file is touched."""
    files = await logged(tmp_path, "a")
    newer = changed(files, 0, lambda fields: fields["d"].update(version=99))
    assert "99" in str(await refused(newer, UnsupportedVersionError))
    extended = changed(files, 1, lambda fields: fields.update(v=98))
    assert "98" in str(await refused(extended, UnsupportedVersionError))
    await refused(changed(files, 1, lambda fields: fields.update(op="fold")), UnsupportedVersionError)


async def test_bi_051_a_line_past_the_limit_is_refused(tmp_path: Path) -> None:
    """A line that is longer than any line may be is refused by its length."""
    files = await logged(tmp_path, "a")
    long = rewritten(files, 1, b'"text"', b'"' + b"x" * MAX_LINE_BYTES + b'"')
    assert "limit" in str(await refused(long))


async def test_bi_052_a_million_objects_are_refused(tmp_path: Path) -> None:
    """More objects than a record may have are refused, written and read."""
    bomb = b"[" + b"{}," * 1_000_000 + b"{}]"
    assert "more than" in str(await refused(rewritten(await logged(tmp_path, "a"), 1, b'"text"', bomb)))


async def test_bi_110_nothing_is_ever_unpickled(tmp_path: Path) -> None:
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


async def test_bi_111_json_that_asks_to_be_an_object_stays_json(tmp_path: Path) -> None:
    """Keys that other decoders make objects of are keys."""
    hostile = {"lc": 1, "type": "constructor", "id": ["os", "system"], "kwargs": {"command": "true"}}
    metadata = {"a": hostile, "py/object": "os.system", "__reduce__": ["os.system", ["true"]], "$ref": "#/x"}
    async with memory_at(tmp_path) as memory:
        memory.add("messages", "text", id="a", metadata=metadata)
    async with memory_at(tmp_path) as memory:
        assert memory["messages"].peek("a").metadata == metadata


async def test_bi_081_a_forger_who_repairs_checksums_is_not_found_out(tmp_path: Path) -> None:
    """Checksums tell damage, not forgery: an edited log whose checksums fit is opened as it was edited."""
    edited = rewritten(await logged(tmp_path, "a"), 1, b'"text"', b'"said nobody"')
    async with memory_at(in_memory(edited)) as memory:
        assert memory["messages"].peek("a").text == "said nobody"


async def test_noise_is_refused(tmp_path: Path) -> None:
    """Random bytes in a log's place are damage, or nothing that was ever finished; opening writes nothing."""
    rng = random.Random(0)
    for size in (1, 7, 40, 5_000):
        for _ in range(20):
            with suppress(CorruptionError):
                assert await ids_at(in_memory({LOG: rng.randbytes(size)})) == []
    assert everything_in(tmp_path) == {}
