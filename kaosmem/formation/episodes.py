"""EpisodeFormer: turns become episodes by time and topic, episodes become days, weeks and months."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Literal, TypeAlias

from kaosmem.arguments import check_count
from kaosmem.errors import InvalidArgumentError
from kaosmem.formation.changes import Draft, ProposedChange
from kaosmem.formation.grounding import MAX_TEXT_CHARS
from kaosmem.language.analysis import analyze
from kaosmem.language.credentials import without_credentials
from kaosmem.language.sentences import sentences_in
from kaosmem.types import JSONValue
from kaosmem.types.items import Item

Span: TypeAlias = Literal["topic", "day", "week", "month"]

SPANS = ("topic", "day", "week", "month")
_AROUND = 4
"""A topic ends where the messages before and after a place, so many each, share no term."""
_LEAST_MESSAGES = 4
"""A topic of fewer messages ends only by time or source."""
_SENTENCES = 3
_MAX_SENTENCE_CHARS = 180
_TITLE_TERMS = 4


class EpisodeFormer:
    """Forms an episode of neighbouring items: their most central sentences, as they were said.

    An episode is an item of the kind `episodic`, without speaker. Its metadata have `title` (its
    most frequent words), `timestamp` and `until` (its first and last time), and `participants`. Its
    sources are its items, so `memory.archive.expand(id, depth=1)` goes one level down. An episode is
    formed when the next one has begun.

    Args:
        span: `topic` cuts messages by time, source and topic. `day`, `week` and `month` put together
            the episodes of another section.
        gap_s: A topic ends before a pause of more than so many seconds.
        most: Maximum number of items of a topic, at least 2.

    Raises:
        InvalidArgumentError: If an argument is not valid.

    >>> from kaosmem import SectionSpec, SessionMemory
    >>> from kaosmem.formation import FormsFrom
    >>> sections = [SectionSpec("messages", placement="history"), SectionSpec("episodes")]
    >>> memory = SessionMemory.test_mode(sections=sections)
    >>> for day, text in (("06", "We painted the boat blue."), ("09", "Ann sold the car.")):
    ...     said = memory.add("messages", text, metadata={"timestamp": f"2024-05-{day}"})
    >>> print(*await memory.form(EpisodeFormer(), section="episodes"))
    user: We painted the boat blue.
    """

    def __init__(self, span: Span = "topic", *, gap_s: float = 4 * 3_600, most: int = 40) -> None:
        if span not in SPANS:
            raise InvalidArgumentError(f"no such span; use one of {', '.join(SPANS)}")
        self._span = span
        self._gap = timedelta(seconds=gap_s)
        self._most = check_count(most, "most", least=2)
        self.name = f"episodes by {span}"
        self.wants_derived = span != "topic"

    def __repr__(self) -> str:
        return f"<EpisodeFormer {self._span!r}>"

    async def propose(self, said: Sequence[Item], known: Sequence[Item]) -> Draft:
        """Return one change for each episode that has ended."""
        changes = []
        covered = 0
        for episode in self._ended(said):
            covered += len(episode)
            change = _episode(episode)
            if change is not None:
                changes.append(change)
        return Draft(changes, covered)

    def _ended(self, said: Sequence[Item]) -> Iterator[Sequence[Item]]:
        """Yield the items of each episode, without the last one, which may go on."""
        begin = 0
        for place in range(1, len(said)):
            if self._ends(said, begin, place):
                yield said[begin:place]
                begin = place

    def _ends(self, said: Sequence[Item], begin: int, place: int) -> bool:
        """Return whether an episode that began at one place ends before another."""
        before = said[place - 1]
        item = said[place]
        if self._span != "topic":
            return self._period(before) != self._period(item)
        if item.metadata.get("source") != before.metadata.get("source"):
            return True
        if item.valid_from - before.valid_from > self._gap or place - begin >= self._most:
            return True
        if place - begin < _LEAST_MESSAGES or len(said) - place < _AROUND:
            return False
        earlier = _terms(said[max(begin, place - _AROUND) : place])
        later = _terms(said[place : place + _AROUND])
        return earlier.keys().isdisjoint(later)

    def _period(self, item: Item) -> tuple[int, ...]:
        """Return the day, the week or the month in which an item begins."""
        day = item.valid_from
        if self._span == "week":
            return day.isocalendar()[:2]
        return (day.year, day.month) if self._span == "month" else (day.year, day.month, day.day)


def _episode(items: Sequence[Item]) -> ProposedChange | None:
    """Return an episode as a change, or None if nothing in it can be quoted."""
    terms = _terms(items)
    chosen = _central_sentences(items, terms)
    if not chosen:
        return None
    lines = []
    for speaker, sentence in chosen:
        lines.append(f"{speaker}: {sentence}" if speaker else sentence)
    participants: list[JSONValue] = []
    for item in items:
        of_item = item.metadata.get("participants", [item.role] if item.role else [])
        participants += [each for each in of_item if each not in participants]
    details: dict[str, JSONValue] = {
        "title": " ".join(term for term, _ in terms.most_common(_TITLE_TERMS)),
        "timestamp": items[0].valid_from.isoformat(),
        "until": max(_end_of(item) for item in items),
        "participants": participants,
    }
    sources = tuple(item.id for item in items)
    text = "\n".join(lines)
    return ProposedChange(text, chosen[0][1], sources, kind="episodic", details=details)


def _end_of(item: Item) -> str:
    """Return the last time of an item that is an episode, else its only one."""
    until = item.metadata.get("until")
    return until if isinstance(until, str) else item.valid_from.isoformat()


def _terms(items: Sequence[Item]) -> Counter[str]:
    """Return how often the items say each term. A term of one letter, or of digits, says little."""
    found: Counter[str] = Counter()
    for item in items:
        found.update(term for term in analyze(item.text) if len(term) > 2 and term.isalpha())
    return found


def _central_sentences(items: Sequence[Item], terms: Counter[str]) -> list[tuple[str, str]]:
    """Return the sentences with the most frequent terms and their speakers, in their order.

    A sentence of an episode brings its own speaker.
    """
    ranked: list[tuple[int, int, str, str]] = []
    for item in items:
        speaker = "" if item.metadata.get("kind") == "episodic" else item.role
        for sentence in _sentences(item.text):
            weight = sum(terms[term] for term in {*analyze(sentence)})
            ranked.append((-weight, len(ranked), speaker, sentence))
    ranked.sort()
    chosen: list[tuple[int, str, str]] = []
    left = MAX_TEXT_CHARS
    for _, place, speaker, sentence in ranked:
        left -= len(speaker) + len(sentence) + 3
        if left < 0 or len(chosen) == _SENTENCES:
            break
        chosen.append((place, speaker, sentence))
    return [(speaker, sentence) for _, speaker, sentence in sorted(chosen)]


def _sentences(text: str) -> Iterator[str]:
    """Yield the statements of a text that may be quoted."""
    for part in sentences_in(text):
        sentence = " ".join(part.split())
        is_quotable = " " in sentence and len(sentence) <= _MAX_SENTENCE_CHARS
        if is_quotable and not sentence.endswith("?") and without_credentials(sentence) == sentence:
            yield sentence
