"""Reading files into a corpus with parallel workers, each of which writes what it has read."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, NamedTuple, TypeAlias

from kaosmem.arguments import check_count
from kaosmem.corpora.corpus import Corpus
from kaosmem.errors import DurabilityError, MissingExtraError
from kaosmem.ingest.files import Skipped, SourceFile, batches
from kaosmem.ingest.listing import (
    FileSelection,
    Location,
    corpus_label,
    find_files,
    nothing_to_ingest,
    places_of,
)
from kaosmem.ingest.passages import IngestReport, file_changes, read_passages
from kaosmem.session.ingestion import Progress

_BATCH_FILES = 64
_BATCH_BYTES = 2 * 1024 * 1024
_AT_ONCE = 256
"""So many batches wait for a worker or are read."""
_FIRST_COMPACTION = 64
_GROWTH = 3 / 2
"""Compaction follows the first batches, and again whenever there are so many times as many.

Questions slow down with each batch that is not merged, and each compaction costs as much as there
are passages.
"""
_TAKEN = "another place has this source"
_TAKEN_REMEDY = (
    "ingest a folder above both, give it a tenant of its own, or remove a source that moved"
)
_HELD = "another place has this file"
_HELD_REMEDY = "ingest the folder or file that it was read with"


class _Batch(NamedTuple):
    """The result of one batch: its files by what became of them, and the numbers of passages."""

    read: Sequence[str]
    skipped: Sequence[Skipped]
    added: int
    gone: int


_Submit: TypeAlias = Callable[[Corpus, Sequence[SourceFile], str], Future[_Batch]]


async def ingest_files(
    path_or_fs: Location,
    corpus: Corpus,
    *,
    choice: FileSelection | None = None,
    workers: int | None = None,
    ray: str | None = None,
    progress: Progress | None = None,
) -> IngestReport:
    """Bring a corpus up to date with a place, and report what was done.

    Files that are new or have changed are read, and sources whose files are gone are removed. A
    batch of files is written whole or not at all. After a kill, another call goes on where this one
    was. Sources of other places stay.

    Args:
        workers: Number of processes on this machine, 0 for this process alone. The default is the
            number of processors.
        ray: Address of a Ray cluster, whose workers read instead. They must reach the files and the
            corpus.
        progress: Called after each batch.

    Raises:
        MissingFileError: If there is nothing to read.
        MissingExtraError: If Ray is asked for and not installed.
        DurabilityError: If the corpus fails, or workers end again and again.
    """
    found, skipped = await asyncio.to_thread(find_files, path_or_fs, choice)
    label = corpus_label(path_or_fs)
    mark = f"@{label}"
    stamps = await corpus.sources()
    own = {
        source: stamp.removesuffix(mark) for source, stamp in stamps.items() if stamp.endswith(mark)
    }
    others = stamps.keys() - own.keys()
    marks = {(stamps[source].rpartition("@")[2], source) for source in others}
    free = []
    for file in found:
        if file.source in others:
            skipped.append(Skipped(file.source, _TAKEN, _TAKEN_REMEDY))
        elif marks and not marks.isdisjoint(places_of(file)):
            skipped.append(Skipped(file.source, _HELD, _HELD_REMEDY))
        else:
            free.append(file)
    todo = file_changes(free, own, skipped)
    vanished = await corpus.replace(todo.vanished, ())
    with _workers(workers, ray) as submit:
        done = await _Reader(corpus, label, submit).read([*todo.new, *todo.changed], progress)
    was_read: set[str] = set()
    for batch in done:
        was_read.update(batch.read)
        skipped += batch.skipped
    removed = vanished.gone + sum(batch.gone for batch in done)
    # An earlier run may have been killed before its terms were counted.
    if was_read or removed or not (await corpus.statistics()).entries:
        await corpus.compact()

    def sources_of(files: Sequence[SourceFile]) -> tuple[str, ...]:
        return tuple(file.source for file in files if file.source in was_read)

    report = IngestReport(
        new=sources_of(todo.new),
        changed=sources_of(todo.changed),
        unchanged=tuple(file.source for file in todo.unchanged),
        vanished=todo.vanished,
        skipped=tuple(sorted(skipped)),
        items_added=sum(batch.added for batch in done),
        items_removed=removed,
    )
    if not (own or report.new):
        raise nothing_to_ingest(path_or_fs, report.skipped)
    return report


class _Reader(NamedTuple):
    """Reads files into a corpus.

    Attributes:
        submit: Lets a worker read a batch.
    """

    corpus: Corpus
    label: str
    submit: _Submit

    async def read(self, files: Sequence[SourceFile], progress: Progress | None) -> list[_Batch]:
        """Read files in batches, and compact the corpus now and then. Return what was written."""
        is_free = asyncio.Semaphore(_AT_ONCE)
        done: list[_Batch] = []
        number = 0
        next_compaction = _FIRST_COMPACTION

        async def take(batch: Sequence[SourceFile]) -> None:
            nonlocal number, next_compaction
            async with is_free:
                done.append(await self._batch(batch))
            number += len(batch)
            if progress:
                progress(batch[-1].source, number, len(files))
            if len(done) >= next_compaction:
                next_compaction = int(len(done) * _GROWTH)
                await self.corpus.compact(counts=False)

        try:
            async with asyncio.TaskGroup() as group:
                for batch in batches(files, _BATCH_FILES, _BATCH_BYTES):
                    group.create_task(take(batch))
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None
        return done

    async def _batch(self, files: Sequence[SourceFile]) -> _Batch:
        written = asyncio.wrap_future(self.submit(self.corpus, files, self.label))
        written.add_done_callback(_take_error)
        try:
            # A pool whose worker was killed cannot stand a future that was cancelled.
            return await asyncio.shield(written)
        except BrokenProcessPool:
            raise DurabilityError(
                f"a worker was killed while {files[0].source!r} and others were read; ingest "
                "again: it goes on. With fewer workers each one has more memory"
            ) from None


@contextmanager
def _workers(number: int | None, ray: str | None) -> Iterator[_Submit]:
    """Give a function that lets a worker read a batch."""
    if ray is not None:
        cluster = _ray()
        cluster.init(ray, log_to_driver=False, ignore_reinit_error=True)
        remote = cluster.remote(read_batch)
        try:
            yield lambda *given: remote.remote(*given).future()
        finally:
            cluster.shutdown()
        return
    if number is not None:
        check_count(number, "workers")
    pool: Executor = ThreadPoolExecutor(1)
    read = _read_here
    if number != 0:
        pool = ProcessPoolExecutor(number, multiprocessing.get_context("spawn"))
        read = read_batch
    try:
        yield lambda *given: pool.submit(read, *given)
    finally:
        pool.shutdown(cancel_futures=True)


def _take_error(written: asyncio.Future[_Batch]) -> None:
    """Take the error of a batch that nobody waits for any more, so that asyncio logs none."""
    if not written.cancelled():
        written.exception()


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError(
            "a Ray cluster needs the extra 'ray': pip install 'kaosmem[ray]'"
        ) from error
    return ray


def read_batch(
    corpus: Corpus,
    files: Sequence[SourceFile],
    label: str,
) -> _Batch:
    """Read a batch in a worker, whose corpus is a copy for this batch alone, and close that."""

    async def take() -> _Batch:
        try:
            return await _take(corpus, files, label)
        finally:
            await corpus.close()

    return asyncio.run(take())


def _read_here(
    corpus: Corpus,
    files: Sequence[SourceFile],
    label: str,
) -> _Batch:
    return asyncio.run(_take(corpus, files, label))


async def _take(
    corpus: Corpus,
    files: Sequence[SourceFile],
    label: str,
) -> _Batch:
    """Read files and put their passages in place of those that their sources have."""
    skipped: list[Skipped] = []
    passages: list[dict[str, Any]] = []
    read = []
    for reading in read_passages(files):
        skipped += reading.skipped
        if reading.is_read:
            read.append(reading.file.source)
        stamp = {"file": f"{reading.file.stamp}@{label}"}
        passages += [
            {**asdict(each), "metadata": each.metadata | stamp} for each in reading.passages
        ]
    gone = 0
    if read:
        gone = (await corpus.replace(read, passages)).gone
    return _Batch(read, skipped, len(passages), gone)
