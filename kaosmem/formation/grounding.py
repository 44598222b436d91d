"""Grounding: a proposed change is applied only if its sources say it.

Each check returns the reason of a refusal, "" if the change passes. The reasons are short and
fixed, so that they can be counted.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from kaosmem.formation.changes import ACTIONS, KINDS, NOT_PEOPLE, ProposedChange
from kaosmem.formation.statements import clause_of, fault_of_statement, is_asked_for, plain
from kaosmem.language.analysis import analyze
from kaosmem.language.credentials import without_credentials
from kaosmem.language.marks import marks_of, parts_of, words_of
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

_STEP_NUMBER = re.compile(r"^\d{1,2}\. ", re.MULTILINE)
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
    if explicit_only and not _was_asked(change, grounds):
        return NOT_ASKED
    return _unsaid(text, change, grounds)


def terms_in_order(text: str) -> tuple[str, ...]:
    """Return the terms of a text in order. Two statements that share them say the same."""
    return tuple(analyze(text))


def _unsaid(text: str, change: ProposedChange, grounds: Grounds) -> str:
    """Return the reason if a statement says more, or the opposite of what its sources say."""
    if change.is_run:
        text = _STEP_NUMBER.sub("", text)
    known = words_of(grounds.text)
    fault = _unknown_mark(text, known)
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
    terms = {*analyze(text)} - _FRAME
    shared = terms.intersection(analyze(grounds.text))
    if len(shared) < _LEAST_SHARE * len(terms):
        return UNSAID
    says_it = not shared.isdisjoint(analyze(f"{grounds.quoted.role} {change.quote}"))
    return "" if says_it or change.is_run or not terms else UNSAID


def _misread(text: str, change: ProposedChange, grounds: Grounds) -> str:
    """Return the reason if a fact is not what the quote states where it stands."""
    quote = plain(change.quote)
    source = plain(grounds.quoted.text)
    is_denied = _NEGATION.search(text) is not None
    if is_denied != (_NEGATION.search(clause_of(quote, source)) is not None):
        return NEGATED
    others = {item.role.casefold() for item in grounds.items}
    return fault_of_statement(plain(text), quote, source, grounds.quoted, others)


def _unknown_mark(text: str, known: Collection[str]) -> str:
    """Return the reason if a number, a name or an address of a text is not among known words."""
    for mark, is_sure in marks_of(text).items():
        parts = [*parts_of(mark)]
        is_known = mark in known or (len(parts) > 1 and all(part in known for part in parts))
        if is_known or mark in _GENERIC or not is_sure:
            continue
        return UNKNOWN_NUMBER if any(map(str.isdigit, mark)) else UNKNOWN_NAME
    return ""


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
    month = _MONTHS[day.month - 1]
    has_month = not {month, month[:3], str(day.month)}.isdisjoint(known)
    # A year need not be said where the message was written in it, or in one beside it.
    is_near = said is not None and abs(said.year - day.year) <= 1
    return has_month and str(day.day) in known and (is_near or str(day.year) in known)


def _is_untrusted(grounds: Grounds) -> bool:
    return grounds.trust < Trust.MODEL or grounds.quoted.role.casefold() in NOT_PEOPLE


def _asks_for_rules(text: str) -> bool:
    return any(True for _ in rules_in(text)) or any(True for _ in plain_rules_in(text))


def _was_asked(change: ProposedChange, grounds: Grounds) -> bool:
    return not _is_untrusted(grounds) and is_asked_for(change.quote, grounds.quoted.text)
