"""Reading files into a section: new and changed passages are added, vanished ones archived."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from kaosmem.errors import MissingFileError, SectionFullError
from kaosmem.ingest.files import Skipped, SourceFile
from kaosmem.ingest.listing import (
    FileSelection,
    corpus_label,
    deleted_file,
    distinct_prefix,
    find_files,
    is_deleted,
    named_place,
    nothing_to_ingest,
    places_of,
)
from kaosmem.ingest.passages import FileReading, IngestReport, Passage, file_changes, read_passages
from kaosmem.sections.section import Section
from kaosmem.session.open_session import OpenSession
from kaosmem.types import JSONDict
from kaosmem.types.content import Trust
from kaosmem.types.items import Item, decoded

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

_AT_ONCE = 16
"""So many passages are added or looked at between two turns of the event loop.

With 700 tokens each, this takes about 5 ms.
"""

Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with the source of a file that was read, the number of files read so far, and of all."""


@dataclass
class _Place:
    """A place, and what the section holds of it.

    Attributes:
        label: Tells it from other places. It is in the metadata of the items.
        prefix: Stands before the path below the place in each source.
        held: The live items by their paths below the place.
    """

    label: str
    prefix: str = ""
    held: dict[str, list[Item]] = field(default_factory=dict)

    @property
    def mark(self) -> str:
        """Return the metadata of its items that name it."""
        return f"{self.label} {self.prefix}".rstrip(" ")

    def part(self, files: Iterable[SourceFile]) -> _Place:
        """Return the place with no other files than these."""
        return replace(self, held={file.source: self.held[file.source] for file in files})


_ToRead: TypeAlias = list[tuple[_Place, SourceFile]]


