"""The memory of an agent or a chat engine."""

from __future__ import annotations

from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import BaseMemory
from pydantic import PrivateAttr

from kaosmem.integrations.conversations import now
from kaosmem.integrations.llama_index.messages import read_message, write_message
from kaosmem.integrations.model_calls import ModelCalls
from kaosmem.persistence.storage.places import Location


class KaosmemMemory(BaseMemory):
    """Keeps a conversation in a session, and gives the packed request.

    An agent adds its instructions, and the messages of its loop of tools, behind the memory's back:
    they come in at the end of a run. Leave room for them: the budget is that of the memory alone.

    Args:
        location: The place of the sessions.
        conversation: The id of the conversation.
        options: Further arguments of `ModelCalls`, such as `budget`.
    """

    _conversation: str = PrivateAttr()
    _calls: ModelCalls[ChatMessage] = PrivateAttr()
    _recent: list[ChatMessage] = PrivateAttr(default_factory=list)

    def __init__(
        self,
        location: Location,
        *,
        conversation: str,
        **options: Any,
    ) -> None:
        super().__init__()
        self._conversation = conversation
        self._calls = ModelCalls(location, read=read_message, write=write_message, **options)

    @classmethod
    def from_defaults(cls, **options: Any) -> KaosmemMemory:
        """Return a memory. The arguments are those of the class."""
        return cls(**options)

    def get(self, input: str | None = None, **_: Any) -> list[ChatMessage]:
        """Return the packed request."""
        return now(self._calls.request(self._conversation, self._recent)).with_system

    def get_all(self) -> list[ChatMessage]:
        """Return all messages that the session holds live."""
        return now(self._calls.all(self._conversation))

    def put(self, message: ChatMessage) -> None:
        """Store a message."""
        self._recent.append(message)
        now(self._calls.keep(self._conversation, [message]))

    def set(self, messages: list[ChatMessage]) -> None:
        """Store the new ones of messages that stand for the whole conversation."""
        self._recent = list(messages)
        now(self._calls.request(self._conversation, self._recent))

    def reset(self) -> None:
        """Move all messages to the archive."""
        self._recent = []
        now(self._calls.clear(self._conversation))
