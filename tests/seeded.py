"""Results of each kind, for processes to compare: terms, rankings, contexts and summaries."""

import random

import kaosmem
from benchmarks.corpus import seeded_queries, seeded_texts, text_item
from kaosmem import BM25Ranker, ChatMessage, LinearRanker, SectionSpec, SessionMemory
from kaosmem.compaction import Summarizer
from kaosmem.formats import FORMATS
from kaosmem.language.analysis import analyze
from kaosmem.language.query import Query
from kaosmem.stores import VectorDocument
from kaosmem.testing import ScriptedLLM
from tests.anywhere import told
from tests.gist import gist
from tests.sources.stores import Stores, attached

WORDS = "fee term notice party clause law days liability convenience Straße 2024 TASK-17".split()


def terms():
    return str(analyze("TASK-17 résumés of HTTPServer2, § 4.2(b), 東京タワー"))


def rankings():
    printed = []
    for ranker in BM25Ranker(), LinearRanker():
        index = ranker.index()
        index.add(enumerate(map(text_item, seeded_texts(300, words=40))))
        for ordinal in range(0, 200, 3):
            index.remove(ordinal)
        printed.append([index.rank(query, 20) for query in seeded_queries(5)])
    return str(printed)


def rankings_of_a_graph():
    rng = random.Random(3)
    memory = SessionMemory.test_mode(counter="estimate")
    memory.graph.add(
        [{"id": f"e{n}", "name": f"Firm {n // 2}", "aliases": [f"F{n}"]} for n in range(60)],
        [
            {"source": f"e{rng.randrange(60)}", "target": f"e{n % 60}", "type": rng.choice("pqr")}
            for n in range(300)
        ],
    )
    queries = map(Query, ("Firm 3 and F9", "p of Firm 7", "firm"))
    return str(
        [
            [(item.id, score) for item, score in memory["graph"].proposer.search(each, 200)]
            for each in queries
        ]
    )


async def contexts():
    rng = random.Random(7)
    memory = SessionMemory.test_mode()
    memory.add("role", "You are a careful analyst.")
    for _ in range(300):
        section = rng.choice(["messages", "documents", "findings", "actions"])
        memory.add(
            section, " ".join(rng.choices(WORDS, k=rng.randint(3, 40))), priority=rng.randint(0, 3)
        )
    asked = "notice and term of TASK-17"
    return "\n".join(
        [
            told(await memory.assemble_context(asked, budget=1_500, format=each))
            for each in sorted(FORMATS, reverse=True)
        ]
    )


async def contexts_of_stores():
    rng = random.Random(7)
    stores = Stores.new()
    memory = SessionMemory.test_mode()
    for n in range(120):
        text = " ".join(rng.choices(WORDS, k=rng.randint(3, 40)))
        await stores.facts.save("a", text)
        await stores.vectors.add(
            [VectorDocument(text, str(n), metadata={"year": n % 3, "lang": "de"})]
        )
        await stores.graph.add_relationships(
            [{"source": f"e{n % 9}", "target": f"e{n % 7}", "type": str(n % 5)}]
        )
        await stores.state.update_state("s", {str(n): text})
    await attached(memory, stores.sources())
    queries = ("notice and term of TASK-17", "what indemnity has to do with the party and the fee")
    wanted = {"year": 1, "lang": "de"}
    return "\n".join(
        [told(await memory.assemble_context(each, budget=3_000, filter=wanted)) for each in queries]
    )


async def contexts_by_meaning():
    spec = SectionSpec(
        "notes", eviction="none", retrieval_threshold=0, ranker=kaosmem.DenseRanker()
    )
    memory = SessionMemory.test_mode(sections=(spec,), counter="estimate")
    for text in seeded_texts(12):
        memory.add("notes", text)
    context = await memory.assemble_context("what ends the lease?", budget=600)
    return told(context) + context.explain()


async def summaries():
    llm = ScriptedLLM(gist)
    said = [ChatMessage("user", " ".join(f"id-{n} /a/{n} {n * 37}" for n in range(99)), id="a")]
    made = await Summarizer(llm, max_request_tokens=1_500).summarize(said)
    return f"{made.id} {made.text} {llm.requests[-1][1].text}"


RESULTS = (
    terms,
    rankings,
    rankings_of_a_graph,
    contexts,
    contexts_of_stores,
    contexts_by_meaning,
    summaries,
)
