"""The model calls of a framework: the conversation is stored, and the request is packed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from functools import wraps
from hashlib import sha256
from itertools import islice
from typing import Any, Generic, ParamSpec, TypeVar
from urllib.parse import quote

from kaosmem.arguments import json_text
from kaosmem.assembly.context import Context
from kaosmem.errors import InvalidArgumentError
from kaosmem.formats import (
    Format,
    HistoryPart,
    Layout,
    get_format,
    messages_apart,
    parse_message,
    render_messages,
)
from kaosmem.names import safe_id
from kaosmem.persistence.storage.places import Location
from kaosmem.session.collecting import INTERRUPTED
from kaosmem.session.memory import SessionMemory
from kaosmem.session.sessions import Sessions
from kaosmem.session.synchronous import LOOP
from kaosmem.session.window import Window
from kaosmem.types import JSONValue, OpaqueBlock
from kaosmem.types.content import ToolResultBlock, ToolUseBlock
from kaosmem.types.items import ChatMessage

M = TypeVar("M")
P = ParamSpec("P")
T = TypeVar("T")
_MORE_COMPARED = 64
"""Messages beyond the number of shown ones that are compared with them."""
_BEFORE = ({"role": "user", "content": "A question."},)
"""A request in which a message is rendered: an assistant's message is not the first of one."""


@dataclass(frozen=True, slots=True)
class Request(Generic[M]):
    """A packed request in the types of a framework.

    Attributes:
        system: The caller's instructions, then the static sections of the session.
        static: The static sections alone, "" for none.
        messages: The messages after the system message.
        with_system: All messages in the types of the framework, a system message first.
        context: The context that kaosmem packed.
    """

    system: str
    static: str
    messages: list[M]
    with_system: list[M]
    context: Context


