"""The common part of all contracts of stores, with ids and texts that stores often get wrong."""

from __future__ import annotations

import asyncio
import copy
import inspect
import math
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Generic, NamedTuple, TypeAlias, TypeVar

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from kaosmem.errors import InvalidArgumentError, InvalidNameError, KaosmemError
from kaosmem.types.items import ChatMessage

S = TypeVar("S")
T = TypeVar("T")

# No two may meet: one begins as another does, differs in case or form alone, or is a pattern or
# path for some stores.
IDS = (
    "a",
    "a-b",
    "a:b",
    "a/b",
    "a_b",
    "ab",
    "A",
    "é",
    "e\u0301",
    "*",
    "a%",
    "..",
    "a ",
    "a'; --",
    "日本 🙂",
    "n" * 256,
)
# Each would be another pair if its members were joined, escaped or not.
PAIRS = (
    ("a", "b"),
    ("b", "a"),
    ("a:b", "c"),
    ("a", "b:c"),
    ("a/b", "c"),
    ("a", "b/c"),
    ("a\\", ":b"),
    ("A", "b"),
)
KEYS = (*PAIRS, *((each, "s") for each in IDS), *(("s", each) for each in IDS))
NO_IDS = ("", "a\n", "a\x00b", "n" * 257, "\ud800", None, 5, b"a", ["a"])
TEXTS = (
    "", " ", "plain", "größe ☃", "e\u0301 is not é", "日本語のテキスト", "👍🏽", "a\r\nb\u2028c\x85", "\x00", "\ufeff",
    '"quoted" \\ %s {} $1 \' ;--', "{\"json\": [1, 2]}",
)  # fmt: skip
LARGE = "größe ☃ " * 100_000
"""Eight hundred thousand characters, of more than a million bytes."""

Wrong: TypeAlias = Sequence[tuple[type[Exception], Any]]
"""Values that a parameter refuses, each after its error."""


def wrong(*values: Any, error: type[Exception] = InvalidArgumentError) -> Wrong:
    """Return values that a parameter refuses with one error."""
    return [(error, each) for each in values]


WRONG_ID = wrong(*NO_IDS, error=InvalidNameError)
# One text would be read letter by letter.
WRONG_IDS = (*wrong(*(["a", each] for each in NO_IDS), error=InvalidNameError), *wrong("ab"))
WRONG_COUNT = wrong(-1, 1.5, "1", True, None)
WRONG_SECONDS = wrong(0, -1, math.nan, math.inf, "60", True, None)
WRONG_TEXT = wrong("\ud800", b"text", None, ["text"])

ids = st.sampled_from(IDS)
texts = st.sampled_from(TEXTS) | st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.sampled_from([0.1, -0.0, 1e300])
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)


class Clock:
    """A clock that stands still until it is advanced."""

    def __init__(self) -> None:
        self._now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self._now

    def advance(self, seconds: float) -> None:
        """Let this number of seconds pass."""
        self._now += timedelta(seconds=seconds)


class Step(NamedTuple):
    """A call of a store: the name of its method and the arguments."""

    method: str
    arguments: tuple[Any, ...] = ()
    options: Mapping[str, Any] = {}


def steps(
    method: str, *arguments: st.SearchStrategy[Any], **options: st.SearchStrategy[Any]
) -> st.SearchStrategy[Step]:
    """Return a strategy of calls of a method."""
    return st.builds(Step, st.just(method), st.tuples(*arguments), st.fixed_dictionaries(options))


