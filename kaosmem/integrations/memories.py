"""Memories of users, for frameworks that have a service for them: a session for each user."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kaosmem.integrations.model_calls import on_loop
from kaosmem.names import safe_id
from kaosmem.persistence.storage.places import Location
from kaosmem.sections.spec import DEFAULT_SECTIONS, SectionSpec
from kaosmem.session.sessions import Sessions
from kaosmem.types import JSONValue
from kaosmem.types.items import Item

MEMORIES_SECTION = SectionSpec("memories", eviction="none")
"""The section that holds the memories of a user, one item each."""
_DELETED = SectionSpec("deleted_memories", eviction="none", in_context=False)
"""Items with the ids of deleted memories as keys, so that their session does not bring them back."""


class Memory(NamedTuple):
    """A memory to store. id: "" for a random one. timestamp: ISO 8601, "" for none."""

    id: str
    text: str
    author: str
    timestamp: str
    metadata: Mapping[str, JSONValue]


class UserMemories:
    """The memories of users. Calls may come from any thread and any event loop. Each call saves.

    Args:
        location: The place of the sessions. The id of a user's session is made safe.
        options: Further arguments of `Sessions`, such as `namespace` and `ranker`.
    """

    def __init__(self, location: Location, **options: Any) -> None:
        sections = (*DEFAULT_SECTIONS, MEMORIES_SECTION, _DELETED)
        self._sessions = Sessions(location, sections=sections, **options)

    async def add(self, user: str, memories: Iterable[Memory]) -> None:
        """Store memories whose ids are new, and that were not deleted. Blank ones are left out."""
        await on_loop(self._add(safe_id(user), memories))

    async def search(self, user: str, query: str, limit: int) -> list[Item]:
        """Return the memories of a user that match a query, best first."""
        return await on_loop(self._search(safe_id(user), query, limit))

    async def delete(self, user: str, memory_id: str) -> None:
        """Erase a memory. An unknown id changes nothing."""
        await on_loop(self._delete(safe_id(user), safe_id(memory_id)))

    async def _add(self, user: str, memories: Iterable[Memory]) -> None:
        async with self._sessions.turn(user) as session:
            for memory in memories:
                item_id = safe_id(memory.id) if memory.id else None
                is_deleted = item_id and session[_DELETED.name].keyed(item_id)
                if not memory.text.strip() or item_id in session or is_deleted:
                    continue
                metadata = {**memory.metadata, "author": memory.author}
                if memory.timestamp:
                    metadata["timestamp"] = memory.timestamp
                session.add(
                    MEMORIES_SECTION.name,
                    memory.text,
                    id=item_id,
                    role="user" if memory.author == "user" else "assistant",
                    metadata=metadata,
                )

    async def _search(self, user: str, query: str, limit: int) -> list[Item]:
        async with self._sessions.turn(user) as session:
            hits = session.search(query, MEMORIES_SECTION.name, limit)
        return [hit.item for hit in hits]

    async def _delete(self, user: str, item_id: str) -> None:
        async with self._sessions.turn(user) as session:
            if session[MEMORIES_SECTION.name].get(item_id) is not None:
                session.add(_DELETED.name, "A deleted memory.", key=item_id)
                await session.forget(item_id)
