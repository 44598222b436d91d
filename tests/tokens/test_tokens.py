"""Counting: exact, offline, additive, the same whatever counts, for any text."""

import re
import subprocess
import sys
from functools import cache
from importlib.util import find_spec

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kaosmem import InvalidArgumentError, SessionMemory, TextBlock, get_counter
from kaosmem.errors import MissingExtraError
from kaosmem.tokens import count_content, counters
from kaosmem.tokens.counters import (
    CallableCounter,
    EstimateCounter,
    TiktokenCounter,
    TokenCounter,
    ToktokCounter,
)
from kaosmem.tokens.parts import IMAGE_TOKENS
from kaosmem.types.content import ImageBlock, ToolUseBlock

ENCODINGS = "o200k_base", "cl100k_base"
needs_fast = pytest.mark.skipif(
    find_spec("toktok") is None, reason="the extra 'fast' is not installed"
)
exact_counters = pytest.mark.parametrize(
    "exact",
    [TiktokenCounter, pytest.param(ToktokCounter, marks=needs_fast)],
    ids=["tiktoken", "toktok"],
)

any_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
PIECES = (
    *(
        "a",
        "B",
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
    ),
    *(
        "'",
        "!",
        "\x1c",
        "\x85",
        "\u3000",
        "\u200d",
        "²",
        "\0",
        " \n",
        "\u0627",
        "क्ष",
        "한",
        "\u088f",
        "\U00011de0",
    ),
)
tricky = st.lists(st.sampled_from(PIECES), max_size=20).map("".join)

around_blanks = st.lists(
    st.sampled_from([" ", "\n", "\r\n", "\t", "\u3000", "\x1c", "a", "1", "!", "/", "\u0301"]),
    max_size=12,
).map("".join)

# What a text may be a run of; of each 250,000 characters must be counted, and soon.
RUNS = {
    "space": " ",
    "line end": "\n",
    "tab": "\t",
    "mixed blanks": " \t\n\r\u3000",
    "letter": "a",
    "kana": "あ",
    "emoji": "😀",
    "digit": "7",
    "punctuation": "!",
    "hyphen": "-",
    "slash": "/",
    "joiner": "\u200d",
    "joined emoji": "👨‍👩‍👧‍👦",
    "base64": "QUJDREVGR0g0MTIzNDU2Nzg5",
    "mark": "\u0301",
    "NUL": "\0",
    "special token": "<|endoftext|>",
    "letters of Unicode 17": "\U00011de0",
    "blanks, just shorter than long": " " * 99_999 + "!",
}


def reference(name):
    return TiktokenCounter(name)._encoding


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("hello world", 2),
        ("<|endoftext|>", 7),
        ("indivisible", 3),
        ("日本語", 2),
        ("\n\n", 1),
    ],
)
def test_default_counts_are_o200k_base(text, tokens):
    """The default counter gives the published encoding's counts, special tokens taken as text."""
    assert get_counter().name == "o200k_base"
    assert get_counter()(text) == tokens


def test_counting_needs_no_network_and_no_environment():
    """A fresh process counts although every way to the network raises."""
    code = (
        "import socket\n"
        "def refuse(*a, **k): raise AssertionError('network')\n"
        "socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse\n"
        "from kaosmem.tokens import TiktokenCounter, get_counter\n"
        "for counter in get_counter(), get_counter('cl100k_base'), TiktokenCounter(): "
        "print(counter('hello world'))"
    )
    assert run(code) == ["2", "2", "2"]


def run(code):
    return subprocess.run(
        [sys.executable, "-c", code], env={}, capture_output=True, text=True, check=True
    ).stdout.split()


@pytest.mark.parametrize("name", [*ENCODINGS, "estimate"])
@given(st.lists(st.one_of(any_text, tricky), min_size=1, max_size=4))
def test_pieces_add_up(name, contents):
    """Pieces that begin with a visible mark and end in a newline count as their concatenation does."""
    count = get_counter(name)
    pieces = [
        f"{mark}{content}\n"
        for content, mark in zip(contents, ("[user] ", "## ", "<x> ", "[a:1-2] "), strict=False)
    ]
    assert count("".join(pieces)) == sum(map(count, pieces))


