"""Quotes: where the words of a quote stand in a message, and whether they are its speaker's own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from kaosmem.language.marks import UNSPACED, WORD
from kaosmem.language.rules import expanded, fence_free
from kaosmem.language.sentences import sentences_in
from kaosmem.language.tables import toml_table
from kaosmem.memos import memoized
from kaosmem.types.items import Item

_MAX_SENTENCE_CHARS = 4_000
"""A sentence begins at most so far before a quote, so that no change reads all of a long text."""
_LEAST_QUOTE_WORDS = 2
_SPACES = re.compile(r"\s+")
_QUOTES = str.maketrans("‘’“”„«»", '\'\'"""""')
_LETTER_BEGINS = (
    r"Dear|Hello|Hi|Hallo|Liebe[rs]?|Sehr geehrte[rs]?|Bonjour|Ch(?:er|ère)s?|Hola|Estimad[oa]s?"
)
_FORWARDED = re.compile(
    r"^(?:From|Von|De): \S.*\Z|^-{2,} ?(?:Forwarded|Original) .*\Z|^On [^\n]{5,80} wrote:.*\Z|"
    rf"(?<=\n)(?:{_LETTER_BEGINS})\b[^\n]{{0,60}},[ \t]*\n.*\Z",
    re.DOTALL | re.MULTILINE,
)
"""A mail or a letter that the speaker passes on. One that begins the message is the speaker's."""
_QUOTED = re.compile(
    r"""(?:(?<=[\s(])|^)["“„«]\s?(?:[^"“”„«»\s]++[ \t]++){2,}+[^"“”„«»\n]*+["“”»]|「[^」\n]{4,}」""",
    re.MULTILINE,
)
"""Words of somebody, three or more. A quoted name or prefix belongs to its sentence.

Each part of the pattern takes all that it can, so that the time is linear.
"""
TEXTS_AT_ONCE = 16
"""The changes of one message ask the same of its text. It is read once for all of them."""


@cache
def patterns(name: str) -> Mapping[str, re.Pattern[str]]:
    """Return the patterns of a file in `kaosmem/formation/patterns`, by name, in their order.

    Letters of both cases match, and `^` and `$` match at lines. A line break in a pattern, with the
    spaces after it, does not count.
    """
    table = toml_table("patterns", f"{name}.toml", package="kaosmem.formation")
    flags = re.IGNORECASE | re.MULTILINE
    return {key: re.compile(expanded(pattern, {}), flags) for key, pattern in table.items()}


_WORDS = patterns("statements")


@memoized(TEXTS_AT_ONCE)
def normalized_text(text: str) -> str:
    """Return a text with single spaces, in lower case and with plain quotation marks.

    >>> normalized_text("She  said “Yes”")
    'she said "yes"'
    """
    return _SPACES.sub(" ", text.translate(_QUOTES)).strip().casefold()


def has_words(quote: str) -> bool:
    """Return whether a quote has two words. Two characters of a script without spaces are one."""
    words = WORD.findall(quote)
    unspaced = UNSPACED.findall(quote)
    return len(words) - len(unspaced) // 2 >= _LEAST_QUOTE_WORDS


@memoized(TEXTS_AT_ONCE)
def own_words(text: str) -> str:
    r"""Return the speaker's own words: no quoted lines, code, mails and texts to work on.

    >>> own_words("Please answer:\n> I live in Rome.\nFrom: Bob\nI live in Bonn.").strip()
    'Please answer:'
    """
    return _WORDS["material"].sub("", _FORWARDED.sub("", fence_free(text)))


def unquoted(text: str) -> str:
    """Return a text with a mark of code in place of each sentence in quotation marks.

    The words beside it say something about the quotation.
    """
    return _QUOTED.sub(" ```\n", text)


def is_passed_on(quote: str, text: str) -> bool:
    """Return whether a quote stands only in words that its speaker passes on."""
    return quote not in normalized_text(own_words(text)) or any(
        quote in each for each in _passed_on(text)
    )


@memoized(TEXTS_AT_ONCE)
def _passed_on(text: str) -> Sequence[str]:
    """Return the plain sentences in quotation marks among the speaker's own words."""
    return [*map(normalized_text, _QUOTED.findall(own_words(text)))]


def clause_of(quote: str, text: str) -> str:
    """Return the clause of a text around a quote. Both are plain (see `normalized_text`).

    >>> clause_of("like tea", "i have time. i don't like tea, but coffee.")
    "i don't like tea,"
    """
    begin = text.find(quote)
    clause_end = _WORDS["clause_end"]
    head = clause_end.split(text_before(text, begin))[-1]
    stop = clause_end.search(text, begin + len(quote) - 1)
    if stop is None:
        return (head + text[begin:]).strip()
    return (head + text[begin : stop.end()]).strip()


def text_before(text: str, end: int) -> str:
    """Return what stands before a place in a text, as far back as a sentence may begin."""
    return text[max(0, end - _MAX_SENTENCE_CHARS) : end]


def is_asked_for(quote: str, text: str) -> bool:
    """Return whether a text asks to remember the sentence that a quote stands in.

    >>> text = "I live in Oslo. I prefer tea. Remember that. Keep in mind that I am vegan."
    >>> [is_asked_for(part, text) for part in ("I live in Oslo", "I prefer tea", "I am vegan")]
    [False, True, True]
    """
    wanted = normalized_text(quote)
    sentences = [normalized_text(sentence) for sentence in sentences_in(text) if sentence.strip()]
    asked = []
    for place, sentence in enumerate(sentences):
        found = _WORDS["asked"].search(sentence)
        if found is None:
            continue
        # If it names nothing, such as "Remember this:", it means the sentences beside it.
        beside = 0 if sentence[found.end() :].strip(" .!:;…。！") else 1
        asked += sentences[max(0, place - beside) : place + beside + 1]
    return any(wanted in each for each in asked)


def is_quoted_in(fact: Item, messages: Iterable[Item]) -> bool:
    """Return whether a message still has the quote that a fact was formed from."""
    quote = normalized_text(str(fact.metadata.get("quote", "")))
    return any(quote in normalized_text(message.text) for message in messages)
