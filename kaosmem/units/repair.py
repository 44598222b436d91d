"""Repair of a history: each call gets exactly one result, as providers require."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import chain, count

from kaosmem.types import ChatMessage, ContentBlock, ToolResultBlock, ToolUseBlock
from kaosmem.units.link import Link
from kaosmem.units.waiting_calls import WaitingCalls

NO_RESULT = "no result was recorded for this call"


def repair(messages: Iterable[ChatMessage]) -> list[ChatMessage]:
    """Return messages in which each call is directly followed by its one result, in the order of the calls.

    A late result moves up to its call. A repeated result, or one without a call, is left out. A missing result is
    stated as an error. Each result becomes a `tool` message of its own; the rest of its message stays in place. If a
    message repeats the id of a call, its later calls get new ids, and the result belongs to the first.

    >>> from kaosmem.types import ChatMessage, ToolUseBlock
    >>> [message.text for message in repair([ChatMessage("assistant", (ToolUseBlock("c1", "search"),))])]
    ['search({})', 'no result was recorded for this call']
    """
    return list(chain.from_iterable(repaired(messages)))


def repaired(messages: Iterable[ChatMessage]) -> list[list[ChatMessage]]:
    """Return, for each message, the messages that `repair` puts in its place."""
    distinct = list(map(_with_distinct_calls, messages))
    links = list(map(Link.of, distinct))
    waiting = WaitingCalls()
    results: dict[tuple[int, str], ChatMessage] = {}
    for position, link in enumerate(links):
        for call, caller in waiting.enter(position, link).items():
            results[caller, call] = _result_message(distinct[position], call)
    parts = []
    for position, (message, link) in enumerate(zip(distinct, links, strict=True)):
        part = [] if link.is_results else [message]
        if link.answers and part:
            part = [replace(message, content=_without_results(message))]
        for call in link.calls:
            missing = ToolResultBlock(call, NO_RESULT, is_error=True)
            part.append(results.get((position, call)) or ChatMessage("tool", (missing,)))
        parts.append(part)
    return parts


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
