"""An index that ranks by a linear model over signals, in whole numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from kaosmem.exact import logs
from kaosmem.language.analysis import Analyzer, analyze
from kaosmem.retrieval.bm25 import SHARE_BITS
from kaosmem.retrieval.candidate_signals import QueryMatches, SignalCandidates, Signals, weighted
from kaosmem.retrieval.candidate_terms import ENOUGH_TEXTS, CandidateTerms, topics
from kaosmem.retrieval.query_terms import NO_SOURCE, QueryTerms, SourceMatches
from kaosmem.retrieval.ranker import Ranking
from kaosmem.retrieval.scores import (
    ONE,
    Scored,
    hundredths,
    matches_of,
    product,
    scaled_below,
    share_of_best,
    signals_of,
    top,
)
from kaosmem.retrieval.second_hop import BRIDGES, SecondHop
from kaosmem.retrieval.text_index import Echoes, TextIndex
from kaosmem.retrieval.vocabulary import NO_ROW, NO_TERM, TOPIC_UNITS, word_vectors

if TYPE_CHECKING:
    from kaosmem.retrieval.columns import Bools, Int64s
    from kaosmem.retrieval.rankers import Weights

K1, B = 1.2, 0.4
"""BM25's parameters of entries where signals are added to it."""
CANDIDATES = 384
"""So many of those that BM25 and their sources propose are looked at by all signals."""
_MATCHES_WITH_NEIGHBOURS = 64
"""Neighbours of so many of the best are candidates too, at most as many again."""
_NEIGHBOURS = 1, -1, 2, -2, 3, -3
_MAX_LINKED = 32
"""So many entries that share a rare term with the best are candidates, too."""
_MAX_RULES = 32
"""So many of the newest standing rules are candidates for every query: a request names none."""


