"""Reading files into a section: new and changed passages are added, vanished ones archived."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from kaosmem.arguments import Clock
from kaosmem.ingest import (
    IngestReport,
    Passage,
    Reading,
    changes,
    corpus_label,
    find_files,
    nothing_to_ingest,
    read_passages,
)
from kaosmem.sections import Section
from kaosmem.tokens import TokenCounter
from kaosmem.types import Item, JSONValue, Trust

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with the source of the file that was read, the number of files read so far, and of those to read."""


class Ingestion:
    """Brings a section up to date with a place, which is told from other places by a label in its items' metadata.

    add: makes and adds an item, as SessionMemory.add does. has: whether any live item has an id.
    """

    def __init__(
        self,
        section: Section,
        *,
        add: Callable[..., Item],
        has: Callable[[str], bool],
        counter: TokenCounter,
        clock: Clock,
    ) -> None:
        self._section, self._add, self._has, self._counter, self._clock = section, add, has, counter, clock
        self._label = ""
        self._items_added = self._items_removed = 0

    async def run(
        self, path_or_fs: str | os.PathLike[str] | AbstractFileSystem, *, progress: Progress | None = None
    ) -> IngestReport:
        """Read the files that have changed and return what was done. Raises NothingToIngestError."""
        found, skipped = await asyncio.to_thread(find_files, path_or_fs)
        self._label = corpus_label(path_or_fs)
        held = self._held()
        todo = changes(found, {source: items[0].metadata["file"] for source, items in held.items()})
        for source in todo.vanished:
            self._archive(held[source])
        files = [*todo.new, *todo.changed]
        readings = read_passages(files)
        new: list[str] = []
        changed: list[str] = []
        unchanged = [file.source for file in todo.unchanged]
        for done in range(1, len(files) + 1):
            reading = await asyncio.to_thread(next, readings)
            source = reading.file.source
            if progress:
                progress(source, done, len(files))
            skipped += reading.skipped
            has_changed = reading.is_read and self._take(reading, held.get(source, []))
            if reading.passages:
                (new if source not in held else changed if has_changed else unchanged).append(source)
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

    def _held(self) -> dict[str, list[Item]]:
        """Return the live items of this place by source."""
        held: dict[str, list[Item]] = {}
        for item in self._section:
            if item.metadata.get("corpus") == self._label:
                held.setdefault(item.metadata["source"], []).append(item)
        return held

    def _take(self, reading: Reading, held: Iterable[Item]) -> bool:
        """Bring the items of one file up to date, and return whether any differs from before."""
        before = {item.id.removesuffix(f"@{self._label}"): item for item in held}
        after = {passage.id: passage for passage in reading.passages}
        kept = [passage_id for passage_id in before if passage_id in after]
        updated = {passage_id for passage_id in kept if before[passage_id].text != after[passage_id].text}
        if before.keys() == after.keys() and not updated:
            return False
        self._archive(item for passage_id, item in before.items() if passage_id not in after)
        # In their old places, so that the order stays that of the file. The first carries the stamp for the next run.
        for passage_id in dict.fromkeys((*kept[:1], *(each for each in kept if each in updated))):
            self._update(before[passage_id], after[passage_id])
        self._items_added += len(updated)
        self._items_removed += len(updated)
        for passage in reading.passages:
            if passage.id not in before:
                self._add(
                    self._section.spec.name,
                    passage.text,
                    id=self._id(passage),
                    role=passage.role,
                    metadata=self._metadata(passage),
                    trust=Trust.EXTERNAL,
                )
                self._items_added += 1
        return True

    def _update(self, item: Item, passage: Passage) -> None:
        tokens = self._counter(passage.text)
        metadata = self._metadata(passage)
        updated = replace(item, content=passage.text, tokens=tokens, metadata=metadata)
        self._section.update(updated, at=self._clock())

    def _metadata(self, passage: Passage) -> dict[str, JSONValue]:
        return {**passage.metadata, "corpus": self._label}

    def _id(self, passage: Passage) -> str:
        """Return the passage's own id, or one that names this place where another one has it."""
        return f"{passage.id}@{self._label}" if self._has(passage.id) else passage.id

    def _archive(self, items: Iterable[Item]) -> None:
        for item in items:
            self._section.remove(item.id, at=self._clock())
            self._items_removed += 1
