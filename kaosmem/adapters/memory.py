"""Short-term and long-term memories as sources: facts for the query, and a session's state."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime

from kaosmem.adapters.store_source import Scored, StoreSource, passing, proposed, searched
from kaosmem.arguments import check_instance
from kaosmem.filters import MetadataFilter
from kaosmem.names import check_id
from kaosmem.retrieval import Query
from kaosmem.sections import Proposal, SectionSpec
from kaosmem.stores import LongTermMemory, Memory, ShortTermMemory
from kaosmem.types import Item, JSONValue, Trust, json_text

FACTS = SectionSpec("facts", 8_000, 65, eviction="none")
STATE = SectionSpec("state", 4_000, 75, eviction="none")


class FactSource(StoreSource):
    """The facts of an agent's long-term memory that match the query, best first.

    Raises InvalidNameError for an id, InvalidArgumentError for the store and the spec.

    >>> from kaosmem import InMemoryLongTermMemory, SessionMemory
    >>> facts = InMemoryLongTermMemory()
    >>> fact_id = await facts.save("analyst", "The customer prefers calls.")
    >>> memory = SessionMemory.test_mode()
    >>> name = await memory.attach(FactSource(facts, "analyst"))
    >>> print((await memory.assemble_context("How to reach the customer?", budget=200)).text)
    ## facts
    [...] The customer prefers calls.
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
        self._agent_id, self._namespace = check_id(agent_id, "agent id"), check_id(namespace, "namespace")

    async def propose(self, query: Query, *, cap: int, wanted: MetadataFilter | None = None) -> Proposal:
        """Return the facts that match the query; none without a query."""
        if not query.text.strip() or not cap:
            return Proposal(())

        async def search(limit: int) -> list[Scored]:
            found = await self._store.search(self._agent_id, query.text, namespace=self._namespace, limit=limit)
            return [(self._fact(memory), memory.score) for memory in found]

        return await searched(search, cap=cap, wanted=wanted)

    async def get(self, item_id: str) -> Item | None:
        """Return a memory, or None."""
        if (memory_id := self._store_id(item_id)) is None:
            return None
        memory = await self._store.get(self._agent_id, memory_id, namespace=self._namespace)
        return None if memory is None else self._fact(memory)

    async def forget(self, item_ids: Collection[str]) -> None:
        """Delete memories from the store."""
        for memory_id in self._store_ids(item_ids):
            await self._store.delete(self._agent_id, memory_id, namespace=self._namespace)

    def _fact(self, memory: Memory) -> Item:
        saved_at = _time_of(memory.metadata.get("timestamp"))
        return self._item(memory.id, memory.content, metadata=memory.metadata, created_at=saved_at)


class StateSource(StoreSource):
    """A session's state as lines `key: value`, ordered by key, each with the metadata `key`.

    The source cannot forget: a ShortTermMemory cannot delete one key alone.
    Raises InvalidNameError for the id, InvalidArgumentError for the store and the spec.

    >>> from kaosmem import InMemoryShortTermMemory, SessionMemory
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

    async def propose(self, query: Query, *, cap: int, wanted: MetadataFilter | None = None) -> Proposal:
        """Return the lines, whatever the query."""
        state = await self._store.get_state(self._session_id)
        lines = [(self._line(key, value), None) for key, value in sorted(state.items())]
        return proposed(passing(lines, wanted), cap=cap)

    async def get(self, item_id: str) -> Item | None:
        """Return a line, or None."""
        if (key := self._local(item_id)) is None:
            return None
        state = await self._store.get_state(self._session_id)
        return self._line(key, state[key]) if key in state else None

    def _line(self, key: str, value: JSONValue) -> Item:
        text = value if isinstance(value, str) else json_text(value)
        return self._item(key, f"{key}: {text}", metadata={"key": key})


def _time_of(timestamp: JSONValue) -> datetime | None:
    """Return the time that a text in ISO 8601 says, taken for UTC if it has no zone; None for any other value."""
    try:
        time = datetime.fromisoformat(timestamp) if isinstance(timestamp, str) else None
    except ValueError:
        return None
    return time.replace(tzinfo=UTC) if time and time.tzinfo is None else time
