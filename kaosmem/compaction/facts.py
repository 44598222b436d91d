"""Facts that a summary must repeat verbatim: addresses, paths, identifiers and numbers, found in any text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kaosmem.arguments import check_text
from kaosmem.language.analysis import STOP_WORDS
from kaosmem.language.credentials import without_credentials
from kaosmem.language.scripts import UNSPACED
from kaosmem.types import ContentBlock, JSONValue, OpaqueBlock
from kaosmem.types.content import ImageBlock, TextBlock, ToolResultBlock, ToolUseBlock, block_text

RANK_OF_BARE_NUMBER = 4
"""The rank of a date or number without words about it."""
MAX_FACT_CHARS = 200
"""A longer text is data."""

_URL_BEGINS = "://", "www."
_URL = re.compile(
    r"(?:[A-Za-z][A-Za-z0-9+-]{1,20}://|(?<![\w@.-])www\.)[\w\[][^\s<>\"'`\\\u3000-\u303f\uff00-\uff65]+"
)
_LIST_MARKER = re.compile(r"^[ \t]*\d{1,3}[.)][ \t]", re.MULTILINE)
# Runs without white space, quotes, brackets and signs; commas and blanks that group digits belong
# to a number. Each is classified as a whole, so that a long run costs no more than its length.
_NOT_IN_RUN = (
    r"\s\"'`<>|(){}\[\];=*!?^&\\\u2010-\u205f\u00ab\u00bb\u3000-\u3004\u3008-\u303f\uff00-\uff0f\uff1a-\uff65"
    + UNSPACED
)
_GROUPING = "\u00a0\u2009\u202f"
# A backslash escapes in many texts: two begin a path where they name a host and its share.
_WINDOWS_PATH = rf"(?:[A-Za-z]:\\|(?<!\\)\\\\\w[\w.-]{{1,62}}\\(?=[\w$]))(?:[^,{_NOT_IN_RUN}]|\\)+"
_PLAIN = re.compile(rf"{_WINDOWS_PATH}|[^,{_NOT_IN_RUN}]+")
# A path with blanks is told by its quotes.
_RUN = re.compile(
    rf"(?<=[\"'`])(?:~?/|\.{{1,2}}/|[A-Za-z]:\\)[^\"'`\n]{{1,{MAX_FACT_CHARS}}}(?=[\"'`])"
    rf"|{_WINDOWS_PATH}|(?:[^,{_NOT_IN_RUN}]+|(?<=\d),(?=\d)|(?<=\d)[{_GROUPING}](?=\d{{3}}))+"
)

_PATH_BEGIN = re.compile(r"[./~]|\$[A-Z_]{2}|[A-Za-z]:\\")
_MONTH = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?|Oct(?:ober)?|"
    r"Nov(?:ember)?|Dec(?:ember)?)\.?"
)
_NUMBER = re.compile(
    rf"[-+~]?[A-Z]{{0,3}}[$€£¥]?\d[\d.,:/_{_GROUPING}-]*(?:[eE][-+]?\d+)?[%‰°]?[A-Za-zµ]{{0,4}}(?:/[A-Za-z]{{1,3}})?"
)
_DIGIT = re.compile(r"\d")
_IDENTIFIER = re.compile(
    r"(?=.*\d)(?=.*[^\W\d]).+"  # letters and digits
    r"|.*[^\W_]_+[^\W_].*"  # snake_case
    r"|.*[a-z][A-Z].*"  # camelCase
    r"|.*[^\W_]{2}[.@:]{1,2}[^\W_]{2}.*"  # app.py, example.com, someone@there, Class::method
    r"|.*[^\W_]@[^\W_].*|[@#.][^\W_].+|--[^\W_].+",
    re.DOTALL,
)
_WORDS_BEFORE = re.compile(
    r"(?<![\w.'’\\-])(?:[^\W\d][\w.'’-]{0,30}(?:[ *]{0,3}[:=|][ *]{0,3}|[ ]\**)){1,2}\Z"
)
_WORDS_AFTER = re.compile(r"([ *_`)|:–—-]{1,6})((?:[^\W\d_][\w'’-]{0,30}[ ]?){1,3})(?![\w.'’-])")
_WORD_AFTER = re.compile(r"[ ]([^\W\d_]{1,15})(?=[\s.,;:!?)]|\Z)")
_MAX_WORDS_CHARS = 48
_DATE = re.compile(
    rf"\b(?:{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?(?:,? \d{{4}})?|\d{{1,2}}(?:st|nd|rd|th)? (?:of "
    rf")?{_MONTH}(?:,? \d{{4}})?"
    rf"|{_MONTH} \d{{4}})\b(?!-)"
)
_MONTH_NAME = re.compile(_MONTH)
# A number after one of these is a place in something that the summary's reader does not have.
_PLACE_BEFORE = re.compile(
    r"(?:(?<!\w)(?:appendix|article|bullet|cap|chapter|chart|clause|col(?:umn)?|diagram|entry|fig(?:ure)?|"
    r"footnote|image|item|iteration|line|message|page|pp?|para(?:graph)?|part|picture|point|question|"
    r"round|row|screen(?:shot)?|sec(?:tion)?|slide|step|tab|table|turn|vol(?:ume)?"
    r"|abbildung|abb|abschnitt|absatz|anhang|artikel|bild|folie|frage|kapitel|nachricht|punkt|runde|"
    r"schritt|seite|spalte|tabelle|teil|zeile"
    r"|annexe|chapitre|étape|diapositive|ligne|message|partie|tableau"
    r"|apartado|capítulo|página|paso|fila|línea|gráfico|sección|tabla)(?:s|es|n)?\.?[ #]{1,2}|§{1,2} ?|第 ?)\Z",
    re.IGNORECASE,
)
_PLACE = re.compile(r"\d{1,4}(?:[./–-]\d{1,4}){0,3}[a-z]?")
_MAX_PLACE_CHARS = 24
_EMPHASIS = re.compile(
    r"100 ?% (?:agree|behind|sure|certain|with|right|true|support|on board|in)\b"
)
# One hump and no other sign: mostly the name of a product.
_NAME = re.compile(r"[A-Za-z][a-z]*[A-Z][a-z]*")
_ADDRESS = re.compile(r".*(?:[/\\]|[^\W_]@[^\W_]).*|[A-Z][A-Z\d]+-\d+", re.DOTALL)

_FENCE = re.compile(
    r"^[ \t]*+(```++|~~~++)[ \t]*+([\w+#-]*+)[^\n]*+\n(.*?)(?:^[ \t]*\1|\Z)",
    re.DOTALL | re.MULTILINE,
)
_NOT_CODE = re.compile(
    r"(?:conf|console|csv|diff|dotenv|env|http|ini|json|log|output|properties|text|toml|txt|ya?ml)?",
    re.IGNORECASE,
)
"""Languages of blocks that are read as any text.

