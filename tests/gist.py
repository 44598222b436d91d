"""A model that summarises: it repeats some words of what it is asked to summarise."""

from __future__ import annotations

from collections.abc import Sequence

from kaosmem import ChatMessage
from kaosmem.language.analysis import analyze


def gist(messages: Sequence[ChatMessage], most: int = 6) -> str:
    """Return a sentence of the first words of a request that say something, and at most so many."""
    material = messages[-1].text.rpartition("## task")[0]
    words: dict[str, None] = {}
    for word in material.split():
        if word[0] != "[" and word[-1] != "]" and analyze(word):
            words.setdefault(word.strip(".,:;"))
        if len(words) == most:
            break
    return f"{' '.join(words)}."
