"""Indexes kept beside a session's log: read back where they are of it, and passed over wherever they are not."""

from contextlib import suppress

import pytest

from kaosmem.errors import ConflictError
from kaosmem.persistence.checkpoint import decode_index, encode_index
from kaosmem.persistence.files.records import Change
from kaosmem.persistence.layout import INDEX, index_file, index_files, log_file
from kaosmem.persistence.log import SessionLog
from kaosmem.persistence.steps import Write
from kaosmem.persistence.storage.objects import IsolatedMemoryFileSystem
from kaosmem.persistence.storage.places import delete_session, list_sessions
from tests.persistence.worlds import Interrupted, add, snapshot, started
from tests.places import files_in, put

HEADER = {"ranker": "tiny", "updates": 3}
WORDS = b"the words of an index"


def opened(place, session_id="s", **options):
    return SessionLog.open(place, session_id, **options)[0]


def keep(log, data=WORDS, section="messages", *, at=None):
    return log.store_index(section, HEADER, [data[:5], data[5:]], at=log.end if at is None else at)


def kept(log, section="messages"):
    found = log.index(section)
    assert found is None or found[0] == HEADER
    return found and bytes(found[1])


def holding(place, data):
    return [path for path, content in files_in(place).items() if data in content]


def indexes(place):
    names = [path.rpartition("/")[2] for path in files_in(place) if f"/{INDEX}/" in path]
    return [seq for seq, _, _ in index_files(names)]


def test_an_index_is_read_back_however_much_has_come_since(place):
    """By the handle that kept it and by others, after commits and after any number of snapshots."""
    log = started(place, "a", "b")
    assert keep(log)
    assert kept(log) == kept(opened(place)) == WORDS
    for number in range(4):
        log = opened(place)
        log.commit([add(f"c{number}")])
        assert kept(log) == WORDS
        snapshot(log, ["a"])
        log.commit([add(f"d{number}")])
        assert kept(log) == kept(opened(place)) == kept(opened(place, read_only=True)) == WORDS
    assert kept(log, "findings") is None


def test_an_index_that_is_stored_while_another_forgets_is_refused():
    """Where nothing locks, the log may still be there when the indexes of what was forgotten are gone already."""
    place = IsolatedMemoryFileSystem()
    log = started(place, "a")
    other = opened(place)
    told = []
    other.commit([add("b")])
    empties = lambda step: isinstance(step, Write) and step.path == log_file(1)  # noqa: E731
    other.storage = Interrupted(other.storage, empties, lambda: told.append(keep(log)))
    other.purge({}, [], archived=[])
    assert told == [False]
    assert holding(place, WORDS) == []


def test_one_index_of_a_section_stays(place):
    """The newest, beside those of other sections, one of whose names begins as it does."""
    log = started(place, "a")
    keep(log, b"of the others", "messages-2")
    keep(log, b"old")
    log.commit([add("b")])
    keep(log)
    assert kept(opened(place)) == WORDS
    assert kept(opened(place), "messages-2") == b"of the others"
    assert indexes(place) == [2, 3]


# what is damaged or foreign


def test_no_damage_is_taken_for_an_index():
    """Every byte changed, every cut, and anything put after it; and what is of other sections, times or versions."""
    path = index_file("messages", 7, "ab")
    data = b"".join(encode_index(path, HEADER, [WORDS, b""]))
    header, index = decode_index(data, path)
    assert (header, bytes(index)) == (HEADER, WORDS)
    damaged = [
        data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :]
        for at in range(len(data))
        for bit in (1, 32, 128)
    ]
    damaged += [data[:at] for at in range(len(data))] + [
        data + b"\0",
        data + data,
        b"\0" * len(data),
        b"\n" * 9,
    ]
    for each in damaged:
        with pytest.raises(ValueError):
            decode_index(each, path)
    for other in (("findings", 7, "ab"), ("messages", 8, "ab"), ("messages", 7, "ac")):
        with pytest.raises(ValueError):
            decode_index(data, index_file(*other))


def test_a_newer_version_is_passed_over(monkeypatch, place):
    log = started(place, "a")
    with monkeypatch.context() as patch:
        patch.setattr("kaosmem.persistence.checkpoint.VERSION", 2)
        keep(log)
    assert kept(opened(place)) is None
    assert keep(log)
    assert kept(opened(place)) == WORDS


# what is of another state


def test_one_of_a_session_that_was_deleted_is_none(place):
    """Not even where it came back, and the new session has reached the same record."""
    log = started(place, "a", "b")
    keep(log)
    before = {path: data for path, data in files_in(place).items() if INDEX in path}
    delete_session(place, "s")
    assert not files_in(place)
    assert list_sessions(place) == []
    again = started(place, "x", "y")
    put(place, before)
    assert log.seq == again.seq
    assert kept(opened(place)) is None
    with pytest.raises(ConflictError):
        keep(log)
    assert keep(again, b"of the new one")
    assert kept(opened(place)) == b"of the new one"


