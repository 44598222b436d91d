"""What a session was told before: evicted items, originals, and the session at earlier times.

There are two clocks. An item holds from its timestamp, else from when it was added: valid time. The
session knows an item since it was added: known time. Evictions and compactions change neither.
"""

from __future__ import annotations

import asyncio
from collections.abc import (
    Awaitable,
    Callable,
    Container,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
    Set,
)
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeVar

from kaosmem.entities import Entity, Relationship, part_of
from kaosmem.errors import CorruptionError, InvalidArgumentError, KaosmemError
from kaosmem.names import shown_name
from kaosmem.persistence.files.archive import Entry
from kaosmem.persistence.files.records import REMEDY
from kaosmem.persistence.log import SessionLog
from kaosmem.sections.archive import Archived, EvictedItem
from kaosmem.sections.section import Section
from kaosmem.sections.substitution import Replaced
from kaosmem.tokens import count_content
from kaosmem.tokens.counters import TokenCounter
from kaosmem.trace.trace import is_turn
from kaosmem.types.items import Item
from kaosmem.types.versions import Interval, Version, in_order

VersionT = TypeVar("VersionT", bound=EvictedItem | Archived)


async def load_past(
    sections: Iterable[Section], log: SessionLog, counter: TokenCounter, *, unpurged: Container[str]
) -> KaosmemError | None:
    """Let sections recall items evicted in earlier processes.

    Return the reason if they cannot, else None.

    Args:
        unpurged: Ids of items that were forgotten and that files may still hold.
    """
    unloaded = [section for section in sections if section.held.unloaded]
    if not unloaded:
        return None
    try:
        found: Sequence[EvictedItem | Archived]
        try:
            found = await asyncio.to_thread(find_past, log, counter)
        except CorruptionError:
            stored = await asyncio.to_thread(lambda: [*stored_versions(log)])
            found = [counted(version, counter) for version in stored]
        found = [version for version in found if version.item.id not in unpurged]
        own = by_section(found)
        for section in unloaded:
            section.load(own.get(section.spec.name, ()))
    except (CorruptionError, InvalidArgumentError) as error:
        for section in unloaded:
            section.load(())
        return error
    return None


def find_past(
    log: SessionLog, counter: TokenCounter, *, at: int | None = None
) -> list[EvictedItem]:
    """Return the evicted items of all archive files, or as of record `at`, oldest first.

    This reads files.

    Texts are read only from files that another counter may have counted. Raises CorruptionError.
    """
    found: list[EvictedItem] = []
    for file, evicted in log.evicted(counter.name, at=at):
        found += evicted if file.counter else _recounted(evicted, counter)
    return found


def find_versions(
    log: SessionLog, counter: TokenCounter, item_ids: Container[str]
) -> dict[str, Archived]:
    """Return the newest version of each of these items that a file has.

    This is I/O. Raises CorruptionError.
    """
    found = {}
    for version in stored_versions(log):
        if version.item.id in item_ids:
            found[version.item.id] = version
    return {item_id: counted(version, counter) for item_id, version in found.items()}


def counted(version: Archived, counter: TokenCounter) -> Archived:
    """Return a version with its tokens as a counter counts them."""
    tokens = count_content(version.item.content, counter)
    return replace(version, item=replace(version.item, tokens=tokens))


def by_section(versions: Iterable[VersionT]) -> dict[str, list[VersionT]]:
    """Return versions by the names of their sections, in order."""
    found: dict[str, list[VersionT]] = {}
    for version in versions:
        found.setdefault(version.item.section, []).append(version)
    return found


def stored_versions(log: SessionLog, without: Container[str] = ()) -> Iterator[Archived]:
    """Yield the archived versions of items in the files of a log, oldest first.

    This reads files.

    Args:
        without: Ids of items that are left out.

    Raises:
        CorruptionError: If a file is damaged.
    """
    for entry in log.archive():
        if is_turn(entry):
            continue
        version = version_of(entry)
        if version.item.id not in without:
            yield version


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


def let_go(sections: Mapping[str, Section], evicted: Iterable[EvictedItem]) -> None:
    """Drop from memory the texts that files hold now."""
    for name, own in by_section(evicted).items():
        if name in sections:
            sections[name].let_go(own)


def _recounted(evicted: Iterable[EvictedItem], counter: TokenCounter) -> Iterator[EvictedItem]:
    for each in evicted:
        yield replace(each, tokens=count_content(each.read().content, counter))


