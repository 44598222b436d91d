"""Values that a query language would obey, in stores that last: they are data. `tests/backends` has more of them."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from kaosmem import InvalidArgumentError
from kaosmem.backends import open_stores
from kaosmem.stores import Relationship, VectorDocument

VALUES = {
    "BI-090": "B'}) RETURN n.text UNION MATCH (n) RETURN n.text //",
    "BI-091": "'$$) as (v agtype); DROP TABLE victim; --'",
    "BI-092": "\\'...",
    "BI-095": "tenant'] = 'B' OR true //",
    "BI-107": "a} | @tenant:{b",
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
async def test_a_hostile_value_is_data(value: str, tmp_path: Path) -> None:
    """As an agent, a text, a key, a type and a filter it reads nothing of others, and comes back as it is."""
    async with open_stores(tmp_path) as stores:
        for agent in ("victim", value):
            assert await stores.facts.search(agent, f"secret {value}", superseded=True) == []
            await stores.facts.save(agent, f"secret of {agent}: {value}", key=value, metadata={value: value})
            assert [each.content for each in await stores.facts.search(agent, f"secret {value}")] == [
                f"secret of {agent}: {value}"
            ]
        await stores.vectors.add(
            [VectorDocument(value, value, (1, 0), {value: value}), VectorDocument("other", "other", (1, 0))]
        )
        assert [each.id for each in await stores.vectors.search((1, 0), filter={value: value})] == [value]
        await stores.graph.add_relationships([Relationship("a", "b", value), Relationship("a", "c", "owns")])
        found = await stores.graph.get_neighbors("a", types=[value])
        assert [each.type for each in found.relationships] == [value]


@pytest.mark.parametrize(
    "embedding", [(math.nan, 1), (1, 2, 3), (1,) * 20_000], ids=["BI-102 nan", "BI-102 3", "BI-102 many"]
)
async def test_a_vector_that_does_not_fit_is_refused(embedding: tuple[float, ...], tmp_path: Path) -> None:
    """As a query, and in a document, which is not stored."""
    async with open_stores(tmp_path) as stores:
        await stores.vectors.add([VectorDocument("a", "a", (1, 0))])
        with pytest.raises(InvalidArgumentError):
            await stores.vectors.search(embedding)
        with pytest.raises(InvalidArgumentError):
            await stores.vectors.add([VectorDocument("b", "b", embedding)])
        assert [each.id for each in await stores.vectors.search((1, 0))] == ["a"]
