"""The archive files of a session, read: evicted items, originals, versions and earlier times."""

from __future__ import annotations

import asyncio
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import TypeVar

from kaosmem.errors import CorruptionError, InvalidArgumentError, KaosmemError
from kaosmem.names import shown_name
from kaosmem.persistence.files.archive import Entry
from kaosmem.persistence.files.records import REMEDY
from kaosmem.persistence.log import SessionLog
from kaosmem.sections.archive import Archived, EvictedItem
from kaosmem.sections.section import Section
from kaosmem.session.saving.timeline import bitemporal_items, section_at, versions_of
from kaosmem.tokens import count_content
from kaosmem.tokens.counters import TokenCounter
from kaosmem.trace.trace import is_turn
from kaosmem.types.items import Item
from kaosmem.types.versions import Version

VersionT = TypeVar("VersionT", bound=EvictedItem | Archived)


class VersionHistory:
    """All versions of all items of a session, of its sections and its archive files.

    Args:
        forgotten: Ids of forgotten items.
        unpurged: The ids among them that files may still hold. No method returns their items.
    """

    def __init__(
        self,
        sections: Mapping[str, Section],
        log: SessionLog,
        *,
        counter: TokenCounter,
        forgotten: Container[str],
        unpurged: Container[str],
    ) -> None:
        self._sections = sections
        self._log = log
        self._counter = counter
        self._forgotten = forgotten
        self._unpurged = unpurged

    # The versions in files.

    def stored(self) -> Iterator[Archived]:
        """Yield the archived versions of items in files, oldest first. This reads files.

        Raises:
            CorruptionError: If a file is damaged.
        """
        return self._versions(self._log.archives.all(), self._unpurged)

    async def by_section(self, *, with_unpurged: bool = False) -> dict[str, list[Archived]]:
        """Return the archived versions of all files, by section. Raises CorruptionError.

        Args:
            with_unpurged: Return those that are about to be erased, too.
        """
        left_out = () if with_unpurged else self._unpurged

        def read() -> dict[str, list[Archived]]:
            return by_section(self._versions(self._log.archives.all(), left_out))

        return await asyncio.to_thread(read)

    async def _counted_by_section(self) -> dict[str, list[Archived]]:
        """Return the archived versions of all files with today's tokens, by section."""
        return await asyncio.to_thread(lambda: by_section(self._counted(self.stored())))

    def _versions(self, entries: Iterable[Entry], left_out: Container[str]) -> Iterator[Archived]:
        for entry in entries:
            if is_turn(entry):
                continue
            version = version_of(entry)
            if version.item.id not in left_out:
                yield version

    def _counted(self, versions: Iterable[Archived]) -> Iterator[Archived]:
        """Yield versions with their tokens as the counter of the session counts them."""
        for version in versions:
            tokens = count_content(version.item.content, self._counter)
            yield replace(version, item=replace(version.item, tokens=tokens))

    # Evicted items.

    async def recall(self, unloaded: Iterable[Section]) -> KaosmemError | None:
        """Let sections recall items that were evicted in earlier processes.

        Return the reason if they cannot, else None.
        """
        own: dict[str, list[EvictedItem]] | dict[str, list[Archived]] = {}
        try:
            try:
                found = await asyncio.to_thread(self._evicted)
                own = by_section(each for each in found if each.id not in self._unpurged)
            except CorruptionError:
                own = await self._counted_by_section()
            for section in unloaded:
                section.load(own.get(section.spec.name, ()))
        except (CorruptionError, InvalidArgumentError) as error:
            for section in unloaded:
                section.load(())
            return error
        return None

    async def drop_stored_texts(self, *, at: int | None = None) -> None:
        """Drop from memory the texts that files hold now; they stay if a file cannot be read.

        Args:
            at: The record of the snapshot whose archive file is meant. The default is all files.
        """
        with suppress(CorruptionError, OSError):
            evicted = by_section(await asyncio.to_thread(self._evicted, at))
            for name, section in self._sections.items():
                section.drop_stored_texts(evicted.get(name, ()))

    def _evicted(self, at: int | None = None) -> list[EvictedItem]:
        """Return the evicted items of all archive files, or as of record `at`, oldest first.

        Only files of another counter are read whole. Raises CorruptionError.
        """
        found: list[EvictedItem] = []
        for file, evicted in self._log.archives.evicted(self._counter.name, at=at):
            if file.counter is None:
                evicted = [self._recounted(each) for each in evicted]
            found += evicted
        return found

    def _recounted(self, evicted: EvictedItem) -> EvictedItem:
        return replace(evicted, tokens=count_content(evicted.read().content, self._counter))

    def is_forgotten(self, item_id: str) -> bool:
        """Return whether an item was forgotten; another one may have its id by now."""
        return item_id in self._forgotten

    # Earlier times.

    async def versions(self, key: str, names: Iterable[str]) -> list[Version[Item]]:
        """Return the versions of a key in some sections, oldest first. Raises CorruptionError."""
        entries = await asyncio.to_thread(self._log.archives.find, "key", {key})
        stored = by_section(self._counted(self._versions(entries, self._unpurged)))
        found: list[Version[Item]] = []
        for name in names:
            items = bitemporal_items(self._sections[name], stored.get(name, ()))
            versions = versions_of(each for each in items if each.item.key == key)
            found += [
                Version(each.item.item, each.valid_from, each.valid_until, each.known_from)
                for each in versions
            ]
        return sorted(found, key=lambda version: version.valid_from)

    async def sections_at(
        self, *, as_of: datetime | None, known_at: datetime | None
    ) -> dict[str, Section]:
        """Return all sections as they were: see `section_at`.

        The archive is read whole. Raises CorruptionError.
        """
        stored = await self._counted_by_section()
        found = {}
        for name, section in self._sections.items():
            items = bitemporal_items(section, stored.get(name, ()))
            found[name] = section_at(section, items, as_of=as_of, known_at=known_at)
        return found


def by_section(versions: Iterable[VersionT]) -> dict[str, list[VersionT]]:
    """Return versions by the names of their sections, in order."""
    found: dict[str, list[VersionT]] = {}
    for version in versions:
        found.setdefault(version.item.section, []).append(version)
    return found


def version_of(entry: Entry) -> Archived:
    """Return the version of an item that an archive file holds.

    Raises:
        CorruptionError: If it makes no sense.
    """
    section, data = entry
    try:
        return Archived.from_dict(data, section)
    except InvalidArgumentError as error:
        raise CorruptionError(
            f"an archived version of section {shown_name(section)} makes no sense: {error}; "
            f"{REMEDY}"
        ) from None
