"""The stores in memory pass the contracts that come with the package."""

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
    ShortTermContract,
    TaskContract,
    VectorContract,
)
from tests.stores.compared import ComparedLongTerm


class TestInMemoryHistory(HistoryContract):
    durable = False

    async def make(self):
        return InMemoryHistoryProvider()


class TestInMemoryShortTerm(ShortTermContract):
    durable = False

    async def make(self):
        return InMemoryShortTermMemory()


class TestInMemoryLongTerm(ComparedLongTerm):
    durable = False

    async def make(self):
        return InMemoryLongTermMemory(clock=self.clock)


class TestInMemoryVector(VectorContract):
    durable = False

    async def make(self):
        return InMemoryVectorStore()


class TestInMemoryGraph(GraphContract):
    durable = False

    async def make(self):
        return InMemoryGraphStore()


class TestInMemoryFiles(BlobContract):
    durable = False

    async def make(self):
        return InMemoryFileStore(clock=self.clock)


class TestInMemoryTasks(TaskContract):
    durable = False

    async def make(self):
        return InMemoryTaskStore()
