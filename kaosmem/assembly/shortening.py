"""Shortening of texts that do not fit: the longest ones, in the middle, as little as possible."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TypeVar

from kaosmem.errors import WindowTooSmallError
from kaosmem.sections.proposal import Proposal
from kaosmem.sections.spec import SectionSpec
from kaosmem.tokens import count_content
from kaosmem.tokens.counters import TokenCounter
from kaosmem.types import ContentBlock
from kaosmem.types.content import DocumentBlock, TextBlock, ToolResultBlock, block_text
from kaosmem.types.items import Item

P = TypeVar("P")

_COUNTS = 4
"""A text is counted so many times at most, to find where to cut it."""


@dataclass(frozen=True)
class Shortened:
    """Proposals in which some items are shortened copies. ids: of these."""

    proposals: Mapping[str, Proposal]
    ids: frozenset[str] = frozenset()


class Shortener:
    """Shortens the texts that must be shown until they can be packed.

    Of a section that is too large for its own budget its texts alone are cut, else those of all
    sections: in each case to one length, the greatest that fits. Static sections stay as they are:
    half a system prompt may say the opposite of the whole.
    """

    def __init__(
        self,
        specs: Iterable[SectionSpec],
        proposals: Mapping[str, Proposal],
        *,
        counter: TokenCounter,
    ) -> None:
        self._proposals = proposals
        self._counter = counter
        self._cuttable = [spec.name for spec in specs if spec.placement != "static"]
        self._sizes = cache(self._block_sizes)

    def packed(self, pack: Callable[[Shortened], P]) -> P:
        """Return the packing of the proposals, shortened as far as necessary.

        Args:
            pack: Raises WindowTooSmallError for more than fits. Raises it too where not even the
                shortest would do.
        """
        limits: dict[str, int] = {}
        while True:
            try:
                return pack(self._cut(limits))
            except WindowTooSmallError as error:
                own = [name for name in self._cuttable if error.need.keys() == {name}]
                limits = self._lowered(own or self._cuttable, limits, pack, error)

    def _lowered(
        self,
        names: Sequence[str],
        limits: Mapping[str, int],
        pack: Callable[[Shortened], object],
        error: WindowTooSmallError,
    ) -> dict[str, int]:
        """Return limits with the greatest common one for these sections without this error.

        Raises it where none is.
        """

        def with_limit(limit: int) -> dict[str, int]:
            return {**limits, **{name: min(limit, limits.get(name, limit)) for name in names}}

        def is_too_long(limit: int) -> bool:
            try:
                pack(self._cut(with_limit(limit)))
            except WindowTooSmallError as other:
                return other.need.keys() == error.need.keys()
            return False

        longest = 0
        for name in names:
            for unit in self._proposals[name].candidates:
                if unit.must:
                    longest = max(longest, *(item.tokens for item in unit.items))
        too_long = bisect_left(range(longest), True, key=is_too_long)
        if not too_long:
            raise error
        return with_limit(too_long - 1)

    def _cut(self, limits: Mapping[str, int]) -> Shortened:
        """Return proposals in which no required text is longer than its section's limit."""
        cut = dict(self._proposals)
        ids: set[str] = set()
        for name, limit in limits.items():
            units = []
            for unit in self._proposals[name].candidates:
                if unit.must:
                    items = tuple(self._item(item, limit) for item in unit.items)
                    pairs = zip(items, unit.items, strict=True)
                    ids.update(item.id for item, whole in pairs if item is not whole)
                    unit = unit._replace(items=items, tokens=sum(item.tokens for item in items))
                units.append(unit)
            cut[name] = replace(self._proposals[name], candidates=tuple(units))
        return Shortened(cut, frozenset(ids))

    def _item(self, item: Item, limit: int) -> Item:
        """Return a copy in about `limit` tokens; the item itself where cutting gains nothing."""
        if item.tokens <= limit:
            return item
        if isinstance(item.content, str):
            text = self._text(item.content, item.tokens, limit, item.id)
            if text is item.content:
                return item
            return replace(item, content=text, tokens=self._counter(text))
        sizes = self._sizes(item.content)
        room = max(0, limit - (item.tokens - sum(sizes)))
        blocks = tuple(
            self._block(block, size, level, item.id)
            for block, size, level in zip(item.content, sizes, levelled(sizes, room), strict=True)
        )
        return replace(item, content=blocks, tokens=count_content(blocks, self._counter))

    def _block_sizes(self, blocks: tuple[ContentBlock, ...]) -> tuple[int, ...]:
        sizes = []
        for block in blocks:
            text = _cuttable_text(block)
            sizes.append(0 if text is None else self._counter(text))
        return tuple(sizes)

    def _block(
        self,
        block: ContentBlock,
        size: int,
        limit: int,
        item_id: str,
    ) -> ContentBlock:
        text = _cuttable_text(block)
        if text is None or size <= limit:
            return block
        shorter = self._text(text, size, limit, item_id)
        match block:
            case ToolResultBlock():
                return replace(block, content=shorter)
            case TextBlock() | DocumentBlock():
                return replace(block, text=shorter)
        return block

    def _text(
        self,
        text: str,
        tokens: int,
        limit: int,
        item_id: str,
    ) -> str:
        """Return the beginning and the end of a text around a note, or the note alone."""
        note = f"… shortened from {tokens:,} tokens; item {item_id} is the whole …"
        least = self._counter(note)
        if least >= tokens:
            return text
        shortest = note
        chars = len(text)
        kept = 0
        length = tokens + least
        for _ in range(_COUNTS):
            chars = int(chars * max(0, limit - least) / max(1, length - least))
            if not kept < chars < len(text):
                break
            begin = text[: chars - chars // 3].rstrip()
            end = text[len(text) - chars // 3 :].lstrip()
            cut = f"{begin}\n{note}\n{end}"
            length = self._counter(cut)
            if length <= limit:
                shortest = cut
                kept = chars
        return shortest


def shortened(
    item: Item,
    limit: int,
    *,
    counter: TokenCounter,
) -> Item:
    """Return a copy of an item in about `limit` tokens, with a note that names the whole.

    If its texts cannot be cut to fewer tokens, return the item itself.
    """
    return Shortener((), {}, counter=counter)._item(item, limit)


def levelled(sizes: Sequence[int], room: int) -> list[int]:
    """Return sizes cut to one level, so that they add up to at most `room`."""
    levels = [0] * len(sizes)
    left = room
    for rank, index in enumerate(sorted(range(len(sizes)), key=sizes.__getitem__)):
        levels[index] = min(sizes[index], left // (len(sizes) - rank))
        left -= levels[index]
    return levels


def _cuttable_text(block: ContentBlock) -> str | None:
    """Return the text of a block that may be cut, None for calls and signed reasoning."""
    match block:
        case TextBlock() | DocumentBlock():
            return block.text
        case ToolResultBlock(content=str(text)):
            return text
        case ToolResultBlock() if all(isinstance(part, TextBlock) for part in block.content):
            return block_text(block)
    return None
