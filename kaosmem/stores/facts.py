"""Long-term memory: facts for later, in versions."""

from __future__ import annotations

import copy
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

from kaosmem.arguments import Clock, check_clock, check_count, check_metadata, check_text, check_ttl
from kaosmem.errors import NotFoundError
from kaosmem.names import check_id, shown
from kaosmem.types import JSONDict, JSONObject
from kaosmem.types.items import check_timestamp, utc_time
from kaosmem.types.versions import Version

T = TypeVar("T")

FactScope: TypeAlias = tuple[str, str]
"""An agent id and a namespace."""


@dataclass(frozen=True, slots=True)
class StoredFact:
    """One fact of a long-term memory, in one version.

    Attributes:
        score: How well it matches the query, higher is better; 0 if there was no query.
        metadata: As it was saved. `timestamp` says when the fact began to hold, in ISO 8601; the
            default is the time of saving.
        key: Facts with one key are versions of one fact. The default is the id of the first
            version.
    """

    content: str = field(repr=False)
    score: float
    id: str
    metadata: JSONObject = field(repr=False)
    key: str


@dataclass(frozen=True, slots=True)
class FactRow:
    """A version of a fact, as a store keeps it.

    Attributes:
        expiry: The time at which the version is gone, in seconds since 1970. None: never.
        number: Larger for a version saved later. The store gives it.
    """

    id: str
    key: str
    content: str
    metadata: JSONObject
    valid_from: datetime
    valid_until: datetime | None
    known_from: datetime
    expiry: float | None
    number: int = 0

    def fact(self, score: float = 0.0) -> StoredFact:
        """Return the version for a caller, who may change its metadata."""
        return StoredFact(self.content, score, self.id, copy.deepcopy(self.metadata), self.key)

    def is_held(self, now: float) -> bool:
        """Return whether the version is not expired."""
        return self.expiry is None or self.expiry > now

    def ends_after(self, time: datetime) -> bool:
        """Return whether the version still holds after a time, or begins after it."""
        return self.valid_until is None or self.valid_until > time


class NewFact(NamedTuple):
    """A checked fact that is to be saved.

    Attributes:
        ttl: Seconds, None for never.
        key: None for the new id.
        metadata: Without the default of `timestamp`.
    """

    content: str
    ttl: float | None
    key: str | None
    metadata: JSONDict

    def begins(self, saved_at: datetime) -> datetime:
        """Return the time from which the fact holds, unless a version begins later."""
        return utc_time(self.metadata) or saved_at

    def saved(
        self,
        memory_id: str,
        saved_at: datetime,
        later: Sequence[FactRow],
    ) -> FactRow:
        """Return the fact as a version among those of its key.

        Args:
            later: The versions of the key that end after the fact begins.
        """
        begins = utc_time(self.metadata)
        metadata = self.metadata
        if begins is None:  # if another clock was ahead, its version is no newer than this one
            begins = max([saved_at, *(each.valid_from for each in later)])
            metadata = {"timestamp": begins.isoformat()} | metadata
        ends = min((each.valid_from for each in later if each.valid_from > begins), default=None)
        expiry = None
        if self.ttl is not None:
            expiry = saved_at.timestamp() + self.ttl
        key = self.key or memory_id
        return FactRow(memory_id, key, self.content, metadata, begins, ends, saved_at, expiry)


def ended_by(new: FactRow, later: Sequence[FactRow]) -> list[FactRow]:
    """Return the versions that a new version of their key ends, as they are then.

    Args:
        later: The versions of the key that end after the new one begins.
    """
    return [
        replace(each, valid_until=new.valid_from)
        for each in later
        if each.valid_from <= new.valid_from and each.ends_after(new.valid_from)
    ]


