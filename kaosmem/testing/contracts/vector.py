"""The contract of every VectorStore."""

from __future__ import annotations

import asyncio
import copy
import math
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import pytest
from hypothesis import strategies as st

from kaosmem.errors import InvalidArgumentError
from kaosmem.stores.vector import InMemoryVectorStore, SearchResult, VectorDocument, VectorStore
from kaosmem.testing.contracts.store import (
    IDS,
    LARGE,
    TEXTS,
    WRONG_COUNT,
    WRONG_ID,
    WRONG_IDS,
    Step,
    StoreContract,
    Wrong,
    refuses,
    steps,
    wrong,
)
from kaosmem.types.content import DocumentBlock, ImageBlock, TextBlock

METADATA: dict[str, dict[str, Any]] = {
    "full": {"source": "a.pdf", "year": 2021, "draft": False, "tags": ["x", "y"], "note": None},
    "other": {"source": "b.pdf", "year": 2023.5, "draft": True, "tags": []},
    "text": {"source": "a.pdf'; --", "year": "2021", "tags": "x"},
    "bare": {},
}
# A filter, and the names of those above that it lets through.
FILTERS: tuple[tuple[dict[str, Any], str], ...] = (
    ({}, "full other text bare"),
    ({"source": "a.pdf"}, "full"),
    ({"source": {"$eq": "b.pdf"}}, "other"),
    ({"source": {"$ne": "a.pdf"}}, "other text bare"),
    ({"source": {"$in": ["a.pdf", "b.pdf", "c.pdf"]}}, "full other"),
    ({"source": {"$in": []}}, ""),
    ({"source": "a.pdf'; --"}, "text"),
    ({"source": "A.PDF"}, ""),
    ({"source": "%"}, ""),
    ({"year": 2021}, "full"),
    ({"year": 2021.0}, "full"),
    ({"year": "2021"}, "text"),
    ({"year": {"$gte": 2021, "$lt": 2023.5}}, "full"),
    ({"year": {"$gt": 2021}}, "other"),
    ({"year": {"$lte": 3000}}, "full other"),
    ({"year": {"$gte": "2020"}}, "text"),
    ({"draft": True}, "other"),
    ({"draft": 1}, ""),
    ({"draft": {"$gt": 0}}, ""),
    ({"note": None}, "full"),
    ({"note": {"$exists": True}}, "full"),
    ({"note": {"$exists": False}}, "other text bare"),
    ({"tags": "x"}, "full text"),
    ({"tags": {"$in": ["y", "z"]}}, "full"),
    ({"tags": ["x", "y"]}, "full"),
    ({"tags": ["y", "x"]}, ""),
    ({"tags": []}, "other"),
    ({"tags": {"$ne": "x"}}, "other bare"),
    ({"$or": [{"year": 2021}, {"draft": True}]}, "full other"),
    ({"$or": []}, ""),
    ({"$and": [{"source": "a.pdf"}, {"draft": True}]}, ""),
    ({"$not": {"source": "a.pdf"}}, "other text bare"),
    ({"$not": {"$or": [{"draft": True}, {"year": {"$exists": False}}]}, "tags": "x"}, "full text"),
    ({"$if_present": {"source": "a.pdf"}}, "full bare"),
    ({"$if_present": {"note": None, "tags": "x"}}, "full bare"),
    ({"year": {"$exists": True}, "$if_present": {"draft": True}}, "other text"),
)

metadata = st.dictionaries(
    st.sampled_from(["k", "k", "j"]), st.sampled_from(["a", "b", 1, 2, True, None, ["a", "b"]])
)
_conditions = st.one_of(
    st.sampled_from(["a", "b", 1, True, None]),
    st.fixed_dictionaries({"$ne": st.sampled_from(["a", 1])}),
    st.fixed_dictionaries({"$in": st.lists(st.sampled_from(["a", 2]), max_size=2)}),
    st.fixed_dictionaries({"$gte": st.sampled_from(["b", 2])}),
    st.fixed_dictionaries({"$exists": st.booleans()}),
)
filters = st.recursive(
    st.dictionaries(st.sampled_from(["k", "j"]), _conditions, max_size=2),
    lambda inner: (
        st.fixed_dictionaries({"$not": inner})
        | st.fixed_dictionaries({"$if_present": inner})
        | st.fixed_dictionaries({"$or": st.lists(inner, min_size=1, max_size=2)})
    ),
    max_leaves=3,
)


_PRECISION = 1e-5
_DIGITS = 4

