"""A state machine: a filesystem's operations for the session log against a plain dict."""

import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from operator import mul

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kaosmem.persistence.layout import FOLDERS, LOG, SNAP, archive_file, log_file
from kaosmem.persistence.steps import (
    Append,
    Create,
    Delete,
    List,
    Lock,
    Read,
    ReadParts,
    TakenError,
    Truncate,
    Write,
    run,
)
from kaosmem.persistence.storage.places import list_sessions, open_storage

_NAMESPACE = "Team:a"
# Some begin as another does or differ in case alone; on disk they have `%`, `=` and `~`.
_SESSIONS = ("a", "ab", "a.b", "A", "con", "x:1+2@z_-.", "n" * 128)
_SEGMENTS = tuple(log_file(seq) for seq in (1, 2, 10))
_OTHERS = (
    archive_file(1, 0),
    f"{SNAP}/{1:020d}.jsonl",
    f"{SNAP}/{10:020d}.jsonl",
    f"{SNAP}/00ff-0",
    f"{SNAP}/00ff-01",
)

_sessions = st.sampled_from(_SESSIONS)
_segments = st.sampled_from(_SEGMENTS)
_paths = st.sampled_from((*_SEGMENTS, *_OTHERS))
_times = st.sampled_from([1, 10_000])
_parts = st.lists(st.tuples(st.integers(0, 100), st.integers(0, 50)), min_size=1, max_size=4)
_contents = st.builds(mul, st.binary(max_size=32), _times)


