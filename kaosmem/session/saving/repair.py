"""Repair of a damaged session: its intact items are copied into a new session."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

from kaosmem.arguments import json_text
from kaosmem.errors import (
    ConflictError,
    CorruptionError,
    InvalidArgumentError,
)
from kaosmem.names import MAX_NAME_CHARS, check_name, shown
from kaosmem.persistence.files.archive import Entry
from kaosmem.persistence.files.records import Change
from kaosmem.persistence.log import SessionLog
from kaosmem.persistence.recovery import Recovered
from kaosmem.persistence.storage.places import Location, list_sessions, unknown_session
from kaosmem.sections.archive import Archived
from kaosmem.sections.operations import Describe
from kaosmem.sections.section import Section
from kaosmem.session.saving.hydration import STATE_FIELDS, Hydrated, freeze, hydrate
from kaosmem.session.saving.salvaging import salvage_sections, stored_counter, stored_specs
from kaosmem.trace.trace import TRACE_SECTION, is_turn, turn_entry
from kaosmem.types import JSONValue

_ENDING = "-repaired"

NEWER_TEXT_LOST = "newer_text_lost"
"""The metadata field of an archived item whose newest text is lost.

Its value is the time of the lost update.
"""


@dataclass(frozen=True)
class RepairReport:
    """The result of a repair.

    into: the id of the new session. None: there was nothing to repair, and nothing was written.
    items, archived: live items and archived versions by section, in the new session or else in the
        old one.
    damage: the damaged places, and the loss at each.
    outdated: ids of the items whose newest text is known to be lost. They are archived with an
        older text, and their
    metadata say so in the field `newer_text_lost`.
    """

    session_id: str
    into: str | None
    items: Mapping[str, int]
    archived: Mapping[str, int]
    damage: tuple[CorruptionError, ...] = field(default=(), repr=False)
    outdated: tuple[str, ...] = ()


async def repair_session(
    url_or_fs: Location,
    session_id: str,
    into: str | None = None,
    namespace: str = "default",
    *,
    single_writer: bool = False,
) -> RepairReport:
    """Copy everything intact of a damaged session into a new session, its kept turns too.

    The damaged session stays as it is. Windows are packed anew.

    into: the id of the new session. The default is `<session_id>-repaired`.
    single_writer: as in `SessionMemory.open`.
    An interrupted repair leaves the damaged session as it is. The next repair continues it.
    Raises InvalidNameError before any I/O, NotFoundError, UnsupportedVersionError, ConflictError if
    the new session holds anything, CorruptionError if nothing is intact, DurabilityError.
    """
    place = _Place(url_or_fs, check_name(namespace, "namespace"), single_writer)
    check_name(session_id, "session id")
    if into is not None:
        check_name(into, "session id")
    return await asyncio.to_thread(_repair, place, session_id, into)


@dataclass(frozen=True)
class _Place:
    location: Location = field(repr=False)
    namespace: str
    single_writer: bool

    def open(self, session_id: str, *, read_only: bool = False) -> tuple[SessionLog, Recovered]:
        return SessionLog.open(
            self.location,
            session_id,
            namespace=self.namespace,
            read_only=read_only,
            single_writer=self.single_writer,
        )


@dataclass(frozen=True)
class _Found:
    """A session as it was read.

    header, items: as `SessionLog.purge` takes them. archived: all archived versions, oldest first.
    turns: the turns of the trace, in the form of archived versions.
    outdated: the items whose newest text is lost, by id, with the time of the update that is lost.
    """

    header: Mapping[str, JSONValue]
    items: list[Entry]
    archived: list[Entry]
    turns: list[Entry]
    outdated: Mapping[str, JSONValue]
    damage: tuple[CorruptionError, ...]

    def report(self, session_id: str, into: str | None) -> RepairReport:
        """Return the report of a repair into another session, or of a sound session."""
        items, archived = (
            dict(Counter(name for name, _ in each)) for each in (self.items, self.archived)
        )
        outdated = tuple(self.outdated) if into else ()
        return RepairReport(session_id, into, items, archived, self.damage, outdated)


def _repair(place: _Place, session_id: str, into: str | None) -> RepairReport:
    if session_id not in list_sessions(place.location, place.namespace):
        raise unknown_session(place.location, session_id, place.namespace)
    try:
        return _read(place, session_id).report(session_id, None)
    except CorruptionError:
        found = _read(place, session_id, read_only=True)
    new_id = into or session_id[: MAX_NAME_CHARS - len(_ENDING)] + _ENDING
    if not _store(place, new_id, found):
        raise ConflictError(
            f"session {shown(new_id)} is there already, and a repair overwrites nothing; give "
            "another id"
        )
    return found.report(session_id, new_id)


def _read(place: _Place, session_id: str, *, read_only: bool = False) -> _Found:
    """Return a session.

    If it is read-only, return its intact part; else raise CorruptionError for any damage.
    """
    log, recovered = place.open(session_id, read_only=read_only)
    with closing(log):
        entries = list(log.archive())
        stored = [entry for entry in entries if not is_turn(entry)]
        specs = stored_specs(recovered, {name for name, _ in stored})
        counter = stored_counter(recovered)
        try:
            hydrated = (salvage_sections if recovered.is_partial else hydrate)(
                recovered, specs, counter, None
            )
        except CorruptionError as error:
            if not read_only:
                raise
            recovered.damage.append(error)
            hydrated = salvage_sections(recovered, specs, counter, None)
        if read_only:
            stored = _usable(stored, hydrated, recovered.damage)
        sections = hydrated.sections
        frozen = freeze(sections.values(), counter, hydrated.forgotten)
        # Files may have some that the log has still.
        versions = {
            json_text(list(each)): each for each in (*stored, *frozen.archived_entries)
        }.values()
        outdated = _outdated(versions, sections)
        archived = [_noted(*version, outdated) for version in versions]
        turns = hydrated.trace.stored_turns(entries, hydrated.unpurged)
        header = {
            **frozen.header,
            "states": _states(frozen.header["states"], archived, sections),
            "turns": max((turn.number for turn in turns), default=0),
        }
        stored_turns = [(TRACE_SECTION, turn_entry(turn)) for turn in turns]
        return _Found(header, list(frozen.items), archived, stored_turns, outdated, log.damage)


def _usable(
    archive: Sequence[Entry], hydrated: Hydrated, damage: list[CorruptionError]
) -> list[Entry]:
    """Return archived versions that are items, and not to be forgotten, in possible places."""
    usable: list[Entry] = []
    for name, data in archive:
        try:
            version = Archived.from_dict(data, name)
        except InvalidArgumentError:
            damage.append(
                CorruptionError(f"an archived version of section {shown(name)} is no item")
            )
            continue
        if version.item.id in hydrated.unpurged:
            continue
        section = hydrated.sections.get(name)
        if section is not None and version.position in section.held:
            version = replace(version, position=None, unit=None)
        usable.append((name, version.to_dict()))
    return usable


def _outdated(archived: Iterable[Entry], sections: Mapping[str, Section]) -> dict[str, JSONValue]:
    """Return the items whose newest text is lost, by id, with the time of the update that is lost.

    The newest version of an item that is not live was never replaced by an update.
    """
    replaced = {version["id"]: version.get("corrected") for _, version in archived}
    live = {item_id for section in sections.values() for item_id in section.held.ordinals}
    return {item_id: time for item_id, time in replaced.items() if time and item_id not in live}


def _noted(name: str, version: dict[str, JSONValue], outdated: Mapping[str, JSONValue]) -> Entry:
    """Return an archived version.

    If the newest text of its item is lost, it says so, and is not recalled.
    """
    if version["id"] not in outdated:
        return name, version
    noted = {field: value for field, value in version.items() if field not in ("position", "unit")}
    if "position" in version:
        noted["ordinal"] = version["position"]
    noted["metadata"] = {**version.get("metadata", {}), NEWER_TEXT_LOST: outdated[version["id"]]}
    return name, noted


def _states(
    states: Mapping[str, Mapping[str, JSONValue]],
    archived: Sequence[Entry],
    sections: Mapping[str, Section],
) -> dict[str, dict[str, JSONValue]]:
    """Return the states of sections with their archived items."""
    counted = {name: dict(state) for name, state in states.items()}
    for name, state in counted.items():
        versions = [data for section, data in archived if section == name]
        positions = {data["position"] for data in versions if data.get("position") is not None}
        state |= {
            "archived": len(versions),
            "evicted": len(positions) if sections[name].spec.recalls else 0,
        }
        state["taken"] = max([state["taken"], *(position + 1 for position in positions)])
    return counted


def _store(place: _Place, session_id: str, found: _Found) -> bool:
    """Store a session, and return whether its id was free."""
    try:
        log, recovered = place.open(session_id)
    except CorruptionError:  # something is there
        return False
    with closing(log):
        if recovered.header is not None or any(
            record.op != Describe.op for record in recovered.records
        ):
            return False
        if log.seq == 0:
            description = {
                name: value for name, value in found.header.items() if name not in STATE_FIELDS
            }
            log.commit([Change("", Describe.op, description)])
        # Without the snapshot, no log is to pass for an empty session.
        log.purge(found.header, found.items, archived=[*found.archived, *found.turns])
        return True
