"""Standing rules in users' words.

Such a sentence, for example "always answer in French", holds until the user ends it.

The patterns of a language stand in `rule_patterns/LANGUAGE.toml`, as regular expressions that
ignore case. A file has these lists:

- `plain`: a sentence that matches one is a rule in any text, documents included. Ranking looks for
  these alone.
- `spoken`: a sentence that matches one is a rule in a user's own message.
- `polite_questions`: beginnings of questions that ask for the same act each time.
- `exceptions`: a sentence that matches one is no rule in spite of `spoken`. It tells of others, of
  the past or of the speaker, it supposes something, it comforts, or it asks for one act now.
- `courtesies`, `labels`: words before a rule, such as "please" and "Important:".
- `headings`: lines such as "Rules:", after which each item of a list is a rule.
- `parts`: pieces that patterns name in braces, such as the verbs of an assistant's work.

A pattern that begins with `^` is tried at the beginning of a sentence alone: write each alternative
as a pattern of its own.
In a string of several lines, line breaks and the spaces at the beginning of a line do not count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property
from typing import Any, NamedTuple

from kaosmem.language.sentences import sentence_ends
from kaosmem.language.tables import tables_by_language
from kaosmem.types.content import TextBlock, Trust
from kaosmem.types.items import ChatMessage

MAX_RULE_CHARS = 400
"""A longer sentence is not a rule. It is code or data."""

# A search for these takes a tenth of the patterns' time. Each plain rule in Latin letters has one
# of them.
_HINTS = (
    r"always|never|do not|don['\u2019]t|please|you to |forward|henceforth|future|i ask",
    r"from (?:now|here|this point|today)|no circumstances|(?:every|each) time|whenever you",
    r"ab (?:jetzt|sofort)|von (?:jetzt|nun)|in zukunft|k\u00fcnftig|bitte|immer|nie",
    r"dor\u00e9navant|d\u00e9sormais|l['\u2019]avenir|de maintenant|toujours|jamais|merci de|s['\u2019]il ",
    r"ahora|adelante|lo sucesivo|siempre|nunca|jam\u00e1s|por favor",
)
_HINT = re.compile("|".join(_HINTS))
_LATIN = re.compile(r"[\x00-\u024f\u2000-\u22ff]*")
_FENCED = re.compile(r"```.*?(?:```|\Z)|^[ \t]*>.*$", re.DOTALL | re.MULTILINE)
_OTHER_LETTERS = ("ru", "el", "ar", "hi", "zh", "ja")
"""Languages whose patterns match no text in Latin letters."""
_QUESTION_ENDS = ("?", "\uff1f", "\u061f")
_MARKDOWN = re.compile(r"[*_`]{1,3}|^[\s#>]+")
_LINE_BREAK = re.compile(r"(?:^|\n)\s*")
_PART = re.compile(r"\{([a-z_]+)\}")
_BULLET = re.compile(
    r"^\s*(?:[-–—*+•·▪◦‣→☐✓✗✅❌⚠🚫\ufe0f]+|\(?(?:\d{1,2}|[a-z])[.)]|\[\d{1,2}\])\s*"
    r"(?:\[[ xX]?\]\s*)?"
)
_NUMBER = re.compile(r"\(?\d{1,2}[.)]")
_CAPITALS = r"(?-i:[A-ZÀ-Ý]{3,}(?: [A-ZÀ-Ý]{2,}){0,2})"
_SHARED_PARTS = {
    "number": r"(?:\s*(?:no\.?|nr\.?|n°|núm\.?|#)?\s*\d+)?",
    "colon": r"{number}\s*[:：–—]\s*",
}
"""The parts that the files of all languages may name."""


def rules_in(text: str) -> Iterator[str]:
    r"""Yield the standing rules of a user's text in order.

    Questions, quoted lines and code hold none. Each item of a list under a heading such as "Rules:"
    is a rule.

    >>> list(rules_in("Thanks! From now on answer in French. What is the plan?"))
    ['From now on answer in French.']
    >>> list(rules_in("## Rules\n- English alone\n- short answers"))
    ['- English alone', '- short answers']
    """
    is_listed = False
    for sentence, begins_line in _sentences(fence_free(text)):
        is_item = _BULLET.match(sentence) is not None
        if begins_line and not is_item:
            is_listed = False
        plain = _plain(sentence)
        if _headings().match(plain):
            is_listed = True
        elif len(sentence) > MAX_RULE_CHARS:
            continue
        elif sentence.endswith(_QUESTION_ENDS):
            if _polite_questions().match(plain):
                yield sentence
        elif (is_listed and is_item) or _is_rule(plain):
            yield sentence


def plain_rules_in(text: str) -> Iterator[str]:
    """Yield the sentences of any text that state a rule plainly, in order.

    >>> list(plain_rules_in("We met. Never commit to main."))
    ['Never commit to main.']
    """
    if not _is_hinted(text):
        return
    rules = _plain_rules()
    for sentence, _ in _sentences(fence_free(text)):
        if len(sentence) > MAX_RULE_CHARS or sentence.endswith(_QUESTION_ENDS):
            continue
        if _is_hinted(sentence) and (rules.match(sentence) or rules.match(_plain(sentence))):
            yield sentence


def rules_of(message: ChatMessage) -> Iterator[str]:
    """Yield the standing rules of a message.

    Only a user whom the application trusts can set one.
    """
    if message.role == "user" and message.authority >= Trust.USER:
        for block in message.blocks:
            if isinstance(block, TextBlock):
                yield from rules_in(block.text)


def _sentences(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the sentences of a text, and whether each begins a line.

    The number of a list belongs to the sentence after it.
    """
    begin = 0
    for end in (*sentence_ends(text), len(text)):
        sentence = text[begin:end].strip()
        if _NUMBER.fullmatch(sentence):
            continue
        begins_line = text[begin - 1 : begin] == "\n"
        begin = end
        if sentence:
            yield sentence, begins_line


