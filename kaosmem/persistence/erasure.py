"""Checking that erased items are in no file of a session."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from kaosmem.errors import CorruptionError
from kaosmem.names import shown
from kaosmem.persistence.files.lines import parse_object, split_lines
from kaosmem.persistence.layout import (
    LOG,
    PURGE,
    list_archives,
    list_snapshots,
    log_file,
    numbers,
    older_files,
    snapshot_file,
)
from kaosmem.persistence.recovery import is_purge_unfinished, read_snapshot
from kaosmem.persistence.steps import List, Read, Steps, run
from kaosmem.persistence.storage.places import Storage, as_durability_error, stored_files

_CALLERS = "content", "metadata"
"""Fields of an item that may hold anything."""


@dataclass(frozen=True, slots=True)
class Erasure:
    """An erasure, as the log has it.

    Attributes:
        log_id, record, checksum: The log, the number of its last record at the erasure, and that
            record's checksum. Record 0 is an erasure before anything was stored.
        item_ids: The erased items.
        created_at: When these were created, as far as it is known.
        at: No erased item is newer.
    """

    log_id: str
    record: int
    checksum: str
    item_ids: frozenset[str]
    at: datetime
    created_at: Mapping[str, Collection[datetime]] = field(default_factory=dict)

    def is_later(self, item: Mapping[str, Any]) -> bool:
        """Return whether a stored item is not the erased one of its id, or newer than the erasure.

        Clocks of several machines differ, so the times of creation tell two items apart, and not
        which is later.
        """
        try:
            created_at = datetime.fromisoformat(item["created_at"])
            if known := self.created_at.get(item["id"]):
                return created_at not in known
            return created_at > self.at
        except (TypeError, ValueError):
            return False


def unerased(erasure: Erasure, storage: Storage) -> list[str]:
    """Return a sentence for each reason why an erasure does not hold.

    Raises CorruptionError for a damaged snapshot, DurabilityError.
    """
    refusals = []
    with as_durability_error("verifying an erasure"):
        files = stored_files(storage)
        try:
            old_versions = storage.old_versions()
        except OSError as error:
            old_versions = set()
            refusals.append(
                "the bucket does not tell which old versions of deleted files it keeps "
                f"({type(error).__name__}); "
                "allow s3:GetBucketVersioning and s3:ListBucketVersions"
            )
        return run(_unerased(erasure, files, old_versions), storage) + refusals


def _unerased(
    erasure: Erasure,
    files: Collection[str],
    old_versions: Collection[str],
) -> Steps[list[str]]:
    """Return the reasons that the files give.

    Args:
        files: The paths of the session's files that are not blank.
        old_versions: The paths of those that have, or had when they were deleted, an old version
            that the storage keeps.
    """
    reasons: list[str] = []
    if erasure.record:
        reasons += yield from _check_log(erasure)
    search = _Search(erasure)
    paths = [snapshot_file(seq) for seq in (yield from list_snapshots())]
    paths += [path for _, path in (yield from list_archives())]
    paths += [log_file(first) for first in numbers((yield List(LOG)))]
    for path in paths:
        try:
            search.read(path, (yield Read(path)))
        except FileNotFoundError:  # a writer has deleted it since
            continue
    for path in older_files(files, erasure.record):
        reasons.append(f"{path!r} is from before the erasure")
    kept = older_files(old_versions, erasure.record)
    if kept:
        count = "1 file" if len(kept) == 1 else f"{len(kept):,} files"
        reasons.append(
            f"the bucket keeps old versions of {count} from before the erasure, such as "
            f"{kept[0]!r}; delete these versions"
        )
    return reasons + search.all_reasons()


def _check_log(erasure: Erasure) -> Steps[list[str]]:
    """Return why the log is not as the erasure left it, or later."""
    snapshots = yield from list_snapshots()
    record = erasure.record
    if not snapshots:
        return [f"no snapshot says that everything before record {record} was deleted"]
    newest = yield from read_snapshot(snapshots[-1])
    if newest.log_id != erasure.log_id:
        return ["the session has another log: it was deleted and made anew, or is another session"]
    if newest.purged < record:
        return [
            f"the session says that files before record {newest.purged} were deleted, and not "
            f"before record {record}: "
            "it was brought back from an older copy"
        ]
    if record in snapshots:
        found = yield from read_snapshot(record)
        if f"{found.crc:08x}" != erasure.checksum:
            return [f"record {record} is another record than the one of the erasure"]
    if (yield from is_purge_unfinished()):
        return [f"{PURGE!r} says that an erasure is unfinished; save the session"]
    return []


@dataclass
class _Search:
    """A search of a session's files for erased items.

    Attributes:
        reasons: A sentence for each erased item that was found.
        newer: The ids of later items. An erased id may have been given again.
        traces: Sentences about erased ids that something names, each with the id. A later item of
            the same id may be meant.
    """

    erasure: Erasure
    reasons: list[str] = field(default_factory=list)
    newer: set[str] = field(default_factory=set)
    traces: dict[str, str] = field(default_factory=dict)

    def read(self, path: str, data: bytes) -> None:
        """Search one file."""
        *lines, _ = split_lines(data)  # a torn tail is newer than the erasure, as its file is
        for number, line in enumerate(lines, 1):
            try:
                fields = parse_object(line)
            except CorruptionError as error:
                self.reasons.append(f"line {number} of {path!r} cannot be read: {error}")
                continue
            self._search(f"{path!r} holds", fields.get("d"))

    def all_reasons(self) -> list[str]:
        """Return a sentence for each erased item, and for each trace of one."""
        traces = [trace for trace, item_id in self.traces.items() if item_id not in self.newer]
        return self.reasons + traces

    def _search(self, holds: str, stored: object) -> None:
        """Search the data of a line.

        Args:
            holds: The beginning of a sentence about the file.
        """
        known = self.erasure.item_ids
        for item in _items_in(stored):
            self._note(f"{holds} a turn that names item", _named_in(item))
            if self.erasure.is_later(item):
                self.newer.add(item["id"])
            elif item["id"] in known:
                self.reasons.append(f"{holds} item {shown(item['id'])}")
            else:
                derived = f"{holds} item {shown(item['id'])}, derived from"
                self._note(derived, item.get("sources") or ())
        if not isinstance(stored, dict):
            return
        windows = stored.get("windows")
        if not isinstance(windows, list):
            windows = [stored]
        for window in windows:
            self._note(f"{holds} a window that shows item", _shown_in(window))

    def _note(self, beginning: str, item_ids: Iterable[str]) -> None:
        """Note a sentence that ends with an erased id, for each erased one among these ids."""
        for item_id in sorted(self.erasure.item_ids.intersection(item_ids)):
            self.traces[f"{beginning} {shown(item_id)}"] = item_id


def _items_in(value: object) -> Iterator[dict[str, Any]]:
    """Yield the items in the data of a line."""
    if isinstance(value, dict):
        if isinstance(value.get("id"), str) and "created_at" in value:
            yield value
        for name, inner in value.items():
            if name not in _CALLERS:
                yield from _items_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _items_in(inner)


def _named_in(stored: Mapping[str, Any]) -> set[str]:
    """Return the ids of the items that a turn of the trace decides on."""
    match stored.get("turn"):
        case {"seen": {"decisions": list(rows)}}:
            return {row[0] for row in rows}
    return set()


def _shown_in(window: object) -> Collection[str]:
    """Return the ids of the items that a window's state or turn shows."""
    match window:
        case {"shown": dict(items)} | {"window": str(), "items": dict(items)}:
            return items.keys()
    return ()
