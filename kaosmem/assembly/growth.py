"""One turn of a window: what it appends to the request before, or the request that packs the window anew.

A turn appends what the histories gained, then one block with the retrieved items that are not visible yet.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain

from kaosmem.assembly.context import Context, Decision, Reason, SectionUse
from kaosmem.assembly.costs import Costs, entries_of
from kaosmem.assembly.packing import Packing
from kaosmem.assembly.windows import Rebased, Visible, Window, digest, stored_items, text_digest
from kaosmem.formats import Format, HistoryPart, Layout
from kaosmem.formats.text import header_piece, item_pieces, recalled_header
from kaosmem.sections import Candidate, Proposal, SectionSpec
from kaosmem.tokens import TokenCounter
from kaosmem.types import ChatMessage, Item, JSONValue, ThinkingBlock, ToolUseBlock, json_text
from kaosmem.units import Link


@dataclass(frozen=True)
class Request:
    """One call that continues a window: the proposals, and what a call without the window would show.

    proposals: as the sources made them. own: names of the session's own sections.
    corrections: live items that supersede visible ones, or visible items that changed in place.
    """

    specs: Sequence[SectionSpec]
    proposals: Mapping[str, Proposal]
    own: Collection[str]
    format: Format
    counter: TokenCounter
    budget: int
    query: str
    model: str | None
    context: Context
    packing: Packing
    corrections: Sequence[Item] = ()

    @property
    def settings(self) -> dict[str, JSONValue]:
        """Return what ends an epoch if it changes, in the order of the reasons."""
        static = [
            [spec.name, spec.title, str(spec.labels), *self._digests(spec.name)]
            for spec in self.specs
            if spec.placement == "static"
        ]
        histories: list[JSONValue] = [spec.name for spec in self.histories]
        return {
            Rebased.FORMAT.value: self.format.name,
            Rebased.COUNTER.value: self.counter.name,
            Rebased.BUDGET.value: self.budget,
            Rebased.MODEL.value: self.model,
            Rebased.STATIC.value: text_digest(json_text([static, histories])),
        }

    @property
    def histories(self) -> list[SectionSpec]:
        """Return the specs of the histories."""
        return [spec for spec in self.specs if spec.placement == "history"]

    def _digests(self, name: str) -> Iterator[list[JSONValue]]:
        units = self.proposals[name].candidates if name in self.proposals else ()
        for unit in sorted(units, key=lambda unit: unit.position):
            yield [[item.id, digest(item), item.role, int(item.trust), dict(item.metadata)] for item in unit.items]


def without_thinking(
    specs: Iterable[SectionSpec], proposals: Mapping[str, Proposal], *, keeps_open_loop: bool
) -> dict[str, Proposal]:
    """Return the proposals without the thinking of their histories.

    keeps_open_loop: keep that of the newest unit if its calls were just answered, as models without preserved
        thinking require.
    """
    left = dict(proposals)
    for spec in specs:
        if spec.placement == "history" and spec.name in left:
            proposal = left[spec.name]
            newest = max((unit.position for unit in proposal.candidates if not unit.orphan), default=-1)
            left[spec.name] = replace(
                proposal,
                candidates=tuple(
                    unit if keeps_open_loop and unit.position == newest and _calls(unit) else _thoughtless(unit)
                    for unit in proposal.candidates
                ),
            )
    return left


def begin(window: Window, request: Request, reason: str) -> tuple[dict[str, JSONValue], Context]:
    """Return the record of a window that is packed anew, and its context."""
    context = request.context
    rendered = context.rendered
    turn: dict[str, JSONValue] = {
        "window": window.name,
        "epoch": window.epoch + 1,
        "settings": request.settings,
        "system": rendered.system,
        "text": rendered.text,
        "messages": list(map(json_text, rendered.messages or ())),
        "items": stored_items(_visible(context.items, request)),
        "marks": _marks(window, request),
        "question": text_digest(request.query),
        "used": context.used,
        "uses": {name: [use.used, use.items] for name, use in context.by_section.items()},
        "loop": 0,
    }
    grown = window.after(turn)
    return turn, replace(
        context,
        window=window.name,
        epoch=grown.epoch,
        rebased=str(reason),
        appended=context.used,
        cache_breakpoints=grown.breakpoints,
    )


class Growth:
    """What one turn appends to a window. Made only if the window goes on: see `gained`."""

    def __init__(self, window: Window, request: Request, new: Mapping[str, Sequence[Candidate]]) -> None:
        self._window, self._request = window, request
        self._costs = Costs(request.format, request.counter)
        self._new = {name: _bound(units, (window.foreign or {}).get(name)) for name, units in new.items()}
        spoken = any(_is_asked(unit) for units in new.values() for unit in units)
        self.is_asked = spoken or text_digest(request.query) != window.question
        self._block = dict(self._block_items())
        self.rendered = request.format.render(self._layout, after=window.rendered.messages or ())
        self.used = window.used + self._appended

    @property
    def fits(self) -> bool:
        """Return whether the window takes the turn, and calls of tools like those of the last turn after it."""
        budget = self._request.budget
        room = self._window.loop if self.is_asked else 0
        if self._request.context.used + room > budget:
            room = 0
        return self.used + room <= budget

    @property
    def _layout(self) -> Layout:
        parts = [
            HistoryPart(spec.title, tuple(chain.from_iterable(map(entries_of, units))))
            for spec in self._request.histories
            if (units := self._new.get(spec.name))
        ]
        pieces = tuple(piece for each in self._block.values() for piece in each.pieces)
        last = next((part.entries[-1] for part in reversed(parts) if part.entries), None)
        place = self._costs.block_place(last) if pieces else None
        return Layout((), tuple(part for part in parts if part.entries), pieces, place)

    @property
    def _appended(self) -> int:
        rendered, counter, format_ = self.rendered, self._request.counter, self._request.format
        if not (rendered.messages or rendered.text):
            return 0
        if rendered.text is not None and not counter.additive:
            return counter((self._window.text or "") + rendered.text) - self._window.used
        frame = format_.frame_tokens(static=False, first=ChatMessage("user", ""), block=None, counter=counter)
        return format_.count(rendered, counter) - (frame if self._window.used else 0)

    def _block_items(self) -> Iterator[tuple[str, _Shown]]:
        """Yield what the block shows of each section: what a call without a window would, and is not visible."""
        shares = {share.spec.name: share for share in self._request.packing.block_shares}
        for spec in self._request.specs:
            share = shares.get(spec.name)
            unseen = self._unseen(share.kept) if share else set()
            for is_recalled in (True, False):
                run = share.runs.get(is_recalled) if share else None
                units = [unit for unit in run.kept if unit.position in unseen] if run else []
                items = [item for unit in units for item in unit.items]
                newer = {item.id for item in items if self._is_newer(item)} | (run.newer if run else set())
                if is_recalled and spec.placement == "history":
                    items = [*self._lost_from_tail(spec.name), *items]
                elif not is_recalled:
                    chosen, changed = {item.id for item in items}, self._corrections(spec.name)
                    items += [item for item in changed if item.id not in chosen]
                    newer |= {item.id for item in changed}
                if items:
                    yield f"{spec.name} {is_recalled}", _Shown(spec, is_recalled, items, newer)

    def _is_newer(self, item: Item) -> bool:
        """Return whether a visible item has the same id, or the same key."""
        return item.id in self._window.shown or (item.section, item.key) in self._keys

    @cached_property
    def _keys(self) -> set[tuple[str, str]]:
        visible = self._window.shown.values()
        return {(each.section, each.key) for each in visible if each.key is not None}

    def _corrections(self, name: str) -> list[Item]:
        return [item for item in self._request.corrections if item.section == name and self.is_asked]

    def _unseen(self, kept: Sequence[Candidate]) -> set[int]:
        """Return the positions of the units that are not visible, and of those that correct them."""
        by_position = {unit.position: unit for unit in kept}
        left = [unit for unit in kept if (self.is_asked or unit.must) and not self._is_visible(unit)]
        found: set[int] = set()
        while left:
            unit = left.pop()
            if unit.position not in found:
                found.add(unit.position)
                left += [by_position[at] for at in unit.newer if at in by_position]
        return found

    def _lost_from_tail(self, name: str) -> list[Item]:
        """Return the messages that a call without a window shows in its tail, and that the window does not show."""
        tail, new = self._request.packing.tails.get(name), {unit.position for unit in self._new.get(name, ())}
        if tail is None or not self.is_asked:
            return []
        units = [unit for unit in tail.shown if unit.position not in new and not self._is_visible(unit)]
        return [item for unit in units for item in unit.items]

    def _is_visible(self, unit: Candidate) -> bool:
        shown, own = self._window.shown, self._request.own
        return all(
            item.id in shown and (item.section in own or shown[item.id].digest == digest(item)) for item in unit.items
        )

    @property
    def items(self) -> list[Item]:
        """Return the items that the turn appends, in order."""
        messages = [item for units in self._new.values() for unit in units for item in unit.items]
        return messages + [item for each in self._block.values() for item in each.items]

    def turn(self) -> dict[str, JSONValue]:
        """Return the record of the turn."""
        window, request = self._window, self._request
        appended = self.used - window.used
        return {
            "window": window.name,
            "epoch": window.epoch,
            "text": self.rendered.text,
            "messages": list(map(json_text, self.rendered.messages or ())),
            "items": stored_items(_visible(self.items, request)),
            "marks": _marks(window, request),
            "question": text_digest(request.query),
            "used": self.used,
            "uses": {name: [use.used, use.items] for name, use in self._uses.items()},
            "loop": 0 if self.is_asked else window.loop + appended,
        }

    @property
    def _uses(self) -> dict[str, SectionUse]:
        """Return the tokens and items of each section, in order of declaration."""
        uses = {name: SectionUse(*use) for name, use in self._window.uses.items()}

        def add(spec: SectionSpec, used: int, items: int) -> None:
            before = uses.get(spec.name, SectionUse(0, 0))
            uses[spec.name] = SectionUse(before.used + used, before.items + items)

        for spec in self._request.histories:
            if units := self._new.get(spec.name):
                header = self._costs.history_header(spec)
                add(spec, header + sum(map(self._costs.entries, units)), sum(len(unit.items) for unit in units))
        for shown in self._block.values():
            add(shown.spec, sum(map(self._request.counter, shown.pieces)), len(shown.items))
        order = [spec.name for spec in self._request.specs]
        return dict(sorted(uses.items(), key=lambda each: order.index(each[0]) if each[0] in order else len(order)))

    def context(self, grown: Window, visible: Sequence[Item]) -> Context:
        """Return the context of the turn. grown: the window after it. visible: items that were visible before it."""
        window, request = self._window, self._request
        uses = self._uses
        appended = {item.id: item for item in self.items}
        shown = {item.id: item for item in visible} | appended
        kept = request.context
        decided = partial(_decided, window=window, appended=appended)
        return replace(
            kept,
            used=grown.used,
            frame=grown.used - sum(use.used for use in uses.values()),
            items=tuple(shown.values()),
            by_section=uses,
            rendered=grown.rendered,
            window=window.name,
            epoch=grown.epoch,
            appended=grown.used - window.used,
            prefix_tokens=window.used,
            cache_breakpoints=grown.breakpoints,
            _proposed=lambda: tuple(map(decided, kept._proposed())),
            _others=_with(kept._others, decided),
        )


class _Shown:
    """What a turn's block shows of one section under one header."""

    def __init__(self, spec: SectionSpec, is_recalled: bool, items: Sequence[Item], newer: Collection[str]) -> None:
        self.spec, self.items = spec, items
        header = recalled_header(spec.title, recalled=len(items)) if is_recalled else header_piece(spec.title)
        self.pieces = [header, *item_pieces(items, spec.labels, newer)]


