"""FactShelf: the facts of one agent in a long-term memory, as a place for formed facts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kaosmem.errors import InvalidArgumentError
from kaosmem.names import check_id
from kaosmem.types.items import Item

SHELF = "shelf"
"""The field of an item's metadata that names the shelf which has it too."""
_ITEM = "item"
"""The field of a fact's metadata with the id of its item, by which a replay knows it again."""


@dataclass(frozen=True)
class FactShelf:
    """The facts of one agent and namespace in a `LongTermMemory`.

    Formed facts are saved there under their keys, each once: a fact names the item that it was
    formed as, so that a replay and a second worker find it. Two workers that save one fact at the
    same instant leave two equal versions, and the later one is live.

    Attributes:
        store: Any `LongTermMemory`.
        agent_id: The agent whose facts these are.
        namespace: The tenant.

    Raises:
        InvalidNameError: If an id is not valid.
        InvalidArgumentError: If the store is none.
    """

    store: Any
    agent_id: str
    namespace: str = "default"

    def __post_init__(self) -> None:
        if not callable(getattr(self.store, "versions", None)):
            raise InvalidArgumentError(
                f"store is a {type(self.store).__name__}; give a LongTermMemory"
            )
        check_id(self.agent_id, "agent id")
        check_id(self.namespace, "namespace")

    @property
    def name(self) -> str:
        """Return the name by which items and receipts know the shelf."""
        return f"{self.namespace}/{self.agent_id}"

    async def put(self, item: Item) -> None:
        """Save a formed item as a fact, if it is not there."""
        if await self._facts_of(item):
            return
        named = {_ITEM: item.id, "sources": [*item.sources], "speaker": item.role}
        metadata = {**item.metadata, **named}
        key = _key(item)
        await self.store.save(self.agent_id, item.text, self.namespace, key=key, metadata=metadata)

    async def erase(self, items: Sequence[Item]) -> tuple[str, ...]:
        """Delete the facts that were formed as these items, and return their ids."""
        erased: list[str] = []
        for item in items:
            erased += await self._facts_of(item)
        for fact_id in erased:
            await self.store.delete(self.agent_id, fact_id, self.namespace)
        return tuple(erased)

    async def get(self, fact_id: str) -> Any:
        """Return a fact, None if it is not there."""
        return await self.store.get(self.agent_id, fact_id, self.namespace)

    async def _facts_of(self, item: Item) -> list[str]:
        versions = await self.store.versions(self.agent_id, _key(item), self.namespace)
        facts = [version.item for version in versions]
        return [fact.id for fact in facts if fact.metadata.get(_ITEM) == item.id]


def _key(item: Item) -> str:
    """Return the key of an item's fact: its own, or one that no other item has."""
    return item.key or f"item/{item.id}"
