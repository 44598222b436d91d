"""Credit: the shown items that a reply used, found by quotes, names and numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kaosmem.display import preview
from kaosmem.language.analysis import chunk_terms
from kaosmem.language.marks import WORD, marks_of, plain_word
from kaosmem.types.items import Item
from kaosmem.units import Link

CLAIMED_BY_CALLER = "the caller says so"
_QUOTE_WORDS = 3
"""So many words in a row, without stop words, are a quote. A shorter item is quoted whole."""
_LEAST_QUOTE_WORDS = 2
_QUOTE_CHARACTERS = 6
"""The same in scripts without spaces, whose characters count as words."""


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


class _Words(NamedTuple):
    """The words of a text.

    Attributes:
        marks: Its numbers and names. True if a mark is surely one, and no other word.
        quotes: The runs of its terms that are quotes, each with the words that it stands for.
        terms: One term for each word with a meaning, in order, in one text.
    """

    marks: Mapping[str, bool]
    quotes: Mapping[str, str]
    terms: str

    @classmethod
    def of(cls, text: str) -> _Words:
        """Return the words of a text."""
        terms = []
        words = []
        for word in WORD.finditer(text):
            term = next(iter(chunk_terms(plain_word(word[0]))), "")
            if len(term) > 1 or not term.isascii():  # a letter says nothing
                terms.append(term)
                words.append(word)
        quotes = {}
        for first, term in enumerate(terms):
            if len(term) == 1:
                wanted = _QUOTE_CHARACTERS
            else:
                wanted = _QUOTE_WORDS
            end = first + min(wanted, len(terms))
            if len(terms) >= _LEAST_QUOTE_WORDS and end <= len(terms):
                quoted = text[words[first].start() : words[end - 1].end()]
                quotes[" ".join(terms[first:end])] = quoted
        return cls(marks_of(text), quotes, f" {' '.join(terms)} ")

    def has(self, evidence: str) -> bool:
        """Return whether the text has a number or a name, or these terms in a row."""
        return evidence in self.marks or f" {evidence} " in self.terms


def find_uses(
    reply: str,
    question: str,
    items: Iterable[Item],
) -> list[Credit]:
    """Return the items that a reply used.

    A reply uses an item if both have a quote, a name or a number that neither the question nor
    another item has. A call and its results count as one item.
    """
    told = _Words.of(reply)
    asked = _Words.of(question)
    known = {*asked.marks, *asked.terms.split()}
    shown = [(item, _ties(item), _Words.of(item.text)) for item in items]
    found = []
    for item, ties, words in shown:
        others = [each for _, own, each in shown if each is not words and ties.isdisjoint(own)]
        for evidence, reason in _shared(words, told):
            is_known = known.issuperset(evidence.split())
            if not is_known and not any(other.has(evidence) for other in others):
                found.append(Credit(item, reason))
                break
    return found


def _ties(item: Item) -> frozenset[str]:
    """Return the ids of an item's calls, and of the calls that it answers."""
    link = Link.of(item)
    return frozenset((*link.calls, *link.answers))


def _shared(words: _Words, told: _Words) -> Iterator[tuple[str, str]]:
    """Yield the quotes, numbers and names of an item that a reply has, each as a reason too."""
    for run, quoted in words.quotes.items():
        if told.has(run):
            yield run, f"quote '{preview(quoted, 60)}'"
    for mark, is_sure in words.marks.items():
        # A single digit counts the points of a list, and says nothing.
        digits = sum(map(str.isdigit, mark))
        if digits != 1 and mark in told.marks and (is_sure or told.marks[mark]):
            if digits:
                yield mark, f"number {mark}"
            else:
                yield mark, f"name {mark.title()}"
