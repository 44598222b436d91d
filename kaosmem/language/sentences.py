"""Texts cut where a sentence or a word ends."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence

_END = re.compile(
    r"[.!?…।؟](?=[\"')\]»”’]*(?:\s|\Z))"
    r"(?<!\bDr\.)(?<!\bMr\.)(?<!\bMrs\.)(?<!\bMs\.)(?<!\bProf\.)(?<!\b[a-z][a-z] St\.)|[。！？]|\n"
)
"""The dot of a title ends no sentence. That of "in St. Louis" ends none, that of "Elm St." may."""
_WORD_END = re.compile(r"(?<=\S)(?=\s)")
_ELLIPSIS = "…"
_MAX_CHARS_PER_TOKEN = 16
_LEAST_SHARE = 0.5


def sentence_ends(text: str) -> list[int]:
    """Return the positions in a text after which a sentence or a line ends, ascending."""
    return [match.end() for match in _END.finditer(text)]


def sentences_in(text: str) -> Iterator[str]:
    """Yield the sentences and lines of a text, with the spaces around them.

    >>> [*sentences_in("It rained. We stayed in")]
    ['It rained.', ' We stayed in']
    """
    begin = 0
    for end in (*sentence_ends(text), len(text)):
        yield text[begin:end]
        begin = end


def cut_at_sentence(
    text: str,
    most: int,
    count: Callable[[str], int],
) -> str:
    """Return the longest beginning of a text that ends with a sentence and fits.

    It fits if `count` counts at most `most`.

    If the sentences that fit are less than half of the words that fit, the text is cut after a word
    and ends in "…". If not even a word fits, the result is "".

    >>> cut_at_sentence("It rained. We stayed in and read.", 3, count=lambda text: len(text.split()))
    'It rained.'
    """
    if count(text) <= most:
        return text
    text = text[: _MAX_CHARS_PER_TOKEN * most]
    sentences = _longest(text, sentence_ends(text), most, count)
    words = _longest(
        text, [match.start() for match in _WORD_END.finditer(text)], most, count, end=_ELLIPSIS
    )
    if len(sentences) >= _LEAST_SHARE * len(words):
        return sentences
    return words


def _longest(
    text: str,
    ends: Sequence[int],
    most: int,
    count: Callable[[str], int],
    *,
    end: str = "",
) -> str:
    """Return the text up to the last of the ends at which it fits, "" if it fits at none."""

    def cut(at: int) -> str:
        return text[:at].rstrip() + end

    fitting = bisect_right(ends, most, key=lambda at: count(cut(at)))
    if fitting:
        return cut(ends[fitting - 1])
    return ""
