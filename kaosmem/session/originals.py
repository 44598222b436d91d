"""The originals of derived items."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container, Iterable, Iterator, Mapping, Set

from kaosmem.persistence import SessionLog
from kaosmem.sections import Archived, Section
from kaosmem.session.past import find_versions
from kaosmem.tokens import TokenCounter
from kaosmem.types import Item


class Originals:
    """Find items of a session: live, archived and evicted ones.

    forgotten: ids of forgotten items.
    """

    def __init__(
        self, sections: Mapping[str, Section], log: SessionLog, *, counter: TokenCounter, forgotten: Container[str]
    ) -> None:
        self._sections, self._log, self._counter, self._forgotten = sections, log, counter, forgotten

    async def of(self, item: Item, fetch: Callable[[str], Awaitable[Item]]) -> list[Item]:
        """Return the originals of an item, over any number of steps, each once and in order.

        fetch: reads items that no section of the session has or had. Raises as it does, and CorruptionError.
        """
        known = await self.lineage([item])
        while wanted := {source for each in known.values() for source in each.sources} - known.keys():
            known |= await self.lineage([await fetch(item_id) for item_id in wanted])
        return [*_origins(item, known, set())]

    async def lineage(self, items: Iterable[Item]) -> dict[str, Item]:
        """Return items and their originals over any number of steps, as far as the session has them, by id.

        Raises CorruptionError.
        """
        known = new = {item.id: item for item in items}
        while wanted := {source for each in new.values() for source in each.sources} - known.keys():
            new = {each.id: each for each in self.live(wanted)}
            archived = await self.archived({each for each in wanted - new.keys() if not self.is_forgotten(each)})
            new |= {item_id: version.item for item_id, version in archived.items()}
            known = known | new
        return known

    def live(self, item_ids: Iterable[str]) -> Iterator[Item]:
        """Yield those of these items that are live, in whichever section."""
        sections = self._sections.values()
        return (section.peek(item_id) for item_id in item_ids for section in sections if item_id in section)

    def is_forgotten(self, item_id: str) -> bool:
        """Return whether an item was forgotten; another one may have its id by now."""
        return item_id in self._forgotten

    async def archived(self, item_ids: Set[str]) -> dict[str, Archived]:
        """Return the newest archived version of each of these items, whichever section it left.

        Raises CorruptionError.
        """
        versions = (version for section in self._sections.values() for version in section.archive.in_memory())
        in_memory = {version.item.id: version for version in versions if version.item.id in item_ids}
        left = item_ids - in_memory.keys()
        stored = await asyncio.to_thread(find_versions, self._log, self._counter, left) if left else {}
        return stored | in_memory


def _origins(item: Item, known: Mapping[str, Item], seen: set[str]) -> Iterator[Item]:
    """Yield the sources of an item, depth first, without those seen before."""
    if item.id in seen:
        return
    seen.add(item.id)
    if not item.sources:
        yield item
    for source in item.sources:
        yield from _origins(known[source], known, seen)
