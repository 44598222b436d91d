"""Repair of a damaged session: its intact items are copied into a new session."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count

from kaosmem.errors import (
    ConflictError,
    CorruptionError,
    DurabilityError,
    InvalidArgumentError,
    KaosmemError,
)
from kaosmem.names import MAX_NAME_CHARS, check_name, shown
from kaosmem.persistence import Change, Entry, Location, Recovered, SessionLog, list_sessions, unknown_session
from kaosmem.persistence.layout import ARCHIVE
from kaosmem.sections import Archived, Forgotten, Section
from kaosmem.sections.operations import Describe
from kaosmem.session.saving.hydration import STATE_FIELDS, Hydrated, freeze, hydrate
from kaosmem.session.saving.salvaging import salvage_sections, stored_counter, stored_specs
from kaosmem.tokens import TokenCounter
from kaosmem.types import JSONValue, json_text

NEWER_TEXT_LOST = "newer_text_lost"
"""The metadata field of an archived item whose newest text is lost. Its value is the time of the lost update."""


@dataclass(frozen=True)
class RepairReport:
    """The result of a repair.

    into: the id of the new session. None: there was nothing to repair, and nothing was written.
    items, archived: live items and archived versions by section, in the new session or else in the old one.
    damage: the damaged places, and the loss at each.
    outdated: ids of the items whose newest text is known to be lost. They are archived with an older text, and their
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
    """Copy everything intact of a damaged session into a new session. The damaged session stays as it is.

    into: the id of the new session. The default is `<session_id>-repaired`, with a number if it is taken.
    single_writer: as in `SessionMemory.open`.
    An interrupted repair leaves the damaged session as it is. The next repair continues it.
    Raises InvalidNameError before any I/O, NotFoundError, UnsupportedVersionError, ConflictError if `into` holds
    anything, CorruptionError if nothing is intact, DurabilityError.
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
class _Rescued:
    """A session as it was read: its sections, and the archived versions that files hold."""

    hydrated: Hydrated
    counter: TokenCounter
    archive: Sequence[Entry]
    damage: tuple[CorruptionError, ...]

    @property
    def items(self) -> dict[str, int]:
        sections = self.hydrated.sections.items()
        return {name: len(section) for name, section in sections if len(section)}

    @cached_property
    def versions(self) -> list[Entry]:
        """Return all archived versions, each once: files may have some that the log has still.

        The versions of an item whose newest text is lost say so, and are not recalled.
        """
        return [self._noted(*entry) for entry in self._found]

    @cached_property
    def outdated(self) -> dict[str, JSONValue]:
        """Return the items whose newest text is lost, by id, with the time of the update that is lost.

        The newest version of an item that is not live was never replaced by an update.
        """
        replaced = {data["id"]: data.get("corrected") for _, data in self._found}
        live = {item_id for section in self.hydrated.sections.values() for item_id in section.held.ordinals}
        return {item_id: time for item_id, time in replaced.items() if time and item_id not in live}

    @cached_property
    def _found(self) -> list[Entry]:
        frozen = freeze(self.hydrated.sections.values(), self.counter, Forgotten())
        return list({json_text(list(entry)): entry for entry in (*self.archive, *frozen.archived_entries)}.values())

    def _noted(self, section: str, version: dict[str, JSONValue]) -> Entry:
        if version["id"] not in self.outdated:
            return section, version
        noted = {name: value for name, value in version.items() if name not in ("position", "unit")}
        if "position" in version:
            noted["ordinal"] = version["position"]
        noted["metadata"] = {**version.get("metadata", {}), NEWER_TEXT_LOST: self.outdated[version["id"]]}
        return section, noted

    @property
    def archived(self) -> dict[str, int]:
        return dict(Counter(name for name, _ in self.versions))


def _repair(place: _Place, session_id: str, into: str | None) -> RepairReport:
    if session_id not in list_sessions(place.location, place.namespace):
        raise unknown_session(place.location, session_id, place.namespace)
    try:
        sound = _read(place, session_id)
    except CorruptionError:
        rescued = _read(place, session_id, read_only=True)
        if not any((error.file or "").startswith(ARCHIVE) for error in rescued.damage):
            rescued = replace(rescued, damage=(*rescued.damage, *_lacking(rescued)))
    else:
        if not (lacking := _lacking(sound)):
            return RepairReport(session_id, None, sound.items, sound.archived, sound.damage)
        rescued = replace(sound, damage=(*sound.damage, *lacking))
    new_id = _write(place, rescued, [into] if into else _free_ids(session_id), is_given=into is not None)
    return RepairReport(session_id, new_id, rescued.items, rescued.archived, rescued.damage, tuple(rescued.outdated))


def _read(place: _Place, session_id: str, *, read_only: bool = False) -> _Rescued:
    """Return a session. If it is read-only, return its intact part; else raise CorruptionError for any damage."""
    log, recovered = place.open(session_id, read_only=read_only)
    try:
        archive = log.archive()
        specs = stored_specs(recovered, {name for name, _ in archive})
        counter = stored_counter(recovered)
        try:
            hydrated = (salvage_sections if recovered.is_partial else hydrate)(recovered, specs, counter, None)
        except CorruptionError as error:
            if not read_only:
                raise
            recovered.damage.append(error)
            hydrated = salvage_sections(recovered, specs, counter, None)
        if read_only:
            archive = _usable(archive, hydrated, recovered.damage)
        return _Rescued(hydrated, counter, archive, log.damage)
    finally:
        log.close()


def _usable(archive: Sequence[Entry], hydrated: Hydrated, damage: list[CorruptionError]) -> list[Entry]:
    """Return archived versions that are items, not to be forgotten, and stand where they can have stood."""
    sections = hydrated.sections.items()
    held = {name: {entry["position"] for entry in section.held.entries()} for name, section in sections}
    usable: list[Entry] = []
    for name, data in archive:
        try:
            version = Archived.from_dict(data, name)
        except InvalidArgumentError:
            damage.append(CorruptionError(f"an archived version of section {shown(name)} is no item"))
            continue
        if version.item.id in hydrated.unpurged:
            continue
        if version.position in held.get(name, ()):
            version = replace(version, position=None, unit=None)
        usable.append((name, version.to_dict()))
    return usable


def _lacking(found: _Rescued) -> list[CorruptionError]:
    """Return notices about archived versions that no file holds."""
    stored = Counter(name for name, _ in found.archive)
    sections = found.hydrated.sections.items()
    lost = {name: len(each.archive) - len(each.archive.in_memory()) - stored[name] for name, each in sections}
    return [
        CorruptionError(f"{number} archived versions of section {name!r} are in no file; a copy brings them back")
        for name, number in lost.items()
        if number > 0
    ]


def _write(place: _Place, rescued: _Rescued, ids: Sequence[str] | Iterator[str], *, is_given: bool) -> str:
    """Store the rescued session under the first free id, and return the id."""
    frozen = freeze(rescued.hydrated.sections.values(), rescued.counter, rescued.hydrated.forgotten)
    states = _states(frozen.header["states"], rescued.versions, rescued.hydrated.sections)
    header, items = {**frozen.header, "states": states}, list(frozen.items)
    for session_id in ids:
        try:
            if _store(place, session_id, header, items, rescued.versions):
                _check(place, session_id, items, rescued.versions)
                return session_id
        except ConflictError:  # another repair was first
            if is_given:
                raise
        if is_given:
            raise ConflictError(
                f"session {shown(session_id)} is there already, and a repair overwrites nothing; give another id"
            )
    raise AssertionError("ids without end came to one")


def _store(
    place: _Place, session_id: str, header: Mapping[str, JSONValue], items: Sequence[Entry], archived: Sequence[Entry]
) -> bool:
    """Store a session, and return whether its id was free."""
    try:
        log, recovered = place.open(session_id)
    except CorruptionError:  # something is there
        return False
    try:
        if recovered.header is not None or any(record.op != Describe.op for record in recovered.records):
            return False
        description = {name: value for name, value in header.items() if name not in STATE_FIELDS}
        if log.seq == 0:
            log.commit([Change("", Describe.op, description)])
        log.purge(header, items, archived=archived)  # without the snapshot, no log is to pass for an empty session
        return True
    finally:
        log.close()


def _states(
    states: Mapping[str, Mapping[str, JSONValue]], archived: Sequence[Entry], sections: Mapping[str, Section]
) -> dict[str, dict[str, JSONValue]]:
    """Return the states of sections with their archived items."""
    counted = {name: dict(state) for name, state in states.items()}
    for name, state in counted.items():
        versions = [data for section, data in archived if section == name]
        positions = {data["position"] for data in versions if data.get("position") is not None}
        state |= {"archived": len(versions), "evicted": len(positions) if sections[name].spec.recalls else 0}
        state["taken"] = max([state["taken"], *(position + 1 for position in positions)])
    return counted


def _check(place: _Place, session_id: str, items: Sequence[Entry], archived: Sequence[Entry]) -> None:
    """Raise DurabilityError unless a new session is read back as it was written."""
    try:
        found = _read(place, session_id)
        frozen = freeze(found.hydrated.sections.values(), found.counter, Forgotten())
        read = [*map(json_text, (*frozen.items, *found.archive))]  # in which a tuple is a list
        if read == [*map(json_text, (*items, *archived))] and not _lacking(found):
            return
        reason = "other items were read"
    except KaosmemError as error:
        reason = str(error)
    raise DurabilityError(
        f"session {shown(session_id)} is not read back as it was written: {reason}; delete it and repair again"
    )


def _free_ids(session_id: str) -> Iterator[str]:
    for number in count(1):
        ending = "-repaired" if number == 1 else f"-repaired-{number}"
        yield session_id[: MAX_NAME_CHARS - len(ending)] + ending