class FactRows(Protocol):
    """The facts of one agent in one namespace, inside a transaction. No expired row is returned."""

    def get(self, memory_id: str) -> FactRow | None:
        """Return a row, or None."""

    def versions(self, key: str, *, after: datetime | None = None) -> list[FactRow]:
        """Return the rows of a key, by the time from which they hold, then by number.

        Args:
            after: Returns only the rows that end after this time.
        """

    def add(self, new: FactRow, ended: Sequence[FactRow]) -> None:
        """Store a new row, with a number, and the changed ends of others."""

    def delete(self, memory_id: str | None) -> None:
        """Delete a row, if it exists, or all rows for None."""

    def search(
        self,
        query: str,
        limit: int,
        *,
        superseded: bool,
    ) -> Sequence[tuple[FactRow, float]]:
        """Return at most `limit` rows with their scores, best first.

        Of equally good rows, the newest comes first.

        Args:
            superseded: Whether rows with an end are searched, too.
        """


class LongTermMemory(ABC):
    """Facts by agent and namespace, found by a query.

    A fact has versions. The version that began to hold last is live, and of those with one time the
    one saved last. The others are superseded: they stay readable, and are found on request only.

    Ids, namespaces and keys are any text of 1 to 256 characters without control characters.
    Different ones never collide. All methods raise InvalidNameError for others.

    A store is a subclass with the abstract methods, which get checked values.

    Args:
        clock: Returns times with a zone. None: the computer's clock.
    """

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = check_clock(clock)

    async def save(
        self,
        agent_id: str,
        content: str,
        namespace: str = "default",
        ttl: float | None = None,
        *,
        key: str | None = None,
        metadata: JSONObject | None = None,
    ) -> str:
        """Save a fact and return its new id. The same text again is another fact.

        Raises InvalidArgumentError for the text, the ttl and the metadata.

        Args:
            ttl: Seconds until it is gone, None for never. A version that is gone brings no earlier
                one back.
            key: Names the fact. If the namespace has facts with this key, the new one is a version
                of them, and supersedes the live one in one step, unless it began to hold earlier.
                The default is the new id.
            metadata: Such as `source` and `speaker`. `timestamp` says when the fact began to hold,
                in ISO 8601; a time without a zone is in UTC. The default is now, or the latest
                begin of a version if a clock was ahead.
        """
        scope = _fact_scope(agent_id, namespace)
        named = None
        if key is not None:
            named = check_id(key, "key")
        return await self._save(scope, _new_fact(content, ttl, named, metadata), None)

    async def update(
        self,
        agent_id: str,
        memory_id: str,
        content: str,
        namespace: str = "default",
        ttl: float | None = None,
        *,
        metadata: JSONObject | None = None,
    ) -> str:
        """Save a new version of the fact that has this version, and return the new version's id.

        This is `save` with the fact's key. The metadata and the ttl of earlier versions are not
        carried over. Raises NotFoundError for an id that the namespace does not have, and as
        `save`.
        """
        scope = _fact_scope(agent_id, namespace)
        version = check_id(memory_id, "memory id")
        return await self._save(scope, _new_fact(content, ttl, None, metadata), version)

    async def search(
        self,
        agent_id: str,
        query: str,
        namespace: str = "default",
        limit: int = 5,
        *,
        superseded: bool = False,
    ) -> list[StoredFact]:
        """Return at most `limit` facts that answer the query, best first.

        Of equally good facts, the newest comes first. The limit counts the returned versions.

        Args:
            superseded: Whether superseded versions are searched, too.
        """
        scope = _fact_scope(agent_id, namespace)
        asked = check_text(query, "query")
        return await self._search(scope, asked, check_count(limit, "limit"), superseded=superseded)

    async def versions(
        self,
        agent_id: str,
        key: str,
        namespace: str = "default",
    ) -> list[Version[StoredFact]]:
        """Return the versions of a fact, in the order in which they began to hold.

        Deleted and expired versions are left out. Each version holds until the next one begins,
        even if that one is deleted later. All times are in UTC. `known_from` is the time of saving.
        An unknown fact has no versions.

        Args:
            key: The fact's key. A fact without a key has the id of its first version as key.
        """
        scope = _fact_scope(agent_id, namespace)
        check_id(key, "key")
        found = await self._read(scope, lambda rows: rows.versions(key))
        return [
            Version(each.fact(), each.valid_from, each.valid_until, each.known_from)
            for each in found
        ]

    async def get(
        self,
        agent_id: str,
        memory_id: str,
        namespace: str = "default",
    ) -> StoredFact | None:
        """Return a version of a fact, superseded or not, by its id.

        Return None if the namespace has no fact with this id.
        """
        scope = _fact_scope(agent_id, namespace)
        check_id(memory_id, "memory id")
        found = await self._read(scope, lambda rows: rows.get(memory_id))
        if found is None:
            return None
        return found.fact()

    async def delete(
        self,
        agent_id: str,
        memory_id: str,
        namespace: str = "default",
    ) -> None:
        """Delete a version of a fact, if it exists. Its other versions stay as they are."""
        scope = _fact_scope(agent_id, namespace)
        check_id(memory_id, "memory id")
        await self._write(scope, lambda rows: rows.delete(memory_id))

    async def clear(self, agent_id: str, namespace: str = "default") -> None:
        """Delete all facts of an agent in a namespace."""
        await self._write(_fact_scope(agent_id, namespace), lambda rows: rows.delete(None))

    @abstractmethod
    async def list_namespaces(self) -> list[FactScope]:
        """Return each pair of an agent id and a namespace that has facts, sorted.

        Expired facts do not count.
        """

    @abstractmethod
    async def delete_all(self) -> None:
        """Delete everything that the store holds: all of its tenant."""

    async def _save(
        self,
        scope: FactScope,
        new: NewFact,
        of: str | None,
    ) -> str:
        """Save a fact, end the earlier versions of its key, in one step, and return the new id.

        Args:
            of: A version of the fact, whose key the new one gets. Raises NotFoundError if the
                scope does not have it.
        """
        memory_id = self._new_id()

        def save(rows: FactRows) -> None:
            saved_at = self._clock().astimezone(UTC)
            given = new
            if of is not None:
                known = rows.get(of)
                if known is None:
                    raise NotFoundError(
                        f"namespace {shown(scope[1])} has no fact {shown(of)}; it may have "
                        "expired; save it anew"
                    )
                given = new._replace(key=known.key)
            later: list[FactRow] = []
            if given.key is not None:
                later = rows.versions(given.key, after=given.begins(saved_at))
            row = given.saved(memory_id, saved_at, later)
            rows.add(row, ended_by(row, later))

        await self._write(scope, save)
        return memory_id

    async def _search(
        self,
        scope: FactScope,
        query: str,
        limit: int,
        *,
        superseded: bool,
    ) -> list[StoredFact]:
        """Return at most `limit` facts for a query, best first, the newest of equal ones first."""
        found = await self._read(
            scope, lambda rows: rows.search(query, limit, superseded=superseded)
        )
        return [row.fact(score) for row, score in found]

    def _new_id(self) -> str:
        """Return an id that no fact has."""
        return secrets.token_hex(16)

    @abstractmethod
    async def _read(self, scope: FactScope, work: Callable[[FactRows], T]) -> T:
        """Return the result of `work`, which reads the facts of a scope."""

    @abstractmethod
    async def _write(self, scope: FactScope, work: Callable[[FactRows], T]) -> T:
        """Return the result of `work`, which reads and changes the facts of a scope, in one step.

        The store may call `work` again, and changes the facts once. If `work` raises, nothing
        changes.
        """


def by_begin(row: FactRow) -> tuple[datetime, int]:
    """Return the place of a row among the versions of its key."""
    return row.valid_from, row.number


def _new_fact(
    content: str,
    ttl: float | None,
    key: str | None,
    metadata: JSONObject | None,
) -> NewFact:
    """Return a checked fact. Raises InvalidArgumentError."""
    text = check_text(content, "content")
    checked = check_metadata(metadata)
    check_timestamp(checked)
    if ttl is not None:
        ttl = check_ttl(ttl)
    return NewFact(text, ttl, key, checked)


def _fact_scope(agent_id: str, namespace: str) -> FactScope:
    """Return checked ids of a shelf. Raises InvalidNameError."""
    return check_id(agent_id, "agent id"), check_id(namespace, "namespace")
