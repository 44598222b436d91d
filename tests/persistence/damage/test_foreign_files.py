"""What is no session's file, or one of a newer version."""

import pytest

from kaosmem.errors import CorruptionError, UnsupportedVersionError
from tests.persistence.damage.damaged import held, opened, place_of, stored
from tests.persistence.damage.turns import FIRST, added, forged, ids, lost, newer, turns, whole_log


@pytest.mark.parametrize(
    "case",
    [("log", "version", 1), ("log", "v", 3), ("log", "open", 3), ("snap", "version", 0)],
    ids=lambda case: case[1],
)
@pytest.mark.parametrize("read_only", [False, True])
async def test_a_newer_version_is_refused_wherever_it_stands(case, read_only, monkeypatch):
    """In the first record, a later one or a snapshot: UnsupportedVersionError, and no file is touched."""
    folder, field, seq = case
    monkeypatch.setattr("kaosmem.persistence.log.MIN_LOG_BYTES", 10 if folder == "snap" else 10**9)
    lines = stored(await turns(added("a"), added("b"), added("c")))
    files = lines if folder == "snap" else {FIRST: b"".join(whole_log(lines))}
    path = max(path for path in files if path.startswith(folder))
    place = place_of(forged(files, path, newer(field, seq)))
    before = stored(place)
    with pytest.raises(UnsupportedVersionError, match="newer kaosmem"):
        async with opened(place, read_only=read_only):
            pass
    assert stored(place) == before


async def test_a_newer_version_is_refused_in_a_damaged_session():
    """What is intact of a session that a newer version has written to is not guessed at."""
    files = {
        FIRST: b"".join(
            whole_log(stored(await turns(*(added(f"d{number}") for number in range(4)))))
        )
    }
    for field in ("open", "v"):
        broken = lost(forged(files, FIRST, newer(field, 4)), 2)
        with pytest.raises(UnsupportedVersionError, match="newer kaosmem"):
            async with opened(place_of(broken), read_only=True):
                pass


async def local(root):
    await turns(added("a"), added("b"), place=root)
    return root / "default" / "s"


@pytest.mark.parametrize("path", ["default", "default/s", "default/s/log", "default/s/snap"])
async def test_a_file_in_place_of_a_folder_is_refused(path, tmp_path):
    """CorruptionError by its path, to readers and writers, and the file is left alone."""
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path).write_text("mine")
    for read_only in (False, True):
        with pytest.raises(CorruptionError, match="in place of a folder"):
            async with opened(tmp_path, read_only=read_only):
                pass
    assert (tmp_path / path).read_text() == "mine"


@pytest.mark.parametrize("folder", ["log", "snap"])
async def test_a_folder_in_place_of_a_file_costs_that_file(folder, tmp_path):
    """A writer is refused; read-only the rest is served, and the folder is said."""
    path = await local(tmp_path) / folder / f"{4:020d}.jsonl"
    path.mkdir(parents=True)
    with pytest.raises(CorruptionError, match="folder"):
        async with opened(tmp_path):
            pass
    async with opened(tmp_path, read_only=True) as memory:
        assert ids(held(memory)) == ["a", "b"]
        assert any("folder" in str(error) for error in memory.damage)


async def test_foreign_files_are_refused_in_a_log_and_passed_over_elsewhere(tmp_path):
    """A file that is no segment may hide records, so a log with one is read only; no other folder is harmed by one."""
    session = await local(tmp_path)
    (session / "snap").mkdir(exist_ok=True)
    (session / "snap" / "notes.txt").write_text("mine")
    async with opened(tmp_path) as memory:
        assert ids(held(memory)) == ["a", "b"]
    (session / "log" / "notes.txt").write_text("mine")
    with pytest.raises(CorruptionError, match=r"notes\.txt"):
        async with opened(tmp_path):
            pass
    async with opened(tmp_path, read_only=True) as memory:
        assert ids(held(memory)) == ["a", "b"]
        assert [error.file for error in memory.damage] == ["log/notes.txt"]


@pytest.mark.parametrize(
    "content", [b"hello\nworld\n", b'{"a":1}\n{"b":2}\n', b"\n", b"\xff\xfe\n" * 9]
)
async def test_a_session_of_which_nothing_is_intact_is_refused(content):
    """A log that no line of ours is in is CorruptionError, read-only, too."""
    for read_only in (False, True):
        with pytest.raises(CorruptionError):
            async with opened(place_of({FIRST: content}), read_only=read_only):
                pass


async def test_an_empty_log_is_a_new_session(tmp_path):
    """An empty folder, log folder or segment holds nothing, and can be written to."""
    for name, path in {"a": "", "b": "log", "c": "snap"}.items():
        (tmp_path / "default" / name / path).mkdir(parents=True)
        async with opened(tmp_path, name) as memory:
            assert held(memory) == {}
            memory.add("documents", "text", id="d")
        async with opened(tmp_path, name, read_only=True) as memory:
            assert (ids(held(memory)), memory.damage) == (["d"], ())
