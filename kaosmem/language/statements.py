"""Statements of a text: values with the subjects that they are about.

A statement is a value (a number, a quotation or an identifier) with the words before it in its
sentence. A text of one sentence is a statement too.

An identifier names what a sentence is about, as in `paid invoice INV-3`, `failed for ticket 17` and
`sent to anna@example.com`: an event of one thing does not correct the same event of another. An
identifier is a value only if a verb of being or of change leads to it: `is in room 12`, `moves to
ticket 18`.

Two statements are of different subjects if each names something that the other does not: a number,
an identifier, a name or a day beside the value. They also are if they are word for word the same
but for one term between two others: `a box of tea costs 4` and `a box of coffee costs 5`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kaosmem.language.analysis import STOP_WORDS, analyze
from kaosmem.language.marks import AFTER_A_NAME
from kaosmem.memos import memoized
from kaosmem.types.items import Item, once_per_item

WORDS_IN_COMMON = 3
"""So many words make a subject.

Fewer do if a verb such as `is` stands between them and the value.
"""

_WORDS = 6
_FEWEST_WORDS = 2
_MAX_WORDS = 120
"""A longer text says too many things to be corrected as a whole."""
_MAX_SENTENCE_CHARS = 130
"""A longer sentence says too many things, so that its value is rarely about the words before it."""
_MAX_STATEMENTS = 24
_DIGITS_OF_A_NAME = 4
"""A number of so many digits is seldom used for two things."""
_MAX_EXCHANGED = 3
"""Texts of one pattern differ in so many tokens in one place at most."""

_SENTENCE_END = re.compile(r"(?<=[.!?…।؟])[\"')\]»”’*]*\s+|(?<=[。！？])|\n")
_QUESTION = re.compile(r"[?？؟][\"')\]»”’*\s]*$")
_IDEOGRAPHS = "\u3040-\u30ff\u3400-\u9fff"
_CHUNK_END = re.compile(
    rf"\s+|(?<=[{_IDEOGRAPHS}])(?=[0-9A-Za-z])|(?<=[0-9A-Za-z])(?=[{_IDEOGRAPHS}])"
)
_VALUE = re.compile(
    r"\d|['\"‘“`«][^\s'\"]{1,24}['\"’”`»]|\b[^\W_]+_\w*|\b_\w+|\b[a-z]+[A-Z]\w*|\w@\w|\w://\w"
)
_FORMULA = re.compile(r"[=^{}\\<>|*∑Σ√∇≥≤]|(?<!\s)\+|\+(?!\d)|\d, \d{1,3}\b")
"""Signs of code, a formula or a list of numbers, whose values belong to no words before them."""
_AROUND = ".,:;!?।؟،؛。！？，、\"'()[]*`‘’“”«»"
_POSSESSIVE = re.compile(r"['’]s$")
_DAY_NAMES = """
    january february march april may june july august september october november december jan feb mar apr jun jul aug
    sep sept oct nov dec monday tuesday wednesday thursday friday saturday sunday
"""
_DAYS = frozenset(_DAY_NAMES.split())
_PERSONS = frozenset(analyze("i me my mine myself m ve d ll re us"))
_NOW_NAMES = "now currently instead actually jetzt nun maintenant désormais ahora"
_NOW = frozenset(_NOW_NAMES.split())
"""Words of a correction that belong to no subject."""
_NO_SUBJECT = _PERSONS | frozenset(analyze(" ".join((*_DAYS, *_NOW))))
"""Terms of no subject that are not stop words either."""

_VERBS = """
    is are was were be been will has have had cost costs moved moves need needs take takes lasts starts begins opens
    closes leaves lives works contains holds weighs requires
    ist sind war waren wird werden hat kostet kosten beträgt est sont était sera coûte es son era está será cuesta
    был была было были будет стоит стоят составляет هو هي كان كانت يبلغ تبلغ يكون تكون أصبح أصبحت
"""
_IS = frozenset(_VERBS.split())
"""Verbs between a subject and what is said of it."""
_FINAL = frozenset(["है", "हैं", "था", "थी", "थे", "होगा", "होगी"])
"""Verbs that stand at the end of a sentence, after what is said."""
_HELPING = "been had has hat have sera será wird werden will"
_CHANGES = """
    change changed changes become becomes became move moved moves place set switch switched switches
    until now instead jetzt wechselt wechselte verlegt passe déplacé cambia cambió trasladado
"""
_CHANGED = frozenset(_CHANGES.split())
_TO = frozenset(["to", "into", "onto", "auf", "nach", "zu", "zum", "zur", "à", "a", "hacia"])
_BEFORE_A_VALUE = _IS.difference(_HELPING.split()) | _CHANGED
"""Words that lead to an identifier which is said of the subject."""
_HAVING = frozenset(("has", "have", "had"))
_PHRASE = 3
"""The most words with a meaning in a phrase before an apposition."""
_TIME_NAMES = """
    day week month quarter year hour minute o'clock tag woche kw monat quartal jahr stunde jour semaine mois
    trimestre année heure día semana mes año hora день неделя месяц год час