class StoreContract(Generic[S]):
    """The tests of every kind of store: subclass the contract of a kind and provide `make`.

    Tests ask for the fixture `store`, which `make` made and `close` closes. The contract of a
    durable store also provides `reopen`, by which tests prove that all changes are there. They are
    asynchronous and need pytest-asyncio, in any mode. A subclass that overrides a test raises
    InvalidArgumentError.

    Attributes:
        durable: False for a store in memory, which needs no `reopen`.
        protocol: Of the store.
        model: A store in memory, which does in any order of calls what the store does.
        expires: Whether stored things have times to live.
        reads: Calls that show all of the store to the comparison.
        examples, steps: How much it tries.
        keys: Names that a store may mix up.
        ways: Number of ways to remove what is stored under a key.
        wrong: Values that the calls refuse, by the name of their parameter.
        ttl_s: Seconds that stored things live in tests, and `wait` lets pass.
    """

    durable: ClassVar[bool] = True
    protocol: ClassVar[type]
    model: ClassVar[Callable[..., Any]]
    expires: ClassVar[bool] = False
    reads: ClassVar[Iterable[Step]] = ()
    keys: ClassVar[tuple[Any, ...]] = KEYS
    ways: ClassVar[int] = 2
    wrong: ClassVar[Mapping[str, Wrong]]
    examples: ClassVar[int] = 25
    steps: ClassVar[int] = 25
    ttl_s: ClassVar[float] = 3_600.0
    clock: Clock
    _opened: list[S]

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        for name in dir(cls):
            if name.startswith("test_") and sum(name in vars(each) for each in cls.__mro__) > 1:
                raise InvalidArgumentError(
                    f"{cls.__name__} overrides {name} of its contract; let the store pass it"
                )
        for name, test in list(vars(cls).items()):
            if name.startswith("test_") and inspect.iscoroutinefunction(test):
                setattr(cls, name, pytest.mark.asyncio(test))

    async def make(self) -> S:
        """Return a new, empty store; one that lets things expire does so by `self.clock`."""
        raise NotImplementedError(
            f"{type(self).__name__} needs a method `make` that returns a new, empty store"
        )

    async def close(self, store: S) -> None:
        """Close a store's files and connections."""

    async def reopen(self, store: S) -> S:
        """Close a durable store, and return another over the same data, by `self.clock`.

        A store in memory stays.
        """
        return store

    async def reopened(self, store: S) -> S:
        """Return a store as another process would find it. The fixture closes it."""
        self._opened.append(await self.reopen(store))
        return self._opened[-1]

    async def wait(self, seconds: float) -> None:
        """Let time pass. If another clock counts, override this, and choose a short `ttl_s`."""
        self.clock.advance(seconds)

    # Of each kind:

    async def put(self, store: S, key: Any) -> None:
        """Store something under a key that tells the key."""
        raise NotImplementedError

    async def has(self, store: S, key: Any) -> bool:
        """Return whether the store has what `put` stored under a key, and nothing else there."""
        raise NotImplementedError

    async def drop(self, store: S, key: Any, way: int) -> None:
        """Remove what is stored under a key, in one of the `ways` to do so."""
        raise NotImplementedError

    async def listed(self, store: S) -> list[Any]:
        """Return all keys that the store lists."""
        raise NotImplementedError

    async def arguments(self, store: S, key: Any, method: str) -> Mapping[str, Any]:
        """Return arguments that a method takes, by parameter. Those of other methods may be there.

        Args:
            key: The one key that the store has.
        """
        raise NotImplementedError

    def refused(
        self, store: S, key: Any
    ) -> Iterable[tuple[type[Exception], Coroutine[Any, Any, object]]]:
        """Yield further calls that are refused, each after its error.

        Args:
            key: The one key that the store has.
        """
        return ()

    @pytest_asyncio.fixture
    async def store(self) -> AsyncIterator[S]:
        """Provide a new store, and close it."""
        yield await self.opened()
        for store in self._opened:
            await self.close(store)

    async def opened(self) -> S:
        """Return a new store with a new clock."""
        self.clock = Clock()
        self._opened = [await self.make()]
        if self.durable and type(self).reopen is StoreContract.reopen:
            raise NotImplementedError(
                f"{type(self).__name__} needs a method `reopen`, which closes the store and "
                "returns another over the "
                "same data; for a store in memory set `durable = False`"
            )
        return self._opened[0]

    @pytest.mark.asyncio
    async def test_it_satisfies_the_protocol(self, store: S) -> None:
        """It has every method of its kind, which takes the same arguments by position and name."""
        assert isinstance(store, self.protocol)
        for name, method in inspect.getmembers(self.protocol, inspect.iscoroutinefunction):
            own = inspect.signature(getattr(store, name)).parameters
            places = {each: place for place, each in enumerate(own)}
            for place, each in enumerate([*inspect.signature(method).parameters.values()][1:]):
                assert each.name in own, f"{name} has no parameter {each.name!r}"
                if each.kind is not each.KEYWORD_ONLY:
                    assert places[each.name] == place, f"{name} has {each.name!r} elsewhere"
                    assert own[each.name].kind is each.kind, f"{name} takes {each.name!r} otherwise"

    @pytest.mark.asyncio
    async def test_what_was_never_stored_is_nothing(self, store: S) -> None:
        """Looking for it and removing it is no error, before and after it was there."""
        key = self.keys[0]
        for _ in range(2):
            for way in range(self.ways):
                await self.drop(store, key, way)
                assert not await self.has(store, key)
            assert await self.listed(store) == []
            await self.put(store, key)
            for way in range(self.ways):
                await self.drop(store, key, way)
            await store.delete_all()  # type: ignore[attr-defined]

    @pytest.mark.asyncio
    async def test_all_is_listed_and_deleted_together(self, store: S) -> None:
        """Everything is, whatever its key is; afterwards the store is as new."""
        for key in self.keys:
            await self.put(store, key)
        assert await self.listed(store) == sorted(self.keys)
        store = await self.reopened(store)
        for key in self.keys:
            assert await self.has(store, key)
        for _ in range(2):
            await store.delete_all()  # type: ignore[attr-defined]
            assert await self.listed(store) == []
        for key in self.keys:
            assert not await self.has(store, key)
        await self.put(store, self.keys[0])
        assert await self.has(store, self.keys[0])
        assert await self.listed(store) == [self.keys[0]]

    @pytest.mark.asyncio
    async def test_neighbours_are_kept_apart(self, store: S) -> None:
        """Keys that are alike, or would be alike if their parts were joined, are different."""
        for way in range(self.ways):
            # Of any two keys, each is removed in one order while the other is there.
            keys = [*self.keys] if way == 0 else [*reversed(self.keys)]
            for key in keys:
                await self.put(store, key)
            for done, key in enumerate(keys, 1):
                assert await self.has(store, key)
                await self.drop(store, key, way)
                assert not await self.has(store, key)
                assert await self.listed(store) == sorted(keys[done:])

    @pytest.mark.asyncio
    async def test_refused_calls_change_nothing(self, store: S) -> None:
        """A wrong id or value in any place of any call is a typed error.

        All stays as it was.
        """
        key = self.keys[0]
        await self.put(store, key)
        for name, method in inspect.getmembers(self.protocol, inspect.iscoroutinefunction):
            valid = await self.arguments(store, key, name)
            parameters = [*inspect.signature(method).parameters.values()][1:]
            given = {each.name: valid[each.name] for each in parameters if each.name in valid}
            for each in parameters:
                for error, bad in self.wrong.get(each.name, ()):
                    if bad != each.default:
                        call = getattr(store, name)(**given | {each.name: bad})
                        await refuses(error, call, f"{name}({each.name}={bad!r:.80})")
        for error, call in self.refused(store, key):
            await refuses(error, call)
        assert await self.has(store, key)
        assert await self.listed(store) == [key]

    def test_anything_in_any_order_does_what_the_model_does(self) -> None:
        """After any calls, the store reads as a store in memory does."""
        tried = settings(
            max_examples=self.examples,
            stateful_step_count=self.steps,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        )
        run_state_machine_as_test(self.machine(), settings=tried)  # type: ignore[arg-type]

    def operations(self) -> Iterable[st.SearchStrategy[Step]]:
        """Return the calls that the comparison with the model chooses from."""
        raise NotImplementedError

    def new_model(self, clock: Clock) -> S:
        """Return a new model."""
        made: S = self.model(clock=clock) if self.expires else self.model()
        return made

    async def outcome(self, store: S, step: Step, ids: list[str]) -> object:
        """Do a step, and return its result or error as a value that is the same for each store.

        Afterwards the arguments and the result are changed. Nothing that is stored may change.

        Args:
            ids: Of this store, which the contract may add to.
        """
        given = copy.deepcopy(step)
        try:
            result = await getattr(store, given.method)(*given.arguments, **given.options)
        except KaosmemError as error:
            return type(error)
        found = self.comparable(result, ids)
        spoil([given.arguments, given.options, result])
        return found

    def comparable(self, result: Any, ids: list[str]) -> object:
        """Return a copy of a result that is the same for each store."""
        return copy.deepcopy(result)

    def machine(self) -> Callable[[], StoreMachine[S]]:
        """Return a constructor of the state machine of these operations."""
        # Three times, so that the store is seldom emptied and reopened.
        chosen = [*self.operations(), *self.operations(), *self.operations(), steps("delete_all")]
        if self.durable:
            chosen.append(steps("reopen"))
        if self.expires:
            chosen.append(steps("wait"))

        class Machine(StoreMachine[S]):
            @rule(step=st.one_of(*chosen))
            def do(self, step: Step) -> None:
                self.compare(step)

        return lambda: Machine(self)


