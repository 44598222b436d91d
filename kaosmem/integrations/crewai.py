"""CrewAI 1.x: a model around the one of an agent."""

from __future__ import annotations

from typing import Any

from crewai import BaseLLM
from pydantic import PrivateAttr

from kaosmem.integrations.chat_dicts import (
    read_chat_dict,
    split_system,
    with_system,
    write_chat_dict,
)
from kaosmem.integrations.model_calls import ModelCalls
from kaosmem.persistence.storage.places import Location


class KaosmemLLM(BaseLLM):
    """Keeps the conversation of an agent in a session, and packs each request of its model.

    Args:
        llm: The model that is called.
        location: The place of the sessions.
        conversation: The id of the conversation. Each agent has its own.
        options: Further arguments of `ModelCalls`, such as `budget`.
    """

    _llm: BaseLLM = PrivateAttr()
    _conversation: str = PrivateAttr()
    _calls: ModelCalls[Any] = PrivateAttr()

    def __init__(
        self, llm: BaseLLM, location: Location, *, conversation: str, **options: Any
    ) -> None:
        super().__init__(model=llm.model)
        self._llm = llm
        self._conversation = conversation
        self._calls = ModelCalls(
            location,
            read=read_chat_dict,
            write=lambda message, _: write_chat_dict(message),
            id_remedy="give conversation=...",
            **options,
        )

    def call(self, messages: Any, tools: Any = None, *args: Any, **options: Any) -> Any:
        """Pack a request. The agent tells the reply again in its next one."""
        given = [{"role": "user", "content": messages}] if isinstance(messages, str) else messages
        system, rest = split_system(given)
        packed = self._calls.request_now(self._conversation, rest, system=system, tools=tools or ())
        sent = with_system(packed.system, packed.messages)
        return self._llm.call(sent, tools, *args, **options)

    def supports_function_calling(self) -> bool:
        """Return whether the model takes schemas of tools."""
        check = getattr(self._llm, "supports_function_calling", None)
        return check is not None and check()
