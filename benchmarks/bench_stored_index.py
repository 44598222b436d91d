"""What a stored index spares: dumping it and reading it back, beside parsing the lines of the same texts."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from statistics import median

import pytest

from benchmarks.corpus import seeded_queries, seeded_texts, text_item
from kaosmem.language.analysis import analyze
from kaosmem.retrieval import StorableIndex
from kaosmem.retrieval.rankers import LinearRanker
from kaosmem.types.items import Item

LIMIT = 300
NEW = 2_000


def entries_of(texts: Iterable[str], *, start: int = 0) -> list[tuple[int, Item]]:
    """Return texts as entries of documents of 50 pieces."""
    return [
        (number, replace(text_item(text), metadata={"source": f"document {number // 50}"}))
        for number, text in enumerate(texts, start)
    ]


def stored(index: StorableIndex) -> bytes:
    dumped = index.dump()
    assert dumped is not None
    return b"".join(dumped)


@pytest.mark.parametrize("n", [20, 1_000])
def test_a_stored_index_ranks_as_one_made_anew(n: int) -> None:
    """Read back and told of what is new and gone, it ranks as one made of the same entries, and is stored the same."""
    texts = seeded_texts(n + 40)
    before = LinearRanker().index()
    after = LinearRanker().index()
    before.add(entries_of(texts[:n]))
    after.add(entries_of(texts)[5:])
    loaded = LinearRanker().load(stored(before))
    loaded.add(entries_of(texts[n:], start=n))
    for ordinal in range(5):
        loaded.remove(ordinal)
    for query in seeded_queries(5):
        assert loaded.rank(query, LIMIT) == after.rank(query, LIMIT) != []
    assert stored(loaded) == stored(after)


@pytest.mark.timed
def test_cost_of_reading_an_index_back(capsys: pytest.CaptureFixture[str]) -> None:
    """At 100,000 entries it takes less than a third of the time of `json.loads` over the lines of their texts."""
    with capsys.disabled():
        print(
            f"\n{'entries':>9}{'make, s':>9}{'dump, ms':>10}{'bytes, ms':>11}{'MB':>6}{'load, ms':>10}",
            end="",
        )
        print(
            f"{'json, ms':>10}{'ratio':>7}{'add 2,000':>11}{'its terms':>11}{'remove, ms':>12}{'query, ms':>11}"
        )
        for n in (10_000, 100_000):
            texts = seeded_texts(n)
            lines = [
                json.dumps({"id": str(number), "text": text}) for number, text in enumerate(texts)
            ]
            index = LinearRanker().index()
            make = elapsed_ms(lambda: index.add(entries_of(texts)), times=1)  # noqa: B023
            asked = elapsed_ms(lambda: index.dump(), times=1)  # noqa: B023
            dump = elapsed_ms(lambda: stored(index), times=1) - asked  # noqa: B023
            data = stored(index)
            load = elapsed_ms(lambda: LinearRanker().load(data))  # noqa: B023
            parse = elapsed_ms(lambda: [*map(json.loads, lines)])  # noqa: B023
            loaded = LinearRanker().load(data)
            new = entries_of(seeded_texts(NEW, seed=1), start=n)
            terms = elapsed_ms(lambda: [analyze(item.text) for _, item in new], times=1)  # noqa: B023
            add = elapsed_ms(lambda: loaded.add(new), times=1)  # noqa: B023
            remove = elapsed_ms(lambda: loaded.remove(n // 2), times=1)  # noqa: B023
            queries = iter(seeded_queries(20))
            query = elapsed_ms(lambda: loaded.rank(next(queries), LIMIT), times=20)  # noqa: B023
            print(
                f"{n:>9,}{make / 1e3:>9.1f}{asked:>10.1f}{dump:>11.0f}{len(data) / 1e6:>6.0f}{load:>10.1f}",
                end="",
            )
            print(
                f"{parse:>10.0f}{parse / load:>7.1f}{add:>11.0f}{terms:>11.0f}{remove:>12.1f}{query:>11.1f}"
            )
        assert parse > 3 * load


def elapsed_ms(work: Callable[[], object], *, times: int = 5) -> float:
    """Return the median time that work takes."""
    durations = []
    for _ in range(times):
        started = time.perf_counter_ns()
        work()
        durations.append((time.perf_counter_ns() - started) / 1e6)
    return median(durations)