def test_one_of_a_log_that_was_cut_back_is_none(place):
    """Whoever brings an old copy back, and goes on from it, has another history behind the same numbers."""
    log = started(place, "a")
    snapshot(log, ["a"])
    copy = files_in(place)
    log.commit([add("b")])
    keep(log)
    for path in files_in(place).keys() - copy.keys():
        if INDEX not in path:
            put(place, {path: None})
    put(place, copy)
    assert kept(opened(place)) is None
    again = opened(place)
    again.commit([add("c")])
    assert again.seq == log.seq
    assert kept(again) is None
    assert kept(opened(place)) is None
    snapshot(again, ["a", "c"])
    again.commit([add("d")])
    assert kept(opened(place)) is None
    assert keep(again, b"new")
    assert kept(opened(place)) == b"new"


def test_one_of_a_commit_that_is_not_known_is_not_kept(place):
    log = started(place, "a")
    other = opened(place)
    other.commit([add("b")])
    assert not keep(log, at=other.end)
    assert indexes(place) == []


# what is forgotten

FORGET = Change("messages", "forget", {"ids": ["a"]})


def purge(log):
    log.commit([FORGET])
    log.purge({}, [("messages", {"id": "b"})], archived=[])


def test_one_from_before_an_erasure_is_none(place):
    """A server may carry out a request to store it when its sender has given up."""
    log = started(place, "a", "b")
    keep(log)
    before = {path: data for path, data in files_in(place).items() if INDEX in path}
    purge(log)
    put(place, before)
    assert kept(log) is None
    assert kept(opened(place)) is None


def test_a_slow_writer_brings_nothing_back(place):
    """Whatever of forgetting happens while it writes; neither where the session went on and has newer snapshots."""
    for step in ("Draft", "Lock", "Publish", "List"):
        for later in (False, True):
            session_id = f"{step}-{later}"
            log = started(place, "a", "b", session_id=session_id)
            slow = opened(place, session_id)

            def forgetting(log=log, later=later):
                purge(log)
                if later:
                    log.commit([add("c")])
                    snapshot(log, ["b", "c"])

            slow.storage = InterruptedUnlocked(slow.storage, step, forgetting)
            with suppress(ConflictError):
                assert not keep(slow)
            assert not slow.storage.is_waiting
            assert holding(place, WORDS) == []


class InterruptedUnlocked:
    """A storage to which something happens before the first step of a kind, unless others are locked out then."""

    def __init__(self, storage, step, happening):
        self.storage = storage
        self.step = step
        self.happening = happening
        self.is_waiting = True
        self.is_locked = False

    def __getattr__(self, name):
        return getattr(self.storage, name)

    def unlock(self):
        self.is_locked = False
        self.storage.unlock()

    def perform(self, step):
        if self.is_waiting and (type(step).__name__ == self.step) and not self.is_locked:
            self.is_waiting = False
            self.happening()
        if type(step).__name__ == "Lock":
            if (
                self.is_waiting and self.storage.appends
            ):  # what comes later is kept out until it ends
                self.is_waiting = False
                self.happening()
            self.is_locked = self.storage.appends
        return self.storage.perform(step)


@pytest.mark.parametrize(
    "name", ["Messages", "con", "a" * 128, "A" * 128, "a.b:c+d", "x-00000000000000000001.bin"]
)
def test_a_section_of_any_name_has_an_index(name, place):
    log = started(place, "a")
    assert keep(log, section=name)
    assert kept(opened(place), name) == WORDS
    assert kept(opened(place), name[:-1] + "z") is None


@pytest.mark.parametrize(
    "bad", [b"", b"\n", b"{}\n1234", b'{"crc":"00000000","index":1}\nabcd', b"\xff" * 99]
)
def test_a_file_of_anything_is_passed_over(bad, tmp_path):
    """The session opens, and one that can be used is read although a newer one cannot."""
    log = started(tmp_path, "a")
    keep(log)
    log.commit([add("b")])
    folder = tmp_path / "default" / "s"
    txn = log.end.head.txns[-1]
    (folder / index_file("messages", 3, txn)).write_bytes(bad)
    (folder / INDEX / "other.txt").write_bytes(bad)
    (folder / index_file("findings", 3, txn)).mkdir()
    again = opened(tmp_path)
    assert not again.damage
    assert kept(again) == WORDS
    assert kept(again, "findings") is None
    again.commit([add("c")])
    snapshot(again, ["a"])
    assert kept(opened(tmp_path)) == WORDS
