"""The facts and the standing rules that a summary keeps verbatim, in a bounded list that later summaries take on."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, tee
from typing import NamedTuple

from kaosmem.compaction.facts import Fact, facts_in, facts_of
from kaosmem.compaction.rules import RULE_CUES, rules_of
from kaosmem.tokens import TokenCounter
from kaosmem.types import ChatMessage, ToolResultBlock, ToolUseBlock

SUMMARY_ROLE = "summary"

RULES_HEADING = "Rules of users, verbatim:\n"
SAID_HEADING = "Kept verbatim:\n"
TOOLS_HEADING = "Kept verbatim of tools:\n"
_HEADINGS = tuple(heading.strip() for heading in (RULES_HEADING, SAID_HEADING, TOOLS_HEADING))
_BULLET = "- "
_SEPARATOR = "; "
_LEAST_ROOM = 8  # tokens; where less is left of a list, few facts would fit
_SHARE = 4
"""If there is no room for all, one token in four is for new facts, one for facts of tools, and three for rules."""


class _Parts(NamedTuple):
    """A summary's text by its headings."""

    prose: str
    rules: Sequence[str]
    said: str
    of_tools: str


def prose_of(summary: str) -> str:
    r"""Return a summary's text without its lists.

    >>> prose_of("They met.\n\nKept verbatim:\nTASK-17")
    'They met.'
    """
    return _parts(summary).prose


def without_headings(text: str) -> str:
    """Return a model's text without the lines that begin a list, so that the text cannot add to one."""
    if not any(heading in text for heading in _HEADINGS):
        return text
    return "\n".join(line for line in text.split("\n") if line.strip() not in _HEADINGS).strip()


def _parts(summary: str) -> _Parts:
    found: dict[str, list[str]] = {"": [], **{heading: [] for heading in _HEADINGS}}
    lines = found[""]
    for line in summary.split("\n"):
        if line in found and line:
            lines = found[line]
        else:
            lines.append(line)
    prose, rules, said, of_tools = found.values()
    bullets = [line.removeprefix(_BULLET) for line in rules if line.startswith(_BULLET)]
    return _Parts("\n".join(prose).strip(), bullets, "\n".join(said), "\n".join(of_tools))


