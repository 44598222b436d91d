"""A section as a session knew it, at any time.

There are two clocks. An item holds from its timestamp, else from when it was added: valid time. The
session knows an item since it was added: known time. Evictions and compactions change neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from operator import attrgetter
from typing import NamedTuple

from kaosmem.entities import Entity, Relationship, graph_part_of
from kaosmem.sections.archive import Archived
from kaosmem.sections.section import Section
from kaosmem.sections.substitution import ReplacedCounts
from kaosmem.types.items import Item
from kaosmem.types.versions import Interval, Version, in_order


class BitemporalItem(NamedTuple):
    """An item of a section, live or archived, with its valid time and its known time.

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
        if self.known_until is not None and self.known_until <= at:
            return False
        return self.known_from <= at

    def end(self, known_at: datetime | None) -> datetime | None:
        """Return when the item stopped to hold, as the session knew it at a time; None is now."""
        if self.ended is None or (known_at is not None and known_at < self.ended[1]):
            return None
        return self.ended[0]


def bitemporal_items(section: Section, archived: Iterable[Archived]) -> list[BitemporalItem]:
    """Return all items that a section ever had, in order.

    A summary that a compaction made is left out for its originals.

    Args:
        archived: The versions that archive files hold, oldest first. Those in memory are added
            here.
    """
    # Of a damaged session, the archive may number its items as the log numbers others.
    contents: dict[tuple[int | None, str], dict[datetime | None, Archived]] = {}
    for version in (*archived, *section.archive.in_memory()):
        if not ReplacedCounts.by(version.item):
            of = version.ordinal, version.item.id
            contents.setdefault(of, {})[version.corrected] = version  # files may hold it, too
    for ordinal in section.held:
        item = section.held[ordinal]
        if not ReplacedCounts.by(item):
            contents.setdefault((ordinal, item.id), {})[None] = Archived(item, ordinal)
    items: list[BitemporalItem] = []
    for versions in contents.values():
        items += _bitemporal_versions(versions)
    return sorted(items, key=attrgetter("order"))


def _bitemporal_versions(versions: dict[datetime | None, Archived]) -> Iterator[BitemporalItem]:
    """Yield the contents that an item had, by when they were corrected."""
    known_from: datetime | None = None
    for corrected in (*sorted(filter(None, versions)), None):
        version = versions.get(corrected)
        if version is not None:
            item = version.item
            number = version.ordinal
            order = (number is None, number or 0, item.created_at)
            yield BitemporalItem(
                item, order, known_from or item.created_at, corrected, version.ended
            )
        known_from = corrected


def versions_of(
    items: Iterable[BitemporalItem], *, known_at: datetime | None = None
) -> list[Version[BitemporalItem]]:
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
    items: Iterable[BitemporalItem],
    *,
    as_of: datetime | None,
    known_at: datetime | None,
) -> Section:
    """Return a section with the items that held at one time, and that the session knew at another.

    Without `as_of`, replaced versions are there for questions about the past, as in the section
    itself, and the version that held at `known_at` is live beside one that was yet to begin.
    """
    facts: dict[object, list[BitemporalItem]] = {}
    for number, each in enumerate(items):
        if each.is_known(known_at):
            fact_id: object = number  # an item without a key is a fact of its own
            if each.item.key is not None:
                fact_id = (each.item.key,)
            facts.setdefault(fact_id, []).append(each)
    now = None if section.present is None else known_at
    chosen: list[Version[BitemporalItem]] = []
    for fact in facts.values():
        versions = versions_of(fact, known_at=known_at)
        # Else it was removed, and no question may bring it back.
        ends = [version.valid_until for version in versions]
        if as_of is not None or not all(end and (now is None or end <= now) for end in ends):
            chosen += [version for version in versions if not version.is_taken_back]
    if as_of is not None:
        chosen = [replace(version, valid_until=None) for version in _held_at(as_of, chosen)]
    chosen.sort(key=lambda version: version.item.order)
    newest = {version.item.item.id: version for version in chosen}
    then = Section(section.spec, ranker=section.ranker)
    then.held.ledger = section.ledger
    for version in chosen:
        item = version.item.item
        if newest[item.id] is not version:  # its id was given again
            continue
        end = version.valid_until
        if end is not None and now is not None and now < end:
            end = None
        then.put_back(item, end)
    return then


def _held_at(
    time: datetime, versions: Iterable[Version[BitemporalItem]]
) -> list[Version[BitemporalItem]]:
    """Return the versions that held at a time.

    A relationship holds as its properties `valid_from` and `valid_until` say. Its ends hold as long
    as it does, unless they have a timestamp.
    """
    held = []
    entities = []
    ends: set[str] = set()
    for version in versions:
        part = graph_part_of(version.item.item.metadata)
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
    for entity_id, version in entities:
        if entity_id in ends and replace(version, valid_from=time).holds_at(time):
            held.append(version)
    return held