class LinearIndex(TextIndex):
    """Items by ordinal, ranked by the sum of their weighted signals."""

    _kind = "linear"

    def __init__(
        self,
        *,
        weights: Weights,
        analyze: Analyzer = analyze,
    ) -> None:
        super().__init__(k1=K1, b=B, analyze=analyze)
        self._model = weights

    def rank(
        self,
        query: str,
        limit: int,
        *,
        among: Collection[int] | None = None,
    ) -> Scored:
        return [*self.ranking(query, limit, among=among).matches]

    def ranking(
        self,
        query: str,
        limit: int,
        *,
        among: Collection[int] | None = None,
    ) -> Ranking:
        """Return at most `limit` (ordinal, score), with their signals.

        The best entry has 100. An entry with 50 is half as likely to be an answer, by the model's
        reckoning. Entries are compared with one another, so `among` changes scores. A signal is its
        addend to the logarithm of a score, less its average over the candidates. For a word that no
        entry has, a word that is spelt almost the same stands, or words that mean almost the same.
        """
        if limit < 1:
            return Ranking()
        matches = self._matched(QueryTerms(query, self.analyze))
        echoes = self._echoing(matches, among)
        found, ordinals, proposed = self._proposed(matches, max(limit, CANDIDATES), among)
        if found is None:
            return Ranking(echoes[:limit])
        added = self.weighted(found)
        none = np.zeros(len(found.ordinals), np.int64)
        scores = hundredths(sum(added.values(), none))
        order = top(scores, found.ordinals, limit)
        ranked = matches_of(found.ordinals[order], scores[order])
        if len(ordinals) and len(ranked) < limit:
            ranked += scaled_below(int(scores[order[-1]]), ordinals, proposed)
        if echoes:
            ranked = [*(dict(ranked) | dict(echoes)).items()]
            ranked.sort(key=lambda each: (-each[1], -each[0]))
        return Ranking(ranked[:limit], signals=signals_of(found.ordinals, added))

    def _echoing(
        self,
        matches: QueryMatches,
        among: Collection[int] | None,
    ) -> Scored:
        """Return the messages that are the query itself: all have the best score."""
        ordinals = self.slots.ordinals[matches.echoes.slots].tolist()
        return [
            (each, 100.0)
            for each in sorted(ordinals, reverse=True)
            if among is None or each in among
        ]

    @property
    def is_conversation(self) -> bool:
        """Return whether entries have several roles."""
        return len(self.roles) > 1

    def candidates(self, query: str) -> SignalCandidates | None:
        """Return the candidates for a query with their signals, to learn weights from.

        Returns:
            None if nothing matches.
        """
        matches = self._matched(QueryTerms(query, self.analyze))
        return self._proposed(matches, CANDIDATES, None)[0]

    def weighted(self, found: SignalCandidates) -> Signals:
        """Return the weighted signals of candidates, by name."""
        if self.is_conversation:
            return weighted(found, self._model.conversation)
        named = found.matches.named / ONE
        model = {name: (1 - named) * each for name, each in self._model.documents.items()}
        for name, weight in self._model.named_documents.items():
            model[name] = model.get(name, 0.0) + named * weight
        return weighted(found, model)

    def _proposed(
        self,
        matches: QueryMatches,
        limit: int,
        among: Collection[int] | None,
    ) -> tuple[SignalCandidates | None, Int64s, Int64s]:
        """Return the candidates, and the ordinals and scores of the entries after them."""
        scores = self._proposing(matches)
        is_allowed = None
        if among is not None:
            is_allowed = np.zeros(self.size, np.bool_)
            is_allowed[self.slots.among(among)] = True
            scores *= is_allowed
        ordinals = self.slots.ordinals
        first = CANDIDATES - _MATCHES_WITH_NEIGHBOURS
        ranked = top(scores, ordinals, limit)
        if len(ranked) > first:
            best_left_out = scores[ranked[first]]
            if scores[ranked[first - 1]] == best_left_out:
                untied = self._untied(scores, best_left_out, matches)
                ranked = top(untied, ordinals, limit)
        slots = self._with_others(ranked[:first], matches.echoes, is_allowed)
        if not len(slots):
            return None, ranked, ranked
        hop = SecondHop(self, matches.terms, matches.echoes)
        linked = self._linked(hop, slots, scores, is_allowed)
        slots = np.concatenate([slots, linked])
        is_chosen = np.zeros(self.size, np.bool_)
        is_chosen[slots] = True
        rest = ranked[~is_chosen[ranked]]
        return SignalCandidates(self, matches, slots, hop), ordinals[rest], scores[rest]

    def _matched(self, asked: QueryTerms) -> QueryMatches:
        echoes = self.echoes(asked.text)
        is_known = partial(self.is_known, echoes=echoes)
        asked.respell(self.vocabulary, is_known)
        terms = self.numbers_of(asked.terms)
        counts = Counter(filter(None, terms))
        clause = terms
        # A message of a conversation asks in all its clauses; a question on documents begins with
        # its subject.
        if not self.is_conversation:
            clause = self.numbers_of(asked.clause)
        # "What did the dental work cost?" finds "We paid 412 euros for the dentist".
        related = {}
        near = asked.related(self.vocabulary, is_known, is_spoken=self.is_conversation)
        for number, share in near.items():
            related[number] = self.idf(number, echoes) * share >> SHARE_BITS
        asked_words = self.weights(counts, echoes) | related
        clause_words = self.weights(filter(None, clause), echoes) | related
        words, in_clause = self._words(asked_words, clause_words, echoes)
        sources = SourceMatches(self, asked, counts)
        named = ONE if self.is_conversation else sources.named()
        # Sources count in full from ENOUGH_TEXTS entries on: fewer say little.
        trust = min(ONE, len(self) * ONE // ENOUGH_TEXTS) * named // ONE
        by_source = product(sources.shares, trust)
        return QueryMatches(
            asked, terms, clause, echoes, words, in_clause, sources, by_source, trust, named
        )

    def _words(
        self,
        asked: Mapping[int, int],
        clause: Mapping[int, int],
        echoes: Echoes,
    ) -> tuple[Int64s, Int64s]:
        """Return the matches of all slots with the query and its clause, as shares of the best.

        Both are the same array if the clause is the query.

        Args:
            asked, clause: The weights of the terms of the query and of its clause.
        """
        if clause == asked:
            (scores,) = self.bm25(asked)
            scores[echoes.slots] = 0
            words = share_of_best(scores)
            return words, words
        of_all = {**dict.fromkeys(clause, 0), **asked}
        scores, of_clause = self.bm25(of_all, clause)
        scores[echoes.slots] = 0
        of_clause[echoes.slots] = 0
        return share_of_best(scores), share_of_best(of_clause)

    def _proposing(self, matches: QueryMatches) -> Int64s:
        """Return the scores of all slots that choose the candidates and order the other entries.

        An empty slot has 0: it has no words and no source.
        """
        clause = matches.in_clause
        # Shares chosen by hand: who is a candidate depends on them.
        scores = 10 * matches.words
        scores += 6 * clause
        if matches.by_source.any():
            source = matches.by_source[self.sources.numbers]
            scores += 5 * (source + product(clause, source))
        return scores

    def _untied(
        self,
        scores: Int64s,
        score: int,
        matches: QueryMatches,
    ) -> Int64s:
        """Return the proposing scores, a little higher for tied entries with the query's phrases.

        Short texts of one pattern tie by the thousand, and only some can be candidates.
        """
        (tied,) = np.nonzero(scores == score)
        terms = CandidateTerms(self.sequences, tied)
        untied = scores * (2 * ONE)
        untied[tied] += terms.phrase_shares(matches.clause)
        return untied

    def _with_others(
        self,
        first: Int64s,
        echoes: Echoes,
        is_allowed: Bools | None,
    ) -> Int64s:
        """Return slots with the slots of neighbours and of rules after them, each once.

        A question for a word finds the entries with the word, the answers to questions with the
        word, and the neighbours: the entries beside them in the same named source. Rules alone are
        no answer.
        """
        if is_allowed is None:
            allowed = self.slots.are_full
        else:
            allowed = is_allowed.copy()
        allowed[first] = False
        best = first[:_MATCHES_WITH_NEIGHBOURS]
        named = best[self.sources.numbers[best] != NO_SOURCE]
        found = self.neighbours(named, _NEIGHBOURS).T.ravel()
        if self.is_conversation:
            after = self.neighbours(np.concatenate([echoes.slots, best]), [1])[0]
            after = after[after >= 0]
            answers = after[self.questions_before(after) >= 0]
            found = np.concatenate([answers, found])
        found = found[found >= 0]
        _, places = np.unique(found, return_index=True)
        neighbours = found[np.sort(places)]
        neighbours = neighbours[allowed[neighbours]][:_MATCHES_WITH_NEIGHBOURS]
        if not len(first) and not len(neighbours):
            return first
        allowed[neighbours] = False
        if self.is_conversation:
            rules = self.rules()[: -_MAX_RULES - 1 : -1]
        else:
            rules = first[:0]
        return np.concatenate([first, neighbours, rules[allowed[rules]]])

    def _linked(
        self,
        hop: SecondHop,
        slots: Int64s,
        scores: Int64s,
        is_allowed: Bools | None,
    ) -> Int64s:
        """Return the slots that the best matches lead to, beside those that are candidates.

        Args:
            slots: Of the candidates, best first.
            scores: The proposing scores of all slots.
        """
        bridges = slots[:BRIDGES]
        bridges = bridges[scores[bridges] > 0]
        if not len(bridges):
            return bridges
        by_slot = hop.reached(bridges, scores[bridges])
        by_slot[slots] = 0
        if is_allowed is not None:
            by_slot *= is_allowed
        return top(by_slot, self.slots.ordinals, _MAX_LINKED)

    def questions_before(self, slots: Int64s) -> Int64s:
        """Return the slot of the question that each entry answers, -1 for none.

        It is the entry right before it in the same source, by another speaker.
        """
        before = self.neighbours(slots, [-1])[0]
        roles = self.roles.numbers
        is_asked = self.facts.values["is_question"][before] > 0
        is_another = roles[before] != roles[slots]
        is_answer = (before >= 0) & is_asked & is_another
        return np.where(is_answer, before, -1)

    def rules(self) -> Int64s:
        """Return the slots of the entries that state standing rules, in order of ordinals."""
        slots = np.flatnonzero(self.facts.values["is_rule"])
        return slots[np.argsort(self.slots.ordinals[slots])]

    def likenesses(self, candidates: SignalCandidates) -> Signals:
        """Return the signals of vectors, by name.

        Documents have none: `meaning` tells as much.
        """
        if not self.is_conversation:
            return {}
        topic = self._topics(candidates.matches, candidates.terms)
        return {"topic": product(topic, candidates.matches.trust)}

    def _topics(self, matches: QueryMatches, terms: CandidateTerms) -> Int64s:
        """Return how near in meaning candidates are to the query.

        Terms of the query are left out, so that one more match never makes a text less near.
        """
        asked = matches.asked.terms
        numbers = np.array(list(map(self.vocabulary.number, asked)), np.int64)
        vector = word_vectors().mean_of(asked, self._topic_weights(numbers))
        if not vector.any():
            return np.zeros(terms.size, np.int64)
        counts = terms.counts()
        rows = self.vocabulary.rows(counts.present)
        weights = self._topic_weights(counts.present)
        weights[(rows == NO_ROW) | np.isin(counts.present, matches.terms)] = 0
        rarest = int(self._topic_weights(np.array([NO_TERM]))[0])
        return topics(counts, rows, weights, vector, rarest)

    def _topic_weights(self, numbers: Int64s) -> Int64s:
        """Return the weights of terms, larger for a term that fewer entries have."""
        frequencies = self.vocabulary.frequencies.values[numbers]
        weights = TOPIC_UNITS * logs((len(self) + 1) / (frequencies + 0.5))
        return np.rint(weights).astype(np.int64)
