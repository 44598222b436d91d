"""Terms of a text: words without stop words, stemmed, with the parts of compounds and identifiers."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import TypeAlias

from kaosmem.language.scripts import (
    MARKS,
    fold_script,
    plain_forms,
    snowball,
    stem_of_script,
    terms_of_scripts,
)
from kaosmem.language.written_dates import date_terms
from kaosmem.memos import memoized, register_memo

STOP_WORDS_OF: Mapping[str, str] = {
    # "us" is not among them, so that "US" and "U.S." agree. Nor are "I", "me" and "my", by which a
    # question finds messages of its user about themselves: that adds 0.013 to recall at 10 over our
    # evaluation sets, up to 0.09 in long chats.
    "english": """
        a about above after again against all also am an and any are aren't as at be because been before being below
        between both but by can can't cannot could couldn't did didn't do does doesn't doing don't down during each
        eg etc few for from further had hadn't has hasn't have haven't having he her here hers herself him himself
        his how ie if in into is isn't it its itself just more most mustn't no nor not of off on once only or other
        ought our ours ourselves out over own s same shan't she should shouldn't so some such t than that the their
        theirs them themselves then there these they this those through to too under until up upon very was wasn't
        we were weren't what when where which while who whom why will with won't would wouldn't you your yours
        yourself yourselves
    """,
    # Of German, only words that are neither English words nor abbreviations: not "die", "war",
    # "mit".
    "german": """
        aber auf dass eine einem einen einer eines für haben hatte hatten ich ihr ihre ihrem ihren ihrer ist nach nicht
        oder sich sind über und vom von wann warum welche welchem welchen welcher welches wem wenn wer werden wessen wie
        wird wurde wurden zum zur
    """,
    # Of other languages, only those in scripts that tell them from English: as `fold_script` leaves
    # them.
    "russian": """
        а без бы был была были было быть в вам вас вы где для до его ее если есть же за и из или их к как какая какие
        какого какое какой какую ко когда который ли мы на над не него нее нет ни них но о об он она они оно от по под
        при с со так такой там то тоже только ты у уже чем что чтобы эта эти это этого этой этом этот
    """,
    "greek": """
        ο η το οι τα του της των τον την τους τις στο στη στην στον στις στους στα και να με σε για απο ειναι που
        πως ποιος ποια ποιο ποτε τι οτι δεν θα μια ενα ενας η αν ως
    """,
    "arabic": """
        في من علي الي عن ان انه هذا هذه ذلك تلك التي الذي الذين ما ماذا كيف متي اين هل كم هو هي هم لا لم لن قد كان كانت
        يكون مع او ثم كل اي بعد قبل عند و
    """,
    "hindi": """
        का की के को में से पर ने है हैं था थी थे हो और या कि जो यह वह ये वे इस उस भी ही तो एक नहीं क्या कैसे कौन कब
        कहां कितना कितनी कितने क्यों किस लिए तक
    """,
}
STOP_WORDS = frozenset(" ".join(STOP_WORDS_OF.values()).casefold().split())


MIN_COMPOUND_CHARS = 9
_MIN_DOUBTFUL_CHARS = 11
_MIN_PART_CHARS = 4

# How English words of that length end: they are left whole. `frist` ends many German ones.
_ENGLISH_WORD = re.compile(
    r"(?:[st]ions?|ments?|ings?|ed|ly|ness(?:es)?|[ai]ble|ibly|[ct]y|ities|als?|ous|ives?|[ae]nces?|[ae]nc(?:y|ies)"
    r"|isms?|(?<!fr)ists?|ers?|ors?|ies|ary|ory|ates?|iz(?:e|es)|ise[sd]?|ships?|ful|less|ures?|ians?|[ae]nts?"
    r"|hood|wise|ward|ics?|ogy|phy|ages?|self|selves)$"
)
_LONGEST_ENDING = 7
# Endings that German links to the next part by an s: no English word has one but those with -ship,
# and youngsters.
_LINKED = re.compile(r"(?:(?<!o)ung|heit|keit|schaft|tion(?!ship))s[a-z]{4}")

# The consonants that begin a word or a syllable and, after a vowel, end it.
_ONSET = (
    r"(?:b[lr]?|ch[lr]?|c[lr]?|d[r]?|f[lr]?|g[lnr]?|h|j|k[lnr]?|l|m|n|p[lr]?|pf[lr]?|ph|qu|r|sch[lmnrw]?|s[hklmnw]?"
    r"|sp[lr]?|str?|tr?|th|tsch|v|wh?|wr|zw?)"
)
_CODA = re.compile(
    r"[aeiouyh](?:[bdfgklmnprstxz]|ch|chs|chts?|ck|fts?|[lmnr][dtfkmps]s?|ngs?|nk|sch|[lr]ch|ts|tz|[bdfgkp]s|sts?"
    r"|[lmnr]s|ll|ss|tt|nn|mm|rr|ff|th|pp|[lr]b|rg|[kp]ts?|[lnr]z|[nr]ts|xt|ckt|h[lmnr]s?|rfts?|mpf)$"
)
_AFTER_CONSONANT = re.compile(rf"(?<=[^aeiouy])(?={_ONSET}[aeiouy][a-z]{{2}})")
_AFTER_VOWEL = re.compile(rf"(?<=[aeiou])(?={_ONSET}[aeiouy][a-z]{{2}})")
_AFTER_LINK = re.compile(r"(?<=[^aeiouy]s)(?=[aeiou][a-z]{3})")
# Two letters that are one sound, or two syllables of one word.
_SOUND = re.compile(r".(?:ch|sh|th|ph|ck|gh|ng|sc|tz|qu|nk|nd|mp)|[aeiouy]([lmnrstpfcdbgz])\1")


def compound_parts(word: str, *, foreign: bool = False) -> Iterator[str]:
    """Yield possible parts of a word in ASCII letters: beginnings and ends of four letters and more.

    Args:
        foreign: Whether it was written with letters that English has not. Any other word must be
            longer, may not end as English words do, and gives ends alone: so English is ranked no
            worse for them. A part is a guess: where it is no word, nobody asks for it.
    """
    if len(word) < MIN_COMPOUND_CHARS or not word.isalpha():
        return
    folded = word.casefold()
    foreign = foreign or bool(_LINKED.search(folded))
    if not foreign and (
        len(word) < _MIN_DOUBTFUL_CHARS
        or _ENGLISH_WORD.search(folded, len(folded) - _LONGEST_ENDING)
    ):
        return
    for cut in sorted(_cuts(folded, foreign=foreign)):
        head = folded[:cut]
        tail = folded[cut:]
        if min(len(head), len(tail)) < _MIN_PART_CHARS:
            continue
        yield tail
        # An s that links two words, as in "Betriebshandbuch": no part begins with "sh" in German.
        if tail.startswith("sh"):
            yield tail[1:]
        if foreign:
            yield head
            if tail.endswith("en"):
                yield tail[:-2]
            if head[-1] == "s" and head[-2] not in "aeiouys" and len(head) > _MIN_PART_CHARS:
                yield head[:-1]


def _cuts(word: str, *, foreign: bool) -> set[int]:
    cuts = {cut.start() for cut in _AFTER_LINK.finditer(word)}
    for cut in map(re.Match.start, _AFTER_CONSONANT.finditer(word)):
        if _CODA.search(word, max(0, cut - _LONGEST_ENDING), cut) and not _SOUND.match(
            word, cut - 2
        ):
            cuts.add(cut)
    if foreign:
        cuts.update(map(re.Match.start, _AFTER_VOWEL.finditer(word)))
    return cuts


Analyzer: TypeAlias = Callable[[str], list[str]]
"""Splits a text into terms."""

ANALYSIS = 7
"""Raised when `analyze` gives any text other terms: an index that was stored before is made anew."""
_CONSTANT = re.compile(
    r"^[\w ]{0,40}\b_*([A-Z][A-Z\d_]{2,63}) {0,40}(?::[^=\n]{1,80})?=(?![=>])", re.MULTILINE
)
"""A line that assigns a constant, such as `const MAX_SIZE = 5` and `MAX_SIZE: int = 5`."""
_INTRODUCTION = re.compile(
    r"I(?<!\wI)(?:(?:['’]m| am) (?:(?P<name>[A-Z][a-z])|(?P<old>\d\d?\b(?! ?%)))"
    r"| work (?P<job>as|at|for|in)\b"
    r"|(?:['’]ve| have)?(?: just| recently)? moved (?P<live>to)\b)"
)
"""How speakers introduce themselves, with a group for what is asked: "What is my name?" """
MAX_WORD_CHARS = 64
"""A longer word, or a longer whole form of an identifier, is cut to so many characters."""

# A date before a time, a number with thousands separators, or words with single joiners between
# them. Linear in the text: no part of the pattern can match what the part before it has left.
_TOKEN = re.compile(
    r"\d{4}-\d\d-\d\d(?=T\d)"
    r"|\d{1,3}(?:,\d{3})+(?:\.\d+)?"
    rf"|[\w{MARKS}]+(?:[.'-][\w{MARKS}]+|\(\w{{1,8}}\))*"
)
_NUMBER = re.compile(r"(?:\d+(?:\.\d+)*|\d{4}-\d\d(?:-\d\d)?)(?:\([a-z0-9]{1,4}\))*")
_NUMBER_JOINER = re.compile(r"[.(-]")
_ACRONYM = re.compile(r"[a-z](?:\.[a-z])+")
# Letters alone, as in `well-known` and `method(s)`: a whole form beside the words would count them
# once too often.
_HYPHENATED = re.compile(r"[^\W\d_]+(?:[-(][^\W\d_]+\)?)+")
_WORD = re.compile(r"[^_.()-]+")
_SEGMENT = re.compile(r"[^.()]+")
_IDENTIFIER = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]{2}|[A-Z]{2}s$|[A-Za-z]\d")
# HTTPServer2 is HTTP, Server, 2; URLs is URL, s.
_PART = re.compile(r"[A-Z]+(?=[A-Z][a-z]{2})|[A-Z]?[a-z]+|[A-Z]+|\d+")
# With the letters that English has not, in languages that write compounds as one word.
_GERMANIC = re.compile(r"[a-zA-ZäöüßåæøÄÖÜẞÅÆØ]+")
_QUANTITY = re.compile(r"(\d+)([A-Za-z]{2,})")
_ORDINAL = frozenset(("st", "nd", "rd", "th"))
_PUNCTUATION = ".,:;!?\"'()[]{}"
_POSSESSIVE = re.compile(r"'(?:s|re|ve|ll|d|m)$")


# Each ending is given with the letters before it. So `promise`, `exercise`, `decision` and `hour`
# stay as they are.
_BRITISH = re.compile(
    r"(?<=[a-z]{3})(?<!cont)our(?=(?:s|ed|ing|ful|ites?|able|hoods?|al)?$)"
    r"|(?<=al|an|ar|at|er|gn|ic|il|im|it|og|om|on|or|rd|rn)(?<!prom|reat)is(?=(?:e[drs]?|ers|ing|ations?)$)"
    r"|(?<=al)ys(?=(?:e[drs]?|ers|ing)$)|(?<=alo)gue(?=s?$)|(?<=cent|heat)re(?=s?$)"
    r"|^grey|^licence(?=s?$)|^defence(?=s?$)|^offence(?=s?$)|^programme(?=s?$)|^tyre(?=s?$)"
)
_AMERICAN = {
    "our": "or",
    "is": "iz",
    "ys": "yz",
    "gue": "g",
    "re": "er",
    "grey": "gray",
    "licence": "license",
    "defence": "defense",
    "offence": "offense",
    "programme": "program",
    "tyre": "tire",
}

_WHITE_SPACE = re.compile(r"\s")
_PART_CHARS = 1 << 16


def words_of(text: str) -> Iterable[str]:
    r"""Return the words of a text, as `str.split` finds them, in little memory.

    A long text is split a part at a time.

    >>> list(words_of("It rained.\nWe stayed in."))
    ['It', 'rained.', 'We', 'stayed', 'in.']
    """
    if len(text) <= _PART_CHARS:
        return text.split()
    return chain.from_iterable(map(str.split, _parts(text)))


def _parts(text: str) -> Iterator[str]:
    """Yield the parts of a text, cut at white space."""
    start = 0
    while start < len(text):
        gap = _WHITE_SPACE.search(text, start + _PART_CHARS)
        if gap:
            end = gap.start()
        else:
            end = len(text)
        yield text[start:end]
        start = end


def analyze(text: str) -> list[str]:
    """Return the terms of a text, in order, each as often as it occurs.

    Words are in Unicode's NFKC form and case-folded, stop words left out, the rest stemmed: by the
    rules of the script where it tells the language (Arabic, Cyrillic, Devanagari, Greek), else as
    English. An identifier (`snake_case`, `camelCase`, `TASK-17`, `os.path.join`) gives its whole
    form, then its parts, and of several parts those in snake_case whole too; a number, version,
    date or clause (`4.2(b)`) its whole form, then its shorter beginnings (`4.2`, `4`); a hyphenated
    word its words. A word with accents gives its form without them too: queries are often typed so,
    and the exact form still ranks first. A long word that is not English gives the ends, and where
    that is certain the beginnings, by which a compound is found. Scripts written without spaces
    give each pair of neighbouring characters but function words, and each Han character. An emoji
    is a word, whatever its skin tone.
    """
    terms = list(chain.from_iterable(map(_CHUNK_TERMS.__getitem__, words_of(text))))
    terms += text_terms(text)
    return terms


def text_terms(text: str) -> Iterator[str]:
    """Yield the terms of a text that none of its chunks has alone.

    They are those of dates, of definitions and of introductions. A line that assigns a constant
    counts as its definition, since code has no word for it. "I'm Dana" has the terms of "my name",
    since nobody who says their name so has the word for it.

    >>> [*text_terms("MAX_REDIRECTS = 20  # as of 8 May 2024")]
    ['2024-05-08', '2024-05', 'def', 'max_redirects']
    """
    yield from date_terms(text)
    if "=" in text:
        for match in _CONSTANT.finditer(text):
            yield from ("def", *chunk_terms(match[1])[:1])
    for match in _INTRODUCTION.finditer(text):
        yield from ("my", str(match.lastgroup))


def chunk_terms(chunk: str) -> tuple[str, ...]:
    """Return the terms of a chunk between white space.

    Those of a text are the terms of its chunks, then its `text_terms`.

    >>> chunk_terms("(lru_cache),")
    ('lru_cache', 'lru', 'cach')
    """
    if len(chunk) <= MAX_CHUNK_CHARS:
        # As the line below finds, in a tenth of the time.
        word = chunk.strip(_PUNCTUATION)
        if word.isascii() and word.isdigit():
            return (word,)
        has_one_case = word.islower() or word.istitle() or word.isupper()
        if word.isascii() and word.isalpha() and has_one_case:
            return _plain_word_terms(word.lower())
    return tuple(_chunk_terms(chunk))


MAX_CHUNK_CHARS = 40
"""A longer chunk is seldom seen again."""


class _ChunkTerms(dict[str, tuple[str, ...]]):
    """The terms of chunks between white space, remembered: most of any text are chunks seen before."""

    _MAX_CHUNKS = 1 << 14

    def __missing__(self, chunk: str) -> tuple[str, ...]:
        terms = chunk_terms(chunk)
        if len(chunk) <= MAX_CHUNK_CHARS:
            if len(self) >= self._MAX_CHUNKS:
                self.clear()
            self[chunk] = terms
        return terms


_CHUNK_TERMS = _ChunkTerms()
register_memo(_CHUNK_TERMS.clear)


# One word stands in many chunks: capitalised, in quotes, before a comma.
@memoized(1 << 16)
def _plain_word_terms(word: str) -> tuple[str, ...]:
    """Return the terms of a lower-case word of ASCII letters."""
    return tuple(filter(None, map(_stem, (word, *compound_parts(word)))))


def _chunk_terms(chunk: str) -> Iterator[str]:
    if chunk.isascii():
        yield from _spaced_terms(chunk)
        return
    yield from terms_of_scripts(fold_script(chunk), _spaced_terms)


def _spaced_terms(run: str) -> Iterator[str]:
    for token in _TOKEN.findall(run):
        if token.isalpha():
            yield from _lone_word_terms(token)
        else:
            yield from _token_terms(token)


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
            if "_" in whole:  # `functools.lru_cache` is asked for where `def lru_cache` stands
                segments = (segment.strip("_") for segment in _SEGMENT.findall(whole))
                yield from (segment for segment in segments if "_" in segment and segment != whole)
        for word in words:
            yield from _word_terms(word)


def _lone_word_terms(word: str) -> tuple[str, ...]:
    """Return the terms of a word, then of the words that it may be composed of."""
    terms = _word_terms(word)
    if len(word) < MIN_COMPOUND_CHARS:
        return terms
    word = word[:MAX_WORD_CHARS]
    if word.isascii():
        if _IDENTIFIER.search(word):
            return terms
        parts = compound_parts(word)
    elif _GERMANIC.fullmatch(word):
        parts = compound_parts(plain_forms(word.casefold())[0], foreign=True)
    else:
        return terms
    return (*terms, *filter(None, map(_stem, parts)))


@memoized(1 << 16)  # source code has few words in many chunks
def _word_terms(word: str) -> tuple[str, ...]:
    word = word[:MAX_WORD_CHARS]
    folded = word.casefold()
    if folded in STOP_WORDS:
        return ()
    forms = [word]
    if not folded.isascii():
        forms += plain_forms(folded)
    elif word[0].isdigit():
        forms = _number_forms(word)
    elif _IDENTIFIER.search(word):
        forms += (part for part in _PART.findall(word) if len(part) > 1 or part.isdigit())
    terms = [*map(_stem, forms)]
    if "'" in word:
        terms += _elided_terms(folded)
    return tuple(filter(None, terms))


def _number_forms(word: str) -> list[str]:
    """Return `5` for `5th`, and for `10mm` its number and its unit too. `14b` is one word."""
    found = _QUANTITY.fullmatch(word)
    if found is None:
        return [word]
    number, unit = found.groups()
    if unit in _ORDINAL:
        return [number]
    return [word, number, unit]


def _elided_terms(word: str) -> Iterator[str]:
    """Yield the terms that an apostrophe joins, as in `l'avocat`.

    They have more than one letter, and are no ending.
    """
    parts = _POSSESSIVE.sub("", word).split("'")
    if len(parts) > 1 and word not in STOP_WORDS:
        yield from chain.from_iterable(_word_terms(part) for part in parts if len(part) > 1)


def _stem(word: str) -> str:
    """Return the term of a word, "" for a stop word."""
    folded = word.casefold()
    if not folded.isascii():
        folded = unicodedata.normalize("NFKC", folded)
    if folded in STOP_WORDS:
        return ""
    if "'" in folded:
        bare = _POSSESSIVE.sub("", folded)
    else:
        bare = folded
    if bare in STOP_WORDS:
        return ""
    return (not bare.isascii() and stem_of_script(bare)) or _english_stemmer()(_american(bare))


def _american(word: str) -> str:
    """Return a word in American spelling, so that `colour` and `color` have one term."""
    return _BRITISH.sub(lambda found: _AMERICAN[found[0]], word, count=1)


@memoized(None)
def _english_stemmer() -> Callable[[str], str]:
    return snowball("english")
