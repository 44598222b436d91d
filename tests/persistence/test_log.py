"""The session log, on a local disk and on a filesystem of objects."""

import os
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from fsspec import AbstractFileSystem

from kaosmem.errors import (
    ConflictError,
    CorruptionError,
    DurabilityError,
    InvalidArgumentError,
)
from kaosmem.persistence import checkpoint
from kaosmem.persistence.files.records import TXNS_KEPT, Change
from kaosmem.persistence.layout import ARCHIVE, LOG, PURGE, SESSION, SNAP, log_file
from kaosmem.persistence.log import MIN_LOG_BYTES, SessionLog
from kaosmem.persistence.steps import Draft, List, Lock, Publish, Read, Write
from kaosmem.persistence.storage.objects import IsolatedMemoryFileSystem
from kaosmem.persistence.storage.places import open_storage
from kaosmem.sections.operations import Forget
from tests.persistence.worlds import (
    CountingFileSystem,
    Interrupted,
    add,
    ids,
    newest,
    snapshot,
    started,
)
from tests.places import files_in


def test_opening_a_missing_session_creates_nothing(place, tmp_path):
    """Until the first commit there is nothing, read-only or not."""
    for read_only in (False, True):
        log, found = SessionLog.open(place, "s", read_only=read_only)
        assert (log.seq, found.header, found.items, found.records, found.damage) == (
            0,
            None,
            [],
            [],
            [],
        )
    assert list(tmp_path.iterdir()) == []
    assert not isinstance(place, IsolatedMemoryFileSystem) or place.store == {}


def test_a_session_begins_with_its_version(place):
    """A first change without the format's version is a caller's mistake."""
    log, _ = SessionLog.open(place, "s")
    with pytest.raises(ValueError, match="version"):
        log.commit([add("a")])


def test_files_stored_while_a_reader_lists_are_not_missed(place):
    """A snapshot that names a segment begun after the reader listed the log: that segment is not taken for missing."""
    log = started(place, "a")
    snapshot(log, ["a"])

    def go_on():
        for item_id in "bcd":
            log.commit([add(item_id)])
        snapshot(log, ["a", "b", "c", "d"])

    storage = Interrupted(
        open_storage(place, "default", "s"), lambda step: step == List(SNAP), go_on
    )
    _, recovered = SessionLog.over(storage, "s")
    assert recovered.damage == []
    assert ids(recovered) == ["a", "b", "c", "d"]


def test_a_purge_that_another_finishes_loses_no_archive(place):
    """A writer that knows of an unfinished purge stores no snapshot, as another may finish the purge meanwhile."""
    forgetter = started(place, "a", "b", "c")
    slow, _ = SessionLog.open(place, "s")
    forgetter.commit([Change("messages", "forget", {"ids": ["a"]})])
    forgetter.purge({}, [("messages", {"id": "c"})], archived=[("messages", {"id": "b"})])
    storage = open_storage(place, "default", "s")
    storage.perform(
        Write(PURGE, [b"unfinished"])
    )  # the forgetter was killed before it deleted this
    slow.adopt(slow.catch_up())
    slow.commit([add("d")])

    def finish():
        other, _ = SessionLog.open(place, "s")
        if other.has_leftovers:
            other.purge(
                {},
                [("messages", {"id": "d"})],
                archived=[("messages", {"id": each}) for each in "bc"],
            )

    before = Publish if isinstance(place, AbstractFileSystem) else Lock
    slow.storage = Interrupted(slow.storage, lambda step: isinstance(step, before), finish)
    snapshot(slow, ["d"], archived=["c"])
    finish()
    opened, recovered = SessionLog.open(place, "s")
    assert ids(recovered) == ["d"]
    assert newest(opened, "b")
    assert newest(opened, "c")


