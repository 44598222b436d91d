"""A session on a local disk: crashes, full disks, links."""

import errno
import os
import shutil
from concurrent.futures import FIRST_COMPLETED, wait
from contextlib import suppress
from pathlib import Path

import pytest

from kaosmem import SessionMemory
from kaosmem.errors import CorruptionError, DurabilityError
from kaosmem.persistence.log import SessionLog
from kaosmem.persistence.steps import Discard, Draft, Lock, run
from kaosmem.persistence.storage.disk import Disk
from kaosmem.persistence.storage.local import LocalStorage
from kaosmem.persistence.storage.places import delete_session, list_sessions
from tests.persistence.worlds import OPENING, add, ids, newest, snapshot, started
from tests.simulation import power_loss
from tests.simulation.disk import SimulatedDisk


def segment(root, seq=1):
    return root / "default" / "s" / "log" / f"{seq:020d}.jsonl"


@pytest.mark.parametrize(
    "kind", ["older copy", "cut at a line's end", "cut within a line", "another's commit"]
)
def test_a_log_that_lacks_the_last_commit_is_named(kind, tmp_path):
    """An older copy of the newest segment, or a part of it, is told apart from a log that never went on."""
    log = started(tmp_path, "a")
    snapshot(log, ["a"])
    log.commit([add("b")])
    path = segment(tmp_path, log.seq)
    older = path.read_bytes()
    other, _ = SessionLog.open(tmp_path, "s")
    log.commit([add("c")])
    newest = path.read_bytes()
    if kind == "another's commit":
        path.write_bytes(older)
        (tmp_path / "default" / "s" / "lock").write_bytes(b"")
        other.commit([add("c")])
        older = newest
        newest = path.read_bytes()
    cut = {
        "older copy": older,
        "cut at a line's end": newest[: len(older)],
        "cut within a line": newest[:-9],
    }
    path.write_bytes(cut.get(kind, older))
    with pytest.raises(CorruptionError, match=f"lacks record {log.seq}, which was saved"):
        SessionLog.open(tmp_path, "s")
    damage = SessionLog.open(tmp_path, "s", read_only=True)[0].damage
    assert any(error.seq == log.seq for error in damage)
    assert any("lacks record" in str(error) or "record 4 is lost" in str(error) for error in damage)
    path.write_bytes(newest)
    assert ids(SessionLog.open(tmp_path, "s")[1]) == ["a", "b", "c"]


def test_an_interruption_while_a_draft_is_deleted_lets_others_in(tmp_path):
    """Ctrl-C there would otherwise leave the lock with a call that has ended, and the next one would wait for ever."""

    class Interrupted(LocalStorage):
        def perform(self, step):
            if isinstance(step, Discard):
                raise KeyboardInterrupt
            return super().perform(step)

    def drafting():
        yield Lock(create=True)
        yield Draft("snapshot", [b"x"])

    storage = Interrupted(tmp_path, "default", "s")
    with pytest.raises(KeyboardInterrupt):
        run(drafting(), storage)
    assert storage._threads.acquire(blocking=False)


@pytest.mark.parametrize("note", [b"", b"0", b"1", b"\0" * 100, b"0 0000 zz", "missing", "copied"])
def test_a_copied_session_or_a_log_without_a_readable_note_opens(note, tmp_path):
    """The note is never synced: a power loss may take it, or a part of it.

    An emptied lock file accepts the loss. A backup of a session in use may hold the lock file of a
    later moment than the log.
    """
    log = started(tmp_path, "a")
    older = segment(tmp_path).read_bytes()
    log.commit([add("b")])
    segment(tmp_path).write_bytes(older)
    place = tmp_path
    lock = tmp_path / "default" / "s" / "lock"
    if note == "copied":
        place = shutil.copytree(tmp_path, tmp_path / "backup")
    elif note == "missing":
        lock.unlink()
    else:
        lock.write_bytes(note)
    log, found = SessionLog.open(place, "s")
    assert (ids(found), found.damage) == (["a"], [])
    log.commit([add("c")])
    assert ids(SessionLog.open(place, "s")[1]) == ["a", "c"]


class LosingDisk(SimulatedDisk):
    """A disk that can fail to sync and to cut.

    It then takes the unsynced pages for written, as Linux does.
    """

    is_losing = False

    def sync(self, fd):
        if self.is_losing:
            self.lose_pages(fd)
            raise OSError(errno.EIO, "Input/output error")
        super().sync(fd)

    def truncate(self, fd, size):
        if self.is_losing:
            raise OSError(errno.EIO, "Input/output error")
        super().truncate(fd, size)


def opened(disk):
    """Open the log of a session on a simulated disk."""
    return SessionLog.over(LocalStorage(Path("/root"), "default", "s", disk=disk), "s")


