"""Messages for a model, made of a conversation's events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from kaosmem.arguments import check_count
from kaosmem.conversation.action import ActionEvent
from kaosmem.conversation.answers import answered
from kaosmem.conversation.event import UNLOGGED, ConversationEvent, EventSource, said_blocks
from kaosmem.conversation.log import view_of
from kaosmem.conversation.memory_tiers import MemoryTier, fitted_tiers
from kaosmem.conversation.prompts import PromptTemplates
from kaosmem.conversation.wording import Wording
from kaosmem.errors import InvalidArgumentError
from kaosmem.types import ChatMessage, ContentBlock, TextBlock, ToolResultBlock, ToolUseBlock, Trust


@dataclass(frozen=True, slots=True)
class ConversationConfig:
    """Abilities of the model, and knowledge beside the conversation.

    function_calling: without it, calls and results are shown as texts.
    disabled_knowledge: names of knowledge that is never recalled.
    memory: notes beyond the conversation, shown in at most `max_memory_chars`.
    """

    function_calling: bool = True
    disabled_knowledge: frozenset[str] = frozenset()
    memory: tuple[MemoryTier, ...] = ()
    max_memory_chars: int = 6_000


class ConversationMemory:
    """Makes messages of a conversation that every provider takes, whatever the log went through.

    prompt_manager: the words around events.
    """

    def __init__(self, config: ConversationConfig | None = None, prompt_manager: PromptTemplates | None = None) -> None:
        self._config = config or ConversationConfig()
        self._prompts = prompt_manager or PromptTemplates()

    def process_events(
        self,
        condensed_history: Iterable[ConversationEvent],
        initial_user_action: ActionEvent | None = None,
        max_message_chars: int | None = None,
        vision_is_active: bool = False,
    ) -> list[ChatMessage]:
        """Return the messages of a log, a view or events.

        The system message comes first. Each call is directly followed by its result, in the order of the calls. If
        other calls of an answer have results, a missing result is stated. Messages of the user that follow each other,
        and summaries between them, are one message of several parts.
        initial_user_action: a message that stands after the system message, unless the history has it or begins with
        another message of the user. A log needs none: its views keep the first message of the user.
        max_message_chars: a longer result is cut in the middle. vision_is_active: if it is False, a text stands for
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
            self._prompts, max_chars=max_message_chars, vision=vision_is_active, never=self._config.disabled_knowledge
        )
        events = self._begun(view_of(condensed_history), initial_user_action)
        messages = list(answered(events, wording))
        after_system = int(messages[0].role == "system") if messages else 0
        messages[after_system:after_system] = self._remembered()
        if not self._config.function_calling:
            messages = list(self._told(messages))
        return list(self._merged(messages))

    def _begun(self, history: Iterable[ConversationEvent], initial: ActionEvent | None) -> list[ConversationEvent]:
        """Return the history with a system message and the initial message, if there is one, in front."""
        events = list(history)
        system = next((event for event in events if _is_system(event) and event.text.strip()), None)
        if system is None:
            system = ActionEvent("system_message", self._prompts.system, source=EventSource.ENVIRONMENT)
        rest = [event for event in events if event is not system]
        first = next((place for place, event in enumerate(rest) if not _is_system(event)), len(rest))
        begins = first < len(rest) and _is_users(rest[first])
        if initial is not None and not begins and not any(_is_same(event, initial) for event in rest):
            rest.insert(first, initial)
        return [system, *rest]

    def _remembered(self) -> list[ChatMessage]:
        text = fitted_tiers(self._config.memory, self._config.max_memory_chars)
        return [ChatMessage("memory", text, trust=Trust.EXTERNAL)] if text else []

    def _told(self, messages: Iterable[ChatMessage]) -> Iterator[ChatMessage]:
        """Yield messages with calls and results as texts, results as somebody's of that name."""
        names: dict[str, str] = {}
        for message in messages:
            blocks: list[ContentBlock] = []
            for block in message.blocks:
                if isinstance(block, ToolUseBlock):
                    names[block.id] = block.name
                    blocks.append(TextBlock(self._prompts.fill("call", name=block.name, arguments=block.arguments)))
                elif isinstance(block, ToolResultBlock):
                    blocks += self._told_result(block, names[block.tool_use_id])
                else:
                    blocks.append(block)
            is_result = message.role == "tool"
            told = replace(message, content=tuple(blocks)) if blocks != list(message.blocks) else message
            yield replace(told, role="tool-result", trust=Trust.TOOL) if is_result else told

    def _told_result(self, result: ToolResultBlock, name: str) -> list[ContentBlock]:
        template = "error" if result.is_error else "result"
        if isinstance(result.content, str):
            return [TextBlock(self._prompts.fill(template, name=name, result=result.content))]
        return [TextBlock(self._prompts.fill(template, name=name, result="")), *result.content]

    def _merged(self, messages: Iterable[ChatMessage]) -> Iterator[ChatMessage]:
        """Yield messages, those of the user and summaries that follow each other as one."""
        for is_users, group in groupby(messages, lambda message: message.role in ("user", "summary")):
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
                blocks.append(TextBlock(self._prompts.fill("summary", summary=message.text)))
            else:
                blocks += said_blocks(message.content)
        trust = min(message.authority for message in messages)
        pinned = any(message.pinned for message in messages)
        return ChatMessage("user", tuple(blocks), sources=_names(messages), trust=trust, pinned=pinned)


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
