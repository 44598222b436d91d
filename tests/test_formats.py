"""Formats: exact counts, delimiters that can't be forged, messages in and out."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kaosmem import (
    ChatMessage,
    InvalidContentError,
    Item,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownFormatError,
    count_messages,
)
from kaosmem.formats import BlockPlace, HistoryPart, Layout, Mark, get_format, parse_message
from kaosmem.formats.text import item_piece, item_tokens
from kaosmem.tokens import get_counter
from kaosmem.types import ImageBlock
from tests.worlds import HOSTILE, texts

LINE_ENDS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
DELIMITER = re.compile(r"##\s|\[[^\]\n]*\]\s|</?context>")


def item(content: str, role: str = "user", **metadata: object) -> Item:
    return Item("a", "documents", role, content, 0, datetime(2024, 1, 1, tzinfo=UTC), metadata=metadata)


@given(
    st.lists(st.sampled_from([*HOSTILE, "x", "\\", "[a] ", "## b\n"]), max_size=6).map("".join) | texts,
    texts,
    texts,
)
def test_stored_text_cannot_forge_a_delimiter(content: str, role: str, source: str) -> None:
    """However a model splits lines, only the first line of a piece begins like a delimiter."""
    piece = item_piece(item(content, role, source=source))
    lines = re.split(f"[{LINE_ENDS}]", piece.removesuffix("\n"))
    assert DELIMITER.match(piece)
    assert not any(DELIMITER.match(line) for line in lines[1:])
    label = piece[1 : piece.index("] ")]
    assert not DELIMITER.match(piece[len(label) + 3 :])


@given(texts)
def test_escaping_can_be_undone(content: str) -> None:
    """One backslash less before what looks like a delimiter gives the stored text back."""
    shown = item_piece(item(content)).removeprefix("[user] ")
    start = rf"(^|(?<=[{LINE_ENDS}]))\\(?=\\*(?:##\s|\[[^\]\n]*\]\s|</?context>))"
    assert re.sub(start, "", shown).removesuffix("\n") == content


@pytest.mark.parametrize(
    ("metadata", "label"),
    [
        ({}, "user"),
        ({"source": "a.md"}, "a.md"),
        ({"source": "a.md", "lines": [3, 9]}, "a.md:3-9"),
        ({"source": 5}, "user"),
    ],
)
def test_an_item_is_labelled_by_its_source_or_its_role(metadata: dict[str, object], label: str) -> None:
    """Documents show where they are from, lines included."""
    assert item_piece(item("x", **metadata)) == f"[{label}] x\n"


def test_an_item_without_role_and_source_still_begins_with_a_mark() -> None:
    """Every piece begins with a visible mark."""
    assert item_piece(item("x", "")) == "[*] x\n"


MESSAGES = st.one_of(
    st.builds(ChatMessage, st.sampled_from(["user", "assistant", "system", "critic"]), texts),
    st.builds(
        lambda text, calls: ChatMessage("assistant", (*([TextBlock(text)] if text else []), *calls)),
        texts,
        st.lists(st.builds(ToolUseBlock, texts, texts, texts), min_size=1, max_size=2),
    ),
    st.builds(lambda call, text: ChatMessage("tool", (ToolResultBlock(call, text),)), texts, texts),
    st.builds(lambda text, url: ChatMessage("user", (TextBlock(text), ImageBlock(url))), texts, texts),
)


@given(MESSAGES)
def test_openai_messages_go_in_and_out_unchanged(message: ChatMessage) -> None:
    """A message laid out for the API and read again is the same message, and lays out the same."""
    layout = Layout((), (HistoryPart("messages", (message,)),), ())
    sent = get_format("openai").render(layout).messages
    assert sent is not None
    (only,) = sent
    again = parse_message(only, "openai")
    assert get_format("openai").render(Layout((), (HistoryPart("messages", (again,)),), ())).messages == sent
    if message.role in ("user", "assistant", "tool") and isinstance(message.content, tuple):
        assert again == message


@given(
    st.lists(MESSAGES | st.builds(Mark, st.integers(1, 5_000)), max_size=5),
    st.lists(texts, max_size=3),
    st.lists(texts, max_size=3),
)
def test_pieces_entries_and_frame_add_up(
    entries: list[ChatMessage | Mark], static: list[str], block: list[str]
) -> None:
    """Frame, pieces, headers and entries sum to the count from scratch, in every format and place of the block."""
    count = get_counter()
    static_pieces, block_pieces = (tuple(item_piece(item(text)) for text in part) for part in (static, block))
    for name in ("text", "openai"):
        layout_format = get_format(name)
        place = None
        if block:
            hosted = entries and layout_format.takes_block(entries[-1])
            place = BlockPlace.IN_MESSAGE if hosted else BlockPlace.OWN_MESSAGE
        history = (HistoryPart("messages", tuple(entries)),) if entries else ()
        rendered = layout_format.render(Layout(static_pieces, history, block_pieces, place))
        total = layout_format.frame_tokens(static=bool(static), history=bool(entries), block=place, counter=count)
        total += sum(map(count, (*static_pieces, *block_pieces)))
        if entries:
            total += layout_format.history_header_tokens("messages", count)
        total += sum(layout_format.entry_tokens(entry, count) for entry in entries)
        handed_over = rendered.text if name == "text" else rendered.messages
        assert count_messages(handed_over, name) == layout_format.count(rendered, count) == total


@pytest.mark.parametrize("name", ["o200k_base", "cl100k_base", "estimate", "len"])
@settings(max_examples=200)
@given(
    texts | st.lists(st.sampled_from([*HOSTILE, "word", " ", "It's", "'s", "a b", "x. y", "Ünï code"])).map("".join),
    texts,
)
def test_a_piece_of_known_text_is_counted_by_its_ends(name: str, text: str, label: str) -> None:
    """Counting only what changes at the ends of a known text gives the count of the whole piece."""
    count = get_counter(len if name == "len" else name)
    known = replace(item(text, label), tokens=count(text))
    assert item_tokens(known, count) == count(item_piece(known))
    for layout_format in (get_format("text"), get_format("openai")):
        entry = known.message
        assert layout_format.entry_tokens(entry, count, known=known.tokens) == layout_format.entry_tokens(entry, count)


def test_openai_counts_as_the_published_rule_says() -> None:
    """Three a message, role, text, name and one more, call ids, names and arguments, three for the reply."""
    messages = [
        {"role": "system", "content": "You are helpful."},
        {
            "role": "user",
            "name": "ada",
            "content": [{"type": "text", "text": "Hi"}, {"type": "text", "text": "there"}],
        },
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "done"},
    ]
    count = get_counter()
    expected = (
        3
        + 4 * 3
        + sum(
            map(
                count,
                [
                    "system",
                    "You are helpful.",
                    "user",
                    "Hi",
                    "there",
                    "assistant",
                    "c1",
                    "f",
                    "{}",
                    "tool",
                    "c1",
                    "done",
                ],
            )
        )
    )
    assert count_messages(messages, "openai") == expected + 1 + count("ada")
    assert count_messages([], "openai") == 0


@pytest.mark.parametrize(
    "message",
    [{}, {"role": ""}, {"role": "tool", "content": "x"}, {"role": "user", "content": [{"type": "input_audio"}]}, 5,
     {"role": "assistant", "tool_calls": [{"id": "x"}]}, {"role": "user", "content": "\ud800"}],
)  # fmt: skip
def test_what_is_no_message_is_refused(message: object) -> None:
    """A message that could not be kept whole gets a typed error."""
    with pytest.raises(InvalidContentError):
        parse_message(message, "openai")


def test_an_unknown_format_names_the_known_ones() -> None:
    """The error lists the formats."""
    with pytest.raises(UnknownFormatError, match="openai"):
        get_format("xml")
    with pytest.raises(UnknownFormatError, match="openai"):
        count_messages([], "xml")
