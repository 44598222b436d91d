"""A thread of messages as a source: its newest ones, and earlier ones that match the query."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar

from kaosmem.arguments import check_instance
from kaosmem.compaction.transcript import is_record
from kaosmem.filters import MetadataFilter
from kaosmem.language.query import Query
from kaosmem.names import check_id
from kaosmem.sections import Candidate
from kaosmem.sections.proposal import Proposal
from kaosmem.sections.section import Section
from kaosmem.sections.spec import SectionSpec
from kaosmem.sources.store_source import StoreSource, holding, with_fitting_results
from kaosmem.stores import HistoryProvider
from kaosmem.types import JSONDict
from kaosmem.types.content import Trust
from kaosmem.types.items import ChatMessage, Item

FIRST_PAGE = 64
"""As many messages are read first, from the end of the thread."""
_PAGE = 1_024

ItemOf = Callable[[str, ChatMessage], Item]
"""Makes the item of a message under an id."""


class ThreadMirror:
    """The messages of a thread from one position on, as the items of a section.

    The ordinal of an item is the position of its message in the thread.

    Attributes:
        begin: The position of the first message.
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
        self.recalls = spec.recall > 0
        self.messages: list[ChatMessage] = []
        self.section = Section(holding(spec))
        self.section.held.taken = begin
        self._item_of = item_of
        self._newest: dict[str, int] = {}  # by the message's own id
        self._items: dict[int, Item] = {}  # by position

    @property
    def taken(self) -> int:
        """The position after the last message."""
        return self.section.held.taken

    def take(self, messages: Sequence[ChatMessage]) -> None:
        """Take in the next messages of the thread."""
        for message in messages:
            position = self.taken
            if is_record(message):
                self.section.held.taken += 1
                continue
            if message.id[:1] not in ("", "#"):
                self._newest[message.id] = position
            # A pinned item would be required, however far back it stands.
            item = self._item_of(f"#{position}", message)
            self.section.add(replace(item, pinned=False))
        self.messages += messages

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
        if not recalls:
            found = replace(found, earlier=(), pool=None)
        shown = found.changed(partial(map, self._shown))
        units = sorted(shown.candidates, key=lambda unit: not unit.must)
        candidates = [unit._replace(rank=rank) for rank, unit in enumerate(units, 1)]
        return replace(shown, candidates=tuple(candidates))

    def _shown(self, unit: Candidate) -> Candidate:
        """Return a unit with its items under the ids of the source."""
        items = tuple(map(self._own, unit.positions or (unit.position,)))
        return unit._replace(items=items, must=unit.must or any(item.pinned for item in items))

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


HISTORY = SectionSpec("history", 32_000, 90, 0.35, placement="history", eviction="none")


