"""Files into a corpus: idempotent, resumable after a kill, by processes and by Ray."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kaosmem.cli import run
from kaosmem.corpora import InMemoryCorpus, LanceCorpus, PgCorpus, ingest_files
from kaosmem.corpora import ingestion as ingestion_module
from kaosmem.errors import DurabilityError, MissingFileError
from kaosmem.language.analysis import analyze
from tests.corpora.places import pg_schema


def folder_of(path, files):
    """Make a folder of small texts, one binary file, and one in a folder below."""
    (path / "below").mkdir(parents=True)
    for number in range(files):
        (path / f"file{number}.md").write_text(f"# Lease {number}\n\nThe rent is {number} euros.\n")
    (path / "below" / "notes.txt").write_text("The garden is shared.")
    (path / "image").write_bytes(b"\x00\x01\x02" * 100)
    return path


async def texts_of(corpus, words):
    found = (await corpus.candidates(analyze(words), limit=10_000)).found
    return {each.text for each in found}


async def test_a_second_run_changes_nothing(tmp_path):
    """Unchanged files are not read; changed, new and vanished ones are brought up to date; refused ones are told."""
    folder = folder_of(tmp_path / "files", 5)
    corpus = InMemoryCorpus()
    seen = []
    report = await ingest_files(
        folder, corpus, workers=0, progress=lambda source, done, number: seen.append((done, number))
    )
    assert (len(report.new), report.items_added, report.items_removed) == (6, 6, 0)
    assert [each.source for each in report.skipped] == ["image"]
    assert seen[-1] == (7, 7)
    versions = await corpus.versions()
    again = await ingest_files(folder, corpus, workers=0)
    assert (len(again.unchanged), again.items_added) == (6, 0)
    assert await corpus.versions() == versions
    (folder / "file0.md").write_text("The rent is 1,000,000 euros now.\n")
    (folder / "file1.md").unlink()
    (folder / "new.md").write_text("The cellar has a lamp.\n")
    third = await ingest_files(folder, corpus, workers=0)
    assert (third.new, third.changed, third.vanished) == (("new.md",), ("file0.md",), ("file1.md",))
    assert (third.items_added, third.items_removed) == (2, 2)
    assert await texts_of(corpus, "cellar") == {"The cellar has a lamp."}
    assert "The rent is 1,000,000 euros now." in await texts_of(corpus, "rent")


async def test_compactions_become_rarer(tmp_path, monkeypatch):
    """Each costs as much as there are passages, so it waits for half as many batches again."""
    monkeypatch.setattr(ingestion_module, "_BATCH_FILES", 1)
    folder = folder_of(tmp_path / "files", 148)
    compacted = []

    class Compacted(InMemoryCorpus):
        async def compact(self, **given):
            compacted.append(len(await self.sources()))
            await super().compact(**given)

    await ingest_files(folder, Compacted(), workers=0)
    assert compacted[-1] == 149
    assert len(compacted) == 4
    assert all(count >= due for count, due in zip(compacted, (63, 95, 143), strict=False))


async def test_a_run_that_was_killed_before_the_count_is_finished_by_the_next(tmp_path):
    """Its files are all read, so the next run reads none, and counts and merges all the same."""
    folder = folder_of(tmp_path / "files", 3)

    class Killed(LanceCorpus):
        async def compact(self, **given):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await ingest_files(folder, Killed(tmp_path / "corpus"), workers=0)
    corpus = LanceCorpus(tmp_path / "corpus")
    assert (await corpus.statistics()).entries == 0
    assert len((await ingest_files(folder, corpus, workers=0)).unchanged) == 4
    assert (await corpus.statistics()).entries == 4


async def test_places_do_not_replace_each_other(tmp_path):
    """A place whose file has a source of another place is told so, and neither loses anything."""
    corpus = InMemoryCorpus()
    first = folder_of(tmp_path / "one", 2)
    second = folder_of(tmp_path / "two", 3)
    await ingest_files(first, corpus, workers=0)
    before = await texts_of(corpus, "rent garden")
    report = await ingest_files(second, corpus, workers=0)
    assert report.new == ("file2.md",)
    assert {"file0.md", "file1.md", "below/notes.txt"} <= {each.source for each in report.skipped}
    assert before < await texts_of(corpus, "rent garden")
    with pytest.raises(MissingFileError):
        await ingest_files(tmp_path / "nothing", corpus, workers=0)


async def test_a_file_of_a_folder_is_not_read_twice(tmp_path):
    """The place of one file in a folder that was read is told so, as its passages would differ."""
    corpus = InMemoryCorpus()
    folder = folder_of(tmp_path / "one", 2)
    await ingest_files(folder, corpus, workers=0)
    with pytest.raises(MissingFileError, match="another place has this file: ingest the folder"):
        await ingest_files(folder / "below/notes.txt", corpus, workers=0)
    assert len(await corpus.sources()) == 3


_KILLED = """
import asyncio, sys
from kaosmem.corpora import LanceCorpus, ingest_files, ingestion
ingestion._BATCH_FILES = 5

