"""Whatever a session accepts it can read back, whichever arguments it was opened with."""

import asyncio
import tempfile
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from enum import IntEnum, StrEnum
from functools import partial
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem
from hypothesis import given
from hypothesis import strategies as st

from kaosmem import (
    BM25Ranker,
    InvalidArgumentError,
    KaosmemError,
    LinearRanker,
    SectionSpec,
    SessionMemory,
    SessionOptions,
)
from kaosmem.persistence.storage.objects import IsolatedMemoryFileSystem
from kaosmem.retrieval import GraphRanker, RankBM25Ranker
from kaosmem.stores import InMemoryFileStore, InMemoryLongTermMemory
from kaosmem.tokens.counters import EstimateCounter


class Nowhere(tzinfo):
    """A zone that says no offset, so that its times are naive."""

    def utcoffset(self, _):
        return None


class Moment(datetime):
    """A time of another class, as those of test tools and data frames are, with a text form of its own."""

    def isoformat(self, *_, **__):
        return "now"


class WithoutRules(tzinfo):
    """A zone that says only its offset."""

    def utcoffset(self, _):
        return timedelta(hours=1)


class Odd(IntEnum):
    ONE = 1


class Name(StrEnum):
    FIFO = "fifo"
    QUERY = "query"


class Counter:
    """A counter of any name that gives any answer."""

    additive = False

    def __init__(self, name, count):
        self.name = name
        self.count = count

    def __call__(self, _):
        return self.count


offsets = st.integers(-86_399, 86_399).map(lambda seconds: timedelta(seconds=seconds))
zones = st.sampled_from(
    [None, UTC, Nowhere(), WithoutRules(), ZoneInfo("Europe/Berlin")]
) | offsets.map(timezone)
moments = st.datetimes(timezones=zones).map(lambda time: Moment.combine(time.date(), time.timetz()))
times = (
    st.datetimes(timezones=zones)
    | moments
    | st.sampled_from([0.0, None, date(2024, 1, 1), "2024-01-01"])
)
clocks = (
    st.none()
    | times.map(lambda time: lambda: time)
    | st.sampled_from([datetime.now, date.today, 5, "now"])
)
counts = st.sampled_from(
    [0, 3, True, -1, 2.0, None, "3", np.int64(3), np.float32(1), Odd.ONE, 2**62, 2**63, 10**40]
)
names = st.sampled_from(["own", "", "estimate", "\ud800", "\0", None, 7, b"own"])
counters = (
    st.sampled_from([None, "estimate", "cl100k_base", "gpt-4o", "nothing", 5])
    | counts.map(lambda count: lambda _: count)
    | st.builds(Counter, names, counts)
)
rankers = st.sampled_from(
    [None, LinearRanker(), BM25Ranker(), RankBM25Ranker(), GraphRanker(), LinearRanker, "best"]
)
numbers = st.sampled_from(
    [0, 1, 50, True, 1.0, Odd.ONE, np.int64(5), 2**63, -1, None, "5", float("nan")]
)
shares = st.sampled_from([0, 1, 0.5, True, np.float64(0.5), np.float32(0.5), float("inf"), 2, None])
fields = {
    "budget": numbers,
    "priority": numbers,
    "floor": shares,
    "placement": st.sampled_from(["static", "history", "query", Name.QUERY, None, ["query"]]),
    "eviction": st.sampled_from(
        ["fifo", "lru", "priority", "none", "refuse", Name.FIFO, None, ["fifo"]]
    ),
    "retrieval_threshold": numbers,
    "recent": numbers,
    "recall": shares,
    "persistence": st.just("stream"),
    "max_items": numbers,
    "in_context": st.sampled_from([True, False, 1, None]),
    "ranker": rankers,
    "header": st.sampled_from([None, "", "Notes", "two\nlines", "\ud800", 5]),
    "provenance": st.sampled_from([True, False, 0]),
}
specs = st.fixed_dictionaries({}, optional=fields)
PLACES = {
    "folder": str,
    "path": Path,
    "URL of a folder": lambda folder: f"file://{folder}",
    "URL of objects": lambda folder: f"memory:/{folder}",
    "filesystem of a folder": lambda folder: DirFileSystem(path=folder, fs=LocalFileSystem()),
    "objects": lambda folder: IsolatedMemoryFileSystem(),
    "folder of objects": lambda folder: DirFileSystem(
        path="/sessions", fs=IsolatedMemoryFileSystem()
    ),
    "none": lambda folder: None,
    "bytes": str.encode,
    "class": lambda folder: LocalFileSystem,
}
places = st.sampled_from([*PLACES])