"""
_TIMES = frozenset(_TIME_NAMES.split())
"""Words that number a time, which is a value and no identifier."""
_SMALL_WORDS = """
    a an and at by for from in into of on onto our my the their this to with your
    an auf bis der die das den dem des ein eine für im in mit nach von vom zu zum zur
    à au hacia hasta jusque le la les l du de des dans sur un une pour par vers
    el los las del en por para con
"""
_BEFORE_A_NOUN = frozenset(_SMALL_WORDS.split())
"""Words after which a noun follows, so that the number after the noun is the noun's own."""
_PARTICLES = frozenset("是为為は이가がでにをのも的在至到于於有共第约約：:、，")
"""The last characters of a text without spaces before a value that is no identifier."""
_IDENTIFIER = re.compile(
    r"#\w"
    r"|[/~]*[^\W\d_][\w./:-]*\d"  # INV-3, s3://bucket/a3, /data/part-001.csv
    r"|[\w.+-]+@\w|\w+://\w"  # addresses
    r"|\d+(?:\.\d+){3}$|\+\d[\d-]{6,}$"  # addresses of hosts, telephone numbers
)
_NUMBER = re.compile(r"\d+(?:[.-]\d+)*[A-Z]?$")
"""A number that names a thing if it belongs to the noun before it: room 12, seat 3B."""
_NO_NAMES = """
    actual also always and but current final good great hello hi latest new no now ok okay old please revised so sorry
    thanks then updated yes
"""
_OPENERS = frozenset(_NO_NAMES.split())
"""Words that begin a sentence and are no names."""


class Statement(NamedTuple):
    """The words of a subject and the value that a text gives it, or a whole sentence.

    Attributes:
        before: The tokens before the value; of a whole sentence all of them.
        marks: The numbers, identifiers, names and days beside the value.
        opening: The first token as it is written.
    """

    words: frozenset[str]
    value: str
    is_whole: bool = False
    before: tuple[str, ...] = ()
    marks: frozenset[str] = frozenset()
    opening: str = ""


@once_per_item
def statements(item: Item) -> tuple[Statement, ...]:
    """Return the statements of an item.

    >>> from kaosmem import SessionMemory
    >>> item = SessionMemory.test_mode().add("findings", "The launch of Apollo moves to day 12.")
    >>> [(sorted(each.words), each.value) for each in statements(item)][0]
    (['apollo', 'day', 'launch', 'move'], '12')
    """
    if not is_short(item):
        return ()
    sentences = [part.strip() for part in _SENTENCE_END.split(item.text)]
    sentences = [sentence for sentence in sentences if sentence]
    if len(sentences) == 1:
        return _of_sentence(sentences[0])
    stating = [sentence for sentence in sentences if _states_values(sentence)]
    if not stating:
        return ()
    # The identifiers of the first sentence name the subject of all.
    topic = frozenset(_labelled(_tokens(sentences[0])))
    found: dict[Statement, None] = {}
    for sentence in stating:
        found |= dict.fromkeys(_with_values(sentence, _tokens(sentence), topic))
    return tuple(found)[:_MAX_STATEMENTS]


def _of_sentence(sentence: str) -> tuple[Statement, ...]:
    """Return the statements of a text of one sentence, the whole sentence among them."""
    if _QUESTION.search(sentence) or _FORMULA.search(sentence):
        return ()
    tokens = _tokens(sentence)
    found: dict[Statement, None] = {}
    if _states_values(sentence):
        found |= dict.fromkeys(_with_values(sentence, tokens, frozenset()))
    whole = _whole(sentence, tokens)
    if whole is not None:
        found[whole] = None
    return tuple(found)[:_MAX_STATEMENTS]


def _states_values(sentence: str) -> bool:
    """Return whether a sentence may give values to the words before them."""
    if len(sentence) > _MAX_SENTENCE_CHARS or not has_value(sentence):
        return False
    return not (_QUESTION.search(sentence) or _FORMULA.search(sentence))


def is_short(item: Item) -> bool:
    """Return whether an item is a text, no code, and short enough to be about few things."""
    if (
        not isinstance(item.content, str)
        or len(item.content) > _MAX_WORDS * 16
        or "```" in item.content
    ):
        return False
    return len(item.content.split()) <= _MAX_WORDS


def has_value(text: str) -> bool:
    """Return whether a text holds a number, a quotation or an identifier."""
    return _VALUE.search(text) is not None


