"""One packing of a window: required units, static sections, tails of histories, then the block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from operator import attrgetter
from typing import NamedTuple

from kaosmem.assembly.allocation import (
    FRAME,
    Costs,
    HistoryTail,
    Line,
    TailCutter,
    TokenNeed,
    allocate,
    best_match,
    by_priority,
    cap_of,
    entries_in,
    entries_of,
    items_of,
    window_too_small,
)
from kaosmem.assembly.context import Decision, Reason, SectionUse
from kaosmem.assembly.fitting import Run, Share, fill
from kaosmem.formats import BlockPlace, HistoryEntry, HistoryPart, Layout, Mark
from kaosmem.formats.text import (
    GroupedItem,
    LabelStyle,
    adds_up,
    grouped,
    header_piece,
    item_pieces,
    recalled_header,
)
from kaosmem.language.duplicates import Shown
from kaosmem.sections import Candidate
from kaosmem.sections.proposal import Proposal
from kaosmem.sections.spec import SectionSpec
from kaosmem.types.items import ChatMessage, Item

_INCLUDING = frozenset(
    (
        Reason.MUST,
        Reason.SHORTENED,
        Reason.TAIL,
        Reason.RELEVANT,
        Reason.NEWEST,
        Reason.NEWER,
        Reason.RECALLED,
    )
)


_LEAST_RECALL = 64
"""The tokens of a header and a short message.

