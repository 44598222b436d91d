"""A conversation as a source: its view, condensed to a budget, as a history."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from typing import ClassVar

from kaosmem.adapters.store_source import StoreSource
from kaosmem.arguments import check_instance
from kaosmem.conversation import Condensation, Condenser, Event, EventLog, NoOpCondenser, Summary, View
from kaosmem.conversation.condensers.outline import ViewOutline
from kaosmem.errors import InvalidArgumentError, NoCondensationError, UnknownItemError
from kaosmem.filters import MetadataFilter
from kaosmem.names import shown
from kaosmem.sections import Candidate, Proposal, SectionSpec
from kaosmem.tokens import TokenCounter, count_content, get_counter
from kaosmem.types import Item, Trust

CONVERSATION = SectionSpec(
    "conversation", 32_000, 90, 0.35, placement="history", eviction="none", low_water=0.5, recall=0.0
)


class ConversationSource(StoreSource):
    """The view of a log, condensed so that it fits, as the turns of a conversation.

    What must be shown is what no condenser forgets: the system prompt, the user's open instructions, the list of tasks,
    calls without a result; and the newest entry. An event is the item `<name>/<its id>`; a summary has the id of its
    condensation and names what it stands for. `memory.fetch(id)` brings any event of the log in full. The source can't
    forget: a log deletes nothing.
    condenser: None leaves it to the window, which shows a contiguous tail. share: the part of its cap that the view is
        condensed to, as others take of the window too. counter: of tokens, the session's.
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
            raise InvalidArgumentError(f"share is {shown(share)}; give a part of the cap, above 0 and at most 1")
        self._log, self._share = check_instance(log, EventLog, "log"), share
        self._condenser = NoOpCondenser() if condenser is None else check_instance(condenser, Condenser, "condenser")
        self._counter = get_counter(counter)
        self._shown: dict[int, tuple[Event, Item]] = {}

    def named(self, name: str) -> ConversationSource:
        """Return the source under another name, over the same log."""
        other = super().named(name)
        other._shown = {}
        return other

    async def propose(self, query: str, *, cap: int, wanted: MetadataFilter | None = None) -> Proposal:
        """Return units of the view: what must be shown, then the newest, having appended what condenses it.

        Where it can't be condensed, the window shows what fits.
        """
        try:
            view = await self._condenser.condensed_view(self._log, limit=int(cap * self._share))
        except NoCondensationError:
            view = self._log.view
        outline, items = ViewOutline(view), self._items(view)
        newest = next((unit for unit in outline.units if unit[-1] == len(items) - 1), ())
        must = outline.kept.union(newest)
        cuts = frozenset(outline.cuts_beside(must))
        offsets = [0, *accumulate(item.tokens for item in items)]
        candidates: list[Candidate] = []
        left = 2 * cap
        for unit in sorted(outline.units, key=lambda unit: (unit[0] not in must, -unit[-1])):
            if left <= 0 and unit[0] not in must:
                break
            its, first = tuple(items[place] for place in unit), unit[0]
            tokens = sum(item.tokens for item in its)
            left -= max(1, tokens)
            candidate = Candidate(
                its, first, offsets[first], first in cuts, first in must, False, len(candidates) + 1, None, tokens
            )
            candidates.append(candidate)
        return Proposal(tuple(candidates), total=offsets[-1], taken=len(items))

    async def get(self, item_id: str) -> Item | None:
        """Return any event of the log in full, condensed or not, or a summary; None for what no model sees."""
        local = self._local(item_id) or ""
        if not (local.isascii() and local.isdigit()):
            return None
        try:
            event = self._log.get(int(local))
        except UnknownItemError:
            return None
        if isinstance(event, Condensation):
            then = View.from_events(each for each in self._log if each.id <= event.id)
            return next((self._event_item(each) for each in then if each.id == event.id), None)
        return self._event_item(event) if event.is_shown else None

    def _items(self, view: View) -> list[Item]:
        """Return an item for each entry: the same one as long as the entry is, and what is known of it."""
        known, self._shown = self._shown, {}
        for event in view:
            was = known.get(event.id)
            self._shown[event.id] = was if was and was[0] is event else (event, self._event_item(event))
        return [item for _, item in self._shown.values()]

    def _event_item(self, event: Event) -> Item:
        message = event.message
        sources = event.sources if isinstance(event, Summary) else ()
        item = self._item(str(event.id), message.content, role=message.role, created_at=event.timestamp)
        return replace(
            item,
            tokens=count_content(message.content, self._counter),
            sources=tuple(f"{self.spec.name}/{source}" for source in sources),
            trust=message.authority,
        )
