"""Messages of conversations, in order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import replace
from typing import TypeAlias

from kaosmem.arguments import (
    STRICT_JSON,
    Clock,
    check_clock,
    check_collection,
    check_count,
    check_text,
    json_text,
)
from kaosmem.errors import CorruptionError, InvalidArgumentError
from kaosmem.names import check_id, check_item_id
from kaosmem.types import JSONDict
from kaosmem.types.content import Trust, check_content, content_json, stored_blocks
from kaosmem.types.items import ChatMessage

Thread: TypeAlias = tuple[str, str]
"""An agent id and a session id."""


def check_message(message: object) -> ChatMessage:
    """Return a message as it can be stored. Raises InvalidArgumentError."""
    if not isinstance(message, ChatMessage):
        raise InvalidArgumentError(f"a message is a {type(message).__name__}; give a ChatMessage")
    check_text(message.role, "role")
    if message.id:
        check_item_id(message.id)
    content = check_content(message.content)
    if content is message.content:
        return message
    return replace(message, content=content)


class HistoryProvider(ABC):
    """The messages of each agent in each session: a thread, in the order of appending.

    With `run_id=""` a message belongs to no run. An unknown thread is empty.
    A message keeps its metadata. It comes back with the `run_id` of its append, and with the time
    of its append as `created_at` if it had none.

    Ids are any text of 1 to 256 characters without control characters. Different ids never collide.
    All methods raise InvalidNameError for another id, before anything has changed.

    A store is a subclass with the abstract methods, which get checked values.

    Args:
        clock: Gives the times of messages, with a zone. None: the computer's clock.
    """

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = check_clock(clock)

    async def append(
        self,
        agent_id: str,
        message: ChatMessage,
        session_id: str,
        run_id: str = "",
    ) -> None:
        """Append a message. Raises InvalidArgumentError."""
        await self.append_many(agent_id, (message,), session_id=session_id, run_id=run_id)

    async def append_many(
        self,
        agent_id: str,
        messages: Iterable[ChatMessage],
        session_id: str,
        run_id: str = "",
    ) -> None:
        """Append messages in a row, with no message of another writer between them.

        If it raises, no message is appended.

        Raises InvalidArgumentError for a value that is no list of messages.
        """
        thread = _thread_key(agent_id, session_id)
        if run_id != "":
            check_id(run_id, "run id")
        new = list(map(check_message, check_collection(messages, "messages")))
        if not new:
            return
        now = self._clock()
        stamped = [replace(each, created_at=each.created_at or now, run_id=run_id) for each in new]
        await self._append(thread, run_id, stamped)

    async def get_messages(
        self,
        agent_id: str,
        session_id: str,
        limit: int | None = None,
        offset: int = 0,
    ) -> list[ChatMessage]:
        """Return messages, oldest first: `limit` (None for all) after the `offset` oldest.

        The last n of a thread are those from `offset=await count_messages(...) - n`.
        Raises InvalidArgumentError for a negative number.
        """
        thread = _thread_key(agent_id, session_id)
        start = check_count(offset, "offset")
        end = None
        if limit is not None:
            end = start + check_count(limit, "limit")
        return await self._read(thread, start, end)

    async def count_messages(self, agent_id: str, session_id: str) -> int:
        """Return how many messages there are."""
        return await self._count(_thread_key(agent_id, session_id))

    async def clear(self, agent_id: str, session_id: str) -> None:
        """Delete the thread."""
        await self._delete(_thread_key(agent_id, session_id), None)

    async def clear_run(
        self,
        agent_id: str,
        session_id: str,
        run_id: str,
    ) -> None:
        """Delete the thread's messages of one run; "" is no run, and refused."""
        await self._delete(_thread_key(agent_id, session_id), check_id(run_id, "run id"))

    @abstractmethod
    async def list_threads(self) -> list[Thread]:
        """Return the agent id and the session id of each thread that has messages, sorted."""

    @abstractmethod
    async def delete_all(self) -> None:
        """Delete everything that the store holds: all of its tenant."""

    @abstractmethod
    async def _append(
        self,
        thread: Thread,
        run: str,
        messages: list[ChatMessage],
    ) -> None:
        """Append messages, at least one, in one step."""

    @abstractmethod
    async def _read(
        self,
        thread: Thread,
        start: int,
        end: int | None,
    ) -> list[ChatMessage]:
        """Return the messages from position `start` up to, but not including, `end`."""

    @abstractmethod
    async def _count(self, thread: Thread) -> int:
        """Return the number of messages."""

    @abstractmethod
    async def _delete(self, thread: Thread, run: str | None) -> None:
        """Delete the messages of one run, or all messages for None."""


