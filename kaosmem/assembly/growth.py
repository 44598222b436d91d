"""A turn that a window goes on with.

It appends the new messages of the histories, then one block with the retrieved items that are not
visible yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TypeAlias

from kaosmem.arguments import json_text, text_digest
from kaosmem.assembly.allocation import (
    LineOf,
    Notes,
    best_match,
    entries_of,
    header_of,
    items_of,
    line_maker,
)
from kaosmem.assembly.confidence import are_weak
from kaosmem.assembly.context import Context, Decision, Reason, SectionUse
from kaosmem.assembly.decisions import retrieved
from kaosmem.assembly.fitting import Share
from kaosmem.assembly.offers import Offers
from kaosmem.assembly.packing import Packing, SectionPart, section_part
from kaosmem.assembly.windows import (
    RebaseReason,
    WindowState,
    has_input_message,
    shown_digest,
    with_bound_thinking,
    without_unbound,
)
from kaosmem.formats import HistoryPart, Layout
from kaosmem.formats.labels import NEWER, LabelStyle
from kaosmem.formats.text import header_piece
from kaosmem.sections import Candidate
from kaosmem.sections.section import Section
from kaosmem.sections.spec import SectionSpec
from kaosmem.types import JSONDict, JSONValue
from kaosmem.types.items import ChatMessage, Item, digest

Sections: TypeAlias = Mapping[str, Section]
"""Sections by name."""

_IN_FORCE = ", in force from here on as in the system message"
"""Stands in the header over static items that came after the system message was sent."""
_UNBOUND = (
    "thinking in {} messages is left out: it was made under other instructions or tools, and the "
    "provider would refuse it"
)


@dataclass(frozen=True)
class WindowRequest:
    """One call that continues a window.

    Args:
        offers: All that may be shown.
        own: The session's own sections.
        attached: The attached sections of other sessions.
        model: The model of the call.
        preserves_thinking: The model binds its thinking to the request that produced it.
        context: The context that a call without the window would give.
        packing: The packing of that context.
    """

    offers: Offers
    own: Sections
    attached: Sections
    model: str | None
    preserves_thinking: bool
    context: Context
    packing: Packing

    def settings(self) -> JSONDict:
        """Return the settings whose change ends an epoch, by reason, in their order."""
        static: list[JSONValue] = [
            [spec.name, spec.title, str(spec.labels)] for spec in self.specs("static")
        ]
        histories: list[JSONValue] = [spec.name for spec in self.specs("history")]
        wanted = self.offers.call.wanted
        filtered = "" if wanted is None else wanted.text
        return {
            RebaseReason.FORMAT.value: self.offers.call.format.name,
            RebaseReason.COUNTER.value: self.offers.counter.name,
            RebaseReason.BUDGET.value: self.offers.call.budget,
            RebaseReason.MODEL.value: self.model,
            RebaseReason.FILTER.value: text_digest(filtered) if filtered else None,
            RebaseReason.STATIC.value: text_digest(json_text([static, histories])),
        }

    @cached_property
    def call(self) -> str:
        """A digest of the call's own instructions and tools."""
        return self.offers.call.instructions.digest

    @property
    def is_bound(self) -> bool:
        """Whether thinking is valid only after the same instructions and tools."""
        format_ = self.offers.call.format
        return self.preserves_thinking and getattr(format_, "binds_thinking", False)

    def specs(self, placement: str) -> list[SectionSpec]:
        """Return the specs with a placement."""
        return [spec for spec in self.offers.specs if spec.placement == placement]


