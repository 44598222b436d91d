"""A thread of messages as a source: its newest ones, and earlier ones that match the query."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from kaosmem.arguments import check_instance
from kaosmem.filters import MetadataFilter
from kaosmem.language.query import Query
from kaosmem.names import check_id
from kaosmem.sections.proposal import Proposal
from kaosmem.sections.spec import SectionSpec
from kaosmem.sources.fitting import with_fitting_results
from kaosmem.sources.store_source import StoreSource
from kaosmem.sources.thread import Thread
from kaosmem.stores import HistoryProvider
from kaosmem.types import JSONDict
from kaosmem.types.content import Trust
from kaosmem.types.items import ChatMessage, Item

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
        check_instance(provider, HistoryProvider, "provider")
        check_id(agent_id, "agent id")
        check_id(session_id, "session id")
        self._thread = Thread(provider, agent_id, session_id, spec, self._message_item)

    def named(self, name: str) -> HistorySource:
        """Return the source under another name."""
        other = super().named(name)
        other._thread = self._thread.named(other.spec, other._message_item)
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
        await self._thread.catch_up()
        if recalls and not self._thread.mirror.recalls:
            await self._thread.read_back(whole=True)
        while True:
            mirror = self._thread.mirror
            proposal = await mirror.propose(query, cap=cap, wanted=wanted, recalls=recalls)
            is_enough = mirror.newest_question is not None and not proposal.is_all
            if is_enough or mirror.begin == 0:
                break
            await self._thread.read_back(whole=False)
        return replace(proposal, candidates=with_fitting_results(proposal.candidates, cap))

    async def newest_question(self) -> str:
        """Return what the user asks at the end of the thread, "" without a message."""
        await self._thread.catch_up()
        while self._thread.mirror.newest_question is None and self._thread.mirror.begin:
            await self._thread.read_back(whole=False)
        return self._thread.mirror.section.question

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
            found = await self._thread.find(local)
        elif position.isdecimal() and position.isascii():
            found = await self._thread.at(int(position))
        return None if found is None else self._message_item(local, found)

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


def _metadata_of(message: ChatMessage) -> JSONDict:
    """Return the metadata of a message, with its time and its run."""
    stated: JSONDict = {}
    if message.created_at is not None:
        stated["timestamp"] = message.created_at.isoformat()
    if message.run_id:
        stated["run_id"] = message.run_id
    return {**stated, **message.metadata}
