"""Facts in Redis or Valkey, ranked in memory."""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from time import time_ns
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from kaosmem.arguments import Clock, check_clock
from kaosmem.backends.base import value_of
from kaosmem.backends.redis.database import RedisDatabase
from kaosmem.retrieval import BM25Ranker
from kaosmem.retrieval.ranker import ranking_of
from kaosmem.stores.expiry import utc_now
from kaosmem.stores.memory import (
    BaseLongTermMemory,
    NewFact,
    Shelf,
    StoredFact,
    fact_time,
    unknown_fact,
)
from kaosmem.types import Item, JSONValue, Version, json_text

if TYPE_CHECKING:
    from collections.abc import Iterable

_WARM_SHELVES = 256


@dataclass(frozen=True, slots=True)
class _Fact:
    """A version of a fact, as it is stored.

    number: that of its first change. The times are texts in UTC, which are in the order of the
        times.
    """

    id: str
    number: int
    key: str
    content: str
    metadata: dict[str, JSONValue]
    valid_from: str
    valid_until: str | None
    known_from: str
    expiry: float | None

    @property
    def memory(self) -> StoredFact:
        return StoredFact(self.content, 0.0, self.id, self.metadata, self.key)

    @property
    def text(self) -> str:
        return json_text(asdict(self))

    @classmethod
    def of(cls, text: bytes) -> _Fact:
        return cls(**value_of(text.decode()))


class RedisLongTermMemory(BaseLongTermMemory):
    """A LongTermMemory in Redis. It ranks facts as an InMemoryLongTermMemory does, by BM25.

    The facts of the last searched namespaces stay in memory, indexed; a search reads only the
    changes since.
    clock: returns times with a zone.
    """

    def __init__(self, database: RedisDatabase, *, clock: Clock | None = None) -> None:
        self._database = database
        self._clock = utc_now if clock is None else check_clock(clock)
        self._lock = threading.Lock()
        self._warm: OrderedDict[Shelf, _WarmShelf] = OrderedDict()

    async def list_namespaces(self) -> list[Shelf]:
        found, now = await self._database.ids("facts", ":facts"), self._clock().timestamp()
        shelves = [(agent, namespace) for agent, namespace in found]

        def unexpired(client: Any) -> list[Shelf]:
            keys = {shelf: self._keys(shelf) for shelf in shelves}
            return [
                shelf
                for shelf, of in keys.items()
                if client.hlen(of.facts) > client.zcount(of.expiries, "-inf", now)
            ]

        return await self._database.run(unexpired)

    async def delete_all(self) -> None:
        await self._database.delete("facts")

    async def _save(self, shelf: Shelf, new: NewFact, of: str | None) -> str:
        keys = self._keys(shelf)
        memory_id = secrets.token_hex(16)

        def save(steps: Any) -> None:
            self._put(steps, keys, shelf, memory_id, new, of)

        await self._database.run(lambda client: client.transaction(save, keys.number))
        return memory_id

    async def _search(
        self, shelf: Shelf, query: str, limit: int, *, superseded: bool
    ) -> list[StoredFact]:
        keys = self._keys(shelf)

        def search(client: Any) -> list[StoredFact]:
            self._delete_due(client, keys)
            with self._lock:
                warm = self._warm.pop(shelf, None) or _WarmShelf()
                self._warm[shelf] = warm
                if len(self._warm) > _WARM_SHELVES:
                    self._warm.popitem(last=False)
                warm.refresh(client, keys)
                return warm.search(query, limit, superseded=superseded)

        return await self._database.run(search)

    async def _versions(self, shelf: Shelf, key: str) -> list[Version[StoredFact]]:
        keys = self._keys(shelf)

        def versions(client: Any) -> list[Version[StoredFact]]:
            self._delete_due(client, keys)
            facts = sorted(
                keys.versions(client, key), key=lambda each: (each.valid_from, each.number)
            )
            return [
                Version(
                    each.memory,
                    _time(each.valid_from),
                    None if each.valid_until is None else _time(each.valid_until),
                    _time(each.known_from),
                )
                for each in facts
            ]

        return await self._database.run(versions)

    async def _get(self, shelf: Shelf, memory_id: str) -> StoredFact | None:
        keys = self._keys(shelf)

        def get(client: Any) -> StoredFact | None:
            self._delete_due(client, keys)
            found = keys.facts_of(client, [memory_id])
            return found[0].memory if found else None

        return await self._database.run(get)

    async def _delete(self, shelf: Shelf, memory_id: str | None) -> None:
        keys = self._keys(shelf)

        def delete(steps: Any) -> None:
            ids = (
                [memory_id]
                if memory_id is not None
                else [each.decode() for each in steps.hkeys(keys.facts)]
            )
            keys.delete(steps, ids)

        await self._database.run(lambda client: client.transaction(delete, keys.number))

    def _put(
        self, steps: Any, keys: _Keys, shelf: Shelf, memory_id: str, new: NewFact, of: str | None
    ) -> None:
        """Queue the commands that store a fact among the versions of its key."""
        if keys.facts_of(steps, [memory_id]):  # the answer to an earlier attempt was lost
            return
        saved_at = self._clock().astimezone(UTC)
        now = saved_at.timestamp()
        if of is not None:
            found = _unexpired(keys.facts_of(steps, [of]), now)
            if not found:
                raise unknown_fact(of, shelf[1])
            new = new._replace(key=found[0].key)
        known = [] if new.key is None else _unexpired(keys.versions(steps, new.key), now)
        latest = max((_time(each.valid_from) for each in known), default=None)
        fact = new.saved(memory_id, saved_at, latest)
        begins = _text(fact_time(fact.metadata) or saved_at)
        number = keys.next_number(steps)
        ended = [
            replace(each, valid_until=begins)
            for each in known
            if each.valid_from <= begins and (each.valid_until is None or each.valid_until > begins)
        ]
        ends = min((each.valid_from for each in known if each.valid_from > begins), default=None)
        times = begins, ends, _text(saved_at), None if new.ttl is None else now + new.ttl
        keys.put(
            steps,
            [*ended, _Fact(fact.id, number, fact.key, fact.content, dict(fact.metadata), *times)],
            number,
        )

    def _delete_due(self, client: Any, keys: _Keys) -> None:
        now = self._clock().timestamp()
        if client.zcount(keys.expiries, "-inf", now):

            def delete(steps: Any) -> None:
                keys.delete(
                    steps,
                    [each.decode() for each in steps.zrangebyscore(keys.expiries, "-inf", now)],
                )

            client.transaction(delete, keys.number)

    def _keys(self, shelf: Shelf) -> _Keys:
        return _Keys(self._database.key("facts", *shelf))


