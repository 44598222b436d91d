"""Short-term memory (a session's state) and long-term memory (texts for later)."""

from __future__ import annotations

import copy
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from typing import Any, Protocol, runtime_checkable

from kaosmem.arguments import Clock, check_count
from kaosmem.errors import InvalidContentError
from kaosmem.names import check_id
from kaosmem.retrieval import BM25Ranker, Ranker
from kaosmem.stores.expiry import Expiries
from kaosmem.types import Item, JSONValue, check_json, check_text

_Shelf = tuple[str, str]


@runtime_checkable
class ShortTermMemory(Protocol):
    """One state for each session: JSON values by name.

    session_id: any text of 1 to 256 characters without control characters. An unknown state is {}.
    All methods raise InvalidNameError for an id, and InvalidContentError for values that JSON cannot hold.
    """

    async def get_state(self, session_id: str) -> dict[str, JSONValue]:
        """Return the state."""
        ...

    async def set_state(self, session_id: str, state: Mapping[str, JSONValue]) -> None:
        """Put a state in the place of the one before."""
        ...

    async def update_state(self, session_id: str, patch: Mapping[str, JSONValue]) -> dict[str, JSONValue]:
        """Replace the values of the patch's names, whole, leave the others, and return the state, in one step."""
        ...

    async def clear(self, session_id: str) -> None:
        """Delete the state."""
        ...


@dataclass(frozen=True, slots=True)
class Memory:
    """One text that a long-term memory found.

    score: how well it matches the query, higher is better; 0 if there was no query.
    metadata: `timestamp`, the time of saving in ISO 8601, and more if the store knows more.
    """

    content: str = field(repr=False)
    score: float
    id: str
    metadata: Mapping[str, JSONValue] = field(default_factory=dict, repr=False)


@runtime_checkable
class LongTermMemory(Protocol):
    """Texts by agent and namespace, found by a query.

    agent_id, namespace: any text of 1 to 256 characters without control characters. Different ones never collide.
    All methods raise InvalidNameError for these.
    """

    async def save(self, agent_id: str, content: str, namespace: str = "default", ttl: float | None = None) -> str:
        """Save a text and return its new id; the same text again is another memory.

        ttl: seconds until it is gone, None for never.
        Raises InvalidContentError for the text and InvalidArgumentError for the ttl.
        """
        ...

    async def search(self, agent_id: str, query: str, namespace: str = "default", limit: int = 5) -> list[Memory]:
        """Return at most `limit` memories that answer the query, best first; of equal ones the newest first."""
        ...

    async def get(self, agent_id: str, memory_id: str, namespace: str = "default") -> Memory | None:
        """Return a memory, None where there is none of that id."""
        ...

    async def delete(self, agent_id: str, memory_id: str, namespace: str = "default") -> None:
        """Delete a memory if it is there."""
        ...

    async def clear(self, agent_id: str, namespace: str = "default") -> None:
        """Delete all memories of an agent in a namespace."""
        ...


class InMemoryShortTermMemory:
    """A ShortTermMemory in this process.

    >>> states = InMemoryShortTermMemory()
    >>> await states.update_state("room-7", {"step": 2})
    {'step': 2}
    """

    def __init__(self) -> None:
        self._states: dict[str, dict[str, JSONValue]] = {}

    async def get_state(self, session_id: str) -> dict[str, JSONValue]:
        return copy.deepcopy(self._states.get(check_id(session_id, "session id"), {}))

    async def set_state(self, session_id: str, state: Mapping[str, JSONValue]) -> None:
        self._states[check_id(session_id, "session id")] = check_state(state)

    async def update_state(self, session_id: str, patch: Mapping[str, JSONValue]) -> dict[str, JSONValue]:
        # Nothing is awaited between the reading and the writing.
        state = self._states.get(check_id(session_id, "session id"), {}) | check_state(patch)
        self._states[session_id] = state
        return copy.deepcopy(state)

    async def clear(self, session_id: str) -> None:
        self._states.pop(check_id(session_id, "session id"), None)


def check_state(state: object) -> dict[str, JSONValue]:
    """Return a copy of a state that JSON holds exactly. Raises InvalidContentError."""
    if not isinstance(state, Mapping):
        raise InvalidContentError(f"a state is a {type(state).__name__}; give a mapping with str keys")
    copied: dict[str, JSONValue] = check_json(state, "state")
    return copied


