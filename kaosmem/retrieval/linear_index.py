"""An index that ranks by a linear model over signals."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from functools import cache
from itertools import islice, product
from typing import TYPE_CHECKING

import numpy as np

from kaosmem.exact import logs
from kaosmem.language.analysis import analyze
from kaosmem.language.rules import plain_rules_in
from kaosmem.retrieval.bm25_index import BM25Index
from kaosmem.retrieval.columns import Columns, StoredColumns, unusable
from kaosmem.retrieval.latent import ENOUGH_TEXTS, LatentSpace
from kaosmem.retrieval.ranker import Ranking
from kaosmem.retrieval.scores import (
    Chosen,
    EntryScores,
    QueryScores,
    QueryTerms,
    best,
    by_chunks,
    is_tied,
    scaled,
)
from kaosmem.retrieval.signals import (
    MAX_TERMS,
    Sequences,
    best_of_source,
    having,
    hundredths,
    match_scores,
    passage_scores,
    phrase_scores,
    place_in_source,
    term_hash,
    values_at,
)
from kaosmem.retrieval.source_matcher import K1, NONE, B, Labels, SourceMatcher

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kaosmem.retrieval.ranker import TokensOf
    from kaosmem.retrieval.rankers import Weights
    from kaosmem.types.items import Item

CANDIDATES = 384
"""So many of those that BM25 and their sources propose are looked at by all signals."""
_NEIGHBOURED = (
    64  # of the best of these so many, neighbours are candidates too, at most as many again
)
_NEIGHBOURS = 1, -1, 2, -2, 3, -3
_RULES = 32
"""So many of the newest standing rules are candidates for every query: a request names none."""
_RULES_FOR_FACTS = 0.5
"""Rules say how to work. They count for less where a query asks for a fact."""
_RULE_CHARS = 4_096
"""Rules are looked for in so much of a text. A longer text is mostly pasted."""
_NEVER_RULES = frozenset({"", "assistant", "tool"})
"""The roles that set no rules."""
BY_HAND: Mapping[str, float] = {"quoted": 0.5, "definition": 4.5, "test_source": -1.5}
"""Weights of signals with too few questions to learn from.

A weight is an addend to the logarithm of a score.

