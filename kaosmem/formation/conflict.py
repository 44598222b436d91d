"""The conflict rule: a new value of a key is a new version, unless there is a doubt.

Procedures have no versions: a run of the same steps counts for the known procedure.
"""

from __future__ import annotations

import re

from kaosmem.formation.changes import ProposedChange
from kaosmem.formation.grounding import unknown_marks
from kaosmem.formation.quotes import patterns
from kaosmem.language.analysis import analyze
from kaosmem.language.keys import key_words
from kaosmem.language.marks import words_of
from kaosmem.types.items import Item

_VALUES = re.compile(r"(?<=[a-z,] )[A-Z][\w-]*|\S*\d\S*")
_PERSONS = frozenset(analyze("I me my we our user assistant"))


def doubt_about(
    new: Item,
    live: Item,
    change: ProposedChange,
    *,
    has_exact_key: bool,
) -> str:
    """Return why it is not clear that a change of a key is about its live item, "" if it is clear.

    It is clear if the same speaker says it, or a person after the assistant, with no less trust,
    and their order is clear. A text without a time was said when it was added, or before. So it is
    the later one of the two only if the other states an earlier time. Of two texts that state their
    times, the section puts the earlier version in its place. A quote ends a fact only if it says
    so, is not older than the fact, and names nothing that the fact does not name.

    Args:
        new: The change as an item.
        has_exact_key: A fixed rule gave the key, so that both are about one subject for sure.

    >>> from kaosmem import SessionMemory
    >>> memory = SessionMemory.test_mode()
    >>> one = memory.add("findings", "I live in Oslo.", role="Ann", key="ann/home")
    >>> other = memory.add("messages", "Ann lives in Bergen.", role="Bob", key="ann/home")
    >>> doubt_about(other, one, ProposedChange(other.text, "", ()), has_exact_key=True)
    'another speaker'
    """
    if live.role.casefold() not in ("assistant", new.role.casefold()):
        return "another speaker"
    if new.trust < live.trust:
        return "lower trust"
    is_before = new.valid_from < live.valid_from
    has_one_time = (new.stated_from is None) != (live.stated_from is None)
    if has_one_time and is_before:
        return "no clear time"
    is_end = change.action == "retire"
    if is_end and is_before:
        return "told before it began"
    if not (has_exact_key or _shares_subject(change.quote if is_end else new.text, live)):
        return "no word in common"
    return _doubt_about_end(change.quote, live) if is_end else ""


def _doubt_about_end(quote: str, live: Item) -> str:
    """Return why it is not clear that a quote ends a live item, "" if it is clear."""
    if any(unknown_marks(quote, words_of(live.text))):
        return "another name"
    words = patterns("statements")
    if not any(words[name].search(quote) for name in ("ending", "over")):
        return "no word that it is over"
    return ""


def _shares_subject(text: str, live: Item) -> bool:
    """Return whether a text has a word in common with a live item or its key.

    The words for the speaker do not count, and neither do names and numbers of the live item: they
    are its value, and not its subject. Words such as "lives in" and "moved to" stand for each other.
    """
    key = key_words(live.key or "")
    values = " ".join(_VALUES.findall(live.text))
    subject = {*analyze(live.text)}
    subject.difference_update(analyze(values))
    subject.update(analyze(key))
    subject.difference_update(_PERSONS, analyze(live.role))
    if not subject.isdisjoint(analyze(text)):
        return True
    known = f"{key} {live.text}"
    for name in ("place", "work"):
        words = patterns("statements")[name]
        if words.search(text) and words.search(known):
            return True
    return False


def is_run_of(procedure: Item, run: ProposedChange) -> bool:
    r"""Return whether a run is one of a known procedure.

    Both have the same steps, and their tasks have a word in common. A run that failed may have
    ended early.

    >>> from kaosmem import SessionMemory
    >>> known = SessionMemory.test_mode().add("findings", "Run the tests.\n1. build()\n2. test()")
    >>> is_run_of(known, ProposedChange("Please run all tests\n1. build()", "", (), worked=False))
    True
    >>> is_run_of(known, ProposedChange("Run the tests.\n1. build()", "", (), worked=True))
    False
    >>> is_run_of(known, ProposedChange("Run the tests.", "", (), worked=False))
    False
    """
    task, *steps = run.text.strip().split("\n")
    known_task, *known_steps = procedure.text.split("\n")
    if not steps:
        return analyze(run.text) == analyze(procedure.text)
    if not run.worked:
        known_steps = known_steps[: len(steps)]
    if steps != known_steps:
        return False
    return not {*analyze(task)}.isdisjoint(analyze(known_task))
