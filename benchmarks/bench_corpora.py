"""A corpus in an engine: ingestion, memory, questions on disk and on S3, changes and erasure.

    KAOSMEM_DATA=FOLDER python -m benchmarks.bench_corpora --passages 10000000 --words 60 --folder FOLDER
    KAOSMEM_DATA=FOLDER python -m benchmarks.bench_corpora --passages 1000000 --words 60 --folder FOLDER --keep --s3
    KAOSMEM_DATA=FOLDER python -m benchmarks.bench_corpora --passages 100000 --words 60 --postgres

A run in a folder goes on where an earlier one was killed: `FOLDER.json` has the times so far. It
stops where the folder takes more than `--max-gb`. A folder that is complete is asked at once, so
the second command measures S3 anew without an ingestion.

The passages are real texts of `--words` words. Where there are too few, further copies have other
numbers and names. Questions are 8 words of a text, common ones included. Each part runs in a process
of its own, whose memory is told. `--postgres` starts a server here. `--s3` copies the corpus to an
S3 server of its own here, and counts requests; `--delay-ms` lets each answer of that server be late,
as those of a distant one are.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import random
import re
import resource
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager
from functools import cache, partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

import psycopg

from benchmarks.corpus import real_texts, seeded_texts
from benchmarks.counted_requests import Counts, counted
from kaosmem import SessionMemory
from kaosmem.corpora import Corpus, CorpusSource, LanceCorpus, PgCorpus
from kaosmem.language.analysis import analyze

T = TypeVar("T")

_BATCH = 5_000
_PER_SOURCE = 50
_MIN_COMPACTED = 200_000
_COMPACTIONS = 5
"""An ingestion is compacted so often, but never after fewer than `_MIN_COMPACTED` passages."""
_KEEP_S = 1.0
"""Older versions take disk: each compaction gives them up."""
_WARMING = 3
"""The first questions open files, and do not count."""
_NAME = re.compile(r"\b[A-Z][a-z]+\b")
_NUMBER = re.compile(r"\d+")


@cache
def texts_of(words: int) -> tuple[str, ...]:
    """Return the real texts, or seeded ones where there is no data."""
    return tuple(real_texts(words=words) or seeded_texts(20_000, words=words))


@cache
def _names(words: int) -> dict[str, int]:
    """Return the capitalised words of all texts, each with its place."""
    found = {name for text in texts_of(words) for name in _NAME.findall(text)}
    return {name: place for place, name in enumerate(sorted(found))}


@cache
def _names_in_order(words: int) -> tuple[str, ...]:
    return tuple(_names(words))


def varied(text: str, copy: int, words: int) -> str:
    """Return a text with other names and numbers, the same for the same copy."""
    if not copy:
        return text
    names = _names(words)
    ordered = _names_in_order(words)

    def name(match: re.Match[str]) -> str:
        return ordered[(names[match[0]] + 7_919 * copy) % len(ordered)]

    def number(match: re.Match[str]) -> str:
        digest = blake2b(f"{copy} {match[0]}".encode(), digest_size=8).digest()
        return str(int.from_bytes(digest) % 10 ** len(match[0]))

    return _NUMBER.sub(number, _NAME.sub(name, text))


def passages(start: int, stop: int, words: int) -> Iterator[dict[str, Any]]:
    """Yield the passages of some places, fifty a source."""
    texts = texts_of(words)
    for place in range(start, stop):
        copy, at = divmod(place, len(texts))
        source = f"file-{place // _PER_SOURCE}.md"
        text = varied(texts[at], copy, words)
        yield {"id": f"{source}#{place}", "source": source, "text": text}


def write(corpus: Corpus, start: int, stop: int, words: int) -> int:
    """Write the passages of some places in a worker; return its peak memory in bytes."""
    batch = list(passages(start, stop, words))
    sources = {each["source"]: None for each in batch}
    asyncio.run(closing(corpus, corpus.replace(list(sources), batch)))
    return peak_bytes()


def cpu_s() -> float:
    """Return the seconds of CPU of this process and of those that it has waited for."""
    used = 0.0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        times = resource.getrusage(who)
        used += times.ru_utime + times.ru_stime
    return used


def peak_bytes() -> int:
    """Return the most memory that this process has had, as Linux tells it."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return 1_024 * int(line.split()[1])
    return 1_024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


