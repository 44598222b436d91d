"""Counting: exact, offline, additive, for any text."""

from __future__ import annotations

import subprocess
import sys

import pytest
import tiktoken
from hypothesis import given, settings
from hypothesis import strategies as st

from kaosmem import TextBlock, UnknownEncodingError, get_counter
from kaosmem.tokens import IMAGE_TOKENS, CallableCounter, TokenCounter, count_content
from kaosmem.types import ImageBlock, ToolUseBlock

any_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
tricky = st.lists(
    st.sampled_from(
        [
            "a",
            " ",
            "\n",
            "\r",
            "\t",
            "/",
            ".",
            "##",
            "[",
            "'s",
            "1",
            "é",
            "\u0301",
            "日",
            "👍🏽",
            "<|endoftext|>",
        ]
    ),
    max_size=20,
).map("".join)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("hello world", 2), ("<|endoftext|>", 7), ("indivisible", 3), ("日本語", 2), ("\n\n", 1)],
)
def test_default_counts_are_o200k_base(text: str, tokens: int) -> None:
    """The default counter gives the published encoding's counts, special tokens taken as text."""
    assert get_counter()(text) == tokens


def test_counting_needs_no_network_and_no_environment() -> None:
    """A fresh process counts although every way to the network raises."""
    code = (
        "import socket\n"
        "def refuse(*a, **k): raise AssertionError('network')\n"
        "socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse\n"
        "from kaosmem import get_counter\n"
        "print(get_counter()('hello world'), get_counter('cl100k_base')('hello world'))"
    )
    printed = subprocess.run([sys.executable, "-c", code], env={}, capture_output=True, text=True, check=True).stdout
    assert printed.split() == ["2", "2"]


@pytest.mark.parametrize("name", ["o200k_base", "cl100k_base", "estimate"])
@settings(max_examples=300)
@given(st.lists(st.one_of(any_text, tricky), min_size=1, max_size=4))
def test_pieces_add_up(name: str, contents: list[str]) -> None:
    """Pieces that begin with a visible mark and end in a newline count as their concatenation does."""
    count = get_counter(name)
    pieces = [
        f"{mark}{content}\n" for content, mark in zip(contents, ("[user] ", "## ", "<x> ", "[a:1-2] "), strict=False)
    ]
    assert count("".join(pieces)) == sum(count.count_many(pieces))


@pytest.mark.parametrize("name", ["o200k_base", "cl100k_base", "estimate"])
@settings(max_examples=300)
@given(st.one_of(any_text, tricky), st.sampled_from("aZ9.,)/!~'\"#["), st.one_of(any_text, tricky))
def test_a_text_may_be_cut_before_a_space(name: str, before: str, visible: str, after: str) -> None:
    """Counts add up before a space that follows a visible ASCII character."""
    count = get_counter(name)
    assert count(f"{before}{visible} {after}") == count(before + visible) + count(f" {after}")


def test_a_run_of_blanks_that_overflows_the_tokenizer_is_counted() -> None:
    """A million spaces count, and as the encoding's own merge of one piece does."""
    count = get_counter()
    encoding: tiktoken.Encoding = count._encoding  # type: ignore[attr-defined]
    assert count(" " * 1_000_000) == len(encoding._encode_single_piece(" " * 1_000_000))
    assert count("a" + " " * 1_000_000 + "b\n" + "c") == 1 + len(encoding._encode_single_piece(" " * 999_999)) + 3


@settings(max_examples=200)
@given(tricky, tricky)
def test_long_blanks_are_cut_where_the_encoding_cuts(before: str, after: str) -> None:
    """The count around a long run of blanks equals the encoding's own, wherever that still works."""
    count = get_counter()
    text = before + " \n \t " * 20_001 + after
    assert count(text) == len(count._encoding.encode_ordinary(text))  # type: ignore[attr-defined]


def test_the_estimate_is_near_on_prose_and_code() -> None:
    """On text of this project the estimate is within a fifth of the exact count."""
    from pathlib import Path

    import kaosmem.types

    for path in (Path(kaosmem.types.__file__), Path(kaosmem.types.__file__).parent / "errors.py"):
        text = path.read_text()
        assert get_counter("estimate")(text) == pytest.approx(get_counter()(text), rel=0.2)


def test_any_callable_counts_under_its_own_name() -> None:
    """A function is a counter that is named after it and not taken to be additive."""
    counter = get_counter(len)
    assert isinstance(counter, CallableCounter)
    assert isinstance(counter, TokenCounter)
    assert (counter("abc"), counter.count_many(["a", "bc"]), counter.name, counter.additive) == (
        3,
        [1, 2],
        "builtins.len",
        False,
    )


@pytest.mark.parametrize("name", ["o300k", "", 5])
def test_an_unknown_encoding_names_the_known_ones(name: object) -> None:
    """The error says which encodings there are."""
    with pytest.raises(UnknownEncodingError, match=r"o200k_base|callable"):
        get_counter(name)  # type: ignore[arg-type]


def test_content_blocks_are_counted_as_text_and_images_at_their_estimate() -> None:
    """Blocks count as their text; an image has no text that could be counted."""
    count = get_counter()
    blocks = (TextBlock("hello"), ToolUseBlock("c1", "search", '{"q":1}'))
    assert count_content(blocks, count) == count('hello\nsearch({"q":1})')
    assert count_content((ImageBlock("https://example.org/a.png"),), count) == IMAGE_TOKENS + count("[image]")