class AppendedTurn:
    """The messages and the block that one turn appends to a window.

    Args:
        new: The units that each history gained.
        corrections: Live items that supersede visible ones, and visible items that changed in
            place.

    Attributes:
        is_asked: The turn asks something: the user speaks, or the query differs from the last one.
            If not, the turn is part of a loop of tools, and its block holds required items alone.
        rendered: The appended messages or text.
        used: Tokens of the whole request.
    """

    def __init__(
        self,
        window: WindowState,
        request: WindowRequest,
        new: Mapping[str, Sequence[Candidate]],
        corrections: Sequence[Item],
    ) -> None:
        self._window = window
        self._request = request
        foreign = window.foreign or {}
        self._new: dict[str, list[Candidate]] = {}
        self.is_asked = text_digest(request.context.query) != window.question
        for name, units in new.items():
            self._new[name] = with_bound_thinking(units, foreign.get(name))
            self.is_asked = self.is_asked or any(map(has_input_message, units))
        self._corrected = corrections if self.is_asked else ()
        self._keys = {(each.section, each.key) for each in window.shown.values()}
        self._block = [*self._static_parts(), *self._parts()]
        format_ = request.offers.call.format
        self.rendered = format_.render(self._layout(), after=window.rendered.messages or ())
        self.used = window.used + self._appended()

    @property
    def fits(self) -> bool:
        """Return whether the window takes the turn and a loop of tools as long as the last one."""
        budget = self._request.context.budget
        room = self._window.loop if self.is_asked else 0
        if self._request.context.used + room > budget:
            room = 0
        return self.used + room <= budget

    def _layout(self) -> Layout:
        history = []
        for spec in self._request.specs("history"):
            entries = tuple(entries_of(self._new.get(spec.name, ())))
            if entries:
                history.append(HistoryPart(spec.title, entries))
        pieces: list[str] = []
        for part in self._block:
            pieces += part.pieces
        if history:
            last = history[-1].entries
        else:
            last = ()
        place = None
        if pieces:
            place = self._request.offers.costs.block_place(last)
        return Layout((), tuple(history), tuple(pieces), place)

    def _appended(self) -> int:
        """Return the tokens that the turn appends."""
        rendered = self.rendered
        counter = self._request.offers.counter
        format_ = self._request.offers.call.format
        if not (rendered.messages or rendered.text):
            return 0
        if rendered.text is not None and not counter.additive:
            return counter((self._window.text or "") + rendered.text) - self._window.used
        frame = format_.frame_tokens(
            static=False, first=ChatMessage("user", ""), block=None, counter=counter
        )
        return format_.count(rendered, counter) - (frame if self._window.used else 0)

    # The block.

    def _static_parts(self) -> Iterator[SectionPart]:
        """Yield the items that came into static sections since the system message was sent."""
        for share in self._request.packing.static_shares:
            kept = items_of(share.kept())
            items = [item for item in kept if item.id not in self._window.shown]
            if items:
                header = header_piece(f"{share.spec.title}{_IN_FORCE}")
                # Verbatim texts have no label. Between others they need one, which no text can
                # forge.
                line_of = self._line_of(replace(share.spec.labels, verbatim=False))
                yield section_part(share.spec, header, items, line_of, self._newer(items))

    def _parts(self) -> Iterator[SectionPart]:
        """Yield the other parts of the block.

        These are corrections, and the items of the block of a call without the window that are not
        visible yet.
        """
        for spec in self._request.offers.specs:
            share = self._request.packing.shares.get(spec.name)
            notes: dict[str, str] = {}
            items: list[Item] = []
            if share is not None and spec.placement != "static":
                notes |= share.notes
                items = [*self._lost_from_tail(share), *self._unseen(share)]
            notes |= self._newer(items, in_history=spec.is_history)
            chosen = {item.id for item in items}
            for item in self._corrected:
                if item.section == spec.name:
                    if not _has_ending(item):
                        notes[item.id] = NEWER
                    if item.id not in chosen:
                        items.append(item)
            if items:
                yield section_part(spec, header_of(spec), items, self._line_of(spec.labels), notes)

    def _line_of(self, style: LabelStyle) -> LineOf:
        return line_maker(style, self._request.offers.counter)

    def _newer(self, items: Iterable[Item], *, in_history: bool = False) -> Notes:
        """Return the notes of items of which an earlier version is visible.

        A message never changes. It is shown again with other lines of it.
        """
        notes = {}
        for item in items:
            has_key = item.key is not None and (item.section, item.key) in self._keys
            is_newer = has_key or (item.id in self._window.shown and not in_history)
            if is_newer and not _has_ending(item):
                notes[item.id] = NEWER
        return notes

    def _unseen(self, share: Share) -> list[Item]:
        """Return the items of a share whose units are not visible, or correct such a unit."""
        found: set[int] = set()
        left = [unit for unit in self._asked(share) if not self._is_visible(unit)]
        while left:
            unit = left.pop()
            if unit.position not in found:
                found.add(unit.position)
                left += share.corrections_of(unit)
        return items_of(unit for unit in share.kept() if unit.position in found)

    def _asked(self, share: Share) -> list[Candidate]:
        """Return the taken units that the turn asks for.

        Once half of the room is used, the best match of a section stands for all of them if they
        are weak. Small talk would fill the window with them.
        """
        asked = [unit for unit in share.taken.values() if self.is_asked or unit.must]
        offers = self._request.offers
        if 2 * self._window.used < offers.room:
            return asked
        retrieved = self._retrieved.get(share.spec.name, frozenset())
        matches = [unit for unit in asked if unit.position in retrieved]
        best = best_match(matches)
        pool = offers.proposals[share.spec.name].pool
        if best is None or not are_weak(offers.query, items_of(matches), pool):
            return asked
        # A replaced version needs the current one.
        kept = {best.position, *best.needs}
        return [unit for unit in asked if unit.position not in retrieved - kept]

    @cached_property
    def _retrieved(self) -> Mapping[str, frozenset[int]]:
        """The positions of the units that the query brings in, by section."""
        return retrieved(self._request.packing)

    def _lost_from_tail(self, share: Share) -> list[Item]:
        """Return messages in the tail of a call without a window that this one does not show."""
        if not self.is_asked:
            return []
        new = {unit.position for unit in self._new.get(share.spec.name, ())}
        lost = []
        for unit in share.tail.shown:
            # A message that was shortened or masked since it was sent stays as it was sent.
            is_sent = all(item.id in self._window.shown for item in unit.items)
            if unit.position not in new and not is_sent:
                lost.append(unit)
        return items_of(lost)

    def _is_visible(self, unit: Candidate) -> bool:
        own = self._request.own
        for item in unit.items:
            shown = self._window.shown.get(item.id)
            if shown is None:
                return False
            # Another question asks for other lines of a long message.
            if unit.recalled and shown.excerpts and digest(item) not in shown.excerpts:
                return False
            if item.section not in own and shown.digest != shown_digest(item):
                return False
        return True

    # The result.

    @cached_property
    def items(self) -> list[Item]:
        """The items that the turn appends, in order."""
        items: list[Item] = []
        for units in self._new.values():
            items += items_of(units)
        for part in self._block:
            items += part.items
        return items

    @property
    def loop(self) -> int:
        """The tokens that were appended since the last question."""
        if self.is_asked:
            return 0
        return self._window.loop + self.used - self._window.used

    @cached_property
    def by_section(self) -> dict[str, SectionUse]:
        """The tokens and items of each section, in order of declaration."""
        offers = self._request.offers
        costs = offers.costs
        added = []
        for spec in self._request.specs("history"):
            units = self._new.get(spec.name)
            if units:
                header = costs.format.history_header_tokens(spec.title, costs.counter)
                used = header + sum(map(costs.entries, units))
                added.append((spec.name, used, len(items_of(units))))
        for part in self._block:
            used = sum(map(offers.counter, part.pieces))
            added.append((part.spec.name, used, len(part.items)))
        uses = {name: SectionUse(*use) for name, use in self._window.uses.items()}
        for name, used, items in added:
            before = uses.get(name, SectionUse(0, 0))
            uses[name] = SectionUse(before.used + used, before.items + items)
        order = dict.fromkeys((*(spec.name for spec in offers.specs), *uses))
        return {name: uses[name] for name in order if name in uses}

    def context(self, grown: WindowState) -> Context:
        """Return the context of the turn, after which the window is `grown`."""
        window = self._window
        anew = self._request.context
        uses: Mapping[str, SectionUse] = self.by_section
        appended = {item.id: item for item in self.items}
        shown = {item.id: item for item in _live(window, self._request.own)} | appended
        reason = Reason.LOW_CONFIDENCE if self.is_asked else Reason.LATER
        decided = partial(_decision_in_window, window=window, appended=appended, left_out=reason)
        offers = self._request.offers
        rendered, lost, thoughtless = without_unbound(grown, offers.call.format, offers.counter)
        notices = anew.notices
        if thoughtless:
            uses = _uses_without_thinking(uses, lost, self._request.specs("history"))
            notices = (*notices, _UNBOUND.format(thoughtless))
        is_same = grown.call == window.call
        used = grown.used - lost
        in_sections = sum(use.used for use in uses.values())
        return replace(
            anew,
            used=used,
            frame=used - in_sections,
            items=tuple(shown.values()),
            by_section=uses,
            rendered=rendered,
            window=window.name,
            epoch=grown.epoch,
            appended=grown.used - window.used,
            prefix_tokens=max(0, window.used - lost) if is_same else 0,
            cache_breakpoints=grown.breakpoints,
            notices=notices,
            _proposed=lambda: tuple(map(decided, anew._proposed())),
            _others=lambda item_id: decided(anew._others(item_id)),
        )


