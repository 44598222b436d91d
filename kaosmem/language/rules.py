"""Standing rules in users' words.

Such a sentence, for example "always answer in French", holds until the user ends it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property, lru_cache
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple

from kaosmem.language.rule_cues import NO_RULES, PLAIN_CUES, POLITE_QUESTIONS, SPOKEN_CUES
from kaosmem.language.sentences import sentence_ends
from kaosmem.types.content import TextBlock, Trust
from kaosmem.types.items import ChatMessage

MAX_RULE_CHARS = 400
"""A longer sentence is not a rule. It is code or data."""

RULE_CUES: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        language: (*PLAIN_CUES.get(language, ()), *SPOKEN_CUES.get(language, ()))
        for language in dict.fromkeys((*PLAIN_CUES, *SPOKEN_CUES))
    }
)
"""Patterns of rules by language, as regular expressions that ignore case.

A sentence of a user that matches one is a rule.
Bullets, numbers and marks of Markdown before and in a sentence are left out first.
`Summarizer(rule_cues={**RULE_CUES, "sv": (r"^(?:alltid|aldrig) ",)})` adds a language.
"""

# A search for these takes a tenth of the patterns' time. Each rule of PLAIN_CUES in Latin letters
# has one of them.
_HINTS = (
    r"always|never|do not|don['\u2019]t|please|you to |forward|henceforth|from (?:now|here|this "
    r"point|"
    r"today)|future"
    r"|i ask|no circumstances|(?:every|each) time|whenever you|ab (?:jetzt|sofort)|von "
    r"(?:jetzt|nun)|"
    r"in zukunft"
    r"|k\u00fcnftig|bitte|immer|nie|dor\u00e9navant|d\u00e9sormais|l['\u2019]avenir|de maintenant|"
    r"toujours|jamais"
    r"|merci de|s['\u2019]il |ahora|adelante|lo sucesivo|siempre|nunca|jam\u00e1s|por favor"
)
_HINT = re.compile(_HINTS)
_LATIN = re.compile(r"[\x00-\u024f\u2000-\u22ff]*")
_FENCED = re.compile(r"```.*?(?:```|\Z)|^[ \t]*>.*$", re.DOTALL | re.MULTILINE)
_OTHER_LETTERS = ("ru", "el", "ar", "hi", "zh", "ja")
"""Languages whose patterns match no text in Latin letters."""
_QUESTION_ENDS = ("?", "\uff1f", "\u061f")
_POLITE = re.compile("|".join(POLITE_QUESTIONS), re.IGNORECASE)
_MARKDOWN = re.compile(r"[*_`]{1,3}|^[\s#>]+")
_TOKEN = re.compile(r"\\.|[\[\]()|]", re.DOTALL)
_BULLET = re.compile(
    r"^\s*(?:[-–—*+•·▪◦‣→☐✓✗✅❌⚠🚫\ufe0f]+|\(?(?:\d{1,2}|[a-z])[.)]|\[\d{1,2}\])\s*(?:\[[ "
    r"xX]?\]\s*)?"
)
_NUMBER = re.compile(r"\(?\d{1,2}[.)]")
_COURTESY = re.compile(
    r"^(?:(?:and|but|also|so|then|ok(?:ay)?|please|again|kindly|just|hey|listen|oh|btw|by the way|"
    r"for the record|as agreed|as i said|and remember|one more thing|und|aber|außerdem|"
    r"bitte|also|übrigens|noch etwas|wie gesagt|wie besprochen|et|mais|au passage|comme convenu|"
    r"aussi|ah|au fait|y|pero|también|además|por favor|"
    r"s['’]il (?:te|vous) pla[iî]t|por cierto|como acordamos|como dije)\b[,:]?\s+|(?:请|另外|还有|"
    r"对了|而且)[，,：]?|"
    r"(?:また|そして|あと|それから|なお)[、,])+",
    re.IGNORECASE,
)
# A label in capitals, or one that asks for attention.
_LABEL = re.compile(
    r"^(?:(?-i:[A-ZÀ-Ý]{3,}(?: [A-ZÀ-Ý]{2,}){0,2})|important|note|warning|reminder|remember|"
    r"security|"
    r"style|language|format(?:ting)?|testing|tone|privacy|wichtig|merke?|denk daran|hinweis|stil|"
    r"sprache|rappel|sécurité|style|langue|importante|recuerda|seguridad|idioma|estilo|"
    r"[\u4e00-\u9fff]{2,4}|[\u3040-\u9fff]{2,6})\s*[:：]\s*(?=\S)",
    re.IGNORECASE,
)
_HEADING = re.compile(
    r"^(?:[\w-]+ ){0,3}(?:rules?|guidelines?|constraints?|regeln|\w+regeln|vorgaben|règles|"
    r"consignes|"
    r"reglas|normas)"
    r"(?: [\w-]+){0,3}\s*:?$|^[^，。、]{0,6}(?:规则|规定|要求|守则|ルール|規則|注意事項)\s*[:：]?$",
    re.IGNORECASE,
)


def rules_in(text: str, cues: Mapping[str, Sequence[str]] = RULE_CUES) -> Iterator[str]:
    r"""Yield the standing rules of a user's text in order.

    Questions, quoted lines and code hold none. Each item of a list under a heading such as "Rules:"
    is a rule.

    >>> list(rules_in("Thanks! From now on answer in French. What is the plan?"))
    ['From now on answer in French.']
    >>> list(rules_in("## Rules\n- English alone\n- short answers"))
    ['- English alone', '- short answers']
    """
    is_plain = cues is PLAIN_CUES
    if is_plain and not _is_hinted(text):
        return
    recogniser = _plain_recogniser() if is_plain else _recogniser(_key(cues))
    is_listed = False
    for sentence, begins_line in _sentences(_fence_free(text)):
        is_item = _BULLET.match(sentence) is not None
        if begins_line and not is_item:
            is_listed = False
        plain = _plain(sentence)
        if not is_plain and _HEADING.match(plain):
            is_listed = True
        elif len(sentence) > MAX_RULE_CHARS:
            continue
        elif sentence.endswith(_QUESTION_ENDS):
            if not is_plain and _POLITE.match(plain):
                yield sentence
        elif (is_listed and is_item) or recogniser.is_rule(sentence, plain):
            yield sentence


def rules_of(message: ChatMessage, cues: Mapping[str, Sequence[str]] = RULE_CUES) -> Iterator[str]:
    """Yield the standing rules of a message.

    Only a user whom the application trusts can set one.
    """
    if message.role == "user" and message.authority >= Trust.USER:
        for block in message.blocks:
            if isinstance(block, TextBlock):
                yield from rules_in(block.text, cues)


def _key(cues: Mapping[str, Sequence[str]]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return tuple((language, tuple(patterns)) for language, patterns in cues.items())


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
    return _MARKDOWN.sub("", _BULLET.sub("", _MARKDOWN.sub("", sentence))).strip()


def _is_hinted(text: str) -> bool:
    return _HINT.search(text.casefold()) is not None or not _LATIN.fullmatch(text)


def _fence_free(text: str) -> str:
    return _FENCED.sub("\n", text) if "```" in text or ">" in text else text


class _Cues(NamedTuple):
    """Patterns at the beginning of a sentence, and patterns anywhere in it."""

    beginning: re.Pattern[str]
    anywhere: re.Pattern[str]

    def match(self, sentence: str) -> bool:
        return bool(self.beginning.match(sentence) or self.anywhere.search(sentence))


class _Language:
    """The patterns of a language, which are compiled when a text may need them first."""

    def __init__(self, name: str, patterns: Sequence[str]) -> None:
        self._patterns = patterns
        self._exceptions = NO_RULES.get(name, ())
        self.has_latin_letters = name not in _OTHER_LETTERS

    @cached_property
    def cues(self) -> _Cues:
        """The patterns of rules."""
        return _compiled(self._patterns)

    @cached_property
    def exceptions(self) -> _Cues:
        """The patterns of sentences that only look like rules."""
        return _compiled(self._exceptions)


class _PlainRecogniser:
    """Recognises rules in any text, by the patterns of all languages in one."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._cues = _compiled(patterns)

    def is_rule(self, sentence: str, plain: str) -> bool:
        """Return whether a sentence is a rule as it is written, or without its marks."""
        return _is_hinted(sentence) and any(map(self._cues.match, dict.fromkeys((sentence, plain))))


