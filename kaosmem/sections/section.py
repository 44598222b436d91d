"""A section: items under a spec, within its budget."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from threading import Lock
from typing import TYPE_CHECKING

from kaosmem.display import fitted, preview
from kaosmem.errors import (
    CorruptionError,
    DuplicateItemError,
    InvalidContentError,
    ItemTooLargeError,
    ReadOnlyError,
    SectionFullError,
    UnsupportedVersionError,
)
from kaosmem.eviction import POLICIES, Standing
from kaosmem.filters import MetadataFilter
from kaosmem.memos import clear_memos
from kaosmem.names import shown, shown_name
from kaosmem.sections.archive import Archive, Archived
from kaosmem.sections.holdings import Holdings
from kaosmem.sections.past import EvictedItem
from kaosmem.sections.proposals import Proposal, Proposer
from kaosmem.sections.spec import SectionSpec
from kaosmem.sections.substitution import Replaced, Substitution
from kaosmem.types import MAX_INTEGER, Item, JSONValue, UnreadItem, check_extent

if TYPE_CHECKING:
    from kaosmem.retrieval import Index, Ranker
    from kaosmem.sections.lazy_index import IndexDump, StoredIndex


_NEWEST = 10
"""How many items a notebook shows."""
_COUNTS = ("taken", "total", "updates", "clock", "archived", "evicted")
"""What of a stored state is counted."""


class Section:
    """An ordered list of items under a spec: it makes room by its policy and proposes units for a window.

    Every change is entered in `journal` as (op, data), so that `apply` replays it without deciding again; a section
    that is never persisted keeps no journal. ranker: for a spec without its own; None is `LinearRanker`.
    """

    def __init__(self, spec: SectionSpec, *, ranker: Ranker | None = None) -> None:
        self.spec = spec
        self.archive = Archive()
        self.journal: list[tuple[str, dict[str, JSONValue]]] = []
        self._policy = POLICIES[spec.eviction]
        self._ranker = ranker
        self._unloaded = 0  # evicted items that archive files hold, and of which nothing is known to recall them by
        self._returned: set[int] = set()  # ordinals of what came back, though files may say that it was evicted
        self.lost: list[CorruptionError] = []
        self._held = Holdings(self._policy)
        self._proposer = Proposer(spec, self._held, ranker=ranker)
        self._is_frozen = False
        self._read_index: Callable[[], StoredIndex | None] | None = None
        # A frozen section may be asked from several threads, and makes its index when first asked.
        self._asking = Lock()

    def __repr__(self) -> str:
        bound = "unbounded" if self.budget is None else f"of {self.budget:,}"
        return (
            f"<Section {fitted(self.spec.name, 40, tail=12)}: {len(self):,} items, {self.used:,} tokens {bound}, "
            f"{len(self.archive):,} archived, eviction {self.spec.eviction}>"
        )

    def _repr_html_(self) -> str:
        from kaosmem.notebook import bar, table

        newest = [
            (item.id, item.role, f"{item.tokens:,}", "yes" if item.pinned else "", preview(item.text))
            for item in islice(reversed(self), _NEWEST)
        ]
        older = len(self) - len(newest)
        return table(
            f"{self.spec.name}: {len(self):,} items, {len(self.archive):,} archived, eviction {self.spec.eviction}",
            ("item", "role", "tokens", "pinned", "content"),
            newest,
            numbers=("tokens",),
            after=[*([f"… and {older:,} older"] if older else []), bar(self.used, self.budget)],
        )

    @property
    def budget(self) -> int | None:
        """Return the tokens that the section may hold."""
        return self.spec.budget

    @property
    def used(self) -> int:
        """Return the tokens that the section holds."""
        return self._held.used

    @property
    def newest_user_item(self) -> Item | None:
        """Return the newest item of role user with more than tool results; histories alone keep track of it."""
        return self._proposer.newest_question

    @property
    def compacted(self) -> list[Item]:
        """Return the live items that a compaction put in the place of others."""
        return [item for item in self if Replaced.by(item)]

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[Item]:
        return (self._held[ordinal] for ordinal in self._held)

    def __reversed__(self) -> Iterator[Item]:
        return (self._held[ordinal] for ordinal in reversed(self._held))

    def __contains__(self, item_id: object) -> bool:
        return item_id in self._held

    def peek(self, item_id: str) -> Item:
        """Return a live item without marking a use. Raises UnknownItemError."""
        return self._held[self._held.ordinal(item_id)]

    def get(self, item_id: str) -> Item | None:
        """Return a live item, or None; this is a use of it."""
        if item_id not in self._held:
            return None
        self.use((item_id,))
        return self.peek(item_id)

    def keyed(self, key: str) -> Item | None:
        """Return the live item with a key, or None; this is no use of it."""
        ordinal = self._held.keyed(key)
        return None if ordinal is None else self._held[ordinal]

    def propose(self, query: str, *, cap: int, wanted: MetadataFilter | None = None) -> Proposal:
        """Return units in order of want until they hold twice `cap` tokens, with all that must be shown.

        wanted: narrows a `query` section in which any item has a field that it asks for.
        """
        with self._asking:
            return self._proposer.propose(query, cap=cap, wanted=wanted)

    def rank(self, query: str, limit: int, *, wanted: MetadataFilter | None = None) -> list[tuple[Item, float]]:
        """Return at most `limit` live items with their scores for a query, best first; `wanted` as in `propose`."""
        with self._asking:
            ranked = self._proposer.rank(query, limit, wanted=wanted)
        return [(self._held[ordinal], score) for ordinal, score in ranked]

    def keep_index_in(self, read: Callable[[], StoredIndex | None]) -> None:
        """Say how to read the index that was kept of the section, at some earlier time; it is done once at most."""
        self._read_index = read

    @property
    def lacks_index(self) -> bool:
        """Return whether it would help to read the index back before the section is ranked."""
        return self._read_index is not None and self.spec.placement != "static" and self._proposer.wants_index

    def read_index(self) -> None:
        """Read back the index that was kept. This is I/O, and may be done in another thread."""
        read, self._read_index = self._read_index, None
        if read is not None and (stored := read()) is not None:
            with self._asking:
                self._proposer.offer_index(stored)

    def dump_index(self) -> IndexDump | None:
        """Return the index to be kept, where what is kept lacks much of it; it counts as kept from now on."""
        if self._unloaded or self.spec.persistence == "none":
            return None
        with self._asking:
            return self._proposer.dump_index()

    def index_not_stored(self) -> None:
        """Note that no index of the section is kept any more."""
        with self._asking:
            self._proposer.index_not_stored()

    @contextmanager
    def index(self) -> Iterator[Index]:
        """Give the ranker's index of the section, which has all changes, to be asked while nobody else does."""
        with self._asking:
            yield self._proposer.index

    def is_passed_by(self, item_id: str, wanted: MetadataFilter | None) -> bool:
        """Return whether a filter lets a live item through."""
        with self._asking:
            passing = self._proposer.passing(wanted)
        return passing is None or self._held.ordinal(item_id) in passing

    @property
    def is_frozen(self) -> bool:
        """Return whether the section refuses changes, and so may be asked from several threads."""
        return self._is_frozen

    def freeze(self) -> None:
        """Refuse all further changes, uses included."""
        self._is_frozen = True

    @property
    def taken(self) -> int:
        """Return how many items the section has ever taken."""
        return self._held.taken

    def take_over(self, other: Section, *, shared: int = 0) -> None:
        """Go on as another section of the same spec was, which is not to be used any more.

        shared: of how many of the first items ever taken both know the same; what is loaded and indexed of those stays.
        """
        with self._asking:
            if shared:
                other._inherit(self, shared)
            self.archive, self.journal, self._unloaded = other.archive, other.journal, other._unloaded
            self._returned = other._returned
            self._held, self._proposer = other._held, other._proposer

    def add(self, item: Item) -> None:
        """Add an item, evicting what it supersedes, and others where the policy allows it and there is no compaction.

        It supersedes the live item with its key, pinned or not, which leaves with its whole unit.
        Raises DuplicateItemError, InvalidContentError, ItemTooLargeError or SectionFullError; then nothing has changed.
        """
        self._check_change(item)
        check_extent(item)
        if item.id in self._held:
            raise DuplicateItemError(
                f"section {self.spec.name!r} has a live item {shown(item.id)}; update it, or choose another id"
            )
        evicted = self._choose_leaving(item, tokens=item.tokens, items=1)
        self._add(item, evicted)
        self._log("add", item=item, evicted=evicted)

    def update(self, item: Item) -> None:
        """Put an item in the place of the live one with its id, which goes to the archive.

        One with another key than the live one supersedes as a new item does.
        Raises UnknownItemError, InvalidContentError, ItemTooLargeError or SectionFullError; then nothing has changed.
        """
        self._check_change(item)
        check_extent(item)
        evicted = self._choose_leaving(item, tokens=item.tokens - self.peek(item.id).tokens, items=0)
        self._update(item, evicted)
        self._log("update", item=item, evicted=evicted)

    def remove(self, item_id: str) -> None:
        """Move one item to the archive. Raises UnknownItemError."""
        self._check_change(self.peek(item_id))
        self._remove(item_id)
        self._log("remove", id=item_id)

    def compact(self, change: Substitution) -> bool:
        """Let items take the places of others, which go to the archive, and return whether they could.

        They can't once anything that they replace has left. Offsets are then as if what is held were all that was ever
        taken: a history is not cut for what has been shortened. Raises ReadOnlyError and InvalidContentError; then
        nothing has changed.
        """
        self._check_writable()
        for _, item in change.items:
            self._check_change(item)
            check_extent(item)
        if not all(item_id in self._held for item_id in change.replaced):
            return False
        ordinals = {place: self._held.ordinal(place) for place, _ in change.items}
        self._compact(change)
        self._log("compact", **change.to_dict(), at=ordinals)  # so that the order is known where the rest is damaged
        return True

    def expand(self, item_ids: Sequence[str], versions: Sequence[Archived]) -> bool:
        """Let archived versions come back to their places, and return whether these are all free.

        item_ids: live items that go to the archive before.
        """
        self._check_writable()
        if not self._has_places(item_ids, versions):
            return False
        self._expand(item_ids, versions)
        self._log("expand", ids=[*item_ids], versions=[version.to_dict() for version in versions])
        return True

    def make_room(self, tokens: int, *, keep: Iterable[str] = ()) -> bool:
        """Evict by the policy what holds so many tokens, and what is above `max_items`; return whether it could.

        The newest unit stays, as it would have if it had just been added, and so do those of the items to keep.
        """
        self._check_writable()
        surplus = 0 if self.spec.max_items is None else len(self) - self.spec.max_items
        newcomer = Standing(self.taken, self.taken, 0, 0, MAX_INTEGER, 0, 0, 0)
        own = {*islice(self._held.newest_first(), 1), *self._held.firsts(map(self._held.ordinal, keep))}
        victims = self._held.queue.choose_victims(newcomer, own=own, tokens=tokens, items=surplus)
        if victims:
            item_ids = [item.id for first in victims for item in self._held.unit(first)[0]]
            self.evict(item_ids)
        return victims is not None

    def evict(self, item_ids: Sequence[str]) -> None:
        """Evict whole units. Raises UnknownItemError, InvalidContentError."""
        self._check_writable()
        self._evict(item_ids)
        self._log("evict", ids=[*item_ids])

    def forget(self, item_ids: Iterable[str], *, stored: Iterable[Archived] = ()) -> dict[str, JSONValue]:
        """Erase items, live, archived and evicted, and return the data by which `apply` repeats it as "forget".

        The journal does not say it: the caller logs it, as a tombstone, where the journal is empty. Ids that the
        section knows nothing of are passed over; the data names the others. Offsets of other items do not move.
        stored: the versions that archive files hold and the section has not in memory; counted, not kept.
        Raises ReadOnlyError, and ValueError while the journal holds changes; then nothing has changed.
        """
        self._check_writable()
        if self.journal:
            raise ValueError(
                f"section {self.spec.name!r} has {len(self.journal)} changes in its journal, which may hold what is to "
                "be forgotten; drain and log them first"
            )
        wanted, past = frozenset(item_ids), self._held.past
        versions = [each for each in (*stored, *self.archive.in_memory()) if each.item.id in wanted]
        evicted = past.ordinals(wanted)
        known = {item_id for item_id in wanted if item_id in self._held} | {past[ordinal].id for ordinal in evicted}
        known |= {version.item.id for version in versions}
        evicted |= {version.position for version in versions if version.position is not None} - self._returned
        self._forget(known, archived=len(versions), evicted=len(evicted))
        return {"ids": sorted(known), "archived": len(versions), "evicted": len(evicted)}

    def use(self, item_ids: Iterable[str]) -> None:
        """Mark one use of each of these items; those that have left the section are passed over."""
        if self._policy.counts_uses and not self._is_frozen:
            live = [item_id for item_id in dict.fromkeys(item_ids) if item_id in self._held]
            if live:
                self._held.use(map(self._held.ordinal, live))
                self._log("use", ids=live)

    def apply(self, op: str, data: Mapping[str, JSONValue]) -> None:
        """Repeat a change from the journal.

        Raises UnsupportedVersionError for an op it does not know; InvalidContentError, LookupError, TypeError and
        ValueError for what no journal holds.
        """
        match op:
            case "add":
                item = Item.from_dict(data["item"], self.spec.name)
                if item.id in self._held:
                    raise InvalidContentError("an item is added that is live already")
                self._add(item, data["evicted"])
            case "update":
                self._update(Item.from_dict(data["item"], self.spec.name), data["evicted"])
            case "remove":
                self._remove(data["id"])
            case "use":
                self._held.use(map(self._held.ordinal, data["ids"]))
            case "evict":
                self._evict(data["ids"])
            case "compact":
                self._compact(Substitution.from_dict(data, self.spec.name))
            case "expand":
                versions = [Archived.from_dict(each, self.spec.name) for each in data["versions"]]
                if not self._has_places(data["ids"], versions):
                    raise InvalidContentError("an item comes back to a place that is not free")
                self._expand(data["ids"], versions)
            case "replace":
                for version in data["archived"]:
                    self.archive.put(Archived.from_dict(version, self.spec.name))
                state, entries = data["state"], data["entries"]
                self.take_over(Section.restore(self.spec, state, entries, archive=self.archive, ranker=self._ranker))
            case "forget":
                self._forget(set(data["ids"]), archived=data.get("archived", 0), evicted=data.get("evicted", 0))
            case _:
                raise UnsupportedVersionError(
                    f"section {self.spec.name!r} cannot repeat the change {shown_name(op)}; "
                    "open it with a newer kaosmem"
                )

    def drain_journal(self) -> list[tuple[str, dict[str, JSONValue]]]:
        """Return the changes since the last drain."""
        journal, self.journal = self.journal, []
        return journal

    def recount(self, count: Callable[[Item], int]) -> None:
        """Measure all items anew, for another token counter."""
        self._held.recount(count)
        self.archive.recount(count)

    @property
    def unloaded(self) -> int:
        """Return how many evicted items archive files hold that would have to be loaded to be recalled."""
        return self._unloaded

    def load(self, versions: Iterable[Archived | EvictedItem]) -> None:
        """Take in all that archive files hold of this section, so that what was evicted can be recalled.

        Raises InvalidContentError for what cannot have been evicted; then nothing has changed.
        """
        with self._asking:
            self._recall(versions)
            self._unloaded = 0

    def let_go(self, evicted: Iterable[EvictedItem]) -> None:
        """Keep no text of what was evicted, as far as these say which files hold it now."""
        with self._asking:
            for each in evicted:
                self._held.past.place(each)

    def take_in(self, read: Mapping[EvictedItem, Item | CorruptionError]) -> None:
        """Take in what a proposal needs to be read; a unit of which that failed can't be recalled any more."""
        with self._asking:
            past = self._held.past
            past.texts |= {evicted: item for evicted, item in read.items() if isinstance(item, Item)}
            self._proposer.read(evicted.position for evicted in read)
            failed = {each: error for each, error in read.items() if isinstance(error, CorruptionError)}
            lost = {at for each in failed for at in past.members(past.first(each.position))}
            if lost:
                past.forget(lost)
                self._proposer.lost(lost)
            said = {*map(str, self.lost)}
            self.lost += {str(error): error for error in failed.values() if str(error) not in said}.values()

    def _recall(self, versions: Iterable[Archived | EvictedItem]) -> None:
        past = self._held.past
        items: dict[int, Item | EvictedItem] = {}
        firsts: dict[int, int] = {}  # of those that are not the first of their unit
        updated: dict[int, int] = {}
        for version in versions:
            at, first = version.position, version.unit
            if at is not None and first is not None and at not in past and at not in self._returned:
                items[at] = version.item
                if version.updated:
                    updated[at] = version.updated
                if first != at:
                    firsts[at] = first
        # The first of its unit may be forgotten.
        if max(items, default=-1) >= self._held.taken or any(map(self._held.holds, items)):
            raise InvalidContentError("an evicted item is out of its place")
        self._held.note_updated(updated)
        units: dict[int, list[int]] = {}
        for at, first in firsts.items():
            units.setdefault(first, [first] if first in items and first not in firsts else []).append(at)
        for members in units.values():
            past.put({at: items[at] for at in sorted(members)})
        past.put_alone({at: item for at, item in items.items() if at not in past} if units else items)
        self._proposer.loaded(items)

    def state(self) -> dict[str, JSONValue]:
        """Return what `restore` needs beside the entries, as JSON values."""
        evicted = self._unloaded + len(self._held.past)
        returned = {"returned": sorted(self._returned)} if self._returned else {}
        return self._held.state() | {"archived": len(self.archive), "evicted": evicted} | returned

    def entries(self) -> Iterator[dict[str, JSONValue]]:
        """Return the live items as JSON values, as they are now, each with what must survive of its place and use."""
        return self._held.entries()

    @classmethod
    def restore(
        cls,
        spec: SectionSpec,
        state: Mapping[str, JSONValue],
        entries: Iterable[Mapping[str, JSONValue] | UnreadItem],
        *,
        archive: Archive | None = None,
        ranker: Ranker | None = None,
    ) -> Section:
        """Return a section that goes on where another one was when it gave its state and entries.

        archive: what has left it and is in memory still; without it, archive files hold all.
        Raises InvalidContentError, KeyError, TypeError for what no section gave.
        """
        state = {"updates": 0, "returned": [], **state}  # which were not kept at first
        counts = *(state[name] for name in _COUNTS), *state["returned"]
        if not all(type(count) is int and count >= 0 for count in counts):
            raise InvalidContentError("a section's state has a count that is none")
        section = cls(spec, ranker=ranker)
        section._returned = {*state["returned"]}
        section.archive = Archive(on_disk=state["archived"]) if archive is None else archive
        section._held = Holdings.restore(section._policy, state, entries, spec.name)
        section._proposer = Proposer(spec, section._held, ranker=ranker)
        if spec.recalls:
            section._recall(section.archive.in_memory())
            section._unloaded = state["evicted"] - len(section._held.past)
        return section

    def _inherit(self, other: Section, shared: int) -> None:
        """Take from another what need not be loaded and indexed again."""
        if self.spec.recalls and self._unloaded:
            for unit in other._held.past.units():
                known = {at for at in unit if at in self._held.past or self._held.holds(at) or at in self._returned}
                if max(unit) < shared and not known:
                    self._held.past.put(unit)
                    self._unloaded -= len(unit)
        self._proposer.inherit(other._proposer, shared)

    def _check_change(self, item: Item) -> None:
        self._check_writable()
        if item.section != self.spec.name:
            raise ValueError(
                f"item {shown(item.id)} is of section {item.section!r}; add it there, or make it for {self.spec.name!r}"
            )

    def _check_writable(self) -> None:
        if self._is_frozen:
            raise ReadOnlyError(
                f"section {self.spec.name!r} is of a session opened read-only; open that without read_only to change it"
            )

    def _choose_leaving(self, item: Item, *, tokens: int, items: int) -> list[str]:
        """Return the ids of what an item, new or updated, by which the section grows so much, supersedes or evicts."""
        first = self._superseded(item)
        if first is None:
            return self._choose_victims(item, tokens=tokens, items=items)
        unit, _, freed = self._held.unit(first)
        victims = self._choose_victims(item, tokens=tokens - freed, items=items - len(unit), leaving=(first,))
        return [*(each.id for each in unit), *victims]

    def _superseded(self, item: Item) -> int | None:
        """Return the first ordinal of the unit that holds another item with this one's key, None if there is none."""
        ordinal = self._held.keyed(item.key)
        if ordinal is None or (older := self._held[ordinal]).id == item.id:
            return None
        (first,) = self._held.firsts((ordinal,))
        if first in self._held.would_join(item):
            raise InvalidContentError(
                f"item {shown(item.id)} has the key of {shown(older.id)} and would be in one unit with it, as a call "
                "and its result are, which stay together; leave out the key of one"
            )
        return first

    def _choose_victims(self, item: Item, *, tokens: int, items: int, leaving: Collection[int] = ()) -> list[str]:
        """Return the ids of what must go so that the section may grow by these, for an item new or updated.

        leaving: first ordinals of units that go anyway.
        """
        budget = self.budget if self._policy.bounded else None
        if budget is not None and item.tokens > budget:
            raise ItemTooLargeError(
                f"item {shown(item.id)} has {item.tokens} tokens, more than the {budget} of section "
                f"{self.spec.name!r}; split it, or raise the section's budget"
            )
        if self.spec.compaction is not None:  # which comes before any eviction
            return []
        excess = 0 if budget is None or tokens <= 0 else self.used + tokens - budget
        surplus = 0 if self.spec.max_items is None or items <= 0 else len(self) + items - self.spec.max_items
        if excess <= 0 and surplus <= 0:
            return []
        newcomer, own = self._held.prospect(item)
        victims = self._held.queue.choose_victims(newcomer, own={*own, *leaving}, tokens=excess, items=surplus)
        if victims is None:
            raise SectionFullError(
                f"section {self.spec.name!r} is full: item {shown(item.id)} needs "
                + (f"{excess} tokens" if excess > 0 else f"{surplus} place")
                + f" more than its policy {self.spec.eviction!r} can free: what is pinned, waits for a result or "
                "outranks the item stays; raise its budget or max_items, or choose a policy that evicts"
            )
        return [item.id for first in victims for item in self._held.unit(first)[0]]

    def _add(self, item: Item, evicted: Sequence[str]) -> None:
        if evicted != []:
            self._evict(evicted)
        self._proposer.added(self._held.put(item))

    def _update(self, item: Item, evicted: Iterable[str]) -> None:
        self._evict(evicted)
        self.archive.put(Archived(self.peek(item.id)))
        self._proposer.changed(self._held.replace(item))

    def _evict(self, item_ids: Iterable[str]) -> None:
        ordinals = [self._held.ordinal(item_id) for item_id in item_ids]
        if self.spec.recalls:
            firsts = self._held.units.firsts(ordinals)
            for ordinal, first, item in zip(ordinals, firsts, self._held.evict(ordinals), strict=True):
                self.archive.put(Archived(item, ordinal, first, self._held.updated(ordinal)))
                self._returned.discard(ordinal)
                self._proposer.evicted(ordinal)
        else:
            for ordinal, item in zip(ordinals, self._held.take(ordinals), strict=True):
                self.archive.put(Archived(item))
                self._proposer.removed(ordinal)

    def _remove(self, item_id: str) -> None:
        ordinal = self._held.ordinal(item_id)
        (item,) = self._held.take((ordinal,))
        self.archive.put(Archived(item))
        self._proposer.removed(ordinal)

    def _compact(self, change: Substitution) -> None:
        held = self._held
        replaced = {held.ordinal(item_id): self.peek(item_id) for item_id in change.replaced}
        taken_over = {held.ordinal(place): item for place, item in change.items}
        new_ids = {item.id for item in taken_over.values() if item.id not in held}
        if len(new_ids) < len(change.items) or not taken_over.keys() <= replaced.keys():
            raise InvalidContentError("an item takes a place that is not free, or has the id of another one")
        leaving = replaced.keys() - taken_over
        # Whole units may be recalled, but not what stands for others beside these.
        original = {at for at in leaving if self.spec.recalls and not Replaced.by(replaced[at])}
        units = map(held.units.members, dict.fromkeys(held.units.firsts(sorted(original))))
        recallable = {at for unit in units if original.issuperset(unit) for at in unit}
        for ordinal, item in replaced.items():
            if ordinal not in recallable:
                self.archive.put(Archived(item, replaced_at=(ordinal, held.units.first(ordinal))))
        self._evict(replaced[ordinal].id for ordinal in sorted(recallable))
        rest = sorted(leaving - recallable)
        held.take(rest)
        for ordinal in rest:
            self._proposer.removed(ordinal)
        for ordinal, item in taken_over.items():
            self._proposer.changed(held.replace(item, ordinal))
        held.begin_anew()

    def _has_places(self, item_ids: Iterable[str], versions: Sequence[Archived]) -> bool:
        held = self._held
        free = {held.ordinal(item_id) for item_id in item_ids}
        places = {version.place[0] for version in versions if version.place and version.item.id not in held}
        return len(places) == len(versions) and all(
            at in free or (at < held.taken and not held.holds(at)) for at in places
        )

    def _expand(self, item_ids: Iterable[str], versions: Sequence[Archived]) -> None:
        held, past = self._held, self._held.past
        items = {place[0]: (place[1], version.item) for version in versions if (place := version.place)}
        for item_id in item_ids:
            self._remove(item_id)
        recalled = {at for at in items if at in past}
        for ordinal in recalled:
            self._proposer.removed(ordinal)
        past.forget(recalled)
        recallable = sum(version.position is not None for version in versions)
        self._unloaded = max(0, self._unloaded - (recallable - len(recalled)))
        self._returned |= items.keys()
        held.bring_back(items)
        for ordinal in items:
            self._proposer.added(ordinal)
        held.begin_anew()

    def _forget(self, item_ids: Collection[str], *, archived: int, evicted: int) -> None:
        """Erase all versions of items, of which archive files hold what is not in memory of these counts."""
        held = [self._held.ordinal(item_id) for item_id in item_ids if item_id in self._held]
        past = self._held.past.ordinals(item_ids)
        with self._asking:
            self._held.take(held)
            self._held.past.forget(past)
            self._proposer.forgotten(held, past)
        self._unloaded = max(0, self._unloaded - max(0, evicted - len(past)))
        self.archive.forget(item_ids, archived)
        clear_memos()

    def _log(self, op: str, **data: JSONValue) -> None:
        if self.spec.persistence != "none":
            stored = {name: value.to_dict() if isinstance(value, Item) else value for name, value in data.items()}
            self.journal.append((op, stored))
