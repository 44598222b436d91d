"""Reading files into a section: new and changed passages are added, vanished ones archived."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from kaosmem.errors import SectionFullError
from kaosmem.ingest.files import Skipped
from kaosmem.ingest.listing import Choice, corpus_label, find_files, nothing_to_ingest
from kaosmem.ingest.passages import IngestReport, Passage, Reading, changes, read_passages
from kaosmem.sections.section import Section
from kaosmem.session.open_session import OpenSession
from kaosmem.types import JSONDict, JSONObject
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


_SKIPPED = "skipped"
"""The name in the metadata of a file's first item of its parts that could not be read."""


class Ingestion:
    """Brings a section up to date with a place.

    The items of each place have its label in their metadata.

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
        self._label = ""
        self._items_added = 0
        self._items_removed = 0
        self._steps = 0

    async def run(
        self,
        path_or_fs: str | os.PathLike[str] | AbstractFileSystem,
        choice: Choice,
        *,
        progress: Progress | None = None,
    ) -> IngestReport:
        """Read the files that have changed and return what was done. Raises MissingFileError."""
        found, skipped = await asyncio.to_thread(find_files, path_or_fs, choice)
        self._label = corpus_label(path_or_fs)
        held = await self._held()
        stamps = {source: items[0].metadata["file"] for source, items in held.items()}
        todo = changes(found, stamps, skipped)
        for source in todo.vanished:
            await self._archive(held[source])
        files = [*todo.new, *todo.changed]
        readings = read_passages(files)
        new: list[str] = []
        changed: list[str] = []
        unchanged = [file.source for file in todo.unchanged]
        for source in unchanged:
            skipped += _noted(held[source])
        for done in range(1, len(files) + 1):
            reading = await asyncio.to_thread(next, readings)
            source = reading.file.source
            if progress:
                progress(source, done, len(files))
            skipped += reading.skipped
            has_changed = reading.is_read and await self._take(reading, held.get(source, []))
            if not reading.passages:
                continue
            if source not in held:
                new.append(source)
            elif has_changed:
                changed.append(source)
            else:
                unchanged.append(source)
        if not (held or new):
            raise nothing_to_ingest(path_or_fs, sorted(skipped))
        return IngestReport(
            new=tuple(new),
            changed=tuple(changed),
            unchanged=tuple(sorted(unchanged)),
            vanished=todo.vanished,
            skipped=tuple(sorted(skipped)),
            items_added=self._items_added,
            items_removed=self._items_removed,
        )

    async def _held(self) -> dict[str, list[Item]]:
        """Return the live items of this place by source."""
        held: dict[str, list[Item]] = {}
        for stored in self._section.held.stored:
            await self._step()
            if stored.id not in self._section:
                continue
            item = decoded(stored)
            if item.metadata.get("corpus") == self._label:
                held.setdefault(item.metadata["source"], []).append(item)
        return held

    async def _take(self, reading: Reading, held: Iterable[Item]) -> bool:
        """Bring the items of one file up to date, and return whether any differs from before.

        The first item is the last to get the file's new stamp: after a crash, the next run reads
        the file once more.
        """
        if reading.skipped and reading.passages:
            reading.passages[0].metadata[_SKIPPED] = [list(each) for each in reading.skipped]
        before = {item.id.removesuffix(f"@{self._label}"): item for item in held}
        after = {passage.id: passage for passage in reading.passages}
        kept = [passage_id for passage_id in before if passage_id in after]
        updated = {
            passage_id
            for passage_id in kept
            if not self._is_same(before[passage_id], after[passage_id])
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
            item = await self._new(passage, {"file": ""} if is_late else {})
            first = first or item
        if first is not None and (kept or len(new) > _AT_ONCE):
            await self._update(first, after[kept[0]] if kept else new[0])
        return bool(updated) or before.keys() != after.keys()

    def _is_same(self, item: Item, passage: Passage) -> bool:
        """Return whether an item is a passage in all but the stamp of its file."""
        metadata = {**self._metadata(passage), "file": item.metadata["file"]}
        said = (item.text, item.role, item.metadata)
        return said == (passage.text, passage.role, metadata)

    async def _new(self, passage: Passage, other: JSONObject) -> Item:
        """Add a passage. Raises SectionFullError if that evicts something.

        An evicted passage would be read and added again by each run, and be recalled after its
        file has changed.
        """
        await self._step()
        self._items_added += 1
        before = len(self._section)
        item = self._add(
            self._section.spec.name,
            passage.text,
            id=self._id(passage),
            role=passage.role,
            metadata={**self._metadata(passage), **other},
            trust=Trust.EXTERNAL,
        )
        if len(self._section) <= before:
            raise SectionFullError(
                f"section {self._section.spec.name!r} has no room for all passages and would evict "
                "some of them; raise its budget or max_items, or leave them out: with "
                "eviction='none', a budget limits only its share of a window",
                section=self._section.spec.name,
            )
        return item

    async def _update(self, item: Item, passage: Passage) -> None:
        await self._step()
        updated = replace(
            item,
            content=passage.text,
            tokens=self._session.counter(passage.text),
            role=passage.role,
            metadata=self._metadata(passage),
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

    def _metadata(self, passage: Passage) -> JSONDict:
        return {**passage.metadata, "corpus": self._label}

    def _id(self, passage: Passage) -> str:
        """Return the passage's own id, or one that names this place where another one has it."""
        return (
            f"{passage.id}@{self._label}"
            if self._session.factory.section_of(passage.id)
            else passage.id
        )


def _noted(items: Iterable[Item]) -> Iterator[Skipped]:
    """Yield the parts of a file that could not be read when it was read last."""
    for item in items:
        for source, reason, detail in item.metadata.get(_SKIPPED, ()):
            yield Skipped(source, reason, detail)