class InMemoryLongTermMemory:
    """A LongTermMemory in this process. It finds texts by their words.

    ranker: orders the memories for a query. clock: returns times with a zone. rng: source of ids.

    >>> facts = InMemoryLongTermMemory()
    >>> fact_id = await facts.save("analyst", "The customer prefers calls.")
    >>> [memory.content for memory in await facts.search("analyst", "customer")]
    ['The customer prefers calls.']
    """

    def __init__(
        self, *, ranker: Ranker | None = None, clock: Clock | None = None, rng: random.Random | None = None
    ) -> None:
        self._ranker = ranker or BM25Ranker()
        self._rng: random.Random = rng or random.SystemRandom()
        self._shelves: dict[_Shelf, _Memories] = {}
        self._expiries: Expiries[tuple[_Shelf, str]] = Expiries(clock)

    async def save(self, agent_id: str, content: str, namespace: str = "default", ttl: float | None = None) -> str:
        key, text = _shelf_key(agent_id, namespace), check_text(content, "content")
        memory_id = f"{self._rng.getrandbits(128):032x}"
        self._expiries.set((key, memory_id), ttl)
        shelf = self._shelf(key)
        if shelf is None:
            shelf = self._shelves[key] = _Memories(self._ranker)
        shelf.add(memory_id, text, self._expiries.clock())
        return memory_id

    async def search(self, agent_id: str, query: str, namespace: str = "default", limit: int = 5) -> list[Memory]:
        shelf = self._shelf(_shelf_key(agent_id, namespace))
        check_text(query, "query")
        check_count(limit, "limit")
        return shelf.search(query, limit) if shelf else []

    async def get(self, agent_id: str, memory_id: str, namespace: str = "default") -> Memory | None:
        shelf = self._shelf(_shelf_key(agent_id, namespace))
        check_id(memory_id, "memory id")
        return shelf.get(memory_id) if shelf else None

    async def delete(self, agent_id: str, memory_id: str, namespace: str = "default") -> None:
        key = _shelf_key(agent_id, namespace)
        self._delete(key, check_id(memory_id, "memory id"))

    async def clear(self, agent_id: str, namespace: str = "default") -> None:
        key = _shelf_key(agent_id, namespace)
        if shelf := self._shelves.pop(key, None):
            for memory_id in shelf.ids:
                self._expiries.discard((key, memory_id))

    def _shelf(self, key: _Shelf) -> _Memories | None:
        for due, memory_id in self._expiries.pop_due():
            self._delete(due, memory_id)
        return self._shelves.get(key)

    def _delete(self, key: _Shelf, memory_id: str) -> None:
        self._expiries.discard((key, memory_id))
        if (shelf := self._shelves.get(key)) and memory_id in shelf.ids:
            shelf.remove(memory_id)
            if not shelf.ids:
                del self._shelves[key]


class _Memories:
    """The memories of one agent in one namespace, with their index."""

    def __init__(self, ranker: Ranker) -> None:
        self.ids: dict[str, int] = {}
        self._items: dict[int, Item] = {}
        self._index = ranker.index()
        self._ordinals = count()

    def add(self, memory_id: str, text: str, saved_at: datetime) -> None:
        ordinal = next(self._ordinals)
        item = Item(memory_id, "memories", "user", text, 0, saved_at)
        self._index.add([(ordinal, item)])
        self.ids[memory_id], self._items[ordinal] = ordinal, item

    def remove(self, memory_id: str) -> None:
        ordinal = self.ids.pop(memory_id)
        self._index.remove(ordinal)
        del self._items[ordinal]

    def get(self, memory_id: str) -> Memory | None:
        ordinal = self.ids.get(memory_id)
        return None if ordinal is None else _memory(self._items[ordinal], 0.0)

    def search(self, query: str, limit: int) -> list[Memory]:
        found = self._index.rank(query, min(limit, len(self._items)))
        return [_memory(self._items[ordinal], score) for ordinal, score in found]


def _memory(item: Item, score: float) -> Memory:
    content: Any = item.content
    return Memory(content, score, item.id, {"timestamp": item.created_at.isoformat()})


def _shelf_key(agent_id: str, namespace: str) -> _Shelf:
    return check_id(agent_id, "agent id"), check_id(namespace, "namespace")