def gained(window: Window, request: Request) -> dict[str, list[Candidate]] | None:
    """Return the units that each history gained since the last request; None if what came before them changed."""
    found: dict[str, list[Candidate]] = {}
    for spec in request.histories:
        if (proposal := request.proposals.get(spec.name)) is None:
            continue  # a source that failed
        mark, last = window.marks.get(spec.name, (0, ""))
        units = sorted(proposal.candidates, key=lambda unit: unit.position)
        new = [unit for unit in units if unit.position >= mark]
        old = [unit for unit in units if unit.position < mark]
        if sum(len(unit.items) for unit in new) != proposal.taken - mark:
            return None
        if any(item.id in window.shown for unit in new for item in unit.items):
            return None
        for unit in old:
            visible = sum(item.id in window.shown for item in unit.items)
            if not unit.orphan and (0 < visible < len(unit.items) or (unit.must and not visible)):
                return None
        if spec.name not in request.own and old and old[-1].items[-1].id != last:
            return None
        found[spec.name] = [unit for unit in new if not unit.orphan]
    return found


def _bound(units: Sequence[Candidate], foreign: int | None) -> list[Candidate]:
    """Return units with the thinking of replies to the last request alone.

    Others may be replies to another request, under which their thinking was bound.
    foreign: number of messages when another window was continued.
    """
    kept: list[Candidate] = []
    is_reply = True
    for unit in units:
        links = [Link.of(item) for item in unit.items]
        is_reply = is_reply and (foreign is None or unit.position < foreign)
        is_reply = is_reply and not any(link.speaks and link.role != "assistant" for link in links)
        kept.append(unit if is_reply else _thoughtless(unit))
        is_reply = is_reply and any(link.calls for link in links)
    return kept


