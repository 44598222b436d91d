"""The cutoffs of a packed window: where each section's share ended, and what an item lacked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from kaosmem.assembly.allocation import cap_of
from kaosmem.assembly.fitting import Share
from kaosmem.assembly.packing import Packing
from kaosmem.sections import Candidate


@dataclass(frozen=True, slots=True)
class Cutoff:
    """Where the share of one section ended.

    free: the tokens that neither its cap nor the window withheld from it at the end.
    lowest: the lowest score that is in, None if no ranked item is in. best_out: the highest score
        that is out.
    offered: the number of units that the section offered.
    """

    free: int
    lowest: float | None
    best_out: float | None
    offered: int


class Cutoffs:
    """The cutoffs of a packing, found when they are first asked for."""

    def __init__(self, packing: Packing) -> None:
        self._packing = packing

    @cached_property
    def by_section(self) -> Mapping[str, Cutoff]:
        """The cutoff of each section that offered a unit, in order of declaration."""
        packing = self._packing
        found = {}
        for spec in packing.packer.specs:
            used = packing.by_section[spec.name].used
            cap = cap_of(spec, packing.packer.window)
            units = self._units(spec.name)
            inside: list[float] = []
            outside: list[float] = []
            shown = self._shown(spec.name)
            for unit in units:
                if unit.score is not None:
                    (inside if unit.position in shown else outside).append(unit.score)
            found[spec.name] = Cutoff(
                max(0, min(self._left(spec.name), cap - used)),
                min(inside, default=None),
                max(outside, default=None),
                len(units),
            )
        return found

    def lacking(self, item_id: str) -> int | None:
        """Return how many more tokens would have let an item in, None if tokens did not decide."""
        place = self._places.get(item_id)
        if place is None:
            return None
        name, unit = place
        share = self._share(name)
        if unit.position in self._shown(name):
            return None
        if name in self._packing.tails and not _is_offered(share, unit):
            return self._lacking_in_history(name, unit)
        if share is None or unit.position in share.barred or share.is_duplicate(unit):
            return None
        tokens, _ = share.cost([unit])
        free = min(self._left(name), share.cap - share.used)
        return tokens - free if tokens > free else None

    def _left(self, name: str) -> int:
        """Return the tokens that the window, or the block of a window's turn, left to a section."""
        packing = self._packing
        left = packing.packer.window - packing.used
        limits = packing.packer.limits
        if limits is not None and name not in packing.tails:
            left = min(left, limits.block - sum(share.used for share in packing.block_shares))
        return left

    def _lacking_in_history(self, name: str, unit: Candidate) -> int:
        """Return the tokens from a message to the tail of its history, less those that are free."""
        shown = self._packing.tails[name].shown
        begin = min((each.position for each in shown), default=unit.position + 1)
        tokens = 0
        for each in self._packing.packer.proposals[name].candidates:
            if unit.position <= each.position < begin and not each.orphan:
                tokens += self._packing.packer.costs.entries(each)
        return max(1, tokens - self.by_section[name].free)

    @cached_property
    def _places(self) -> dict[str, tuple[str, Candidate]]:
        places: dict[str, tuple[str, Candidate]] = {}
        for spec in self._packing.packer.specs:
            for unit in self._units(spec.name):
                for item in unit.items:
                    places.setdefault(item.id, (spec.name, unit))
        return places

    def _units(self, name: str) -> Sequence[Candidate]:
        proposal = self._packing.packer.proposals[name]
        units = {unit.position: unit for unit in proposal.candidates}
        for unit in proposal.earlier:
            units[unit.position] = unit
        return list(units.values())

    def _share(self, name: str) -> Share | None:
        return self._packing.shares.get(name) or self._packing.recalled.get(name)

    def _shown(self, name: str) -> set[int]:
        share = self._share(name)
        shown = set() if share is None else {*share.taken}
        tail = self._packing.tails.get(name)
        if tail is not None:
            shown.update(unit.position for unit in tail.shown)
        return shown


def _is_offered(share: Share | None, unit: Candidate) -> bool:
    """Return whether a unit of a history could be recalled into the block."""
    if share is None:
        return False
    return any(each.position == unit.position for each in share.candidates)
