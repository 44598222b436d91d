"""The second hop: entries that share a rare term with one of the best matches.

"Where does my sister's flatmate work?" matches "My flatmate is called Ines", and this one leads to
"Ines started at the harbour office". That has no word of the question, or few.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kaosmem.exact import log, logs
from kaosmem.retrieval.candidate_terms import ENOUGH_TEXTS, MAX_TERMS
from kaosmem.retrieval.scores import CHANCE, ONE, RANK_GAP, UNIT, WEIGHT_UNITS, chances, product

if TYPE_CHECKING:
    from kaosmem.retrieval.candidate_terms import CandidateTerms
    from kaosmem.retrieval.columns import Bools, Int64s
    from kaosmem.retrieval.text_index import Echoes, TextIndex

BRIDGES = 3
"""So many of the best entries lead to others."""
_WEIGHT = 5 * WEIGHT_UNITS
"""Of what the best match leads to: by hand, as the model makes the scores of matches."""
_HALF_WEIGHT_TOKENS = 64
"""An entry of so many tokens counts half: a long text shares a rare word with many by chance."""
_LEAST_FREQUENCY = 2.5
"""Of a term that leads to another entry: two, and the half that is added to each frequency."""
_RARE_PART = 8
"""At most so large a part of all entries, one in eight, has a rare term."""


class SecondHop:
    """What the best matches of a query lead to.

    Args:
        index: Of the entries.
        asked: Numbers of the query's terms. They lead nowhere: each match has them.
        echoes: The messages that are the query itself.
    """

    def __init__(self, index: TextIndex, asked: list[int], echoes: Echoes) -> None:
        self._index = index
        self._asked = np.array(sorted({*asked} - {0}), np.int64)
        self._echoes = echoes
        self._rare: dict[int, tuple[Int64s, Int64s]] = {}  # by slot

    def _rare_terms(self, slot: int) -> tuple[Int64s, Int64s]:
        """Return the terms by which an entry leads to others, and their cubed weights.

        A term that only two entries have has the weight ONE. A rare term has at least half of this,
        and at most an eighth of all entries have it.
        """
        if slot in self._rare:
            return self._rare[slot]
        index = self._index
        terms = np.unique(index.sequences.of(slot)[:MAX_TERMS]).astype(np.int64)
        frequencies = index.vocabulary.frequencies.values[terms].astype(np.int64)
        size = len(index) + 1
        is_rare = (frequencies > 1) & (frequencies * _RARE_PART <= size)
        is_rare &= frequencies * frequencies < _LEAST_FREQUENCY * size
        is_rare &= ~np.isin(terms, self._asked)
        weights = logs(size / (frequencies[is_rare] + 0.5)) / log(size / _LEAST_FREQUENCY)
        shares = np.rint(ONE * weights).astype(np.int64)
        self._rare[slot] = terms[is_rare], product(product(shares, shares), shares)
        return self._rare[slot]

    def reached(self, bridges: Int64s, scores: Int64s) -> Int64s:
        """Return how well each slot is reached from the best matches.

        Args:
            bridges: The slots of the matches, best first.
            scores: Of the matches, above 0.
        """
        weights: dict[int, int] = {}
        best = int(scores[0])
        for slot, score in zip(bridges.tolist(), scores.tolist(), strict=True):
            terms, shares = self._rare_terms(slot)
            for term, share in zip(terms.tolist(), shares.tolist(), strict=True):
                weight = share * score // best
                weights[term] = max(weights.get(term, 0), weight)
        places, slots, _ = self._index.postings([*weights])
        found = np.zeros(self._index.size, np.int64)
        np.maximum.at(found, slots, np.array([*weights.values()], np.int64)[places])
        return found

    def lifts(self, slots: Int64s, terms: CandidateTerms, sums: Int64s) -> Int64s:
        """Return what each candidate gains where one of the best leads to it.

        It gains more if it has the words of the query that the other one lacks. No candidate comes
        before the one that leads to it by this alone: a near copy of the best match shares its rare
        terms, too.

        Args:
            slots: Of the candidates.
            terms: Of the candidates.
            sums: Their weighted signals.
        """
        has_asked = terms.having_each(self._asked)
        tokens = self._index.facts.values["tokens"][slots]
        trust = min(ONE, len(self._index) * ONE // ENOUGH_TEXTS)
        brevity = trust * _HALF_WEIGHT_TOKENS // (_HALF_WEIGHT_TOKENS + tokens)
        chance = chances(sums, UNIT)
        lifted = sums
        for bridge in np.argsort(-sums, kind="stable")[:BRIDGES].tolist():
            rare, weights = self._rare_terms(int(slots[bridge]))
            has_rare = terms.having_each(rare)
            shared = (has_rare * weights[:, None]).max(axis=0, initial=0)
            shared = product(product(shared, brevity), self._completions(has_asked, bridge))
            gains = _WEIGHT * (shared * chance[bridge] // CHANCE)
            most = sums[bridge] - RANK_GAP
            lifted = np.maximum(lifted, np.minimum(sums + gains, most))
        return lifted - sums

    def _completions(self, has_asked: Bools, bridge: int) -> Int64s:
        """Return how well candidates complete what one of them says: from a half to ONE.

        ONE is for a candidate with all words of the query that the other one lacks.

        Args:
            has_asked: Whether each candidate has each term of the query.
            bridge: The candidate that leads to others.
        """
        idfs = [self._index.idf(number, self._echoes) for number in self._asked.tolist()]
        missing = np.array(idfs, np.int64) * ~has_asked[:, bridge]
        all_missing = max(1, int(missing.sum()))
        covered = ONE * (missing @ has_asked) // all_missing
        return (ONE + covered) // 2
