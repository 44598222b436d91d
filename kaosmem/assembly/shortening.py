"""Shortening of texts that do not fit: the longest ones, in the middle, as little as possible."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from kaosmem.errors import WindowTooSmallError
from kaosmem.sections.proposal import Proposal
from kaosmem.sections.spec import SectionSpec
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

P = TypeVar("P")


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
                    longest = max(longest, *(len(item.text) for item in unit.items))
        too_long = bisect_left(range(longest), True, key=is_too_long)
        if not too_long:
            raise error
        return with_limit(too_long - 1)

    def _cut(self, limits: Mapping[str, int]) -> Shortened:
        """Return proposals whose required texts have at most so many characters, by section."""
        cut = dict(self._proposals)
        ids: set[str] = set()
        for name, limit in limits.items():
            units = []
            for unit in self._proposals[name].candidates:
                if unit.must:
                    items = tuple(
                        shortened(item, limit, counter=self._counter) for item in unit.items
                    )
                    pairs = zip(items, unit.items, strict=True)
                    ids.update(item.id for item, whole in pairs if item is not whole)
                    unit = unit._replace(items=items, tokens=sum(item.tokens for item in items))
                units.append(unit)
            cut[name] = replace(self._proposals[name], candidates=tuple(units))
        return Shortened(cut, frozenset(ids))


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
