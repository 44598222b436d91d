"""One turn of a window that goes on: the messages and the block that it appends.

A turn appends the new messages of the histories, then one block with the retrieved items that are
not visible yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain

from kaosmem.arguments import json_text
from kaosmem.assembly import Offers
from kaosmem.assembly.allocation import Costs, entries_of, items_of
from kaosmem.assembly.context import Context, Decision, Reason, SectionUse
from kaosmem.assembly.fitting import Share
from kaosmem.assembly.packing import Packing
from kaosmem.assembly.windows import (
    Rebased,
    Visible,
    WindowState,
    bound,
    digest,
    is_asked,
    stored_items,
    text_digest,
)
from kaosmem.formats import HistoryPart, Layout, Rendered
from kaosmem.formats.text import (
    NEWER,
    LabelStyle,
    grouped,
    header_piece,
    item_pieces,
    recalled_header,
)
from kaosmem.sections import Candidate
from kaosmem.sections.section import Section
from kaosmem.sections.spec import SectionSpec
from kaosmem.types import JSONValue
from kaosmem.types.items import ChatMessage, Item

_IN_FORCE = ", in force from here on as in the system message"
"""Stands in the header over static items that came after the system message was sent."""


@dataclass(frozen=True)
class Request:
    """One call that continues a window.

    offers: all that may be shown. own: the session's own sections. attached: those of other
        sessions.
    model: of the call. context, packing: of the request that a call without the window would make.
    call: a digest of the call's own instructions and tools. is_bound: whether thinking is valid only
        after the same ones.
    """

    offers: Offers
    own: Mapping[str, Section]
    attached: Mapping[str, Section]
    model: str | None
    context: Context
    packing: Packing
    call: str = ""
    is_bound: bool = False

    @property
    def settings(self) -> dict[str, JSONValue]:
        """Return the settings whose change ends an epoch, by reason, in their order."""
        static: list[JSONValue] = [
            [spec.name, spec.title, str(spec.labels)]
            for spec in self.offers.specs
            if spec.placement == "static"
        ]
        histories: list[JSONValue] = [spec.name for spec in self.histories]
        wanted = self.offers.wanted
        filtered = "" if wanted is None else wanted.text
        return {
            Rebased.FORMAT.value: self.offers.format.name,
            Rebased.COUNTER.value: self.offers.counter.name,
            Rebased.BUDGET.value: self.offers.budget,
            Rebased.MODEL.value: self.model,
            Rebased.FILTER.value: text_digest(filtered) if filtered else None,
            Rebased.STATIC.value: text_digest(json_text([static, histories])),
        }

    @property
    def histories(self) -> list[SectionSpec]:
        """Return the specs of the histories."""
        return [spec for spec in self.offers.specs if spec.placement == "history"]


class Growth:
    """The messages and the block that one turn appends to a window.

    new: the units that each history gained.
    corrections: live items that supersede visible ones, and visible items that changed in place.
    rendered: the appended messages or text. used: tokens of the whole request.
    is_asked: whether the turn asks something: the user speaks, or the query differs from the last
        one. If not, the turn is part of a loop of tools, and its block holds required items alone.
    """

    def __init__(
        self,
        window: WindowState,
        request: Request,
        new: Mapping[str, Sequence[Candidate]],
        corrections: Sequence[Item],
    ) -> None:
        self._corrected = corrections
        self._window = window
        self._request = request
        self._costs = Costs(request.offers.format, request.offers.counter)
        foreign = window.foreign or {}
        self._new: dict[str, list[Candidate]] = {}
        self.is_asked = text_digest(request.context.query) != window.question
        for name, units in new.items():
            self._new[name] = bound(units, foreign.get(name))
            self.is_asked = self.is_asked or any(map(is_asked, units))
        self._block = list(self._parts())
        self.rendered = request.offers.format.render(
            self._layout, after=window.rendered.messages or ()
        )
        self.used = window.used + self._appended

    @property
    def fits(self) -> bool:
        """Return whether the window takes the turn and a loop of tools as long as the last one."""
        budget = self._request.context.budget
        room = self._window.loop if self.is_asked else 0
        if self._request.context.used + room > budget:
            room = 0
        return self.used + room <= budget

    @property
    def _layout(self) -> Layout:
        history = []
        last = None
        for spec in self._request.histories:
            entries = tuple(entries_of(self._new.get(spec.name, ())))
            if entries:
                history.append(HistoryPart(spec.title, entries))
                last = entries[-1]
        pieces: list[str] = []
        for part in self._block:
            pieces += part.pieces
        place = self._costs.block_place(last) if pieces else None
        return Layout((), tuple(history), tuple(pieces), place)

    @property
    def _appended(self) -> int:
        rendered = self.rendered
        counter = self._request.offers.counter
        format_ = self._request.offers.format
        if not (rendered.messages or rendered.text):
            return 0
        if rendered.text is not None and not counter.additive:
            return counter((self._window.text or "") + rendered.text) - self._window.used
        frame = format_.frame_tokens(
            static=False, first=ChatMessage("user", ""), block=None, counter=counter
        )
        return format_.count(rendered, counter) - (frame if self._window.used else 0)

    def _parts(self) -> Iterator[_Part]:
        """Yield the parts of the block: of each section recalled items, then live ones.

        These are the items of the system message and of the block of a call without the window that
        are not visible yet, and corrections.
        """
        yield from self._static_parts()
        shares = {share.spec.name: share for share in self._request.packing.block_shares}
        for spec in self._request.offers.specs:
            share = shares.get(spec.name)
            notes = {} if share is None else {**share.notes}
            earlier = self._lost_from_tail(spec.name)
            live: list[Item] = []
            if share is not None:
                earlier += self._unseen(share, recalled=True)
                live += self._unseen(share, recalled=False)
            notes |= {item.id: NEWER for item in (*earlier, *live) if self._is_newer(item)}
            chosen = {item.id for item in live}
            for correction in self._corrections(spec.name):
                notes[correction.id] = NEWER
                if correction.id not in chosen:
                    live.append(correction)
            if earlier:
                yield _Part(spec, recalled_header(spec.title), earlier, notes, spec.labels)
            if live:
                yield _Part(spec, header_piece(spec.title), live, notes, spec.labels)

    def _static_parts(self) -> Iterator[_Part]:
        """Yield the items that came into static sections since the system message was sent."""
        for share in self._request.packing.static_shares:
            kept = items_of(share.kept(recalled=False))
            items = [item for item in kept if item.id not in self._window.shown]
            if items:
                notes = {item.id: NEWER for item in items if self._is_newer(item)}
                # Verbatim texts have no label. Between others they need one, which no text can
                # forge.
                style = replace(share.spec.labels, verbatim=False)
                yield _Part(
                    share.spec, header_piece(f"{share.spec.title}{_IN_FORCE}"), items, notes, style
                )

    def _is_newer(self, item: Item) -> bool:
        """Return whether a visible item has the same id, or the same key."""
        return item.id in self._window.shown or (item.section, item.key) in self._keys

    @cached_property
    def _keys(self) -> set[tuple[str, str]]:
        visible = self._window.shown.values()
        return {(each.section, each.key) for each in visible if each.key is not None}

    def _corrections(self, name: str) -> list[Item]:
        return [item for item in self._corrected if item.section == name and self.is_asked]

    def _unseen(self, share: Share, *, recalled: bool) -> list[Item]:
        """Return the items of a run whose units are not visible, or correct such a unit."""
        found: set[int] = set()
        left = [
            unit
            for unit in share.taken.values()
            if (self.is_asked or unit.must) and not self._is_visible(unit)
        ]
        while left:
            unit = left.pop()
            if unit.position not in found:
                found.add(unit.position)
                left += share.corrections_of(unit)
        return items_of(unit for unit in share.kept(recalled=recalled) if unit.position in found)

    def _lost_from_tail(self, name: str) -> list[Item]:
        """Return messages in the tail of a call without a window that this one does not show."""
        tail = self._request.packing.tails.get(name)
        new = {unit.position for unit in self._new.get(name, ())}
        if tail is None or not self.is_asked:
            return []
        units = [unit for unit in tail.shown if unit.position not in new]
        # A message that was shortened or masked since it was sent stays as it was sent.
        return items_of(unit for unit in units if not self._is_sent(unit))

    def _is_sent(self, unit: Candidate) -> bool:
        return all(item.id in self._window.shown for item in unit.items)

    def _is_visible(self, unit: Candidate) -> bool:
        shown = self._window.shown
        own = self._request.own
        return all(
            item.id in shown and (item.section in own or shown[item.id].digest == digest(item))
            for item in unit.items
        )

    @property
    def items(self) -> list[Item]:
        """Return the items that the turn appends, in order."""
        items: list[Item] = []
        for units in self._new.values():
            items += items_of(units)
        for part in self._block:
            items += part.items
        return items

    def turn(self) -> dict[str, JSONValue]:
        """Return the record of the turn."""
        window = self._window
        loop = 0 if self.is_asked else window.loop + self.used - window.used
        turn = record_of(window, self._request, self) | {"loop": loop}
        if self._request.is_bound and self._request.call != window.call:
            # The new replies answer a request with the former instructions.
            turn["unbound"] = len(window.messages) + len(self.rendered.messages or ())
        return turn

    @property
    def by_section(self) -> dict[str, SectionUse]:
        """Return the tokens and items of each section, in order of declaration."""
        uses = {name: SectionUse(*use) for name, use in self._window.uses.items()}

        def add(spec: SectionSpec, used: int, items: int) -> None:
            before = uses.get(spec.name, SectionUse(0, 0))
            uses[spec.name] = SectionUse(before.used + used, before.items + items)

        for spec in self._request.histories:
            if units := self._new.get(spec.name):
                header = self._costs.history_header(spec)
                add(
                    spec,
                    header + sum(map(self._costs.entries, units)),
                    sum(len(unit.items) for unit in units),
                )
        for part in self._block:
            add(part.spec, sum(map(self._request.offers.counter, part.pieces)), len(part.items))
        order = [spec.name for spec in self._request.offers.specs]
        return dict(
            sorted(
                uses.items(),
                key=lambda each: order.index(each[0]) if each[0] in order else len(order),
            )
        )

    def context(self, grown: WindowState, visible: Sequence[Item]) -> Context:
        """Return the context of the turn.

        grown: the window after it. visible: items that were visible before it.
        """
        window = self._window
        request = self._request
        uses = self.by_section
        appended = {item.id: item for item in self.items}
        shown = {item.id: item for item in visible} | appended
        anew = request.context
        decided = partial(_decided, window=window, appended=appended)
        rendered, lost, thoughtless = _bound_messages(grown, request)
        notices = anew.notices
        if thoughtless:
            uses = _less(uses, lost, request.histories)
            notices = (*notices, _UNBOUND.format(thoughtless))
        is_same = grown.call == window.call
        return replace(
            anew,
            used=grown.used - lost,
            frame=grown.used - lost - sum(use.used for use in uses.values()),
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


def _bound_messages(grown: WindowState, request: Request) -> tuple[Rendered, int, int]:
    """Return a window's request without the thinking that other instructions bound.

    Returns:
        The request, the tokens of the thinking, and the number of messages that had some.
    """
    rendered = grown.rendered
    strip = getattr(request.offers.format, "without_thinking", None)
    if not grown.unbound or strip is None or rendered.messages is None:
        return rendered, 0, 0
    messages = []
    before = []
    after = []
    for at, message in enumerate(rendered.messages):
        kept = strip(message) if at < grown.unbound else message
        messages.append(kept)
        if kept is not message:
            before.append(message)
            after.append(kept)
    count = request.offers.format.count
    counter = request.offers.counter
    lost = count(Rendered(messages=before), counter) - count(Rendered(messages=after), counter)
    return replace(rendered, messages=messages), lost, len(before)


_UNBOUND = (
    "thinking in {} messages is left out: it was made under other instructions or tools, and the "
    "provider would refuse it"
)


def _less(
    uses: Mapping[str, SectionUse], lost: int, histories: Iterable[SectionSpec]
) -> dict[str, SectionUse]:
    """Return the tokens of sections without those of lost thinking, which histories had."""
    left = dict(uses)
    for spec in histories:
        use = left.get(spec.name, SectionUse(0, 0))
        taken = min(lost, use.used)
        left[spec.name] = replace(use, used=use.used - taken)
        lost -= taken
    return left


class _Part:
    """The items that a turn's block shows of one section under one header.

    notes: of marked ones, by id.
    """

    def __init__(
        self,
        spec: SectionSpec,
        header: str,
        items: Sequence[Item],
        notes: Mapping[str, str],
        style: LabelStyle,
    ) -> None:
        placed = grouped(items, style, notes)
        self.spec = spec
        self.items = [each.item for each in placed]
        self.pieces = [header, *item_pieces(placed, style)]


def record_of(
    window: WindowState, request: Request, made: Context | Growth
) -> dict[str, JSONValue]:
    """Return the record of a turn that packed the window anew, or appended to it."""
    return {
        "window": window.name,
        "epoch": window.epoch,
        "text": made.rendered.text,
        "messages": list(map(json_text, made.rendered.messages or ())),
        "items": stored_items(_visible(made.items, request)),
        "marks": _marks(window, request),
        "question": text_digest(request.context.query),
        "used": made.used,
        "call": request.call,
        "uses": {name: [use.used, use.items] for name, use in made.by_section.items()},
        "loop": 0,
    }


def _visible(items: Iterable[Item], request: Request) -> dict[str, Visible]:
    """Return items as they are stored, also if shown shortened, with the names of their sources."""
    proposed: dict[str, tuple[str, Item]] = {}
    for name, proposal in request.offers.proposals.items():
        for item in items_of(chain(proposal.candidates, proposal.earlier)):
            proposed[item.id] = name, item
    visible = {}
    for item in items:
        name, stored = proposed.get(item.id, (item.section, item))
        visible[stored.id] = Visible(name, digest(stored), stored.key)
    return visible


def _marks(window: WindowState, request: Request) -> dict[str, JSONValue]:
    """Return how many messages each history has had, and the id of its last proposed one."""
    marks: dict[str, JSONValue] = {name: [*mark] for name, mark in window.marks.items()}
    for spec in request.histories:
        proposal = request.offers.proposals.get(spec.name)
        if proposal is not None:
            newest = max(proposal.candidates, key=lambda unit: unit.position, default=None)
            marks[spec.name] = [proposal.taken, newest.items[-1].id if newest else ""]
    return marks


def _decided(decision: Decision, *, window: WindowState, appended: Mapping[str, Item]) -> Decision:
    """Return a decision of a call without a window as it is in a window."""
    if decision.item_id in appended:
        shown = decision.item_id in window.shown
        is_chosen = decision.included and not shown
        return replace(
            decision,
            included=True,
            reason=decision.reason if is_chosen else _reason(decision, shown),
        )
    if decision.item_id in window.shown:
        return replace(decision, included=True, reason=Reason.VISIBLE, same_as=None)
    return replace(decision, included=False, reason=Reason.LATER) if decision.included else decision


def _reason(decision: Decision, was_shown: bool) -> Reason:
    return Reason.NEWER if was_shown or decision.reason is not Reason.BEFORE_TAIL else Reason.TAIL
