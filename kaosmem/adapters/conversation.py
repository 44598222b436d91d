"""A conversation as a source: its view, condensed to a budget, as the history that a context shows."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from datetime import UTC, datetime

from kaosmem.conversation import Condensation, Condenser, Event, EventLog, NoOpCondenser, Summary, View
from kaosmem.conversation.condensers.outline import Outline, Standing, Unit
from kaosmem.errors import NoCondensationError, UnknownItemError
from kaosmem.filters import MetadataFilter
from kaosmem.names import shown
from kaosmem.sections import Candidate, Proposal, SectionSpec, renamed
from kaosmem.tokens import TokenCounter, count_content, get_counter
from kaosmem.types import Item

CONVERSATION = SectionSpec("conversation", 32_000, 90, 0.35, placement="history", low_water=0.5, recall=0.0)

_UNKNOWN_TIME = datetime.fromtimestamp(0, UTC)


class ConversationSource:
    """The view of a log, condensed so that it fits, each event under `<name of the source>/<id of the event>`.

    What must be shown is what no condenser forgets: the system prompt, the user's open instructions, the list of tasks,
    calls without a result, and the newest entry. `memory.fetch(id)` brings any event of the log in full, and a summary,
    whose sources are the ids of what it stands for. The log is never forgotten: it is the application's.
    condenser: None leaves it to the window, which shows a contiguous tail. share: of its cap that the view is condensed
        to, as other sections take of the window too.
    Raises ValueError for a spec of another placement, or for the share.
    """

    def __init__(
        self,
        log: EventLog,
        condenser: Condenser | None = None,
        *,
        spec: SectionSpec = CONVERSATION,
        share: float = 0.75,
        counter: TokenCounter | str | None = None,
    ) -> None:
        if spec.placement != "history":
            raise ValueError(
                f"source {spec.name!r} has placement {spec.placement!r}, and shows a conversation; use 'history'"
            )
        if not 0 < share <= 1:
            raise ValueError(f"share is {shown(share)}; give a share of the cap, above 0 and at most 1")
        self._log, self._condenser = log, condenser or NoOpCondenser()
        self._spec, self._share = spec, share
        self._counter = get_counter(counter)
        self._items: dict[int, tuple[Event, Item]] = {}  # by event id, of the last view: measured once

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._spec.name!r})"

    @property
    def spec(self) -> SectionSpec:
        """Return how the source is budgeted and shown."""
        return self._spec

    def named(self, name: str) -> ConversationSource:
        """Return the source under another name, over the same log."""
        other = copy.copy(self)
        other._spec, other._items = renamed(self._spec, name), {}
        return other

    async def propose(self, query: str, *, cap: int, wanted: MetadataFilter | None = None) -> Proposal:
        """Return the view's units, newest first, having appended to the log what condenses it to its share of `cap`.

        Where it can't be condensed, all of it is proposed, of which the window shows what fits.
        """
        try:
            view = await self._condenser.condensed_view(self._log, limit=int(cap * self._share))
        except NoCondensationError:
            view = self._log.view
        items = self._items_of(view)
        outline = Outline(view)
        offsets = [0]
        for item in items:
            offsets.append(offsets[-1] + item.tokens)
        newest_first = sorted(outline.units, key=lambda unit: unit.positions[-1], reverse=True)
        candidates = self._candidates(newest_first, items, offsets, frozenset(outline.cuts))
        return Proposal(tuple(candidates), total=offsets[-1], taken=len(items))

    async def get(self, item_id: str) -> Item | None:
        """Return any event of the log in full, condensed ones too, or a summary; None for what no model sees."""
        local = item_id.removeprefix(f"{self._spec.name}/")
        if local == item_id or not (local.isascii() and local.isdigit()):
            return None
        try:
            event = self._log.get(int(local))
        except UnknownItemError:
            return None
        if isinstance(event, Condensation):
            until = View.from_events(each for each in self._log if each.id <= event.id)
            return next((self._item(each) for each in until if each.id == event.id), None)
        return self._item(event) if event.is_shown else None

    def _candidates(
        self, units: list[Unit], items: list[Item], offsets: list[int], cuts: frozenset[int]
    ) -> Iterator[Candidate]:
        for rank, unit in enumerate(units, 1):
            first = unit.positions[0]
            its = tuple(items[position] for position in unit.positions)
            must = rank == 1 or unit.standing is Standing.PROTECTED
            tokens = sum(item.tokens for item in its)
            yield Candidate(its, first, offsets[first], first in cuts, must, False, rank, None, tokens)

    def _items_of(self, view: View) -> list[Item]:
        known, self._items = self._items, {}
        for event in view:
            entry = known.get(event.id)
            self._items[event.id] = entry if entry and entry[0] is event else (event, self._item(event))
        return [item for _, item in self._items.values()]

    def _item(self, event: Event) -> Item:
        message = event.message
        sources = event.sources if isinstance(event, Summary) else ()
        return Item(
            f"{self._spec.name}/{event.id}",
            self._spec.name,
            message.role,
            message.content,
            count_content(message.content, self._counter),
            event.timestamp or _UNKNOWN_TIME,
            sources=tuple(f"{self._spec.name}/{source}" for source in sources),
            trust=message.authority,
        )
