"""Repair of a history: each call gets exactly one result, as providers require."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import count

from kaosmem.types import ChatMessage, ContentBlock, ToolResultBlock, ToolUseBlock
from kaosmem.units.link import Link
from kaosmem.units.waiting_calls import WaitingCalls

NO_RESULT = "no result was recorded for this call"


def repair(messages: Iterable[ChatMessage]) -> list[ChatMessage]:
    """Return messages in which each call is directly followed by its one result, in the order of the calls.

    A late result moves up to its call, a repeated or orphaned one is left out, a missing one is stated as an
    error. Each result becomes a `tool` message of its own; what else its message held stays in place. Where a message
    repeats an id, its later calls get ids of their own, and the one result is the first call's.
    """
    distinct = list(map(_with_distinct_calls, messages))
    links = list(map(Link.of, distinct))
    waiting = WaitingCalls()
    results: dict[tuple[int, str], ChatMessage] = {}
    for position, link in enumerate(links):
        for call, caller in waiting.enter(position, link).items():
            results[caller, call] = _result_message(distinct[position], call)
    repaired = []
    for position, (message, link) in enumerate(zip(distinct, links, strict=True)):
        if not link.answers:
            repaired.append(message)
        elif not link.is_results:
            repaired.append(replace(message, content=_without_results(message)))
        for call in link.calls:
            missing = ToolResultBlock(call, NO_RESULT, is_error=True)
            repaired.append(results.get((position, call)) or ChatMessage("tool", (missing,)))
    return repaired


def _result_message(message: ChatMessage, call: str) -> ChatMessage:
    """Return a call's result as a message of its own: the same message where it is nothing else."""
    for block in message.blocks:
        if isinstance(block, ToolResultBlock) and block.tool_use_id == call:
            alone = replace(message, role="tool", content=(block,))
            return message if message == alone else alone
    raise KeyError(call)


def _with_distinct_calls(message: ChatMessage) -> ChatMessage:
    """Return a message whose calls have ids of their own: the same message where they do."""
    calls = [block.id for block in message.blocks if isinstance(block, ToolUseBlock)]
    if len(set(calls)) == len(calls):
        return message
    taken = set(calls)
    seen: set[str] = set()
    blocks: list[ContentBlock] = []
    for block in message.blocks:
        if isinstance(block, ToolUseBlock) and block.id in seen:
            new = next(name for number in count(2) if (name := f"{block.id}-{number}") not in taken)
            taken.add(new)
            block = replace(block, id=new)
        elif isinstance(block, ToolUseBlock):
            seen.add(block.id)
        blocks.append(block)
    return replace(message, content=tuple(blocks))


def _without_results(message: ChatMessage) -> tuple[ContentBlock, ...]:
    return tuple(block for block in message.blocks if not isinstance(block, ToolResultBlock))
