"""One packing of a window: require, grant, fill static, cut tails, fill the block, build."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import filterfalse
from operator import attrgetter
from typing import NamedTuple, TypeAlias

from kaosmem.assembly.allocation import (
    FRAME,
    NO_NOTES,
    FormatCosts,
    LineOf,
    Notes,
    TokenNeed,
    TokenTally,
    allocate,
    best_match,
    by_priority,
    cap_of,
    header_of,
    header_tokens,
    items_of,
    line_maker,
    window_too_small,
)
from kaosmem.assembly.confidence import match_of, pool_of
from kaosmem.assembly.context import SectionUse
from kaosmem.assembly.fitting import Share, fill
from kaosmem.assembly.tails import HistoryTail, TailCutter
from kaosmem.formats import BlockPlace, HistoryEntry, HistoryPart, Layout
from kaosmem.language.duplicates import DuplicateFinder
from kaosmem.language.query import has_question_near_end
from kaosmem.sections import Candidate
from kaosmem.sections.proposal import CandidatePool, Proposal
from kaosmem.sections.spec import SectionSpec
from kaosmem.types.items import ChatMessage, Item

Proposals: TypeAlias = Mapping[str, Proposal]
"""Proposals by the name of their section, as are shares and needs."""
Shares: TypeAlias = Mapping[str, Share]
Needs: TypeAlias = dict[str, TokenNeed]

_UNITS_OF_LAST_EXCHANGE = 3
"""Units that a window shows anew if they fit: a question, its reply, and the next question."""
_MAX_GRANT_SHARE_OF_EXCHANGE = 0.75
"""They may take this part of a history's grant, as the tail does without a window."""

_MAX_WINDOW_SHARE_OF_BEST = 0.5
"""A match of at most this part of the window is shown, however small the block is."""
_LEADING_SHARE = 0.75
"""The most that earlier messages are sure of in the block of a window if they match best."""
_SURE_SHARE = 0.1
"""The section with the best match is sure of this part of the room."""
_UNITS_JUDGED = 8
"""So many of the best units of a section tell how well it matches."""


class Limits(NamedTuple):
    """The most tokens that the histories and the block may take, beside required items."""

    history: int
    block: int


