"""EpisodeFormer: turns become episodes by time and topic, and episodes become longer spans."""

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

_SPAN_FORMS = {"day": "%Y-%m-%d", "week": "%G-%V", "month": "%Y-%m"}
"""By span, the form in which the times of one episode are written alike."""
_AROUND = 4
"""A topic ends where the messages before and after a place, so many each, share no term."""
_SENTENCES = 3
_MAX_SENTENCE_CHARS = 180
_TITLE_TERMS = 4


class EpisodeFormer:
    """Forms an episode of neighbouring items: their most central sentences, as they were said.

    An episode is an item of the kind `episodic`, without speaker. Its metadata have `title` (its
    most frequent words), `timestamp` and `until` (its first and last time), and `participants`. Its
    sources are its items, so `memory.archive.expand(id, depth=1)` goes one level down. An episode
    is formed when the next one has begun.

    Args:
        span: `topic` cuts messages by time, source and topic. `day`, `week` and `month` put
            together the episodes of another section.
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
        if span not in ("topic", *_SPAN_FORMS):
            raise InvalidArgumentError("no such span; use 'topic', 'day', 'week' or 'month'")
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
            if self._ends(said[begin:place], said[place : place + _AROUND]):
                yield said[begin:place]
                begin = place

    def _ends(self, episode: Sequence[Item], later: Sequence[Item]) -> bool:
        """Return whether an episode ends before later items."""
        last = episode[-1]
        following = later[0]
        if self._span != "topic":
            form = _SPAN_FORMS[self._span]
            return last.valid_from.strftime(form) != following.valid_from.strftime(form)
        if following.metadata.get("source") != last.metadata.get("source"):
            return True
        pause = following.valid_from - last.valid_from
        if pause > self._gap or len(episode) >= self._most:
            return True
        if len(episode) < _AROUND or len(later) < _AROUND:
            return False
        return _terms(episode[-_AROUND:]).keys().isdisjoint(_terms(later[:_AROUND]))


def _episode(items: Sequence[Item]) -> ProposedChange | None:
    """Return an episode as a change, or None if nothing in it can be quoted."""
    terms = _terms(items)
    lines = _central_lines(items, terms)
    if not lines:
        return None
    participants: dict[JSONValue, None] = {}
    ends = []
    for item in items:
        if item.role:
            participants[item.role] = None
        participants |= dict.fromkeys(item.metadata.get("participants", ()))
        ends.append(item.metadata.get("until", item.valid_from.isoformat()))
    details: dict[str, JSONValue] = {
        "title": " ".join(term for term, _ in terms.most_common(_TITLE_TERMS)),
        "timestamp": items[0].valid_from.isoformat(),
        "until": max(ends),
        "participants": [*participants],
    }
    return ProposedChange(
        "\n".join(speaker + sentence for speaker, sentence in lines),
        lines[0][1],
        tuple(item.id for item in items),
        kind="episodic",
        details=details,
    )


def _terms(items: Sequence[Item]) -> Counter[str]:
    """Return how often the items say each term. A term of one letter, or of digits, says little."""
    found: Counter[str] = Counter()
    for item in items:
        found.update(term for term in analyze(item.text) if len(term) > 2 and term.isalpha())
    return found


def _central_lines(items: Sequence[Item], terms: Counter[str]) -> list[tuple[str, str]]:
    """Return the sentences with the most frequent terms, in their order, each with its speaker.

    A speaker is written as `Ann: `. An item that is an episode has no role, and names them itself.
    """
    lines = []
    for item in items:
        speaker = f"{item.role}: " if item.role else ""
        for sentence in sentences_in(item.text):
            text = " ".join(sentence.split())
            if _is_quotable(text):
                lines.append((speaker, text))

    def weight(place: int) -> int:
        return sum(terms[term] for term in {*analyze(lines[place][1])})

    chosen = []
    left = MAX_TEXT_CHARS
    for place in sorted(range(len(lines)), key=weight, reverse=True)[:_SENTENCES]:
        left -= len("".join(lines[place])) + 1
        if left < 0:
            break
        chosen.append(place)
    return [lines[place] for place in sorted(chosen)]


def _is_quotable(sentence: str) -> bool:
    """Return whether a sentence is a statement that may stand in an episode."""
    if " " not in sentence or len(sentence) > _MAX_SENTENCE_CHARS or sentence.endswith("?"):
        return False
    return without_credentials(sentence) == sentence
