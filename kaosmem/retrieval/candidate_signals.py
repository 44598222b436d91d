"""The signals of the candidates of a query, by name, and their weighted sums: a linear model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from kaosmem.language.analysis import analyze
from kaosmem.retrieval.candidate_terms import CandidateTerms, RelevanceFeedback
from kaosmem.retrieval.columns import are_changes
from kaosmem.retrieval.query_terms import NO_SOURCE, QueryTerms, SourceMatches, is_test_name
from kaosmem.retrieval.scores import (
    CHANCE,
    ONE,
    RANK_GAP,
    UNIT,
    WEIGHT_UNITS,
    chances,
    match_scores,
    on_log_scale,
    product,
    top,
)

if TYPE_CHECKING:
    from kaosmem.retrieval.columns import Int32s, Int64s
    from kaosmem.retrieval.linear_index import LinearIndex
    from kaosmem.retrieval.second_hop import SecondHop
    from kaosmem.retrieval.text_index import Echoes

Signals: TypeAlias = "dict[str, Int64s]"
"""Signals of candidates by name, each of shape (n,)."""

_BESIDE = -2, -1, 1, 2
"""The steps to the neighbours of a candidate that its signals look at."""
HAND_SET_WEIGHTS: Mapping[str, float] = {"quoted": 0.5, "definition": 4.5, "test_source": -1.5}
"""Weights of signals with too few questions to learn from.

A weight is an addend to the logarithm of a score.

