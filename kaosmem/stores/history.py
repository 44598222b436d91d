"""Messages of conversations, in order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Protocol, runtime_checkable

from kaosmem.arguments import check_count, check_several
from kaosmem.errors import InvalidContentError
from kaosmem.names import check_id, check_item_id
from kaosmem.types import ChatMessage, check_content, check_text


@runtime_checkable
class HistoryProvider(Protocol):
    """The messages of each agent in each session: a thread, in the order of appending.

    agent_id, session_id, run_id: any text of 1 to 256 characters without control characters. Different ids never
        collide.
    With `run_id=""` a message belongs to no run. An unknown thread is empty.
    All methods raise InvalidNameError for an id, before anything has changed.
    """

    async def append(self, agent_id: str, message: ChatMessage, session_id: str, run_id: str = "") -> None:
        """Append a message. Raises InvalidContentError."""
        ...

    async def append_many(
        self, agent_id: str, messages: Iterable[ChatMessage], session_id: str, run_id: str = ""
    ) -> None:
        """Append messages with none of another's between them; all, or, raising, none.

        Raises InvalidContentError, and InvalidArgumentError for what is no list of messages.
        """
        ...

    async def get_messages(
        self, agent_id: str, session_id: str, limit: int | None = None, offset: int = 0
    ) -> list[ChatMessage]:
        """Return messages, oldest first: `limit` (None for all) after the `offset` oldest.

        The last n of a thread are those from `offset=await count_messages(...) - n`.
        Raises InvalidArgumentError for a negative number.
        """
        ...

    async def count_messages(self, agent_id: str, session_id: str) -> int:
        """Return how many messages there are."""
        ...

    async def clear(self, agent_id: str, session_id: str) -> None:
        """Delete the thread."""
        ...

    async def clear_run(self, agent_id: str, session_id: str, run_id: str) -> None:
        """Delete the thread's messages of one run; "" is no run, and refused."""
        ...


def check_message(message: object) -> ChatMessage:
    """Return a message as it can be stored. Raises InvalidContentError."""
    if not isinstance(message, ChatMessage):
        raise InvalidContentError(f"a message is a {type(message).__name__}; give a ChatMessage")
    check_text(message.role, "role")
    if message.id:
        check_item_id(message.id)
    content = check_content(message.content)
    return message if content is message.content else replace(message, content=content)


class InMemoryHistoryProvider:
    """A HistoryProvider in this process.

    >>> history = InMemoryHistoryProvider()
    >>> await history.append("analyst", ChatMessage("user", "Who owns the deal?"), session_id="room-7")
    >>> await history.count_messages("analyst", session_id="room-7")
    1
    """

    def __init__(self) -> None:
        self._threads: dict[tuple[str, str], list[tuple[str, ChatMessage]]] = {}

    async def append(self, agent_id: str, message: ChatMessage, session_id: str, run_id: str = "") -> None:
        await self.append_many(agent_id, (message,), session_id=session_id, run_id=run_id)

    async def append_many(
        self, agent_id: str, messages: Iterable[ChatMessage], session_id: str, run_id: str = ""
    ) -> None:
        thread, run = _thread_key(agent_id, session_id), run_id if run_id == "" else check_id(run_id, "run id")
        if new := [(run, check_message(message)) for message in check_several(messages, "messages")]:
            self._threads.setdefault(thread, []).extend(new)

    async def get_messages(
        self, agent_id: str, session_id: str, limit: int | None = None, offset: int = 0
    ) -> list[ChatMessage]:
        thread, start = self._thread(agent_id, session_id), check_count(offset, "offset")
        end = None if limit is None else start + check_count(limit, "limit")
        return [message for _, message in thread[start:end]]

    async def count_messages(self, agent_id: str, session_id: str) -> int:
        return len(self._thread(agent_id, session_id))

    async def clear(self, agent_id: str, session_id: str) -> None:
        self._threads.pop(_thread_key(agent_id, session_id), None)

    async def clear_run(self, agent_id: str, session_id: str, run_id: str) -> None:
        thread = self._thread(agent_id, session_id)
        check_id(run_id, "run id")
        thread[:] = [(run, message) for run, message in thread if run != run_id]

    def _thread(self, agent_id: str, session_id: str) -> list[tuple[str, ChatMessage]]:
        return self._threads.get(_thread_key(agent_id, session_id), [])


def _thread_key(agent_id: str, session_id: str) -> tuple[str, str]:
    return check_id(agent_id, "agent id"), check_id(session_id, "session id")
