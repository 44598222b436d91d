"""Messages for a model, made of a conversation's events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import count

from kaosmem.arguments import check_text
from kaosmem.conversation.events import (
    ActionEvent,
    ConversationEvent,
)
from kaosmem.conversation.log import view_of
from kaosmem.conversation.view import ConversationView
from kaosmem.types import ContentBlock
from kaosmem.types.content import ToolResultBlock, ToolUseBlock
from kaosmem.types.items import ChatMessage
from kaosmem.units import NO_RESULT

SYSTEM_PROMPT = (
    "You are a helpful agent. You work with the tools that you are given until the user's task is "
    "done."
)
"""The system prompt of a conversation without one."""


def _answer(view: ConversationView, unit: Sequence[int]) -> Iterator[ChatMessage]:
    """Yield the calls of an answer as one message, then their results in the order of the calls.

    A result that never came is stated.
    """
    calls: dict[int, tuple[ChatMessage, ToolUseBlock]] = {}
    results: dict[int | None, ChatMessage] = {}
    for place in unit:
        event = view[place]
        if isinstance(event, ActionEvent) and event.call is not None:
            calls[place] = (event.message, event.call)
        else:
            results[view.caller(place)] = event.message
    ids = _distinct([call.id for _, call in calls.values()])
    yield _together(list(calls.values()), ids)
    for (place, (_, call)), call_id in zip(calls.items(), ids, strict=True):
        result = results.get(place)
        if result is None:
            missing = ToolResultBlock(call_id, NO_RESULT, is_error=True)
            yield ChatMessage("tool", (missing,))
        elif call_id == call.id:
            yield result
        else:
            yield _with_call_id(result, call_id)


def _together(calls: Sequence[tuple[ChatMessage, ToolUseBlock]], ids: list[str]) -> ChatMessage:
    if len(calls) == 1:
        return calls[0][0]
    blocks: list[ContentBlock] = []
    for (message, call), call_id in zip(calls, ids, strict=True):
        blocks += message.blocks[:-1]
        blocks.append(call if call_id == call.id else replace(call, id=call_id))
    messages = [message for message, _ in calls]
    return ChatMessage(
        "assistant",
        tuple(blocks),
        sources=tuple(message.id for message in messages if message.id),
        pinned=any(message.pinned for message in messages),
    )


def _with_call_id(result: ChatMessage, call_id: str) -> ChatMessage:
    results = [block for block in result.blocks if isinstance(block, ToolResultBlock)]
    return replace(result, content=tuple(replace(each, tool_use_id=call_id) for each in results))


def _says_something(event: ConversationEvent) -> bool:
    return event.has_words if isinstance(event, ActionEvent) else bool(event.text.strip())


def _distinct(ids: list[str]) -> list[str]:
    """Return ids of which none repeats: a later one is numbered, as in `a-2`."""
    known = set(ids)
    if len(known) == len(ids):
        return ids
    distinct: list[str] = []
    for call_id in ids:
        given = call_id
        numbers = count(2)
        while given in distinct or (given != call_id and given in known):
            given = f"{call_id}-{next(numbers)}"
        distinct.append(given)
    return distinct


class ConversationMemory:
    """Makes messages of a conversation that every provider takes, whatever the log went through.

    Args:
        system: The system prompt of a conversation without one.
    """

    def __init__(self, *, system: str = SYSTEM_PROMPT) -> None:
        self._system = check_text(system, "system")

    def process_events(self, history: Iterable[ConversationEvent]) -> list[ChatMessage]:
        """Return the messages of a log, a view or events.

        The system message comes first. Each call is directly followed by its result, in the order
        of the calls. A missing result is stated. Summaries have the role "summary".

        Raises:
            InvalidArgumentError: If the history holds other than events.

        >>> from kaosmem.conversation import ActionEvent, ConversationMemory, EventLog
        >>> log = EventLog()
        >>> _ = log.append(ActionEvent("message", "Why does it never give up?", source="user"))
        >>> [message.role for message in ConversationMemory().process_events(log)]
        ['system', 'user']
        """
        view = view_of(history)
        prompt = next((place for place, event in enumerate(view) if _is_prompt(event)), None)
        messages: list[ChatMessage] = []
        if prompt is not None:
            messages.append(view[prompt].message)
        elif self._system.strip():
            messages.append(ChatMessage("system", self._system))
        for place, event in enumerate(view):
            unit = view.unit(place)
            if place == prompt or place != unit[0]:
                continue  # an answer is told whole at the place of its first call
            if isinstance(event, ActionEvent) and event.call is not None:
                messages += _answer(view, unit)
            elif _says_something(event):
                messages.append(event.message)
        return messages


def _is_prompt(event: ConversationEvent) -> bool:
    is_system = isinstance(event, ActionEvent) and event.kind == "system_message"
    return is_system and bool(event.text.strip())