def _is_asked(unit: Candidate) -> bool:
    """Return whether someone other than the assistant speaks in a unit."""
    links = map(Link.of, unit.items)
    return any(link.speaks and link.role != "assistant" for link in links)


def _calls(unit: Candidate) -> bool:
    return any(isinstance(block, ToolUseBlock) for item in unit.items for block in item.message.blocks)


def _thoughtless(unit: Candidate) -> Candidate:
    if not any(map(_thinks, unit.items)):
        return unit
    items = (item.memo("without thinking", _without_thinking) if _thinks(item) else item for item in unit.items)
    return unit._replace(items=tuple(items))


def _thinks(item: Item) -> bool:
    return not isinstance(item.content, str) and any(isinstance(block, ThinkingBlock) for block in item.content)


def _without_thinking(item: Item) -> Item:
    return replace(item, content=tuple(each for each in item.message.blocks if not isinstance(each, ThinkingBlock)))


def _visible(items: Iterable[Item], request: Request) -> dict[str, Visible]:
    """Return items as they are stored, which are not always shown whole."""
    proposed = {
        item.id: item
        for proposal in request.proposals.values()
        for unit in chain(proposal.candidates, proposal.earlier)
        for item in unit.items
    }
    stored = (proposed.get(item.id, item) for item in items)
    return {item.id: Visible(item.section, digest(item), item.key) for item in stored}


