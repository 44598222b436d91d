"""Sections: items under a spec, within its budget."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING

from kaosmem.errors import DuplicateItemError, ItemTooLargeError, SectionFullError, UnsupportedVersionError
from kaosmem.eviction import POLICIES
from kaosmem.holdings import Holdings
from kaosmem.names import shown
from kaosmem.proposals import Candidate, Proposal, Proposer, Source
from kaosmem.specs import DEFAULT_SECTIONS, SectionSpec, check_specs
from kaosmem.types import Item, JSONValue

if TYPE_CHECKING:
    from kaosmem.retrieval import Ranker

__all__ = [
    "DEFAULT_SECTIONS",
    "Archive",
    "Candidate",
    "Proposal",
    "Section",
    "SectionSpec",
    "Source",
    "check_specs",
]


class Archive:
    """What has left a section: evicted, removed or replaced versions, in memory until an archive file holds them."""

    def __init__(self, on_disk: int = 0) -> None:
        self._on_disk = on_disk
        self._versions: deque[Item] = deque()
        self._newest: dict[str, Item] = {}
        self._undrained = 0

    def __len__(self) -> int:
        """Return how many versions were ever archived."""
        return self._on_disk + len(self._versions)

    def get(self, item_id: str) -> Item | None:
        """Return the newest archived version of an item, if it is in memory."""
        return self._newest.get(item_id)

    def put(self, item: Item) -> None:
        """Archive a version of an item."""
        self._versions.append(item)
        self._newest[item.id] = item
        self._undrained += 1

    def drain(self) -> list[Item]:
        """Return the versions put since the last drain, oldest first; they stay in memory."""
        drained = list(islice(reversed(self._versions), self._undrained))[::-1]
        self._undrained = 0
        return drained

    def in_memory(self) -> list[Item]:
        """Return the versions in memory, oldest first."""
        return list(self._versions)

    def release(self, count: int) -> None:
        """Let go of the oldest `count` versions in memory, which an archive file holds now."""
        for _ in range(count):
            version = self._versions.popleft()
            if self._newest.get(version.id) is version:  # one object may be archived twice
                del self._newest[version.id]
        self._on_disk += count


class Section:
    """An ordered list of items under a spec: it makes room by its policy and proposes units for a window.

    Every change is entered in `journal` as (op, data), so that `apply` replays it without deciding again; a section
    that is never persisted keeps no journal. ranker: for a spec without its own; None is BM25.
    """

    def __init__(self, spec: SectionSpec, *, ranker: Ranker | None = None) -> None:
        self.spec = spec
        self.archive = Archive()
        self.journal: list[tuple[str, dict[str, JSONValue]]] = []
        self._policy = POLICIES[spec.eviction]
        self._held = Holdings(self._policy)
        self._proposer = Proposer(spec, self._held, ranker=ranker)

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

    def propose(self, query: str, *, cap: int) -> Proposal:
        """Return units in order of want until they hold twice `cap` tokens, with all that must be shown."""
        return self._proposer.propose(query, cap=cap)

    def rank(self, query: str, limit: int) -> list[tuple[Item, float]]:
        """Return at most `limit` live items with their scores for a query, best first."""
        return [(self._held[ordinal], score) for ordinal, score in self._proposer.rank(query, limit)]

    def add(self, item: Item) -> None:
        """Add an item, evicting others where the policy allows it.

        Raises DuplicateItemError, ItemTooLargeError or SectionFullError; then nothing has changed.
        """
        self._check_section(item)
        if item.id in self._held:
            raise DuplicateItemError(
                f"section {self.spec.name!r} has a live item {shown(item.id)}; update it, or choose another id"
            )
        evicted = self._choose_victims(item, tokens=item.tokens, items=1)
        self._add(item, evicted)
        self._log("add", item=item, evicted=evicted)

    def update(self, item: Item) -> None:
        """Put an item in the place of the live one with its id, which goes to the archive.

        Raises UnknownItemError, ItemTooLargeError or SectionFullError; then nothing has changed.
        """
        self._check_section(item)
        evicted = self._choose_victims(item, tokens=item.tokens - self.peek(item.id).tokens, items=0)
        self._update(item, evicted)
        self._log("update", item=item, evicted=evicted)

    def remove(self, item_id: str) -> None:
        """Move one item to the archive. Raises UnknownItemError."""
        self._archive((item_id,))
        self._log("remove", id=item_id)

    def use(self, item_ids: Iterable[str]) -> None:
        """Mark one use of each of these items; those that have left the section are passed over."""
        if self._policy.counts_uses:
            live = [item_id for item_id in dict.fromkeys(item_ids) if item_id in self._held]
            if live:
                self._held.use(map(self._held.ordinal, live))
                self._log("use", ids=live)

    def apply(self, op: str, data: Mapping[str, JSONValue]) -> None:
        """Repeat a change from the journal. Raises UnsupportedVersionError for an op it does not know."""
        match op:
            case "add":
                self._add(Item.from_dict(data["item"], self.spec.name), data["evicted"])
            case "update":
                self._update(Item.from_dict(data["item"], self.spec.name), data["evicted"])
            case "remove":
                self._archive((data["id"],))
            case "use":
                self._held.use(map(self._held.ordinal, data["ids"]))
            case _:
                raise UnsupportedVersionError(
                    f"section {self.spec.name!r} cannot repeat the change {op!r}; open it with a newer kaosmem"
                )

    def drain_journal(self) -> list[tuple[str, dict[str, JSONValue]]]:
        """Return the changes since the last drain."""
        journal, self.journal = self.journal, []
        return journal

    def recount(self, count: Callable[[Item], int]) -> None:
        """Measure all items anew, for another token counter."""
        self._held.recount(count)

    def state(self) -> dict[str, JSONValue]:
        """Return what `restore` needs beside the entries, as JSON values."""
        return self._held.state() | {"archived": len(self.archive)}

    def entries(self) -> Iterator[dict[str, JSONValue]]:
        """Return the live items as JSON values, as they are now, each with what must survive of its place and use."""
        return self._held.entries()

    @classmethod
    def restore(
        cls,
        spec: SectionSpec,
        state: Mapping[str, JSONValue],
        entries: Iterable[Mapping[str, JSONValue]],
        *,
        ranker: Ranker | None = None,
    ) -> Section:
        """Return a section that goes on where another one was when it gave its state and entries."""
        section = cls(spec, ranker=ranker)
        section.archive = Archive(on_disk=state["archived"])
        section._held = Holdings.restore(section._policy, state, entries, spec.name)
        section._proposer = Proposer(spec, section._held, ranker=ranker)
        return section

    def _check_section(self, item: Item) -> None:
        if item.section != self.spec.name:
            raise ValueError(
                f"item {shown(item.id)} is of section {item.section!r}; add it there, or make it for {self.spec.name!r}"
            )

    def _choose_victims(self, item: Item, *, tokens: int, items: int) -> list[str]:
        """Return the ids of what must go so that the section may grow by these, for an item new or updated."""
        budget = self.budget if self._policy.bounded else None
        if budget is not None and item.tokens > budget:
            raise ItemTooLargeError(
                f"item {shown(item.id)} has {item.tokens} tokens, more than the {budget} of section "
                f"{self.spec.name!r}; split it, or raise the section's budget"
            )
        excess = 0 if budget is None or tokens <= 0 else self.used + tokens - budget
        surplus = 0 if self.spec.max_items is None or items <= 0 else len(self) + items - self.spec.max_items
        if excess <= 0 and surplus <= 0:
            return []
        newcomer, own = self._held.prospect(item)
        victims = self._held.queue.choose_victims(newcomer, own=own, tokens=excess, items=surplus)
        if victims is None:
            raise SectionFullError(
                f"section {self.spec.name!r} is full: item {shown(item.id)} needs "
                + (f"{excess} tokens" if excess > 0 else f"{surplus} place")
                + f" more than its policy {self.spec.eviction!r} can free: what is pinned, waits for a result or "
                "outranks the item stays; raise its budget or max_items, or choose a policy that evicts"
            )
        return [item.id for first in victims for item in self._held.unit(first)[0]]

    def _add(self, item: Item, evicted: Iterable[str]) -> None:
        self._archive(evicted)
        self._proposer.added(self._held.put(item))

    def _update(self, item: Item, evicted: Iterable[str]) -> None:
        self._archive(evicted)
        self.archive.put(self.peek(item.id))
        self._proposer.changed(self._held.replace(item))

    def _archive(self, item_ids: Iterable[str]) -> None:
        ordinals = [self._held.ordinal(item_id) for item_id in item_ids]
        for item in self._held.take(ordinals):
            self.archive.put(item)
        for ordinal in ordinals:
            self._proposer.removed(ordinal)

    def _log(self, op: str, **data: Item | str | list[str]) -> None:
        if self.spec.persistence != "none":
            stored = {name: value.to_dict() if isinstance(value, Item) else value for name, value in data.items()}
            self.journal.append((op, stored))