def _plain(sentence: str) -> str:
    """Return a sentence without its bullet, its number and its marks of Markdown."""
    # The marks `#` and `>` may stand before a bullet, and after it.
    bare = _MARKDOWN.sub("", sentence)
    bare = _BULLET.sub("", bare)
    return _MARKDOWN.sub("", bare).strip()


def _is_hinted(text: str) -> bool:
    return _HINT.search(text.casefold()) is not None or not _LATIN.fullmatch(text)


def fence_free(text: str) -> str:
    """Return a text without its code and quoted lines."""
    if "```" in text or ">" in text:
        return _FENCED.sub("\n", text)
    return text


class _Matcher(NamedTuple):
    """Patterns at the beginning of a sentence, and patterns anywhere in it."""

    beginning: re.Pattern[str]
    anywhere: re.Pattern[str]

    def match(self, sentence: str) -> bool:
        return bool(self.beginning.match(sentence) or self.anywhere.search(sentence))


class _Language:
    """The patterns of a language, which are compiled when a text may need them first."""

    def __init__(self, name: str, patterns: Mapping[str, Sequence[str]]) -> None:
        self.patterns = patterns
        self.has_latin_letters = name not in _OTHER_LETTERS

    @cached_property
    def rules(self) -> _Matcher:
        """The patterns of rules in a user's own message."""
        return _matcher([*self.patterns.get("plain", ()), *self.patterns.get("spoken", ())])

    @cached_property
    def exceptions(self) -> _Matcher:
        """The patterns of sentences that only look like rules."""
        return _matcher(self.patterns.get("exceptions", ()))


def _is_rule(plain: str) -> bool:
    """Return whether a sentence is a rule without its marks, polite words or label."""
    bare = _courtesies().sub("", plain)
    unlabelled = _labels().sub("", bare)
    return any(map(_holds, dict.fromkeys((plain, bare, unlabelled))))


def _holds(sentence: str) -> bool:
    is_latin = _LATIN.fullmatch(sentence) is not None
    for language in _languages().values():
        if is_latin and not language.has_latin_letters:
            continue
        if language.rules.match(sentence) and not language.exceptions.match(sentence):
            return True
    return False


@cache
def _languages() -> dict[str, _Language]:
    languages = {}
    for name, patterns in tables_by_language("rule_patterns").items():
        languages[name] = _Language(name, _expanded(patterns))
    return languages


def _expanded(found: dict[str, Any]) -> dict[str, list[str]]:
    """Return the lists of a file, with the parts in place of their names."""
    parts = found.pop("parts", {}) | _SHARED_PARTS
    lists = {}
    for name, patterns in found.items():
        lists[name] = [expanded(pattern, parts) for pattern in patterns]
    return lists


def expanded(pattern: str, parts: Mapping[str, str]) -> str:
    """Return a pattern without its line breaks, and with parts in place of their names in braces.

    Raises LookupError and RecursionError for parts that cannot be put in.
    """
    unbroken = _LINE_BREAK.sub("", pattern)
    return _PART.sub(lambda name: expanded(parts[name[1]], parts), unbroken)


def _all(name: str) -> list[str]:
    """Return the patterns of one list in all languages."""
    return [each for one in _languages().values() for each in one.patterns.get(name, ())]


@cache
def _headings() -> re.Pattern[str]:
    return _joined(_all("headings"))


@cache
def _polite_questions() -> re.Pattern[str]:
    return _joined(_all("polite_questions"))


@cache
def _courtesies() -> re.Pattern[str]:
    return re.compile(rf"^(?:{'|'.join(_all('courtesies'))})+", re.IGNORECASE)


@cache
def _labels() -> re.Pattern[str]:
    labels = "|".join([_CAPITALS, *_all("labels")])
    return re.compile(rf"^(?:{labels})\s*[:：]\s*(?=\S)", re.IGNORECASE)


@cache
def _plain_rules() -> _Matcher:
    return _matcher(_all("plain"))


def _matcher(patterns: Sequence[str]) -> _Matcher:
    beginning = [each for each in patterns if each.startswith("^")]
    anywhere = [each for each in patterns if not each.startswith("^")]
    return _Matcher(_joined(beginning), _joined(anywhere))


def _joined(patterns: Sequence[str]) -> re.Pattern[str]:
    # Without any pattern, one that matches nothing.
    alternatives = "|".join(f"(?:{each})" for each in patterns)
    return re.compile(alternatives or r"(?!)", re.IGNORECASE)  # without any, nothing matches
