"""A thread of messages as a source: its newest ones, as a history, and the earlier ones that match the query."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from kaosmem.arguments import check_instance
from kaosmem.compaction import CompactionPipeline, CompactionStrategy
from kaosmem.compaction.fallback import failed_model
from kaosmem.filters import MetadataFilter
from kaosmem.language.query import Query
from kaosmem.names import check_id
from kaosmem.sections import Candidate
from kaosmem.sections.proposal import Proposal
from kaosmem.sections.spec import SectionSpec
from kaosmem.sources.excerpt import CompactedThread, Excerpt, Placed, local_ids
from kaosmem.sources.fitting import with_fitting_results
from kaosmem.sources.store_source import StoreSource
from kaosmem.sources.thread_reader import ThreadReader
from kaosmem.sources.thread_recall import ThreadRecall
from kaosmem.stores import HistoryProvider
from kaosmem.types import JSONValue
from kaosmem.types.content import ToolResultBlock, Trust, content_text
from kaosmem.types.items import ChatMessage, Item

HISTORY = SectionSpec("history", 32_000, 90, 0.35, placement="history", eviction="none")


class HistorySource(StoreSource):
    """The newest messages of an agent's thread, as a history, and the earlier messages that match the query.

    The source reads the newest messages back from the end of the thread, only half as much again as
    fits. If the messages that must be shown exceed the cap, the results of the newest calls are cut
    to one length. Earlier messages are recalled as those of a section are: up to the part `recall` of
    its cap (0.25 in `HISTORY`). Without a query, the newest user message is the query. The first
    query reads and indexes the whole thread, and the source holds it in memory. Later queries read
    only the messages that were appended since. With `recall=0` in the spec, earlier messages are as
    if they were not there, even a pinned one, except the newest user message. Then a context costs
    the same for a thread of any length.
    An item has the metadata of its message, and as `timestamp` and `run_id`, unless the metadata have these fields, the
    time and the run of the message. So a label shows the day of the message.
    A message is the item `<name>/<message id>`, or `<name>/#<position>` if it has no id of its own.

    pipeline: shortens the messages that were read; one strategy or a pipeline. The first user message is, for the
        pipeline, the first of these. An item that the pipeline made has a `~` before its id. A changed message names
        the original as its source, and `fetch` returns the original. The pipeline runs for each context. Once it has
        made a summary with an id and sources, it continues from the summary as long as the thread only grows. Nothing
        of this is stored, so each process asks the model anew. If the pipeline raises, the messages are shown as they
        are. If its model fails, an outline takes the summary's place. The context says either.
    Raises InvalidNameError for an id, InvalidArgumentError for the provider, the pipeline and the spec.
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
        check_instance(provider, HistoryProvider, "provider")
        self._reader = ThreadReader(
            provider, check_id(agent_id, "agent id"), check_id(session_id, "session id")
        )
        self._pipeline = None if pipeline is None else CompactionPipeline(pipeline)
        self._shown: dict[int, tuple[Placed, Item]] = {}
        self._compacted: CompactedThread | None = None
        self._recall = ThreadRecall(self._reader, self.spec, self._message_item)

    def named(self, name: str) -> HistorySource:
        """Return the source under another name."""
        other = super().named(name)
        other._shown = {}
        other._compacted = None
        other._recall = ThreadRecall(other._reader, other.spec, other._message_item)
        return other

    async def propose(
        self, query: Query, *, cap: int, wanted: MetadataFilter | None = None
    ) -> Proposal:
        """Return the required messages first (newest user message and unit, pins), then the newest units.

        `earlier` has the units that match the query, if the spec recalls.
        """
        room = 3 * cap // 2
        excerpt = await self._reader.newest(room)
        error = ""
        if self._pipeline is not None:
            excerpt, error = await self._shortened(self._pipeline, excerpt, room)
        candidates = with_fitting_results(tuple(self._candidates(excerpt)), cap)
        proposal = Proposal(candidates, taken=excerpt.taken, is_all=excerpt.start == 0, error=error)
        if not self.spec.recalls:
            return proposal
        return await self._recall.earlier(query, cap=cap, wanted=wanted, among=proposal)

    async def _shortened(
        self, pipeline: CompactionPipeline, read: Excerpt, room: int
    ) -> tuple[Excerpt, str]:
        """Return the history that a pipeline leaves, and why a model had no part in it."""
        compacted = self._compacted
        if compacted is None or not compacted.grow(read, room=room):
            compacted = CompactedThread(read)
            self._compacted = compacted
        view = compacted.transcript.view
        try:
            excerpt = compacted.left(await pipeline.compact(view))
        except (
            Exception
        ) as raised:  # whatever a strategy raises: a long history is better than none
            return compacted.left(view), type(raised).__name__
        return excerpt, failed_model(each.message for each in excerpt.placed)

    async def newest_question(self) -> str:
        """Return the text of the newest user message of the thread, "" if there is none."""
        message = await self._reader.newest_question()
        if message is None:
            return ""
        said = [block for block in message.blocks if not isinstance(block, ToolResultBlock)]
        return content_text(tuple(said))

    def _candidates(self, excerpt: Excerpt) -> Iterator[Candidate]:
        outline = excerpt.outline
        must = excerpt.must
        cuts = {*outline.cuts_beside(must)}
        items = self._items(excerpt)
        newest_first = sorted(outline.units, key=lambda unit: (unit[0] not in must, -unit[-1]))
        shown = (unit for unit in newest_first if unit[0] in items)
        for rank, unit in enumerate(shown, 1):
            position = excerpt.placed[unit[0]].position
            yield Candidate(
                tuple(items[at] for at in unit),
                position,
                unit[0] in cuts and position >= excerpt.start,
                unit[0] in must,
                unit[0] in outline.orphans,
                rank,
                None,
                sum(items[at].tokens for at in unit),
            )

    async def get(self, item_id: str) -> Item | None:
        """Return a message in full, or None.

        A message's own id is searched in the whole thread, newest first.
        """
        local = self._local(item_id)
        if local is None:
            return None
        for each, item in self._shown.values():
            if item.id == item_id and each.original is None:
                return item
        local = local.removeprefix("~")
        if local.startswith("#"):
            found = (
                await self._reader.at(int(local[1:]))
                if local[1:].isdecimal() and local.isascii()
                else None
            )
        else:
            found = await self._reader.find(local)
        return None if found is None else self._message_item(local, found)

    def _items(self, excerpt: Excerpt) -> dict[int, Item]:
        """Return the item of each message that is shown: the same one as long as the message is."""
        known = self._shown
        self._shown = {}
        items = {}
        for at, (each, local) in enumerate(
            zip(excerpt.placed, local_ids(excerpt.placed), strict=True)
        ):
            if each.position >= excerpt.start or at in excerpt.must:
                was = known.get(each.position)
                if was is None or was[0] != each or self._local(was[1].id) != local:
                    was = each, self._item_of(each, local)
                self._shown[each.position] = was
                items[at] = was[1]
        return items

    def _item_of(self, each: Placed, local: str) -> Item:
        item = self._message_item(local, each.message)
        if each.original is None or each.original is each.message:
            return item
        sources = (f"{self.spec.name}/{local.removeprefix('~')}", *item.sources)
        return replace(item, sources=sources, trust=min(item.trust, each.original.authority))

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


def _metadata_of(message: ChatMessage) -> dict[str, JSONValue]:
    """Return the metadata of a message, with its time and its run."""
    stated: dict[str, JSONValue] = {}
    if message.created_at is not None:
        stated["timestamp"] = message.created_at.isoformat()
    if message.run_id:
        stated["run_id"] = message.run_id
    return {**stated, **message.metadata}
