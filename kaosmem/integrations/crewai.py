"""CrewAI 1.x: the model of an agent, with a memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from kaosmem.errors import needs_extra
from kaosmem.integrations.chat_dicts import read_chat_dict, write_chat_dict
from kaosmem.integrations.conversations import Framework, run_and_wait
from kaosmem.integrations.model_calls import ModelCalls
from kaosmem.persistence.storage.places import Location
from kaosmem.types import JSONDict
from kaosmem.types.content import ToolResultBlock
from kaosmem.types.items import ChatMessage

with needs_extra("crewai"):
    from crewai import BaseLLM
    from crewai.llms.base_llm import call_stop_override, call_stream_override


def write_message(message: ChatMessage) -> JSONDict:
    """Return a message as an agent writes it: a result names its tool, and calls may have no text."""
    written = write_chat_dict(message)
    written["content"] = written["content"] or None
    result = message.blocks[0]
    if isinstance(result, ToolResultBlock):
        written["name"] = result.name
    return written


_FRAMEWORK = Framework(read_chat_dict, write_message, has_task_lists=True)


def kaosmem_llm(
    llm: BaseLLM,
    location: Location,
    *,
    conversation: str,
    **options: Any,
) -> BaseLLM:
    """Return a copy of a model that keeps the conversation of its agent, and packs each request.

    The copy packs the calls of an agent's loop. Other calls pass unchanged, such as those that turn
    an answer into a Pydantic model. CrewAI does not summarise the list of an agent with this model:
    each request is within its budget.

    Args:
        llm: The model that is called. It stays as it is.
        location: The place of the sessions.
        conversation: The id of the conversation. Each agent has its own.
        options: Further arguments of `ModelCalls`, such as `budget`.
    """
    kept = copy(llm)
    chat = ModelCalls(location, _FRAMEWORK, conversation, **options)
    calls = _AgentCalls(kept, llm, chat)
    for name in ("call", "acall", "is_context_window_overflowing_threshold"):
        object.__setattr__(kept, name, getattr(calls, name))
    return kept


@dataclass
class _AgentCalls:
    """Methods of a copy of a model that take the place of its own."""

    kept: BaseLLM
    llm: BaseLLM
    calls: ModelCalls
    prompt: object = None

    def call(self, messages: Any, tools: Any = None, **options: Any) -> Any:
        with self._settings():
            if not self._is_of_loop(messages, **options):
                return self.llm.call(messages, tools, **options)
            packed = run_and_wait(self.calls.request(messages, tools=tools or ()))
            reply = self.llm.call(packed.with_system, tools, **options)
        run_and_wait(self.calls.keep(_answers(reply)))
        return reply

    async def acall(self, messages: Any, tools: Any = None, **options: Any) -> Any:
        with self._settings():
            if not self._is_of_loop(messages, **options):
                return await self.llm.acall(messages, tools, **options)
            packed = await self.calls.request(messages, tools=tools or ())
            reply = await self.llm.acall(packed.with_system, tools, **options)
        await self.calls.keep(_answers(reply))
        return reply

    @contextmanager
    def _settings(self) -> Iterator[None]:
        """Give the model the settings of its copy, which the agent changes for a call."""
        is_streamed = bool(self.kept._effective_stream())
        with (
            call_stop_override(self.llm, self.kept.stop_sequences),
            call_stream_override(self.llm, is_streamed),
        ):
            yield

    def is_context_window_overflowing_threshold(self, *_: Any, **__: Any) -> bool:
        return False

    def _is_of_loop(
        self,
        messages: Any,
        from_agent: Any = None,
        available_functions: Any = None,
        **_: Any,
    ) -> bool:
        """Return whether an agent's loop calls. Its last call names no agent, if it is forced."""
        if from_agent is None:
            return self.prompt is not None and messages[0] == self.prompt
        if available_functions:
            return False  # a plan
        self.prompt = messages[0]
        return True


def _answers(reply: Any) -> list[JSONDict]:
    """Return an answer in a list. The agent tells its calls again, with their results."""
    if isinstance(reply, BaseModel):
        reply = reply.model_dump_json()
    if not isinstance(reply, str) or "\nAction:" in f"\n{reply}":
        return []
    return [{"role": "assistant", "content": reply}]
