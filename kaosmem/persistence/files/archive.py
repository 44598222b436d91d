"""Archive files: the items that left a session."""

from __future__ import annotations

import weakref
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from tempfile import SpooledTemporaryFile
from threading import Lock
from typing import TypeAlias

from kaosmem.errors import CorruptionError
from kaosmem.persistence.files.contents import ArchiveTable, ArchiveTableBuilder, read_table
from kaosmem.persistence.files.items import (
    ItemFile,
    decode_items,
    decoded_entries,
    encode_items,
    item_of,
)
from kaosmem.persistence.files.lines import checksum, parse_object, stated_crc
from kaosmem.persistence.files.manifest import ListedArchive, last_line, missing_file
from kaosmem.persistence.steps import Read, ReadParts, Steps
from kaosmem.sections.archive import EvictedItem
from kaosmem.types import JSONDict, JSONObject, JSONValue

Entry = tuple[str, JSONDict]
"""A section and what is stored of an item."""

_Performs: TypeAlias = Callable[[Steps[list[bytes]]], list[bytes]]
"""Performs the steps that read parts of files."""

_MAX_IN_MEMORY = 2**20
"""A copy of a file on a server is in memory up to so many bytes, and in a file above."""


def find_archived(
    name: str,
    values: Iterable[str],
    archives: Sequence[ListedArchive],
    *,
    newest: bool,
) -> Steps[list[Entry]]:
    """Return the versions in the archives that have one of these values, oldest first.

    This reads the tables of archive files, the newest file first, and the lines with a value.
    Raises CorruptionError.

    Args:
        name: The field, "id" or "key".
        newest: Whether the newest version of each value is enough. Older files are not read then.
    """
    found: list[Entry] = []
    wanted = {*values}
    for listed in reversed(archives):
        table = yield from _table(listed)
        lines = table.lines(name, wanted)
        if not lines:
            continue
        versions = yield from _read_intact(listed.path, table.starts, lines)
        found = [*versions, *found]
        if newest:
            wanted.difference_update(str(data.get(name)) for _, data in versions)
        if not wanted:
            break
    return found


def _table(listed: ListedArchive) -> Steps[ArchiveTable]:
    """Return the table of an archive file, from its last line or made anew of its items.

    Raises CorruptionError.
    """
    try:
        table = yield from read_table(listed)
    except FileNotFoundError:
        raise missing_file(listed.path) from None
    except CorruptionError:
        table = None  # reading the whole file names the damage
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
        raise missing_file(listed.path) from None
    return data


def _read_intact(
    path: str,
    starts: array[int],
    numbers: Sequence[int],
) -> Steps[list[Entry]]:
    """Return the items of some lines. Raises CorruptionError if one cannot be read."""
    places = [starts[number - 1 : number + 2] for number in numbers]
    parts = yield from _read_parts([(path, before, end - before) for before, _, end in places])
    return [_entry(path, place, part) for place, part in zip(places, parts, strict=True)]


def _entry(
    path: str,
    place: Sequence[int],
    part: bytes,
) -> Entry:
    """Return the item of a line. Raises CorruptionError.

    Args:
        place: Where the line before it begins, where the line begins, and where it ends.
        part: Both lines. The checksum of the line goes on from that of the line before it.
    """
    before, start, end = place
    line = part[start - before : end - before - 1]
    try:
        checksum(line, stated_crc(part))
        return item_of(parse_object(line))
    except CorruptionError as error:
        raise _damaged(path, start, str(error)) from None


def _read_parts(parts: Sequence[tuple[str, int, int]]) -> Steps[list[bytes]]:
    """Return parts of one archive file. Raises CorruptionError where the file is missing."""
    try:
        found: list[bytes] = yield ReadParts(tuple(parts))
    except FileNotFoundError:
        raise missing_file(parts[0][0]) from None
    return found


def _damaged(
    path: str,
    start: int,
    why: str,
) -> CorruptionError:
    """Return the error for a damaged line of an archive file."""
    return CorruptionError(f"{path!r} is damaged at byte {start}: {why}", file=path, byte=start)


