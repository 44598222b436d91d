"""The facts and the standing rules that a summary keeps verbatim, in a bounded list that later summaries take on."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from itertools import chain
from typing import NamedTuple

from kaosmem.compaction.facts import Fact, facts_in, facts_of
from kaosmem.language.credentials import without_credentials
from kaosmem.language.rules import NO_PATTERNS, Patterns, rules_of
from kaosmem.tokens.counters import TokenCounter
from kaosmem.types.content import ToolResultBlock, ToolUseBlock
from kaosmem.types.items import ChatMessage

SUMMARY_ROLE = "summary"

RULES_HEADING = "Rules of users, verbatim:\n"
SAID_HEADING = "Kept verbatim:\n"
TOOLS_HEADING = "Kept verbatim of tools:\n"
_HEADINGS = tuple(heading.strip() for heading in (RULES_HEADING, SAID_HEADING, TOOLS_HEADING))
_BULLET = "- "
_SEPARATOR = "; "
_LEAST_ROOM = 3  # tokens; no fact takes less
_SHARE = 4
"""If there is no room for all, one token in four is for new facts, one for facts of tools, and three for rules."""


_ORDER = (
    (True, 0),
    (False, 0),
    (True, 1),
    (True, 2),
    (False, 1),
    (False, 2),
    (True, 3),
    (False, 3),
    (True, 4),
)
"""Whether a user said a fact, and its rank: the order in which new facts get room."""


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


class _Facts(NamedTuple):
    """Facts of messages, and facts of earlier summaries."""

    new: Sequence[Fact]
    earlier: Sequence[Fact]

    @property
    def all(self) -> list[Fact]:
        return [*self.new, *self.earlier]

    def of(self, *, addresses: bool) -> _Facts:
        """Return the addresses and paths, or all others."""
        return _Facts(
            *([fact for fact in facts if (fact.rank == 0) == addresses] for facts in self)
        )


class KeptFacts:
    """The facts and the standing rules of messages that a summary replaces.

    Facts of calls and their results have a list of their own, so that they do not crowd out the
    facts of conversation.
    """

    def __init__(
        self,
        messages: Sequence[ChatMessage],
        open_tasks: Collection[str] = (),
        *,
        counter: TokenCounter,
        rule_cues: Patterns = NO_PATTERNS,
    ) -> None:
        self._counter = counter
        self._tasks = [Fact(task) for task in dict.fromkeys(open_tasks)]
        parts = [_parts(message.text) for message in messages if message.role == SUMMARY_ROLE]
        new_rules = (rule for message in messages for rule in rules_of(message, rule_cues))
        self._rules = _newest_of_each(
            (*chain.from_iterable(part.rules for part in parts), *new_rules)
        )
        self._said = _Facts(
            _newest_first(messages, of_tools=False),
            [fact for part in parts for fact in facts_in(f"{part.prose}\n{part.said}")],
        )
        self._of_tools = _Facts(
            _newest_first(messages, of_tools=True),
            [fact for part in parts for fact in facts_in(part.of_tools)],
        )

    def listed(self, text: str, room: int) -> str:
        """Return the lists that a text needs, in at most `room` tokens, or "" for none.

        All rules are listed, oldest first. Of facts, those that the text does not have: first the
        ids of open tasks, then addresses and paths, then others. In each kind, facts of
        conversation come before those of tools, and new facts before those of earlier summaries. If
        a list is full, its oldest entries are left out.
        """
        if room <= 0:
            return ""
        rules = self._ruled(room) if self._rules else ""
        room -= self._counter(f"{rules}\n") if rules else 0
        facts = self._facts(f"{text}\n{rules}", room)
        return "\n".join(part for part in (rules, facts) if part)

    def _ruled(self, room: int) -> str:
        """Return the list of rules.

        If there is no room for all, it holds the newest, in a part of the room.
        """
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
        headings = (
            (SAID_HEADING, [*self._tasks, *self._said.all]),
            (TOOLS_HEADING, self._of_tools.all),
        )
        room -= sum(self._counter(heading) for heading, facts in headings if facts)
        if room < 0:
            return ""
        choice = _Choice(text, room, self._counter)
        said = choice.take(
            [fact for fact in self._tasks if not _names(text, fact.text)], choice.left
        )
        tools: list[str] = []
        others = [*self._said.of(addresses=False).all, *self._of_tools.of(addresses=False).all]
        for addresses, after in ((True, others), (False, ())):
            of_said = self._said.of(addresses=addresses)
            of_tools = self._of_tools.of(addresses=addresses)
            kept = choice.cost(after, choice.left // _SHARE)
            for_tools = choice.cost(of_tools.all, (choice.left - kept) // _SHARE)
            said += choice.take_both(of_said, choice.left - kept - for_tools)
            tools += choice.take_both(of_tools, choice.left - kept)
        said += choice.take(self._said.all, choice.left)  # no room stays unused
        tools += choice.take(self._of_tools.all, choice.left)
        parts = ((SAID_HEADING, said), (TOOLS_HEADING, tools))
        return "\n".join(heading + _SEPARATOR.join(shown) for heading, shown in parts if shown)


def _newest_of_each(rules: Iterable[str]) -> list[str]:
    """Return each rule once, on one line and without credentials, at the place where it was last said."""
    last = {" ".join(without_credentials(rule).split()): place for place, rule in enumerate(rules)}
    return sorted(last, key=last.__getitem__)


class _Choice:
    """Chooses facts that a text does not have, while there is room."""

    def __init__(self, text: str, room: int, counter: TokenCounter) -> None:
        self.left = room
        self._counter = counter
        self._known = {fact.text for fact in facts_in(text)}
        self._tokens: dict[str, int] = {}

    def cost(self, facts: Iterable[Fact], most: int) -> int:
        """Return the tokens of a list of all these facts, at most `most`."""
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
        """Take each fact that fits the rest of `room` tokens, and return them as they are shown."""
        taken: list[str] = []
        for fact in facts:
            if fact.text in self._known:
                continue
            cost = self._cost(fact)
            if room < _LEAST_ROOM:
                break
            if cost > room:
                continue
            room -= cost
            self.left -= cost
            taken.append(shown := fact.shown)
            self._known |= {fact.text, *(each.text for each in facts_in(shown))}
        return taken

    def take_both(self, facts: _Facts, room: int) -> list[str]:
        """Take new and earlier facts, and return the new ones first."""
        before = self.left
        taken = self.take(facts.new, max(room // _SHARE, room - self.cost(facts.earlier, room)))
        return taken + self.take(facts.earlier, room - (before - self.left))

    def _cost(self, fact: Fact) -> int:
        shown = fact.shown
        if shown not in self._tokens:
            self._tokens[shown] = self._counter(f" {shown};")
        return self._tokens[shown]


def _newest_first(messages: Sequence[ChatMessage], *, of_tools: bool) -> list[Fact]:
    """Return the facts of messages but summaries, those of tools or all others.

    Addresses and paths come first, of both users' first, then users' other facts, then all others,
    of equals the newest first. A date or number without words about it is left out unless a user
    said it.
    """
    found: dict[tuple[bool, int], list[Fact]] = {order: [] for order in _ORDER}
    for message in reversed(messages):
        if message.role != SUMMARY_ROLE:
            for block in message.blocks:
                if of_tools == (
                    message.role == "tool" or isinstance(block, ToolUseBlock | ToolResultBlock)
                ):
                    for fact in facts_of(block):
                        order = (message.role == "user", fact.rank)
                        if order in found:
                            found[order].append(fact)
    return list(chain.from_iterable(found.values()))


def _names(text: str, task: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(task)}(?!\w)", text) is not None
