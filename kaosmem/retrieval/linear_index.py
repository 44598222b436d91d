"""An index that ranks by a linear model over signals."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from kaosmem.retrieval.bm25_index import BM25Index
from kaosmem.retrieval.candidate_scores import best_of_source, passage_scores, place_in_source, values_at
from kaosmem.retrieval.columns import Columns, StoredColumns, unusable
from kaosmem.retrieval.dates import day_of
from kaosmem.retrieval.entry_scores import EntryScores, by_chunks
from kaosmem.retrieval.labels import NONE, Labels
from kaosmem.retrieval.latent import LatentSpace
from kaosmem.retrieval.query_scores import Chosen, Query, QueryScores
from kaosmem.retrieval.ranker import Ranking
from kaosmem.retrieval.selection import best, scaled
from kaosmem.retrieval.sequences import MAX_TERMS, Sequences, phrase_scores
from kaosmem.retrieval.source_matcher import K1, B, SourceMatcher

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kaosmem.retrieval.ranker import TokensOf
    from kaosmem.retrieval.weights import Weights
    from kaosmem.types import Item

CANDIDATES = 384
"""So many of those that BM25 and their sources propose are looked at by all signals."""
_NEIGHBOURED = 64  # of the best of these so many, neighbours are candidates too, at most as many again
_NEIGHBOURS = 1, -1, 2, -2, 3, -3
_DATED = 3.0
"""What it adds to the logarithm of a score to be of a day that the question means: as much as to match it well.

