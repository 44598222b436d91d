"""The earlier messages of a thread that match a query."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from kaosmem.compaction.kept_facts import SUMMARY_ROLE
from kaosmem.filters import MetadataFilter
from kaosmem.language.query import Query
from kaosmem.sections import Candidate
from kaosmem.sections.proposal import Proposal
from kaosmem.sections.section import Section
from kaosmem.sections.spec import SectionSpec
from kaosmem.sources.thread_reader import ThreadReader
from kaosmem.types.items import ChatMessage, Item


class ThreadRecall:
    """A section that mirrors a thread: the item at a position is the message at that position.

    The first call reads the whole thread and indexes it. Later calls read the messages that were
    appended since, and the last known one. If that has changed, messages were cleared, and the
    thread is read anew.
    item_of: makes the item of a message under an id.
    """

    def __init__(
        self, reader: ThreadReader, spec: SectionSpec, item_of: Callable[[str, ChatMessage], Item]
    ) -> None:
        # The mirror holds the thread as it is: nothing is evicted, and nothing is stored.
        self._spec = replace(
            spec,
            budget=None,
            floor=0.0,
            eviction="none",
            max_items=None,
            compaction=None,
            persistence="none",
        )
        self._reader = reader
        self._item_of = item_of
        self._clear()

    async def earlier(
        self, query: Query, *, cap: int, wanted: MetadataFilter | None, among: Proposal
    ) -> Proposal:
        """Return a proposal with the units that may be recalled beside its own.

        Its own units stay as they are. No unit is recalled of which it has another version, such as
        a shorter one.
        """
        if not query.text.strip():
            return among
        await self._catch_up()
        section = self._section
        while section.proposer.lag(query, cap=cap):
            await section.catch_up()
        found = section.proposer.propose(query, cap=cap, wanted=wanted)
        own = {unit.position: unit for unit in among.candidates}
        taken = {item.id for unit in among.candidates for item in unit.items}
        kept: list[Candidate] = []
        for unit in map(self._named, found.earlier):
            same = own.get(unit.position)
            ids = [item.id for item in unit.items]
            if any(item.role == SUMMARY_ROLE and item.sources for item in unit.items):
                continue  # nobody said it: an AgentContext has stored it for itself
            if same is not None and [item.id for item in same.items] == ids:
                kept.append(unit._replace(items=same.items, tokens=same.tokens))
            elif same is None and taken.isdisjoint(ids):
                kept.append(unit)
        return replace(among, earlier=_tied(kept), stock=found.stock, signals=found.signals)

    def _clear(self) -> None:
        self._section = Section(self._spec)
        self._taken = 0
        self._last: ChatMessage | None = None
        self._own_ids: dict[int, str] = {}
        self._newest: dict[str, int] = {}
        self._pinned: set[int] = set()

    async def _catch_up(self) -> None:
        """Take in the messages that are new in the thread."""
        while True:
            section = self._section
            taken = self._taken
            read = await self._reader.page(max(0, taken - 1))
            if self._section is not section or self._taken != taken:
                continue  # another call has taken messages in meanwhile
            if taken:
                if not read or not _is_same(read[0], self._last):
                    self._clear()
                    continue
                read = read[1:]
            if not read:
                return
            self._take(read)

    def _take(self, messages: Sequence[ChatMessage]) -> None:
        for position, message in enumerate(messages, self._taken):
            if message.id[:1] not in ("", "#", "~"):
                self._newest[message.id] = position
                self._own_ids[position] = message.id
            if message.pinned:
                self._pinned.add(position)
            # A pinned item would be required, and so never be recalled.
            self._section.add(replace(self._item_of(f"#{position}", message), pinned=False))
        self._taken += len(messages)
        self._last = messages[-1]

    def _named(self, unit: Candidate) -> Candidate:
        """Return a unit whose items have the ids that the source gives them."""
        items = []
        for item in unit.items:
            position = self._section.held.ordinal(item.id)
            named = replace(item, pinned=position in self._pinned)
            if position in self._own_ids and self._newest[self._own_ids[position]] == position:
                named = replace(named, id=f"{self._spec.name}/{self._own_ids[position]}")
            items.append(named)
        return unit._replace(items=tuple(items))


def _is_same(message: ChatMessage, known: ChatMessage | None) -> bool:
    """Return whether a message is the known one: times and runs tell equal messages apart."""
    return known is not None and (message, message.created_at, message.run_id) == (
        known,
        known.created_at,
        known.run_id,
    )


def _tied(units: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Return units without ties to others that are not among them."""
    there = {unit.position for unit in units}
    tied = []
    for unit in units:
        needs = tuple(position for position in unit.needs if position in there)
        is_replaced = unit.is_replaced and bool(needs)
        tied.append(unit._replace(needs=needs, is_replaced=is_replaced))
    return tuple(tied)
