"""A middleware for agents of `create_agent`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelRequest
from langchain_core.messages import BaseMessage, SystemMessage
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.config import get_config

from kaosmem.integrations.conversations import now, on_loop
from kaosmem.integrations.langchain.messages import read_message, write_message
from kaosmem.integrations.model_calls import ModelCalls
from kaosmem.persistence.storage.places import Location

_Request = ModelRequest[Any]


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
            location, read=read_message, write=write_message, id_remedy=remedy, **options
        )

    def wrap_model_call(self, request: _Request, handler: Callable[[_Request], Any]) -> Any:
        """Pack a request, and keep its reply."""
        thread = get_config().get("configurable", {}).get("thread_id")
        response = handler(now(self._packed(thread, request)))
        now(self.calls.keep(thread, response.result))
        return response

    async def awrap_model_call(self, request: _Request, handler: Callable[[_Request], Any]) -> Any:
        """Pack a request, and keep its reply."""
        thread = get_config().get("configurable", {}).get("thread_id")
        response = await handler(await on_loop(self._packed(thread, request)))
        await on_loop(self.calls.keep(thread, response.result))
        return response

    async def _packed(self, thread: object, request: _Request) -> _Request:
        given = "" if request.system_message is None else request.system_message.text
        tools = [convert_to_openai_tool(tool) for tool in request.tools]
        packed = await self.calls.request(thread, request.messages, system=given, tools=tools)
        changes: dict[str, Any] = {"messages": packed.messages}
        if packed.system != given:
            changes["system_message"] = SystemMessage(packed.system)
        return request.override(**changes)
