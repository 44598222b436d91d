"""Why an item is in a context or not, in one or two sentences with numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from kaosmem.display import listed, preview, scored
from kaosmem.language.analysis import analyze
from kaosmem.types.outcomes import RETIRED, Outcomes

if TYPE_CHECKING:
    from kaosmem.assembly.context import Decision
    from kaosmem.assembly.seen import Seen
    from kaosmem.types.items import Item

_NEAREST = 3
_PREVIEW_COLUMNS = 48
_MATCHING_SHARE = 3 / 4
"""An item is the one that is meant if it has this share of the words."""


@dataclass(frozen=True, slots=True)
class Why:
    """The answer to why an item is in a context or not. `print` shows its sentences.

    decision: the decision on the item. None if the session has never stored such an item.
    sentence: one or two sentences with numbers.
    nearest: the items whose texts come nearest, if none matches.
    others: the number of other items that match the words as well.

    >>> from kaosmem import SessionMemory
    >>> memory = SessionMemory.test_mode()
    >>> item = memory.add("findings", "Ann owns the deal.")
    >>> context = await memory.assemble_context("Who owns the deal?", budget=100)
    >>> print(context.why("ann owns"))
    'Ann owns the deal.' (findings) is in, for 5 tokens: it is number 1 of the newest items of its section.
    >>> print(context.why("the price of the deal"))
    No item says 'the price of the deal': it was never stored, or was erased. Nearest: 'Ann owns the deal.' (findings).
    """

    decision: Decision | None
    sentence: str
    nearest: tuple[Item, ...] = ()
    others: int = 0

    def __str__(self) -> str:
        return self.sentence


@dataclass(frozen=True, slots=True)
class Found:
    """The item that words mean. others: how many more match them as well."""

    item_id: str | None
    others: int = 0
    nearest: tuple[Item, ...] = ()


def find_item(words: str, items: Iterable[Item], order: Callable[[Item], int]) -> Found:
    """Return the item that some words mean: an id, a part of its text, or most of its words.

    Args:
        order: The standing of an item among equal matches. The lowest comes first.
    """
    known = {item.id: item for item in items}
    if words in known:
        return Found(words)
    wanted = _plain(words)
    containing = [item for item in known.values() if wanted and wanted in _plain(item.text)]
    if containing:
        best = min(containing, key=lambda item: (order(item), len(item.text)))
        return Found(best.id, len(containing) - 1)
    shares = _shares(words, known.values())
    close = [item for share, item in shares if share >= _MATCHING_SHARE]
    if close:
        most = shares[0][0]
        equal = [item for share, item in shares if share == most]
        return Found(min(equal, key=order).id, len(equal) - 1)
    return Found(None, nearest=tuple(item for _, item in shares[:_NEAREST]))


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def _shares(words: str, items: Iterable[Item]) -> list[tuple[float, Item]]:
    """Return the items that have a word, with their share of all words, best first."""
    wanted = {*analyze(words)}
    found = []
    for item in items:
        share = len(wanted.intersection(analyze(item.text))) / max(1, len(wanted))
        if share:
            found.append((share, item))
    found.sort(key=lambda each: (-each[0], len(each[1].text), each[1].id))
    return found


def never_stored(turn: Seen, words: str, nearest: Sequence[Item]) -> Why:
    """Return the answer for words that no item has.

    A source that could not be asked may hold such an item, so the answer names it.
    """
    said = f"No item says {_quoted(words)}: it was never stored, or was erased."
    silent = []
    for name, report in turn.sources.items():
        if report.status not in ("ok", "degraded"):
            silent.append(f"{name} ({report})")
    if silent:
        said = f"No item says {_quoted(words)}: it was never stored, was erased, or is in a source "
        said += f"that did not answer: {', '.join(silent)}."
    if nearest:
        texts = [f"{_quoted(item.text)} ({item.section})" for item in nearest]
        said += f" Nearest: {'; '.join(texts)}."
    return Why(None, said, tuple(nearest))


def answer(turn: Seen, decision: Decision, others: int = 0) -> Why:
    """Return the answer for a decision of a turn. others: the other items that match."""
    name = _quoted(decision.item.text) if decision.item is not None else repr(decision.item_id)
    outcomes = None if decision.item is None else Outcomes.of(decision.item)
    note = f", {outcomes.note}" if outcomes else ""
    place = f"{name} ({decision.section}{note})"
    if decision.included:
        said = f"{place} is in, for {decision.tokens:,} tokens: {_why_in(turn, decision)}."
    else:
        said = f"{place} is out: {_why_out(turn, decision)}."
    if others:
        said += f" {others:,} other {'item matches' if others == 1 else 'items match'} as well."
    return Why(decision, said, others=others)


def _why_in(turn: Seen, decision: Decision) -> str:
    reason = decision.reason.value
    if reason == "newest":
        return f"it is number {decision.rank} of the newest items of its section"
    if reason == "visible":
        return f"an earlier turn of window {turn.window} showed it"
    if reason not in ("relevant", "recalled"):
        return MEANINGS[reason]
    said = _ranked(turn, decision)
    strongest = max(decision.signals, key=lambda name: decision.signals[name], default="")
    if strongest and decision.signals[strongest] > 0:
        said += f", mostly by {strongest}"
    return said + _lowest(turn, decision)


def _why_out(turn: Seen, decision: Decision) -> str:
    match decision.reason.value:
        case "duplicate":
            return f"it says the same as {_other(turn, decision)}, which is in"
        case "filtered":
            return f"it does not pass the filter: {decision.fault or 'a field has another value'}"
        case "archived" if decision.item is not None and RETIRED in decision.item.metadata:
            return f"it was retired to the archive, as it {decision.item.metadata[RETIRED]}"
        case "archived":
            return decision.fault or _replaced(turn, decision)
        case "no_room" | "before_tail":
            return _without_room(turn, decision)
        case "outranked":
            return decision.fault or _outranked(turn, decision)
        case "not_shown" if turn.asked and decision.section not in turn.asked:
            return decision.fault or f"the turn asked for {listed(turn.asked, 4)} alone"
        case "unrelated" if decision.score is not None:
            said = f"{_ranked(turn, decision)}, below the least score that its section shows"
            return said + _lowest(turn, decision)
        case "low_confidence" if turn.confidence is not None:
            return (
                f"it was retrieved, and the confidence of {turn.confidence:.2f} is below the "
                "least that was asked for"
            )
    return decision.fault or MEANINGS[decision.reason.value]


def _other(turn: Seen, decision: Decision) -> str:
    """Return the text of the item that stands for another one."""
    other = turn.decision(decision.same_as or "").item
    return repr(decision.same_as) if other is None else _quoted(other.text)


def _replaced(turn: Seen, decision: Decision) -> str:
    if decision.same_as is None:
        return f"{MEANINGS['archived']}, and the query did not recall it"
    newer = turn.decision(decision.same_as).item
    return f"{decision.same_as!r} replaced it" if newer is None else replaced_by(newer)


def replaced_by(newer: Item) -> str:
    """Return the words for an item that a newer version replaced."""
    return f"{_quoted(newer.text)} with the same key replaced it on {newer.valid_from.date()}"


def gone(
    item: Item, items: Iterable[Item], at: datetime, removed_at: datetime | None = None
) -> str:
    """Return why a session did not hold an item at a time, "" if it did.

    Args:
        items: The items among which a newer version may be.
        removed_at: The time at which the item was removed or replaced.
    """
    if item.is_expired(at) and item.expires_at is not None:
        return f"it expired on {item.expires_at.isoformat(timespec='seconds')}"
    newer = successor(item, items, at)
    if newer is not None:
        return replaced_by(newer)
    if removed_at is not None and removed_at <= at:
        return f"it was removed on {removed_at:%Y-%m-%d %H:%M}"
    return ""


def successor(item: Item, items: Iterable[Item], at: datetime) -> Item | None:
    """Return the newest item with the key of another one that was stored between it and a time."""
    if item.key is None:
        return None
    found = None
    for each in items:
        is_later = item.created_at < each.created_at <= at
        if is_later and (each.section, each.key) == (item.section, item.key):
            found = each if found is None or each.created_at > found.created_at else found
    return found


def _without_room(turn: Seen, decision: Decision) -> str:
    cutoff = turn._cutoffs.by_section.get(decision.section)
    lacking = turn._cutoffs.lacking(decision.item_id)
    said = _ranked(turn, decision)
    if decision.reason.value == "before_tail" and decision.score is None:
        said = MEANINGS["before_tail"]
    if lacking is None or cutoff is None:
        return f"{said}, and it did not fit"
    needed = cutoff.free + lacking
    layout = "the messages after it" if decision.reason.value == "before_tail" else "its layout"
    said += f", and needs {needed:,} tokens with {layout}, of which {cutoff.free:,} were free"
    score = _more_score(turn, decision)
    score = f", or {score} more score" if score else ""
    return f"{said}. About {lacking:,} more tokens{score} would have let it in"


def _outranked(turn: Seen, decision: Decision) -> str:
    cutoff = turn._cutoffs.by_section.get(decision.section)
    if cutoff is None or not cutoff.offered:
        return f"{_ranked(turn, decision)}, and its section offered nothing"
    if decision.score is None:
        return (
            f"the query does not rank it, and its section offered {cutoff.offered:,} newer or "
            "better units before it"
        )
    order = "newest" if cutoff.lowest is None and cutoff.best_out is None else "best"
    said = f"{_ranked(turn, decision)}, and its section offered only its {order} {cutoff.offered:,}"
    said += _lowest(turn, decision)
    score = _more_score(turn, decision)
    return f"{said}. About {score} more score would have let it in" if score else said


def _more_score(turn: Seen, decision: Decision) -> str:
    """Return how much more score would have put an item before the lowest one that is in."""
    cutoff = turn._cutoffs.by_section.get(decision.section)
    if cutoff is None or cutoff.lowest is None or decision.score is None:
        return ""
    return _score(cutoff.lowest - decision.score) if decision.score < cutoff.lowest else ""


def _lowest(turn: Seen, decision: Decision) -> str:
    """Return the lowest score of the section that is in, if it is another item's."""
    cutoff = turn._cutoffs.by_section.get(decision.section)
    if cutoff is None or cutoff.lowest is None or cutoff.lowest == decision.score:
        return ""
    return f"; the lowest score that is in is {_score(cutoff.lowest)}"


