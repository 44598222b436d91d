"""What an operation on a text may cost: memory in proportion to the text, and time of n log n at most."""

import asyncio
import gc
import tracemalloc
from functools import cache, partial
from time import process_time

import pytest

from benchmarks.bench_bounds import OPERATIONS, TEXTS, seconds
from benchmarks.corpus import seeded_texts
from kaosmem import SectionSpec, SessionMemory


@cache
def text():
    return " ".join(seeded_texts(100)) + " "


@pytest.fixture(autouse=True)
def few_objects():
    """Keep the collector from the objects that this process has already: each measurement begins with a collection."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def peak_of(act):
    """Return the most bytes that an act needs at once."""
    tracemalloc.start()
    try:
        act()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_larger_item_takes_at_most_five_times_as_much_memory_as_it_is_larger():
    """Adding an item, indexing it and answering a question from its section stay within that."""

    def turn(times):
        memory = SessionMemory.test_mode(
            sections=[SectionSpec("documents", eviction="none")], counter="estimate"
        )
        memory.add("documents", text() * times)
        asyncio.run(memory.assemble_context("text of it", budget=1_000))

    turn(1)  # imports, and what a process remembers of words
    small, large = (peak_of(partial(turn, times)) for times in (1, 5))
    assert large - small < 5 * 4 * len(text())


COSTLY = [
    ("facts", "backticks"),
    ("facts", "backslashes"),
    ("form", "opened quotes"),
    ("form", "statements"),
    ("ingest HTML", "no-break spaces"),
    ("ingest code", "dash lines"),
    ("ingest Markdown", "["),
    ("ingest Markdown", "hash lines"),
    ("ingest Markdown", "Thai"),
    ("ingest text", "definitions"),
    ("rank", "different words"),
]


def test_the_operations_and_texts_that_were_costly_are_known():
    """The measurement below runs by hand, where a name that has changed would be found late."""
    assert {operation for operation, _ in COSTLY} <= {*OPERATIONS}
    assert {text for _, text in COSTLY} <= {*TEXTS}


@pytest.mark.timed
@pytest.mark.parametrize(("operation", "text"), COSTLY)
def test_the_time_of_an_operation_does_not_grow_with_the_square_of_the_text(operation, text):
    """A text of 64 times the size takes less than 64 ** 1.5 times as long: 64 if linear, 4,096 if quadratic."""
    small, large = (
        seconds(OPERATIONS[operation], TEXTS[text](size)) for size in (1 << 11, 1 << 17)
    )
    assert large < 512 * max(small, 0.000_05)


@pytest.mark.timed
def test_the_first_context_of_many_tiny_items_takes_time_in_proportion():
    """Ten times as many items take less than 10 ** 1.5 times as long to add, index and pack."""

    def took(number):
        memory = SessionMemory.test_mode(
            sections=[SectionSpec("documents", eviction="none")], counter="estimate"
        )
        began = process_time()
        memory.add_many("documents", [f"a{at % 977} b{at % 13}" for at in range(number)])
        asyncio.run(memory.assemble_context("a5 b7", budget=1_000))
        return process_time() - began

    took(100)  # imports
    assert took(20_000) < 32 * max(took(2_000), 0.01)
