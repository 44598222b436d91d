"""LangChain and LangGraph 1.x: a middleware for agents of `create_agent`, and a `BaseStore`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from kaosmem.arguments import check_json, json_text
from kaosmem.errors import needs_extra
from kaosmem.integrations.chat_dicts import read_chat_dict, write_chat_dict
from kaosmem.integrations.conversations import Framework, in_loop, run_and_wait, sessions_with
from kaosmem.integrations.model_calls import PackedCalls
from kaosmem.persistence.storage.places import Location
from kaosmem.sections.spec import SectionSpec
from kaosmem.session.memory import SessionMemory
from kaosmem.types import JSONDict
from kaosmem.types.content import ToolResultBlock
from kaosmem.types.items import ChatMessage, Item

with needs_extra("langchain"):
    from langchain.agents.middleware import AgentMiddleware, ModelRequest
    from langchain_core import messages as lc
    from langchain_core.messages import SystemMessage
    from langchain_core.utils.function_calling import convert_to_openai_tool
    from langgraph.config import get_config
    from langgraph.store import base
    from langgraph.store.memory import InMemoryStore

_THINKING = ("reasoning", "thinking", "redacted_thinking")
_READ_ELSEWHERE = (*_THINKING, "function_call")
"""Parts of a content that are read from other fields of the message."""
_SEALED: JSONDict = {"output_version": "v1", "model_provider": "anthropic"}


def read_message(message: lc.BaseMessage) -> list[ChatMessage]:
    """Return a message as a list of one."""
    (given,) = lc.convert_to_openai_messages([message])
    thinking = []
    for block in message.content_blocks:
        if block["type"] == "reasoning":
            signature = block.get("extras", {}).get("signature")
            thinking.append({"thinking": block.get("reasoning") or "", "signature": signature})
        elif block["type"] == "non_standard" and block["value"].get("type") in _THINKING:
            thinking.append(block["value"])
    if not isinstance(given["content"], str):
        given["content"] = [part for part in given["content"] if not _is_read_elsewhere(part)]
    is_error = getattr(message, "status", "") == "error"
    return read_chat_dict({**given, "thinking_blocks": thinking}, is_error=is_error)


def _is_read_elsewhere(part: Any) -> bool:
    return part.get("value", part).get("type") in _READ_ELSEWHERE


def write_message(message: ChatMessage) -> lc.BaseMessage:
    """Return a message of the framework. A result of a tool is alone in its message."""
    written = write_chat_dict(message)
    reasoning = list(map(_reasoning, written.pop("thinking_blocks", ())))
    result = message.blocks[0]
    if isinstance(result, ToolResultBlock) and result.is_error:
        written["status"] = "error"
    (built,) = lc.convert_to_messages([written])
    if not reasoning:
        return built
    blocks = [*reasoning, *built.content_blocks]
    return lc.AIMessage(content_blocks=blocks, response_metadata=_SEALED)


def _reasoning(block: JSONDict) -> Any:
    if "data" in block:
        return {"type": "non_standard", "value": block}
    extras = {"signature": block["signature"]}
    return {"type": "reasoning", "reasoning": block["thinking"], "extras": extras}


_Request = ModelRequest[Any]


class KaosmemMiddleware(PackedCalls, AgentMiddleware[Any, Any, Any]):
    """Keeps each thread of an agent in a session, and packs each request of its model.

    The state of the graph stays as it is: the middleware changes the request alone.

    Args:
        location: The place of the sessions. Each thread id has one.
        options: Further arguments of `ModelCalls`, such as `budget`.
    """

    framework = Framework(
        read_message,
        write_message,
        id_remedy="call the agent with config={'configurable': {'thread_id': ...}}",
    )

    def wrap_model_call(self, request: _Request, handler: Callable[[_Request], Any]) -> Any:
        """Pack a request, and keep its reply."""
        thread = _thread_id()
        response = handler(run_and_wait(self._packed(thread, request)))
        run_and_wait(self.calls.keep(response.result, conversation=thread))
        return response

    async def awrap_model_call(self, request: _Request, handler: Callable[[_Request], Any]) -> Any:
        """Pack a request, and keep its reply."""
        thread = _thread_id()
        response = await handler(await self._packed(thread, request))
        await self.calls.keep(response.result, conversation=thread)
        return response

    async def _packed(self, thread: object, request: _Request) -> _Request:
        given = "" if request.system_message is None else request.system_message.text
        tools = [convert_to_openai_tool(tool) for tool in request.tools]
        packed = await self.calls.request(
            request.messages, conversation=thread, system=given, tools=tools
        )
        changes: dict[str, Any] = {"messages": packed.messages}
        if packed.system != given:
            changes["system_message"] = SystemMessage(packed.system)
        return request.override(**changes)


def _thread_id() -> object:
    return get_config().get("configurable", {}).get("thread_id")


STORE_SECTION = SectionSpec("store", eviction="none")
"""The section that holds the values of a store, one item each."""


class KaosmemStore(base.BaseStore):
    """A `BaseStore` in the section `store` of a session.

    A value is an item, and its namespace and key are the item's key: a new value is a new version,
    with a time of its own.
    A search with a query ranks the values as kaosmem ranks documents, and returns those that match.
    Deleted values move to the archive.

    Args:
        location: The place of the session `store`, which holds all namespaces.
        options: Further arguments of `Sessions`, such as `namespace` and `ranker`. The section
            `store` comes after own `sections`.
    """

    def __init__(self, location: Location, **options: Any) -> None:
        self._sessions = sessions_with([STORE_SECTION], location, options)

    def batch(self, ops: Iterable[base.Op]) -> list[base.Result]:
        """Do operations in one turn of the session. Reads come before writes."""
        return run_and_wait(self._batch(list(ops)))

    async def abatch(self, ops: Iterable[base.Op]) -> list[base.Result]:
        """Do the same as `batch`."""
        return await self._batch(list(ops))

    @in_loop
    async def _batch(self, ops: list[base.Op]) -> list[base.Result]:
        for op in ops:
            base.validate_op_namespace(op)
        async with self._sessions.turn("store") as memory:
            results = [_result(memory, op) for op in ops]
            puts = [op for op in ops if isinstance(op, base.PutOp)]
            for op in {_item_key(op): op for op in puts}.values():
                _put(memory, op)
        return results


def _result(memory: SessionMemory, op: base.Op) -> base.Result:
    section = memory[STORE_SECTION.name]
    match op:
        case base.GetOp():
            item = section.keyed(_item_key(op))
            return None if item is None else base.Item(**_fields(item))
        case base.SearchOp():
            return _search(memory, op)
        case base.ListNamespacesOp():
            return _in_memory(section).batch([op])[0]
    return None


def _search(memory: SessionMemory, op: base.SearchOp) -> list[base.SearchItem]:
    """Return the live items, or the indexed ones that match a query, best first."""
    section = memory[STORE_SECTION.name]
    limit = len(section)
    found = list(section)
    scores = {}
    if op.query:
        hits = memory.search(op.query, STORE_SECTION.name, limit, archived=False)
        found = [hit.item for hit in hits if hit.item.metadata["is_indexed"]]
        scores = {hit.item.id: hit.score for hit in hits}
    unranked = op._replace(query=None, limit=limit, offset=0)
    met: Any
    (met,) = _in_memory(found).batch([unranked])
    keys = {_item_key(each) for each in met}
    kept = [item for item in found if item.key in keys]
    shown = kept[op.offset : op.offset + op.limit]
    return [base.SearchItem(**_fields(item), score=scores.get(item.id)) for item in shown]


def _in_memory(items: Iterable[Item]) -> InMemoryStore:
    """Return the items in LangGraph's own store, which knows its conditions."""
    store = InMemoryStore()
    for item in items:
        fields = _fields(item)
        store.put(fields["namespace"], fields["key"], fields["value"])
    return store


def _put(memory: SessionMemory, op: base.PutOp) -> None:
    key = _item_key(op)
    old = memory[STORE_SECTION.name].keyed(key)
    if op.value is not None:
        content = json_text(check_json(op.value, "value"))
        metadata = {"is_indexed": op.index is not False}
        memory.add(STORE_SECTION.name, content, key=key, metadata=metadata)
    elif old is not None:
        memory.remove(old.id)


def _item_key(op: base.GetOp | base.PutOp | base.Item) -> str:
    return json_text([*op.namespace, op.key])


def _fields(item: Item) -> dict[str, Any]:
    """Return the fields of a stored value."""
    *namespace, key = json.loads(item.key or "[]")
    return {
        "namespace": tuple(namespace),
        "key": key,
        "value": json.loads(item.text),
        "created_at": item.created_at,
        "updated_at": item.created_at,
    }
