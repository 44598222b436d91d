"""Texts of a few words, drawn from a seed."""

import random

from hypothesis import strategies as st

WORDS = [
    "lease",
    "tenant",
    "rent",
    "landlord",
    "deposit",
    "notice",
    "breach",
    "cure",
    "term",
    "renewal",
]


def text_of(rng, words=WORDS):
    """Return a few words, or one word about 255 times, the most that a byte counts."""
    few = rng.random() < 0.75
    return " ".join(
        rng.choices(words, k=rng.randint(0, 12))
        if few
        else [rng.choice(words[:3])] * rng.randint(250, 260)
    )


# Made from seeds: Hypothesis takes longer to draw each word than an index to take in the text.
seeded = st.integers(0, 2**32 - 1).map(random.Random)
