"""Writers of one session on an object store get their turns, whoever committed last."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kaosmem.errors import ConflictError
from kaosmem.persistence.log import SessionLog
from kaosmem.persistence.storage import line
from tests.persistence.worlds import Bucket, add, ids, started

WRITERS = 8
TURNS = 16


class Distant(Bucket):
    """A bucket whose answers take some milliseconds.

    A filesystem in memory may fail to list what another thread deletes, so it answers one at a time.
    """

    def __init__(self) -> None:
        super().__init__()
        self.rng = random.Random(7)
        self.lock = threading.RLock()

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **options: Any) -> None:
        self._wait()
        with self.lock:
            super().pipe_file(path, value, mode)

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **options: Any
    ) -> bytes:
        self._wait()
        with self.lock:
            return super().cat_file(path, start, end)

    def ls(self, path: str, detail: bool = True, **options: Any) -> Any:
        self._wait()
        with self.lock:
            return super().ls(path, detail)

    def rm_file(self, path: str) -> None:
        self._wait()
        with self.lock:
            super().rm_file(path)

    def _wait(self) -> None:
        time.sleep(self.rng.uniform(0.001, 0.003))


def commits_of_others(bucket: Bucket, name: str, *, reopens: bool) -> list[int]:
    """Take turns, and return for each how many commits others made until it was stored."""
    others = []
    log, _ = SessionLog.open(bucket, "s")
    for number in range(TURNS):
        if reopens:
            log.close()
            log, _ = SessionLog.open(bucket, "s")
        before = log.seq
        while True:
            try:
                log.commit([add(f"{name}-{number}")])
                break
            except ConflictError:
                log.adopt(log.catch_up())
        others.append(log.seq - before - 1)
    log.close()
    return others


@pytest.mark.parametrize("reopens", [False, True])
def test_a_writer_is_not_outrun_for_long(reopens, monkeypatch):
    """However many write, a commit waits for a few of each of the others, and leaves no ticket."""
    monkeypatch.setattr(line, "PAUSE_S", 0.002)
    bucket = Distant()
    started(bucket)
    names = [f"w{number}" for number in range(WRITERS)]
    with ThreadPoolExecutor(WRITERS) as pool:
        runs = [pool.submit(commits_of_others, bucket, name, reopens=reopens) for name in names]
    longest = max(max(run.result()) for run in runs)
    assert longest < 4 * WRITERS
    assert len(ids(SessionLog.open(bucket, "s")[1])) == WRITERS * TURNS
    assert [path for path in bucket.inner.store if "line" in path] == []


def test_a_ticket_of_a_dead_writer_is_waited_for_once(monkeypatch):
    """The next writer that meets it deletes it after a while, and commits."""
    monkeypatch.setattr(line, "MAX_STILL_S", 0.02)
    monkeypatch.setattr(line, "PAUSE_S", 0.01)
    bucket = Bucket()
    started(bucket, "a").close()
    for number in range(line.SERVED_AT_ONCE):
        bucket.pipe_file(f"default/s/log/.line-{1:020d}.jsonl-{number}", b"1")
    log, _ = SessionLog.open(bucket, "s")
    log.commit([add("b")])
    assert [path for path in bucket.inner.store if "line" in path] == []
    assert ids(SessionLog.open(bucket, "s")[1]) == ["a", "b"]


def test_a_writer_alone_asks_for_nothing_more(monkeypatch):
    """It looks for a line before every eighth commit, and stores no ticket."""
    bucket = Bucket()
    log = started(bucket, "a")
    listed: list[str] = []
    ls = bucket.ls
    monkeypatch.setattr(
        bucket, "ls", lambda path, detail=True, **_: listed.append(path) or ls(path)
    )
    for number in range(24):
        log.commit([add(f"b{number}")])
    assert len([path for path in listed if path.endswith("log")]) <= 3
    assert [path for path in bucket.puts if "line" in path] == []