@dataclass(frozen=True)
class WindowPacker:
    """Packs proposals into a window.

    Args:
        specs: The specs of the sections that propose something, in order of declaration.
        window: Tokens of the window.
        barred: Positions of units that are left out for low confidence, by section.
        limits: The limits of the histories and the block. None is the room that the window leaves.
        shortened: Ids of items that are shortened copies.
        query: The question.
    """

    specs: Sequence[SectionSpec]
    proposals: Proposals
    window: int
    costs: FormatCosts
    barred: Mapping[str, frozenset[int]] = field(default_factory=dict)
    limits: Limits | None = None
    shortened: frozenset[str] = frozenset()
    query: str = ""

    def pack(self) -> Packing:
        """Return the packing. Raises WindowTooSmallError, with the sums."""
        shares = {spec.name: self._share(spec) for spec in self.specs}
        needs = {name: self._need(share) for name, share in shares.items()}
        self._check_required(shares)
        grants = self._grant(needs)
        for name, share in shares.items():
            if share.cutter is not None:
                cap = grants[name]
                share.tail = self._longest_tail(share, share.cutter, cap)
                share.candidates = tuple(share.tail.without_shown(share.candidates))
                share.cap = self._recall(share, cap)
                settled = share.shown_tokens + share.cap
            elif share.spec.placement == "static":
                share.cap = grants[name]
                share.grant = grants[name]
                fill(
                    [share],
                    share.grant - share.tally.used,
                    DuplicateFinder(items_of(share.taken.values())),
                )
                settled = share.tally.used
            else:
                continue
            needs[name] = TokenNeed(settled, settled)
        self._fill_block(shares, needs)
        return Packing(self, shares)

    # Require.

    def _share(self, spec: SectionSpec) -> Share:
        """Return a section's share with its required units, or that of a history's earlier ones."""
        proposal = self.proposals[spec.name]
        candidates = proposal.candidates
        if spec.is_history:
            candidates = tuple(filterfalse(attrgetter("orphan"), proposal.earlier))
        counter = self.costs.counter
        cap = cap_of(spec, self.window)
        share = Share(
            spec,
            candidates,
            TokenTally(header_tokens(spec, counter), line_maker(spec.labels, counter)),
            cap,
            barred=self.barred.get(spec.name, frozenset()),
        )
        if spec.is_history:
            share.cutter = TailCutter(spec, proposal, self.costs)
            share.tail = share.cutter.cut(share.cutter.must)
            return share
        share.unrelated = proposal.unrelated
        share.is_offered_whole = proposal.offers_all and not spec.min_score
        if spec.min_score:
            share.unrelated |= _low_scored(share)
        if spec.recalls:
            best = best_match(filter(attrgetter("recalled"), candidates))
            share.recall = max(spec.recall * cap, best.tokens if best else 0)
        share.require()
        return share

    def _need(self, share: Share) -> TokenNeed:
        if share.cutter is None:
            want = share.want()
        else:
            want = share.cutter.want
            if self.proposals[share.spec.name].evicted:
                want += int(share.spec.recall * share.cap)
        return TokenNeed(share.shown_tokens, max(share.shown_tokens, want))

    def _check_required(self, shares: Shares) -> None:
        musts = {}
        for name, share in shares.items():
            must = share.shown_tokens
            musts[name] = must
            if share.spec.budget is not None and must > share.spec.budget:
                raise window_too_small({name: must}, share.spec.budget, section=name)
        if sum(musts.values()) + self._largest_frame <= self.window:
            return
        has_block = any(share.taken for share in shares.values() if share.spec.placement == "query")
        required = {FRAME: self.frame(shares.values(), has_block=has_block), **musts}
        if sum(required.values()) > self.window:
            raise window_too_small(required, self.window)

    def frame(self, shares: Iterable[Share], *, has_block: bool) -> int:
        """Return the tokens of no section around the units that these shares show."""
        has_static = False
        entries: list[HistoryEntry] = []
        for share in shares:
            has_static = has_static or (share.spec.placement == "static" and bool(share.taken))
            entries += share.tail.entries
        return self.costs.format.frame_tokens(
            static=has_static,
            first=entries[0] if entries else None,
            block=self.costs.block_place(entries) if has_block else None,
            counter=self.costs.counter,
        )

    # Grant.

    def _grant(self, needs: Needs) -> dict[str, int]:
        """Return the grants of all sections beside the largest frame."""
        return allocate(self.specs, needs, self._room_beside_frame(needs))

    def _room_beside_frame(self, needs: Needs) -> int:
        required = 0
        for need in needs.values():
            required += need.must
        return max(self.window - self._largest_frame, required)

    @cached_property
    def _largest_frame(self) -> int:
        """The tokens of no section, whatever the query brings."""
        placements = set()
        has_block = False
        for spec in self.specs:
            placements.add(spec.placement)
            has_block = has_block or spec.placement == "query" or spec.recalls
        return self.costs.format.frame_tokens(
            static="static" in placements,
            first=ChatMessage("assistant", "") if "history" in placements else None,
            block=BlockPlace.OWN_MESSAGE if has_block else None,
            counter=self.costs.counter,
        )

    # Cut tails.

    def _longest_tail(
        self,
        share: Share,
        cutter: TailCutter,
        cap: int,
    ) -> HistoryTail:
        """Return the longest tail beside the share for recall.

        If messages are cut off or were evicted, the share for recall is reserved. The tail takes
        the part of it that the earlier messages do not need. If a summary in the tail stands for
        the messages that were evicted, recall takes the tokens that the tail leaves.
        """
        if self.limits is not None:
            # A follow-up question needs the exchange before it, even where long messages make a
            # window rebase more often.
            exchange = min(
                cutter.tokens_of_newest(_UNITS_OF_LAST_EXCHANGE),
                int(_MAX_GRANT_SHARE_OF_EXCHANGE * cap),
            )
            most = max(exchange, min(cap, self.limits.history))
            return cutter.cut(max(cutter.must, most))
        tail = cutter.cut(cap)
        is_cut = tail.used < cutter.want
        is_summarized = any(item.role == "summary" for item in items_of(tail.shown))
        if self._has_earlier(share, tail) and (is_cut or not is_summarized):
            return self._cut_beside(share, cutter, cap)
        return tail

    def _cut_beside(
        self,
        share: Share,
        cutter: TailCutter,
        cap: int,
    ) -> HistoryTail:
        """Return the longest tail beside the earlier messages, which get up to the share for recall.

        The best match may take more than that share. Without any match, the tail takes all the
        room.

        As the cap grows, the tail takes in earlier messages and they need less. So the tail never
        becomes shorter. Messages that are left out for low confidence count too, so that the tail
        does not depend on them.
        """
        share.cap = cap
        best = share.best_alone(share.tail.without_shown(share.candidates))
        if not best:
            return cutter.cut(cap)
        reserved = min(cap - cutter.must, max(int(share.spec.recall * cap), best))
        share.cap = reserved
        while True:
            tail = cutter.cut(cap - reserved)
            needed = share.tally_of(tail.without_shown(share.candidates)).used
            if needed >= reserved:
                return tail
            reserved = needed

    def _has_earlier(self, share: Share, tail: HistoryTail) -> bool:
        return bool(tail.left_out or self.proposals[share.spec.name].evicted)

    def _recall(self, share: Share, cap: int) -> int:
        """Return the tokens that are reserved for a history's earlier messages beside its tail."""
        recall = int(share.spec.recall * cap)
        if not recall or not self._has_earlier(share, share.tail):
            return 0
        # The best match may take more, however small the share is.
        recall = max(recall, share.best_alone(share.candidates))
        recall = min(recall, cap - share.tail.used)
        if self.limits is None:
            return recall
        return min(recall, self.limits.block)

    # Fill the block.

    def _fill_block(self, shares: Shares, needs: Needs) -> None:
        """Fill the block with the tokens that the static sections and the histories leave."""
        if self.limits is None:
            block = 0
        else:
            block = self._block(self.limits, shares.values())
        grants = self._block_grants(shares, needs, block)
        of_block = []
        for spec in by_priority(self.specs):
            share = shares[spec.name]
            if share.is_in_block:
                share.grant = min(share.cap, grants[spec.name])
                if share.cutter is not None and share.cap and self.limits is None:
                    share.most = cap_of(spec, self.window) - share.tail.used
                of_block.append(share)
        if not of_block:
            return
        every = shares.values()
        frame = self.frame(every, has_block=any(map(attrgetter("taken"), of_block)))
        opening = self.frame(every, has_block=True) - frame
        left = self.window - frame
        shown: list[Item] = []
        for share in every:
            left -= share.shown_tokens
            shown += items_of(share.units)
        if self.limits is not None:
            left = min(left, block)
        fill(of_block, left, DuplicateFinder(shown), opening=opening)

    def _block(self, limits: Limits, shares: Iterable[Share]) -> int:
        """Return the most tokens of the block of a window that grows.

        It takes the best match of a section also where that is larger than its limit, up to half of
        the window. Else no question would ever show it.
        """
        block = limits.block
        for share in shares:
            if share.is_in_block and not share.spec.is_history:
                best = share.best_alone(share.candidates) + self._largest_frame
                if best <= _MAX_WINDOW_SHARE_OF_BEST * self.window:
                    block = max(block, best)
        return block

    def _block_grants(self, shares: Shares, needs: Needs, block: int) -> dict[str, int]:
        """Return the grants of the block's shares: of the window, or of the block's own limit."""
        if self.limits is None:
            grants = self._with_best_matches(shares, needs, self._room_beside_frame(needs))
            for name, share in shares.items():
                grants[name] -= share.tail.used
            return grants
        of_block = {}
        required = 0
        for name, share in shares.items():
            if not share.is_in_block:
                continue
            of_block[name] = needs[name]
            if share.spec.is_history:
                # Earlier messages are mostly visible in a window: they get no more of its block
                # than their share, unless they match best.
                part = share.spec.recall
                if self._leads(share, shares.values()):
                    part = max(part, _LEADING_SHARE)
                most = min(share.cap, int(part * self.limits.block))
                of_block[name] = TokenNeed(0, most)
            required += of_block[name].must
        return self._with_best_matches(shares, of_block, block + required)

    def _with_best_matches(
        self,
        shares: Shares,
        needs: Needs,
        room: int,
    ) -> dict[str, int]:
        """Return grants that do not keep out a section whose best match is the best of all.

        It is sure of this match, or of a tenth of the room if that is more. Otherwise the weak
        matches of a large section with a higher priority would take its room.
        """
        grants = allocate(self.specs, needs, room)
        short = self._short_of_best(shares, needs, grants, room)
        if not short:
            return grants
        pool = pool_of(self.query, self.proposals.values())
        matches: dict[str, float] = {}
        for spec in by_priority(self.specs):
            if spec.placement == "query":
                match = self._match(shares[spec.name], pool)
                if match is not None:
                    matches[spec.name] = match
        best = max(matches.values(), default=None)
        leading = {}
        for name, match in matches.items():
            if match == best and name in short:
                leading[name] = short[name]
        return allocate(self.specs, {**needs, **leading}, room)

    def _short_of_best(
        self,
        shares: Shares,
        needs: Needs,
        grants: Mapping[str, int],
        room: int,
    ) -> Needs:
        """Return the needs of sections that are not granted their best match, sure of it."""
        short = {}
        for name, need in needs.items():
            share = shares[name]
            if share.spec.placement != "query" or grants[name] >= need.want:
                continue
            best = share.best_alone(_best_telling(share.candidates))
            sure = need.must + max(best, int(_SURE_SHARE * room))
            if 0 < best <= _MAX_WINDOW_SHARE_OF_BEST * room and grants[name] < sure:
                short[name] = replace(need, sure=sure)
        return short

    def _leads(self, history: Share, shares: Iterable[Share]) -> bool:
        """Return whether an earlier message has more of the query's words than all other matches."""
        best = self._match(history, self.proposals[history.spec.name].pool)
        if best is None:
            return False
        for share in shares:
            if share.spec.is_history or not share.is_in_block:
                continue
            if self.proposals[share.spec.name].is_all:
                continue  # It was not asked for matches.
            match = self._match(share, self.proposals[share.spec.name].pool)
            if match is None or match >= best:
                return False
        return True

    def _match(self, share: Share, pool: CandidatePool | None) -> float | None:
        """Return how well the best units of a share match the query, None if unknown."""
        return match_of(self.query, items_of(_best_telling(share.candidates)), pool)


