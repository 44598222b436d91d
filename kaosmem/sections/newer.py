"""The later units of a section that correct its proposed ones, and must be shown with them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import TYPE_CHECKING

from kaosmem.sections.holdings import Holdings
from kaosmem.sections.lazy_index import LazyIndex
from kaosmem.sections.proposal import Candidate
from kaosmem.sections.spec import SectionSpec
from kaosmem.types import Item

if TYPE_CHECKING:
    from kaosmem.language.corrections import Corrections

_SMALL = 256
"""In a section of so many items, corrections are looked for among all of them."""
_SUBJECT_WORDS = 12
"""The words of the subjects that have changed which the index of a larger section is asked for."""
_FOLLOWED = 100
"""After so many units of a larger section, the next items are looked at too."""


class CorrectedBy(dict[int, tuple[int, ...]]):
    """The units that correct others, by first ordinal, oldest first. Units that nothing corrects are left out."""

    @property
    def units(self) -> Iterator[int]:
        """Yield the units that correct others."""
        return chain.from_iterable(self.values())

    def tied(self, candidates: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
        """Return candidates tied to those that correct them, and standing before them."""
        if not self:
            return candidates
        before = self._before()
        late = sorted((unit.items[0].valid_from, unit.position) for unit in candidates if unit.position in before)
        place = {position: place for place, (_, position) in enumerate(late)}
        return tuple(
            unit._replace(newer=self[at], before=before.get(at), place=place.get(at, unit.place))
            if (at := unit.position) in self
            else unit
            for unit in candidates
        )

    def _before(self) -> dict[int, int]:
        """Return the first of the units that correct a unit, or these, for units that were added later than it."""
        before: dict[int, int] = {}
        is_settled = False
        while not is_settled:
            is_settled = True
            for at, newer in self.items():
                first = min(before.get(each, each) for each in newer)
                if first < before.get(at, at):
                    before[at], is_settled = first, False
        return before


class Newer:
    """Finds the units that correct those that a section proposes."""

    def __init__(self, spec: SectionSpec, held: Holdings, index: LazyIndex) -> None:
        self._spec, self._held, self._index = spec, held, index

    def find(
        self, firsts: Iterable[int], scores: Mapping[int, float], *, among: Collection[int] | None = None
    ) -> CorrectedBy:
        """Return the units that correct some units, and those that correct these in turn.

        It is looked for among these units and those that the query ranks. If there is any, the index of a large
        section is asked for the words of their subjects too, since the query may name none of them.
        scores: of the units that the query ranks. among: the ordinals to choose from, None for all.
        """
        if not self._spec.corrections or self._spec.placement == "static":
            return CorrectedBy()
        from kaosmem.language.corrections import Corrections

        wanted, is_live, known = [*firsts], self._held.holds, self._held.known
        is_small = among is None and len(self._held) <= _SMALL
        pool = (
            self._held.newest_first() if is_small else filter(is_live, chain(wanted, scores, self._soon_after(wanted)))
        )
        evicted = {at: item for at in wanted if not is_live(at) and isinstance(item := known(at), Item)}
        corrections = Corrections(self._alone(pool) | evicted)
        found = self._closed(corrections, wanted)
        if found and scores and not is_small:
            words = corrections.words(sorted({*found, *found.units}), _SUBJECT_WORDS)
            more = self._index.synced().rank(" ".join(words), _SMALL, among=among)
            corrections.add(self._alone(filter(is_live, self._held.firsts(ordinal for ordinal, _ in more))))
            found = self._closed(corrections, wanted)
        return found

    def _closed(self, corrections: Corrections, firsts: Iterable[int]) -> CorrectedBy:
        """Return the units that correct units, and those that correct these in turn.

        Evicted units are shown before live ones, so they correct evicted ones alone.
        """
        found = CorrectedBy()
        left, is_live = [*firsts], self._held.holds
        looked_at: set[int] = set()
        for first in left:
            if first in looked_at:
                continue
            looked_at.add(first)
            own = corrections.of(first)
            if own := tuple(each for each in own if is_live(each) or not is_live(first)):
                found[first] = own
                left += own
        return found

    def _soon_after(self, firsts: Iterable[int]) -> list[int]:
        """Return the live items soon after the best units that say that they correct something."""
        from kaosmem.language.corrections import NEAR, is_explicit

        held = self._held
        near = {at for first in islice(firsts, _FOLLOWED) for at in range(first + 1, first + NEAR + 1)}
        return held.firsts(at for at in near if held.holds(at) and is_explicit(held[at]))

    def _alone(self, firsts: Iterable[int]) -> dict[int, Item]:
        """Return the live units of one item, by first ordinal."""
        held = self._held
        return {first: held[first] for first in firsts if held.all_alone or len(held.units.members(first)) == 1}
