"""A user's ranker gives the same contexts on machines that add floats up in another order."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from kaosmem import Item, SectionSpec, SessionMemory
from kaosmem.retrieval.ranker import ranking_of
from kaosmem.retrieval.rankers import BM25Ranker, LinearRanker
from kaosmem.testing.contracts.ranker import item_of

PARTS = 0.1, 0.2, 0.3
"""The first machine adds these up to 0.6000000000000001, the second to 0.6."""


@dataclass
class FloatIndex:
    """Scores every entry with the same parts, in an order of the machine's and of the entry's."""

    machine: int
    factor: float
    held: dict[int, Item] = field(default_factory=dict)

    def __len__(self):
        return len(self.held)

    def add(self, entries):
        self.held.update(entries)

    def update(self, ordinal, item):
        self.held[ordinal] = item

    def remove(self, ordinal):
        del self.held[ordinal]

    def rank(self, query, limit, *, among=None):
        found = []
        for ordinal in self.held if among is None else among:
            parts = PARTS if (ordinal + self.machine) % 2 else PARTS[::-1]
            found.append((ordinal, self.factor * (parts[0] + parts[1] + parts[2])))
        found.sort(key=lambda each: (-each[1], -each[0]))
        return found[:limit]


@dataclass
class FloatRanker:
    machine: int
    factor: float = 1.0
    name: str = "float"

    def index(self):
        return FloatIndex(self.machine, self.factor)


@pytest.mark.parametrize("factor", [1e-9, 1.0, 1e9])
async def test_the_last_bits_of_a_score_decide_nothing(factor):
    """Contexts and scores are equal, small scores stay apart from 0, and of equal scores the newest comes first."""
    told = []
    for machine in (0, 1):
        spec = SectionSpec(
            "notes", eviction="none", retrieval_threshold=0, ranker=FloatRanker(machine, factor)
        )
        memory = SessionMemory.test_mode(sections=(spec,))
        memory.add_many("notes", [f"The fee of lot {number} is due." for number in range(12)])
        context = await memory.assemble_context("fee", budget=60)
        ranked = [(match.id, score) for match, score in memory.search("fee", limit=12)]
        assert all(score == pytest.approx(0.6 * factor) for _, score in ranked)
        assert [each for each, _ in ranked] == [item.id for item in reversed([*memory["notes"]])]
        told.append((context.text, ranked))
    assert told[0] == told[1]


@pytest.mark.parametrize("ranker", [LinearRanker(), BM25Ranker()], ids=lambda each: each.name)
def test_the_scores_of_shipped_rankers_stay_as_they_are(ranker):
    index = ranker.index()
    texts = [
        f"The fee of lot {number} is due in May, not {'in June ' * (number % 7)}."
        for number in range(60)
    ]
    index.add(enumerate(map(item_of, texts)))
    ranked = index.rank("fee of lot 7 in June", 60)
    assert len(ranked) > 50
    assert ranking_of(index, "fee of lot 7 in June", 60).matches == ranked