def test_two_who_purge_at_one_record_leave_the_archive_that_the_last_snapshot_names():
    """Nothing locks on an object store: each may delete the files from before the record, and none of the other's."""
    place = IsolatedMemoryFileSystem()
    first = started(place, "a", "b", "c")
    second, _ = SessionLog.open(place, "s")

    def purge(log, role):
        archived = [("messages", {"id": "b", "role": role})]
        log.purge({}, [("messages", {"id": "c"})], archived=archived)

    def is_next(step):
        return step == List(ARCHIVE)

    first.storage = Interrupted(first.storage, is_next, lambda: purge(second, "second"))
    purge(first, "first")
    opened, recovered = SessionLog.open(place, "s")
    assert ids(recovered) == ["c"]
    assert newest(opened, "b") == ("messages", {"id": "b", "role": "second"})


def test_archives_that_others_replace_while_they_are_read_are_read_anew(place):
    """Two writers forget one after the other: a third that reads the archive meanwhile finds the version all the same.

    Each time that it looks for the newest snapshot or for an archive file, that has just been replaced.
    """
    forgetter = started(place, "a", "b", "c")
    snapshot(forgetter, ["c"], archived=["a", "b"])
    reader, _ = SessionLog.open(place, "s")

    def forget(kept):
        forgetter.commit([add(kept)])
        forgetter.purge(
            {}, [("messages", {"id": kept})], archived=[("messages", {"id": "b", "role": kept})]
        )

    def is_read_of(folder, step):
        paths = (
            [step.path]
            if isinstance(step, Read)
            else [each[0] for each in getattr(step, "parts", ())]
        )
        return any(path.startswith(f"{folder}/") for path in paths)

    def interrupt(kept, folder, *later):
        def happen():
            forget(kept)
            if later:
                interrupt(*later)

        reader.archives.storage = Interrupted(
            reader.archives.storage, partial(is_read_of, folder), happen
        )

    forget("d")
    interrupt("e", SNAP, "f", ARCHIVE, "g", SNAP)
    found = newest(reader, "b")
    assert found[1]["role"] == "g"


def test_a_segment_that_a_refused_writer_began_is_named_by_the_next(tmp_path):
    """If the disk fails between a commit and the identity, the next writer names the segment: its loss is told."""
    log = started(tmp_path, "a")
    snapshot(log, ["a"])

    def refuse():
        raise OSError(28, "no space left on device")

    is_identity = lambda step: isinstance(step, Write) and step.path == SESSION  # noqa: E731
    log.storage = Interrupted(log.storage, is_identity, refuse)
    with pytest.raises(DurabilityError):
        log.commit([add("b")])
    log.close()
    other, recovered = SessionLog.open(tmp_path, "s")
    assert ids(recovered) == ["a", "b"]
    other.commit([add("c")])
    other.close()
    max(tmp_path.rglob("log/*")).unlink()
    with pytest.raises(CorruptionError, match="is missing"):
        SessionLog.open(tmp_path, "s")


def test_a_last_segment_that_is_gone_is_told_though_a_snapshot_holds_its_first_commits(
    tmp_path,
):
    """The newest commits stood in it alone: nobody may write on without them, and a repair names it."""
    log = started(tmp_path, "a", "b")
    at = log.end
    log.commit([add("c")])
    log.snapshot({}, [("messages", {"id": "a"}), ("messages", {"id": "b"})], at=at)
    log.close()
    (segment,) = tmp_path.rglob("log/*")
    segment.unlink()
    with pytest.raises(CorruptionError, match="is missing"):
        SessionLog.open(tmp_path, "s")
    log, recovered = SessionLog.open(tmp_path, "s", read_only=True)
    assert ids(recovered) == ["a", "b"]
    assert any(segment.name in str(error) for error in log.damage)


