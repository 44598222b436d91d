"""The decisions of a packing: one for each proposed item, with its reason."""

from __future__ import annotations

import math
from collections.abc import Iterator
from operator import attrgetter
from typing import TypeAlias

from kaosmem.assembly.allocation import cap_of
from kaosmem.assembly.context import Decision, Reason
from kaosmem.assembly.fitting import Share
from kaosmem.assembly.packing import Packing
from kaosmem.assembly.why import INCLUDED_REASONS
from kaosmem.sections import Candidate
from kaosmem.sections.spec import SectionSpec

Outcomes: TypeAlias = Iterator[tuple[Candidate, Reason, int | None]]
"""Units with the reason of each, and the tokens that it lacked, which count if tokens decided."""

_SHORT_OF_ROOM = Reason.NO_ROOM, Reason.BEFORE_TAIL


def decide(packing: Packing) -> tuple[Decision, ...]:
    """Return one decision for each item that was proposed, sections in order of declaration."""
    decisions = []
    shortened = packing.packer.shortened
    shows_copies = Reason.MUST, Reason.RECALLED
    for spec in packing.packer.specs:
        name = spec.name
        proposal = packing.packer.proposals[name]
        share = packing.shares[name]
        if spec.is_history:
            outcomes = _outcomes_in_history(packing, spec)
        else:
            outcomes = _outcomes_in_share(share, _left_to_block(packing))
        for unit, reason, lacking in outcomes:
            if reason not in _SHORT_OF_ROOM:
                lacking = None
            for item in unit.items:
                shown_reason = reason
                if item.id in shortened and reason in shows_copies:
                    shown_reason = Reason.SHORTENED
                decision = Decision(
                    item.id,
                    name,
                    reason in INCLUDED_REASONS,
                    shown_reason,
                    unit.rank,
                    unit.score,
                    item.tokens,
                    share.twins.get(item.id),
                    {} if unit.score is None else proposal.signals(unit.position),
                    item,
                    lacking=lacking,
                )
                decisions.append(decision)
    return tuple(decisions)


def _outcomes_in_share(share: Share, left: int) -> Outcomes:
    """Yield why each unit of a section that is no history is shown, or is not."""
    needed: set[int] = set()
    for unit in share.taken.values():
        needed.update(unit.needs)
    for unit in share.candidates:
        if unit.position in share.taken:
            yield unit, _including(unit, needed), None
            continue
        reason = _left_out_reason(share, unit)
        if reason is None and unit.position in share.unrelated:
            reason = Reason.UNRELATED
        yield unit, reason or Reason.NO_ROOM, _lacking(share, unit, left)


def _including(unit: Candidate, needed: set[int]) -> Reason:
    if unit.must:
        return Reason.MUST
    if not unit.score and unit.position in needed:
        return Reason.NEWER
    if unit.recalled:
        return Reason.RECALLED
    return Reason.RELEVANT if unit.score else Reason.NEWEST


def _outcomes_in_history(packing: Packing, spec: SectionSpec) -> Outcomes:
    """Yield why each unit of a history is shown, or is not."""
    name = spec.name
    share = packing.shares[name]
    proposal = packing.packer.proposals[name]
    in_tail = {unit.position for unit in share.tail.shown}
    ranked = {unit.position: unit for unit in proposal.earlier}
    units = {**ranked}
    for unit in proposal.candidates:
        if unit.position not in ranked or unit.orphan or unit.position in in_tail:
            units[unit.position] = unit
    to_tail = _lacking_to_tail(packing, spec)
    for position, unit in units.items():
        reason = None
        lacking = None
        if unit.orphan:
            reason = Reason.ORPHAN
        elif position in in_tail:
            reason = Reason.MUST if unit.must else Reason.TAIL
        elif position in share.taken:
            reason = Reason.RECALLED
        elif position in ranked:
            reason = _left_out_reason(share, unit)
            lacking = _lacking(share, unit, _left_to_block(packing))
        else:
            lacking = to_tail.get(position)
        yield unit, reason or Reason.BEFORE_TAIL, lacking


def _left_out_reason(share: Share, candidate: Candidate) -> Reason | None:
    """Return why a unit is left out of a share, None if it is for want of room."""
    if share.is_duplicate(candidate):
        return Reason.DUPLICATE
    if candidate.position in share.barred:
        return Reason.LOW_CONFIDENCE
    if share.is_outdated(candidate):
        return Reason.OUTDATED
    return None


def _lacking(
    share: Share,
    unit: Candidate,
    left: int,
) -> int:
    """Return how many more tokens would have let a unit in, if tokens decided."""
    tokens, _ = share.tally.cost_of([unit])
    free = min(left, share.cap - share.tally.used)
    return max(1, tokens - free)


def _left_to_block(packing: Packing) -> int:
    """Return the tokens that are left: of the window, or of the block of a window's turn."""
    left = packing.packer.window - packing.used
    limits = packing.packer.limits
    if limits is None:
        return left
    return min(left, limits.block - sum(share.tally.used for share in packing.block_shares))


def _lacking_to_tail(packing: Packing, spec: SectionSpec) -> dict[int, int]:
    """Return how many more tokens the tail of a history needs to reach back to each message."""
    window = packing.packer.window
    cap = cap_of(spec, window)
    free = max(0, min(window - packing.used, cap - packing.by_section[spec.name].used))
    shown = packing.shares[spec.name].tail.shown
    begin = min((unit.position for unit in shown), default=math.inf)
    found = {}
    tokens = -free
    candidates = packing.packer.proposals[spec.name].candidates
    for unit in sorted(candidates, key=attrgetter("position"), reverse=True):
        if unit.position < begin and not unit.orphan:
            tokens += packing.packer.costs.entries(unit)
            found[unit.position] = max(1, tokens)
    return found


def retrieved(packing: Packing) -> dict[str, frozenset[int]]:
    """Return the positions of the units that the query brings in or may bring in, by section.

    These are recalled units, and units of a query section beside its required and `recent` ones. A
    section that offers all that it holds, and has room for it, is shown whatever the query.
    """
    found = {}
    for share in packing.block_shares:
        is_all = packing.packer.proposals[share.spec.name].is_all
        is_whole = is_all and all(unit.recalled for unit in share.left_out)
        newest = share.newest
        positions = set()
        for unit in share.candidates:
            stays = unit.must or unit.position in newest or (is_whole and not unit.recalled)
            if not stays:
                positions.add(unit.position)
        found[share.spec.name] = frozenset(positions)
    return found
