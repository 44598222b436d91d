"""The columns of an index: after any changes they are those of the entries that it has."""

from collections import Counter

import pytest
from hypothesis import given

from kaosmem.language.analysis import analyze
from kaosmem.retrieval import text_index
from kaosmem.retrieval.rank_bm25_index import item_terms
from kaosmem.retrieval.text_index import TextIndex
from tests.retrieval.changes import change, changes, starts


@pytest.fixture(autouse=True, scope="module")
def settled_often():
    """Have small indexes go through the changes of large ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_index, "_LEAST_STALE", 8)
        yield


def row_of(index, slot):
    """Return what the columns say of an entry."""
    terms = [index.vocabulary.term(number) for number in index.sequences.of(slot).tolist()]
    source = int(index.sources.numbers[slot])
    title = {index.vocabulary.term(number) for number in index.titles.of(source).tolist()}
    return (
        terms,
        index.sources.names[source],
        title,
        index.roles.names[index.roles.numbers[slot]],
        *index.facts.values[["length", "tokens", "figures"]][slot].tolist(),
    )


def row_expected(item):
    terms = item_terms(item, analyze)
    source = item.metadata.get("source")
    title = {*analyze(source), *analyze("lease 2018")} if source == "lease 2018" else None
    return (
        terms,
        source,
        title if title is not None else {*analyze(source or "")},
        item.role,
        len(terms),
        item.tokens,
        sum(map(str.isdigit, terms)),
    )


@given(start=starts, made=changes, later=changes)
def test_columns_are_those_of_the_entries(
    start,
    made,
    later,
):
    """However they came, with a dump read back between the changes."""
    entries = dict(start)
    index = TextIndex()
    index.add(sorted(entries.items()))
    change(index, entries, made)
    dumped = index.dump()
    assert dumped is not None
    index = TextIndex()
    index.load(b"".join(dumped))
    change(index, entries, later)
    slots = index.slots.in_order()
    assert index.slots.ordinals[slots].tolist() == sorted(entries)
    for ordinal, slot in zip(sorted(entries), slots.tolist(), strict=True):
        assert row_of(index, slot) == row_expected(entries[ordinal])
    assert len(index.roles) == len({item.role for item in entries.values()})
    for term in ("leas", "rent", "30"):
        having = {n: item_terms(item, analyze).count(term) for n, item in entries.items()}
        _, found, times = index.postings([index.vocabulary.number(term)])
        postings = Counter(
            dict(zip(index.slots.ordinals[found].tolist(), times.tolist(), strict=True))
        )
        assert postings == Counter({n: count for n, count in having.items() if count})


@given(start=starts, made=changes)
def test_neighbours_are_the_next_entries_of_the_same_source(start, made):
    entries = dict(start)
    index = TextIndex()
    index.add(sorted(entries.items()))
    change(index, entries, made)
    slots = index.slots.in_order()
    for step in (-2, 1):
        for slot, near in zip(
            slots.tolist(), index.neighbours(slots, [step])[0].tolist(), strict=True
        ):
            ordinal = int(index.slots.ordinals[slot])
            other = entries.get(ordinal + step)
            if other is None or other.metadata.get("source") != entries[ordinal].metadata.get(
                "source"
            ):
                assert near == -1
            else:
                assert index.slots.ordinals[near] == ordinal + step
