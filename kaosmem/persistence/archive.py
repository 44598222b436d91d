"""Archive files: the items that left a session."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from typing import Any, NamedTuple

from kaosmem.errors import CorruptionError, InvalidArgumentError
from kaosmem.persistence.contents import Contents, evicted_in, keyed_lines, read_contents, starts_of
from kaosmem.persistence.items import ItemFile, decode_items, decoded, encode_items, find_item, item_of
from kaosmem.persistence.lines import checksum, parse_object, parse_objects, stated_crc
from kaosmem.persistence.manifest import Blob, Listed, Place, fill, in_line, last_line, missing
from kaosmem.persistence.records import REMEDY, stated_blobs
from kaosmem.persistence.steps import Read, ReadParts, Steps
from kaosmem.sections import EvictedItem
from kaosmem.types import JSONValue

Entry = tuple[str, dict[str, JSONValue]]
"""A section and what is stored of an item."""


def find_archived(
    item_id: str, archives: Sequence[Listed], check: Callable[[Entry], object] = bool
) -> Steps[Entry | None]:
    """Return the newest version of an item in the archives, or None. As `read_archive`."""
    for listed in reversed(archives):
        whole = yield from _whole(listed)
        found = find_item(whole, item_id, listed.path)
        listed.check(last_line(whole))
        if found is not None:
            section, data, blobs = found
            yield from fill(data, blobs)
            return next(_sensible([(section, data)], check, listed.path))
    return None


class KeyedLines(NamedTuple):
    """Where an archive file holds items with keys: where each line begins, and the numbers of the lines by key."""

    starts: array[int]
    by_key: dict[str, list[int]]


def find_keyed(key: str, known: dict[str, KeyedLines], archives: Iterable[Listed]) -> Steps[list[Entry]]:
    """Return all versions with a key in the archives, oldest first. Raises CorruptionError.

    known: the keys that each file lists, by path. Files that are missing here are read and added.
    """
    found: list[Entry] = []
    for listed in archives:
        try:
            if listed.path not in known:
                fields = yield from _contents(listed)
                known[listed.path] = KeyedLines(starts_of(fields), keyed_lines(fields))
            starts, by_key = known[listed.path]
            if numbers := by_key.get(key):
                found += yield from _read_lines(listed.path, starts, numbers)
        except FileNotFoundError:
            raise missing(listed.path) from None
    return found


def _contents(listed: Listed) -> Steps[dict[str, JSONValue]]:
    """Return what the last line of an archive file says or would say of it. Raises CorruptionError."""
    try:
        fields = yield from read_contents(listed)
    except CorruptionError:
        fields = None  # the file itself says what is damaged
    if fields is None:
        data = yield from _whole(listed)
        fields = _noted(data, listed.path)
        listed.check(last_line(data))
    return fields


def _whole(listed: Listed) -> Steps[bytes]:
    """Return the bytes of an archive file. Raises CorruptionError where it is missing."""
    try:
        data: bytes = yield Read(listed.path)
    except FileNotFoundError:
        raise missing(listed.path) from None
    return data


def _read_lines(path: str, starts: array[int], numbers: Sequence[int]) -> Steps[list[Entry]]:
    """Return the items of some lines. Each is read with the line before it, whose checksum it goes on from."""
    places = [starts[number - 1 : number + 2] for number in sorted(numbers)]
    parts = yield ReadParts(tuple((path, before, end - before) for before, _, end in places))
    entries: list[Entry] = []
    for (before, start, end), part in zip(places, parts, strict=True):
        line = part[start - before : end - before - 1]
        try:
            checksum(line, stated_crc(part))
            fields = parse_object(line)
            section, data = item_of(fields)
        except CorruptionError as error:
            where = f"{path!r} is damaged at byte {start}"
            raise CorruptionError(f"{where}: {error}", file=path, byte=start) from None
        yield from fill(data, stated_blobs(fields))
        entries.append((section, data))
    return entries


class ArchiveFile:
    """An archive file, whose lines are read one by one.

    counter: name of the counter of its tokens, or None if unknown; unknown counts are not checked.
    starts: where each line begins, and where the last one ends.
    """

    def __init__(self, path: str, counter: str | None, perform: Callable[[Steps[Any]], Any]) -> None:
        self.path, self.counter = path, counter
        self.starts = array("q")
        self._perform = perform

    def read(self, evicted: Sequence[EvictedItem]) -> list[Mapping[str, JSONValue] | CorruptionError]:
        """Return the stored versions of items, or the reason why they cannot be read."""
        try:
            found: list[Mapping[str, JSONValue] | CorruptionError] = self._perform(self._read(evicted))
        except CorruptionError as error:
            return [error] * len(evicted)
        return found

    def _read(self, evicted: Sequence[EvictedItem]) -> Steps[list[Mapping[str, JSONValue] | CorruptionError]]:
        """Return the stored versions of items. A line's checksum continues the one before it, so both are read."""
        places = [self.starts[each.line - 1 : each.line + 2] for each in evicted]
        try:
            parts = yield ReadParts(tuple((self.path, before, end - before) for before, _, end in places))
        except FileNotFoundError:
            raise missing(self.path) from None
        bounds = [(start - before, end - before - 1) for before, start, end in places]
        lines = [part[start:end] for part, (start, end) in zip(parts, bounds, strict=True)]
        found: list[Mapping[str, JSONValue] | CorruptionError] = []
        for each, part, line, fields in zip(evicted, parts, lines, parse_objects(lines), strict=True):
            try:
                stored, blobs = self._checked(each, part, line, fields)
                if blobs:
                    yield from fill(stored, blobs)
                found.append(stored)
            except CorruptionError as error:
                found.append(error)
        return found

    def _checked(
        self, evicted: EvictedItem, before: bytes, line: bytes, fields: dict[str, Any] | CorruptionError
    ) -> tuple[dict[str, JSONValue], tuple[Blob, ...]]:
        """Return the stored version of an item, checked against the line before it and the listed size."""
        try:
            checksum(line, stated_crc(before))
            if isinstance(fields, CorruptionError):
                raise fields
            section, stored = item_of(fields)
            places = stored.get("id"), stored.get("position"), section
            if places != (evicted.id, evicted.position, evicted.section) or not self._is_counted(evicted, stored):
                raise CorruptionError("it is another item than the file says at its end")
        except CorruptionError as error:
            start = self.starts[evicted.line]
            where = f"{self.path!r} is damaged at byte {start}"
            raise CorruptionError(f"{where}: {error}", file=self.path, byte=start) from None
        return stored, stated_blobs(fields)

    def _is_counted(self, evicted: EvictedItem, stored: Mapping[str, JSONValue]) -> bool:
        return self.counter is None or stored.get("tokens") == evicted.tokens


