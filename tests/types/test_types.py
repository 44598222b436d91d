"""Items, blocks and what may be stored in them."""

import json
import pickle
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kaosmem
from kaosmem import (
    ChatMessage,
    InvalidArgumentError,
    Item,
    KaosmemError,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    Trust,
)
from kaosmem.arguments import check_json, json_text
from kaosmem.types.content import DocumentBlock, ImageBlock, block_text, check_content

good_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
in_results = st.builds(TextBlock, good_text) | st.builds(
    ImageBlock, good_text, good_text, good_text
)
blocks = st.one_of(
    in_results,
    st.builds(ThinkingBlock, good_text, good_text, good_text),
    st.builds(ToolUseBlock, good_text, good_text, good_text),
    st.builds(
        ToolResultBlock,
        good_text,
        good_text | st.lists(in_results, max_size=2).map(tuple),
        st.booleans(),
    ),
    st.builds(DocumentBlock, good_text, good_text),
)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | good_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(good_text, inner, max_size=3),
    max_leaves=8,
)
items = st.builds(
    Item,
    id=good_text,
    section=st.just("messages"),
    role=good_text,
    content=good_text | st.lists(blocks, max_size=3).map(tuple),
    tokens=st.integers(0, 10**9),
    created_at=st.datetimes(timezones=st.just(UTC)),
    priority=st.integers(-5, 5),
    pinned=st.booleans(),
    tags=st.lists(good_text, max_size=2).map(tuple),
    metadata=st.dictionaries(good_text, json_values, max_size=3),
    key=st.none() | good_text,
    sources=st.lists(good_text, max_size=2).map(tuple),
    trust=st.sampled_from(Trust),
)


@given(items)
def test_an_item_survives_json(item):
    """What is stored of an item gives the same item back."""
    assert Item.from_dict(json.loads(json_text(item.to_dict())), item.section) == item


def test_items_and_blocks_are_frozen():
    """No field of an item or a block can be set."""
    item = Item("a", "messages", "user", (TextBlock("x"),), 1, datetime.now(UTC))
    for thing, name in ((item, "content"), (item.content[0], "text"), (item.message, "role")):
        with pytest.raises(AttributeError):
            setattr(thing, name, "y")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("a\ud800", "position 1"),
        ([TextBlock("ab\udfff")], "position 2"),
        ([{"type": "text", "text": "\ud83d"}], "position 0"),
        ([TextBlock(5)], "valid string"),
        ([{"type": "video"}], "type"),
        ([ToolResultBlock("a", (TextBlock("abc\ud800"),))], "position 3"),
        (
            [
                {
                    "type": "tool_result",
                    "tool_use_id": "a",
                    "content": [{"type": "text", "text": "\ud800"}],
                }
            ],
            "position 0",
        ),
        ([ToolResultBlock("a", (ToolUseBlock("a", "f"),))], "content blocks"),
        (5, "int"),
        (None, "NoneType"),
        (b"bytes", "content"),
        ([3], "content"),
    ],
)
def test_content_that_could_not_be_kept_is_refused(content, why):
    """Lone surrogates are named with their position, other things by what is wrong with them."""
    with pytest.raises(InvalidArgumentError, match=why):
        check_content(content)


def test_a_result_of_texts_and_images_is_kept_in_order():
    """Lists become tuples, dicts become blocks, and the text of a result names its images."""
    parts = [{"type": "text", "text": "see"}, ImageBlock("data:image/png;base64,AAAA", "image/png")]
    (result,) = check_content([{"type": "tool_result", "tool_use_id": "a", "content": parts}])
    assert result == ToolResultBlock(
        "a", (TextBlock("see"), ImageBlock("data:image/png;base64,AAAA", "image/png"))
    )
    assert block_text(result) == "see\n[image image/png]"
    assert hash(result)


@pytest.mark.parametrize("text", ["a\x00b", "<|endoftext|>", "\u2028", "", "𝔘", "\ufeff"])
def test_strange_text_is_text(text):
    """NUL, special-token strings and separators are kept as they are."""
    assert check_content(text) == text


@given(json_values)
def test_metadata_that_json_holds_is_copied(value):
    """The copy is equal and survives JSON."""
    copy = check_json({"value": value}, "metadata")
    assert json.loads(json_text(copy)) == copy == {"value": value}


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        2**63,
        {1: 2},
        {"a": {b"b": 1}},
        [object()],
        "\udc00",
        {"\udc00": 1},
        nested(70),
        {1, 2},
    ],
    ids=lambda value: type(value).__name__,
)
def test_metadata_that_json_would_change_is_refused(value):
    """The message says where."""
    with pytest.raises(InvalidArgumentError, match="metadata"):
        check_json({"x": value}, "metadata")


def test_errors_survive_pickling():
    """Each error shows its message and can cross processes."""
    errors = [
        value
        for value in vars(kaosmem.errors).values()
        if isinstance(value, type) and issubclass(value, KaosmemError)
    ]
    assert len(errors) > 15
    for kind in errors:
        error = kind("what is wrong; what to do")
        assert str(error) == "what is wrong; what to do"
        assert str(pickle.loads(pickle.dumps(error))) == str(error)
    too_small = kaosmem.WindowTooSmallError("no", need={"role": 5})
    assert pickle.loads(pickle.dumps(too_small)).need == {"role": 5}


def test_a_message_takes_blocks_in_any_sequence_and_refuses_what_is_no_content():
    """A list, and blocks as dicts, are what a tuple of blocks is."""
    block = TextBlock("found")
    assert ChatMessage("user", [block]) == ChatMessage("user", [{"type": "text", "text": "found"}])
    assert hash(ChatMessage("user", [block])) == hash(ChatMessage("user", (block,)))
    for content in (None, 3, [None], [{"type": "sound"}], {"text": "found"}):
        with pytest.raises(InvalidArgumentError, match="content"):
            ChatMessage("user", content)
    with pytest.raises(InvalidArgumentError, match="role is a NoneType; give a str"):
        ChatMessage(None, "found")


@given(st.dictionaries(good_text | st.just("\ud800"), json_values, max_size=4))
def test_arguments_of_a_call_may_be_a_mapping(arguments):
    """A mapping becomes compact JSON text in its own order, in a block and in the mapping of one."""
    text = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
    block = {"type": "tool_use", "id": "1", "name": "search", "arguments": arguments}
    try:
        made = ToolUseBlock("1", "search", arguments)
    except InvalidArgumentError:
        with pytest.raises(InvalidArgumentError):
            check_content([block])
        return
    assert made.arguments == text
    assert check_content([block]) == (made,) == check_content([made])


@pytest.mark.parametrize("arguments", [5, None, [1], ("a",), {1: 2}, {"a": float("nan")}])
def test_arguments_that_are_no_object_name_the_field(arguments):
    """The error says which field of which block is wrong."""
    with pytest.raises(
        InvalidArgumentError, match=r"block 1.*'arguments'|arguments of a tool call"
    ):
        check_content([TextBlock("hi"), ToolUseBlock("1", "search", arguments)])
