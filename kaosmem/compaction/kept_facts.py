"""The facts that a summary dropped, in a bounded list at its end that later summaries take on."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from kaosmem.compaction.facts import Fact, facts_in, facts_of
from kaosmem.tokens import TokenCounter
from kaosmem.types import ChatMessage, ToolResultBlock, ToolUseBlock

SUMMARY_ROLE = "summary"

SAID_HEADING = "Kept verbatim:\n"
TOOLS_HEADING = "Kept verbatim of tools:\n"
_SEPARATOR = "; "
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
        self._tasks = [Fact(task, task, 0) for task in dict.fromkeys(open_tasks)]
        summaries = [message.text.partition(TOOLS_HEADING) for message in messages if message.role == SUMMARY_ROLE]
        said, of_tools = _newest(messages)
        self._said = said, [fact for text, _, _ in summaries for fact in facts_in(text)]
        self._of_tools = of_tools, [fact for *_, text in summaries for fact in facts_in(text)]

    def listed(self, text: str, room: int) -> str:
        """Return a list of at most `room` tokens of the facts that a text does not have, "" for none.

        First the ids of open tasks, then what was said, then what is of tools; of each what is new, then what earlier
        summaries have, so that the oldest go first where a list is full.
        """
        room -= self._counter(SAID_HEADING) + self._counter(TOOLS_HEADING)
        if room < 0:
            return ""
        choice = _Choice(text, room, self._counter)
        tasks = choice.take([fact for fact in self._tasks if not _names(text, fact.text)], choice.left)
        of_tools = choice.cost([*self._of_tools[0], *self._of_tools[1]], choice.left // _SHARE)
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
        for fact in {fact.text: fact for fact in facts if fact.text not in self._known}.values():
            if tokens >= most:
                return most
            tokens += self._cost(fact)
        return min(tokens, most)

    def take(self, facts: Iterable[Fact], room: int) -> list[str]:
        """Take facts until one is above `room` tokens, and return them as they are shown."""
        taken: list[str] = []
        for fact in facts:
            if fact.text in self._known:
                continue
            room -= self._cost(fact)
            if room < 0:
                break
            self.left -= self._cost(fact)
            taken.append(fact.shown)
            self._known |= {fact.text, *(each.text for each in facts_in(fact.shown))}
        return taken

    def take_both(self, new: Sequence[Fact], earlier: Sequence[Fact], room: int) -> list[str]:
        """Take from both, and return the new ones first."""
        before = self.left
        taken = self.take(new, max(room // _SHARE, room - self.cost(earlier, room)))
        return taken + self.take(earlier, room - (before - self.left))

    def _cost(self, fact: Fact) -> int:
        if fact.shown not in self._tokens:
            self._tokens[fact.shown] = self._counter(f" {fact.shown};")
        return self._tokens[fact.shown]


def _newest(messages: Sequence[ChatMessage]) -> tuple[list[Fact], list[Fact]]:
    """Return the facts of messages but summaries, those said and those of tools.

    Of both users' come first, bare digits last, of equals the newest first.
    """
    said: list[tuple[tuple[bool, bool, int], Fact]] = []
    of_tools: list[tuple[tuple[bool, bool, int], Fact]] = []
    for message in reversed(messages):
        for block, fact in facts_of(message) if message.role != SUMMARY_ROLE else ():
            is_of_tool = message.role == "tool" or isinstance(block, ToolUseBlock | ToolResultBlock)
            placed = (fact.rank > 1, message.role != "user", fact.rank), fact
            (of_tools if is_of_tool else said).append(placed)
    first, second = ([fact for _, fact in sorted(each, key=lambda pair: pair[0])] for each in (said, of_tools))
    return first, second


def _names(text: str, task: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(task)}(?!\w)", text) is not None
