"""A conversation as a source: its view, condensed to a budget, as a history."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar

from kaosmem.arguments import check_instance
from kaosmem.compaction.fallback import model_failure
from kaosmem.compaction.protection import YIELDING_REASONS
from kaosmem.conversation import (
    Condensation,
    Condenser,
    ConversationEvent,
    ConversationView,
    EventLog,
    SummaryEvent,
)
from kaosmem.conversation.outline import is_question
from kaosmem.errors import NotFoundError
from kaosmem.filters import MetadataFilter
from kaosmem.language.query import Query
from kaosmem.sections import Candidate
from kaosmem.sections.proposal import Proposal
from kaosmem.sections.spec import SectionSpec
from kaosmem.sources.store_source import StoreSource, with_fitting_results
from kaosmem.tokens import count_content, get_counter
from kaosmem.tokens.counters import AnyCounter
from kaosmem.types.content import Trust
from kaosmem.types.items import Item

CONVERSATION = SectionSpec(
    "conversation",
    32_000,
    90,
    0.35,
    placement="history",
    eviction="none",
    recall=0.0,
    dates="created_at",
)

_CONDENSED = 0.75
"""The part of its cap that a view is condensed to: the rest is room for the events until the next time."""


class ConversationSource(StoreSource):
    """The view of a log as a history, condensed so that it fits.

    Required are the newest entry and all entries that no condenser forgets: the system prompt, the
    user's open instructions, the task list, and calls without a result. Open instructions and the
    first message with its answer take at most half of the cap, the newest of them first. If the
    required entries exceed the cap, the results of the newest calls are cut to one length.
    An event is the item `<name>/<event id>`. A summary has the id of its condensation and names its
    sources. `memory.fetch(id)` returns any event of the log in full. The source cannot forget: a
    log deletes nothing. A context costs the same for a view of any length, unless its condenser
    reads the whole view each time, as condensers without records do.
    Raises InvalidArgumentError.

    Args:
        condenser: If it is None, or fails, the window shows the newest events; the context names a
            failure.
        counter: The default is the session's.
    """

    placement: ClassVar[str] = "history"

    def __init__(
        self,
        log: EventLog,
        condenser: Condenser | None = None,
        *,
        spec: SectionSpec = CONVERSATION,
        counter: AnyCounter = None,
    ) -> None:
        super().__init__(spec, trust=Trust.APPLICATION)
        self._log = check_instance(log, EventLog, "log")
        self._condenser = (
            None if condenser is None else check_instance(condenser, Condenser, "condenser")
        )
        self._counter = get_counter(counter)
        self._shown: dict[int, tuple[ConversationEvent, Item]] = {}

    def named(self, name: str) -> ConversationSource:
        """Return the source under another name, over the same log."""
        other = super().named(name)
        other._shown = {}
        return other

    async def propose(
        self,
        query: Query,
        *,
        cap: int,
        wanted: MetadataFilter | None = None,
    ) -> Proposal:
        """Return units of the view: required units, then the newest.

        A condensation is appended first.

        If it can't be condensed, the window shows the units that fit. The positions are those that
        the entries would have if nothing were condensed, so a condensation moves none.
        """
        view, error = await self._view(cap)

        def item(place: int) -> Item:
            return self._shown_item(view[place])

        must = {place for each in self._required(view, item, cap // 2) for place in view.unit(each)}
        start = _first_within(view, item, 2 * cap)
        cuts = {*view.cuts_from(start, must)}
        places = sorted({*must, *range(start, len(view))})
        positions = self._positions(view, places)
        candidates: list[Candidate] = []
        left = 2 * cap
        units = [*dict.fromkeys(tuple(view.unit(place)) for place in places)]
        units.sort(key=lambda unit: (unit[0] not in must, -unit[-1]))  # each newest first
        for unit in units:
            is_required = unit[0] in must
            if left <= 0 and not is_required:
                break
            items = tuple(map(item, unit))
            tokens = sum(each.tokens for each in items)
            left -= max(1, tokens)
            rank = len(candidates) + 1
            position = positions[unit[0]]
            is_cut = unit[0] in cuts
            candidates.append(
                Candidate(items, position, is_cut, is_required, False, rank, None, tokens)
            )
        is_all = sum(len(unit.items) for unit in candidates) == len(view)
        fitting = with_fitting_results(candidates, cap, self._counter)
        return Proposal(fitting, taken=self._taken(view), is_all=is_all, error=error)

    @staticmethod
    def _required(
        view: ConversationView,
        item: Callable[[int], Item],
        room: int,
    ) -> list[int]:
        """Return the positions of the entries that must be shown.

        Args:
            item: Returns the item of a position.
            room: Tokens for the entries that give way.
        """
        reasons = view.reasons
        gives_way = [place for place in reasons if reasons[place] in YIELDING_REASONS]
        required = [place for place in reasons if reasons[place] not in YIELDING_REASONS]
        for place in reversed(gives_way):
            room -= item(place).tokens
            if room < 0:
                break
            required.append(place)
        return required

    async def get(self, item_id: str) -> Item | None:
        """Return any event of the log in full, or a summary; None for events that no model sees."""
        local = self._local(item_id) or ""
        if not (local.isascii() and local.isdigit()):
            return None
        try:
            event = self._log.get(int(local))
        except NotFoundError:
            return None
        if isinstance(event, Condensation):
            summary = self._log.view.summary(event.id)
            if summary is None:
                return None
            return self._event_item(summary)
        if event.is_shown:
            return self._event_item(event)
        return None

    async def newest_question(self) -> str:
        """Return the text of the newest user message, "" if there is none."""
        for event in reversed(self._log):
            if is_question(event):
                return event.text
        return ""

    async def _view(self, cap: int) -> tuple[ConversationView, str]:
        """Return the view, condensed to a cap if possible, and why a model had no part in it."""
        if self._condenser is None:
            return self._log.view, ""
        try:
            view = await self._condenser.condensed_view(self._log, limit=int(cap * _CONDENSED))
        except (
            Exception
        ) as raised:  # whatever a model raises: a long conversation is better than none
            return self._log.view, type(raised).__name__
        return view, model_failure(
            event.message for event in view if isinstance(event, SummaryEvent)
        )

    def _positions(self, view: ConversationView, places: Sequence[int]) -> dict[int, int]:
        """Return by place, ascending, the position that each entry has without condensations.

        A summary stands directly before the entry that follows it.
        """
        ordinals = self._log.view.ordinals
        positions: dict[int, int] = {}
        after = self._taken(view)
        for place in reversed(places):
            position = ordinals.get(view[place].id)
            # Where a summary is put in without a gap, the entries before it make room.
            after = after - 1 if position is None else min(position, after - 1)
            positions[place] = after
        return positions

    def _taken(self, view: ConversationView) -> int:
        """Return how many entries there are up to the newest of a view, without condensations."""
        ordinals = self._log.view.ordinals
        newest = ordinals.get(view[-1].id) if view else None
        if newest is None:
            return len(ordinals)
        return newest + 1

    def _shown_item(self, event: ConversationEvent) -> Item:
        """Return the item of an entry: the same object as long as the entry is shown unchanged."""
        known = self._shown.get(event.id)
        if known is None or known[0] is not event:
            known = self._shown[event.id] = event, self._event_item(event)
        return known[1]

    def _event_item(self, event: ConversationEvent) -> Item:
        message = event.message
        sources = event.sources if isinstance(event, SummaryEvent) else ()
        item = self._item(
            str(event.id), message.content, role=message.role, created_at=event.timestamp
        )
        return replace(
            item,
            tokens=count_content(message.content, self._counter),
            sources=tuple(f"{self.spec.name}/{source}" for source in sources),
            trust=message.authority,
        )


def _first_within(
    view: ConversationView,
    item: Callable[[int], Item],
    room: int,
) -> int:
    """Return where the newest entries of so many tokens begin, at the start of a unit."""
    start = len(view)
    while start and room > 0:
        start -= 1
        room -= item(start).tokens
    return view.cut_before(start)