@given(places, clocks, counters, rankers, specs)
def test_whatever_is_saved_reopens(place, clock, counter, ranker, spec):
    """Arguments are refused by a typed error, or what was saved with them is read back as it was."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(
            _saved_and_reopened(
                PLACES[place](folder),
                spec,
                options=SessionOptions(clock=clock),
                counter=counter,
                ranker=ranker,
            )
        )


async def _saved_and_reopened(place, fields, **given):
    try:
        specs = [SectionSpec("notes", **fields)]
        async with SessionMemory.open(place, "s", sections=specs, **given) as memory:
            for number in range(3):
                memory.add("notes", f"note {number}", metadata={"number": number})
            memory.remove(memory.add("notes", "removed").id)
            held = list(memory["notes"])
    except KaosmemError:
        return
    for read_only in (False, True):
        async with SessionMemory.open(
            place, "s", sections=specs, read_only=read_only, **given
        ) as memory:
            assert list(memory["notes"]) == held
            assert not memory.damage


@pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow")  # a warning from Python 3.12 on
@pytest.mark.parametrize(
    "clock", [datetime.now, datetime.utcnow, date.today, partial(datetime, 2024, 1, 1), 1_700]
)
def test_a_time_without_a_zone_is_refused_at_once(clock, tmp_path):
    """A clock without a zone is refused before anything is stored, by an error that says which clock to give."""

    async def opened():
        async with SessionMemory.open(tmp_path / "root", options=SessionOptions(clock=clock)):
            pass

    for make in (
        lambda: SessionMemory.test_mode(options=SessionOptions(clock=clock)),
        partial(InMemoryLongTermMemory, clock=clock),
        partial(InMemoryFileStore, clock=clock),
        lambda: asyncio.run(opened()),
    ):
        with pytest.raises(InvalidArgumentError, match=r"use lambda: datetime\.now"):
            make()
    assert not (tmp_path / "root").exists()


def test_a_clock_that_loses_its_zone_later_is_refused_then():
    """Each time is checked when an item is made, and the refused item changes nothing."""
    times = [
        datetime(2024, 1, 1, tzinfo=UTC),
        datetime(2024, 1, 2, tzinfo=UTC),
        datetime(2024, 1, 3),
    ]
    memory = SessionMemory.test_mode(
        options=SessionOptions(clock=lambda: times.pop(0)), counter=EstimateCounter()
    )
    memory.add("findings", "kept")
    with pytest.raises(InvalidArgumentError):
        memory.add("findings", "refused")
    assert [item.text for item in memory["findings"]] == ["kept"]


async def test_all_archived_items_are_listed(tmp_path):
    """Evicted, replaced, updated and removed ones, of this process and of earlier ones, and no forgotten one."""
    specs = (SectionSpec("messages", 60, placement="history"), SectionSpec("findings"))
    left = set()
    for number in range(3):
        async with SessionMemory.open(tmp_path, sections=specs) as memory:
            for place in range(12):
                memory.add(
                    "messages", f"Message {number} {place} of the log", id=f"{number}.{place}"
                )
            home = memory.add("findings", f"home {number}", key="home", id=f"home {number}")
            memory.update(home.id, f"house {number}")
            memory.remove(memory.add("findings", f"note {number}", id=f"note {number}").id)
            left |= {f"home {number}", f"note {number}"} | ({f"house {number - 1}"} - {"house -1"})
            live = {item.text for item in memory["messages"]}
            listed = [item.text for item in await memory.archive.items()]
            assert len(listed) == len(set(listed)) == len(memory.archive)
            assert {text for text in listed if not text.startswith("Message")} == left
            assert {f"Message {number} {place} of the log" for place in range(12)} <= {
                *listed
            } | live
    async with SessionMemory.open(tmp_path, sections=specs) as memory:
        await memory.forget("1.3", "note 0")
        assert not {"1.3", "note 0"} & {item.id for item in await memory.archive.items()}
        assert len(memory.archive) == len(listed) - 2
