"""Saving a session: one commit for all that has changed, and a snapshot off the path of the turn."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from kaosmem.errors import ConflictError, CorruptionError, DurabilityError
from kaosmem.persistence import Change, SessionLog
from kaosmem.sections import Section
from kaosmem.session.hydration import OPEN, describe, drain, freeze, release
from kaosmem.tokens import TokenCounter
from kaosmem.types import JSONValue


class Saver:
    """Keeps the sections of one session in its log.

    description: how the log describes the session already.
    notices: what went wrong beside the commits, a sentence each.
    """

    def __init__(
        self,
        log: SessionLog,
        sections: Iterable[Section],
        *,
        counter: TokenCounter,
        description: Mapping[str, JSONValue],
    ) -> None:
        self.notices: list[str] = []
        self._log, self._sections, self._counter = log, list(sections), counter
        self._description = description
        self._unsaved: list[Change] = []
        self._saving = asyncio.Lock()
        self._snapshot: asyncio.Task[None] | None = None

    async def save(self) -> None:
        """Commit all changes since the last save.

        Raises ConflictError, DurabilityError; then they are still unsaved.
        """
        async with self._saving:
            self._unsaved += drain(self._sections)
            if not self._unsaved:
                return
            changes = self._unsaved
            description = describe(self._sections, self._counter)
            if description != self._description:
                changes = [Change("", OPEN, description), *changes]
            seq = await asyncio.to_thread(self._log.commit, changes)
            self._unsaved, self._description = [], description
            # The state is that of record `seq` only if nothing came in while it was committed.
            unchanged = not any(section.journal for section in self._sections)
            if self._log.snapshot_due and unchanged and (self._snapshot is None or self._snapshot.done()):
                self._start_snapshot(seq)

    async def close(self) -> None:
        """Wait for a snapshot being written and let go of the log; what is unsaved is lost."""
        if self._snapshot is not None:
            await self._snapshot
        await asyncio.to_thread(self._log.close)

    def _start_snapshot(self, seq: int) -> None:
        """Write the state as it is now, off the path of the turn."""
        frozen = freeze(self._sections, self._counter)

        async def write() -> None:
            async with self._saving:
                try:
                    await asyncio.to_thread(
                        self._log.snapshot, frozen.header, frozen.items, archived=frozen.archived_entries, seq=seq
                    )
                except (ConflictError, CorruptionError, DurabilityError) as error:  # the log still holds all
                    self.notices.append(f"no snapshot was written: {error}")
                else:
                    release(self._sections, frozen.archived)

        self._snapshot = asyncio.create_task(write())