def names_of(text: str) -> frozenset[str]:
    """Return the words of a text that may name a subject, numbers and days among them."""
    found = set()
    for term in analyze(text):
        if term not in _PERSONS and (len(term) > 1 or not term.isascii() or term.isdigit()):
            found.add(term)
    return frozenset(found)


@memoized(1 << 14)  # the same statements meet in each turn
def are_of_one_subject(one: Statement, other: Statement) -> bool:
    """Return whether two statements that share the words of a subject are about the same thing."""
    if one.marks - other.marks and other.marks - one.marks:
        return False
    return not _is_exchanged(one, other)


def _is_exchanged(one: Statement, other: Statement) -> bool:
    """Return whether two statements differ only in the term that fills their pattern."""
    if one.before == other.before:
        return False
    start, end = _shared_ends(one.before, other.before)
    least = min(len(one.before), len(other.before))
    mine, theirs = (each.before[start : len(each.before) - end] for each in (one, other))
    if not (0 < len(mine) <= _MAX_EXCHANGED and 0 < len(theirs) <= _MAX_EXCHANGED):
        return False
    if _IS.intersection(one.before[:start]):
        return False  # what is said differs, not the subject
    if start == 0:
        return len(mine) == len(theirs) == 1 and _are_names(one, other)
    if one.is_whole and not _IS.intersection(one.before[least - end :]):
        return False
    return end > 0


def _are_names(one: Statement, other: Statement) -> bool:
    """Return whether the first tokens of two sentences, the only ones that differ, are names."""
    if not _OPENERS.isdisjoint((one.before[0], other.before[0])) or one.before[0] in STOP_WORDS:
        return False
    if not (one.opening[:1].isupper() and other.opening[:1].isupper()):
        return False
    if _POSSESSIVE.search(one.opening) and _POSSESSIVE.search(other.opening):
        return True
    return len(one.before) > 1 and AFTER_A_NAME.fullmatch(one.before[1]) is not None


def _shared_ends(one: Sequence[str], other: Sequence[str]) -> tuple[int, int]:
    """Return how many tokens two sequences share at the beginning, and of the rest at the end."""
    most = min(len(one), len(other))
    start = 0
    while start < most and one[start] == other[start]:
        start += 1
    end = 0
    while end < most - start and one[-1 - end] == other[-1 - end]:
        end += 1
    return start, end


class _Token(NamedTuple):
    """One chunk of a sentence.

    Attributes:
        text: In lower case, without signs around it.
        is_name: Whether it begins with a capital within the sentence, or is a day.
    """

    text: str
    chunk: str
    is_value: bool
    is_name: bool


def _tokens(sentence: str) -> list[_Token]:
    tokens = []
    begins = True
    for chunk in _CHUNK_END.split(sentence):
        token = _token(chunk, begins)
        if token.text:
            tokens.append(token)
        begins = chunk.endswith((":", "]"))
    return tokens


@memoized(1 << 14)  # most of any text are chunks seen before
def _token(chunk: str, begins: bool) -> _Token:
    """Return a chunk as a token.

    Args:
        begins: Whether it begins a sentence, so that its capital names nothing.
    """
    bare = chunk.strip(_AROUND)
    text = _POSSESSIVE.sub("", bare.casefold())
    is_value = has_value(chunk)
    is_name = not begins and not is_value and bare[:1].isupper()
    return _Token(text, chunk, is_value, is_name or text in _DAYS)


def _mark(tokens: Sequence[_Token], place: int) -> str:
    """Return how a token tells its subject from others.

    A small number does so with its noun, since `code 3` is not `order 3`.
    """
    text = tokens[place].text
    before = tokens[place - 1].text if place else ""
    is_small = text.isdigit() and len(text) < _DIGITS_OF_A_NAME
    if is_small and before not in STOP_WORDS and before not in _NOW:
        return f"{before} {text}"
    return text


def _labelled(tokens: Sequence[_Token]) -> Iterator[str]:
    """Yield the numbers that name a thing, as in `order 7`, and the other identifiers."""
    for place, token in enumerate(tokens):
        if not token.is_value:
            continue
        is_identifier = token.text[:1].isalpha() or token.chunk.startswith("#")
        label = tokens[place - 1].text if place else ""
        if is_identifier or (
            label.isalpha() and label not in STOP_WORDS and label not in _DAYS | _IS | _NOW
        ):
            yield _mark(tokens, place)


