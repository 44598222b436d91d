"""Grounding: a proposed change is applied only if its sources say it.

The quote has to stand in a source, and as a statement of its speaker. Each check that fails gives the
reason of a refusal. The reasons are short and fixed, so that they can be counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from itertools import chain

from kaosmem.formation.changes import ACTIONS, KINDS, NOT_PEOPLE, ProposedChange
from kaosmem.formation.quotes import (
    TEXTS_AT_ONCE,
    clause_of,
    has_words,
    is_asked_for,
    is_passed_on,
    normalized_text,
    patterns,
    text_before,
)
from kaosmem.language.analysis import STOP_WORDS, analyze
from kaosmem.language.credentials import without_credentials
from kaosmem.language.marks import UNSPACED, WORD, marks_of, plain_word, words_of
from kaosmem.language.rules import plain_rules_in, rules_in
from kaosmem.memos import memoized
from kaosmem.types.content import Trust
from kaosmem.types.items import Item
from kaosmem.types.versions import day_text

MAX_TEXT_CHARS = 600
"""A longer statement says too many things."""
_LEAST_SHARE = 0.5
"""At least this share of the meaning words of a statement stand in its sources."""
_GENERIC_WORDS = """
    user users user's assistant speaker customer they he she it we you i the this that these those
    her his their its our my your who someone somebody everyone people person team
    nutzer nutzers nutzerin benutzer benutzers benutzerin der die das des er sie el la le il
    utilisateur utilisatrice l'utilisateur l'utilisatrice utente l'utente usuario usuaria usuário
    usuária пользователь пользователя χρήστης χρήστη
"""
_GENERIC = frozenset(_GENERIC_WORDS.split())
_FRAME_WORDS = """
    user users assistant speaker customer person people prefer prefers like likes want wants plan
    plans say says said state states use uses ask asks need needs live lives work works know knows
"""
_FRAME = frozenset(analyze(_FRAME_WORDS + _GENERIC_WORDS))
"""Terms by which a statement reports what was said, in other words than the speaker's."""
_VERBS_OF_NAMES = frozenset(("is", "isn't", "isn’t", "was", "wasn't", "wasn’t", "does", "doesn't"))
_LETTERS_WITHOUT_NAMES = re.compile(
    r"[\u30a1-\u30fa\u3400-\u9fff々]|[\u0590-\u085f\u0900-\u0963\u0966-\u0dff]+|[\uac00-\ud7a3]+"
)
"""A word in a script without capitals: a character of Chinese, or a syllable of katakana."""
_WORDS = patterns("statements")


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
    def are_of_people(self) -> bool:
        """Return whether a person says so, and no source is of low trust."""
        return self.trust >= Trust.MODEL and self.quoted.role.casefold() not in NOT_PEOPLE

    @property
    def text(self) -> str:
        """Return all that the sources say, with their speakers and days."""
        return "\n".join([self.frame, *(item.text for item in self.items)])

    @property
    def frame(self) -> str:
        """Return the speakers and the days of the sources."""
        days = [f"{day_text(item.valid_from)} {item.valid_from.date()}" for item in self.items]
        return "\n".join([*(item.role for item in self.items), *days])


def grounds_or_fault(
    change: ProposedChange,
    said: Iterable[Item],
    *,
    explicit_only: bool,
) -> Grounds | str:
    """Return the sources of a change if they say it, else the reason to refuse it.

    Args:
        said: The items that the former was given.
        explicit_only: Refuse all that nobody asked to remember.
    """
    if change.action not in ACTIONS or change.kind not in KINDS:
        return "unknown action or kind"
    sources = [item for item in said if item.id in change.sources]
    if not sources or len(sources) < len({*change.sources}):
        return "unknown source"
    quote = normalized_text(change.quote)
    for item in sources:
        text = normalized_text(item.text)
        if quote in text and (quote == text or has_words(quote)):
            grounds = Grounds(sources, item)
            faults = _faults(change, grounds, explicit_only=explicit_only)
            return next(faults, grounds)
    return "quote not in its sources"


