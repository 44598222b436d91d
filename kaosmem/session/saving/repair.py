"""Repair of a damaged session: its intact items are copied into a new session."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

from kaosmem.errors import ConflictError, CorruptionError
from kaosmem.names import MAX_NAME_CHARS, check_name, shown
from kaosmem.persistence.files.archive import Entry
from kaosmem.persistence.files.records import Change
from kaosmem.persistence.log import SessionLog
from kaosmem.persistence.recovery import Recovered
from kaosmem.persistence.storage.places import Location, list_sessions, unknown_session
from kaosmem.sections.archive import Archived
from kaosmem.sections.operations import Describe
from kaosmem.sections.section import Section
from kaosmem.session.saving.checkpoints import SnapshotContent, describe
from kaosmem.session.saving.hydration import Hydrated, hydrate, stored_counter, stored_specs
from kaosmem.session.saving.version_history import version_of
from kaosmem.session.windows import Windows
from kaosmem.tokens.counters import TokenCounter
from kaosmem.trace.trace import is_turn
from kaosmem.types import JSONObject

_ENDING = "-repaired"

NEWER_TEXT_LOST = "newer_text_lost"
"""The metadata field of an archived item whose newest text is lost.

Its value is the time of the lost update.
"""


@dataclass(frozen=True)
class RepairReport:
    """The result of a repair.

    Attributes:
        session_id: The id of the session that was to be repaired.
        into: The id of the new session. None: there was nothing to repair, and nothing was written.
        items: The number of live items by section, in the new session or else in the old one.
        archived: The number of archived versions by section, as `items`.
        damage: The damaged places, and the loss at each.
        outdated: The ids of the items whose newest text is known to be lost. They are archived with
            an older text, and their metadata say so in the field `newer_text_lost`.
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

    The damaged session stays as it is. Windows are packed anew. If a repair is interrupted, the
    next one continues it.

    Args:
        url_or_fs: A path, a URL, or a filesystem.
        session_id: The id of the damaged session.
        into: The id of the new session. The default is `<session_id>-repaired`.
        namespace: The namespace of both sessions.
        single_writer: As in `SessionMemory.open`.

    Raises:
        InvalidNameError: If a name is not valid. Nothing was read.
        NotFoundError: If there is no such session.
        UnsupportedVersionError: If a newer version of kaosmem has written to the session.
        ConflictError: If the new session holds anything.
        CorruptionError: If nothing is intact.
        DurabilityError: If the storage fails.
    """
    check_name(namespace, "namespace")
    check_name(session_id, "session id")
    if into is not None:
        check_name(into, "session id")
    return await asyncio.to_thread(
        _repair, url_or_fs, session_id, into, namespace, single_writer=single_writer
    )


def _repair(
    location: Location,
    session_id: str,
    into: str | None,
    namespace: str,
    *,
    single_writer: bool,
) -> RepairReport:
    if session_id not in list_sessions(location, namespace):
        raise unknown_session(location, session_id, namespace)
    open_log = partial(SessionLog.open, location, namespace=namespace, single_writer=single_writer)
    log, recovered = open_log(session_id, read_only=True)
    damage_before = len(log.damage)
    entries = log.archives.all()
    is_archive_sound = len(log.damage) == damage_before
    counter = stored_counter(recovered)
    hydrated = hydrate(recovered, stored_specs(recovered), counter, None, read_only=True)
    whole = _whole(entries, hydrated, counter, recovered.damage)
    outdated = _outdated(whole.archived, hydrated.sections.values())
    items = {name: len(section) for name, section in hydrated.sections.items() if len(section)}
    archived_items = Counter(version.item.section for version in whole.archived)
    report = RepairReport(session_id, None, items, dict(archived_items), log.damage)
    if is_archive_sound and not hydrated.is_partial:
        return report
    new_id = into or session_id[: MAX_NAME_CHARS - len(_ENDING)] + _ENDING
    archived = [_noted(version, outdated) for version in whole.archived]
    description = describe(hydrated.sections.values(), counter)
    if not _store(partial(open_log, new_id), description, whole.with_archive(archived)):
        raise ConflictError(
            f"session {shown(new_id)} is there already, and a repair overwrites nothing; give "
            "another id"
        )
    return replace(report, into=new_id, outdated=tuple(outdated))


def _whole(
    entries: Sequence[Entry],
    hydrated: Hydrated,
    counter: TokenCounter,
    damage: list[CorruptionError],
) -> SnapshotContent:
    """Return the whole state of a session, with all archived versions and turns.

    Args:
        entries: The entries of its archive files.
        damage: The versions that are no items are entered here.
    """
    trace = hydrated.trace
    turns = trace.turns(entries, hydrated.unpurged)
    trace.stored = max((turn.number for turn in turns), default=0)
    snapshot_content = SnapshotContent.of(replace(hydrated, windows=Windows()), counter)
    on_disk = _usable(entries, hydrated, damage)
    return replace(snapshot_content.merged(on_disk), turns=turns)


def _usable(
    entries: Iterable[Entry],
    hydrated: Hydrated,
    damage: list[CorruptionError],
) -> Iterator[Archived]:
    """Yield the archived versions that are items and not to be forgotten, in possible places."""
    for entry in entries:
        if is_turn(entry):
            continue
        try:
            version = version_of(entry)
        except CorruptionError as error:
            damage.append(error)
            continue
        if version.item.id in hydrated.unpurged:
            continue
        section = hydrated.sections.get(version.item.section)
        if section is None or not section.held.is_free(version.position):
            version = replace(version, unit=None)
        yield version


def _outdated(archived: Iterable[Archived], sections: Iterable[Section]) -> dict[str, datetime]:
    """Return the items whose newest text is lost, by id, with the time of the update that is lost.

    The newest version of an item that is not live was never replaced by an update.
    """
    corrected = {version.item.id: version.corrected for version in archived}
    live: set[str] = set()
    for section in sections:
        live.update(section.held.ordinals)
    return {item_id: at for item_id, at in corrected.items() if at and item_id not in live}


def _noted(version: Archived, outdated: Mapping[str, datetime]) -> Archived:
    """Return an archived version.

    If the newest text of its item is lost, it says so, and is not recalled.
    """
    lost_at = outdated.get(version.item.id)
    if lost_at is None:
        return version
    metadata = {**version.item.metadata, NEWER_TEXT_LOST: lost_at.isoformat()}
    item = replace(version.item, metadata=metadata)
    return replace(version, item=item, unit=None)


def _store(
    open_log: Callable[[], tuple[SessionLog, Recovered]],
    description: JSONObject,
    whole: SnapshotContent,
) -> bool:
    """Store a session, and return whether its id was free."""
    try:
        log, recovered = open_log()
    except CorruptionError:  # something is there
        return False
    is_begun = any(record.op != Describe.op for record in recovered.records)
    if is_begun or recovered.header is not None:
        return False
    if log.seq == 0:
        log.commit([Change("", Describe.op, description)])
    # Without the snapshot, no log is to pass for an empty session.
    log.purge(whole.header, whole.items, archived=whole.archived_entries)
    return True