def _best_telling(units: Iterable[Candidate]) -> list[Candidate]:
    """Return the best matches that are no questions and no replies.

    Both repeat the words of questions.
    """
    telling: list[Candidate] = []
    for unit in units:
        last = unit.items[-1]
        if unit.score and last.role != "assistant" and not has_question_near_end(last.text):
            telling.append(unit)
            if len(telling) == _UNITS_JUDGED:
                break
    return telling


class SectionPart(NamedTuple):
    """The items that are shown of one section under one header, and their pieces."""

    spec: SectionSpec
    items: list[Item]
    pieces: list[str]


def section_part(
    spec: SectionSpec,
    header: str,
    items: Iterable[Item],
    line_of: LineOf,
    notes: Notes = NO_NOTES,
) -> SectionPart:
    """Return items as they are shown: each group in its first item's place.

    Args:
        header: The piece before them, "" for none.
        line_of: Measures an item.
        notes: The notes of items that stand alone, by id. "" leaves a label as it is.
    """
    groups: dict[object, SectionPart] = {}
    for item in items:
        line = line_of(item, notes.get(item.id))
        group = groups.setdefault(line.group or item.id, SectionPart(spec, [], []))
        group.pieces.append(line.piece(continued=bool(group.items)))
        group.items.append(item)
    part = SectionPart(spec, [], [header] if header else [])
    for group in groups.values():
        part.items.extend(group.items)
        part.pieces.extend(group.pieces)
    return part


