"""Credit: the shown items that a reply used, found by quotes, names and numbers, without a model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from kaosmem.display import preview
from kaosmem.language.analysis import STOP_WORDS, chunk_terms
from kaosmem.types.items import Item

CALLERS_WORD = "the caller says so"
_QUOTE_WORDS = 3
"""So many words in a row, without stop words, are a quote. A shorter item is quoted whole."""
_LEAST_QUOTE_WORDS = 2
_QUOTE_CHARACTERS = 6
"""The same in scripts without spaces, whose characters count as words."""
_LEAST_DIGITS = 2
"""A single digit counts the points of a list, and says nothing."""

_UNSPACED = r"[\u3040-\u30ff\u3400-\u9fff]"
_WORD = re.compile(rf"{_UNSPACED}|(?:(?!{_UNSPACED})[^\W_])+(?:[.,:/@'’-](?!{_UNSPACED})[^\W_]+)*")
_DIGIT = re.compile(r"\d")
_GROUPS = re.compile(r"(?<=\d),(?=\d{3}\b)")
_POSSESSIVE = re.compile(r"['’]s?$")
_OPENINGS = " \t\"'“‘«(*#>-"
_ENDS = frozenset(".!?:;\n•|")
_MOST_BEFORE = 20


@dataclass(frozen=True, slots=True)
class Credit:
    """A shown item that a reply used. It prints the item's text and the reason.

    Attributes:
        item: The item as it was shown.
        reason: The shared quote, name or number, or "the caller says so".
    """

    item: Item
    reason: str

    def __str__(self) -> str:
        return f"{preview(self.item.text, 80)} ({self.reason})"

    def __repr__(self) -> str:
        return f"<Credit {self.item.id}: {self.reason}>"


@dataclass(frozen=True)
class _Words:
    """The words of a text.

    Attributes:
        keys: One term for each word with a meaning, in order.
        spans: Where these words stand.
        marks: Numbers and words in capitals, and whether one is a mark for sure: a number, or a
            name inside a sentence.
    """

    text: str
    keys: list[str] = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)
    marks: dict[str, bool] = field(default_factory=dict)

    @classmethod
    def of(cls, text: str) -> _Words:
        words = cls(text)
        for match in _WORD.finditer(text):
            words._add(match)
        return words

    def _add(self, match: re.Match[str]) -> None:
        raw = match[0]
        plain = raw.casefold()
        if not plain.isalpha():
            plain = _POSSESSIVE.sub("", _GROUPS.sub("", plain))
        if plain in STOP_WORDS or (len(plain) == 1 and plain.isascii()):
            return
        terms = chunk_terms(plain)
        self.keys.append(terms[0] if terms else plain)
        self.spans.append(match.span())
        if len(_DIGIT.findall(plain)) >= _LEAST_DIGITS:
            self.marks[plain] = True
        elif raw[0].isupper():
            is_inside = not self._begins_a_sentence(match.start())
            self.marks[plain] = is_inside or self.marks.get(plain, False)

    def _begins_a_sentence(self, start: int) -> bool:
        before = self.text[max(0, start - _MOST_BEFORE) : start].rstrip(_OPENINGS)
        return before[-1:] in _ENDS or not before

    @cached_property
    def joined(self) -> str:
        return f" {' '.join(self.keys)} "

    def runs(self, most: int) -> Iterator[tuple[str, int, int]]:
        """Yield the runs of words that are quotes, joined, each with its first and last place."""
        for first, key in enumerate(self.keys):
            length = min(most, _QUOTE_CHARACTERS if len(key) == 1 else _QUOTE_WORDS)
            if first + length <= len(self.keys):
                run = " ".join(self.keys[first : first + length])
                yield f" {run} ", first, first + length - 1


def find_uses(
    reply: str, question: str, items: Iterable[Item], units: Mapping[str, object]
) -> list[Credit]:
    """Return the items that a reply used.

    A reply uses an item if both have a quote, a name or a number that neither the question nor an
    item of another unit has.

    Args:
        units: The unit of each item, by id. Items of one unit have equal ones.
    """
    told = _Words.of(reply)
    asked = _Words.of(question)
    shown = [(item, units[item.id], _Words.of(item.text)) for item in items]
    found = []
    for item, unit, words in shown:
        if item.text.strip() == question.strip():
            continue
        others = [other for _, other_unit, other in shown if other_unit != unit]
        reason = _quote(words, told, asked, others) or _mark(words, told, asked, others)
        if reason:
            found.append(Credit(item, reason))
    return found


def _quote(words: _Words, told: _Words, asked: _Words, others: Sequence[_Words]) -> str:
    """Return a quote that a reply shares with one item alone, as the item has it."""
    said = told.joined
    known = {*asked.keys}
    if len(words.keys) < _LEAST_QUOTE_WORDS:
        return ""
    for run, first, last in words.runs(len(words.keys)):
        if run not in said or known.issuperset(words.keys[first : last + 1]):
            continue
        if not any(run in other.joined for other in others):
            text = words.text[words.spans[first][0] : words.spans[last][1]]
            return f"quote '{preview(text, 60)}'"
    return ""


def _mark(words: _Words, told: _Words, asked: _Words, others: Sequence[_Words]) -> str:
    """Return a number or a name that a reply shares with one item alone."""
    for mark, is_sure in words.marks.items():
        if mark not in told.marks or mark in asked.marks or not (is_sure or told.marks[mark]):
            continue
        if not any(mark in other.marks for other in others):
            return f"number {mark}" if _DIGIT.search(mark) else f"name {mark.title()}"
    return ""
