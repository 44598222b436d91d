"""The archive files of a session: the items that were evicted, replaced or removed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TypeVar

from kaosmem.errors import CorruptionError
from kaosmem.persistence.files.archive import (
    ArchiveFile,
    Entry,
    evicted_items,
    find_archived,
    read_archive,
)
from kaosmem.persistence.files.manifest import ListedArchive
from kaosmem.persistence.recovery import (
    MAX_READ_ATTEMPTS,
    Recovered,
    archives_after_purge,
    changed_meanwhile,
)
from kaosmem.persistence.salvage import salvage_archive
from kaosmem.persistence.steps import Steps, run
from kaosmem.persistence.storage.places import Storage, as_durability_error
from kaosmem.sections.archive import EvictedItem

T = TypeVar("T")


class Archives:
    """The archive files of a session, as the handle of its log knows them.

    Attributes:
        storage: Where the files are.
        listed: The files, oldest first; None if no snapshot names them.
        purged: The record up to which something was forgotten and all older files were deleted.
        is_outdated: Another writer has deleted files that are listed here.
        counters: The names of the token counters of the files, once all are read.
        damage: The damage of the session. Damaged archives add to it.

    Args:
        salvages: Skip damaged parts and enter them in the damage, in place of an error.
    """

    def __init__(
        self,
        storage: Storage,
        recovered: Recovered,
        *,
        salvages: bool,
    ) -> None:
        self.listed: Sequence[ListedArchive] | None = ()
        self.purged = 0
        self.is_outdated = False
        self.counters: set[str | None] = {None}
        self.damage = recovered.damage
        self._log_id = recovered.head.log_id
        self.storage = storage
        self._salvages = salvages

    def start_from(self, recovered: Recovered) -> None:
        """Go on from the state of the session."""
        listed = recovered.archives
        if listed is not None and recovered.purged == self.purged and not self.is_outdated:
            # A snapshot of this process may have been stored while the session was read.
            known = {*(self.listed or ()), *listed}
            listed = tuple(sorted(known))
        self.listed = listed
        self.purged = recovered.purged
        self.is_outdated = False
        self.counters = {None}

    def look(self) -> None:
        """Find out whether another writer has deleted files that are listed here."""
        self.is_outdated = self._replaced() is not None

    def find(
        self,
        name: str,
        values: Collection[str],
        *,
        newest: bool = False,
    ) -> list[Entry]:
        """Return the section and data of the archived versions that have one of these values.

        The oldest comes first. Raises CorruptionError. A read-only session skips the damaged parts
        and lists them.

        Args:
            name: The field, "id" or "key".
            newest: Whether the newest version of each value is enough.
        """
        try:
            return self._read(partial(find_archived, name, values, newest=newest))
        except CorruptionError as error:
            entries = self._intact(error)
        return [entry for entry in entries if entry[1].get(name) in values]

    def all(self) -> list[Entry]:
        """Return the section and data of every archived version, oldest first.

        Raises as `find`.
        """
        try:
            entries, self.counters = self._read(read_archive)
        except CorruptionError as error:
            return self._intact(error)
        return entries

    def evicted(
        self, counter: str, *, at: int | None = None
    ) -> list[tuple[ArchiveFile, list[EvictedItem]]]:
        """Return the items that may be recalled, oldest first, by file. Raises CorruptionError.

        Args:
            counter: Name of the caller's token counter. A file by another counter has none.
            at: Of the archive of that record alone.
        """
        perform = self._perform if self.storage.appends else None
        return self._read(partial(evicted_items, counter=counter, perform=perform, at=at))

    def _read(self, steps: Callable[[Sequence[ListedArchive]], Steps[T]]) -> T:
        """Read the archives, anew if another writer has forgotten something and replaced them."""
        if self.listed is None:
            raise CorruptionError("no snapshot names the archive files")
        archives = self.listed
        for _ in range(MAX_READ_ATTEMPTS):
            try:
                return self._perform(steps(archives))
            except CorruptionError:
                replaced = self._replaced()
                if replaced is None or replaced == archives:
                    raise
                archives = replaced
        raise changed_meanwhile()

    def _replaced(self) -> Sequence[ListedArchive] | None:
        """Return the files that another writer has put in the place of these, else None."""
        return self._perform(archives_after_purge(self.purged, self.listed or ()))

    def _perform(self, steps: Steps[T]) -> T:
        with as_durability_error("reading the archive"):
            return run(steps, self.storage)

    def _intact(self, error: CorruptionError) -> list[Entry]:
        """Return what is intact of damaged archives. Raise the error unless that is asked for."""
        if not self._salvages:
            raise error
        salvaging = salvage_archive(self.listed, since=self.purged, log_id=self._log_id)
        entries, damage = self._perform(salvaging)
        known = set(map(str, self.damage))
        self.damage += [each for each in damage if str(each) not in known]
        return entries