def _marks(window: Window, request: Request) -> dict[str, JSONValue]:
    """Return for each history how many messages it has had, and the id of the last that is proposed."""
    marks: dict[str, JSONValue] = {name: [*mark] for name, mark in window.marks.items()}
    for spec in request.histories:
        if (proposal := request.proposals.get(spec.name)) is not None:
            newest = max(proposal.candidates, key=lambda unit: unit.position, default=None)
            marks[spec.name] = [proposal.taken, newest.items[-1].id if newest else ""]
    return marks


def _decided(decision: Decision, *, window: Window, appended: Mapping[str, Item]) -> Decision:
    """Return a decision of a call without a window as it is in a window."""
    if decision.item_id in appended:
        shown = decision.item_id in window.shown
        is_chosen = decision.included and not shown
        return replace(decision, included=True, reason=decision.reason if is_chosen else _reason(decision, shown))
    if decision.item_id in window.shown:
        return replace(decision, included=True, reason=Reason.VISIBLE, same_as=None)
    return replace(decision, included=False, reason=Reason.LATER) if decision.included else decision


def _reason(decision: Decision, was_shown: bool) -> Reason:
    return Reason.NEWER if was_shown or decision.reason is not Reason.BEFORE_TAIL else Reason.TAIL


def _with(others: Callable[[str], Decision], decided: Callable[[Decision], Decision]) -> Callable[[str], Decision]:
    return lambda item_id: decided(others(item_id))
