"""Units that are shown together: the versions of a key, and items with their corrections.

A question about now gets the current version of each key. A question about the past gets the
version that held then, together with the current one, both labelled with their intervals.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

from kaosmem.sections.item_table import ItemTable
from kaosmem.sections.keyed_versions import is_announced
from kaosmem.sections.proposal import Candidate, is_found
from kaosmem.types.items import Item
from kaosmem.types.versions import Interval, Version

if TYPE_CHECKING:
    from kaosmem.language.corrections import Corrections
    from kaosmem.language.query import Query
    from kaosmem.sections.ranking import DatedIndex

_MAX_SMALL_SECTION = 256
"""In a section of so many items, corrections are looked for among all of them."""
_MAX_UNITS_FOLLOWED = 100
"""After so many units of a larger section, the next items are looked at too."""
_SUBJECT_WORDS = 12
"""The words of the subjects that have changed which the index of a larger section is asked for."""


class _Place(NamedTuple):
    """The place of a version among all of its key, oldest first.

    is_announced: Whether one of them is yet to begin.
    """

    versions: Sequence[Version[int]]
    place: int
    is_announced: bool


class ShownVersions:
    """Puts the versions of keys into the order of want of one proposal, and labels its candidates.

    Args:
        query: The question, None for none.
        ranked: Scores of the units that match the question's words, by first ordinal. If there are
            any, the question asks for the versions of these alone.
    """

    def __init__(
        self,
        held: ItemTable,
        query: Query | None,
        ranked: Mapping[int, float],
    ) -> None:
        self._held = held
        self._query = query
        self._ranked = ranked
        self._of_key: dict[str, list[Version[int]]] = {}
        self._current_of: dict[str, int | None] = {}
        self._with_announced: set[str] = set()  # of these keys
        # By the first ordinal of the unit of another version than the current one: the first
        # ordinal of the current one's, its place, and whether it is yet to begin.
        self._tied: dict[int, tuple[int, int, bool]] = {}
        # The versions that are shown with their intervals, by ordinal.
        self._asked: dict[int, _Place] = {}

    def order(self, firsts: Iterable[int]) -> Iterator[int]:
        """Yield units in order, each once; replaced versions only where they are asked for.

        Another version than the current one follows the unit of that one, and brings it along.
        """
        keyed = self._held.keyed
        if not (keyed.evicted or keyed.ended or keyed.several):
            yield from firsts
            return
        yielded = set[int]()
        for first in firsts:
            for each in self._with_versions(first):
                if each not in yielded:
                    yielded.add(each)
                    yield each

    def _with_versions(self, first: int) -> Iterator[int]:
        keyed = self._keyed(first)
        replaced = [key for ordinal, key in keyed if self.is_replaced(ordinal, key)]
        if not replaced:
            yield first
            query = self._query
            if query is None or (self._ranked and first not in self._ranked):
                return
            for _, key in keyed:
                if query.past is not None or key in self._with_announced:
                    yield from self._asked_for(key)
        elif len(replaced) == 1:
            (key,) = replaced
            at = self._current(key)
            if at is None:
                return  # it was taken back, and there is no other
            current = self._first(at)
            found: Collection[int] = ()
            if is_found(self._ranked.get(first), self._ranked.get(current)):
                found = self._held.units.members(first)
            asked = list(self._asked_for(key, found))
            if asked:
                yield current
                yield from asked

    def _current(self, key: str) -> int | None:
        """Return the ordinal of the version that holds, of the newest one if none holds yet."""
        if key not in self._current_of:
            self._current_of[key] = self._find_current(key)
        return self._current_of[key]

    def _find_current(self, key: str) -> int | None:
        newest = self._held.keyed.newest(key)
        now = None if self._query is None else self._query.now
        if newest is None or now is None or not is_announced(self._held.known(newest), now):
            return newest
        self._with_announced.add(key)
        for version in self._of(key):
            if version.holds_at(now):
                return version.item
        return newest

    def _asked_for(self, key: str, found: Collection[int] = ()) -> Iterator[int]:
        """Yield the units of the other versions that the question asks for."""
        versions = self._of(key)
        if self._query is None or not versions[-1].is_current:
            return
        current = self._current(key)
        if current is None:
            return
        asked = self._query.versions_of(versions, found)
        places = {version.item: place for place, version in enumerate(versions)}
        is_ahead = current != versions[-1].item
        for version in (*asked, *versions[-1:]):
            if version.item == current:
                continue
            first = self._first(version.item)
            if sum(self.is_replaced(*each) for each in self._keyed(first)) == 1:
                place = places[version.item]
                self._tied[first] = self._first(current), place, place > places[current]
                for ordinal in (current, version.item):
                    self._asked[ordinal] = _Place(versions, places[ordinal], is_ahead)
                yield first

    def is_replaced(self, ordinal: int, key: str | None = None) -> bool:
        """Return whether an item is another version of its key than the current one.

        If all of them have ended, each is.
        """
        key = key or self._held.undecoded(ordinal).key
        if key is None:
            return False
        if ordinal in self._held.keyed.ended:
            return True
        if not self._held.keyed.live(key) and not self._of(key)[-1].is_current:
            return True
        return self._current(key) != ordinal

    def labelled(self, units: Iterable[Candidate]) -> tuple[Candidate, ...]:
        """Return candidates with the intervals of their versions, tied to the current ones.

        A required version has no interval: required items do not depend on the question. Only if
        the fact has a version that is yet to begin, its live versions always have theirs.
        """
        if not self._asked and not self._held.keyed.several:
            return tuple(units)
        announced = self._announced()
        return tuple(self._labelled(unit, announced) for unit in units)

    def _announced(self) -> dict[int, _Place]:
        """Return the live versions of facts of which one is yet to begin."""
        found = {}
        for key in self._held.keyed.several:
            versions = self._of(key)
            for place, version in enumerate(versions):
                if version.item in self._held:
                    found[version.item] = _Place(versions, place, True)
        return found

    def _labelled(self, unit: Candidate, announced: Mapping[int, _Place]) -> Candidate:
        members = self._held.units.members(unit.position)
        shown = announced if unit.must else {**self._asked, **announced}
        if shown.keys().isdisjoint(members):
            return unit
        items = []
        for ordinal, item in zip(members, unit.items, strict=True):
            if ordinal in shown:
                item = shown_with_interval(item, *shown[ordinal])
            items.append(item)
        unit = unit._replace(items=tuple(items))
        if unit.must or unit.position not in self._tied:
            return unit
        current, place, is_later = self._tied[unit.position]
        display_order = (current, int(is_later), place)
        return unit._replace(needs=(current,), is_replaced=True, display_order=display_order)

    def _of(self, key: str) -> list[Version[int]]:
        if key not in self._of_key:
            self._of_key[key] = self._held.keyed.versions(key)
        return self._of_key[key]

    def _keyed(self, first: int) -> list[tuple[int, str]]:
        found = []
        for ordinal in self._held.units.members(first):
            key = self._held.undecoded(ordinal).key
            if key is not None:
                found.append((ordinal, key))
        return found

    def _first(self, ordinal: int) -> int:
        return self._held.units.first(ordinal)


def shown_with_interval(
    item: Item, versions: Sequence[Version[int]], place: int, is_announced: bool
) -> Item:
    """Return the version at a place, oldest first, with the interval that its label says.

    The label of a first version says its begin only if the item states it.

    Args:
        is_announced: Whether one of the versions is yet to begin.
    """
    version = versions[place]
    is_stated = place > 0 or version.is_current or item.timestamp is not None
    begin = version.valid_from if is_stated else None
    return replace(item, interval=Interval(begin, version.valid_until, is_announced))


def find_corrections(
    held: ItemTable,
    index: DatedIndex | None,
    firsts: Iterable[int],
    scores: Mapping[int, float],
    *,
    among: Collection[int] | None,
) -> dict[int, tuple[int, ...]]:
    """Return the units that correct some units, and their own corrections, oldest first.

    They are under the first ordinal of the unit that they correct. They are looked for among these
    units and the units that the query ranks. If there is any, the index of a large section is asked
    for the words of their subjects too, since the query may name none of them.

    Args:
        scores: The scores of the units that the query ranks.
        among: The ordinals to choose from, None for all.
    """
    if not held.spec.corrections or held.spec.placement == "static":
        return {}
    from kaosmem.language.corrections import Corrections, may_take_part

    wanted = {}
    for first in firsts:
        item = held.read(first)
        if item is not None and may_take_part(item):
            wanted[first] = item
    if not wanted:
        return {}
    is_small = among is None and len(held) <= _MAX_SMALL_SECTION
    pool = {*held} if is_small else {*wanted, *scores, *_soon_after(held, wanted)}
    items = _alone_among(held, pool, among)
    for at, item in wanted.items():
        if at not in held:
            items[at] = item
    corrections = Corrections(items)
    found = _closed(corrections, wanted)
    if index is not None and found and scores and not is_small:
        changed = {*found, *chain.from_iterable(found.values())}
        words = " ".join(corrections.words(sorted(changed), _SUBJECT_WORDS))
        more = index.by_words(words, _MAX_SMALL_SECTION, among)
        corrections.add(_alone_among(held, {*more}, among))
        found = _closed(corrections, wanted)
    return found


def _alone_among(
    held: ItemTable, ordinals: set[int], among: Collection[int] | None
) -> dict[int, Item]:
    """Return the live items that stand alone: these may correct others or be corrected."""
    if among is not None:
        ordinals = ordinals.intersection(among)
    units = held.units
    return {at: held[at] for at in ordinals if at in held and units.is_alone(at)}


def _soon_after(held: ItemTable, firsts: Iterable[int]) -> set[int]:
    """Return the items soon after the best units that say that they correct something."""
    from kaosmem.language.corrections import CORRECTION_REACH, is_explicit

    near: set[int] = set()
    for first in islice(firsts, _MAX_UNITS_FOLLOWED):
        near.update(range(first + 1, first + CORRECTION_REACH + 1))
    return {at for at in near if at in held and is_explicit(held[at])}


def _closed(corrections: Corrections, firsts: Iterable[int]) -> dict[int, tuple[int, ...]]:
    """Return the units that correct units, and the corrections of these in turn."""
    found: dict[int, tuple[int, ...]] = {}
    left = [*firsts]
    looked_at: set[int] = set()
    for first in left:
        if first in looked_at:
            continue
        looked_at.add(first)
        own = corrections.of(first)
        if own:
            found[first] = own
            left += own
    return found


def in_order_of_time(
    candidates: tuple[Candidate, ...], corrected: Mapping[int, tuple[int, ...]]
) -> tuple[Candidate, ...]:
    """Return candidates that stand before their corrections, though they were added later.

    Args:
        corrected: The units that correct others, oldest first, by the first ordinal of the unit
            that they correct.
    """
    # By the position of a late unit, that of its first correction, also of its corrections.
    before: dict[int, int] = {}
    is_settled = False
    while not is_settled:
        is_settled = True
        for at, newer in corrected.items():
            first = min(before.get(each, each) for each in newer)
            if first < before.get(at, at):
                before[at] = first
                is_settled = False
    late = [unit for unit in candidates if unit.position in before]
    late.sort(key=lambda unit: (unit.items[0].valid_from, unit.position))
    places = {unit.position: place for place, unit in enumerate(late)}
    units = []
    for unit in candidates:
        at = unit.position
        if at in before and not unit.is_replaced:
            unit = unit._replace(display_order=(before[at], 0, places[at]))
        units.append(unit)
    return tuple(units)
