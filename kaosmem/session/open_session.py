"""The parts of an open session, which its memory, its views and its administration share."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection, Container, Iterator

from kaosmem.arguments import Clock
from kaosmem.display import Markup, bar, table
from kaosmem.errors import (
    CorruptionError,
    NotFoundError,
    ReadOnlyError,
    SourceError,
)
from kaosmem.formation.shelf import FactShelf
from kaosmem.formats import Format
from kaosmem.names import check_item_id, name_hint, shown, shown_name
from kaosmem.persistence.log import SessionLog
from kaosmem.sections.archive import Archived
from kaosmem.sections.section import Section
from kaosmem.session.compaction import SectionCompaction
from kaosmem.session.item_factory import ItemFactory
from kaosmem.session.opening import Opening
from kaosmem.session.saving.hydration import Hydrated
from kaosmem.session.saving.saver import Saver
from kaosmem.session.saving.version_history import VersionHistory, version_of
from kaosmem.session.source_registry import SourceRegistry
from kaosmem.types.items import Item

_WHERE_IDS_ARE = "; the items of search(), of a section and of a context have ids"
_NOT_RECALLED = "what was evicted earlier cannot be recalled"
_SHOWN_SECTIONS = 30
_SHOWN_NOTICES = 10


class OpenSession:
    """The parts of an open session.

    No part refers to the `SessionMemory`. In a cycle, a closed session would wait for the garbage
    collector.

    Attributes:
        closing: Functions that end background work. They are called before the log is released.
        shelves: The long-term memories that got formed facts, by name.
        ingesting: Is held by the task that reads files.

    Args:
        opening: Where the session is, and how it is read.
        log: The log of the session.
        hydrated: The sections that the log holds.
        clock: Returns aware times.
        present: Returns the present, by which a fact is yet to begin. None if nobody knows.
        rng: The source of ids.
        read_only: Refuse changes.
        trace: Which turns are kept, as `SessionMemory.open` says.
    """

    def __init__(
        self,
        opening: Opening,
        log: SessionLog,
        hydrated: Hydrated,
        *,
        clock: Clock,
        present: Clock | None,
        rng: random.Random,
        read_only: bool = False,
        trace: bool | None = None,
    ) -> None:
        self.opening = opening
        self.log = log
        self.sections = hydrated.sections
        for section in self.sections.values():
            section.present = present
        self.counter = opening.counter
        self.clock = clock
        self.present = present
        self.read_only = read_only
        self.is_closed = False
        self.closing: list[Callable[[], None]] = []
        self.shelves: dict[str, FactShelf] = {}
        self.ingesting = asyncio.Lock()
        self._notices = list(hydrated.notices)
        self._set_up(hydrated, rng)
        self.trace.mode = trace

    def _set_up(self, hydrated: Hydrated, rng: random.Random) -> None:
        """Make the parts that work on the sections and the log."""
        self.registry = SourceRegistry(self.sections, counter=self.counter)
        self.version_history = VersionHistory(
            self.sections,
            self.log,
            counter=self.counter,
            forgotten=hydrated.forgotten,
            unpurged=hydrated.unpurged,
        )
        saver = Saver(
            self.log,
            hydrated,
            version_history=self.version_history,
            place=self.opening.place,
            counter=self.counter,
            rehydrate=self.opening.hydrate,
        )
        self.saver = saver
        self.trace = saver.trace
        self.factory = ItemFactory(
            self.sections,
            counter=self.counter,
            clock=self.clock,
            rng=rng,
            forgotten=saver.forgotten,
        )
        self.compactions = []
        for section in self.sections.values():
            strategy = section.spec.compaction
            if strategy is not None and not self.read_only:
                self.compactions.append(
                    SectionCompaction(
                        section, strategy, self.version_history, self.counter, self.factory.free_id
                    )
                )

    @property
    def session_id(self) -> str:
        """The id of the session."""
        return self.opening.session_id

    @property
    def used(self) -> int:
        """Tokens in all sections."""
        return sum(section.used for section in self.sections.values())

    def section(self, name: object) -> Section:
        """Return a section by its name. Raises NotFoundError."""
        found = self.sections.get(name) if isinstance(name, str) else None
        if found is None:
            raise NotFoundError(
                f"no section {shown_name(name)}; {name_hint(name, self.sections)}; "
                "to have another, give a SectionSpec for it in sections"
            )
        return found

    def writable(self, name: str) -> Section:
        """Return a section that may be changed. Raises ReadOnlyError and NotFoundError."""
        self.check_writable()
        return self.section(name)

    def live_section(self, item_id: str) -> Section:
        """Return the section of a live item. Raises NotFoundError and ReadOnlyError."""
        section = self.factory.section_of(item_id)
        if section is None:
            raise NotFoundError(f"no live item {shown(item_id)}; fetch() finds archived ones")
        return self.writable(section.spec.name)

    def check_writable(self) -> None:
        """Raise ReadOnlyError if the session was opened read-only or is closed."""
        if self.read_only:
            raise ReadOnlyError(
                f"session {self.session_id!r} was opened read-only; open it without read_only to "
                "change it"
            )
        if self.is_closed:
            raise ReadOnlyError(f"session {self.session_id!r} was closed; open it again to go on")

    async def close(self) -> None:
        """Wait for a running snapshot, release the log, and refuse changes from now on."""
        for stop in self.closing:
            stop()
        self.closing.clear()  # its functions refer to this session
        await self.saver.close()
        self.is_closed = True
        if self.read_only:
            return
        for section in self.sections.values():
            section.freeze("was closed; open it again to change it")

    def expire(self) -> None:
        """Move items to the archive whose time is over.

        These are items with a time to live, and versions whose announced successor has begun.
        """
        due = [
            each
            for each in self.sections.values()
            if (each.held.ends or each.held.keyed.several) and not each.frozen
        ]
        if due:
            now = self.clock()
            for section in due:
                section.expire(now)

    async def compact(self, format: Format) -> None:
        """Compact the sections that exceed their budget in a format."""
        await asyncio.gather(*(each.run(format) for each in self.compactions))

    async def read_back(self, names: Container[str]) -> None:
        """Read the evicted items of sections that a question needs, by their names.

        Opening skips this, as many callers never ask.
        """
        unread = []
        for name, section in self.sections.items():
            if name in names and section.held.unloaded:
                unread.append(section)
        if not unread:
            return
        error = await self.version_history.recall(unread)
        if error is not None:
            self._notices.append(f"{_NOT_RECALLED}: {error}")

    async def archived(self, section: Section) -> list[Archived]:
        """Return the versions that have left a section, without erased ones.

        Raises CorruptionError.
        """
        versions = section.archive.in_memory()
        if section.archive.on_disk:
            stored = await self.version_history.by_section()
            versions = [*stored.get(section.spec.name, ()), *versions]
        return versions

    @property
    def lost(self) -> Iterator[CorruptionError]:
        """The archived items that could not be read."""
        for section in self.sections.values():
            yield from section.held.lost.values()

    @property
    def damage(self) -> tuple[CorruptionError, ...]:
        """The damage of the stored session, as far as it was read."""
        found = [*self.log.damage]
        told = {*map(str, found)}
        lost = [error for error in self.lost if error.byte is not None]
        found += [error for error in lost if str(error) not in told]
        return tuple(found)

    @property
    def notices(self) -> tuple[str, ...]:
        """Sentences on damage, sections, archives and compactions."""
        found = [*map(str, self.log.damage), *self._notices]
        found += [f"{_NOT_RECALLED}: {error}" for error in self.lost]
        found += [each.notice for each in self.compactions if each.notice]
        found += self.saver.notices
        for name, number in self.registry.unread.items():
            found.append(
                f"a search left out {number:,} archived items of section {shown(name)}, which are "
                "in files; await memory.admin.prepare() before it"
            )
        return tuple(found)

    def note(self, notice: str) -> None:
        """Add a sentence to the notices, once."""
        if notice not in self._notices:
            self._notices.append(notice)

    def _repr_html_(self) -> str:
        """Return a table of the sections that hold an item, and the first notices."""
        sections = [each for each in self.sections.values() if len(each) or len(each.archive)]
        rows = [_row(section) for section in sections[:_SHOWN_SECTIONS]]
        return table(
            f"session {self.session_id}: {self.used:,} tokens",
            ("section", "items", "tokens", "archived", "eviction"),
            rows,
            numbers=("items", "archived"),
            left_out=len(sections) - len(rows),
            after=self.notices[:_SHOWN_NOTICES],
        )

    async def fetch(self, item_id: str) -> Item:
        """Return a whole item: live, archived, or from a source. This counts as a use.

        Raises:
            NotFoundError: If no place has the item.
            SourceError: If a source that may hold the item cannot be asked.
        """
        home = self.factory.section_of(item_id)
        if home is not None:
            home.use((item_id,))
        (item,) = await self.fetch_all((item_id,))
        return item

    async def fetch_all(self, item_ids: Collection[str]) -> list[Item]:
        """Return whole items, as `fetch` does, in order. The archive's files are read once."""
        found: dict[str, Item] = {}
        unavailable: dict[str, SourceError] = {}
        for item_id in item_ids:
            item = self._at_hand(item_id)
            try:
                item = item or await self.registry.get(item_id)
            except SourceError as error:
                unavailable[item_id] = error
            if item is not None:
                found[item_id] = item
        missing = {check_item_id(each) for each in item_ids if each not in found}
        missing -= self.saver.unpurged
        if missing:
            find = self.log.archives.find
            for entry in await asyncio.to_thread(find, "id", missing, newest=True):
                item = version_of(entry).item
                found[item.id] = self.registry.counted(item)
        for item_id in item_ids:
            if item_id not in found:
                raise unavailable.get(item_id) or self._not_found(item_id)
        return [found[item_id] for item_id in item_ids]

    def _at_hand(self, item_id: str) -> Item | None:
        """Return an item that is live, or archived and still in memory."""
        home = self.factory.section_of(item_id)
        if home is not None:
            return home.peek(item_id)
        for section in self.sections.values():
            archived = section.archive.get(item_id)
            if archived is not None:
                return archived
        return None

    def _not_found(self, item_id: str) -> NotFoundError:
        missing = "; memory.damage says what is missing of the session" if self.damage else ""
        return NotFoundError(
            f"no item {shown(item_id)}, live or archived{missing or _WHERE_IDS_ARE}"
        )


def _row(section: Section) -> tuple[str | Markup, ...]:
    return (
        section.spec.name,
        f"{len(section):,}",
        bar(section.used, section.budget),
        f"{len(section.archive):,}",
        section.spec.policy.name,
    )