class _Recogniser:
    """Recognises rules in a user's own words, language by language."""

    def __init__(self, languages: Iterable[tuple[str, Sequence[str]]]) -> None:
        self._languages = [_Language(name, patterns) for name, patterns in languages]

    def is_rule(self, sentence: str, plain: str) -> bool:
        """Return whether a sentence is a rule without its marks, polite words or label."""
        bare = _COURTESY.sub("", plain)
        return any(map(self._holds, dict.fromkeys((plain, bare, _LABEL.sub("", bare)))))

    def _holds(self, sentence: str) -> bool:
        is_latin = _LATIN.fullmatch(sentence) is not None
        return any(
            language.cues.match(sentence) and not language.exceptions.match(sentence)
            for language in self._languages
            if language.has_latin_letters or not is_latin
        )


@lru_cache(maxsize=16)
def _recogniser(languages: tuple[tuple[str, tuple[str, ...]], ...]) -> _Recogniser:
    return _Recogniser(languages)


@cache
def _plain_recogniser() -> _PlainRecogniser:
    return _PlainRecogniser(chain.from_iterable(PLAIN_CUES.values()))


def _compiled(cues: Iterable[str]) -> _Cues:
    parts = list(chain.from_iterable(map(_alternatives, cues)))
    beginning = [part for part in parts if part.startswith("^")]
    anywhere = [part for part in parts if not part.startswith("^")]
    return _Cues(_joined(beginning), _joined(anywhere))


def _joined(parts: Sequence[str]) -> re.Pattern[str]:
    # Without any part, a pattern that matches nothing.
    return re.compile("|".join(f"(?:{part})" for part in parts) or r"(?!)", re.IGNORECASE)


def _alternatives(cue: str) -> Iterator[str]:
    """Yield the alternatives of a pattern outside of its groups and classes."""
    begin = depth = 0
    in_class = False
    for token in _TOKEN.finditer(cue):
        sign = token[0]
        if sign == "]":
            in_class = False
        elif in_class or sign.startswith("\\"):
            continue
        elif sign == "[":
            in_class = True
        elif sign == "|" and depth == 0:
            yield cue[begin : token.start()]
            begin = token.end()
        else:
            depth += {"(": 1, ")": -1}.get(sign, 0)
    yield cue[begin:]
