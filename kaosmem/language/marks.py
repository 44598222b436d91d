"""Marks of a text: its numbers, names and addresses, which a paraphrase has to keep."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kaosmem.language.analysis import STOP_WORDS
from kaosmem.memos import memoized

UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
WORD = re.compile(
    rf"{UNSPACED.pattern}|(?:(?!{UNSPACED.pattern})[^\W_])+"
    rf"(?:[.,:/@'’-](?!{UNSPACED.pattern})[^\W_]+)*"
)
"""A word, a number or an address. In a script without spaces, each character is a word."""
AFTER_A_NAME = re.compile(
    r"(?:[a-z]{2,}(?:ed|s)|may|can|must|should|would|will|has|had|got|paid|bought|sold|said|won)"
)
"""A word after a sentence's first word by which that word is taken for a name."""
_DIGIT = re.compile(r"\d")
_JOINT = re.compile(r"\W+")
_ADDRESS = re.compile(r"\w[@.:]\w")
_GROUPS = re.compile(r"(?<=\d)[,'’\u00a0\u202f](?=\d{3}\b)")
_POSSESSIVE = re.compile(r"['’]s?$")
_ORDINAL = re.compile(r"(?<=\d)(?:st|nd|rd|th)$")
_SENTENCE_BEGIN = re.compile(r"(?:^|[.!?:;…\n•|])[\s\"'“‘«(*#>-]*$")
_MAX_CHARS_BEFORE = 20


@memoized(16)
def marks_of(text: str) -> Mapping[str, bool]:
    """Return the marks of a text, each with whether it is surely one.

    A word in capitals that begins a sentence may be any word. It is a name for sure if it is a
    possessive, or if a name or a verb of the third person follows.

    >>> marks_of("On Monday Ann pays 1,250 euros. Tom's rent is due. Thanks, ann@example.com!")
    {'monday': True, 'ann': True, '1250': True, 'tom': True, 'thanks': False, 'ann@example.com': True}
    """
    found: dict[str, bool] = {}
    text = _GROUPS.sub("", text)
    words = [*WORD.finditer(text)]
    for place, word in enumerate(words):
        plain = plain_word(word[0])
        is_number = _DIGIT.search(plain) is not None
        is_address = _ADDRESS.search(plain) is not None
        if plain in STOP_WORDS or not (is_number or is_address or word[0][0].isupper()):
            continue
        if len(plain) == 1 and plain.isascii() and not is_number:
            continue
        if place + 1 < len(words):
            following = words[place + 1][0]
        else:
            following = ""
        is_sure = is_number or is_address or _is_name(word, following)
        found[plain] = is_sure or found.get(plain, False)
    return found


@memoized(16)
def words_of(text: str) -> frozenset[str]:
    """Return the words of a text, whole and in their parts, as `marks_of` writes them.

    The parts of a date in digits have no leading zeros.
    """
    found: set[str] = set()
    for word in WORD.findall(_GROUPS.sub("", text)):
        plain = plain_word(word)
        parts = [part.lstrip("0") for part in _JOINT.split(plain)]
        found.update((plain, *filter(None, parts)))
    return frozenset(found)


def plain_word(word: str) -> str:
    """Return a word in lower case, without the endings of possessives and ordinals."""
    return _ORDINAL.sub("", _POSSESSIVE.sub("", word.casefold()))


def _is_name(word: re.Match[str], following: str) -> bool:
    """Return whether a word in capitals is a name, by its place, its form or the next word."""
    before = word.string[max(0, word.start() - _MAX_CHARS_BEFORE) : word.start()]
    if not _SENTENCE_BEGIN.search(before):
        return True
    if any(map(str.isupper, word[0][1:])) or _POSSESSIVE.search(word[0]):
        return True
    return following[:1].isupper() or AFTER_A_NAME.fullmatch(following) is not None
