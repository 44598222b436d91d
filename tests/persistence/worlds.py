"""What the tests of the session log share: places to keep sessions, and small sessions to keep there."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from fsspec import AbstractFileSystem
from hypothesis import strategies as st

from kaosmem.persistence.files.archive import Entry
from kaosmem.persistence.files.records import FORMAT_VERSION, Change
from kaosmem.persistence.log import SessionLog
from kaosmem.persistence.recovery import Recovered
from kaosmem.persistence.steps import Step
from kaosmem.persistence.storage.objects import IsolatedMemoryFileSystem
from kaosmem.persistence.storage.places import Storage

OPENING = Change("", "open", {"version": FORMAT_VERSION})

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=10,
)
data = st.dictionaries(st.text(max_size=8), json_values, max_size=4)
changes = st.builds(
    Change, st.sampled_from(["", "messages", "findings"]), st.sampled_from(["add", "remove"]), data
)


def add(item_id: str, text: str = "text") -> Change:
    return Change("messages", "add", {"id": item_id, "content": text})


def ids(recovered: Recovered) -> list[str]:
    """The ids of all items that a session was opened with, snapshot first."""
    return [item["id"] for _, item in recovered.items] + [
        r.data["id"] for r in recovered.records if r.op == "add"
    ]


def newest(log: SessionLog, item_id: str) -> Entry | None:
    """The newest archived version of an item, if there is one."""
    versions = log.archives.find("id", {item_id}, newest=True)
    return versions[-1] if versions else None


def started(location: Any, *item_ids: str, session_id: str = "s") -> SessionLog:
    """A new session with these items, a commit each."""
    log, _ = SessionLog.open(location, session_id)
    log.commit([OPENING])
    for item_id in item_ids:
        log.commit([add(item_id)])
    return log


def snapshot(log: SessionLog, item_ids: Sequence[str], archived: Sequence[str] = ()) -> None:
    log.snapshot(
        {"count": len(item_ids)},
        [("messages", {"id": item_id}) for item_id in item_ids],
        archived=[("messages", {"id": item_id}) for item_id in archived],
        at=log.end,
    )


class Interrupted:
    """A storage to which something happens once, before a certain step."""

    def __init__(
        self, storage: Storage, before: Callable[[Step], bool], happening: Callable[[], None]
    ) -> None:
        self._storage = storage
        self._before = before
        self._happening = [happening]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    def perform(self, step: Step) -> Any:
        if self._happening and self._before(step):
            self._happening.pop()()
        return self._storage.perform(step)


class CountingFileSystem(IsolatedMemoryFileSystem):
    """Memory that counts the bytes stored and fetched, and the files read."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.stored = self.reads = self.fetched = 0

    def pipe_file(self, path: str, value: bytes, **options: Any) -> None:
        self.stored += len(value)
        super().pipe_file(path, value, **options)

    def cat_file(self, path: str, **options: Any) -> bytes:
        data: bytes = super().cat_file(path, **options)
        self.reads += 1
        self.fetched += len(data)
        return data


class Bucket(AbstractFileSystem):  # type: ignore[misc]
    """A store of objects, not known to be in memory. Subclasses misbehave in one way each."""

    cachable = False
    protocol = "bucket"

    def __init__(self) -> None:
        super().__init__()
        self.inner = IsolatedMemoryFileSystem()
        self.puts: list[str] = []
        self._putting = threading.Lock()

    def __hash__(self) -> int:
        return id(self)

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **options: Any) -> None:
        with self._putting:  # a store looks and puts in one step
            if mode == "create" and self.inner.isfile(path):
                raise OSError(22, "PreconditionFailed")
            self.puts.append(path)
            self.inner.pipe_file(path, value)

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **options: Any
    ) -> bytes:
        return self.inner.cat_file(path)[start:end]

    def ls(self, path: str, detail: bool = True, **options: Any) -> Any:
        return self.inner.ls(path, detail)

    def rm_file(self, path: str) -> None:
        self.inner.rm_file(path)

    def modified(self, path: str) -> Any:
        return self.inner.modified(path)


def flipped(stored: bytes, bit: int) -> bytes:
    """`stored` with one bit the other way."""
    changed = bytearray(stored)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)
