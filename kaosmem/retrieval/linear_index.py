"""An index that ranks by a linear model over signals, in whole numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from kaosmem.exact import exps, logs
from kaosmem.language.analysis import analyze
from kaosmem.retrieval.candidate_terms import CandidateTerms
from kaosmem.retrieval.order import top
from kaosmem.retrieval.query_terms import QueryTerms, is_test_name
from kaosmem.retrieval.ranker import Ranking
from kaosmem.retrieval.relevance_feedback import ENOUGH_TEXTS, RelevanceFeedback
from kaosmem.retrieval.shares import (
    ONE,
    chances,
    match_scores,
    on_log_scale,
    product,
    share_of_best,
)
from kaosmem.retrieval.signals import best_of_source, passage_scores, place_in_source, values_at
from kaosmem.retrieval.source_matcher import NONE, SourceMatches, TitleBeginnings
from kaosmem.retrieval.text_index import TextIndex
from kaosmem.retrieval.vocabulary import NO_TERM, TermNumbers
from kaosmem.retrieval.word_vectors import TOPIC_UNITS, row_of, topics, word_vectors

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kaosmem.retrieval.arrays import Int64s
    from kaosmem.retrieval.ranker import TokensOf
    from kaosmem.retrieval.rankers import Weights

K1, B = 1.2, 0.4
"""BM25's parameters of entries where signals are added to it."""
CANDIDATES = 384
"""So many of those that BM25 and their sources propose are looked at by all signals."""
_NEIGHBOURED = (
    64  # of the best of these so many, neighbours are candidates too, at most as many again
)
_NEIGHBOURS = 1, -1, 2, -2, 3, -3
_BESIDE = -2, -1, 1, 2
"""The steps to the neighbours of a candidate that its signals look at."""
_RULES = 32
"""So many of the newest standing rules are candidates for every query: a request names none."""
BY_HAND: Mapping[str, float] = {"quoted": 0.5, "definition": 4.5, "test_source": -1.5}
"""Weights of signals with too few questions to learn from.

A weight is an addend to the logarithm of a score.

quoted: share of the query's quoted phrases that the entry has in full.
definition: the entry defines a name that the query asks for.
test_source: the entry is from a test, and the query does not ask for tests.
"""
_SHORT_MESSAGE = 64
"""A message of so many tokens has a size that tells."""
_PASSAGE = 0.4
"""Weight of the passage of an entry of a document: by hand, as the model makes its scores."""
_WEIGHT_UNITS = 1_000_000
"""Weights are whole numbers of millionths."""
_UNIT = _WEIGHT_UNITS * ONE
"""Sums of weighted signals are in units of 1 / _UNIT."""
_BELOW = _UNIT // 100
"""The difference between the best test of a thing and the thing, in the logarithm of a score."""
_DEFINING = analyze("def class function func fn struct interface trait type enum")
"""The terms before the name that is defined."""
_PRESSED = 16.0
_DECIMALS = 10**12
"""Scores have twelve decimals."""


@dataclass(frozen=True)
class Matches:
    """How entries match the words of a query. It is valid until the next change.

    Attributes:
        asked: The query.
        terms: Numbers of its terms, 0 for a term that no entry has.
        clause: Numbers of the terms of the clause that is ranked by.
        words: BM25 scores of all slots for the query, as shares of the best.
        in_clause: The same for the clause. It is the same array if the clause is the query.
        sources: How their sources match.
        by_source: The matches of sources as shares of the best, by number.
    """

    asked: QueryTerms
    terms: list[int]
    clause: list[int]
    words: Int64s
    in_clause: Int64s
    sources: SourceMatches
    by_source: Int64s


@dataclass(frozen=True)
class Chosen:
    """The candidates.

    Attributes:
        slots: Their slots.
        numbers: Numbers of their sources.
        near: By step, the slots of their neighbours, -1 for none.
        terms: Their first terms.
    """

    slots: Int64s
    numbers: NDArray[np.int32]
    near: Mapping[int, Int64s]
    terms: CandidateTerms


