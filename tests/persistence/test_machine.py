"""The session log against a plain model: a list of what was acknowledged."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kaosmem.errors import ConflictError
from kaosmem.persistence import Change, Recovered, SessionLog, delete_session, list_sessions
from kaosmem.persistence.memory import IsolatedMemoryFileSystem
from kaosmem.persistence.records import encode_commit
from tests.persistence.worlds import OPENING, changes

Item = tuple[str, dict[str, Any]]


def replay(recovered: Recovered) -> list[Item]:
    """The changes that a session was opened with, which the model keeps as its items."""
    return [*recovered.items, *((record.section, {"op": record.op, "d": record.data}) for record in recovered.records)]


class LogMachine(RuleBasedStateMachine):
    """Commits, snapshots, crashes and second writers in any order lose nothing that was acknowledged."""

    def place(self) -> Any:
        return IsolatedMemoryFileSystem()

    @initialize()
    def begin(self) -> None:
        self.where = self.place()
        self.items: list[Item] = []
        self.archived: dict[str, int] = {}
        self.others: list[SessionLog] = []
        self.reopen()
        self.write([OPENING])

    def write(self, given: list[Change]) -> None:
        self.log.commit(given)
        self.items += [(change.section, {"op": change.op, "d": dict(change.data)}) for change in given]

    @rule(given=st.lists(changes, min_size=1, max_size=4))
    def commit(self, given: list[Change]) -> None:
        before = self.log.seq
        self.write(given)
        assert self.log.seq == before + len(given)

    @rule(evict=st.integers(0, 3), given=changes)
    def snapshot(self, evict: int, given: Change) -> None:
        self.write([given])
        evicted, self.items = self.items[:evict], self.items[evict:]
        archived = []
        for _ in evicted:
            name = f"e{len(self.archived) % 5}"
            self.archived[name] = len(self.archived) + self.archived.get(name, 0)
            archived.append(("a", {"id": name, "n": self.archived[name]}))
        self.log.snapshot({"items": len(self.items)}, self.items, archived=archived, seq=self.log.seq)

    @rule()
    def reopen(self) -> None:
        """A crash between two calls: the old log is left as it is."""
        self.log, recovered = SessionLog.open(self.where, "s")
        assert replay(recovered) == self.items
        assert not recovered.damage

    @rule()
    def open_another(self) -> None:
        self.others.append(SessionLog.open(self.where, "s")[0])

    @precondition(lambda self: self.others)
    @rule(given=changes, index=st.integers(0, 9))
    def commit_another(self, given: Change, index: int) -> None:
        """Another writer commits if its head is the newest, and else is refused; then ours is."""
        other = self.others.pop(index % len(self.others))
        if other.seq != self.log.seq:
            with pytest.raises(ConflictError):
                other.commit([given])
            return
        other.commit([given])
        with pytest.raises(ConflictError):
            self.log.commit([given])
        self.items.append((given.section, {"op": given.op, "d": dict(given.data)}))
        self.reopen()

    @rule(given=st.lists(changes, min_size=1, max_size=3), part=st.floats(0, 1))
    def crash_in_a_commit(self, given: list[Change], part: float) -> None:
        """A crash leaves the first bytes of a commit that was not acknowledged."""
        head = self.log._head
        whole = encode_commit(given, "torn", seq=head.seq, crc=head.crc).data
        self.tear(whole[: int(part * (len(whole) - 2))])

    def tear(self, data: bytes) -> None:
        """Objects are stored whole or not at all."""

    @invariant()
    def what_is_stored_is_what_was_acknowledged(self) -> None:
        log, recovered = SessionLog.open(self.where, "s", read_only=True)
        assert replay(recovered) == self.items
        assert log.seq == self.log.seq
        assert log.txns == self.log.txns
        for name, version in self.archived.items():
            assert log.archived(name) == ("a", {"id": name, "n": version})

    def teardown(self) -> None:
        if hasattr(self, "where"):
            assert list_sessions(self.where) == ["s"]
            delete_session(self.where, "s")
            assert list_sessions(self.where) == []


class LocalLogMachine(LogMachine):
    def place(self) -> Any:
        return Path(tempfile.mkdtemp())

    def tear(self, data: bytes) -> None:
        """Leave bytes at the end of the log, as a killed writer does, and open the session again."""
        if SessionLog.open(self.where, "s")[1].damage:
            return  # a writer cuts what is torn before it writes
        segment = max((self.where / "default" / "s" / "log").iterdir())
        with segment.open("ab") as file:
            file.write(data)
        self.log, recovered = SessionLog.open(self.where, "s")
        assert replay(recovered) == self.items
        assert bool(recovered.damage) == bool(data)

    @rule()
    def reopen(self) -> None:
        self.log, recovered = SessionLog.open(self.where, "s")
        assert replay(recovered) == self.items

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "where"):
            shutil.rmtree(self.where)


TestLogMachine = LogMachine.TestCase
TestLogMachine.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
TestLocalLogMachine = LocalLogMachine.TestCase
TestLocalLogMachine.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
