"""Text to terms: what a query and an item are compared by."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from itertools import chain, pairwise

MAX_WORD_CHARS = 64
"""What a longer word, or a longer whole form of an identifier, is cut to."""

# "us" is not among them, so that "US" and "U.S." agree. Nor are "I", "me" and "my", by which a question finds what
# its user said of themselves: that adds 0.013 to recall at 10 over our evaluation sets, up to 0.09 in long chats.
STOP_WORDS = frozenset(
    """
    a about above after again against all also am an and any are aren't as at be because been before being below
    between both but by can can't cannot could couldn't did didn't do does doesn't doing don't down during each
    eg etc few for from further had hadn't has hasn't have haven't having he her here hers herself him himself
    his how ie if in into is isn't it its itself just more most mustn't no nor not of off on once only or other
    ought our ours ourselves out over own s same shan't she should shouldn't so some such t than that the their
    theirs them themselves then there these they this those through to too under until up upon very was wasn't
    we were weren't what when where which while who whom why will with won't would wouldn't you your yours
    yourself yourselves
    """.split()  # noqa: SIM905 - a list literal would be 150 lines
)

# Written without spaces: Thai, Lao, Myanmar, Khmer, Han, kana; and Hangul, whose words end in particles.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30fa\u30fc-\u318f\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff"
)
# Marks that are part of a word and that `\w` misses: Latin, Cyrillic, Hebrew, Arabic, and those of all Indic scripts.
_MARKS = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed\u0900-\u0963\u0966-\u0dff"
)

# Nobody puts more than 30 marks on a letter (Unicode's Stream-Safe Text Format), and normalising n of them takes n².
_EXCESS_MARKS = re.compile(r"(?<=[^\w\x00-\x7f]{30})[^\w\x00-\x7f]+")
_TYPOGRAPHY = {0x2019: "'", 0x2010: "-", 0x00AD: None}  # apostrophe, hyphen, soft hyphen

_RUN = re.compile(f"[{_UNSPACED}]+|[^{_UNSPACED}]+")
_UNSPACED_CHAR = re.compile(f"[{_UNSPACED}]")
# A date before a time, a number with thousands separators, or words with single joiners between them. Linear in
# the text: no part of the pattern can match what the part before it has left.
_TOKEN = re.compile(
    r"\d{4}-\d\d-\d\d(?=T\d)"
    r"|\d{1,3}(?:,\d{3})+(?:\.\d+)?"
    rf"|[\w{_MARKS}]+(?:[.'-][\w{_MARKS}]+|\(\w{{1,8}}\))*"
)
_NUMBER = re.compile(r"(?:\d+(?:\.\d+)*|\d{4}-\d\d(?:-\d\d)?)(?:\([a-z0-9]{1,4}\))*")
_NUMBER_JOINER = re.compile(r"[.(-]")
_ACRONYM = re.compile(r"[a-z](?:\.[a-z])+")
# Letters alone, as in `well-known` and `method(s)`: a whole form beside the words would count them once too often.
_HYPHENATED = re.compile(r"[^\W\d_]+(?:[-(][^\W\d_]+\)?)+")
_WORD = re.compile(r"[^_.()-]+")
_COMPOUND = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]{2}|[A-Z]{2}s$|[A-Za-z]\d")
# HTTPServer2 is HTTP, Server, 2; URLs is URL, s.
_PART = re.compile(r"[A-Z]+(?=[A-Z][a-z]{2})|[A-Z]?[a-z]+|[A-Z]+|\d+")
_PUNCTUATION = ".,:;!?\"'()[]{}"
_POSSESSIVE = re.compile(r"'(?:s|re|ve|ll|d|m)$")


def analyze(text: str) -> list[str]:
    """Return the terms of a text, in order, each as often as it occurs.

    Words are in Unicode's NFKC form and case-folded, English stop words left out, the rest stemmed. An
    identifier (`snake_case`, `camelCase`, `TASK-17`, `os.path.join`) gives its whole form, then its parts; a
    number, version, date or clause (`4.2(b)`) its whole form, then its shorter beginnings (`4.2`, `4`); a
    hyphenated word its words. A word with accents gives its form without them too: queries are often typed so,
    and the exact form still ranks first. Scripts written without spaces give each pair of neighbouring characters.
    """
    return list(chain.from_iterable(map(_CHUNK_TERMS.__getitem__, text.split())))


class _ChunkTerms(dict[str, tuple[str, ...]]):
    """The terms of chunks between white space, remembered: most of any text are chunks seen before."""

    _MAX_CHUNKS = 1 << 16
    _MAX_CHARS = 40

    def __missing__(self, chunk: str) -> tuple[str, ...]:
        if len(chunk) > self._MAX_CHARS:
            return tuple(_chunk_terms(chunk))
        word = chunk.strip(_PUNCTUATION)
        if word.isascii() and word.isalpha() and (word.islower() or word.istitle() or word.isupper()):
            terms = tuple(filter(None, [_stem(word)]))  # what the line below would find, in a tenth of the time
        else:
            terms = tuple(_chunk_terms(chunk))
        if len(self) >= self._MAX_CHUNKS:
            self.clear()
        self[chunk] = terms
        return terms


_CHUNK_TERMS = _ChunkTerms()


def _chunk_terms(chunk: str) -> Iterator[str]:
    if chunk.isascii():
        yield from _spaced_terms(chunk)
        return
    chunk = unicodedata.normalize("NFKC", _EXCESS_MARKS.sub("", chunk)).translate(_TYPOGRAPHY)
    for run in _RUN.findall(chunk):
        if _UNSPACED_CHAR.match(run):
            yield from map("".join, pairwise(run)) if len(run) > 1 else run
        else:
            yield from _spaced_terms(run)


def _spaced_terms(run: str) -> Iterator[str]:
    for token in _TOKEN.findall(run):
        yield from _word_terms(token) if token.isalpha() else _token_terms(token)


def _token_terms(token: str) -> Iterator[str]:
    words = _WORD.findall(token)
    whole = token[:MAX_WORD_CHARS].casefold().strip("_").replace(",", "")
    if _NUMBER.fullmatch(whole):
        yield whole
        for joiner in _NUMBER_JOINER.finditer(whole):
            yield whole[: joiner.start()]
    elif _ACRONYM.fullmatch(whole):
        yield from _word_terms(whole.replace(".", ""))
    else:
        if len(words) > 1 and not _HYPHENATED.fullmatch(token):
            yield whole
        for word in words:
            yield from _word_terms(word)


@lru_cache(maxsize=1 << 16)  # source code has few words in many chunks
def _word_terms(word: str) -> tuple[str, ...]:
    word = word[:MAX_WORD_CHARS]
    forms = [word]
    if not word.isascii():
        forms += _without_accents(word)
    elif _COMPOUND.search(word) and not word[0].isdigit():
        forms += (part for part in _PART.findall(word) if len(part) > 1 or part.isdigit())
    return tuple(filter(None, map(_stem, forms)))


def _without_accents(word: str) -> list[str]:
    """Return the word in plain ASCII letters, or nothing if accents are not all that sets it apart."""
    plain = "".join(char for char in unicodedata.normalize("NFD", word) if not unicodedata.combining(char))
    return [plain] if plain.isascii() else []


def _stem(word: str) -> str:
    """Return the term of a word, "" for a stop word."""
    folded = word.casefold()
    if not folded.isascii():
        folded = unicodedata.normalize("NFKC", folded)
    if folded in STOP_WORDS:
        return ""
    bare = _POSSESSIVE.sub("", folded) if "'" in folded else folded
    return "" if bare in STOP_WORDS else _stemmer()(bare)


@cache
def _stemmer() -> Callable[[str], str]:
    import Stemmer

    stem: Callable[[str], str] = Stemmer.Stemmer("english", maxCacheSize=0).stemWord
    return stem
