"""Messages for a model, made of a conversation's events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import count

from kaosmem.arguments import check_text
from kaosmem.conversation.events import (
    ActionEvent,
    ConversationEvent,
    EventSource,
    ObservationEvent,
)
from kaosmem.conversation.log import view_of
from kaosmem.types import ContentBlock
from kaosmem.types.content import ToolResultBlock, ToolUseBlock
from kaosmem.types.items import ChatMessage
from kaosmem.units import NO_RESULT

SYSTEM_PROMPT = (
    "You are a helpful agent. You work with the tools that you are given until the user's task is "
    "done."
)
"""The system prompt of a conversation without one."""


class _Answer:
    """The calls of an answer, and their results, by the position of the call."""

    __slots__ = ("calls", "results")

    def __init__(self) -> None:
        self.calls: list[tuple[ChatMessage, ToolUseBlock]] = []
        self.results: dict[int, ChatMessage] = {}

    def messages(self) -> Iterator[ChatMessage]:
        """Yield the calls as one message, then their results in the order of the calls.

        A result that never came is stated.
        """
        ids = _distinct([call.id for _, call in self.calls])
        yield self.calls[0][0] if len(ids) == 1 else self._together(ids)
        for place, call_id in enumerate(ids):
            result = self.results.get(place)
            if result is None:
                missing = ToolResultBlock(call_id, NO_RESULT, is_error=True)
                yield ChatMessage("tool", (missing,))
            elif call_id == self.calls[place][1].id:
                yield result
            else:
                yield _with_call_id(result, call_id)

    def _together(self, ids: list[str]) -> ChatMessage:
        blocks: list[ContentBlock] = []
        for (message, call), call_id in zip(self.calls, ids, strict=True):
            blocks += message.blocks[:-1]
            blocks.append(call if call_id == call.id else replace(call, id=call_id))
        messages = [message for message, _ in self.calls]
        return ChatMessage(
            "assistant",
            tuple(blocks),
            sources=tuple(message.id for message in messages if message.id),
            pinned=any(message.pinned for message in messages),
        )


def _with_call_id(result: ChatMessage, call_id: str) -> ChatMessage:
    results = [block for block in result.blocks if isinstance(block, ToolResultBlock)]
    return replace(result, content=tuple(replace(each, tool_use_id=call_id) for each in results))


def answered(events: Iterable[ConversationEvent]) -> Iterator[ChatMessage]:
    """Yield the events of a view as messages, an answer at the place of its first call.

    A result is that of the latest call with its id that waits for one. An event that says nothing
    is left out.
    """
    messages: list[ChatMessage | _Answer] = []
    answers: dict[str, _Answer] = {}
    waiting: dict[str, list[tuple[_Answer, int]]] = {}
    for event in events:
        if isinstance(event, ActionEvent) and event.call is not None:
            answer = answers.get(event.response)
            if answer is None:
                answer = _Answer()
                messages.append(answer)
                if event.response:
                    answers[event.response] = answer
            waiting.setdefault(event.call.id, []).append((answer, len(answer.calls)))
            answer.calls.append((event.message, event.call))
        elif isinstance(event, ObservationEvent) and event.call_id:
            answer, place = waiting[event.call_id].pop()
            answer.results[place] = event.message
        elif _says_something(event):
            messages.append(event.message)
    for each in messages:
        if isinstance(each, _Answer):
            yield from each.messages()
        else:
            yield each


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
        rest: list[ConversationEvent] = []
        system: ConversationEvent | None = None
        for event in view_of(history):
            if system is None and _is_prompt(event):
                system = event
            else:
                rest.append(event)
        if system is None:
            system = ActionEvent("system_message", self._system, source=EventSource.ENVIRONMENT)
        return list(answered([system, *rest]))


def _is_prompt(event: ConversationEvent) -> bool:
    is_system = isinstance(event, ActionEvent) and event.kind == "system_message"
    return is_system and bool(event.text.strip())
