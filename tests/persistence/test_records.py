"""The lines of the log."""

import json
from itertools import accumulate
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaosmem.errors import CorruptionError, UnsupportedVersionError
from kaosmem.persistence.files.contents import ArchiveTable, ArchiveTableBuilder
from kaosmem.persistence.files.items import (
    ItemFile,
    decode_items,
    decoded_entries,
    encode_items,
)
from kaosmem.persistence.files.records import Change, decode_record, encode_commit
from kaosmem.types.items import StoredItem
from tests.persistence.worlds import changes, data, flipped

plain_fields = {
    "id": st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=4),
    "role": st.text(st.characters(exclude_categories=["Cs"]), max_size=2),
    "content": st.text(st.characters(exclude_categories=["Cs"])) | st.just('","tokens":1,"'),
    "tokens": st.integers(0, 3),
    "position": st.integers(0, 6),
}
plain_data = st.fixed_dictionaries(plain_fields)


def line_of(**fields):
    """A line with a good checksum, whatever it holds."""
    return seal(
        json.dumps(
            {"seq": 1, "k": 0, "txn": "t", "sec": "s", "op": "add", "d": {}} | fields
        ).encode()[1:]
    )


def seal(body, crc=0):
    return b'{"crc":"%08x",' % crc32(body, crc) + body


def test_a_line_is_as_the_design_shows_it():
    """A line names its checksum first, then seq, k, txn, section, operation and data, without white space."""
    (line,) = encode_commit([Change("messages", "add", {"é": 1})], "2834", seq=24, crc=7).lines
    body = '"seq":25,"k":0,"txn":"2834","sec":"messages","op":"add","d":{"é":1}}'.encode()
    assert line == b'{"crc":"%08x",' % crc32(body, 7) + body + b"\n"


@given(st.lists(changes, min_size=1, max_size=4), st.integers(0, 2**62), st.integers(0, 2**32 - 1))
def test_what_is_encoded_is_decoded(given, seq, crc):
    """Records come back as they were committed, numbered, counted down and chained."""
    commit = encode_commit(given, "t", seq=seq, crc=crc)
    for number, (change, line) in enumerate(zip(given, commit.lines, strict=True), 1):
        record, crc = decode_record(line[:-1], seq=seq + number, crc=crc)
        assert (record.section, record.op, record.data) == (change.section, change.op, change.data)
        assert (record.k, record.txn) == (len(given) - number, "t")
    assert crc == commit.crc


def test_an_unknown_field_is_of_a_newer_version():
    """A whole record with a field more was written by a newer version, and the error names it."""
    with pytest.raises(UnsupportedVersionError, match="99"):
        decode_record(line_of(v=99), seq=1, crc=0)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_record_or_corruption(noise):
    """Noise, checksummed or not, raises CorruptionError and nothing else."""
    for line in (noise, seal(noise)):
        with pytest.raises(CorruptionError):
            decode_record(line, seq=1, crc=0)


def test_a_file_of_items_is_whole_or_damaged():
    """Any cut and any flipped bit makes a snapshot invalid as a whole."""
    stored = b"".join(
        encode_items(ItemFile(3, header={"n": 2}), [("a", {"id": "x"}), ("a", {"id": "y"})])
    )
    damaged = [stored[:size] for size in range(len(stored))]
    damaged += [flipped(stored, bit) for bit in range(8 * len(stored))]
    for bad in damaged:
        with pytest.raises(CorruptionError):
            decode_items(bad, "snap")


@given(st.lists(st.tuples(st.sampled_from(["a", "b"]), plain_data | data), max_size=12))
def test_plain_items_are_decoded_when_they_are_asked_for(
    items,
):
    """What a file says of them at its end is what they say, and they come back in order among the others."""
    stored = b"".join(encode_items(ItemFile(1), items))
    found = decode_items(stored, "snap").items
    assert [*decoded_entries(found)] == items
    for (_, item), (_, stated) in zip(found, items, strict=True):
        assert isinstance(item, StoredItem) == (
            stated.keys() == {"id", "content", "tokens", "position", "role"}
        )


@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=3), max_size=6
    ),
    st.data(),
)
def test_the_lines_of_an_item_are_found(item_ids, draw):
    """The table of an archive file knows the lines of an id, and none of a text that only looks like it."""
    items = [
        ("s", {"content": f'"id":"{i}"', "m": {"id": "zz"}, "id": i, "n": n})
        for n, i in enumerate(item_ids)
    ]
    contents = ArchiveTableBuilder(None)
    stored = [*encode_items(ItemFile(1, header={"id": "zz"}), items, contents=contents)]
    table = ArchiveTable(json.loads(stored[-1]))
    assert [*accumulate(map(len, stored[:-1]), initial=0)] == [*table.starts]
    for item_id in {
        *item_ids,
        "zz",
        draw.draw(st.text(st.characters(exclude_categories=["Cs"]), max_size=3)),
    }:
        found = [json.loads(stored[line])["d"] for line in table.lines("id", {item_id})]
        assert found == [item for _, item in items if item["id"] == item_id]
