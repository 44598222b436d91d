"""Reading files into a section: new and changed passages are added, vanished ones archived."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from kaosmem.ingest import IngestReport, Passage, Reading, changes, corpus_label, find_files, read_passages
from kaosmem.sections import Section
from kaosmem.tokens import TokenCounter
from kaosmem.types import Item, Trust

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with the source of the file that was read, how many are read and how many there are to read."""


class Ingestion:
    """Brings a section up to date with a place, which is told from other places by a label in its items' metadata.

    add: makes and adds an item, as SessionMemory.add does. has: whether any live item has an id.
    """

    def __init__(
        self, section: Section, *, add: Callable[..., Item], has: Callable[[str], bool], counter: TokenCounter
    ) -> None:
        self._section, self._add, self._has, self._counter = section, add, has, counter
        self._label = ""
        self._items_added = self._items_removed = 0

    async def run(
        self, path_or_fs: str | os.PathLike[str] | AbstractFileSystem, *, progress: Progress | None = None
    ) -> IngestReport:
        """Read what has changed and return what was done. Raises NothingToIngestError."""
        found, skipped = await asyncio.to_thread(find_files, path_or_fs)
        self._label = corpus_label(path_or_fs)
        held: dict[str, list[Item]] = {}
        for item in self._section:
            if item.metadata.get("corpus") == self._label:
                held.setdefault(item.metadata["source"], []).append(item)
        todo = changes(found, {source: items[0].metadata["file"] for source, items in held.items()})
        for source in todo.vanished:
            self._archive(held[source])
        files = [*todo.new, *todo.changed]
        readings = read_passages(files)
        for done in range(1, len(files) + 1):
            reading = await asyncio.to_thread(next, readings)
            if progress:
                progress(reading.file.source, done, len(files))
            skipped += reading.skipped
            self._take(reading, held.get(reading.file.source, []))
        return IngestReport(
            new=tuple(file.source for file in todo.new),
            changed=tuple(file.source for file in todo.changed),
            unchanged=tuple(file.source for file in todo.unchanged),
            vanished=todo.vanished,
            skipped=tuple(skipped),
            items_added=self._items_added,
            items_removed=self._items_removed,
        )

    def _take(self, reading: Reading, held: Iterable[Item]) -> None:
        """Bring the items of one file up to date."""
        if reading.skipped and not reading.passages:  # what can't be read now is not known to have changed
            return
        before = {item.id.removesuffix(f"@{self._label}"): item for item in held}
        after = {passage.id for passage in reading.passages}
        self._archive(item for passage_id, item in before.items() if passage_id not in after)
        for passage in reading.passages:
            metadata = {**passage.metadata, "corpus": self._label}
            old = before.get(passage.id)
            if old is None:
                self._add(
                    self._section.spec.name,
                    passage.text,
                    id=self._id(passage),
                    role=passage.role,
                    metadata=metadata,
                    trust=Trust.EXTERNAL,
                )
                self._items_added += 1
            elif old.text != passage.text:  # in its old place, so that the order stays that of the file
                tokens = self._counter(passage.text)
                self._section.update(replace(old, content=passage.text, tokens=tokens, metadata=metadata))
                self._items_added += 1
                self._items_removed += 1

    def _id(self, passage: Passage) -> str:
        """Return the passage's own id, or one that names this place where another one has it."""
        return f"{passage.id}@{self._label}" if self._has(passage.id) else passage.id

    def _archive(self, items: Iterable[Item]) -> None:
        for item in items:
            self._section.remove(item.id)
            self._items_removed += 1
