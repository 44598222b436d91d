"""Standing rules in users' words: sentences such as "always answer in French", which hold until the user ends them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from types import MappingProxyType

from kaosmem.language.sentences import sentence_ends
from kaosmem.types import ChatMessage, TextBlock, Trust

MAX_RULE_CHARS = 400
"""A longer sentence is not a rule. It is code or data."""

_NOT_A_REQUEST = (
    r"(?!been|being|be\b|a\b|an\b|the\b|so\b|too\b|in\b|on\b|up\b|here|there|happy|glad|good|great|nice|fun|mind|had|"
    r"heard|saw|seen|knew|got|gave|thought|really|even|again|ready|loved?\b|my\b|your\b|his\b|her\b|their\b|our\b|"
    r"say\b|know\b|give up|stop\b|feel|and\b|or\b|for\b|to\b|get\b|wanted|is\b|was\b|knows?\b|more\b|less\b|"
    r"[a-z]+(?:ing|ed)\b)[a-z]"
)
_NOT_A_BAN = (
    r"(?!worry|forget|give|know|think|be\b|let\b|miss|sweat|hesitate|stress|feel|lose|stop|want|need|have|see|like|"
    r"understand|remember|get|you|we\b|they\b|i\b|mention it|mind|care|believe|take|sell|panic|tell|hate|ask|even|just|"
    r"waste|delay|wait|muck|make me|make it)"
    r"[a-z]"
)
_LEAD = (
    r"^(?:[-*•]\s*|\d+[.)]\s*)?(?:(?:and|but|also|so|then|ok(?:ay)?|please|again|first(?:ly)?|second(?:ly)?|finally|"
    r"additionally|remember|note|rule|important)\b[,:]?\s+){0,3}"
)

RULE_CUES: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "en": (
            rf"{_LEAD}(?:always|never) {_NOT_A_REQUEST}",
            rf"{_LEAD}(?:do not|don['’]t) {_NOT_A_BAN}",
            r"\b(?:must|should|shall|have to|need to|please|remember to|sure (?:to|you|that you)) (?:always|never)\b",
            r"\b(?:want|need|like|expect|ask|prefer) (?:that )?you (?:to )?(?:always|never)\b",
            r"\b(?:i['’]d like|i would like|i want|i need) you to (?:start|stop|keep|avoid|use|follow|end|begin|"
            r"include|add|import|continue|get into the habit)\b",
            r"\bfrom (?:now|here|this point|today) on(?:wards?)?\b|\bhenceforth\b|\bunder no circumstances\b",
            r"(?:^|[,;:] |\b(?:and|so|but) )(?:going|moving) forward,? (?!i(?:['’]m| am| think| hope)|we['’]re|with\b)",
            r"(?<!\bto )\b(?:going|moving) forward[.!]?$",
            r"(?:^|[,;:] )in (?:the )?future,? (?:please|always|never|do|don['’]t|use|you)\b",
            r"\bplease,? (?:use|avoid|stick to|refrain|only|stop)\b",
            rf"\bplease,? (?:do not|don['’]t) {_NOT_A_BAN}",
            r"\b(?:don['’]t|do not|never) ever (?!been|had|seen|heard)",
            r"\bwhen(?:ever)? i ask\b",
            r"^(?:whenever|every time|each time) you\b.*, (?:please|always|never|use|add|include|i['’]d|i want)\b",
        ),
        "de": (
            r"\bab (?:jetzt|sofort)\b|\bvon (?:jetzt|nun) an\b|\bin zukunft\b|\b(?:zu)?künftig\b",
            r"\bbitte (?:verwende|benutze|nutze|immer|nie|niemals|keine?)\w*",
            r"^(?:bitte )?\w+(?:e|en sie)? (?:bitte )?(?:immer|niemals|nie)\b(?! (?:gern|wieder|da|so)\b)",
            r"^(?:immer|niemals|nie) (?:\w+ ){0,6}\w+en[.!]?$",
        ),
        "fr": (
            r"\b(?:dorénavant|désormais)\b|\bà l['’]avenir\b|\bà partir de maintenant\b",
            r"^(?:s['’]il (?:te|vous) pla[iî]t,? )?\w{2,}(?:e|s|z) toujours\b|^n(?:e |['’])\w+ jamais\b",
            r"\bmerci de (?:toujours|ne (?:jamais|pas))\b|\bs['’]il (?:te|vous) pla[iî]t,? (?:(?:n['’])?utilis|évite)",
        ),
        "es": (
            r"\b(?:de|desde|a partir de) ahora(?: en adelante)?\b|\ben (?:adelante|lo sucesivo)\b",
            r"^(?:por favor,? )?(?:siempre|nunca|jamás) (?!me\b|te\b|se\b|he\b|es\b|lo\b|la\b|fue|hay|que\b|estoy)\w+",
            r"\bpor favor,? (?:usa|use|utiliza|utilice|evita|evite|no)\b",
        ),
        "ru": (
            r"\b(?:впредь|отныне)\b|\bс этого момента\b|\bв дальнейшем\b|\bни в коем случае\b",
            r"\b(?:всегда|никогда не) \w+(?:й|йте|и|ите|ь|ьте)\b|^\w+(?:й|йте|и|ите|ь|ьте) всегда\b",
            r"\bпожалуйста,? (?:использу|не \w+(?:й|и|ь)(?:те)?\b)",
        ),
        "el": (
            r"\bαπό (?:εδώ|δω|τώρα) και (?:πέρα|εμπρός|στο εξής)\b|\bστο εξής\b",
            r"^(?:παρακαλώ,? )?(?:να )?(?:πάντα|ποτέ μην?)\b|^\w+ πάντα\b|^μην? \w+ ποτέ\b",
            r"\bπαρακαλώ,? (?:χρησιμοποί|μην?\b)",
        ),
        "ar": (
            r"من الآن فصاعد|ابتداء\w* من الآن|بعد الآن",
            r"^(?:\w+ ){0,2}دائم|^لا ت\w+ (?:\w+ ){0,6}أبد|(?:يجب|الرجاء|رجاء|من فضلك).*(?:دائم|أبد)",
            r"(?:الرجاء|رجاءً?|من فضلك)،? (?:استخد|لا ت|عدم)",
        ),
        "hi": (
            r"(?:अब|आगे|आज) से",
            r"हमेशा .*(?:करें|करो|करना|कीजिए|रखें|रखो|दें|दो|लिखें|लिखो)",
            r"कभी (?:भी )?.*(?:मत|न|ना) ",
            r"कृपया .*(?:उपयोग|इस्तेमाल|प्रयोग)",
        ),
    }
)
"""Patterns of rules by language, as regular expressions that ignore case. A sentence that matches one is a rule.

