"""The plan and the result of ingesting again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kaosmem.display import fitted
from kaosmem.ingest.files import Skipped, SourceFile
from kaosmem.notebook import table

_SHOWN = 10
_SHOWN_SOURCES = 3
_COUNTED = ("new", "changed", "unchanged", "vanished", "skipped")


@dataclass(frozen=True, slots=True)
class Changes:
    """The files of a place, by their change since they were read, and the sources that are gone."""

    new: tuple[SourceFile, ...]
    changed: tuple[SourceFile, ...]
    unchanged: tuple[SourceFile, ...]
    vanished: tuple[str, ...]


def changes(found: Iterable[SourceFile], known: Mapping[str, str]) -> Changes:
    """Return the changes since files were read; a file whose filesystem has no stamps counts as changed.

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


@dataclass(frozen=True, slots=True, repr=False)
class IngestReport:
    """The result of ingesting a place: the sources of its files, and how many items came and went.

    Each file is in one of new, changed, unchanged, vanished and skipped. Of a file that was read in part, the parts
    that could not be read are in skipped.

    >>> report = IngestReport(new=("a.md", "b.md"), skipped=(Skipped("c.bin", "binary"),), items_added=7)
    >>> report
    IngestReport(2 new, 1 skipped; items: 7 added, 0 removed)
    >>> print(report)
    files: 2 new, 1 skipped; items: 7 added, 0 removed
      skipped 1, binary: c.bin
    """

    new: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    vanished: tuple[str, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    items_added: int = 0
    items_removed: int = 0

    @property
    def reasons(self) -> dict[str, tuple[Skipped, ...]]:
        """Return the skipped files by reason, the most frequent reason first."""
        alike: dict[str, list[Skipped]] = {}
        for skipped in self.skipped:
            alike.setdefault(skipped.reason, []).append(skipped)
        ordered = sorted(alike.items(), key=lambda each: (-len(each[1]), each[0]))
        return {reason: tuple(group) for reason, group in ordered}

    def counts(self, items: str = "items") -> str:
        """Return how many files and items there were, on one line.

        items: the word for the items.
        """
        files = [f"{len(sources):,} {name}" for name in _COUNTED if (sources := getattr(self, name))]
        return f"{', '.join(files) or 'none'}; {items}: {self.items_added:,} added, {self.items_removed:,} removed"

    def reason_lines(self) -> list[str]:
        """Return a line for each reason: how many files were skipped for it, and the first of them."""
        lines = []
        for reason, group in self.reasons.items():
            details = {skipped.detail for skipped in group}
            why = group[0].why if len(details) == 1 else reason
            names = [fitted(skipped.source, 60, tail=40) for skipped in group[:_SHOWN_SOURCES]]
            lines.append(f"skipped {len(group):,}, {why}: {', '.join(names + ['…'] * (len(group) > _SHOWN_SOURCES))}")
        return lines

    def __repr__(self) -> str:
        return f"IngestReport({self.counts()})"

    def __str__(self) -> str:
        return "\n  ".join((f"files: {self.counts()}", *self.reason_lines()))

    def _repr_html_(self) -> str:
        rows = [(name, f"{len(sources):,}", "") for name in _COUNTED[:-1] if (sources := getattr(self, name))]
        rows += [
            (f"skipped: {reason}", f"{len(group):,}", ", ".join(skipped.source for skipped in group[:_SHOWN]))
            for reason, group in self.reasons.items()
        ]
        after = [f"items: {self.items_added:,} added, {self.items_removed:,} removed"]
        return table("ingested", ("files", "count", "sources"), rows, numbers=("count",), after=after)
