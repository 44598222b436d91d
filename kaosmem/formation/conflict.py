"""The conflict rule: a new value of a key is a new version, unless there is a doubt.

Procedures have no versions: a run of the same steps counts for the known procedure.
"""

from __future__ import annotations

import re

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


def doubt_about(new: Item, live: Item) -> str:
    """Return why it is not clear that an item replaces the live one of its key, "" if it is clear.

    It is clear if the same speaker says it, with no less trust, and both or none of them state a
    time. An earlier version is no doubt: the section puts it in its place by its time.

    >>> from kaosmem import SessionMemory
    >>> memory = SessionMemory.test_mode()
    >>> one = memory.add("findings", "I live in Oslo.", role="Ann")
    >>> other = memory.add("findings", "Ann lives in Bergen.", role="Bob")
    >>> doubt_about(other, one)
    'another speaker'
    """
    if new.role != live.role:
        return ANOTHER_SPEAKER
    if new.trust < live.trust:
        return LOWER_TRUST
    if (new.stated_from is None) != (live.stated_from is None):
        return NO_CLEAR_TIME
    return ""


def shares_subject(text: str, live: Item, key: str) -> bool:
    """Return whether a text has a word in common with a live item or the key of both.

    The words for the speaker do not count, and neither do names and numbers of the live item: they
    are its value, and not its subject.
    """
    values = " ".join(_VALUES.findall(live.text))
    shared = frozenset(analyze(text)).intersection(analyze(f"{live.text} {key_words(key)}"))
    shared -= frozenset(analyze(values)) - frozenset(analyze(key_words(key)))
    return bool(shared - _PERSONS - frozenset(analyze(live.role)))


def names_another_value(quote: str, live: Item) -> bool:
    """Return whether a quote names something that a live item does not name.

    >>> from kaosmem import SessionMemory
    >>> live = SessionMemory.test_mode().add("findings", "I work at Acme.")
    >>> [names_another_value(f"I left {name}", live) for name in ("Acme", "Initech")]
    [False, True]
    """
    known = words_of(live.text)
    return any(is_sure and mark not in known for mark, is_sure in marks_of(quote).items())


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
