"""The thinking of replies: which of them a request may send back.

A provider with preserved thinking binds the thinking of a reply to the request that it replies to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from kaosmem.sections import Candidate, Proposal, SectionSpec
from kaosmem.types import Item, ThinkingBlock, ToolUseBlock
from kaosmem.units import Link


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


def bound(units: Sequence[Candidate], foreign: int | None) -> list[Candidate]:
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


def is_asked(unit: Candidate) -> bool:
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