It is chosen by hand, as the questions that the other weights are learned from are not asked on any day.
"""
_PASSAGE = 0.4
"""What the scores of its passage weigh for an entry of a document: chosen by hand, as the model makes these scores."""


@dataclass(frozen=True)
class Candidates:
    """The entries that all signals look at, best proposed first, and what the signals say of each.

    ordinals: shape (n,). signals: by name, each of shape (n,), most of them from 0 to 1.
    """

    ordinals: NDArray[np.int64]
    signals: Mapping[str, NDArray[np.float64]]


class LinearIndex(BM25Index):
    """Items by ordinal, ranked by the sum of their weighted signals."""

    _kind = "linear"

    def __init__(
        self, *, weights: Weights, analyze: Callable[[str], list[str]], tokens_of: TokensOf | None = None
    ) -> None:
        super().__init__(idf="lucene", k1=K1, b=B, epsilon=0.0, analyze=analyze, tokens_of=tokens_of)
        self._model = weights
        self._sequences = Sequences()
        self._sources = SourceMatcher(analyze)
        self._roles = Labels()
        self._numeric = array("f")  # share of an entry's terms that are numbers
        self._tokens = array("q")
        self._days = array("i")  # 0 of an empty slot

    def rank(self, query: str, limit: int, *, among: Collection[int] | None = None) -> Ranking:
        """Return at most `limit` (ordinal, score) as every index does.

        Its signals are what each adds to the logarithm of a score beyond what it adds to a candidate on average.
        Candidates are compared with one another, so `among` changes scores.
        """
        found, rest = self._candidates(query, max(limit, CANDIDATES), among)
        if found is None or limit < 1:
            return Ranking()
        model = self._model.conversation if self.is_conversation else self._model.documents
        weights = {"dated": _DATED, **model}
        added = {name: weights[name] * values for name, values in found.signals.items() if weights.get(name)}
        sums = sum(added.values(), np.zeros(len(found.ordinals)))
        if not self.is_conversation:
            numbers = self._sources.numbers[self._slots.find_all(found.ordinals.tolist())]
            added["passage"] = _PASSAGE * passage_scores(found.ordinals, numbers, sums)
            sums = sums + added["passage"]
        # What e makes of a smaller sum would be rounded to nothing, of a larger one to infinity.
        scores = np.exp(np.clip(sums, -20, 600))
        ranked = best(found.ordinals, scores, limit)
        if rest and len(ranked) < limit:
            least, most = ranked[-1][1], rest[0][1]
            ranked += ((ordinal, round(least * score / most, 9)) for ordinal, score in rest[: limit - len(ranked)])
        places = {ordinal: place for place, ordinal in enumerate(found.ordinals.tolist())}

        def signals(ordinal: int) -> dict[str, float]:
            place = places.get(ordinal)
            if place is None:
                return {}
            return {name: round(float(each[place] - each.mean()), 9) for name, each in added.items()}

        return Ranking([each for each in ranked if each[1] > 0], signals=signals)

    @property
    def is_conversation(self) -> bool:
        """Return whether entries have several roles."""
        return len(self._roles) > 1

    def candidates(self, query: str) -> Candidates | None:
        """Return what the model weighs for a query, to learn the weights from; None where nothing matches."""
        return self._candidates(query, CANDIDATES, None)[0]

    def _append(self, ordinal: int, item: Item, terms: list[str]) -> None:
        super()._append(ordinal, item, terms)
        self._sequences.append(terms)
        self._sources.append(item, len(terms))
        self._roles.append(item.role)
        self._numeric.append(sum(map(str.isdigit, terms)) / max(1, len(terms)))
        self._tokens.append(item.tokens)
        self._days.append(day_of(item))

    def _detach(self, slot: int) -> None:
        self._sequences.clear(slot)
        self._sources.clear(slot, self._lengths[slot])
        self._roles.clear(slot)
        self._days[slot] = 0
        super()._detach(slot)

    def _frozen(self) -> Callable[[], Columns]:
        slots = self._slots.in_order()
        numeric, tokens = np.array(self._numeric, np.float32)[slots], np.array(self._tokens, np.int64)[slots]
        days = np.array(self._days, np.int32)[slots]
        entries, sources = super()._frozen(), self._sources.frozen()
        sequences, roles = self._sequences.frozen(), self._roles.frozen()

        def columns() -> Columns:
            hashes, sizes = sequences(slots)
            names, numbers, _ = roles(slots)
            own: Columns = {"roles": names, "role_numbers": numbers, "hashes": hashes, "hash_sizes": sizes}
            return {**entries(), **sources(slots), **own, "numeric": numeric, "tokens": tokens, "days": days}

        return columns

    def _rearrange(self, slots: NDArray[np.int64]) -> None:
        super()._rearrange(slots)
        self._sequences = Sequences(*self._sequences.frozen()(slots))
        self._sources.rearrange(slots, np.array(self._lengths, np.int32))
        self._roles = Labels(*self._roles.frozen()(slots)[:2])
        self._numeric = array("f", np.array(self._numeric, np.float32)[slots].tobytes())
        self._tokens = array("q", np.array(self._tokens, np.int64)[slots].tobytes())
        self._days = array("i", np.array(self._days, np.int32)[slots].tobytes())

    def _restore(self, columns: StoredColumns) -> None:
        super()._restore(columns)
        size, names = len(self._slots), columns.texts("roles")
        numbers = columns.numbers("role_numbers", np.int32, among=(1, len(names) + 1), size=size)
        self._roles = Labels(names, numbers)
        self._sources.restore(columns, np.array(self._lengths, np.int32))
        hashes = columns.numbers("hashes", np.uint16)
        sizes = columns.numbers("hash_sizes", np.uint16, among=(0, MAX_TERMS + 1), size=size)
        if sizes.sum(dtype=np.int64) != len(hashes):
            raise unusable("its sequences are not as long as they should be")
        self._sequences = Sequences(hashes, sizes)
        self._numeric = array("f", columns.numbers("numeric", np.float32, among=(0, 2), size=size).tobytes())
        self._days = array("i", columns.numbers("days", np.int32, among=(1, 1 << 22), size=size).tobytes())
        self._tokens = array("q", columns.numbers("tokens", np.int64, among=(0, 1 << 63), size=size).tobytes())

    def _candidates(
        self, query: str, limit: int, among: Collection[int] | None
    ) -> tuple[Candidates | None, list[tuple[int, float]]]:
        """Return the candidates with their signals, and which entries come after them, best first."""
        scores = self._scores(Query(query, self._analyze))
        slots = scores.contenders(limit) if among is None else self._slots_of(among)
        if slots is None:
            ranked = best(self._slots.ordinals, by_chunks(scores.proposed, len(self._slots)), limit)
        else:
            ranked = best(self._slots.ordinals[slots], scores.proposed(slots), limit)
        if not ranked:
            return None, []
        first = [ordinal for ordinal, _ in islice(ranked, CANDIDATES - _NEIGHBOURED)]
        chosen = first + self._neighbours_of(first[:_NEIGHBOURED], {*first}, among)
        known = {*chosen}
        rest = [each for each in ranked if each[0] not in known]
        return Candidates(np.array(chosen), self._signals(scores, self._chosen(chosen))), rest

    def _scores(self, asked: Query) -> QueryScores:
        words = clause = self._scores_of(self._weights_of(asked.terms))
        if asked.clause != asked.terms:
            clause = self._scores_of(self._weights_of(asked.clause))
        sources = self._sources.matches(asked, self._occurrences(asked.counts))
        return QueryScores(asked, words, clause, sources, self._sources.numbers, self._dated(asked))

    def _chosen(self, ordinals: list[int]) -> Chosen:
        slots = self._slots.find_all(ordinals)
        numbers = self._sources.numbers[slots]
        near = {step: self._neighbour_slots(ordinals, numbers, step) for step in (-2, -1, 1, 2)}
        return Chosen(ordinals, slots, numbers, near)

    def _signals(self, scores: QueryScores, chosen: Chosen) -> dict[str, NDArray[np.float64]]:
        asked, slots, numbers, near = scores.asked, chosen.slots, chosen.numbers, chosen.near
        words, clause, source = scores.words.shares(slots), scores.clause.shares(slots), scores.sources[numbers]
        hashes, rows = self._sequences.gathered(slots.tolist())
        phrases = phrase_scores(asked.terms, hashes, rows, len(slots))
        latent = LatentSpace(hashes, rows, len(slots))
        meaning = clause_meaning = latent.similarities(asked.terms)
        if asked.clause != asked.terms:
            clause_meaning = latent.similarities(asked.clause)
        before, after = (values_at(clause_meaning, slots, near[step]) for step in (-1, 1))
        roles, named = np.frombuffer(self._roles.numbers, np.int32)[slots], np.zeros(self._roles.size)
        for role, role_number in self._roles.number_of.items():
            named[role_number] = self._is_named(role, asked.counts)
        number = np.minimum(1.0, 3.0 * np.frombuffer(self._numeric, np.float32)[slots].astype(np.float64))
        rarest, share = self._sources.named(asked, numbers)
        signals = {} if scores.dated is None else {"dated": scores.dated[slots]}
        return signals | {
            "words": words,
            "clause": clause,
            "source": source,
            "words_and_source": words * source,
            "clause_and_source": clause * source,
            "best_of_source": best_of_source(numbers, words),
            "clause_in_source": place_in_source(numbers, clause),
            "title": rarest**3,
            "title_share": share,
            "title_and_share": rarest * share,
            "phrases": scaled(phrases),
            "meaning": meaning,
            "clause_meaning": clause_meaning,
            "nearby_meaning": (before + after) / 2,
            "next_words": _of(scores.words, near[1]),
            "nearby_words": (_of(scores.words, near[-2]) + _of(scores.words, near[2])) / 2,
            "nearby_clause": (_of(scores.clause, near[-1]) + _of(scores.clause, near[1])) / 2,
            "numbers": number,
            "asked_numbers": number * asked.is_for_number,
            "assistant": (roles == self._roles.number_of.get("assistant", NONE)).astype(np.float64),
            "named_speaker": named[roles],
            "size": np.log(np.maximum(1, self._tokens_now(chosen.ordinals, slots))) / 5,
        }

    def _dated(self, asked: Query) -> NDArray[np.float64] | None:
        """Return 1 for each slot with an entry of a day that the query means, None where it means none."""
        if not asked.periods:
            return None
        days = np.frombuffer(self._days, np.int32)
        meant = [(first <= days) & (days <= last) for first, last in asked.periods]
        is_meant: NDArray[np.bool_] = np.any(np.array(meant), axis=0)
        return is_meant.astype(np.float64)

    def _occurrences(self, terms: Iterable[str]) -> Iterator[tuple[str, NDArray[np.int64], NDArray[np.int64]]]:
        for term in terms:
            if term in self._postings:
                slots, times, _ = self._postings.unpacked([term])
                yield term, slots, times

    def _neighbours_of(self, ordinals: list[int], known: set[int], among: Collection[int] | None) -> list[int]:
        """Return what is not known beside these entries in the same named source, at most _NEIGHBOURED.

        Who asks for a word gets what has it, and beside that what belongs to it.
        """
        found: dict[int, None] = {}
        allowed = among if among is None or isinstance(among, Set) else set(among)
        numbers = self._sources.numbers
        for ordinal in ordinals:
            source = numbers[self._slots.get(ordinal)]
            for step in _NEIGHBOURS if source != NONE else ():
                slot = self._slots.get(ordinal + step)
                if slot < 0 or numbers[slot] != source or ordinal + step in known:
                    continue
                if allowed is None or ordinal + step in allowed:
                    found[ordinal + step] = None
        return list(islice(found, _NEIGHBOURED))

    def _neighbour_slots(self, ordinals: list[int], numbers: NDArray[np.int32], step: int) -> NDArray[np.int64]:
        """Return the slots of what stands so many steps from each entry in the same source, -1 where nothing does.

        Where no source is named, only what was said in a conversation has neighbours.
        """
        slots = self._slots.find_all([ordinal + step for ordinal in ordinals])
        belongs = self._sources.numbers[slots] == numbers
        if not self.is_conversation:
            belongs &= numbers != NONE
        return np.where(belongs, slots, -1)

    def _tokens_now(self, ordinals: list[int], slots: NDArray[np.int64]) -> NDArray[np.int64]:
        if self.tokens_of is None:
            return np.frombuffer(self._tokens, np.int64)[slots]
        return np.array(self.tokens_of(ordinals), np.int64)

    def _is_named(self, role: str, terms: Collection[str]) -> bool:
        return any(term in terms for term in self._analyze(role))


def _of(scores: EntryScores, slots: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.where(slots >= 0, scores.shares(slots), 0.0)