class InMemoryHistoryProvider(HistoryProvider):
    """A HistoryProvider in this process.

    Args:
        clock: Gives the times of messages, with a zone.

    >>> history = InMemoryHistoryProvider()
    >>> await history.append("analyst", ChatMessage("user", "Who owns the deal?"), session_id="room-7")
    >>> await history.count_messages("analyst", session_id="room-7")
    1
    """

    def __init__(self, *, clock: Clock | None = None) -> None:
        super().__init__(clock=clock)
        self._threads: dict[Thread, list[ChatMessage]] = {}

    async def list_threads(self) -> list[Thread]:
        return sorted(self._threads)

    async def delete_all(self) -> None:
        self._threads.clear()

    async def _append(
        self,
        thread: Thread,
        run: str,
        messages: list[ChatMessage],
    ) -> None:
        self._threads.setdefault(thread, []).extend(messages)

    async def _read(
        self,
        thread: Thread,
        start: int,
        end: int | None,
    ) -> list[ChatMessage]:
        return self._threads.get(thread, [])[start:end]

    async def _count(self, thread: Thread) -> int:
        return len(self._threads.get(thread, ()))

    async def _delete(self, thread: Thread, run: str | None) -> None:
        messages = self._threads.pop(thread, [])
        if run is None:
            return
        left = [each for each in messages if each.run_id != run]
        if left:
            self._threads[thread] = left


def _thread_key(agent_id: str, session_id: str) -> Thread:
    """Return checked ids of a thread. Raises InvalidNameError."""
    return check_id(agent_id, "agent id"), check_id(session_id, "session id")


def encode_message(message: ChatMessage) -> str:
    """Return a message as JSON text, for a durable store. Fields with their default are left out.

    >>> encode_message(ChatMessage("user", "Who owns the deal?", id="m1"))
    '{"role":"user","content":"Who owns the deal?","id":"m1"}'
    >>> decode_message(encode_message(ChatMessage("user", "Who owns the deal?", id="m1"))).id
    'm1'
    """
    fields: JSONDict = {
        "id": message.id,
        "pinned": message.pinned,
        "sources": list(message.sources),
        "metadata": dict(message.metadata),
        "run_id": message.run_id,
    }
    given = {name: value for name, value in fields.items() if value}
    if message.trust is not None:
        given["trust"] = int(message.trust)
    if message.created_at is not None:
        given["created_at"] = message.created_at.isoformat()
    return json_text({"role": message.role, "content": content_json(message.content), **given})


def decode_message(text: str) -> ChatMessage:
    """Return the message of which `encode_message` made a text. Raises CorruptionError."""
    try:
        fields = STRICT_JSON.decode(text)
        content = fields["content"]
        trust = fields.get("trust")
        return ChatMessage(
            fields["role"],
            content if isinstance(content, str) else stored_blocks(content),
            id=fields.get("id", ""),
            pinned=fields.get("pinned", False),
            sources=tuple(fields.get("sources", ())),
            trust=None if trust is None else Trust(trust),
            metadata=fields.get("metadata", {}),
            created_at=fields.get("created_at"),
            run_id=fields.get("run_id", ""),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CorruptionError(
            f"a stored message is damaged ({type(error).__name__}); restore the store from a copy"
        ) from error
