"""One packing of a window: required units, static sections, tails of histories, then the block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import NamedTuple

from kaosmem.assembly.allocation import (
    FRAME,
    Costs,
    HistoryTail,
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
        for spec in self.specs:
            if spec.placement == "history":
                cutters[spec.name] = self._cutter(spec)
            else:
                shares[spec.name] = self._required_share(spec)
        needs = self._needs(shares, cutters)
        self._check_required(needs, cutters)
        grants = self._granted(needs)
        self._fill_static(shares, grants, needs)
        tails, recalled = self._cut_histories(cutters, grants, needs)
        packing = Packing(self, shares, tails, recalled)
        self._grant_block(packing, needs)
        self._fill_block(packing)
        return packing

    def _granted(self, needs: Mapping[str, TokenNeed]) -> dict[str, int]:
        """Return the grants of all sections beside the largest frame, whatever the query brings."""
        placements = {spec.placement for spec in self.specs}
        has_block = "query" in placements
        for spec in self.specs:
            has_block = has_block or (spec.placement == "history" and spec.recall > 0)
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

    def _needs(
        self, shares: Mapping[str, Share], cutters: Mapping[str, TailCutter]
    ) -> dict[str, TokenNeed]:
        needs = {}
        for name, share in shares.items():
            needs[name] = TokenNeed(share.used, max(share.used, share.want()))
        for spec in self.specs:
            cutter = cutters.get(spec.name)
            if cutter is not None:
                is_emptied = self.proposals[spec.name].evicted > 0
                recall = int(spec.recall * cap_of(spec, self.window)) if is_emptied else 0
                needs[spec.name] = TokenNeed(cutter.must, max(cutter.must, cutter.want + recall))
        return needs

    def _cutter(self, spec: SectionSpec) -> TailCutter:
        proposal = self.proposals[spec.name]
        units = [candidate for candidate in proposal.candidates if not candidate.orphan]
        units.sort(key=attrgetter("position"))
        return TailCutter(
            units,
            taken=proposal.taken,
            is_whole=proposal.is_all,
            evicted=proposal.evicted,
            is_answered=proposal.is_answered,
            size=self.costs.entries,
            mark_size=self.costs.mark,
            header=self.costs.history_header(spec),
        )

    def _required_share(self, spec: SectionSpec) -> Share:
        """Return the share of a section that is no history, with its required units."""
        proposal = self.proposals[spec.name]
        candidates = proposal.candidates
        cap = cap_of(spec, self.window)
        runs = {False: Run(self.costs.header(spec), cap)}
        if spec.recalls:
            runs = {True: Run(self.costs.recalled_header(spec), cap), **runs}
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
        if spec.recalls:
            evicted = [unit for unit in candidates if unit.recalled]
            runs[True].cap = max(spec.recall * cap, _best_alone(share, evicted))
        share.require([unit for unit in candidates if unit.must])
        return share

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

    # static sections, and the tails of histories

    def _fill_static(
        self,
        shares: Mapping[str, Share],
        grants: Mapping[str, int],
        needs: dict[str, TokenNeed],
    ) -> None:
        """Fill the static sections within their grants. They need no more than they take."""
        for name, share in shares.items():
            if share.spec.placement == "static":
                share.cap = share.grant = grants[name]
                fill([share], share.grant - share.used)
                needs[name] = TokenNeed(share.used, share.used)

    def _cut_histories(
        self,
        cutters: Mapping[str, TailCutter],
        grants: Mapping[str, int],
        needs: dict[str, TokenNeed],
    ) -> tuple[dict[str, HistoryTail], dict[str, Share]]:
        """Return the tails of the histories, and the shares of their earlier messages."""
        tails: dict[str, HistoryTail] = {}
        recalled: dict[str, Share] = {}
        for spec in self.specs:
            if spec.name not in cutters:
                continue
            cap = grants[spec.name]
            share = self._recall_share(spec, cap)
            tail = self._cut_tail(share, cutters[spec.name], cap)
            share.cap = self._recall(share, tail, cap)
            share.runs[True].cap = share.cap
            tails[spec.name] = tail
            needs[spec.name] = TokenNeed(tail.used + share.cap, tail.used + share.cap)
            if share.candidates:
                recalled[spec.name] = share
        return tails, recalled

    def _recall_share(self, spec: SectionSpec, cap: int) -> Share:
        """Return the share of the earlier messages of a history, before its tail is cut."""
        earlier = [unit for unit in self.proposals[spec.name].earlier if not unit.orphan]
        return Share(
            spec,
            tuple(earlier),
            {True: Run(self.costs.recalled_header(spec), cap)},
            self.costs.line_of(spec.labels),
            cap,
            barred=self.barred.get(spec.name, frozenset()),
        )

    def _cut_tail(self, share: Share, cutter: TailCutter, cap: int) -> HistoryTail:
        """Return a history's tail, and leave the messages that it shows out of the earlier ones.

        If messages are cut off or were evicted, the share for recall is reserved. The tail takes
        the part of it that the earlier messages do not need. If a summary stands for messages that
        a compaction has evicted, recall takes the tokens that the tail leaves.
        """
        spec = share.spec
        tail = cutter.cut(cap)
        is_cut = tail.used < cutter.want
        if self.limits is not None:
            tail = cutter.cut(max(cutter.must, min(cap, self.limits.history)))
        elif self._has_earlier(spec, tail) and (is_cut or spec.compaction is None):
            tail = _cut_beside(share, cutter, cap)
            # Users' messages that nobody has answered come before the share for recall.
            tail = max(cutter.cut_pending(cap), tail, key=lambda each: len(each.units))
        share.elsewhere = {unit.position for unit in tail.shown}
        share.candidates = tuple(_not_in(tail, share.candidates))
        return tail

    def _has_earlier(self, spec: SectionSpec, tail: HistoryTail) -> bool:
        return bool(tail.left_out or self.proposals[spec.name].evicted)

    def _recall(self, share: Share, tail: HistoryTail, cap: int) -> int:
        """Return the tokens that are reserved for a history's earlier messages beside its tail."""
        recall = int(share.spec.recall * cap)
        if not recall or not self._has_earlier(share.spec, tail):
            return 0
        # The best match may take more, however small the share is.
        recall = max(recall, _best_alone(share, share.candidates))
        recall = min(recall, cap - tail.used)
        return recall if self.limits is None else min(recall, self.limits.block)

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
                of_block[name] = needs[name]
                if name in packing.recalled:
                    # Earlier messages are mostly visible in a window: they get no more of its block
                    # than their share.
                    most = min(share.cap, int(share.spec.recall * self.limits.block))
                    of_block[name] = TokenNeed(0, most)
                required += of_block[name].must
            grants = allocate(self.specs, of_block, self.limits.block + required)
        for share in packing.block_shares:
            share.grant = min(share.cap, grants[share.spec.name])

    def _fill_block(self, packing: Packing) -> None:
        """Fill the block with the tokens that the static sections and the histories leave."""
        served = [spec.name for spec in by_priority(self.specs)]
        shares = sorted(packing.block_shares, key=lambda share: served.index(share.spec.name))
        if not shares:
            return
        is_open = any(share.taken for share in shares)
        frame = packing.frame(is_open=is_open)
        opening = packing.frame(is_open=True) - frame
        left = self.window - packing.taken - frame
        if self.limits is not None:
            left = min(left, self.limits.block)
        fill(shares, left, opening=opening, shown=Shown(packing.taken_items))


