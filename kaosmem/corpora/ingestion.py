"""Reading files into a corpus with parallel workers, each of which writes what it has read."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from kaosmem.arguments import check_count
from kaosmem.corpora.corpus import Corpus
from kaosmem.errors import DurabilityError, MissingExtraError
from kaosmem.ingest.files import Skipped, SourceFile
from kaosmem.ingest.listing import Choice, corpus_label, find_files, nothing_to_ingest
from kaosmem.ingest.passages import IngestReport, Passage, changes, read_passages

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with a source that was read, the number of files read so far, and of those to read."""

_BATCH_FILES = 64
_BATCH_BYTES = 2 * 1024 * 1024
_COMPACTED_EVERY = 64
"""Compaction follows so many batches, as questions slow down with each one that is not merged."""


class _Batch(NamedTuple):
    """The result of one batch: its files by what became of them, and the numbers of passages."""

    read: Sequence[str]
    skipped: Sequence[Skipped]
    added: int
    gone: int


_Read: TypeAlias = Callable[[Sequence[SourceFile]], Awaitable[_Batch]]


async def ingest_files(
    path_or_fs: str | os.PathLike[str] | AbstractFileSystem,
    corpus: Corpus,
    *,
    choice: Choice | None = None,
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
    stamps = await corpus.sources()
    own = {}
    for source, stamp in stamps.items():
        if stamp.endswith(f"@{label}"):
            own[source] = stamp.removesuffix(f"@{label}")
    taken = stamps.keys() - own.keys()
    todo = changes((file for file in found if file.source not in taken), own)
    done: list[_Batch] = []
    if todo.vanished:
        done.append(_Batch((), (), 0, (await corpus.replace(todo.vanished, ())).gone))
    async with _reader(corpus, label, workers, ray) as (read, at_once):
        await _read_all([*todo.new, *todo.changed], read, at_once, corpus, done, progress)
    if any(batch.read or batch.gone for batch in done):
        await corpus.compact()
    was_read = {source for batch in done for source in batch.read}
    skipped += [
        Skipped(file.source, _TAKEN, _TAKEN_REMEDY) for file in found if file.source in taken
    ]
    for batch in done:
        skipped += batch.skipped
    report = IngestReport(
        new=tuple(file.source for file in todo.new if file.source in was_read),
        changed=tuple(file.source for file in todo.changed if file.source in was_read),
        unchanged=tuple(file.source for file in todo.unchanged),
        vanished=todo.vanished,
        skipped=tuple(sorted(skipped)),
        items_added=sum(batch.added for batch in done),
        items_removed=sum(batch.gone for batch in done),
    )
    if not (own or report.new):
        raise nothing_to_ingest(path_or_fs, report.skipped)
    return report


_TAKEN = "another place has this source"
_TAKEN_REMEDY = "ingest a folder above both, or give it a tenant of its own"


async def _read_all(
    files: Sequence[SourceFile],
    read: _Read,
    at_once: int,
    corpus: Corpus,
    done: list[_Batch],
    progress: Progress | None,
) -> None:
    """Read all files in batches, so many at once, and compact the corpus now and then."""
    is_free = asyncio.Semaphore(at_once)
    number = 0

    async def take(batch: Sequence[SourceFile]) -> None:
        nonlocal number
        async with is_free:
            done.append(await read(batch))
        number += len(batch)
        if progress:
            progress(batch[-1].source, number, len(files))
        if len(done) % _COMPACTED_EVERY == 0:
            await corpus.compact(counts=False)

    try:
        async with asyncio.TaskGroup() as group:
            for batch in _batches(files):
                group.create_task(take(batch))
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None


@asynccontextmanager
async def _reader(
    corpus: Corpus, label: str, workers: int | None, ray: str | None
) -> AsyncIterator[tuple[_Read, int]]:
    """Give a function that reads a batch in a worker, and how many may be at work at once."""
    if ray is not None:
        cluster = _ray()
        cluster.init(ray, log_to_driver=False, ignore_reinit_error=True)
        remote = cluster.remote(read_batch)
        at_once = 2 * max(1, int(cluster.cluster_resources().get("CPU", 1)))
        try:
            yield (lambda files: remote.remote(corpus, files, label)), at_once
        finally:
            cluster.shutdown()
        return
    number = (os.cpu_count() or 1) if workers is None else check_count(workers, "workers")
    if not number:
        yield (lambda files: _take(corpus, files, label)), 1
        return
    with ProcessPoolExecutor(number, multiprocessing.get_context("spawn")) as pool:

        async def in_process(files: Sequence[SourceFile]) -> _Batch:
            try:
                return await asyncio.wrap_future(pool.submit(read_batch, corpus, files, label))
            except BrokenProcessPool:
                raise DurabilityError(
                    f"a worker was killed while {files[0].source!r} and others were read; ingest "
                    "again: it goes on. With fewer workers each one has more memory"
                ) from None

        yield in_process, number + 1


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError(
            "a Ray cluster needs the extra 'ray': pip install 'kaosmem[ray]'"
        ) from error
    return ray


def read_batch(corpus: Corpus, files: Sequence[SourceFile], label: str) -> _Batch:
    """Read files and put their passages in place of those that their sources have.

    The corpus is one of this process alone, and is closed.
    """

    async def take() -> _Batch:
        try:
            return await _take(corpus, files, label)
        finally:
            await corpus.close()

    return asyncio.run(take())


async def _take(corpus: Corpus, files: Sequence[SourceFile], label: str) -> _Batch:
    skipped: list[Skipped] = []
    passages: list[Passage] = []
    read = []
    for reading in await asyncio.to_thread(list, read_passages(files)):
        skipped += reading.skipped
        if reading.is_read:
            read.append(reading.file.source)
        stamp = {"file": f"{reading.file.stamp}@{label}"}
        passages += [replace(each, metadata=each.metadata | stamp) for each in reading.passages]
    gone = (await corpus.replace(read, passages)).gone if read else 0
    return _Batch(read, skipped, len(passages), gone)


def _batches(files: Iterable[SourceFile]) -> Iterator[list[SourceFile]]:
    batch: list[SourceFile] = []
    size = 0
    for file in files:
        if batch and (len(batch) == _BATCH_FILES or size + file.size > _BATCH_BYTES):
            yield batch
            batch = []
            size = 0
        batch.append(file)
        size += file.size
    if batch:
        yield batch