`Summarizer(rule_cues={**RULE_CUES, "sv": (r"^(?:alltid|aldrig) ",)})` adds a language.
"""

# A search for these takes a tenth of the patterns' time. Each rule of RULE_CUES in Latin letters has one of them.
_HINTS = (
    r"always|never|do not|don['\u2019]t|please|you to |forward|henceforth|from (?:now|here|this point|today)|future"
    r"|i ask|no circumstances|(?:every|each) time|whenever you|ab (?:jetzt|sofort)|von (?:jetzt|nun)|in zukunft"
    r"|k\u00fcnftig|bitte|immer|nie|dor\u00e9navant|d\u00e9sormais|l['\u2019]avenir|de maintenant|toujours|jamais"
    r"|merci de|s['\u2019]il |ahora|adelante|lo sucesivo|siempre|nunca|jam\u00e1s|por favor"
)
_HINT = re.compile(_HINTS)
_LATIN = re.compile(r"[\x00-\u024f\u2000-\u22ff]*")
_FENCED = re.compile(r"```.*?(?:```|\Z)|^[ \t]*>.*$", re.DOTALL | re.MULTILINE)
_QUESTION_ENDS = ("?", "\uff1f", "\u061f")


def rules_in(text: str, cues: Mapping[str, Sequence[str]] = RULE_CUES) -> Iterator[str]:
    """Yield the standing rules of a user's text in order. Questions, quoted lines and code hold none.

    >>> list(rules_in("Thanks! From now on answer in French. What is the plan?"))
    ['From now on answer in French.']
    """
    may_be_rule = _is_hinted if cues is RULE_CUES else bool
    if not may_be_rule(text):
        return
    pattern = _pattern(tuple(chain.from_iterable(cues.values())))
    begin = 0
    text = _fence_free(text)
    for end in (*sentence_ends(text), len(text)):
        sentence, begin = text[begin:end].strip(), end
        is_statement = len(sentence) <= MAX_RULE_CHARS and not sentence.endswith(_QUESTION_ENDS)
        if is_statement and may_be_rule(sentence) and pattern.search(sentence):
            yield sentence


def rules_of(message: ChatMessage, cues: Mapping[str, Sequence[str]] = RULE_CUES) -> Iterator[str]:
    """Yield the standing rules of a message: only a user whom the application trusts can set one."""
    if message.role == "user" and message.authority >= Trust.USER:
        for block in message.blocks:
            if isinstance(block, TextBlock):
                yield from rules_in(block.text, cues)


def _is_hinted(text: str) -> bool:
    return _HINT.search(text.casefold()) is not None or not _LATIN.fullmatch(text)


def _fence_free(text: str) -> str:
    return _FENCED.sub("\n", text) if "```" in text or ">" in text else text


@lru_cache(maxsize=16)
def _pattern(cues: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{cue})" for cue in cues), re.IGNORECASE)
