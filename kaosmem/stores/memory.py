"""Short-term memory (a session's state) and long-term memory (facts for later)."""

from __future__ import annotations

import copy
import random
from abc import abstractmethod
from bisect import bisect
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import count
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

from kaosmem.arguments import Clock, check_count, check_ttl
from kaosmem.errors import InvalidArgumentError, NotFoundError
from kaosmem.names import check_id, shown, shown_number
from kaosmem.retrieval import BM25Ranker, Ranker
from kaosmem.retrieval.ranker import ranking_of
from kaosmem.stores.expiry import Expiries
from kaosmem.types import (
    Item,
    JSONValue,
    Version,
    check_json,
    check_metadata,
    check_text,
    stated_from,
)

Shelf: TypeAlias = tuple[str, str]
"""An agent id and a namespace."""


@runtime_checkable
class ShortTermMemory(Protocol):
    """One state for each session: JSON values by name.

    session_id: any text of 1 to 256 characters without control characters. An unknown state is {}.
    All methods raise InvalidNameError for an id, and InvalidArgumentError for values that JSON
    cannot hold.
    """

    async def get_state(self, session_id: str) -> dict[str, JSONValue]:
        """Return the state."""

    async def set_state(self, session_id: str, state: Mapping[str, JSONValue]) -> None:
        """Put a state in the place of the one before."""

    async def update_state(
        self, session_id: str, patch: Mapping[str, JSONValue]
    ) -> dict[str, JSONValue]:
        """Replace the values of the patch's names, whole, leave the others, and return the state, in one step."""

    async def clear(self, session_id: str) -> None:
        """Delete the state."""

    @abstractmethod
    async def list_states(self) -> list[str]:
        """Return the ids of the sessions that have a state with a value, sorted."""

    @abstractmethod
    async def delete_all(self) -> None:
        """Delete everything that the store holds: all of its tenant."""


@dataclass(frozen=True, slots=True)
class StoredFact:
    """One fact of a long-term memory, in one version.

    score: how well it matches the query, higher is better; 0 if there was no query.
    metadata: as it was saved. `timestamp` says when the fact began to hold, in ISO 8601; the
        default is the time of saving.
    key: facts with one key are versions of one fact. The default is the id of the first version.
    """

    content: str = field(repr=False)
    score: float
    id: str
    metadata: Mapping[str, JSONValue] = field(repr=False)
    key: str


@runtime_checkable
class LongTermMemory(Protocol):
    """Facts by agent and namespace, found by a query.

    A fact has versions. The version that began to hold last is live, and of those with one time the
    one saved last. The others are superseded: they stay readable, and are found on request only.
    agent_id, namespace, key: any text of 1 to 256 characters without control characters. Different
        ones never collide.
    All methods raise InvalidNameError for these.
    """

    async def save(
        self,
        agent_id: str,
        content: str,
        namespace: str = "default",
        ttl: float | None = None,
        *,
        key: str | None = None,
        metadata: Mapping[str, JSONValue] | None = None,
    ) -> str:
        """Save a fact and return its new id. The same text again is another fact.

        ttl: seconds until it is gone, None for never. A version that is gone brings no earlier one
            back.
        key: names the fact. If the namespace has facts with this key, the new one is a version of
            them, and supersedes the live one in one step, unless it began to hold earlier. The
            default is the new id.
        metadata: such as `source` and `speaker`. `timestamp` says when the fact began to hold, in
            ISO 8601; a time without a zone is in UTC. The default is now, or the latest begin of a
            version if a clock was ahead.
        Raises InvalidArgumentError for the text and the metadata, and InvalidArgumentError for the
        ttl.
        """

    async def update(
        self,
        agent_id: str,
        memory_id: str,
        content: str,
        namespace: str = "default",
        ttl: float | None = None,
        *,
        metadata: Mapping[str, JSONValue] | None = None,
    ) -> str:
        """Save a new version of the fact that has this version, and return the new version's id.

        This is `save` with the fact's key. The metadata and the ttl of earlier versions are not
        carried over. Raises NotFoundError for an id that the namespace does not have, and as
        `save`.
        """

    async def search(
        self,
        agent_id: str,
        query: str,
        namespace: str = "default",
        limit: int = 5,
        *,
        superseded: bool = False,
    ) -> list[StoredFact]:
        """Return at most `limit` facts that answer the query, best first; of equal ones the newest first.

        superseded: whether superseded versions are searched, too. The limit counts the versions that are returned.
        """

    async def versions(
        self, agent_id: str, key: str, namespace: str = "default"
    ) -> list[Version[StoredFact]]:
        """Return all versions of a fact that are not deleted or expired, in the order in which they began to hold.

        Each version holds until the next one begins, even if that one is deleted later. All times are in UTC.
        `known_from` is the time of saving.
        key: the fact's key; without one, the id of its first version. An unknown fact has no versions.
        """

    async def get(
        self, agent_id: str, memory_id: str, namespace: str = "default"
    ) -> StoredFact | None:
        """Return a version of a fact, superseded or not; None if the namespace has none with this id."""

    async def delete(self, agent_id: str, memory_id: str, namespace: str = "default") -> None:
        """Delete a version of a fact, if it exists. Its other versions stay as they are."""

    async def clear(self, agent_id: str, namespace: str = "default") -> None:
        """Delete all facts of an agent in a namespace."""

    @abstractmethod
    async def list_namespaces(self) -> list[Shelf]:
        """Return the agent id and the namespace of all facts that are not expired, each pair once, sorted."""

    @abstractmethod
    async def delete_all(self) -> None:
        """Delete everything that the store holds: all of its tenant."""