class StoreMachine(RuleBasedStateMachine, Generic[S]):
    """A store and its model, to which the same steps are done."""

    def __init__(self, contract: StoreContract[S]) -> None:
        super().__init__()
        self._contract = contract
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._clock = Clock()
        self._model = contract.new_model(self._clock)
        self._model_ids: list[str] = []
        self._store = self._ask(contract.opened())
        self._store_ids: list[str] = []

    @invariant()
    def both_read_the_same(self) -> None:
        listed = self._ask(self._contract.listed(self._store))
        assert listed == self._ask(self._contract.listed(self._model))
        for step in self._contract.reads:
            self.compare(step)

    def compare(self, step: Step) -> None:
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

    def teardown(self) -> None:
        self._ask(self._contract.close(self._store))
        self._runner.close()

    def _ask(self, asked: Coroutine[Any, Any, T]) -> T:
        """Return the result of a call."""
        # Not by the runner, which takes and gives back the handler of Ctrl-C for each call.
        return self._runner.get_loop().run_until_complete(asked)


def spoil(value: object) -> None:
    """Change all that is in lists, mappings and buffers of a value. A message never changes."""
    inner: Iterable[object] = ()
    if isinstance(value, dict):
        inner = [*value.values()]
        value.update(dict.fromkeys(value, "spoiled"))
    elif isinstance(value, list | tuple):
        inner = [*value]
    elif is_dataclass(value) and not isinstance(value, ChatMessage):
        inner = [getattr(value, each.name) for each in fields(value)]
    if isinstance(value, list):
        value.append("spoiled")
    elif isinstance(value, bytearray):
        value.append(0)
    for each in inner:
        spoil(each)


async def refuses(
    error: type[Exception], asked: Coroutine[Any, Any, object], call: str = "the call"
) -> None:
    """Expect an error; a store that does as it was told fails."""
    with pytest.raises(error):
        await asked
        pytest.fail(f"{call} is not refused")