class Packing:
    """A packed window: the units that are taken, the layout and the sums.

    Args:
        shares: The filled shares by section. Those of histories are for earlier messages in the
            block.

    Attributes:
        static_shares: The shares of static sections, verbatim ones first.
        block_shares: The shares that the block shows, those of histories last.
        layout: The shown pieces, in order.
        items: The items that are shown, in order.
        taken: The tokens of all sections, without the frame.
        used: The tokens of all that is shown, counted piece by piece, frame included.
        by_section: The tokens of each section, in order of declaration.
    """

    def __init__(self, packer: WindowPacker, shares: Shares) -> None:
        self.packer = packer
        self.shares = shares
        self.static_shares: list[Share] = []
        self.block_shares: list[Share] = []
        self.by_section: dict[str, SectionUse] = {}
        self.taken = 0
        history = []
        tails: list[Item] = []
        for name, share in shares.items():
            if share.spec.placement == "static":
                self.static_shares.append(share)
            elif share.is_in_block:
                self.block_shares.append(share)
            if share.tail.used:
                history.append(HistoryPart(share.spec.title, tuple(share.tail.entries)))
            tails += items_of(share.tail.shown)
            self.taken += share.shown_tokens
            self.by_section[name] = SectionUse(share.shown_tokens, len(items_of(share.units)))
        self.static_shares.sort(key=attrgetter("spec.is_verbatim"), reverse=True)
        self.block_shares.sort(key=attrgetter("spec.is_history"))
        static, before = _laid_out(self.static_shares)
        block, after = _laid_out(self.block_shares)
        place = None
        if block:
            place = packer.costs.block_place(history[-1].entries if history else ())
        self.layout = Layout(static, tuple(history), block, place)
        self.items = (*before, *tails, *after)
        self.used = packer.frame(shares.values(), has_block=bool(block)) + self.taken


def _laid_out(shares: Iterable[Share]) -> tuple[tuple[str, ...], list[Item]]:
    """Return the pieces and the items of shares. Texts without a label come before all others."""
    bare = []
    labelled = []
    for share in shares:
        own = []
        rest = []
        line_of = share.tally.line_of
        for item in items_of(share.kept()):
            if line_of(item, None).labels:
                rest.append(item)
            else:
                own.append(item)
        if own:
            bare.append(section_part(share.spec, "", own, line_of, share.notes))
        if rest:
            labelled.append(
                section_part(share.spec, header_of(share.spec), rest, line_of, share.notes)
            )
    pieces: list[str] = []
    items: list[Item] = []
    for part in (*bare, *labelled):
        pieces += part.pieces
        items += part.items
    return tuple(pieces), items


def _low_scored(share: Share) -> frozenset[int]:
    """Return the positions of units whose scores are below the least that the section shows."""
    best = best_match(share.candidates)
    if best is None or best.score is None:
        return frozenset()
    least = share.spec.min_score / 100 * best.score
    newest = share.newest
    low = set()
    for unit in share.candidates:
        is_low = unit.score is not None and unit.score < least
        if is_low and not unit.must and unit.position not in newest:
            low.add(unit.position)
    return frozenset(low)