class Pieces:
    """Pieces of a layout, and the items that they show."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.items: list[Item] = []

    def add(self, items: Sequence[Item], style: LabelStyle, notes: Mapping[str, str]) -> None:
        """Append items as they are shown. notes: of marked ones, by id."""
        placed = grouped(items, style, notes)
        self.pieces += item_pieces(placed, style)
        self.items += [each.item for each in placed]


@dataclass
class Packing:
    """A packed window: its layout, its sums and the reasons.

    shares: of the sections that are no histories, by name. tails: of the histories.
    recalled: the shares of the histories' earlier messages in the block.
    """

    packer: Packer
    shares: Mapping[str, Share]
    tails: Mapping[str, HistoryTail]
    recalled: Mapping[str, Share]

    @cached_property
    def static_shares(self) -> list[Share]:
        """The shares of static sections, verbatim ones first."""
        static = [share for share in self.shares.values() if share.spec.placement == "static"]
        return sorted(static, key=lambda share: not share.spec.is_verbatim)

    @cached_property
    def block_shares(self) -> list[Share]:
        """The shares that the block shows, in order."""
        queried = [share for share in self.shares.values() if share.spec.placement == "query"]
        return [*queried, *self.recalled.values()]

    @property
    def taken_items(self) -> Iterator[Item]:
        """The items taken so far: of static sections, of tails, then of the block."""
        for share in self.static_shares:
            yield from items_of(share.taken.values())
        yield from self._told
        for share in self.block_shares:
            yield from items_of(share.taken.values())

    @property
    def _told(self) -> list[Item]:
        told: list[Item] = []
        for tail in self.tails.values():
            told += items_of(tail.shown)
        return told

    # the layout

    @property
    def items(self) -> tuple[Item, ...]:
        """The items that are shown, in order."""
        static, block = self._static, self._block
        return (*static.items, *self._told, *block.items)

    @cached_property
    def layout(self) -> Layout:
        """The shown pieces, in order."""
        block = tuple(self._block.pieces)
        place = self._block_place if block else None
        return Layout(tuple(self._static.pieces), self._history, block, place)

    @cached_property
    def _static(self) -> Pieces:
        """The static sections. Texts without a label come before everything that has one."""
        bare = Pieces()
        labelled = Pieces()
        for share in self.static_shares:
            style = share.spec.labels
            items = items_of(share.kept(recalled=False))
            bare.add([item for item in items if style.bare_text(item)], style, share.notes)
            if items and not share.spec.is_verbatim:
                labelled.pieces.append(header_piece(share.spec.title))
            rest = [item for item in items if not style.bare_text(item)]
            labelled.add(rest, style, share.notes)
        bare.pieces += labelled.pieces
        bare.items += labelled.items
        return bare

    @cached_property
    def _block(self) -> Pieces:
        block = Pieces()
        for share in self.block_shares:
            header_of = {True: recalled_header, False: header_piece}
            for is_recalled in share.runs:
                items = items_of(share.kept(recalled=is_recalled))
                if items:
                    block.pieces.append(header_of[is_recalled](share.spec.title))
                    block.add(items, share.spec.labels, share.notes)
        return block

    @cached_property
    def _history(self) -> tuple[HistoryPart, ...]:
        parts = []
        for spec in self.packer.specs:
            tail = self.tails.get(spec.name)
            if tail is not None and tail.used:
                parts.append(HistoryPart(spec.title, tuple(tail_entries(tail))))
        return tuple(parts)

    @cached_property
    def _entries(self) -> list[HistoryEntry]:
        entries: list[HistoryEntry] = []
        for part in self._history:
            entries += part.entries
        return entries

    @property
    def _block_place(self) -> BlockPlace:
        return self.packer.costs.block_place(self._entries[-1] if self._entries else None)

    # sums

    def frame(self, *, is_open: bool) -> int:
        """Return the frame's tokens around the shown items. is_open: whether there is a block."""
        static = any(share.taken for share in self.static_shares)
        first = self._entries[0] if self._entries else None
        block = self._block_place if is_open else None
        return self.packer.costs.frame(static=static, first=first, block=block)

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
        for spec in self.packer.specs:
            used = 0
            items = 0
            for share in (self.shares.get(spec.name), self.recalled.get(spec.name)):
                if share is not None:
                    used += share.used
                    items += len(items_of(share.taken.values()))
            tail = self.tails.get(spec.name)
            if tail is not None:
                used += tail.used
                items += len(items_of(tail.shown))
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
        found = {}
        for share in self.block_shares:
            is_all = self.packer.proposals[share.spec.name].is_all
            is_whole = is_all and all(unit.recalled for unit in share.left_out)
            live = [unit.position for unit in share.candidates if not unit.recalled]
            live.sort(reverse=True)
            stays = {*live} if is_whole else {*live[: share.spec.recent]}
            stays.update(unit.position for unit in share.candidates if unit.must)
            positions = {unit.position for unit in share.candidates}
            found[share.spec.name] = frozenset(positions - stays)
        return found

    def decide(self) -> tuple[Decision, ...]:
        """Return one decision for each item that was proposed, sections in order of declaration."""
        decisions = []
        for spec in self.packer.specs:
            if spec.name in self.tails:
                reasons = self._reasons_in_history(spec.name)
                share = self.recalled.get(spec.name)
            else:
                share = self.shares[spec.name]
                reasons = [(unit, self._reason(share, unit)) for unit in share.candidates]
            twins = share.twins if share else {}
            for unit, reason in reasons:
                decisions += [
                    self._decision(item, spec.name, unit, reason, twins) for item in unit.items
                ]
        return tuple(decisions)

    def _decision(
        self, item: Item, name: str, unit: Candidate, reason: Reason, twins: Mapping[str, str]
    ) -> Decision:
        if item.id in self.packer.shortened:
            reason = Reason.SHORTENED
        signals: Mapping[str, float] = {}
        if unit.score is not None:
            signals = self.packer.proposals[name].signals(unit.position)
        return Decision(
            item.id,
            name,
            reason in _INCLUDING,
            reason,
            unit.rank,
            unit.score,
            item.tokens,
            twins.get(item.id),
            signals,
            item,
        )

    def _reason(self, share: Share, unit: Candidate) -> Reason:
        """Return why a unit of a section that is no history is shown, or is not."""
        position = unit.position
        if position in share.taken:
            if unit.must:
                return Reason.MUST
            if not unit.score and position in share.needed_positions:
                return Reason.NEWER
            if unit.recalled:
                return Reason.RECALLED
            return Reason.RELEVANT if unit.score else Reason.NEWEST
        reason = _left_out_reason(share, unit)
        if reason is not None:
            return reason
        if position in share.unrelated:
            return Reason.UNRELATED
        if share.spec.placement == "static":
            cap = cap_of(share.spec, self.packer.window)
            if share.fits(unit, min(cap - share.used, self.packer.window - self.used)):
                return Reason.HELD_BACK
        return Reason.NO_ROOM

    def _reasons_in_history(self, name: str) -> list[tuple[Candidate, Reason]]:
        share = self.recalled.get(name)
        proposal = self.packer.proposals[name]
        in_tail = {unit.position for unit in self.tails[name].shown}
        ranked = {unit.position: unit for unit in proposal.earlier}
        units = {**ranked}
        for unit in proposal.candidates:
            if unit.position not in ranked or unit.orphan or unit.position in in_tail:
                units[unit.position] = unit
        reasons = []
        for position, unit in units.items():
            reason = None
            if unit.orphan:
                reason = Reason.ORPHAN
            elif position in in_tail:
                reason = Reason.MUST if unit.must else Reason.TAIL
            elif share is not None and position in share.taken:
                reason = Reason.RECALLED
            elif share is not None and position in ranked:
                reason = _left_out_reason(share, unit)
            reasons.append((unit, reason or Reason.BEFORE_TAIL))
        return reasons


