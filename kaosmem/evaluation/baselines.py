"""Baselines: recency and BM25, packed in the usual ways."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kaosmem.errors import MissingExtraError
from kaosmem.evaluation.assemblers import Packer, Selection
from kaosmem.tokens import TokenCounter, get_counter

if TYPE_CHECKING:
    from kaosmem.evaluation.evidence import EvidenceItem

_WORD = re.compile(r"\w+")

Order: TypeAlias = Callable[[str], list[int]]
"""Says in which order a query wants the items, by place."""


class ItemLines:
    """Items as the baselines show them, each a line `role: text`, or the text alone, charged the line's tokens."""

    def __init__(self, items: Sequence[EvidenceItem], counter: TokenCounter | str | None = None) -> None:
        self._ids = [item.id for item in items]
        self._lines = [f"{item.role}: {item.text}\n" if item.role else f"{item.text}\n" for item in items]
        self._charges = get_counter(counter).count_many(self._lines)
        self._lightest = min(self._charges, default=0)

    def each_that_fits(self, places: Iterable[int], budget: int) -> Selection:
        """Return the items at these places, best first, each that fits the rest of the budget."""
        chosen, room = [], budget
        for place in places:
            if self._charges[place] <= room:
                chosen.append(place)
                room -= self._charges[place]
            elif room < self._lightest:
                break
        return self._selection(chosen, budget - room)

    def until_full(self, places: Iterable[int], budget: int) -> Selection:
        """Return the items at these places up to the first that does not fit."""
        chosen, room = [], budget
        for place in places:
            if self._charges[place] > room:
                break
            chosen.append(place)
            room -= self._charges[place]
        return self._selection(chosen, budget - room)

    def _selection(self, places: list[int], used: int) -> Selection:
        stored = sorted(places)
        text = "".join(self._lines[place] for place in stored)
        return Selection(tuple(self._ids[place] for place in stored), used, text)


@dataclass(frozen=True)
class RecencyAssembler:
    """The newest items until the next does not fit, without retrieval."""

    name: str = "recency"
    _: KW_ONLY
    counter: TokenCounter | str | None = None

    def load(self, items: Sequence[EvidenceItem]) -> Packer:
        """Count the items."""
        lines = ItemLines(items, self.counter)
        newest_first = range(len(items) - 1, -1, -1)

        async def pack(query: str, budget: int) -> Selection:
            return lines.until_full(newest_first, budget)

        return pack


@dataclass(frozen=True)
class RankBM25Assembler:
    """Items in order of their score by `rank_bm25.BM25Okapi` over lower-case words, each that still fits."""

    name: str = "rank-bm25"
    _: KW_ONLY
    counter: TokenCounter | str | None = None

    def load(self, items: Sequence[EvidenceItem]) -> Packer:
        """Count the items and build the model."""
        lines, order = ItemLines(items, self.counter), _okapi(items)

        async def pack(query: str, budget: int) -> Selection:
            return lines.each_that_fits(order(query), budget)

        return pack


@dataclass(frozen=True)
class OldestOutAssembler:
    """The best items by rank-bm25's score, of which the oldest are dropped until the rest fits.

    best: how many are retrieved.
    """

    name: str = "oldest-out"
    _: KW_ONLY
    best: int = 50
    counter: TokenCounter | str | None = None

    def load(self, items: Sequence[EvidenceItem]) -> Packer:
        """Count the items and build the model."""
        lines, order = ItemLines(items, self.counter), _okapi(items)

        async def pack(query: str, budget: int) -> Selection:
            newest_first = sorted(order(query)[: self.best], reverse=True)
            return lines.until_full(newest_first, budget)

        return pack


@dataclass(frozen=True)
class BM25SAssembler:
    """Items in order of their score by `bm25s.BM25` with its own tokenizer, each that still fits."""

    name: str = "bm25s"
    _: KW_ONLY
    counter: TokenCounter | str | None = None

    def load(self, items: Sequence[EvidenceItem]) -> Packer:
        """Count the items and build the index. Raises MissingExtraError."""
        try:
            import bm25s
        except ModuleNotFoundError:
            raise MissingExtraError("bm25s is compared by the extra 'bench': pip install 'kaosmem[bench]'") from None

        def terms(texts: list[str]) -> list[list[str]]:
            found: list[list[str]] = bm25s.tokenize(texts, return_ids=False, show_progress=False)
            return found

        lines, of_items = ItemLines(items, self.counter), terms([item.text for item in items])
        model = bm25s.BM25()
        if any(of_items):
            model.index(of_items, show_progress=False)

        async def pack(query: str, budget: int) -> Selection:
            (asked,) = terms([query])
            scores = model.get_scores(asked) if any(of_items) and asked else np.zeros(len(items))
            return lines.each_that_fits(_best_first(scores), budget)

        return pack


def _okapi(items: Sequence[EvidenceItem]) -> Order:
    from rank_bm25 import BM25Okapi

    terms = [_WORD.findall(item.text.lower()) for item in items]
    model = BM25Okapi(terms) if any(terms) else None  # it divides by the number of terms

    def order(query: str) -> list[int]:
        scores = model.get_scores(_WORD.findall(query.lower())) if model else np.zeros(len(items))
        return _best_first(scores)

    return order


def _best_first(scores: NDArray[np.floating]) -> list[int]:
    """Return the places of scores in descending order, the newest first of equals."""
    places: list[int] = (len(scores) - 1 - np.argsort(-scores[::-1], kind="stable")).tolist()
    return places
