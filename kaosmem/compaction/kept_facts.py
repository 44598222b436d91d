"""The facts that a summary dropped, in a bounded list at its end that later summaries take on."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, tee

from kaosmem.compaction.facts import Fact, facts_in, facts_of
from kaosmem.tokens import TokenCounter
from kaosmem.types import ChatMessage, ToolResultBlock, ToolUseBlock

SUMMARY_ROLE = "summary"

SAID_HEADING = "Kept verbatim:\n"
TOOLS_HEADING = "Kept verbatim of tools:\n"
_SEPARATOR = "; "
_LEAST_ROOM = 8  # tokens; where less is left of a list, few facts would fit
_SHARE = 4
"""Where there is no room for all, what is new gets one token in so many, and so does what is of tools."""


class KeptFacts:
    """The facts of messages that a summary replaces.

    What went to tools and came from them is apart: it is more than anybody reads, and must not crowd out what was said.
    """

    def __init__(
        self, messages: Sequence[ChatMessage], open_tasks: Collection[str] = (), *, counter: TokenCounter
    ) -> None:
        self._counter = counter
        self._tasks = [Fact(task) for task in dict.fromkeys(open_tasks)]
        summaries = [message.text.partition(TOOLS_HEADING) for message in messages if message.role == SUMMARY_ROLE]
        said, of_tools = (_Remembered(_newest_first(messages, of_tools=of_tools)) for of_tools in (False, True))
        self._said = said, [fact for text, _, _ in summaries for fact in facts_in(text)]
        self._of_tools = of_tools, [fact for *_, text in summaries for fact in facts_in(text)]

    def listed(self, text: str, room: int) -> str:
        """Return a list of at most `room` tokens of the facts that a text does not have, "" for none.

        First the ids of open tasks, then what was said, then what is of tools; of each what is new, then what earlier
        summaries have, so that the oldest go first where a list is full.
        """
        if room <= 0:
            return ""
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
