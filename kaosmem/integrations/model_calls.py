"""The model calls of a framework: the conversation is stored, and the request is packed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import dropwhile, islice, takewhile
from typing import Any

from kaosmem.arguments import check_count, check_instance
from kaosmem.assembly.context import Context
from kaosmem.formats import messages_apart, parse_message
from kaosmem.integrations.conversations import Conversations, Framework, in_loop, portable_messages
from kaosmem.names import safe_id
from kaosmem.persistence.storage.places import Location
from kaosmem.session.memory import SessionMemory
from kaosmem.session.windows import Window
from kaosmem.types import ContentBlock
from kaosmem.types.content import ToolResultBlock, ToolUseBlock
from kaosmem.types.items import ChatMessage

_MORE_COMPARED = 64
"""Messages beyond the number of shown ones that are compared with them."""
Compared = tuple[tuple[str, tuple[ContentBlock, ...]], ...]
"""The roles and blocks of messages, by which shown messages are known again."""


@dataclass(frozen=True, slots=True)
class PackedRequest:
    """A packed request in the types of a framework.

    Attributes:
        system: The caller's instructions, then the static sections of the session.
        static: The system messages and the static sections: all but the instructions that the
            caller gave beside the messages. "" for none.
        messages: The messages after the system message.
        with_system: All messages in the types of the framework, a system message first.
    """

    system: str
    static: str
    messages: list[Any]
    with_system: list[Any]


class ModelCalls(Conversations):
    """The model calls of one agent, with a session for each conversation.

    Args:
        location: A path, a URL that fsspec understands, or a filesystem.
        framework: Reads, writes and names what the framework has.
        conversation: The id of the conversation of calls that name none, as in `Conversations`.
        budget: Tokens of a request, with its instructions and the schemas of its tools. It is
            needed; by default None, so that a misspelt name is told before a missing one.
        window: The window that grows, one for each agent that shares a conversation. None packs
            each call anew.
        options: Further arguments of `Conversations`, such as `format` and `namespace`.

    Raises:
        KaosmemError: If an argument is not valid or not known, as `Conversations`.
    """

    def __init__(
        self,
        location: Location,
        framework: Framework,
        conversation: Any = None,
        /,
        *,
        budget: int | None = None,
        window: str | Window | None = "main",
        **options: Any,
    ) -> None:
        super().__init__(location, framework, conversation, **options)
        self._budget = check_count(budget, "budget", least=1)
        self._window = Window(window) if isinstance(window, str) else window
        if self._window is not None:
            check_instance(self._window, Window, "window")

    @in_loop
    async def request(
        self,
        messages: Sequence[object],
        *,
        conversation: object = None,
        system: str = "",
        tools: Sequence[Any] = (),
        agent: str = "",
    ) -> PackedRequest:
        """Store the new ones of a conversation's messages, and return the request for the model.

        Args:
            messages: The messages that the framework would send, or the newest of them. The system
                messages before all others are instructions of this call.
            conversation: The framework's id of the conversation.
            system: More instructions of this call.
            tools: The schemas of this call's tools, dicts or objects of an SDK, to count them.
            agent: The name of the agent that calls. Each agent of a conversation has a window.

        Raises:
            InvalidArgumentError: If the conversation has no id.
            KaosmemError: As `SessionMemory.assemble_context`.
        """
        said = self.read_all(messages)
        prompts = [message.text for message in takewhile(_is_prompt, said)]
        beside = "\n\n".join([system, *prompts] if system else prompts)
        async with self.turn(conversation) as memory:
            await self._sync(memory, said[len(prompts) :])
            context = await memory.assemble_context(
                budget=self._budget,
                format=self.format,
                overflow="cut",
                window=self._window_of(agent),
                system=beside,
                tools=tools,
            )
        return self._packed(context, system, messages)

    async def _sync(self, memory: SessionMemory, given: Sequence[object]) -> None:
        """Store the new ones of messages. A list without answers begins after the last answer."""
        given_format = self._given_format
        apart = messages_apart(given, given_format)
        newest_first = (parse_message(message, given_format) for message in reversed(apart))
        if not self.framework.has_task_lists and any(map(_is_answer, newest_first)):
            await memory.sync_messages(given, format=given_format)
            return
        said = [parse_message(message, given_format) for message in apart]
        told = {message.text for message in said if _is_answer(message)}
        stored = islice(reversed(memory["messages"]), 4 * _MORE_COMPARED)
        before = dropwhile(
            lambda message: not _is_answer(message) or message.text in told,
            (item.message for item in stored),
        )
        await memory.sync_messages([*reversed([*before]), *said])

    def _packed(
        self,
        context: Context,
        system: str,
        given: Sequence[object],
    ) -> PackedRequest:
        """Return a context in the framework's types."""
        sent: list[Any] = list(context.messages)
        instructions = context.rendered.system or ""
        if sent and sent[0].get("role") == "system":
            instructions = self.format.parse(sent.pop(0)).text
        static = instructions.removeprefix(system).lstrip("\n")
        write = self.framework.write
        if write is None:
            return PackedRequest(instructions, static, sent, sent)
        said = map(self.format.parse, messages_apart(sent, self.format))
        sent = self._written(portable_messages(said), given, write)
        prompt = [write(ChatMessage("system", instructions))] if instructions else []
        return PackedRequest(instructions, static, sent, [*prompt, *sent])

    def _window_of(self, agent: str) -> Window | None:
        if self._window is None or not agent:
            return self._window
        return replace(self._window, name=safe_id(agent))

    def _written(
        self,
        shown: Sequence[ChatMessage],
        given: Sequence[object],
        write: Callable[[ChatMessage], Any],
    ) -> list[Any]:
        """Return shown messages in the framework's types.

        A message that is shown as it was given is the given object: it may hold what its provider
        needs and no other type knows. Of the same words said twice, each is its own object: a
        provider refuses an id that comes twice. So the newest are found first.
        """
        originals = self._originals(given[-len(shown) - _MORE_COMPARED :])
        lengths = sorted({len(each) for each in originals}, reverse=True)
        compared = _compared(shown)
        written = []
        end = len(shown)
        while end:
            for length in lengths:
                said = compared[max(end - length, 0) : end]
                if originals.get(said):
                    written.append(originals[said].pop())
                    end -= len(said)
                    break
            else:
                end -= 1
                written.append(write(shown[end]))
        return written[::-1]

    def _originals(self, given: Sequence[object]) -> dict[Compared, list[object]]:
        """Return given messages by the messages as which they are shown, the newest last."""
        found: dict[Compared, list[object]] = {}
        read = self.framework.read
        if read is None:
            return found
        for each in given:
            said = _compared(portable_messages(read(each)))
            if said:
                found.setdefault(said, []).append(each)
        return found


class PackedCalls:
    """The part of an adapter that packs the calls of a model, before its class of the framework.

    Args:
        location: The place of the sessions.
        options: Further arguments of `ModelCalls`, such as `budget`.
    """

    framework: Framework

    def __init__(self, location: Location, **options: Any) -> None:
        super().__init__()
        self.calls = ModelCalls(location, self.framework, **options)


def _is_prompt(message: Any) -> bool:
    return isinstance(message, ChatMessage) and message.role == "system"


def _is_answer(message: ChatMessage) -> bool:
    calls = any(isinstance(block, ToolUseBlock) for block in message.blocks)
    return message.role == "assistant" and not calls


def _compared(messages: Iterable[ChatMessage]) -> Compared:
    """Return portable messages without the names of tools, which a message alone may lack."""
    plain = []
    for message in messages:
        blocks = message.blocks
        if blocks and isinstance(blocks[0], ToolResultBlock):
            blocks = (replace(blocks[0], name=""),)
        plain.append((message.role, blocks))
    return tuple(plain)
