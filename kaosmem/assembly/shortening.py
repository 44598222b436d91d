"""Shorter copies of items that do not fit: excerpts for a question, and texts cut in the middle."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

from kaosmem.assembly.packing import Packing, WindowPacker
from kaosmem.errors import WindowTooSmallError
from kaosmem.language.analysis import analyze
from kaosmem.sections.proposal import Candidate, with_items
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
from kaosmem.types.cutting import cut_result, cut_text, left_out_note
from kaosmem.types.items import Item, once_per_item

_LONG_LINE = 240
_PART = re.compile(r"(?s).{1,200}(?:[\s,;]|\Z)|.{1,200}")
"""A longer line, as of JSON, is taken in such parts."""
_LINES_BEFORE, _LINES_AFTER = 3, 12
"""The most lines that are shown before and after a line that matches: answers mostly follow."""
_LAST_LINES = 3
"""The last lines of a text often have the sum of it, such as an error."""
_VALUE_UNITS = 60
"""Values of lines are whole numbers of so many units for each point of weight."""
_LEAST_GAP = 64
"""A gap of fewer characters is shown."""


class ExcerptPiece(NamedTuple):
    """A line of a text, or a part of a long line, with its terms."""

    text: str
    terms: frozenset[str]


def excerpt_of(
    unit: Candidate,
    limit: int,
    terms: frozenset[str],
    counter: TokenCounter,
) -> Candidate:
    """Return a unit with the lines that have terms of the question, and the lines around them.

    Return the unit itself if no line of it has one.

    Args:
        limit: About the most tokens of the lines. The unit has more.
    """
    texts: list[list[ExcerptPiece]] = []
    for item in unit.items:
        texts += _pieces(item)
    chars = sum(len(piece.text) for text in texts for piece in text)
    kept = _kept(texts, terms, chars * limit // unit.tokens)
    if not any(kept):
        return unit
    shown = iter([*map(_joined, texts, kept)])
    items = []
    for item in unit.items:
        content = _with_texts(item.content, shown)
        items.append(replace(item, content=content, tokens=count_content(content, counter)))
    shorter = with_items(unit, items)
    if shorter.tokens < unit.tokens:
        return shorter
    return unit


def _kept(
    texts: Sequence[Sequence[ExcerptPiece]],
    terms: frozenset[str],
    room: int,
) -> list[set[int]]:
    """Return the places of the pieces that are kept of each text, in so many characters."""
    places = []
    last: list[int] = []
    for text, pieces in enumerate(texts):
        places += [(text, place) for place in range(len(pieces))]
        last += range(len(places) - min(_LAST_LINES, len(pieces)), len(places))
    values = _values([*chain.from_iterable(texts)], terms)
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


def _values(pieces: Sequence[ExcerptPiece], asked: frozenset[str]) -> dict[int, int]:
    """Return the values of the pieces that match, and of those around them, by place.

    A matching piece counts by its terms, rare ones more. The next one counts half of that, the one
    after it a third, and so on.
    """
    found = {}
    for place, piece in enumerate(pieces):
        if not asked.isdisjoint(piece.terms):
            found[place] = asked & piece.terms
    counts = Counter(chain.from_iterable(found.values()))
    weights = {term: (len(pieces) // count).bit_length() for term, count in counts.items()}
    values: dict[int, int] = {}
    for place, terms in found.items():
        value = _VALUE_UNITS * sum(weights[term] for term in terms)
        for at in range(max(0, place - _LINES_BEFORE), min(len(pieces), place + _LINES_AFTER + 1)):
            values[at] = max(values.get(at, 0), value // (1 + abs(at - place)))
    return values


@once_per_item
def _pieces(item: Item) -> list[list[ExcerptPiece]]:
    """Return the lines of each text of an item, and long ones in pieces."""
    found = []
    for text in _texts(item.content):
        pieces = []
        for line in text.splitlines(keepends=True):
            if len(line) <= _LONG_LINE:
                parts = [line]
            else:
                parts = _PART.findall(line)
            pieces += [ExcerptPiece(part, frozenset(analyze(part))) for part in parts]
        found.append(pieces)
    return found


def _joined(pieces: Sequence[ExcerptPiece], kept: Collection[int]) -> str:
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
    if len(gap) < _LEAST_GAP:
        return gap
    return f"{left_out_note(len(gap))}\n"


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


def packed_shortened(packer: WindowPacker) -> Packing:
    """Return the packing of proposals whose required texts are shortened until they fit.

    Of a section that is too large for its own budget its texts alone are cut, else those of all
    sections: in each case to one length, the greatest that fits. Static sections stay as they are:
    half a system prompt may say the opposite of the whole.

    Raises:
        WindowTooSmallError: If not even the shortest texts fit.
    """
    cuttable = [spec.name for spec in packer.specs if spec.placement != "static"]
    limits: dict[str, int] = {}
    while True:
        try:
            return _cut(packer, limits).pack()
        except WindowTooSmallError as error:
            own = [name for name in cuttable if error.need.keys() == {name}]
            limits = _lowered(packer, own or cuttable, limits, error)


def _lowered(
    packer: WindowPacker,
    names: Sequence[str],
    limits: Mapping[str, int],
    error: WindowTooSmallError,
) -> dict[str, int]:
    """Return limits with the greatest common one for these sections without this error.

    Raises it where none is.
    """

    def with_limit(limit: int) -> dict[str, int]:
        lowered = {name: min(limit, limits.get(name, limit)) for name in names}
        return {**limits, **lowered}

    def is_too_long(limit: int) -> bool:
        try:
            _cut(packer, with_limit(limit)).pack()
        except WindowTooSmallError as other:
            return other.need.keys() == error.need.keys()
        return False

    longest = 0
    for name in names:
        for unit in packer.proposals[name].candidates:
            if unit.must:
                longest = max(longest, *(len(item.text) for item in unit.items))
    too_long = bisect_left(range(longest), True, key=is_too_long)
    if not too_long:
        raise error
    return with_limit(too_long - 1)


def _cut(packer: WindowPacker, limits: Mapping[str, int]) -> WindowPacker:
    """Return a packer whose required texts have at most so many characters, by section."""
    cut = dict(packer.proposals)
    ids = {*packer.shortened}
    for name, limit in limits.items():
        units = []
        for unit in cut[name].candidates:
            if unit.must:
                items = [shortened(item, limit, packer.costs.counter) for item in unit.items]
                pairs = zip(items, unit.items, strict=True)
                ids.update(item.id for item, whole in pairs if item is not whole)
                unit = with_items(unit, items)
            units.append(unit)
        cut[name] = replace(cut[name], candidates=tuple(units))
    return replace(packer, proposals=cut, shortened=frozenset(ids))


def shortened(
    item: Item,
    most: int,
    counter: TokenCounter,
) -> Item:
    """Return a copy of an item with texts of at most `most` characters beside their note.

    The note names the item as the whole. Calls and signed reasoning stay. If the copy has no fewer
    tokens, return the item itself.
    """
    whole = f"item {item.id}"
    content: Content
    if isinstance(item.content, str):
        content = cut_text(item.content, most, whole)
    else:
        content = tuple(_cut_block(block, most, whole) for block in item.content)
    if content == item.content:
        return item
    tokens = count_content(content, counter)
    if tokens < item.tokens:
        return replace(item, content=content, tokens=tokens)
    return item


def _cut_block(
    block: ContentBlock,
    most: int,
    whole: str,
) -> ContentBlock:
    match block:
        case ToolResultBlock():
            return cut_result(block, most, whole)
        case TextBlock() | DocumentBlock():
            return replace(block, text=cut_text(block.text, most, whole))
    return block
