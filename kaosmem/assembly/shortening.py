"""Shortening of texts that do not fit: the longest ones, in the middle, as little as possible."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import replace

from kaosmem.assembly.packing import Packing, WindowPacker
from kaosmem.errors import WindowTooSmallError
from kaosmem.tokens import count_content
from kaosmem.tokens.counters import TokenCounter
from kaosmem.types.content import (
    Content,
    ContentBlock,
    DocumentBlock,
    TextBlock,
    ToolResultBlock,
)
from kaosmem.types.cutting import cut_result, cut_text
from kaosmem.types.items import Item


class Shortener:
    """Shortens the texts that must be shown until they can be packed.

    Of a section that is too large for its own budget its texts alone are cut, else those of all
    sections: in each case to one length, the greatest that fits. Static sections stay as they are:
    half a system prompt may say the opposite of the whole.
    """

    def __init__(self, packer: WindowPacker) -> None:
        self._packer = packer
        self._cuttable = [spec.name for spec in packer.specs if spec.placement != "static"]

    def packed(self) -> Packing:
        """Return the packing of the proposals, shortened as far as necessary.

        Raises:
            WindowTooSmallError: If not even the shortest texts fit.
        """
        limits: dict[str, int] = {}
        while True:
            try:
                return self._cut(limits).pack()
            except WindowTooSmallError as error:
                own = [name for name in self._cuttable if error.need.keys() == {name}]
                limits = self._lowered(own or self._cuttable, limits, error)

    def _lowered(
        self,
        names: Sequence[str],
        limits: Mapping[str, int],
        error: WindowTooSmallError,
    ) -> dict[str, int]:
        """Return limits with the greatest common one for these sections without this error.

        Raises it where none is.
        """

        def with_limit(limit: int) -> dict[str, int]:
            return {**limits, **{name: min(limit, limits.get(name, limit)) for name in names}}

        def is_too_long(limit: int) -> bool:
            try:
                self._cut(with_limit(limit)).pack()
            except WindowTooSmallError as other:
                return other.need.keys() == error.need.keys()
            return False

        longest = 0
        for name in names:
            for unit in self._packer.proposals[name].candidates:
                if unit.must:
                    longest = max(longest, *(len(item.text) for item in unit.items))
        too_long = bisect_left(range(longest), True, key=is_too_long)
        if not too_long:
            raise error
        return with_limit(too_long - 1)

    def _cut(self, limits: Mapping[str, int]) -> WindowPacker:
        """Return a packer whose required texts have at most so many characters, by section."""
        cut = dict(self._packer.proposals)
        counter = self._packer.costs.counter
        ids = {*self._packer.shortened}
        for name, limit in limits.items():
            units = []
            for unit in cut[name].candidates:
                if unit.must:
                    items = tuple(shortened(item, limit, counter=counter) for item in unit.items)
                    pairs = zip(items, unit.items, strict=True)
                    ids.update(item.id for item, whole in pairs if item is not whole)
                    unit = unit._replace(items=items, tokens=sum(item.tokens for item in items))
                units.append(unit)
            cut[name] = replace(cut[name], candidates=tuple(units))
        return replace(self._packer, proposals=cut, shortened=frozenset(ids))


def shortened(
    item: Item,
    most: int,
    *,
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
    return replace(item, content=content, tokens=tokens) if tokens < item.tokens else item


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