def test_nobody_goes_on_from_a_commit_that_its_writer_takes_back(tmp_path):
    """A writer cuts a commit off again if the disk fails, also while another one reads on after it."""
    log = started(tmp_path, "a", "b")
    (segment,) = tmp_path.rglob("log/*")
    size = segment.stat().st_size
    log.commit([add("c")])
    log.close()
    (tmp_path / "default/s/lock").write_bytes(b"")  # a commit that failed is not noted there
    reader, recovered = SessionLog.open(tmp_path, "s")
    assert ids(recovered) == ["a", "b", "c"]
    lists = count()
    reader.storage = Interrupted(
        reader.storage,
        lambda step: step == List(LOG) and next(lists) == 1,
        lambda: os.truncate(segment, size),
    )
    with pytest.raises(ConflictError, match="shortened"):
        reader.catch_up()
    with pytest.raises(ConflictError, match="shortened"):
        reader.commit([add("d")])
    reader.close()
    assert ids(SessionLog.open(tmp_path, "s")[1]) == ["a", "b"]


@pytest.mark.parametrize("since", [3, 63, 64, 70])
def test_a_session_knows_its_newest_commits(place, since):
    """A snapshot stored while others committed does not let the newest 64 commits be counted twice."""
    log = started(place, "a")
    for number in range(70):
        log.commit([add(f"before {number}")])
    at = log.end
    for number in range(since):
        log.commit([add(f"after {number}")])
    assert log.snapshot({}, [], at=at)
    known = log.end.head.txns
    assert SessionLog.open(place, "s")[0].end.head.txns == known
    assert len({*known}) == TXNS_KEPT


def test_a_snapshot_may_be_older_than_the_log(place):
    """The state after an earlier commit can be stored while the log has gone on."""
    log = started(place)
    before = log.end
    log.commit([add("a")])
    at = log.end
    log.commit([add("b")])
    log.snapshot({}, [("messages", {"id": "a"})], at=at)
    log.commit([add("c")])
    log.commit([add("d")])
    _, found = SessionLog.open(place, "s")
    assert ids(found) == ["a", "b", "c", "d"]
    assert not log.snapshot({}, [], at=before)  # a newer one is stored


def test_a_snapshot_that_is_overtaken_is_not_stored(place):
    """A newer one that another stores while it is being written stays the newest."""
    log = started(place, "a")
    other, _ = SessionLog.open(place, "s")
    other.commit([add("b")])
    log.storage = Interrupted(
        log.storage, lambda step: isinstance(step, Draft), lambda: snapshot(other, ["a", "b"])
    )
    assert not log.snapshot({}, [("messages", {"id": "a"})], at=log.end)
    assert [path[-10:] for path in files_in(place) if "snap/" in path] == ["0003.jsonl"]
    assert ids(SessionLog.open(place, "s")[1]) == ["a", "b"]


def test_a_snapshot_that_is_stored_while_another_forgets_is_withdrawn():
    """Where nothing locks, it would bring back the texts that were deleted."""
    place = IsolatedMemoryFileSystem()
    log = started(place, "a")
    other, _ = SessionLog.open(place, "s")
    other.commit([add("b")])
    stores = lambda step: isinstance(step, Publish)  # noqa: E731
    log.storage = Interrupted(log.storage, stores, lambda: other.purge({}, [], archived=[]))
    assert not log.snapshot({}, [("messages", {"id": "a", "content": "secret"})], at=log.end)
    assert not [path for path, data in files_in(place).items() if b"secret" in data]


def test_a_snapshot_names_no_archive_file_that_another_deletes():
    """Where nothing locks, a writer that knows of a forgetting looks first whether its archive files are there."""
    place = IsolatedMemoryFileSystem()
    log = started(place, "a")
    snapshot(log, ["a"], archived=["old"])
    other, _ = SessionLog.open(place, "s")
    log.commit([Change("messages", Forget.op, {"ids": ["old"]})])
    other.adopt(other.catch_up())
    log.purge({}, [("messages", {"id": "a"})], archived=[])
    other.commit([add("b")])
    assert not other.snapshot({}, [("messages", {"id": name}) for name in "ab"], at=other.end)
    _, found = SessionLog.open(place, "s")
    assert (ids(found), found.damage) == (["a", "b"], [])


