"""A section's live items and its archive, changed together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import wraps
from threading import RLock
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from kaosmem.errors import CorruptionError, InvalidArgumentError
from kaosmem.memos import clear_memos
from kaosmem.sections.archive import Archive, Archived
from kaosmem.sections.holdings import Holdings
from kaosmem.sections.lazy_index import LazyIndex
from kaosmem.sections.past import EvictedItem
from kaosmem.sections.spec import SectionSpec
from kaosmem.sections.substitution import Replaced, Substitution
from kaosmem.types import Item, JSONValue, StoredItem

if TYPE_CHECKING:
    from kaosmem.retrieval import Ranker

_COUNTS = ("taken", "updates", "clock", "archived", "evicted")
"""The counts in a stored state."""


P = ParamSpec("P")
T = TypeVar("T")


def _under_lock(method: Callable[Concatenate[Ledger, P], T]) -> Callable[Concatenate[Ledger, P], T]:
    """Return a method during which no other thread looks at the holdings or chooses items to index."""

    @wraps(method)
    def locked(self: Ledger, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with self.lock:
            return method(self, *args, **kwargs)

    return locked


class Ledger:
    """Holdings, the archive of versions that have left them and the index: a change is carried out in all three.

    A change was decided before, just now or when it was entered in a journal.
    removed: ids of the items that were removed, not evicted, since the section was read.
    lost: the reasons why evicted items can no longer be recalled.
    """

    def __init__(
        self,
        spec: SectionSpec,
        *,
        held: Holdings | None = None,
        archive: Archive | None = None,
        ranker: Ranker | None = None,
    ) -> None:
        self.spec = spec
        self.ranker = ranker
        self.held = Holdings(spec) if held is None else held
        self.archive = Archive() if archive is None else archive
        self.removed: set[str] = set()
        self.lost: list[CorruptionError] = []
        self.lock = RLock()
        self.index = LazyIndex(spec.ranker or ranker, self.held, self.lock)

    @classmethod
    def restore(
        cls,
        spec: SectionSpec,
        state: Mapping[str, JSONValue],
        entries: Iterable[Mapping[str, JSONValue] | StoredItem],
        *,
        archive: Archive | None = None,
        ranker: Ranker | None = None,
    ) -> Ledger:
        """Return a ledger that goes on where another one was when it gave its state and its holdings' entries.

        archive: versions that have left it and are still in memory; without it, archive files hold all.
        Raises InvalidArgumentError, KeyError, TypeError for a state that no ledger gave.
        """
        state = {"updates": 0, "returned": [], **state}  # which were not kept at first
        counts = *(state[name] for name in _COUNTS), *state["returned"]
        if not all(type(count) is int and count >= 0 for count in counts):
            raise InvalidArgumentError("a section's state has a count that is none")
        archive = Archive(on_disk=state["archived"]) if archive is None else archive
        held = Holdings.restore(spec, state, entries)
        held.past.returned.update(state["returned"])
        if spec.recalls:
            _recall(held, archive.in_memory())
            held.past.expect(state["evicted"])
        return cls(spec, held=held, archive=archive, ranker=ranker)

    def state(self) -> dict[str, JSONValue]:
        """Return the state that `restore` needs beside the entries, as JSON values."""
        held = self.held
        past = self.held.past
        counts = {
            "taken": held.taken,
            "updates": held.updates,
            "clock": held.clock,
            "asking": held.units.asking,
        }
        returned = {"returned": sorted(past.returned)} if past.returned else {}
        return {
            **counts,
            "archived": len(self.archive),
            "evicted": past.unloaded + len(past),
            **returned,
        }

    def inherit(self, other: Ledger, shared: int) -> None:
        """Take the loaded texts and the index of another ledger with the same first `shared` items."""
        self.held.past.keeps_texts = other.held.past.keeps_texts
        with other.index.asking:
            if shared and self.spec.recalls and self.held.past.unloaded:
                _inherit(self.held, other.held, shared)
            self.index.inherit(other.index, shared)

    @_under_lock
    def start_again(
        self,
        state: Mapping[str, JSONValue],
        entries: Iterable[Mapping[str, JSONValue]],
        archived: Iterable[Archived],
    ) -> None:
        """Take a state and entries in place of all that is held, and versions into the archive."""
        for version in archived:
            self.archive.put(version)
        other = Ledger.restore(self.spec, state, entries, archive=self.archive, ranker=self.ranker)
        other.index.inherit(self.index, 0)
        other.held.past.keeps_texts = self.held.past.keeps_texts
        self.held = other.held
        self.removed = other.removed
        self.lock = other.lock
        self.index = other.index

    @_under_lock
    def add(self, item: Item, evicted: Sequence[str]) -> None:
        """Take a new item in, after evicting others."""
        self.removed.discard(item.id)
        if evicted != []:
            self.evict(evicted, successor=item)
        self.held.put(item)

    @_under_lock
    def update(
        self, item: Item, evicted: Iterable[str], at: datetime | None, *, is_version: bool = True
    ) -> None:
        """Put an item in the place of the live one with its id, after evicting others.

        at: when this was decided, None if that is not known.
        is_version: whether the item before goes to the archive.
        """
        self.evict(evicted, successor=item)
        ordinal = self.held.ordinal(item.id)
        if is_version:
            self.archive.put(Archived(self.held[ordinal], ordinal=ordinal, corrected=at))
        self.held.replace(ordinal, item)
        self.index.changed(ordinal)

    @_under_lock
    def evict(self, item_ids: Iterable[str], *, successor: Item | None = None) -> None:
        """Move whole units to the archive; they may be recalled.

        Raises NotFoundError, InvalidArgumentError.

        successor: the item that is about to come, which supersedes the item with its key.
        """
        ordinals = [self.held.ordinal(item_id) for item_id in item_ids]
        ends = {ordinal: end for ordinal in ordinals if (end := self._end(ordinal, successor))}
        if self.spec.recalls:
            firsts = self.held.units.firsts(ordinals)
            for ordinal, first, item in zip(
                ordinals, firsts, self.held.evict(ordinals), strict=True
            ):
                updated = self.held.updated.get(ordinal, 0)
                ended = ends.get(ordinal)
                self.archive.put(
                    Archived(item, ordinal, first, updated, ordinal=ordinal, ended=ended)
                )
            self.held.past.ended.update(
                (ordinal, valid_until) for ordinal, (valid_until, _) in ends.items()
            )
        else:
            for ordinal, item in zip(ordinals, self.held.take(ordinals), strict=True):
                self.archive.put(Archived(item, ordinal=ordinal, ended=ends.get(ordinal)))
            self.index.removed(ordinals)

    @_under_lock
    def restored(self, item: Item, valid_until: datetime | None) -> None:
        """Take an item in as it once was: live, or evicted if it has stopped to hold by now."""
        ordinal = self.held.put(item)
        if valid_until is not None:
            if self.spec.recalls and not self.held.units.ties(ordinal):
                self.evict((item.id,))
                self.held.past.ended[ordinal] = valid_until
            else:
                self.remove(item.id)

    def _end(self, ordinal: int, successor: Item | None) -> tuple[datetime, datetime] | None:
        """Return when an item that leaves is superseded, and when that was told; None if it is only evicted."""
        item = self.held.undecoded(ordinal)
        if item.key is None:
            return None
        live = self.held.keyed.get(item.key)
        if live is not None and live != ordinal:
            successor = self.held[live]
        if successor is None or successor.key != item.key or successor.id == item.id:
            return None
        return successor.valid_from, successor.created_at

    @_under_lock
    def remove(
        self, item_id: str, at: datetime | None = None, *, corrected: datetime | None = None
    ) -> None:
        """Move one item to the archive.

        at: when this was decided, None if that is not known.
        corrected: when an update took its place, whose text is lost.
        """
        self.removed.add(item_id)
        ordinal = self.held.ordinal(item_id)
        (item,) = self.held.take((ordinal,))
        self.archive.put(
            Archived(item, ordinal=ordinal, ended=(at, at) if at else None, corrected=corrected)
        )
        self.index.removed((ordinal,))

    @_under_lock
    def compact(self, change: Substitution) -> None:
        """Let items take the places of others, which go to the archive.

        Raises InvalidArgumentError.
        """
        held = self.held
        replaced = {at: held[at] for at in map(held.ordinal, change.replaced)}
        taken_over = {held.ordinal(place): item for place, item in change.items}
        new_ids = {item.id for item in taken_over.values() if item.id not in held.ordinals}
        if len(new_ids) < len(change.items) or not taken_over.keys() <= replaced.keys():
            raise InvalidArgumentError(
                "an item takes a place that is not free, or has the id of another one"
            )
        leaving = replaced.keys() - taken_over
        # Whole units may be recalled, but no summary beside the items that it stands for.
        original = {at for at in leaving if self.spec.recalls and not Replaced.by(replaced[at])}
        units = map(held.units.members, dict.fromkeys(held.units.firsts(sorted(original))))
        recallable = {at for unit in units if original.issuperset(unit) for at in unit}
        for ordinal, item in replaced.items():
            if ordinal not in recallable:
                place = ordinal, held.units.first(ordinal)
                self.archive.put(Archived(item, replaced_at=place, ordinal=ordinal))
        self.evict(replaced[ordinal].id for ordinal in sorted(recallable))
        rest = sorted(leaving - recallable)
        held.take(rest)
        self.index.removed(rest)
        for ordinal, item in taken_over.items():
            held.replace(ordinal, item)
            self.index.changed(ordinal)

    def has_places(self, item_ids: Iterable[str], versions: Sequence[Archived]) -> bool:
        """Return whether versions can come back to their places once these items have left."""
        held = self.held
        free = {held.ordinal(item_id) for item_id in item_ids}
        places = {
            version.place[0]
            for version in versions
            if version.place and version.item.id not in held.ordinals
        }
        return len(places) == len(versions) and all(
            at in free or (at < held.taken and at not in held) for at in places
        )

    @_under_lock
    def expand(self, item_ids: Iterable[str], versions: Sequence[Archived]) -> None:
        """Let versions come back to their places, once these items have gone to the archive."""
        held = self.held
        items = {
            place[0]: (place[1], version.item) for version in versions if (place := version.place)
        }
        for item_id in item_ids:
            self.remove(item_id)
        evicted = sum(version.position is not None for version in versions)
        self.index.removed(held.past.give_back(items, evicted))
        held.bring_back(items)
        self.index.came_back(items)

    def forget(self, item_ids: Collection[str], *, archived: int, evicted: int) -> None:
        """Erase all versions of items. Archive files hold the versions beyond those in memory."""
        with self.lock:
            held = [
                self.held.ordinal(item_id) for item_id in item_ids if item_id in self.held.ordinals
            ]
            past = self.held.past.ordinals(item_ids)
            self.held.take(held)
            self.held.past.forget(past, evicted)
            self.held.purge()
            self.index.removed((*held, *past))
            self.archive.forget(item_ids, archived)
            self.removed -= {*item_ids}
        clear_memos()

    def known_versions(
        self, item_ids: Iterable[str], stored: Iterable[Archived]
    ) -> tuple[list[str], int, int]:
        """Return the ids of the known items among these, and how many versions of them are archived and evicted.

        stored: the versions that archive files hold and that are not in memory.
        """
        wanted = frozenset(item_ids)
        past = self.held.past
        versions = [each for each in (*stored, *self.archive.in_memory()) if each.item.id in wanted]
        evicted = past.ordinals(wanted)
        known = self.held.ordinals.keys() & wanted | {past[ordinal].id for ordinal in evicted}
        known |= {version.item.id for version in versions}
        evicted |= {
            version.position for version in versions if version.position is not None
        } - past.returned
        return sorted(known), len(versions), len(evicted)

    @_under_lock
    def load(self, versions: Iterable[Archived | EvictedItem]) -> None:
        """Take in all that archive files hold, so that evicted items can be recalled.

        Raises InvalidArgumentError for items that cannot have been evicted; then nothing has
        changed.
        """
        self.index.came_back(_recall(self.held, versions))
        self.held.past.expect(len(self.held.past))

    @_under_lock
    def let_go(self, evicted: Iterable[EvictedItem]) -> None:
        """Keep no text of those evicted items that these files hold now."""
        for each in evicted:
            self.held.past.place(each)

    @_under_lock
    def take_in(self, read: Mapping[EvictedItem, Item | CorruptionError]) -> None:
        """Take in the texts that a proposal needs; a unit whose text could not be read can no longer be recalled."""
        past = self.held.past
        past.texts.update(
            (evicted, item) for evicted, item in read.items() if isinstance(item, Item)
        )
        self.index.read(evicted.position for evicted in read)
        failed = {each: error for each, error in read.items() if isinstance(error, CorruptionError)}
        lost = {at for each in failed for at in past.members(past.first(each.position))}
        if lost:
            past.forget(lost)
            self.index.removed(lost)
        said = {*map(str, self.lost)}
        self.lost += {
            str(error): error for error in failed.values() if str(error) not in said
        }.values()

    @_under_lock
    def recount(self, count: Callable[[Item], int]) -> None:
        """Measure all items anew, for another token counter."""
        self.held.recount(count)
        self.archive.recount(count)


def _recall(held: Holdings, versions: Iterable[Archived | EvictedItem]) -> Collection[int]:
    """Keep in `past` the items that were evicted earlier and are not there yet, and return their ordinals.

    Raises InvalidArgumentError for items that cannot have been evicted; then nothing has changed.
    """
    past = held.past
    found = {
        at: version
        for version in versions
        if (at := version.position) is not None and at not in past and at not in past.returned
    }
    if max(found, default=-1) >= held.taken or any(map(held.__contains__, found)):
        raise InvalidArgumentError("an evicted item is out of its place")
    held.updated |= {at: version.updated for at, version in found.items() if version.updated}
    past.ended |= {at: version.valid_until for at, version in found.items() if version.valid_until}
    past.put_all(
        {at: version.item for at, version in found.items()},
        {
            at: unit
            for at, version in found.items()
            if (unit := version.unit) is not None and unit != at
        },
    )
    return found.keys()


def _inherit(held: Holdings, other: Holdings, shared: int) -> None:
    """Keep in `past` the items that another has there of the first `shared` ones, which both have in common."""
    past = held.past
    evicted = past.unloaded + len(past)
    for unit in other.past.units():
        if max(unit) < shared and not any(
            at in past or at in held or at in past.returned for at in unit
        ):
            past.put(unit)
            past.ended.update((at, end) for at in unit if (end := other.past.ended.get(at)))
            if past.keeps_texts:
                past.texts.update(
                    (each, other.past.texts[each])
                    for each in unit.values()
                    if each in other.past.texts
                )
    past.expect(evicted)