quoted: share of the query's quoted phrases that the entry has in full.
definition: the entry defines a name that the query asks for.
test_source: the entry is from a test, and the query does not ask for tests.
"""
_BELOW = 0.01
"""The difference between the best test of a thing and the thing, in the logarithm of a score."""
_DEFINING = analyze("def class function func fn struct interface trait type enum")
"""The terms before the name that is defined."""
_TELLING_PAIRS = 3
"""In a query with so many pairs of neighbouring words, or fewer, a phrase counts in full."""
_PASSAGE = 0.4
"""Weight of the passage of an entry of a document: by hand, as the model makes its scores."""


@dataclass(frozen=True)
class Candidates:
    """The entries that all signals look at, best proposed first, with the signals of each.

    Attributes:
        ordinals: Shape (n,).
        signals: By name, each of shape (n,), most of them from 0 to 1.
        numbers: Numbers of their sources: shape (n,).
    """

    ordinals: NDArray[np.int64]
    signals: Mapping[str, NDArray[np.float64]]
    numbers: NDArray[np.int32]


class LinearIndex(BM25Index):
    """Items by ordinal, ranked by the sum of their weighted signals."""

    _kind = "linear"

    def __init__(
        self,
        *,
        weights: Weights,
        analyze: Callable[[str], list[str]],
        tokens_of: TokensOf | None = None,
    ) -> None:
        super().__init__(k1=K1, b=B, analyze=analyze, tokens_of=tokens_of)
        self._model = weights
        self._sequences = Sequences()
        self._sources = SourceMatcher(analyze)
        self._roles = Labels()
        self._numeric = array("f")  # share of an entry's terms that are numbers
        self._tokens = array("q")
        self._rules = bytearray()  # 1 for an entry that states a standing rule

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
        found, rest = self._candidates(query, max(limit, CANDIDATES), among)
        if found is None or limit < 1:
            return Ranking()
        weights = {
            **BY_HAND,
            **(self._model.conversation if self.is_conversation else self._model.documents),
        }
        added = {
            name: weights[name] * values
            for name, values in found.signals.items()
            if weights.get(name)
        }
        sums = sum(added.values(), np.zeros(len(found.ordinals)))
        if not self.is_conversation:
            sums = self._add_place(found, added, sums)
        ranked = best(found.ordinals, hundredths(sums), limit, decimals=12)
        if rest and len(ranked) < limit:
            ranked += _scaled_below(ranked[-1][1], rest[: limit - len(ranked)])
        matches = [each for each in ranked if each[1] > 0]
        return Ranking(matches, signals=_signals_of(found.ordinals, added))

    def _add_place(
        self,
        found: Candidates,
        added: dict[str, NDArray[np.float64]],
        sums: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Add the signals of documents that depend on the sums, and return the new sums."""
        passages = passage_scores(found.ordinals, found.numbers, sums)
        added["passage"] = _PASSAGE * self._source_weight * passages
        sums = sums + added["passage"]
        surplus = _surplus_of_tests(found.signals, sums)
        added["test_source"] = added.get("test_source", 0.0) - surplus
        return sums - surplus

    @property
    def _source_weight(self) -> float:
        """How much the sources of entries count, 0 to 1: in full from ENOUGH_TEXTS entries on.

        Fewer say little.
        """
        return min(1.0, len(self) / ENOUGH_TEXTS)

    @property
    def is_conversation(self) -> bool:
        """Return whether entries have several roles."""
        return len(self._roles) > 1

    def candidates(self, query: str) -> Candidates | None:
        """Return the candidates for a query with their signals, to learn weights from.

        Returns:
            None if nothing matches.
        """
        return self._candidates(query, CANDIDATES, None)[0]

    def _append(self, ordinal: int, item: Item, terms: list[str]) -> None:
        super()._append(ordinal, item, terms)
        self._sequences.append(terms)
        self._sources.append(item, len(terms))
        self._roles.append(item.role)
        self._numeric.append(sum(map(str.isdigit, terms)) / max(1, len(terms)))
        self._tokens.append(item.tokens)
        self._rules.append(
            item.role not in _NEVER_RULES and any(plain_rules_in(item.text[:_RULE_CHARS]))
        )

    def _detach(self, slot: int) -> None:
        self._sequences.clear(slot)
        self._sources.clear(slot, self._lengths[slot])
        self._roles.clear(slot)
        self._rules[slot] = 0
        super()._detach(slot)

    def _frozen(self) -> Callable[[], Columns]:
        slots = self._slots.in_order()
        numeric = np.array(self._numeric, np.float32)[slots]
        tokens = np.array(self._tokens, np.int64)[slots]
        rules = np.array(self._rules, np.uint8)[slots]
        entries = super()._frozen()
        sources = self._sources.frozen()
        sequences = self._sequences.frozen()
        roles = self._roles.frozen()

        def columns() -> Columns:
            hashes, sizes = sequences(slots)
            names, numbers, _ = roles(slots)
            own: Columns = {
                "roles": names,
                "role_numbers": numbers,
                "hashes": hashes,
                "hash_sizes": sizes,
            }
            return {
                **entries(),
                **sources(slots),
                **own,
                "numeric": numeric,
                "tokens": tokens,
                "rules": rules,
            }

        return columns

    def _rearrange(self, slots: NDArray[np.int64]) -> None:
        super()._rearrange(slots)
        self._sequences = Sequences(*self._sequences.frozen()(slots))
        self._sources.rearrange(slots, np.array(self._lengths, np.int32))
        self._roles = Labels(*self._roles.frozen()(slots)[:2])
        self._numeric = array("f", np.array(self._numeric, np.float32)[slots].tobytes())
        self._tokens = array("q", np.array(self._tokens, np.int64)[slots].tobytes())
        self._rules = bytearray(np.array(self._rules, np.uint8)[slots].tobytes())

    def _restore(self, columns: StoredColumns) -> None:
        super()._restore(columns)
        size = len(self._slots)
        names = columns.texts("roles")
        numbers = columns.numbers("role_numbers", np.int32, among=(1, len(names) + 1), size=size)
        self._roles = Labels(names, numbers)
        self._sources.restore(columns, np.array(self._lengths, np.int32))
        hashes = columns.numbers("hashes", np.uint16)
        sizes = columns.numbers("hash_sizes", np.uint16, among=(0, MAX_TERMS + 1), size=size)
        if sizes.sum(dtype=np.int64) != len(hashes):
            raise unusable("its sequences are not as long as they should be")
        self._sequences = Sequences(hashes, sizes)
        self._numeric = array(
            "f", columns.numbers("numeric", np.float32, among=(0, 2), size=size).tobytes()
        )
        self._tokens = array(
            "q", columns.numbers("tokens", np.int64, among=(0, 1 << 63), size=size).tobytes()
        )
        self._rules = bytearray(
            columns.numbers("rules", np.uint8, among=(0, 2), size=size).tobytes()
        )

    def _candidates(
        self, query: str, limit: int, among: Collection[int] | None
    ) -> tuple[Candidates | None, list[tuple[int, float]]]:
        """Return the candidates with their signals, and the entries after them, best first."""
        asked = QueryTerms(query, self._analyze)
        asked.respell(self._postings.terms)
        scores = self._scores(asked)
        slots = scores.contenders(limit) if among is None else self._slots_of(among)
        if slots is None:
            slots = np.arange(len(self._slots))
            proposed = by_chunks(scores.proposed, len(self._slots))
        else:
            proposed = scores.proposed(slots)
        ranked = best(self._slots.ordinals[slots], proposed, limit)
        if is_tied(ranked, CANDIDATES - _NEIGHBOURED):
            proposed = self._untied(
                ranked[CANDIDATES - _NEIGHBOURED][1], slots, proposed, self._asked_last(scores)
            )
            ranked = best(self._slots.ordinals[slots], proposed, limit)
        if not ranked:
            return None, []
        first = [ordinal for ordinal, _ in islice(ranked, CANDIDATES - _NEIGHBOURED)]
        chosen = first + self._neighbours_of(first, scores.numbers, among)
        chosen += self._newest_rules({*chosen}, among)
        known = {*chosen}
        rest = [each for each in ranked if each[0] not in known]
        found = self._chosen(chosen, scores.numbers)
        return Candidates(np.array(chosen), self._signals(scores, found), found.numbers), rest

    def _scores(self, asked: QueryTerms) -> QueryScores:
        words = clause = self._scores_of(self._weights_of(asked.terms))
        # A message of a conversation asks in all its clauses; a question on documents begins with
        # its subject.
        if asked.clause != asked.terms and not self.is_conversation:
            clause = self._scores_of(self._weights_of(asked.clause))
        sources = (
            self._sources.matches(asked, self._occurrences(asked.counts)) * self._source_weight
        )
        return QueryScores(asked, words, clause, sources, self._sources.numbers)

    def _chosen(self, ordinals: list[int], numbers: NDArray[np.int32]) -> Chosen:
        """Return candidates. numbers: of the sources of all slots."""
        at = np.array(ordinals, np.int64)
        slots = self._slots.find_all(at)
        near = {}
        for step in (-2, -1, 1, 2):
            near[step] = self._neighbour_slots(at + step, numbers[slots], numbers)
        return Chosen(ordinals, slots, numbers[slots], near)

    def _untied(
        self,
        score: float,
        slots: NDArray[np.int64],
        proposed: NDArray[np.float64],
        terms: list[str],
    ) -> NDArray[np.float64]:
        """Return the proposing scores, a little higher for tied entries with the query's phrases.

        Short texts of one pattern tie by the thousand, and only some can be candidates.
        """
        (tied,) = np.nonzero(np.abs(proposed - score) < 1.5e-9)
        hashes, rows = self._sequences.gathered(slots[tied].tolist())
        untied = proposed.copy()
        untied[tied] += 4e-9 * scaled(phrase_scores(terms, hashes, rows, len(tied)))
        return untied

    def _signals(self, scores: QueryScores, chosen: Chosen) -> dict[str, NDArray[np.float64]]:
        """Return the signals of candidates, by name: those of any entry, and those of its kind."""
        asked = scores.asked
        slots = chosen.slots
        near = chosen.near
        words = scores.words.shares(slots)
        source = scores.sources[chosen.numbers]
        hashes, rows = self._sequences.gathered(slots.tolist())
        numbers = np.minimum(1.0, 3.0 * self._other_numbers(asked.counts, slots, hashes, rows))
        signals = {
            "match": match_scores(words),
            "source": source,
            "best_of_source": best_of_source(chosen.numbers, words),
            "next_words": _of(scores.words, near[1]),
            "nearby_words": (_of(scores.words, near[-2]) + _of(scores.words, near[2])) / 2,
            "phrases": self._phrases(self._asked_last(scores), hashes, rows, len(slots)),
            "asked_numbers": numbers * asked.is_for_number,
            "size": logs(np.maximum(1.0, self._tokens_now(chosen.ordinals, slots))) / 5,
        }
        if asked.quoted:
            quoted = [having(terms, hashes, rows, len(slots)) for terms in asked.quoted]
            signals["quoted"] = np.count_nonzero(quoted, axis=0) / len(quoted)
        if self.is_conversation:
            return signals | self._spoken(asked, slots, words)
        return signals | self._written(scores, chosen, words, hashes, rows) | {"numbers": numbers}

    @staticmethod
    def _phrases(
        terms: list[str], hashes: NDArray[np.uint16], rows: NDArray[np.int64], size: int
    ) -> NDArray[np.float64]:
        """Return the scores of entries for the query's phrases.

        In a long query, one pair of words says little.
        """
        return scaled(phrase_scores(terms, hashes, rows, size)) * min(
            1.0, _TELLING_PAIRS / max(1, len(terms) - 1)
        )

    @staticmethod
    def _asked_last(scores: QueryScores) -> list[str]:
        """Return the terms of the clause that is ranked by, or of the whole query."""
        return scores.asked.terms if scores.clause is scores.words else scores.asked.clause

    def _spoken(
        self, asked: QueryTerms, slots: NDArray[np.int64], words: NDArray[np.float64]
    ) -> dict[str, NDArray[np.float64]]:
        """Return the signals of entries of a conversation alone."""
        roles = np.frombuffer(self._roles.numbers, np.int32)[slots]
        named = np.zeros(self._roles.size)
        for role, role_number in self._roles.number_of.items():
            named[role_number] = self._is_named(role, asked.counts)
        assistant = roles == self._roles.number_of.get("assistant", NONE)
        return {
            "words": words,
            "assistant": assistant.astype(np.float64),
            "named_speaker": named[roles],
            "rule": self._standing(slots) * (_RULES_FOR_FACTS if asked.is_for_fact else 1.0),
        }

    def _standing(self, slots: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return 1 for the newest standing rule down to 0.4 for the oldest, 0 for other entries.

        A rule holds until a newer one takes its place.
        """
        rules = self._rule_ordinals
        older = np.searchsorted(rules, self._slots.ordinals[slots], side="right")
        return np.frombuffer(self._rules, np.uint8)[slots] * (
            0.4 + 0.6 * older / max(1, len(rules))
        )

    def _written(
        self,
        scores: QueryScores,
        chosen: Chosen,
        words: NDArray[np.float64],
        hashes: NDArray[np.uint16],
        rows: NDArray[np.int64],
    ) -> dict[str, NDArray[np.float64]]:
        """Return the signals of entries of documents alone."""
        asked = scores.asked
        slots = chosen.slots
        numbers = chosen.numbers
        near = chosen.near
        clause = words if scores.clause is scores.words else scores.clause.shares(slots)
        source = scores.sources[numbers]
        latent = LatentSpace(hashes, rows, len(slots), asked.counts)
        meaning = latent.similarities(words)
        clause_meaning = meaning if scores.clause is scores.words else latent.similarities(clause)
        before, after = (values_at(clause_meaning, slots, near[step]) for step in (-1, 1))
        title = self._sources.named(asked, numbers)
        signals = {
            "clause": clause,
            "clause_and_source": clause * source,
            "clause_in_source": place_in_source(numbers, clause),
            "title": title.rarest * title.rarest * title.rarest,
            "title_share": title.share,
            "title_and_share": title.rarest * title.share,
            "meaning": meaning,
            "clause_meaning": clause_meaning,
            "nearby_meaning": (before + after) / 2,
            "nearby_clause": (_of(scores.clause, near[-1]) + _of(scores.clause, near[1])) / 2,
            "test_source": title.is_test,
        }
        if asked.names:
            pairs = product(_DEFINING, asked.names)
            defined = [having(pair, hashes, rows, len(slots)) for pair in pairs]
            signals["definition"] = np.any(defined, axis=0).astype(np.float64)
        return signals

    def _other_numbers(
        self,
        asked: Iterable[str],
        slots: NDArray[np.int64],
        hashes: NDArray[np.uint16],
        rows: NDArray[np.int64],
    ) -> NDArray[np.float64]:
        """Return the share of each entry's terms that are numbers, but not numbers of the query."""
        shares = np.frombuffer(self._numeric, np.float32)[slots].astype(np.float64)
        own = [term_hash(term) for term in asked if term.isdigit()]
        if not own:
            return shares
        counts = np.bincount(rows, np.isin(hashes, own), len(slots))
        return np.maximum(
            0.0, shares - counts / np.maximum(1, np.frombuffer(self._lengths, np.int32)[slots])
        )

    def _occurrences(
        self, terms: Iterable[str]
    ) -> Iterator[tuple[str, NDArray[np.int64], NDArray[np.int64]]]:
        for term in terms:
            if term in self._postings:
                slots, times, _ = self._postings.unpacked([term])
                yield term, slots, times

    def _neighbours_of(
        self, first: list[int], numbers: NDArray[np.int32], among: Collection[int] | None
    ) -> list[int]:
        """Return at most _NEIGHBOURED more entries, beside the best entries of `first`.

        They are of the same named source. A question for a word finds the entries with the word,
        and their neighbours.

        Args:
            numbers: Numbers of the sources of all slots.
        """
        if not len(self._sources):
            return []
        known = set(first)
        found: dict[int, None] = {}
        allowed = among if among is None or isinstance(among, Set) else set(among)
        for ordinal in first[:_NEIGHBOURED]:
            source = numbers[self._slots.get(ordinal)]
            if source == NONE:
                continue
            for step in _NEIGHBOURS:
                neighbour = ordinal + step
                slot = self._slots.get(neighbour)
                if slot < 0 or numbers[slot] != source or neighbour in known:
                    continue
                if allowed is None or neighbour in allowed:
                    found[neighbour] = None
        return list(islice(found, _NEIGHBOURED))

    def _newest_rules(self, known: set[int], among: Collection[int] | None) -> list[int]:
        """Return the unknown ones of the _RULES newest rules of a conversation, newest first."""
        if not self.is_conversation:
            return []
        allowed = among if among is None or isinstance(among, Set) else set(among)
        newest = self._rule_ordinals[: -_RULES - 1 : -1].tolist()
        if allowed is not None:
            newest = [each for each in newest if each in allowed]
        return [each for each in newest if each not in known]

    @property
    def _rule_ordinals(self) -> NDArray[np.int64]:
        """Return the ordinals of the entries that state standing rules, ascending."""
        return np.sort(self._slots.ordinals[np.flatnonzero(np.frombuffer(self._rules, np.uint8))])

    def _neighbour_slots(
        self,
        ordinals: NDArray[np.int64],
        sources: NDArray[np.int32],
        numbers: NDArray[np.int32],
    ) -> NDArray[np.int64]:
        """Return the slots of ordinals that are of the given sources, -1 for each other ordinal.

        Without a named source, only the entries of a conversation have neighbours.

        Args:
            numbers: Numbers of the sources of all slots.
        """
        if not self.is_conversation and (sources == NONE).all():
            return np.full(len(ordinals), -1)
        slots = self._slots.find_all(ordinals)
        belongs = numbers[slots] == sources
        if not self.is_conversation:
            belongs &= sources != NONE
        return np.where(belongs, slots, -1)

    def _tokens_now(self, ordinals: list[int], slots: NDArray[np.int64]) -> NDArray[np.int64]:
        if self.tokens_of is None:
            return np.frombuffer(self._tokens, np.int64)[slots]
        return np.array(self.tokens_of(ordinals), np.int64)

    def _is_named(self, role: str, terms: Collection[str]) -> bool:
        return any(term in terms for term in self._analyze(role))


def _scaled_below(least: float, rest: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """Return entries with scores up to `least`, in proportion to their own."""
    most = rest[0][1]
    after = [(ordinal, round(least * score / most, 12)) for ordinal, score in rest]
    return sorted(after, key=lambda each: (-each[1], -each[0]))


def _signals_of(
    ordinals: NDArray[np.int64], added: Mapping[str, NDArray[np.float64]]
) -> Callable[[int], dict[str, float]]:
    """Return a function that gives the addends of an entry, less their averages."""
    places = {ordinal: place for place, ordinal in enumerate(ordinals.tolist())}

    @cache
    def means() -> dict[str, float]:
        return {name: math.fsum(each.tolist()) / len(each) for name, each in added.items()}

    def signals(ordinal: int) -> dict[str, float]:
        place = places.get(ordinal)
        if place is None:
            return {}
        return {name: round(float(added[name][place] - mean), 9) for name, mean in means().items()}

    return signals


def _surplus_of_tests(
    signals: Mapping[str, NDArray[np.float64]], sums: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the surplus of the tests among the candidates over the best definition.

    Without it, the best test ranks below the definition. It is 0 if no candidate outside of tests
    defines a name of the query. Tests keep their order.
    """
    tests = signals["test_source"] > 0
    defining = (signals.get("definition", np.zeros(len(sums))) > 0) & ~tests
    if not (tests.any() and defining.any()):
        return np.zeros(len(sums))
    surplus = max(0.0, float(sums[tests].max() - sums[defining].max()) + _BELOW)
    return np.where(tests, surplus, 0.0)


def _of(scores: EntryScores, slots: NDArray[np.int64]) -> NDArray[np.float64]:
    if (slots < 0).all():
        return np.zeros(len(slots))
    return np.where(slots >= 0, scores.shares(slots), 0.0)
