"""The kinds of facts that change often, and the age from which they need to be verified."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache

from kaosmem.language.analysis import analyze
from kaosmem.language.duplicates import FORMED
from kaosmem.language.keys import key_words
from kaosmem.types.items import Item, once_per_item

CHANGES_OFTEN = {
    365: "home address city residence work job employer company position age",
    180: "owner lead manager phone email office vendor supplier version stack priority goal",
    90: "price cost fee rate rent salary budget quota discount limit target headcount",
    60: "plan planning intend schedule timeline deadline date meeting venue",
    14: "status approval stock availability",
}
"""The kinds of facts that change often, by the number of days after which one is old.

A kind is the last word of the fact's key, or one of the first four words of a fact without a key.
"""
_FIRST_WORDS = 4


@once_per_item
def days_until_old(item: Item) -> int:
    """Return after how many days a fact is old. 0: it is no formed fact, or changes seldom.

    >>> from kaosmem import SessionMemory
    >>> from kaosmem.formation import PatternFormer
    >>> memory = SessionMemory.test_mode()
    >>> said = memory.add("messages", "My name is Ann. I live in Oslo. I plan to visit Rome.")
    >>> [days_until_old(change.item) for change in await memory.form(PatternFormer())]
    [0, 365, 60]
    """
    if FORMED not in item.tags or item.metadata.get("kind") != "semantic":
        return 0
    words = analyze(" ".join(item.text.split()[:_FIRST_WORDS]))
    if item.key is not None:
        words = analyze(key_words(item.key))[-1:]
    return min((days for days, terms in _terms().items() if not terms.isdisjoint(words)), default=0)


def with_verification(
    item: Item,
    verified_at: datetime | None,
    now: datetime,
) -> Item:
    """Return an item that says when it was last verified, if it is an old fact.

    Args:
        verified_at: When it was said again or confirmed, None if it never was. If that was after
            `now`, it held at `now`.
    """
    days = days_until_old(item)
    if not days:
        return item
    last = item.valid_from
    if verified_at is not None:
        last = max(last, verified_at)
    if now - last <= timedelta(days=days):
        return item
    # The same item each time, which keeps what was measured of it.
    name = f"last verified {last.isoformat()}"
    return item.memo(name, lambda item: replace(item, last_verified=last))


@cache
def _terms() -> dict[int, set[str]]:
    return {days: {*analyze(words)} for days, words in CHANGES_OFTEN.items()}
