"""Filling the shares that were granted: whole units, in order of want, until nothing more fits."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kaosmem.sections import Candidate, SectionSpec
from kaosmem.types import Item


@dataclass(slots=True)
class Share:
    """What one section may take of a window, while it is filled. All costs are in tokens as rendered.

    candidates: in order of want. size: what a candidate costs. header: what the section's header costs over that
    many items. cap: the most it may take; grant: what it is sure of. used, kept, count: tokens, units and items so far.
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
        """Return the candidates that are not in, in order of want."""
        kept = {candidate.rank for candidate in self.kept}
        return [candidate for candidate in self.candidates if candidate.rank not in kept]


def fit(shares: Iterable[Share], left: int, *, opening: int = 0) -> int:
    """Fill shares, best served first, and return what is left of `left` tokens.

    opening: what the first unit taken costs on top, where it opens the block that all the shares stand in.
    First each share is filled within its grant, then what whole units could not use of it goes on in the same order,
    so that in the end no unit left out fits in what remains of the window and of its share's cap.
    """
    shares = list(shares)
    for share in shares:
        left, opening = _fill(share, share.grant, left, opening)
    for share in shares:
        left, opening = _fill(share, share.cap, left, opening)
    return left


def _fill(share: Share, most: int, left: int, opening: int) -> tuple[int, int]:
    for candidate in share.left_out:
        # No piece of text counts less than the text, so what is too large need not be rendered to be counted.
        if candidate.tokens > min(most - share.used, left) and all(isinstance(i.content, str) for i in candidate.items):
            continue
        cost = share.cost(candidate)
        if share.used + cost <= most and cost + opening <= left:
            share.take(candidate, cost)
            left -= cost + opening
            opening = 0
    return left, opening
