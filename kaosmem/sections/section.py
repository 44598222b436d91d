"""A section: items under a spec, within its budget."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from threading import RLock
from typing import TYPE_CHECKING, Self

from kaosmem.display import preview, truncated
from kaosmem.errors import DuplicateError, InvalidArgumentError, ReadOnlyError
from kaosmem.names import shown
from kaosmem.sections.archive import Archive, Archived, EvictedItem
from kaosmem.sections.item_table import ItemTable
from kaosmem.sections.keyed_versions import is_announced
from kaosmem.sections.lazy_index import LazyIndex
from kaosmem.sections.ledger import Ledger
from kaosmem.sections.operations import (
    Add,
    Compact,
    Credit,
    Ends,
    Evict,
    Forget,
    Form,
    Remove,
    SectionOperation,
    Update,
    Use,
    evict,
    evicted_by,
    remove,
)
from kaosmem.sections.proposer import Proposer
from kaosmem.sections.spec import SectionSpec
from kaosmem.sections.substitution import Substitution, message_of, substitution
from kaosmem.sections.versions import shown_with_interval
from kaosmem.sections.victim_selection import VictimSelection
from kaosmem.telemetry import count_evictions
from kaosmem.types import JSONValue
from kaosmem.types.content import said_text
from kaosmem.types.items import Item, StoredItem, check_storable
from kaosmem.units import Link

if TYPE_CHECKING:
    from kaosmem.retrieval.ranker import Ranker

_COUNTS = ("taken", "updates", "clock", "archived", "evicted")
"""The counts in a stored state."""
_CHARS_BEFORE = 200
_NEWEST = 10
"""How many items a notebook shows."""


class Section:
    """An ordered list of items under a spec.

    Its policy decides which items leave. It keeps a journal of its changes.

    Each change is entered in `journal` as an operation, and `apply` repeats it. A section that is
    never persisted keeps no journal. Iterating over a section yields its live items in order.

    Args:
        ranker: The ranker for a spec without its own. The default is `LinearRanker`.

    Attributes:
        held: The table of its items, live and evicted.
        archive: The versions that left.
        index: The index over all items that may be shown.
        lock: Held while any of these changes, so that no other thread looks at them meanwhile.
        proposer: Ranks the items, and proposes units for a context.
        victims: Chooses the items that leave.
        removed: Ids of the items that were removed, not evicted, since the section was read.
        rewritten: Digests of the items that were updated since the section was read, by id.
        present: Returns the present, by which a version of a key is yet to begin. None if nobody
            knows it: then each version has begun.
        frozen: The reason why the section refuses changes, and so may be asked from several
            threads; "" if it does not.

    >>> from kaosmem import SessionMemory
    >>> memory = SessionMemory.test_mode()
    >>> added = memory.add_many("findings", ["Ann owns the deal.", "Notice is thirty days."])
    >>> findings = memory["findings"]
    >>> len(findings), findings.used, [item.text for item in findings][-1]
    (2, 10, 'Notice is thirty days.')
    """

    def __init__(
        self,
        spec: SectionSpec,
        *,
        ranker: Ranker | None = None,
        held: ItemTable | None = None,
        archive: Archive | None = None,
    ) -> None:
        self.spec = spec
        self.ranker = ranker
        self.held = ItemTable(spec) if held is None else held
        self.archive = Archive() if archive is None else archive
        self.removed: set[str] = set()
        self.rewritten: dict[str, str] = {}
        self.lock = RLock()
        self.index = LazyIndex(spec.ranker or ranker, self.held, self.lock)
        self.proposer = Proposer(self.held, self.index)
        self.victims = VictimSelection(self.held)
        self.journal: list[SectionOperation] = []
        self.present: Callable[[], datetime] | None = None
        self.frozen = ""

    def __repr__(self) -> str:
        bound = "unbounded" if self.budget is None else f"of {self.budget:,}"
        return (
            f"<Section {truncated(self.spec.name, 40, tail=12)}: {len(self):,} items, "
            f"{self.used:,} tokens {bound}, "
            f"{len(self.archive):,} archived, eviction {self.spec.policy}>"
        )

    def _repr_html_(self) -> str:
        from kaosmem.display import bar, table

        newest = [
            (
                item.id,
                item.role,
                f"{item.tokens:,}",
                "yes" if item.pinned else "",
                preview(item.text),
            )
            for item in islice(reversed(self), _NEWEST)
        ]
        older = len(self) - len(newest)
        return table(
            f"{self.spec.name}: {len(self):,} items, {len(self.archive):,} archived, eviction "
            f"{self.spec.policy}",
            ("item", "role", "tokens", "pinned", "content"),
            newest,
            numbers=("tokens",),
            after=[*([f"… and {older:,} older"] if older else []), bar(self.used, self.budget)],
        )

    @property
    def ledger(self) -> Ledger:
        """How far the section was formed, and how its items were used."""
        return self.held.ledger

    @property
    def budget(self) -> int | None:
        """Return the maximum number of tokens in the section."""
        return self.spec.budget

    @property
    def used(self) -> int:
        """Return the number of tokens in the section."""
        return self.held.used

    def __len__(self) -> int:
        return len(self.held)

    def __iter__(self) -> Iterator[Item]:
        return map(self.held.__getitem__, self.held)

    def __reversed__(self) -> Iterator[Item]:
        return map(self.held.__getitem__, reversed(self.held))

    def __contains__(self, item_id: object) -> bool:
        return item_id in self.held.ordinals

    def peek(self, item_id: str) -> Item:
        """Return a live item without marking a use. Raises NotFoundError."""
        return self.held[self.held.ordinal(item_id)]

    def get(self, item_id: str) -> Item | None:
        """Return a live item, or None. This counts as a use."""
        if item_id not in self:
            return None
        self.use((item_id,))
        return self.peek(item_id)

    def keyed(self, key: str) -> Item | None:
        """Return the live item with a key, or None. This does not count as a use.

        If versions are yet to begin, it is the one that holds until then.
        """
        live = self.held.keyed.live(key)
        if live:
            return self.held[live[0]]
        return None

    def live_versions(self, key: str) -> list[Item]:
        """Return the live versions of a key, oldest first.

        Several are live if the newest ones are yet to begin. They have their intervals then.
        """
        live = self.held.keyed.live(key)
        if len(live) < 2:
            return [self.held[at] for at in live]
        versions = self.held.keyed.versions(key)
        places = {version.item: place for place, version in enumerate(versions)}
        return [shown_with_interval(self.held[at], versions, places[at], True) for at in live]

    def current_id(self, key: str) -> str | None:
        """Return the id of the newest version of a key, live or evicted, that has no end.

        None: it was removed, or it was evicted and nothing recalls it.
        """
        held = self.held
        newest = held.keyed.newest(key)
        if newest is not None and newest in held:
            return held[newest].id
        versions = held.keyed.versions(key)
        if not versions or not versions[-1].is_current:
            return None
        return held.undecoded(versions[-1].item).id

    @property
    def newest_question(self) -> Item | None:
        """Return a history's newest item of role user with more than tool results."""
        newest = self.held.newest_question
        if newest is None:
            return None
        return self.held[newest]

    @property
    def question(self) -> str:
        """Return what the user asks, "" without any message.

        It is the newest message, after those from the last one that asks and has no reply. Of
        these, only the end of a long text counts.
        """
        asked = self.held.newest_questions()
        said = [*dict.fromkeys(said_text(self.held[at].content) for at in asked)]
        before = "\n".join(said[:-1])[-_CHARS_BEFORE:]
        return "\n".join(filter(None, (before, *said[-1:])))

    def freeze(
        self, why: str = "was opened read-only; open it without read_only to change it"
    ) -> None:
        """Refuse all further changes, uses included.

        Args:
            why: The reason and the remedy, for errors.
        """
        self.frozen = why

    def ranked_by(self, ranker: Ranker) -> Section:
        """Return a copy of the section in which a ranker takes the place of the session's.

        Neither sees later changes of the other. The copy refuses changes.
        """
        copy = Section.restore(
            self.spec, self.state(), self.held.entries(), archive=self.archive, ranker=ranker
        )
        if self.spec.recalls:
            copy.held.unloaded -= len(copy.held.recall(self.held.in_files(self.held.taken)))
        copy.freeze("is rehearsed; change the session itself")
        return copy

    def take_over(self, other: Section, *, shared: int = 0) -> None:
        """Take over the state of another section of the same spec. Do not use that one afterwards.

        Args:
            shared: Number of leading items that both sections have in common. Their loaded texts
                and index entries stay.
        """
        with self.index.asking, self.lock:
            if shared and self.spec.recalls:
                other.held.unloaded -= len(other.held.recall(self.held.in_files(shared)))
            self.held = other.held
            self.index.follow(other.held, shared)
            self.proposer = Proposer(self.held, self.index)
            self.victims = VictimSelection(self.held)
            self.removed = other.removed
            self.rewritten = other.rewritten
        self.journal = other.journal
        self.archive = other.archive
        self.ranker = other.ranker

    def add(self, item: Item) -> None:
        """Add an item.

        Evict the items that it supersedes, and others if the policy evicts and there is no
        compaction.

        It supersedes the live items with its key, pinned or not, which leave with their whole
        units. If it is yet to begin, the item that holds now stays until then.
        If the policy lets newcomers compete and the item is outranked, it goes to the archive
        itself. Raises DuplicateError, InvalidArgumentError, SectionFullError; then nothing has
        changed.
        """
        self._check_change(item)
        if item.id in self:
            raise DuplicateError(
                f"section {self.spec.name!r} has a live item {shown(item.id)}; update it, or "
                "choose another id"
            )
        self.begin_versions()
        self._enter(item, item, Add, tokens=item.tokens, items=1)

    def _enter(
        self,
        item: Item,
        copy: Item,
        arrival: Callable[[str, Item, Sequence[str], Ends | None], SectionOperation],
        *,
        tokens: int,
        items: int,
    ) -> bool:
        """Let an item come, new or updated, after others have left. Return whether it stays.

        Args:
            copy: The item, or the shorter copy of it that takes the room.
            arrival: Makes the operation.
            tokens: Growth of the section in tokens.
            items: Growth of the section in items.
        """
        now = self._now(item.key)
        keyed = self.held.keyed
        superseded = keyed.superseded_by(item, now)
        evicted = self.victims.leaving(copy, now, superseded, tokens=tokens, items=items)
        ends = keyed.ends_by(item, superseded, now) or None
        self._change(arrival(self.spec.name, item, evicted or [], ends))
        if evicted is not None:
            return True
        # It is outranked, or an older version of its key.
        newer = keyed.later_than(item, now)
        ends = None if newer is None else {item.id: (newer.valid_from, newer.created_at)}
        self._change(Evict(self.spec.name, (item.id,), ends))
        return False

    def _now(self, key: str | None) -> datetime | None:
        """Return the present if a key is given, by which its versions are yet to begin."""
        if self.present is None or key is None:
            return None
        return self.present()

    def same_as(self, item: Item) -> Item | None:
        """Return the live item of an item's key if it differs in id and time of adding alone."""
        for ordinal in self.held.keyed.live(item.key):
            live = self.held[ordinal]
            if replace(item, id=live.id, created_at=live.created_at) == live:
                return live
        return None

    def add_shortened(
        self,
        item: Item,
        shorter: Item,
        *,
        new_id: Callable[[str], str],
    ) -> Item:
        """Add an item to the archive and a shorter copy of it to the section, and return the copy.

        Raises as `add`; then nothing has changed.

        Args:
            shorter: The item with less content. The copy has an id of its own and names the item as
                its source. If it is outranked, only the item is kept, in the archive, and returned.
        """
        self._check_change(item)
        self.begin_versions()
        if not self._enter(item, shorter, Add, tokens=shorter.tokens, items=1):
            return item
        change = substitution(
            [item],
            [replace(message_of(item), content=shorter.content)],
            count=lambda _: shorter.tokens,
            new_id=new_id,
        )
        self.compact(change)
        return change.items[0][1]

    def update(
        self,
        item: Item,
        *,
        at: datetime | None = None,
        is_version: bool = True,
    ) -> None:
        """Put an item in the place of the live one with its id, which goes to the archive.

        An item with another key than the live one supersedes as a new item does.
        Raises NotFoundError, InvalidArgumentError, SectionFullError; then nothing has changed.

        Args:
            at: When the session was told, None if that is not known.
            is_version: False if the item says the same as before, so that nothing goes to the
                archive.
        """
        self._check_change(item)
        self.begin_versions()
        growth = item.tokens - self.peek(item.id).tokens
        update = partial(Update, at=at, is_version=is_version)
        self._enter(item, item, update, tokens=growth, items=0)

    def remove(self, item_id: str, *, at: datetime | None = None) -> None:
        """Move one item to the archive. at: when the session was told. Raises NotFoundError."""
        self.peek(item_id)
        self.retire((item_id,), at=at, by_rule=False)

    def _end(self, item: Item, at: datetime | None) -> tuple[datetime, datetime] | None:
        """Return when an item ends that is removed, and when that is told.

        A version that is yet to begin is taken back then, and the one before it holds on.
        """
        if at is None:
            return None
        if self.present is not None and is_announced(item, at):
            # Its time to live may end as it would begin.
            return min(at, item.valid_from - timedelta.resolution), at
        return max(at, item.valid_from), at

    def begin_versions(self) -> None:
        """Let announced versions that have begun supersede the live versions before them."""
        if self.frozen:
            return
        held = self.held
        for key in [*held.keyed.several]:
            for older, successor in held.keyed.begun(key, self._now(key)):
                newer = held[successor]
                ends = {held[older].id: (newer.valid_from, newer.created_at)}
                unit = held.unit(held.units.first(older))
                self._change(Evict(self.spec.name, [each.id for each in unit], ends))

    def expire(self, now: datetime) -> None:
        """Move items whose time to live is over to the archive. Nothing recalls them."""
        self.begin_versions()
        for item in self.held.expired(now):
            self.retire((item.id,), at=item.expires_at)

    def retire(
        self,
        item_ids: Iterable[str],
        *,
        at: datetime | None,
        by_rule: bool = True,
    ) -> None:
        """Move items to the archive, as far as they are live. Nothing recalls them.

        Args:
            at: When the session was told, None if that is not known.
            by_rule: A rule names them. If another writer changes one of them at the same time, the
                rule decides on it anew later.
        """
        self._check_writable()
        self.begin_versions()
        for item_id in item_ids:
            if item_id in self:
                ended = self._end(self.peek(item_id), at)
                self._change(Remove(self.spec.name, item_id, ended, by_rule))

    def compact(self, change: Substitution) -> bool:
        """Let items take the places of others, and return whether they could.

        The others go to the archive. False: an item that would be replaced has left already.
        Raises ReadOnlyError and InvalidArgumentError; then nothing has changed.
        """
        self._check_writable()
        for _, item in change.items:
            self._check_change(item)
        for item_id in change.replaced:
            if item_id not in self:
                return False
        self._change(Compact(self.spec.name, change))
        return True

    def make_room(self, tokens: int, *, keep: Iterable[str] = ()) -> bool:
        """Evict units of `tokens` tokens, and units above `max_items`, if that is possible.

        The newest unit stays, and so do the units of the items to keep.
        """
        self._check_writable()
        victims = self.victims.surplus(tokens=tokens, keep=keep)
        if victims:
            self.evict(victims)
        return victims is not None

    def evict(self, item_ids: Sequence[str]) -> None:
        """Evict whole units. Raises NotFoundError, InvalidArgumentError."""
        self._check_writable()
        self._change(Evict(self.spec.name, item_ids))

    def forget(self, item_ids: Iterable[str], *, stored: Iterable[Archived] = ()) -> Forget:
        """Erase items, live, archived and evicted, and return the operation.

        The operation is not in the journal: the caller logs it while the journal is empty. It names
        the ids that the section knows. Offsets of other items do not move.
        Raises ReadOnlyError, and ValueError while the journal holds changes; then nothing has
        changed.

        Args:
            stored: The versions that archive files hold and the section has not in memory; counted,
                not kept.
        """
        self._check_writable()
        if self.journal:
            raise ValueError(
                f"section {self.spec.name!r} has {len(self.journal)} changes in its journal, which "
                "may hold items to "
                "be forgotten; drain and log them first"
            )
        operation = Forget(self.spec.name, *self.known_versions(item_ids, stored))
        self.apply(operation)
        return operation

    def form(self, formation: Form) -> None:
        """Note the mark and the proposals of a formation. The caller adds and removes its items."""
        self._check_writable()
        has_news = formation.items or formation.refused or formation.shelved
        if formation.until > formation.since or has_news:
            self._change(formation)

    def count_run(
        self,
        item_id: str,
        run: str,
        worked: bool,
        at: datetime,
    ) -> None:
        """Count a run of a procedure, once. Raises ReadOnlyError."""
        self.credit(Credit(self.spec.name, at, tried=item_id, run=run, worked=worked))

    def use(self, item_ids: Iterable[str]) -> None:
        """Mark one use of each of these items; items that have left the section are passed over."""
        if self.spec.policy.counts_uses and not self.frozen:
            live = [item_id for item_id in dict.fromkeys(item_ids) if item_id in self]
            if live:
                self._change(Use(self.spec.name, live))

    def credit(self, credit: Credit) -> None:
        """Count which items were used, tried or verified. Nothing else changes."""
        self._check_writable()
        if credit.credited or credit.shown or credit.verified or credit.tried:
            self._change(credit)

    def apply(self, operation: SectionOperation) -> None:
        """Repeat an operation from the journal of this section, in this process or another.

        Raises InvalidArgumentError, LookupError, TypeError and ValueError for an operation that
        does not fit.
        """
        with self.lock:
            operation.apply(self)

    def drain_journal(self) -> list[SectionOperation]:
        """Return the changes since the last drain."""
        journal = self.journal
        self.journal = []
        return journal

    def put_back(self, item: Item, valid_until: datetime | None) -> None:
        """Take an item in as it once was: live, or evicted if it had stopped to hold."""
        with self.lock:
            self.held.put(item)
            if valid_until is None:
                return
            if self.spec.recalls and Link.of(item).is_plain:
                evict(self, (item.id,), {item.id: (valid_until, valid_until)})
            else:
                remove(self, item.id)

    # Stored state.

    @classmethod
    def restore(
        cls,
        spec: SectionSpec,
        state: Mapping[str, JSONValue],
        entries: Iterable[Mapping[str, JSONValue] | StoredItem],
        *,
        archive: Archive | None = None,
        ranker: Ranker | None = None,
    ) -> Self:
        """Return a section as another one was when it gave its state and its entries.

        Raises InvalidArgumentError, KeyError, TypeError for a state that no section gave.

        Args:
            archive: Versions that have left it and are still in memory. Without it, archive files
                hold all of them.
        """
        counts = [state[name] for name in _COUNTS]
        for count in counts:
            if type(count) is not int or count < 0:
                raise InvalidArgumentError("a section's state has a count that is none")
        archive = Archive(on_disk=state["archived"]) if archive is None else archive
        held = ItemTable.restore(spec, state, entries)
        if spec.recalls:
            held.recall(archive.in_memory())
            held.unloaded = state["evicted"] - len(held.evicted)
        return cls(spec, ranker=ranker, held=held, archive=archive)

    def state(self) -> dict[str, JSONValue]:
        """Return the state that `restore` needs beside the entries, as JSON values."""
        held = self.held
        state: dict[str, JSONValue] = {
            "taken": held.taken,
            "updates": held.updates,
            "clock": held.clock,
            "asking": held.units.asking,
            "archived": len(self.archive),
            "evicted": held.unloaded + len(held.evicted),
        }
        if held.keyed.removed:
            state["removed"] = {
                key: [each.id, each.valid_from.isoformat(), each.created_at.isoformat()]
                for key, each in held.keyed.removed.items()
            }
        if held.ledger != Ledger():
            state["ledger"] = held.ledger.to_dict()
        return state

    def known_versions(
        self, item_ids: Iterable[str], stored: Iterable[Archived]
    ) -> tuple[list[str], int, int]:
        """Return the known ids among these, and how many versions are archived and evicted.

        Args:
            stored: The versions that archive files hold and that are not in memory.
        """
        wanted = frozenset(item_ids)
        held = self.held
        versions = [each for each in (*stored, *self.archive.in_memory()) if each.item.id in wanted]
        evicted = held.evicted_among(wanted)
        known = held.ordinals.keys() & wanted
        known |= {held.evicted[ordinal].id for ordinal in evicted}
        known |= {version.item.id for version in versions}
        known |= self.ledger.known_among(wanted)
        evicted |= {version.position for version in versions if version.position is not None}
        return sorted(known), len(versions), len(evicted)

    def load(self, versions: Iterable[Archived | EvictedItem]) -> None:
        """Take in all that archive files hold, so that evicted items can be recalled.

        Raises InvalidArgumentError for items that cannot have been evicted; then nothing has
        changed.
        """
        with self.lock:
            self.index.changed(self.held.recall(versions))
            self.held.unloaded = 0

    def drop_stored_texts(self, evicted: Iterable[EvictedItem]) -> None:
        """Keep no text of those evicted items that these files hold now."""
        with self.lock:
            for each in evicted:
                self.held.place(each)

    async def catch_up(self) -> None:
        """Index one batch of changes, beside the event loop."""
        await asyncio.to_thread(self.index.catch_up)

    async def index_for(self, cap: int, *, is_crowded: bool = True) -> None:
        """Index the changes that a proposal would wait for, beside the event loop."""
        while self.proposer.lacks_changes(cap, is_crowded=is_crowded):
            await self.catch_up()

    def recount(self, count: Callable[[Item], int]) -> None:
        """Measure all items anew, for another token counter."""
        with self.lock:
            self.held.recount(count)
            self.archive.recount(count)

    # Checks.

    def _check_change(self, item: Item) -> None:
        self._check_writable()
        if item.section != self.spec.name:
            raise ValueError(
                f"item {shown(item.id)} is of section {item.section!r}; add it there, or make it "
                f"for {self.spec.name!r}"
            )
        check_storable(item)

    def _check_writable(self) -> None:
        if self.frozen:
            raise ReadOnlyError(f"section {self.spec.name!r} is of a session that {self.frozen}")

    def _change(self, operation: SectionOperation) -> None:
        """Carry out an operation and enter it in the journal."""
        self.apply(operation)
        count_evictions(self.spec.name, evicted_by(operation))
        if self.spec.persistence != "none":
            self.journal.append(operation)
