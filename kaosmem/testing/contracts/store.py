"""The common part of all contracts of stores, with ids and texts that stores often get wrong."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Generic, TypeVar

import pytest
import pytest_asyncio

S = TypeVar("S")

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
TEXTS = (
    "", " ", "plain", "größe ☃", "e\u0301 is not é", "日本語のテキスト", "👍🏽", "a\r\nb\u2028c\x85", "\x00", "\ufeff",
    '"quoted" \\ %s {} $1 \' ;--', "{\"json\": [1, 2]}",
)  # fmt: skip
LARGE = "größe ☃ " * 100_000
"""Eight hundred thousand characters, of more than a million bytes."""


class Clock:
    """A clock that stands still until it is advanced."""

    def __init__(self) -> None:
        self._now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self._now

    def advance(self, seconds: float) -> None:
        """Let this number of seconds pass."""
        self._now += timedelta(seconds=seconds)


class StoreContract(Generic[S]):
    """The tests of every kind of store: subclass the contract of a kind and provide `make`.

    Tests ask for the fixture `store`, which `make` made and `close` closes. The contract of a
    durable store also provides `reopen`, by which tests prove that all changes are there. They are
    asynchronous and need pytest-asyncio, in any mode. Do not override a test.

    The base class of a kind checks the arguments, so a contract does not.

    Attributes:
        durable: False for a store in memory, which needs no `reopen`.
        keys: Names that a store may mix up.
        ways: Number of ways to remove what is stored under a key.
        ttl_s: Seconds that stored things live in tests, and `wait` lets pass.
    """

    pytestmark = pytest.mark.asyncio
    durable: ClassVar[bool] = True
    keys: ClassVar[tuple[Any, ...]] = KEYS
    ways: ClassVar[int] = 2
    ttl_s: ClassVar[float] = 3_600.0
    clock: Clock
    _opened: list[S]

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

    async def write(
        self,
        store: S,
        key: Any,
        text: str,
    ) -> None:
        """Store a text under a key."""
        raise NotImplementedError

    async def read(self, store: S, key: Any) -> str | None:
        """Return the text under a key, None if nothing is stored there.

        Asserts that nothing else is stored there.
        """
        raise NotImplementedError

    async def drop(
        self,
        store: S,
        key: Any,
        way: int,
    ) -> None:
        """Remove what is stored under a key, in one of the `ways` to do so."""
        raise NotImplementedError

    async def listed(self, store: S) -> list[Any]:
        """Return all keys that the store lists."""
        raise NotImplementedError

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

    async def test_what_was_never_stored_is_nothing(self, store):
        """Looking for it and removing it is no error, before and after it was there."""
        key = self.keys[0]
        for _ in range(2):
            for way in range(self.ways):
                await self.drop(store, key, way)
                assert await self.read(store, key) is None
            assert await self.listed(store) == []
            await self.write(store, key, "text")
            for way in range(self.ways):
                await self.drop(store, key, way)
            await store.delete_all()

    async def test_all_is_listed_and_deleted_together(self, store):
        """Everything is, whatever its key is; afterwards the store is as new."""
        for key in self.keys:
            await self.write(store, key, f"of {key}")
        assert await self.listed(store) == sorted(self.keys)
        store = await self.reopened(store)
        for key in self.keys:
            assert await self.read(store, key) == f"of {key}"
        for _ in range(2):
            await store.delete_all()
            assert await self.listed(store) == []
        for key in self.keys:
            assert await self.read(store, key) is None
        await self.write(store, self.keys[0], "new")
        assert await self.read(store, self.keys[0]) == "new"
        assert await self.listed(store) == [self.keys[0]]

    async def test_neighbours_are_kept_apart(self, store):
        """Keys that are alike, or would be alike if their parts were joined, are different."""
        for way in range(self.ways):
            # Of any two keys, each is removed in one order while the other is there.
            keys = [*self.keys] if way == 0 else [*reversed(self.keys)]
            for key in keys:
                await self.write(store, key, f"of {key}")
            for done, key in enumerate(keys, 1):
                assert await self.read(store, key) == f"of {key}"
                await self.drop(store, key, way)
                assert await self.read(store, key) is None
                assert await self.listed(store) == sorted(keys[done:])

    async def test_texts_come_back_unchanged(self, store):
        """Texts in any script, an empty one and a very long one, at once and after reopening."""
        stored = dict(zip(self.keys, (*TEXTS, LARGE), strict=False))
        for key, text in stored.items():
            await self.write(store, key, text)
            assert await self.read(store, key) == text
        store = await self.reopened(store)
        for key, text in stored.items():
            assert await self.read(store, key) == text


async def refuses(
    error: type[Exception],
    asked: Coroutine[Any, Any, object],
    call: str = "the call",
) -> None:
    """Expect an error; a store that does as it was told fails."""
    with pytest.raises(error):
        await asked
        pytest.fail(f"{call} is not refused")