def _whole(sentence: str, tokens: Sequence[_Token]) -> Statement | None:
    """Return a sentence as a statement, None for one of too few words.

    It shares its subject with another one if three quarters of their words agree.
    """
    words = frozenset(_terms(sentence))
    if len(words) < WORDS_IN_COMMON:
        return None
    verbs = [place for place, token in enumerate(tokens) if token.text in _IS]
    said_from = verbs[0] if verbs else len(tokens) - 1
    marks = set()
    before: list[str] = []
    has_said = False
    for place, token in enumerate(tokens):
        is_said = token.is_value and place > 0 and tokens[place - 1].text in _IS
        if (token.is_value and not is_said) or (token.is_name and place < said_from):
            marks.add(_mark(tokens, place))
        has_said = has_said or is_said
        if not has_said:
            before.append(token.text)
    value = " ".join(sentence.casefold().split())
    return Statement(words, value, True, tuple(before), frozenset(marks), _opening(sentence))


def _opening(sentence: str) -> str:
    return sentence.split(maxsplit=1)[0].strip(_AROUND)


def _with_values(
    sentence: str, tokens: Sequence[_Token], topic: frozenset[str]
) -> Iterator[Statement]:
    """Yield the statements of the values of a sentence."""
    terms: list[str] = []
    marks = set(topic)
    has_verb = any(token.text in _FINAL for token in tokens[-1:])
    for place, token in enumerate(tokens):
        if not token.is_value:
            terms += _terms(token.chunk)
            has_verb = has_verb or token.text in _IS
        elif _is_identifier(tokens, place):
            marks.add(_mark(tokens, place))
        else:
            words = frozenset(terms[-_WORDS:])
            before = _before(tokens[:place])
            if len(words) >= WORDS_IN_COMMON or (has_verb and len(words) >= _FEWEST_WORDS):
                beside = _beside(tokens, place, marks)
                is_few = len(words) < WORDS_IN_COMMON
                yield Statement(words, token.text, is_few, before, beside, _opening(sentence))
            marks.add(_mark(tokens, place))


def _is_identifier(tokens: Sequence[_Token], place: int) -> bool:
    """Return whether a value is an identifier or a number after a noun, and so the subject."""
    written = tokens[place].chunk.lstrip("([*").rstrip(_AROUND)
    if place == 0 or tokens[place - 1].text in _TIMES:
        return False
    label = tokens[place - 1].text
    is_noun = label.isalpha() and label not in STOP_WORDS | _BEFORE_A_NOUN | _DAYS | _IS | _NOW
    if _IDENTIFIER.match(written) is None:
        is_of_noun = is_noun and _is_numbered(tokens, place)
        if not is_of_noun or _NUMBER.match(written) is None:
            return False
    return not _is_said(tokens, place - 1 if is_noun else place)


def _is_said(tokens: Sequence[_Token], place: int) -> bool:
    """Return whether a thing is said of a subject: after a verb of being or a word of change.

    In an apposition, as in `is in the north office, room 3`, the phrase before it counts.
    """
    passed = _PHRASE if place > 0 and tokens[place - 1].chunk.endswith(",") else 0
    is_change = any(token.text in _CHANGED for token in tokens[:place])
    for earlier in reversed(tokens[:place]):
        if earlier.text in _BEFORE_A_VALUE or (is_change and earlier.text in _TO):
            return True
        if earlier.text not in STOP_WORDS and earlier.text not in _BEFORE_A_NOUN:
            if passed == 0:
                return False
            passed -= 1
    return False


def _is_numbered(tokens: Sequence[_Token], place: int) -> bool:
    """Return whether a number belongs to the noun before it, and counts nothing after it."""
    label = tokens[place - 1].text
    if label[-1] in _PARTICLES or (place > 1 and tokens[place - 2].text in _HAVING):
        return False
    if place + 1 == len(tokens) or tokens[place].chunk.endswith((".", ",", ";", ":", ")")):
        return True
    after = tokens[place + 1].text
    if after in STOP_WORDS or after in _IS or after[0] in _PARTICLES:
        return True
    return place > 1 and tokens[place - 2].text in _BEFORE_A_NOUN


def _before(tokens: Sequence[_Token]) -> tuple[str, ...]:
    """Return the tokens before a value, without the day that it belongs to."""
    found = [token.text for token in tokens]
    while found and found[-1] in _DAYS:
        found.pop()
    return tuple(found)


def _beside(
    tokens: Sequence[_Token],
    place: int,
    marks: set[str],
) -> frozenset[str]:
    """Return the marks before a value, and the names and numbered things after it.

    Names next to a value that is said of the subject are of the value, as in `is 9 Oak Avenue`.
    """
    before = {token.text for token in tokens[: len(_before(tokens[:place]))] if token.is_name}
    start = place + 1
    if _is_said(tokens, place):
        while start < len(tokens) and tokens[start].is_name:
            start += 1
    rest = tokens[start:]
    after = {token.text for token in rest if token.is_name and token.text not in _DAYS}
    return frozenset({*marks, *before, *after, *_labelled(rest)})


def _terms(text: str) -> Iterator[str]:
    return (
        term
        for term in analyze(text)
        if term not in _NO_SUBJECT and (len(term) > 1 or not term.isascii())
    )
