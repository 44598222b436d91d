"""The contracts of stores with a state machine: any calls do what they do to a store in memory."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Iterable, Mapping
from itertools import product
from typing import Any, ClassVar, NamedTuple, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from kaosmem import ChatMessage, InvalidArgumentError, KaosmemError
from kaosmem.entities import Entity, Relationship
from kaosmem.stores import (
    InMemoryFileStore,
    InMemoryGraphStore,
    InMemoryHistoryProvider,
    InMemoryShortTermMemory,
    InMemoryTaskStore,
    InMemoryVectorStore,
    Task,
    TaskStatus,
    VectorDocument,
)
from kaosmem.stores.vector import SearchResult
from kaosmem.testing import (
    BlobContract,
    GraphContract,
    HistoryContract,
    LongTermContract,
    ShortTermContract,
    TaskContract,
    VectorContract,
)
from kaosmem.testing.contracts.history import BLOCKS
from kaosmem.testing.contracts.store import IDS, TEXTS, Clock
from kaosmem.testing.contracts.task import act_on
from tests.stores.facts_machine import FactsMachine
from tests.stores.values import spoil, texts, values

T = TypeVar("T")

metadata = st.dictionaries(
    st.sampled_from(["k", "k", "j"]), st.sampled_from(["a", "b", 1, 2, True, None, ["a", "b"]])
)
_conditions = st.one_of(
    st.sampled_from(["a", "b", 1, True, None]),
    st.fixed_dictionaries({"$ne": st.sampled_from(["a", 1])}),
    st.fixed_dictionaries({"$in": st.lists(st.sampled_from(["a", 2]), max_size=2)}),
    st.fixed_dictionaries({"$gte": st.sampled_from(["b", 2])}),
    st.fixed_dictionaries({"$exists": st.booleans()}),
)
filters = st.recursive(
    st.dictionaries(st.sampled_from(["k", "j"]), _conditions, max_size=2),
    lambda inner: (
        st.fixed_dictionaries({"$not": inner})
        | st.fixed_dictionaries({"$if_present": inner})
        | st.fixed_dictionaries({"$or": st.lists(inner, min_size=1, max_size=2)})
    ),
    max_leaves=3,
)


class Step(NamedTuple):
    """A call of a store: the name of its method and the arguments."""

    method: str
    arguments: tuple[Any, ...] = ()
    options: Mapping[str, Any] = {}


def steps(method, *arguments, **options):
    """Return a strategy of calls of a method."""
    return st.builds(Step, st.just(method), st.tuples(*arguments), st.fixed_dictionaries(options))


class Compared:
    """A contract of stores, with a comparison beside it.

    Attributes:
        model: A store in memory, which does in any order of calls what the store does.
        expires: Whether stored things have times to live.
        reads: Calls that show all of the store to the comparison.
        examples, steps: How much it tries.
    """

    model: ClassVar[Callable[..., Any]]
    expires: ClassVar[bool] = False
    reads: ClassVar[Iterable[Step]] = ()
    examples: ClassVar[int] = 25
    steps: ClassVar[int] = 25

    async def test_anything_in_any_order_does_what_the_model_does(self):
        """After any calls, the store reads as a store in memory does."""
        tried = settings(
            max_examples=self.examples,
            stateful_step_count=self.steps,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        )
        # In a thread, since the machine has an event loop of its own.
        await asyncio.to_thread(run_state_machine_as_test, self.machine(), settings=tried)

    def operations(self):
        """Return the calls that the comparison with the model chooses from."""
        raise NotImplementedError

    async def outcome(self, store, step, ids):
        """Do a step, and return its result or error as a value that is the same for each store.

        Afterwards the arguments and the result are changed. Nothing that is stored may change.

        Args:
            ids: Of this store, which the comparison may add to.
        """
        given = copy.deepcopy(step)
        try:
            result = await getattr(store, given.method)(*given.arguments, **given.options)
        except KaosmemError as error:
            return type(error)
        found = self.comparable(result, ids)
        spoil([given.arguments, given.options, result])
        return found

    def comparable(self, result, ids):
        """Return a copy of a result that is the same for each store."""
        return copy.deepcopy(result)

    def machine(self):
        """Return a constructor of the state machine of these operations."""
        # Three times, so that the store is seldom emptied and reopened.
        chosen = [*self.operations(), *self.operations(), *self.operations(), steps("delete_all")]
        if self.durable:
            chosen.append(steps("reopen"))
        if self.expires:
            chosen.append(steps("wait"))

        class Machine(StoreMachine):
            @rule(step=st.one_of(*chosen))
            def do(self, step):
                self.compare(step)

        return lambda: Machine(self)


class StoreMachine(RuleBasedStateMachine):
    """A store and its model, to which the same steps are done."""

    def __init__(self, contract):
        super().__init__()
        self._contract = contract
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._clock = Clock()
        model = type(contract).model
        self._model = model(clock=self._clock) if contract.expires else model()
        self._model_ids = []
        self._store = self._ask(contract.opened())
        self._store_ids = []

    @invariant()
    def both_read_the_same(self):
        listed = self._ask(self._contract.listed(self._store))
        assert listed == self._ask(self._contract.listed(self._model))
        for step in self._contract.reads:
            self.compare(step)

    def compare(self, step):
        """Do a step to both. A step may also be to reopen the store, or to let time pass."""
        if step.method == "reopen":
            self._store = self._ask(self._contract.reopen(self._store))
            return
        if step.method == "wait":
            self._clock.advance(self._contract.ttl_s)
            self._ask(self._contract.wait(self._contract.ttl_s))
            return
        expected = self._ask(self._contract.outcome(self._model, step, self._model_ids))
        assert self._ask(self._contract.outcome(self._store, step, self._store_ids)) == expected

    def teardown(self):
        self._ask(self._contract.close(self._store))
        self._runner.close()

    def _ask(self, asked):
        """Return the result of a call."""
        # Not by the runner, which takes and gives back the handler of Ctrl-C for each call.
        return self._runner.get_loop().run_until_complete(asked)


_FIRST = ("a", "a:b")
_SECOND = ("b:a", "a")
# Pairs of ids that would be one if they were joined.
_PAIRS = tuple(product(_FIRST, _SECOND))
_first = st.sampled_from(_FIRST)
_second = st.sampled_from(_SECOND)


class ComparedHistory(Compared, HistoryContract):
    model = InMemoryHistoryProvider
    reads = tuple(
        Step(method, pair) for method, pair in product(("get_messages", "count_messages"), _PAIRS)
    )

    def operations(self):
        roles = st.sampled_from(["user", "assistant", "tool", "critic"])
        messages = st.builds(ChatMessage, roles, texts) | st.just(ChatMessage("assistant", BLOCKS))
        runs = st.sampled_from(["", "r", "r-1"])
        numbers = st.integers(0, 6)
        yield steps("append", _first, messages, _second, runs)
        yield steps("append_many", _first, st.lists(messages, max_size=5), _second, runs)
        yield steps("clear", _first, _second)
        yield steps("clear_run", _first, _second, st.sampled_from(["r", "r-1"]))
        yield steps("get_messages", _first, _second, st.none() | numbers, numbers)

    def comparable(self, result, ids):
        """Return another list of the same messages."""
        return [*result] if isinstance(result, list) else result


class ComparedShortTerm(Compared, ShortTermContract):
    model = InMemoryShortTermMemory
    reads = tuple(Step("get_state", (each,)) for each in ("a", "a-b", "A"))

    def operations(self):
        sessions = st.sampled_from(["a", "a-b", "A"])
        names = st.sampled_from(["plan", "Plan", "plan.step", "", "é"])
        nested = st.dictionaries(names, st.integers(0, 1), max_size=2)
        states = st.dictionaries(names, nested | values, max_size=3)
        yield steps("set_state", sessions, states)
        yield steps("update_state", sessions, states)
        yield steps("clear", sessions)


_BLOB_KEYS = ("a", "a/b", "A")


class ComparedBlob(Compared, BlobContract):
    model = InMemoryFileStore
    expires = True
    reads = tuple(
        Step(method, (key,)) for method, key in product(("download", "describe"), _BLOB_KEYS)
    )

    def operations(self):
        keys = st.sampled_from(_BLOB_KEYS)
        lives = st.sampled_from([None, None, self.ttl_s, 2 * self.ttl_s])
        data = st.binary(max_size=9).map(bytearray)
        yield steps("upload", keys, data, content_type=st.just("text/plain"), ttl=lives)
        yield steps("delete", keys)
        yield steps("disconnect")
        yield steps("connect")


class ComparedVector(Compared, VectorContract):
    model = InMemoryVectorStore
    reads = tuple(Step("get", (IDS,), {"collection": each}) for each in "cC")

    def operations(self):
        collections = st.sampled_from("cC")
        ids = st.sampled_from(IDS)
        vectors = st.lists(st.integers(-2, 2), min_size=3, max_size=3).filter(any)
        document = st.builds(VectorDocument, st.sampled_from(TEXTS), ids, vectors, metadata)
        documents = st.lists(document, min_size=1, max_size=4)
        yield steps("add", documents, collection=collections)
        yield steps("upsert", documents, collection=collections)
        yield steps("delete", st.lists(ids, max_size=2), collection=collections)
        yield steps("delete_collection", collections)
        yield steps(
            "search",
            vectors,
            collection=collections,
            limit=st.integers(0, 5),
            filter=st.none() | filters,
        )

    def comparable(self, result, ids):
        """Return documents and results with rounded numbers."""
        return [_rounded(each) for each in result or ()]


def _rounded(found):
    numbers = [found.score] if isinstance(found, SearchResult) else found.embedding or ()
    rounded = [round(each, 4) for each in numbers]
    return found.id, found.content, copy.deepcopy(found.metadata), rounded


_ENDS = ("a", "b", "c", "d", "e", "A")


class ComparedGraph(Compared, GraphContract):
    model = InMemoryGraphStore
    reads = (Step("get_entities", (_ENDS,)),)

    def operations(self):
        ends = st.sampled_from(_ENDS)
        kinds = st.sampled_from(["owns", "Owns", "owns:all", "*", "a'; --"])
        properties = st.dictionaries(st.sampled_from(["since", "Since", ""]), values, max_size=2)
        ids = st.sampled_from(["", "", "r", "R"])
        relationships = st.builds(Relationship, ends, ends, kinds, texts, properties, ids)
        aliases = st.lists(texts, max_size=2)
        entities = st.builds(Entity, ends, texts, texts, texts, aliases, properties)
        depths = st.integers(1, 4)
        yield steps("add_entities", st.lists(entities, max_size=3))
        yield steps("add_relationships", st.lists(relationships, max_size=3))
        yield steps("delete_entity", ends)
        yield steps("delete_relationship", relationships | relationships.map(lambda each: each.id))
        yield steps("get_entities", st.lists(ends, max_size=4))
        yield steps("get_neighbors", ends, depths, st.none() | st.lists(kinds, max_size=2))
        yield steps("get_neighbors", ends, depths, st.none())


STATUSES = tuple(TaskStatus)
_ALLOWED = {
    "planned": ("in_progress",),
    "in_progress": ("failed", "failed", "blocked", "succeeded"),
    "succeeded": STATUSES,
    "blocked": ("in_progress",),
    "failed": ("increment", "force"),
    "abandoned": ("force",),
}


class ComparedTask(Compared, TaskContract):
    model = InMemoryTaskStore
    reads = tuple(Step("get_task_list", pair) for pair in _PAIRS)

    def operations(self):
        tasks = st.sampled_from("tT")
        new = tasks.map(lambda task_id: Task(task_id, task_id))
        retries = st.integers(0, 2)
        board = (_first, _second)
        yield steps("create_task_list", *board, st.lists(new, unique=True), max_retries=retries)
        yield steps("add_tasks", *board, st.lists(new, max_size=1))
        yield steps("increment_retry", *board, tasks)
        yield steps("force_retry", *board, tasks)
        yield steps("update_status", *board, tasks, st.sampled_from(STATUSES))
        yield steps("settle_conversation", _first)
        # Random changes hardly ever get anywhere: a number chooses among the allowed ones.
        act = st.sampled_from([*STATUSES, "increment", "force"])
        choice = st.integers(0, 5) | st.integers(0, 7) | act
        for _ in range(3):
            yield steps("work", *board, tasks, st.lists(choice, min_size=5, max_size=9))

    async def outcome(self, store, step, ids):
        """Do a step, which may be to work on a task."""
        if step.method != "work":
            return await super().outcome(store, step, ids)
        conversation, agent, task_id, choices = step.arguments
        refused = []
        board = await store.get_task_list(conversation, agent)
        for choice in choices:
            if board is None or task_id not in [each.id for each in board.tasks]:
                break
            allowed = _ALLOWED[board.task(task_id).status]
            act = choice if isinstance(choice, str) else allowed[choice % len(allowed)]
            try:
                board = await act_on(store, (conversation, agent), task_id, act)
            except InvalidArgumentError:
                refused.append(act)
        return board, refused


class ComparedLongTerm(Compared, LongTermContract):
    """The model are plain values: all stores of facts share the rules of versions."""

    def machine(self):
        return lambda: FactsMachine(self)
