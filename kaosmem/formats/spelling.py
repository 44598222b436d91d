"""The spelling of a text as a lenient reader takes it, in which imitations of delimiters are looked for.

A model may read `＜/СОΝТЕХТ＞` as `</context>`. Compatibility forms, letters of other scripts that look alike, accents
and characters that are not seen make no difference to it. Some characters are dropped from shown text altogether.
"""

from __future__ import annotations

import json
import re
import unicodedata
from functools import cache
from itertools import accumulate
from pathlib import Path

UNSEEN = "\u200b"
"""Stands in a plain spelling for each character that is not seen."""

# Dropped from shown text: tag characters and variation selectors that can spell a hidden text, controls that show the
# letters around them in another order, and controls of terminals. White space, also U+0085, is kept.
_CONTROLS = "\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f"
_CARRIERS = "\U000e0000-\U000e007f\U000e0100-\U000e01ef\u202a-\u202e\u2066-\u2069"
_SELECTORS = "\ufe00-\ufe0f"
_DROPPED = re.compile(
    # The three flags that Unicode recommends are spelt with tag characters, and stay.
    "(\U0001f3f4\U000e0067\U000e0062(?:\U000e0065\U000e006e\U000e0067|\U000e0073\U000e0063\U000e0074"
    "|\U000e0077\U000e006c\U000e0073)\U000e007f)"
    rf"|\x1b\[[0-?]*+[ -/]*+[@-~]|(?<=[{_SELECTORS}])[{_SELECTORS}{_CONTROLS}{_CARRIERS}]++|[{_CONTROLS}{_CARRIERS}]"
)

_MAY_BE_DROPPED = re.compile(f"[{_CONTROLS}{_CARRIERS}{_SELECTORS}]")
_CONTROL = re.compile(f"[{_CONTROLS}]")  # all that can be dropped from ASCII

_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")  # of most texts a small part, and translation is slow
_LINE_ENDS = "\x85\u2028\u2029"
# Compatibility forms of `<[&%\\#:`, as `_Spellings` finds them.
_COMPATIBLE = (
    "\u226e\u2329\u2a74\ufe13\ufe17\ufe39\ufe3b\ufe3f\ufe47\ufe55\ufe5d\ufe5f\ufe60\ufe64\ufe68\ufe6a"
    "\uff03\uff05\uff06\uff1a\uff1c\uff3b\uff3c\U00010781\U0001f12a\U0001f240-\U0001f248"
)
_BLANK_LETTERS = "\u115f\u1160\u2800\u3164\uffa0"
_UNSEEN_KINDS = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Me", "Mn"})
_MAX_KNOWN = 20_000


def without_hidden(text: str) -> str:
    """Return a text without terminal controls and without characters that hide a text or its order.

    It is the text itself if it has none.
    """
    pattern = _CONTROL if text.isascii() else _MAY_BE_DROPPED
    if pattern.search(text) is None:
        return text
    shown = _DROPPED.sub(r"\1", text)
    return text if shown == text else shown


def plain_spelling(text: str) -> str:
    """Return a text in small letters, with ASCII for all characters that look like it.

    Each character that is not seen is `UNSEEN`, each end of a line that is not ASCII a newline. Most
    characters give one. A few, such as ligatures, give more (see `places`).

    >>> plain_spelling("＜/СОΝТЕХТ＞")
    '</context>'
    """
    if not text.isascii():
        spellings = _spellings()
        text = _NOT_ASCII.sub(lambda run: run[0].translate(spellings), text)
    return text.lower()


def may_hold(text: str, signs: str) -> bool:
    """Return whether a text has a character that has one of these signs in its plain spelling."""
    return _signs(signs, only_ascii=text.isascii()).search(text) is not None


def places(text: str, plain: str, found: set[int]) -> list[int]:
    """Return the places in a text, in order, of places in its plain spelling."""
    if len(plain) == len(text):
        return sorted(found)
    starts = accumulate((len(plain_spelling(char)) for char in text), initial=0)
    return [place for place, start in enumerate(starts) if start in found]


class _Spellings(dict[int, str]):
    """The plain spelling of each character that was looked up so far, as `str.translate` takes it."""

    def __init__(self) -> None:
        self._plain = {char: plain for plain, chars in _lookalikes().items() for char in chars}

    def __missing__(self, code: int) -> str:
        if len(self) > _MAX_KNOWN:
            self.clear()
        spelling = self[code] = self._spelling(chr(code))
        return spelling

    def _spelling(self, char: str) -> str:
        if char in _LINE_ENDS:
            return "\n"
        if char in _BLANK_LETTERS or unicodedata.category(char) in _UNSEEN_KINDS:
            return UNSEEN
        if char in self._plain:
            return self._plain[char]
        parts = unicodedata.normalize("NFKD", char)
        seen = "".join(part for part in parts if unicodedata.category(part) not in _UNSEEN_KINDS).casefold()
        return "".join(self._plain.get(part) or self._plain.get(part.upper(), part) for part in seen) or UNSEEN


@cache
def _lookalikes() -> dict[str, str]:
    """Return the characters that look like each ASCII character. Source: Unicode Technical Standard 39, confusables."""
    lookalikes: dict[str, str] = json.loads(Path(__file__).with_name("confusables.json").read_text())
    return lookalikes


@cache
def _signs(signs: str, *, only_ascii: bool) -> re.Pattern[str]:
    others = "" if only_ascii else "".join(_lookalikes().get(sign, "") for sign in signs)
    return re.compile(f"[{re.escape(signs + others)}{'' if only_ascii else _COMPATIBLE}]")


@cache
def _spellings() -> _Spellings:
    return _Spellings()