def _ranked(turn: Seen, decision: Decision) -> str:
    if decision.rank is None:
        return "it was not offered"
    cutoff = turn._cutoffs.by_section.get(decision.section)
    of = f" of {cutoff.offered:,} offered" if cutoff and decision.included else ""
    if decision.score is None:
        return f"it is number {decision.rank:,}{of} in its section"
    return f"it ranked {decision.rank:,}{of} with score {_score(decision.score)}"


def _score(score: float) -> str:
    return f"{score:.2f}" if 0.01 <= abs(score) < 1_000 else scored(score)


def _quoted(text: str) -> str:
    return f"'{preview(text, _PREVIEW_COLUMNS)}'"


IN = frozenset({"must", "shortened", "tail", "relevant", "newest", "newer", "recalled", "visible"})
"""The reasons of items that are in."""
MEANINGS = {
    "must": "it must be shown: static, pinned, or the newest message",
    "shortened": "it is required; a shorter copy fits",
    "tail": "it is in the unbroken run of the newest messages",
    "relevant": "it is worth its tokens to the query",
    "newest": "it is among the newest of its section",
    "newer": "it gives another value than an earlier item that is in",
    "recalled": "it was evicted, replaced or said before, and matches",
    "unrelated": "nothing in the query speaks for it",
    "no_room": "it did not fit",
    "outdated": "later items give another value, and did not fit with it",
    "duplicate": "an item that is in says the same",
    "before_tail": "it is an earlier message than the newest that fit",
    "orphan": "it is a tool result without its call, or a second one",
    "low_confidence": "the confidence is below the least asked for",
    "filtered": "it does not pass the filter, or did not hold then",
    "visible": "an earlier turn of the window showed it",
    "later": "the window appends no block before the user speaks",
    "outranked": "its section offered other items before it",
    "not_shown": "its section was not asked for, or is never shown",
    "archived": "it left its section: evicted, replaced or removed",
}
"""What each reason says, as a clause of a sentence, of a legend and of the page."""