def _has_ending(item: Item) -> bool:
    """Return whether a label says when an item ended or will end: so it is not called newer."""
    interval = item.interval
    return interval is not None and (interval.is_announced or interval.end is not None)


def _live(window: WindowState, sections: Sections) -> list[Item]:
    """Return the visible items that the session holds live, in the order of the window."""
    items = []
    for item_id, visible in window.shown.items():
        section = sections.get(visible.section)
        if section is not None and item_id in section:
            items.append(section.peek(item_id))
    return items


def _uses_without_thinking(
    uses: Mapping[str, SectionUse],
    lost: int,
    histories: Iterable[SectionSpec],
) -> dict[str, SectionUse]:
    """Return the tokens of sections without those of lost thinking, which histories had."""
    left = dict(uses)
    for spec in histories:
        use = left.get(spec.name, SectionUse(0, 0))
        taken = min(lost, use.used)
        left[spec.name] = replace(use, used=use.used - taken)
        lost -= taken
    return left


def _decision_in_window(
    decision: Decision,
    *,
    window: WindowState,
    appended: Mapping[str, Item],
    left_out: Reason,
) -> Decision:
    """Return a decision of a call without a window as it is in a window.

    Args:
        left_out: The reason of an item that is in the call, but not appended.
    """
    was_shown = decision.item_id in window.shown
    if decision.item_id in appended:
        reason = decision.reason
        if reason is not Reason.SHORTENED and (was_shown or not decision.included):
            is_message = reason is Reason.BEFORE_TAIL and not was_shown
            reason = Reason.TAIL if is_message else Reason.NEWER
        return replace(decision, included=True, reason=reason)
    if was_shown:
        return replace(decision, included=True, reason=Reason.VISIBLE, same_as=None)
    if decision.included:
        return replace(decision, included=False, reason=left_out)
    return decision