class ModelCalls(Generic[M]):
    """The model calls of one agent, with a session for each conversation.

    The sessions live in the event loop of `SyncSessionMemory`, so that calls may come from any
    thread and any event loop: run its coroutines by `on_loop` or `now`. Each call saves.

    Args:
        location: A path, a URL that fsspec understands, or a filesystem.
        read: Returns the messages that one message of the framework holds. None: its messages are
            those of the format.
        write: Returns a message of the framework. A result is alone in its message, and names its
            tool.
        id_remedy: Tells a user how to name a conversation.
        budget: Tokens of a request, with its instructions and the schemas of its tools.
        format: The format in which tokens are counted. The default counts all that kaosmem stores.
        has_task_lists: Whether the framework begins an empty list with each question, so that the
            answers of a list are those of its last question.
        window: The window that grows, one for each agent that shares a conversation. None packs
            each call anew.
        session: Further arguments of `Sessions`, such as `namespace` and `sections`.
    """

    def __init__(
        self,
        location: Location,
        *,
        read: Callable[[M], Sequence[ChatMessage]] | None = None,
        write: Callable[[ChatMessage], M] | None = None,
        id_remedy: str = "give conversation=...",
        budget: int,
        format: str | Format = "blocks",
        has_task_lists: bool = False,
        window: str | Window | None = "main",
        **session: Any,
    ) -> None:
        self._read = read
        self._write = write
        self._id_remedy = id_remedy
        self._budget = budget
        self._format = get_format(format)
        self._has_task_lists = has_task_lists
        self._window = Window(window) if isinstance(window, str) else window
        self._sessions = Sessions(location, **session)

    async def request(
        self,
        conversation: object,
        messages: Sequence[M],
        *,
        system: str = "",
        tools: Sequence[Mapping[str, JSONValue]] = (),
        agent: str = "",
    ) -> Request[M]:
        """Store the new ones of a conversation's messages, and return the request for the model.

        Args:
            conversation: The framework's id of the conversation.
            messages: The messages that the framework would send, or the newest of them. The system
                messages before all others are instructions of this call.
            system: More instructions of this call.
            tools: The schemas of this call's tools, to count them.
            agent: The name of the agent that calls. Each agent of a conversation has a window.

        Raises:
            InvalidArgumentError: If the conversation has no id.
            KaosmemError: As `SessionMemory.assemble_context`.
        """
        prompts, said = _without_prompts(self._read_all(messages))
        system = "\n\n".join([*prompts, system] if system else prompts)
        async with self._turn(conversation) as memory:
            await self._sync(memory, said)
            context = await memory.assemble_context(
                budget=self._budget,
                format=self._format,
                overflow="cut",
                window=self._window_of(agent),
                system=system,
                tools=tools,
            )
        return self._packed(context, system, messages)

    async def keep(
        self, conversation: object, replies: Sequence[M], *, interrupted: bool = False
    ) -> None:
        """Store the reply to the last request of a conversation, which may be several messages.

        Args:
            interrupted: Whether its stream ended early. The metadata of its messages say so.
        """
        metadata = INTERRUPTED if interrupted else None
        async with self._turn(conversation) as memory:
            for message in messages_apart(self._read_all(replies), self._format):
                memory.add_message(message, format=self._format, metadata=metadata)

    async def all(self, conversation: object) -> list[M]:
        """Return the messages of a conversation that its session holds live."""
        async with self._turn(conversation) as memory:
            said = [item.message for item in memory["messages"]]
        if self._write is None:
            sent: list[Any] = render_messages(said, self._format).messages or []
            return sent
        return list(map(self._write, _single(said)))

    async def clear(self, conversation: object) -> None:
        """Move the messages of a conversation to the archive."""
        async with self._turn(conversation) as memory:
            for item in list(memory["messages"]):
                memory.remove(item.id)

    def _turn(self, conversation: object) -> AbstractAsyncContextManager[SessionMemory]:
        return self._sessions.turn(conversation_session_id(conversation, self._id_remedy))

    def _read_all(self, given: Sequence[M]) -> Sequence[object]:
        """Return messages as the session takes them."""
        if self._read is None:
            return given
        messages: list[object] = []
        for each in given:
            messages += self._read(each)
        return messages

    async def _sync(self, memory: SessionMemory, given: Sequence[object]) -> None:
        """Store the new ones of messages. A list without answers begins after the last answer."""
        told = set()
        task = []
        for message in reversed(messages_apart(given, self._format)):
            said = parse_message(message, self._format)
            task.append(said)
            if _is_answer(said):
                told.add(said.text)
                if not self._has_task_lists:
                    await memory.sync_messages(given, format=self._format)
                    return
        before: list[ChatMessage] = []
        for item in islice(reversed(memory["messages"]), 4 * _MORE_COMPARED):
            said = item.message
            if before or (_is_answer(said) and said.text not in told):
                before.append(said)
        await memory.sync_messages([*reversed(before), *reversed(task)])

    def _packed(self, context: Context, system: str, given: Sequence[M]) -> Request[M]:
        """Return a context in the framework's types."""
        sent: list[Any] = list(context.messages)
        instructions = context.rendered.system or ""
        if sent and sent[0].get("role") == "system":
            instructions = self._format.parse(sent.pop(0)).text
        static = instructions.removeprefix(system).lstrip("\n")
        if self._write is None:
            return Request(instructions, static, sent, sent, context)
        sent = self._written(_single(map(self._format.parse, sent)), given, self._write)
        prompt = [self._write(ChatMessage("system", instructions))] if instructions else []
        return Request(instructions, static, sent, [*prompt, *sent], context)

    def _window_of(self, agent: str) -> Window | None:
        if self._window is None or not agent:
            return self._window
        return replace(self._window, name=safe_id(agent))

    def _written(
        self,
        shown: Sequence[ChatMessage],
        given: Sequence[M],
        write: Callable[[ChatMessage], M],
    ) -> list[M]:
        """Return shown messages in the framework's types.

        A message that is shown as it was given is the given object: it may hold what its provider
        needs and no other type knows.
        """
        originals = self._originals(given[-len(shown) - _MORE_COMPARED :])
        lengths = sorted({len(each) for each in originals}, reverse=True)
        compared = _without_names(shown)
        written = []
        place = 0
        while place < len(shown):
            for length in lengths:
                original = originals.get(compared[place : place + length])
                if original is not None:
                    written.append(original)
                    place += length
                    break
            else:
                written.append(write(shown[place]))
                place += 1
        return written

    def _originals(self, given: Sequence[M]) -> dict[tuple[ChatMessage, ...], M]:
        """Return given messages by the messages as which the format shows them."""
        read = self._read
        found: dict[tuple[ChatMessage, ...], M] = {}
        if read is None:
            return found
        for each in given:
            part = HistoryPart("messages", tuple(read(each)))
            rendered = self._format.render(Layout((), (part,), ()), after=_BEFORE)
            shown = _single(map(self._format.parse, rendered.messages or ()))
            if shown:
                found[_without_names(shown)] = each
        return found


