"""A session on filesystems of objects that answer late, wrongly or not at all."""

import pytest
from fsspec import AbstractFileSystem

from kaosmem.errors import ConflictError, DurabilityError
from kaosmem.persistence.log import SessionLog
from kaosmem.persistence.steps import Delete, Read, Truncate, Write
from kaosmem.persistence.storage.objects import RETENTION_S, ObjectStorage
from tests.persistence.worlds import OPENING, Bucket, add, ids, started


class Overwriting(Bucket):
    """Ignores that a file is only to be created."""

    def pipe_file(self, path, value, mode="overwrite", **options):
        super().pipe_file(path, value)


class LookingFirst(Bucket):
    """Stores as fsspec does by itself: looks whether the file is there, then overwrites."""

    pipe_file = AbstractFileSystem.pipe_file

    def _open(self, path, mode="rb", **options):
        return self.inner.open(path, mode)


@pytest.mark.parametrize("kind", [Overwriting, LookingFirst])
def test_a_filesystem_that_lets_both_writers_win_is_refused(kind):
    """Where a second writer would overwrite the first's commit none is made, unless the caller is the only writer."""
    bucket = kind()
    log, _ = SessionLog.open(bucket, "s")
    with pytest.raises(DurabilityError, match="single_writer=True"):
        log.commit([OPENING])
    assert not [path for path in bucket.inner.store if "/log/" in path]
    log, _ = SessionLog.open(bucket, "s", single_writer=True)
    log.commit([OPENING])
    assert SessionLog.open(bucket, "s")[0].seq == 1


def test_the_probe_is_made_once_and_leaves_nothing():
    """Whether a filesystem can be trusted is found out at its first commit, in three puts at most."""
    bucket = Bucket()
    started(bucket, "a", "b")
    started(bucket, "a", session_id="other")
    assert len([path for path in bucket.puts if "probe" in path]) == 1
    assert not [path for path in bucket.inner.store if "probe" in path]


def test_a_torn_object_is_cut_at_the_next_commit():
    """Where a filesystem can leave half a file, its torn commit is left out, then cut."""
    for torn in (b'{"crc":"12', b'{"crc"'):
        bucket = Bucket()
        started(bucket, "a")
        path = f"default/s/log/{3:020d}.jsonl"
        bucket.inner.pipe_file(path, torn)
        log, found = SessionLog.open(bucket, "s")
        assert "unfinished" in str(found.damage[0])
        log.commit([add("b")])
        _, found = SessionLog.open(bucket, "s")
        assert (ids(found), found.damage) == (["a", "b"], [])


def test_an_object_is_cut_to_its_first_bytes():
    """It is stored anew, as an object cannot be changed in place."""
    storage = ObjectStorage(Bucket(), "p")
    storage.perform(Write("log/x", [b"four"]))
    storage.perform(Truncate("log/x", 2))
    assert storage.perform(Read("log/x")) == b"fo"


def test_nothing_young_is_deleted():
    """What a snapshot makes unneeded stays for a day, for readers and writers that are slow."""
    bucket = Bucket()
    now = 0.0
    bucket.pipe_file("p/log/x", b"1")
    created = bucket.modified("p/log/x").timestamp()
    storage = ObjectStorage(bucket, "p", clock=lambda: now)
    now = created + RETENTION_S - 1
    storage.perform(Delete("log/x"))
    assert storage.sizes("log") == {"x": 1}
    now = created + RETENTION_S
    storage.perform(Delete("log/x"))
    storage.perform(Delete("log/x"))
    assert storage.sizes("log") == {}


def test_a_writer_that_slept_looks_before_it_writes():
    """After so long that the next name may have been taken and freed again, a moved head is still a conflict."""
    bucket = Bucket()
    now = 0.0
    started(bucket, "a")
    sleeper, _ = SessionLog.open(bucket, "s", clock=lambda: now)
    log, _ = SessionLog.open(bucket, "s")
    log.commit([add("b")])
    log.commit([add("c")])
    bucket.inner.rm_file(f"default/s/log/{3:020d}.jsonl")  # as a pruning does after a day
    now = RETENTION_S
    with pytest.raises(ConflictError):
        sleeper.commit([add("d")])


class Answering(Bucket):
    """Fails as often as told."""

    before = 0

    def pipe_file(self, path, value, mode="overwrite", **options):
        if self.before:
            self.before -= 1
            raise TimeoutError("no answer")
        super().pipe_file(path, value, mode)


def test_a_failed_commit_can_be_tried_again():
    """A commit that got no answer raises DurabilityError; the same one again is stored once, landed or not."""
    bucket = Answering()
    log = started(bucket, "a")
    bucket.before = 10
    with pytest.raises(DurabilityError):
        log.commit([add("b")])
    bucket.before = 0
    stolen, _ = SessionLog.open(bucket, "s")
    log.commit([add("b")])
    with pytest.raises(ConflictError):
        stolen.commit([add("b")])
    assert ids(SessionLog.open(bucket, "s")[1]) == ["a", "b"]
