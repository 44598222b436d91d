"""The versions of a section's keys, as a question is shown them.

A question about now gets the current version of each key. A question about the past gets the version that held then,
together with the current one, both labelled with their intervals.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from kaosmem.sections.holdings import Holdings
from kaosmem.sections.proposal import Candidate, is_found, shown_with_interval
from kaosmem.types import Item, Version

if TYPE_CHECKING:
    from kaosmem.language.past_cues import PastQuestion


class ShownVersions:
    """Puts the versions of keys into the order of want of one proposal, and labels its candidates.

    question: None asks about now. ranked: scores of the units that match the question's words, by first
        ordinal. If there are any, the question asks for the versions of these alone.
    """

    def __init__(self, held: Holdings, question: PastQuestion | None, ranked: Mapping[int, float]) -> None:
        self._held, self._question, self._ranked = held, question, ranked
        self._known: dict[str, list[Version[int]]] = {}
        self._after: dict[int, tuple[int, int]] = {}  # first of a replaced unit -> first of its successor's, its place
        self._asked: set[int] = set()  # ordinals of the versions that are shown with their intervals

    def order(self, firsts: Iterable[int]) -> Iterator[int]:
        """Yield units in order, each once; replaced versions only where the question asks for them.

        A replaced version follows the unit that must be shown with it, and brings it along.
        """
        if not self._held.past.has_keys:
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
            for _, key in keyed if first in self._ranked or not self._ranked else ():
                yield from self._asked_for(key)
        elif len(replaced) == 1:
            (key,) = replaced
            current = self._of(key)[-1].item
            found = (
                self._members(first)
                if is_found(self._ranked.get(first), self._ranked.get(self._first(current)))
                else ()
            )
            asked = list(self._asked_for(key, found))
            if asked:
                yield self._first(current)
                yield from asked

    def _asked_for(self, key: str, found: Collection[int] = ()) -> Iterator[int]:
        """Yield the units of the past versions that the question asks for."""
        if self._question is None or not (versions := self._of(key))[-1].is_current:
            return
        current = versions[-1].item
        for version in self._question.choose(versions, found):
            first = self._first(version.item)
            if sum(self.is_replaced(*each) for each in self._keyed(first)) == 1:
                self._after[first] = self._first(current), versions.index(version)
                self._asked |= {current, version.item}
                yield first

    def is_replaced(self, ordinal: int, key: str | None = None) -> bool:
        """Return whether another version has replaced an item, or it was removed as an older version."""
        if key is None and (key := self._held.undecoded(ordinal).key) is None:
            return False
        if ordinal in self._held.past.ended:
            return True
        if (live := self._held.keyed(key)) is not None:
            return live != ordinal
        newest = self._of(key)[-1]
        return newest.item != ordinal or not newest.is_current

    def labelled(self, units: Iterable[Candidate]) -> tuple[Candidate, ...]:
        """Return candidates with the intervals of their versions, replaced versions tied to their successors.

        A required version has no interval: required items do not depend on the question.
        """
        return tuple(self._labelled(unit) for unit in units) if self._asked else tuple(units)

    def _labelled(self, unit: Candidate) -> Candidate:
        members = self._members(unit.position)
        if unit.must or self._asked.isdisjoint(members):
            return unit
        items = tuple(self._with_interval(item, at) for item, at in zip(unit.items, members, strict=True))
        successor, place = self._after.get(unit.position, (None, 0))
        return unit._replace(items=items, successor=successor, place=place)

    def _with_interval(self, item: Item, ordinal: int) -> Item:
        if ordinal not in self._asked or item.key is None:
            return item
        versions = self._of(item.key)
        place = next(place for place, version in enumerate(versions) if version.item == ordinal)
        return shown_with_interval(item, versions, place)

    def _of(self, key: str) -> list[Version[int]]:
        if key not in self._known:
            self._known[key] = self._held.versions(key)
        return self._known[key]

    def _keyed(self, first: int) -> list[tuple[int, str]]:
        found = ((ordinal, self._held.undecoded(ordinal).key) for ordinal in self._members(first))
        return [(ordinal, key) for ordinal, key in found if key is not None]

    def _members(self, first: int) -> Sequence[int]:
        past, units = self._held.past, self._held.units
        return past.members(first) if first in past else units.members(first)

    def _first(self, ordinal: int) -> int:
        return self._held.firsts((ordinal,))[0]
