"""Credit: the shown items that a reply used, found by quotes, names and numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kaosmem.display import preview
from kaosmem.language.analysis import chunk_terms
from kaosmem.language.marks import WORD, marks_of, plain_word
from kaosmem.types.items import Item
from kaosmem.units import Link

CALLERS_WORD = "the caller says so"
_QUOTE_WORDS = 3
"""So many words in a row, without stop words, are a quote. A shorter item is quoted whole."""
_LEAST_QUOTE_WORDS = 2
_QUOTE_CHARACTERS = 6
"""The same in scripts without spaces, whose characters count as words."""
_LEAST_DIGITS = 2
"""A single digit counts the points of a list, and says nothing."""


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


class _Words:
    """The words of a text.

    Attributes:
        marks: Its numbers and names, each with whether it is one for sure.
        terms: One term for each word with a meaning, in order.
        joined: These terms in one text.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self.marks = marks_of(text)
        self.terms: list[str] = []
        self._spans: list[tuple[int, int]] = []
        for word in WORD.finditer(text):
            terms = chunk_terms(plain_word(word[0]))
            if not terms:
                continue
            is_letter = len(terms[0]) == 1 and terms[0].isascii()
            if not is_letter:
                self.terms.append(terms[0])
                self._spans.append(word.span())
        self.joined = f" {' '.join(self.terms)} "

    def quotes(self) -> dict[str, str]:
        """Return the runs of terms that are quotes, each with the words that it stands for."""
        found: dict[str, str] = {}
        count = len(self.terms)
        if count < _LEAST_QUOTE_WORDS:
            return found
        for first, term in enumerate(self.terms):
            wanted = _QUOTE_CHARACTERS if len(term) == 1 else _QUOTE_WORDS
            end = first + min(wanted, count)
            if end > count:
                continue
            begin, _ = self._spans[first]
            _, stop = self._spans[end - 1]
            run = " ".join(self.terms[first:end])
            found[run] = self._text[begin:stop]
        return found

    def has_run(self, run: str) -> bool:
        """Return whether the text has these terms in a row."""
        return f" {run} " in self.joined


def find_uses(reply: str, question: str, items: Iterable[Item]) -> list[Credit]:
    """Return the items that a reply used.

    A reply uses an item if both have a quote, a name or a number that neither the question nor
    another item has. A call and its results count as one item.
    """
    told = _Words(reply)
    asked = _Words(question)
    shown = [(item, _ties(item), _Words(item.text)) for item in items]
    found = []
    for item, ties, words in shown:
        if item.text.strip() == question.strip():
            continue
        others = []
        for other, other_ties, other_words in shown:
            if other is not item and ties.isdisjoint(other_ties):
                others.append(other_words)
        reason = _quote(words, told, asked, others)
        if not reason:
            reason = _mark(words, told, asked, others)
        if reason:
            found.append(Credit(item, reason))
    return found


def _ties(item: Item) -> frozenset[str]:
    """Return the ids of an item's calls, and of the calls that it answers."""
    link = Link.of(item)
    return frozenset((*link.calls, *link.answers))


def _quote(words: _Words, told: _Words, asked: _Words, others: Sequence[_Words]) -> str:
    """Return a quote that a reply shares with one item alone, as the item has it."""
    known = {*asked.terms}
    for run, quoted in words.quotes().items():
        if not told.has_run(run) or known.issuperset(run.split()):
            continue
        if not any(other.has_run(run) for other in others):
            return f"quote '{preview(quoted, 60)}'"
    return ""


def _mark(words: _Words, told: _Words, asked: _Words, others: Sequence[_Words]) -> str:
    """Return a number or a name that a reply shares with one item alone."""
    for mark, is_sure in words.marks.items():
        is_told = mark in told.marks and (is_sure or told.marks[mark])
        if not is_told or mark in asked.marks:
            continue
        digits = sum(map(str.isdigit, mark))
        if 0 < digits < _LEAST_DIGITS:
            continue
        if any(mark in other.marks for other in others):
            continue
        return f"number {mark}" if digits else f"name {mark.title()}"
    return ""
