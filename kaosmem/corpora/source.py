"""A corpus as a source of a session: the engine proposes passages, and kaosmem ranks them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from kaosmem.arguments import check_count, check_instance
from kaosmem.corpora.corpus import CANDIDATES, MICROSECOND, Corpus, ProposedPassages
from kaosmem.filters import MetadataFilter
from kaosmem.language.analysis import analyze
from kaosmem.language.query import Query
from kaosmem.retrieval.ranker import (
    CollectionStatistics,
    Index,
    Ranker,
    SampleIndex,
)
from kaosmem.retrieval.rankers import LinearRanker
from kaosmem.sections.proposal import CandidatePool, Proposal
from kaosmem.sections.section import Section
from kaosmem.sections.spec import SectionSpec
from kaosmem.sources.store_source import StoreSource, holding, unanswered
from kaosmem.types.content import Trust
from kaosmem.types.items import Item

CORPUS = SectionSpec("corpus", None, 50, 0.35, eviction="none", retrieval_threshold=0)

_READ_FOR_HOP = 3
"""The terms of so many of the best passages make the second question."""
_HOP_TERMS = 24
"""The second question has so many terms, the rarest ones."""


class CorpusSource(StoreSource):
    """The passages of a corpus that match the query.

    The engine of the corpus proposes passages for the query, and passages for the rarest terms of
    the best of these. A corpus with fewer passages than that is proposed whole. The ranker scores
    them as if it had the whole corpus. All of a question is answered from one version of the
    corpus. `SessionMemory.at(known_at=...)` asks the version of that time.

    Args:
        corpus: `corpus.at(version)` stands for an older version.
        ranker: Ranks the candidates. The default is that of a section.
        candidates: Number of passages that the engine proposes.

    Raises:
        InvalidArgumentError: If an argument is not valid.
    """

    def __init__(
        self,
        corpus: Corpus,
        *,
        spec: SectionSpec = CORPUS,
        ranker: Ranker | None = None,
        candidates: int = CANDIDATES,
        trust: Trust = Trust.EXTERNAL,
    ) -> None:
        super().__init__(spec, trust=trust)
        self._corpus = check_instance(corpus, Corpus, "corpus")
        self._ranker = check_instance(ranker or LinearRanker(), Ranker, "ranker")
        self._limit = check_count(candidates, "candidates", least=1)

    async def propose(
        self,
        query: Query,
        *,
        cap: int,
        wanted: MetadataFilter | None = None,
    ) -> Proposal:
        """Return the passages that match the query; none without a query."""
        terms = analyze(query.text)
        if not terms or not cap:
            return Proposal(())
        corpus = self._corpus
        if query.known_at is not None:
            corpus = corpus.at(query.known_at)
        first = await corpus.candidates(terms, limit=self._limit, filter=wanted)
        version = corpus
        if first.version:
            version = corpus.at(first.version)
        others = await self._others(version, first, terms, wanted)
        found = {each.id: each for each in (*first.found, *others)}
        if not found and wanted is not None:
            known = await corpus.candidates((), limit=self._limit)
            return Proposal((), unanswered=unanswered(known.found, wanted))
        if not found:
            return Proposal((), has_no_match=True)
        ordered = sorted(found.values(), key=lambda each: (each.created_at, each.id))
        sample = await asyncio.to_thread(self._sample, ordered, first.statistics)
        asked = replace(query, known_at=None)
        proposal = await asyncio.to_thread(sample.proposer.propose, asked, cap=cap, wanted=wanted)
        # The tokens of the corpus are judged by the sample.
        size = first.statistics.entries
        tokens = sum(each.tokens for each in ordered) * size // len(ordered)
        return replace(proposal, pool=CandidatePool(size, tokens, first.statistics.frequencies))

    async def get(self, item_id: str) -> Item | None:
        """Return a passage, or None."""
        found = await self._corpus.get(self._store_ids([item_id]))
        if found:
            return self._item_of(found[0])
        return None

    async def forget(self, item_ids: Collection[str]) -> None:
        """Erase passages from the corpus, with all its older versions."""
        await self._corpus.erase(ids=self._store_ids(item_ids))

    async def _others(
        self,
        corpus: Corpus,
        first: ProposedPassages,
        asked: Sequence[str],
        wanted: MetadataFilter | None,
    ) -> list[Item]:
        """Return the passages for the rarest terms of the best ones.

        Where few match, return further passages: all of a small corpus, else of their sources.
        """
        terms = set[str]()
        for each in first.found[:_READ_FOR_HOP]:
            terms.update(analyze(each.text))
        collection = await corpus.statistics(terms.difference(asked))
        shared = []
        for term, frequency in collection.frequencies.items():
            if frequency > 1:
                shared.append((frequency, term))
        rarest = [term for _, term in sorted(shared)[:_HOP_TERMS]]
        others: list[Item] = []
        most = self._limit
        left = most - len(first.found)
        if rarest:
            limit = max(1, most // 4, left)
            linked = await corpus.candidates(rarest, limit=limit, filter=wanted)
            others += linked.found
        if left > 0:
            rest = await corpus.candidates((), limit=most, filter=wanted)
            if len(rest.found) == most:
                names = " ".join(each.metadata["source"] for each in first.found)
                rest = await corpus.candidates(analyze(names), limit=left, filter=wanted)
            others += rest.found
        return others

    def _sample(self, found: Sequence[Item], statistics: CollectionStatistics) -> Section:
        """Return a section with the found passages, ranked as the corpus would rank them."""
        ranker = _SampleRanker(self._ranker, statistics)
        section = Section(holding(self.spec, ranker=ranker, recent=0))
        for ordinal, each in zip(ordinals_of(found), found, strict=True):
            section.held.taken = ordinal  # two follow each other only if they are neighbours
            section.add(self._item_of(each))
        return section

    def _item_of(self, found: Item) -> Item:
        item = self._item(found.id, found.content, role=found.role, metadata=found.metadata)
        return replace(item, tokens=found.tokens, created_at=found.created_at)


def ordinals_of(found: Iterable[Item]) -> list[int]:
    """Return an ordinal for each passage, oldest first: those of two neighbours differ by one.

    Passages of a source that were added together are neighbours.
    """
    ordinals = []
    ordinal = -1
    expected: object = None
    for each in found:
        source = each.metadata["source"]
        ordinal += 1
        if (source, each.created_at) != expected:
            ordinal += 1
        ordinals.append(ordinal)
        expected = (source, each.created_at + MICROSECOND)
    return ordinals


@dataclass(frozen=True)
class _SampleRanker:
    """A ranker of a sample, whose index scores it as the collection would."""

    ranker: Ranker
    statistics: CollectionStatistics

    @property
    def name(self) -> str:
        return self.ranker.name

    def index(self) -> Index:
        index = self.ranker.index()
        if isinstance(index, SampleIndex):
            index.collection = self.statistics
        return index
