"""What a very large section costs: adding its items, the index over them, the first question and a turn.

Each figure is of a process of its own. `KAOSMEM_SCALE=1000000` measures that many items instead, of 40 words each.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import process_time

import pytest

from benchmarks.corpus import seeded_queries, seeded_texts, text_item
from kaosmem import SectionSpec, SessionMemory
from kaosmem.language.analysis import analyze
from kaosmem.retrieval.rankers import LinearRanker

SIZES = (
    {int(os.environ["KAOSMEM_SCALE"]): 40}
    if "KAOSMEM_SCALE" in os.environ
    else {10_000: 150, 100_000: 150}
)
"""Items -> words in each."""

PROCESSES = 3
TURNS = 50
BUDGET = 4_000
PLANTED = "The zebrafish licence of the aquarium is numbered QX-7741 and expires in March."
STATM = Path("/proc/self/statm")


def session_costs(n: int, words: int) -> dict[str, float]:
    """Return what a session of `n` items costs, one of them planted in their midst and found in the end."""
    texts = [
        *seeded_texts(n // 2, words=words),
        PLANTED,
        *seeded_texts(n - n // 2 - 1, seed=1, words=words),
    ]
    memory = SessionMemory.test_mode(sections=[SectionSpec("documents", eviction="none")])
    memory.admin.counter("loads its vocabulary")
    added, items = cpu_s(lambda: memory.add_many("documents", texts))
    gc.collect()
    with asyncio.Runner() as runner:
        loop = runner.get_loop()

        def ask(query: str) -> list[str]:
            context = loop.run_until_complete(memory.assemble_context(query, budget=BUDGET))
            assert context.used <= BUDGET
            return [item.id for item in context.items]

        first, _ = cpu_s(lambda: ask("notice of the deposit"))
        turns = []
        for text, query in zip(
            seeded_texts(TURNS, seed=2), seeded_queries(TURNS, seed=2), strict=True
        ):
            seconds, _ = cpu_s(
                lambda text=text, query=query: (memory.add("documents", text), ask(query))
            )
            turns.append(seconds)
        planted = items[n // 2].id
        assert planted in ask("When does the zebrafish licence QX-7741 expire?")
        assert [item.id for item, _ in memory.search("zebrafish licence", limit=1)] == [planted]
        assert len(memory["documents"]) == n + TURNS
    return {"add_many, s": added, "first question, s": first, "turn, ms": 1_000 * median(turns)}


def index_costs(n: int, words: int) -> dict[str, float]:
    """Return how the resident memory grows with an index over `n` items that are held anyway, and with 20 queries."""
    items = list(map(text_item, seeded_texts(n, words=words)))
    queries = seeded_queries(20)
    LinearRanker().index().rank("loads the modules", 1), analyze("and the stemmer")
    gc.collect()
    before = resident_mb()
    index = LinearRanker().index()
    seconds, _ = cpu_s(lambda: index.add(enumerate(items)))
    for query in queries:
        assert index.rank(query, 200)
    grown = resident_mb() - before
    return {
        "index, s": seconds,
        "index, MB": grown,
        "texts, MB": sum(len(item.text) for item in items) / 1e6,
    }


def cpu_s(action: Callable[[], object]) -> tuple[float, object]:
    begin = process_time()
    result = action()
    return process_time() - begin, result


def resident_mb() -> float:
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def in_process_of_its_own(
    costs: Callable[[int, int], dict[str, float]], n: int, words: int
) -> dict[str, float]:
    code = f"import json; from benchmarks.bench_scale import *; print(json.dumps({costs.__name__}({n}, {words})))"
    result = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, check=True, text=True
    )
    figures: dict[str, float] = json.loads(result.stdout)
    return figures


def test_a_planted_item_is_found() -> None:
    """Among many items the one that a question is about is found first, within the budget."""
    assert session_costs(300, 40)["turn, ms"] > 0


@pytest.mark.timed
@pytest.mark.skipif(not STATM.exists(), reason="resident memory is read from /proc")
def test_cost_by_size(capsys: pytest.CaptureFixture[str]) -> None:
    """At any size the planted item is found first and no context is over budget; the table shows at what cost."""
    with capsys.disabled():
        for n, words in SIZES.items():
            runs = [in_process_of_its_own(index_costs, n, words) for _ in range(PROCESSES)]
            figures = in_process_of_its_own(session_costs, n, words)
            figures |= {name: median(run[name] for run in runs) for name in runs[0]}
            print(f"\n{n:,} items of {words} words: ", end="")
            print(
                ", ".join(
                    f"{name.replace(',', '')} {value:,.1f}" for name, value in figures.items()
                )
            )
