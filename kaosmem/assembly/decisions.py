"""The decisions of a packing: one for each proposed item, with its reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from kaosmem.assembly.context import Decision, Reason
from kaosmem.assembly.fitting import Share
from kaosmem.assembly.packing import Packing
from kaosmem.sections import Candidate
from kaosmem.types.items import Item

Reasons: TypeAlias = Iterator[tuple[Candidate, Reason]]

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


def decide(packing: Packing) -> tuple[Decision, ...]:
    """Return one decision for each item that was proposed, sections in order of declaration."""
    decisions = []
    for spec in packing.packer.specs:
        name = spec.name
        share: Share | None
        if name in packing.tails:
            share = packing.recalled.get(name)
            reasons = _reasons_in_history(packing, name)
        else:
            share = packing.shares[name]
            reasons = _reasons_in_share(share)
        twins = share.twins if share else {}
        for unit, reason in reasons:
            decisions += [
                _decision(packing, name, unit, item, reason, twins) for item in unit.items
            ]
    return tuple(decisions)


def _decision(
    packing: Packing,
    name: str,
    unit: Candidate,
    item: Item,
    reason: Reason,
    twins: Mapping[str, str],
) -> Decision:
    if item.id in packing.packer.shortened:
        reason = Reason.SHORTENED
    signals: Mapping[str, float] = {}
    if unit.score is not None:
        signals = packing.packer.proposals[name].signals(unit.position)
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


def _reasons_in_share(share: Share) -> Reasons:
    """Yield why each unit of a section that is no history is shown, or is not."""
    needed: set[int] = set()
    for unit in share.taken.values():
        needed.update(unit.needs)
    for unit in share.candidates:
        if unit.position in share.taken:
            yield unit, _including(unit, needed)
            continue
        reason = _left_out_reason(share, unit)
        if reason is None and unit.position in share.unrelated:
            reason = Reason.UNRELATED
        yield unit, reason or Reason.NO_ROOM


def _including(unit: Candidate, needed: set[int]) -> Reason:
    if unit.must:
        return Reason.MUST
    if not unit.score and unit.position in needed:
        return Reason.NEWER
    if unit.recalled:
        return Reason.RECALLED
    return Reason.RELEVANT if unit.score else Reason.NEWEST


def _reasons_in_history(packing: Packing, name: str) -> Reasons:
    """Yield why each unit of a history is shown, or is not."""
    share = packing.recalled.get(name)
    proposal = packing.packer.proposals[name]
    in_tail = {unit.position for unit in packing.tails[name].shown}
    ranked = {unit.position: unit for unit in proposal.earlier}
    units = {**ranked}
    for unit in proposal.candidates:
        if unit.position not in ranked or unit.orphan or unit.position in in_tail:
            units[unit.position] = unit
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
        yield unit, reason or Reason.BEFORE_TAIL


def _left_out_reason(share: Share, candidate: Candidate) -> Reason | None:
    """Return why a unit is left out of a share, None if it is for want of room."""
    if share.is_duplicate(candidate):
        return Reason.DUPLICATE
    if candidate.position in share.barred:
        return Reason.LOW_CONFIDENCE
    return Reason.OUTDATED if share.is_outdated(candidate) else None


def retrieved(packing: Packing) -> dict[str, frozenset[int]]:
    """Return the positions of the units that the query brings in or may bring in, by section.

    These are recalled units, and units of a query section beside its required and `recent` ones. A
    section that offers all that it holds, and has room for it, is shown whatever the query.
    """
    found = {}
    for share in packing.block_shares:
        is_all = packing.packer.proposals[share.spec.name].is_all
        is_whole = is_all and all(unit.recalled for unit in share.left_out)
        live = [unit.position for unit in share.candidates if not unit.recalled]
        live.sort(reverse=True)
        stays = {*live} if is_whole else {*live[: share.spec.recent]}
        stays.update(unit.position for unit in share.candidates if unit.must)
        positions = {unit.position for unit in share.candidates}
        found[share.spec.name] = frozenset(positions - stays)
    return found