Of code, only addresses and the names that it defines are facts.
"""
_DEFINED = re.compile(
    r"\b(?:def|class|function|func|fn|interface|struct|trait|enum|table|TABLE) +(?:IF NOT EXISTS "
    r"+)?([^\W\d]\w*)"
)
_PLACEHOLDER = re.compile(r"path[/_]to|(?:^|[^a-z])your[_-]", re.IGNORECASE)


class VerbatimFact(NamedTuple):
    """Something to be said to the letter.

    Attributes:
        rank: 0 for addresses and paths, 1 for other identifiers, 2 for dates and numbers, 3 for
            digits and names of products, `RANK_OF_BARE_NUMBER` for a date or number without words
            about it.
        quoted: Whether it needs quotes to be told from the text after it.
        place: Of a date or number, the text that it is in and where it begins there.
    """

    text: str
    rank: int = 0
    quoted: bool = False
    place: tuple[str, int] | None = None

    @property
    def shown(self) -> str:
        """It as it is listed: a number with the words about it, which it needs to mean anything."""
        if self.place:
            return _with_words(*self.place, self.text)
        if self.quoted:
            return f'"{self.text}"'
        return self.text


def facts_in(text: str) -> Iterator[VerbatimFact]:
    """Yield the facts of a text in order, repeated ones each time. Takes linear time.

    A credential is no fact: a list of facts would carry it from summary to summary.
    """
    text = _plain(text)
    text = _LIST_MARKER.sub("", without_credentials(text))
    begin = 0
    if any(each in text for each in _URL_BEGINS):
        for url in _URL.finditer(text):
            yield from _facts_about_dates(text, begin, url.start())
            begin = url.end()
            address = url[0].rstrip(".,:;!?*" if "(" in url[0] else ".,:;!?*)]}")
            if len(address) <= MAX_FACT_CHARS:
                yield VerbatimFact(address)
    yield from _facts_about_dates(text, begin, len(text))


def facts_of(block: ContentBlock) -> Iterator[VerbatimFact]:
    """Yield the facts of a block of a message, a call's arguments and a result's content included."""
    match block:
        case TextBlock():
            yield from _facts_of_prose(block.text)
            return
        case ToolUseBlock():
            texts: Iterable[str] = (block.arguments,)
        case ImageBlock():
            if block.url.startswith("data:"):
                texts = ()
            else:
                texts = (block.url,)
        case ToolResultBlock() if not isinstance(block.content, str):
            texts = (
                block_text(part) for part in block.content if not isinstance(part, OpaqueBlock)
            )
        case OpaqueBlock():
            texts = ()
        case _:
            texts = (block_text(block),)
    for text in texts:
        yield from facts_in(text)


def _facts_of_prose(text: str) -> Iterator[VerbatimFact]:
    """Yield the facts of a text with blocks of code in it."""
    begin = 0
    if "```" in text or "~~~" in text:
        for fence in _FENCE.finditer(text):
            if _NOT_CODE.fullmatch(fence[2]):
                continue
            yield from facts_in(text[begin : fence.start()])
            begin = fence.end()
            code = fence[3]
            defined = set(_DEFINED.findall(code))
            for fact in facts_in(code):
                if fact.text in defined or (fact.rank == 0 and not _PLACEHOLDER.search(fact.text)):
                    yield fact
    yield from facts_in(text[begin:])


def _facts_about_dates(
    text: str,
    begin: int,
    end: int,
) -> Iterator[VerbatimFact]:
    """Yield the facts of a part of a text without URLs."""
    for date in _DATE.finditer(text, begin, end):
        yield from _facts_between(text, begin, date.start())
        begin = date.end()
        told = date[0]
        place = (text, date.start())
        rank = 2
        if _with_words(*place, told) == told:
            rank = RANK_OF_BARE_NUMBER
        yield VerbatimFact(told, rank, place=place)
    yield from _facts_between(text, begin, end)


def _facts_between(
    text: str,
    begin: int,
    end: int,
) -> Iterator[VerbatimFact]:
    """Yield the facts of a part of a text without URLs and dates."""
    for run in _RUN.finditer(text, begin, end):
        fact = run[0].lstrip(f",:{_GROUPING}").rstrip(".,:-+~#@")
        start = run.start()
        if not 0 < len(fact) <= MAX_FACT_CHARS or (
            fact[0] == "/" and text[start - 1 : start] == "<"
        ):
            continue
        is_number = _NUMBER.fullmatch(fact) is not None
        if not is_number and (_is_path(fact) or _IDENTIFIER.fullmatch(fact)):
            rank = 1
            if _ADDRESS.fullmatch(fact):
                rank = 0
            elif _NAME.fullmatch(fact):
                rank = 3
            yield VerbatimFact(fact, rank, quoted=not _PLAIN.fullmatch(fact))
        elif is_number or _DIGIT.search(fact):  # whatever signs it stands among
            place = (text, text.index(fact, start))
            if not _is_noise(fact, place):
                yield VerbatimFact(fact, _rank_of_number(fact, place), place=place)


def _is_noise(number: str, place: tuple[str, int]) -> bool:
    """Return whether a number says nothing by itself: emphasis, or a place such as "page 32"."""
    text, start = place
    if number == "100%":
        return _EMPHASIS.match(text, start) is not None
    if not _PLACE.fullmatch(number):
        return False
    return _PLACE_BEFORE.search(text, max(0, start - _MAX_PLACE_CHARS), start) is not None


def _rank_of_number(number: str, place: tuple[str, int]) -> int:
    if _with_words(*place, number).removeprefix(number).strip().upper() in ("", "AM", "PM"):
        return RANK_OF_BARE_NUMBER
    if sum(map(str.isdigit, number)) > 1:
        return 2
    return 3


def _is_path(run: str) -> bool:
    separators = run.count("/") + run.count("\\")
    if not separators or not any(map(str.isalnum, run)):
        return False
    return (
        separators > 1
        or bool(_PATH_BEGIN.match(run))
        or any(char in "._-" or char.isdigit() for char in run)
    )


def _with_words(
    text: str,
    start: int,
    number: str,
) -> str:
    """Return a number with up to two words before it and one after, of the same line and clause.

    If no word is before it, up to three after it are shown, as in "7:30: Call the bank".
    """
    end = start + len(number)
    before = _WORDS_BEFORE.search(text, max(0, start - _MAX_WORDS_CHARS), start)
    after = _WORD_AFTER.match(text, end)
    if not before and (words := _WORDS_AFTER.match(text, end)):
        said = words[2].split()
        while said and (_is_stop_word(said[-1]) or _MONTH_NAME.fullmatch(said[-1])):
            said.pop()
        if not said:
            return number
        gap = ": " if words[1].strip(" ") else " "
        return f"{number}{gap}{' '.join(said)}"
    if after and not _is_stop_word(after[1]):
        unit = after[0]
    else:
        unit = ""
    lead = ""
    if before:
        lead = before[0].replace("*", "")
    return f"{lead}{number}{unit}"


def _is_stop_word(word: str) -> bool:
    return word.lower() in STOP_WORDS and not (word.isupper() and len(word) > 1)  # 7:30 AM


def _plain(text: str) -> str:
    """Return the strings of a JSON text, a line each, without JSON's escapes; any other text as it is.

    A JSON text with escaped lone surrogates or NUL is returned as it is, too.
    """
    if text.lstrip()[:1] not in ("{", "["):
        return text
    try:
        # Objects as pairs, since one may say a name twice.
        said = json.loads(
            text, parse_int=str, parse_float=str, parse_constant=str, object_pairs_hook=tuple
        )
        lines = check_text("\n".join(_lines(said)), "it")
    except (ValueError, RecursionError):
        return text
    return text if "\0" in lines else lines  # not every store can hold one


def _lines(value: JSONValue) -> Iterator[str]:
    left = [("", value)]
    while left:
        key, value = left.pop()
        if isinstance(value, tuple):
            if key:
                yield _quoted(key)
            left += reversed(value)
        elif isinstance(value, list) and value:
            left += ((key, member) for member in reversed(value))
        elif key:
            yield f"{_quoted(key)}: {_quoted(value)}"
        else:
            yield _quoted(value)


def _quoted(value: JSONValue) -> str:
    """Return a path with blanks in quotes, any other value as a text."""
    text = str(value)
    if " " in text and _PATH_BEGIN.match(text):
        return f'"{text}"'
    return text
