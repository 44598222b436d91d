"""A model that summarises: it repeats some words of what it is asked to summarise."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kaosmem import ChatMessage
from kaosmem.language.analysis import analyze

_WORD = re.compile(r"\b\w{1,12}\b")
_LABELS = frozenset(analyze("I user assistant system tool summary"))


def gist(messages: Sequence[ChatMessage], most: int = 6) -> str:
    """Return a sentence of the shortest words of a request that say something, at most so many."""
    material = messages[-1].text.rpartition("## task")[0]
    words: dict[frozenset[str], str] = {}
    for word in _WORD.findall(material):
        if terms := frozenset(analyze(word)) - _LABELS:
            words.setdefault(terms, word)
    chosen = sorted(words.values(), key=len)[:most]
    return f"{' '.join(chosen) or 'Hm'}."