class Originals:
    """Find items of a session: live, archived and evicted ones.

    Args:
        forgotten: Ids of forgotten items.
    """

    def __init__(
        self,
        sections: Mapping[str, Section],
        log: SessionLog,
        *,
        counter: TokenCounter,
        forgotten: Container[str],
    ) -> None:
        self._sections = sections
        self._log = log
        self._counter = counter
        self._forgotten = forgotten

    async def of(self, item: Item, fetch: Callable[[str], Awaitable[Item]]) -> list[Item]:
        """Return the originals of an item, over any number of steps, each once and in order.

        Args:
            fetch: Reads items that no section of the session has or had. Raises as it does, and
                CorruptionError.
        """
        known = await self.lineage([item])
        while (
            wanted := {source for each in known.values() for source in each.sources} - known.keys()
        ):
            known |= await self.lineage([await fetch(item_id) for item_id in wanted])
        return [*_origins(item, known, set())]

    async def lineage(self, items: Iterable[Item]) -> dict[str, Item]:
        """Return items and their originals over any number of steps, by id.

        Those that the session no longer has are left out.

        Raises CorruptionError.
        """
        known = new = {item.id: item for item in items}
        while wanted := {source for each in new.values() for source in each.sources} - known.keys():
            new = {each.id: each for each in self.live(wanted)}
            archived = await self.archived(
                {each for each in wanted - new.keys() if not self.is_forgotten(each)}
            )
            new |= {item_id: version.item for item_id, version in archived.items()}
            known = known | new
        return known

    def live(self, item_ids: Iterable[str]) -> Iterator[Item]:
        """Yield those of these items that are live, in whichever section."""
        sections = self._sections.values()
        return (
            section.peek(item_id)
            for item_id in item_ids
            for section in sections
            if item_id in section
        )

    def is_forgotten(self, item_id: str) -> bool:
        """Return whether an item was forgotten; another one may have its id by now."""
        return item_id in self._forgotten

    async def archived(self, item_ids: Set[str]) -> dict[str, Archived]:
        """Return the newest archived version of each of these items, whichever section it left.

        Raises CorruptionError.
        """
        versions = (
            version
            for section in self._sections.values()
            for version in section.archive.in_memory()
        )
        in_memory = {
            version.item.id: version for version in versions if version.item.id in item_ids
        }
        left = item_ids - in_memory.keys()
        stored = (
            await asyncio.to_thread(find_versions, self._log, self._counter, left) if left else {}
        )
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


@dataclass(frozen=True, slots=True)
class ToldItem:
    """An item of a section, live or archived, as the session was told of it.

    Attributes:
        order: The items of a section ascend by it in the order in which they came.
        known_from, known_until: When the session was told, and when an update corrected it.
        ended: When a successor began to hold or the item was removed, and when the session was told
            so.
    """

    item: Item
    order: tuple[bool, int, datetime]
    known_from: datetime
    known_until: datetime | None = None
    ended: tuple[datetime, datetime] | None = None

    def is_known(self, at: datetime | None) -> bool:
        """Return whether the session knew this at a time; None is now."""
        if at is None:
            return self.known_until is None
        return self.known_from <= at and (self.known_until is None or at < self.known_until)

    def end(self, known_at: datetime | None) -> datetime | None:
        """Return when the item stopped to hold, as the session knew it at a time; None is now."""
        if self.ended is None or (known_at is not None and known_at < self.ended[1]):
            return None
        return self.ended[0]


def told(section: Section, archived: Iterable[Archived]) -> list[ToldItem]:
    """Return all that a section was told, in order.

    A summary that a compaction made is left out for its originals.

    Args:
        archived: The versions that archive files hold, oldest first. Those in memory are added
            here.
    """
    # Of a damaged session, the archive may number its items as the log numbers others.
    contents: dict[tuple[int | None, str], dict[datetime | None, Archived]] = {}
    for version in (*archived, *section.archive.in_memory()):
        if not Replaced.by(version.item):
            of = version.ordinal, version.item.id
            contents.setdefault(of, {})[version.corrected] = version  # files may hold it, too
    for ordinal in section.held:
        if not Replaced.by(item := section.held[ordinal]):
            contents.setdefault((ordinal, item.id), {})[None] = Archived(item, ordinal)
    return sorted(
        (each for versions in contents.values() for each in _told_of(versions)),
        key=lambda each: each.order,
    )


def _told_of(versions: dict[datetime | None, Archived]) -> Iterator[ToldItem]:
    """Yield the contents that an item had, by when they were corrected."""
    known_from: datetime | None = None
    for corrected in [*sorted(filter(None, versions)), None]:
        version = versions.get(corrected)
        if version is not None:
            item = version.item
            number = version.ordinal
            order = (number is None, number or 0, item.created_at)
            yield ToldItem(item, order, known_from or item.created_at, corrected, version.ended)
        known_from = corrected