class KeptFacts:
    """The facts and the standing rules of messages that a summary replaces.

    Facts of calls and their results have a list of their own, so that they do not crowd out the facts of conversation.
    """

    def __init__(
        self,
        messages: Sequence[ChatMessage],
        open_tasks: Collection[str] = (),
        *,
        counter: TokenCounter,
        rule_cues: Mapping[str, Sequence[str]] = RULE_CUES,
    ) -> None:
        self._counter = counter
        self._tasks = [Fact(task) for task in dict.fromkeys(open_tasks)]
        parts = [_parts(message.text) for message in messages if message.role == SUMMARY_ROLE]
        new_rules = (rule for message in messages for rule in rules_of(message, rule_cues))
        self._rules = _newest_of_each((*chain.from_iterable(part.rules for part in parts), *new_rules))
        said, of_tools = (_Remembered(_newest_first(messages, of_tools=of_tools)) for of_tools in (False, True))
        self._said = said, [fact for part in parts for fact in facts_in(f"{part.prose}\n{part.said}")]
        self._of_tools = of_tools, [fact for part in parts for fact in facts_in(part.of_tools)]

    def listed(self, text: str, room: int) -> str:
        """Return the lists that a text needs, in at most `room` tokens, or "" for none.

        All rules are listed, oldest first. Of facts, those that the text does not have: first the ids of open tasks,
        then the facts of conversation, then those of tools; of each first the new ones, then those of earlier
        summaries. If a list is full, its oldest entries are left out.
        """
        if room <= 0:
            return ""
        rules = self._ruled(room) if self._rules else ""
        room -= self._counter(f"{rules}\n") if rules else 0
        facts = self._facts(f"{text}\n{rules}", room)
        return "\n".join(part for part in (rules, facts) if part)

    def _ruled(self, room: int) -> str:
        """Return the list of rules. If there is no room for all, it holds the newest, in a part of the room."""
        lines = [f"{_BULLET}{rule}" for rule in self._rules]
        tokens = [self._counter(f"{line}\n") for line in lines]
        left = room - self._counter(RULES_HEADING)
        if sum(tokens) > left:
            left -= room // _SHARE
        shown: list[str] = []
        for line, cost in zip(reversed(lines), reversed(tokens), strict=True):
            if cost <= left:
                shown.append(line)
                left -= cost
        return RULES_HEADING + "\n".join(reversed(shown)) if shown else ""

    def _facts(self, text: str, room: int) -> str:
        headings = ((SAID_HEADING, (self._tasks, *self._said)), (TOOLS_HEADING, self._of_tools))
        room -= sum(self._counter(heading) for heading, facts in headings if next(chain(*facts), None))
        if room < 0:
            return ""
        choice = _Choice(text, room, self._counter)
        tasks = choice.take([fact for fact in self._tasks if not _names(text, fact.text)], choice.left)
        of_tools = choice.cost(chain(*self._of_tools), choice.left // _SHARE)
        said = [*tasks, *choice.take_both(*self._said, choice.left - of_tools)]
        tools = choice.take_both(*self._of_tools, choice.left)
        parts = ((SAID_HEADING, said), (TOOLS_HEADING, tools))
        return "\n".join(heading + _SEPARATOR.join(shown) for heading, shown in parts if shown)


def _newest_of_each(rules: Iterable[str]) -> list[str]:
    """Return each rule once, on one line, at the place where it was last said."""
    last = {" ".join(rule.split()): place for place, rule in enumerate(rules)}
    return sorted(last, key=last.__getitem__)


class _Choice:
    """Chooses facts that a text does not have, while there is room."""

    def __init__(self, text: str, room: int, counter: TokenCounter) -> None:
        self.left, self._counter = room, counter
        self._known = {fact.text for fact in facts_in(text)}
        self._tokens: dict[str, int] = {}

    def cost(self, facts: Iterable[Fact], most: int) -> int:
        """Return what it takes to list all of them, `most` if it is more."""
        tokens = 0
        counted = set(self._known)
        for fact in facts:
            if tokens >= most:
                return most
            if fact.text not in counted:
                counted.add(fact.text)
                tokens += self._cost(fact)
        return min(tokens, most)

    def take(self, facts: Iterable[Fact], room: int) -> list[str]:
        """Take facts until one is above `room` tokens, and return them as they are shown.

        One that would take a large part of a list, and for which no room is left, does not keep others out of it.
        """
        taken: list[str] = []
        large = room // _SHARE
        for fact in facts:
            if fact.text in self._known:
                continue
            cost = self._cost(fact)
            if cost > room:
                if cost > large and room >= _LEAST_ROOM:
                    continue
                break
            room -= cost
            self.left -= cost
            taken.append(shown := fact.shown)
            self._known |= {fact.text, *(each.text for each in facts_in(shown))}
        return taken

    def take_both(self, new: Iterable[Fact], earlier: Iterable[Fact], room: int) -> list[str]:
        """Take from both, and return the new ones first."""
        before = self.left
        taken = self.take(new, max(room // _SHARE, room - self.cost(earlier, room)))
        return taken + self.take(earlier, room - (before - self.left))

    def _cost(self, fact: Fact) -> int:
        shown = fact.shown
        if shown not in self._tokens:
            self._tokens[shown] = self._counter(f" {shown};")
        return self._tokens[shown]


def _newest_first(messages: Sequence[ChatMessage], *, of_tools: bool) -> Iterator[Fact]:
    """Yield the facts of messages but summaries, those of tools or all others.

    Of both users' come first, bare digits last, of equals the newest first. Messages are read as facts are asked for.
    """
    digits: list[Fact] = []
    for of_users in (True, False):
        numbers: list[Fact] = []
        for message in reversed(messages):
            if message.role == SUMMARY_ROLE or (message.role == "user") != of_users:
                continue
            for block in message.blocks:
                if of_tools != (message.role == "tool" or isinstance(block, ToolUseBlock | ToolResultBlock)):
                    continue
                for fact in facts_of(block):
                    if fact.rank == 0:
                        yield fact
                    else:
                        (numbers if fact.rank == 1 else digits).append(fact)
        yield from numbers
    yield from digits


class _Remembered(Iterable[Fact]):
    """Facts that are found once, as far as anybody asks for them."""

    def __init__(self, facts: Iterator[Fact]) -> None:
        self._facts = facts

    def __iter__(self) -> Iterator[Fact]:
        self._facts, again = tee(self._facts)
        return again


def _names(text: str, task: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(task)}(?!\w)", text) is not None
