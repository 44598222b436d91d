"""EpisodeFormer: turns become episodes by time and topic, and episodes become longer spans."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain
from typing import Literal, TypeAlias

from kaosmem.errors import InvalidArgumentError
from kaosmem.formation.changes import Draft, ProposedChange
from kaosmem.language.analysis import analyze
from kaosmem.language.credentials import without_credentials
from kaosmem.language.marks import UNSPACED
from kaosmem.language.sentences import sentences_in
from kaosmem.types import JSONValue
from kaosmem.types.items import Item

Span: TypeAlias = Literal["topic", "day", "week", "month"]

_SPAN_FORMS = {"day": "%Y-%m-%d", "week": "%G-%V", "month": "%Y-%m"}
"""By span, the form in which the times of one episode are written alike."""
_PAUSE = timedelta(hours=4)
"""A topic ends before a longer pause."""
_MOST_ITEMS = 40
_AROUND = 4
"""A topic ends where the messages before and after a place, so many each, share no term."""
_SENTENCES = 3
_MAX_SENTENCE_CHARS = 160
_LEAST_UNSPACED = 4
"""A sentence of Chinese or Japanese that is quoted has so many characters."""
_FIRST_SYLLABLE = "\u3040"
"""The first character of the scripts whose terms are pairs of characters."""
_ASKS = "?", "？", "؟"
_TITLE_TERMS = 4


@dataclass(frozen=True)
class EpisodeFormer:
    """Forms an episode of neighbouring items: their most central sentences, as they were said.

    An episode is an item of the kind `episodic`, without speaker. Its metadata have `title` (its
    most frequent words), `timestamp` and `until` (its first and last time), and `participants`. Its
    sources are its items, so `memory.archive.expand(id, depth=1)` goes one level down. An episode
    is formed when the next one has begun.

    Args:
        span: `topic` cuts messages by time, source and topic. `day`, `week` and `month` put
            together the episodes of another section.

    Raises:
        InvalidArgumentError: If there is no such span.

    >>> from kaosmem import SectionSpec, SessionMemory
    >>> from kaosmem.formation import FormsFrom
    >>> sections = [SectionSpec("messages", placement="history"), SectionSpec("episodes")]
    >>> memory = SessionMemory.test_mode(sections=sections)
    >>> for day, text in (("06", "We painted the boat blue."), ("09", "Ann sold the car.")):
    ...     said = memory.add("messages", text, metadata={"timestamp": f"2024-05-{day}"})
    >>> print(*await memory.form(EpisodeFormer(), section="episodes"))
    user: We painted the boat blue.
    """

    span: Span = "topic"

    def __post_init__(self) -> None:
        if self.span not in ("topic", *_SPAN_FORMS):
            raise InvalidArgumentError("no such span; use 'topic', 'day', 'week' or 'month'")

    @property
    def name(self) -> str:
        """Return the name of the former's mark."""
        return f"episodes by {self.span}"

    async def propose(self, said: Sequence[Item], known: Sequence[Item]) -> Draft:
        """Return one change for each episode that has ended. The last one may go on."""
        changes = []
        begin = 0
        for place in range(1, len(said)):
            await asyncio.sleep(0)  # an import of months takes seconds
            episode = said[begin:place]
            if self._ends(episode, said[place : place + _AROUND]):
                changes.append(_episode(episode))
                begin = place
        return Draft([change for change in changes if change.text], begin)

    def _ends(self, episode: Sequence[Item], later: Sequence[Item]) -> bool:
        """Return whether an episode ends before later items."""
        last = episode[-1]
        following = later[0]
        if self.span != "topic":
            form = _SPAN_FORMS[self.span]
            return last.valid_from.strftime(form) != following.valid_from.strftime(form)
        is_elsewhere = following.metadata.get("source") != last.metadata.get("source")
        is_late = following.valid_from - last.valid_from > _PAUSE
        if is_elsewhere or is_late or len(episode) >= _MOST_ITEMS:
            return True
        if min(len(episode), len(later)) < _AROUND:
            return False
        newest = _terms(episode[-_AROUND:])
        return newest.keys().isdisjoint(_terms(later))


def _episode(items: Sequence[Item]) -> ProposedChange:
    """Return neighbouring items as an episode, without text if nothing in them can be quoted.

    It has the sentences with the most frequent terms, in their order, each after its speaker.
    """
    terms = _terms(items)
    text = "\n".join(item.text for item in items).casefold()
    # A word with an accent has several terms. Those that the text does not have are left out.
    title = [term for term, _ in terms.most_common() if term in text][:_TITLE_TERMS]
    ends = [item.metadata.get("until", item.valid_from.isoformat()) for item in items]
    weights: dict[tuple[str, str], int] = {}
    participants: dict[JSONValue, None] = {}
    for item in items:
        speakers = [item.role] if item.role else []  # an episode names its speakers itself
        participants |= dict.fromkeys(item.metadata.get("participants", speakers))
        for sentence in _quotable(item):
            line = "".join(f"{speaker}: " for speaker in speakers), sentence
            weights[line] = sum(terms[term] for term in {*analyze(sentence)})
    central = sorted(weights, key=lambda line: -weights[line])[:_SENTENCES]
    lines = [line for line in weights if line in central]
    return ProposedChange(
        "\n".join(map("".join, lines)),
        next((sentence for _, sentence in lines), ""),
        tuple(item.id for item in items),
        kind="episodic",
        details={
            "title": " ".join(title),
            "timestamp": items[0].valid_from.isoformat(),
            "until": max(ends, key=datetime.fromisoformat),
            "participants": [*participants],
        },
    )


def _terms(items: Sequence[Item]) -> Counter[str]:
    """Return how often the items say each term. A short term, or one of digits, says little.

    A term of a script without spaces, or of Korean, has two characters.
    """
    terms = chain.from_iterable(analyze(item.text) for item in items)
    return Counter(filter(_says_much, terms))


def _says_much(term: str) -> bool:
    if term >= _FIRST_SYLLABLE:
        return len(term) > 1
    # The vowel signs of Hindi are no letters.
    return len(term) > 2 and (term.isalpha() or not term.isascii())


def _quotable(item: Item) -> Iterator[str]:
    """Yield the sentences of an item that are statements and may stand in an episode."""
    for part in sentences_in(item.text):
        sentence = " ".join(part.split())
        has_words = " " in sentence or len(UNSPACED.findall(sentence)) >= _LEAST_UNSPACED
        if not has_words or len(sentence) > _MAX_SENTENCE_CHARS or sentence.endswith(_ASKS):
            continue
        if without_credentials(sentence) == sentence:
            yield sentence
