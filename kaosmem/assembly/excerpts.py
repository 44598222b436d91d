"""Excerpts of long messages: the lines that a question speaks of, and the lines around them.

The output of a tool is often larger than the share of a window for earlier messages. Whole, it
would never be recalled.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

from kaosmem.language.analysis import analyze
from kaosmem.sections.proposal import Candidate
from kaosmem.tokens import count_content
from kaosmem.tokens.counters import TokenCounter
from kaosmem.types.content import (
    Content,
    ContentBlock,
    DocumentBlock,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    block_text,
)
from kaosmem.types.cutting import left_out_note
from kaosmem.types.items import Item, once_per_item

_LONG_LINE = 240
_PART = re.compile(r"(?s).{1,200}(?:[\s,;]|\Z)|.{1,200}")
"""A longer line, as of JSON, is taken in such parts."""
_BEFORE, _AFTER = 3, 12
"""The most lines that are shown before and after a line that matches: answers mostly follow."""
_LAST = 3
"""The last lines of a text often have the sum of it, such as an error."""
_VALUE_UNITS = 60
"""Values of lines are whole numbers of so many units for each point of weight."""
_LEAST_GAP = 64
"""A gap of fewer characters is shown."""


class Piece(NamedTuple):
    """A line of a text, or a part of a long line, with its terms."""

    text: str
    terms: frozenset[str]


class Excerpts:
    """Makes excerpts of units for one question.

    Args:
        terms: The terms of the question.
    """

    def __init__(self, terms: Collection[str], counter: TokenCounter) -> None:
        self._terms = frozenset(terms)
        self._counter = counter

    def of(self, unit: Candidate, limit: int) -> Candidate:
        """Return a unit with the lines that match, in about so many tokens at most.

        Return the unit itself if it is no larger, or if no line of it matches.
        """
        if unit.tokens <= limit:
            return unit
        texts: list[list[Piece]] = []
        for item in unit.items:
            texts += _pieces(item)
        chars = sum(len(piece.text) for text in texts for piece in text)
        kept = self._kept(texts, chars * limit // unit.tokens)
        if not any(kept):
            return unit
        shown = iter([*map(_joined, texts, kept)])
        items = []
        for item in unit.items:
            content = _with_texts(item.content, shown)
            tokens = count_content(content, self._counter)
            items.append(replace(item, content=content, tokens=tokens))
        tokens = sum(item.tokens for item in items)
        if tokens >= unit.tokens:
            return unit
        return unit._replace(items=tuple(items), tokens=tokens)

    def _kept(self, texts: Sequence[Sequence[Piece]], room: int) -> list[set[int]]:
        """Return the places of the pieces that are kept of each text, in so many characters."""
        places = []
        last: list[int] = []
        for text, pieces in enumerate(texts):
            places += [(text, place) for place in range(len(pieces))]
            last += range(len(places) - min(_LAST, len(pieces)), len(places))
        values = self._values([*chain.from_iterable(texts)])
        if values:
            values = dict.fromkeys(last, 1) | values
        kept: list[set[int]] = [set() for _ in texts]
        for at in sorted(values, key=lambda at: (-values[at], at)):
            text, place = places[at]
            size = len(texts[text][place].text)
            if size <= room:
                kept[text].add(place)
                room -= size
        return kept

    def _values(self, pieces: Sequence[Piece]) -> dict[int, int]:
        """Return the values of the pieces that match, and of those around them, by place.

        A matching piece counts by its terms, rare ones more. The next one counts half of that, the
        one after it a third, and so on.
        """
        found = {}
        for place, piece in enumerate(pieces):
            if not self._terms.isdisjoint(piece.terms):
                found[place] = self._terms & piece.terms
        counts = Counter(chain.from_iterable(found.values()))
        weights = {term: (len(pieces) // count).bit_length() for term, count in counts.items()}
        values: dict[int, int] = {}
        for place, terms in found.items():
            value = _VALUE_UNITS * sum(weights[term] for term in terms)
            for at in range(max(0, place - _BEFORE), min(len(pieces), place + _AFTER + 1)):
                values[at] = max(values.get(at, 0), value // (1 + abs(at - place)))
        return values


@once_per_item
def _pieces(item: Item) -> list[list[Piece]]:
    """Return the lines of each text of an item, and long ones in pieces."""
    found = []
    for text in _texts(item.content):
        pieces = []
        for line in text.splitlines(keepends=True):
            parts = [line] if len(line) <= _LONG_LINE else _PART.findall(line)
            pieces += [Piece(part, frozenset(analyze(part))) for part in parts]
        found.append(pieces)
    return found


def _joined(pieces: Sequence[Piece], kept: Collection[int]) -> str:
    """Return the kept pieces of a text, with a note in place of each gap."""
    shown = []
    gap = ""
    for place, piece in enumerate(pieces):
        if place not in kept:
            gap += piece.text
            continue
        shown += [_noted(gap), piece.text]
        gap = ""
    return "".join([*shown, _noted(gap)])


def _noted(gap: str) -> str:
    """Return a note in place of a gap, or the gap itself if it is about as short."""
    return gap if len(gap) < _LEAST_GAP else f"{left_out_note(len(gap))}\n"


def _texts(content: Content) -> Iterator[str]:
    """Yield the texts of a content that an excerpt may shorten, in order."""
    if isinstance(content, str):
        yield content
        return
    for block in content:
        match block:
            case TextBlock() | DocumentBlock():
                yield block.text
            case ToolUseBlock():
                yield block.arguments
            case ToolResultBlock():
                yield block_text(block)


def _with_texts(content: Content, texts: Iterator[str]) -> Content:
    """Return a content with other texts, in the order of `_texts`."""
    if isinstance(content, str):
        return next(texts)
    blocks: list[ContentBlock] = []
    for block in content:
        match block:
            case TextBlock() | DocumentBlock():
                block = replace(block, text=next(texts))
            case ToolUseBlock():
                block = replace(block, arguments=next(texts))
            case ToolResultBlock():
                block = replace(block, content=next(texts))
        blocks.append(block)
    return tuple(blocks)
