"""Shortening of texts that do not fit: the longest ones, in the middle, as little as possible."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TypeVar

from kaosmem.assembly.allocation import items_of
from kaosmem.errors import WindowTooSmallError
from kaosmem.sections import Candidate
from kaosmem.sections.proposal import Proposal
from kaosmem.sections.spec import SectionSpec
from kaosmem.tokens import count_content
from kaosmem.tokens.counters import TokenCounter
from kaosmem.types import ContentBlock
from kaosmem.types.content import DocumentBlock, TextBlock, ToolResultBlock, block_text
from kaosmem.types.items import Item

P = TypeVar("P")

# A limit is looked for until it is known to this share of itself, a text's length in so many
# counts.
_PRECISION = 64
_COUNTS = 4


@dataclass(frozen=True)
class Shortened:
    """Proposals in which some items are shortened copies. ids: of these."""

    proposals: Mapping[str, Proposal]
    ids: frozenset[str] = frozenset()


class Shortener:
    """Shortens the texts that must be shown until they can be packed.

    Of a section that is too large for its own budget its texts alone are cut, else those of all
    sections: in each case to one length, about the greatest that fits. Static sections stay as they
    are: half a system prompt may say the opposite of the whole.
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
        limits = {name: self._longest(name) for name in self._cuttable}
        while True:
            try:
                return pack(self._cut(limits))
            except WindowTooSmallError as error:
                own = [name for name in self._cuttable if error.need.keys() == {name}]
                limits |= self._limits(own or self._cuttable, limits, pack, error)

    def _limits(
        self,
        names: Sequence[str],
        limits: Mapping[str, int],
        pack: Callable[[Shortened], object],
        error: WindowTooSmallError,
    ) -> dict[str, int]:
        """Return a common limit for these sections, about the greatest without this error.

        Raises it where none is.
        """

        def lowered(limit: int) -> dict[str, int]:
            return {name: min(limit, limits[name]) for name in names}

        def remains(limit: int) -> bool:
            try:
                pack(self._cut({**limits, **lowered(limit)}))
            except WindowTooSmallError as other:
                return other.need.keys() == error.need.keys()
            return False

        fits = 0
        too_long = max((limits[name] for name in names), default=0)
        if not too_long or remains(0):
            raise error
        while too_long - fits > 1 + fits // _PRECISION:
            middle = (fits + too_long) // 2
            if remains(middle):
                too_long = middle
            else:
                fits = middle
        return lowered(fits)

    def _longest(self, name: str) -> int:
        required = items_of(unit for unit in self._proposals[name].candidates if unit.must)
        return max((item.tokens for item in required), default=0)

    def _cut(self, limits: Mapping[str, int]) -> Shortened:
        """Return proposals in which no required text is longer than its section's limit."""
        cut = dict(self._proposals)
        ids = set()
        for name, limit in limits.items():
            proposal = self._proposals[name]
            units = [self._unit(unit, limit) for unit in proposal.candidates]
            cut[name] = replace(proposal, candidates=tuple(units))
            before = items_of(proposal.candidates)
            for was, item in zip(before, items_of(units), strict=True):
                if was is not item:
                    ids.add(item.id)
        return Shortened(cut, frozenset(ids))

    def _unit(self, unit: Candidate, limit: int) -> Candidate:
        if not unit.must or all(item.tokens <= limit for item in unit.items):
            return unit
        items = tuple(self._item(item, limit) for item in unit.items)
        return unit._replace(items=items, tokens=sum(item.tokens for item in items))

    def _item(self, item: Item, limit: int) -> Item:
        """Return a copy in about `limit` tokens; the item itself where cutting gains nothing."""
        if item.tokens <= limit:
            return item
        if isinstance(item.content, str):
            text = self._text(item.content, item.tokens, limit, item.id)
            return (
                item
                if text is item.content
                else replace(item, content=text, tokens=self._counter(text))
            )
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

    def _block(self, block: ContentBlock, size: int, limit: int, item_id: str) -> ContentBlock:
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

    def _text(self, text: str, tokens: int, limit: int, item_id: str) -> str:
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


def shortened(item: Item, limit: int, *, counter: TokenCounter) -> Item:
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
