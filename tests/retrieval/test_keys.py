"""Keys count as words of their items; those that a machine made do not."""

from __future__ import annotations

from uuid import UUID

import pytest

from kaosmem import SectionSpec, SessionMemory
from kaosmem.language.keys import key_words
from kaosmem.retrieval import GraphRanker, RankBM25Ranker
from kaosmem.retrieval.embedders import WordVectorEmbedder
from kaosmem.retrieval.rankers import BM25Ranker, DenseRanker, LinearRanker

RANKERS = [
    LinearRanker(),
    BM25Ranker(),
    RankBM25Ranker(),
    GraphRanker(),
    DenseRanker(embedder=WordVectorEmbedder()),
]


@pytest.mark.parametrize("ranker", RANKERS, ids=lambda ranker: ranker.name)
@pytest.mark.parametrize("key", ["address", "home_address", "user:42:homeAddress"])
async def test_a_question_finds_what_its_key_says(ranker, key):
    """Among 40 texts of the same kind, whose keys or texts do not say that they are it."""
    spec = SectionSpec("facts", eviction="none", ranker=ranker)
    memory = SessionMemory.test_mode(sections=(spec,))
    memory.add("facts", "The user moved to 77 Quay Road", key=key)
    for number in range(40):
        memory.add(
            "facts", f"The firm {number} moved to {number} Mill Street", key=f"firm-{number}"
        )
    assert memory.search("What is my address?")[0][0].key == key
    context = await memory.assemble_context("What is my address?", budget=60)
    assert "77 Quay Road" in context.text


@pytest.mark.parametrize("ranker", RANKERS, ids=lambda ranker: ranker.name)
def test_a_key_that_a_machine_made_matches_nothing(ranker):
    """A path names its file in every passage, and the digits of a counter or a UUID mean nothing."""
    spec = SectionSpec("facts", eviction="none", ranker=ranker, retrieval_threshold=0)
    memory = SessionMemory.test_mode(sections=(spec,))
    for number in range(1, 30):
        memory.add(
            "facts",
            f"Something else, said in passing: {number * 1001}.",
            key=f"docs/server.py#{number}",
        )
    memory.add("facts", "The table stands there.", key="note-7")
    memory.add("facts", "The chair stands there.", key=str(UUID(int=7 << 64)))
    memory.add("facts", "Room 7 has a server.", key="b")
    assert memory.search("Which server is in room 7?")[0][0].key == "b"
    if not isinstance(ranker, DenseRanker):  # which finds what is a little like the query
        assert [item.key for item, _ in memory.search("7")] == ["b"]


def test_the_words_of_keys():
    """In any script, written in any way; a long number is a name."""
    assert key_words("adresse/école") == "adresse école"
    assert key_words("住所") == "住所"
    assert key_words("order-4711") == "order 4711"
    assert key_words("Q3 revenue") == "Q3 revenue"
    assert key_words("9f86d081884c7d659a2f") == ""
    assert key_words("docs/server.py") == ""
    assert key_words("a b c d e f g h i") == "a b c d e f g h"
    assert key_words("user:550e8400-e29b-41d4-a716-446655440000:address") == "user address"
    assert key_words("user:a1b2c3d4:address") == "user address"
    assert key_words("oauth2_address") == "oauth2 address"
    assert key_words("wifi_password2") == "wifi password2"
    assert key_words("ticket-AB12CD") == "ticket AB12CD"
    assert key_words("user#address") == "user address"
    assert key_words("facts/user.email") == "facts user email"
    assert key_words("docs/server.py#12") == key_words("server.py") == ""
    assert key_words("cache_x7Kq91bTz04f") == "cache"