class _Keys:
    """The keys of one namespace of an agent, all in one slot.

    number: of the last change, which every transaction watches. facts: texts by id. changes: the
        number of the last
    change of each fact. expiries: the time at which a fact is gone.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self.number = f"{prefix}:number"
        self.facts = f"{prefix}:facts"
        self.changes = f"{prefix}:changes"
        self.expiries = f"{prefix}:expiries"

    def next_number(self, client: Any) -> int:
        """Return the number of the next change.

        It grows, though all facts were deleted meanwhile.
        """
        return max(int(client.get(self.number) or 0) + 1, time_ns() // 1_000)

    def facts_of(self, client: Any, ids: Iterable[str]) -> list[_Fact]:
        """Return the stored facts among these ids."""
        listed = list(ids)
        found = client.hmget(self.facts, listed) if listed else []
        return [_Fact.of(text) for text in found if text is not None]

    def versions(self, client: Any, key: str) -> list[_Fact]:
        return self.facts_of(
            client, [each.decode() for each in client.smembers(self._versions_key(key))]
        )

    def put(self, steps: Any, facts: list[_Fact], number: int) -> None:
        """Queue the commands that store facts."""
        steps.multi()
        steps.set(self.number, number)
        for each in facts:
            steps.hset(self.facts, each.id, each.text)
            steps.zadd(self.changes, {each.id: number})
            steps.sadd(self._versions_key(each.key), each.id)
            if each.expiry is not None:
                steps.zadd(self.expiries, {each.id: each.expiry})

    def delete(self, steps: Any, ids: list[str]) -> None:
        """Queue the commands that delete facts."""
        doomed = self.facts_of(steps, ids)
        number = self.next_number(steps)
        left = steps.hlen(self.facts)
        steps.multi()
        for each in doomed:
            steps.hdel(self.facts, each.id)
            steps.zrem(self.changes, each.id)
            steps.zrem(self.expiries, each.id)
            steps.srem(self._versions_key(each.key), each.id)
        if doomed and len(doomed) < left:
            steps.set(self.number, number)
        elif doomed:
            steps.delete(self.number)

    def _versions_key(self, key: str) -> str:
        return f"{self._prefix}:versions:{quote(key, safe='')}"


@dataclass(slots=True)
class _WarmShelf:
    """The facts of a namespace in memory, as they were after change `number`, with an index of their words."""

    number: int = -1
    facts: dict[str, _Fact] = field(default_factory=dict)
    index: Any = field(default_factory=lambda: BM25Ranker().index())

    def refresh(self, client: Any, keys: _Keys) -> None:
        """Read the changes since the last time."""
        number = int(client.get(keys.number) or 0)
        if number == self.number:
            return
        changed = [
            each.decode() for each in client.zrangebyscore(keys.changes, f"({self.number}", "+inf")
        ]
        for each in keys.facts_of(client, changed):
            if each.id not in self.facts:
                item = Item(each.id, "memories", "user", each.content, 0, _time(each.known_from))
                self.index.add([(each.number, item)])
            self.facts[each.id] = each
        if client.hlen(keys.facts) != len(self.facts):
            left = {each.decode() for each in client.hkeys(keys.facts)}
            for gone in self.facts.keys() - left:
                self.index.remove(self.facts.pop(gone).number)
        self.number = number

    def search(self, query: str, limit: int, *, superseded: bool) -> list[StoredFact]:
        found = {
            each.number: each
            for each in self.facts.values()
            if superseded or each.valid_until is None
        }
        ranked = ranking_of(self.index, query, min(limit, len(found)), among=found.keys()).matches
        # Copied by way of JSON: metadata in memory are nobody else's.
        return [
            replace(_Fact.of(found[number].text.encode()).memory, score=score)
            for number, score in ranked
        ]


def _unexpired(facts: list[_Fact], now: float) -> list[_Fact]:
    return [each for each in facts if each.expiry is None or each.expiry > now]


def _text(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="microseconds")


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