A history keeps them for recall, or half of itself.
"""


class Limits(NamedTuple):
    """The most tokens that the histories and the block may take, beside what must be shown."""

    history: int
    block: int


@dataclass(frozen=True)
class Packer:
    """Packs proposals into a window.

    specs: of the sections that propose something, in order of declaration. window: tokens.
    shortened: ids of items that are shortened copies.
    barred: by section, positions of units that are left out for low confidence.
    limits: of the histories and the block; None is what the window leaves them.
    """

    specs: Sequence[SectionSpec]
    proposals: Mapping[str, Proposal]
    window: int
    costs: Costs
    shortened: frozenset[str] = frozenset()
    barred: Mapping[str, frozenset[int]] = field(default_factory=dict)
    limits: Limits | None = None

    def pack(self) -> Packing:
        """Return the packing. Raises WindowTooSmallError, with the sums."""
        shares: dict[str, Share] = {}
        cutters: dict[str, TailCutter] = {}
        needs: dict[str, TokenNeed] = {}
        for spec in sorted(self.specs, key=_is_history):
            if _is_history(spec):
                cutters[spec.name] = self._cutter(spec)
                needs[spec.name] = self._history_need(spec, cutters[spec.name])
            else:
                share = self._share(spec)
                shares[spec.name] = share
                needs[spec.name] = TokenNeed(share.used, max(share.used, share.want()))
        self._check_required(needs, cutters)
        grants = self._granted(needs)
        for name, share in shares.items():
            if share.spec.placement == "static":
                share.cap = share.grant = grants[name]
                fill([share], share.grant - share.used)
                needs[name] = TokenNeed(share.used, share.used)
        tails: dict[str, HistoryTail] = {}
        recalled: dict[str, Share] = {}
        for spec in filter(_is_history, self.specs):
            tail, reserved = self._cut_tail(spec, cutters[spec.name], grants[spec.name])
            tails[spec.name] = tail
            needs[spec.name] = TokenNeed(tail.used + reserved, tail.used + reserved)
            earlier = self._earlier(spec, tail)
            if earlier:
                recalled[spec.name] = self._recall_share(spec, tail, earlier, reserved)
        packing = Packing(self, shares, tails, recalled)
        self._grant_block(packing, needs)
        self._fill_block(packing)
        return packing

    def _granted(self, needs: Mapping[str, TokenNeed]) -> dict[str, int]:
        """Return the grants of all sections beside the largest frame, whatever the query brings."""
        placements = {spec.placement for spec in self.specs}
        has_block = "query" in placements
        for spec in self.specs:
            has_block = has_block or (_is_history(spec) and spec.recall > 0)
        frame = self.costs.frame(
            static="static" in placements,
            first=ChatMessage("assistant", "") if "history" in placements else None,
            block=BlockPlace.OWN_MESSAGE if has_block else None,
        )
        required = 0
        for need in needs.values():
            required += need.must
        return allocate(self.specs, needs, max(self.window - frame, required))

    # the tokens that each section wants

    def _cutter(self, spec: SectionSpec) -> TailCutter:
        proposal = self.proposals[spec.name]
        units = [candidate for candidate in proposal.candidates if not candidate.orphan]
        units.sort(key=attrgetter("position"))
        return TailCutter(
            units,
            taken=proposal.taken,
            is_whole=proposal.is_all,
            evicted=proposal.evicted,
            size=self.costs.entries,
            mark_size=self.costs.mark,
            header=self.costs.history_header(spec),
        )

    def _history_need(self, spec: SectionSpec, cutter: TailCutter) -> TokenNeed:
        recall = 0
        if self.proposals[spec.name].evicted:
            recall = _reserved(spec, cap_of(spec, self.window))
        return TokenNeed(cutter.must, max(cutter.must, cutter.want + recall))

    def _share(self, spec: SectionSpec) -> Share:
        """Return the share of a section that is no history, with its required units."""
        proposal = self.proposals[spec.name]
        candidates = proposal.candidates
        cap = cap_of(spec, self.window)
        header = self.costs.header(spec)
        runs = {False: Run(lambda _: header, cap)}
        if spec.recalls:
            recalled = Run(partial(self.costs.recalled_header, spec, None), cap)
            best = best_match([unit for unit in candidates if unit.recalled])
            recalled.cap = max(spec.recall * cap, self._alone(spec, recalled, best))
            runs = {True: recalled, **runs}
        share = Share(
            spec,
            candidates,
            runs,
            self.costs.line_of(spec.labels),
            cap,
            barred=self.barred.get(spec.name, frozenset()),
            unrelated=proposal.unrelated | _low_scored(spec, candidates),
            is_offered_whole=proposal.offers_all and not spec.min_score,
        )
        share.require([unit for unit in candidates if unit.must])
        return share

    def _alone(self, spec: SectionSpec, run: Run, unit: Candidate | None) -> int:
        """Return the tokens of a unit that stands alone in a run, 0 for none."""
        if unit is None:
            return 0
        return run.empty().added(unit, self._lines(spec, unit))[0]

    def _lines(self, spec: SectionSpec, unit: Candidate) -> list[Line]:
        line_of = self.costs.line_of(spec.labels)
        return [line_of(item, None) for item in unit.items]

    def _check_required(
        self, needs: Mapping[str, TokenNeed], cutters: Mapping[str, TailCutter]
    ) -> None:
        required = {FRAME: self._least_frame(needs, cutters)}
        for name, need in needs.items():
            required[name] = need.must
        for spec in self.specs:
            must = required[spec.name]
            if spec.budget is not None and must > spec.budget:
                raise window_too_small({spec.name: must}, spec.budget, section=spec.name)
        if sum(required.values()) > self.window:
            raise window_too_small(required, self.window)

    def _least_frame(
        self, needs: Mapping[str, TokenNeed], cutters: Mapping[str, TailCutter]
    ) -> int:
        """Return the frame's tokens with required items alone."""
        placements = {spec.placement for spec in self.specs if needs[spec.name].must}
        required = [cutter for cutter in cutters.values() if cutter.must]
        first = None
        for cutter in required:
            entries = [*tail_entries(cutter.cut(cutter.must))]
            if entries:
                first = entries[0]
                break
        last = required[-1].last_shown if required else None
        place = self.costs.block_place(entries_in(last)[-1] if last else None)
        block = place if "query" in placements else None
        return self.costs.frame(static="static" in placements, first=first, block=block)

    # the tails of histories

    def _cut_tail(self, spec: SectionSpec, cutter: TailCutter, cap: int) -> tuple[HistoryTail, int]:
        """Return a history's tail, and the tokens that are reserved for recall.

        If messages are cut off or were evicted, the share for recall is reserved. The tail takes
        the part of it that the earlier messages do not need. If a summary stands for messages that
        a compaction has evicted, recall takes the tokens that the tail leaves.
        """
        has_earlier = True
        if self.limits is not None:
            tail = cutter.cut(max(cutter.must, min(cap, self.limits.history)))
        else:
            tail = cutter.cut(cap)
            has_earlier = bool(tail.left_out or self.proposals[spec.name].evicted)
            is_cut = tail.used < cutter.want
            if has_earlier and (is_cut or spec.compaction is None):
                reserved = min(cap - cutter.must, _reserved(spec, cap))
                tail = self._cut_beside(spec, cutter, cap, reserved)
                # Users' messages that nobody has answered come before the share for recall.
                pending = cutter.cut_pending(cap)
                if len(pending.units) > len(tail.units):
                    tail = pending
        recall = int(spec.recall * cap) if has_earlier else 0
        if recall:
            # The best match may take more, however small the share is.
            best = best_match(self._earlier(spec, tail))
            recall = max(recall, self._alone(spec, self._recalled_run(spec, tail, cap), best))
        recall = min(recall, cap - tail.used)
        if self.limits is not None:
            recall = min(recall, self.limits.block)
        return tail, recall

    def _cut_beside(
        self, spec: SectionSpec, cutter: TailCutter, cap: int, recall: int
    ) -> HistoryTail:
        """Return the longest tail that leaves room for the earlier messages, up to `recall`.

        As the cap grows, the tail takes in earlier messages and they need less. So the tail never
        becomes shorter.
        """
        reserved = recall
        while True:
            tail = cutter.cut(cap - reserved)
            needed = self._recall_want(spec, tail, recall)
            if needed >= reserved:
                return tail
            reserved = needed

    def _recall_want(self, spec: SectionSpec, tail: HistoryTail, cap: int) -> int:
        """Return the tokens of the earlier messages beside a tail, or any number above the cap.

        Messages that are left out for low confidence count too, so that the tail does not depend on
        them.
        """
        run = self._recalled_run(spec, tail, cap)
        for unit in self._earlier(spec, tail):
            if run.used > cap:
                break
            run.take(unit, *run.added(unit, self._lines(spec, unit)))
        return run.used

    def _recalled_run(self, spec: SectionSpec, tail: HistoryTail, cap: int) -> Run:
        return Run(partial(self.costs.recalled_header, spec, tail.left_out), cap)

    def _earlier(self, spec: SectionSpec, tail: HistoryTail) -> tuple[Candidate, ...]:
        """Return the units of a history that may be recalled beside a tail."""
        earlier = self.proposals[spec.name].earlier
        if not earlier:
            return ()
        visible = {unit.position for unit in tail.shown}
        return tuple(unit for unit in earlier if not unit.orphan and unit.position not in visible)

    def _recall_share(
        self, spec: SectionSpec, tail: HistoryTail, earlier: tuple[Candidate, ...], cap: int
    ) -> Share:
        """Return the share of the messages of a history that its tail does not show."""
        return Share(
            spec,
            earlier,
            {True: self._recalled_run(spec, tail, cap)},
            self.costs.line_of(spec.labels),
            cap,
            barred=self.barred.get(spec.name, frozenset()),
            elsewhere={unit.position for unit in tail.shown},
        )

    # the block

    def _grant_block(self, packing: Packing, needs: Mapping[str, TokenNeed]) -> None:
        """Grant room to the shares of the block: of the window, or of the block's own limit."""
        if self.limits is None:
            grants = self._granted(needs)
            for name in packing.recalled:
                grants[name] -= packing.tails[name].used
        else:
            of_block: dict[str, TokenNeed] = {}
            required = 0
            for share in packing.block_shares:
                name = share.spec.name
                if name in packing.recalled:
                    # Earlier messages are mostly visible in a window: they get no more of its block
                    # than their share.
                    most = min(share.cap, int(share.spec.recall * self.limits.block))
                    of_block[name] = TokenNeed(0, most)
                else:
                    of_block[name] = needs[name]
                required += of_block[name].must
            grants = allocate(self.specs, of_block, self.limits.block + required)
        for share in packing.block_shares:
            share.grant = min(share.cap, grants[share.spec.name])

    def _fill_block(self, packing: Packing) -> None:
        """Fill the block with the tokens that the static sections and the histories leave."""
        shares = sorted(packing.block_shares, key=lambda share: self._place(share.spec))
        if not shares:
            return
        is_open = any(share.taken for share in shares)
        frame = packing.frame(is_open=is_open)
        opening = packing.frame(is_open=True) - frame
        left = self.window - packing.taken - frame
        if self.limits is not None:
            left = min(left, self.limits.block)
        fill(shares, left, opening=opening, shown=Shown(packing.taken_items))

    def _place(self, spec: SectionSpec) -> int:
        """Return the place of a section in the order in which sections are served."""
        return by_priority(self.specs).index(spec)