def fact_metadata(metadata: Mapping[str, JSONValue] | None) -> dict[str, JSONValue]:
    """Return a copy of a fact's metadata.

    Raises InvalidArgumentError, also for a `timestamp` that is no time.
    """
    checked = check_metadata(metadata)
    if "timestamp" in checked and fact_time(checked) is None:
        raise InvalidArgumentError(
            f"timestamp is {shown_number(checked['timestamp'])}; give a time in ISO 8601, such as "
            "'2024-05-07', "
            "or leave it out"
        )
    return checked


def fact_time(metadata: Mapping[str, JSONValue]) -> datetime | None:
    """Return the `timestamp` of metadata in UTC, which a time without a zone is taken for; None if it is no time.

    >>> fact_time({"timestamp": "2024-05-07"})
    datetime.datetime(2024, 5, 7, 0, 0, tzinfo=datetime.timezone.utc)
    """
    stated = stated_from(metadata)
    try:
        return stated and stated.astimezone(UTC)
    except OverflowError:
        return None


class BaseShortTermMemory(ShortTermMemory):
    """The checks of a ShortTermMemory. A backend adds four methods, which get checked values."""

    async def get_state(self, session_id: str) -> dict[str, JSONValue]:
        return await self._read(check_id(session_id, "session id"))

    async def set_state(self, session_id: str, state: Mapping[str, JSONValue]) -> None:
        await self._change(check_id(session_id, "session id"), check_state(state), replace=True)

    async def update_state(
        self, session_id: str, patch: Mapping[str, JSONValue]
    ) -> dict[str, JSONValue]:
        return await self._change(
            check_id(session_id, "session id"), check_state(patch), replace=False
        )

    async def clear(self, session_id: str) -> None:
        await self._change(check_id(session_id, "session id"), {}, replace=True)

    @abstractmethod
    async def _read(self, session_id: str) -> dict[str, JSONValue]:
        """Return a state, {} for an unknown one."""

    @abstractmethod
    async def _change(
        self, session_id: str, patch: dict[str, JSONValue], *, replace: bool
    ) -> dict[str, JSONValue]:
        """Set the values of the patch's names, in one step, and return the state.

        replace: whether the values of other names are deleted.
        """


class InMemoryShortTermMemory(BaseShortTermMemory):
    """A ShortTermMemory in this process.

    >>> states = InMemoryShortTermMemory()
    >>> await states.update_state("room-7", {"step": 2})
    {'step': 2}
    """

    def __init__(self) -> None:
        self._states: dict[str, dict[str, JSONValue]] = {}

    async def list_states(self) -> list[str]:
        return sorted(self._states)

    async def delete_all(self) -> None:
        self._states.clear()

    async def _read(self, session_id: str) -> dict[str, JSONValue]:
        return copy.deepcopy(self._states.get(session_id, {}))

    async def _change(
        self, session_id: str, patch: dict[str, JSONValue], *, replace: bool
    ) -> dict[str, JSONValue]:
        state = patch if replace else self._states.get(session_id, {}) | patch
        self._states[session_id] = state
        if not state:
            del self._states[session_id]
        return copy.deepcopy(state)


def check_state(state: object) -> dict[str, JSONValue]:
    """Return a copy of a state that JSON holds exactly. Raises InvalidArgumentError."""
    if not isinstance(state, Mapping):
        raise InvalidArgumentError(
            f"a state is a {type(state).__name__}; give a mapping with str keys"
        )
    copied: dict[str, JSONValue] = check_json(state, "state")
    return copied


class NewFact(NamedTuple):
    """A checked fact that is to be saved.

    ttl: seconds, None for never. key: None for the new id. metadata: without the default of
        `timestamp`.
    """

    content: str
    ttl: float | None
    key: str | None
    metadata: dict[str, JSONValue]

    def saved(
        self, memory_id: str, saved_at: datetime, latest: datetime | None = None
    ) -> StoredFact:
        """Return the fact as it is stored.

        latest: when the last version of its key began to hold.
        """
        began = saved_at if latest is None else max(saved_at, latest)
        metadata = {"timestamp": began.isoformat()} | self.metadata
        return StoredFact(self.content, 0.0, memory_id, metadata, self.key or memory_id)


