"""Facts in Redis or Valkey, ranked in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from functools import lru_cache
from operator import attrgetter
from time import time_ns
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

from kaosmem.arguments import Clock, json_text
from kaosmem.backends.base import value_of
from kaosmem.backends.redis.database import RedisDatabase
from kaosmem.retrieval.rankers import BM25Ranker
from kaosmem.stores.facts import (
    FactRow,
    FactRows,
    FactScope,
    LongTermMemory,
    by_begin,
)
from kaosmem.stores.indexed_facts import IndexedFacts

T = TypeVar("T")

_MAX_CACHED_SCOPES = 256
_TIMES = ("valid_from", "valid_until", "known_from")


class RedisLongTermMemory(LongTermMemory):
    """A LongTermMemory in Redis. It ranks facts as an InMemoryLongTermMemory does, by BM25.

    The facts of the last searched namespaces stay in memory, indexed; a search reads only the
    changes since.

    Args:
        clock: Returns times with a zone.
    """

    def __init__(self, database: RedisDatabase, *, clock: Clock | None = None) -> None:
        super().__init__(clock=clock)
        self._database = database
        self._cache = lru_cache(_MAX_CACHED_SCOPES)(_CachedFacts)

    async def list_namespaces(self) -> list[FactScope]:
        found = await self._database.ids("facts", ":facts")
        now = self._clock().timestamp()

        def unexpired(client: Any) -> list[FactScope]:
            scopes = []
            for agent, namespace in found:
                keys = self._keys((agent, namespace))
                if client.hlen(keys.facts) > client.zcount(keys.expiries, "-inf", now):
                    scopes.append((agent, namespace))
            return scopes

        return await self._database.run(unexpired)

    async def delete_all(self) -> None:
        await self._database.delete("facts")

    async def _read(self, scope: FactScope, work: Callable[[FactRows], T]) -> T:
        keys = self._keys(scope)

        def read(client: Any) -> T:
            now = self._clock().timestamp()
            if client.zcount(keys.expiries, "-inf", now):
                client.transaction(
                    lambda steps: self._facts(steps, keys).delete_expired(), keys.number
                )
            return work(self._facts(client, keys))

        return await self._database.run(read)

    async def _write(self, scope: FactScope, work: Callable[[FactRows], T]) -> T:
        keys = self._keys(scope)

        def write(client: Any) -> T:
            done: T = client.transaction(
                lambda steps: work(self._facts(steps, keys)),
                keys.number,
                value_from_callable=True,
            )
            return done

        return await self._database.run(write)

    def _facts(self, client: Any, keys: _Keys) -> _RedisFacts:
        return _RedisFacts(client, keys, self._clock().timestamp(), self._cache)

    def _keys(self, scope: FactScope) -> _Keys:
        prefix = self._database.key("facts", *scope)
        return _Keys(
            prefix,
            number=f"{prefix}:number",
            facts=f"{prefix}:facts",
            changes=f"{prefix}:changes",
            expiries=f"{prefix}:expiries",
        )


class _Keys(NamedTuple):
    """The keys of one namespace of an agent, all in one slot.

    Attributes:
        number: Of the last change, which every transaction watches.
        facts: Texts by id.
        changes: The number of the last change of each fact.
        expiries: The time at which a fact is gone.
    """

    prefix: str
    number: str
    facts: str
    changes: str
    expiries: str

    def versions(self, key: str) -> str:
        """Return the key of the ids of a fact's versions."""
        return f"{self.prefix}:versions:{quote(key, safe='')}"