def failed(disk):
    """Commit twice, the second time without a sync of it, and return the log."""
    log, _ = opened(disk)
    log.commit([OPENING, add("a")])
    disk.is_losing = True
    with pytest.raises(DurabilityError):
        log.commit([add("b")])
    disk.is_losing = False
    return log


def check_states(disk):
    """Check that a power loss now takes the second commit at most, and that whole."""
    for image in power_loss.states(disk):
        assert ids(opened(SimulatedDisk(image))[1]) in (["a"], ["a", "b"])


@pytest.mark.parametrize("looks_again", [False, True])
def test_a_commit_whose_sync_failed_is_written_again_before_the_next(looks_again):
    """A power loss takes nothing that another process saved on top of a commit that never reached the disk.

    It may have looked for later commits before, and found none.
    """
    disk = LosingDisk()
    failed(disk)
    other, found = opened(disk)
    assert ids(found) == ["a", "b"]
    if looks_again:
        other.adopt(other.catch_up())
    other.commit([add("c")])
    for image in power_loss.states(disk):
        _, found = opened(SimulatedDisk(image))
        assert (ids(found), found.damage) == (["a", "b", "c"], [])


def test_a_failed_commit_that_is_found_in_the_log_is_durable_before_it_is_told():
    """Its sync failed, and the writer finds its records when it looks again: a power loss takes none of them."""
    disk = LosingDisk()
    log = failed(disk)
    assert log.catch_up().is_settled
    for image in power_loss.states(disk):
        _, found = opened(SimulatedDisk(image))
        assert (ids(found), found.damage) == (["a", "b"], [])


def test_a_segment_without_a_commit_is_not_named_before_it_has_one():
    """A writer is killed when it has just begun a segment.

    Another goes on there: no power loss makes it seem lost.
    """
    disk = SimulatedDisk()

    early, _ = opened(disk)  # which has seen no identity of the session
    log, _ = opened(disk)
    log.commit([OPENING, add("a")])
    snapshot(log, ["a"])
    disk.close(
        disk.open("/root/default/s/log/00000000000000000003.jsonl", os.O_WRONLY | os.O_CREAT)
    )

    early.adopt(early.catch_up())
    disk.watch = lambda _: check_states(disk)
    early.commit([add("b")])


class ShortDisk(Disk):
    """A disk that takes a few bytes at a time."""

    def write(self, fd, data, start=None):
        return super().write(fd, data[:100], start)


def test_a_disk_that_takes_few_bytes_at_a_time_is_given_the_rest(tmp_path):
    """Commits and snapshots are whole before they are acknowledged."""
    storage = LocalStorage(tmp_path, "default", "s", disk=ShortDisk())
    log, _ = SessionLog.over(storage, "s")
    log.commit([OPENING, add("a", "x" * 1000)])
    log.commit([add("b")])
    assert ids(SessionLog.open(tmp_path, "s")[1]) == ["a", "b"]
    snapshot(log, [f"i{number}" for number in range(50)])
    _, found = SessionLog.open(tmp_path, "s")
    assert (len(ids(found)), found.damage) == (50, [])


@pytest.mark.parametrize("kind", ["link", "fifo"])
@pytest.mark.parametrize("path", ["log/{}", "snap/{}", "archive/{}", "lock"])
def test_only_regular_files_are_opened(kind, path, tmp_path):
    """A link or FIFO in a file's place is refused: nothing hangs, and the link's target is neither read nor changed."""
    log = started(tmp_path / "root", "a")
    snapshot(log, ["a"], archived=["b"])
    target = tmp_path / "target"
    target.write_bytes(b"secret")
    session = tmp_path / "root" / "default" / "s"
    archive = [each.stem for each in session.glob("archive/*")] if "archive" in path else []
    numbered = f"{1 if 'log' in path else log.seq:020d}"
    file = session / path.format(f"{archive[0] if archive else numbered}.jsonl")
    file.unlink()
    file.symlink_to(target) if kind == "link" else os.mkfifo(file)
    with pytest.raises(CorruptionError):
        SessionLog.open(tmp_path / "root", "s")[0].commit([add("b")])
        newest(log, "b")
    assert target.read_bytes() == b"secret"


@pytest.mark.parametrize("below", ["default", "default/s", "default/s/log", "default/s/snap"])
def test_a_linked_folder_is_refused(below, tmp_path):
    """A link in place of a folder below the root is refused; the root itself may be one."""
    snapshot(started(tmp_path / "real", "a"), ["a"])
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert ids(SessionLog.open(tmp_path / "link", "s")[1]) == ["a"]
    folder = tmp_path / "root" / below
    folder.parent.mkdir(parents=True)
    folder.symlink_to(tmp_path / "real" / below)
    with pytest.raises(CorruptionError, match="link"):
        SessionLog.open(tmp_path / "root", "s")
    with suppress(CorruptionError):  # a linked folder inside a session goes with it, as a link
        delete_session(tmp_path / "root", "s")
    assert ids(SessionLog.open(tmp_path / "real", "s")[1]) == ["a"]


