"""How likely the evidence for a query is in a context, told by the words of both.

Four figures are weighed. They need no scores, so they mean the same with every ranker:

covered   share of the query's terms that the shown items have; a rare term counts more
at_once   logarithm of the largest such share that one shown item has, a little more than 0 for none
pairs     share of the query's pairs of neighbouring terms that stand side by side in a shown item
shown     logarithm of the share of all tokens that is shown

One more match, or one more shown item, never lowers a figure. A higher figure never lowers the
confidence. `benchmarks/calibrate_confidence.py` learns the weights in `confidence.json` and
measures them.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from itertools import pairwise

from kaosmem.assembly.allocation import items_of
from kaosmem.exact import exp, idf, log
from kaosmem.formats.labels import source_label
from kaosmem.language.analysis import analyze
from kaosmem.language.dates import without_periods
from kaosmem.language.keys import key_words
from kaosmem.language.query import Query, excerpt, has_question_near_end
from kaosmem.sections.proposal import CandidatePool, Proposal
from kaosmem.types.items import Item, once_per_item

BIAS = "bias"
_LEAST = 0.1  # by hand: at 0 the logarithm has no end

_WEAK_FOR_QUESTION = 0.1
_WEAK_FOR_STATEMENT = 0.2
"""Matches are weak if none has so large a share of the query's terms.

A request has more words than a question that the evidence for it lacks.
"""


def confidence_of(
    query: str,
    items: Iterable[Item],
    proposals: Iterable[Proposal],
) -> float | None:
    """Return how likely the evidence for a query is among the shown items, 0 to 1.

    It is 0 for no items.

    Returns None for a query without terms: an empty one, or stop words alone.

    Args:
        proposals: All that could be shown.
    """
    found = figures(query, items, pool_of(query, proposals))
    if found is None:
        return None
    if found["shown"] == -math.inf:
        return 0.0
    weights = confidence_weights()
    logit = math.fsum((weights[BIAS], *(weights[name] * value for name, value in found.items())))
    return round(1 / (1 + exp(-logit)), 4)


def figures(
    query: str,
    items: Iterable[Item],
    pool: CandidatePool,
) -> dict[str, float] | None:
    """Return the figures of a query and the shown items by name; None for a query without terms.

    An item with the query's own text is left out: it is the question, not its evidence.
    """
    asked = terms_of(query)
    rarity = _rarity(asked, pool)
    pairs = {pair for pair in pairwise(asked) if pair[0] != pair[1]}
    if not rarity:
        return None
    terms = {*asked}
    covered = set[str]()
    side_by_side: set[tuple[str, str]] = set()
    at_once = 0.0
    shown = 0
    for item in items:
        if _is_the_question(item, query):
            continue
        shown += item.tokens
        own = terms.intersection(_terms_of_item(item))
        if len(own) > 1:
            side_by_side |= pairs.intersection(pairwise(analyze(item.text)))
        covered |= own
        at_once = max(at_once, math.fsum(rarity[term] for term in own))
    share = math.fsum(rarity[term] for term in covered)
    return {
        "covered": share,
        "at_once": _logarithm(at_once),
        "pairs": len(side_by_side) / len(pairs) if pairs else share,
        "shown": log(shown / max(shown, pool.tokens)) if shown else -math.inf,
    }


@once_per_item
def _terms_of_item(item: Item) -> frozenset[str]:
    """Return the terms of an item's text, and of the words that stand beside it."""
    beside = f"{item.shown_role} {source_label(item)}"
    if item.key is not None:
        beside += f" {key_words(item.key)}"
    return frozenset((*analyze(item.text), *analyze(beside)))


def _is_the_question(item: Item, query: str) -> bool:
    """Return whether an item has the text of a query: it is the question, not its evidence."""
    if item.text == query:
        return True
    if len(item.text) > 2 * len(query):
        return False  # It says more, and is not analyzed for this alone.
    return analyze(item.text) == analyze(excerpt(query))


def are_weak(
    query: str,
    items: Iterable[Item],
    pool: CandidatePool | None,
) -> bool:
    """Return whether no item that a source retrieved has a fifth of the terms of a query.

    A tenth is enough for a question. False if words cannot tell.
    """
    found = match_of(query, items, pool)
    least = _WEAK_FOR_QUESTION if has_question_near_end(query) else _WEAK_FOR_STATEMENT
    return found is not None and found < _logarithm(least)


def match_of(
    query: str,
    items: Iterable[Item],
    pool: CandidatePool | None,
) -> float | None:
    """Return the figure `at_once` of items that a source retrieved, by the rarity of terms there.

    None if words cannot tell: the source does not count them, or the query names no subject, as
    "Go on." does not.
    """
    if pool is None or pool.frequencies is None or not Query(excerpt(query)).has_topic:
        return None
    asked = terms_of(query)
    rarity = _rarity(asked, pool)
    if not rarity:
        return None
    at_once = 0.0
    for item in items:
        own = _terms_of_item(item).intersection(asked)
        share = math.fsum(rarity[term] for term in own)
        if share > at_once and not _is_the_question(item, query):
            at_once = share
    return _logarithm(at_once)


def pool_of(query: str, proposals: Iterable[Proposal]) -> CandidatePool:
    """Return all that several sources could propose.

    If an index does not count the items that have a term, or if there is none, the items that are
    offered are counted.
    """
    terms = {*terms_of(query)}
    items = 0
    tokens = 0
    frequencies: Counter[str] = Counter()
    for proposal in proposals:
        offered = items_of(proposal.units)
        pool = proposal.pool or CandidatePool(len(offered), sum(item.tokens for item in offered))
        items += pool.items
        tokens += pool.tokens
        if pool.frequencies is not None:
            frequencies.update(pool.frequencies)
        else:
            for item in offered:
                frequencies.update(terms.intersection(analyze(item.text)))
    return CandidatePool(items, tokens, frequencies)


def terms_of(query: str) -> list[str]:
    """Return the terms of a query without the words for its periods, which filter by day.

    Of a long query, the terms are those of its excerpt.
    """
    return analyze(without_periods(excerpt(query)))


def _logarithm(share: float) -> float:
    return log((share + _LEAST) / (1 + _LEAST))


def _rarity(terms: Iterable[str], pool: CandidatePool) -> dict[str, float]:
    """Return how much each term counts, 1 in all: its idf, as BM25 has it."""
    known = pool.frequencies or {}
    counts = {term: min(known.get(term, 0), pool.items) for term in terms}
    idfs = {term: idf(pool.items, count) for term, count in counts.items()}
    total = math.fsum(idfs.values())
    return {term: each / total for term, each in idfs.items()}


@cache
def confidence_weights() -> Mapping[str, float]:
    """Return the weights that come with kaosmem, of each figure and of BIAS."""
    text = files("kaosmem.assembly").joinpath("confidence.json").read_text(encoding="utf-8")
    weights: dict[str, float] = json.loads(text)
    return weights
