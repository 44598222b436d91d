"""The conversations of a framework in sessions, one session each."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from functools import wraps
from itertools import chain, islice
from typing import Any, ParamSpec, TypeVar
from urllib.parse import quote

from kaosmem.arguments import check_collection
from kaosmem.errors import InvalidArgumentError
from kaosmem.formats import Format, get_format, messages_apart, parse_message, render_messages
from kaosmem.formats.delimiters import speaker_line
from kaosmem.formats.shaped_blocks import named_message
from kaosmem.formats.streams import INTERRUPTED
from kaosmem.names import safe_id
from kaosmem.persistence.storage.places import Location
from kaosmem.sections.default_sections import DEFAULT_SECTIONS
from kaosmem.sections.spec import SectionSpec
from kaosmem.session.memory import SessionMemory
from kaosmem.session.message_sync import was_synced
from kaosmem.session.sessions import Sessions, check_names
from kaosmem.session.synchronous import LOOP
from kaosmem.types import ContentBlock, JSONDict
from kaosmem.types.content import TextBlock, ToolResultBlock, ToolUseBlock
from kaosmem.types.items import ChatMessage, Item

P = ParamSpec("P")
T = TypeVar("T")
_ROLES = ("system", "user", "assistant")
_AS_GIVEN = "as_given"
"""Metadata of a message: as the framework gave it, if the format would write it otherwise."""


def in_loop(
    method: Callable[P, Coroutine[Any, Any, T]],
) -> Callable[P, Coroutine[Any, Any, T]]:
    """Return a method that runs in the event loop of `SyncSessionMemory`, wherever it is awaited."""

    @wraps(method)
    async def call(*args: P.args, **kwargs: P.kwargs) -> T:
        return await LOOP.wait(lambda: method(*args, **kwargs))

    return call


def run_and_wait(work: Coroutine[Any, Any, T]) -> T:
    """Run work in the event loop of `SyncSessionMemory`, and wait for it without `async`."""
    return LOOP.run(lambda: work)


@dataclass(frozen=True)
class Framework:
    """How a framework has its messages, and names its conversations.

    Attributes:
        read: Returns the messages that one message of the framework holds. None: its messages are
            those of the format.
        write: Returns a message of the framework. A result is alone in its message, and names its
            tool.
        format: The format of the framework's messages, and in which tokens are counted. The default
            counts all that kaosmem stores.
        id_remedy: Tells a user how a call names its conversation. "": no call does.
        has_task_lists: Whether the framework begins an empty list with each question, so that the
            answers of a list are those of its last question.
    """

    read: Callable[[Any], Sequence[ChatMessage]] | None = None
    write: Callable[[ChatMessage], Any] | None = None
    format: str | Format = "blocks"
    id_remedy: str = ""
    has_task_lists: bool = False


class Conversations:
    """The conversations of a framework, each the messages of a session.

    The sessions live in the event loop of `SyncSessionMemory`, so that calls may come from any
    thread and any event loop, by `run_and_wait` also without `async`. Each call saves.

    Args:
        location: A path, a URL that fsspec understands, or a filesystem.
        framework: Reads, writes and names what the framework has.
        conversation: The id of the conversation of calls that name none. It may be None only where
            the calls of the framework name theirs.
        format: The format in which tokens are counted. None: that of the framework.
        session: Further arguments of `Sessions`, such as `namespace` and `sections`.

    Raises:
        KaosmemError: As `Sessions`, also for a format without messages.
    """

    def __init__(
        self,
        location: Location,
        framework: Framework,
        conversation: Any = None,
        /,
        *,
        format: str | Format | None = None,
        **session: Any,
    ) -> None:
        check_names(session, type(self), Conversations)
        self._named = conversation
        if conversation is not None or not framework.id_remedy:
            self._named = safe_id(conversation)
        self.framework = framework
        self.format = get_format(framework.format if format is None else format)
        if render_messages([], self.format).messages is None:
            raise InvalidArgumentError("a text is no list of messages; give format='openai'")
        self._given_format = self.format if framework.read is None else None
        self._sessions = Sessions(location, **session)

    def turn(self, conversation: object = None) -> AbstractAsyncContextManager[SessionMemory]:
        """Hold a turn of the session of a conversation.

        Raises:
            InvalidArgumentError: If the conversation has no id. The message ends with the remedy.
        """
        if conversation is None and self._named is not None:
            return self._sessions.turn(self._named)
        if conversation is None or conversation == "":
            remedy = self.framework.id_remedy
            raise InvalidArgumentError(f"the conversation has no id; {remedy}")
        return self._sessions.turn(safe_id(str(conversation)))

    @in_loop
    async def keep(
        self,
        replies: Sequence[object],
        *,
        conversation: object = None,
        interrupted: bool = False,
        as_given: bool = False,
    ) -> None:
        """Store messages at the end of a conversation, such as the reply to its last request.

        Args:
            conversation: The framework's id of the conversation.
            interrupted: Whether their stream ended early. The metadata of the messages say so.
            as_given: Whether `all` returns messages of the format as they are now, with ids.
        """
        metadata = INTERRUPTED if interrupted else {}
        said = self.read_all(replies)
        async with self.turn(conversation) as memory:
            if not (as_given and self._was_synced(memory, said)):
                self._store(memory, said, metadata, as_given=as_given)

    @in_loop
    async def all(self, conversation: object = None) -> list[Any]:
        """Return the messages of a conversation that its session holds live."""
        async with self.turn(conversation) as memory:
            said = list(memory["messages"])
        if self.framework.write is not None:
            return list(map(self.framework.write, portable_messages(item.message for item in said)))
        return list(chain.from_iterable(map(self._given, said)))

    @in_loop
    async def pop(self) -> Any:
        """Move the newest message of the format to the archive, and return it. None: none is left."""
        async with self.turn() as memory:
            newest = next(reversed(memory["messages"]), None)
            if newest is None:
                return None
            *rest, popped = self._given(newest)
            memory.remove(newest.id)
            self._store(memory, rest, {}, as_given=True)
        return popped

    @in_loop
    async def clear(self) -> None:
        """Move the messages of the conversation to the archive."""
        async with self.turn() as memory:
            for item in list(memory["messages"]):
                memory.remove(item.id)

    def read_all(self, given: Sequence[object]) -> Sequence[Any]:
        """Return messages as a session takes them."""
        if self.framework.read is None:
            return given
        said = chain.from_iterable(map(self.framework.read, given))
        return [named_message(message.role, message.blocks) for message in said]

    def _was_synced(self, memory: SessionMemory, said: Sequence[object]) -> bool:
        """Return whether a list of messages brought these ones before, at the end.

        A streamed run of OpenAI's Agents packs its first request before it stores the question.
        """
        told = [parse_message(each, self.format) for each in messages_apart(said, self.format)]
        newest = list(islice(reversed(memory["messages"]), len(told)))
        newest.reverse()
        is_same = [item.message for item in newest] == told
        return is_same and all(map(was_synced, newest))

    def _store(
        self,
        memory: SessionMemory,
        said: Sequence[object],
        metadata: JSONDict,
        *,
        as_given: bool,
    ) -> None:
        for message in messages_apart(said, self._given_format):
            given = message if isinstance(message, list) else [message]
            kept = metadata
            if as_given and self._shown(parse_message(message, self.format)) != given:
                kept = {**metadata, _AS_GIVEN: given}
            memory.add_message(message, format=self.format, metadata=kept)

    def _given(self, item: Item) -> list[Any]:
        given: Any = item.metadata.get(_AS_GIVEN)
        return list(given or self._shown(item.message))

    def _shown(self, message: ChatMessage) -> list[Any]:
        return render_messages([message], self.format).messages or []


def sessions_with(
    own: Sequence[SectionSpec],
    location: Location,
    options: Mapping[str, Any],
) -> Sessions:
    """Return `Sessions` that have sections of an adapter after those of the program."""
    sections = options.get("sections")
    if sections is None:
        sections = DEFAULT_SECTIONS
    specs = (*check_collection(sections, "sections"), *own)
    return Sessions(location, **{**options, "sections": specs})


def joined_names(*names: str) -> str:
    """Join names so that no other names give the same text."""
    return ":".join(quote(name, safe="") for name in names)


def portable_messages(messages: Iterable[ChatMessage]) -> list[ChatMessage]:
    """Return messages as every framework takes them.

    Each result of a tool has a message of its own, and names its tool. A speaker that providers do
    not know is a user, under a line with the speaker's name.
    """
    portable = []
    names: dict[str, str] = {}
    for message in messages:
        rest = []
        for block in message.blocks:
            if isinstance(block, ToolResultBlock):
                name = names.get(block.tool_use_id, block.name)
                portable.append(ChatMessage("tool", (replace(block, name=name),)))
                continue
            if isinstance(block, ToolUseBlock):
                names[block.id] = block.name
            rest.append(block)
        if rest:
            portable.append(_spoken(message.role, rest))
    return portable


def _spoken(role: str, blocks: Sequence[ContentBlock]) -> ChatMessage:
    """Return a message of a role that all providers know. A line names any other speaker."""
    if any(isinstance(block, ToolUseBlock) for block in blocks):
        return ChatMessage("assistant", tuple(blocks))
    if role in _ROLES:
        return ChatMessage(role, tuple(blocks))
    return ChatMessage("user", (TextBlock(speaker_line(role)), *blocks))
