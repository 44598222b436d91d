"""Names, listing and deletion of sessions."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem

from kaosmem.errors import ConflictError, CorruptionError, InvalidNameError
from kaosmem.persistence.log import SessionLog
from kaosmem.persistence.storage.places import (
    delete_idle_sessions,
    delete_namespace,
    delete_session,
    list_namespaces,
    list_sessions,
    same_place,
    stored_sessions,
)
from tests.persistence.worlds import OPENING, add, ids, snapshot, started

BAD_NAMES = (
    *(
        "../../etc/cron.d/x",
        "a/../../b",
        "..",
        ".",
        "",
        "   ",
        "a ",
        "a\0b",
        "a\nb",
        "a\r\nX: y",
        "s[12]",
        "s?",
        "s*",
        "*",
    ),
    *(
        "s3://evil-bucket/x",
        "file:///etc/passwd",
        "simplecache::s3://b/k",
        "~root",
        "..\\..\\x",
        "b/c",
        "{x}",
    ),
    *(
        "café",
        "cafe\u0301",
        "a" * 129,
        "a" * 10_000_000,
        "-rf",
        "--help",
        ".hidden",
        None,
        5,
        b"x",
        object(),
    ),
)


@pytest.mark.parametrize(
    "name", BAD_NAMES, ids=[ascii(each)[:24] for each in BAD_NAMES[:-1]] + ["object"]
)
def test_a_bad_name_is_refused_before_any_io(name, tmp_path):
    """Names that could leave their place are refused as session and as namespace, and nothing is made."""
    for action in (
        lambda: SessionLog.open(tmp_path / "root", name),
        lambda: SessionLog.open(tmp_path / "root", "s", namespace=name),
        lambda: delete_session(tmp_path / "root", name),
        lambda: delete_session(tmp_path / "root", "s", name),
        lambda: list_sessions(tmp_path / "root", name),
        lambda: stored_sessions(tmp_path / "root", name),
        lambda: delete_namespace(tmp_path / "root", name),
        lambda: delete_idle_sessions(tmp_path / "root", name, before=datetime.now(UTC)),
    ):
        with pytest.raises(InvalidNameError) as caught:
            action()
        assert len(str(caught.value)) < 300
        assert not set(str(caught.value)) & set("\0\r\n")
    assert list(tmp_path.iterdir()) == []


def test_deleting_a_session_leaves_its_neighbours(place):
    """Deleting `a` leaves `a.b`, `ab`, `A` and the `a` of another namespace; deleting it again is nothing."""
    for name in ("a", "a.b", "ab", "A"):
        snapshot(started(place, name, session_id=name), [name], archived=["x"])
    other, _ = SessionLog.open(place, "a", namespace="other")
    other.commit([OPENING])
    for was_there in (True, False):
        assert delete_session(place, "a") is was_there
        assert list_sessions(place) == ["A", "a.b", "ab"]
        assert list_sessions(place, "other") == ["a"]
        assert SessionLog.open(place, "a")[1].records == []
    assert ids(SessionLog.open(place, "a.b")[1]) == ["a.b"]
    if isinstance(place, Path):
        assert not [path for path in Path(place).rglob("*") if path.name.startswith(".")]


def test_a_namespace_is_deleted_whole_and_no_other(place):
    """Its sessions are gone, those of namespaces that resemble it stay, and deleting it again is nothing."""
    assert list_namespaces(place) == []
    for namespace in ("acme", "Acme", "acme.b", "acm"):
        for session_id in ("a", "b:c"):
            SessionLog.open(place, session_id, namespace=namespace)[0].commit([OPENING])
    assert list_namespaces(place) == ["Acme", "acm", "acme", "acme.b"]
    assert delete_namespace(place, "acme") == ["a", "b:c"]
    assert delete_namespace(place, "acme") == delete_namespace(place, "none") == []
    assert list_namespaces(place) == ["Acme", "acm", "acme.b"]
    assert list_sessions(place, "acme") == []
    assert list_sessions(place, "Acme") == ["a", "b:c"]
    if isinstance(place, Path):
        assert not Path(place, "acme").exists()


def test_sessions_are_listed_with_their_size_and_last_save(place):
    """The last saved comes first; the size is that of all files."""
    for session_id in ("old", "new"):
        started(place, session_id, session_id=session_id)
    listed = {each.session_id: each for each in stored_sessions(place)}
    assert listed.keys() == {"old", "new"}
    started_at = datetime.now(UTC) - timedelta(seconds=60)
    for each in listed.values():
        assert each.size_bytes > 100
        assert started_at < each.saved < started_at + timedelta(seconds=120)
    assert stored_sessions(place, "other") == []


def test_only_sessions_that_nobody_saved_for_long_are_deleted(place):
    """Those saved before the time go, those after it stay, and so do other namespaces."""
    for session_id in ("old", "new"):
        started(place, session_id, session_id=session_id)
    SessionLog.open(place, "a", namespace="other")[0].commit([OPENING])
    assert delete_idle_sessions(place, before=datetime.now(UTC) - timedelta(seconds=60)) == []
    if isinstance(place, Path):
        for path in Path(place, "default", "old").rglob("*"):
            os.utime(path, (1_000_000_000, 1_000_000_000))
        assert delete_idle_sessions(place, before=datetime.now(UTC) - timedelta(seconds=60)) == [
            "old"
        ]
        assert list_sessions(place) == ["new"]
    left = list_sessions(place)
    assert delete_idle_sessions(place, before=datetime.now(UTC) + timedelta(seconds=60)) == left
    assert list_sessions(place) == []
    assert list_sessions(place, "other") == ["a"]


def test_nothing_is_listed_where_nothing_is(place):
    """A place that does not exist has no sessions; a session without a commit is none."""
    assert list_sessions(place) == []
    SessionLog.open(place, "s")
    assert list_sessions(place) == []
    delete_session(place, "s")


def test_a_writer_of_a_deleted_session_does_not_bring_it_back(place):
    """A snapshot by a writer that missed the deletion is a conflict, and on a disk so is a commit."""
    log = started(place, "a")
    delete_session(place, "s")
    with pytest.raises(ConflictError):
        snapshot(log, ["a"])
    if isinstance(place, Path):
        with pytest.raises(ConflictError):
            log.commit([add("b")])
    assert list_sessions(place) == []


def test_a_folder_of_others_is_not_deleted(tmp_path):
    """Deleting by the name of a folder that is no session is refused, and the folder stays."""
    (tmp_path / "default" / "src").mkdir(parents=True)
    (tmp_path / "default" / "src" / "main.py").write_text("mine")
    with pytest.raises(CorruptionError, match=r"main\.py"):
        delete_session(tmp_path, "src")
    assert (tmp_path / "default" / "src" / "main.py").exists()
    assert list_sessions(tmp_path) == []


def test_a_folder_of_others_in_a_namespace_is_no_session(tmp_path):
    """It is not listed, and does not keep a namespace from being deleted."""
    started(tmp_path)
    others = tmp_path / "default" / "photos" / "2020"
    others.mkdir(parents=True)
    (others / "sea.txt").write_text("waves")
    assert list_sessions(tmp_path) == ["s"]
    assert delete_namespace(tmp_path, "default") == ["s"]
    assert (others / "sea.txt").read_text() == "waves"


def test_a_folder_of_the_root_folder_is_not_relative(tmp_path):
    """A filesystem of a folder, inside the filesystem of the root, is that folder on the disk."""
    root = DirFileSystem(path="/", fs=LocalFileSystem())
    folder = DirFileSystem(path=tmp_path.as_posix().lstrip("/"), fs=root)
    assert same_place(folder) == same_place(tmp_path)


def test_urls_paths_and_filesystems_name_the_same_place(tmp_path):
    """A path, its file URL and a filesystem rooted there open the same session."""
    started(str(tmp_path), "a")
    for place in (
        tmp_path,
        tmp_path.as_uri(),
        DirFileSystem(path=str(tmp_path), fs=LocalFileSystem()),
    ):
        assert ids(SessionLog.open(place, "s")[1]) == ["a"]
        assert list_sessions(place) == ["s"]


def test_a_writer_of_a_session_made_anew_is_refused(tmp_path):
    """A writer from before a deletion adds nothing to the session that has the name now, however long its log."""
    for again in ([], ["x"], ["x", "y", "z"]):
        log = started(tmp_path, "a", session_id=f"s{len(again)}")
        delete_session(tmp_path, f"s{len(again)}")
        started(tmp_path, *again, session_id=f"s{len(again)}")
        with pytest.raises(ConflictError, match="replaced"):
            log.commit([add("b")])
        with pytest.raises(ConflictError, match="replaced"):
            snapshot(log, ["a"])
        assert ids(SessionLog.open(tmp_path, f"s{len(again)}")[1]) == again