class Packing:
    """A packed window: its layout, its sums and the reasons.

    shares: of the sections that are no histories, by name. tails: of the histories.
    recalled: the shares of the histories' earlier messages in the block.
    static_shares: of static sections, verbatim ones first. block_shares: that the block shows, in
        order.
    """

    def __init__(
        self,
        packer: Packer,
        shares: Mapping[str, Share],
        tails: Mapping[str, HistoryTail],
        recalled: Mapping[str, Share],
    ) -> None:
        self.shares = shares
        self.tails = tails
        self.recalled = recalled
        static = [share for share in shares.values() if share.spec.placement == "static"]
        self.static_shares = sorted(static, key=lambda share: not share.spec.is_verbatim)
        queried = [share for share in shares.values() if share.spec.placement == "query"]
        self.block_shares = [*queried, *recalled.values()]
        self._packer = packer
        self._costs = packer.costs
        self._specs = packer.specs
        self._history = self._history_parts()
        entries: list[HistoryEntry] = []
        for part in self._history:
            entries += part.entries
        self._first_entry = entries[0] if entries else None
        self._block_place = self._costs.block_place(entries[-1] if entries else None)

    @property
    def taken_items(self) -> Iterator[Item]:
        """The items taken so far: of static sections, of tails, then of the block."""
        for share in self.static_shares:
            for unit in share.taken.values():
                yield from unit.items
        for tail in self.tails.values():
            for unit in tail.shown:
                yield from unit.items
        for share in self.block_shares:
            for unit in share.taken.values():
                yield from unit.items

    # the layout

    @property
    def items(self) -> tuple[Item, ...]:
        """The items that are shown, in order."""
        return self._built[1]

    @property
    def layout(self) -> Layout:
        """The shown pieces, in order."""
        return self._built[0]

    @cached_property
    def _built(self) -> tuple[Layout, tuple[Item, ...]]:
        """The layout, and the items that it shows.

        Static texts without a label come before everything that has one.
        """
        bare = _Part()
        labelled = _Part()
        for share in self.static_shares:
            placed = _placed(share, recalled=False)
            style = share.spec.labels
            unlabelled = [each for each in placed if style.bare_text(each.item)]
            bare.add(unlabelled, style)
            if placed and not share.spec.is_verbatim:
                labelled.pieces.append(header_piece(share.spec.title))
            labelled.add([each for each in placed if not style.bare_text(each.item)], style)
        told: list[Item] = []
        for tail in self.tails.values():
            told += items_of(tail.shown)
        block = self._block()
        place = self._block_place if block.pieces else None
        layout = Layout((*bare.pieces, *labelled.pieces), self._history, tuple(block.pieces), place)
        return layout, (*bare.items, *labelled.items, *told, *block.items)

    def _block(self) -> _Part:
        block = _Part()
        for share in self.block_shares:
            title = share.spec.title
            for is_recalled in share.runs:
                placed = _placed(share, recalled=is_recalled)
                if placed and is_recalled:
                    tail = self.tails.get(share.spec.name)
                    left_out = tail.left_out if tail else None
                    header = recalled_header(title, recalled=len(placed), left_out=left_out)
                    block.pieces.append(header)
                elif placed:
                    block.pieces.append(header_piece(title))
                block.add(placed, share.spec.labels)
        return block

    def _history_parts(self) -> tuple[HistoryPart, ...]:
        parts = []
        for spec in self._specs:
            tail = self.tails.get(spec.name)
            if tail is not None and tail.used:
                parts.append(HistoryPart(spec.title, tuple(tail_entries(tail))))
        return tuple(parts)

    # sums

    def frame(self, *, is_open: bool) -> int:
        """Return the frame's tokens around the shown items. is_open: whether there is a block."""
        static = any(share.taken for share in self.static_shares)
        block = self._block_place if is_open else None
        return self._costs.frame(static=static, first=self._first_entry, block=block)

    @property
    def taken(self) -> int:
        """The tokens of all sections, without the frame."""
        tokens = 0
        for tail in self.tails.values():
            tokens += tail.used
        for share in (*self.static_shares, *self.block_shares):
            tokens += share.used
        return tokens

    @property
    def used(self) -> int:
        """Tokens of all that is shown, counted piece by piece, frame included."""
        return self.frame(is_open=bool(self.layout.block)) + self.taken

    @property
    def adds_up(self) -> bool:
        """Whether the tokens of pieces add up to those of the whole under an additive counter."""
        return adds_up(self.layout.static)

    @cached_property
    def by_section(self) -> dict[str, SectionUse]:
        """The tokens of each section, in order of declaration."""
        uses = {}
        for spec in self._specs:
            used = 0
            items = 0
            for share in (self.shares.get(spec.name), self.recalled.get(spec.name)):
                if share is not None:
                    used += share.used
                    items += share.count
            tail = self.tails.get(spec.name)
            if tail is not None:
                used += tail.used
                for unit in tail.shown:
                    items += len(unit.items)
            uses[spec.name] = SectionUse(used, items)
        return uses

    # reasons

    @property
    def unrelated(self) -> dict[str, int]:
        """By section, how many units were left out as unrelated, of sections that show nothing."""
        found = {}
        for name, share in self.shares.items():
            left = sum(unit.position in share.unrelated for unit in share.left_out)
            if left and not share.taken:
                found[name] = left
        return found

    @property
    def retrieved(self) -> dict[str, frozenset[int]]:
        """The positions of the units that the query brings in or may bring in, by section.

        These are recalled units, and units of a query section beside its required and `recent`
        ones. A section that offers all that it holds, and has room for it, is shown whatever the
        query.
        """
        proposals = self._packer.proposals
        found = {}
        for share in self.block_shares:
            name = share.spec.name
            found[name] = frozenset(_retrieved(share, is_all=proposals[name].is_all))
        return found

    def decide(self) -> tuple[Decision, ...]:
        """Return one decision for each item that was proposed, sections in order of declaration."""
        decisions = []
        for spec in self._specs:
            for candidate, reason in self._reasons(spec):
                decisions += [
                    self._decision(item, spec, candidate, reason) for item in candidate.items
                ]
        return tuple(decisions)

    def _reasons(self, spec: SectionSpec) -> Iterator[tuple[Candidate, Reason]]:
        if spec.name in self.tails:
            return self._reasons_in_history(spec)
        share = self.shares[spec.name]
        return ((candidate, self._reason(share, candidate)) for candidate in share.candidates)

    def _decision(
        self, item: Item, spec: SectionSpec, candidate: Candidate, reason: Reason
    ) -> Decision:
        if item.id in self._packer.shortened:
            reason = Reason.SHORTENED
        share = (self.recalled if spec.placement == "history" else self.shares).get(spec.name)
        return Decision(
            item.id,
            spec.name,
            reason in _INCLUDING,
            reason,
            candidate.rank,
            candidate.score,
            item.tokens,
            share.twins.get(item.id) if share else None,
            {}
            if candidate.score is None
            else self._packer.proposals[spec.name].signals(candidate.position),
            item,
        )

    def _reason(self, share: Share, candidate: Candidate) -> Reason:
        """Return why a unit of a section that is no history is shown, or is not."""
        position = candidate.position
        if position in share.taken:
            if candidate.must:
                return Reason.MUST
            if position in share.brought_along:
                return Reason.NEWER
            if candidate.recalled:
                return Reason.RECALLED
            return Reason.RELEVANT if candidate.score else Reason.NEWEST
        reason = _left_out_reason(share, candidate)
        if reason is not None:
            return reason
        if position in share.unrelated:
            return Reason.UNRELATED
        if share.spec.placement == "static":
            cap = cap_of(share.spec, self._packer.window)
            if share.cost(candidate) <= min(cap - share.used, self._packer.window - self.used):
                return Reason.HELD_BACK
        return Reason.NO_ROOM

    def _reasons_in_history(self, spec: SectionSpec) -> Iterator[tuple[Candidate, Reason]]:
        share = self.recalled.get(spec.name)
        proposal = self._packer.proposals[spec.name]
        in_tail = {unit.position for unit in self.tails[spec.name].shown}
        ranked = {unit.position: unit for unit in proposal.earlier}
        proposed = {unit.position: unit for unit in proposal.candidates}
        for position, candidate in (ranked | proposed).items():
            if candidate.orphan:
                yield candidate, Reason.ORPHAN
            elif position in in_tail:
                yield candidate, Reason.MUST if candidate.must else Reason.TAIL
            elif share is None or position not in ranked:
                yield ranked.get(position, candidate), Reason.BEFORE_TAIL
            elif position in share.taken:
                yield ranked[position], Reason.RECALLED
            else:
                yield (
                    ranked[position],
                    _left_out_reason(share, ranked[position]) or Reason.BEFORE_TAIL,
                )


