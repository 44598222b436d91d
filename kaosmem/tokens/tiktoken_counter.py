"""Exact counts by tiktoken."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

from kaosmem.tokens.encodings import DEFAULT_ENCODING, RECIPES, check_encoding, load_encoding

if TYPE_CHECKING:
    import tiktoken

_LONG = 100_000
_PART_CHARS = 1 << 17
# A run is tried from its start alone, or a text of many shorter runs would take time in the square of their length.
# Python takes U+001C to U+001F for blanks, the tokenizer does not.
_BLANK = r"[^\S\x1c-\x1f]"
# Where the counts of parts add up to that of the whole (see `TokenCounter.additive`).
_GAP = re.compile(r"(?<=[!-~]) ")
_LONG_BLANK = re.compile(rf"(?<!{_BLANK}){_BLANK}{{{_LONG},}}")


class TiktokenCounter:
    """Counts exactly as OpenAI's tokenizer of that name does. Text that looks like a special token counts as text.

    >>> TiktokenCounter("cl100k_base")("Who owns the deal?")
    5
    """

    additive = True

    def __init__(self, name: str = DEFAULT_ENCODING) -> None:
        check_encoding(name)
        self.name = name

    def __repr__(self) -> str:
        return f"TiktokenCounter({self.name!r})"

    @cached_property
    def _encoding(self) -> tiktoken.Encoding:
        return load_encoding(self.name)

    def __call__(self, text: str) -> int:
        if len(text) < _LONG:
            return len(self._encoding.encode_ordinary(text))
        return sum(self._count_around_blanks(text))

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """Return the count of each text."""
        return list(map(self, texts))

    def _count_around_blanks(self, text: str) -> Iterator[int]:
        """Yield counts that add up to that of the text, runs of so many blanks counted apart from the rest.

        On a longer one tiktoken's pattern overflows its stack, so the run is cut here where the pattern would cut
        it: line ends belong to punctuation before them; what is left, up to its last line end, is one piece, and so
        is the rest, less its last blank, which belongs to what follows.
        """
        done = 0
        for blank in _LONG_BLANK.finditer(text):
            cuts = self._cuts(text, *blank.span(), done)
            if cuts[0] == blank.end():
                continue
            yield from self._count_parts(text, done, cuts[0])
            for start, end in pairwise(cuts):
                if start < end:
                    yield len(self._encoding._encode_single_piece(text[start:end]))
            done = cuts[-1]
        yield from self._count_parts(text, done, len(text))

    def _count_parts(self, text: str, start: int, end: int) -> Iterator[int]:
        """Yield counts that add up to that of a part of the text."""
        yield from (len(self._encoding.encode_ordinary(part)) for part in parts(text, start, end))

    def _cuts(self, text: str, start: int, end: int, done: int) -> tuple[int, ...]:
        """Return where the first piece of a run of blanks begins and where each ends, the last blank left out."""
        if self._takes_line_ends(text[done:start]):
            while start < end and text[start] in "\r\n":
                start += 1
        lines_end = max(text.rfind("\n", start, end), text.rfind("\r", start, end)) + 1 or start
        return start, lines_end, end if end == len(text) else max(end - 1, lines_end)

    def _takes_line_ends(self, text: str) -> bool:
        """Return whether line ends after the text belong to its last piece: to punctuation, not to a word."""
        category = unicodedata.category(text[-1])[0] if text else "L"
        if category == "M" and RECIPES[self.name].marks_in_words:
            # A slash goes with such line ends, otherwise with the letter after it.
            return self._encoding.encode_ordinary(f"{text}\n/a")[-1:] != self._encoding.encode_ordinary("/a")
        return category not in "LN"


def parts(text: str, start: int, end: int) -> Iterator[str]:
    """Yield parts of a long text whose counts add up: its tokens at once would take 20 times its size."""
    while end - start > 2 * _PART_CHARS and (gap := _GAP.search(text, start + _PART_CHARS, end)):
        yield text[start : gap.start()]
        start = gap.start()
    yield text[start:end]
