"""Saving a session as one commit, and erasing forgotten items from all files."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain
from typing import Any

from kaosmem.errors import ConflictError
from kaosmem.memos import clear_memos
from kaosmem.persistence.files.records import Change
from kaosmem.persistence.log import SessionLog
from kaosmem.persistence.recovery import Recovered
from kaosmem.persistence.storage.places import stored_files
from kaosmem.sections.archive import Archived
from kaosmem.sections.item_table import ChangeCounts
from kaosmem.sections.operations import (
    Add,
    Credit,
    Describe,
    Forget,
    Operation,
    SectionOperation,
    TraceTurn,
    Use,
    WindowTurn,
)
from kaosmem.sections.section import Section
from kaosmem.sections.substitution import derived_from
from kaosmem.session.saving.checkpoints import Checkpoints, SnapshotContent, describe
from kaosmem.session.saving.hydration import Hydrated
from kaosmem.session.saving.rebasing import UpstreamChanges, forget_derived, is_reply, rebase
from kaosmem.session.saving.turns import SingleLoopGuard, in_line
from kaosmem.session.saving.version_history import VersionHistory
from kaosmem.tokens.counters import TokenCounter
from kaosmem.types import JSONObject
from kaosmem.types.items import Item, StoredItem, decoded

MAX_TRIES = 1_000
"""A save that other writers outrun gives up after this many tries."""

_MANY_RECORDS = 256
"""More records of others are read into new sections in a thread.