quoted: share of the query's quoted phrases that the entry has in full.
definition: the entry defines a name that the query asks for.
test_source: the entry is from a test, and the query does not ask for tests.
"""
_PASSAGE_WEIGHT = 0.4
"""Weight of the passage of an entry of a document: by hand, as the model makes its scores."""
PASSAGE_REACH = 6
"""Entries of one source at most so many places apart are of one passage."""
_NEGLIGIBLE_CHANCE = CHANCE // 1_000
"""Lower chances of neighbours hardly count."""
_HALF_WEIGHT_TOKENS = 64
"""An answer of so many tokens counts half: it may repeat the words of its question."""
_SIZE_SCALE_TOKENS = 64
"""A text of so many tokens has a size that tells."""
_MAX_SIZE_TOKENS = 1_024
"""A text of more tokens counts as one of so many. Nearly all texts to learn from are shorter."""
_MAX_REPETITIONS = 3
"""So many questions that repeat the query rank as any other entry."""
_DEFINING = analyze("def class function func fn struct interface trait type enum")
"""The terms before the name that is defined."""


@dataclass(frozen=True)
class QueryMatches:
    """How entries match the words of a query. It is valid until the next change.

    Attributes:
        asked: The query.
        terms: Numbers of its terms, 0 for a term that no entry has.
        clause: Numbers of the terms of the clause that is ranked by.
        echoes: The messages that are the query itself. They match nothing.
        words: BM25 scores of all slots for the query, as shares of the best.
        in_clause: The same for the clause. It is the same array if the clause is the query.
        sources: How their sources match.
        by_source: The matches of sources as shares of the best, by number.
        trust: How much sources count, 0 to ONE.
        named: How surely the query names a source, 0 to ONE.
        likeness: The likeness of all slots to the query, if their texts are embedded.
    """

    asked: QueryTerms
    terms: list[int]
    clause: list[int]
    echoes: Echoes
    words: Int64s
    in_clause: Int64s
    sources: SourceMatches
    by_source: Int64s
    trust: int
    named: int
    likeness: Int64s = field(default_factory=lambda: np.empty(0, np.int64))


class SignalCandidates:
    """The entries that all signals look at, best proposed first.

    Args:
        index: The index of the candidates.
        matches: How its entries match the query.
        slots: The slots of the candidates.
        hop: What the best of them lead to.

    Attributes:
        ordinals: Shape (n,).
        sources: Numbers of their sources: shape (n,).
        terms: Their first terms.
        signals: By name, each of shape (n,), most of them from 0 to ONE.
    """

    def __init__(
        self,
        index: LinearIndex,
        matches: QueryMatches,
        slots: Int64s,
        hop: SecondHop,
    ) -> None:
        self.index = index
        self.hop = hop
        self._asked = matches.asked
        self.matches = matches
        self.slots = slots
        self.ordinals = index.slots.ordinals[slots]
        self.sources = index.sources.numbers[slots]
        near = index.neighbours(slots, _BESIDE)
        if not index.is_conversation:
            # Documents without a source have no neighbours.
            near = np.where(self.sources != NO_SOURCE, near, -1)
        self._near = dict(zip(_BESIDE, near, strict=True))
        self.terms = CandidateTerms(index.sequences, slots)
        self._words = matches.words[slots]
        self._clause = matches.in_clause[slots]
        self.signals = self._of_any_entry() | self._of_kind()

    def nearby(self, values: Int64s, step: int) -> Int64s:
        """Return the mean value of the neighbours of each candidate so many places apart.

        Args:
            values: By slot.
        """
        before = _values_at(values, self._near[-step])
        after = _values_at(values, self._near[step])
        return (before + after) // 2

    def _of_kind(self) -> Signals:
        """Return the signals that only entries of some kind have, or only some queries ask for."""
        signals = self.index.likenesses(self)
        facts = self.index.facts.values[self.slots]
        # Three times the share of an entry's terms that are numbers, at most 1.
        figures = facts["figures"].astype(np.int64)
        shares = 3 * ONE * figures // np.maximum(1, facts["length"])
        signals["asked_numbers"] = np.minimum(ONE, shares) * self._asked.is_for_number
        if self._asked.quoted:
            phrases = map(self.index.numbers_of, self._asked.quoted)
            quoted = np.array([self.terms.having(terms) for terms in phrases])
            signals["quoted"] = np.count_nonzero(quoted, axis=0) * ONE // len(quoted)
        if self.index.is_conversation:
            return signals | self._spoken()
        signals |= self._defined() | self._meanings()
        if not self.matches.named:
            return signals
        return signals | self._written()

    def _of_any_entry(self) -> Signals:
        """Return the signals of entries of any kind."""
        words = self.matches.words
        tokens = self.index.facts.values["tokens"][self.slots]
        return {
            "match": match_scores(self._words),
            "source": self.matches.by_source[self.sources],
            "best_of_source": best_of_source(self.sources, self._words),
            "next_words": _values_at(words, self._near[1]),
            "nearby_words": self.nearby(words, 2),
            "phrases": self.terms.phrase_shares(self.matches.clause),
            # A fifth of the logarithm. All short texts count as about the same.
            "size": on_log_scale(np.clip(tokens - 1, 0, _MAX_SIZE_TOKENS), _SIZE_SCALE_TOKENS) // 5,
        }

    def _spoken(self) -> Signals:
        """Return the signals of entries of a conversation alone."""
        index = self.index
        roles = index.roles.numbers[self.slots]
        is_named = np.zeros(len(index.roles.names), np.int64)
        for number, role in enumerate(index.roles.names):
            if role is not None:
                is_named[number] = any(map(self._asked.counts.__contains__, index.analyze(role)))
        assistant = index.roles.number("assistant") or -1
        # From 1 for the newest standing rule down to 0.4 for the oldest: a rule holds until a newer
        # one takes its place.
        rules = index.slots.ordinals[index.rules()]
        older = rules.searchsorted(index.slots.ordinals[self.slots], side="right")
        recency = 2 * ONE // 5 + 3 * ONE // 5 * older // max(1, len(rules))
        recency *= index.facts.values["is_rule"][self.slots]
        return {
            "words": self._words,
            "assistant": (roles == assistant) * ONE,
            "named_speaker": is_named[roles] * ONE,
            "answer": self._answers(),
            # Rules say how to work. They count for less where a query asks for a fact.
            "rule": recency // 2 if self._asked.is_for_fact else recency,
        }

    def _answers(self) -> Int64s:
        """Return how well each entry answers a question that matches: the entry before it.

        A short answer lacks the words of its question, and a long one repeats them. The matches are
        cubed, so that few stand out.
        """
        words = self.matches.words.copy()
        words[self.matches.echoes.slots] = ONE
        asked = _values_at(words, self.index.questions_before(self.slots))
        tokens = self.index.facts.values["tokens"][self.slots]
        brevity = _HALF_WEIGHT_TOKENS * ONE // (_HALF_WEIGHT_TOKENS + tokens)
        return product(product(product(asked, asked), asked), brevity)

    def _defined(self) -> Signals:
        """Return the signals of source code."""
        names = self.index.sources.names
        is_test: Int64s = np.zeros(len(names), np.int64)
        if "test" not in self._asked.counts:
            for number in {*self.sources.tolist()}:
                is_test[number] = is_test_name(names[number] or "")
        signals = {"test_source": is_test[self.sources] * ONE}
        if self._asked.names:
            defining = self.index.numbers_of(_DEFINING)
            defined = self.index.numbers_of(self._asked.names)
            signals["definition"] = self.terms.having_pair(defining, defined) * ONE
        return signals

    def _written(self) -> Signals:
        """Return the signals of documents of which the query names one, but for those of meaning."""
        matches = self.matches
        clause = self._clause
        rarest = matches.sources.rarest_titles[self.sources]
        title = matches.sources.title_shares(self.sources)
        return {
            "clause": clause,
            "clause_and_source": product(clause, matches.by_source[self.sources]),
            "clause_in_source": place_in_source(self.sources, clause),
            "title": product(product(rarest, rarest), rarest),
            "title_share": title,
            "title_and_share": product(rarest, title),
            "nearby_clause": self.nearby(matches.in_clause, 1),
        }

    def _meanings(self) -> Signals:
        """Return how near candidates are to those that match the query or its clause."""
        feedback = RelevanceFeedback(self.terms, self.matches.terms)
        meaning = feedback.similarities(self._words)
        of_clause = meaning
        if self.matches.in_clause is not self.matches.words:
            of_clause = feedback.similarities(self._clause)
        by_slot = np.zeros(self.index.size, np.int64)
        by_slot[self.slots] = of_clause
        nearby = self.nearby(by_slot, 1)
        return {"meaning": meaning, "clause_meaning": of_clause, "nearby_meaning": nearby}


def _values_at(values: Int64s, slots: Int64s) -> Int64s:
    """Return the values of slots, 0 for no slot."""
    return np.where(slots >= 0, values[slots], 0)


def best_of_source(numbers: Int32s, scores: Int64s) -> Int64s:
    """Return for each candidate the best score in its source, whose number is given."""
    sources = int(numbers.max(initial=0)) + 1
    most = np.zeros(sources, np.int64)
    np.maximum.at(most, numbers, scores)
    return most[numbers]


def place_in_source(numbers: Int32s, scores: Int64s) -> Int64s:
    """Return 2 / (2 + n) for a candidate, where n others of its source have a better score."""
    order = np.lexsort((-scores, numbers))
    ordered = scores[order]
    is_other = are_changes(numbers[order])
    is_lower = is_other | are_changes(ordered)
    at = np.arange(len(order))
    first_of_source = np.maximum.accumulate(at * is_other)
    first_of_score = np.maximum.accumulate(at * is_lower)
    found = np.empty(len(order), np.int64)
    found[order] = 2 * ONE // (2 + first_of_score - first_of_source)
    return found


# The sums of weighted signals.


def weighted(found: SignalCandidates, model: Mapping[str, float]) -> Signals:
    """Return the weighted signals of candidates, by name. model: the weights of their kind."""
    added = {}
    for name, weight in {**model, **HAND_SET_WEIGHTS}.items():
        if weight and name in found.signals:
            added[name] = round(weight * WEIGHT_UNITS) * found.signals[name]
    if not found.index.is_conversation:
        passages = passage_scores(found.ordinals, found.sources, chances(_sums(added), UNIT))
        weight = round(_PASSAGE_WEIGHT * WEIGHT_UNITS)
        added["passage"] = weight * product(passages, found.matches.trust)
    added["second_hop"] = found.hop.lifts(found.slots, found.terms, _sums(added))
    if "definition" in found.signals:
        _lower_tests(found, added)
    _lower_repetitions(found, added)
    return added


def _sums(added: Signals) -> Int64s:
    found: Int64s = np.sum([*added.values()], axis=0)
    return found


def _lower_repetitions(found: SignalCandidates, added: Signals) -> None:
    """Have questions that repeat the query rank below all other candidates, but for the best few.

    They say nothing that the asker does not know, and would fill the window in place of answers.
    """
    is_question = found.index.facts.values["ends_with_question"][found.slots] > 0
    if np.count_nonzero(is_question) <= _MAX_REPETITIONS:
        return
    repeats = np.flatnonzero(is_question & found.terms.repeating(found.matches.terms))
    sums = _sums(added)
    places = sums[repeats] - sums.min() + 1
    best = repeats[top(places, found.ordinals[repeats], _MAX_REPETITIONS)]
    lowered = np.setdiff1d(repeats, best)
    if len(lowered):
        added["repetition"] = np.zeros(len(sums), np.int64)
        added["repetition"][lowered] = sums.min() - sums.max() - RANK_GAP


def _lower_tests(found: SignalCandidates, added: Signals) -> None:
    """Have the best test rank below the best definition outside of tests, if there is one.

    Tests keep their order.
    """
    sums = _sums(added)
    is_test = found.signals["test_source"] > 0
    is_defining = (found.signals["definition"] > 0) & ~is_test
    if is_test.any() and is_defining.any():
        best_test = int(sums[is_test].max())
        best_definition = int(sums[is_defining].max())
        surplus = best_test - best_definition + RANK_GAP
        added["test_source"][is_test] -= max(0, surplus)


def passage_scores(
    ordinals: Int64s,
    numbers: Int32s,
    chance: Int64s,
) -> Int64s:
    """Return the chances of the candidates near each candidate, on a logarithmic scale.

    A candidate is near if it stands within REACH places in the same named source.

    Args:
        chance: The chance of each candidate, as a share of CHANCE.
    """
    if not numbers.any():
        return np.zeros(len(numbers), np.int64)
    order = np.argsort(ordinals)
    at = ordinals[order]
    source = numbers[order]
    own = np.where(source > 0, chance[order], 0)
    size = len(order)
    total = np.zeros(size, np.int64)
    for step in range(1, min(PASSAGE_REACH + 1, size)):
        later = slice(step, None)
        earlier = slice(-step)
        together = (at[later] - at[earlier] <= PASSAGE_REACH) & (source[later] == source[earlier])
        total[later] += together * own[earlier]
        total[earlier] += together * own[later]
    found = np.empty(size, np.int64)
    found[order] = on_log_scale(total, _NEGLIGIBLE_CHANCE)
    return found
