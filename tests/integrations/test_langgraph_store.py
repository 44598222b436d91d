"""A store of LangGraph in a session does what LangGraph's own store does."""

from __future__ import annotations

from datetime import datetime
from typing import TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.graph import START, StateGraph
from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore

from kaosmem import InvalidArgumentError, SyncSessionMemory
from kaosmem.integrations.langchain import STORE_SECTION, KaosmemStore

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")

LABELS = st.sampled_from(["users", "ann", "bob", "1"])
NAMESPACES = st.lists(LABELS, min_size=1, max_size=3).map(tuple)
KEYS = st.sampled_from(["a", "b", 'users"]', "c.d"])
VALUES = st.fixed_dictionaries(
    {"number": st.integers(0, 5)},
    optional={"text": st.text(max_size=5), "part": st.fixed_dictionaries({"lang": LABELS})},
)
FILTERS = st.none() | st.one_of(
    st.builds(lambda number: {"number": number}, st.integers(0, 5)),
    st.builds(lambda number: {"number": {"$gte": number, "$ne": 3}}, st.integers(0, 5)),
    st.builds(lambda lang: {"part": {"lang": lang}}, LABELS),
)
CONDITIONS = st.tuples(st.builds(MatchCondition, st.sampled_from(["prefix", "suffix"]), NAMESPACES))
OPS = st.one_of(
    st.builds(lambda *given: PutOp(*given), NAMESPACES, KEYS, VALUES | st.none()),
    st.builds(GetOp, NAMESPACES, KEYS),
    st.builds(
        lambda prefix, wanted: SearchOp(prefix, wanted, 1_000), NAMESPACES | st.just(()), FILTERS
    ),
    st.builds(ListNamespacesOp, st.none() | CONDITIONS, st.none() | st.integers(1, 3)),
)


def shown(op, result):
    """Return a result without its times. Searches without a query have no order."""
    if isinstance(op, GetOp) and result is not None:
        return result.namespace, result.key, result.value
    if isinstance(op, SearchOp):
        return sorted(repr((each.namespace, each.key, each.value)) for each in result)
    return result


@given(batches=st.lists(st.lists(OPS, max_size=6), max_size=6))
def test_batches_do_the_same_as_those_of_the_store_in_memory(batches, tmp_path_factory):
    """Any puts, deletions, reads and searches have LangGraph's results, in any namespaces."""
    store = KaosmemStore(tmp_path_factory.mktemp("store"))
    model = InMemoryStore()
    for ops in batches:
        pairs = zip(ops, store.batch(ops), model.batch(ops), strict=True)
        for op, result, expected in pairs:
            assert shown(op, result) == shown(op, expected)


async def test_a_graph_stores_and_finds_in_another_process(tmp_path):
    """A node writes by its runtime; a new store ranks by a query, within the namespace and filter."""

    class State(TypedDict):
        said: str

    async def remember(state, runtime):
        await runtime.store.aput(("users", "ann"), "drink", {"text": state["said"], "kind": "like"})
        await runtime.store.aput(
            ("users", "ann"), "pet", {"text": "Ann has a dog.", "kind": "fact"}
        )
        await runtime.store.aput(("users", "bob"), "drink", {"text": "Bob drinks green tea."})
        await runtime.store.aput(("users", "ann"), "pin", {"text": "green tea"}, index=False)
        return state

    builder = StateGraph(State)
    builder.add_node("remember", remember)
    builder.add_edge(START, "remember")
    graph = builder.compile(store=KaosmemStore(tmp_path))
    await graph.ainvoke({"said": "Ann drinks green tea."})
    store = KaosmemStore(tmp_path)
    found = await store.asearch(("users", "ann"), query="Which tea is green?")
    assert [item.key for item in found] == ["drink"]
    assert found[0].score
    assert await store.asearch((), query="green tea", filter={"kind": "fact"}) == []
    assert store.get(("users", "ann"), "pin").value == {"text": "green tea"}


def test_values_keep_their_versions(tmp_path):
    """A new value has a time of its own; the session has both, and a deleted one."""
    store = KaosmemStore(tmp_path)
    store.put(("deal",), "owner", {"name": "Ann"})
    first = store.get(("deal",), "owner")
    store.put(("deal",), "owner", {"name": "Bob"})
    item = store.get(("deal",), "owner")
    assert item.value == {"name": "Bob"}
    assert first.created_at == first.updated_at <= item.updated_at
    store.delete(("deal",), "owner")
    store.delete(("deal",), "owner")
    assert store.get(("deal",), "owner") is None
    with SyncSessionMemory.open(tmp_path, "store", sections=None) as memory:
        versions = memory.versions('["deal","owner"]', STORE_SECTION.name)
    assert [version.item.text for version in versions] == ['{"name":"Ann"}', '{"name":"Bob"}']


@pytest.mark.parametrize(
    ("work", "error"),
    [
        (lambda store: store.batch([PutOp(("a.b",), "k", {})]), InvalidNamespaceError),
        (lambda store: store.put(("a",), "k", {"value": {1, 2}}), InvalidArgumentError),
        (lambda store: store.search(("a",), filter={"n": {"$near": 1}}), ValueError),
        (lambda store: store.put(("a",), "k", {}, ttl=5), NotImplementedError),
    ],
)
def test_wrong_operations_change_nothing(work, error, tmp_path):
    """Each raises a typed error, and the values stay."""
    store = KaosmemStore(tmp_path)
    store.put(("a",), "k", {"n": 1})
    with pytest.raises(error):
        work(store)
    kept = store.get(("a",), "k")
    assert kept.value == {"n": 1}
    assert isinstance(kept.updated_at, datetime)
