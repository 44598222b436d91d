"""The facts that a summary dropped, in a bounded list at its end that later summaries take on."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from kaosmem.compaction.facts import Fact, facts_in, facts_of
from kaosmem.tokens import TokenCounter
from kaosmem.types import ChatMessage, ToolResultBlock

SUMMARY_ROLE = "summary"

KEPT_HEADING = "Kept verbatim:\n"
_SEPARATOR = "; "
_SHARE_OF_NEW = 4
"""What part of a list, one in so many tokens, earlier facts leave to new ones where there is no room for all."""


class KeptFacts:
    """The facts of messages that are replaced by a summary, in the order in which a list takes them.

    First the ids of open tasks, then what earlier summaries say, in their order, then what users, the assistant and
    results say, the newest first; bare digits come last.
    """

    def __init__(
        self, messages: Sequence[ChatMessage], open_tasks: Collection[str] = (), *, counter: TokenCounter
    ) -> None:
        self._counter = counter
        self._tasks = tuple(dict.fromkeys(open_tasks))
        summaries = [message for message in messages if message.role == SUMMARY_ROLE]
        self._earlier = _first_of_each(fact for summary in summaries for fact in facts_in(summary.text))
        earlier = {fact.text for fact in self._earlier}
        self._new = [fact for fact in _by_worth(messages) if fact.text not in earlier]

    def listed(self, text: str, room: int) -> str:
        """Return a list of at most `room` tokens of the facts that a text does not have, "" for none."""
        said = {fact.text for fact in facts_in(text)}
        tasks = [Fact(task, task, 0) for task in self._tasks if not _names(text, task)]
        earlier, new = self._priced(self._earlier, said), self._priced(self._new, said)
        left = room - self._counter(KEPT_HEADING)
        for_new = min(sum(tokens for _, tokens in new), left // _SHARE_OF_NEW)
        chosen: list[str] = []
        for facts, reserved in ((self._priced(tasks, ()), 0), (earlier, for_new), (new, 0)):
            for fact, tokens in facts:
                if fact.text in said:
                    continue  # shown beside a number that is listed
                if tokens > left - reserved:
                    break
                left -= tokens
                chosen.append(fact.shown)
                said.update(each.text for each in facts_in(fact.shown))
        return KEPT_HEADING + _SEPARATOR.join(chosen) if chosen else ""

    def _priced(self, facts: Iterable[Fact], said: Collection[str]) -> list[tuple[Fact, int]]:
        missing = [fact for fact in facts if fact.text not in said]
        tokens = self._counter.count_many([f" {fact.shown};" for fact in missing])
        return list(zip(missing, tokens, strict=True))


def _by_worth(messages: Sequence[ChatMessage]) -> list[Fact]:
    """Return the facts of all but summaries, each once."""
    placed: list[tuple[tuple[bool, int, int], Fact]] = []
    for message in reversed(messages):
        for block, fact in facts_of(message) if message.role != SUMMARY_ROLE else ():
            is_result = message.role == "tool" or isinstance(block, ToolResultBlock)
            speaker = 2 if is_result else 0 if message.role == "user" else 1
            placed.append(((fact.rank > 1, speaker, fact.rank), fact))
    placed.sort(key=lambda pair: pair[0])  # stable: of equals the newest message's first
    return _first_of_each(fact for _, fact in placed)


def _first_of_each(facts: Iterable[Fact]) -> list[Fact]:
    first: dict[str, Fact] = {}
    for fact in facts:
        first.setdefault(fact.text, fact)
    return list(first.values())


def _names(text: str, task: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(task)}(?!\w)", text) is not None
