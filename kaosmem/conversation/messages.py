"""Messages for a model, made of a conversation's events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

from kaosmem.arguments import check_text
from kaosmem.conversation.events import ActionEvent, ConversationEvent, ObservationEvent
from kaosmem.conversation.log import view_of
from kaosmem.conversation.view import ConversationView
from kaosmem.types.content import ToolResultBlock, ToolUseBlock
from kaosmem.types.items import ChatMessage
from kaosmem.units import NO_RESULT, with_distinct_calls

SYSTEM_PROMPT = (
    "You are a helpful agent. You work with the tools that you are given until the user's task is "
    "done."
)
"""The system prompt of a conversation without one."""


def _answer(view: ConversationView, unit: Sequence[int]) -> Iterator[ChatMessage]:
    """Yield the calls of an answer as one message, then their results in the order of the calls.

    A result that never came is stated.
    """
    calls: dict[int, ChatMessage] = {}
    results: dict[int, ChatMessage] = {}
    waiting: dict[str, list[int]] = {}
    for place in unit:
        event = view[place]
        if isinstance(event, ActionEvent) and event.call is not None:
            calls[place] = event.message
            waiting.setdefault(event.call.id, []).append(place)
        elif isinstance(event, ObservationEvent):
            results[waiting[event.call_id].pop()] = event.message
    answer = with_distinct_calls(_together(list(calls.values())))
    yield answer
    ids = [block.id for block in answer.blocks if isinstance(block, ToolUseBlock)]
    for place, call_id in zip(calls, ids, strict=True):
        result = results.get(place)
        if result is None:
            missing = ToolResultBlock(call_id, NO_RESULT, is_error=True)
            yield ChatMessage("tool", (missing,))
        else:
            yield _with_call_id(result, call_id)


def _together(calls: Sequence[ChatMessage]) -> ChatMessage:
    if len(calls) == 1:
        return calls[0]
    return ChatMessage(
        "assistant",
        tuple(chain.from_iterable(message.blocks for message in calls)),
        sources=tuple(message.id for message in calls if message.id),
        pinned=any(message.pinned for message in calls),
    )


def _with_call_id(result: ChatMessage, call_id: str) -> ChatMessage:
    """Return the result of a call that was given an id: the same message if it has this one."""
    (block,) = result.blocks
    if not isinstance(block, ToolResultBlock) or block.tool_use_id == call_id:
        return result
    return replace(result, content=(replace(block, tool_use_id=call_id),))


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
            elif event.has_words:
                messages.append(event.message)
        return messages


def _is_prompt(event: ConversationEvent) -> bool:
    is_system = isinstance(event, ActionEvent) and event.kind == "system_message"
    return is_system and bool(event.text.strip())
