"""The items of a section under their ordinals, live and evicted, in units. It decides nothing."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from itertools import islice, repeat
from typing import NamedTuple

from kaosmem.errors import InvalidArgumentError, NotFoundError
from kaosmem.filters import Grouping, MetadataFilter
from kaosmem.language.query import has_question_near_end
from kaosmem.names import shown
from kaosmem.sections.archive import (
    Archived,
    EvictedItem,
    EvictedItems,
    check_updated,
    parse_time,
)
from kaosmem.sections.eviction import EvictionStats, combined_stats
from kaosmem.sections.keyed_versions import KeyedVersion, KeyedVersions
from kaosmem.sections.ledger import Ledger
from kaosmem.sections.spec import SectionSpec
from kaosmem.types import JSONValue
from kaosmem.types.content import said_text
from kaosmem.types.items import Item, StoredItem
from kaosmem.units import Link, Units

_ITEMS_SEARCHED_FOR_FIELDS = 64
"""In so many of the newest items a field is looked for whose name is near that of a filter."""

_KEPT_TEXTS = 1_024
"""So many texts that were read of files stay in memory."""

_MOST_QUESTIONS = 3
"""So many user messages without a reply between them may be one question."""


class ChangeCounts(NamedTuple):
    """How far a section has changed: the number of items taken and of updates made so far."""

    taken: int
    updates: int


class ItemTable(EvictedItems):
    """The items of a section, each under an ordinal: the number of items taken before it.

    An item is live, or evicted and may be recalled. Its place in its unit stays when it is evicted.

    Attributes:
        spec: The spec of the section.
        used: The tokens of the live items.
        taken: Number of items ever taken, and so the ordinal of the next item.
        clock: Ticks of use so far. A new item counts as used at the last tick.
        updates: Number of updates so far.
        units: The units of all items. No later item joins an evicted unit.
        ordinals: The ordinals of the live items by id.
        keyed: The versions of its keys.
        ends: The time when an item expires, by ordinal.
        needed: The ordinals of the items that must be shown for their own sake.
        updated: The number of the last update of an ordinal, live or not.
        touched: First ordinals of units whose eviction statistics have changed since units were
            last chosen to leave; None before that.
        ledger: How far the section was formed, and how its items were used.
    """

    def __init__(self, spec: SectionSpec) -> None:
        super().__init__()
        self.spec = spec
        self.used = 0
        self.taken = 0
        self.updates = 0
        self.clock = 0
        self.units = Units()
        self.touched: set[int] | None = None
        # Linked, not hashed order: walking from either end never steps over removed items.
        self._live: OrderedDict[int, Item | StoredItem] = OrderedDict()  # decoded when asked for
        self.ordinals: dict[str, int] = {}
        self.ends: dict[int, datetime] = {}
        self.keyed = KeyedVersions(self.known)
        self.needed: set[int] = set()
        # By the fields that filters have asked for.
        self._groupings: dict[frozenset[str], Grouping] = {}
        self._uses: dict[int, int] = {}  # without the items that were never used
        self._last_uses: dict[int, int] = {}  # ticks, without 0
        self.updated: dict[int, int] = {}
        self.ledger = Ledger()

    # Items.

    def __len__(self) -> int:
        return len(self._live)

    def __iter__(self) -> Iterator[int]:
        return iter(self._live)

    def __reversed__(self) -> Iterator[int]:
        return reversed(self._live)

    def __contains__(self, ordinal: object) -> bool:
        return ordinal in self._live

    def __getitem__(self, ordinal: int) -> Item:
        item = self._live[ordinal]
        if isinstance(item, StoredItem):
            item = item.item()
            self._live[ordinal] = item
        return item

    def known(self, ordinal: int) -> Item | EvictedItem:
        """Return an item, live or evicted; its EvictedItem if only a file holds its text."""
        if ordinal in self._live:
            return self[ordinal]
        return self.evicted[ordinal]

    def read(self, ordinal: int) -> Item | None:
        """Return an item with its text, live or evicted; None if its text can't be read."""
        if ordinal in self._live:
            return self[ordinal]
        item: Item | EvictedItem | None = self.texts.get(ordinal) or self.evicted[ordinal]
        if isinstance(item, EvictedItem):
            item = self.whole(item)
            if item is not None:
                self.texts[ordinal] = item
            if len(self.texts) > _KEPT_TEXTS:
                del self.texts[next(iter(self.texts))]
        return item

    def undecoded(self, ordinal: int) -> Item | StoredItem | EvictedItem:
        """Return an item, live or evicted, as `known` does, without decoding it."""
        return self._live.get(ordinal) or self.evicted[ordinal]

    def find(self, ordinal: int) -> Item | StoredItem | EvictedItem | None:
        """Return an item as `undecoded` does, None if it is gone."""
        return self._live.get(ordinal) or self.evicted.get(ordinal)

    @property
    def stored(self) -> list[Item | StoredItem]:
        """Return the live items in order, decoded or not.

        Another thread may decode them by `types.decoded`.
        """
        return [*self._live.values()]

    @property
    def change_counts(self) -> ChangeCounts:
        """Return the numbers of changes so far."""
        return ChangeCounts(self.taken, self.updates)

    @property
    def newest_question(self) -> int | None:
        """Return the ordinal of a history's newest user message with more than tool results."""
        return next(self.questions(), None)

    def questions(self) -> Iterator[int]:
        """Yield the ordinals of a history's user messages with more than tool results, newest first."""
        if self.spec.placement == "history":
            for ordinal, item in reversed(self._live.items()):
                if is_user_message(item):
                    yield ordinal

    def newest_questions(self) -> list[int]:
        """Return the ordinals of the user's newest messages, from the last one that asks, in order.

        None of them has a reply. A message that calls tools is no reply. If no message asks, the
        newest one is returned alone. So it is if there is no reply before the newest messages: the
        application may keep none.
        """
        said: list[int] = []
        for ordinal, item in reversed(self._live.items()):
            if is_user_message(item):
                said.append(ordinal)
                if len(said) > _MOST_QUESTIONS:
                    break
            elif said:
                link = Link.of(item)
                if link.speaks and not link.calls:
                    return self._from_question(said)
        return said[:1]

    def _from_question(self, said: list[int]) -> list[int]:
        """Return the messages from the last one that asks on, oldest first.

        Args:
            said: Newest first.
        """
        for place, ordinal in enumerate(said):
            if has_question_near_end(said_text(self[ordinal].content)):
                return said[place::-1]
        return said[:1]

    def expired(self, now: datetime) -> list[Item]:
        """Return the items whose time to live is over."""
        return [self[ordinal] for ordinal, end in self.ends.items() if end <= now]

    def ordinal(self, item_id: str) -> int:
        """Return the ordinal of a live item. Raises NotFoundError."""
        try:
            return self.ordinals[item_id]
        except KeyError:
            raise NotFoundError(
                f"no live item {shown(item_id)} in this section; check its id"
            ) from None

    def item_tokens(self, ordinals: Iterable[int]) -> list[int]:
        """Return the tokens of each item, 0 for one that is gone.

        Another thread may ask while the items change.
        """
        return [*map(self._tokens.get, ordinals, repeat(0))]

    # Filters.

    def passing(self, wanted: MetadataFilter) -> set[int]:
        """Return the ordinals of the live items that pass a filter."""
        return self._grouping(wanted).passing(wanted)

    def narrowed(self, wanted: MetadataFilter) -> MetadataFilter:
        """Return a filter for the items, live or evicted.

        Nothing passes it if none of them can answer a negation in it.
        """

        def known_values() -> list[Mapping[str, JSONValue]]:
            evicted = (*self.texts.values(), *self.evicted.values())
            at_hand = [item.metadata for item in evicted if isinstance(item, Item)]
            return [*self._grouping(wanted).values, *at_hand]

        return wanted.narrowed(known_values)

    def unanswered(self, wanted: MetadataFilter) -> str:
        """Return why no live item can pass a filter, "" if it can be compared with some."""
        if not self._live:
            return ""
        newest = islice(reversed(self._live), _ITEMS_SEARCHED_FOR_FIELDS)
        known: set[str] = set()
        for ordinal in newest:
            known.update(self[ordinal].metadata)
        return wanted.unanswered(self._grouping(wanted).values, known)

    def _grouping(self, wanted: MetadataFilter) -> Grouping:
        grouping = self._groupings.get(wanted.fields)
        if grouping is None:
            grouping = Grouping(wanted.fields)
            self._groupings[wanted.fields] = grouping
            for ordinal in self._live:
                grouping.put(ordinal, self[ordinal].metadata)
        return grouping

    def purge(self) -> None:
        """Keep no field of the metadata of items that are gone."""
        self._groupings = {
            fields: each for fields, each in self._groupings.items() if each.is_complete
        }

    # Units, each named by the ordinal of its first item.

    def unit(self, first: int) -> tuple[Item, ...]:
        """Return the items of a unit in stored order, live or evicted.

        Return none if it was evicted and a text of it can't be read.
        """
        if first not in self.evicted:
            return tuple(map(self.__getitem__, self.units.members(first)))
        read = [self.read(at) for at in self.units.members(first)]
        items = tuple(item for item in read if item is not None)
        return items if len(items) == len(read) else ()

    def tokens(self, first: int) -> int:
        """Return the tokens of a unit, live or evicted."""
        members = self.units.members(first)
        if len(members) == 1:
            return self._tokens[first]
        return sum(map(self._tokens.__getitem__, members))

    def importance(self, first: int) -> int:
        """Return the importance of a unit, live or evicted: the highest of its items, -1 to 3."""
        items = map(self.undecoded, self.units.members(first))
        return max(self.ledger.importance(item.id) for item in items)

    def newest_first(self) -> Iterator[int]:
        """Yield the first ordinal of each live unit, the unit with the newest item first."""
        for ordinal in reversed(self._live):
            if self.units.last(ordinal) == ordinal:
                yield self.units.first(ordinal)

    def put(self, item: Item) -> int:
        """Take a new item in and return its ordinal."""
        ordinal = self.taken
        asked = self.units.asking
        self.units.add(ordinal, Link.of(item))
        self._enter(item, ordinal, last_use=self.clock)
        self.taken += 1
        self.used += item.tokens
        self._touch(self.units.first(ordinal))
        if asked is not None and asked != self.units.asking:
            self._touch(self.units.first(asked))  # nobody waits for its results any more
        return ordinal

    def replace(self, ordinal: int, item: Item) -> None:
        """Put an item in the place of a live one."""
        before = self._live[ordinal]
        self.updates += 1
        self.updated[ordinal] = self.updates
        self.used += item.tokens - self._tokens[ordinal]
        self._tokens[ordinal] = item.tokens
        if before.key is not None:
            self.keyed.drop_live(before.key, ordinal)
        self._register(ordinal, item)
        del self.ordinals[before.id]
        self.ordinals[item.id] = ordinal
        self._live[ordinal] = item
        self.units.replace(ordinal, Link.of(item))
        self._touch(self.units.first(ordinal))

    def take(self, ordinals: Iterable[int]) -> list[Item]:
        """Take live items out and return them; the rest of their units stays together."""
        ordinals = dict.fromkeys(ordinals)
        left = self.units.remove(ordinals)
        items = self._end_life(ordinals)
        for ordinal in ordinals:
            del self._tokens[ordinal]
        for first in left:
            self._touch(first)
        return items

    def _end_life(self, ordinals: Iterable[int]) -> list[Item]:
        """Let items be live no longer, and return them. Their units and tokens stay."""
        items = []
        for ordinal in ordinals:
            item = self[ordinal]
            items.append(item)
            del self._live[ordinal]
            self.used -= item.tokens
            self._uses.pop(ordinal, None)
            self._last_uses.pop(ordinal, None)
            del self.ordinals[item.id]
            self.ends.pop(ordinal, None)
            if item.key is not None:
                self.keyed.drop_live(item.key, ordinal)
            self.needed.discard(ordinal)
            for grouping in self._groupings.values():
                grouping.remove(ordinal)
        return items

    def _enter(
        self,
        item: Item,
        ordinal: int,
        *,
        uses: int = 0,
        last_use: int = 0,
    ) -> None:
        self._live[ordinal] = item
        self.ordinals[item.id] = ordinal
        self._tokens[ordinal] = item.tokens
        if uses:
            self._uses[ordinal] = uses
        if last_use:
            self._last_uses[ordinal] = last_use
        self._register(ordinal, item)

    def _register(self, ordinal: int, item: Item) -> None:
        """Note the key, the end, the need and the metadata of an item that comes."""
        if item.key is not None:
            self.keyed.add_live(item.key, ordinal, item)
        self.ends.pop(ordinal, None)
        if item.expires_at is not None:
            self.ends[ordinal] = item.expires_at
        if is_needed(self.spec, item):
            self.needed.add(ordinal)
        else:
            self.needed.discard(ordinal)
        for grouping in self._groupings.values():
            grouping.put(ordinal, item.metadata)

    def use(self, ordinals: Iterable[int]) -> None:
        """Mark a use of each item, all at one tick."""
        self.clock += 1
        touched = set()
        for ordinal in ordinals:
            first = self.units.first(ordinal)
            self._uses[ordinal] = self._uses.get(ordinal, 0) + 1
            self._last_uses[ordinal] = self.clock
            touched.add(first)
        for first in touched:
            self._touch(first)

    def recount(self, count: Callable[[Item], int]) -> None:
        """Measure all items anew."""
        for ordinal in self._live:
            item = self[ordinal]
            counted = replace(item, tokens=count(item))
            self._live[ordinal] = counted
            self._tokens[ordinal] = counted.tokens
        for ordinal, evicted in self.evicted.items():
            if isinstance(evicted, Item):
                counted = replace(evicted, tokens=count(evicted))
                self.evicted[ordinal] = counted
                self._tokens[ordinal] = counted.tokens
        self.used = sum(map(self._tokens.__getitem__, self._live))
        self.evicted_used = sum(map(self._tokens.__getitem__, self.evicted))
        self.touched = None

    # Evicted items.

    def evict(self, ordinals: Iterable[int], ended: Mapping[int, datetime]) -> list[Item]:
        """Take whole units out and return their items, which may be recalled.

        Raises InvalidArgumentError for a part of a unit; then nothing has changed.

        Args:
            ended: When the superseded items among them ceased to hold.
        """
        ordinals = dict.fromkeys(ordinals)
        members = 0
        for first in dict.fromkeys(self.units.firsts(ordinals)):
            members += len(self.units.members(first))
        if members != len(ordinals):
            raise InvalidArgumentError("the evicted items are not whole units")
        self.units.detach(ordinals)
        items = self._end_life(ordinals)
        evicted = dict(zip(ordinals, items, strict=True))
        self._keep(evicted)
        self.keyed.add_evicted(evicted, ended)
        return items

    def recall(self, versions: Iterable[Archived | EvictedItem]) -> Collection[int]:
        """Keep evicted items that are not here yet, and return their ordinals.

        Raises InvalidArgumentError for items that cannot have been evicted; then nothing has
        changed.
        """
        found: dict[int, Archived | EvictedItem] = {}
        for version in versions:
            at = version.position
            if at is not None and at not in self.evicted:
                found[at] = version
        if max(found, default=-1) >= self.taken or not self._live.keys().isdisjoint(found):
            raise InvalidArgumentError("an evicted item is out of its place")
        items = {}
        ended = {}
        units: dict[int, list[int]] = {}
        for at, version in found.items():
            items[at] = version.item
            if version.updated:
                self.updated[at] = version.updated
            if version.valid_until:
                ended[at] = version.valid_until
            if version.unit is not None and version.unit != at:
                units.setdefault(version.unit, []).append(at)
        self._keep(items)
        self.keyed.add_evicted(items, ended)
        for first, members in units.items():
            if first in items and first not in members:
                members.append(first)
            if len(members) > 1:
                self.units.add_detached(sorted(members))
        return found.keys()

    def is_free(self, ordinal: int | None) -> bool:
        """Return whether an item without a place, or one evicted from an ordinal, may be recalled."""
        return ordinal is None or (ordinal < self.taken and ordinal not in self._live)

    def forget_evicted(self, ordinals: Collection[int], count: int = 0) -> None:
        """Take evicted items out; the rest of their units stays together.

        Args:
            count: Number of all such items. Archive files hold those that are not here.
        """
        self.unloaded = max(0, self.unloaded - max(0, count - len(ordinals)))
        self.units.remove(ordinals)
        self.keyed.drop_evicted(ordinals)
        for ordinal in ordinals:
            del self.evicted[ordinal]
            self.evicted_used -= self._tokens.pop(ordinal)
            self.texts.pop(ordinal, None)

    # Stored items.

    def entries(self) -> Iterator[dict[str, JSONValue]]:
        """Return the items as JSON values, each with its place.

        They stay as they are now, though the section changes meanwhile. A unit of its own and
        counts of 0 are left out.
        """
        ordinals = [*self._live]
        items = [*self._live.values()]
        firsts = self.units.firsts(ordinals)
        fields = {  # plain copies: the event loop waits for them
            "updated": self.updated.copy(),
            "uses": self._uses.copy(),
            "last_use": self._last_uses.copy(),
        }

        def entry(
            ordinal: int,
            first: int,
            item: Item | StoredItem,
        ) -> dict[str, JSONValue]:
            stored = item.to_dict() | {"position": ordinal}
            if first != ordinal:
                stored["unit"] = first
            for name, counts in fields.items():
                if ordinal in counts:
                    stored[name] = counts[ordinal]
            return stored

        return map(entry, ordinals, firsts, items)

    @classmethod
    def restore(
        cls,
        spec: SectionSpec,
        state: Mapping[str, JSONValue],
        entries: Iterable[Mapping[str, JSONValue] | StoredItem],
    ) -> ItemTable:
        """Return a table as it was stored, without its evicted items."""
        table = cls(spec)
        table.taken = state["taken"]
        table.clock = state["clock"]
        table.updates = state["updates"]
        for key, (item_id, *times) in state.get("removed", {}).items():
            table.keyed.removed[key] = KeyedVersion(item_id, *map(parse_time, times))
        if "ledger" in state:
            table.ledger = Ledger.from_dict(state["ledger"])
        firsts = table._enter_stored(entries)
        table.used = sum(table._tokens.values())
        asking = state["asking"]
        if asking is not None and not (type(asking) is int and asking in table):
            raise InvalidArgumentError(
                "a stored section waits for the results of an item that it has not"
            )
        # The first item of a unit may have become a plain text by an update.
        tied = table._live.keys() & {*firsts, *firsts.values()}
        places = [(at, Link.of(table._live[at]), firsts.get(at, at)) for at in sorted(tied)]
        table.units = Units.restore(places, asking=asking)
        return table

    def _enter_stored(
        self, entries: Iterable[Mapping[str, JSONValue] | StoredItem]
    ) -> dict[int, int]:
        """Enter stored items.

        Returns:
            The first ordinal of the unit of each item that something may tie to others.
        """
        held = self._live  # named once: a session opens with very many
        ordinals = self.ordinals
        tokens = self._tokens
        last = -1
        firsts = {}
        for entry in entries:
            if isinstance(entry, StoredItem):
                item_id = entry.id
                ordinal = entry.position
            else:
                item = Item.from_dict(entry, self.spec.name)
                ordinal = entry["position"]
                item_id = item.id
            if type(ordinal) is not int or not last < ordinal < self.taken or item_id in ordinals:
                raise InvalidArgumentError("a stored item is out of its place")
            last = ordinal
            if isinstance(entry, StoredItem):
                held[ordinal] = entry
                ordinals[item_id] = ordinal
                tokens[ordinal] = entry.tokens
                # In a query section, an item that is not decoded need not be shown.
                if self.spec.placement != "query" and is_needed(self.spec, entry):
                    self.needed.add(ordinal)
                continue
            last_use = entry.get("last_use", 0)
            self._enter(item, ordinal, uses=entry.get("uses", 0), last_use=last_use)
            if "updated" in entry:
                self.updated[ordinal] = check_updated(entry["updated"])
            if "unit" in entry or type(item.content) is not str:
                firsts[ordinal] = entry.get("unit", ordinal)
        return firsts

    # Standings.

    def _touch(self, first: int) -> None:
        if self.touched is not None:
            self.touched.add(first)

    def eviction_stats(self, ordinal: int) -> EvictionStats:
        """Return the values of a live item that decide when its unit is evicted."""
        item = self._live[ordinal]
        uses = self._uses.get(ordinal, 0)
        last_use = self._last_uses.get(ordinal, 0)
        return EvictionStats(
            ordinal, ordinal, 1, item.tokens, item.priority, uses, last_use, int(item.pinned)
        )

    def evictable(self, first: int) -> EvictionStats | None:
        """Return the eviction statistics of the unit that begins at an ordinal.

        Return None if none begins there, or if it may not be evicted.
        """
        if first not in self._live or self.units.first(first) != first:
            return None
        if self.units.is_waiting(first):
            return None
        stats = combined_stats(map(self.eviction_stats, self.units.members(first)))
        return None if stats.pinned else stats


def is_needed(spec: SectionSpec, item: Item | StoredItem) -> bool:
    """Return whether an item must be shown for its own sake.

    It must if it is pinned, or of role system in a static section.
    """
    return item.pinned or (spec.placement == "static" and item.role == "system")


def is_user_message(item: Item | StoredItem) -> bool:
    """Return whether an item is a user's message with more than tool results."""
    return item.role == "user" and not Link.of(item).is_results
