"""CrewAI 1.x: a model around the one of an agent."""

from __future__ import annotations

from typing import Any

from pydantic import PrivateAttr

from kaosmem.errors import needs_extra
from kaosmem.integrations.chat_dicts import read_chat_dict, write_chat_dict
from kaosmem.integrations.conversations import now
from kaosmem.integrations.model_calls import ModelCalls
from kaosmem.persistence.storage.places import Location

with needs_extra("crewai"):
    from crewai import BaseLLM


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
        self,
        llm: BaseLLM,
        location: Location,
        *,
        conversation: str,
        **options: Any,
    ) -> None:
        super().__init__(model=llm.model)
        self._llm = llm
        self._conversation = conversation
        self._calls = ModelCalls(
            location,
            read=read_chat_dict,
            write=write_chat_dict,
            has_task_lists=True,
            **options,
        )

    def call(
        self,
        messages: Any,
        tools: Any = None,
        *args: Any,
        **options: Any,
    ) -> Any:
        """Pack a request, and keep an answer. The agent tells its calls again with their results."""
        given = [{"role": "user", "content": messages}] if isinstance(messages, str) else messages
        packed = now(self._calls.request(self._conversation, given, tools=tools or ()))
        reply = self._llm.call(packed.with_system, tools, *args, **options)
        if isinstance(reply, str) and "\nAction:" not in reply:
            now(self._calls.keep(self._conversation, [{"role": "assistant", "content": reply}]))
        return reply

    def supports_function_calling(self) -> bool:
        """Return whether the model takes schemas of tools."""
        check = getattr(self._llm, "supports_function_calling", None)
        return check is not None and check()
