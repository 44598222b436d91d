"""Archive files: the items that left a session."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from typing import Any, NamedTuple

from kaosmem.errors import CorruptionError, InvalidContentError
from kaosmem.persistence.blobs import Blob, Place, fill
from kaosmem.persistence.contents import Contents, evicted_in, keyed_lines, read_contents, starts_of
from kaosmem.persistence.items import decode_items, decoded, encode_items, find_item, item_of
from kaosmem.persistence.layout import ARCHIVE, archive_file, numbers
from kaosmem.persistence.lines import checksum, parse_object, parse_objects, stated_crc
from kaosmem.persistence.records import stated_blobs
from kaosmem.persistence.rescued_items import rescue_items
from kaosmem.persistence.steps import List, Read, ReadParts, Steps
from kaosmem.persistence.tail import REMEDY
from kaosmem.sections import EvictedItem
from kaosmem.types import JSONValue

Entry = tuple[str, dict[str, JSONValue]]
"""A section and what is stored of an item."""


def find_archived(item_id: str, *, since: int, check: Callable[[Entry], object] = bool) -> Steps[Entry | None]:
    """Return the newest version of an item in the archives from record `since` on, or None. As `read_archive`."""
    for seq in reversed((yield from _archives(since))):
        path = archive_file(seq)
        found = find_item((yield Read(path)), item_id, path)
        if found is not None:
            section, data, blobs = found
            yield from fill(data, blobs)
            return next(_sensible([(section, data)], check, path))
    return None


class KeyedLines(NamedTuple):
    """Where an archive file holds items with keys: where each line begins, and the numbers of the lines by key."""

    starts: array[int]
    by_key: dict[str, list[int]]


def find_keyed(key: str, known: dict[str, KeyedLines], *, since: int) -> Steps[list[Entry]]:
    """Return all versions with a key in the archives from record `since` on, oldest first. Raises CorruptionError.

    known: what the files say of their keys, by path. A file that is not there yet is looked into and added.
    """
    found: list[Entry] = []
    for path in map(archive_file, (yield from _archives(since))):
        try:
            if path not in known:
                known[path] = yield from _keyed_lines(path)
            starts, by_key = known[path]
            if numbers := by_key.get(key):
                found += yield from _read_lines(path, starts, numbers)
        except FileNotFoundError:  # forgotten by another, whose file holds what is left
            known.pop(path, None)
    return found


def _keyed_lines(path: str) -> Steps[KeyedLines]:
    try:
        fields = yield from read_contents(path)
    except CorruptionError:
        fields = None  # the file itself says what is damaged
    if fields is None:
        fields = _noted((yield Read(path)), path)
    return KeyedLines(starts_of(fields), keyed_lines(fields))


def _read_lines(path: str, starts: array[int], numbers: Sequence[int]) -> Steps[list[Entry]]:
    """Return the items of some lines. Each is read with the line before it, whose checksum it goes on from."""
    places = [starts[number - 1 : number + 2] for number in sorted(numbers)]
    parts = yield ReadParts(path, tuple((before, end - before) for before, _, end in places))
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

    counter: the name of what counted the tokens in it, None where that is not known; they are not checked then.
    starts: where each line begins, and where the last one ends.
    """

    def __init__(self, path: str, counter: str | None, perform: Callable[[Steps[Any]], Any]) -> None:
        self.path, self.counter = path, counter
        self.starts = array("q")
        self._perform = perform

    def read(self, evicted: Sequence[EvictedItem]) -> list[Mapping[str, JSONValue] | CorruptionError]:
        """Return what is stored of items, or why that can't be said."""
        try:
            found: list[Mapping[str, JSONValue] | CorruptionError] = self._perform(self._read(evicted))
        except CorruptionError as error:
            return [error] * len(evicted)
        return found

    def _read(self, evicted: Sequence[EvictedItem]) -> Steps[list[Mapping[str, JSONValue] | CorruptionError]]:
        """Return what is stored of items. Each line is read with the one before it, whose checksum it goes on from."""
        places = [self.starts[each.line - 1 : each.line + 2] for each in evicted]
        try:
            parts = yield ReadParts(self.path, tuple((before, end - before) for before, _, end in places))
        except FileNotFoundError:
            raise CorruptionError(f"{self.path!r} is missing; bring it back from a copy", file=self.path) from None
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
        """Return what is stored of an item, checked against the line before it and what is known of it."""
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


