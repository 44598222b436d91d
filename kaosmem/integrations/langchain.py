"""LangChain and LangGraph 1.x: a middleware for agents of `create_agent`, and a `BaseStore`."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    SystemMessage,
    convert_to_messages,
    convert_to_openai_messages,
)
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.config import get_config
from langgraph.store import base
from langgraph.store.memory import InMemoryStore

from kaosmem.arguments import check_json, json_text
from kaosmem.filters import parse_filter
from kaosmem.integrations.chat_dicts import read_chat_dict, write_chat_dict
from kaosmem.integrations.model_calls import Calls, ModelCalls, Request, now, on_loop
from kaosmem.names import safe_id
from kaosmem.persistence.storage.places import Location
from kaosmem.sections.spec import DEFAULT_SECTIONS, SectionSpec
from kaosmem.session.memory import SessionMemory
from kaosmem.session.sessions import Sessions
from kaosmem.types.items import ChatMessage, Item

_Sync = Callable[[ModelRequest[Any]], ModelResponse[Any]]
_Async = Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]

STORE_SECTION = SectionSpec("store", eviction="none")
"""The section that holds the values of a store, one item each."""


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


def _write(message: ChatMessage, calls: Calls) -> BaseMessage:
    written = write_chat_dict(message)
    thinking = written.pop("thinking_blocks", ())
    (built,) = convert_to_messages([written])
    if thinking and isinstance(built, AIMessage):
        blocks = []
        for block in thinking:
            extras = {"signature": block.get("signature", "")}
            blocks.append({"type": "reasoning", "reasoning": block["thinking"], "extras": extras})
        built.content = [*blocks, {"type": "text", "text": built.text}]
    return built


class KaosmemStore(base.BaseStore):
    """A `BaseStore` in the section `store` of a session.

    A value is an item, and its namespace and key are the item's key: a new value is a new version.
    A search with a query ranks the values as kaosmem ranks documents, and returns those that match.
    Deleted values move to the archive.

    Args:
        location: The place of the session.
        session_id: The session that holds all namespaces.
        options: Further arguments of `Sessions`, such as `namespace` and `ranker`. Own `sections`
            need one of the name `store`, such as `STORE_SECTION`.
    """

    def __init__(self, location: Location, *, session_id: str = "store", **options: Any) -> None:
        self._session_id = safe_id(session_id)
        sections = (*DEFAULT_SECTIONS, STORE_SECTION)
        self._sessions = Sessions(location, **{"sections": sections, **options})

    def batch(self, ops: Iterable[base.Op]) -> list[base.Result]:
        """Do operations in one turn of the session. Reads come before writes."""
        return now(self._batch(list(ops)))

    async def abatch(self, ops: Iterable[base.Op]) -> list[base.Result]:
        """Do the same as `batch`."""
        return await on_loop(self._batch(list(ops)))

    async def _batch(self, ops: list[base.Op]) -> list[base.Result]:
        for op in ops:
            base.validate_op_namespace(op)
        async with self._sessions.turn(self._session_id) as memory:
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
            listed = InMemoryStore()
            for item in section:
                listed.put(_fields(item)["namespace"], item.id, {})
            return listed.batch([op])[0]
    return None


def _put(memory: SessionMemory, op: base.PutOp) -> None:
    key = _item_key(op)
    old = memory[STORE_SECTION.name].keyed(key)
    if op.value is not None:
        first = None if old is None else _fields(old)["created_at"].isoformat()
        metadata: dict[str, Any] = {"is_indexed": op.index is not False, "first_stored": first}
        content = json_text(check_json(op.value, "value"))
        memory.add(STORE_SECTION.name, content, key=key, metadata=metadata)
    elif old is not None:
        memory.remove(old.id)


def _search(memory: SessionMemory, op: base.SearchOp) -> list[base.SearchItem]:
    """Return the live items, or the indexed ones that match a query, best first."""
    section = memory[STORE_SECTION.name]
    candidates: list[tuple[Item, float | None]] = [(item, None) for item in section]
    if op.query:
        limit = len(section)
        hits = memory.search(op.query, STORE_SECTION.name, limit, archived=False)
        candidates = [(hit.item, hit.score) for hit in hits if hit.item.metadata["is_indexed"]]
    found = []
    for item, score in candidates:
        fields = _fields(item)
        is_within = fields["namespace"][: len(op.namespace_prefix)] == op.namespace_prefix
        if is_within and _matches(fields["value"], op.filter or {}):
            found.append(base.SearchItem(**fields, score=score))
    return found[op.offset : op.offset + op.limit]


def _matches(value: Any, wanted: Any) -> bool:
    """Return whether a value meets a filter: equal values, or comparisons, by field."""
    if not isinstance(wanted, Mapping):
        return bool(value == wanted)
    if any(name.startswith("$") for name in wanted):
        return parse_filter({"value": wanted}).matches({"value": value})
    if not isinstance(value, Mapping):
        return False
    return all(_matches(value.get(name), each) for name, each in wanted.items())


def _item_key(op: base.GetOp | base.PutOp) -> str:
    return json_text([*op.namespace, op.key])


def _fields(item: Item) -> dict[str, Any]:
    """Return the fields of a stored value."""
    *namespace, key = json.loads(item.key or "[]")
    first = item.metadata.get("first_stored")
    return {
        "namespace": tuple(namespace),
        "key": key,
        "value": json.loads(item.text),
        "created_at": datetime.fromisoformat(str(first)) if first else item.created_at,
        "updated_at": item.created_at,
    }
