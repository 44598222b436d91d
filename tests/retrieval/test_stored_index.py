"""Indexes that are stored: what is read back ranks as what was written, and bytes that are no index are refused."""

import json
import threading
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from benchmarks.corpus import seeded_texts, text_item
from kaosmem import CorruptionError
from kaosmem.memos import clear_memos
from kaosmem.retrieval import (
    GraphRanker,
    RankBM25Ranker,
    StorableRanker,
    bm25,
    text_index,
)
from kaosmem.retrieval.embedders import WordVectorEmbedder
from kaosmem.retrieval.rankers import BM25Ranker, DenseRanker, LinearRanker
from tests.canary import traces
from tests.retrieval.seeded import seeded, text_of

WORDS = ["lease", "tenant", "rent", "landlord", "deposit", "notice", "straße", "30", "2018", "契約"]
SOURCES = ["", "", "lease 2018", "tenant.pdf", "notes\n\ud800"]
ROLES = ["user", "user", "assistant", "Tenant", ""]


def item_of(rng):
    text = text_of(rng, WORDS)
    source = rng.choice(SOURCES)
    metadata = {"source": source} if source else {}
    return replace(text_item(text), role=rng.choice(ROLES), tokens=len(text), metadata=metadata)


texts, items = seeded.map(lambda rng: text_of(rng, WORDS)), seeded.map(item_of)
ordinals = st.integers(0, 40) | st.just(9_999)
RANKERS = [
    BM25Ranker(),
    BM25Ranker(k1=1.2, b=1.0),
    LinearRanker(),
    DenseRanker(embedder=WordVectorEmbedder()),
]
rankers = pytest.mark.parametrize("ranker", RANKERS, ids=lambda ranker: ranker.name)


