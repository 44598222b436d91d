"""Short-term and long-term memories as sources: facts for the query, and a session's state."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from datetime import datetime

from kaosmem.arguments import check_instance, json_text
from kaosmem.filters import MetadataFilter
from kaosmem.language.query import Query
from kaosmem.names import check_id
from kaosmem.retrieval.rankers import BM25Ranker
from kaosmem.sections.item_table import ItemTable
from kaosmem.sections.proposal import Candidate, Proposal, oldest_first
from kaosmem.sections.spec import SectionSpec
from kaosmem.sections.versions import ShownVersions
from kaosmem.sources.store_source import (
    Scored,
    StoreSource,
    corrected,
    proposed,
    ranked,
    related,
    searched,
)
from kaosmem.stores import LongTermMemory, ShortTermMemory
from kaosmem.stores.facts import StoredFact
from kaosmem.types import JSONValue
from kaosmem.types.content import Trust
from kaosmem.types.items import Item, stated_from, utc_time
from kaosmem.types.versions import Version, known_by

FACTS = SectionSpec("facts", 8_000, 65, eviction="none")
STATE = SectionSpec("state", 4_000, 75, eviction="none")


_AT_ONCE = 16
"""Of how many facts the versions are asked for at once: a server has only so many connections."""


class FactSource(StoreSource):
    """The facts of an agent's long-term memory that match the query, in the order of their times.

    A question about now gets live facts alone, also those of which only a replaced version matches,
    and beside one that is yet to begin the version that holds now and others that are yet to begin.
    A question about the past gets the version that held then and the current one. Each is labelled
    with its interval then. The times of `SessionMemory.at` choose versions by the time when they
    held and the time when they were saved.
    Of the found facts without a key, one is shown only together with the later ones of its speaker
    or source that give its subject another value. Labels name the `source`, the `timestamp` and the
    `speaker` of a fact's metadata. Raises InvalidNameError for an id, InvalidArgumentError for the
    store and the spec.

    >>> from kaosmem import SessionMemory
    >>> from kaosmem.stores import InMemoryLongTermMemory
    >>> facts = InMemoryLongTermMemory()
    >>> for day, home in (("2023-03-01", "1 Elm Street"), ("2024-06-01", "9 Oak Avenue")):
    ...     fact_id = await facts.save("analyst", f"Home: {home}", key="home", metadata={"timestamp": day})
    >>> memory = SessionMemory.test_mode()
    >>> name = await memory.attach(FactSource(facts, "analyst"))
    >>> print((await memory.assemble_context("Where is home?", budget=200)).text)
    ## facts
    [1 June 2024] Home: 9 Oak Avenue
    <BLANKLINE>
    >>> print((await memory.assemble_context("Where was home before?", budget=200)).text)
    ## facts
    [1 March 2023 until 1 June 2024] Home: 1 Elm Street
    [since 1 June 2024] Home: 9 Oak Avenue
    <BLANKLINE>
    """

    def __init__(
        self,
        store: LongTermMemory,
        agent_id: str,
        *,
        namespace: str = "default",
        spec: SectionSpec = FACTS,
        trust: Trust = Trust.EXTERNAL,
    ) -> None:
        super().__init__(spec, trust=trust)
        self._store = check_instance(store, LongTermMemory, "store")
        self._agent_id = check_id(agent_id, "agent id")
        self._namespace = check_id(namespace, "namespace")

    async def propose(
        self,
        query: Query,
        *,
        cap: int,
        wanted: MetadataFilter | None = None,
    ) -> Proposal:
        """Return the facts that match the query; none without a query."""
        if not query.text.strip() or not cap:
            return Proposal(())
        fact_versions = _FactVersions(self._versions, query)

        async def search(limit: int) -> tuple[list[Scored], bool]:
            return await self._search(query, limit, fact_versions)

        proposal = await searched(search, cap=cap, wanted=wanted)
        if fact_versions.of_key:
            proposal = _narrowed(fact_versions.with_versions(proposal, self.spec), wanted)
        return corrected(proposal, self.spec)

    async def _search(
        self, query: Query, limit: int, fact_versions: _FactVersions
    ) -> tuple[list[Scored], bool]:
        """Return the facts among `limit` found ones, and whether the store may find more."""
        is_now = query.past is None and query.as_of is None and query.known_at is None
        if not is_now:
            found = await self._found(query, limit, superseded=True)
            return await fact_versions.shown(found), len(found) == limit
        found, every = await asyncio.gather(
            self._found(query, limit, superseded=False), self._found(query, limit, superseded=True)
        )
        await fact_versions.load_versions(
            [each for each in found if query.begins_later(stated_from(each.metadata))]
        )
        scored: list[Scored] = [(self._fact(memory), memory.score) for memory in found]
        known = {memory.key for memory in found}
        scored += await fact_versions.current_versions(
            [each for each in every if each.key not in known]
        )
        return sorted(scored, key=lambda each: -(each[1] or 0.0)), len(found) == limit

    async def _found(
        self,
        query: Query,
        limit: int,
        *,
        superseded: bool,
    ) -> list[StoredFact]:
        """Return the facts that the store finds, best first."""
        return await self._store.search(
            self._agent_id,
            query.text,
            namespace=self._namespace,
            limit=limit,
            superseded=superseded,
        )

    async def get(self, item_id: str) -> Item | None:
        """Return a version of a fact, or None."""
        memory_id = self._store_id(item_id)
        if memory_id is None:
            return None
        memory = await self._store.get(self._agent_id, memory_id, namespace=self._namespace)
        if memory is None:
            return None
        return self._fact(memory)

    async def forget(self, item_ids: Collection[str]) -> None:
        """Delete versions of facts from the store."""
        for memory_id in self._store_ids(item_ids):
            await self._store.delete(self._agent_id, memory_id, namespace=self._namespace)

    async def _versions(self, key: str) -> list[Version[Item]]:
        """Return the versions of a fact as items, each created when it was saved."""
        stored = await self._store.versions(self._agent_id, key, namespace=self._namespace)
        is_alone = len(stored) == 1 and stored[0].is_current
        named = None if is_alone else key
        versions = []
        for each in stored:
            item = self._fact(each.item, each.known_from, named)
            versions.append(Version(item, each.valid_from, each.valid_until, each.known_from))
        return versions

    def _fact(
        self,
        memory: StoredFact,
        saved_at: datetime | None = None,
        key: str | None = None,
    ) -> Item:
        """Return a fact as an item, with its key if it has versions or a key besides its id."""
        created_at = saved_at or utc_time(memory.metadata)
        item = self._item(
            memory.id, memory.content, metadata=memory.metadata, created_at=created_at
        )
        return replace(item, key=key or (memory.key if memory.key != memory.id else None))


class StateSource(StoreSource):
    """A session's state as lines `key: value`, ordered by key, each with the metadata `key`.

    If the lines do not all fit, those are shown that match the query.
    The source cannot forget: a ShortTermMemory cannot delete one key alone.
    Raises InvalidNameError for the id, InvalidArgumentError for the store and the spec.

    >>> from kaosmem import SessionMemory
    >>> from kaosmem.stores import InMemoryShortTermMemory
    >>> states = InMemoryShortTermMemory()
    >>> await states.set_state("room-7", {"step": 2})
    >>> memory = SessionMemory.test_mode()
    >>> name = await memory.attach(StateSource(states, "room-7"))
    >>> print((await memory.assemble_context("next?", budget=200)).text)
    ## state
    [*] step: 2
    <BLANKLINE>
    """

    def __init__(
        self,
        store: ShortTermMemory,
        session_id: str,
        *,
        spec: SectionSpec = STATE,
        trust: Trust = Trust.EXTERNAL,
    ) -> None:
        super().__init__(spec, trust=trust)
        self._store = check_instance(store, ShortTermMemory, "store")
        self._session_id = check_id(session_id, "session id")

    async def propose(
        self,
        query: Query,
        *,
        cap: int,
        wanted: MetadataFilter | None = None,
    ) -> Proposal:
        """Return the lines, those that match the query first."""
        state = await self._store.get_state(self._session_id)
        lines = [self._line(key, value) for key, value in sorted(state.items())]
        place = {line.id: at for at, line in enumerate(lines)}
        found: list[Scored] = [(line, None) for line in lines]
        if query.has_topic:
            found = ranked(lines, query, BM25Ranker())
        proposal = proposed(found, cap=cap, wanted=wanted)
        in_order = [unit._replace(position=place[unit.items[0].id]) for unit in proposal.candidates]
        return related(replace(proposal, candidates=tuple(in_order)), query)

    async def get(self, item_id: str) -> Item | None:
        """Return a line, or None."""
        key = self._local(item_id)
        if key is None:
            return None
        state = await self._store.get_state(self._session_id)
        if key in state:
            return self._line(key, state[key])
        return None

    def _line(self, key: str, value: JSONValue) -> Item:
        text = value if isinstance(value, str) else json_text(value)
        return self._item(key, f"{key}: {text}", metadata={"key": key})


class _FactVersions:
    """The versions of found facts, as they were at the times of a query.

    Attributes:
        load: Returns all versions of the fact with a key.
        of_key: The loaded versions of each key, oldest first.
    """

    def __init__(self, load: Callable[[str], Awaitable[list[Version[Item]]]], query: Query) -> None:
        self._load = load
        self._query = query
        self._items: dict[str, Item] = {}  # by the id of the version in the store
        self.of_key: dict[str, list[Version[Item]]] = {}

    async def shown(self, found: Sequence[StoredFact]) -> list[Scored]:
        """Return of each found fact the newest version, and the best other one."""
        await self.load_versions(found)
        items: dict[tuple[str, bool], Scored] = {}
        for memory in found:
            item = self._items.get(memory.id)
            if item is not None:
                is_newest = item is self.of_key[memory.key][-1].item
                items.setdefault((memory.key, is_newest), (item, memory.score))
        return [*items.values()]

    async def current_versions(self, replaced: Sequence[StoredFact]) -> list[Scored]:
        """Return the current version of each fact of which a replaced version was found.

        "I moved to Rome" has no word of "Where does she live?". "I live in Oslo", before it, has.
        """
        await self.load_versions(replaced)
        items: dict[str, Scored] = {}
        for memory in replaced:
            newest = self.of_key[memory.key][-1:]
            if newest and newest[0].is_current:
                items.setdefault(memory.key, (newest[0].item, memory.score))
        return [*items.values()]

    async def load_versions(self, found: Sequence[StoredFact]) -> None:
        """Load the versions of some facts."""
        new = [*{memory.key: None for memory in found if memory.key not in self.of_key}]
        for start in range(0, len(new), _AT_ONCE):
            some = new[start : start + _AT_ONCE]
            loaded = await asyncio.gather(*map(self._load, some))
            for key, versions in zip(some, loaded, strict=True):
                self.of_key[key] = self._versions_then(versions)
                for each in self.of_key[key]:
                    self._items[each.item.id.partition("/")[2]] = each.item

    def _versions_then(self, versions: list[Version[Item]]) -> list[Version[Item]]:
        """Return the versions that were known then, or of these the one that held then."""
        as_of = self._query.as_of
        known_at = self._query.known_at
        if known_at is not None:
            versions = known_by(versions, known_at)
        if as_of is None:
            return versions
        return [replace(each, valid_until=None) for each in versions if each.holds_at(as_of)]

    def with_versions(self, proposal: Proposal, spec: SectionSpec) -> Proposal:
        """Return a proposal with the versions that a section of these facts would show."""
        ends: dict[str, datetime | None] = {}
        items: dict[str, Item] = {}
        scores = {unit.items[0].id: unit.score or 0.0 for unit in proposal.candidates}
        for unit in proposal.candidates:
            item = unit.items[0]
            for version in self.of_key.get(item.key or "", ()):
                items[version.item.id] = version.item
                ends[version.item.id] = version.valid_until
            items.setdefault(item.id, item)
        held = ItemTable(spec)
        ordinals = {}
        shown = oldest_first([*items.values()])
        for at, item in enumerate(shown):
            held.put(item)
            ordinals[item.id] = at
            end = ends.get(item.id)
            if end is not None and not self._query.begins_later(end):
                held.evict([at], {at: end})
        ranked = {ordinals[item_id]: score for item_id, score in scores.items()}
        versions = ShownVersions(held, self._query, ranked)
        units = [
            Candidate.alone(shown[at], at, rank, ranked.get(at))
            for rank, at in enumerate(versions.order(ranked), 1)
        ]
        return replace(proposal, candidates=versions.labelled(units))


def _narrowed(proposal: Proposal, wanted: MetadataFilter | None) -> Proposal:
    """Return a proposal without versions that a filter leaves out, and their companions."""
    if wanted is None:
        return proposal
    kept = proposal.filtered(lambda unit: wanted(unit.items[0].metadata))
    positions = {unit.position for unit in kept.candidates}
    return kept.filtered(lambda unit: not unit.is_replaced or positions.issuperset(unit.needs))
