"""Reading the evicted items of a session's sections from its archive files."""

from __future__ import annotations

import asyncio
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace

from kaosmem.errors import CorruptionError, InvalidArgumentError, KaosmemError
from kaosmem.persistence import Entry, SessionLog
from kaosmem.sections import Archived, EvictedItem, Section, read_evicted
from kaosmem.tokens import TokenCounter, count_content

_READ_AT_ONCE = 4_096


async def load_past(sections: Iterable[Section], log: SessionLog, counter: TokenCounter) -> KaosmemError | None:
    """Let sections recall items evicted in earlier processes. Return the reason if they cannot, else None."""
    unloaded = [section for section in sections if section.held.past.unloaded]
    if not unloaded:
        return None
    try:
        found: Sequence[EvictedItem | Archived]
        try:
            found = await asyncio.to_thread(find_past, log, counter)
        except CorruptionError:
            found = await asyncio.to_thread(salvage_past, log, counter)
        for section in unloaded:
            section.ledger.load(version for version in found if version.item.section == section.spec.name)
    except (CorruptionError, InvalidArgumentError) as error:
        for section in unloaded:
            section.ledger.load(())
        return error
    return None


def find_past(log: SessionLog, counter: TokenCounter, *, at: int | None = None) -> list[EvictedItem]:
    """Return the evicted items of all archive files, or as of record `at`, oldest first. This reads files.

    Texts are read only from files that another counter may have counted. Raises CorruptionError.
    """
    found: list[EvictedItem] = []
    for file, evicted in log.evicted(at=at):
        if file.counter != counter.name:
            file.counter = None
            _recount(evicted, counter)
        found += evicted
    return found


def salvage_past(log: SessionLog, counter: TokenCounter) -> list[Archived]:
    """Return the intact evicted items with their texts. Raises CorruptionError unless it is read-only."""
    return [_counted(Archived.from_dict(data, name), counter) for name, data in log.archive()]


def find_versions(log: SessionLog, counter: TokenCounter, item_ids: Container[str]) -> dict[str, Archived]:
    """Return the newest version of each of these items that a file has. This is I/O. Raises CorruptionError."""
    stored = {data["id"]: (name, data) for name, data in log.archive(check_version) if data["id"] in item_ids}
    return {item_id: _counted(Archived.from_dict(data, name), counter) for item_id, (name, data) in stored.items()}


def check_version(entry: Entry) -> None:
    """Raise InvalidArgumentError for a stored version that makes no sense."""
    section, data = entry
    Archived.from_dict(data, section)


def let_go(sections: Mapping[str, Section], evicted: Iterable[EvictedItem]) -> None:
    """Drop from memory the texts that files hold now."""
    by_section: dict[str, list[EvictedItem]] = {}
    for each in evicted:
        by_section.setdefault(each.section, []).append(each)
    for name, own in by_section.items():
        if name in sections:
            sections[name].ledger.let_go(own)


def _recount(evicted: Sequence[EvictedItem], counter: TokenCounter) -> None:
    for start in range(0, len(evicted), _READ_AT_ONCE):
        for each, item in read_evicted(evicted[start : start + _READ_AT_ONCE]).items():
            if isinstance(item, CorruptionError):
                raise item
            each.tokens = count_content(item.content, counter)


def _counted(version: Archived, counter: TokenCounter) -> Archived:
    """Return a version as a counter counts it."""
    tokens = count_content(version.item.content, counter)
    return replace(version, item=replace(version.item, tokens=tokens))