@pytest.mark.parametrize("name", [*ENCODINGS, "estimate"])
@given(st.one_of(any_text, tricky), st.sampled_from("aZ9.,)/!~'\"#["), st.one_of(any_text, tricky))
def test_a_text_may_be_cut_before_a_space(name, before, visible, after):
    """Counts add up before a space that follows a visible ASCII character."""
    count = get_counter(name)
    assert count(f"{before}{visible} {after}") == count(before + visible) + count(f" {after}")


@exact_counters
def test_a_run_of_blanks_that_overflows_the_tokenizer_is_counted(
    exact,
):
    """A million spaces count, and as the encoding's own merge of one piece does."""
    count = exact()
    assert count(" " * 1_000_000) == spaces_in_one_piece(1_000_000)
    assert count("a" + " " * 1_000_001 + "b\n" + "c") == 1 + spaces_in_one_piece(1_000_000) + 3


@cache
def spaces_in_one_piece(count):
    return len(reference("o200k_base")._encode_single_piece(" " * count))


def run_of(unit, chars):
    return (unit * (1 + chars // len(unit)))[:chars]


@pytest.mark.parametrize(
    ("name", "run"),
    [
        *(("o200k_base", run) for run in RUNS),
        ("cl100k_base", "space"),
        ("cl100k_base", "mixed blanks"),
    ],
)
@exact_counters
def test_a_long_run_of_any_kind_is_counted(exact, name, run):
    """No run is too long for a counter, whatever it is of."""
    text = run_of(RUNS[run], 250_000)
    assert 0 < exact(name)(text) <= len(text.encode())


@pytest.mark.parametrize("run", RUNS)
def test_a_long_run_of_any_kind_is_estimated(run):
    """The estimate of a run is more than nothing, and at most twice its length."""
    assert 0 < EstimateCounter()(run_of(RUNS[run], 200_000)) <= 400_000


@pytest.mark.parametrize("name", ENCODINGS)
@given(text=st.one_of(tricky, around_blanks), shortest=st.integers(1, 4))
@example(text="!/\u0301\n \n", shortest=1)
@example(text="\u0301\n \n", shortest=1)
@example(text=".\n/", shortest=1)
@settings(max_examples=3 * settings().max_examples)
def test_blanks_are_cut_where_the_encoding_cuts(name, text, shortest):
    """Counting runs of blanks apart gives the encoding's own count, wherever the runs stand."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counters, "_LONG", 0)
        patch.setattr(counters, "_LONG_BLANK", re.compile(rf"(?<!\s)\s{{{shortest},}}"))
        assert TiktokenCounter(name)(text) == len(reference(name).encode_ordinary(text))


@needs_fast
@pytest.mark.parametrize("name", ENCODINGS)
@given(text=st.one_of(st.text(st.characters(exclude_categories=["Cs"])), tricky))
@settings(max_examples=2 * settings().max_examples)
def test_fast_counts_are_the_default_s(name, text):
    """Both packages give the same number for any text, so a session may be opened with either."""
    assert ToktokCounter(name)(text) == TiktokenCounter(name)(text)


@needs_fast
@pytest.mark.parametrize("name", ENCODINGS)
def test_fast_counts_around_every_character_are_the_default_s(name):
    """Both packages take every character for the same kind, or it is left to tiktoken: those new in Unicode 17."""
    fast = ToktokCounter(name)
    default = TiktokenCounter(name)
    chars = map(
        chr,
        (
            *range(0xD800),
            *range(0xE000, 0x10000),
            *range(0x1F000, 0x20100),
            0x11DE0,
            0x2B73A,
            0x323B0,
        ),
    )
    texts = [f"a{c}b{c}{c}1{c}\n{c} {c}'s{c}A{c}a .{c}" for c in chars]
    counts = zip(texts, map(fast, texts), map(default, texts), strict=True)
    assert [text[1] for text, in_fast, in_default in counts if in_fast != in_default] == []


@needs_fast
def test_the_extra_counts_wherever_it_is_installed():
    """An encoding is counted by toktok under the encoding's name; either counter can be asked for by its own."""
    assert isinstance(get_counter(), ToktokCounter)
    assert isinstance(get_counter("cl100k_base"), ToktokCounter)
    assert get_counter(TiktokenCounter()).name == get_counter().name
    assert type(SessionMemory.test_mode(counter=TiktokenCounter()).admin.counter) is TiktokenCounter


def test_without_the_extra_tiktoken_counts_and_says_what_to_install():
    """Where toktok is missing, the default counts the same, and asking for it names the extra."""
    code = (
        "import sys; sys.modules['toktok'] = None\n"
        "from kaosmem.errors import MissingExtraError\n"
        "from kaosmem.tokens import ToktokCounter, get_counter\n"
        "print(type(get_counter()).__name__, get_counter()('indivisible'))\n"
        "try: ToktokCounter()\n"
        "except MissingExtraError as error: print('kaosmem[fast]' in str(error), isinstance(error, "
        "ImportError))"
    )
    assert run(code) == ["TiktokenCounter", "3", "True", "True"]
    assert issubclass(MissingExtraError, ImportError)


def test_the_estimate_is_near_on_prose_and_code():
    """On text of this project the estimate is within a fifth of the exact count."""
    from pathlib import Path

    import kaosmem

    for name in ("types/items.py", "errors.py"):
        text = (Path(kaosmem.__file__).parent / name).read_text()
        assert get_counter("estimate")(text) == pytest.approx(get_counter()(text), rel=0.2)


def test_any_callable_counts_under_its_own_name():
    """A function is a counter that is named after it and not taken to be additive."""
    counter = get_counter(len)
    assert isinstance(counter, CallableCounter)
    assert isinstance(counter, TokenCounter)
    assert (counter("abc"), counter.name, counter.additive) == (3, "builtins.len", False)


@pytest.mark.parametrize("name", ["o300k", "", 5])
def test_an_unknown_encoding_names_the_known_ones(name):
    """The error says which encodings there are."""
    with pytest.raises(InvalidArgumentError, match=r"o200k_base|callable"):
        get_counter(name)


@exact_counters
def test_each_counter_is_exact_alone(exact):
    """Each exact counter refuses unknown encodings and is a counter whose parts add up."""
    with pytest.raises(InvalidArgumentError, match="o200k_base"):
        exact("o300k")
    assert isinstance(exact(), TokenCounter)
    assert exact().additive
    assert repr(exact("cl100k_base")) == f"{exact.__name__}('cl100k_base')"


def test_content_blocks_are_counted_as_text_and_images_at_their_estimate():
    """Blocks count as their text; an image has no text that could be counted."""
    count = get_counter()
    blocks = (TextBlock("hello"), ToolUseBlock("c1", "search", '{"q":1}'))
    assert count_content(blocks, count) == count('hello\nsearch({"q":1})')
    assert count_content((ImageBlock("https://example.org/a.png"),), count) == IMAGE_TOKENS + count(
        "[image]"
    )


@pytest.mark.parametrize(
    ("model", "encoding"),
    [
        ("gpt-4o", "o200k_base"),
        ("openai/gpt-4o-mini-2024-07-18", "o200k_base"),
        ("GPT-4", "cl100k_base"),
        ("gpt-3.5-turbo", "cl100k_base"),
        ("gpt-5.4", "o200k_base"),
        ("o3", "o200k_base"),
        ("gpt-oss-120b", "o200k_base"),
    ],
)
def test_a_model_names_its_encoding(model, encoding):
    """A counter may be named after an OpenAI model, with or without its maker and date."""
    assert get_counter(model).name == encoding


@pytest.mark.parametrize("model", ["claude-opus-4.5", "gemini-2.5-pro", "gpt2", "text-davinci-003"])
def test_a_model_without_a_known_encoding_is_refused(model):
    """Nobody publishes how Claude counts, and old encodings are not carried."""
    with pytest.raises(InvalidArgumentError, match="the name of an OpenAI model"):
        get_counter(model)


@exact_counters
@settings(max_examples=10)
@given(before=tricky, after=tricky)
def test_long_blanks_are_cut_where_the_encoding_cuts(exact, before, after):
    """The count around a long run of blanks equals the encoding's own, wherever that still works."""
    text = before + " \n \t " * 20_001 + after
    assert exact()(text) == len(reference("o200k_base").encode_ordinary(text))
