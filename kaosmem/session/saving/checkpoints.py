"""The state of a session at one moment, and the snapshots and indexes that are written of it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from kaosmem.arguments import json_text
from kaosmem.errors import ConflictError, CorruptionError, DurabilityError
from kaosmem.persistence.commit import LogEnd
from kaosmem.persistence.files.records import FORMAT_VERSION
from kaosmem.persistence.log import SessionLog
from kaosmem.sections.archive import Archived
from kaosmem.sections.item_table import ChangeCounts
from kaosmem.sections.section import Section
from kaosmem.session.saving.hydration import Hydrated
from kaosmem.session.saving.version_history import VersionHistory, by_section
from kaosmem.tokens.counters import TokenCounter
from kaosmem.trace.trace import TRACE_SECTION, turn_entry
from kaosmem.trace.turn import Turn
from kaosmem.types import JSONDict, JSONObject


def describe(sections: Iterable[Section], counter: TokenCounter) -> JSONDict:
    """Return the description of a session: its counter and its sections.

    The log states it before any item.
    """
    specs = {section.spec.name: section.spec.to_dict() for section in sections}
    return {"version": FORMAT_VERSION, "counter": counter.name, "sections": specs}


@dataclass(frozen=True)
class SnapshotContent:
    """The state of a session at one moment, to be written while the session goes on.

    Attributes:
        items: Live ones with their sections.
        archived: Versions that no archive file holds yet.
        turns: Turns of the trace that no archive file holds yet.
    """

    header: JSONObject
    items: Iterable[tuple[str, JSONDict]]
    archived: Sequence[Archived]
    turns: Sequence[Turn]

    @classmethod
    def of(cls, session: Hydrated, counter: TokenCounter) -> SnapshotContent:
        """Return the state of all that is kept on disk."""
        kept = [each for each in session.sections.values() if each.spec.persistence != "none"]
        states = {section.spec.name: section.state() for section in kept}
        entries = [(section.spec.name, section.held.entries()) for section in kept]
        return cls(
            header={
                **describe(session.sections.values(), counter),
                "states": states,
                "forgotten": session.forgotten.to_list(),
                "windows": session.windows.to_list(session.sections),
                "turns": session.trace.stored,
            },
            items=((name, entry) for name, each in entries for entry in each),
            archived=[version for each in kept for version in each.archive.in_memory()],
            turns=tuple(session.trace.held),
        )

    @property
    def archived_entries(self) -> Iterator[tuple[str, JSONDict]]:
        """Yield the archived versions with their sections, then the turns, as JSON values."""
        for version in self.archived:
            yield version.item.section, version.to_dict()
        for turn in self.turns:
            yield TRACE_SECTION, turn_entry(turn)

    def merged(self, on_disk: Iterable[Archived]) -> SnapshotContent:
        """Return the state with the versions of archive files, each once, at its last position.

        Files may hold versions, even repeatedly, that are still in memory.
        """
        versions: dict[str, Archived] = {}
        for version in (*on_disk, *self.archived):
            stored = {**version.to_dict(), "tokens": 0}  # of any counter
            text = json_text([version.item.section, stored])
            versions.pop(text, None)
            versions[text] = version
        return self.with_archive([*versions.values()])

    def with_archive(self, archived: Sequence[Archived]) -> SnapshotContent:
        """Return the state with these versions as the whole archive."""
        versions = Counter(version.item.section for version in archived)
        places = {(each.item.section, each.position) for each in archived}
        evicted = Counter(name for name, position in places if position is not None)
        states = {}
        for name, state in self.header["states"].items():
            states[name] = {**state, "archived": versions[name], "evicted": evicted[name]}
        return replace(self, header={**self.header, "states": states}, archived=archived)

    def release(self, session: Hydrated) -> None:
        """Let go of the archived versions and turns that an archive file holds now."""
        own = by_section(self.archived)
        for name, section in session.sections.items():
            section.archive.release(own.get(name, ()))
        session.trace.archived(self.turns)


class Checkpoints:
    """Write snapshots and archives in the background, of the state at the call, one at a time.

    Attributes:
        notices: The faults, a sentence each.

    Args:
        session: The session as it is in memory.
    """

    def __init__(
        self,
        log: SessionLog,
        session: Hydrated,
        version_history: VersionHistory,
        *,
        counter: TokenCounter,
    ) -> None:
        self.notices: list[str] = []
        self._log = log
        self._session = session
        self._version_history = version_history
        self._counter = counter
        self._writing: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin the writes that are due, after those under way, of a session that is saved.

        A snapshot waits until none is under way.
        """
        if self._log.seq == 0:
            return
        before = self._writing
        if before is not None and before.done():
            before = None
        counts_by_section: dict[Section, ChangeCounts] = {}
        for section in self._session.sections.values():
            change_counts = section.index.to_store
            is_kept = section.spec.persistence != "none" and not section.held.unloaded
            if is_kept and change_counts is not None:
                counts_by_section[section] = change_counts
        snapshot_content = None
        if before is None and self._log.snapshot_due:
            snapshot_content = SnapshotContent.of(self._session, self._counter)
        if counts_by_section or snapshot_content:
            writing = self._write(before, counts_by_section, snapshot_content, self._log.end)
            self._writing = asyncio.create_task(writing)

    async def finished(self) -> None:
        """Wait until nothing is being written."""
        if self._writing is not None and not self._writing.done():
            await asyncio.shield(self._writing)

    async def _write(
        self,
        before: asyncio.Task[None] | None,
        counts_by_section: Mapping[Section, ChangeCounts],
        snapshot_content: SnapshotContent | None,
        at: LogEnd,
    ) -> None:
        if before is not None:
            await before
        # Before the snapshot, which says of which commits there are indexes.
        for section, change_counts in counts_by_section.items():
            name = section.spec.name
            store = partial(self._store_index, section, change_counts, at)
            await self._noting(f"no index of section {name!r} was written", store)
        if snapshot_content is None:
            return
        store = partial(
            self._log.snapshot,
            snapshot_content.header,
            snapshot_content.items,
            archived=snapshot_content.archived_entries,
            at=at,
        )
        if await self._noting("no snapshot was written", store):
            snapshot_content.release(self._session)
            await self._version_history.drop_stored_texts(at=at.head.seq)

    async def _noting(self, fault: str, store: Callable[[], bool]) -> bool:
        """Store a file in another thread, and return whether it is stored.

        An error becomes a notice: an index can be made anew, and the log still holds all.
        """
        try:
            return await asyncio.to_thread(store)
        except ConflictError:
            return False  # others have shortened the log, or deleted it
        except (CorruptionError, DurabilityError) as error:
            self.notices.append(f"{fault}: {error}")
            return False

    def _store_index(
        self,
        section: Section,
        change_counts: ChangeCounts,
        at: LogEnd,
    ) -> bool:
        """Store the index of a section as it was at a moment, and return whether it is stored."""
        dump = section.index.dump(change_counts)
        if dump is None:
            return False
        header = {"updates": dump.updates, "counter": self._counter.name}
        return self._log.store_index(
            section.spec.name, header, dump.chunks, at=at, ranker=dump.ranker
        )
