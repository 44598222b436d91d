"""What the tests of the session log share: places to keep sessions, and small sessions to keep there."""

import threading

from fsspec import AbstractFileSystem
from hypothesis import strategies as st

from kaosmem.persistence.files.records import FORMAT_VERSION, Change
from kaosmem.persistence.log import SessionLog
from kaosmem.persistence.storage.objects import IsolatedMemoryFileSystem

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


def add(item_id, text="text"):
    return Change("messages", "add", {"id": item_id, "content": text})


def ids(recovered):
    """The ids of all items that a session was opened with, snapshot first."""
    return [item["id"] for _, item in recovered.items] + [
        r.data["id"] for r in recovered.records if r.op == "add"
    ]


def newest(log, item_id):
    """The newest archived version of an item, if there is one."""
    versions = log.archives.find("id", {item_id}, newest=True)
    return versions[-1] if versions else None


def started(location, *item_ids, session_id="s"):
    """A new session with these items, a commit each."""
    log, _ = SessionLog.open(location, session_id)
    log.commit([OPENING])
    for item_id in item_ids:
        log.commit([add(item_id)])
    return log


def snapshot(log, item_ids, archived=()):
    log.snapshot(
        {"count": len(item_ids)},
        [("messages", {"id": item_id}) for item_id in item_ids],
        archived=[("messages", {"id": item_id}) for item_id in archived],
        at=log.end,
    )


class Interrupted:
    """A storage to which something happens once, before a certain step."""

    def __init__(self, storage, before, happening):
        self._storage = storage
        self._before = before
        self._happening = [happening]

    def __getattr__(self, name):
        return getattr(self._storage, name)

    def perform(self, step):
        if self._happening and self._before(step):
            self._happening.pop()()
        return self._storage.perform(step)


class CountingFileSystem(IsolatedMemoryFileSystem):
    """Memory that counts the bytes stored and fetched, and the files read."""

    def __init__(self, **options):
        super().__init__(**options)
        self.stored = self.reads = self.fetched = 0

    def pipe_file(self, path, value, **options):
        self.stored += len(value)
        super().pipe_file(path, value, **options)

    def cat_file(self, path, **options):
        data = super().cat_file(path, **options)
        self.reads += 1
        self.fetched += len(data)
        return data


class Bucket(AbstractFileSystem):
    """A store of objects, not known to be in memory. Subclasses misbehave in one way each."""

    cachable = False
    protocol = "bucket"

    def __init__(self):
        super().__init__()
        self.inner = IsolatedMemoryFileSystem()
        self.puts = []
        self._putting = threading.Lock()

    def __hash__(self):
        return id(self)

    def pipe_file(self, path, value, mode="overwrite", **options):
        with self._putting:  # a store looks and puts in one step
            if mode == "create" and self.inner.isfile(path):
                raise OSError(22, "PreconditionFailed")
            self.puts.append(path)
            self.inner.pipe_file(path, value)

    def cat_file(self, path, start=None, end=None, **options):
        return self.inner.cat_file(path)[start:end]

    def ls(self, path, detail=True, **options):
        return self.inner.ls(path, detail)

    def rm_file(self, path):
        self.inner.rm_file(path)

    def modified(self, path):
        return self.inner.modified(path)


def flipped(stored, bit):
    """`stored` with one bit the other way."""
    changed = bytearray(stored)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)
