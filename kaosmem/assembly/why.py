"""Why an item is in a context or not, in one or two sentences with numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from kaosmem.display import count_text, preview, score_text
from kaosmem.formats.labels import source_label
from kaosmem.language.analysis import analyze
from kaosmem.names import shown
from kaosmem.types.outcomes import RETIRED, Outcomes

if TYPE_CHECKING:
    from kaosmem.assembly.assembled_turn import AssembledTurn
    from kaosmem.assembly.context import Decision
    from kaosmem.types.items import Item

_NEAREST = 3
_PREVIEW_COLUMNS = 48
_MATCHING_SHARE = 3 / 4
"""An item is the one that is meant if it has this share of the words."""


@dataclass(frozen=True, slots=True)
class Why:
    """The answer to why an item is in a context or not. `print` shows its sentences.

    Attributes:
        decision: The decision on the item. None if the session has never stored such an item.
        sentence: One or two sentences with numbers.
        nearest: The items whose texts come nearest, if none matches.
        others: The number of other items that match the words as well.

    >>> from kaosmem import SessionMemory
    >>> memory = SessionMemory.test_mode()
    >>> item = memory.add("findings", "Ann owns the deal.")
    >>> context = await memory.assemble_context("Who owns the deal?", budget=100)
    >>> print(context.why("ann owns"))
    'Ann owns the deal.' (findings) is in, for 5 tokens: it is among the newest of its section.
    >>> print(context.why("the price of the deal"))
    No item says 'the price of the deal': it was never stored, or was erased. Nearest: 'Ann owns the deal.' (findings).
    """

    decision: Decision | None
    sentence: str
    nearest: tuple[Item, ...] = ()
    others: int = 0

    def __str__(self) -> str:
        return self.sentence


def find_items(words: str, items: Iterable[Item]) -> tuple[list[Item], list[Item]]:
    """Return the items that some words mean, and the nearest ones if there is none.

    The words are an id, a key, a part of a source or of a text, or most of its words.

    Args:
        items: The items, preferred ones first. Of two with one id, the first counts.
    """
    known: dict[str, Item] = {}
    for item in items:
        known.setdefault(item.id, item)
    if words in known:
        return [known[words]], []
    keyed = [item for item in known.values() if item.key == words]
    if keyed:
        return keyed, []
    wanted = _plain(words)
    said = {each: _plain(f"{source_label(item)}\n{item.text}") for each, item in known.items()}
    matching = [item for each, item in known.items() if wanted and wanted in said[each]]
    if matching:
        return matching, []
    shares = _shares_of_words(words, known.values())
    best = max(shares.values(), default=0.0)
    if best >= _MATCHING_SHARE:
        return [known[item_id] for item_id, share in shares.items() if share == best], []
    nearest = sorted(shares, key=lambda item_id: -shares[item_id])[:_NEAREST]
    return [], [known[item_id] for item_id in nearest]


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def _shares_of_words(words: str, items: Iterable[Item]) -> dict[str, float]:
    """Return the share of some words that each item has, by id, of the items that have one."""
    wanted = {*analyze(words)}
    shares = {}
    for item in items:
        common = wanted.intersection(analyze(item.text))
        if common:
            shares[item.id] = len(common) / len(wanted)
    return shares


def never_stored(
    turn: AssembledTurn,
    words: str,
    nearest: Sequence[Item],
) -> Why:
    """Return the answer for words that no item has.

    A source that could not be asked may hold such an item, so the answer names it.
    """
    said = f"No item says {_quoted(words)}: it was never stored, or was erased."
    silent = []
    for name, report in turn.sources.items():
        if report.status not in ("ok", "degraded"):
            silent.append(f"{name} ({report})")
    if silent:
        said += f" It may be in a source that did not answer: {', '.join(silent)}."
    if nearest:
        texts = [f"{_quoted(item.text)} ({item.section})" for item in nearest]
        said += f" Nearest: {'; '.join(texts)}."
    return Why(None, said, tuple(nearest))


def answer(
    turn: AssembledTurn,
    decision: Decision,
    others: int = 0,
) -> Why:
    """Return the answer for a decision of a turn. others: the other items that match."""
    name = repr(decision.item_id)
    note = ""
    if decision.item is not None:
        name = _quoted(decision.item.text)
        outcomes = Outcomes.of(decision.item)
        if outcomes:
            note = f", {outcomes.note}"
    if decision.included:
        outcome = f"in, for {count_text(decision.tokens, 'token')}"
    else:
        outcome = "out"
    clauses = "; ".join([_cause(turn, decision), *_figures(turn, decision)])
    said = f"{name} ({decision.section}{note}) is {outcome}: {clauses}."
    lacked = [*_lacked(turn, decision)]
    if lacked:
        said += f" It lacked about {' or '.join(lacked)}."
    if others:
        said += f" {others:,} other {'item matches' if others == 1 else 'items match'} as well."
    return Why(decision, said, others=others)


def _cause(turn: AssembledTurn, decision: Decision) -> str:
    """Return the reason of a decision as a clause, with the item that stands for another one."""
    reason = decision.reason.value
    cause = REASON_MEANINGS[reason]
    if decision.same_as is not None:
        other = turn.decision(decision.same_as).item
        if other is None:
            return f"{cause}: {decision.same_as!r}"
        if reason == "archived":
            return replaced_by(other)
        return f"{cause}: {_quoted(other.text)}"
    if reason == "low_confidence" and turn.confidence is not None:
        return f"{cause}: it is {turn.confidence:.2f}"
    if reason == "archived" and decision.item is not None:
        retired = decision.item.metadata.get(RETIRED)
        if retired is not None:
            return f"it was retired to the archive, as it {retired}"
    return decision.fault or cause


def _figures(turn: AssembledTurn, decision: Decision) -> Iterator[str]:
    """Yield the rank and score of an item, and the cutoff of its section, as clauses."""
    cutoff = turn.cutoffs.get(decision.section)
    is_unranked = decision.included and decision.score is None
    if decision.rank is None or cutoff is None or is_unranked or decision.reason.value == "visible":
        return
    said = f"it ranked {decision.rank:,}"
    if decision.score is not None:
        said += f" with score {_score(decision.score)}"
    yield f"{said} ({cutoff.offered:,} offered)"
    strongest = max(decision.signals, key=lambda name: decision.signals[name], default="")
    if decision.included and strongest and decision.signals[strongest] > 0:
        yield f"its strongest signal is {strongest}"
    if cutoff.lowest is not None and decision.score not in (None, cutoff.lowest):
        yield f"the lowest score that is in is {_score(cutoff.lowest)}"


def _lacked(turn: AssembledTurn, decision: Decision) -> Iterator[str]:
    """Yield the tokens and the score that an item lacked, nothing for one that is in."""
    if decision.included:
        return
    if decision.lacking is not None:
        lacked = count_text(decision.lacking, "token")
        yield (
            f"{lacked} of its section's own budget" if _is_at_own_budget(turn, decision) else lacked
        )
    cutoff = turn.cutoffs.get(decision.section)
    if cutoff is None or cutoff.lowest is None or decision.score is None:
        return
    by_score = decision.reason.value in ("outranked", "unrelated")
    is_beaten = decision.lacking is not None or by_score
    if is_beaten and decision.score < cutoff.lowest:
        yield f"{_score(cutoff.lowest - decision.score)} of score"


def _is_at_own_budget(turn: AssembledTurn, decision: Decision) -> bool:
    """Return whether an item is out for its section's own budget, as a notice of the turn says."""
    section = f"section {shown(decision.section)} "
    return decision.tokens <= turn.budget - turn.used and any(
        notice.startswith(section) and "for its own budget" in notice for notice in turn.notices
    )


