"""A corpus in LanceDB: on S3, with faults, and without a trace after an erasure."""

import asyncio
import subprocess
import sys
from urllib.parse import urlsplit

import pytest

from kaosmem import DurabilityError, SessionMemory
from kaosmem.assembly.context import SourceStatus
from kaosmem.corpora import CorpusSource, LanceCorpus, lance
from kaosmem.corpora import corpus as corpus_module
from kaosmem.errors import InvalidArgumentError
from kaosmem.language.analysis import analyze
from tests.corpora.places import passage, s3_corpus, s3_url
from tests.faulty_network import network

CANARY = "xylophonequark"


async def ids(corpus, words):
    found = (await corpus.candidates(analyze(words))).found
    return {each.id for each in found}


def files_of(folder):
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


async def test_an_erasure_leaves_no_file_from_before(tmp_path):
    """No file that held an erased passage is left, and none that is there names its words or its id."""
    corpus = LanceCorpus(tmp_path)
    await corpus.add([passage(f"p{n}", f"rent {n} garden", f"s{n}") for n in range(50)])
    await corpus.replace("gone", [passage(f"{CANARY}-1", f"the rent of {CANARY}", "gone")])
    await corpus.compact()
    await corpus.replace("gone", [passage(f"{CANARY}-2", f"the garden of {CANARY}", "gone")])
    before = files_of(tmp_path)
    assert any(CANARY.encode() in data for data in before.values())
    await corpus.erase("gone", alone=True)
    after = files_of(tmp_path)
    assert not any(CANARY.encode() in data for data in after.values())
    assert before.keys().isdisjoint(each for each in after if "/_versions/" not in each)
    assert len(await ids(corpus, "rent")) == 50


async def test_two_creations_of_a_tenant_lose_nothing(tmp_path, monkeypatch):
    """Where a creation replaces the table of another writer, it puts that writer's passages back."""
    first = LanceCorpus(tmp_path)
    second = LanceCorpus(tmp_path)
    connection = second._connect()
    create = connection.create_table

    def late(name, **given):
        """Create as the engine does where the table was missing a moment ago."""
        asyncio.run(first.add([passage("a", "rent")]))
        return create(name, mode="overwrite", **given)

    monkeypatch.setattr(connection, "create_table", late)
    await second.add([passage("b", "rent")])
    await first.compact()
    for each in (first, second, LanceCorpus(tmp_path)):
        assert await ids(each, "rent") == {"a", "b"}
        assert (await each.statistics(["rent"])).frequencies == {"rent": 2}


async def test_a_url_that_the_engine_does_not_know_is_an_error_with_a_remedy():
    """A scheme of another library is named, without an error of the engine's own."""
    with pytest.raises(InvalidArgumentError, match="give a folder or s3://"):
        await LanceCorpus("ftp://host/corpus").sources()


async def test_of_two_replaces_of_a_source_the_later_one_holds(tmp_path, monkeypatch):
    """A replace that meets another one of the same new source leaves its own passages alone."""
    corpus = LanceCorpus(tmp_path)
    await corpus.add([passage("other", "garden", "t")])
    arrow = lance._arrow
    first = [LanceCorpus(tmp_path)]

    def late(rows):
        """Let another writer be the first one, after the change has looked for old passages."""
        if first:
            other = first.pop()
            asyncio.run(other.replace("s", [passage("x", "rent", "s"), passage("y", "old", "s")]))
        return arrow(rows)

    monkeypatch.setattr(lance, "_arrow", late)
    await corpus.replace("s", [passage("y", "rent cellar", "s")])
    assert await ids(corpus, "rent") == {"y"}
    assert await ids(corpus, "old") == set()
    await corpus.compact()
    found = await corpus.statistics(["rent", "old", "cellar"])
    assert (found.entries, found.frequencies) == (2, {"rent": 1, "old": 0, "cellar": 1})


async def test_a_fault_of_ours_is_no_fault_of_the_storage(tmp_path, monkeypatch):
    """An error that the engine did not raise comes out as it is."""
    corpus = LanceCorpus(tmp_path)
    await corpus.add([passage("a", "rent")])
    monkeypatch.setattr(corpus_module, "passage_in", lambda dumped: int("no number"))
    with pytest.raises(ValueError, match="no number"):
        await corpus.candidates(["rent"])


async def test_a_corpus_on_s3(s3_of_all):
    """On S3, passages are found at once by others; an erasure leaves no object from before."""
    url = s3_url(s3_of_all)
    corpus = s3_corpus(s3_of_all, url)
    other = s3_corpus(s3_of_all, url)
    await corpus.add([passage(f"p{n}", f"rent {n} garden", f"s{n}", n=n) for n in range(20)])
    version, _ = await corpus.replace("gone", [passage("secret", f"rent {CANARY}", "gone")])
    assert await ids(other, CANARY) == {"secret"}
    await asyncio.gather(
        *(each.replace("x", [passage("x", "rent", "x")]) for each in (corpus, other))
    )
    await asyncio.gather(corpus.compact(), other.compact())
    assert len(await ids(other, "rent")) == 22
    assert await ids(other.at(version), CANARY) == {"secret"}
    filesystem = s3_of_all.filesystem()
    before = set(filesystem.find(url.removeprefix("s3://")))
    await corpus.erase("gone", alone=True)
    filesystem.invalidate_cache()
    after = set(filesystem.find(url.removeprefix("s3://")))
    assert not {each for each in before & after if "/_versions/" not in each}
    assert len(await ids(other, "rent")) == 21
    assert await other.for_tenant("another").tenants() == ["default"]


