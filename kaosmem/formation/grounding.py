"""Grounding: a proposed change is applied only if its sources say it.

Each check returns the reason of a refusal, "" if the change passes. The reasons are short and fixed,
so that they can be counted.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from kaosmem.formation.changes import ACTIONS, KINDS, NOT_PEOPLE, ProposedChange
from kaosmem.formation.statements import clause_of, fault_of_statement
from kaosmem.language.analysis import STOP_WORDS, analyze
from kaosmem.language.credentials import without_credentials
from kaosmem.language.rules import plain_rules_in, rules_in
from kaosmem.types.content import Trust
from kaosmem.types.items import Item
from kaosmem.types.versions import day_text

MAX_TEXT_CHARS = 600
"""A longer statement says too many things."""
_LEAST_QUOTE_WORDS = 2
_LEAST_SHARE = 0.5
"""At least this share of the meaning words of a statement stand in its sources."""

UNKNOWN_SOURCE = "unknown source"
NO_QUOTE = "quote not in its sources"
SHORT_QUOTE = "quote too short"
LONG_TEXT = "text too long"
NO_TEXT = "no text"
UNKNOWN_ACTION = "unknown action or kind"
UNKNOWN_NAME = "name not in its sources"
UNKNOWN_NUMBER = "number not in its sources"
UNKNOWN_DATE = "date not in its sources"
UNSAID = "not what its sources say"
NEGATED = "negation not as in its quote"
CREDENTIAL = "credential"
LOW_TRUST_RULE = "rule of a text of low trust"
NOT_ASKED = "nobody asked to remember it"

_SPACES = re.compile(r"\s+")
_QUOTES = str.maketrans("‘’“”«»", '\'\'""""')
_TOKEN = re.compile(r"[^\W_](?:[\w'’.,:/@#%$€£+-]*[^\W_])?")
_STEP_NUMBER = re.compile(r"^\d{1,2}\. ", re.MULTILINE)
_DIGIT = re.compile(r"\d")
_ADDRESS = re.compile(r"\w[@/.:]\w")
_GROUPS = re.compile(r"(?<=\d)[,'’\u00a0\u202f](?=\d{3}\b)")
_POSSESSIVE = re.compile(r"['’]s?$")
_SENTENCE_END = re.compile(r"[.!?…:]\W*$")
_AFTER_A_NAME = re.compile(
    r"(?:[a-z]{2,}(?:ed|s)|may|can|must|should|would|will|had|got|paid|bought|sold|said|won)"
)
"""A word after a sentence's first word by which that word is taken for a name."""
_GENERIC_WORDS = """
    user users user's assistant speaker customer they he she it we you i the this that these those
    her his their its our my your who someone somebody everyone people person team
"""
_GENERIC = frozenset(_GENERIC_WORDS.split())
_FRAME_WORDS = """
    user users assistant speaker customer person people prefer prefers like likes want wants plan
    plans say says said state states use uses ask asks need needs live lives work works know knows
"""
_FRAME = frozenset(analyze(_FRAME_WORDS))
"""Terms by which a statement reports what was said, in other words than the speaker's."""
_NEGATION = re.compile(
    r"\b(?:not|no|never|none|nobody|nothing|neither|nor|without|cannot|no longer|"
    r"nicht|kein\w*|nie|niemals|ne|pas|jamais|sin|nunca)\b|n['’]t\b",
    re.IGNORECASE,
)
_MONTH_NAMES = """
    january february march april may june july august september october november december
"""
_MONTHS = _MONTH_NAMES.split()
_ASKED = re.compile(
    r"\b(?:(?:please |do |always )?remember (?:that|this|to|my|for|i\b|we\b|the\b)|"
    r"don['’]t forget|do not forget|never forget|keep in mind|bear in mind|make a note|"
    r"note (?:that|down|this)|take note|mark (?:that|this)|write (?:that|this|it) down|"
    r"for the record|for future reference|save (?:that|this)|store (?:that|this)|log (?:that|this)|"
    r"on record|merk dir|vergiss nicht|denk daran|souviens-toi|n['’]oublie pas|retiens|"
    r"recuerda|no olvides|anota)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Grounds:
    """The sources of a change.

    Attributes:
        items: The items that the change names as its sources, in their order.
        quoted: The item that holds the quote.
    """

    items: Sequence[Item]
    quoted: Item

    @property
    def trust(self) -> Trust:
        """Return the lowest trust of the sources."""
        return min(item.trust for item in self.items)

    @property
    def text(self) -> str:
        """Return all that the sources say, with their speakers and days."""
        return "\n".join(f"{item.role} {_days(item)}: {item.text}" for item in self.items)


def find_grounds(change: ProposedChange, said: Iterable[Item]) -> Grounds | str:
    """Return the sources of a change, or the reason why it has none.

    Args:
        said: The items that the former was given.
    """
    if change.action not in ACTIONS or change.kind not in KINDS:
        return UNKNOWN_ACTION
    by_id = {item.id: item for item in said}
    items = [by_id[source] for source in dict.fromkeys(change.sources) if source in by_id]
    if not items or len(items) < len({*change.sources}):
        return UNKNOWN_SOURCE
    quote = plain(change.quote)
    if len(quote.split()) < _LEAST_QUOTE_WORDS and quote not in {plain(i.text) for i in items}:
        return SHORT_QUOTE
    for item in items:
        if quote in plain(item.text):
            return Grounds(items, item)
    return NO_QUOTE


def fault_of(change: ProposedChange, grounds: Grounds, *, explicit_only: bool) -> str:
    """Return the reason to refuse a change that has sources, "" if its sources say it.

    Args:
        explicit_only: Refuse all that nobody asked to remember.
    """
    text = change.text.strip()
    if not text:
        return NO_TEXT
    if len(text) > MAX_TEXT_CHARS:
        return LONG_TEXT
    stated = f"{text}\n{change.key or ''}\n{change.quote}"
    if without_credentials(stated) != stated:
        return CREDENTIAL
    if _is_untrusted(grounds) and _asks_for_rules(f"{text}\n{change.quote}"):
        return LOW_TRUST_RULE
    if explicit_only and not _was_asked(grounds):
        return NOT_ASKED
    return _unsaid(text, change, grounds)


def plain(text: str) -> str:
    """Return a text with single spaces, in lower case and with plain quotation marks.

    >>> plain("She  said “Yes”")
    'she said "yes"'
    """
    return _SPACES.sub(" ", text.translate(_QUOTES)).strip().casefold()


def terms_in_order(text: str) -> tuple[str, ...]:
    """Return the terms of a text in order. Two statements that share them say the same."""
    return tuple(analyze(text))


def _unsaid(text: str, change: ProposedChange, grounds: Grounds) -> str:
    """Return the reason if a statement says more, or the opposite of what its sources say."""
    if change.is_run:
        text = _STEP_NUMBER.sub("", text)
    known = _words(grounds.text)
    fault = _unknown_word(text, known)
    if fault:
        return fault
    if change.valid_from is not None and not _is_said_day(change.valid_from, grounds, known):
        return UNKNOWN_DATE
    if change.kind == "semantic" and change.action != "retire":
        fault = _misread(text, change, grounds)
        if fault:
            return fault
    if change.is_run and change.worked and _NEGATION.search(change.quote):
        return NEGATED
    terms = [term for term in analyze(text) if term not in _FRAME]
    shared = frozenset(analyze(grounds.text)).intersection(terms)
    if len(shared) < _LEAST_SHARE * len({*terms}):
        return UNSAID
    says_it = not shared.isdisjoint(analyze(f"{grounds.quoted.role} {change.quote}"))
    if terms and not says_it and not change.is_run:
        return UNSAID
    return ""


def _misread(text: str, change: ProposedChange, grounds: Grounds) -> str:
    """Return the reason if a fact is not what the quote states where it stands."""
    quote = plain(change.quote)
    source = plain(grounds.quoted.text)
    is_denied = _NEGATION.search(text) is not None
    if is_denied != (_NEGATION.search(clause_of(quote, source)) is not None):
        return NEGATED
    others = {item.role.casefold() for item in grounds.items}
    return fault_of_statement(plain(text), quote, source, grounds.quoted, others)


def _unknown_word(text: str, known: Collection[str]) -> str:
    """Return the reason if a number or a name of a text is not among the known words."""
    tokens = [match[0] for match in _TOKEN.finditer(text)]
    starts = {0}
    for place, match in enumerate(_TOKEN.finditer(text), 1):
        following = text[match.end() : match.end() + 2]
        if _SENTENCE_END.search(match[0] + following.strip()):
            starts.add(place)
    for place, token in enumerate(tokens):
        word = _bare(token)
        if not word or word in known or _parts_known(word, known):
            continue
        if _DIGIT.search(word):
            return UNKNOWN_NUMBER
        if _ADDRESS.search(word):
            return UNKNOWN_NAME
        if not any(map(str.isupper, token)) or word in STOP_WORDS or word in _GENERIC:
            continue
        following = tokens[place + 1] if place + 1 < len(tokens) else ""
        if place in starts and not _is_name_before(token, following):
            continue
        return UNKNOWN_NAME
    return ""


def _is_name_before(token: str, following: str) -> bool:
    """Return whether a sentence's first word is a name, by its form or by the next word."""
    if any(map(str.isupper, token[1:])) or token.endswith(("'s", "’s")):
        return True
    return following[:1].isupper() or _AFTER_A_NAME.fullmatch(following) is not None


def _words(text: str) -> frozenset[str]:
    """Return the words of a text, whole and in their parts, without case and possessives."""
    found = set()
    for match in _TOKEN.finditer(text):
        word = _bare(match[0])
        found.add(word)
        found.update(part for part in re.split(r"\W+", word) if part)
    return frozenset(found)


def _parts_known(word: str, known: Collection[str]) -> bool:
    """Return whether all parts of a compound, such as a date in digits, are known words."""
    parts = [part.lstrip("0") for part in re.split(r"\W+", word) if part.lstrip("0")]
    return len(parts) > 1 and all(part in known or f"0{part}" in known for part in parts)


def _bare(token: str) -> str:
    return _POSSESSIVE.sub("", _GROUPS.sub("", token).casefold())


def _days(item: Item) -> str:
    """Return the day on which an item was said, in words and in digits."""
    time = item.timestamp
    return "" if time is None else f"{day_text(time)} {time.date().isoformat()}"


def _is_said_day(stated: str, grounds: Grounds, known: Collection[str]) -> bool:
    """Return whether a stated day is that of the quote, or one that the sources name."""
    try:
        day = datetime.fromisoformat(stated)
    except ValueError:
        return False
    said = grounds.quoted.timestamp
    if said is not None and said.date() == day.date():
        return True
    digits = {str(day.day), f"{day.day:02}", f"{day.day}st", f"{day.day}nd"}
    digits |= {f"{day.day}rd", f"{day.day}th"}
    month = _MONTHS[day.month - 1]
    has_month = any(each in known for each in (month, month[:3], str(day.month), f"{day.month:02}"))
    # A year need not be said where the message was written in it, or in one beside it.
    is_near = said is not None and abs(said.year - day.year) <= 1
    has_year = is_near or str(day.year) in known
    return has_month and has_year and not digits.isdisjoint(known)


def _is_untrusted(grounds: Grounds) -> bool:
    return grounds.trust < Trust.MODEL or grounds.quoted.role.casefold() in NOT_PEOPLE


def _asks_for_rules(text: str) -> bool:
    return any(True for _ in rules_in(text)) or any(True for _ in plain_rules_in(text))


def _was_asked(grounds: Grounds) -> bool:
    if _is_untrusted(grounds):
        return False
    return _ASKED.search(grounds.quoted.text) is not None
