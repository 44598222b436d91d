"""A section: items under a spec, within its budget."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from itertools import islice
from threading import Lock
from typing import TYPE_CHECKING

from kaosmem.display import fitted, preview
from kaosmem.errors import CorruptionError, DuplicateError, ReadOnlyError
from kaosmem.filters import MetadataFilter
from kaosmem.names import shown
from kaosmem.retrieval import Query
from kaosmem.sections.archive import Archive, Archived
from kaosmem.sections.lazy_index import Moment
from kaosmem.sections.ledger import Ledger
from kaosmem.sections.operations import Add, Compact, Evict, Expand, Forget, Remove, SectionOperation, Update, Use
from kaosmem.sections.past import EvictedItem
from kaosmem.sections.proposal import Proposal
from kaosmem.sections.required import is_required
from kaosmem.sections.room import choose_leaving, choose_surplus
from kaosmem.sections.spec import SectionSpec
from kaosmem.sections.substitution import Replaced, Substitution, message_of, substitution
from kaosmem.types import Item, JSONValue, StoredItem, check_extent

if TYPE_CHECKING:
    from kaosmem.retrieval import Index, Ranker
    from kaosmem.sections.lazy_index import IndexDump, StoredIndex

_NEWEST = 10
"""How many items a notebook shows."""


class Section:
    """An ordered list of items under a spec. It makes room by its policy and proposes units for a window.

    Each change is entered in `journal` as an operation, and `apply` repeats it. A section that is never persisted
    keeps no journal.
    ranker: for a spec without its own. The default is `LinearRanker`.

    >>> from kaosmem import SessionMemory
    >>> memory = SessionMemory.test_mode()
    >>> added = memory.add_many("findings", ["Ann owns the deal.", "Notice is thirty days."])
    >>> findings = memory["findings"]
    >>> len(findings), findings.used, [item.text for item in findings][-1]
    (2, 10, 'Notice is thirty days.')
    """

    def __init__(self, spec: SectionSpec, *, ranker: Ranker | None = None) -> None:
        self.spec = spec
        self.journal: list[SectionOperation] = []
        self.lost: list[CorruptionError] = []
        self._ranker = ranker
        self._ledger = Ledger(spec, ranker=ranker)
        self._frozen = ""  # why
        self._read_index: Callable[[str], StoredIndex | None] | None = None
        # Held by whoever asks or changes the index: other threads index, and a frozen section is asked from several.
        self._asking = Lock()

    def __repr__(self) -> str:
        bound = "unbounded" if self.budget is None else f"of {self.budget:,}"
        return (
            f"<Section {fitted(self.spec.name, 40, tail=12)}: {len(self):,} items, {self.used:,} tokens {bound}, "
            f"{len(self.archive):,} archived, eviction {self.spec.policy}>"
        )

    def _repr_html_(self) -> str:
        from kaosmem.notebook import bar, table

        newest = [
            (item.id, item.role, f"{item.tokens:,}", "yes" if item.pinned else "", preview(item.text))
            for item in islice(reversed(self), _NEWEST)
        ]
        older = len(self) - len(newest)
        return table(
            f"{self.spec.name}: {len(self):,} items, {len(self.archive):,} archived, eviction {self.spec.policy}",
            ("item", "role", "tokens", "pinned", "content"),
            newest,
            numbers=("tokens",),
            after=[*([f"… and {older:,} older"] if older else []), bar(self.used, self.budget)],
        )

    @property
    def archive(self) -> Archive:
        """Return the archive: items that left the section."""
        return self._ledger.archive

    @property
    def budget(self) -> int | None:
        """Return the maximum number of tokens in the section."""
        return self.spec.budget

    @property
    def used(self) -> int:
        """Return the number of tokens in the section."""
        return self._ledger.held.used

    @property
    def newest_user_item(self) -> Item | None:
        """Return the newest item of role user with more than tool results; histories alone keep track of it."""
        return self._ledger.proposer.newest_question

    def required_with(self, item: Item) -> list[Item]:
        """Return the items that a static section must show whole once it has this one, in order.

        None in other sections, whose items a context may shorten, and none for an item that need not be shown.
        """
        if self.spec.placement != "static" or not is_required(self.spec, item):
            return []
        held = self._ledger.proposer.required
        kept = [each for each in held if each.id == item.id or each.key is None or each.key != item.key]
        if not any(each.id == item.id for each in kept):
            return [*kept, item]
        return [item if each.id == item.id else each for each in kept]

    @property
    def compacted(self) -> list[Item]:
        """Return the live items that a compaction made."""
        return [item for item in self if Replaced.by(item)]

    @property
    def removed(self) -> Collection[str]:
        """Return the ids of items that were removed, not evicted, since the section was read."""
        return self._ledger.removed

    def __len__(self) -> int:
        return len(self._ledger.held)

    @property
    def stored(self) -> list[Item | StoredItem]:
        """Return the live items in order, decoded or not: another thread may decode them by `types.decoded`."""
        return [*map(self._ledger.held.as_stored, self._ledger.held)]

    @property
    def moment(self) -> Moment:
        """Return how far the section has come."""
        return Moment(self._ledger.held.taken, self._ledger.held.updates)

    def __iter__(self) -> Iterator[Item]:
        held = self._ledger.held
        return map(held.__getitem__, held)

    def __reversed__(self) -> Iterator[Item]:
        held = self._ledger.held
        return map(held.__getitem__, reversed(held))

    def __contains__(self, item_id: object) -> bool:
        return item_id in self._ledger.held

    def peek(self, item_id: str) -> Item:
        """Return a live item without marking a use. Raises NotFoundError."""
        held = self._ledger.held
        return held[held.ordinal(item_id)]

    def get(self, item_id: str) -> Item | None:
        """Return a live item, or None. This counts as a use."""
        if item_id not in self._ledger.held:
            return None
        self.use((item_id,))
        return self.peek(item_id)

    def placed(self) -> Iterator[tuple[int, Item]]:
        """Yield the live items in order, each with the number of items that the section had taken before it."""
        held = self._ledger.held
        return ((ordinal, held[ordinal]) for ordinal in held)

    def copied(self, items: Iterable[tuple[Item, datetime | None]]) -> Section:
        """Return another section of this spec with these items, in order, whatever its budget.

        items: each with the time when it stopped to hold; such an item is there for questions about the past alone.
        """
        other = Section(self.spec, ranker=self._ranker)
        for item, valid_until in items:
            other._ledger.restored(item, valid_until)
        return other

    def keyed(self, key: str) -> Item | None:
        """Return the live item with a key, or None. This does not count as a use."""
        held = self._ledger.held
        ordinal = held.keyed(key)
        return None if ordinal is None else held[ordinal]

    def propose(
        self, query: Query, *, cap: int, wanted: MetadataFilter | None = None, is_crowded: bool = True
    ) -> Proposal:
        """Return units in order of want until they hold twice `cap` tokens, with all that must be shown.

        wanted: narrows a `query` section in which any item has a field that it asks for.
        is_crowded: whether something may be left out of the window, so that the order of the units matters.
        """
        with self._asking:
            return self._ledger.proposer.propose(query, cap=cap, wanted=wanted, is_crowded=is_crowded)

    def rank(self, query: Query, limit: int, *, wanted: MetadataFilter | None = None) -> list[tuple[Item, float]]:
        """Return at most `limit` live items with their scores for a query, best first; `wanted` as in `propose`."""
        with self._asking:
            ranked = self._ledger.proposer.rank(query, limit, wanted=wanted)
        return [(self._ledger.held[ordinal], score) for ordinal, score in ranked]

    def keep_index_in(self, read: Callable[[str], StoredIndex | None]) -> None:
        """Say how to read the index that was kept for a ranker, by its name; it is done once at most."""
        self._read_index = read

    def lag(self, *, cap: int, is_crowded: bool = True) -> int:
        """Return how many changes the index lacks, 0 if a proposal with these arguments does not rank."""
        return self._ledger.index.behind if self._ledger.proposer.ranks(cap, is_crowded=is_crowded) else 0

    @property
    def unindexed(self) -> int:
        """Return how many changes the index lacks, 0 in a section that is never ranked."""
        return self._ledger.index.behind if self.spec.recalls or self.spec.placement == "query" else 0

    def unindexed_evicted(self) -> list[EvictedItem]:
        """Return evicted items that are to be read and given to `take_in` before the index can have them."""
        with self._asking:
            return self._ledger.proposer.unindexed_evicted() if self.spec.recalls else []

    def catch_up(self) -> None:
        """Read back the index that was kept, or index one batch of changes.

        This is meant for another thread: the section may change meanwhile. If it raises, the changes stay to be made.
        """
        with self._asking:
            if self._read_index is not None and self._ledger.index.is_wanted:
                self._read_stored_index()
            if self._ledger.index.behind:
                self._ledger.index.catch_up()

    def read_index(self) -> None:
        """Read back the index that was kept. This is I/O, and may be done in another thread."""
        with self._asking:
            self._read_stored_index()

    def _read_stored_index(self) -> None:
        read, self._read_index = self._read_index, None
        if read is not None and (stored := read(self._ledger.index.ranker_name)) is not None:
            self._ledger.index.offer(stored)

    @property
    def index_to_store(self) -> Moment | None:
        """Return how far the section has come, if its index is to be kept; None if the kept one is as good."""
        return None if self.unloaded or self.spec.persistence == "none" else self._ledger.index.to_store

    def dump_index(self, moment: Moment) -> IndexDump | None:
        """Return the index, which counts as kept from now on; None where it has anything from after a moment.

        This may be done in another thread.
        """
        with self._asking:
            return self._ledger.index.dump(moment)

    def index_not_stored(self) -> None:
        """Note that no index of the section is kept any more."""
        self._ledger.index.not_stored()

    @contextmanager
    def index(self) -> Iterator[Index]:
        """Give the ranker's index of the section, which has all changes, to be asked while nobody else does."""
        with self._asking:
            yield self._ledger.index.synced()

    def is_passed_by(self, item_id: str, wanted: MetadataFilter | None) -> bool:
        """Return whether a filter lets a live item through."""
        with self._ledger.lock:
            passing = self._ledger.proposer.passing(wanted)
        return passing is None or self._ledger.held.ordinal(item_id) in passing

    @property
    def is_frozen(self) -> bool:
        """Return whether the section refuses changes, and so may be asked from several threads."""
        return bool(self._frozen)

    def freeze(self, why: str = "was opened read-only; open it without read_only to change it") -> None:
        """Refuse all further changes, uses included.

        why: the reason and the remedy, for errors.
        """
        self._frozen = why

    @property
    def taken(self) -> int:
        """Return how many items the section has ever taken."""
        return self._ledger.held.taken

    def take_over(self, other: Section, *, shared: int = 0) -> None:
        """Go on as another section of the same spec was, which is not to be used any more.

        shared: number of leading items that both sections have in common; their loaded texts and index entries stay.
        """
        with self._asking:
            if shared:
                other._ledger.inherit(self._ledger, shared)
            self._ledger, self.journal = other._ledger, other.journal

    def add(self, item: Item) -> None:
        """Add an item. Evict the item that it supersedes, and others if the policy evicts and there is no compaction.

        It supersedes the live item with its key, pinned or not, which leaves with its whole unit. If the policy lets
        newcomers compete and the item is outranked, it goes to the archive itself.
        Raises DuplicateError, InvalidArgumentError, SectionFullError; then nothing has changed.
        """
        self._check_change(item)
        check_extent(item)
        if item.id in self._ledger.held:
            raise DuplicateError(
                f"section {self.spec.name!r} has a live item {shown(item.id)}; update it, or choose another id"
            )
        evicted = choose_leaving(self.spec, self._ledger.held, item, tokens=item.tokens, items=1)
        self._change(Add(self.spec.name, item, evicted or []))
        if evicted is None:
            self.evict((item.id,))

    def add_shortened(self, item: Item, shorter: Item, *, new_id: Callable[[str], str]) -> Item:
        """Add an item to the archive and a shorter copy of it to the section, and return the copy.

        shorter: the item with less content. The copy has an id of its own and names the item as its source. If it is
        outranked, only the item is kept, in the archive, and returned.
        Raises as `add`; then nothing has changed.
        """
        self._check_change(item)
        check_extent(item)
        evicted = choose_leaving(self.spec, self._ledger.held, shorter, tokens=shorter.tokens, items=1)
        self._change(Add(self.spec.name, item, evicted or []))
        if evicted is None:
            self.evict((item.id,))
            return item
        change = substitution(
            [item],
            [replace(message_of(item), content=shorter.content)],
            budget=self.budget or 0,
            count=lambda _: shorter.tokens,
            new_id=new_id,
        )
        self.compact(change)
        return change.items[0][1]

    def update(self, item: Item, *, at: datetime | None = None) -> None:
        """Put an item in the place of the live one with its id, which goes to the archive.

        An item with another key than the live one supersedes as a new item does.
        at: when the session was told, None if that is not known.
        Raises NotFoundError, InvalidArgumentError, SectionFullError; then nothing has changed.
        """
        self._check_change(item)
        check_extent(item)
        growth = item.tokens - self.peek(item.id).tokens
        evicted = choose_leaving(self.spec, self._ledger.held, item, tokens=growth, items=0)
        self._change(Update(self.spec.name, item, evicted or [], at))
        if evicted is None:
            self.evict((item.id,))

    def remove(self, item_id: str, *, at: datetime | None = None) -> None:
        """Move one item to the archive. at: when the session was told. Raises NotFoundError."""
        self._check_change(self.peek(item_id))
        self._change(Remove(self.spec.name, item_id, at))

    @property
    def may_expire(self) -> bool:
        """Whether any live item has a time to live."""
        return self._ledger.held.may_expire

    def expired(self, now: datetime) -> list[str]:
        """Return the ids of the live items whose time to live is over."""
        held = self._ledger.held
        return [held[ordinal].id for ordinal in held.expired(now)]

    def expire(self, item_ids: Iterable[str]) -> None:
        """Move items whose time to live is over to the archive, as far as they are live. Nothing recalls them."""
        self._check_writable()
        for item_id in item_ids:
            if item_id in self:
                self._change(Remove(self.spec.name, item_id, self.peek(item_id).expires_at, expired=True))

    def compact(self, change: Substitution) -> bool:
        """Let items take the places of others, which go to the archive, and return whether they could.

        They can't once anything that they replace has left. Offsets are then as if the held items were all that
        was ever taken: a history is not cut for messages that have been shortened. Raises ReadOnlyError and
        InvalidArgumentError; then nothing has changed.
        """
        self._check_writable()
        for _, item in change.items:
            self._check_change(item)
            check_extent(item)
        if not all(item_id in self._ledger.held for item_id in change.replaced):
            return False
        ordinals = {place: self._ledger.held.ordinal(place) for place, _ in change.items}
        self._change(Compact(self.spec.name, change, ordinals))
        return True

    def expand(self, item_ids: Sequence[str], versions: Sequence[Archived]) -> bool:
        """Let archived versions come back to their places, and return whether these are all free.

        item_ids: live items that go to the archive before.
        """
        self._check_writable()
        if not self._ledger.has_places(item_ids, versions):
            return False
        self._change(Expand(self.spec.name, item_ids, versions))
        return True

    def make_room(self, tokens: int, *, keep: Iterable[str] = ()) -> bool:
        """Evict units of so many tokens by the policy, and units above `max_items`; return whether it could.

        The newest unit stays, as it would have if it had just been added, and so do those of the items to keep.
        """
        self._check_writable()
        victims = choose_surplus(self.spec, self._ledger.held, tokens=tokens, keep=keep)
        if victims:
            self.evict(victims)
        return victims is not None

    def evict(self, item_ids: Sequence[str]) -> None:
        """Evict whole units. Raises NotFoundError, InvalidArgumentError."""
        self._check_writable()
        self._change(Evict(self.spec.name, item_ids))

    def forget(self, item_ids: Iterable[str], *, stored: Iterable[Archived] = ()) -> Forget:
        """Erase items, live, archived and evicted, and return the operation.

        The operation is not in the journal: the caller logs it while the journal is empty. It names the ids that the
        section knows. Offsets of other items do not move.
        stored: the versions that archive files hold and the section has not in memory; counted, not kept.
        Raises ReadOnlyError, and ValueError while the journal holds changes; then nothing has changed.
        """
        self._check_writable()
        if self.journal:
            raise ValueError(
                f"section {self.spec.name!r} has {len(self.journal)} changes in its journal, which may hold items to "
                "be forgotten; drain and log them first"
            )
        operation = Forget(self.spec.name, *self._ledger.known_versions(item_ids, stored))
        self.apply(operation)
        return operation

    def use(self, item_ids: Iterable[str]) -> None:
        """Mark one use of each of these items; those that have left the section are passed over."""
        if self.spec.policy.counts_uses and not self._frozen:
            live = [item_id for item_id in dict.fromkeys(item_ids) if item_id in self._ledger.held]
            if live:
                self._change(Use(self.spec.name, live))

    def apply(self, operation: SectionOperation) -> None:
        """Repeat an operation from the journal of this section, in this process or another.

        Raises InvalidArgumentError, LookupError, TypeError and ValueError for an operation that does not fit.
        """
        operation.apply(self._ledger)

    def purge_index(self) -> None:
        """Keep nothing in the index of items that are gone. This may be done in another thread.

        After `forget`, words of forgotten items stay in the index until this call or the next ranking.
        """
        is_left = True
        while is_left:
            with self._asking:
                is_left = self._ledger.index.purge()

    def drain_journal(self) -> list[SectionOperation]:
        """Return the changes since the last drain."""
        journal, self.journal = self.journal, []
        return journal

    def recount(self, count: Callable[[Item], int]) -> None:
        """Measure all items anew, for another token counter."""
        self._ledger.recount(count)

    @property
    def unloaded(self) -> int:
        """Return how many evicted items archive files hold that would have to be loaded to be recalled."""
        return self._ledger.held.past.unloaded

    def load(self, versions: Iterable[Archived | EvictedItem]) -> None:
        """Take in all that archive files hold of this section, so that evicted items can be recalled.

        Raises InvalidArgumentError for items that cannot have been evicted; then nothing has changed.
        """
        self._ledger.load(versions)

    def let_go(self, evicted: Iterable[EvictedItem]) -> None:
        """Keep no text of those evicted items that these files hold now."""
        self._ledger.let_go(evicted)

    def take_in(self, read: Mapping[EvictedItem, Item | CorruptionError]) -> None:
        """Take in the texts that a proposal needs; a unit whose text could not be read can't be recalled any more."""
        failed = self._ledger.take_in(read)
        said = {*map(str, self.lost)}
        self.lost += {str(error): error for error in failed if str(error) not in said}.values()

    def state(self) -> dict[str, JSONValue]:
        """Return the state that `restore` needs beside the entries, as JSON values."""
        return self._ledger.state()

    def entries(self) -> Iterator[dict[str, JSONValue]]:
        """Return the live items as JSON values, each with its place and its uses."""
        return self._ledger.held.entries()

    @classmethod
    def restore(
        cls,
        spec: SectionSpec,
        state: Mapping[str, JSONValue],
        entries: Iterable[Mapping[str, JSONValue] | StoredItem],
        *,
        archive: Archive | None = None,
        ranker: Ranker | None = None,
    ) -> Section:
        """Return a section that goes on where another one was when it gave its state and entries.

        archive: versions that have left it and are still in memory; without it, archive files hold all.
        Raises InvalidArgumentError, KeyError, TypeError for a state that no section gave.
        """
        section = cls(spec, ranker=ranker)
        section._ledger = Ledger.restore(spec, state, entries, archive=archive, ranker=ranker)
        return section

    def _check_change(self, item: Item) -> None:
        self._check_writable()
        if item.section != self.spec.name:
            raise ValueError(
                f"item {shown(item.id)} is of section {item.section!r}; add it there, or make it for {self.spec.name!r}"
            )

    def _check_writable(self) -> None:
        if self._frozen:
            raise ReadOnlyError(f"section {self.spec.name!r} is of a session that {self._frozen}")

    def _change(self, operation: SectionOperation) -> None:
        """Carry out an operation and enter it in the journal."""
        operation.apply(self._ledger)
        if self.spec.persistence != "none":
            self.journal.append(operation)
