"""Compaction of sections: what passes a budget is shortened before it is shown, and comes back where it has room."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container, Iterable, Iterator, Mapping, Sequence, Set

from kaosmem.compaction import CompactionStrategy
from kaosmem.errors import CorruptionError, KaosmemError
from kaosmem.eviction import POLICIES
from kaosmem.formats import FORMATS, Mark
from kaosmem.persistence import SessionLog
from kaosmem.sections import COMPACTED, Archived, Section, Substitution, message_of, substitution
from kaosmem.session.past import find_versions
from kaosmem.tokens import TokenCounter, count_content
from kaosmem.types import ChatMessage, Item


class Compactor:
    """Runs the compactions of a session's sections, each on its own and one at a time.

    new_id: gives an id that no live item has, the one asked for if it can. forgotten: ids of items that were.
    notices: what went wrong when a section was last to be compacted, by its name.
    """

    def __init__(
        self,
        sections: Mapping[str, Section],
        log: SessionLog,
        *,
        counter: TokenCounter,
        new_id: Callable[[str], str],
        forgotten: Container[str],
    ) -> None:
        self.notices: dict[str, str] = {}
        self._sections, self._log, self._counter = sections, log, counter
        self._new_id, self._forgotten = new_id, forgotten
        self._running: set[str] = set()
        self._needs: dict[str, tuple[list[Item], int]] = {}  # by section, its derived items and what they stand for

    async def run(self, names: Iterable[str]) -> None:
        """Compact those of these sections that are over their budgets, and expand those that have room for it.

        What a compaction raises is a notice: its section stays as it is, and the next turn tries again.
        """
        await asyncio.gather(*(self._settle(section) for name in names if (section := self._sections.get(name))))

    async def originals(self, item: Item, fetch: Callable[[str], Awaitable[Item]]) -> list[Item]:
        """Return what an item was derived from, in any number of steps, each once and in order.

        fetch: gives what none of the sections has, or ever had. Raises as it does, and CorruptionError.
        """
        known = {item.id: item}
        while wanted := {source for each in known.values() for source in each.sources} - known.keys():
            live = {each.id: each for each in self._live(wanted)}
            archived = await self._archived({each for each in wanted - live.keys() if each not in self._forgotten})
            known |= {item_id: version.item for item_id, version in archived.items()} | live
            known |= {item_id: await fetch(item_id) for item_id in wanted - known.keys()}
        return list(_origins(item, known, set()))

    async def _settle(self, section: Section) -> None:
        name, strategy, budget = section.spec.name, section.spec.compaction, section.budget
        if strategy is None or budget is None or name in self._running:
            return
        self._running.add(name)
        try:
            if self._is_over(section, budget):
                await self._compact(section, strategy, budget)
            else:
                while await self._expand(section, int(section.spec.low_water * budget)):
                    pass
        finally:
            self._running.discard(name)

    def _is_over(self, section: Section, budget: int) -> bool:
        most = section.spec.max_items
        return self._size(section) > budget or (most is not None and len(section) > most)

    def _size(self, section: Section) -> int:
        """Return what a history of the section's items takes, with a mark for what has left it."""
        mark = FORMATS["openai"].entry_tokens(Mark(section.taken), self._counter) if len(section.archive) else 0
        return mark + self._weight(section)

    def _weight(self, items: Iterable[Item]) -> int:
        return sum(item.size(f"message {self._counter.name}", self._measure) for item in items)

    def _measure(self, item: Item) -> int:
        known = item.tokens if isinstance(item.content, str) else None
        return FORMATS["openai"].entry_tokens(item.message, self._counter, known=known)

    async def _compact(self, section: Section, strategy: CompactionStrategy, budget: int) -> None:
        name, before = section.spec.name, [*section]
        try:
            after = await strategy.compact([message_of(item) for item in before])
            change = self._substitution(before, after)
        except (Exception, asyncio.CancelledError) as error:
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task and task.cancelling():
                raise  # whoever asks for a context has been cancelled, not the model
            why = f": {error}" if isinstance(error, KaosmemError) else ""
            self.notices[name] = (
                f"section {name!r} is not compacted, as its compaction failed with {type(error).__name__}{why}; "
                "nothing is lost, and the next turn tries again"
            )
            return
        self.notices.pop(name, None)
        if change is not None and not (self._is_untouched(section, before, change) and section.compact(change)):
            return  # what it is made of has changed meanwhile: the next turn has it made of what is there
        excess = self._size(section) - budget
        if POLICIES[section.spec.eviction].bounded and self._is_over(section, budget) and not section.make_room(excess):
            self.notices[name] = (
                f"section {name!r} holds {excess} tokens too many after its compaction, and nothing may be evicted: "
                "what is left is pinned or waits for results; raise its budget"
            )

    def _substitution(self, before: Sequence[Item], after: Sequence[ChatMessage]) -> Substitution | None:
        """Return what a compaction changes, None where that makes nothing shorter."""
        change = substitution(
            before, after, count=lambda content: count_content(content, self._counter), new_id=self._new_id
        )
        replaced = {*change.replaced}
        saved = self._weight(item for item in before if item.id in replaced)
        return change if saved > self._weight(item for _, item in change.items) else None

    def _is_untouched(self, section: Section, before: Iterable[Item], change: Substitution) -> bool:
        """Return whether all that a compaction was made of is as it was."""
        told = {*change.replaced}.union(*(item.sources for _, item in change.items))
        known = {item.id: item for item in before if item.id in told}
        return all(item_id in section and section.peek(item_id) == item for item_id, item in known.items()) and not any(
            item_id in self._forgotten for item_id in told - known.keys()
        )

    async def _expand(self, section: Section, room: int) -> bool:
        """Bring back all that the derived items of a section stand for, one step of it, if that has room."""
        derived = _derived(section)
        need = self._needs.get(section.spec.name)
        if need is None or need[0] != derived:
            need = derived, sum(item.metadata[COMPACTED]["tokens"] for item in derived)  # as messages it is more
        if not derived or self._size(section) - self._weight(derived) + need[1] > room:
            return False
        versions = await self._versions(section, derived)
        if derived != _derived(section):
            return False
        need = derived, self._weight(version.item for version in versions) if versions else room + 1
        self._needs[section.spec.name] = need
        if not versions or self._size(section) - self._weight(derived) + need[1] > room:
            return False
        section.expand([item.id for item in derived], versions)
        return True

    async def _versions(self, section: Section, derived: Iterable[Item]) -> list[Archived]:
        """Return what came to be replaced by derived items, none where not all of it can come back."""
        wanted = {source for item in derived for source in item.sources if source not in section}
        try:
            found = await self._archived(wanted)
        except CorruptionError:  # whoever asks for what is archived is told
            return []
        are_own = all(version.item.section == section.spec.name for version in found.values())
        have_places = all(version.place for version in found.values())
        if found.keys() < wanted or not are_own or not have_places or any(self._live(wanted)):
            return []
        return [*found.values()]

    def _live(self, item_ids: Iterable[str]) -> Iterator[Item]:
        sections = self._sections.values()
        return (section.peek(item_id) for item_id in item_ids for section in sections if item_id in section)

    async def _archived(self, item_ids: Set[str]) -> dict[str, Archived]:
        """Return the newest archived version of each of these items, from whichever section. Raises CorruptionError."""
        versions = (version for section in self._sections.values() for version in section.archive.in_memory())
        in_memory = {version.item.id: version for version in versions if version.item.id in item_ids}
        left = item_ids - in_memory.keys()
        stored = await asyncio.to_thread(find_versions, self._log, self._counter, left) if left else {}
        return stored | in_memory


def _derived(section: Section) -> list[Item]:
    """Return the items of a section that a compaction made."""
    return [item for item in section if item.sources and COMPACTED in item.metadata]


def _origins(item: Item, known: Mapping[str, Item], seen: set[str]) -> Iterator[Item]:
    """Yield what an item comes from, depth first, but for what has been seen."""
    if item.id in seen:
        return
    seen.add(item.id)
    if not item.sources:
        yield item
    for source in item.sources:
        yield from _origins(known[source], known, seen)
