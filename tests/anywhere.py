"""Digests of contexts, of other results, and of what the examples of the docs print, for one process.

    python -m tests.anywhere SESSIONS PARTS

PARTS is 1 for the contexts of random sessions, 2 for other results, too, and 3 for the examples of the docs,
too. Nothing needs a network.
Any process prints the same line, on any processor, with any locale, time zone, hash seed and number of threads.
"""

import asyncio
import contextlib
import io
import json
import random
import re
import socket
import sys
import tempfile
from dataclasses import replace
from hashlib import blake2b

from benchmarks.corpus import seeded_queries, seeded_texts, text_item
from kaosmem import SectionSpec, SessionMemory
from kaosmem.retrieval import GraphRanker, RankBM25Ranker, StorableRanker
from kaosmem.retrieval.embedders import WordVectorEmbedder
from kaosmem.retrieval.rankers import BM25Ranker, DenseRanker, LinearRanker
from kaosmem.stores import InMemoryVectorStore, VectorDocument

RANKERS = (
    LinearRanker(),
    BM25Ranker(),
    BM25Ranker(k1=0.9, b=0.4),
    RankBM25Ranker(),
    DenseRanker(embedder=WordVectorEmbedder()),
    GraphRanker(),
)
AS_ON_ITS_PAGE = "as on its page"
SLOW = re.compile(r"kaosmem\.(integrations|corpora)")
"""Stands in examples that import a framework or an engine."""
TOPICS = [
    "notice period termination convenience breach cure days",
    "rent deposit tenant landlord lease renewal heating",
    "invoice payment bank salary bonus payroll account",
    "rose soil seed water flower spade compost hedge",
    "deploy cluster node timeout retry cache latency 512",
    "Straße Müller 東京 café naïve Ελλάδα TASK-17 2024",
]


def told(context):
    """Return what a context shows, its confidence and its decisions."""
    shown = context.text if context.format == "text" else json.dumps(context.messages)
    return f"{shown} {context.confidence} {[str(each) for each in context.decisions]}"


def digest(text):
    """Return a short digest of a text."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def text_of(rng):
    """Return words of a topic, and a few of another."""
    words = rng.choice(TOPICS).split() * 3 + rng.choice(TOPICS).split()
    return " ".join(rng.choices(words, k=rng.randint(4, 40)))


async def told_session(seed):
    """Return the contexts of a random session for two questions, with every decision, score and signal."""
    rng = random.Random(seed)
    ranker = RANKERS[seed % len(RANKERS)]
    spec = SectionSpec("notes", eviction="none", retrieval_threshold=0, ranker=ranker)
    memory = SessionMemory.test_mode(sections=(spec,), counter="estimate")
    roles = rng.choice([("",), ("user", "assistant")])
    for number in range(rng.randint(40, 160)):
        source = {"source": f"contract-{number // 12}.pdf"} if rng.random() < 0.7 else {}
        memory.add("notes", text_of(rng), role=rng.choice(roles) or None, metadata=source)
    parts = []
    for _ in range(2):
        context = await memory.assemble_context(
            text_of(rng)[:60] + "?", budget=rng.randint(200, 1_500)
        )
        parts.append(told(context))
        parts.append(
            str([(each.item_id, each.score, dict(each.signals)) for each in context.decisions])
        )
    return "\n".join(parts)


def texts_said(size, roles):
    """Return `size` items with texts, in turn by `roles`, which all rankers read."""
    items = []
    for number, text in enumerate(seeded_texts(size, words=40)):
        source = {"source": f"contract-{number // 12}.pdf"}
        role = roles[number % len(roles)]
        items.append(replace(text_item(text), metadata=source, role=role))
    return items


def told_rankings(ranker, items):
    """Return the rankings of an index of items, with the bytes of its dump."""
    index = ranker.index()
    entries = list(enumerate(items))
    for start in range(0, len(entries), 50):
        index.add(entries[start : start + 50])
    index.update(1, text_item(items[0].text))
    index.remove(0)
    parts = [str(index.rank(query, 50)) for query in seeded_queries(8)]
    if isinstance(ranker, StorableRanker):
        dumped = ranker.load(b"".join(index.dump() or ())).dump()
        parts.append(digest(b"".join(dumped or ()).decode("latin-1")))
    return "\n".join(parts)


async def told_vectors(seed):
    """Return the nearest documents of a store to a random vector, with their cosines."""
    rng = random.Random(seed)
    store = InMemoryVectorStore()
    vectors = [[rng.gauss(0, 1) for _ in range(384)] for _ in range(60)]
    await store.upsert([VectorDocument("x", str(n), each) for n, each in enumerate(vectors[1:])])
    return str([(hit.id, hit.score) for hit in await store.search(vectors[0], limit=20)])


def examples():
    """Yield the name of each example of the docs, and its output if that differs from its page.

    The process of the tests runs the same examples in `tests/test_readme.py`. Examples that import
    a framework or an engine are left out: they take seconds, and what they show is packed as in
    the others.
    """
    import openai

    from tests.test_readme import EXAMPLES, Client, is_output, run_example

    openai.AsyncOpenAI = Client
    sys.displayhook = lambda _: None
    for example in EXAMPLES:
        text, printed = map(str, example.values)
        if SLOW.search(text):
            continue
        output = io.StringIO()
        with (
            tempfile.TemporaryDirectory() as folder,
            contextlib.chdir(folder),
            contextlib.redirect_stdout(output),
        ):
            run_example(text)
        if is_output(printed, output.getvalue()):
            yield str(example.id), AS_ON_ITS_PAGE
        else:
            yield str(example.id), output.getvalue()


def results():
    """Yield the name of each result of `tests.seeded`, and the result."""
    from tests.seeded import RESULTS

    for make in RESULTS:
        found = make()
        yield make.__name__, found if isinstance(found, str) else asyncio.run(found)


def refuse(*_, **__):
    """Raise AssertionError in place of a connection."""
    raise AssertionError("no network")


def digests_here(sessions, *, parts):
    """Return the digests of everything by name."""
    found = {f"session {seed}": asyncio.run(told_session(seed)) for seed in range(sessions)}
    # More texts than the default ranker's candidates.
    size = 400 + 8 * sessions
    by_one = texts_said(size, ("",))
    by_two = texts_said(size, ("Ann", "assistant"))
    for place, ranker in enumerate(RANKERS):
        name = f"rankings by {place} {ranker.name}"
        found[f"{name} of 1"] = told_rankings(ranker, by_one)
        if isinstance(ranker, LinearRanker | DenseRanker):
            found[f"{name} of 2"] = told_rankings(ranker, by_two)
    found["vectors"] = asyncio.run(told_vectors(1))
    if parts >= 2:
        found |= results()
    if parts >= 3:
        found |= examples()
    return {name: digest(text) for name, text in found.items()}


def main(sessions, *, parts):
    """Print the digests of a process without a network."""
    socket.socket.connect = socket.getaddrinfo = refuse
    print(json.dumps(digests_here(sessions, parts=parts)))


if __name__ == "__main__":
    main(int(sys.argv[1]), parts=int(sys.argv[2]))
