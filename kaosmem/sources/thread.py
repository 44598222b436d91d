"""A thread of messages, mirrored by a section in memory."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from kaosmem.compaction.transcript import is_record
from kaosmem.filters import MetadataFilter
from kaosmem.language.query import Query
from kaosmem.sections import Candidate
from kaosmem.sections.proposal import Proposal
from kaosmem.sections.section import Section
from kaosmem.sections.spec import SectionSpec
from kaosmem.sources.store_source import holding
from kaosmem.stores import HistoryProvider
from kaosmem.types.items import ChatMessage, Item

FIRST_PAGE = 64
"""As many messages are read first, from the end of the thread."""
_PAGE = 1_024

ItemOf = Callable[[str, ChatMessage], Item]
"""Makes the item of a message under an id."""


class Thread:
    """One thread of a provider.

    Attributes:
        mirror: The messages that were read.
    """

    def __init__(
        self,
        provider: HistoryProvider,
        agent_id: str,
        session_id: str,
        spec: SectionSpec,
        item_of: ItemOf,
    ) -> None:
        self._provider = provider
        self._agent_id = agent_id
        self._session_id = session_id
        self._spec = spec
        self._item_of = item_of
        self.mirror = self._mirror_from(0)

    def named(self, spec: SectionSpec, item_of: ItemOf) -> Thread:
        """Return the thread for items under another name."""
        return Thread(self._provider, self._agent_id, self._session_id, spec, item_of)

    async def catch_up(self) -> None:
        """Take in the messages that were appended since, or the newest ones at first.

        If the last known message has changed, messages were cleared. Then the thread is read anew.
        """
        while True:
            mirror = self.mirror
            taken = mirror.taken
            if not mirror.messages:
                count = await self._provider.count_messages(
                    self._agent_id, session_id=self._session_id
                )
                mirror = self._mirror_from(max(0, count - FIRST_PAGE))
                read = await self._page(mirror.begin)
                if not read and mirror.begin:
                    continue  # somebody has cleared the thread meanwhile
                mirror.take(read)
                self.mirror = mirror
                if len(read) < _PAGE:
                    return
                continue
            read = await self._page(taken - 1)
            if self.mirror is not mirror or mirror.taken != taken:
                continue  # another call has taken messages in meanwhile
            if not read or not _is_same(read[0], mirror.messages[-1]):
                self.mirror = self._mirror_from(0)
                continue
            mirror.take(read[1:])
            if len(read) < _PAGE:
                return

    async def read_back(self, *, whole: bool) -> None:
        """Take in messages from before those of the mirror: as many again, or all of them.

        A mirror of all of them recalls.
        """
        old = self.mirror
        size = len(old.messages)
        begin = 0 if whole else max(0, old.begin - size)
        mirror = self._mirror_from(begin, recalls=whole)
        while mirror.taken < old.begin:
            read = await self._page(mirror.taken, min(_PAGE, old.begin - mirror.taken))
            if not read or self.mirror is not old:
                break
            mirror.take(read)
        if self.mirror is not old:
            return  # another call has read the thread meanwhile
        if mirror.taken < old.begin:
            self.mirror = self._mirror_from(0)  # somebody has cleared the thread meanwhile
            await self.catch_up()
            return
        mirror.take(old.messages)
        self.mirror = mirror

    async def at(self, position: int) -> ChatMessage | None:
        """Return the message at a position, or None."""
        read = await self._page(position, 1)
        return read[0] if read else None

    async def find(self, message_id: str) -> ChatMessage | None:
        """Return the newest message of that id, or None."""
        end = await self._provider.count_messages(self._agent_id, session_id=self._session_id)
        while end > 0:
            begin = max(0, end - _PAGE)
            for message in reversed(await self._page(begin, end - begin)):
                if message.id == message_id:
                    return message
            end = begin
        return None

    def _mirror_from(self, begin: int, *, recalls: bool = False) -> Mirror:
        spec = self._spec if recalls else replace(self._spec, recall=0.0)
        return Mirror(begin, spec, self._item_of)

    async def _page(self, begin: int, size: int = _PAGE) -> list[ChatMessage]:
        return await self._provider.get_messages(
            self._agent_id, session_id=self._session_id, limit=size, offset=begin
        )


class Mirror:
    """The messages of a thread from one position on, as the items of a section.

    Attributes:
        begin: The position of the first message.
        taken: The position after the last one.
        recalls: Whether a query finds messages before the newest ones.
        messages: All of them. The section lacks the records of summaries: nobody said them.
    """

    def __init__(
        self,
        begin: int,
        spec: SectionSpec,
        item_of: ItemOf,
    ) -> None:
        self.begin = begin
        self.taken = begin
        self.recalls = spec.recall > 0
        self.messages: list[ChatMessage] = []
        self.section = Section(holding(spec))
        self._item_of = item_of
        self._positions: list[int] = []  # by ordinal
        self._newest: dict[str, int] = {}  # by the message's own id
        self._items: dict[int, Item] = {}  # by position

    def take(self, messages: Sequence[ChatMessage]) -> None:
        """Take in the next messages of the thread."""
        for position, message in enumerate(messages, self.taken):
            if is_record(message):
                continue
            if message.id[:1] not in ("", "#"):
                self._newest[message.id] = position
            self._positions.append(position)
            # A pinned item would be required, however far back it stands.
            item = self._item_of(f"#{position}", message)
            self.section.add(replace(item, pinned=False))
        self.taken += len(messages)
        self.messages += messages

    @property
    def newest_question(self) -> Item | None:
        """Return the newest user message with more than tool results, None if none was read."""
        return self.section.newest_question

    async def propose(
        self,
        query: Query,
        *,
        cap: int,
        wanted: MetadataFilter | None,
        recalls: bool,
    ) -> Proposal:
        """Return the newest units, those with a pinned message among the required ones.

        `is_all` says whether they are all that was read.

        Args:
            recalls: Whether `earlier` has the units that match the query.
        """
        await self.section.index_for(cap)
        found = self.section.proposer.propose(query, cap=cap, wanted=wanted)
        units = sorted(map(self._shown, found.candidates), key=lambda unit: not unit.must)
        candidates = [unit._replace(rank=rank) for rank, unit in enumerate(units, 1)]
        proposal = replace(
            found,
            candidates=tuple(candidates),
            earlier=tuple(map(self._shown, found.earlier)) if recalls else (),
            taken=self.taken,
            stock=found.stock if recalls else None,
        )

        def signals(position: int) -> Mapping[str, float]:
            return found.signals(bisect_left(self._positions, position))

        return replace(proposal, signals=signals)

    def _shown(self, unit: Candidate) -> Candidate:
        """Return a unit at its positions in the thread, its items under the ids of the source."""
        items = tuple(self._own(self._positions[at]) for at in unit.positions or (unit.position,))
        return unit._replace(
            items=items,
            position=self._positions[unit.position],
            must=unit.must or any(item.pinned for item in items),
            needs=tuple(self._positions[at] for at in unit.needs),
            positions=tuple(self._positions[at] for at in unit.positions),
        )

    def _own(self, position: int) -> Item:
        """Return the item of a message: the same one as long as its id is the same.

        It has the message's own id, unless it has none or a later message has the same. Then its
        position is its id.
        """
        message = self.messages[position - self.begin]
        is_named = self._newest.get(message.id) == position
        local = message.id if is_named else f"#{position}"
        item = self._items.get(position)
        if item is None or not item.id.endswith(f"/{local}"):
            item = self._item_of(local, message)
            self._items[position] = item
        return item


def _is_same(message: ChatMessage, known: ChatMessage) -> bool:
    """Return whether a message is the known one: times and runs tell equal messages apart."""
    return (message, message.created_at, message.run_id) == (known, known.created_at, known.run_id)
