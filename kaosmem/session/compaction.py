"""The compaction of a section that exceeds its budget."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from kaosmem.errors import KaosmemError
from kaosmem.formats import Format, Mark
from kaosmem.sections.section import Section
from kaosmem.sections.substitution import (
    ReplacedCounts,
    Substitution,
    message_of,
    substitution,
)
from kaosmem.session.saving.version_history import VersionHistory
from kaosmem.tokens import count_content
from kaosmem.tokens.counters import TokenCounter
from kaosmem.types.items import ChatMessage, Item
from kaosmem.units import repair

if TYPE_CHECKING:
    from kaosmem.compaction import CompactionStrategy


class SectionCompaction:
    """Keeps one section within its budget, counted as the format of the context shows it.

    It runs before the tail of the section is cut.

    Attributes:
        new_id: Gives an id that no live item has, the one asked for if it can.
        notice: The fault of the last attempt to compact the section, or None.
    """

    def __init__(
        self,
        section: Section,
        strategy: CompactionStrategy,
        version_history: VersionHistory,
        counter: TokenCounter,
        new_id: Callable[[str], str],
    ) -> None:
        self.notice: str | None = None
        self._section = section
        self._strategy = strategy
        self._version_history = version_history
        self._counter = counter
        self._new_id = new_id
        self._budget = section.budget or 0
        self._is_running = False
        self._format: Format  # of the context that is being assembled

    async def run(self, shown_in: Format) -> None:
        """Compact the section if it is over its budget in a format.

        Assemblies that run meanwhile use the present items. A failed strategy becomes a notice: the
        section stays as it is, and the next turn tries again.
        """
        if self._is_running or self._section.frozen:
            return
        self._is_running = True
        self._format = shown_in
        try:
            if self._is_over:
                await self._compact()
        finally:
            self._is_running = False

    @property
    def _is_over(self) -> bool:
        most = self._section.spec.max_items
        return self._size > self._budget or (most is not None and len(self._section) > most)

    @property
    def _size(self) -> int:
        """Return the tokens of the section as a history, with what stands around its items."""
        return self._frame(is_marked=len(self._section.archive) > 0) + self._weight(self._section)

    def _frame(self, *, is_marked: bool) -> int:
        """Return the tokens of the section's header, and of a mark for the items that left it."""
        header = self._format.history_header_tokens(self._section.spec.title, self._counter)
        if not is_marked:
            return header
        mark = Mark(self._section.held.taken)
        return header + self._format.entry_tokens(mark, self._counter)

    def _weight(self, items: Iterable[Item]) -> int:
        form = f"message {self._format.name} {self._counter.name}"
        measure = self._measure
        return sum(item.memo(form, measure) for item in items)

    def _measure(self, item: Item) -> int:
        known = item.tokens if isinstance(item.content, str) else None
        return self._format.entry_tokens(item.message, self._counter, known=known)

    async def _compact(self) -> None:
        from kaosmem.compaction.fallback import model_failure  # not every session needs it

        section = self._section
        before = [*section]
        try:
            after = await self._compacted(before)
            change = self._shortened(before, after)
            is_done = change is None or (
                self._sources_unchanged(before, change) and section.compact(change)
            )
        except (Exception, asyncio.CancelledError) as error:
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task and task.cancelling():
                raise  # whoever asks for a context has been cancelled, not the model
            self.notice = _failure(section.spec.name, error)
            return
        reason = model_failure(after)
        self.notice = None
        if reason:
            self.notice = (
                f"section {section.spec.name!r} is compacted without its model, which failed by "
                f"{reason}; nothing is lost, and the next summary by a model takes the outline in"
            )
        if is_done:  # else the next turn compacts what there is now
            self._make_room()

    async def _compacted(self, items: Iterable[Item]) -> list[ChatMessage]:
        """Return the messages that the strategy leaves of items."""
        from kaosmem.compaction.strategies import strategy_within

        room = max(0, self._budget - self._frame(is_marked=True))
        strategy = strategy_within(self._strategy, room)
        return self._with_fitting_results(await strategy.compact([*map(message_of, items)]))

    def _make_room(self) -> None:
        """Evict where the section is over its budget after its compaction."""
        section = self._section
        if not self._is_over or not section.spec.policy.bounded:
            return
        if not section.make_room(self._size - self._budget, keep=self._kept()):
            self.notice = (
                f"section {section.spec.name!r} is over its budget after its compaction, and too "
                "little may be evicted: what is left is pinned, waits for results, is the newest, "
                "or stands for what was compacted; the next turn tries again, or raise its budget"
            )

    def _with_fitting_results(self, messages: list[ChatMessage]) -> list[ChatMessage]:
        """Return messages that fit the budget, with the newest results cut evenly if they must be."""
        from kaosmem.compaction.outline import MessageSizes, Outline
        from kaosmem.compaction.shortening import with_shorter_results

        sizes = MessageSizes(self._counter, self._format)
        outline = Outline(messages, sizes=sizes)
        kept = list(outline.kept_within(outline.sizes, 0))
        room = self._budget - self._frame(is_marked=True)
        room -= room // 32  # a window as large as the section has a frame too

        def total(messages: Iterable[ChatMessage]) -> int:
            return sum(map(sizes, repair(messages)))

        shown = outline.at(kept)
        if total(shown) > room:
            shown = with_shorter_results(shown, room, total) or shown
        cut = dict(zip(kept, shown, strict=True))
        return [cut.get(place, message) for place, message in enumerate(messages)]

    def _kept(self) -> list[str]:
        """Return the ids of the items that stay after a compaction.

        These are the newest item of the user, which every context shows, and the newest item that
        stands for several: the next compaction can take it in. Without it, no context would show
        its originals.
        """
        kept = []
        question = self._section.newest_question
        if question is not None:
            kept.append(question.id)
        for item in reversed(self._section):
            replaced = ReplacedCounts.by(item)
            if replaced is not None and replaced.items > 1:
                return [item.id, *kept]
        return kept

    def _shortened(
        self, before: Sequence[Item], after: Sequence[ChatMessage]
    ) -> Substitution | None:
        """Return the substitution of items by messages, None if the messages are not shorter."""
        change = substitution(
            before,
            after,
            count=lambda content: count_content(content, self._counter),
            new_id=self._new_id,
        )
        replaced = {*change.replaced}
        saved = self._weight(item for item in before if item.id in replaced)
        if saved > self._weight(item for _, item in change.items):
            return change
        return None

    def _sources_unchanged(self, before: Iterable[Item], change: Substitution) -> bool:
        """Return whether the items that a compaction was made of are still as it read them."""
        told = {*change.replaced}.union(*(item.sources for _, item in change.items))
        known = [item for item in before if item.id in told]
        for item in known:
            if item.id not in self._section or self._section.peek(item.id) != item:
                return False
        archived = told.difference(item.id for item in known)
        return not any(map(self._version_history.is_forgotten, archived))


def _failure(section: str, error: BaseException) -> str:
    """Return the notice of a compaction that failed. Only errors of kaosmem quote no content."""
    why = f": {error}" if isinstance(error, KaosmemError) else ""
    return (
        f"section {section!r} is not compacted, as its compaction failed with "
        f"{type(error).__name__}{why}; nothing is lost, and the next turn tries again"
    )
