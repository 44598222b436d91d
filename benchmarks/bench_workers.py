"""Workers that take turns on the same sessions: is every window right, and how many turns do they take together.

A turn opens a session (or reads a thread), adds a question, makes a window, adds an answer and saves. Each worker is a
process. Every turn takes one of a few sessions at random, so that workers meet.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from multiprocessing.connection import Connection, wait
from pathlib import Path
from statistics import median
from time import monotonic
from typing import Any, NamedTuple, TypeAlias

import pytest
from fsspec.implementations.dirfs import DirFileSystem

from benchmarks.corpus import seeded_texts
from kaosmem import ChatMessage, SectionSpec, SessionMemory
from kaosmem.backends.sqlite.database import SqliteDatabase
from kaosmem.backends.sqlite.stores import SqliteHistoryProvider
from kaosmem.compaction import SlidingWindowCompaction
from kaosmem.context import AgentContext, ContextConfig
from tests.many_writers import processes
from tests.servers import postgres_server, redis_server, s3_server

WORKERS, SESSIONS, TURNS = 4, 5, 200
WORDS = 40
BUDGET = 1_000_000  # so that every window shows the whole conversation
SECTIONS = (SectionSpec("messages", placement="history"),)

Take: TypeAlias = Callable[[str, str, str], Awaitable[list[str]]]
"""Takes a turn: the session, a question and an answer. Returns the texts of the window."""


class Turn(NamedTuple):
    """A turn that was acknowledged.

    seen: the names of the messages of its window. The times are of one clock.
    """

    place: int
    session: int
    name: str
    began: float
    ended: float
    seen: list[str]

    @property
    def messages(self) -> list[str]:
        return [f"{self.name}.question", f"{self.name}.answer"]


class Place(NamedTuple):
    """Where sessions are kept.

    Other processes open it by its kind and by what it is called there.
    """

    kind: str
    where: Any


@contextmanager
def places(folder: Path) -> Iterator[dict[str, Callable[[str], Place]]]:
    """Run servers; yield how an empty place is made of a name, for each store."""
    with ExitStack() as running:
        s3 = running.enter_context(s3_server())
        s3.filesystem().mkdir("workers")
        postgres = running.enter_context(postgres_server())
        redis = running.enter_context(redis_server())
        yield {
            "session in a folder": lambda name: Place("sessions", str(folder / name)),
            "session on S3": lambda name: Place(
                "sessions", DirFileSystem(f"workers/{name}", s3.filesystem())
            ),
            "thread in SQLite": lambda name: Place("sqlite", str(folder / f"{name}.sqlite")),
            "thread in PostgreSQL": lambda name: Place("postgres", (postgres, name)),
            "thread in Valkey": lambda name: Place("redis", (redis, name)),
        }


@asynccontextmanager
async def opened(place: Place) -> AsyncIterator[Take]:
    """Open a place as a worker does when it starts."""
    if place.kind == "sessions":
        yield _on_sessions(place.where)
        return
    database, history = _database(place)
    async with database:
        yield _on_threads(history)


def _database(place: Place) -> tuple[Any, Any]:
    """Return a database of a few connections, and a history in it."""
    if place.kind == "sqlite":
        sqlite = SqliteDatabase(place.where)
        return sqlite, SqliteHistoryProvider(sqlite)
    url, name = place.where
    if place.kind == "postgres":
        from kaosmem.backends.postgres import PostgresDatabase, PostgresHistoryProvider

        postgres = PostgresDatabase(url, schema=name, max_connections=2)
        return postgres, PostgresHistoryProvider(postgres)
    from kaosmem.backends.redis import RedisDatabase, RedisHistoryProvider

    redis = RedisDatabase(url, tenant=name, max_connections=2)
    return redis, RedisHistoryProvider(redis)


def _on_sessions(root: Any) -> Take:
    async def take(session: str, question: str, answer: str) -> list[str]:
        async with SessionMemory.open(
            root, session, sections=SECTIONS, counter="estimate"
        ) as memory:
            memory.add("messages", question, role="user")
            context = await memory.assemble_context(budget=BUDGET, format="openai")
            memory.add("messages", answer, role="assistant")
        return [str(message["content"]) for message in context.messages]

    return take


def _on_threads(history: Any) -> Take:
    agent = AgentContext(
        ContextConfig(history, SlidingWindowCompaction(BUDGET)), "agent", counter="estimate"
    )

    async def take(session: str, question: str, answer: str) -> list[str]:
        await agent.append([ChatMessage("user", question)], session)
        window = await agent.get_prompt_window(session)
        await agent.append([ChatMessage("assistant", answer)], session)
        return [message.text for message in window]

    return take


def work(
    tell: Callable[[Any], None], places: list[Place], worker: int, turns: int, sessions: int
) -> None:
    """Take turns on the sessions of each place, and tell each as a Turn."""
    rng = random.Random(worker)
    texts = seeded_texts(turns, seed=worker, words=WORDS)

    async def run() -> None:
        async with AsyncExitStack() as stack:
            takes = [await stack.enter_async_context(opened(place)) for place in places]
            for number, text in enumerate(texts):
                place = rng.randrange(len(places))
                session = rng.randrange(sessions)
                name = f"{worker}.{number}"
                began = monotonic()
                window = await takes[place](
                    f"s{session}", f"#{name}.question {text}", f"#{name}.answer {text}"
                )
                tell(Turn(place, session, name, began, monotonic(), names_in(window)))

    asyncio.run(run())


def names_in(texts: list[str]) -> list[str]:
    """Return the names of the messages in texts, in their order."""
    return re.findall(r"#(\S+)", "\n".join(texts))


def taken(
    places: list[Place],
    workers: int,
    turns: int,
    sessions: int,
    tell: Callable[[], object] = lambda: None,
) -> list[Turn]:
    """Let workers share some turns, from one moment on; return the turns.

    tell: is called for each of them.
    """
    found: list[Turn] = []
    with processes(
        work, *((places, worker, turns // workers, sessions) for worker in range(workers))
    ) as heard:
        working: list[Connection] = [*heard]
        while working:
            for receiver in wait(working):
                assert isinstance(receiver, Connection)
                try:
                    found.append(receiver.recv())
                except EOFError:
                    working.remove(receiver)
                else:
                    tell()
    return found


def stored(places: list[Place], sessions: int) -> dict[tuple[int, int], list[str]]:
    """Return the names of the messages of each session of each place, as one more turn sees them."""

    async def of(place: Place) -> list[list[str]]:
        async with opened(place) as take:
            return [names_in(await take(f"s{session}", "?", "!")) for session in range(sessions)]

    found = [asyncio.run(of(place)) for place in places]
    return {
        (place, session): names
        for place, each in enumerate(found)
        for session, names in enumerate(each)
    }


def check(turns: list[Turn], final: Mapping[tuple[int, int], list[str]]) -> None:
    """Check that nothing is lost and nothing is there twice, and that each window was right.

    A window is right if it shows, in their final order, the first messages of its session and none
    besides: all that were acknowledged before the turn began, and the turn's own question.
    """
    for session, names in final.items():
        of_session = [turn for turn in turns if (turn.place, turn.session) == session]
        assert sorted(names) == sorted(name for turn in of_session for name in turn.messages)
        for turn in of_session:
            others = [name for name in names if name not in turn.messages]
            seen = [name for name in turn.seen if name not in turn.messages]
            assert seen == others[: len(seen)]
            assert turn.messages[0] in turn.seen
            before = {
                name for other in of_session if other.ended < turn.began for name in other.messages
            }
            assert before <= {*seen}


class Figures(NamedTuple):
    """Turns in a second, and the median and the longest time of a turn in ms."""

    per_s: float
    median_ms: float
    longest_ms: float


def measured(turns: list[Turn]) -> Figures:
    began = min(turn.began for turn in turns)
    ended = max(turn.ended for turn in turns)
    took_ms = [(turn.ended - turn.began) * 1_000 for turn in turns]
    return Figures(len(turns) / (ended - began), median(took_ms), max(took_ms))


@pytest.fixture(scope="module")
def everywhere(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[dict[str, Callable[[str], Place]]]:
    with places(tmp_path_factory.mktemp("workers")) as found:
        yield found


def test_windows_of_workers_that_share_sessions_are_right(
    everywhere: dict[str, Callable[[str], Place]],
) -> None:
    """Two processes take turns on one session of each store."""
    places = [make("few") for make in everywhere.values()]
    turns = taken(places, 2, 60, 1)
    assert len(turns) == 60
    check(turns, stored(places, 1))


def test_the_check_finds_faults() -> None:
    """A lost or doubled message, and a window that lacks an acknowledged one or shows another order."""
    first = Turn(0, 0, "a", 0, 1, ["a.question"])
    second = Turn(0, 0, "b", 2, 3, ["a.question", "a.answer", "b.question"])
    whole = [*first.messages, *second.messages]
    check([first, second], {(0, 0): whole})
    for names in (whole[1:], [*whole, whole[0]], [whole[1], whole[0], *whole[2:]]):
        with pytest.raises(AssertionError):
            check([first, second], {(0, 0): names})
    for seen in (
        [],
        ["b.question"],
        ["a.question", "b.question"],
        ["a.answer", "a.question", "b.question"],
    ):
        with pytest.raises(AssertionError):
            check([first, second._replace(seen=seen)], {(0, 0): whole})


@pytest.mark.timed
def test_throughput_of_workers(
    everywhere: dict[str, Callable[[str], Place]], capsys: pytest.CaptureFixture[str]
) -> None:
    """On every store, the same turns by one worker and by several; each window is checked."""
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table

    table = Table(
        title=f"{TURNS} turns on {SESSIONS} sessions, workers that open a session for each turn"
    )
    for title in (
        "store",
        "workers",
        "turns/s",
        "of one worker",
        "median, ms",
        "longest, ms",
        "lost",
        "wrong windows",
    ):
        table.add_column(title, justify="left" if title == "store" else "right")
    with capsys.disabled():
        console = Console()
        with Progress(console=console, transient=True) as progress:
            for store, make in everywhere.items():
                alone = 0.0
                for workers in (1, 2, WORKERS):
                    task = progress.add_task(f"{store}, {workers} workers", total=TURNS)
                    places = [make(f"by_{workers}")]
                    turns = taken(
                        places, workers, TURNS, SESSIONS, lambda task=task: progress.advance(task)
                    )  # type: ignore[misc]
                    check(turns, stored(places, SESSIONS))
                    found = measured(turns)
                    alone = alone or found.per_s
                    times = f"{found.per_s / alone:.2f} x"
                    row = (
                        f"{found.per_s:.0f}",
                        times,
                        f"{found.median_ms:.1f}",
                        f"{found.longest_ms:.0f}",
                        "0",
                        "0",
                    )
                    table.add_row(store, str(workers), *row)
                    progress.remove_task(task)
        console.print(table)