class Ingestion:
    """Brings a section up to date with a place. An instance does it once.

    Each file is of one place, the widest that was read. So a changed file may be read by itself,
    and its folder holds no earlier text of it.

    Args:
        add: Makes and adds an item, as SessionMemory.add does.
    """

    def __init__(
        self,
        session: OpenSession,
        section: Section,
        *,
        add: Callable[..., Item],
    ) -> None:
        self._session = session
        self._section = section
        self._add = add
        self._new: list[str] = []
        self._changed: list[str] = []
        self._unchanged: list[str] = []
        self._vanished: list[str] = []
        self._skipped: list[Skipped] = []
        self._items_added = 0
        self._items_removed = 0
        self._steps = 0

    async def run(
        self,
        path_or_fs: str | os.PathLike[str] | AbstractFileSystem,
        choice: FileSelection,
        *,
        progress: Progress | None = None,
    ) -> IngestReport:
        """Read the files that have changed and return what was done. Raises MissingFileError."""
        places = await self._places()
        try:
            found, skipped = await asyncio.to_thread(find_files, path_or_fs, choice)
        except MissingFileError:
            if not await self._take_out(path_or_fs, places):
                raise
            return self._report()
        label = corpus_label(path_or_fs)
        own = places.setdefault(label, _Place(label))
        await self._take_out_deleted(named_place(path_or_fs), found, own, places)
        by_place = await self._by_place(found, own, places)
        if not own.held:
            taken: set[str] = set()
            for place in places.values():
                taken.update(place.prefix + path for path in place.held)
            own.prefix = distinct_prefix(by_place[label], taken)
        to_read: _ToRead = []
        for each, files in by_place.items():
            place = places[each] if each == label else places[each].part(files)
            to_read += await self._to_read(place, files, skipped)
        self._skipped += [each._replace(source=own.prefix + each.source) for each in skipped]
        await self._read(to_read, progress)
        if not (self._new or self._vanished or any(places[each].held for each in by_place)):
            raise nothing_to_ingest(path_or_fs, sorted(self._skipped))
        return self._report()

    def _report(self) -> IngestReport:
        return IngestReport(
            new=tuple(self._new),
            changed=tuple(self._changed),
            unchanged=tuple(sorted(self._unchanged)),
            vanished=tuple(self._vanished),
            skipped=tuple(sorted(self._skipped)),
            items_added=self._items_added,
            items_removed=self._items_removed,
        )

    async def _places(self) -> dict[str, _Place]:
        """Return the places that the section has live items of, by label."""
        places: dict[str, _Place] = {}
        for stored in self._section.held.stored:
            await self._step()
            if stored.id not in self._section:
                continue
            item = decoded(stored)
            mark = item.metadata.get("corpus")
            if isinstance(mark, str):
                label, _, prefix = mark.partition(" ")
                place = places.setdefault(label, _Place(label, prefix))
                path = item.metadata["source"].removeprefix(prefix)
                place.held.setdefault(path, []).append(item)
        return places

    async def _take_out(
        self,
        path_or_fs: str | os.PathLike[str] | AbstractFileSystem,
        places: Mapping[str, _Place],
    ) -> bool:
        """Archive what places hold of a file that was deleted, and return whether one did."""
        file = await asyncio.to_thread(deleted_file, path_or_fs)
        if file is None:
            return False
        for label, path in places_of(file):
            if label in places and path in places[label].held:
                await self._archive(places[label].held[path])
                self._vanished.append(places[label].prefix + path)
        return bool(self._vanished)

    async def _take_out_deleted(
        self,
        folder: SourceFile,
        found: Iterable[SourceFile],
        own: _Place,
        places: Mapping[str, _Place],
    ) -> None:
        """Archive what wider places hold of files that are gone from a folder inside them."""
        there = {file.path for file in found}
        for label, below in places_of(folder):
            if label == own.label or label not in places:
                continue
            place = places[label]
            for source in [each for each in place.held if each.startswith(f"{below}/")]:
                path = folder.path + source.removeprefix(below)
                if path not in there and await asyncio.to_thread(is_deleted, folder.fs, path):
                    self._vanished.append(place.prefix + source)
                    await self._archive(place.held.pop(source))

    async def _by_place(
        self, found: list[SourceFile], own: _Place, places: Mapping[str, _Place]
    ) -> dict[str, list[SourceFile]]:
        """Return the files by the label of the widest place that holds them, else of this one.

        Passages of them that narrower places hold are archived.
        """
        by_place = {own.label: found}
        if len(places) == 1:
            return by_place
        by_place[own.label] = []
        for file in found:
            keeper = ""
            for label, path in places_of(file):
                is_held = label in places and path in places[label].held
                if not keeper and (is_held or label == own.label):
                    keeper = label
                    file = replace(file, source=path)
                elif is_held:
                    await self._archive(places[label].held.pop(path))
            by_place.setdefault(keeper or own.label, []).append(file)
        return by_place

    async def _to_read(
        self, place: _Place, files: Iterable[SourceFile], skipped: Iterable[Skipped]
    ) -> _ToRead:
        """Return the new and changed files of a place, and archive vanished ones."""
        stamps = {path: items[0].metadata["file"] for path, items in place.held.items()}
        todo = file_changes(files, stamps, skipped)
        for path in todo.vanished:
            self._vanished.append(place.prefix + path)
            await self._archive(place.held[path])
        for file in todo.unchanged:
            self._unchanged.append(place.prefix + file.source)
        return [(place, file) for file in (*todo.new, *todo.changed)]

    async def _read(self, to_read: _ToRead, progress: Progress | None) -> None:
        readings = read_passages(
            replace(file, source=place.prefix + file.source) for place, file in to_read
        )
        for done, (place, file) in enumerate(to_read, 1):
            reading = await asyncio.to_thread(next, readings)
            source = reading.file.source
            held = place.held.get(file.source, [])
            if progress:
                progress(source, done, len(to_read))
            self._skipped += reading.skipped
            has_changed = reading.is_read and await self._take(place, reading, held)
            if not reading.passages:
                continue
            if not held:
                self._new.append(source)
            elif has_changed:
                self._changed.append(source)
            else:
                self._unchanged.append(source)

    async def _take(self, place: _Place, reading: FileReading, held: Iterable[Item]) -> bool:
        """Bring the items of one file up to date, and return whether any differs from before.

        The first item is the last to get the file's new stamp: after a crash, the next run reads
        the file once more.
        """
        for passage in reading.passages:
            passage.metadata["corpus"] = place.mark
        before = {item.id.removesuffix(f"@{place.label}"): item for item in held}
        after = {passage.id: passage for passage in reading.passages}
        kept = [passage_id for passage_id in before if passage_id in after]
        updated = {
            passage_id for passage_id in kept if not _is_same(before[passage_id], after[passage_id])
        }
        await self._archive(item for passage_id, item in before.items() if passage_id not in after)
        for passage_id in kept[1:]:  # in their old places, so that the order stays that of the file
            if passage_id in updated:
                await self._update(before[passage_id], after[passage_id])
        self._items_added += len(updated)
        self._items_removed += len(updated)
        first = before[kept[0]] if kept else None
        new = [passage for passage in reading.passages if passage.id not in before]
        for passage in new:
            is_late = first is None and len(new) > _AT_ONCE
            stamp = "" if is_late else passage.metadata["file"]
            item = await self._add_passage(place, passage, {**passage.metadata, "file": stamp})
            first = first or item
        if first is not None and (kept or len(new) > _AT_ONCE):
            await self._update(first, after[kept[0]] if kept else new[0])
        return bool(updated) or before.keys() != after.keys()

    async def _add_passage(self, place: _Place, passage: Passage, metadata: JSONDict) -> Item:
        """Add a passage. Raises SectionFullError if that evicts something.

        An evicted passage would be read and added again by each run, and be recalled after its
        file has changed.
        """
        await self._step()
        self._items_added += 1
        before = len(self._section)
        name = self._section.spec.name
        item_id = passage.id
        if self._session.factory.section_of(item_id) is not None:  # another place has the id
            item_id = f"{item_id}@{place.label}"
        item = self._add(
            name,
            passage.text,
            id=item_id,
            role=passage.role,
            metadata=metadata,
            trust=Trust.EXTERNAL,
        )
        if len(self._section) <= before:
            raise SectionFullError(
                f"section {name!r} has no room for all passages and would evict some of them; "
                "raise its budget or max_items, or leave them out: with eviction='none', a budget "
                "limits only its share of a window",
                section=name,
            )
        return item

    async def _update(self, item: Item, passage: Passage) -> None:
        await self._step()
        updated = replace(
            item,
            content=passage.text,
            tokens=self._session.counter(passage.text),
            role=passage.role,
            metadata=passage.metadata,
        )
        # Another task may have removed it, and a filesystem may have no stamps.
        if item.id in self._section and updated != item:
            # New metadata alone make no earlier version that a question could recall.
            is_version = updated.text != item.text
            self._section.update(updated, at=self._session.clock(), is_version=is_version)

    async def _archive(self, items: Iterable[Item]) -> None:
        for item in items:
            await self._step()
            if item.id in self._section:
                self._section.remove(item.id, at=self._session.clock())
                self._items_removed += 1

    async def _step(self) -> None:
        """Let the event loop go on after every few steps."""
        self._steps += 1
        if self._steps % _AT_ONCE == 0:
            await asyncio.sleep(0)


def _is_same(item: Item, passage: Passage) -> bool:
    """Return whether an item is a passage in all but the stamp of its file."""
    metadata = {**passage.metadata, "file": item.metadata["file"]}
    said = (item.text, item.role, item.metadata)
    return said == (passage.text, passage.role, metadata)
