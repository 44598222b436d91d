"""Messages for a model, made of a conversation's events."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

from kaosmem.arguments import check_text
from kaosmem.conversation.events import ActionEvent, ConversationEvent, ObservationEvent
from kaosmem.conversation.log import view_of
from kaosmem.types.items import ChatMessage
from kaosmem.units import repair

SYSTEM_PROMPT = (
    "You are a helpful agent. You work with the tools that you are given until the user's task is "
    "done."
)
"""The system prompt of a conversation without one."""


def _answer(unit: Sequence[ConversationEvent]) -> list[ChatMessage]:
    """Return the calls of an answer as one message, with their results."""
    calls = [each for each in unit if isinstance(each, ActionEvent)]
    results = [each for each in unit if isinstance(each, ObservationEvent)]
    messages = [_together([each.message for each in calls])]
    messages += [each.message for each in results]
    ids = [each.call.id for each in calls if each.call]
    # Most answers need no repair, which takes longer than all else.
    is_sound = ids == [each.call_id for each in results] and len({*ids}) == len(ids)
    return messages if is_sound else repair(messages)


def _together(calls: Sequence[ChatMessage]) -> ChatMessage:
    if len(calls) == 1:
        return calls[0]
    return ChatMessage(
        "assistant",
        tuple(chain.from_iterable(message.blocks for message in calls)),
        sources=tuple(message.id for message in calls if message.id),
        pinned=any(message.pinned for message in calls),
    )


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
                messages += _answer([view[each] for each in unit])
            elif event.has_words:
                messages.append(event.message)
        return messages


def _is_prompt(event: ConversationEvent) -> bool:
    is_system = isinstance(event, ActionEvent) and event.kind == "system_message"
    return is_system and bool(event.text.strip())
