"""Corrections: later items of the same speaker or source that give a subject another value.

A statement is a value (a number, a quotation or an identifier) with the words before it in its sentence. Two statements
are of one subject if they share three of these words. A text of one sentence is a statement too: of one subject with
another one if three quarters of their words agree.

An item that says that it corrects, as in "make that 40", corrects items shortly before it: one that shares two words
with it, and without a subject of its own the values that were told last.

Nothing is learned and nothing is asked of a model. Values in words ("noon", "Oslo") are found in texts of one sentence
alone.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import chain
from math import ceil
from operator import or_
from types import MappingProxyType
from typing import NamedTuple

from kaosmem.language.analysis import analyze
from kaosmem.types import Item, aware

CORRECTION_CUES: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "en": (
            r"\bcorrection(?: to (?:that|this|my \w+))?:",
            r"\bmake (?:that|it) (?=\W?\d)|\b(?:scratch|strike|disregard) that\b|\bchange of plans?\b",
            r"\b(?:sorry|no|oops|wait|actually),? i meant\b|\bi (?:misspoke|stand corrected)\b|\bon second thoughts?\b",
        ),
        "de": (
            r"\b(?:korrektur|berichtigung):|\bplanänderung\b|\bich habe mich (?:vertan|versprochen)\b",
            r"\b(?:nein|sorry|pardon|entschuldigung),? ich meinte\b",
        ),
        "fr": (
            r"\b(?:correction|rectification|rectificatif) ?:|\bchangement de (?:plans?|programme)\b",
            r"\b(?:non|pardon|désolée?),? je voulais dire\b|\bje me suis trompée?\b",
        ),
        "es": (
            r"\b(?:corrección|rectificación):|\bcambio de planes?\b|\bme (?:he equivocado|equivoqué)\b",
            r"\b(?:no|perdón|perdona|disculpa),? (?:quise|quería) decir\b",
        ),
        "ru": (r"\b(?:поправка|исправление|уточнение):|\bя (?:оговорился|оговорилась|ошибся|ошиблась)\b",),
        "el": (r"\bδιόρθωση:|\bαλλαγή σχεδίων\b|\b(?:όχι|συγγνώμη),? εννοούσα\b",),
        "ar": (r"(?:تصحيح|تصويب) ?:|تغيرت الخطة|(?:لا|عفوا)،? كنت أقصد",),
        "hi": (r"(?:सुधार|संशोधन) ?:|योजना बदल गई|(?:नहीं|माफ़ करें),? मेरा मतलब",),
    }
)
"""Patterns of corrections by language, as regular expressions that ignore case."""

_PATTERN = re.compile("|".join(f"(?:{cue})" for cue in chain.from_iterable(CORRECTION_CUES.values())), re.IGNORECASE)


def says_it_corrects(text: str) -> bool:
    """Return whether a text says that it corrects an earlier one.

    >>> says_it_corrects("Make that 40,000."), says_it_corrects("Make it two nights in Oslo?")
    (True, False)
    """
    return _PATTERN.search(text) is not None


def without_cues(text: str) -> str:
    """Return a text without the words that say that it corrects."""
    return _PATTERN.sub(" ", text)


MOST = 5
"""An item is shown with so many of its corrections, the newest ones, and with theirs.

A text may look like a correction and be none. With fewer, these keep the real one out.
"""

_WORDS = 6
_IN_COMMON = 3
_ALIKE = 0.75
_MAX_WORDS = 120
"""A longer text says too many things to be corrected as a whole."""
_MAX_SENTENCE_CHARS = 130
"""A longer sentence says too many things, so that its value is rarely about the words before it."""
_MAX_STATEMENTS = 24

NEAR = 5
"""An item that says that it corrects something speaks of so many items before it."""
_IN_COMMON_NEAR = 2
_NEXT = 2
"""One of fewer than three words, such as "make that 40", speaks of the values told in so many items before it."""

_SENTENCE_END = re.compile(r"(?<=[.!?…।؟])[\"')\]»”’*]*\s+|(?<=[。！？])|\n")
_QUESTION = re.compile(r"[?？؟][\"')\]»”’*\s]*$")
_IDEOGRAPHS = "\u3040-\u30ff\u3400-\u9fff"
_CHUNK_END = re.compile(rf"\s+|(?<=[{_IDEOGRAPHS}])(?=[0-9A-Za-z])|(?<=[0-9A-Za-z])(?=[{_IDEOGRAPHS}])")
_VALUE = re.compile(r"\d|['\"‘“`«][^\s'\"]{1,24}['\"’”`»]|\b[^\W_]+_\w*|\b_\w+|\b[a-z]+[A-Z]\w*")
_FORMULA = re.compile(r"[=^{}\\<>|+*∑Σ√∇≥≤]|\d, \d{1,3}\b")
"""Signs of code, of a formula or of a list of numbers: each of its values has other words in mind."""
_AROUND = ".,:;!?\"'()[]*`‘’“”«»"
_DAYS = """
    january february march april may june july august september october november december monday tuesday wednesday
    thursday friday saturday sunday
