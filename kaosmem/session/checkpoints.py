"""Snapshots and stored indexes, written beside the turn."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from functools import partial

from kaosmem.errors import ConflictError, CorruptionError, DurabilityError
from kaosmem.persistence import SessionLog
from kaosmem.sections import Forgotten, IndexDump, Moment, Section, StoredIndex
from kaosmem.session.hydration import Frozen, freeze, release
from kaosmem.session.past import find_past, let_go
from kaosmem.session.windows import Windows
from kaosmem.tokens import TokenCounter


class Checkpoints:
    """Write snapshots and archives in the background, of the state at the call, one at a time.

    notices: the faults, a sentence each.
    """

    def __init__(self, log: SessionLog, *, counter: TokenCounter) -> None:
        self.notices: list[str] = []
        self._log, self._counter = log, counter
        self._writing: asyncio.Task[None] | None = None

    def start(self, sections: Mapping[str, Section], forgotten: Forgotten, windows: Windows) -> None:
        """Begin the writes that are due, after those under way. A snapshot waits until none is under way.

        sections, windows: the state after the log's last record.
        """
        if self._log.seq == 0:
            return
        before = None if self._writing is None or self._writing.done() else self._writing
        moments = {
            name: moment
            for name, each in sections.items()
            if each.spec.persistence != "none" and not each.held.past.unloaded and (moment := each.index.to_store)
        }
        frozen = None
        if before is None and self._log.snapshot_due:
            frozen = freeze(sections.values(), self._counter, forgotten, windows)
        if moments or frozen:
            self._writing = asyncio.create_task(self._write(before, sections, moments, frozen, self._log.seq))

    async def finished(self) -> None:
        """Wait until nothing is being written."""
        if self._writing is not None and not self._writing.done():
            await asyncio.shield(self._writing)

    async def _write(
        self,
        before: asyncio.Task[None] | None,
        sections: Mapping[str, Section],
        moments: Mapping[str, Moment],
        frozen: Frozen | None,
        seq: int,
    ) -> None:
        if before is not None:
            await before
        for name, moment in moments.items():  # before the snapshot, which says of which commits there are indexes
            dump = await asyncio.to_thread(sections[name].index.dump, moment)
            if dump is not None:
                await self._store_index(name, dump, seq)
        if frozen is not None:
            await self._store_snapshot(sections, frozen, seq)

    async def _store_index(self, name: str, dump: IndexDump, seq: int) -> None:
        header = {"updates": dump.updates}
        try:
            await asyncio.to_thread(self._log.store_index, name, header, dump.chunks, seq=seq, ranker=dump.ranker)
        except ConflictError:
            return  # others have shortened the log, or deleted it; what is read of it then has no index yet
        except (CorruptionError, DurabilityError) as error:  # it can be made anew
            self.notices.append(f"no index of section {name!r} was written: {error}")

    async def _store_snapshot(self, sections: Mapping[str, Section], frozen: Frozen, seq: int) -> None:
        try:
            stored = await asyncio.to_thread(
                self._log.snapshot, frozen.header, frozen.items, archived=frozen.archived_entries, seq=seq
            )
        except ConflictError:
            return  # others have shortened the log, or deleted it
        except (CorruptionError, DurabilityError) as error:  # the log still holds all
            self.notices.append(f"no snapshot was written: {error}")
        else:
            if stored:
                release(sections.values(), frozen.archived)
                with suppress(CorruptionError, OSError):  # else they stay in memory
                    let_go(sections, await asyncio.to_thread(find_past, self._log, self._counter, at=seq))


def keep_indexes(log: SessionLog, sections: Mapping[str, Section]) -> None:
    """Tell sections of a log where their indexes are stored."""
    for name, section in sections.items():
        section.index.keep_in(partial(_stored_index, log, name))


def _stored_index(log: SessionLog, section: str, ranker: str) -> StoredIndex | None:
    match log.index(section, ranker):
        case {"updates": int(updates)}, memoryview() as data:
            return StoredIndex(updates, data)
    return None
