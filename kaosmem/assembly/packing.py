"""One packing of a window: grants, tails and shares, and the layout, sums and decisions that come of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial

from kaosmem.assembly.allocation import Need, allocate, by_priority, cap_of, held_by_floor, window_too_small
from kaosmem.assembly.context import Decision, Reason, SectionUse
from kaosmem.assembly.fitting import Share, fit
from kaosmem.assembly.tail import Tail, TailCutter
from kaosmem.formats import BlockPlace, Format, HistoryEntry, HistoryPart, Layout, Mark
from kaosmem.formats.text import header_piece, item_piece, item_tokens, recalled_header
from kaosmem.sections import Candidate, Proposal, SectionSpec
from kaosmem.tokens import TokenCounter
from kaosmem.types import ChatMessage, Item
from kaosmem.units import repair

FRAME = "frame"


class Packing:
    """Packs proposals into a window of so many tokens as soon as it is made.

    specs: of the sections that propose something, in order of declaration.
    Raises WindowTooSmallError.
    """

    def __init__(
        self,
        specs: Sequence[SectionSpec],
        proposals: Mapping[str, Proposal],
        *,
        window: int,
        format: Format,  # noqa: A002
        counter: TokenCounter,
    ) -> None:
        self._specs, self._proposals = specs, proposals
        self._window, self._format, self._counter = window, format, counter
        self._piece_form, self._entry_form = f"piece {counter.name}", f"{format.name} {counter.name}"
        self._cutters = {spec.name: self._cutter(spec) for spec in specs if spec.placement == "history"}
        self._shares = {spec.name: self._share(spec) for spec in specs if spec.placement != "history"}
        self._needs = {spec.name: self._need(spec) for spec in specs}
        self._check_musts()
        self._to_share = max(window - self._frame(wanted=True), sum(need.must for need in self._needs.values()))
        self._fill_static()
        self._tails = self._cut_tails()
        self._recalled = {name: share for name, share in self._recall_shares() if share.candidates}
        self._fill_block()

    # want and grant

    def _cutter(self, spec: SectionSpec) -> TailCutter:
        proposal = self._proposals[spec.name]
        units = sorted(
            (candidate for candidate in proposal.candidates if not candidate.orphan),
            key=lambda candidate: candidate.position,
        )
        return TailCutter(
            spec,
            units,
            taken=proposal.taken,
            total=proposal.total,
            size=self._history_size,
            mark_size=lambda left_out: self._format.entry_tokens(Mark(left_out), self._counter),
            header=self._format.history_header_tokens(_title(spec), self._counter),
        )

    def _share(self, spec: SectionSpec) -> Share:
        header = self._counter(header_piece(_title(spec)))
        share = Share(
            spec,
            self._proposals[spec.name].candidates,
            size=self._piece_size,
            header=lambda _: header,
            cap=cap_of(spec, self._window),
        )
        for candidate in share.candidates:
            if candidate.must:
                share.take(candidate)
        return share

    def _need(self, spec: SectionSpec) -> Need:
        cutter = self._cutters.get(spec.name)
        if cutter:
            return Need(cutter.must, cutter.want)
        share = self._shares[spec.name]
        return Need(share.used, max(share.used, share.want()))

    def _check_musts(self) -> None:
        musts = {FRAME: self._frame(wanted=False)} | {name: need.must for name, need in self._needs.items()}
        if sum(musts.values()) > self._window:
            raise window_too_small(musts, self._window)
        for spec in self._specs:
            if spec.budget is not None and musts[spec.name] > spec.budget:
                raise window_too_small({spec.name: musts[spec.name]}, spec.budget, section=spec.name)

    def _frame(self, *, wanted: bool) -> int:
        """Return what the frame costs at the most: of all that is wanted, or of what must be shown alone."""

        def is_there(placement: str) -> bool:
            return any(wanted or self._needs[spec.name].must for spec in self._specs if spec.placement == placement)

        history = is_there("history")
        recall = wanted and any(spec.recall for spec in self._specs if spec.placement == "history")
        block = None
        if is_there("query") or recall:
            hosted = history and not wanted and self._newest_takes_block()
            block = BlockPlace.IN_MESSAGE if hosted else BlockPlace.OWN_MESSAGE
        return self._format.frame_tokens(static=is_there("static"), history=history, block=block, counter=self._counter)

    def _newest_takes_block(self) -> bool:
        last = [cutter for cutter in self._cutters.values() if cutter.must][-1].last_shown
        return last is not None and self._format.takes_block(_entries(last)[-1])

    # fit

    def _fill_static(self) -> None:
        static = [share for share in self._shares.values() if share.spec.placement == "static"]
        grants = allocate(self._specs, self._needs, self._to_share)
        for share in static:
            share.cap = share.grant = grants[share.spec.name]
            fit([share], share.grant - share.used)
            self._needs[share.spec.name] = Need(share.used, share.used)

    def _cut_tails(self) -> dict[str, Tail]:
        """Cut each history to what static sections, floors and musts of the others leave it: never by the query."""
        tails: dict[str, Tail] = {}
        for spec in by_priority(self._specs):
            cutter = self._cutters.get(spec.name)
            if cutter is None:
                continue
            others = sum(self._held(other) for other in self._specs if other is not spec)
            cap = max(cutter.must, min(cap_of(spec, self._window), self._to_share - others))
            tail = tails[spec.name] = cutter.cut(cap)
            recall = min(cap - tail.used, int(spec.recall * cap)) if tail.left_out else 0
            self._needs[spec.name] = Need(tail.used, tail.used + recall)
        return {spec.name: tails[spec.name] for spec in self._specs if spec.name in tails}

    def _held(self, spec: SectionSpec) -> int:
        need = self._needs[spec.name]
        return need.must if spec.placement == "static" else held_by_floor(spec, need, self._window)

    def _recall_shares(self) -> Iterator[tuple[str, Share]]:
        for spec in self._specs:
            tail = self._tails.get(spec.name)
            if tail is None or tail.left_out is None:
                continue
            shown = {item.id for unit in (*tail.before, *tail.units) for item in unit.items}
            candidates = tuple(
                unit
                for unit in self._proposals[spec.name].earlier
                if not unit.orphan and shown.isdisjoint(item.id for item in unit.items)
            )
            need = self._needs[spec.name]
            header = partial(self._recalled_header, spec, tail.left_out)
            yield spec.name, Share(spec, candidates, self._piece_size, header, cap=need.want - need.must)

    def _recalled_header(self, spec: SectionSpec, left_out: int, recalled: int) -> int:
        return self._counter(recalled_header(_title(spec), recalled=recalled, left_out=max(0, left_out - recalled)))

    def _fill_block(self) -> None:
        """Fill the block with what the static sections and the histories leave."""
        grants = allocate(self._specs, self._needs, self._to_share)
        for name, share in self._recalled.items():
            share.grant = min(share.cap, grants[name] - self._tails[name].used)
        query = {share.spec.name: share for share in self._shares.values() if share.spec.placement == "query"}
        for name, share in query.items():
            share.grant = min(share.cap, grants[name])
        shares = [
            share
            for spec in by_priority(self._specs)
            for share in (self._recalled.get(spec.name), query.get(spec.name))
            if share is not None
        ]
        used = sum(share.used for share in self._shares.values()) + sum(tail.used for tail in self._tails.values())
        frame_without = self._frame_tokens(block=None)
        opening = self._frame_tokens(block=self._block_place) - frame_without
        is_open = any(share.kept for share in shares)
        left = self._window - used - frame_without - (opening if is_open else 0)
        fit(shares, left, opening=0 if is_open else opening)

    def _frame_tokens(self, block: BlockPlace | None) -> int:
        return self._format.frame_tokens(
            static=any(share.kept for share in self._shares.values() if share.spec.placement == "static"),
            history=any(tail.used for tail in self._tails.values()),
            block=block,
            counter=self._counter,
        )

    @cached_property
    def _block_place(self) -> BlockPlace:
        entries = [entry for part in self._history for entry in part.entries]
        takes = bool(entries) and self._format.takes_block(entries[-1])
        return BlockPlace.IN_MESSAGE if takes else BlockPlace.OWN_MESSAGE

    # build

    @cached_property
    def _history(self) -> tuple[HistoryPart, ...]:
        parts = []
        for spec in self._specs:
            tail = self._tails.get(spec.name)
            if tail and tail.used:
                entries: list[HistoryEntry] = [entry for unit in tail.before for entry in _entries(unit)]
                if tail.left_out is not None:
                    entries.append(Mark(tail.left_out))
                entries += [entry for unit in tail.units for entry in _entries(unit)]
                parts.append(HistoryPart(_title(spec), tuple(entries)))
        return tuple(parts)

    @cached_property
    def layout(self) -> Layout:
        """What the packing shows, in order."""
        static: list[str] = []
        block: list[str] = []
        for spec in self._specs:
            share = self._shares.get(spec.name)
            if share and share.kept:
                pieces = block if spec.placement == "query" else static
                pieces += [header_piece(_title(spec)), *map(item_piece, _stored_order(share.kept))]
        for spec in self._specs:
            recalled = self._recalled.get(spec.name)
            if recalled and recalled.kept:
                items = _stored_order(recalled.kept)
                left_out = max(0, (self._tails[spec.name].left_out or 0) - len(items))
                block += [
                    recalled_header(_title(spec), recalled=len(items), left_out=left_out),
                    *map(item_piece, items),
                ]
        return Layout(tuple(static), self._history, tuple(block), self._block_place if block else None)

    @property
    def items(self) -> tuple[Item, ...]:
        """The items that are shown, in order."""
        shares = [share for share in self._shares.values() if share.kept]
        static = [item for share in shares if share.spec.placement == "static" for item in _stored_order(share.kept)]
        tails = [item for tail in self._tails.values() for unit in (*tail.before, *tail.units) for item in unit.items]
        query = [item for share in shares if share.spec.placement == "query" for item in _stored_order(share.kept)]
        recalled = [item for share in self._recalled.values() for item in _stored_order(share.kept)]
        return (*static, *tails, *query, *recalled)

    @property
    def used(self) -> int:
        """Tokens of all that is shown, counted piece by piece, frame included."""
        frame = self._frame_tokens(block=self.layout.block_place)
        return frame + sum(use.used for use in self.by_section.values())

    @cached_property
    def by_section(self) -> dict[str, SectionUse]:
        """What each section takes, in order of declaration."""
        uses = {}
        for spec in self._specs:
            used, items = 0, 0
            for share in (self._shares.get(spec.name), self._recalled.get(spec.name)):
                if share is not None:
                    used += share.used
                    items += sum(len(candidate.items) for candidate in share.kept)
            if spec.name in self._tails:
                tail = self._tails[spec.name]
                used += tail.used
                items += sum(len(unit.items) for unit in (*tail.before, *tail.units))
            uses[spec.name] = SectionUse(used, items)
        return uses

    def decide(self) -> tuple[Decision, ...]:
        """Return one decision for each item that was proposed, sections in order of declaration, ranks ascending."""
        return tuple(
            Decision(item.id, spec.name, reason in _INCLUDING, reason, candidate.rank, candidate.score, item.tokens)
            for spec in self._specs
            for candidate, reason in self._fates(spec)
            for item in candidate.items
        )

    def _fates(self, spec: SectionSpec) -> Iterator[tuple[Candidate, Reason]]:
        if spec.name in self._tails:
            yield from self._history_fates(spec)
            return
        share = self._shares[spec.name]
        kept = {candidate.rank for candidate in share.kept}
        for candidate in share.candidates:
            if candidate.rank not in kept:
                static = spec.placement == "static"
                room = self._window - sum(use.used for use in self.by_section.values())
                fits = static and share.cost(candidate) <= min(cap_of(spec, self._window) - share.used, room)
                yield candidate, Reason.HELD_BACK if fits else Reason.NO_ROOM
            elif candidate.must:
                yield candidate, Reason.MUST
            else:
                yield candidate, Reason.RELEVANT if candidate.score else Reason.NEWEST

    def _history_fates(self, spec: SectionSpec) -> Iterator[tuple[Candidate, Reason]]:
        tail, proposal = self._tails[spec.name], self._proposals[spec.name]
        recalled_share = self._recalled.get(spec.name)
        recalled = {unit.position for unit in recalled_share.kept} if recalled_share else set()
        in_tail = {unit.position for unit in (*tail.before, *tail.units)}
        ranked = {unit.position: unit for unit in proposal.earlier}
        proposed = {unit.position: unit for unit in proposal.candidates}
        for position, candidate in {**ranked, **proposed}.items():
            if candidate.orphan:
                yield candidate, Reason.ORPHAN
            elif position in in_tail:
                yield candidate, Reason.MUST if candidate.must else Reason.TAIL
            else:
                yield ranked.get(position, candidate), Reason.RECALLED if position in recalled else Reason.BEFORE_TAIL

    # costs

    def _piece_size(self, candidate: Candidate) -> int:
        size = 0
        for item in candidate.items:
            size += item.size(self._piece_form, self._measure_piece)
        return size

    def _measure_piece(self, item: Item) -> int:
        return item_tokens(item, self._counter)

    def _history_size(self, candidate: Candidate) -> int:
        if len(candidate.items) == 1:
            return candidate.items[0].size(self._entry_form, self._measure_entries)
        # A unit is measured once for what its items say: a result that arrives or an update makes it another form.
        contents = hash(tuple(item.content for item in candidate.items))
        return candidate.items[-1].size(
            f"{self._entry_form} {contents}",
            lambda _: sum(self._format.entry_tokens(entry, self._counter) for entry in _entries(candidate)),
        )

    def _measure_entries(self, item: Item) -> int:
        known = item.tokens if isinstance(item.content, str) else None
        entries = repair((item.message,))
        return sum(self._format.entry_tokens(entry, self._counter, known=known) for entry in entries)


_INCLUDING = frozenset((Reason.MUST, Reason.TAIL, Reason.RELEVANT, Reason.NEWEST, Reason.RECALLED))


def _entries(unit: Candidate) -> list[ChatMessage]:
    return repair([item.message for item in unit.items])


def _stored_order(kept: Sequence[Candidate]) -> list[Item]:
    return [item for unit in sorted(kept, key=lambda unit: unit.position) for item in unit.items]


def _title(spec: SectionSpec) -> str:
    return spec.header or spec.name