def test_a_linked_session_is_not_listed(tmp_path):
    """Listing does not follow links."""
    started(tmp_path, "a")
    (tmp_path / "default" / "linked").symlink_to(tmp_path / "default" / "s")
    assert list_sessions(tmp_path) == ["s"]


def test_no_power_loss_brings_a_deleted_session_back():
    """Once a session is deleted, and once what an interrupted deletion left is deleted, no state of the disk has it."""
    disk = SimulatedDisk()
    storage = LocalStorage(Path("/disk"), "default", "s", disk=disk)
    for leftover in (False, True):
        SessionLog.over(storage)[0].commit([OPENING, add("a")])
        if leftover:
            disk.replace("/disk/default/s", "/disk/default/.deleted-s")
        storage.delete()
        assert not any(image.get(path) for image in power_loss.states(disk) for path in image)


def test_dot_files_of_others_are_passed_over(tmp_path):
    """What a file browser or a sync tool drops into the folders does no harm."""
    log = started(tmp_path, "a")
    (segment(tmp_path).parent / ".DS_Store").write_bytes(b"x")
    log.commit([add("b")])
    assert ids(SessionLog.open(tmp_path, "s")[1]) == ["a", "b"]


def test_one_writer_in_line_is_let_in_at_a_time(tmp_path):
    """All that wait get their turns, one for each that leaves; one that gives up its place is passed over."""
    disk = Disk()
    folder = str(tmp_path)
    leave = disk.line_up(folder).result(0)
    waiting = [disk.line_up(folder) for _ in range(5)]
    assert waiting.pop(1).cancel()
    while waiting:
        assert not any(each.done() for each in waiting)
        leave()
        admitted, _ = wait(waiting, 60, return_when=FIRST_COMPLETED)
        assert len(admitted) == 1
        leave = admitted.pop().result()
        waiting = [each for each in waiting if not each.done()]
    leave()
    disk.line_up(folder).result(60)()


def test_a_lock_that_another_never_lets_go_ends_in_an_error(tmp_path, monkeypatch):
    """A commit gives up after a while, and the next one works once the lock is free."""
    monkeypatch.setattr("kaosmem.persistence.storage.disk._LOCK_S", 0.05)
    log = started(str(tmp_path), "a")
    disk = Disk()
    held = disk.open(str(tmp_path / "default" / "s" / "lock"), os.O_RDWR)
    disk.lock(held)
    for _ in range(2):
        with pytest.raises(DurabilityError, match="held the session's lock"):
            log.commit([add("b")])
    disk.close(held)
    log.commit([add("b")])
    other, recovered = SessionLog.open(str(tmp_path), "s")
    assert ids(recovered) == ["a", "b"]
    other.commit([add("c")])  # those who gave up hold no lock


async def test_a_writer_goes_on_without_a_place_in_a_line_that_does_not_move(tmp_path, monkeypatch):
    """The line makes turns fair; nobody waits in it for ever."""
    monkeypatch.setattr("kaosmem.session.saving.turns._LINE_S", 0.05)
    async with SessionMemory.open(tmp_path, "s") as memory:
        memory.add("documents", "a contract", id="contract")
        await memory.save()
        leave = Disk().line_up(str(tmp_path / "default" / "s")).result(60)
        memory.update("contract", "another contract")
        await memory.save()
        leave()
    async with SessionMemory.open(tmp_path, "s") as memory:
        assert memory.get("contract").text == "another contract"


def test_a_lock_whose_file_is_deleted_before_it_is_held_is_taken_anew(tmp_path, monkeypatch):
    """Another process deletes the session between the opening of the file and the lock on it."""
    first, second = (LocalStorage(tmp_path, "default", "s") for _ in range(2))
    first.perform(Lock(create=True))
    first.unlock()
    lock = first._disk.lock

    def too_late(descriptor):
        monkeypatch.undo()
        second.delete()
        lock(descriptor)

    monkeypatch.setattr(first._disk, "lock", too_late)
    first.perform(Lock(create=True))
    assert os.path.samestat(
        os.fstat(first._lock_file), (tmp_path / "default" / "s" / "lock").stat()
    )
    first.unlock()


def test_an_interrupted_deletion_is_completed(tmp_path):
    """What a deletion that was killed left is no session, and goes when the session is deleted again."""
    started(tmp_path, "a")
    (tmp_path / "default" / "s").rename(tmp_path / "default" / ".deleted-s")
    assert list_sessions(tmp_path) == []
    delete_session(tmp_path, "s")
    assert list((tmp_path / "default").iterdir()) == []
