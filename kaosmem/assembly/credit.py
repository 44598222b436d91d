"""Credit: the shown items that a reply used, found by quotes, names and numbers, without a model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from kaosmem.display import preview
from kaosmem.language.analysis import STOP_WORDS, analyze
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
_BEFORE_A_SENTENCE = re.compile(r"(?:^|[.!?:;\n•|])[\s\"'“‘«(*#>-]*$")


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
        numbers: Words with digits.
        names: Words in capitals, and whether one stands inside a sentence.
    """

    text: str
    keys: list[str] = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)
    numbers: dict[str, str] = field(default_factory=dict)
    names: dict[str, bool] = field(default_factory=dict)

    @classmethod
    def of(cls, text: str) -> _Words:
        words = cls(text)
        for match in _WORD.finditer(text):
            words._add(match)
        return words

    def _add(self, match: re.Match[str]) -> None:
        raw = match[0]
        plain = _POSSESSIVE.sub("", _GROUPS.sub("", raw)).casefold()
        if plain in STOP_WORDS or (len(plain) == 1 and plain.isascii()):
            return
        terms = analyze(plain)
        self.keys.append(terms[0] if terms else plain)
        self.spans.append(match.span())
        if len(_DIGIT.findall(plain)) >= _LEAST_DIGITS:
            self.numbers.setdefault(plain, raw)
        elif raw[0].isupper():
            before = self.text[max(0, match.start() - 80) : match.start()]
            is_inside = _BEFORE_A_SENTENCE.search(before) is None
            self.names[plain] = is_inside or self.names.get(plain, False)

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
        reason = _quote(words, told, asked, others) or _word(words, told, asked, others)
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
        is_asked = known.issuperset(words.keys[first : last + 1])
        if run in said and not is_asked and not any(run in other.joined for other in others):
            text = words.text[words.spans[first][0] : words.spans[last][1]]
            return f"quote '{preview(text, 60)}'"
    return ""


def _word(words: _Words, told: _Words, asked: _Words, others: Sequence[_Words]) -> str:
    """Return a number or a name that a reply shares with one item alone."""
    for number, raw in words.numbers.items():
        is_shared = number in told.numbers and number not in asked.numbers
        if is_shared and not any(number in other.numbers for other in others):
            return f"number {raw}"
    for name, is_inside in words.names.items():
        is_shared = name in told.names and name not in asked.names
        is_name = is_inside or told.names.get(name, False)
        if is_shared and is_name and not any(name in other.names for other in others):
            return f"name {name.title()}"
    return ""
