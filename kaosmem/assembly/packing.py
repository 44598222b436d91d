"""One packing of a window: grants, tails and shares, and the resulting layout, sums and decisions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from types import MappingProxyType
from typing import NamedTuple

from kaosmem.assembly.allocation import (
    FRAME,
    Costs,
    HistoryTail,
    TailCutter,
    TokenNeed,
    allocate,
    by_priority,
    cap_of,
    entries_in,
    window_too_small,
)
from kaosmem.assembly.context import Decision, Reason, SectionUse
from kaosmem.assembly.fitting import Run, Share, fit
from kaosmem.formats import BlockPlace, HistoryEntry, HistoryPart, Layout, Mark
from kaosmem.formats.text import adds_up, header_piece, item_pieces, recalled_header
from kaosmem.language.duplicates import Shown
from kaosmem.sections import Candidate, Proposal, SectionSpec
from kaosmem.types import ChatMessage, Item


class Limits(NamedTuple):
    """The most tokens that the histories and the block may take, beside what must be shown."""

    history: int
    block: int


class Packing:
    """Packs proposals into a window of `budget` tokens as soon as it is made.

    specs: of the sections that propose something, in order of declaration.
    shortened: ids of items that are shortened copies.
    barred: by section, positions of units that are left out for low confidence.
    limits: of the histories and the block; None is what the window leaves them.
    Raises WindowTooSmallError.
    """

    def __init__(
        self,
        specs: Sequence[SectionSpec],
        proposals: Mapping[str, Proposal],
        *,
        window: int,
        costs: Costs,
        shortened: frozenset[str] = frozenset(),
        barred: Mapping[str, frozenset[int]] = MappingProxyType({}),
        limits: Limits | None = None,
    ) -> None:
        self._specs, self._proposals, self._shortened, self._barred = specs, proposals, shortened, barred
        self._window, self._costs, self._limits = window, costs, limits
        self._cutters = {spec.name: self._cutter(spec) for spec in specs if spec.placement == "history"}
        self._shares = {spec.name: self._share(spec) for spec in specs if spec.placement != "history"}
        self._needs = {spec.name: self._need(spec) for spec in specs}
        self._check_musts()
        self._to_share = max(window - self._largest_frame, sum(need.must for need in self._needs.values()))
        grants = allocate(specs, self._needs, self._to_share)
        self._fill_static(grants)
        self._tails = self._cut_tails(grants)
        self._recalled = {spec.name: share for spec in specs if (share := self._recall_share(spec))}
        self._fill_block()

    # want

    def _cutter(self, spec: SectionSpec) -> TailCutter:
        proposal = self._proposals[spec.name]
        units = [candidate for candidate in proposal.candidates if not candidate.orphan]
        return TailCutter(
            sorted(units, key=lambda unit: unit.position),
            taken=proposal.taken,
            is_whole=proposal.is_all,
            evicted=proposal.evicted,
            size=self._costs.entries,
            mark_size=self._costs.mark,
            header=self._costs.history_header(spec),
        )

    def _share(self, spec: SectionSpec) -> Share:
        header, cap = self._costs.header(spec), cap_of(spec, self._window)
        candidates = self._proposals[spec.name].candidates
        live = self._run(spec, lambda _: header, cap)
        runs = {False: live}
        if spec.recalls:
            header_of = partial(self._costs.recalled_header, spec, None)
            most = max(spec.recall * cap, self._best_recalled(spec, candidates, header_of))
            runs = {True: self._run(spec, header_of, most), False: live}
        share = Share(
            spec,
            candidates,
            runs,
            cap,
            barred=self._barred_of(spec),
            unrelated=self._unrelated(spec, candidates),
            is_offered_whole=self._proposals[spec.name].offers_all and not spec.min_score,
        )
        for candidate in candidates:
            if candidate.must:
                share.take(candidate)
        return share

    def _unrelated(self, spec: SectionSpec, candidates: Sequence[Candidate]) -> frozenset[int]:
        """Return the positions of units that nothing in the query speaks for, or whose scores are too low."""
        unrelated = self._proposals[spec.name].unrelated
        if not spec.min_score:
            return unrelated
        least = spec.min_score / 100 * max((unit.score or 0.0 for unit in candidates), default=0.0)
        newest = sorted((unit.position for unit in candidates if not unit.recalled), reverse=True)[: spec.recent]
        low = set()
        for unit in candidates:
            is_low = unit.score is not None and unit.score < least
            if is_low and not unit.must and unit.position not in newest:
                low.add(unit.position)
        return unrelated | low

    @property
    def unrelated(self) -> dict[str, int]:
        """Return by section how many units were left out as unrelated, of sections that show nothing."""
        found = {}
        for share in self._placed("query"):
            left = sum(unit.position in share.unrelated for unit in share.left_out)
            if left and not share.kept:
                found[share.spec.name] = left
        return found

    def _best_recalled(self, spec: SectionSpec, candidates: Sequence[Candidate], header: Callable[[int], int]) -> int:
        """Return the tokens of the evicted unit that matches best: it may take them, however small its share is."""
        recalled = [unit for unit in candidates if unit.recalled and unit.score]
        best = max(recalled, key=lambda unit: unit.score or 0.0, default=None)
        if best is None:
            return 0
        return header(len(best.items)) + self._costs.pieces(spec.labels)(best.items, None, "")

    def _run(self, spec: SectionSpec, header: Callable[[int], int], cap: float) -> Run:
        return Run(self._costs.pieces(spec.labels), header, cap)

    def _need(self, spec: SectionSpec) -> TokenNeed:
        if cutter := self._cutters.get(spec.name):
            recall = spec.recall * cap_of(spec, self._window) if self._proposals[spec.name].evicted else 0
            return TokenNeed(cutter.must, max(cutter.must, cutter.want + recall))
        share = self._shares[spec.name]
        return TokenNeed(share.used, max(share.used, share.want()))

    def _check_musts(self) -> None:
        musts = {FRAME: self._least_frame} | {name: need.must for name, need in self._needs.items()}
        for spec in self._specs:
            if spec.budget is not None and musts[spec.name] > spec.budget:
                raise window_too_small({spec.name: musts[spec.name]}, spec.budget, section=spec.name)
        if sum(musts.values()) > self._window:
            raise window_too_small(musts, self._window)

    @property
    def _least_frame(self) -> int:
        """The frame's tokens with required items alone."""
        shown = {spec.placement for spec in self._specs if self._needs[spec.name].must}
        last = next((cutter.last_shown for cutter in reversed(self._cutters.values()) if cutter.must), None)
        place = self._costs.block_place(entries_in(last)[-1] if last else None)
        tails = (cutter.cut(cutter.must) for cutter in self._cutters.values() if cutter.must)
        first = next((entry for tail in tails for entry in _tail_entries(tail)), None)
        return self._costs.frame(static="static" in shown, first=first, block=place if "query" in shown else None)

    @property
    def _largest_frame(self) -> int:
        """The frame's tokens if all wanted items are shown, whatever the query brings."""
        wanted = {spec.placement for spec in self._specs}
        recall = any(spec.recall for spec in self._specs if spec.placement == "history")
        block = BlockPlace.OWN_MESSAGE if "query" in wanted or recall else None
        first = ChatMessage("assistant", "") if "history" in wanted else None
        return self._costs.frame(static="static" in wanted, first=first, block=block)

    # grant and fit

    def _fill_static(self, grants: Mapping[str, int]) -> None:
        for share in self._placed("static"):
            share.cap = share.grant = grants[share.spec.name]
            fit([share], share.grant - share.used)
            self._needs[share.spec.name] = TokenNeed(share.used, share.used)

    def _cut_tails(self, grants: Mapping[str, int]) -> dict[str, HistoryTail]:
        """Cut each history to its grant, beside its share for recall."""
        tails: dict[str, HistoryTail] = {}
        for spec in self._specs:
            if cutter := self._cutters.get(spec.name):
                tail, recall = self._cut_tail(spec, cutter, grants[spec.name])
                tails[spec.name] = tail
                self._needs[spec.name] = TokenNeed(tail.used + recall, tail.used + recall)
        return tails

    def _cut_tail(self, spec: SectionSpec, cutter: TailCutter, cap: int) -> tuple[HistoryTail, int]:
        """Return a history's tail, and the tokens that are reserved for recall.

        If messages are cut off or were evicted, the share for recall is reserved. The tail takes the part of it that
        the earlier messages do not need. If a summary stands for messages that a compaction has evicted, recall takes
        the tokens that the tail leaves.
        """
        if self._limits is not None:
            tail = cutter.cut(max(cutter.must, min(cap, self._limits.history)))
            return tail, min(cap - tail.used, int(spec.recall * cap), self._limits.block)
        tail, recall = cutter.cut(cap), 0
        if tail.left_out or self._proposals[spec.name].evicted:
            recall = min(cap - cutter.must, int(spec.recall * cap))
            is_cut = tail.used < cutter.want
            if is_cut or spec.compaction is None:
                tail = self._cut_beside(spec, cutter, cap, recall)
            recall = min(recall, cap - tail.used)
        return tail, recall

    def _cut_beside(self, spec: SectionSpec, cutter: TailCutter, cap: int, recall: int) -> HistoryTail:
        """Return the longest tail that leaves room for all earlier messages that may be recalled, up to `recall`.

        As the cap grows, the tail takes in earlier messages and they need less. So the tail never becomes shorter.
        """
        reserved, tail = recall, cutter.cut(cap - recall)
        while (needed := self._recall_want(spec, tail, recall)) < reserved:
            reserved, tail = needed, cutter.cut(cap - needed)
        return tail

    def _recall_want(self, spec: SectionSpec, tail: HistoryTail, cap: int) -> int:
        """Return the tokens of the earlier messages beside a tail; above the cap, any number above it.

        Messages that are left out for low confidence count too: without them, the tail stays as it is.
        """
        recalled = self._run(spec, partial(self._costs.recalled_header, spec, tail.left_out), cap)
        return recalled.want(self._earlier(spec, tail))

    def _earlier(self, spec: SectionSpec, tail: HistoryTail) -> tuple[Candidate, ...]:
        """Return the units of a history that may be recalled beside a tail."""
        shown = {unit.position for unit in tail.shown}
        earlier = self._proposals[spec.name].earlier
        return tuple(unit for unit in earlier if not unit.orphan and unit.position not in shown)

    def _recall_share(self, spec: SectionSpec) -> Share | None:
        """Return the share of the messages of a history that its tail does not show, if there are any to recall."""
        if (tail := self._tails.get(spec.name)) is None:
            return None
        shown, candidates = {unit.position for unit in tail.shown}, self._earlier(spec, tail)
        cap = self._needs[spec.name].must - tail.used
        recalled = self._run(spec, partial(self._costs.recalled_header, spec, tail.left_out), cap)
        barred = self._barred_of(spec)
        return Share(spec, candidates, {True: recalled}, cap, elsewhere=shown, barred=barred) if candidates else None

    def _barred_of(self, spec: SectionSpec) -> frozenset[int]:
        return self._barred.get(spec.name, frozenset())

    def _fill_block(self) -> None:
        """Fill the block with the tokens that the static sections and the histories leave."""
        query = {share.spec.name: share for share in self._placed("query")}
        self._grant_block(query)
        shares = [
            shares[spec.name]
            for spec in by_priority(self._specs)
            for shares in (self._recalled, query)
            if spec.name in shares
        ]
        used = sum(share.used for share in self._shares.values()) + sum(tail.used for tail in self._tails.values())
        closed, opened = self._frame(None), self._frame(self._block_place)
        is_open = any(share.kept for share in shares)
        left = self._window - used - (opened if is_open else closed)
        if self._limits is not None:
            left = min(left, self._limits.block)
        fit(shares, left, opening=0 if is_open else opened - closed, shown=Shown(self.items) if shares else None)

    def _grant_block(self, query: Mapping[str, Share]) -> None:
        """Grant room to the shares of the block: of the window, or of the block's own limit."""
        if self._limits is None:
            grants = allocate(self._specs, self._needs, self._to_share)
            shown = {name: tail.used for name, tail in self._tails.items()}
        else:
            needs = {name: self._needs[name] for name in query}
            # Earlier messages are mostly visible in a window: they get no more of its block than their share.
            block = self._limits.block
            needs |= {
                n: TokenNeed(0, min(each.cap, int(each.spec.recall * block))) for n, each in self._recalled.items()
            }
            shown = {}
            grants = allocate(self._specs, needs, self._limits.block + sum(need.must for need in needs.values()))
        for name, share in query.items():
            share.grant = min(share.cap, grants[name])
        for name, share in self._recalled.items():
            share.grant = min(share.cap, grants[name] - shown.get(name, 0))

    def _placed(self, placement: str) -> list[Share]:
        return [share for share in self._shares.values() if share.spec.placement == placement]

    def _frame(self, block: BlockPlace | None) -> int:
        """Return the frame's tokens around the shown items, with or without a block."""
        static = any(share.kept for share in self._placed("static"))
        first = next((entry for part in self._history for entry in part.entries), None)
        return self._costs.frame(static=static, first=first, block=block)

    @cached_property
    def _block_place(self) -> BlockPlace:
        entries = [entry for part in self._history for entry in part.entries]
        return self._costs.block_place(entries[-1] if entries else None)

    # build

    @cached_property
    def _history(self) -> tuple[HistoryPart, ...]:
        return tuple(
            HistoryPart(spec.title, tuple(_tail_entries(self._tails[spec.name])))
            for spec in self._specs
            if spec.name in self._tails and self._tails[spec.name].used
        )

    @cached_property
    def layout(self) -> Layout:
        """The shown pieces, in order."""
        static = [*self._verbatim.values()]
        static += [piece for share in self.static_shares for piece in self._pieces(share)]
        block = [piece for share in self.block_shares for piece in self._pieces(share)]
        return Layout(tuple(static), self._history, tuple(block), self._block_place if block else None)

    @property
    def static_shares(self) -> list[Share]:
        """The shares of static sections, verbatim ones first."""
        return sorted(self._placed("static"), key=lambda share: not share.spec.is_verbatim)

    @cached_property
    def _verbatim(self) -> dict[str, str]:
        """The texts of the items without a label, by id. They come before everything that has one."""
        items = ((item, share.spec.labels) for share in self.static_shares for item in share.items)
        return {item.id: f"{text}\n" for item, style in items if (text := style.bare_text(item))}

    def _pieces(self, share: Share) -> Iterator[str]:
        spec, tail = share.spec, self._tails.get(share.spec.name)
        if spec.is_verbatim:
            yield from item_pieces([item for item in share.items if item.id not in self._verbatim], spec.labels)
            return
        for is_recalled, run in share.runs.items():
            if items := run.items:
                if is_recalled:
                    yield recalled_header(spec.title, recalled=len(items), left_out=tail.left_out if tail else None)
                else:
                    yield header_piece(spec.title)
                yield from item_pieces(items, spec.labels, run.notes)

    @property
    def block_shares(self) -> list[Share]:
        """The shares that the block shows, in order."""
        return [*self._placed("query"), *self._recalled.values()]

    @property
    def tails(self) -> Mapping[str, HistoryTail]:
        """The tails of the histories, by section."""
        return self._tails

    @property
    def items(self) -> tuple[Item, ...]:
        """The items that are shown, in order."""
        static = [item for share in self.static_shares for item in share.items]
        static.sort(key=lambda item: item.id not in self._verbatim)
        tails = [item for tail in self._tails.values() for unit in tail.shown for item in unit.items]
        block = [item for share in self.block_shares for item in share.items]
        return (*static, *tails, *block)

    @property
    def adds_up(self) -> bool:
        """Whether the tokens of the pieces add up to those of the whole, with a counter that is additive."""
        return adds_up(self.layout.static)

    @property
    def used(self) -> int:
        """Tokens of all that is shown, counted piece by piece, frame included."""
        return self._frame(self.layout.block_place) + sum(use.used for use in self.by_section.values())

    @cached_property
    def by_section(self) -> dict[str, SectionUse]:
        """The tokens of each section, in order of declaration."""
        return {spec.name: self._use(spec.name) for spec in self._specs}

    def _use(self, name: str) -> SectionUse:
        shares = [shares[name] for shares in (self._shares, self._recalled) if name in shares]
        used = sum(share.used for share in shares)
        items = sum(share.count for share in shares)
        if tail := self._tails.get(name):
            used += tail.used
            items += sum(len(unit.items) for unit in tail.shown)
        return SectionUse(used, items)

    @property
    def retrieved(self) -> dict[str, frozenset[int]]:
        """The positions of the units that the query brings in or may bring in, by section.

        These are recalled units, and units of a query section beside its required and `recent` ones. A section that
        offers all that it holds, and has room for it, is shown whatever the query.
        """
        shares = {share.spec.name: share for share in self._placed("query")} | self._recalled
        return {
            name: frozenset(_retrieved(share, is_all=self._proposals[name].is_all)) for name, share in shares.items()
        }

    # decide

    def decide(self) -> tuple[Decision, ...]:
        """Return one decision for each item that was proposed, sections in order of declaration."""
        return tuple(
            self._decision(item, spec, candidate, reason)
            for spec in self._specs
            for candidate, reason in (
                self._fates_in_history(spec) if spec.name in self._tails else self._fates(self._shares[spec.name])
            )
            for item in candidate.items
        )

    def _decision(self, item: Item, spec: SectionSpec, candidate: Candidate, reason: Reason) -> Decision:
        reason = Reason.SHORTENED if item.id in self._shortened else reason
        included = reason in _INCLUDING
        share = (self._recalled if spec.placement == "history" else self._shares).get(spec.name)
        same_as = share.twins.get(item.id) if share else None
        signals = {} if candidate.score is None else self._proposals[spec.name].signals(candidate.position)
        return Decision(
            item.id, spec.name, included, reason, candidate.rank, candidate.score, item.tokens, same_as, signals, item
        )

    def _fates(self, share: Share) -> Iterator[tuple[Candidate, Reason]]:
        left = self._window - self.used
        cap = cap_of(share.spec, self._window)
        kept = {candidate.rank for candidate in share.kept}
        for candidate in share.candidates:
            if candidate.rank in kept:
                reason = Reason.RELEVANT if candidate.score else Reason.NEWEST
                reason = Reason.RECALLED if candidate.recalled else reason
                reason = Reason.NEWER if candidate.position in share.brought_along else reason
                yield candidate, Reason.MUST if candidate.must else reason
            elif share.is_duplicate(candidate):
                yield candidate, Reason.DUPLICATE
            elif candidate.position in share.barred:
                yield candidate, Reason.LOW_CONFIDENCE
            elif candidate.position in share.unrelated:
                yield candidate, Reason.UNRELATED
            elif share.spec.placement == "static" and share.runs[False].cost(candidate) <= min(cap - share.used, left):
                yield candidate, Reason.HELD_BACK
            elif candidate.position in share.outdated:
                yield candidate, Reason.OUTDATED
            else:
                yield candidate, Reason.NO_ROOM

    def _fates_in_history(self, spec: SectionSpec) -> Iterator[tuple[Candidate, Reason]]:
        share, proposal = self._recalled.get(spec.name), self._proposals[spec.name]
        recalled = {unit.position for unit in share.kept} if share else set()
        in_tail = {unit.position for unit in self._tails[spec.name].shown}
        ranked = {unit.position: unit for unit in proposal.earlier}
        proposed = {unit.position: unit for unit in proposal.candidates}
        for position, candidate in (ranked | proposed).items():
            if candidate.orphan:
                yield candidate, Reason.ORPHAN
            elif position in in_tail:
                yield candidate, Reason.MUST if candidate.must else Reason.TAIL
            elif share and share.is_duplicate(candidate):
                yield ranked[position], Reason.DUPLICATE
            elif share and position in share.barred:
                yield ranked[position], Reason.LOW_CONFIDENCE
            elif share and position in share.outdated:
                yield ranked[position], Reason.OUTDATED
            else:
                yield ranked.get(position, candidate), Reason.RECALLED if position in recalled else Reason.BEFORE_TAIL


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


def _tail_entries(tail: HistoryTail) -> Iterator[HistoryEntry]:
    for unit in tail.before:
        yield from entries_in(unit)
    if tail.left_out is not None:
        yield Mark(tail.left_out)
    for unit in tail.units:
        yield from entries_in(unit)


def _retrieved(share: Share, *, is_all: bool) -> Iterator[int]:
    """Yield the positions of the units of a share that the query brings in or may bring in."""
    live = sorted((unit.position for unit in share.candidates if not unit.recalled), reverse=True)
    is_whole = is_all and all(unit.recalled for unit in share.left_out)
    stays = live if is_whole else live[: share.spec.recent]
    for unit in share.candidates:
        if unit.recalled or not (unit.must or unit.position in stays):
            yield unit.position
