"""The vector store in memory: embeddings made by a client, and cosines that do not depend on where a row stands."""

import asyncio
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaosmem import ChatMessage, DocumentBlock, InvalidArgumentError, TextBlock
from kaosmem.clients import EmbeddingClient
from kaosmem.errors import InvalidNameError
from kaosmem.stores import InMemoryHistoryProvider, InMemoryVectorStore, VectorDocument
from kaosmem.stores.unit_vectors import UnitVectors
from kaosmem.testing import VectorContract


class LetterCounts:
    """An embedding client that counts a, b and c, and tells what it was asked."""

    def __init__(self):
        self.asked = []

    async def embed(self, texts):
        self.asked.append([*texts])
        await asyncio.sleep(0)
        return [[text.count("a"), text.count("b"), text.count("c")] for text in texts]


class TestWithAClient(VectorContract):
    """A store that has an embedding client keeps the contract where nothing is to be embedded."""

    durable = False

    async def make(self):
        return InMemoryVectorStore(RefusingClient())


class RefusingClient:
    async def embed(self, texts):
        raise InvalidArgumentError("nothing is embedded here")


async def test_a_document_without_an_embedding_gets_one():
    """All that have none in one request, those that have keep theirs; the text of all blocks counts."""
    client = LetterCounts()
    assert isinstance(client, EmbeddingClient)
    store = InMemoryVectorStore(embedding_client=client)
    blocks = (TextBlock("a"), DocumentBlock("b", "b"))
    await store.add(
        [
            VectorDocument("aa", "a"),
            VectorDocument("x", "own", (0, 0, 1)),
            VectorDocument(blocks, "blocks"),
        ]
    )
    assert client.asked == [["aa", "a\nb\nb"]]
    found = await store.get(["a", "own", "blocks"])
    assert [each.embedding for each in found] == [(2, 0, 0), (0, 0, 1), pytest.approx((1, 2, 0))]
    assert [each.id for each in await store.search((0, 1, 0), limit=1)] == ["blocks"]


async def test_what_is_there_is_not_embedded_again():
    """Adding it costs no request; upserting does, as its text may be another."""
    client = LetterCounts()
    store = InMemoryVectorStore(client)
    await store.add([VectorDocument("a", "1")])
    await store.add([VectorDocument("b", "1")])
    await store.add([VectorDocument("b", "2"), VectorDocument("c", "2")])
    assert client.asked == [["a"], ["b"]]
    await store.upsert([VectorDocument("c", "1")])
    assert client.asked[2:] == [["c"]]


async def test_of_two_who_add_one_document_the_first_to_be_embedded_counts():
    """While an embedding is made the document is still absent; then it is not replaced."""
    store = InMemoryVectorStore(LetterCounts())
    await asyncio.gather(
        store.add([VectorDocument("a", "1")]),
        store.add([VectorDocument("b", "1"), VectorDocument("c", "2")]),
    )
    assert [each.text for each in await store.get(["1", "2"])] == ["a", "c"]


@pytest.mark.parametrize(
    "made", [[], [[1.0]], [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]], [[1.0], [float("nan")]], [None, 5]]
)
async def test_a_client_that_makes_nonsense_is_refused(made):
    """Too few, zeros, or no numbers: an error, and nothing is stored."""

    class Nonsense:
        async def embed(self, texts):
            return made

    store = InMemoryVectorStore(Nonsense())
    with pytest.raises(InvalidArgumentError):
        await store.add([VectorDocument("a", "1"), VectorDocument("b", "2")])
    assert await store.list_collections() == []


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"content": 5}, InvalidArgumentError),
        ({"content": "\ud800"}, InvalidArgumentError),
        ({"metadata": {"a": {1}}}, InvalidArgumentError),
        ({"metadata": "text"}, InvalidArgumentError),
        ({"id": ""}, InvalidNameError),
        ({"embedding": ()}, InvalidArgumentError),
        ({"embedding": (0, 0.0)}, InvalidArgumentError),
        ({"embedding": (1, float("inf"))}, InvalidArgumentError),
        ({"embedding": (1e39,)}, InvalidArgumentError),
        ({"embedding": "12"}, InvalidArgumentError),
        ({"embedding": 12}, InvalidArgumentError),
        ({"embedding": (10**400,)}, InvalidArgumentError),
    ],
)
def test_a_document_that_can_not_be_stored_can_not_be_made(given, error):
    with pytest.raises(error) as caught:
        VectorDocument(**{"content": "text", "id": "a", **given})
    assert isinstance(caught.value, ValueError)


