"""The contract of every VectorStore."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from kaosmem.errors import InvalidArgumentError
from kaosmem.stores.vector import VectorDocument, VectorStore
from kaosmem.testing.contracts.store import (
    IDS,
    StoreContract,
    refuses,
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

_PRECISION = 1e-5


class VectorContract(StoreContract[VectorStore]):
    """Every VectorStore passes this: subclass it and provide `make`.

    The store has no embedding client.
    """

    keys = IDS

    async def write(
        self,
        store,
        key,
        text,
    ):
        await store.add([VectorDocument(text, "same", (1, 0))], collection=key)

    async def read(self, store, key):
        held = await store.get(["same"], collection=key)
        found = await store.search((1, 0), collection=key)
        assert [each.content for each in found] == [each.content for each in held]
        return held[0].text if held else None

    async def drop(
        self,
        store,
        key,
        way,
    ):
        await (store.delete_collection(key) if way == 0 else store.delete(["same"], collection=key))

    async def listed(self, store):
        return await store.list_collections()

    async def found(
        self,
        store: VectorStore,
        query: Sequence[float] = (1, 0),
        **given: Any,
    ) -> list[str]:
        """Return the ids that a search finds."""
        return [each.id for each in await store.search(query, **given)]

    async def test_the_nearest_come_first(self, store):
        """Vectors are ranked by their cosine. Equal ones are ordered by id."""
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

    async def test_a_search_returns_at_most_the_limit(self, store):
        """Five results are the default. The limit counts the documents that pass the filter."""
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

    async def test_add_inserts_what_is_absent_and_upsert_replaces(self, store):
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

    async def test_filters_mean_what_they_mean_everywhere(self, store):
        """Each condition passes the same documents as in `kaosmem.filters`."""
        await store.add(
            [VectorDocument("text", name, (1, 0), fields) for name, fields in METADATA.items()]
        )
        for given, passing in FILTERS:
            assert {*await self.found(store, filter=given)} == {*passing.split()}, given

    async def test_embeddings_of_a_collection_have_the_same_dimensions(self, store):
        """A document with other dimensions is refused, with all beside it.

        Another collection, or an emptied one, may have other dimensions.
        """
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

    async def test_documents_come_back_unchanged(self, store):
        """Blocks and metadata come back unchanged; embeddings in single precision."""
        facts = {"é": {"numbers": [0, -1, 2**63 - 1, 0.1, 1e300, True, None]}, "texts": [*IDS]}
        contents: list[Any] = [
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

    async def test_nothing_is_lost_among_many_writers(self, store):
        """The documents of a hundred writers are all there. The one that all add is there once."""
        batches = [
            [VectorDocument("text", f"d{n}", (1, n)), VectorDocument(f"{n}", "same", (1, 0))]
            for n in range(100)
        ]
        await asyncio.gather(*(store.add(batch) for batch in batches))
        assert {*await self.found(store, limit=200)} == {"same", *(f"d{n}" for n in range(100))}