@dataclass(frozen=True)
class Candidates:
    """The entries that all signals look at, best proposed first, with the signals of each.

    Attributes:
        ordinals: Shape (n,).
        signals: By name, each of shape (n,), most of them from 0 to ONE.
        numbers: Numbers of their sources: shape (n,).
    """

    ordinals: Int64s
    signals: Mapping[str, Int64s]
    numbers: NDArray[np.int32]

    def total(self, added: Mapping[str, Int64s]) -> Int64s:
        """Return the sums of addends, of which each name has one for each candidate."""
        return sum(added.values(), np.zeros(len(self.ordinals), np.int64))


class LinearIndex(TextIndex):
    """Items by ordinal, ranked by the sum of their weighted signals."""

    _kind = "linear"

    def __init__(
        self,
        *,
        weights: Weights,
        analyze: Callable[[str], list[str]] = analyze,
        tokens_of: TokensOf | None = None,
    ) -> None:
        super().__init__(k1=K1, b=B, analyze=analyze, tokens_of=tokens_of)
        self._model = weights

    def _clear(self, terms: Iterable[str] = ()) -> None:
        super()._clear(terms)
        self._forget()

    def _forget(self) -> None:
        self._vector_rows = TermNumbers(self.vocabulary, row_of)
        self._beginnings = TitleBeginnings()

    def _detach(self, slot: int) -> None:
        super()._detach(slot)
        self._forget()

    def rank(
        self, query: str, limit: int, *, among: Collection[int] | None = None
    ) -> list[tuple[int, float]]:
        return [*self.ranking(query, limit, among=among).matches]

    def ranking(self, query: str, limit: int, *, among: Collection[int] | None = None) -> Ranking:
        """Return at most `limit` (ordinal, score), with their signals.

        The best entry has 100. An entry with 50 is half as likely to be an answer, by the model's
        reckoning. Entries are compared with one another, so `among` changes scores. A signal is its
        addend to the logarithm of a score, less its average over the candidates. If no term of the
        query is known, the terms that are spelt almost the same take its place.
        """
        if limit < 1:
            return Ranking()
        found, ordinals, proposed = self._proposed(query, max(limit, CANDIDATES), among)
        if found is None:
            return Ranking()
        added = self.weighted(found)
        sums = found.total(added)
        scores = hundredths(sums)
        order = top(scores, found.ordinals, limit)
        matches = _matches_of(found.ordinals[order], scores[order])
        if len(ordinals) and len(matches) < limit:
            below = _scaled_below(int(scores[order[-1]]), ordinals, proposed)
            matches += below[: limit - len(matches)]
        return Ranking(matches, signals=_signals_of(found.ordinals, added))

    @property
    def is_conversation(self) -> bool:
        """Return whether entries have several roles."""
        return len(self.roles) > 1

    def candidates(self, query: str) -> Candidates | None:
        """Return the candidates for a query with their signals, to learn weights from.

        Returns:
            None if nothing matches.
        """
        return self._proposed(query, CANDIDATES, None)[0]

    @property
    def _trust(self) -> int:
        """How much the sources of entries count, 0 to ONE: in full from ENOUGH_TEXTS entries on.

        Fewer say little.
        """
        return min(ONE, len(self) * ONE // ENOUGH_TEXTS)

    def weighted(self, found: Candidates) -> dict[str, Int64s]:
        """Return the weighted signals of candidates, by name."""
        model = self._model.conversation if self.is_conversation else self._model.documents
        added = {}
        for name, weight in {**model, **BY_HAND}.items():
            if weight and name in found.signals:
                added[name] = round(weight * _WEIGHT_UNITS) * found.signals[name]
        if not self.is_conversation:
            self._add_place(found, added)
        return added

    def _add_place(self, found: Candidates, added: dict[str, Int64s]) -> None:
        """Add the signals of documents that depend on the sums of the others."""
        sums = found.total(added)
        passages = passage_scores(found.ordinals, found.numbers, chances(sums, _UNIT))
        weight = round(_PASSAGE * _WEIGHT_UNITS)
        added["passage"] = weight * product(passages, self._trust)
        surplus = _surplus_of_tests(found.signals, sums + added["passage"])
        added["test_source"] -= surplus

    def _proposed(
        self, query: str, limit: int, among: Collection[int] | None
    ) -> tuple[Candidates | None, Int64s, Int64s]:
        """Return the candidates, and the ordinals and scores of the entries after them."""
        asked = QueryTerms(query, self.analyze)
        asked.respell(self.vocabulary)
        matches = self._matched(asked)
        scores = self._proposing(matches)
        is_allowed = None
        if among is not None:
            is_allowed = np.zeros(self.size, np.bool_)
            is_allowed[self.slots.among(among)] = True
            scores *= is_allowed
        ordinals = self.slots.ordinals
        first = CANDIDATES - _NEIGHBOURED
        ranked = top(scores, ordinals, limit)
        if len(ranked) > first and scores[ranked[first - 1]] == scores[ranked[first]]:
            ranked = top(self._untied(scores, scores[ranked[first]], matches), ordinals, limit)
        if not len(ranked):
            return None, ranked, ranked
        slots = self._with_others(ranked[:first], is_allowed)
        is_chosen = np.zeros(self.size, np.bool_)
        is_chosen[slots] = True
        rest = ranked[~is_chosen[ranked]]
        chosen = self._chosen(slots)
        found = Candidates(ordinals[slots], self._signals(matches, chosen), chosen.numbers)
        return found, ordinals[rest], scores[rest]

    def _matched(self, asked: QueryTerms) -> Matches:
        terms = self._numbers_of(asked.terms)
        counts = Counter(filter(None, terms))
        clause = terms
        # A message of a conversation asks in all its clauses; a question on documents begins with
        # its subject.
        if not self.is_conversation:
            clause = self._numbers_of(asked.clause)
        words, in_clause = self._words(counts, Counter(filter(None, clause)))
        sources = SourceMatches(self, asked, counts, self._beginnings.of(self))
        by_source = product(sources.shares, self._trust)
        return Matches(asked, terms, clause, words, in_clause, sources, by_source)

    def _words(self, terms: Counter[int], clause: Counter[int]) -> tuple[Int64s, Int64s]:
        """Return the matches of all slots with the query and its clause, as shares of the best.

        Both are the same array if the clause is the query.
        """
        asked = self.weights(terms)
        if clause == terms:
            (scores,) = self.bm25(asked)
            words = share_of_best(scores)
            return words, words
        of_all = dict.fromkeys(clause, 0) | asked
        scores, of_clause = self.bm25(of_all, self.weights(clause))
        return share_of_best(scores), share_of_best(of_clause)

    def _numbers_of(self, terms: Iterable[str]) -> list[int]:
        """Return the numbers of terms, 0 for a term that no entry has."""
        numbers = list(map(self.vocabulary.number, terms))
        return [number if self.frequency(number) else 0 for number in numbers]

    def _proposing(self, matches: Matches) -> Int64s:
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

    def _untied(self, scores: Int64s, score: int, matches: Matches) -> Int64s:
        """Return the proposing scores, a little higher for tied entries with the query's phrases.

        Short texts of one pattern tie by the thousand, and only some can be candidates.
        """
        (tied,) = np.nonzero(scores == score)
        terms = CandidateTerms(self.sequences, tied)
        untied = scores * (2 * ONE)
        untied[tied] += terms.phrase_shares(matches.clause)
        return untied

    def _with_others(self, first: Int64s, is_allowed: NDArray[np.bool_] | None) -> Int64s:
        """Return slots with the slots of neighbours and of rules after them, each once."""
        allowed = self.slots.are_full.copy() if is_allowed is None else is_allowed.copy()
        allowed[first] = False
        neighbours = self._neighbours_of(first[:_NEIGHBOURED])
        neighbours = neighbours[allowed[neighbours]][:_NEIGHBOURED]
        allowed[neighbours] = False
        rules = self._rules[: -_RULES - 1 : -1] if self.is_conversation else first[:0]
        return np.concatenate([first, neighbours, rules[allowed[rules]]])

    def _neighbours_of(self, slots: Int64s) -> Int64s:
        """Return the slots of entries beside others of the same named source, each once, in order.

        A question for a word finds the entries with the word, and their neighbours.
        """
        if not len(self.sources):
            return slots[:0]
        named = slots[self.sources.numbers[slots] != NONE]
        found = self.neighbours(named, _NEIGHBOURS).T.ravel()
        found = found[found >= 0]
        _, places = np.unique(found, return_index=True)
        return found[np.sort(places)]

    @property
    def _rules(self) -> Int64s:
        """Return the slots of the entries that state standing rules, in order of ordinals."""
        slots = np.flatnonzero(self.are_rules.values)
        found: Int64s = slots[np.argsort(self.slots.ordinals[slots])]
        return found

    def _chosen(self, slots: Int64s) -> Chosen:
        near = dict(zip(_BESIDE, self._near(slots), strict=True))
        terms = CandidateTerms(self.sequences, slots)
        return Chosen(slots, self.sources.numbers[slots], near, terms)

    def _near(self, slots: Int64s) -> Int64s:
        """Return the slots of neighbours by step of _BESIDE, -1 for none.

        Without a named source, only the entries of a conversation have neighbours.
        """
        if self.is_conversation:
            return self.neighbours(slots, _BESIDE)
        if not len(self.sources):
            return np.full((len(_BESIDE), len(slots)), -1)
        is_named = self.sources.numbers[slots] != NONE
        return np.where(is_named, self.neighbours(slots, _BESIDE), -1)

    def _signals(self, matches: Matches, chosen: Chosen) -> dict[str, Int64s]:
        """Return the signals of candidates, by name: those of any entry, and those of its kind."""
        asked = matches.asked
        words = matches.words[chosen.slots]
        near = chosen.near
        numbers = self._other_numbers(asked, chosen)
        nearby = at(matches.words, near[-2]) + at(matches.words, near[2])
        signals = {
            "match": match_scores(words),
            "source": matches.by_source[chosen.numbers],
            "best_of_source": best_of_source(chosen.numbers, words),
            "next_words": at(matches.words, near[1]),
            "nearby_words": nearby // 2,
            "phrases": chosen.terms.phrase_shares(matches.clause),
            "asked_numbers": numbers * asked.is_for_number,
            "size": self._sizes(chosen.slots),
        }
        signals |= self._likenesses(matches, chosen)
        if asked.quoted:
            phrases = map(self._numbers_of, asked.quoted)
            quoted = np.array([chosen.terms.having(terms) for terms in phrases])
            signals["quoted"] = np.count_nonzero(quoted, axis=0) * ONE // len(quoted)
        if self.is_conversation:
            return signals | self._spoken(asked, chosen.slots, words)
        return signals | self._written(matches, chosen, words) | {"numbers": numbers}

    def _spoken(self, asked: QueryTerms, slots: Int64s, words: Int64s) -> dict[str, Int64s]:
        """Return the signals of entries of a conversation alone."""
        roles = self.roles.numbers[slots]
        is_named = np.zeros(len(self.roles.names), np.int64)
        for number, role in enumerate(self.roles.names):
            if role is not None:
                is_named[number] = any(term in asked.counts for term in self.analyze(role))
        assistant = self.roles.number("assistant") or -1
        rules = self._standing(slots)
        return {
            "words": words,
            "assistant": (roles == assistant) * ONE,
            "named_speaker": is_named[roles] * ONE,
            # Rules say how to work. They count for less where a query asks for a fact.
            "rule": rules // 2 if asked.is_for_fact else rules,
        }

    def _standing(self, slots: Int64s) -> Int64s:
        """Return 1 for the newest standing rule down to 0.4 for the oldest, 0 for other entries.

        A rule holds until a newer one takes its place.
        """
        rules = self.slots.ordinals[self._rules]
        older = rules.searchsorted(self.slots.ordinals[slots], side="right")
        shares = 2 * ONE // 5 + 3 * ONE // 5 * older // max(1, len(rules))
        return np.where(self.are_rules.values[slots], shares, 0)

    def _written(self, matches: Matches, chosen: Chosen, words: Int64s) -> dict[str, Int64s]:
        """Return the signals of entries of documents alone."""
        slots = chosen.slots
        numbers = chosen.numbers
        near = chosen.near
        clause = matches.in_clause[slots]
        rarest = matches.sources.titles.rarest[numbers]
        title = matches.sources.title_shares(numbers)
        nearby_clause = at(matches.in_clause, near[-1]) + at(matches.in_clause, near[1])
        signals = {
            "clause": clause,
            "clause_and_source": product(clause, matches.by_source[numbers]),
            "clause_in_source": place_in_source(numbers, clause),
            "title": product(product(rarest, rarest), rarest),
            "title_share": title,
            "title_and_share": product(rarest, title),
            "nearby_clause": nearby_clause // 2,
            "test_source": self._from_tests(matches.asked, numbers),
        }
        if matches.asked.names:
            defining = self._numbers_of(_DEFINING)
            names = self._numbers_of(matches.asked.names)
            signals["definition"] = chosen.terms.having_pair(defining, names) * ONE
        return signals | self._meanings(matches, chosen, words, clause)

    def _meanings(
        self, matches: Matches, chosen: Chosen, words: Int64s, clause: Int64s
    ) -> dict[str, Int64s]:
        """Return how near candidates are to those that match the query or its clause."""
        feedback = RelevanceFeedback(chosen.terms, matches.terms)
        meaning = feedback.similarities(words)
        of_clause = meaning
        if matches.in_clause is not matches.words:
            of_clause = feedback.similarities(clause)
        nearby = values_at(of_clause, chosen.slots, chosen.near[-1])
        nearby += values_at(of_clause, chosen.slots, chosen.near[1])
        return {"meaning": meaning, "clause_meaning": of_clause, "nearby_meaning": nearby // 2}

    def _likenesses(self, matches: Matches, chosen: Chosen) -> dict[str, Int64s]:
        """Return the signals of vectors, by name.

        Documents have none: `meaning` tells as much.
        """
        if not self.is_conversation:
            return {}
        return {"topic": product(self._topics(matches, chosen.terms), self._trust)}

    def _topics(self, matches: Matches, terms: CandidateTerms) -> Int64s:
        """Return how near in meaning candidates are to the query.

        Terms of the query are left out, so that one more match never makes a text less near.
        """
        numbers = np.array(list(map(self.vocabulary.number, matches.asked.terms)), np.int64)
        vector = word_vectors().mean_of(matches.asked.terms, self._topic_weights(numbers))
        if not vector.any():
            return np.zeros(terms.size, np.int64)

        def weights_of(present: Int64s) -> Int64s:
            weights = self._topic_weights(present)
            weights[np.isin(present, matches.terms)] = 0
            return weights

        rarest = int(self._topic_weights(np.array([NO_TERM]))[0])
        return topics(terms, self._vector_rows.of, weights_of, vector, rarest)

    def _topic_weights(self, numbers: Int64s) -> Int64s:
        """Return the weights of terms, larger for a term that fewer entries have."""
        frequencies = self.vocabulary.frequencies.values[numbers]
        weights = TOPIC_UNITS * logs((len(self) + 1) / (frequencies + 0.5))
        found: Int64s = np.rint(weights).astype(np.int64)
        return found

    def _from_tests(self, asked: QueryTerms, numbers: NDArray[np.int32]) -> Int64s:
        """Return 1 for an entry of the source of a test, if the query does not ask for tests."""
        is_test: Int64s = np.zeros(len(self.sources.names), np.int64)
        if "test" not in asked.counts:
            for number in np.unique(numbers).tolist():
                is_test[number] = is_test_name(self.sources.names[number] or "")
        return is_test[numbers] * ONE

    def _other_numbers(self, asked: QueryTerms, chosen: Chosen) -> Int64s:
        """Return three times the share of each entry's terms that are numbers, at most 1.

        Numbers of the query are left out.
        """
        figures = self.figures.values[chosen.slots].astype(np.int64)
        own = [term for term in asked.counts if term.isdigit()]
        if own:
            figures -= chosen.terms.count_of(self._numbers_of(own))
        lengths = np.maximum(1, self.lengths.values[chosen.slots])
        shares: Int64s = 3 * ONE * np.maximum(0, figures) // lengths
        return np.minimum(ONE, shares)

    def _sizes(self, slots: Int64s) -> Int64s:
        """Return a fifth of the logarithm of the tokens of entries.

        In a conversation, all short messages count as about the same.
        """
        if self.tokens_of is None:
            tokens = self.tokens.values[slots]
        else:
            ordinals = self.slots.ordinals[slots].tolist()
            tokens = np.array(self.tokens_of(ordinals), np.int64)
        short = _SHORT_MESSAGE if self.is_conversation else 1
        return on_log_scale(np.maximum(0, tokens - 1), short) // 5


def at(values: Int64s, slots: Int64s) -> Int64s:
    """Return the values of slots, 0 for no slot."""
    return np.where(slots >= 0, values[slots], 0)


def hundredths(sums: Int64s) -> Int64s:
    """Return e to the power of each sum, as hundredths of the best: from 100 down to 0.0000002.

    Ratios are exact down to e**-16. Smaller scores are pressed together, and stay in order.

    Returns:
        Whole numbers of 1 / _DECIMALS.
    """
    below = (sums - sums.max()) / _UNIT
    pressed = -_PRESSED - 4 * (1 - exps(np.minimum(0.0, below + _PRESSED) / 4))
    shares = exps(np.where(below < -_PRESSED, pressed, below))
    found: Int64s = np.rint(100 * _DECIMALS * shares).astype(np.int64)
    return found


def _matches_of(ordinals: Int64s, scores: Int64s) -> list[tuple[int, float]]:
    values = scores / _DECIMALS
    return list(zip(ordinals.tolist(), values.tolist(), strict=True))


def _scaled_below(least: int, ordinals: Int64s, scores: Int64s) -> list[tuple[int, float]]:
    """Return entries with scores up to `least`, in proportion to their own."""
    scaled = np.rint(scores * (least / int(scores[0]))).astype(np.int64)
    order = np.lexsort((ordinals, scaled))[::-1]
    return _matches_of(ordinals[order], np.maximum(1, scaled[order]))


def _signals_of(ordinals: Int64s, added: Mapping[str, Int64s]) -> Callable[[int], dict[str, float]]:
    """Return a function that gives the addends of an entry, less their averages."""

    @cache
    def places() -> dict[int, int]:
        return {ordinal: place for place, ordinal in enumerate(ordinals.tolist())}

    @cache
    def means() -> dict[str, int]:
        return {name: int(values.sum()) // len(values) for name, values in added.items()}

    def signals(ordinal: int) -> dict[str, float]:
        place = places().get(ordinal)
        if place is None:
            return {}
        found = {}
        for name, mean in means().items():
            found[name] = round((int(added[name][place]) - mean) / _UNIT, 9)
        return found

    return signals


def _surplus_of_tests(signals: Mapping[str, Int64s], sums: Int64s) -> Int64s:
    """Return the surplus of the tests among the candidates over the best definition.

    Without it, the best test ranks below the definition. It is 0 if no candidate outside of tests
    defines a name of the query. Tests keep their order.
    """
    surplus = np.zeros(len(sums), np.int64)
    if "definition" not in signals:
        return surplus
    is_test = signals["test_source"] > 0
    is_defining = (signals["definition"] > 0) & ~is_test
    if is_test.any() and is_defining.any():
        most = int(sums[is_test].max()) - int(sums[is_defining].max()) + _BELOW
        surplus[is_test] = max(0, most)
    return surplus
