"""A middleware for agents of `create_agent`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages import (
    BaseMessage,
    SystemMessage,
    convert_to_messages,
    convert_to_openai_messages,
)
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.config import get_config

from kaosmem.integrations.chat_dicts import read_chat_dict, write_chat_dict
from kaosmem.integrations.model_calls import ModelCalls, Request, now, on_loop
from kaosmem.persistence.storage.places import Location
from kaosmem.types.items import ChatMessage

_Sync = Callable[[ModelRequest[Any]], ModelResponse[Any]]
_Async = Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]


class KaosmemMiddleware(AgentMiddleware[Any, Any, Any]):
    """Keeps each thread of an agent in a session, and packs each request of its model.

    The state of the graph stays as it is: the middleware changes the request alone.

    Args:
        location: The place of the sessions. Each thread id has one.
        options: Further arguments of `ModelCalls`, such as `budget`.
    """

    def __init__(self, location: Location, **options: Any) -> None:
        super().__init__()
        remedy = "call the agent with config={'configurable': {'thread_id': ...}}"
        self.calls: ModelCalls[BaseMessage] = ModelCalls(
            location, read=_read, write=_write, id_remedy=remedy, **options
        )

    def wrap_model_call(self, request: ModelRequest[Any], handler: _Sync) -> ModelResponse[Any]:
        """Pack a request, and keep its reply."""
        thread = _thread()
        packed = now(self.calls.request(thread, request.messages, **_beside(request)))
        response = handler(_packed(request, packed))
        now(self.calls.keep(thread, response.result))
        return response

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: _Async
    ) -> ModelResponse[Any]:
        """Pack a request, and keep its reply."""
        thread = _thread()
        packed = await on_loop(self.calls.request(thread, request.messages, **_beside(request)))
        response = await handler(_packed(request, packed))
        await on_loop(self.calls.keep(thread, response.result))
        return response


def _thread() -> object:
    return get_config().get("configurable", {}).get("thread_id")


def _beside(request: ModelRequest[Any]) -> dict[str, Any]:
    """Return the parts of a request beside its messages."""
    system = "" if request.system_message is None else request.system_message.text
    return {"system": system, "tools": [convert_to_openai_tool(tool) for tool in request.tools]}


def _packed(request: ModelRequest[Any], packed: Request[BaseMessage]) -> ModelRequest[Any]:
    system = request.system_message
    if packed.system != ("" if system is None else system.text):
        system = SystemMessage(packed.system)
    return request.override(system_message=system, messages=list[Any](packed.messages))


def _read(message: BaseMessage) -> list[ChatMessage]:
    (given,) = convert_to_openai_messages([message])
    thinking = []
    for block in message.content_blocks:
        if block["type"] == "reasoning":
            signature = block.get("extras", {}).get("signature")
            thinking.append({"thinking": block.get("reasoning"), "signature": signature})
    return read_chat_dict({**given, "thinking_blocks": thinking})


def _write(message: ChatMessage) -> BaseMessage:
    written = write_chat_dict(message)
    reasoning = []
    for block in written.pop("thinking_blocks", ()):
        extras = {"signature": block.get("signature", "")}
        reasoning.append({"type": "reasoning", "reasoning": block["thinking"], "extras": extras})
    if reasoning:
        written["content"] = [*reasoning, {"type": "text", "text": message.text}]
    (built,) = convert_to_messages([written])
    return built
