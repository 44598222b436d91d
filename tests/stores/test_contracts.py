"""The stores in memory pass the contracts that come with the package."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from kaosmem import InvalidArgumentError
from kaosmem.stores import (
    InMemoryFileStore,
    InMemoryGraphStore,
    InMemoryHistoryProvider,
    InMemoryLongTermMemory,
    InMemoryShortTermMemory,
    InMemoryTaskStore,
    InMemoryVectorStore,
)
from kaosmem.testing import (
    BlobContract,
    GraphContract,
    HistoryContract,
    LongTermContract,
    ShortTermContract,
    TaskContract,
    VectorContract,
)
from tests.stores.facts_machine import FactsMachine


class TestInMemoryHistory(HistoryContract):
    durable = False

    async def make(self) -> InMemoryHistoryProvider:
        return InMemoryHistoryProvider()


class TestInMemoryShortTerm(ShortTermContract):
    durable = False

    async def make(self) -> InMemoryShortTermMemory:
        return InMemoryShortTermMemory()


class TestInMemoryLongTerm(LongTermContract):
    durable = False

    async def make(self) -> InMemoryLongTermMemory:
        return InMemoryLongTermMemory(clock=self.clock)


class TestInMemoryVector(VectorContract):
    durable = False

    async def make(self) -> InMemoryVectorStore:
        return InMemoryVectorStore()


class TestInMemoryGraph(GraphContract):
    durable = False

    async def make(self) -> InMemoryGraphStore:
        return InMemoryGraphStore()


class TestInMemoryFiles(BlobContract):
    durable = False

    async def make(self) -> InMemoryFileStore:
        return InMemoryFileStore(clock=self.clock)


class TestInMemoryTasks(TaskContract):
    durable = False

    async def make(self) -> InMemoryTaskStore:
        return InMemoryTaskStore()


def test_facts_in_any_order_do_what_plain_values_do() -> None:
    """After any calls, the facts in memory are those of a model of plain values.

    The stores of facts share the rules of versions, so that no store is a model of another.
    """
    tried = settings(
        max_examples=25,
        stateful_step_count=25,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    run_state_machine_as_test(lambda: FactsMachine(TestInMemoryLongTerm()), settings=tried)


def test_a_contract_refuses_a_subclass_that_overrides_a_test() -> None:
    """Also if a class beside the contract brings the test."""
    test = "test_it_satisfies_the_protocol"
    beside = type("Beside", (), {test: None})
    for bases, own in (((HistoryContract,), {test: None}), ((beside, HistoryContract), {})):
        with pytest.raises(InvalidArgumentError, match=test):
            type("Lenient", bases, own)