class StorageMachine(RuleBasedStateMachine):
    """Files are stored, listed, read and deleted as the session log needs it, over any `place`.

    Of threads that store a file under one name at once one must win.
    """

    def place(self):
        """Return an empty place to keep sessions, for each example another: a URL, path or filesystem."""
        raise NotImplementedError

    def reopened(self, place):
        """Return the same place as another process would open it."""
        return place

    @initialize()
    def begin(self):
        self._where = self.place()
        self._files = {session: {} for session in _SESSIONS}
        self._storages = {}
        self._touched = _SESSIONS[0]
        self._commits = count(1)
        assert list_sessions(self._where, _NAMESPACE) == []

    @rule(session=_sessions, path=_paths, data=_contents, parts=st.integers(1, 3))
    def store(self, session, path, data, parts):
        """Store a file whole, in place of the old one; not a log, since commits are appended to it."""
        if self._storage(session).appends and path in _SEGMENTS:
            return
        size = len(data) // parts + 1
        self._perform(
            session, Write(path, [data[at : at + size] for at in range(0, len(data), size)])
        )
        self._files[session][path] = data

    @rule(session=_sessions, path=_segments, data=_contents, again=st.booleans())
    def commit(self, session, path, data, again):
        """Append a commit, or store it under a name that is free; the same bytes again are a repeated request."""
        before = self._files[session].get(path)
        data = before if again and before else self._distinct(data)
        storage = self._storage(session)
        stored = run(_committing(storage, path, data), storage)
        assert stored == (storage.appends or before in (None, data)), f"{path!r} was {before!r:.80}"
        self._touched = session
        if stored:
            self._files[session][path] = (before or b"") + data if storage.appends else data

    @rule(session=_sessions, path=_segments, contents=st.lists(_contents, min_size=2, max_size=4))
    def compete(self, session, path, contents):
        """Commit under one name in several threads at once: the first has it, and the others are told so."""
        before = self._files[session].get(path)
        together = threading.Barrier(len(contents))
        contents, storages = (
            [*map(self._distinct, contents)],
            [self._opened(session) for _ in contents],
        )

        def commit(storage, data):
            together.wait()
            return run(_committing(storage, path, data), storage)

        with ThreadPoolExecutor(len(contents)) as pool:
            stored = list(pool.map(commit, storages, contents))
        found = storages[0].perform(Read(path))
        appends = storages[0].appends
        winners = [data for data, won in zip(contents, stored, strict=True) if won]
        if appends:
            assert len(winners) == len(contents)
            assert len(found) == len(before or b"") + sum(map(len, winners))
            assert found.startswith(before or b"")
            assert all(data in found for data in winners)
        elif before is None:
            assert len(winners) == 1, (
                f"{len(winners)} of {len(contents)} threads stored {path!r} as the first"
            )
            assert winners == [found], f"{path!r} has other bytes than who stored it first gave it"
        else:
            assert found == before, f"{path!r} was there, and was overwritten"
            assert not winners, (
                f"{path!r} was there, and {len(winners)} threads were told that theirs is stored"
            )
        self._files[session][path], self._touched = found, session

    @rule(session=_sessions, path=_paths, part=st.floats(0, 1))
    def read(self, session, path, part):
        """Read a file from a byte on; one that is not there raises FileNotFoundError."""
        data = self._files[session].get(path)
        start = int(part * len(data or b""))
        try:
            found = self._perform(session, Read(path, start))
        except FileNotFoundError:
            assert data is None, f"{path!r} is stored, and was not found"
        else:
            assert data is not None, f"{path!r} is not stored, and {len(found)} bytes were read"
            assert found == data[start:]

    @precondition(lambda self: any(self._files.values()))
    @rule(which=st.integers(0, 99), parts=_parts)
    def read_parts(self, which, parts):
        """Read parts of a file in one go, as far as it goes."""
        stored = [(session, path) for session in _SESSIONS for path in sorted(self._files[session])]
        session, path = stored[which % len(stored)]
        data = self._files[session][path]
        found = self._perform(session, ReadParts(tuple((path, *part) for part in parts)))
        assert found == [data[start:][:size] for start, size in parts], (
            f"parts of {path!r} are others"
        )

    @rule(session=_sessions, path=_paths, parts=_parts)
    def miss_parts(self, session, path, parts):
        """Read parts of a file that is not there, which raises FileNotFoundError."""
        if path not in self._files[session]:
            try:
                self._perform(session, ReadParts(tuple((path, *part) for part in parts)))
            except FileNotFoundError:
                return
            raise AssertionError(f"{path!r} is not stored, and parts of it were read")

    @rule(session=_sessions, path=_paths)
    def delete(self, session, path):
        """Delete a file at once; deleting it again is nothing."""
        self._perform(session, Delete(path, at_once=True))
        self._files[session].pop(path, None)

    @rule(session=_sessions, path=_paths)
    def delete_later(self, session, path):
        """Delete a young file that slow readers may still need: it stays, unless a lock keeps them out."""
        self._perform(session, Delete(path))
        if self._storage(session).appends:
            self._files[session].pop(path, None)

    @rule(session=_sessions, path=_segments, part=st.floats(0, 1))
    def cut(self, session, path, part):
        """Cut a file to its first bytes; one that would be empty may go."""
        data = self._files[session].get(path)
        if data is None:
            return
        size = int(part * len(data))
        self._touched = session
        run(_cutting(path, size), self._storage(session))
        self._files[session][path] = data[:size]
        if not size and path.partition("/")[2] not in self._perform(session, List(LOG)):
            del self._files[session][path]

    @precondition(lambda self: any(self._files.values()))
    @rule(session=_sessions)
    def delete_session(self, session):
        """Delete a session with all its files, and touch no other."""
        self._storage(session).delete()
        self._files[session], self._touched = {}, session
        self.look_at_all()

    @rule(session=_sessions)
    def reopen(self, session):
        """Let go of a session without a word."""
        self._storages.pop(session, None)

    @rule()
    def look_at_all(self):
        """Look at every session's files, and at which sessions the namespace lists."""
        for session in _SESSIONS:
            self._check(session)
        kept = {
            session
            for session in _SESSIONS
            if any(path.startswith((LOG, SNAP)) for path in self._files[session])
        }
        listed = list_sessions(self.reopened(self._where), _NAMESPACE)
        assert kept <= {*listed} <= {*_SESSIONS}
        assert list_sessions(self.reopened(self._where)) == []

    @invariant()
    def others_see_what_was_stored(self):
        """Read exactly the last stored state in a session opened anew."""
        if hasattr(self, "_where"):
            self._check(self._touched)

    def _distinct(self, data):
        """Return the bytes of a commit: as it has an id, none begins as another."""
        return b"%08d:" % next(self._commits) + data

    def _check(self, session):
        storage = self._opened(session)
        files = self._files[session]
        for folder in FOLDERS:
            here = {
                path.partition("/")[2]: data
                for path, data in files.items()
                if path.startswith(f"{folder}/")
            }
            listed = storage.perform(List(folder))
            assert listed == here.keys(), (
                f"{folder!r} of session {session!r} lists {listed}, and has {[*here]}"
            )
            sizes = storage.sizes(folder)
            assert sizes == {name: len(data) for name, data in here.items()}, (
                f"{folder!r} lists wrong sizes: {sizes}"
            )
        for path, data in files.items():
            assert storage.perform(Read(path)) == data, f"{path!r} has other bytes than were stored"
        assert storage.foreign() is None

    def _perform(self, session, step):
        self._touched = session
        return self._storage(session).perform(step)

    def _storage(self, session):
        if session not in self._storages:
            self._storages[session] = open_storage(self._where, _NAMESPACE, session)
        return self._storages[session]

    def _opened(self, session):
        return open_storage(self.reopened(self._where), _NAMESPACE, session)


def _cutting(path, size):
    """Cut a file as the protocols do: under the lock, where there is one."""
    yield Lock(create=True)
    yield Truncate(path, size)


def _committing(storage, path, data):
    """Store a commit as the storage does it, and return whether it is stored."""
    if not storage.appends:
        try:
            yield Create(path, data)
        except TakenError:
            return False
        return True
    yield Lock(create=True)
    try:
        size = len((yield Read(path)))
    except FileNotFoundError:
        size = 0
    yield Append(path, size, data)
    return True
