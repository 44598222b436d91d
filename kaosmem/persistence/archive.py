"""What has left a session, read back from its archive files."""

from __future__ import annotations

from kaosmem.errors import CorruptionError
from kaosmem.persistence.blobs import fill
from kaosmem.persistence.items import decode_items, decoded, find_item
from kaosmem.persistence.layout import ARCHIVE, archive_file, numbers
from kaosmem.persistence.rescued_items import rescue_items
from kaosmem.persistence.steps import List, Read, Steps
from kaosmem.types import JSONValue

Entry = tuple[str, dict[str, JSONValue]]
"""A section and what is stored of an item."""


def find_archived(item_id: str, *, since: int) -> Steps[Entry | None]:
    """Return the newest version of an item in the archives from record `since` on, or None. Raises CorruptionError."""
    for seq in reversed((yield from _archives(since))):
        path = archive_file(seq)
        found = find_item((yield Read(path)), item_id, path)
        if found is not None:
            section, data, blobs = found
            yield from fill(data, blobs)
            return section, data
    return None


def read_archive(*, since: int) -> Steps[tuple[list[Entry], dict[str, str]]]:
    """Return every version in the archives from record `since` on, oldest first, and what names their long texts.

    Each name is with the text's SHA-256. Raises CorruptionError.
    """
    entries: list[Entry] = []
    texts: dict[str, str] = {}
    for seq in (yield from _archives(since)):
        path = archive_file(seq)
        found = decode_items((yield Read(path)), path)
        for data, blobs in found.lacking:
            yield from fill(data, blobs)
            texts |= {blob.name: blob.sha256 for blob in blobs}
        entries += decoded(found.items)
    return entries, texts


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
