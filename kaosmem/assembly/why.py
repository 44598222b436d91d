"""Why an item is in a context or not, in one or two sentences with numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kaosmem.display import preview, scored
from kaosmem.language.analysis import analyze

if TYPE_CHECKING:
    from kaosmem.assembly.context import Decision
    from kaosmem.assembly.cutoffs import Cutoff
    from kaosmem.types.items import Item

_NEAREST = 3
_PREVIEW_COLUMNS = 48
_MATCHING_SHARE = 2 / 3
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
class Facts:
    """The numbers of a turn that a sentence about one item needs.

    cutoff: of its section, None if that offered nothing. lacking: how many more tokens would have
        let it in, None if tokens did not decide.
    twin: how the item that stands for it is shown, "" without one. since: its day.
    """

    decision: Decision
    cutoff: Cutoff | None = None
    lacking: int | None = None
    twin: str = ""
    since: str = ""
    window: str = ""
    confidence: float | None = None


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


def never_stored(words: str, nearest: Sequence[Item]) -> Why:
    """Return the answer for words that no item has."""
    said = f"No item says {_quoted(words)}: it was never stored, or was erased."
    if nearest:
        texts = [f"{_quoted(item.text)} ({item.section})" for item in nearest]
        said += f" Nearest: {'; '.join(texts)}."
    return Why(None, said, tuple(nearest))


def answer(facts: Facts, others: int = 0) -> Why:
    """Return the answer for a decision and its numbers."""
    decision = facts.decision
    name = _quoted(decision.item.text) if decision.item is not None else repr(decision.item_id)
    place = f"{name} ({decision.section})"
    if decision.included:
        said = f"{place} is in, for {decision.tokens:,} tokens: {_why_in(facts)}."
    else:
        said = f"{place} is out: {_why_out(facts)}."
    if others:
        said += f" {others:,} other {'item matches' if others == 1 else 'items match'} as well."
    return Why(decision, said, others=others)


def _why_in(facts: Facts) -> str:
    decision = facts.decision
    reason = decision.reason.value
    if reason in _IN:
        return _IN[reason].format(rank=decision.rank, window=facts.window)
    said = _ranked(facts)
    strongest = max(decision.signals, key=lambda name: decision.signals[name], default="")
    if strongest and decision.signals[strongest] > 0:
        said += f", mostly by {strongest}"
    lowest = None if facts.cutoff is None else facts.cutoff.lowest
    if lowest is not None and decision.score is not None and decision.score > lowest:
        said += f"; the lowest score that is in is {_score(lowest)}"
    return said


def _why_out(facts: Facts) -> str:
    decision = facts.decision
    reason = decision.reason.value
    if reason in ("archived", "filtered", "duplicate"):
        return _named_reason(facts)
    if reason in ("no_room", "before_tail"):
        return _without_room(facts)
    if reason == "outranked":
        return _outranked(facts)
    if reason == "unrelated" and decision.score is not None:
        best = "" if facts.cutoff is None else _best(facts.cutoff)
        return f"{_ranked(facts)}, below the least score that its section shows{best}"
    if reason == "low_confidence" and facts.confidence is not None:
        return f"it was retrieved, and the confidence {facts.confidence:.2f} is below the least that was asked for"
    return _OUT.get(reason, reason).format(section=decision.section)


def _named_reason(facts: Facts) -> str:
    """Return why a filter, a replacement or a twin keeps an item out."""
    decision = facts.decision
    if decision.reason.value == "duplicate":
        return f"it says the same as {facts.twin or decision.same_as}, which is in"
    if decision.reason.value == "filtered":
        return f"it does not pass the filter: {decision.fault or 'a field has another value'}"
    if decision.fault:
        return decision.fault
    if decision.same_as is not None:
        return f"{facts.twin or decision.same_as} with the same key replaced it{facts.since}"
    return (
        "it left its section for the archive (evicted, removed or updated), and the query did "
        "not recall it"
    )


def _without_room(facts: Facts) -> str:
    decision = facts.decision
    cutoff = facts.cutoff
    said = _ranked(facts)
    if decision.reason.value == "before_tail" and decision.score is None:
        said = "it is an earlier message than the newest ones that fit"
    if facts.lacking is None or cutoff is None:
        return f"{said}, and it did not fit"
    said += f", and takes {decision.tokens:,} tokens, of which {cutoff.free:,} were free"
    said += f". About {facts.lacking:,} more tokens{_more_score(facts)} would have let it in"
    return said


def _more_score(facts: Facts) -> str:
    """Return how much more score would have put an item before the lowest one that is in."""
    cutoff = facts.cutoff
    score = facts.decision.score
    if cutoff is None or cutoff.lowest is None or score is None or score >= cutoff.lowest:
        return ""
    return f", or {_score(cutoff.lowest - score)} more score"


def _outranked(facts: Facts) -> str:
    decision = facts.decision
    cutoff = facts.cutoff
    if decision.score is None:
        offered = f"{cutoff.offered:,} newer or better units" if cutoff else "other items"
        return f"the query does not rank it, and its section offered {offered} before it"
    said = _ranked(facts)
    if cutoff is None:
        return f"{said}, and its section offered nothing"
    order = "newest" if cutoff.lowest is None and cutoff.best_out is None else "best"
    said += f", and its section offered only its {order} {cutoff.offered:,}{_best(cutoff)}"
    more = _more_score(facts)
    return f"{said}. About {more[5:]} would have let it in" if more else said


def _best(cutoff: Cutoff) -> str:
    return (
        "" if cutoff.lowest is None else f"; the lowest score that is in is {_score(cutoff.lowest)}"
    )


def _ranked(facts: Facts) -> str:
    decision = facts.decision
    if decision.rank is None:
        return "it was not offered"
    of = f" of {facts.cutoff.offered:,} offered" if facts.cutoff and decision.included else ""
    if decision.score is None:
        return f"it is number {decision.rank:,}{of} in its section"
    return f"it ranked {decision.rank:,}{of} with score {_score(decision.score)}"


def _score(score: float) -> str:
    return f"{score:.2f}" if 0.01 <= abs(score) < 1_000 else scored(score)


def _quoted(text: str) -> str:
    return f"'{preview(text, _PREVIEW_COLUMNS)}'"


_IN = {
    "must": "it must be shown (pinned, static, or the newest message)",
    "shortened": "it is required or the best match, and a shortened copy fits",
    "tail": "it belongs to the unbroken run of the newest messages",
    "newest": "it is number {rank} of the newest items of its section",
    "newer": "it gives another value for the subject of an earlier item that is in",
    "visible": "an earlier turn of window {window} showed it",
}
_OUT = {
    "unrelated": "nothing in the query speaks for it, and its section does not fit whole",
    "outdated": "later items give its subject another value, and they did not fit with it",
    "held_back": "it is static, and its tokens are kept for the floors of other sections",
    "orphan": "it is a tool result without its call, or a second one for the same call",
    "low_confidence": "it was retrieved, and the confidence is below the least that was asked for",
    "later": "the window appends no further block before the user speaks again",
    "not_shown": "its section {section} was not asked for, or is never shown",
}