class NewArchive:
    """The lines of a new archive file. Once they are read, `listed` says how a snapshot names it.

    archived: items with their sections, oldest first. counter: the name of the token counter of all of them.
    """

    def __init__(self, archived: Iterable[Entry], *, seq: int, log_id: str, place: Place, counter: str | None) -> None:
        self.listed: Listed | None = None
        self._archived, self._seq, self._log_id, self._place, self._counter = archived, seq, log_id, place, counter
        self._blobs: dict[str, int] = {}

    def __iter__(self) -> Iterator[bytes]:
        place = in_line if self._place is in_line else self._noted_place
        size, line, contents = 0, b"", Contents(self._counter)
        head = ItemFile(self._seq, log_id=self._log_id)
        for line in encode_items(head, self._archived, place=place, contents=contents):
            size += len(line)
            yield line
        self.listed = Listed(self._seq, stated_crc(line), size, size - len(line), self._blobs)

    def _noted_place(self, sha256: str, text: bytes) -> str | None:
        if (name := self._place(sha256, text)) is not None:
            self._blobs[name] = len(text)
        return name


def new_archive(
    archived: Iterable[Entry], *, seq: int, log_id: str, place: Place, counter: str | None
) -> NewArchive | None:
    """Return an archive file to be written, None if nothing is to be in it."""
    entries = iter(archived)
    if (first := next(entries, None)) is None:
        return None
    return NewArchive(chain([first], entries), seq=seq, log_id=log_id, place=place, counter=counter)


def evicted_items(
    archives: Iterable[Listed], perform: Callable[[Steps[Any]], Any]
) -> Steps[list[tuple[ArchiveFile, list[EvictedItem]]]]:
    """Return what may be recalled from the archives, oldest first, by file.

    perform: performs what reads a line, later. Raises CorruptionError.
    """
    found = []
    for listed in archives:
        try:
            fields = yield from _contents(listed)
        except FileNotFoundError:
            raise missing(listed.path) from None
        file = ArchiveFile(listed.path, counter if isinstance(counter := fields.get("counter"), str) else None, perform)
        file.starts = starts_of(fields)
        found.append((file, list(evicted_in(fields, file, end=len(file.starts) - 1))))
    return found


def _noted(data: bytes, path: str) -> dict[str, JSONValue]:
    """Return the content of an archive file's last line, made anew from its items. Raises CorruptionError."""
    contents = Contents(None)
    items = decode_items(data, path).items
    for line, entry in zip_longest(data.split(b"\n")[:-2], [("", None), *decoded(items)]):
        contents.note(len(line) + 1, *entry)
    return contents.all_fields


def read_archive(
    archives: Iterable[Listed], check: Callable[[Entry], object] = bool
) -> Steps[tuple[list[Entry], dict[str, str], set[str | None]]]:
    """Return every version in the archives, oldest first, and what names their long texts.

    Each name is with the text's SHA-256. What counted the versions comes last.
    check: raises InvalidArgumentError for a version that makes no sense. Raises CorruptionError.
    """
    entries: list[Entry] = []
    texts: dict[str, str] = {}
    counters: set[str | None] = set()
    for listed in archives:
        whole = yield from _whole(listed)
        found = decode_items(whole, listed.path)
        listed.check(last_line(whole))
        for data, blobs in found.lacking:
            yield from fill(data, blobs)
            texts |= {blob.name: blob.sha256 for blob in blobs}
        entries += _sensible(decoded(found.items), check, listed.path)
        counters.add(found.counter)
    return entries, texts, counters


def _sensible(entries: Iterable[Entry], check: Callable[[Entry], object], path: str) -> Iterator[Entry]:
    for entry in entries:
        try:
            check(entry)
        except InvalidArgumentError as error:
            raise CorruptionError(f"a version in {path!r} makes no sense: {error}; {REMEDY}", file=path) from None
        yield entry
