"""FactShelf: the facts of one agent in a long-term memory, as a place for formed facts."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from kaosmem.errors import InvalidArgumentError
from kaosmem.names import check_id
from kaosmem.types.content import check_content
from kaosmem.types.items import Item, stated_from

SHELF = "shelf"
"""The field of an item's metadata that names the shelf which has it too."""
_ITEM = "item"
"""The field of a fact's metadata with the id of its item, by which a replay knows it again."""
_NO_KEY = "item/"
_MOST_FACTS = 50
_MOST_CHARS = 8_000


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

    async def put(
        self, item: Item, said_at: datetime | None = None, *, own: Container[str] = ()
    ) -> None:
        """Save a formed item as a fact, in place of its earlier text.

        A fact of another session that has the same words stands for it.

        Args:
            said_at: When its words were said, for an item without a timestamp.
            own: The ids of the items that its session has on the shelf.
        """
        facts = await self._facts_of(item)
        earlier = [fact for fact in facts if fact.content != item.text]
        is_new = len(earlier) == len(facts)
        if is_new and (facts or not await self._is_said(item, own)):
            await self._save(item, said_at)
        await self._delete(earlier)

    async def _save(self, item: Item, said_at: datetime | None) -> None:
        metadata = {**item.metadata, _ITEM: item.id, "sources": [*item.sources]}
        metadata["speaker"] = item.role
        if said_at is not None:
            metadata.setdefault("timestamp", said_at.isoformat())
        ttl = item.expires_at and (item.expires_at - item.created_at).total_seconds()
        await self.store.save(
            self.agent_id, item.text, self.namespace, ttl, key=_key(item), metadata=metadata
        )

    async def erase(self, items: Sequence[Item]) -> tuple[str, ...]:
        """Delete the facts that were formed as these items, and return their ids."""
        erased: list[Any] = []
        for item in items:
            erased += await self._facts_of(item)
        await self._delete(erased)
        return tuple(fact.id for fact in erased)

    async def near(self, said: Sequence[Item]) -> list[Item]:
        """Return the facts that have words of some messages, as items. A former may know them."""
        return await self._near("\n".join(item.text for item in said)[-_MOST_CHARS:])

    async def current(self, key: str) -> Item | None:
        """Return the newest fact of a key as an item, None without one that goes on."""
        versions = await self.store.versions(self.agent_id, key, self.namespace)
        if not versions or not versions[-1].is_current:
            return None
        return self._item(versions[-1].item)

    async def get(self, fact_id: str) -> Any:
        """Return a fact, None if it is not there."""
        return await self.store.get(self.agent_id, fact_id, self.namespace)

    async def _facts_of(self, item: Item) -> list[Any]:
        versions = await self.store.versions(self.agent_id, _key(item), self.namespace)
        facts = [version.item for version in versions]
        return [fact for fact in facts if _item_id(fact) == item.id]

    async def _is_said(self, item: Item, own: Container[str]) -> bool:
        """Return whether another session has the same words of the same speaker under the same key."""
        for fact in await self._near(item.text):
            is_same = (fact.role, fact.text, fact.key) == (item.role, item.text, item.key)
            if is_same and fact.id not in own:
                return True
        return False

    async def _near(self, words: str) -> list[Item]:
        """Return the facts that match some words, as items."""
        found = await self.store.search(self.agent_id, words, self.namespace, limit=_MOST_FACTS)
        return [self._item(fact) for fact in found]

    async def _delete(self, facts: Sequence[Any]) -> None:
        for fact in facts:
            await self.store.delete(self.agent_id, fact.id, self.namespace)

    def _item(self, fact: Any) -> Item:
        is_keyed = fact.key not in (fact.id, f"{_NO_KEY}{_item_id(fact)}")
        return Item(
            id=_item_id(fact),
            section=self.name,
            role=str(fact.metadata.get("speaker", "")),
            content=check_content(fact.content),
            tokens=0,
            created_at=stated_from(fact.metadata) or datetime.min.replace(tzinfo=UTC),
            key=fact.key if is_keyed else None,
        )


def _item_id(fact: Any) -> str:
    """Return the id of the item that a fact was formed as, or its own id if it was saved by hand."""
    return str(fact.metadata.get(_ITEM, fact.id))


def _key(item: Item) -> str:
    """Return the key of an item's fact: its own, or one that no other item has."""
    return item.key or f"{_NO_KEY}{item.id}"
