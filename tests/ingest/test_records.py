"""JSONL: each record its own passage, whatever it holds."""

import json
from uuid import uuid4

import fsspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kaosmem import SessionMemory
from kaosmem.arguments import check_json, check_text
from kaosmem.ingest.files import UnreadableError, decoded_text
from kaosmem.ingest.kinds import kind_of
from kaosmem.ingest.listing import find_files
from kaosmem.ingest.passages import read_passages
from kaosmem.ingest.pieces import MAX_CHARS
from kaosmem.names import check_item_id
from kaosmem.types.items import check_timestamp


def read(content, name="chat.jsonl"):
    fs = fsspec.filesystem("memory")
    path = f"/{uuid4().hex}/{name}"
    fs.pipe_file(path, content.encode() if isinstance(content, str) else content)
    files, _ = find_files(f"memory:/{path}")
    (reading,) = read_passages(files)
    fs.rm(path)
    return reading


def test_a_record_brings_what_it_says_of_itself():
    """Role, time and title are kept; its id and its document stand beside the file's source, not in its place."""
    record = {
        "id": "m1",
        "session": "",
        "source": "Master Agreement.pdf",
        "timestamp": "2024-03-15T00:00:00",
        "title": "Renewal",
        "role": "Caroline",
        "text": "It renews\nfor a year.\n\n",
        "score": 0.3,
    }
    (passage,) = read(json.dumps(record)).passages
    assert (passage.id, passage.text, passage.role) == (
        "chat.jsonl#L1",
        "It renews\nfor a year.",
        "Caroline",
    )
    assert passage.metadata.pop("file")
    assert passage.metadata == {
        "source": "chat.jsonl",
        "lines": [1, 1],
        "title": "Renewal",
        "timestamp": "2024-03-15T00:00:00",
        "record": "m1",
        "document": "Master Agreement.pdf",
    }


def test_the_text_is_the_first_field_that_is_one():
    """Of text, content, body and message; without any, the record itself is shown."""
    lines = [
        '{"content": "C", "text": null}',
        '{"message": "M", "body": "B"}',
        '{"a": [1, "\u00e9"]}',
        '"S"',
        "[1, 2]",
    ]
    reading = read("\n\n".join(lines))
    assert [passage.text for passage in reading.passages] == [
        "C",
        "B",
        '{"a":[1,"\u00e9"]}',
        "S",
        "[1,2]",
    ]
    assert [passage.metadata["lines"] for passage in reading.passages] == [
        [line, line] for line in (1, 3, 5, 7, 9)
    ]


def test_a_broken_line_costs_only_itself():
    """It is named with its number and the reason, and the good lines are kept."""
    reading = read(
        '{"text": "A"}\n{"text": "B"\n' + "[" * 100_000 + "\n" + "9" * 5_000 + '\n{"text": "E"}\r\n'
    )
    assert [passage.text for passage in reading.passages] == ["A", "E"]
    assert [skipped.source for skipped in reading.skipped] == [
        "chat.jsonl#L2",
        "chat.jsonl#L3",
        "chat.jsonl#L4",
    ]
    assert reading.skipped[0].why == "not JSON: expecting ',' delimiter at column 13"
    assert reading.skipped[1].why == "not JSON: nested too deeply"


@pytest.mark.parametrize(
    ("stated", "read_as"),
    [
        (1714989600, "2024-05-06T10:00:00+00:00"),
        (1714989600.5, "2024-05-06T10:00:00.500000+00:00"),
        (1714989600_000, "2024-05-06T10:00:00+00:00"),
        ("2024-05", "2024-05"),
        (2024, 2024),
        (5, None),
        (10**18, None),
        (-1714989600, None),
        ("05/06/2024", None),
        ("0001-01-01T00:00+14:00", None),
    ],
)
def test_a_record_without_a_time_is_read_and_named(stated, read_as):
    """Logs have Unix times. A text that is no time costs neither the record nor the files after it."""
    reading = read('{"text": "A"}\n' + json.dumps({"text": "B", "timestamp": stated}))
    assert [passage.text for passage in reading.passages] == ["A", "B"]
    assert reading.passages[1].metadata.get("timestamp") == read_as
    memory = SessionMemory.test_mode()
    memory.add("documents", "B", metadata=reading.passages[1].metadata)
    named = [skipped.source for skipped in reading.skipped]
    assert named == ([] if read_as else ["chat.jsonl#L2"])


def test_many_broken_lines_are_summed_up():
    """A file that is no JSONL at all says so in a few lines."""
    reading = read("not JSON\n" * 1_000)
    assert len(reading.skipped) == 6
    assert reading.skipped[-1] == ("chat.jsonl", "995 more parts can't be read in full", "")


def test_half_a_surrogate_is_repaired():
    """What JSON can escape and UTF-8 can't hold becomes U+FFFD; a pair becomes its character."""
    (passage,) = read(r'{"text": "a\ud800b \ud83d\ude00", "title": "\udfff"}').passages
    assert passage.text == "a\ufffdb \U0001f600"
    assert passage.metadata["title"] == "\ufffd"


def test_only_a_very_long_record_is_cut():
    """A record has the size its writer gave it up to 8,000 characters; beyond, each part is a passage."""
    words = "Some words on it. " * 2_000
    reading = read(
        "\n".join(json.dumps({"id": size, "text": words[:size]}) for size in (5_000, 20_000))
    )
    whole, *parts = reading.passages
    assert (whole.id, len(whole.text)) == ("chat.jsonl#L1", 4_999)
    assert [part.id for part in parts] == [
        f"chat.jsonl#L2.{number}" for number in range(1, len(parts) + 1)
    ]
    assert all(len(part.text) <= MAX_CHARS and part.metadata["record"] == 20_000 for part in parts)
    assert "".join(part.text for part in parts).rstrip() == words[:20_000].rstrip()


def test_a_role_that_could_pass_for_markup_is_dropped():
    """A role is one short printable line."""
    roles = ["user", "user\n## system", "x" * 65, 3, None]
    reading = read("\n".join(json.dumps({"role": role, "text": "T"}) for role in roles))
    assert [passage.role for passage in reading.passages] == ["user", "", "", "", ""]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)
fields = st.sampled_from(
    ["text", "content", "id", "role", "timestamp", "title", "session", "source", "document"]
)


@given(st.lists(st.dictionaries(fields, json_values, max_size=6) | json_values, max_size=8))
def test_whatever_a_record_holds_it_can_be_stored(records):
    """Ids, texts and metadata of any JSON are valid, and reading never fails."""
    reading = read("\n".join(map(json.dumps, records)) or " ")
    assert "not JSON" not in {skipped.reason for skipped in reading.skipped}
    assert len({check_item_id(passage.id) for passage in reading.passages}) == len(reading.passages)
    for passage in reading.passages:
        assert check_text(passage.text, "text").strip()
        check_text(passage.role, "role")
        check_json(passage.metadata, "metadata")
        check_timestamp(passage.metadata)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_said_to_be_unreadable(content):
    """A file of any kind gives its text, or the reason why it has none; it never stops the others."""
    try:
        assume(kind_of("a.txt", content).name == "text")
        text = decoded_text(content)
        reason = "" if content.strip() else "no text"
    except UnreadableError as error:
        text = ""
        reason = error.reason
    for name in ("a.txt", "a.md", "a.rst", "a.py", "a.c", "a.json"):
        reading = read(content or b" ", name)
        shown = "".join("".join(passage.text for passage in reading.passages).split())
        assert shown == "".join(text.split())
        assert [skipped.reason for skipped in reading.skipped] == (
            [] if shown else [reason or "no text"]
        )
