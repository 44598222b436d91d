"""A thread of messages as a source: its newest ones, as a history."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import ClassVar

from kaosmem.adapters.excerpt import Excerpt, Placed, read_back
from kaosmem.adapters.store_source import StoreSource
from kaosmem.compaction import CompactionStrategy, Outline
from kaosmem.filters import MetadataFilter
from kaosmem.names import check_id
from kaosmem.sections import Candidate, Proposal, SectionSpec
from kaosmem.stores import HistoryProvider
from kaosmem.types import ChatMessage, Item, Trust

HISTORY = SectionSpec("history", 32_000, 90, 0.35, placement="history", eviction="none", low_water=0.5, recall=0.0)

_PAGE = 256


class HistorySource(StoreSource):
    """The newest messages of an agent's thread, as the turns of a conversation.

    It reads back from the end only as much as twice what may be shown, so a window costs the same however long the
    thread is, and what is older is as if it were not there: a pinned message or the call of a late result too. As it is
    not known how many tokens that is, the history is cut by the positions of its messages: as rarely and far as a
    section's, and at the same place in every process. Earlier messages are not recalled. `query` is the caller's to
    give: the newest user message of a source is not asked for.
    A message is the item `<name>/<its id>` or, where it has none that is its own, `<name>/#<its position>`.
    pipeline: what shortens the messages that were read, or one strategy. What it made has a `~` before its id: a
    message that it changed names the one that was there as its source, and is fetched as that.
    Raises InvalidNameError for an id, ValueError for the spec.
    """

    placement: ClassVar[str] = "history"

    def __init__(
        self,
        provider: HistoryProvider,
        agent_id: str,
        session_id: str,
        pipeline: CompactionStrategy | None = None,
        *,
        spec: SectionSpec = HISTORY,
    ) -> None:
        super().__init__(spec, trust=Trust.APPLICATION)
        self._provider, self._pipeline = provider, pipeline
        self._agent_id, self._session_id = check_id(agent_id, "agent id"), check_id(session_id, "session id")
        self._shown: dict[int, tuple[Placed, Item]] = {}

    def named(self, name: str) -> HistorySource:
        """Return the source under another name."""
        other = super().named(name)
        other._shown = {}
        return other

    async def propose(self, query: str, *, cap: int, wanted: MetadataFilter | None = None) -> Proposal:
        """Return first what must be shown: the newest user message and unit, pinned ones; then the newest units."""
        excerpt = await read_back(self._provider, self._agent_id, session_id=self._session_id, room=2 * cap)
        left_out = excerpt.taken - len(excerpt.placed)
        if self._pipeline is not None:
            excerpt = excerpt.replaced(await self._pipeline.compact(excerpt.messages))
        outline = Outline(excerpt.messages)
        must = _must(outline)
        cuts = {place for place in outline.cuts_beside(must) if place < len(outline.messages)}
        items = self._items(excerpt)
        newest_first = sorted(outline.units, key=lambda unit: (unit[0] not in must, -unit[-1]))
        candidates = tuple(
            Candidate(
                tuple(items[place] for place in unit),
                excerpt.placed[unit[0]].position,
                0,
                unit[0] in cuts and excerpt.placed[unit[0]].position >= excerpt.start,
                unit[0] in must,
                unit[0] in outline.orphans,
                rank,
                None,
                sum(items[place].tokens for place in unit),
            )
            for rank, unit in enumerate(newest_first, 1)
        )
        return Proposal(candidates, total=None, taken=excerpt.taken, evicted=left_out)

    async def get(self, item_id: str) -> Item | None:
        """Return a message in full, or None; by its own id it is looked for in the whole thread, newest first."""
        if (local := self._local(item_id)) is None:
            return None
        for each, item in self._shown.values():
            if item.id == item_id and each.original is None:
                return item
        local = local.removeprefix("~")
        found = await (self._at(local.removeprefix("#")) if local.startswith("#") else self._find(local))
        return None if found is None else self._message_item(local, found)

    async def _at(self, position: str) -> ChatMessage | None:
        if not (position.isascii() and position.isdigit()):
            return None
        read = await self._provider.get_messages(
            self._agent_id, session_id=self._session_id, limit=1, offset=int(position)
        )
        return read[0] if read else None

    async def _find(self, message_id: str) -> ChatMessage | None:
        """Return the newest message of that id."""
        end = await self._provider.count_messages(self._agent_id, session_id=self._session_id)
        while end > 0:
            begin = max(0, end - _PAGE)
            read = await self._provider.get_messages(
                self._agent_id, session_id=self._session_id, limit=end - begin, offset=begin
            )
            if found := [message for message in read if message.id == message_id]:
                return found[-1]
            end = begin
        return None

    def _items(self, excerpt: Excerpt) -> list[Item]:
        """Return an item for each message: the same one as long as the message is, and what is known of it."""
        known, self._shown = self._shown, {}
        for each, local in zip(excerpt.placed, _local_ids(excerpt.placed), strict=True):
            was = known.get(each.position)
            if was is None or was[0] != each or self._local(was[1].id) != local:
                was = each, self._item_of(each, local)
            self._shown[each.position] = was
        return [item for _, item in self._shown.values()]

    def _item_of(self, each: Placed, local: str) -> Item:
        item = self._message_item(local, each.message)
        if each.original is None or each.original is each.message:
            return item
        sources = (f"{self.spec.name}/{local.removeprefix('~')}", *item.sources)
        return replace(item, sources=sources, trust=min(item.trust, each.original.authority))

    def _message_item(self, local: str, message: ChatMessage) -> Item:
        sources = tuple(f"{self.spec.name}/{source}" for source in message.sources)
        item = self._item(local, message.content, role=message.role)
        return replace(item, pinned=message.pinned, sources=sources, trust=message.authority)


def _local_ids(placed: Iterable[Placed]) -> list[str]:
    """Return an id for each message: its own, unless it has none or a later one has the same, else its position."""
    seen: set[str] = set()
    ids: list[str] = []
    for each in reversed([*placed]):
        own = (each.original or each.message).id
        local = f"#{each.position}" if own in seen or own[:1] in ("", "#", "~") else own
        seen.add(own)
        ids.append(local if each.original is each.message else f"~{local}")
    return ids[::-1]


def _must(outline: Outline) -> frozenset[int]:
    """Return the positions of the units that must be shown."""
    wanted = {*outline.questions[-1:], *(place for place, message in enumerate(outline.messages) if message.pinned)}
    newest = max((unit[-1] for unit in outline.units if unit[0] not in outline.orphans), default=-1)
    return frozenset(
        place
        for unit in outline.units
        if unit[0] not in outline.orphans and (newest in unit or not wanted.isdisjoint(unit))
        for place in unit
    )
