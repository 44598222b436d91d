"""A conversation as a source: its view, condensed to a budget, as a history."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import ClassVar, NamedTuple

from kaosmem.arguments import check_instance
from kaosmem.compaction.fallback import failed_model
from kaosmem.compaction.outline import places_in
from kaosmem.conversation import (
    Condensation,
    Condenser,
    ConversationEvent,
    ConversationView,
    EventLog,
    SummaryEvent,
)
from kaosmem.conversation.rolling import Unit, ViewOutline, is_question
from kaosmem.errors import InvalidArgumentError, NotFoundError
from kaosmem.filters import MetadataFilter
from kaosmem.language.query import Query
from kaosmem.names import shown_number
from kaosmem.sections import Candidate
from kaosmem.sections.proposal import Proposal
from kaosmem.sections.spec import SectionSpec
from kaosmem.sources.fitting import with_fitting_results
from kaosmem.sources.store_source import StoreSource
from kaosmem.tokens import count_content, get_counter
from kaosmem.tokens.counters import TokenCounter
from kaosmem.types.content import Trust
from kaosmem.types.items import Item

CONVERSATION = SectionSpec(
    "conversation", 32_000, 90, 0.35, placement="history", eviction="none", recall=0.0
)


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
    condenser: if it is None, or fails, the window shows the newest events; the context names a
        failure.
    share: the part of its cap that the view is condensed to; the rest of the window is for other
        sections.
    counter: the default is the session's.
    Raises InvalidArgumentError.
    """

    placement: ClassVar[str] = "history"

    def __init__(
        self,
        log: EventLog,
        condenser: Condenser | None = None,
        *,
        spec: SectionSpec = CONVERSATION,
        share: float = 0.75,
        counter: TokenCounter | str | None = None,
    ) -> None:
        super().__init__(spec, trust=Trust.APPLICATION)
        if not 0 < share <= 1:
            raise InvalidArgumentError(
                f"share is {shown_number(share)}; give a part of the cap, above 0 and at most 1"
            )
        self._log = check_instance(log, EventLog, "log")
        self._share = share
        self._condenser = (
            None if condenser is None else check_instance(condenser, Condenser, "condenser")
        )
        self._counter = get_counter(counter)
        self._shown: dict[int, tuple[ConversationEvent, Item]] = {}
        self._uncondensed = ConversationView()
        self._read = 0  # events of the log that it has

    def named(self, name: str) -> ConversationSource:
        """Return the source under another name, over the same log."""
        other = super().named(name)
        other._shown = {}
        other._uncondensed = ConversationView()
        other._read = 0
        return other

    async def propose(
        self, query: Query, *, cap: int, wanted: MetadataFilter | None = None
    ) -> Proposal:
        """Return units of the view: required units, then the newest.

        A condensation is appended first.

        If it can't be condensed, the window shows the units that fit. The positions are those that
        the entries would have if nothing were condensed, so a condensation moves none.
        """
        view, error = await self._view(cap)
        candidates: list[Candidate] = []
        known = self._shown
        self._shown = {}
        items: dict[int, Item] = {}
        start = len(view)
        left = 2 * cap
        while start and left > 0:
            start -= 1
            items[start] = self._shown_item(view[start], known)
            left -= items[start].tokens
        left = 2 * cap
        kept = self._kept(view, cap // 2, known)
        for unit, must, cut in _newest_first(view, start, kept):
            if left <= 0 and not must:
                break
            its = tuple(items.get(place) or self._shown_item(view[place], known) for place in unit)
            tokens = sum(item.tokens for item in its)
            left -= max(1, tokens)
            candidates.append(
                Candidate(its, unit[0], cut, must, False, len(candidates) + 1, None, tokens)
            )
        is_all = sum(len(unit.items) for unit in candidates) == len(view)
        candidates = list(with_fitting_results(candidates, cap, self._counter))
        positions = self._positions(view, [unit.position for unit in candidates])
        placed = tuple(unit._replace(position=positions[unit.position]) for unit in candidates)
        return Proposal(placed, taken=self._taken(view), is_all=is_all, error=error)

    def _kept(
        self,
        view: ConversationView,
        room: int,
        known: Mapping[int, tuple[ConversationEvent, Item]],
    ) -> list[int]:
        """Return the positions of the entries that must be shown.

        Args:
            room: Tokens for those of them that give way.
        """
        gives_way = view.giving_way
        first = len(gives_way)
        while first:
            room -= self._shown_item(view[gives_way[first - 1]], known).tokens
            if room < 0:
                break
            first -= 1
        without_room = {*gives_way[:first]}
        return [place for place in view.kept if place not in without_room]

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
            return None if summary is None else self._event_item(summary)
        return self._event_item(event) if event.is_shown else None

    async def newest_question(self) -> str:
        """Return the text of the newest user message, "" if there is none."""
        for event in reversed(self._log):
            if is_question(event):
                return event.text
        return ""

    async def _view(self, cap: int) -> tuple[ConversationView, str]:
        """Return the view of the log, condensed to a cap where it can be, and why a model had no part in it."""
        if self._condenser is None:
            return self._log.view, ""
        try:
            view = await self._condenser.condensed_view(self._log, limit=int(cap * self._share))
        except (
            Exception
        ) as raised:  # whatever a model raises: a long conversation is better than none
            return self._log.view, type(raised).__name__
        return view, failed_model(
            event.message for event in view if isinstance(event, SummaryEvent)
        )

    def _positions(self, view: ConversationView, places: Iterable[int]) -> dict[int, int]:
        """Return by place in a view the position that each entry would have if nothing were condensed.

        A summary stands directly before the entry that follows it.
        """
        self._read_log()
        positions = {}
        after = self._taken(view)
        for place in sorted(places, reverse=True):
            position = self._uncondensed.place_of(view[place].id)
            # Where a summary is put in without a gap, the entries before it make room.
            after = after - 1 if position is None else min(position, after - 1)
            positions[place] = after
        return positions

    def _taken(self, view: ConversationView) -> int:
        """Return how many entries there would be, up to the newest of a view, if nothing were condensed."""
        newest = self._uncondensed.place_of(view[-1].id) if view else None
        return len(self._uncondensed) if newest is None else newest + 1

    def _read_log(self) -> None:
        """Take in what was appended to the log."""
        new = self._log[self._read :]
        self._read += len(new)
        for event in new:
            if not isinstance(event, Condensation):
                self._uncondensed.append(event)

    def _shown_item(
        self, event: ConversationEvent, known: Mapping[int, tuple[ConversationEvent, Item]]
    ) -> Item:
        """Return the item of an entry: the same object as long as the entry is shown unchanged."""
        was = known.get(event.id)
        item = was[1] if was and was[0] is event else self._event_item(event)
        self._shown[event.id] = event, item
        return item

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


class _Wanted(NamedTuple):
    """A unit of a view, by its positions: whether it must be shown, and whether a history may start with it."""

    unit: Unit
    must: bool
    cut: bool


def _newest_first(view: ConversationView, start: int, kept: Sequence[int]) -> list[_Wanted]:
    """Return the units of a view that must be shown, then at least the others from a position on, each newest first.

    A unit before that position begins no history: another unit may be around it.

    Args:
        kept: Positions of entries that must be shown, ascending.
    """
    newest = len(view) - 1
    must = {*kept, newest}
    start, stop = view.whole(max(0, min(start, newest)), len(view))
    wanted = {each.unit: each for each in _wanted(view, start, stop, must)}
    seen: set[int] = set()
    for place in kept:
        if place < start and place not in seen:
            part = _wanted(view, *view.whole(place, place + 1), must)
            for each in part:
                seen.update(each.unit)
                if each.must and each.unit[0] < start:
                    wanted[each.unit] = each._replace(cut=False)
    return sorted(wanted.values(), key=lambda each: (not each.must, -each.unit[-1]))


def _wanted(view: ConversationView, start: int, stop: int, must: AbstractSet[int]) -> list[_Wanted]:
    """Return the units of a part of a view, of which none is in part outside it."""
    outline = ViewOutline(view, start, stop)
    units = [tuple(start + place for place in unit) for unit in outline.units]
    shown = set(places_in(unit for unit in units if not must.isdisjoint(unit)))
    cuts = frozenset(outline.cuts_beside({place - start for place in shown}))
    return [_Wanted(unit, unit[0] in shown, unit[0] - start in cuts) for unit in units]
