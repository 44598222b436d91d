"""Places where no session can be kept or read: every call ends, in a typed error that names the place."""

import asyncio
import os
import stat
from pathlib import Path

import pytest

from kaosmem import ConflictError, DurabilityError, KaosmemError, delete_session, list_sessions
from kaosmem.errors import InvalidNameError
from kaosmem.persistence.storage.disk import Disk
from kaosmem.persistence.storage.objects import IsolatedMemoryFileSystem
from kaosmem.session.saving import saver
from tests.persistence.worlds import snapshot, started
from tests.stored import folder_of, memory_at, session


async def opened(place, **options):
    async with memory_at(place, **options):
        pass


CALLS = (
    opened,
    lambda place: opened(place, read_only=True),
    list_sessions,
    lambda place: delete_session(place, "s"),
)


@pytest.mark.parametrize(
    "place",
    ["a\0b", "x" * 5_000, "/" + "x/" * 3_000, Path("a\0b"), "~nobody-has-this-name/x"],
    ids=lambda p: str(p)[:8],
)
async def test_an_impossible_path_is_refused(place):
    """A path that no filesystem takes is an InvalidNameError of one short line, whatever is asked."""
    for call in CALLS:
        with pytest.raises(InvalidNameError) as raised:
            await call(place)
        assert len(str(raised.value)) < 300


@pytest.mark.skipif(os.name == "nt", reason="a working directory can't be deleted there")
async def test_a_deleted_working_directory_is_named(tmp_path, monkeypatch):
    """A relative path says that it is not resolvable once the working directory is gone."""
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    for call in CALLS:
        with pytest.raises(InvalidNameError, match="give the absolute path"):
            await call("sessions")


async def test_a_server_that_does_not_answer_is_named():
    """Nothing listens on port 1: that is a DurabilityError which shows neither user nor password."""
    for call in CALLS:
        with pytest.raises(DurabilityError, match="can't be reached") as raised:
            await call("ftp://user:secret@127.0.0.1:1/sessions")
        assert "secret" not in str(raised.value)


_open = Disk.open


def missing(_, path):
    """Answer as below `/proc`, where making a folder says that there is none above it."""
    raise FileNotFoundError(2, "No such file or directory", path)


def open_but_no_lock(disk, path, flags):
    return missing(disk, path) if path.endswith("/lock") else _open(disk, path, flags)


@pytest.mark.parametrize(
    ("call", "instead"),
    [
        pytest.param("make_folder", missing, id="no folder can be made"),
        pytest.param("open", open_but_no_lock, id="no lock can be made"),
        pytest.param("is_at", lambda *_: False, id="the lock is always deleted"),
        pytest.param("write", lambda *_: 0, id="no byte is taken"),
    ],
)
async def test_a_disk_that_never_does_it_ends_the_save(call, instead, tmp_path, monkeypatch):
    """A call that always fails in its way, an error or not, is no reason to try for ever."""
    monkeypatch.setattr(Disk, call, instead)
    async with asyncio.timeout(60):
        with pytest.raises(DurabilityError):
            await session(tmp_path / "root", "a")


async def test_a_save_that_always_loses_gives_up(tmp_path, monkeypatch):
    """A storage that answers each commit with a conflict ends the save in one, after a bounded number of tries."""
    tried = []
    async with memory_at(tmp_path) as memory:
        memory.add("messages", "text", id="a")

        def conflict(_):
            tried.append(1)
            raise ConflictError("another was first")

        with monkeypatch.context() as patch:
            patch.setattr(memory._session.log, "commit", conflict)
            patch.setattr(saver, "MAX_TRIES", 20)
            with pytest.raises(ConflictError, match="save again"):
                await memory.save()
        assert len(tried) == 20


class UnlistableFileSystem(IsolatedMemoryFileSystem):
    """Raises an error of its own kind for every listing."""

    def ls(self, path, detail=True, **options):
        raise KeyError("of its own kind")


@pytest.mark.parametrize(
    "error", [PermissionError(13, "Permission denied"), OSError(5, "I/O error")]
)
async def test_a_listing_that_fails_is_typed(error, tmp_path, monkeypatch):
    """A disk that can't be listed ends opening, saving and deleting in a DurabilityError with its errno."""
    await session(tmp_path, "a")

    def fail(*_):
        raise error

    async def saved(place):
        async with memory_at(place) as memory:
            memory.add("messages", "text")
            monkeypatch.setattr(Disk, "list", fail)

    for call in (saved, *(call for call in CALLS if call is not list_sessions)):
        with pytest.raises(DurabilityError) as raised:
            await call(tmp_path)
        assert raised.value.errno == error.errno


async def test_a_filesystem_that_raises_its_own_errors_is_typed():
    """What a filesystem raises in a listing is a KaosmemError, whatever it was."""
    filesystem = UnlistableFileSystem()
    for call in CALLS:
        with pytest.raises(KaosmemError):
            await call(filesystem)


async def test_new_files_are_for_their_owner_alone(tmp_path):
    """Whatever the umask, every file is made 0600 and every folder 0700, what is cut from a tail included."""
    before = os.umask(0)
    try:
        log = started(tmp_path / "root", "a")
        snapshot(log, ["a"], archived=["b"])
        log.close()
        async with memory_at(tmp_path / "root", "t") as memory:
            memory.add("documents", "long text " * 10_000)
            await memory.save()
            segment = max((folder_of(tmp_path / "root", "t") / "log").iterdir())
        with segment.open("ab") as file:
            file.write(b'{"crc":"')
        async with memory_at(tmp_path / "root", "t") as memory:
            memory.add("documents", "more")
    finally:
        os.umask(before)
    made = list((tmp_path / "root").rglob("*"))
    assert {path.parent.name for path in made} >= {"log", "snap", "archive"}
    for path in [tmp_path / "root", *made]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