def _reserved(spec: SectionSpec, cap: int) -> int:
    """Return the tokens that a history keeps for recall, whatever the query: a message at least."""
    if not spec.recall:
        return 0
    return max(int(spec.recall * cap), min(_LEAST_RECALL, cap // 2))


def _left_out_reason(share: Share, candidate: Candidate) -> Reason | None:
    """Return why a unit is left out of a share, None if it is for want of room."""
    if share.is_duplicate(candidate):
        return Reason.DUPLICATE
    if candidate.position in share.barred:
        return Reason.LOW_CONFIDENCE
    return Reason.OUTDATED if candidate.position in share.outdated else None


class _Part:
    """Pieces of a layout, and the items that they show."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.items: list[Item] = []

    def add(self, placed: Sequence[GroupedItem], style: LabelStyle) -> None:
        """Append items as they are shown."""
        self.pieces += item_pieces(placed, style)
        self.items += [each.item for each in placed]


def _is_history(spec: SectionSpec) -> bool:
    return spec.placement == "history"


def _placed(share: Share, *, recalled: bool) -> list[GroupedItem]:
    """Return the items of one run of a share as they are shown."""
    items = items_of(share.kept(recalled=recalled))
    return grouped(items, share.spec.labels, share.item_notes)


def _low_scored(spec: SectionSpec, candidates: Sequence[Candidate]) -> frozenset[int]:
    """Return the positions of units whose scores are below the least that the section shows."""
    if not spec.min_score:
        return frozenset()
    least = spec.min_score / 100 * max((unit.score or 0.0 for unit in candidates), default=0.0)
    newest = sorted((unit.position for unit in candidates if not unit.recalled), reverse=True)[
        : spec.recent
    ]
    low = set()
    for unit in candidates:
        is_low = unit.score is not None and unit.score < least
        if is_low and not unit.must and unit.position not in newest:
            low.add(unit.position)
    return frozenset(low)


def tail_entries(tail: HistoryTail) -> Iterator[HistoryEntry]:
    """Yield the messages of a tail, and its mark."""
    yield from entries_of(tail.before)
    if tail.left_out is not None:
        yield Mark(tail.left_out)
    yield from entries_of(tail.units)


def _retrieved(share: Share, *, is_all: bool) -> Iterator[int]:
    """Yield the positions of the units of a share that the query brings in or may bring in."""
    live = sorted((unit.position for unit in share.candidates if not unit.recalled), reverse=True)
    is_whole = is_all and all(unit.recalled for unit in share.left_out)
    stays = live if is_whole else live[: share.spec.recent]
    for unit in share.candidates:
        if unit.recalled or not (unit.must or unit.position in stays):
            yield unit.position
