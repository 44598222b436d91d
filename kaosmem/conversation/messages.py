"""Messages for a model, made of a conversation's events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import count, groupby

from kaosmem.arguments import check_count, check_text
from kaosmem.conversation.events import (
    UNLOGGED,
    ActionEvent,
    B,
    ConversationEvent,
    EventSource,
    ObservationEvent,
    Observed,
    RecalledText,
    said_blocks,
)
from kaosmem.conversation.log import view_of
from kaosmem.conversation.prompts import (
    SYSTEM_PROMPT,
    left_out,
    told_knowledge,
    told_summary,
)
from kaosmem.errors import InvalidArgumentError
from kaosmem.types import ContentBlock
from kaosmem.types.content import (
    ImageBlock,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    block_text,
    content_text,
)
from kaosmem.types.items import ChatMessage
from kaosmem.units import NO_RESULT


class Wording:
    """Words events, one after the other. A recalled fact is told once.

    max_chars: limit of a result, None for any length. vision: whether images are shown. never:
        names of what is not
    recalled.
    """

    def __init__(
        self,
        *,
        max_chars: int | None,
        vision: bool,
        never: Iterable[str] = (),
    ) -> None:
        self._max_chars = max_chars
        self._vision = vision
        self._recalled = set(never)

    def message(self, event: ConversationEvent) -> ChatMessage | None:
        """Return an event as a message, its own where nothing is to change, None where it says nothing."""
        if isinstance(event, ObservationEvent):
            return self._result(event)
        message = event.message
        if isinstance(event, ActionEvent) and event.call is None and not event.has_words:
            return None
        if isinstance(message.content, str):
            return message
        content = self._seen(message.content)
        return message if content is message.content else replace(message, content=content)

    def _result(self, event: ObservationEvent) -> ChatMessage | None:
        content = self._observed(event)
        if not event.call_id and not content_text(content).strip():
            return None
        if content is event.content and not event.recalled:
            return event.message
        return event.changed(content=content, recalled=()).message

    def _observed(self, event: ObservationEvent) -> Observed:
        """Return the result, cut to the shown length, and the facts recalled for the first time."""
        content = event.content if isinstance(event.content, str) else self._seen(event.content)
        content = self._cut(content)
        new = [told_knowledge(each.name, each.text) for each in self._new(event)]
        return (*said_blocks(content), *map(TextBlock, new)) if new else content

    def _seen(self, blocks: tuple[B, ...]) -> tuple[B | TextBlock, ...]:
        """Return blocks with texts for images where these are not shown; the same tuple where there are none."""
        if self._vision or not any(isinstance(block, ImageBlock) for block in blocks):
            return blocks
        return tuple(
            TextBlock(block_text(block)) if isinstance(block, ImageBlock) else block
            for block in blocks
        )

    def _new(self, event: ObservationEvent) -> Iterator[RecalledText]:
        for each in event.recalled:
            if each.name not in self._recalled and each.text.strip():
                self._recalled.add(each.name)
                yield each

    def _cut(self, content: Observed) -> Observed:
        """Return content whose texts, where they are too long together, are one that is cut; images come after it."""
        if self._max_chars is None:
            return content
        text = "\n".join(
            block.text for block in said_blocks(content) if isinstance(block, TextBlock)
        )
        if len(text) <= self._max_chars:
            return content
        text = self._shorter(text, self._max_chars)
        if isinstance(content, str):
            return text
        return (TextBlock(text), *(block for block in content if isinstance(block, ImageBlock)))

    def _shorter(self, text: str, max_chars: int) -> str:
        """Return the beginning and the end of a text, with a mark for the part left out between them."""
        marker = f"\n{left_out(len(text))}\n"  # no other number is longer
        kept = max_chars - len(marker)
        if kept < 2:
            return text[:max_chars]
        tail = kept // 2
        marker = f"\n{left_out(len(text) - kept)}\n"
        return text[: kept - tail] + marker + text[len(text) - tail :]


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
                yield replace(
                    result, content=tuple(replace(block, tool_use_id=call_id) for block in blocks)
                )

    def _together(self, ids: list[str]) -> ChatMessage:
        blocks: list[ContentBlock] = []
        for (message, call), call_id in zip(self.calls, ids, strict=True):
            blocks += (
                *message.blocks[:-1],
                call if call_id == call.id else replace(call, id=call_id),
            )
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
        given = call_id
        numbers = count(2)
        while given in distinct or (given != call_id and given in known):
            given = f"{call_id}-{next(numbers)}"
        distinct.append(given)
    return distinct


class ConversationMemory:
    """Makes messages of a conversation that every provider takes, whatever the log went through.

    system: the system prompt of a conversation without one.
    disabled_knowledge: names of knowledge that is never recalled.
    """

    def __init__(
        self, *, system: str = SYSTEM_PROMPT, disabled_knowledge: Iterable[str] = ()
    ) -> None:
        self._system = check_text(system, "system")
        self._disabled = frozenset(disabled_knowledge)

    def process_events(
        self,
        condensed_history: Iterable[ConversationEvent],
        initial_user_action: ActionEvent | None = None,
        max_message_chars: int | None = None,
        vision_is_active: bool = False,
    ) -> list[ChatMessage]:
        """Return the messages of a log, a view or events.

        The system message comes first. Each call is directly followed by its result, in the order
        of the calls. If other calls of an answer have results, a missing result is stated. Messages
        of the user that follow each other, and summaries between them, are one message of several
        parts.
        initial_user_action: a message that stands after the system message, unless the history has
            it or begins with
        another message of the user. A log needs none: its views keep the first message of the user.
        max_message_chars: a longer result is cut in the middle. vision_is_active: if it is False, a
            text stands for
        each image.
        Raises InvalidArgumentError.

        >>> from kaosmem.conversation import ActionEvent, ConversationMemory, EventLog
        >>> log = EventLog()
        >>> _ = log.append(ActionEvent("message", "Why does the client never give up?", source="user"))
        >>> [message.role for message in ConversationMemory().process_events(log)]
        ['system', 'user']
        """
        if initial_user_action is not None and not _is_users(initial_user_action):
            raise InvalidArgumentError(
                "initial_user_action is no message of a user's that says something; give "
                "ActionEvent('message', text, source='user')"
            )
        if max_message_chars is not None:
            check_count(max_message_chars, "max_message_chars", least=1)
        wording = Wording(
            max_chars=max_message_chars,
            vision=vision_is_active,
            never=self._disabled,
        )
        events = self._begun(view_of(condensed_history), initial_user_action)
        return list(self._merged(answered(events, wording)))

    def _begun(
        self, history: Iterable[ConversationEvent], initial: ActionEvent | None
    ) -> list[ConversationEvent]:
        """Return the history with a system message and the initial message, if there is one, in front."""
        events = list(history)
        system = next((event for event in events if _is_system(event) and event.text.strip()), None)
        if system is None:
            system = ActionEvent("system_message", self._system, source=EventSource.ENVIRONMENT)
        rest = [event for event in events if event is not system]
        first = next(
            (place for place, event in enumerate(rest) if not _is_system(event)), len(rest)
        )
        begins = first < len(rest) and _is_users(rest[first])
        if (
            initial is not None
            and not begins
            and not any(_is_same(event, initial) for event in rest)
        ):
            rest.insert(first, initial)
        return [system, *rest]

    def _merged(self, messages: Iterable[ChatMessage]) -> Iterator[ChatMessage]:
        """Yield messages, those of the user and summaries that follow each other as one."""
        for is_users, group in groupby(
            messages, lambda message: message.role in ("user", "summary")
        ):
            several = list(group)
            if not is_users or len(several) == 1:
                yield from several
            else:
                yield self._one(several)

    def _one(self, messages: Sequence[ChatMessage]) -> ChatMessage:
        """Return messages as the parts of one, which is trusted as the least of them."""
        blocks: list[ContentBlock] = []
        for message in messages:
            if message.role == "summary":
                blocks.append(TextBlock(told_summary(message.text)))
            else:
                blocks += said_blocks(message.content)
        trust = min(message.authority for message in messages)
        pinned = any(message.pinned for message in messages)
        return ChatMessage(
            "user", tuple(blocks), sources=_names(messages), trust=trust, pinned=pinned
        )


def _names(messages: Iterable[ChatMessage]) -> tuple[str, ...]:
    return tuple(message.id for message in messages if message.id)


def _is_users(event: object) -> bool:
    return (
        isinstance(event, ActionEvent)
        and event.kind == "message"
        and event.source is EventSource.USER
        and event.call is None
        and event.has_words
    )


def _is_system(event: ConversationEvent) -> bool:
    return isinstance(event, ActionEvent) and event.kind == "system_message"


def _is_same(event: ConversationEvent, initial: ActionEvent) -> bool:
    """Say whether an event is the first message, which a caller may give without its id."""
    if not isinstance(event, ActionEvent) or not _is_users(event):
        return False
    return event.content == initial.content if initial.id == UNLOGGED else event.id == initial.id
