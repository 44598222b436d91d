"""The conflict rule: a new value of a key is a new version, unless there is a doubt.

Procedures have no versions: a run of the same steps counts for the known procedure.
"""

from __future__ import annotations

import re

from kaosmem.formation.statements import says_end
from kaosmem.language.analysis import analyze
from kaosmem.language.keys import key_words
from kaosmem.language.marks import marks_of, words_of
from kaosmem.types.items import Item

ANOTHER_SPEAKER = "another speaker"
LOWER_TRUST = "lower trust"
NO_CLEAR_TIME = "no clear time"
ANOTHER_SUBJECT = "no word in common"
ANOTHER_VALUE = "another name"
NO_END = "no word that it is over"
_VALUES = re.compile(r"(?<=[a-z,] )[A-Z][\w-]*|\S*\d\S*")
_PERSONS = frozenset(analyze("I me my we our user assistant"))


def doubt_about(new: Item, live: Item, *, has_exact_key: bool) -> str:
    """Return why it is not clear that an item replaces the live one of its key, "" if it is clear.

    It is clear if the same speaker says it, with no less trust, and both or none of them state a
    time. An earlier version is no doubt: the section puts it in its place by its time.

    Args:
        has_exact_key: A fixed rule gave the key, so that both are about one subject for sure.

    >>> from kaosmem import SessionMemory
    >>> memory = SessionMemory.test_mode()
    >>> one = memory.add("findings", "I live in Oslo.", role="Ann", key="ann.home")
    >>> other = memory.add("messages", "Ann lives in Bergen.", role="Bob", key="ann.home")
    >>> doubt_about(other, one, has_exact_key=True)
    'another speaker'
    """
    if new.role != live.role:
        return ANOTHER_SPEAKER
    if new.trust < live.trust:
        return LOWER_TRUST
    if (new.stated_from is None) != (live.stated_from is None):
        return NO_CLEAR_TIME
    if not has_exact_key and not _shares_subject(new.text, live):
        return ANOTHER_SUBJECT
    return ""


def doubt_about_end(end: Item, live: Item) -> str:
    """Return why it is not clear that a quote ends the live item of its key, "" if it is clear.

    Args:
        end: The proposal as an item, with its quote.
    """
    doubt = doubt_about(end, live, has_exact_key=True)
    if doubt:
        return doubt
    quote = str(end.metadata["quote"])
    if not _shares_subject(quote, live):
        return ANOTHER_SUBJECT
    known = words_of(live.text)
    if any(is_sure and mark not in known for mark, is_sure in marks_of(quote).items()):
        return ANOTHER_VALUE
    return "" if says_end(quote) else NO_END


def _shares_subject(text: str, live: Item) -> bool:
    """Return whether a text has a word in common with a live item or its key.

    The words for the speaker do not count, and neither do names and numbers of the live item: they
    are its value, and not its subject.
    """
    key = key_words(live.key or "")
    values = " ".join(_VALUES.findall(live.text))
    subject = {*analyze(live.text)}.difference(analyze(values)).union(analyze(key))
    subject.difference_update(_PERSONS, analyze(live.role))
    return not subject.isdisjoint(analyze(text))


def is_run_of(procedure: Item, text: str, *, worked: bool) -> bool:
    r"""Return whether a run, written as a procedure, is one of a known procedure.

    Both have the same steps, and their tasks have a word in common. A run that failed may have
    ended early.

    >>> from kaosmem import SessionMemory
    >>> known = SessionMemory.test_mode().add("findings", "Run the tests.\n1. build()\n2. test()")
    >>> is_run_of(known, "Please run all tests\n1. build()", worked=False)
    True
    >>> is_run_of(known, "Run the tests.\n1. build()", worked=True)
    False
    """
    task, *steps = text.strip().split("\n")
    known_task, *known_steps = procedure.text.split("\n")
    if not steps:
        return analyze(text) == analyze(procedure.text)
    if not worked:
        known_steps = known_steps[: len(steps)]
    return steps == known_steps and not {*analyze(task)}.isdisjoint(analyze(known_task))
