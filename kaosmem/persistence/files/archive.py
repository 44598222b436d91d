"""Archive files: the items that left a session."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from kaosmem.errors import CorruptionError
from kaosmem.persistence.files.contents import Contents, Table, read_table
from kaosmem.persistence.files.items import (
    ItemFile,
    decode_items,
    decoded_entries,
    encode_items,
    item_of,
)
from kaosmem.persistence.files.lines import checksum, parse_objects, stated_crc
from kaosmem.persistence.files.manifest import (
    ListedArchive,
    last_line,
    missing,
)
from kaosmem.persistence.steps import Read, ReadParts, Steps
from kaosmem.sections.archive import EvictedItem
from kaosmem.types import JSONValue

Entry = tuple[str, dict[str, JSONValue]]
"""A section and what is stored of an item."""


def find_archived(item_id: str, archives: Sequence[ListedArchive]) -> Steps[Entry | None]:
    """Return the newest version of an item in the archives, or None. Raises CorruptionError."""
    for listed in reversed(archives):
        table = yield from _table(listed)
        lines = table.lines("id", item_id)
        if lines:
            (found,) = yield from _read_intact(listed.path, table.starts, lines[-1:])
            return found
    return None


def find_keyed(key: str, archives: Iterable[ListedArchive]) -> Steps[list[Entry]]:
    """Return all versions with a key in the archives, oldest first. Raises CorruptionError."""
    found: list[Entry] = []
    for listed in archives:
        table = yield from _table(listed)
        lines = table.lines("key", key)
        if lines:
            found += yield from _read_intact(listed.path, table.starts, lines)
    return found


def _table(listed: ListedArchive) -> Steps[Table]:
    """Return the table of an archive file, from its last line or made anew of its items.

    Raises CorruptionError.
    """
    table = None
    try:
        table = yield from read_table(listed)
    except FileNotFoundError:
        raise missing(listed.path) from None
    except CorruptionError:
        pass  # reading the whole file names the damage
    if table is None:
        data = yield from _whole(listed)
        table = _made_anew(data, listed.path)
        listed.check(last_line(data))
    return table


def _whole(listed: ListedArchive) -> Steps[bytes]:
    """Return the bytes of an archive file. Raises CorruptionError where it is missing."""
    try:
        data: bytes = yield Read(listed.path)
    except FileNotFoundError:
        raise missing(listed.path) from None
    return data


def _read_lines(
    path: str, starts: array[int], numbers: Sequence[int]
) -> Steps[list[Entry | CorruptionError]]:
    """Return the items of some lines, an error for each that cannot be read.

    Each is read with the line before it, whose checksum it goes on from. Raises CorruptionError for
    a missing file.
    """
    places = [starts[number - 1 : number + 2] for number in numbers]
    try:
        parts = yield ReadParts(tuple((path, before, end - before) for before, _, end in places))
    except FileNotFoundError:
        raise missing(path) from None
    bounds = [(start - before, end - before - 1) for before, start, end in places]
    lines = [part[start:end] for part, (start, end) in zip(parts, bounds, strict=True)]
    entries: list[Entry | CorruptionError] = []
    for (_, start, _), part, line, fields in zip(
        places, parts, lines, parse_objects(lines), strict=True
    ):
        try:
            checksum(line, stated_crc(part))
            if isinstance(fields, CorruptionError):
                raise fields
            entries.append(item_of(fields))
        except CorruptionError as error:
            entries.append(_damaged(path, start, str(error)))
    return entries


def _read_intact(path: str, starts: array[int], numbers: Sequence[int]) -> Steps[list[Entry]]:
    """Return the items of some lines. Raises CorruptionError if one cannot be read."""
    entries: list[Entry] = []
    for entry in (yield from _read_lines(path, starts, numbers)):
        if isinstance(entry, CorruptionError):
            raise entry
        entries.append(entry)
    return entries


def _damaged(path: str, start: int, why: str) -> CorruptionError:
    return CorruptionError(f"{path!r} is damaged at byte {start}: {why}", file=path, byte=start)


class ArchiveFile:
    """An archive file, whose lines are read one by one.

    Args:
        counter: Name of the counter of its tokens; None if it is another one than the caller's, and
            no count is checked.
        starts: Where each line begins, and where the last one ends.
    """

    def __init__(
        self,
        path: str,
        counter: str | None,
        starts: array[int],
        perform: Callable[[Steps[Any]], Any],
    ) -> None:
        self.path = path
        self.counter = counter
        self.starts = starts
        self._perform = perform

    def read(
        self, evicted: Sequence[EvictedItem]
    ) -> list[Mapping[str, JSONValue] | CorruptionError]:
        """Return the stored versions of items, or the reason why they cannot be read."""
        try:
            entries = self._perform(
                _read_lines(self.path, self.starts, [each.line for each in evicted])
            )
        except CorruptionError as error:
            return [error] * len(evicted)
        return [self._checked(each, entry) for each, entry in zip(evicted, entries, strict=True)]

    def _checked(
        self, evicted: EvictedItem, entry: Entry | CorruptionError
    ) -> Mapping[str, JSONValue] | CorruptionError:
        """Return a stored version.

        Return an error if the table of the file lists another item for its line.
        """
        if isinstance(entry, CorruptionError):
            return entry
        section, stored = entry
        place = stored.get("id"), stored.get("position"), section
        is_counted = self.counter is None or stored.get("tokens") == evicted.tokens
        if place == (evicted.id, evicted.position, evicted.section) and is_counted:
            return stored
        return _damaged(
            self.path, self.starts[evicted.line], "it is another item than the file says at its end"
        )


class NewArchive:
    """The lines of a new archive file. Once they are read, `listed` says how a snapshot names it.

    Args:
        archived: Items with their sections, oldest first.
        counter: The name of the token counter of all of them.
    """

    def __init__(
        self, archived: Iterable[Entry], *, seq: int, log_id: str, counter: str | None
    ) -> None:
        self.listed: ListedArchive | None = None
        self._archived = archived
        self._seq = seq
        self._log_id = log_id
        self._counter = counter

    def __iter__(self) -> Iterator[bytes]:
        size = 0
        line = b""
        contents = Contents(self._counter)
        head = ItemFile(self._seq, log_id=self._log_id)
        for line in encode_items(head, self._archived, contents=contents):
            size += len(line)
            yield line
        self.listed = ListedArchive(self._seq, stated_crc(line), size, size - len(line))


def new_archive(
    archived: Iterable[Entry], *, seq: int, log_id: str, counter: str | None
) -> NewArchive | None:
    """Return an archive file to be written, None if nothing is to be in it."""
    entries = iter(archived)
    first = next(entries, None)
    if first is None:
        return None
    return NewArchive(chain([first], entries), seq=seq, log_id=log_id, counter=counter)


def evicted_items(
    archives: Iterable[ListedArchive], counter: str, perform: Callable[[Steps[Any]], Any]
) -> Steps[list[tuple[ArchiveFile, list[EvictedItem]]]]:
    """Return the evicted items in the archives, oldest first, by file.

    Args:
        counter: Name of the caller's token counter. A file by another counter has none.
        perform: Performs the steps that read lines later. Raises CorruptionError.
    """
    found = []
    for listed in archives:
        table = yield from _table(listed)
        known = counter if table.counter == counter else None
        file = ArchiveFile(listed.path, known, table.starts, perform)
        found.append((file, list(table.evicted(file))))
    return found


def _made_anew(data: bytes, path: str) -> Table:
    """Return the table of an archive file, made anew of its items. Raises CorruptionError."""
    contents = Contents(None)
    items = decode_items(data, path).items
    first, *lines = data.split(b"\n")[:-2]
    contents.note(len(first) + 1)
    for line, (section, item) in zip(lines, decoded_entries(items), strict=True):
        contents.note(len(line) + 1, section, item)
    return Table(contents.all_fields)


def read_archive(
    archives: Iterable[ListedArchive],
) -> Steps[tuple[list[Entry], set[str | None]]]:
    """Return every version in the archives, oldest first, and the counters of their tokens.

    Raises CorruptionError.
    """
    entries: list[Entry] = []
    counters: set[str | None] = set()
    for listed in archives:
        whole = yield from _whole(listed)
        found = decode_items(whole, listed.path)
        listed.check(last_line(whole))
        entries += decoded_entries(found.items)
        counters.add(found.counter)
    return entries, counters