class BaseLongTermMemory(LongTermMemory):
    """The checks of a LongTermMemory. A backend adds seven methods, which get checked values."""

    async def save(
        self,
        agent_id: str,
        content: str,
        namespace: str = "default",
        ttl: float | None = None,
        *,
        key: str | None = None,
        metadata: Mapping[str, JSONValue] | None = None,
    ) -> str:
        shelf = _shelf_key(agent_id, namespace)
        named = None if key is None else check_id(key, "key")
        return await self._save(shelf, _new_fact(content, ttl, named, metadata), None)

    async def update(
        self,
        agent_id: str,
        memory_id: str,
        content: str,
        namespace: str = "default",
        ttl: float | None = None,
        *,
        metadata: Mapping[str, JSONValue] | None = None,
    ) -> str:
        shelf = _shelf_key(agent_id, namespace)
        version = check_id(memory_id, "memory id")
        return await self._save(shelf, _new_fact(content, ttl, None, metadata), version)

    async def search(
        self,
        agent_id: str,
        query: str,
        namespace: str = "default",
        limit: int = 5,
        *,
        superseded: bool = False,
    ) -> list[StoredFact]:
        shelf = _shelf_key(agent_id, namespace)
        asked = check_text(query, "query")
        return await self._search(shelf, asked, check_count(limit, "limit"), superseded=superseded)

    async def versions(
        self, agent_id: str, key: str, namespace: str = "default"
    ) -> list[Version[StoredFact]]:
        return await self._versions(_shelf_key(agent_id, namespace), check_id(key, "key"))

    async def get(
        self, agent_id: str, memory_id: str, namespace: str = "default"
    ) -> StoredFact | None:
        return await self._get(_shelf_key(agent_id, namespace), check_id(memory_id, "memory id"))

    async def delete(self, agent_id: str, memory_id: str, namespace: str = "default") -> None:
        await self._delete(_shelf_key(agent_id, namespace), check_id(memory_id, "memory id"))

    async def clear(self, agent_id: str, namespace: str = "default") -> None:
        await self._delete(_shelf_key(agent_id, namespace), None)

    @abstractmethod
    async def _save(self, shelf: Shelf, new: NewFact, of: str | None) -> str:
        """Save a fact, end the earlier versions of its key, in one step, and return the new id.

        of: a version of the fact, whose key the new one gets. Raises as `unknown_fact` if the shelf
            does not have it.
        """

    @abstractmethod
    async def _search(
        self, shelf: Shelf, query: str, limit: int, *, superseded: bool
    ) -> list[StoredFact]:
        """Return at most `limit` facts for a query, best first, the newest of equal ones first."""

    @abstractmethod
    async def _versions(self, shelf: Shelf, key: str) -> list[Version[StoredFact]]:
        """Return the versions of a fact, in the order in which they began to hold."""

    @abstractmethod
    async def _get(self, shelf: Shelf, memory_id: str) -> StoredFact | None:
        """Return a version of a fact, or None."""

    @abstractmethod
    async def _delete(self, shelf: Shelf, memory_id: str | None) -> None:
        """Delete a version of a fact, or all facts for None."""