def replaced_by(newer: Item) -> str:
    """Return the words for an item that a newer version replaced."""
    return f"{_quoted(newer.text)} with the same key replaced it on {newer.valid_from.date()}"


def why_not_held(
    item: Item,
    items: Iterable[Item],
    at: datetime,
    removed_at: datetime | None = None,
) -> str:
    """Return why a session did not hold an item at a time, "" if it did.

    Args:
        items: The items among which a newer version may be.
        removed_at: The time at which the item was removed or replaced.
    """
    if item.is_expired(at) and item.expires_at is not None:
        return f"it expired on {item.expires_at:%Y-%m-%d %H:%M:%S}"
    newer = _successor(item, items, at)
    if newer is not None:
        return replaced_by(newer)
    if removed_at is not None and removed_at <= at:
        return f"it was removed on {removed_at:%Y-%m-%d %H:%M}"
    return ""


def _successor(
    item: Item,
    items: Iterable[Item],
    at: datetime,
) -> Item | None:
    """Return the newest item with the key of another one that was stored between it and a time."""
    if item.key is None:
        return None  # the items may be read from files
    found = None
    for each in items:
        is_version = (each.section, each.key) == (item.section, item.key)
        is_later = item.created_at < each.created_at <= at
        if is_version and is_later:
            found = max(found or each, each, key=lambda version: version.created_at)
    return found


def _score(score: float) -> str:
    if 0.01 <= abs(score) < 1_000:
        return f"{score:.2f}"
    return score_text(score)


def _quoted(text: str) -> str:
    return f"'{preview(text, _PREVIEW_COLUMNS)}'"


INCLUDED_REASONS = frozenset(
    {"must", "shortened", "tail", "relevant", "newest", "newer", "recalled", "visible"}
)
"""The reasons of items that are in."""
REASON_MEANINGS = {
    "must": "it must be shown: static, pinned, or the newest message",
    "shortened": "a shorter copy is shown, as the whole takes too much",
    "tail": "it is in the unbroken run of the newest messages",
    "relevant": "it is worth its tokens to the query",
    "newest": "it is among the newest of its section",
    "newer": "it gives another value than an earlier item that is in",
    "recalled": "it was evicted, replaced or said before, and matches",
    "unrelated": "nothing in the query speaks for it, or its score is too low",
    "no_room": "it did not fit",
    "outdated": "later items give another value, and did not fit with it",
    "duplicate": "an item that is in says the same",
    "before_tail": "it is an earlier message than the newest that fit",
    "orphan": "it is a tool result without its call, or a second one",
    "low_confidence": "it was retrieved, and too little of the query speaks for it",
    "filtered": "it does not pass the filter, or did not hold then",
    "visible": "an earlier turn of the window showed it",
    "later": "the window appends no block before the user speaks",
    "outranked": "its section offered other items before it",
    "not_shown": "its section was not asked for, or is never shown",
    "archived": "it left its section: evicted, replaced or removed",
}
"""What each reason says, as a clause of a sentence, of a legend and of the page."""