To apply them takes 20 ms and more.
"""


@dataclass
class ErasedItems:
    """The items that were erased, and where.

    Attributes:
        item_ids: All of them.
        derived: Those made from items that this session was asked to forget.
        created_at: When they were created, by id.
        mark: As the log's was then.
    """

    item_ids: set[str] = field(default_factory=set)
    derived: set[str] = field(default_factory=set)
    windows: set[str] = field(default_factory=set)
    files: set[str] = field(default_factory=set)
    created_at: dict[str, set[datetime]] = field(default_factory=dict)
    mark: tuple[str, int, str] = "", 0, ""


class Saver:
    """Keep the sections of one session in its log.

    Attributes:
        hydrated: What the log held, its sections the caller's own.
        place: Equal for savers of one session.
        rehydrate: Gives what a log holds now.
        forgotten: All items that ever were, the caller's own.
        unpurged: The ids of forgotten items that files may still hold.
    """

    def __init__(
        self,
        log: SessionLog,
        hydrated: Hydrated,
        *,
        version_history: VersionHistory,
        place: Hashable,
        counter: TokenCounter,
        rehydrate: Callable[[Recovered], Hydrated],
    ) -> None:
        self.forgotten = hydrated.forgotten
        self._log = log
        self._place = place
        self._counter = counter
        self._rehydrate = rehydrate
        self._version_history = version_history
        self._session = hydrated
        self._sections = hydrated.sections
        self.windows = hydrated.windows
        self.trace = hydrated.trace
        self._description: JSONObject = hydrated.description
        self._unsaved: list[Operation] = []  # of sections that have no journal of it any more
        # Being committed, or failed and to be tried again as it is.
        self._batch: list[Operation] = []
        self._to_forget: set[str] = set()  # until the log says so
        self._ids_in_batch: set[str] = set()  # of these, what the batch says
        self.unpurged = hydrated.unpurged
        self._erased = ErasedItems()  # until `forget` returns it
        self._is_purge_due = bool(hydrated.unpurged) or log.has_leftovers
        # Stored indexes may hold words of what is forgotten, too.
        self._is_index_purge_due = self._is_purge_due
        self._tries = 0  # of the save under way
        self.is_in_conflict = False
        """Whether the last save raised ConflictError, so that its caller knows what is unsaved."""
        self._one_loop = SingleLoopGuard()
        self._checkpoints = Checkpoints(log, hydrated, version_history, counter=counter)

    async def save(self) -> None:
        """Commit all changes after the commits of others, and finish pending erasures.

        A save that has begun runs to its end. Raises ConflictError and DurabilityError; then the
        changes are still unsaved. Raises ConcurrentUseError while another event loop saves.
        """
        with self._one_loop:
            try:
                await _finished(self._save())
            except ConflictError:
                self.is_in_conflict = True
                raise
            self.is_in_conflict = False

    async def refresh(self, *, discard: bool = False) -> None:
        """Take in the commits of others, and commit nothing. discard: drop all unsaved changes.

        Pending erasures stay pending. Raises as `save`; then nothing has changed.
        """
        with self._one_loop:
            await _finished(self._refresh(discard=discard))

    async def forget(self, item_ids: Collection[str]) -> ErasedItems:
        """Erase items and all that is derived from them, here and wherever the session is stored.

        Returns all that was erased, by earlier calls that failed too. Raises as `save`.
        """
        self._to_forget |= {*item_ids}
        await self.save()
        erased = self._erased
        self._erased = ErasedItems()
        erased.item_ids.update(item_ids)
        return erased

    @property
    def notices(self) -> Collection[str]:
        """Return the faults beside the commits, a sentence each."""
        return self._checkpoints.notices

    def number_unsaved(self, section: str) -> int:
        """Return the number of added items of a section that the log does not have yet."""
        waiting = chain(self._batch, self._unsaved, self._sections[section].journal)
        return sum(isinstance(each, Add) and each.section == section for each in waiting)

    async def close(self) -> None:
        """Wait for the writes under way, and write no more; unsaved changes are lost."""
        with self._one_loop:
            async with self._one_loop.lock:  # whose save it is may have been cancelled
                await self._checkpoints.finished()
                self._log.close()

    async def _save(self) -> None:
        async with self._one_loop.lock:
            self._tries = 0
            await self._commit()
            if self._to_forget or self._is_purge_due:
                await self._checkpoints.finished()  # they have what is to be forgotten
            while self._to_forget:
                self._count_try()
                await self._commit_tombstones()
            while self._is_purge_due:
                self._count_try()
                await self._purge()
            if self._log.late_files:
                await asyncio.to_thread(self._log.delete_late_files)
            if self._is_index_purge_due:
                self._is_index_purge_due = False
                await asyncio.to_thread(_purge_indexes, list(self._sections.values()))
                clear_memos()  # to take an entry out may analyze its text once more
            if self._is_settled:
                self._checkpoints.start()

    async def _refresh(self, *, discard: bool) -> None:
        async with self._one_loop.lock:
            await self._take_in_log(discard=discard)
            if discard:
                self.is_in_conflict = False

    async def _commit(self) -> None:
        """Commit the changes that failed before, then all later ones."""
        await self._commit_batch()
        self._batch = self._drained()
        await self._commit_batch()

    async def _commit_batch(self) -> None:
        """Commit the batch, after the commits of others."""
        if not self._batch:
            return
        async with in_line(self._place, self._log.storage.line_up):
            while self._batch:
                self._count_try()
                try:
                    changes = [Change(each.section, each.op, each.data) for each in self._batch]
                    await asyncio.to_thread(self._log.commit, changes)
                except ConflictError:
                    await self._take_in_log()
                    self._batch = self._batch or self._drained()
                else:
                    self._settle()

    def _count_try(self) -> None:
        """Count a try to save. Raises ConflictError after too many."""
        self._tries += 1
        if self._tries > MAX_TRIES:
            raise ConflictError(
                f"others changed the session during each of {MAX_TRIES:,} tries to save it; save "
                "again when fewer write"
            )

    def _drained(self) -> list[Operation]:
        """Return all that is unsaved.

        A description of the session comes first if the log has another.
        """
        unsaved = self._taken_out()
        unsaved += [TraceTurn("", turn) for turn in self.trace.unsaved()]
        self._unsaved = []
        description = describe(self._sections.values(), self._counter)
        if unsaved and description != self._description:
            return [Describe("", description), *unsaved]
        return unsaved

    def _settle(self) -> None:
        """Note that the batch is committed."""
        described = (each.data for each in self._batch if isinstance(each, Describe))
        self._description = next(described, self._description)
        for each in self._batch:
            if isinstance(each, TraceTurn):
                self.trace.apply(each.data)
            elif isinstance(each, Forget):
                self._to_forget -= self._ids_in_batch  # others may have been asked for meanwhile
        self._batch = []

    @property
    def _is_settled(self) -> bool:
        """Return whether the sections are as the log's last record left them."""
        if self._batch or self._unsaved or self.windows.journal or self.trace.has_unsaved:
            return False
        return not any(section.journal for section in self._sections.values())

    async def _take_in_log(self, *, discard: bool = False) -> None:
        """Take in the commits of others, and put the unsaved changes after them or drop them.

        Raises:
            ConflictError: If the session was deleted or replaced, or both changed the same.
        """
        log_changes = await asyncio.to_thread(self._log.catch_up)
        theirs = await asyncio.to_thread(UpstreamChanges.read, log_changes, self._rehydrate)
        if theirs.stored is None and (
            discard or self._needs_all(theirs) or self._changed_by_both(theirs)
        ):
            log_changes = await asyncio.to_thread(self._log.catch_up, whole=True)
            theirs = await asyncio.to_thread(UpstreamChanges.read, log_changes, self._rehydrate)
        if log_changes.is_settled:
            self._settle()
        self._rebase_on(theirs, discard=discard)
        self._take_in(theirs)
        self._log.adopt(log_changes)
        self._is_purge_due |= self._log.has_leftovers

    def _rebase_on(self, theirs: UpstreamChanges, *, discard: bool) -> None:
        """Put the unsaved changes after the commits of others, or drop them."""
        stored = theirs.stored
        read = {} if stored is None else stored.sections
        if theirs.touched is not None and not self._needs_all(theirs):
            taken = self._changed_by_both(theirs)
            if discard:
                taken = self._with_unsaved()
            read = {name: section for name, section in read.items() if name in taken}
        ours = self._taken_out()
        if discard:
            ours = []
            theirs = theirs._replace(touched=None)  # what is shared cannot be told from the dropped
        changes = [each for each in ours if isinstance(each, SectionOperation)]
        self._unsaved = rebase(self._sections, changes, theirs, read)
        self._follow_windows(ours, theirs)
        if discard and stored is not None:
            self.trace.go_back(stored.trace)
            return
        turns = [each.data for each in theirs.operations if isinstance(each, TraceTurn)]
        self.trace.follow(turns, None if stored is None else stored.trace)

    def _needs_all(self, theirs: UpstreamChanges) -> bool:
        """Return whether all sections must be read after changes of others."""
        # Others may also have derived more from what is forgotten here, but not yet in the log.
        is_much = len(theirs.operations) > _MANY_RECORDS
        return bool(self._to_forget) or is_much or self._is_foreign(theirs)

    def _taken_out(self) -> list[Operation]:
        """Take all unsaved changes out of the batch and the journals, oldest first."""
        ours = [*self._batch, *self._unsaved]
        for section in self._sections.values():
            ours += section.drain_journal()
        ours += self.windows.drain()
        self._batch = []
        self._unsaved = ours
        return ours

    def _follow_windows(self, ours: Sequence[Operation], theirs: UpstreamChanges) -> None:
        """Put the turns of windows that are unsaved after the turns of others."""
        histories = set()
        for name, section in self._sections.items():
            if section.spec.placement == "history":
                histories.add(name)
        by_others = {
            each.section for each in theirs.operations if not isinstance(each, Use | Credit)
        }
        stored = theirs.stored
        self.windows.follow(
            [each.data for each in ours if isinstance(each, WindowTurn)],
            [each.data for each in theirs.operations if isinstance(each, WindowTurn)],
            None if stored is None else stored.windows,
            forgotten=theirs.forgotten,
            is_history_changed=theirs.touched is None or not histories.isdisjoint(by_others),
            has_replies=any(each.section in histories and is_reply(each) for each in ours),
        )

    def _is_foreign(self, theirs: UpstreamChanges) -> bool:
        """Return whether others open the session with more sections or another counter."""
        own = self._counter.name
        descriptions = [self._description, *theirs.descriptions]
        for each in theirs.descriptions:
            if each["sections"].keys() - self._sections:
                return True
        return any(each.get("counter", own) != own for each in descriptions)

    def _changed_by_both(self, theirs: UpstreamChanges) -> set[str]:
        """Return the names of sections with changes of others and unsaved ones here."""
        changed = {each.section for each in theirs.operations if not isinstance(each, Describe)}
        return self._with_unsaved() & changed

    def _with_unsaved(self) -> set[str]:
        """Return the names of sections with unsaved changes."""
        unsaved = {each.section for each in (*self._batch, *self._unsaved)}
        for name, section in self._sections.items():
            if section.journal:
                unsaved.add(name)
        return unsaved

    def _take_in(self, theirs: UpstreamChanges) -> None:
        """Note the changes of others to the session as a whole."""
        stored = theirs.stored
        if stored is not None:
            self._description = stored.description
            self.unpurged |= stored.unpurged
            self.trace.forget(stored.forgotten)
        elif theirs.descriptions:
            self._description = theirs.descriptions[-1]
        self.forgotten.update(theirs.forgotten)
        erased = theirs.erased
        if erased:  # who said so deletes it from the files, and nobody may store it anew
            self.unpurged |= erased
            self.windows.forget(erased)
            self.trace.forget(erased)
            clear_memos()
            self._note_no_indexes()
        if erased or stored is not None:
            forget_derived(self._sections, self.forgotten)
            self._is_index_purge_due = True

    async def _commit_tombstones(self) -> None:
        """Record in the log which items are forgotten.

        If changes come in meanwhile, leave it for later.
        """
        await self._commit()
        # A tombstone that another writer was faster than is written again: it is not in the log.
        archived = await self._version_history.by_section(with_unpurged=True)
        told = {*self._to_forget}
        change_counts = self._change_counts()
        derived = await self.derived_items(told, archived)
        forgotten = told.union(item.id for item in derived)
        # A section that is not stored has no journal.
        if not self._is_settled or change_counts != self._change_counts():
            return
        self._ids_in_batch = told
        for name, section in self._sections.items():
            operation = section.forget(forgotten, stored=archived.get(name, ()))
            if operation.ids and section.spec.persistence != "none":
                self._batch.append(operation)
        self.forgotten.add(forgotten)
        self.unpurged |= forgotten
        self._erased.derived |= forgotten - told
        self._erased.windows |= self.windows.forget(forgotten)
        self.trace.forget(forgotten)
        for item in derived:
            self._erased.created_at.setdefault(item.id, set()).add(item.created_at)
        self._is_purge_due = self._is_index_purge_due = True
        if not self._batch:  # said before, or of sections that no file holds
            self._to_forget.clear()
        await self._commit_batch()

    async def derived_items(
        self,
        item_ids: Iterable[str],
        archived: Mapping[str, Sequence[Archived]] | None = None,
    ) -> list[Item]:
        """Return these items and all that was derived from them, all versions of each.

        Raises CorruptionError.

        Args:
            archived: The versions of the archive files; they are read without it.
        """
        if archived is None:
            archived = await self._version_history.by_section()
        items: list[Item | StoredItem] = []
        for section in self._sections.values():
            items += section.held.stored
            items += [version.item for version in section.archive.in_memory()]
        items += [version.item for version in chain.from_iterable(archived.values())]

        def find() -> list[Item]:
            known = list(map(decoded, items))
            derived = derived_from(item_ids, known)
            return [item for item in known if item.id in derived]

        return await asyncio.to_thread(find)

    async def _purge(self) -> None:
        """Erase forgotten items from all files.

        If commits or changes come in meanwhile, leave it for later.
        """
        await self._commit()
        archived = await self._version_history.by_section()
        if not self._is_settled:
            return
        if self._log.seq == 0:  # no file holds anything
            self._note_erased()
            return
        files = await asyncio.to_thread(stored_files, self._log.storage)
        snapshot_content = SnapshotContent.of(self._session, self._counter)
        forgotten = {*self.unpurged}
        turns = await asyncio.to_thread(
            lambda: self.trace.turns(self._log.archives.all(), forgotten)
        )
        snapshot_content = replace(snapshot_content, turns=turns)

        def purge() -> SnapshotContent:
            whole = snapshot_content.merged(chain.from_iterable(archived.values()))
            self._log.purge(whole.header, whole.items, archived=whole.archived_entries)
            return whole

        try:
            whole = await asyncio.to_thread(purge)
        except ConflictError:
            await self._take_in_log()
            return
        snapshot_content.release(self._session)
        for name, state in whole.header["states"].items():
            self._sections[name].archive.on_disk = state["archived"]
        await self._version_history.drop_stored_texts()
        self._note_no_indexes()
        clear_memos()
        self._erased.files |= files - await asyncio.to_thread(stored_files, self._log.storage)
        self._note_erased()

    def _note_erased(self) -> None:
        """Note that no file holds what was forgotten."""
        self._erased.item_ids |= self.unpurged
        self._erased.mark = self._log.mark
        self._is_purge_due = False
        self.unpurged.clear()

    def _note_no_indexes(self) -> None:
        """Note that no index is stored any more: each may have held words of forgotten items."""
        for section in self._sections.values():
            section.index.not_stored()

    def _change_counts(self) -> list[ChangeCounts]:
        return [section.held.change_counts for section in self._sections.values()]


def _purge_indexes(sections: Iterable[Section]) -> None:
    for section in sections:
        section.index.purge()


async def _finished(work: Coroutine[Any, Any, None]) -> None:
    """Await work that continues to its end, however often the awaiting task is cancelled."""
    task = asyncio.create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:  # a scope of anyio cancels again and again
            cancelled = error
    if cancelled is not None:
        raise cancelled
    task.result()
