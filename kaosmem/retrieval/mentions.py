"""The entities that a text mentions: names as sequences of terms."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from kaosmem.retrieval.analysis import analyze

_PUNCTUATION = ".,:;!?\"'()[]{}«»“”‘’"
_POSSESSIVE = re.compile("['’]s$")
_END_OF_SENTENCE = (".", "!", "?", ":")


class _Word(NamedTuple):
    """A word of a text.

    term: its form for comparisons. written: as it stands there, of a word that is no term (`it`, `&`).
    opens: whether it begins a sentence.
    """

    term: str
    written: str
    opens: bool


class _Bearer(NamedTuple):
    """An entity that bears a name; `written` as the words of it that are no terms stand, if it has no others."""

    entity: str
    written: tuple[str, ...] | None


class Mentions:
    """Names of entities, found in a text at a cost that grows with the text and not with the names.

    Case, accents, possessives and inflection do not matter; all words of a name count, in their order, but a leading
    "the" before two more. At each word the longest name wins, and its words name nothing else. A name of nothing but
    stop words or signs (`IT`, `The Who`) must stand there as it is written and, if it is a single capitalised word,
    not open a sentence.
    """

    def __init__(self) -> None:
        self._bearers: dict[tuple[str, ...], list[_Bearer]] = {}
        self._lengths: dict[str, Counter[int]] = {}  # first term -> how many names of so many words begin with it

    def add(self, name: str, entity: str) -> None:
        """Add a name of an entity; a name added twice is discarded twice."""
        for key, bearer in _keys(name, entity):
            self._bearers.setdefault(key, []).append(bearer)
            self._lengths.setdefault(key[0], Counter())[len(key)] += 1

    def discard(self, name: str, entity: str) -> None:
        """Take a name of an entity out again."""
        for key, bearer in _keys(name, entity):
            self._bearers[key].remove(bearer)
            if not self._bearers[key]:
                del self._bearers[key]
            lengths = self._lengths[key[0]]
            lengths[len(key)] -= 1
            if not lengths[len(key)]:
                del lengths[len(key)]
            if not lengths:
                del self._lengths[key[0]]

    def entities_in(self, text: str) -> list[str]:
        """Return the entities that a text names, each once, in the order of their first mention."""
        words, start = list(_words(text)), 0
        named: dict[str, None] = {}
        while start < len(words):
            length, entities = self._longest(words, start)
            named |= dict.fromkeys(entities)
            start += length
        return list(named)

    def _longest(self, words: list[_Word], start: int) -> tuple[int, list[str]]:
        """Return of how many words the longest name from here on is, and who bears it."""
        lengths = self._lengths.get(words[start].term, ())
        for length in sorted(lengths, reverse=True):
            here = words[start : start + length]
            bearers = self._bearers.get(tuple(word.term for word in here), ()) if len(here) == length else ()
            entities = [bearer.entity for bearer in bearers if bearer.written is None or _is_written(bearer, here)]
            if entities:
                return length, entities
        return 1, []


def _is_written(bearer: _Bearer, words: list[_Word]) -> bool:
    as_written = tuple(word.written for word in words) == bearer.written
    return as_written and not (len(words) == 1 and words[0].opens and words[0].written.istitle())


def _keys(name: str, entity: str) -> Iterator[tuple[tuple[str, ...], _Bearer]]:
    words = list(_words(name))
    for variant in (words, words[1:] if len(words) > 2 and words[0].term == "the" else []):
        if variant:
            written = tuple(word.written for word in variant)
            yield tuple(word.term for word in variant), _Bearer(entity, written if all(written) else None)


def _words(text: str) -> Iterator[_Word]:
    opens = True
    for chunk in text.split():
        terms = analyze(_plain(chunk))
        if terms:
            yield from (_Word(term, "", False) for term in terms)
        else:
            written = _POSSESSIVE.sub("", chunk.strip(_PUNCTUATION)) or chunk
            yield _Word(written.casefold(), written, opens)
        opens = chunk.endswith(_END_OF_SENTENCE)


def _plain(chunk: str) -> str:
    """Return a chunk in lower case and without accents."""
    if chunk.isascii():
        return chunk.lower()
    # Marks that stand alone go first: normalising a run of n of them takes n² steps.
    bare = "".join(char for char in chunk if not unicodedata.combining(char))
    decomposed = unicodedata.normalize("NFKD", bare.casefold())
    plain = "".join(char for char in decomposed if not unicodedata.combining(char))
    return unicodedata.normalize("NFC", plain)