async def test_a_storage_that_is_down_is_an_error_in_time(s3_of_all):
    """With S3 slow, silent or gone, each call ends in time, and works again afterwards."""
    url = s3_url(s3_of_all)
    with network(urlsplit(s3_of_all.url).netloc) as between:
        corpus = s3_corpus(s3_of_all, url, port=between.port)
        await corpus.add([passage("a", "rent")])
        between.delay_s = 0.05
        assert await ids(corpus, "rent") == {"a"}
        between.delay_s = 0.0
        hasty = s3_corpus(s3_of_all, url, port=between.port, timeout_s=0.5)
        between.hold()
        with pytest.raises(DurabilityError):
            await hasty.candidates(["rent"])
        between.release()
        between.close()
        with pytest.raises(DurabilityError):
            await hasty.add([passage("b", "rent")])
        between.open()
        await corpus.add([passage("c", "rent")])
        assert {"a", "c"} <= await ids(corpus, "rent")


async def test_a_context_is_packed_without_a_corpus_that_does_not_answer(s3_of_all):
    """`attach(..., timeout_s=)` bounds the wait, and the context says what is missing."""
    url = s3_url(s3_of_all)
    with network(urlsplit(s3_of_all.url).netloc) as between:
        corpus = s3_corpus(s3_of_all, url, port=between.port)
        await corpus.add([passage("a", "The rent is 900 euros.")])
        memory = SessionMemory.test_mode()
        memory.add("findings", "The rent was raised.")
        await memory.attach(CorpusSource(corpus), timeout_s=120)
        context = await memory.assemble_context("rent", budget=200)
        assert len(context.items) == 2
        slow = SessionMemory.test_mode()
        slow.add("findings", "The rent was raised.")
        await slow.attach(CorpusSource(corpus), timeout_s=0.3)
        between.hold()
        context = await slow.assemble_context("rent", budget=200)
        between.release()
        assert [item.text for item in context.items] == ["The rent was raised."]
        assert context.sources["corpus"].status is SourceStatus.LATE


_FULL_DISK = """
import asyncio, resource, signal, sys
from kaosmem import DurabilityError
from kaosmem.corpora import LanceCorpus

async def main():
    corpus = LanceCorpus(sys.argv[1])
    await corpus.add([{"id": "a", "text": "rent", "source": "s"}])
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
    text = " ".join(f"rent{n * n:x}" for n in range(4_000))
    try:
        await corpus.add([{"id": "b", "text": text, "source": "s"}])
    except DurabilityError as error:
        print("refused")
    found = await corpus.candidates(["rent"])
    print([each.id for each in found.found])

asyncio.run(main())
"""


@pytest.mark.soak
async def test_a_full_disk_loses_nothing(tmp_path):
    """Where no more can be written, an addition is refused whole, and questions go on."""
    done = subprocess.run(
        [sys.executable, "-c", _FULL_DISK, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stdout.split("\n")[:2] == ["refused", "['a']"]
    corpus = LanceCorpus(tmp_path)
    await corpus.add([passage("c", "rent")])
    await corpus.compact()
    assert await ids(corpus, "rent") == {"a", "c"}
    assert (await corpus.statistics(["rent"])).entries == 2


_STEPS = """
import asyncio, sys
from kaosmem.corpora import LanceCorpus

async def main():
    corpus = LanceCorpus(sys.argv[1])
    for number in range(100):
        print("replace", flush=True)
        pair = [{"id": f"{number % 3}-{half}", "text": f"rent round{number}", "source": f"s{number % 3}"}
                for half in "xy"]
        await corpus.replace(f"s{number % 3}", pair)
        if number % 3 == 1:
            print("compact", flush=True)
            await corpus.compact()
        if number % 3 == 2:
            print("erase", flush=True)
            await corpus.erase("s0")

asyncio.run(main())
"""


@pytest.mark.soak
@pytest.mark.parametrize("steps", range(1, 11))
async def test_a_writer_that_is_killed_leaves_a_whole_version(tmp_path, steps):
    """After kill -9 in a replace, a compaction or an erasure, pairs are whole, and counting goes on."""
    command = [sys.executable, "-c", _STEPS, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout
        for _ in range(steps):
            assert running.stdout.readline()
        await asyncio.sleep(0.01 * (steps % 4))
        running.kill()
    corpus = LanceCorpus(tmp_path)
    found = (await corpus.candidates(["rent"])).found
    texts = {}
    for each in found:
        texts.setdefault(each.metadata["source"], set()).add(each.text)
    assert all(len(of_source) == 1 for of_source in texts.values())
    assert len(found) == 2 * len(texts)
    await corpus.compact()
    counts = await corpus.statistics(["rent"])
    assert (counts.entries, counts.frequencies) == (len(found), {"rent": len(found)})
    await corpus.add([passage("new", "rent", "new")])
    await corpus.compact()
    await corpus.erase(["s0", "s1", "s2"], alone=True)
    assert await ids(corpus, "rent") == {"new"}
