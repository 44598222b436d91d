"""The answers of a model as messages: the calls of each as one, directly followed by their results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import count

from kaosmem.conversation.action import ActionEvent
from kaosmem.conversation.event import ConversationEvent
from kaosmem.conversation.observation import ObservationEvent
from kaosmem.conversation.wording import Wording
from kaosmem.types import ChatMessage, ContentBlock, ToolResultBlock, ToolUseBlock
from kaosmem.units import NO_RESULT


class _Answer:
    """The calls of an answer, and their results, by the position of the call."""

    __slots__ = ("calls", "results")

    def __init__(self) -> None:
        self.calls: list[tuple[ChatMessage, ToolUseBlock]] = []
        self.results: dict[int, ChatMessage] = {}

    def messages(self) -> Iterator[ChatMessage]:
        """Yield the calls as one message, then their results in the order of the calls, missing ones stated."""
        ids = _distinct([call.id for _, call in self.calls])
        yield self.calls[0][0] if len(ids) == 1 else self._together(ids)
        for place, ((_, call), call_id) in enumerate(zip(self.calls, ids, strict=True)):
            result = self.results.get(place)
            if result is None:
                yield ChatMessage("tool", (ToolResultBlock(call_id, NO_RESULT, is_error=True),))
            elif call_id == call.id:
                yield result
            else:
                blocks = (block for block in result.blocks if isinstance(block, ToolResultBlock))
                yield replace(result, content=tuple(replace(block, tool_use_id=call_id) for block in blocks))

    def _together(self, ids: list[str]) -> ChatMessage:
        blocks: list[ContentBlock] = []
        for (message, call), call_id in zip(self.calls, ids, strict=True):
            blocks += (*message.blocks[:-1], call if call_id == call.id else replace(call, id=call_id))
        messages = [message for message, _ in self.calls]
        return ChatMessage(
            "assistant",
            tuple(blocks),
            sources=tuple(message.id for message in messages if message.id),
            pinned=any(message.pinned for message in messages),
        )


def answered(events: Iterable[ConversationEvent], wording: Wording) -> Iterator[ChatMessage]:
    """Yield the events of a view as messages, an answer at the place of its first call.

    A result is that of the latest call with its id that waits for one.
    """
    messages: list[ChatMessage | _Answer] = []
    answers: dict[str, _Answer] = {}
    waiting: dict[str, list[tuple[_Answer, int]]] = {}
    for event in events:
        message = wording.message(event)
        if message is None:
            continue
        if isinstance(event, ActionEvent) and event.call is not None:
            answer = answers.get(event.response)
            if answer is None:
                answer = _Answer()
                messages.append(answer)
                if event.response:
                    answers[event.response] = answer
            waiting.setdefault(event.call.id, []).append((answer, len(answer.calls)))
            answer.calls.append((message, event.call))
        elif isinstance(event, ObservationEvent) and event.call_id:
            answer, place = waiting[event.call_id].pop()
            answer.results[place] = message
        else:
            messages.append(message)
    for each in messages:
        if isinstance(each, _Answer):
            yield from each.messages()
        else:
            yield each


def _distinct(ids: list[str]) -> list[str]:
    """Return ids of which none repeats: a later one is numbered, as in `a-2`."""
    known = set(ids)
    if len(known) == len(ids):
        return ids
    distinct: list[str] = []
    for call_id in ids:
        given, numbers = call_id, count(2)
        while given in distinct or (given != call_id and given in known):
            given = f"{call_id}-{next(numbers)}"
        distinct.append(given)
    return distinct