class HistorySource(StoreSource):
    """The newest messages of an agent's thread, and earlier ones that match the query.

    The source reads the newest messages back from the end of the thread, about twice as much as
    fits, and the newest user message. If the messages that must be shown exceed the cap, the
    results of the newest calls are cut to one length.

    Earlier messages are recalled as those of a section are: up to the part `recall` of the cap
    (0.25 in `HISTORY`). Without a query, the newest user message is the query. The first query
    reads and indexes the whole thread. The source holds the messages in memory, and later reads
    only those that were appended since. With `recall=0` in the spec, only the newest messages and
    the newest user message are shown, and no earlier pinned one. Then a context costs the same for
    a thread of any length.

    A message is the item `<name>/<message id>`, or `<name>/#<position>` if it has no id of its own,
    or a later message has the same. The item has the metadata of its message. Where these do not
    have `timestamp` and `run_id`, it has the time and the run of the message.

    Raises:
        InvalidNameError: For an id.
        InvalidArgumentError: For the provider and the spec.
    """

    placement: ClassVar[str] = "history"

    def __init__(
        self,
        provider: HistoryProvider,
        agent_id: str,
        session_id: str,
        *,
        spec: SectionSpec = HISTORY,
    ) -> None:
        super().__init__(spec, trust=Trust.APPLICATION)
        self._provider = check_instance(provider, HistoryProvider, "provider")
        self._agent_id = check_id(agent_id, "agent id")
        self._session_id = check_id(session_id, "session id")
        self._mirror = self._mirror_from(0)

    def named(self, name: str) -> HistorySource:
        """Return the source under another name."""
        other = super().named(name)
        other._mirror = other._mirror_from(0)
        return other

    async def propose(
        self,
        query: Query,
        *,
        cap: int,
        wanted: MetadataFilter | None = None,
    ) -> Proposal:
        """Return the required messages (newest question and unit, pins), then the newest units.

        `earlier` has the units that match the query, if the spec recalls.
        """
        recalls = self.spec.recall > 0 and bool(query.text.strip())
        await self._catch_up()
        if recalls and not self._mirror.recalls:
            await self._read_back(whole=True)
        while True:
            mirror = self._mirror
            proposal = await mirror.propose(query, cap=cap, wanted=wanted, recalls=recalls)
            question = mirror.section.newest_question
            is_enough = question is not None and not proposal.is_all
            if is_enough or mirror.begin == 0:
                break
            await self._read_back(whole=False)
        return replace(proposal, candidates=with_fitting_results(proposal.candidates, cap))

    async def newest_question(self) -> str:
        """Return what the user asks at the end of the thread, "" without a message."""
        await self._catch_up()
        while self._mirror.section.newest_question is None and self._mirror.begin:
            await self._read_back(whole=False)
        return self._mirror.section.question

    async def get(self, item_id: str) -> Item | None:
        """Return a message, or None.

        A message's own id is searched in the whole thread, newest first.
        """
        local = self._local(item_id)
        if local is None:
            return None
        found = None
        position = local[1:]
        if not local.startswith("#"):
            found = await self._find(local)
        elif position.isdecimal() and position.isascii():
            found = next(iter(await self._page(int(position), 1)), None)
        if found is None:
            return None
        return self._message_item(local, found)

    def _message_item(self, local: str, message: ChatMessage) -> Item:
        sources = tuple(f"{self.spec.name}/{source}" for source in message.sources)
        item = self._item(
            local,
            message.content,
            role=message.role,
            metadata=_metadata_of(message),
            created_at=message.created_at,
        )
        return replace(item, pinned=message.pinned, sources=sources, trust=message.authority)

    # The thread, as far as it was read.

    async def _catch_up(self) -> None:
        """Take in the messages that were appended since, or the newest ones at first.

        If the last known message has changed, messages were cleared. Then the thread is read anew.
        """
        while True:
            mirror = self._mirror
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
                self._mirror = mirror
                if len(read) < _PAGE:
                    return
                continue
            read = await self._page(taken - 1)
            if self._mirror is not mirror or mirror.taken != taken:
                continue  # another call has taken messages in meanwhile
            if not read or not _is_same(read[0], mirror.messages[-1]):
                self._mirror = self._mirror_from(0)
                continue
            mirror.take(read[1:])
            if len(read) < _PAGE:
                return

    async def _read_back(self, *, whole: bool) -> None:
        """Take in messages from before those of the mirror: as many again, or all of them.

        A mirror of all of them recalls.
        """
        old = self._mirror
        size = len(old.messages)
        begin = 0 if whole else max(0, old.begin - size)
        mirror = self._mirror_from(begin, recalls=whole)
        while mirror.taken < old.begin:
            read = await self._page(mirror.taken, min(_PAGE, old.begin - mirror.taken))
            if not read or self._mirror is not old:
                break
            mirror.take(read)
        if self._mirror is not old:
            return  # another call has read the thread meanwhile
        if mirror.taken < old.begin:
            self._mirror = self._mirror_from(0)  # somebody has cleared the thread meanwhile
            await self._catch_up()
            return
        mirror.take(old.messages)
        self._mirror = mirror

    async def _find(self, message_id: str) -> ChatMessage | None:
        """Return the newest message of that id, or None."""
        end = await self._provider.count_messages(self._agent_id, session_id=self._session_id)
        while end > 0:
            begin = max(0, end - _PAGE)
            for message in reversed(await self._page(begin, end - begin)):
                if message.id == message_id:
                    return message
            end = begin
        return None

    def _mirror_from(self, begin: int, *, recalls: bool = False) -> ThreadMirror:
        spec = self.spec if recalls else replace(self.spec, recall=0.0)
        return ThreadMirror(begin, spec, self._message_item)

    async def _page(self, begin: int, size: int = _PAGE) -> list[ChatMessage]:
        return await self._provider.get_messages(
            self._agent_id, session_id=self._session_id, limit=size, offset=begin
        )


def _metadata_of(message: ChatMessage) -> JSONDict:
    """Return the metadata of a message, with its time and its run."""
    run = {"run_id": message.run_id} if message.run_id else {}
    return {**run, **message.stated}
