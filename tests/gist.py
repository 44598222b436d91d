"""A model that summarises: it repeats some words of what it is asked to summarise."""

import re

from kaosmem.language.analysis import analyze

_WORD = re.compile(r"\b\w{1,12}\b")
_LABELS = frozenset(analyze("I user assistant system tool summary"))


def gist(messages, most=6):
    """Return a sentence of the shortest words of a request that say something, at most so many."""
    material = messages[-1].text.rpartition("## task")[0]
    words = {}
    for word in _WORD.findall(material):
        if terms := frozenset(analyze(word)) - _LABELS:
            words.setdefault(terms, word)
    chosen = sorted(words.values(), key=len)[:most]
    return f"{' '.join(chosen) or 'Hm'}."
