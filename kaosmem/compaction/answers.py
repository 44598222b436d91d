"""Faults of a model's answer that is to be a summary.

A summary is grounded in its source: at least half of its words, or several names and numbers, are
of the source. A refusal, an announcement, the text of an error or of a policy is not, in any
language, and neither is a text that says too little to take the place of its source. A summary is
prose, and it is finished.
"""

from __future__ import annotations

import json
import re
from math import isqrt

from kaosmem.compaction.facts import facts_in
from kaosmem.errors import InvalidArgumentError
from kaosmem.language.analysis import analyze, words_of
from kaosmem.language.scripts import UNSPACED
from kaosmem.language.sentences import sentence_ends

_CUT = ("incomplete", "length", "max_output_tokens", "max_tokens", "model_length")
_FINISHED = ("completed", "end_turn", "stop", "stop_sequence")
_DECLINED = ("blocklist", "content_filter", "prohibited_content", "recitation", "refusal", "safety")
"""Reasons, as providers call them, for which a model stops before its answer is complete."""

_LEAST_WORDS = 3
_MOST_WORDS = 12
"""A summary has at least so many words of its source, by the size of the source."""
_SHARE = 2
_UNSPACED_SHARE = 3
"""One in so many words is of the source. In scripts without spaces pairs of characters are words."""
_NAMES_OF_ANY_LANGUAGE = 2
"""So many names and numbers of the source ground a text whose words are of another language."""
_MANY_FACTS = 5
"""A text in words of its own names at least one fact of a source with so many."""

_EVERYDAY = frozenset(analyze("I user assistant system tool summary"))
"""Words of labels, which are in any source."""
_UNSPACED = re.compile(f"[{UNSPACED}]")
_NAME = re.compile(r"(?<=[\w,;] )[^\W\d_]\w+")
"""A word within a sentence. It is a name if it begins with a capital."""
_WORD = re.compile(r"[^\W\d_]\w+")
_PART = re.compile(r"\w{3,}|\d+")

_FENCED = re.compile(r"\s*(?:```|~~~)[\w+-]*[^\S\n]*\n(.*?)\n?(?:```|~~~)\s*", re.DOTALL)
_MAX_CALL_CHARS = 4_000
_CALL = re.compile(
    r"\W*(?:<\w|\[TOOL_CALLS?\]|<\||(?:to=)?functions\.\w|call:\w+\{|\$ \w[^\n]*\Z"
    r"|(?:thought:[^\n]*\n+\s*)?action:|(?:bash|sh|zsh|cmd|powershell) -c\b"
    # A call alone: after its end there is no word.
    rf"|[A-Za-z_][\w.]{{0,60}}\((?:(?!\)\s\w).){{0,{_MAX_CALL_CHARS}}}\)[;`\s]*\Z)",
    re.IGNORECASE | re.DOTALL,
)

_AFTER_END = re.compile(r"[\s\"'`”’»」』)\]}*_|]*")
_ENTRY = re.compile(r"\s*(?:[-*•#|>]|\d{1,3}[.)]|[^\W\d_][\w ]{0,30}[:：])")
"""The beginning of a line that may be whole without a sign at its end:
an entry, a heading, a label.
"""
_NUMBERED = re.compile(r"(?<!\S)\d{1,3}\.\Z")
"""A number that may count the words after it."""
_HEADING = re.compile(r"#.*|.{1,80}[:：]\s*")
"""A line before one that may be whole without a sign at its end."""


def check_answer(
    text: str,
    source: str,
    *,
    stop_reason: str = "",
    free: bool = False,
) -> None:
    """Raise InvalidArgumentError, with the fault, for a text that is no summary of a source.

    Args:
        text: The answer of a model.
        source: The text that the model was asked to summarise.
        stop_reason: The reason why the model stopped, as its provider calls it.
        free: Whether the text may be in other words than its source, such as a translation. Then it
            names at least one fact of a source that has many.
    """
    if stop_reason.lower() in _DECLINED:
        raise InvalidArgumentError("it was declined or filtered")
    if not text:
        raise InvalidArgumentError("it was empty")
    if free:
        facts = {fact.text for fact in facts_in(source)}
        is_grounded = len(facts) < _MANY_FACTS or any(fact in text for fact in facts)
    else:
        _check_prose(text)
        is_grounded = _is_grounded(text, source)
    if not is_grounded:
        raise InvalidArgumentError(
            "it says too little of the conversation; write the summary itself, in the words, names "
            "and numbers that were used"
        )


