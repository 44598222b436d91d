"""Google ADK 2.x: a plugin of a runner or an app, and a `BaseMemoryService`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from google.adk.agents.callback_context import CallbackContext
from google.adk.events import Event
from google.adk.memory import BaseMemoryService
from google.adk.memory.base_memory_service import SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.models import LlmRequest, LlmResponse
from google.adk.plugins import BasePlugin
from google.adk.sessions import Session
from google.genai import types

from kaosmem.integrations.memories import Memory, UserMemories
from kaosmem.integrations.model_calls import ModelCalls
from kaosmem.persistence.storage.places import Location
from kaosmem.types.items import Item


class KaosmemPlugin(BasePlugin):
    """Keeps each session of a user in a session of kaosmem, and packs each request of its agents.

    Agents of one session have a window each.

    Args:
        location: The place of the sessions.
        options: Further arguments of `ModelCalls`, such as `budget`.
    """

    def __init__(self, location: Location, **options: Any) -> None:
        super().__init__(name="kaosmem")
        self.calls: ModelCalls[Any] = ModelCalls(
            location, id_remedy="run the agent in a session", **{"format": "gemini", **options}
        )

    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> None:
        """Pack a request."""
        config = llm_request.config
        given = config.system_instruction
        packed = await self.calls.request(
            _conversation(callback_context),
            llm_request.contents,
            system=given if isinstance(given, str) else "",
            tools=[tool.model_dump(exclude_none=True, mode="json") for tool in config.tools or ()],
            agent=callback_context.agent_name,
        )
        if packed.static:
            llm_request.append_instructions([packed.static])
        llm_request.contents = [types.Content.model_validate(each) for each in packed.messages]

    async def after_model_callback(
        self, *, callback_context: CallbackContext, llm_response: LlmResponse
    ) -> None:
        """Keep a reply."""
        if llm_response.content is not None and not llm_response.partial:
            await self.calls.keep(_conversation(callback_context), [llm_response.content])


class KaosmemMemoryService(BaseMemoryService):
    """The memories of each user of an app are the section `memories` of a session.

    A memory is the text of an event. Each event is stored once, however often its session is added.
    A deleted memory is erased from the files, and its session does not bring it back.

    Args:
        location: The place of the sessions. The id of a user's session is "app:user", made safe.
        limit: Maximum number of memories that a search returns.
        options: Further arguments of `Sessions`, such as `namespace` and `ranker`.
    """

    def __init__(self, location: Location, *, limit: int = 10, **options: Any) -> None:
        self._limit = limit
        self._memories = UserMemories(location, **options)

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
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Store events that are new."""
        metadata = dict(custom_metadata or {})
        if session_id is not None:
            metadata["session_id"] = session_id
        memories = [_memory_of(event, metadata) for event in events]
        await self._memories.add(_joined(app_name, user_id), memories)

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Store memories whose ids are new. A memory without an id gets a random one."""
        added = [_memory_of_entry(entry, custom_metadata or {}) for entry in memories]
        await self._memories.add(_joined(app_name, user_id), added)

    async def search_memory(
        self, *, app_name: str, user_id: str, query: str
    ) -> SearchMemoryResponse:
        """Return the memories of a user that match a query, best first."""
        found = await self._memories.search(_joined(app_name, user_id), query, self._limit)
        return SearchMemoryResponse(memories=[_entry(item) for item in found])

    async def delete_memory(
        self, *, app_name: str, user_id: str, memory_id: str | None = None
    ) -> None:
        """Erase a memory. An unknown id changes nothing."""
        if memory_id:
            await self._memories.delete(_joined(app_name, user_id), memory_id)


def _memory_of(event: Event, metadata: Mapping[str, Any]) -> Memory:
    told = datetime.fromtimestamp(event.timestamp, UTC).isoformat()
    return Memory(event.id, _text(event.content), event.author, told, metadata)


def _memory_of_entry(entry: MemoryEntry, metadata: Mapping[str, Any]) -> Memory:
    noted = {**metadata, **entry.custom_metadata}
    text = _text(entry.content)
    return Memory(entry.id or "", text, entry.author or "user", entry.timestamp or "", noted)


def _text(content: types.Content | None) -> str:
    parts = [] if content is None else content.parts or []
    return "\n".join(part.text for part in parts if part.text and not part.thought)


def _entry(item: Item) -> MemoryEntry:
    metadata = dict(item.metadata)
    author = str(metadata.pop("author", ""))
    timestamp = metadata.pop("timestamp", None)
    role = "user" if item.role == "user" else "model"
    return MemoryEntry(
        id=item.id,
        content=types.Content(role=role, parts=[types.Part(text=item.text)]),
        author=author,
        timestamp=str(timestamp or item.created_at.isoformat()),
        custom_metadata=metadata,
    )


def _joined(*names: str) -> str:
    """Join names so that no other names give the same text."""
    return ":".join(quote(name, safe="") for name in names)


def _conversation(context: CallbackContext) -> str:
    session = context.session
    return _joined(session.app_name, session.user_id, session.id)