async def main():
    await ingest_files(sys.argv[1], LanceCorpus(sys.argv[2]), workers=0,
                 progress=lambda source, done, number: print(done, flush=True))

asyncio.run(main())
"""


@pytest.mark.parametrize("batches", [2, *(pytest.param(n, marks=pytest.mark.soak) for n in (1, 5))])
async def test_a_killed_ingestion_goes_on(tmp_path, batches):
    """After kill -9 between or within batches, another run reads the rest, and nothing is there twice."""
    folder = folder_of(tmp_path / "files", 40)
    command = [sys.executable, "-c", _KILLED, str(folder), str(tmp_path / "corpus")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout
        for _ in range(batches):
            assert running.stdout.readline()
        running.kill()
    corpus = LanceCorpus(tmp_path / "corpus")
    before = await corpus.sources()
    assert len(before) >= 5 * batches
    report = await ingest_files(folder, corpus, workers=0)
    assert set(report.unchanged) == before.keys()
    assert len(report.new) == 41 - len(before)
    assert len(await texts_of(corpus, "rent garden")) == 41
    assert (await corpus.statistics()).entries == 41


@pytest.mark.parametrize(
    ("workers", "engine"), [(1, "postgres"), pytest.param(2, "lance", marks=pytest.mark.soak)]
)
async def test_a_killed_worker_is_an_error_after_which_another_run_goes_on(
    tmp_path, monkeypatch, postgres, workers, engine
):
    """Where a worker is killed, the next run writes the rest, and all is there as of one process."""
    folder = folder_of(tmp_path / "files", 30)
    is_lance = engine == "lance"
    corpus = (
        LanceCorpus(tmp_path / "corpus") if is_lance else PgCorpus(postgres, schema=pg_schema())
    )
    monkeypatch.setattr(ingestion_module, "_BATCH_FILES", 8)
    monkeypatch.setattr(ingestion_module, "read_batch", _dies_once)
    monkeypatch.setenv("KAOSMEM_TEST_DEATH", str(tmp_path / "died"))
    with pytest.raises(DurabilityError, match="ingest again"):
        await ingest_files(folder, corpus, workers=workers)
    assert (tmp_path / "died").exists()
    report = await ingest_files(folder, corpus, workers=workers - 1)
    assert len(report.unchanged) >= 8, "the batch that was written before the kill"
    assert len(report.new) + len(report.unchanged) == 31
    model = InMemoryCorpus()
    await ingest_files(folder, model, workers=0)
    assert await corpus.sources() == await model.sources()
    assert await texts_of(corpus, "rent garden") == await texts_of(model, "rent garden")
    assert await corpus.statistics(["rent"]) == await model.statistics(["rent"])
    await corpus.close()


def test_a_worker_closes_its_copy_of_a_corpus():
    """Each batch has a copy of its own, whose connections would stay open."""
    closed = []

    class Closed(InMemoryCorpus):
        async def close(self):
            closed.append(self)

    corpus = Closed()
    READ_BATCH(corpus, [], "place")
    assert closed == [corpus]


def _dies_once(*given):
    """Read a batch; the first process that does so is killed after it has written."""
    result = READ_BATCH(*given)
    mark = Path(os.environ["KAOSMEM_TEST_DEATH"])
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return result


READ_BATCH = ingestion_module.read_batch


def test_the_command_reports_and_goes_on(tmp_path, capsys):
    """`kaosmem ingest FOLDER --corpus FOLDER` prints counts and refused files."""
    folder = folder_of(tmp_path / "files", 3)
    command = ["ingest", str(folder), "--workers", "0"]
    command += ["--corpus", str(tmp_path / "corpus"), "--tenant", "acme"]
    with pytest.raises(SystemExit, match="0"):
        run(command)
    printed = capsys.readouterr().out
    assert "4 new" in printed
    assert "image" in printed
    with pytest.raises(SystemExit, match="0"):
        run(command)
    again = capsys.readouterr().out
    assert "4 unchanged" in again
    assert "passages: 0 added, 0 removed" in again


@pytest.mark.soak
async def test_a_cluster_of_two_nodes_reads(tmp_path):
    """Workers of a Ray cluster with two nodes write the same passages as one process."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    folder = folder_of(tmp_path / "files", 200)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        cluster.add_node(num_cpus=1)
        corpus = LanceCorpus(tmp_path / "corpus", timeout_s=300)
        report = await ingest_files(folder, corpus, ray=cluster.address)
        assert len(report.new) == 201
        assert len(await texts_of(corpus, "rent garden")) == 201
    finally:
        cluster.shutdown()