async def on_loop(work: Coroutine[Any, Any, T]) -> T:
    """Run work in the event loop of `SyncSessionMemory`, and wait for it in any other loop."""
    return await asyncio.wrap_future(LOOP.start(lambda: work))


def in_loop(
    method: Callable[P, Coroutine[Any, Any, T]],
) -> Callable[P, Coroutine[Any, Any, T]]:
    """Return a method that runs by `on_loop`, for hooks that await nothing of their framework."""

    @wraps(method)
    async def call(*args: P.args, **kwargs: P.kwargs) -> T:
        return await on_loop(method(*args, **kwargs))

    return call


def now(work: Coroutine[Any, Any, T]) -> T:
    """Run work in the event loop of `SyncSessionMemory`, and wait for it without `async`."""
    return LOOP.run(lambda: work)


def conversation_session_id(conversation: object, remedy: str) -> str:
    """Return the id of the session of a conversation.

    Raises:
        InvalidArgumentError: If the conversation has no id. The message ends with the remedy.
    """
    if conversation is None or conversation == "":
        raise InvalidArgumentError(f"the conversation has no id; {remedy}")
    return safe_id(str(conversation))


def joined_names(*names: str) -> str:
    """Join names so that no other names give the same text."""
    return ":".join(quote(name, safe="") for name in names)


def tool_schema(name: str, description: str | None, parameters: JSONValue) -> dict[str, JSONValue]:
    """Return the schema of a tool, to count it.

    Args:
        parameters: The JSON schema of its arguments.
    """
    return {"name": name, "description": description, "parameters": parameters}


def unknown_part(kind: str, part: object) -> OpaqueBlock:
    """Return a part of a message that only its framework can read. A note stands for it.

    Args:
        kind: The framework's name of such parts.
        part: The part. Its digest tells it from others.
    """
    digest = sha256(repr(part).encode()).hexdigest()
    return OpaqueBlock("framework", kind, json_text({"type": kind, "sha256": digest}))


def _without_prompts(messages: Sequence[Any]) -> tuple[list[str], list[Any]]:
    """Return the texts of the system messages before all others, and the others."""
    rest = list(messages)
    prompts = []
    while rest and isinstance(rest[0], ChatMessage) and rest[0].role == "system":
        prompts.append(rest.pop(0).text)
    return prompts, rest


def _is_answer(message: ChatMessage) -> bool:
    calls = any(isinstance(block, ToolUseBlock) for block in message.blocks)
    return message.role == "assistant" and not calls


def _single(messages: Iterable[ChatMessage]) -> list[ChatMessage]:
    """Return messages in which each result of a tool has a message of its own, and names its tool."""
    single = []
    names: dict[str, str] = {}
    for message in messages:
        rest = []
        for block in message.blocks:
            if isinstance(block, ToolResultBlock):
                name = names.get(block.tool_use_id, block.name)
                single.append(ChatMessage("tool", (replace(block, name=name),)))
                continue
            if isinstance(block, ToolUseBlock):
                names[block.id] = block.name
            rest.append(block)
        if len(rest) == len(message.blocks):
            single.append(message)
        elif rest:
            single.append(replace(message, content=tuple(rest)))
    return single


def _without_names(messages: Iterable[ChatMessage]) -> tuple[ChatMessage, ...]:
    """Return messages of `_single` without the names of tools, which a message alone may lack."""
    plain = []
    for message in messages:
        block = message.blocks[0] if message.blocks else None
        if isinstance(block, ToolResultBlock):
            message = ChatMessage("tool", (replace(block, name=""),))
        plain.append(message)
    return tuple(plain)