_vectors = st.lists(st.integers(-2, 2), min_size=3, max_size=3).filter(any)
_ids = st.sampled_from(IDS)
_documents = st.lists(
    st.builds(VectorDocument, st.sampled_from(TEXTS), _ids, _vectors, metadata),
    min_size=1,
    max_size=4,
)
_COLLECTIONS = ("c", "C")
_collections = st.sampled_from(_COLLECTIONS)
_UNEMBEDDED = [VectorDocument("a", "a", (1, 0)), VectorDocument("b", "b")]


def _rounded(found: VectorDocument | SearchResult) -> tuple[object, ...]:
    numbers = [found.score] if isinstance(found, SearchResult) else found.embedding or ()
    rounded = [round(each, _DIGITS) for each in numbers]
    return found.id, found.content, copy.deepcopy(found.metadata), rounded


class VectorContract(StoreContract[VectorStore]):
    """Every VectorStore passes this: subclass it and provide `make`, a store without an embedding client."""

    protocol = VectorStore
    model = InMemoryVectorStore
    reads = tuple(Step("get", (IDS,), {"collection": each}) for each in _COLLECTIONS)
    keys = IDS
    wrong: ClassVar[Mapping[str, Wrong]] = {
        "collection": WRONG_ID,
        "ids": WRONG_IDS,
        "limit": WRONG_COUNT,
        "filter": wrong({"year": {"$near": 1}}, {"$nor": []}, {"year": {"$gt": None}}, "year"),
        # A query has a direction.
        "query_embedding": wrong(
            *((0, 0), (math.nan, 1), (math.inf, 1), (1e39, 0), (), "12", None, ("a", "b"))
        ),
        "documents": wrong(_UNEMBEDDED, [DocumentBlock("text", "title")]),
    }

    def operations(self) -> Iterator[st.SearchStrategy[Step]]:
        yield steps("add", _documents, collection=_collections)
        yield steps("upsert", _documents, collection=_collections)
        yield steps("delete", st.lists(_ids, max_size=2), collection=_collections)
        yield steps("delete_collection", _collections)
        yield steps(
            "search",
            _vectors,
            collection=_collections,
            limit=st.integers(0, 5),
            filter=st.none() | filters,
        )

    def comparable(self, result: Any, ids: list[str]) -> object:
        """Return documents and results with rounded numbers."""
        return [_rounded(each) for each in result or ()]

    async def put(self, store: VectorStore, key: str) -> None:
        await store.add([VectorDocument(key, "same", (1, 0))], collection=key)

    async def has(self, store: VectorStore, key: str) -> bool:
        found = await store.search((1, 0), collection=key)
        assert [each.id for each in await store.get(["same"], collection=key)] == [
            each.id for each in found
        ]
        return [each.content for each in found] == [(TextBlock(key),)]

    async def drop(self, store: VectorStore, key: str, way: int) -> None:
        await (store.delete_collection(key) if way == 0 else store.delete(["same"], collection=key))

    async def listed(self, store: VectorStore) -> list[str]:
        return await store.list_collections()

    async def arguments(self, store: VectorStore, key: str, method: str) -> Mapping[str, Any]:
        return {"collection": key, "query_embedding": (1, 0), "documents": [], "ids": []}

    async def found(
        self, store: VectorStore, query: Sequence[float] = (1, 0), **given: Any
    ) -> list[str]:
        """Return the ids that a search finds."""
        return [each.id for each in await store.search(query, **given)]

    def refused(
        self, store: VectorStore, key: str
    ) -> Iterator[tuple[type[Exception], Coroutine[Any, Any, object]]]:
        for write in (store.add, store.upsert):
            yield InvalidArgumentError, write(_UNEMBEDDED, collection="new")

    async def test_the_nearest_come_first(self, store: VectorStore) -> None:
        """Vectors are ranked by their cosine; opposite ones come last; equal ones are ordered by id."""
        await store.add(
            [VectorDocument("opposite", "o", (-5, 0)), VectorDocument("across", "x", (0, 0.1))]
        )
        await store.add(
            [
                VectorDocument("same", "b", (100, 0)),
                VectorDocument("near", "n", (1, 1)),
                VectorDocument("same", "a", (1, 0)),
            ]
        )
        results = await store.search((2, 0), limit=9)
        assert [each.id for each in results] == ["a", "b", "n", "x", "o"]
        assert [each.score for each in results] == pytest.approx(
            [1, 1, math.sqrt(0.5), 0, -1], abs=_PRECISION
        )
        assert [each.content for each in results][2:3] == [(TextBlock("near"),)]

    async def test_a_search_returns_at_most_the_limit(self, store: VectorStore) -> None:
        """A search returns five results by default and none for 0, from the documents that pass the filter."""
        documents = [
            VectorDocument("text", f"d{number}", (1, number), {"odd": number % 2 == 1})
            for number in range(12)
        ]
        await store.add(documents)
        assert await self.found(store) == [f"d{number}" for number in range(5)]
        for limit in (0, 1, 12, 100):
            assert await self.found(store, limit=limit) == [
                f"d{number}" for number in range(min(limit, 12))
            ]
        assert await self.found(store, limit=3, filter={"odd": True}) == ["d1", "d3", "d5"]

    async def test_add_inserts_what_is_absent_and_upsert_replaces(self, store: VectorStore) -> None:
        """Added again, a document stays as it is. Of two with one id the first added counts.

        `upsert` replaces content, embedding and metadata, whole, and the last of two counts.
        """
        first = VectorDocument("first", "a", (1, 0), {"n": 1, "m": 1})
        others = [
            VectorDocument("second", "a", (0, 1)),
            VectorDocument("third", "a", (0, 1), {"n": 3}),
        ]
        await store.add([first, *others])
        await store.add([*others, VectorDocument("new", "b", (1, 1))])
        assert [each.text for each in await store.get(["a", "b"])] == ["first", "new"]
        assert await store.get(["a"]) == [first]
        assert await self.found(store) == ["a", "b"]
        await store.upsert([first, *others])
        assert await store.get(["a"]) == others[1:]
        assert await self.found(store) == ["b", "a"]
        assert await self.found(store, filter={"m": 1}) == []

    async def test_filters_mean_what_they_mean_everywhere(self, store: VectorStore) -> None:
        """Each condition passes the same documents as in `kaosmem.filters`."""
        await store.add(
            [VectorDocument("text", name, (1, 0), fields) for name, fields in METADATA.items()]
        )
        for given, passing in FILTERS:
            assert {*await self.found(store, filter=given)} == {*passing.split()}, given

    async def test_embeddings_of_a_collection_have_the_same_dimensions(
        self, store: VectorStore
    ) -> None:
        """Others are refused with all beside them; another collection, or an emptied one, may have others."""
        flat = VectorDocument("a", "a", (1, 0))
        deep = VectorDocument("c", "c", (1, 0, 0))
        await store.add([flat])
        for write in (store.add, store.upsert):
            await refuses(InvalidArgumentError, write([VectorDocument("b", "b", (1, 0)), deep]))
        await refuses(InvalidArgumentError, store.search((1, 0, 0)))
        assert await self.found(store) == ["a"]
        await store.add([deep], collection="other")
        await store.delete(["a"])
        await store.add([deep])
        assert await self.found(store, (1, 0, 0)) == ["c"]
        await store.delete_all()
        await store.add([flat])
        assert await self.found(store) == ["a"]

    async def test_documents_come_back_unchanged(self, store: VectorStore) -> None:
        """Texts in any script, blocks, metadata, a very long text; embeddings in single precision."""
        facts = {"texts": [*TEXTS], "é": {"numbers": [0, -1, 2**63 - 1, 0.1, 1e300, True, None]}}
        contents: list[Any] = [
            *TEXTS,
            LARGE,
            (ImageBlock("https://example.com/a.png"), TextBlock("a")),
            (DocumentBlock("text", "title"), TextBlock("more")),
        ]
        embedding = (0.1, -1e-3, 12345.678)
        documents = [
            VectorDocument(content, f"d{n}", embedding, facts) for n, content in enumerate(contents)
        ]
        await store.add(documents)
        read = await store.get([each.id for each in documents])
        found = await store.search(embedding, limit=99)
        assert read[0].embedding == pytest.approx(embedding, rel=_PRECISION)
        for given, stored in zip(documents, read, strict=True):
            assert stored == replace(given, embedding=stored.embedding)
        assert {each.id: (each.content, each.metadata) for each in found} == {
            each.id: (each.content, each.metadata) for each in documents
        }

    async def test_nothing_is_lost_among_many_writers(self, store: VectorStore) -> None:
        """Of a hundred at once all are there, and of one document that all of them add there is one."""
        batches = [
            [VectorDocument("text", f"d{n}", (1, n)), VectorDocument(f"{n}", "same", (1, 0))]
            for n in range(100)
        ]
        await asyncio.gather(*(store.add(batch) for batch in batches))
        assert {*await self.found(store, limit=200)} == {"same", *(f"d{n}" for n in range(100))}
