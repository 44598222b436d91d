"""A session with one bit of one of its files flipped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import pytest

from kaosmem.errors import CorruptionError, KaosmemError
from kaosmem.persistence.files.records import Change
from kaosmem.persistence.log import SessionLog
from kaosmem.persistence.recovery import Recovered
from kaosmem.persistence.storage.objects import IsolatedMemoryFileSystem
from tests.persistence.worlds import OPENING, add, newest

State: TypeAlias = list[Any]
"""What a session holds, ids and texts in stored order."""

FOLDER = "/default/s/"


class Life:
    """A stored session, what it held after each of its commits and ever, and what its archive holds.

    commits: numbers of records. snapshot: the commit that a snapshot and an archive are taken after.
    """

    def __init__(self, commits: Sequence[int], *, snapshot: int | None, chars: int) -> None:
        self.states: list[State] = [[]]
        self.ever: State = []
        self.archive: State = []
        with TemporaryDirectory() as place:
            log, _ = SessionLog.open(place, "s")
            number = 0
            for index, records in enumerate(commits):
                changes = [OPENING] if index == 0 else []
                while len(changes) < records:
                    changes.append(add(f"i{number}", f"{number} " + "text" * (chars // 4)))
                    number += 1
                if index % 4 == 3:
                    changes[-1] = Change("messages", "remove", {"id": f"i{number - 3}"})
                log.commit(changes)
                self.states.append(replayed(self.states[-1], changes))
                self.ever += [dict(change.data) for change in changes if change.op == "add"]
                if index == snapshot:
                    self.archive = [
                        ("messages", {"id": f"old{n}", "content": "text" * (chars // 4)})
                        for n in range(2)
                    ]
                    items = [("messages", item) for item in self.states[-1]]
                    log.snapshot({"count": len(items)}, items, archived=self.archive, at=log.end)
            log.close()
            folder = Path(place, "default", "s")
            self.files = {
                path.relative_to(folder).as_posix(): path.read_bytes()
                for path in sorted(folder.rglob("*.jsonl"))
            }

    @property
    def bits(self) -> int:
        return 8 * sum(map(len, self.files.values()))

    def flipped(self) -> Iterator[tuple[str, IsolatedMemoryFileSystem]]:
        """Yield the session with each of its bits flipped in turn, and whose file it is of; one filesystem for all."""
        filesystem = IsolatedMemoryFileSystem()
        for path, data in self.files.items():
            filesystem.pipe_file(FOLDER + path, data)
        for path, data in self.files.items():
            for bit in range(8 * len(data)):
                broken = bytearray(data)
                broken[bit // 8] ^= 1 << bit % 8
                filesystem.pipe_file(FOLDER + path, bytes(broken))
                yield path, filesystem
            filesystem.pipe_file(FOLDER + path, data)


def replayed(state: State, changes: Sequence[Any]) -> State:
    """What a session holds after changes, or records."""
    for change in changes:
        if change.op == "add":
            state = [*state, dict(change.data)]
        elif change.op == "remove":
            state = [item for item in state if item["id"] != change.data["id"]]
    return state


def held(recovered: Recovered) -> State:
    return replayed([item for _, item in recovered.items], recovered.records)


def check(life: Life, path: str, filesystem: IsolatedMemoryFileSystem) -> str:
    """Return what became of a session with a flipped bit, having made sure that it is no lie."""
    try:
        log, recovered = SessionLog.open(filesystem, "s")
        outcome = "opened"
    except KaosmemError as refusal:
        outcome = type(refusal).__name__
        try:
            log, recovered = SessionLog.open(filesystem, "s", read_only=True)
        except KaosmemError as error:  # nothing can be served
            assert type(error) is type(refusal)
            return outcome
        assert recovered.damage, "read-only, and nothing is said to be missing"
    state = held(recovered)
    if state != life.states[-1]:
        assert recovered.damage, "another state, and nothing is said to be missing"
        if outcome == "opened":  # and may be written to
            assert state in life.states, "a state that never was"
        assert all(item in life.ever for item in state), "an item that never was"
        outcome += ", less, said"
    elif recovered.damage:
        outcome += ", whole, said"
    return f"{outcome}{check_archive(life, log)}" if path.startswith("archive/") else outcome


def check_archive(life: Life, log: SessionLog) -> str:
    refused = False
    try:
        assert list(log.archives.all()) == life.archive
    except CorruptionError:
        refused = True
    for section, data in life.archive:
        try:
            assert newest(log, data["id"]) == (section, data), (
                "another version, or none, of what is in the archive"
            )
        except CorruptionError:
            assert refused
    return ", archive refused" if refused else ""


def flip(life: Life, *, stride: int = 1) -> Counter[str]:
    outcomes: Counter[str] = Counter()
    for path, filesystem in islice(life.flipped(), None, None, stride):
        outcomes[f"{path.partition('/')[0]}: {check(life, path, filesystem)}"] += 1
    print(f"\n{outcomes.total():,} of {life.bits:,} bits flipped: {dict(outcomes.most_common())}")
    return outcomes


@cache
def small(snapshot: int | None) -> Life:
    return Life([1, 1, 2], snapshot=snapshot, chars=8)


@cache
def large(snapshot: int | None) -> Life:
    """50 records of about 300 bytes."""
    return Life([1, 1, 3, 1, 2, 1, 4, 1] * 3 + [2, 2, 1, 3], snapshot=snapshot, chars=180)


@pytest.mark.parametrize("snapshot", [None, 1], ids=["log", "snapshot"])
def test_no_flipped_bit_of_a_small_session_is_believed(snapshot):
    """A bit flipped is an error, is said, or changes nothing: never is another state taken for the right one."""
    life = small(snapshot)
    assert flip(life, stride=29).total() >= life.bits // 29  # all of them in a soak


@pytest.mark.soak
@pytest.mark.parametrize(
    ("make", "snapshot"), [(small, None), (small, 1), (large, None), (large, 14)]
)
def test_no_flipped_bit_at_all_is_believed(make, snapshot):
    """So it is with every bit of them, and of a log of 50 records with a snapshot in the middle."""
    life = make(snapshot)
    assert flip(life).total() == life.bits