def _faults(
    change: ProposedChange,
    grounds: Grounds,
    *,
    explicit_only: bool,
) -> Iterator[str]:
    """Yield the reasons to refuse a change that has sources, none if its sources say it."""
    text = change.text.strip()
    if not 0 < len(text) <= MAX_TEXT_CHARS:
        yield "no text, or too long"
    stated = f"{text}\n{change.quote}\n{change.key or ''}"
    if without_credentials(stated) != stated:
        yield "credential"
    is_of_people = grounds.are_of_people
    if not is_of_people and any(chain(rules_in(stated), plain_rules_in(stated))):
        yield "rule of a text of low trust"
    if is_of_people and is_passed_on(normalized_text(change.quote), grounds.quoted.text):
        yield "words of somebody else"
    if explicit_only and not (is_of_people and is_asked_for(change.quote, grounds.quoted.text)):
        yield "nobody asked to remember it"
    if change.is_run:
        text = _WORDS["step_number"].sub("", text)
    yield from _unsaid(text, change, grounds)


def _unsaid(
    text: str,
    change: ProposedChange,
    grounds: Grounds,
) -> Iterator[str]:
    """Yield the reasons if a statement says more, or the opposite of what its sources say."""
    said = grounds.text
    known = words_of(said)
    yield from unknown_marks(text, known)
    without_speaker = _WORDS["speaker_words"].sub(" ", text)
    if _has_unknown_words(without_speaker, said):
        yield "name not in its sources"
    if change.valid_from and not _is_said_day(change.valid_from, grounds, known):
        yield "date not in its sources"
    if change.kind == "semantic" and change.action != "retire":
        yield from _misread(text, change.quote, grounds)
    if change.worked and _WORDS["negation"].search(change.quote):
        yield "negation not as in its quote"
    terms = {*analyze(without_speaker)} - _FRAME
    shared = terms & _terms_of(said)
    in_quote = shared.intersection(analyze(change.quote))
    is_apart = not (in_quote or change.is_run)
    if is_apart or len(shared) < _LEAST_SHARE * len(terms):
        yield "not what its sources say"


@memoized(TEXTS_AT_ONCE)
def _terms_of(text: str) -> frozenset[str]:
    return frozenset(analyze(text))


def unknown_marks(text: str, known: Set[str]) -> Iterator[str]:
    """Yield a reason for each number, name and address of a text that is not among known words."""
    for mark, is_sure in marks_of(text).items():
        if not is_sure or mark in known or mark in _GENERIC:
            continue
        if any(map(str.isdigit, mark)):
            yield "number not in its sources"
        else:
            yield "name not in its sources"


def _has_unknown_words(text: str, said: str) -> bool:
    """Return whether a text has words that the sources lack, in scripts without capitals.

    Any of them may be a name. A word of another form, which has two or three letters in a row in
    common with one of the sources, is known.
    """
    known = _LETTERS_WITHOUT_NAMES.findall(said)
    for word in _LETTERS_WITHOUT_NAMES.findall(text):
        run = 3
        if word[0] >= "\uac00":  # from here, a letter is a syllable of Korean
            run = 2
        is_name = len(word) >= run or UNSPACED.match(word)
        if not is_name or word in STOP_WORDS:
            continue
        parts = [word[at : at + run] for at in range(max(1, len(word) - run + 1))]
        if not any(part in each for part in parts for each in known):
            return True
    return False


def _misread(
    text: str,
    quote: str,
    grounds: Grounds,
) -> Iterator[str]:
    """Yield the reasons if a fact is not what the quote states where it stands."""
    differs = _differs(text, quote, grounds)
    stated = text
    text = normalized_text(text)
    quote = normalized_text(quote)
    source = normalized_text(grounds.quoted.text)
    clause = clause_of(quote, source)
    if differs or _lacks_predicate(text, clause):
        yield "not what its sources say"
    if _denies(text) != _denies(clause):
        yield "negation not as in its quote"
    if _WORDS["wish"].search(clause) and not _WORDS["wished"].search(text):
        yield "a wish, no fact"
    if _is_over(text, clause):
        yield "over, no fact of now"
    begin = source.find(quote)
    sentence = _WORDS["sentence_end"].split(text_before(source, begin))[-1]
    told = f"{sentence}{quote}"
    if _WORDS["condition"].search(clause) or _WORDS["supposed"].match(told):
        yield "question or condition, no statement"
    reporters = _WORDS["report"].findall(sentence)
    is_reported = bool(reporters) and reporters[-1] not in text
    is_of_other = _is_of_other(stated, told, grounds)
    if is_reported or is_of_other or _WORDS["report_after"].match(source, begin):
        yield "words of somebody else"


