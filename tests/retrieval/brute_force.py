"""BM25 by brute force: from the texts, one entry at a time, in Python's whole numbers and in floats."""

import math
from collections import Counter
from functools import cache

from kaosmem.language.analysis import analyze

BITS = 16


def exact_ranking(entries, query, *, k1=1.5, b=0.75):
    """Return all (ordinal, score) above 0, best first, as `BM25Ranker` promises them."""
    found = [(score, ordinal) for ordinal, score in exact_scores(entries, query, k1, b).items()]
    return [(ordinal, score) for score, ordinal in sorted(found, reverse=True) if score > 0]


def exact_scores(entries, query, k1, b):
    """Return the score of each entry in units of 2**-32."""
    counts = {ordinal: counted(text) for ordinal, text in entries.items()}
    having = Counter(term for own in counts.values() for term in own)
    weights = {
        term: times * max(1, floor_log2(2 * len(entries) + 2, 2 * having[term] + 1))
        for term, times in Counter(analyze(query)).items()
        if having[term]
    }
    average = rounded_average([own.total() for own in counts.values()])
    scores = dict.fromkeys(entries, 0)
    for ordinal, own in counts.items():
        norm = norm_of(told_apart(own.total(), 256, 32), average, k1, b)
        for term, weight in weights.items():
            times = told_apart(own[term], 64, 16)
            scores[ordinal] += weight * ((times << 2 * BITS) // ((times << BITS) + norm))
    return scores


@cache
def counted(text):
    """Return the terms of a text and how often it has each."""
    return Counter(analyze(text))


def floor_log2(numerator, denominator):
    """Return a binary logarithm in units of 2**-16, rounded down."""
    return math.floor(math.log2(numerator / denominator) * 2**BITS)


def told_apart(number, exact, steps):
    """Return a number rounded down: above `exact`, `steps` to each power of two."""
    if number < exact:
        return number
    unit = 2 ** (number.bit_length() - 1) // steps
    return number // unit * unit


def rounded_average(lengths):
    """Return the average of lengths in units of 1 / 256, to ten binary digits."""
    size = max(1, len(lengths))
    average = max(1, (256 * sum(lengths) + size // 2) // size)
    unit = 2 ** max(0, average.bit_length() - 10)
    return average // unit * unit


def norm_of(length, average, k1, b):
    """Return k1 * (1 - b + b * length / average) in units of 2**-16, rounded down."""
    million = 10**6
    in_millionths = round(k1 * million)
    share = round(b * million)
    product = in_millionths * ((million - share) * average + share * 256 * length)
    return max(1, (product << BITS) // (million * million * average))


def textbook_scores(entries, query, *, k1=1.5, b=0.75):
    """Return the score of each entry in floats, with Lucene's idf."""
    counts = {ordinal: counted(text) for ordinal, text in entries.items()}
    having = Counter(term for own in counts.values() for term in own)
    average = max(1, sum(own.total() for own in counts.values())) / max(1, len(entries))
    scores = {}
    for ordinal, own in counts.items():
        norm = k1 * (1 - b + b * own.total() / average)
        gained = 0.0
        for term, asked in Counter(analyze(query)).items():
            if own[term]:
                idf = math.log((len(entries) + 1) / (having[term] + 0.5))
                gained += asked * idf * own[term] * (k1 + 1) / (own[term] + norm)
        scores[ordinal] = gained
    return scores