@pytest.fixture(autouse=True, scope="module")
def settled_often():
    """Have indexes go through the changes of large ones after a few."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_index, "_LEAST_STALE", 16)
        patch.setattr(bm25, "_MAX_MERGED", 500)
        patch.setattr(bm25, "_SORTED_AT_ONCE", 16)
        patch.setattr(bm25, "_SCORED_AT_ONCE", 16)
        yield


def bytes_of(index):
    dumped = index.dump()
    assert dumped is not None
    return b"".join(dumped)


def index_of(ranker, entries):
    index = ranker.index()
    index.add(sorted(entries.items()))
    return index


def numbered(n, *, sources=7):
    return {
        number: replace(
            text_item(text), metadata={"source": f"contract {number % sources}"}, tokens=number
        )
        for number, text in enumerate(seeded_texts(n, words=20))
    }


class StoredIndexMachine(RuleBasedStateMachine):
    """An index that is changed, stored and read back in any order, beside a plain dict of what it should hold."""

    @initialize(
        ranker=st.sampled_from(RANKERS),
        entries=st.dictionaries(st.integers(0, 60), items, max_size=50),
    )
    def start(self, ranker, entries):
        self.ranker = ranker
        self.entries = entries
        self.index = index_of(ranker, entries)

    @rule(ordinal=ordinals, item=items)
    def put(self, ordinal, item):
        if ordinal in self.entries:
            self.index.update(ordinal, item)
        else:
            self.index.add([(ordinal, item)])
        self.entries[ordinal] = item

    @rule(entries=st.dictionaries(st.integers(100, 200), items, min_size=32, max_size=40))
    def add_many(self, entries):
        new = {ordinal: item for ordinal, item in entries.items() if ordinal not in self.entries}
        self.index.add(new.items())
        self.entries |= new

    @rule(ordinal=ordinals)
    def remove(self, ordinal):
        if self.entries.pop(ordinal, None):
            self.index.remove(ordinal)
        else:
            with pytest.raises(KeyError):
                self.index.remove(ordinal)

    @rule()
    def store_and_read_back(self):
        self.index = self.ranker.load(memoryview(bytes_of(self.index)))

    @rule(query=texts, limit=st.integers(1, 70))
    def ranks_as_a_fresh_one(self, query, limit):
        found = self.index.rank(query, limit)
        fresh = index_of(self.ranker, self.entries)
        assert found == fresh.rank(query, limit)
        assert self.index.frequencies(query) == fresh.frequencies(query)
        if isinstance(self.ranker, LinearRanker | DenseRanker):
            told, anew = (
                each.ranking(query, limit)
                for each in (self.index, index_of(self.ranker, self.entries))
            )
            assert told == anew and [*told.matches] == found
            assert [told.signals(each) for each, _ in found] == [
                anew.signals(each) for each, _ in found
            ]
        else:
            among = self.entries.keys() - {*range(0, 60, 2)}
            whole = index_of(self.ranker, self.entries).rank(query, len(self.entries))
            assert (
                self.index.rank(query, limit, among=among)
                == [each for each in whole if each[0] in among][:limit]
            )

    @rule()
    def gives_the_bytes_of_a_fresh_one(self):
        assert bytes_of(self.index) == bytes_of(index_of(self.ranker, self.entries))

    @invariant()
    def has_its_entries(self):
        assert self.index.ordinals.tolist() == sorted(self.entries)
        assert self.index.ordinals.dtype == np.int64
        assert len(self.index) == len(self.entries)


TestStoredIndexMachine = StoredIndexMachine.TestCase
TestStoredIndexMachine.settings = settings(
    max_examples=4 * settings().max_examples // 5, stateful_step_count=30
)


@rankers
def test_a_dump_is_of_the_moment_when_it_was_asked_for(ranker):
    """What changes before its bytes are made, in another thread too, is not in it."""
    index = ranker.load(bytes_of(index_of(ranker, numbered(400))))
    index.add(
        (n, text_item(f"{text} indemnity {'rent ' * 300}"))
        for n, text in enumerate(seeded_texts(40), 500)
    )
    for n in range(0, 300, 7):
        index.remove(n)
    expected = bytes_of(index)
    dumped = index.dump()
    made = list[bytes]()
    thread = threading.Thread(target=lambda: made.extend(dumped or ()))
    for n in range(1, 300, 7):
        index.update(n, text_item("estoppel"))
    for n in range(500, 540):
        index.remove(n)
    thread.start()
    index.add((n, text_item(text)) for n, text in enumerate(seeded_texts(100), 1_000))
    thread.join()
    assert b"".join(made) == expected != bytes_of(index)


@rankers
def test_of_a_removed_entry_no_word_is_left(ranker):
    """Neither in the index nor, through a view, in the bytes that it was read from."""
    entries = numbered(50) | {
        7: replace(text_item("zanzibar rent"), metadata={"source": "zanzibar"}, role="zanzibar")
    }
    for change in (lambda index: index.remove(7), lambda index: index.update(7, text_item("rent"))):
        data = bytearray(bytes_of(index_of(ranker, entries)))
        index = ranker.load(memoryview(data))
        index.rank("zanzibar rent", 5)
        clear_memos()
        assert traces(["zanzibar"], [index])
        with pytest.raises(BufferError):
            data.clear()
        change(index)
        assert traces(["zanzibar"], [index]) == []
        data.clear()  # nothing views it any more
        assert b"zanzibar" not in bytes_of(index)


def test_only_an_analysis_of_ours_can_be_stored():
    """Whether a caller's function gives the same terms tomorrow can't be told: there is no dump, and none is read."""
    for ranker in (BM25Ranker(analyze=str.split), LinearRanker(analyze=str.split)):
        index = ranker.index()
        index.add([(0, text_item("rent"))])
        assert index.dump() is None
        with pytest.raises(CorruptionError, match="analysis"):
            ranker.load(bytes_of(type(ranker)().index()))


def test_which_rankers_can_be_stored_is_told():
    """By their type: the others have no `load`."""
    assert all(isinstance(ranker, StorableRanker) for ranker in RANKERS)
    assert not isinstance(RankBM25Ranker(), StorableRanker)
    assert not isinstance(GraphRanker(), StorableRanker)


def with_header(data, change):
    """Return a dump with another header, its columns as they were."""
    line, _, columns = data.partition(b"\n")
    header = json.loads(line)
    change(header)
    line = json.dumps(header).encode()
    return line + b" " * (-(len(line) + 1) % 8) + b"\n" + columns


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda header: header.update(version=99), "version"),
        (lambda header: header.update(analysis=99), "analysis"),
        (lambda header: header.update(index="linear"), "index"),
        (lambda header: header.pop("columns"), "no header"),
        (lambda header: header["columns"].pop("sizes"), "bytes"),
        (lambda header: header["columns"].update(sizes=10**15), "bytes"),
    ],
)
def test_a_dump_of_another_kind_is_refused(change, message):
    """Another version, analysis or ranker, or columns that are not there: the message says what, and what to do."""
    data = bytes_of(index_of(BM25Ranker(), numbered(20)))
    assert len(BM25Ranker().load(with_header(data, lambda _: None))) == 20
    with pytest.raises(CorruptionError, match=rf"{message}.*make the index anew"):
        BM25Ranker().load(with_header(data, change))


@pytest.mark.parametrize(
    "data", [b"", b"\n", b"{}\n", b"[" * 60_000, b"\xff" * 100, b"{" + b" " * 70_000]
)
def test_bytes_that_are_no_dump_are_refused(data):
    """Nothing of a file is needed to say that it is none of ours."""
    for ranker in RANKERS:
        with pytest.raises(CorruptionError):
            ranker.load(data)