def _left_out_reason(share: Share, candidate: Candidate) -> Reason | None:
    """Return why a unit is left out of a share, None if it is for want of room."""
    if share.is_duplicate(candidate):
        return Reason.DUPLICATE
    if candidate.position in share.barred:
        return Reason.LOW_CONFIDENCE
    return Reason.OUTDATED if share.is_outdated(candidate) else None


def _best_alone(share: Share, units: Sequence[Candidate]) -> int:
    """Return the tokens of the best match among a share's recalled units alone, 0 for none."""
    best = best_match(units)
    return 0 if best is None else share.runs_of([best])[True].used


def _cut_beside(share: Share, cutter: TailCutter, cap: int) -> HistoryTail:
    """Return the longest tail that leaves room for the earlier messages, up to the share for recall.

    The best match may take more than that share. Without any match, the tail takes all the room.

    As the cap grows, the tail takes in earlier messages and they need less. So the tail never
    becomes shorter. Messages that are left out for low confidence count too, so that the tail does
    not depend on them.
    """
    shortest = cutter.cut(cutter.must)
    best = _best_alone(share, _not_in(shortest, share.candidates))
    if not best:
        return cutter.cut(cap)
    recall = min(cap - cutter.must, max(int(share.spec.recall * cap), best))
    share.runs[True].cap = recall
    reserved = recall
    while True:
        tail = cutter.cut(cap - reserved)
        needed = share.runs_of(_not_in(tail, share.candidates))[True].used
        if needed >= reserved:
            return tail
        reserved = needed


def _not_in(tail: HistoryTail, units: Sequence[Candidate]) -> list[Candidate]:
    """Return the units that a tail does not show."""
    visible = {unit.position for unit in tail.shown}
    return [unit for unit in units if unit.position not in visible]


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