class _RedisFacts:
    """FactRows of a client, or of a transaction: it reads first, and then queues its changes.

    Args:
        now: Seconds since 1970.
    """

    def __init__(
        self,
        client: Any,
        keys: _Keys,
        now: float,
        cached: Callable[[_Keys], _CachedFacts],
    ) -> None:
        self.client = client
        self.keys = keys
        self._now = now
        self._cache = cached

    def get(self, memory_id: str) -> FactRow | None:
        found = [each for each in self.stored([memory_id]) if each.is_held(self._now)]
        return found[0] if found else None

    def versions(self, key: str, *, after: datetime | None = None) -> list[FactRow]:
        ids = _texts(self.client.smembers(self.keys.versions(key)))
        found = [each for each in self.stored(ids) if each.is_held(self._now)]
        if after is not None:
            found = [each for each in found if each.ends_after(after)]
        return sorted(found, key=by_begin)

    def add(self, new: FactRow, ended: Sequence[FactRow]) -> None:
        if self.stored([new.id]):  # the answer to an earlier attempt was lost
            return
        number = self._next_number()
        self.client.multi()
        self.client.set(self.keys.number, number)
        for each in (*ended, replace(new, number=number)):
            self.client.hset(self.keys.facts, each.id, _text_of(each))
            self.client.zadd(self.keys.changes, {each.id: number})
            self.client.sadd(self.keys.versions(each.key), each.id)
            if each.expiry is not None:
                self.client.zadd(self.keys.expiries, {each.id: each.expiry})

    def delete(self, memory_id: str | None) -> None:
        if memory_id is None:
            self._delete(_texts(self.client.hkeys(self.keys.facts)))
        else:
            self._delete([memory_id])

    def delete_expired(self) -> None:
        """Delete the facts whose time has come."""
        self._delete(_texts(self.client.zrangebyscore(self.keys.expiries, "-inf", self._now)))

    def search(
        self,
        query: str,
        limit: int,
        *,
        superseded: bool,
    ) -> Sequence[tuple[FactRow, float]]:
        cached = self._cache(self.keys)
        with cached.lock:
            cached.refresh(self)
            return cached.search(query, limit, superseded=superseded)

    def stored(self, ids: Iterable[str]) -> list[FactRow]:
        """Return the stored facts among these ids."""
        listed = list(ids)
        texts = self.client.hmget(self.keys.facts, listed) if listed else []
        return [_row_of(text) for text in texts if text is not None]

    def _delete(self, ids: list[str]) -> None:
        doomed = self.stored(ids)
        number = self._next_number()
        left = self.client.hlen(self.keys.facts)
        self.client.multi()
        for each in doomed:
            self.client.hdel(self.keys.facts, each.id)
            self.client.zrem(self.keys.changes, each.id)
            self.client.zrem(self.keys.expiries, each.id)
            self.client.srem(self.keys.versions(each.key), each.id)
        if doomed and len(doomed) < left:
            self.client.set(self.keys.number, number)
        elif doomed:
            self.client.delete(self.keys.number)

    def _next_number(self) -> int:
        """Return the number of the next change.

        It grows, though all facts were deleted meanwhile.
        """
        return max(int(self.client.get(self.keys.number) or 0) + 1, time_ns() // 1_000)


class _CachedFacts(IndexedFacts):
    """The facts of a namespace, as they were after change `number`.

    Attributes:
        lock: One search at a time reads the changes.
    """

    def __init__(self, keys: _Keys) -> None:
        super().__init__(BM25Ranker())
        self.lock = threading.Lock()
        self._keys = keys
        self._number = -1

    def refresh(self, facts: _RedisFacts) -> None:
        """Read the changes since the last time."""
        client = facts.client
        number = int(client.get(self._keys.number) or 0)
        if number == self._number:
            return
        changed = client.zrangebyscore(self._keys.changes, f"({self._number}", "+inf")
        # In the order in which they were made, so that every process ranks equal matches alike.
        for each in sorted(facts.stored(_texts(changed)), key=attrgetter("number")):
            self.put(each)
        if client.hlen(self._keys.facts) != len(self.rows):
            for gone in self.rows.keys() - {*_texts(client.hkeys(self._keys.facts))}:
                self.delete(gone)
        self._number = number


def _texts(found: Iterable[bytes]) -> list[str]:
    return [each.decode() for each in found]


def _text_of(row: FactRow) -> str:
    """Return a row as JSON text."""
    fields = asdict(row)
    for name in _TIMES:
        if fields[name] is not None:
            fields[name] = fields[name].isoformat()
    return json_text(fields)


def _row_of(text: bytes) -> FactRow:
    fields = value_of(text.decode())
    for name in _TIMES:
        if fields[name] is not None:
            fields[name] = datetime.fromisoformat(fields[name])
    return FactRow(**fields)
