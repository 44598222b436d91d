"""LangChain and LangGraph 1.x: a middleware for agents of `create_agent`, and a `BaseStore`."""

from __future__ import annotations

import json
import operator
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
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
from langgraph.store.base import (
    BaseStore,
    GetOp,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    validate_op_namespace,
)
from langgraph.store.base import Item as StoredValue
from langgraph.store.memory import InMemoryStore

from kaosmem.arguments import check_json, json_text
from kaosmem.errors import InvalidArgumentError
from kaosmem.integrations.chat_dicts import read_chat_dict, write_chat_dict
from kaosmem.integrations.model_calls import Calls, ModelCalls, Request, now, on_loop
from kaosmem.names import safe_id
from kaosmem.persistence.storage.places import Location
from kaosmem.sections.section import Section
from kaosmem.sections.spec import DEFAULT_SECTIONS, SectionSpec
from kaosmem.session.memory import SessionMemory
from kaosmem.session.sessions import Sessions
from kaosmem.session.synchronous import LOOP
from kaosmem.types.items import ChatMessage, Item

_Sync = Callable[[ModelRequest[Any]], ModelResponse[Any]]
_Async = Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
_Namespace = tuple[str, ...]

STORE_SECTION = SectionSpec("store", eviction="none")
"""The section that holds the values of a store, one item each."""
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "$eq": operator.eq,
    "$ne": operator.ne,
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


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


class KaosmemStore(BaseStore):
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

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Do operations in one turn of the session. Reads come before writes."""
        given = list(ops)
        return LOOP.run(lambda: self._batch(given))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Do the same as `batch`."""
        return await on_loop(self._batch(list(ops)))

    async def _batch(self, ops: list[Op]) -> list[Result]:
        for op in ops:
            validate_op_namespace(op)
        async with self._sessions.turn(self._session_id) as memory:
            results = [_read_op(memory, op) for op in ops]
            last = {_item_key(op.namespace, op.key): op for op in ops if isinstance(op, PutOp)}
            for op in last.values():
                _put(memory, op)
        return results


def _read_op(memory: SessionMemory, op: Op) -> Result:
    section = memory[STORE_SECTION.name]
    match op:
        case GetOp():
            item = section.keyed(_item_key(op.namespace, op.key))
            return None if item is None else StoredValue(**_fields(item))
        case SearchOp():
            return _search(memory, op)
        case ListNamespacesOp():
            return _namespaces(section, op)
    return None


def _put(memory: SessionMemory, op: PutOp) -> None:
    key = _item_key(op.namespace, op.key)
    old = memory[STORE_SECTION.name].keyed(key)
    if op.value is None:
        if old is not None:
            memory.remove(old.id)
        return
    metadata: dict[str, Any] = {"is_indexed": op.index is not False}
    if old is not None:
        metadata["first_stored"] = _first_stored(old).isoformat()
    content = json_text(check_json(op.value, "value"))
    memory.add(STORE_SECTION.name, content, key=key, metadata=metadata)


def _search(memory: SessionMemory, op: SearchOp) -> list[SearchItem]:
    found = []
    for item, score in _candidates(memory, op.query):
        fields = _fields(item)
        is_within = fields["namespace"][: len(op.namespace_prefix)] == op.namespace_prefix
        if is_within and _matches(fields["value"], op.filter or {}):
            found.append(SearchItem(**fields, score=score))
    return found[op.offset : op.offset + op.limit]


def _candidates(memory: SessionMemory, query: str | None) -> Iterator[tuple[Item, float | None]]:
    """Yield the live items, or the indexed ones that match a query, best first."""
    section = memory[STORE_SECTION.name]
    if not query:
        for item in section:
            yield item, None
        return
    hits = memory.search(query, STORE_SECTION.name, limit=len(section), archived=False)
    for item, score in hits:
        if item.metadata.get("is_indexed"):
            yield item, score


def _namespaces(section: Section, op: ListNamespacesOp) -> Result:
    """Return namespaces as LangGraph's own store does, which is given those of the section."""
    listed = InMemoryStore()
    for item in section:
        fields = _fields(item)
        listed.put(fields["namespace"], fields["key"], {})
    return listed.batch([op])[0]


def _matches(value: Any, wanted: Any) -> bool:
    """Return whether a value meets a filter: equal values, or comparisons, by field."""
    if not isinstance(wanted, Mapping):
        return bool(value == wanted)
    if any(name.startswith("$") for name in wanted):
        return all(_compares(value, name, bound) for name, bound in wanted.items())
    if not isinstance(value, Mapping):
        return False
    return all(_matches(value.get(name), each) for name, each in wanted.items())


def _compares(value: Any, name: str, bound: Any) -> bool:
    if name not in _COMPARISONS:
        raise InvalidArgumentError(
            f"a filter has the operator {name!r}; use one of {', '.join(_COMPARISONS)}"
        )
    try:
        return _COMPARISONS[name](value, bound)
    except TypeError:
        return False  # a number and a text, or a missing field, have no order


def _item_key(namespace: _Namespace, key: str) -> str:
    return json_text([*namespace, key])


def _fields(item: Item) -> dict[str, Any]:
    """Return the fields of a stored value."""
    *namespace, key = json.loads(item.key or "[]")
    return {
        "namespace": tuple(namespace),
        "key": key,
        "value": json.loads(item.text),
        "created_at": _first_stored(item),
        "updated_at": item.created_at,
    }


def _first_stored(item: Item) -> datetime:
    stored = item.metadata.get("first_stored")
    return item.created_at if stored is None else datetime.fromisoformat(str(stored))