def encode_archive(archived: Iterable[Entry], *, seq: int, place: Place, counter: str | None) -> Iterator[bytes] | None:
    """Return the lines of an archive file, None if nothing is to be in it.

    counter: the name of what counted all that is in it.
    """
    entries = iter(archived)
    if (first := next(entries, None)) is None:
        return None
    return encode_items({}, chain([first], entries), seq=seq, place=place, contents=Contents(counter))


def evicted_items(
    perform: Callable[[Steps[Any]], Any], *, since: int, until: int | None = None
) -> Steps[list[tuple[ArchiveFile, list[EvictedItem]]]]:
    """Return what may be recalled from the archives from record `since` on, or up to `until`, oldest first, by file.

    perform: performs what reads a line, later. Raises CorruptionError.
    """
    found = []
    for seq in (yield from _archives(since)):
        if until is None or seq <= until:
            try:
                found.append((yield from _evicted_in(archive_file(seq), perform)))
            except FileNotFoundError:  # forgotten by another, whose file holds what is left
                continue
    return found


def _evicted_in(path: str, perform: Callable[[Steps[Any]], Any]) -> Steps[tuple[ArchiveFile, list[EvictedItem]]]:
    try:
        fields = yield from read_contents(path)
        if fields is not None:
            return _known_by(fields, path, perform)
    except CorruptionError:
        pass  # the file itself says what is damaged
    return _known_by(_noted((yield Read(path)), path), path, perform)


def _noted(data: bytes, path: str) -> dict[str, JSONValue]:
    """Return what the last line of an archive file would say of it. Raises CorruptionError."""
    contents = Contents(None)
    items = decode_items(data, path).items
    for line, entry in zip_longest(data.split(b"\n")[:-2], [("", None), *decoded(items)]):
        contents.note(len(line) + 1, *entry)
    return contents.all_fields


def _known_by(
    fields: Mapping[str, Any], path: str, perform: Callable[[Steps[Any]], Any]
) -> tuple[ArchiveFile, list[EvictedItem]]:
    file = ArchiveFile(path, fields["counter"], perform)
    file.starts = starts_of(fields)
    return file, list(evicted_in(fields, file, end=len(file.starts) - 1))


def read_archive(
    *, since: int, check: Callable[[Entry], object] = bool
) -> Steps[tuple[list[Entry], dict[str, str], set[str | None]]]:
    """Return every version in the archives from record `since` on, oldest first, and what names their long texts.

    Each name is with the text's SHA-256. What counted the versions comes last.
    check: raises InvalidContentError for a version that makes no sense. Raises CorruptionError.
    """
    entries: list[Entry] = []
    texts: dict[str, str] = {}
    counters: set[str | None] = set()
    for seq in (yield from _archives(since)):
        path = archive_file(seq)
        found = decode_items((yield Read(path)), path)
        for data, blobs in found.lacking:
            yield from fill(data, blobs)
            texts |= {blob.name: blob.sha256 for blob in blobs}
        entries += _sensible(decoded(found.items), check, path)
        counters.add(found.counter)
    return entries, texts, counters


def _sensible(entries: Iterable[Entry], check: Callable[[Entry], object], path: str) -> Iterator[Entry]:
    for entry in entries:
        try:
            check(entry)
        except InvalidContentError as error:
            raise CorruptionError(f"a version in {path!r} makes no sense: {error}; {REMEDY}", file=path) from None
        yield entry


def salvage_archive(*, since: int) -> Steps[tuple[list[Entry], list[CorruptionError]]]:
    """Return what is intact of the archives from record `since` on, oldest first, and what is damaged."""
    entries: list[Entry] = []
    damage: list[CorruptionError] = []
    for seq in (yield from _archives(since)):
        path = archive_file(seq)
        try:
            data = yield Read(path)
        except CorruptionError as error:  # a link, FIFO, device or folder
            damage.append(error)
            continue
        try:
            found = decode_items(data, path)
        except CorruptionError:
            rescued = rescue_items(data, path, seq)
            found = rescued.file
            damage += rescued.damage
        for lacking, blobs in found.lacking:
            try:
                yield from fill(lacking, blobs)
            except CorruptionError as error:
                damage.append(CorruptionError(f"{error}; an item of {path!r} lacks its text", file=error.file, byte=0))
                found.items[:] = [(section, item) for section, item in found.items if item is not lacking]
        entries += decoded(found.items)
    return entries, damage


def _archives(since: int) -> Steps[list[int]]:
    return [seq for seq in numbers((yield List(ARCHIVE))) if seq >= since]