class InMemoryLongTermMemory(BaseLongTermMemory):
    """A LongTermMemory in this process. It finds facts by their words.

    ranker: orders the facts for a query. clock: returns times with a zone. rng: source of ids.

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
        self._ranker = ranker or BM25Ranker()
        self._rng: random.Random = rng or random.SystemRandom()
        self._shelves: dict[Shelf, _Facts] = {}
        self._expiries: Expiries[tuple[Shelf, str]] = Expiries(clock)

    async def list_namespaces(self) -> list[Shelf]:
        self._drop_due()
        return sorted(self._shelves)

    async def delete_all(self) -> None:
        for shelf in [*self._shelves]:
            await self._delete(shelf, None)

    async def _save(self, shelf: Shelf, new: NewFact, of: str | None) -> str:
        facts = self._facts(shelf)
        if of is not None:
            known = facts.get(of) if facts else None
            if known is None:
                raise unknown_fact(of, shelf[1])
            new = new._replace(key=known.key)
        memory_id = f"{self._rng.getrandbits(128):032x}"
        self._expiries.set((shelf, memory_id), new.ttl)
        if facts is None:
            facts = self._shelves[shelf] = _Facts(self._ranker)
        saved_at = self._expiries.clock().astimezone(UTC)
        facts.add(new.saved(memory_id, saved_at, facts.latest(new.key)), saved_at)
        return memory_id

    async def _search(
        self, shelf: Shelf, query: str, limit: int, *, superseded: bool
    ) -> list[StoredFact]:
        facts = self._facts(shelf)
        return facts.search(query, limit, superseded=superseded) if facts else []

    async def _versions(self, shelf: Shelf, key: str) -> list[Version[StoredFact]]:
        facts = self._facts(shelf)
        return facts.versions(key) if facts else []

    async def _get(self, shelf: Shelf, memory_id: str) -> StoredFact | None:
        facts = self._facts(shelf)
        return facts.get(memory_id) if facts else None

    async def _delete(self, shelf: Shelf, memory_id: str | None) -> None:
        facts = self._shelves.get(shelf)
        for each in list(facts.ids if facts else ()) if memory_id is None else [memory_id]:
            self._remove(shelf, each)

    def _facts(self, shelf: Shelf) -> _Facts | None:
        self._drop_due()
        return self._shelves.get(shelf)

    def _drop_due(self) -> None:
        for due, memory_id in self._expiries.pop_due():
            self._remove(due, memory_id)

    def _remove(self, shelf: Shelf, memory_id: str) -> None:
        self._expiries.discard((shelf, memory_id))
        facts = self._shelves.get(shelf)
        if facts and memory_id in facts.ids:
            facts.remove(memory_id)
            if not facts.ids:
                del self._shelves[shelf]


class _Facts:
    """The facts of one agent in one namespace, with their index."""

    def __init__(self, ranker: Ranker) -> None:
        self.ids: dict[str, int] = {}
        self._versions: dict[int, Version[StoredFact]] = {}
        self._of_key: dict[str, list[int]] = {}  # in the order in which they began to hold
        self._live: set[int] = set()
        self._index = ranker.index()
        self._ordinals = count()

    def latest(self, key: str | None) -> datetime | None:
        """Return when the last version of a fact began to hold."""
        of_key = () if key is None else self._of_key.get(key, ())
        return self._versions[of_key[-1]].valid_from if of_key else None

    def add(self, fact: StoredFact, saved_at: datetime) -> None:
        ordinal = next(self._ordinals)
        begins = fact_time(fact.metadata) or saved_at
        self._index.add([(ordinal, Item(fact.id, "memories", "user", fact.content, 0, saved_at))])
        of_key = self._of_key.setdefault(fact.key, [])
        place = bisect(of_key, begins, key=lambda at: self._versions[at].valid_from)
        for at in of_key[:place]:
            ends = self._versions[at].valid_until
            if ends is None or begins < ends:
                self._versions[at] = replace(self._versions[at], valid_until=begins)
                self._live.discard(at)
        ends = self._versions[of_key[place]].valid_from if place < len(of_key) else None
        self.ids[fact.id], self._versions[ordinal] = ordinal, Version(fact, begins, ends, saved_at)
        of_key.insert(place, ordinal)
        if ends is None:
            self._live.add(ordinal)

    def remove(self, memory_id: str) -> None:
        ordinal = self.ids.pop(memory_id)
        self._index.remove(ordinal)
        self._live.discard(ordinal)
        key = self._versions.pop(ordinal).item.key
        self._of_key[key].remove(ordinal)
        if not self._of_key[key]:
            del self._of_key[key]

    def get(self, memory_id: str) -> StoredFact | None:
        ordinal = self.ids.get(memory_id)
        return None if ordinal is None else _copy(self._versions[ordinal].item)

    def versions(self, key: str) -> list[Version[StoredFact]]:
        found = (self._versions[ordinal] for ordinal in self._of_key.get(key, ()))
        return [replace(each, item=_copy(each.item)) for each in found]

    def search(self, query: str, limit: int, *, superseded: bool) -> list[StoredFact]:
        among = None if superseded or len(self._live) == len(self._versions) else self._live
        found = ranking_of(self._index, query, min(limit, len(self._versions)), among=among).matches
        return [_copy(self._versions[ordinal].item, score) for ordinal, score in found]


def _copy(fact: StoredFact, score: float = 0.0) -> StoredFact:
    return replace(fact, score=score, metadata=copy.deepcopy(fact.metadata))


def unknown_fact(memory_id: str, namespace: str) -> NotFoundError:
    """Return the error of a fact that a namespace does not have."""
    return NotFoundError(
        f"namespace {shown(namespace)} has no fact {shown(memory_id)}; it may have expired; save "
        "it anew"
    )


def _new_fact(
    content: str, ttl: float | None, key: str | None, metadata: Mapping[str, JSONValue] | None
) -> NewFact:
    text = check_text(content, "content")
    return NewFact(text, None if ttl is None else check_ttl(ttl), key, fact_metadata(metadata))


def _shelf_key(agent_id: str, namespace: str) -> Shelf:
    return check_id(agent_id, "agent id"), check_id(namespace, "namespace")