async def test_a_document_is_no_message_and_no_block():
    """A block of a message can't be stored as a Document, nor a Document said as a message, nor be in one."""
    document = VectorDocument("text", "a", (1, 0))
    block = DocumentBlock("text", "title")
    with pytest.raises(InvalidArgumentError):
        await InMemoryVectorStore().add([block])
    with pytest.raises(InvalidArgumentError):
        await InMemoryHistoryProvider().append("a", document, session_id="s")
    for content in ((document,), document):
        with pytest.raises(InvalidArgumentError):
            ChatMessage("user", content)
    assert VectorDocument((block,), "a").content == (block,)


vectors = st.lists(st.integers(-3, 3), min_size=4, max_size=4).filter(any)


@given(
    st.lists(vectors, min_size=1, max_size=40),
    vectors,
    st.integers(0, 10),
    st.randoms(use_true_random=False),
)
def test_what_is_near_does_not_depend_on_how_it_came_to_be_there(rows, query, limit, rng):
    """Another order, vectors put in and taken out between, or scaled by a power of two: the very same floats."""
    plain = UnitVectors(4)
    other = UnitVectors(4)
    plain.put([f"v{number}" for number in range(len(rows))], rows)
    order = [*enumerate(rows)]
    rng.shuffle(order)
    for number, row in order:
        other.put([f"x{number}", f"v{number}"], [row, [1, 1, 1, 1]])
        scale = 2.0 ** rng.randrange(-9, 9)
        other.put([f"v{number}"], [[scale * each for each in row]])
    for number, _ in enumerate(rows):
        other.remove(f"x{number}")
    assert other.nearest([2 * each for each in query], limit) == plain.nearest(query, limit)


def test_a_few_nearest_are_the_first_of_all():
    """Where vectors are so alike that single precision takes one for another, too."""
    rng = np.random.default_rng(1)
    base = rng.standard_normal(64)
    held = UnitVectors(64)
    held.put([f"v{n}" for n in range(500)], base + 1e-4 * rng.standard_normal((500, 64)))
    for _ in range(20):
        query = (base + 1e-4 * rng.standard_normal(64)).tolist()
        whole = held.nearest(query, 500)
        for limit in (1, 2, 5, 20):
            assert held.nearest(query, limit) == whole[:limit]
            odd = [each for each in whole if int(each[0][1:]) % 2]
            assert held.nearest(query, limit, lambda each: int(each[1:]) % 2 == 1) == odd[:limit]


def test_tiny_and_huge_vectors_have_a_direction():
    """Squares that would be 0 or infinite are never formed."""
    held = UnitVectors(2)
    held.put(["tiny", "huge", "least"], [(3e-300, 4e-300), (-3e38, 3e38), (5e-324, 0)])
    assert [name for name, _ in held.nearest((3e-320, 4e-320), 3)] == ["tiny", "least", "huge"]
    assert held.vector("huge") == pytest.approx((-3e38, 3e38))


def test_many_that_are_alike_come_in_order_of_their_ids():
    """Beyond what is compared at once, too."""
    held = UnitVectors(2)
    ids = [f"v{number:05}" for number in range(10_000)]
    held.put(random.Random(1).sample(ids, len(ids)), np.ones((len(ids), 2)))
    assert held.nearest((1, 1), 3) == [("v00000", 1.0), ("v00001", 1.0), ("v00002", 1.0)]
    assert [each for each, _ in held.nearest((1, 1), 2, lambda each: each > "v07777")] == [
        "v07778",
        "v07779",
    ]


async def test_reprs_hold_no_content():
    """Documents and results tell what they are, not what they say."""
    store = InMemoryVectorStore()
    secret = Path(__file__).stem[::-1]
    document = VectorDocument(secret, "a", (0.123, 1), {"note": secret})
    await store.add([document])
    for each in (document, *await store.get(["a"]), *await store.search((1, 0)), store):
        assert secret not in repr(each)
        assert "0.123" not in repr(each)
