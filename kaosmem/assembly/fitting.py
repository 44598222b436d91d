"""Filling the shares that were granted: whole units, in order of want, until nothing more fits."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kaosmem.duplicates import Shown
from kaosmem.sections import Candidate, SectionSpec
from kaosmem.types import Item


@dataclass(slots=True)
class Share:
    """What one section may take of a window, while it is filled. All costs are in tokens as rendered.

    candidates: in order of want. size: what a candidate costs. header: what the section's header costs over that
    many items. cap: the most it may take; grant: what it is sure of. used, kept, count: tokens, units and items so far.
    twins: of items left out as near-duplicates, by id, the id of the one that is shown.
    """

    spec: SectionSpec
    candidates: tuple[Candidate, ...]
    size: Callable[[Candidate], int]
    header: Callable[[int], int]
    cap: int
    grant: int = 0
    used: int = 0
    kept: list[Candidate] = field(default_factory=list)
    count: int = 0
    twins: dict[str, str] = field(default_factory=dict)

    def cost(self, candidate: Candidate) -> int:
        """Return what it takes to add a candidate."""
        header_so_far = self.header(self.count) if self.count else 0
        return self.size(candidate) + self.header(self.count + len(candidate.items)) - header_so_far

    def want(self) -> int:
        """Return what all candidates would take, measured no further than past the cap."""
        want = self.header(1)
        for candidate in self.candidates:
            if want > self.cap:
                break
            want += self.size(candidate)
        return want

    def take(self, candidate: Candidate, cost: int) -> None:
        """Add a candidate at its cost."""
        self.used += cost
        self.count += len(candidate.items)
        self.kept.append(candidate)

    @property
    def items(self) -> list[Item]:
        """Return the items taken, units in stored order."""
        return [item for unit in sorted(self.kept, key=lambda unit: unit.position) for item in unit.items]

    @property
    def left_out(self) -> list[Candidate]:
        """Return the candidates that are neither in nor near-duplicates of what is, in order of want."""
        kept = {candidate.rank for candidate in self.kept}
        return [unit for unit in self.candidates if unit.rank not in kept and not self.is_duplicate(unit)]

    def is_duplicate(self, candidate: Candidate) -> bool:
        """Return whether a candidate was left out as a near-duplicate."""
        return candidate.items[0].id in self.twins


def fit(shares: Iterable[Share], left: int, *, opening: int = 0, shown: Shown | None = None) -> int:
    """Fill shares, best served first, and return what is left of `left` tokens.

    opening: what the first unit taken costs on top, where it opens the block that all the shares stand in.
    shown: what is shown so far, of which nothing is taken a near-duplicate; without it, nothing is left out as one.
    First each share is filled within its grant, then what whole units could not use of it goes on in the same order,
    so that in the end no unit left out fits in what remains of the window and of its share's cap.
    """
    shares = list(shares)
    for share in shares:
        left, opening = _fill(share, share.grant, left, opening, shown)
    for share in shares:
        left, opening = _fill(share, share.cap, left, opening, shown)
    return left


def _fill(share: Share, most: int, left: int, opening: int, shown: Shown | None) -> tuple[int, int]:
    for candidate in share.left_out:
        # No piece of text counts less than the text, so what is too large need not be rendered to be counted.
        if candidate.tokens > min(most - share.used, left) and all(isinstance(i.content, str) for i in candidate.items):
            continue
        cost = share.cost(candidate)
        if share.used + cost <= most and cost + opening <= left:
            if shown is not None and (twins := shown.admit(candidate.items)):
                share.twins |= {item.id: twin for item, twin in zip(candidate.items, twins, strict=True)}
                continue
            share.take(candidate, cost)
            left -= cost + opening
            opening = 0
    return left, opening
