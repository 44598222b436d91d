"""The state machines of sessions, over every kind of place that tests know, and over faulty ones."""

from __future__ import annotations

import tempfile
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from kaosmem.names import path_of
from kaosmem.persistence.files.records import Change, encode_commit
from kaosmem.persistence.layout import log_file
from kaosmem.persistence.log import SessionLog
from kaosmem.persistence.storage.objects import IsolatedMemoryFileSystem
from tests.persistence.faulty_filesystems import FAULTY, IgnoresCase
from tests.persistence.session_log_machine import SessionLogMachine
from tests.persistence.storage_machine import StorageMachine
from tests.persistence.worlds import Bucket


class InMemory:
    def place(self) -> IsolatedMemoryFileSystem:
        return IsolatedMemoryFileSystem()


class InABucket:
    def place(self) -> Bucket:
        return Bucket()


class WhereCaseIsIgnored:
    def place(self) -> Bucket:
        return IgnoresCase()


class OnDisk:
    def place(self) -> Path:
        self.folder = tempfile.TemporaryDirectory()
        return Path(self.folder.name, "größe ☃")

    def teardown(self) -> None:
        self.folder.cleanup()


SqliteFileSystem = run_path(
    str(Path(__file__).parents[2] / "examples" / "test_your_own_filesystem.py")
)["SqliteFileSystem"]


class InADatabase:
    """The filesystem of the example: a database for each session, opened anew by each that looks."""

    def place(self) -> Any:
        self.folder = tempfile.TemporaryDirectory()
        return SqliteFileSystem(str(Path(self.folder.name, "agents.db")))

    def reopened(self, place: Any) -> Any:
        return SqliteFileSystem(place.database)

    def teardown(self) -> None:
        self.folder.cleanup()


class MemoryStorage(InMemory, StorageMachine):
    pass


class BucketStorage(InABucket, StorageMachine):
    pass


class CaselessStorage(WhereCaseIsIgnored, StorageMachine):
    pass


class LocalStorage(OnDisk, StorageMachine):
    pass


class DatabaseStorage(InADatabase, StorageMachine):
    pass


class MemorySessionLog(InMemory, SessionLogMachine):
    pass


class BucketSessionLog(InABucket, SessionLogMachine):
    pass


class DatabaseSessionLog(InADatabase, SessionLogMachine):
    pass


class LocalSessionLog(OnDisk, SessionLogMachine):
    @precondition(lambda self: not self.torn)
    @rule(text=st.text(max_size=9), part=st.floats(0, 1))
    def tear(self, text: str, part: float) -> None:
        """A writer is killed while it writes a commit, of which the first bytes are there."""
        head = SessionLog.open(self.where, self.session_id)[0]._head
        whole = encode_commit(
            [Change("messages", "add", {"text": text})] * 2, "torn", seq=head.seq, crc=head.crc
        ).data
        torn = whole[: int(part * (len(whole) - 2))]
        is_closed = self.account.archived == head.seq
        path = (
            self.where
            / "default"
            / path_of(self.session_id)
            / log_file(head.seq + 1 if is_closed else head.segment)
        )
        with path.open("ab") as file:
            file.write(torn)
        self.torn = bool(torn)


MACHINES = (
    MemoryStorage,
    BucketStorage,
    CaselessStorage,
    LocalStorage,
    DatabaseStorage,
    MemorySessionLog,
    BucketSessionLog,
    DatabaseSessionLog,
    LocalSessionLog,
)


@pytest.mark.parametrize("machine", MACHINES)
def test_every_place_keeps_sessions(machine: type[RuleBasedStateMachine]) -> None:
    """What is done in any order, by several writers, loses nothing."""
    examples = 8 if machine is LocalSessionLog else 15  # each commit waits for the disk
    run_state_machine_as_test(
        machine, settings=settings(max_examples=examples, stateful_step_count=25, deadline=None)
    )


@pytest.mark.soak
@pytest.mark.parametrize("machine", MACHINES)
def test_every_place_keeps_sessions_for_long(machine: type[RuleBasedStateMachine]) -> None:
    run_state_machine_as_test(
        machine, settings=settings(max_examples=500, stateful_step_count=50, deadline=None)
    )


@pytest.mark.parametrize("filesystem", FAULTY)
def test_a_faulty_filesystem_is_found_out(filesystem: type[Bucket]) -> None:
    """A filesystem that does one thing wrongly does not pass."""

    class Machine(StorageMachine):
        def place(self) -> Bucket:
            return filesystem()

    once = settings(
        max_examples=200,
        stateful_step_count=30,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
    )
    with pytest.raises((Exception, ExceptionGroup)):
        run_state_machine_as_test(Machine, settings=once)