def versions_of(
    items: Iterable[ToldItem], *, known_at: datetime | None = None
) -> list[Version[ToldItem]]:
    """Return the versions of one fact, oldest first, as they were known at a time.

    None is now.
    """
    known = [each for each in items if each.is_known(known_at)]
    return in_order(
        known,
        stated=lambda each: each.item.stated_from,
        known_from=lambda each: each.item.created_at,
        ended=lambda each: each.end(known_at),
    )


def section_at(
    section: Section,
    items: Iterable[ToldItem],
    *,
    as_of: datetime | None = None,
    known_at: datetime | None = None,
) -> Section:
    """Return a section with the items that held at one time, and that the session knew at another.

    Without `as_of`, replaced versions are there for questions about the past, as in the section
    itself.
    """
    facts: dict[object, list[ToldItem]] = {}
    for number, each in enumerate(items):
        if each.is_known(known_at):
            facts.setdefault(number if each.item.key is None else (each.item.key,), []).append(each)
    chosen: list[Version[ToldItem]] = []
    for versions in (versions_of(fact, known_at=known_at) for fact in facts.values()):
        if (
            as_of is not None or versions[-1].is_current
        ):  # else it was removed, and no question may bring it back
            chosen += versions
    if as_of is not None:
        chosen = [replace(version, valid_until=None) for version in _held_at(as_of, chosen)]
    chosen.sort(key=lambda version: version.item.order)
    newest = {
        version.item.item.id: version for version in chosen
    }  # an id may have been given again
    unique = [version for version in chosen if newest[version.item.item.id] is version]
    then = Section(section.spec, ranker=section.ranker)
    then.held.ledger = section.ledger
    for version in unique:
        then.put_back(version.item.item, version.valid_until)
    return then


def _held_at(time: datetime, versions: Iterable[Version[ToldItem]]) -> list[Version[ToldItem]]:
    """Return the versions that held at a time.

    A relationship holds as its properties `valid_from` and `valid_until` say. Its ends hold as long
    as it does, unless they have a timestamp.
    """
    held = []
    entities = []
    ends: set[str] = set()
    for version in versions:
        part = part_of(version.item.item.metadata)
        begin = version.valid_from
        if isinstance(part, Relationship) and part.validity != Interval():
            if not part.validity.covers(time):
                continue
            begin = time  # an end that is not stated is open
        if replace(version, valid_from=begin).holds_at(time):
            held.append(version)
            if isinstance(part, Relationship):
                ends |= {part.source, part.target}
        elif isinstance(part, Entity) and version.item.item.stated_from is None:
            entities.append((part.id, version))
    return held + [
        version
        for entity, version in entities
        if entity in ends and replace(version, valid_from=time).holds_at(time)
    ]


class Timeline:
    """All that a session was ever told, as its sections and its archive files have it.

    Args:
        unpurged: Ids of items that were forgotten and that files may still hold.
    """

    def __init__(
        self,
        sections: Mapping[str, Section],
        log: SessionLog,
        *,
        counter: TokenCounter,
        unpurged: Callable[[], Container[str]],
    ) -> None:
        self._sections = sections
        self._log = log
        self._counter = counter
        self._unpurged = unpurged

    async def versions(self, key: str, names: Iterable[str]) -> list[Version[Item]]:
        """Return the versions of a key in some sections, oldest first. Raises CorruptionError."""
        stored = self._by_section(map(version_of, await asyncio.to_thread(self._log.keyed, key)))
        found: list[Version[Item]] = []
        for name in names:
            items = told(self._sections[name], stored.get(name, ()))
            versions = versions_of(each for each in items if each.item.key == key)
            found += (
                Version(
                    version.item.item, version.valid_from, version.valid_until, version.known_from
                )
                for version in versions
            )
        return sorted(found, key=lambda version: version.valid_from)

    async def sections_at(
        self, *, as_of: datetime | None, known_at: datetime | None
    ) -> dict[str, Section]:
        """Return all sections as they were: see `section_at`.

        The archive is read whole. Raises CorruptionError.
        """
        versions = await asyncio.to_thread(lambda: [*stored_versions(self._log)])
        stored = self._by_section(versions)
        return {
            name: section_at(
                section, told(section, stored.get(name, ())), as_of=as_of, known_at=known_at
            )
            for name, section in self._sections.items()
        }

    def _by_section(self, versions: Iterable[Archived]) -> dict[str, list[Archived]]:
        unpurged = self._unpurged()
        kept = (version for version in versions if version.item.id not in unpurged)
        return by_section(counted(version, self._counter) for version in kept)