def _check_prose(text: str) -> None:
    """Raise InvalidArgumentError for a call or another text for a machine."""
    fenced = _FENCED.fullmatch(text)
    unwrapped = fenced[1] if fenced else text
    if _CALL.match(unwrapped) or _is_json(unwrapped):
        raise InvalidArgumentError(
            "it was the text of a call; answer with the summary as plain text"
        )


def _is_json(text: str) -> bool:
    """Return whether a text is a JSON object or list."""
    if text.strip()[:1] not in ("{", "["):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _is_grounded(text: str, source: str) -> bool:
    """Return whether a text says enough of its source, and little else."""
    of_source = frozenset(analyze(source)) - _EVERYDAY
    words = _words(text)
    shared = sum(not of_source.isdisjoint(word) for word in words)
    size = len(of_source)
    least = min(_MOST_WORDS, max(_LEAST_WORDS, isqrt(size) // 3), size // 2)
    if shared < least or not words:
        return False
    if size == 0:
        return True  # nothing can be shared
    names = _names_shared(text, source) - _foreign_facts(text, source)
    share = _UNSPACED_SHARE if _UNSPACED.search(text) else _SHARE
    return share * (shared + names) > len(words) or names >= _NAMES_OF_ANY_LANGUAGE


def _words(text: str) -> set[frozenset[str]]:
    """Return the words of a text, each as its terms. An identifier with several parts is one word.

    In scripts without spaces each term is a word.
    """
    found: set[frozenset[str]] = set()
    for chunk in words_of(text):
        terms = frozenset(analyze(chunk)) - _EVERYDAY
        if _UNSPACED.search(chunk):
            found.update(frozenset((term,)) for term in terms)
        elif terms:
            found.add(terms)
    return found


def _names_shared(text: str, source: str) -> int:
    """Return the number of names, numbers and other facts of a text that its source has, too."""
    names = {name for name in _NAME.findall(source) if name[0].isupper()}
    shared = {name.casefold() for name in names.intersection(_WORD.findall(text))}
    for fact in facts_in(text):
        if fact.text in source:
            shared.add(fact.text.casefold())
    return sum(not _EVERYDAY.issuperset(analyze(name)) for name in shared)


def _foreign_facts(text: str, source: str) -> int:
    """Return the number of facts of a text of which no part is in its source."""
    folded = source.casefold()
    foreign = set()
    for fact in facts_in(text):
        name = fact.text.casefold()
        if not any(part in folded for part in (name, *_PART.findall(name))):
            foreign.add(name)
    return len(foreign)


def whole_part(text: str, *, stop_reason: str = "") -> str:
    """Return a text up to its last whole sentence or line: the text itself if it is finished.

    A text is finished if a sentence ends where it ends. If the model did not stop at its limit, it
    is also finished if it ends with an entry of a list, a number or a closing sign, or if the model
    says that it has finished.

    >>> whole_part("They met. They agreed on the")
    'They met.'
    """
    ends = [end for end in sentence_ends(text) if not _is_number_of(text, end)]
    last = ends[-1] if ends else 0
    if _AFTER_END.fullmatch(text, last) or stop_reason.lower() in _FINISHED:
        return text
    whole = text[:last].rstrip()
    is_headed = _HEADING.fullmatch(whole.rpartition("\n")[2]) is not None
    is_cut = stop_reason.lower() in _CUT or not (is_headed or _may_end(text[last:]))
    return whole if is_cut else text


def _is_number_of(text: str, end: int) -> bool:
    """Return whether the point at an end belongs to a number before other words.

    It is the number of an entry, as in `2. Book a train`, or of a day, as in `am 6. Oktober`.
    """
    if not text[end:].strip():
        return False
    return _NUMBERED.search(text, max(0, end - 5), end) is not None


def _may_end(line: str) -> bool:
    """Return whether a line without a sentence's end may be the last one of a finished text."""
    if line.count("(") > line.count(")"):
        return False
    end = line.rstrip()[-1:]
    return _ENTRY.match(line) is not None or end.isdigit() or _AFTER_END.fullmatch(end) is not None
