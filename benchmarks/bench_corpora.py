"""A corpus in LanceDB: ingestion, memory, questions on disk and on S3, changes and erasure.

    KAOSMEM_DATA=FOLDER python -m benchmarks.bench_corpora --passages 1000000 --folder FOLDER [--s3]

The passages are real texts of 120 words, each followed by the number of its copy, so that no two are the same.
Questions are 8 words of a text, common ones included. `--s3` copies the corpus to an S3 server of its own here.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import resource
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from benchmarks.corpus import real_texts, seeded_texts
from kaosmem import SessionMemory
from kaosmem.corpora import CorpusSource, LanceCorpus
from kaosmem.language.analysis import analyze

_BATCH = 5_000
_PER_SOURCE = 50
_COMPACTED_EVERY = 200_000


def passages(number: int, texts: list[str]) -> Iterator[dict[str, Any]]:
    """Yield passages, fifty a source."""
    for place in range(number):
        copy, at = divmod(place, len(texts))
        source = f"file-{place // _PER_SOURCE}.md"
        text = f"{texts[at]} copy{copy}"
        yield {"id": f"{source}#{place}", "source": source, "text": text}


async def ingest(corpus: LanceCorpus, number: int, texts: list[str]) -> dict[str, float]:
    """Add passages and index them; return the seconds of each."""
    begin = time.perf_counter()
    batch: list[dict[str, Any]] = []
    for each in passages(number, texts):
        batch.append(each)
        if len(batch) == _BATCH:
            await corpus.replace(list({one["source"]: None for one in batch}), batch)
            if int(each["id"].rpartition("#")[2]) % _COMPACTED_EVERY == _COMPACTED_EVERY - 1:
                await corpus.compact()
            batch = []
    if batch:
        await corpus.replace(list({one["source"]: None for one in batch}), batch)
    added = time.perf_counter()
    await corpus.compact()
    return {"added_s": added - begin, "compacted_s": time.perf_counter() - added}


async def questions(corpus: LanceCorpus, texts: list[str], number: int) -> dict[str, float]:
    """Return milliseconds of the engine's candidates alone, and of whole contexts of 4,000 tokens."""
    rng = random.Random(0)
    memory = SessionMemory.test_mode()
    await memory.attach(CorpusSource(corpus))
    proposed = []
    packed = []
    for _ in range(number + 3):
        words = rng.choice(texts).split()
        query = " ".join(rng.sample(words, min(8, len(words))))
        begin = time.perf_counter()
        await corpus.candidates(analyze(query))
        middle = time.perf_counter()
        context = await memory.assemble_context(query, budget=4_000)
        assert context.items
        proposed.append(middle - begin)
        packed.append(time.perf_counter() - middle)
    found = {}
    for name, times in (("candidates", proposed), ("context", packed)):
        ordered = sorted(times[3:])  # the first ones open files
        found[f"{name}_p50_ms"] = 1_000 * ordered[len(ordered) // 2]
        found[f"{name}_p95_ms"] = 1_000 * ordered[int(0.95 * (len(ordered) - 1))]
    return found


async def changes(corpus: LanceCorpus, *, erases: bool) -> dict[str, float]:
    """Return the seconds until an added passage is found, a removed one is gone, and one is erased."""
    new = {"id": "new", "source": "new.md", "text": "The zyxword was never said before."}
    begin = time.perf_counter()
    await corpus.add([new])
    (found,) = (await corpus.candidates(analyze("zyxword"))).found
    assert found.passage.id == "new"
    visible = time.perf_counter()
    await corpus.remove("new.md")
    assert not (await corpus.candidates(analyze("zyxword"))).found
    figures = {"visible_s": visible - begin, "removed_s": time.perf_counter() - visible}
    if erases:
        begin = time.perf_counter()
        receipt = await corpus.erase("file-0.md", alone=True)
        figures["erased_s"] = time.perf_counter() - begin
        assert await corpus.verify(receipt) == ()
    return figures


@asynccontextmanager
async def on_s3(folder: Path) -> AsyncIterator[LanceCorpus]:
    """Give the corpus of a folder on an S3 server of this machine."""
    from tests.servers import s3_server

    with s3_server() as s3:
        filesystem = s3.filesystem()
        filesystem.makedirs("corpora")
        await asyncio.to_thread(filesystem.put, f"{folder}/", "corpora/bench/", recursive=True)
        options = {
            "aws_access_key_id": s3.key,
            "aws_secret_access_key": s3.secret,
            "region": "us-east-1",
            "endpoint": s3.url,
            "allow_http": "true",
        }
        yield LanceCorpus("s3://corpora/bench", storage_options=options, timeout_s=120)


async def run(number: int, folder: Path, *, with_s3: bool, asked: int) -> dict[str, Any]:
    """Return the figures of one size."""
    texts = real_texts() or seeded_texts(20_000, words=120)
    corpus = LanceCorpus(folder, timeout_s=600)
    figures: dict[str, Any] = {"passages": number}
    if (await corpus.statistics()).entries < number:
        figures |= await ingest(corpus, number, texts)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    figures["megabytes"] = size / 1e6
    reader = LanceCorpus(folder, timeout_s=600)
    figures["disk"] = await questions(reader, texts, asked)
    if with_s3:
        async with on_s3(folder) as remote:
            figures["s3"] = await questions(remote, texts, asked)
            figures["s3"] |= await changes(remote, erases=False)
    figures["disk"] |= await changes(corpus, erases=True)
    figures["max_rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024
    return figures


def rounded(value: Any) -> Any:
    """Return figures with three significant digits."""
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    return float(f"{value:.3g}") if isinstance(value, float) else value


def main(show: Callable[[str], None] = print) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--passages", type=int, default=10_000)
    parser.add_argument("--questions", type=int, default=60)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--s3", action="store_true")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    figures = asyncio.run(
        run(given.passages, given.folder, with_s3=given.s3, asked=given.questions)
    )
    show(json.dumps(rounded(figures) | {"cores": os.cpu_count()}, indent=2))


if __name__ == "__main__":
    main()