"""
_PERSONS = frozenset(analyze("i me my mine myself m ve d ll re us"))
_NO_SUBJECT = _PERSONS | frozenset(analyze(_DAYS))
"""Terms of no subject that are not stop words either."""


class Statement(NamedTuple):
    """The words of a subject, and the value that a text gives it; the text itself if it is one sentence."""

    words: frozenset[str]
    value: str
    is_whole: bool = False


def statements(item: Item) -> tuple[Statement, ...]:
    """Return the statements of an item, found once in its life.

    >>> from kaosmem import SessionMemory
    >>> item = SessionMemory.test_mode().add("findings", "The launch of Apollo moves to day 12.")
    >>> [(sorted(each.words), each.value) for each in statements(item)][0]
    (['apollo', 'day', 'launch', 'move'], '12')
    """
    return item.memo("statements", _statements)


def _stated(item: Item) -> bool:
    """Return whether an item may correct another one or be corrected."""
    if not _has_teller(item):
        return False
    return bool(statements(item)) or (_is_short(item) and (_has_value(item) or is_explicit(item)))


def _has_teller(item: Item) -> bool:
    """Return whether an item has a speaker, or a source and a time."""
    return bool(item.role or (_source(item) and item.timestamp))


def is_explicit(item: Item) -> bool:
    """Return whether an item that may correct others says that it does."""
    return item.memo("explicit", _is_explicit)


def _is_explicit(item: Item) -> bool:
    return _has_teller(item) and _is_short(item) and says_it_corrects(item.text)


def _is_short(item: Item) -> bool:
    """Return whether an item is a text that is short enough to be about few things, and not code."""
    if not isinstance(item.content, str) or len(item.content) > _MAX_WORDS * 16 or "```" in item.content:
        return False
    return len(item.content.split()) <= _MAX_WORDS


def _named(item: Item) -> frozenset[str]:
    """Return the words of an item that may name a subject, numbers and days among them."""
    terms = analyze(without_cues(item.text))
    return frozenset(
        term for term in terms if term not in _PERSONS and (len(term) > 1 or not term.isascii() or term.isdigit())
    )


def _has_value(item: Item) -> bool:
    return _VALUE.search(item.text) is not None


def _statements(item: Item) -> tuple[Statement, ...]:
    if not _is_short(item):
        return ()
    sentences = [each for part in _SENTENCE_END.split(item.text) if (each := part.strip())]
    found = dict.fromkeys(each for sentence in sentences for each in _with_values(sentence))
    if len(sentences) == 1 and not _QUESTION.search(sentences[0]):
        words = frozenset(_terms(sentences[0]))
        if len(words) >= _IN_COMMON:
            found[Statement(words, " ".join(sentences[0].casefold().split()), is_whole=True)] = None
    return tuple(found)[:_MAX_STATEMENTS]


def _with_values(sentence: str) -> Iterator[Statement]:
    if len(sentence) > _MAX_SENTENCE_CHARS or not _VALUE.search(sentence):
        return
    if _QUESTION.search(sentence) or _FORMULA.search(sentence):
        return
    terms: list[str] = []
    for chunk in _CHUNK_END.split(sentence):
        if not _VALUE.search(chunk):
            terms += _terms(chunk)
        elif len(words := frozenset(terms[-_WORDS:])) >= _IN_COMMON:
            yield Statement(words, chunk.strip(_AROUND).casefold())


def _terms(text: str) -> Iterator[str]:
    return (term for term in analyze(text) if term not in _NO_SUBJECT and (len(term) > 1 or not term.isascii()))


class Corrections:
    """Which of some items correct which: items by ordinal. Of two items, the one that began to hold later is later.

    Of two that began to hold at the same time, the one with the larger ordinal is later.

    Every statement is a row, the newest ones first. A set of rows is an integer with one bit a row, so that the rows
    which share words with a statement are found at once, however many there are.
    """

    def __init__(self, items: Mapping[int, Item] | None = None) -> None:
        self._items: dict[int, Item] = {}
        self.add(items or {})

    def __contains__(self, ordinal: object) -> bool:
        return ordinal in self._items

    def add(self, items: Mapping[int, Item]) -> None:
        """Add items. An item that states nothing, or has neither a speaker nor a dated source, is not kept."""
        self._items |= {at: item for at, item in items.items() if item.memo("stated", _stated)}
        self._ordinals: list[int] = []  # of the item that states each row
        self._stated_by: dict[int, int] = {}  # the rows of each item
        self._told_by: defaultdict[tuple[str, str], int] = defaultdict(int)
        self._keyed = 0
        self._words: defaultdict[str, int] = defaultdict(int)
        self._values: defaultdict[str, int] = defaultdict(int)
        self._sizes: defaultdict[int, int] = defaultdict(int)  # by number of words; 0 for a value in a longer text
        newest_first = sorted(self._items, key=lambda at: (self._items[at].valid_from, at), reverse=True)
        self._age = {at: age for age, at in enumerate(newest_first)}
        for at in newest_first:
            self._append(at, self._items[at])

    def _append(self, at: int, item: Item) -> None:
        """Append the statements of an item that is older than all so far."""
        rows = 0
        for statement in statements(item):
            row = 1 << len(self._ordinals)
            self._ordinals.append(at)
            rows |= row
            for word in statement.words:
                self._words[word] |= row
            self._values[statement.value] |= row
            self._sizes[len(statement.words) if statement.is_whole else 0] |= row
        self._stated_by[at] = rows
        self._keyed |= rows if item.key else 0
        for teller in _tellers(item):
            self._told_by[teller] |= rows

    def of(self, ordinal: int) -> tuple[int, ...]:
        """Return the newest corrections of an item, at most `MOST`, oldest first."""
        item = self._items.get(ordinal)
        if item is None:
            return ()
        found = {*self._restated(ordinal, item), *self._announced(ordinal, item)}
        return tuple(sorted(found, key=self._age.__getitem__, reverse=True)[-MOST:])

    def _restated(self, ordinal: int, item: Item) -> list[int]:
        """Return the newest items that state another value of a subject of an item."""
        own = self._stated_by[ordinal]
        possible = reduce(or_, (self._told_by[teller] for teller in _tellers(item)))
        possible &= (own & -own) - 1  # later ones
        possible &= ~self._keyed if item.key else -1
        rows = 0
        for statement in statements(item) if possible else ():
            rows |= self._alike(statement, possible & ~self._values[statement.value])
        found: list[int] = []
        while rows and len(found) < MOST:
            at = self._ordinals[(rows & -rows).bit_length() - 1]
            rows &= ~self._stated_by[at]
            if may_correct(self._items[at], item):
                found.append(at)
        return found

    def _announced(self, ordinal: int, item: Item) -> Iterator[int]:
        """Yield the items soon after an item that say that they correct it."""
        for at in range(ordinal + 1, ordinal + NEAR + 1):
            later = self._items.get(at)
            if later is None or not is_explicit(later) or not may_correct(later, item):
                continue
            if self._age[at] > self._age[ordinal]:
                continue
            named = _named(later)
            is_next = at <= ordinal + _NEXT and len(named) < _IN_COMMON and _has_value(later) and _has_value(item)
            if is_next or len(named & _named(item)) >= _IN_COMMON_NEAR:
                yield at

    def _alike(self, statement: Statement, among: int) -> int:
        """Return the rows of the subject of a statement, among some rows."""
        size = len(statement.words)
        sizes = [each for each in self._sizes if each and _ALIKE * each <= size] if statement.is_whole else [0]
        alike = {each: max(_IN_COMMON, ceil(_ALIKE * max(size, each)) if each else 0) for each in sizes}
        most = size - min(alike.values())
        lacking = [among] * (most + 1)  # the rows that lack at most 0, 1, 2, ... of the words so far
        for word in statement.words:
            having = self._words[word]
            for count in range(most, 0, -1):
                lacking[count] = lacking[count] & having | lacking[count - 1]
            lacking[0] &= having
            if not lacking[most]:
                return 0
        return reduce(or_, (lacking[size - least] & self._sizes[each] for each, least in alike.items()))

    def words(self, ordinals: Iterable[int], limit: int) -> list[str]:
        """Return the most frequent words of the statements of items."""
        counts = Counter(word for at in ordinals for each in statements(self._items[at]) for word in each.words)
        return [word for word, _ in sorted(counts.items(), key=lambda each: (-each[1], each[0]))[:limit]]


def may_correct(later: Item, earlier: Item) -> bool:
    """Return whether an item may correct an earlier one: by its speaker or source, time, trust and key.

    Of one speaker the later item does. Of one source it does if its `timestamp` is later: passages of a document are
    not newer than one another. An item that is trusted less corrects nothing. Items with keys are different facts.
    """
    if later.trust < earlier.trust or (later.key and earlier.key):
        return False
    before, after = earlier.timestamp, later.timestamp
    if before is not None and after is not None and aware(after) < aware(before):
        return False
    if later.role and later.role == earlier.role:
        return True
    is_later = before is not None and after is not None and aware(before) < aware(after)
    return is_later and _source(later) == _source(earlier) != ""


def _tellers(item: Item) -> list[tuple[str, str]]:
    """Return the speaker and the source of an item that has them."""
    return [each for each in (("role", item.role), ("source", _source(item))) if each[1]]


def _source(item: Item) -> str:
    source = item.metadata.get("source")
    return source if isinstance(source, str) else ""