def _is_over(text: str, clause: str) -> bool:
    """Return whether a clause tells of what is over, and a fact does not say so.

    It may tell of a change, and the fact has the old value alone.
    """
    if _WORDS["over"].search(clause):
        return not (_WORDS["ending"].search(text) or _WORDS["past"].search(text))
    found = _WORDS["from_to"].search(clause)
    if found is None:
        return False
    old, new = (words_of(part) for part in found.groups() if part is not None)
    own = words_of(text)
    return not own.isdisjoint(old) and own.isdisjoint(new)


def _lacks_predicate(text: str, clause: str) -> bool:
    """Return whether a fact makes a home or a job of a name that a clause only mentions."""
    for name in ("place", "work"):
        if _WORDS[name].search(text) and not _WORDS[name].search(clause):
            return _WORDS["own_subject"].search(clause) is None
    return False


def _denies(text: str) -> bool:
    """Return whether a text denies something. "Don't forget" does not."""
    return _WORDS["negation"].search(_WORDS["asked"].sub("", text)) is not None


def _is_of_other(
    text: str,
    told: str,
    grounds: Grounds,
) -> bool:
    """Return whether a fact and the sentence of its quote tell of different people.

    Args:
        told: The sentence of the quote up to its end, plain.
    """
    if _WORDS["first_person"].search(_WORDS["other_person"].sub("", told)):
        return _names_another(text, told, grounds)
    own = _GENERIC | words_of(grounds.quoted.role)
    if _first_word(text) not in own and not _WORDS["speaker_words"].search(text):
        return False
    text = normalized_text(text)
    other = _WORDS["other_person"].search(told)
    if other is not None:
        return not any(word in text for word in other.groups() if word)
    first = _first_word(told)
    if _WORDS["own_beginning"].match(told) or not marks_of(grounds.quoted.text).get(first, False):
        return False
    return first not in own and first not in words_of(text)


def _names_another(text: str, told: str, grounds: Grounds) -> bool:
    """Return whether a fact from the first person begins with somebody else.

    This is another speaker of the sources, or a name that the speaker has never said.
    """
    speaker = grounds.quoted.role
    subject = _first_word(text)
    if subject in {item.role.casefold() for item in grounds.items if item.role != speaker}:
        return True
    said = [speaker, *(item.text for item in grounds.items if item.role == speaker)]
    if subject in _GENERIC or subject in words_of("\n".join(said)):
        return False
    return _is_name(text, told)


def _differs(text: str, quote: str, grounds: Grounds) -> bool:
    """Return whether a fact and its quote have numbers, or names, and none in common.

    Those of the days and the speakers are no values.
    """
    aside = _GENERIC | words_of(grounds.frame)
    stated = [mark for mark, is_sure in marks_of(text).items() if is_sure and mark not in aside]
    quoted = marks_of(quote).keys() - aside
    for is_number in (True, False):
        kept = {mark for mark in stated if mark[0].isdigit() == is_number}
        others = {mark for mark in quoted if mark[0].isdigit() == is_number}
        if kept and others and kept.isdisjoint(others):
            return True
    return False


def _first_word(text: str) -> str:
    """Return the first word of a text, plain, "" without one."""
    return plain_word((WORD.findall(text) or [""])[0])


def _is_name(text: str, quote: str) -> bool:
    """Return whether a text begins with a name: it stands before a verb, as "I" does in the quote."""
    name, verb, *_ = [*WORD.findall(text), "", ""]
    verbs = {*_VERBS_OF_NAMES, *re.findall(r"\bi ([\w’']+)", quote)}
    return marks_of(text).get(plain_word(name), False) or verb.casefold() in verbs


def _is_said_day(
    stated: str,
    grounds: Grounds,
    known: Set[str],
) -> bool:
    """Return whether the sources name a day, or were said on it."""
    try:
        begin = datetime.fromisoformat(stated)
    except ValueError:
        return False
    day, month, year = day_text(begin).casefold().split()
    # A year need not be said where the message was written in it, or in one beside it.
    is_near = abs(grounds.quoted.valid_from.year - begin.year) <= 1
    if day not in known or not (is_near or year in known):
        return False
    return not known.isdisjoint((month, month[:3], str(begin.month)))
