"""What ingesting again has to do, and what it did."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kaosmem.ingest.files import Skipped, SourceFile

_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Changes:
    """The files found, by what has become of them since they were read, and the sources of those that are gone."""

    new: tuple[SourceFile, ...]
    changed: tuple[SourceFile, ...]
    unchanged: tuple[SourceFile, ...]
    vanished: tuple[str, ...]


def changes(found: Iterable[SourceFile], known: Mapping[str, str]) -> Changes:
    """Return what has changed since files were read; a file whose filesystem has no stamps counts as changed.

    known: the stamp that each source had then.
    """
    new, changed, unchanged = [], [], []
    vanished = dict(known)
    for file in found:
        stamp = vanished.pop(file.source, None)
        if stamp is None:
            new.append(file)
        elif stamp and stamp == file.stamp:
            unchanged.append(file)
        else:
            changed.append(file)
    return Changes(tuple(new), tuple(changed), tuple(unchanged), tuple(sorted(vanished)))


@dataclass(frozen=True, slots=True)
class IngestReport:
    """What ingesting did: sources of files by what had become of them, what was skipped, and the items."""

    new: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    vanished: tuple[str, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    items_added: int = 0
    items_removed: int = 0

    def __str__(self) -> str:
        files = ", ".join(
            f"{len(sources):,} {what}"
            for what in ("new", "changed", "unchanged", "vanished", "skipped")
            if (sources := getattr(self, what))
        )
        lines = [f"files: {files or 'none'}; items: {self.items_added:,} added, {self.items_removed:,} removed"]
        lines += [f"  skipped {source}: {reason}" for source, reason in self.skipped[:_SHOWN]]
        if len(self.skipped) > _SHOWN:
            lines.append(f"  and {len(self.skipped) - _SHOWN:,} more skipped")
        return "\n".join(lines)
