"""How a quote stands in its source: as a statement of its speaker, or as something else."""

from __future__ import annotations

import re

from kaosmem.language.sentences import sentences_in
from kaosmem.types.items import Item

NOT_STATED = "question or condition, no statement"
REPORTED = "words of somebody else"

_CLAUSE_ENDS = re.compile(
    r"[.!?…](?=\s|$)|[;:,\n]|\b(?:but|and|because|since|although|though|so|which|who|while|than)\b"
)
_SENTENCE_ENDS = re.compile(r"[.!?…](?=\s|$)|\n")
_CONDITION = re.compile(
    r"^\W*(?:if|whether|unless|suppose|imagine)\b|\b(?:maybe|perhaps|might)\b|\b(?:if|whether) (?:i|we)\b"
)
_REPORT = re.compile(
    r"\b(?!i\b|we\b|you\b)(?P<who>[\w’'-]+) (?:has |have |had |also |once )?"
    r"(?:said|says|told|tells|wrote|writes|claims|claimed|replied|asked)\b"
)
_ASKED = re.compile(
    r"\b(?:(?:please |do |always )?remember (?:that|this|to|my|for|i\b|we\b|the\b)|remember:|"
    r"don['’]t forget|do not forget|never forget|keep in mind|bear in mind|make a note|"
    r"note (?:that|down|this)|take note|mark (?:that|this)|write (?:that|this|it) down|"
    r"for the record|for future reference|save (?:that|this)|store (?:that|this)|log (?:that|this)|"
    r"on record|merk dir|vergiss nicht|denk daran|souviens-toi|n['’]oublie pas|retiens|"
    r"recuerda|no olvides|anota)",
    re.IGNORECASE,
)
_FIRST_PERSON = re.compile(r"\b(?:i|my|me|mine|i['’]\w+)\b")
_ENDING = re.compile(
    r"\b(?:no|not|never|stop|stopped|quit|left|leave|leaving|moved|sold|lost|gone|died|dead|over|"
    r"ended|ends|end|finished|done|cancel\w*|revoked?|retired|former\w*|used to|instead|forget|"
    r"drop|dropped|remove|removed|delete|obsolete|outdated|wrong|divorced|separated|changed)\b|"
    r"n['’]t\b"
)
_SPACES = re.compile(r"\s+")
_QUOTES = str.maketrans("‘’“”«»", '\'\'""""')


def plain(text: str) -> str:
    """Return a text with single spaces, in lower case and with plain quotation marks.

    >>> plain("She  said “Yes”")
    'she said "yes"'
    """
    return _SPACES.sub(" ", text.translate(_QUOTES)).strip().casefold()


def clause_of(quote: str, text: str) -> str:
    """Return the clause of a text around a quote. Both are plain (see `plain`).

    >>> clause_of("like tea", "i have time. i don't like tea, but coffee.")
    "i don't like tea,"
    """
    begin = text.find(quote)
    stop = _CLAUSE_ENDS.search(text, begin + len(quote) - 1)
    end = stop.end() if stop else len(text)
    return text[_start(_CLAUSE_ENDS, text, begin) : end].strip()


def fault_of_statement(text: str, quote: str, source: str, quoted: Item, others: set[str]) -> str:
    """Return the reason if a quote is no statement of the speaker that a text says it is.

    Args:
        text: The text of the proposed change, and `source` that of the quoted item, both plain.
        quote: The plain quote.
        quoted: The item that holds the quote.
        others: The roles of the other sources.
    """
    begin = source.find(quote)
    before = source[_start(_SENTENCE_ENDS, source, begin) : begin]
    clause = clause_of(quote, source)
    if clause.endswith("?") or _CONDITION.search(clause):
        return NOT_STATED
    reporters = [found["who"] for found in _REPORT.finditer(before)]
    if reporters and reporters[-1] not in text:
        return REPORTED
    subject = next(iter(re.findall(r"[\w’-]+", text)), "")
    is_own = _FIRST_PERSON.search(quote) is not None
    if is_own and not reporters and subject in others and subject != quoted.role.casefold():
        return REPORTED
    return ""


def is_asked_for(quote: str, text: str) -> bool:
    """Return whether a text asks to remember the sentence that a quote stands in.

    >>> text = "I live in Oslo. I prefer tea. Remember that. Keep in mind that I am vegan."
    >>> [is_asked_for(part, text) for part in ("I live in Oslo", "I prefer tea", "I am vegan")]
    [False, True, True]
    """
    sentences = [sentence for sentence in sentences_in(text) if sentence.strip()]
    wanted = plain(quote)
    asked = []
    for place, sentence in enumerate(sentences):
        found = _ASKED.search(sentence)
        if found is None:
            continue
        asked.append(sentence)
        names_nothing = not sentence[found.end() :].strip(" .!:;…")
        if names_nothing:  # such as "Remember this:"; it means the sentences beside it
            asked += sentences[max(0, place - 1) : place + 2]
    return any(wanted in plain(sentence) or plain(sentence) in wanted for sentence in asked)


def says_end(quote: str) -> bool:
    """Return whether a quote says that something is over."""
    return _ENDING.search(quote.casefold()) is not None


def _start(ends: re.Pattern[str], text: str, place: int) -> int:
    """Return where the part of a text begins that a place is in."""
    start = 0
    for found in ends.finditer(text, 0, place):
        start = found.end()
    return start
