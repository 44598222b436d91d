"""The items of a section: live, evicted and archived, with their index and their proposer.

A table decides nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from threading import RLock
from typing import TYPE_CHECKING, Self

from kaosmem.errors import CorruptionError, InvalidArgumentError
from kaosmem.sections.archive import Archive, Archived
from kaosmem.sections.holdings import Holdings
from kaosmem.sections.lazy_index import LazyIndex
from kaosmem.sections.ledger import Ledger
from kaosmem.sections.past import EvictedItem, read_evicted
from kaosmem.sections.proposer import Proposer
from kaosmem.sections.spec import SectionSpec
from kaosmem.types import JSONValue
from kaosmem.types.items import Item, StoredItem

if TYPE_CHECKING:
    from kaosmem.retrieval.ranker import Ranker

_COUNTS = ("taken", "updates", "clock", "archived", "evicted")
"""The counts in a stored state."""
_READ_AT_ONCE = 4_096
"""How many evicted items are read at a time where the index lacks them."""


class Table:
    """The items of a section, which operations change.

    Args:
        ranker: The ranker for a spec without its own. The default is `LinearRanker`.

    Attributes:
        held: The live items.
        archive: The items that left.
        index: The index over all items that may be shown.
        lock: Held while any of these changes, so that no other thread looks at them meanwhile.
        proposer: Ranks the items, and proposes units for a context.
        removed: Ids of the items that were removed, not evicted, since the section was read.
        lost: The reasons why evicted items can no longer be recalled.
    """

    def __init__(
        self,
        spec: SectionSpec,
        *,
        ranker: Ranker | None = None,
        held: Holdings | None = None,
        archive: Archive | None = None,
    ) -> None:
        self.spec = spec
        self.ranker = ranker
        self.held = Holdings(spec) if held is None else held
        self.archive = Archive() if archive is None else archive
        self.removed: set[str] = set()
        self.lost: list[CorruptionError] = []
        self.lock = RLock()
        self.index = LazyIndex(spec.ranker or ranker, self.held, self.lock)
        self.proposer = Proposer(spec, self.held, self.index)

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
        """Return a table as another one was when it gave its state and its entries.

        archive: versions that have left it and are still in memory. Without it, archive files hold
            all of them.
        Raises InvalidArgumentError, KeyError, TypeError for a state that no table gave.
        """
        counts = [state[name] for name in _COUNTS]
        if not all(type(count) is int and count >= 0 for count in counts):
            raise InvalidArgumentError("a section's state has a count that is none")
        archive = Archive(on_disk=state["archived"]) if archive is None else archive
        held = Holdings.restore(spec, state, entries)
        if spec.recalls:
            held.recall(archive.in_memory())
            held.past.expect(state["evicted"])
        return cls(spec, ranker=ranker, held=held, archive=archive)

    @property
    def ledger(self) -> Ledger:
        """How far the section was formed, and how its items were used."""
        return self.held.ledger

    def state(self) -> dict[str, JSONValue]:
        """Return the state that `restore` needs beside the entries, as JSON values."""
        held = self.held
        past = held.past
        state: dict[str, JSONValue] = {
            "taken": held.taken,
            "updates": held.updates,
            "clock": held.clock,
            "asking": held.units.asking,
            "archived": len(self.archive),
            "evicted": past.unloaded + len(past),
        }
        ledger = held.ledger.to_dict()
        if ledger:
            state["ledger"] = ledger
        return state

    def known_versions(
        self, item_ids: Iterable[str], stored: Iterable[Archived]
    ) -> tuple[list[str], int, int]:
        """Return the known ids among these, and how many versions are archived and evicted.

        stored: the versions that archive files hold and that are not in memory.
        """
        wanted = frozenset(item_ids)
        past = self.held.past
        versions = [each for each in (*stored, *self.archive.in_memory()) if each.item.id in wanted]
        evicted = past.ordinals(wanted)
        known = self.held.ordinals.keys() & wanted | {past[ordinal].id for ordinal in evicted}
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
            self.held.past.expect(len(self.held.past))

    def let_go(self, evicted: Iterable[EvictedItem]) -> None:
        """Keep no text of those evicted items that these files hold now."""
        with self.lock:
            for each in evicted:
                self.held.past.place(each)

    async def catch_up(self) -> None:
        """Index one batch of changes, or read evicted texts for the next batches.

        The work runs beside the event loop.
        """
        await asyncio.to_thread(self.index.catch_up)
        unread = self.index.unread(_READ_AT_ONCE)
        if unread:
            self.held.past.keep_texts(())  # of the items read before: they are indexed
            await self.read_texts(unread)

    async def read_texts(self, evicted: Iterable[EvictedItem]) -> None:
        """Read texts of evicted items, beside the event loop, and take them in."""
        self.take_in(await asyncio.to_thread(read_evicted, evicted))

    def take_in(self, read: Mapping[EvictedItem, Item | CorruptionError]) -> None:
        """Take in texts of evicted items that were read.

        A unit whose text could not be read can no longer be recalled.
        """
        errors: dict[str, CorruptionError] = {}
        lost: set[int] = set()
        with self.lock:
            past = self.held.past
            for evicted, found in read.items():
                if not past.is_at(evicted):
                    continue
                if isinstance(found, Item):
                    past.texts[evicted.position] = found
                else:
                    errors.setdefault(str(found), found)
                    lost.update(past.members(evicted.position))
            if lost:
                past.forget(lost)
                self.index.changed(lost)
            for error in map(str, self.lost):
                errors.pop(error, None)
            self.lost += errors.values()

    def recount(self, count: Callable[[Item], int]) -> None:
        """Measure all items anew, for another token counter."""
        with self.lock:
            self.held.recount(count)
            self.archive.recount(count)
