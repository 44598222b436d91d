"""Splitting compounds, as in German, by the joints of syllables, without a dictionary."""

from __future__ import annotations

import re
from collections.abc import Iterator

MIN_COMPOUND_CHARS = 9
_MIN_DOUBTFUL_CHARS = 11
_MIN_PART_CHARS = 4

# How English words of that length end: they are left whole. `frist` ends many German ones.
_ENGLISH = re.compile(
    r"(?:[st]ions?|ments?|ings?|ed|ly|ness(?:es)?|[ai]ble|ibly|[ct]y|ities|als?|ous|ives?|[ae]nces?|[ae]nc(?:y|ies)"
    r"|isms?|(?<!fr)ists?|ers?|ors?|ies|ary|ory|ates?|iz(?:e|es)|ise[sd]?|ships?|ful|less|ures?|i[ae]ns?|[ae]nts?"
    r"|hood|wise|ward|ics?|ogy|phy|ages?|self|selves)$"
)
_LONGEST_ENDING = 7
# Endings that German links to the next part by an s: no English word has one but those with -ship, and youngsters.
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

    foreign: whether it was written with letters that English has not. Any other word must be longer, may not end as
    English words do, and gives ends alone: so English is ranked no worse for them. A part is a guess: where it is
    no word, nobody asks for it.
    """
    if len(word) < MIN_COMPOUND_CHARS or not word.isalpha():
        return
    folded = word.casefold()
    foreign = foreign or bool(_LINKED.search(folded))
    if not foreign and (len(word) < _MIN_DOUBTFUL_CHARS or _ENGLISH.search(folded, len(folded) - _LONGEST_ENDING)):
        return
    for cut in sorted(_cuts(folded, foreign=foreign)):
        head, tail = folded[:cut], folded[cut:]
        if min(len(head), len(tail)) < _MIN_PART_CHARS:
            continue
        yield tail
        if foreign:
            yield head
            if tail.endswith("en"):
                yield tail[:-2]
            if head[-1] == "s" and head[-2] not in "aeiouys" and len(head) > _MIN_PART_CHARS:
                yield head[:-1]


def _cuts(word: str, *, foreign: bool) -> set[int]:
    cuts = {cut.start() for cut in _AFTER_LINK.finditer(word)}
    for cut in map(re.Match.start, _AFTER_CONSONANT.finditer(word)):
        if _CODA.search(word, max(0, cut - _LONGEST_ENDING), cut) and not _SOUND.match(word, cut - 2):
            cuts.add(cut)
    if foreign:
        cuts.update(map(re.Match.start, _AFTER_VOWEL.finditer(word)))
    return cuts
