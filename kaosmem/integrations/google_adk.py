"""Google ADK 2.x: a plugin of a runner or an app, and a `BaseMemoryService`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from typing import Any

from kaosmem.arguments import check_count
from kaosmem.errors import InvalidNameError, needs_extra
from kaosmem.integrations.conversations import (
    Framework,
    in_loop,
    joined_names,
    sessions_with,
)
from kaosmem.integrations.model_calls import ModelCalls
from kaosmem.names import check_item_id, safe_id
from kaosmem.persistence.storage.places import Location
from kaosmem.sections.spec import SectionSpec
from kaosmem.session.memory import SessionMemory
from kaosmem.types import JSONObject
from kaosmem.types.items import Item

with needs_extra("google-adk"):
    from google.adk.agents.callback_context import CallbackContext
    from google.adk.events import Event
    from google.adk.memory import BaseMemoryService
    from google.adk.memory.base_memory_service import SearchMemoryResponse
    from google.adk.memory.memory_entry import MemoryEntry
    from google.adk.models import LlmRequest, LlmResponse
    from google.adk.plugins import BasePlugin
    from google.adk.sessions import Session
    from google.genai import types

_FRAMEWORK = Framework(format="gemini", id_remedy="run the agent in a session")


class KaosmemPlugin(BasePlugin):
    """Keeps each session of a user in a session of kaosmem, and packs each request of its agents.

    Agents of one session have a window each.

    Args:
        location: The place of the sessions.
        options: Further arguments of `ModelCalls`, such as `budget`.
    """

    def __init__(self, location: Location, **options: Any) -> None:
        super().__init__(name="kaosmem")
        self.calls = ModelCalls(location, _FRAMEWORK, **options)

    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> None:
        """Pack a request."""
        config = llm_request.config
        packed = await self.calls.request(
            llm_request.contents,
            conversation=_conversation(callback_context),
            system=config.system_instruction or "",
            tools=config.tools or (),
            agent=callback_context.agent_name,
        )
        if packed.static:
            llm_request.append_instructions([packed.static])
        llm_request.contents = [types.Content.model_validate(each) for each in packed.messages]

    async def after_model_callback(
        self, *, callback_context: CallbackContext, llm_response: LlmResponse
    ) -> None:
        """Keep a reply."""
        content = llm_response.content
        # The content of a reply that stopped before its first word has no parts.
        if content is not None and content.parts and not llm_response.partial:
            await self.calls.keep([content], conversation=_conversation(callback_context))


def _conversation(context: CallbackContext) -> str:
    session = context.session
    return joined_names(session.app_name, session.user_id, session.id)


MEMORIES_SECTION = SectionSpec("memories", eviction="none")
"""The section that holds the memories of a user, one item each."""
_DELETED = SectionSpec("deleted_memories", eviction="none", in_context=False)
"""Items with the ids of deleted memories as keys, so that their session does not bring them back."""


class KaosmemMemoryService(BaseMemoryService):
    """The memories of each user of an app are the section `memories` of a session.

    A memory is the text of an event. Each event is stored once, however often its session is added.
    A deleted memory is erased from the files, and its session does not bring it back.

    Args:
        location: The place of the sessions. The id of a user's session is "app:user", made safe.
        limit: Maximum number of memories that a search returns.
        options: Further arguments of `Sessions`, such as `namespace` and `ranker`.
    """

    def __init__(
        self,
        location: Location,
        *,
        limit: int = 10,
        **options: Any,
    ) -> None:
        self._limit = check_count(limit, "limit", least=1)
        self._sessions = sessions_with([MEMORIES_SECTION, _DELETED], location, options)

    async def add_session_to_memory(self, session: Session) -> None:
        """Store the events of a session that are new."""
        await self.add_events_to_memory(
            app_name=session.app_name,
            user_id=session.user_id,
            events=session.events,
            session_id=session.id,
        )

    async def add_events_to_memory(
        self,
        *,
        events: Sequence[Event],
        session_id: str | None = None,
        **options: Any,
    ) -> None:
        """Store events that are new. The other arguments are those of `add_memory`."""
        metadata = dict(options.pop("custom_metadata", None) or {})
        if session_id is not None:
            metadata["session_id"] = session_id
        memories = []
        for event in events:
            when = datetime.fromtimestamp(event.timestamp, UTC).isoformat()
            content = event.content or types.Content()
            memories.append(
                MemoryEntry(id=event.id, content=content, author=event.author, timestamp=when)
            )
        await self.add_memory(memories=memories, custom_metadata=metadata, **options)

    @in_loop
    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: JSONObject | None = None,
    ) -> None:
        """Store memories whose ids are new. A memory without an id gets a random one."""
        async with self._turn(app_name, user_id) as session:
            for memory in memories:
                _store(session, memory, custom_metadata or {})

    @in_loop
    async def search_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        query: str,
    ) -> SearchMemoryResponse:
        """Return the memories of a user that match a query, best first."""
        async with self._turn(app_name, user_id) as session:
            hits = session.search(query, MEMORIES_SECTION.name, self._limit)
        return SearchMemoryResponse(memories=[_entry(hit.item) for hit in hits])

    @in_loop
    async def delete_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memory_id: str | None = None,
    ) -> None:
        """Erase a memory. An unknown id changes nothing."""
        item_id = _item_id(memory_id or "none")
        async with self._turn(app_name, user_id) as session:
            if session[MEMORIES_SECTION.name].get(item_id) is not None:
                session.add(_DELETED.name, "A deleted memory.", key=item_id)
                await session.forget(item_id)

    def _turn(self, *names: str) -> AbstractAsyncContextManager[SessionMemory]:
        return self._sessions.turn(safe_id(joined_names(*names)))


def _item_id(memory_id: str) -> str:
    """Return a memory's id if it may name an item, else a name made of it."""
    try:
        return check_item_id(memory_id)
    except InvalidNameError:
        return safe_id(memory_id)


def _store(
    session: SessionMemory,
    memory: MemoryEntry,
    metadata: JSONObject,
) -> None:
    """Store a memory, unless it is blank, was stored before, or was deleted."""
    item_id = _item_id(memory.id) if memory.id else None
    is_deleted = item_id and session[_DELETED.name].keyed(item_id)
    parts = memory.content.parts or ()
    text = "\n".join(part.text for part in parts if part.text and not part.thought)
    if not text.strip() or item_id in session or is_deleted:
        return
    author = memory.author or "user"
    noted = {**metadata, **memory.custom_metadata, "author": author}
    if memory.timestamp:
        noted["timestamp"] = memory.timestamp
    role = "user" if author == "user" else "assistant"
    session.add(MEMORIES_SECTION.name, text, id=item_id, role=role, metadata=noted)


def _entry(item: Item) -> MemoryEntry:
    metadata = dict(item.metadata)
    role = "user" if item.role == "user" else "model"
    return MemoryEntry(
        id=item.id,
        content=types.Content(role=role, parts=[types.Part(text=item.text)]),
        author=str(metadata.pop("author")),
        timestamp=str(metadata.pop("timestamp", item.created_at.isoformat())),
        custom_metadata=metadata,
    )
