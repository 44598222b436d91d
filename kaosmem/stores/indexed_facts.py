"""Long-term memory in this process: facts with an index of their words."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import count
from typing import TypeVar

from kaosmem.arguments import Clock
from kaosmem.retrieval.ranker import Ranker, ranking_of
from kaosmem.retrieval.rankers import BM25Ranker
from kaosmem.stores.expiry import Expiries
from kaosmem.stores.facts import FactRow, FactRows, FactScope, LongTermMemory, NewFact, by_begin
from kaosmem.types.items import Item

T = TypeVar("T")


class InMemoryLongTermMemory(LongTermMemory):
    """A LongTermMemory in this process. It finds facts by their words.

    Args:
        ranker: Orders the facts for a query.
        clock: Returns times with a zone.
        rng: Source of ids.

    >>> facts = InMemoryLongTermMemory()
    >>> old_id = await facts.save("analyst", "The customer prefers calls.", key="contact")
    >>> new_id = await facts.save("analyst", "The customer prefers letters.", key="contact")
    >>> [fact.content for fact in await facts.search("analyst", "customer")]
    ['The customer prefers letters.']
    >>> [version.item.content for version in await facts.versions("analyst", "contact")]
    ['The customer prefers calls.', 'The customer prefers letters.']
    """

    def __init__(
        self,
        *,
        ranker: Ranker | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        super().__init__(clock=clock)
        self._ranker = ranker or BM25Ranker()
        self._rng: random.Random = rng or random.SystemRandom()
        self._facts: dict[FactScope, IndexedFacts] = {}
        self._expiries: Expiries[tuple[FactScope, str]] = Expiries(clock)

    async def list_namespaces(self) -> list[FactScope]:
        self._drop_expired()
        return sorted(self._facts)

    async def delete_all(self) -> None:
        self._facts.clear()

    def _new_id(self) -> str:
        return f"{self._rng.getrandbits(128):032x}"

    async def _save(
        self,
        scope: FactScope,
        new: NewFact,
        of: str | None,
    ) -> str:
        memory_id = await super()._save(scope, new, of)
        self._expiries.set((scope, memory_id), self._facts[scope].rows[memory_id].expiry)
        return memory_id

    async def _read(self, scope: FactScope, work: Callable[[FactRows], T]) -> T:
        self._drop_expired()
        return work(self._facts.get(scope) or IndexedFacts(self._ranker))

    async def _write(self, scope: FactScope, work: Callable[[FactRows], T]) -> T:
        self._drop_expired()
        facts = self._facts.get(scope) or IndexedFacts(self._ranker)
        done = work(facts)
        self._keep(scope, facts)
        return done

    def _drop_expired(self) -> None:
        for scope, memory_id in self._expiries.pop_due():
            facts = self._facts.get(scope)
            if facts is not None:
                facts.delete(memory_id)
                self._keep(scope, facts)

    def _keep(self, scope: FactScope, facts: IndexedFacts) -> None:
        """Keep a scope while it has facts."""
        if facts.rows:
            self._facts[scope] = facts
        else:
            self._facts.pop(scope, None)


class IndexedFacts:
    """FactRows in memory, with an index of their words.

    Attributes:
        rows: By id.
    """

    def __init__(self, ranker: Ranker) -> None:
        self.rows: dict[str, FactRow] = {}
        self._ordinals: dict[str, int] = {}  # in the index, by id
        self._ids: dict[int, str] = {}  # by ordinal
        self._next_ordinal = count()
        self._by_key: dict[str, dict[str, FactRow]] = {}
        self._live: set[int] = set()
        self._index = ranker.index()
        self._numbers = count()

    def get(self, memory_id: str) -> FactRow | None:
        return self.rows.get(memory_id)

    def versions(self, key: str, *, after: datetime | None = None) -> list[FactRow]:
        rows = self._by_key.get(key, {}).values()
        found = [each for each in rows if after is None or each.ends_after(after)]
        return sorted(found, key=by_begin)

    def add(self, new: FactRow, ended: Sequence[FactRow]) -> None:
        for each in ended:
            self.put(each)
        self.put(replace(new, number=next(self._numbers)))

    def put(self, row: FactRow) -> None:
        """Store a row with its number, or put it in the place of the row with its id."""
        row_id = row.id
        ordinal = self._ordinals.get(row_id)
        if ordinal is None:
            item = Item(row_id, "memories", "user", row.content, 0, row.known_from, key=row.key)
            ordinal = next(self._next_ordinal)
            self._index.add([(ordinal, item)])
            self._ordinals[row_id] = ordinal
            self._ids[ordinal] = row_id
        self.rows[row_id] = row
        self._by_key.setdefault(row.key, {})[row_id] = row
        if row.valid_until is None:
            self._live.add(ordinal)
        else:
            self._live.discard(ordinal)

    def delete(self, memory_id: str | None) -> None:
        doomed = list(self.rows) if memory_id is None else [memory_id]
        for each in doomed:
            row = self.rows.pop(each, None)
            if row is None:
                continue
            ordinal = self._ordinals.pop(row.id)
            self._index.remove(ordinal)
            self._live.discard(ordinal)
            del self._ids[ordinal]
            versions = self._by_key[row.key]
            del versions[row.id]
            if not versions:
                del self._by_key[row.key]

    def search(
        self,
        query: str,
        limit: int,
        *,
        superseded: bool,
    ) -> Sequence[tuple[FactRow, float]]:
        among = None
        if not superseded and len(self._live) < len(self.rows):
            among = self._live
        ranking = ranking_of(self._index, query, min(limit, len(self.rows)), among=among)
        return [(self.rows[self._ids[ordinal]], score) for ordinal, score in ranking.matches]