class Progress:
    """The times of an ingestion, which a later run adds to.

    Args:
        file: Keeps them. None keeps nothing.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        is_begun = file is not None and file.exists()
        self.figures: dict[str, float] = json.loads(file.read_text()) if file and is_begun else {}
        self._wall = time.perf_counter()
        self._cpu = cpu_s()

    def add(self, name: str, memory: float = 0.0) -> None:
        """Add the seconds since the last call to a part."""
        wall = time.perf_counter()
        cpu = cpu_s()
        for kind, used in (("s", wall - self._wall), ("cpu_s", cpu - self._cpu)):
            self.figures[f"{name}_{kind}"] = self.figures.get(f"{name}_{kind}", 0.0) + used
        self.figures["writer_mb"] = max(self.figures.get("writer_mb", 0.0), memory / 1e6)
        self._wall = wall
        self._cpu = cpu
        if self._file is not None:
            self._file.write_text(json.dumps(self.figures))


async def ingest(corpus: Corpus, given: argparse.Namespace) -> dict[str, float]:
    """Add the passages that are missing by some processes, and compact them; return the times."""
    number = given.passages
    progress = Progress(given.folder and given.folder.with_suffix(".json"))
    every = max(_MIN_COMPACTED, number // _COMPACTIONS)
    for part in range(0, number, every):
        end = min(part + every, number)
        # A batch is one version, so its last passage tells whether all of it is there.
        starts = {}
        for at in range(part, end, _BATCH):
            last = min(at + _BATCH, end) - 1
            starts[f"file-{last // _PER_SOURCE}.md#{last}"] = at
        there = {each.id for each in await corpus.get([*starts])}
        missing = [at for passage_id, at in starts.items() if passage_id not in there]
        if not missing:
            continue
        await _write_all(corpus, missing, end, given, progress)
        await corpus.compact(keep_s=_KEEP_S, counts=end == number)
        progress.add("compacted")
        check_size(given.folder, given.max_gb)
        print(json.dumps(rounded({"passages": end, **progress.figures})), flush=True)
    return {**progress.figures, "compacting_client_mb": peak_bytes() / 1e6}


async def _write_all(
    corpus: Corpus,
    starts: Sequence[int],
    end: int,
    given: argparse.Namespace,
    progress: Progress,
) -> None:
    """Write batches by some processes."""
    waiting: set[asyncio.Future[int]] = set()
    left = [*starts]
    with processes(given.writers) as pool:
        while left or waiting:
            while left and len(waiting) <= given.writers:
                start = left.pop(0)
                stop = min(start + _BATCH, end)
                work = pool.submit(write, corpus, start, stop, given.words)
                waiting.add(asyncio.wrap_future(work))
            ready, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            progress.add("added", max(task.result() for task in ready))
    progress.add("added")


def check_size(folder: Path | None, max_gb: float) -> None:
    """End the run if the folder takes more than it may."""
    size = sizes(folder).get("megabytes", 0.0) / 1e3
    if size > max_gb:
        raise SystemExit(f"{folder} takes {size:.1f} GB; give more by --max-gb, and it goes on")


def processes(number: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(number, multiprocessing.get_context("spawn"))


def queries(words: int, number: int) -> list[str]:
    rng = random.Random(0)
    found = []
    for _ in range(number):
        text = rng.choice(texts_of(words)).split()
        found.append(" ".join(rng.sample(text, min(8, len(text)))))
    return found


async def questions(corpus: Corpus, asked: Sequence[str]) -> dict[str, float]:
    """Return milliseconds of the engine's candidates alone, and of contexts of 4,000 tokens."""
    memory = SessionMemory.test_mode()
    await memory.attach(CorpusSource(corpus))
    proposed = []
    packed = []
    analyze("Load what the analysis needs.")
    opened = peak_bytes()
    cpu_begin = cpu_s()
    for query in asked:
        begin = time.perf_counter()
        await corpus.candidates(analyze(query))
        middle = time.perf_counter()
        context = await memory.assemble_context(query, budget=4_000)
        assert context.items
        proposed.append(middle - begin)
        packed.append(time.perf_counter() - middle)
    figures = {"first_ms": 1_000 * proposed[0]}
    for name, times in (("candidates", proposed), ("context", packed)):
        ordered = sorted(times[_WARMING:]) or times
        figures[f"{name}_p50_ms"] = 1_000 * ordered[len(ordered) // 2]
        figures[f"{name}_p95_ms"] = 1_000 * ordered[int(0.95 * (len(ordered) - 1))]
    figures["cpu_ms_a_question"] = 1_000 * (cpu_s() - cpu_begin) / len(asked)
    figures["client_mb"] = peak_bytes() / 1e6
    figures["client_before_mb"] = opened / 1e6
    return figures


def ask(corpus: Corpus, asked: Sequence[str]) -> dict[str, float]:
    """Return the figures of questions that this process asks."""
    return asyncio.run(closing(corpus, questions(corpus, asked)))


async def closing(corpus: Corpus, work: Awaitable[T]) -> T:
    """Return the result of some work, after which this process needs the corpus no more."""
    try:
        return await work
    finally:
        await corpus.close()


async def in_process(work: Callable[..., Any], *given: Any) -> Any:
    """Return the result of a new process."""
    with processes(1) as pool:
        return await asyncio.wrap_future(pool.submit(work, *given))


async def changes(corpus: Corpus, *, erases: bool) -> dict[str, float]:
    """Return the seconds until an added passage is found, a removed one is gone, one is erased."""
    new = {"id": "new", "source": "new.md", "text": "The zyxword was never said before."}
    await corpus.candidates(analyze("Open what a question needs."))
    begin = time.perf_counter()
    await corpus.add([new])
    (found,) = (await corpus.candidates(analyze("zyxword"))).found
    assert found.id == "new"
    visible = time.perf_counter()
    await corpus.remove("new.md")
    assert not (await corpus.candidates(analyze("zyxword"))).found
    figures = {"visible_s": visible - begin, "removed_s": time.perf_counter() - visible}
    if erases:
        begin = time.perf_counter()
        cpu_begin = cpu_s()
        erased = await corpus.erase("file-0.md", alone=True)
        figures["erased_s"] = time.perf_counter() - begin
        figures["erased_cpu_s"] = cpu_s() - cpu_begin
        assert erased.gone == _PER_SOURCE
    return figures


def change(corpus: Corpus, erases: bool) -> dict[str, float]:
    """Return the figures of changes that this process makes."""
    figures = asyncio.run(closing(corpus, changes(corpus, erases=erases)))
    return {**figures, "changing_client_mb": peak_bytes() / 1e6}


@asynccontextmanager
async def on_s3(folder: Path, delay_s: float) -> AsyncIterator[tuple[LanceCorpus, Counts]]:
    """Give the corpus of a folder on an S3 server of this machine, and the counts of requests."""
    from tests.servers import s3_server

    with s3_server() as s3:
        filesystem = s3.filesystem()
        filesystem.makedirs("corpora")
        await asyncio.to_thread(filesystem.put, f"{folder}/", "corpora/bench/", recursive=True)
        with counted(s3.url.removeprefix("http://"), delay_s=delay_s) as counts:
            options = {
                "aws_access_key_id": s3.key,
                "aws_secret_access_key": s3.secret,
                "region": "us-east-1",
                "endpoint": f"http://127.0.0.1:{counts.port}",
                "allow_http": "true",
            }
            yield LanceCorpus("s3://corpora/bench", storage_options=options, timeout_s=300), counts


async def remote_figures(
    folder: Path, words: int, asked: int, delay_s: float, change_too: bool
) -> dict[str, Any]:
    """Return times, and requests and bytes of a cold client, of each question and of a change."""
    async with on_s3(folder, delay_s) as (corpus, counts):
        figures: dict[str, Any] = {}
        chosen = queries(words, asked + _WARMING)
        figures["cold"] = await counts.during(in_process(ask, corpus, chosen[:_WARMING]))
        both = await counts.during(in_process(ask, corpus, chosen))
        for name in ("gets", "puts", "others", "megabytes"):
            both[f"{name}_a_question"] = (both.pop(name) - figures["cold"][name]) / asked
        figures["questions"] = both
        if change_too:
            figures["change"] = await counts.during(in_process(change, corpus, False))
        return figures


async def run(given: argparse.Namespace, url: str = "") -> dict[str, Any]:
    """Return the figures of one size, in a folder or on a PostgreSQL server."""
    number = given.passages
    corpus: Corpus
    if url:
        corpus = PgCorpus(url, timeout_s=1_200)
    else:
        given.folder.mkdir(parents=True, exist_ok=True)
        corpus = LanceCorpus(given.folder, timeout_s=1_200)
    figures: dict[str, Any] = {"passages": number, "words": given.words}
    figures["real_texts"] = len(texts_of(given.words))
    if (await corpus.statistics()).entries < number:
        figures |= await ingest(corpus, given)
        print(json.dumps(rounded(figures)), flush=True)
    figures |= sizes(given.folder)
    asked = queries(given.words, given.questions + _WARMING)
    figures["local"] = await in_process(ask, corpus, asked)
    print(json.dumps(rounded(figures)), flush=True)
    if given.s3:
        remote = partial(remote_figures, given.folder, given.words, given.questions)
        figures["s3"] = await remote(given.delay_ms / 1_000, True)
    figures["local"] |= await in_process(change, corpus, not given.keep)
    if not given.keep:
        figures["newest_version"] = sizes(given.folder)
    return figures


def sizes(folder: Path | None) -> dict[str, float]:
    """Return the number of files of a corpus, and their megabytes."""
    if folder is None:
        return {}
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {"files": len(files), "megabytes": sum(path.stat().st_size for path in files) / 1e6}


def rounded(value: Any) -> Any:
    """Return figures with three significant digits."""
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    return float(f"{value:.3g}") if isinstance(value, float) else value


def parsed(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--passages", type=int, default=10_000)
    add("--words", type=int, default=120)
    add("--questions", type=int, default=60)
    add("--writers", type=int, default=min(2, os.cpu_count() or 1))
    add("--folder", type=Path)
    add("--max-gb", type=float, default=20.0, help="the folder's size, checked at each compaction")
    add("--postgres", action="store_true", help="in a server of its own here")
    add("--s3", action="store_true")
    add("--delay-ms", type=float, default=0.0)
    add("--keep", action="store_true", help="erase nothing")
    return parser.parse_args(arguments)


def main(show: Callable[[str], None] = print) -> None:
    given = parsed()
    if given.postgres:
        from tests.servers import postgres_server

        with postgres_server() as url:
            figures = asyncio.run(run(given, url))
            with psycopg.connect(url) as connection:
                query = "SELECT pg_database_size(current_database())"
                ((size,),) = connection.execute(query).fetchall()
            figures["database_mb"] = size / 1e6
    else:
        figures = asyncio.run(run(given))
    show(json.dumps(rounded(figures) | {"cores": os.cpu_count()}, indent=2))


if __name__ == "__main__":
    main()
