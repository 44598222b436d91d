"""A question as sources are asked it: its text, and the days that it speaks of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cache, cached_property
from typing import TYPE_CHECKING

from kaosmem.language.analysis import analyze
from kaosmem.language.dates import (
    PAST_CUES,
    PastCues,
    PastQuestion,
    Period,
    periods_in,
    without_periods,
)
from kaosmem.language.sentences import sentence_ends

if TYPE_CHECKING:
    from kaosmem.types import Item

MAX_QUERY_CHARS = 8_000
"""A longer query is ranked by an excerpt of at most so many characters."""

_END_CHARS, _QUESTION_CHARS, _WORDS_CHARS = 2_000, 900, 1_500
_WORD_CHARS = range(3, 41)
_REQUESTS = """
    summarise summarize summary recap overview sum continue proceed go explain describe elaborate help tell show list
    give say know think mean happen do done make get please thank thanks hello hi hey ok okay yes right sure next more
    now new news far everything anything something thing stuff all i me my us let
    das dies diese bitte danke hallo ja weiter mach fasse fass zusammen zusammenfassen zusammenfassung erkläre zeig mir
    was alles résume résumer résumé ceci cela merci bonjour oui continue explique resume resumir resumen esto gracias
    hola sí sigue continúa explica
    резюмируй подытожь продолжай объясни привет спасибо да это
"""
"""Words that ask for something and are no subject: a question of these alone is about all that there is."""
_PUNCTUATION = ".,:;!?\"'()[]{}<>`*"


@dataclass(frozen=True)
class Query:
    """A question that ranks candidates. Sources and sections get it; a ranker gets its text alone.

    text: at most MAX_QUERY_CHARS characters: `read` takes an excerpt of a longer text.
    periods: the days that the text speaks of, each period once: first "last week" and the like,
        then dates.
    past: the text's reference to the past, which brings replaced versions of facts back; None for
        now.
    as_of: the time at which an item must have held. known_at: the time at which it must have been
        known. None is now.

    >>> from datetime import UTC, datetime
    >>> query = Query.read("What happened yesterday?", lambda: datetime(2026, 11, 25, tzinfo=UTC))
    >>> query.periods
    (Period(first=datetime.date(2026, 11, 24), last=datetime.date(2026, 11, 24)),)
    """

    text: str
    periods: tuple[Period, ...] = ()
    past: PastQuestion | None = None
    as_of: datetime | None = None
    known_at: datetime | None = None

    @classmethod
    def read(
        cls,
        text: str,
        clock: Callable[[], datetime],
        cues: PastCues = PAST_CUES,
        *,
        as_of: datetime | None = None,
        known_at: datetime | None = None,
    ) -> Query:
        """Return the query of a text.

        The clock says which day is today, the cues which words ask about the past.
        """
        text = excerpt(text)
        relative = periods_in(text, clock)
        today = max((period.last for period in relative), default=None)
        past = cues.read(text, (each for each in relative if each.first != today))
        return cls(
            text, tuple(dict.fromkeys((*relative, *cues.dates(text)))), past, as_of, known_at
        )

    @property
    def topic(self) -> str:
        """The text without words such as "last week", by which an item of the period does not match."""
        return without_periods(self.text)

    @cached_property
    def has_topic(self) -> bool:
        """Whether the text has a word that an item can be about, as "Summarise this" has none."""
        return not _without_topic().issuperset(analyze(self.topic))

    def admits(self, item: Item) -> bool:
        """Return whether an item had begun to hold, and was known, at the times that the query asks for."""
        has_begun = self.as_of is None or item.valid_from <= self.as_of
        return has_begun and (self.known_at is None or item.created_at <= self.known_at)


@cache
def _without_topic() -> frozenset[str]:
    return frozenset(analyze(_REQUESTS))


def excerpt(text: str) -> str:
    r"""Return the part of a text that ranks, such as of a pasted log with a question.

    The time is linear.

    A text of up to MAX_QUERY_CHARS characters is returned whole. Of a longer one, the excerpt holds
    the beginning, the words that are rarest in the text, the last sentence with a question mark,
    and the end.

    >>> log = "request served\n" * 5_000
    >>> text = excerpt(f"Look at this.\n{log}Quota exceeded for tenant.\n{log}")
    >>> len(text), "Quota exceeded for tenant" in text
    (4044, True)
    """
    if len(text) <= MAX_QUERY_CHARS:
        return text
    middle = text[_END_CHARS:-_END_CHARS]
    return "\n".join(
        [text[:_END_CHARS], *_rare_words(middle), _last_question(middle), text[-_END_CHARS:]]
    )


def _last_question(text: str) -> str:
    """Return the end of a text's last sentence with a question mark, "" if there is none."""
    end = max(map(text.rfind, "?？؟")) + 1
    begin = text[max(0, end - _QUESTION_CHARS) : end]
    ends = [at for at in sentence_ends(begin) if at < len(begin)]
    return begin[ends[-1] if ends else 0 :].strip()


def _rare_words(text: str) -> list[str]:
    """Return the words that occur least often: first of those with letters alone, then of all others."""
    counts: Counter[str] = Counter()
    for chunk, count in Counter(text.split()).items():
        word = chunk.strip(_PUNCTUATION)
        if len(word) in _WORD_CHARS:
            counts[word] += count
    rarest = sorted(counts, key=counts.__getitem__)
    return [
        " ".join(_within(_WORDS_CHARS, (w for w in rarest if w.isalpha() is letters)))
        for letters in (True, False)
    ]


def _within(most: int, words: Iterable[str]) -> Iterable[str]:
    """Yield the first words that have at most `most` characters together, a blank after each counted."""
    for word in words:
        most -= len(word) + 1
        if most < 0:
            return
        yield word