def test_segments_that_are_joined_while_another_forgets_bring_nothing_back(
    monkeypatch,
):
    """They were read before, and are written after, the texts were deleted."""
    place = IsolatedMemoryFileSystem()
    log = started(place)
    log.commit([add("a", "secret")])
    monkeypatch.setattr(checkpoint, "ROLL_UP", 2)
    joins = lambda step: isinstance(step, Write) and step.path == log_file(2)  # noqa: E731
    log.storage = Interrupted(
        log.storage, joins, lambda: SessionLog.open(place, "s")[0].purge({}, [], archived=[])
    )
    log.commit([add("b")])
    assert not [path for path, data in files_in(place).items() if b"secret" in data]


def test_many_small_objects_are_rolled_up():
    """Opening a session of hundreds of commits reads well under a hundred files, and finds them all."""
    place = CountingFileSystem()
    log = started(place, *(f"i{n}" for n in range(600)))
    total = place.stored
    before = place.reads
    _, found = SessionLog.open(place, "s")
    assert ids(found) == [f"i{n}" for n in range(600)]
    assert place.reads - before < 40
    assert total < 4 * sum(len(value.getvalue()) for value in place.store.values())
    snapshot(log, ids(found))
    log.commit([add("last")])
    before = place.reads
    assert ids(SessionLog.open(place, "s")[1])[-2:] == ["i599", "last"]
    assert place.reads - before == 3  # the identity, the snapshot and a segment


def written():
    """Bytes that this process has written, or 0 where the system does not say."""
    counters = Path("/proc/self/io")
    if not counters.exists():
        return 0
    return int(dict(line.split(": ") for line in counters.read_text().splitlines())["wchar"])


def test_what_cannot_be_stored_leaves_the_log_as_it_was(place):
    """A change or snapshot item that JSON can't hold is refused whole, and the next commit works."""
    log = started(place, "a")
    before = files_in(place)
    with pytest.raises(InvalidArgumentError):
        log.commit([add("b"), Change("m", "add", {"id": float("nan")})])
    with pytest.raises(InvalidArgumentError):
        log.snapshot({}, [("m", {"id": "\ud800"})], at=log.end)
    assert files_in(place) == before
    log.commit([add("b")])
    assert ids(SessionLog.open(place, "s")[1]) == ["a", "b"]


def test_a_snapshot_is_due_when_the_log_is_as_long(place):
    """Small logs need none; then each time the log has grown by as much as the last snapshot."""
    log = started(place)
    big = [("messages", {"id": f"i{n}", "content": "x" * 2000}) for n in range(600)]
    assert not log.snapshot_due
    log.commit([Change("messages", "add", item) for _, item in big[:300]])
    assert log.snapshot_due
    log.snapshot({}, big, at=log.end)
    assert not log.snapshot_due
    log.commit([Change("messages", "add", item) for _, item in big[:300]])
    assert not log.snapshot_due
    assert not SessionLog.open(place, "s")[0].snapshot_due
    log.commit([Change("messages", "add", item) for _, item in big[:300]])
    assert log.snapshot_due
    assert SessionLog.open(place, "s")[0].snapshot_due
    assert MIN_LOG_BYTES < 300_000


@pytest.mark.parametrize("held", [10, 5000])
def test_one_message_costs_one_append_of_its_size(held, tmp_path):
    """A commit of one message writes its own size and a few field names, whatever the session holds."""
    message = add("new", "x" * 500)
    memory = CountingFileSystem()
    for place in (memory, tmp_path):
        log = started(place)
        log.commit([add(f"i{n}", "y" * 100) for n in range(held)])
        log, _ = SessionLog.open(place, "s")
        before = memory.stored, written(), memory.reads, memory.fetched
        log.commit([message])
        if place is memory:
            assert 500 < memory.stored - before[0] < 700
            assert (memory.reads - before[2], memory.fetched - before[3] < 300) == (
                1,
                True,
            )  # the record before
        elif before[1]:
            assert 500 < written() - before[1] < 700
