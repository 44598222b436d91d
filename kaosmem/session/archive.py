"""The archives of all sections of a session."""

from __future__ import annotations

import math

from kaosmem.arguments import check_count
from kaosmem.session.open_session import OpenSession
from kaosmem.types.items import Item


class SessionArchive:
    """The archives of all sections of a session. `len` gives the number of archived items.

    `memory.archive` returns it. `memory[name].archive` is the archive of one section.

    >>> from kaosmem import SessionMemory
    >>> memory = SessionMemory.test_mode()
    >>> item = memory.add("findings", "The rent is 900 euros.")
    >>> memory.remove(item.id)
    >>> len(memory.archive)
    1
    """

    def __init__(self, session: OpenSession) -> None:
        self._session = session

    def __len__(self) -> int:
        return sum(len(section.archive) for section in self._session.sections.values())

    async def items(self) -> list[Item]:
        """Return all archived items, section after section: evicted, replaced and removed ones.

        An item that was updated is there with each of its older texts. This reads all archive
        files, for an export or for the erasure of a person.

        Raises CorruptionError.

        >>> from kaosmem import SessionMemory
        >>> memory = SessionMemory.test_mode()
        >>> item = memory.add("findings", "The rent is 900 euros.", key="rent")
        >>> item = memory.add("findings", "The rent is 950 euros.", key="rent")
        >>> [item.text for item in await memory.archive.items()]
        ['The rent is 900 euros.']
        """
        found = []
        for section in self._session.sections.values():
            found += [version.item for version in await self._session.archived(section)]
        return found

    async def expand(self, item_id: str, *, depth: int | None = None) -> list[Item]:
        """Return the originals of a derived item, in order, through any number of steps.

        An item without sources is its own original.

        Args:
            depth: 1 returns the direct sources alone, such as the episodes of a day. A larger
                number goes down so many levels.

        Raises:
            NotFoundError: If the item or one of its originals is unknown.
            SourceError: If a source that may hold the item cannot be asked.

        >>> from kaosmem import SessionMemory
        >>> memory = SessionMemory.test_mode()
        >>> said = memory.add_many("messages", ["The rent is 900 euros.", "It is due today."])
        >>> summary = memory.add(
        ...     "findings", "Rent: 900 euros, due today.", sources=[item.id for item in said]
        ... )
        >>> [item.text for item in await memory.archive.expand(summary.id)]
        ['The rent is 900 euros.', 'It is due today.']
        """
        session = self._session
        items = [await session.fetch(item_id)]
        levels = math.inf if depth is None else check_count(depth, "depth", least=1)
        expanded: set[str] = set()
        while levels > 0 and any(item.sources for item in items):
            levels -= 1
            known = {item.id: item for item in items}
            below: dict[str, None] = {}
            for item in items:
                if item.id not in expanded:
                    below |= dict.fromkeys(item.sources or (item.id,))
                if item.sources:
                    expanded.add(item.id)
            new = [item_id for item_id in below if item_id not in known]
            known |= zip(new, await session.fetch_all(new), strict=True)
            items = [known[item_id] for item_id in below]
        return items