class ArchiveFile:
    """An archive file, whose lines are read one by one.

    Args:
        counter: Name of the counter of its tokens; None if it is another one than the caller's, and
            no count is checked.
        starts: Where each line begins, and where the last one ends.
        part: Returns so many bytes from a place of the file, which is on this machine.
    """

    def __init__(
        self,
        path: str,
        counter: str | None,
        starts: array[int],
        part: Callable[[int, int], bytes],
    ) -> None:
        self.path = path
        self.counter = counter
        self.starts = starts
        self._part = part

    def read(self, evicted: EvictedItem) -> JSONObject:
        """Return the stored version of an item.

        Raises CorruptionError, also if the table of the file lists another item for its line.
        """
        place = self.starts[evicted.line - 1 : evicted.line + 2]
        before, start, end = place
        section, stored = _entry(self.path, place, self._part(before, end - before))
        identity = stored.get("id"), stored.get("position"), section
        is_counted = self.counter is None or stored.get("tokens") == evicted.tokens
        if identity == (evicted.id, evicted.position, evicted.section) and is_counted:
            return stored
        raise _damaged(self.path, start, "it is another item than the file says at its end")


class LocalCopy:
    """A copy of an archive file on this machine, so that to read a text waits for no server.

    A large copy is a file without a name, which goes with the process.
    """

    def __init__(self, data: bytes) -> None:
        self._file = SpooledTemporaryFile(max_size=_MAX_IN_MEMORY)  # noqa: SIM115  closed with this copy
        self._file.write(data)
        self._lock = Lock()
        weakref.finalize(self, self._file.close)

    def read(self, start: int, size: int) -> bytes:
        """Return so many bytes from a place of the file."""
        with self._lock:
            self._file.seek(start)
            return self._file.read(size)


class NewArchive:
    """The lines of a new archive file.

    Attributes:
        is_empty: Whether nothing is to be in it. Then it is not stored.
        listed: How a snapshot names it, once the lines are read; nothing before.

    Args:
        archived: Items with their sections, oldest first.
        counter: The name of the token counter of all of them.
    """

    def __init__(
        self,
        archived: Iterable[Entry],
        *,
        seq: int,
        log_id: str,
        counter: JSONValue,
    ) -> None:
        entries = iter(archived)
        first = [*islice(entries, 1)]
        self.is_empty = not first
        self.listed: tuple[ListedArchive, ...] = ()
        self._archived = chain(first, entries)
        self._seq = seq
        self._log_id = log_id
        self._counter = counter if isinstance(counter, str) else None

    def __iter__(self) -> Iterator[bytes]:
        size = 0
        line = b""
        contents = ArchiveTableBuilder(self._counter)
        head = ItemFile(self._seq, log_id=self._log_id)
        for line in encode_items(head, self._archived, contents=contents):
            size += len(line)
            yield line
        self.listed = (ListedArchive(self._seq, stated_crc(line), size, size - len(line)),)


def evicted_items(
    archives: Iterable[ListedArchive],
    *,
    counter: str,
    perform: _Performs | None,
    at: int | None,
) -> Steps[list[tuple[ArchiveFile, list[EvictedItem]]]]:
    """Return the evicted items in the archives, oldest first, by file.

    Args:
        counter: Name of the caller's token counter. A file by another counter has none.
        perform: Performs the steps that read lines later. Raises CorruptionError. None: the files
            are not on this machine, and are copied to it.
        at: Of the archive of that record alone.
    """
    found = []
    for listed in archives:
        if at not in (None, listed.seq):
            continue
        table = yield from _table(listed)
        if perform is None:
            copy = LocalCopy((yield from _whole(listed)))
            part = copy.read
        else:
            part = partial(_performed, perform, listed.path)
        known = counter if table.counter == counter else None
        file = ArchiveFile(listed.path, known, table.starts, part)
        found.append((file, list(table.evicted(file))))
    return found


def _performed(
    perform: _Performs,
    path: str,
    start: int,
    size: int,
) -> bytes:
    """Return a part of an archive file."""
    (part,) = perform(_read_parts([(path, start, size)]))
    return part


def _made_anew(data: bytes, path: str) -> ArchiveTable:
    """Return the table of an archive file, made anew of its items. Raises CorruptionError."""
    contents = ArchiveTableBuilder(None)
    items = decode_items(data, path).items
    first, *lines = data.split(b"\n")[:-2]
    contents.note(len(first) + 1)
    for line, (section, item) in zip(lines, decoded_entries(items), strict=True):
        contents.note(len(line) + 1, section, item)
    return ArchiveTable(contents.all_fields)


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
