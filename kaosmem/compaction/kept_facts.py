"""The facts and the standing rules that a summary keeps verbatim, and later summaries take on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, zip_longest
from operator import itemgetter
from typing import NamedTuple

from kaosmem.compaction.facts import RANK_OF_BARE_NUMBER, VerbatimFact, facts_in, facts_of
from kaosmem.language.credentials import without_credentials
from kaosmem.language.rules import rules_of
from kaosmem.tokens.counters import TokenCounter
from kaosmem.types.content import ToolResultBlock, ToolUseBlock
from kaosmem.types.items import ChatMessage

SUMMARY_ROLE = "summary"
SUMMARY_ID = "summary-"
"""The beginning of the id of each summary."""

RULES_HEADING = "Rules of users, verbatim:\n"
SAID_HEADING = "Kept verbatim:\n"
TOOLS_HEADING = "Kept verbatim of tools:\n"
_HEADINGS = tuple(heading.strip() for heading in (RULES_HEADING, SAID_HEADING, TOOLS_HEADING))
_BULLET = "- "
_SEPARATOR = "; "
_LEAST_ROOM = 3  # tokens; no fact takes less
_SHARE = 4
"""If there is no room for all rules, one token in four is left for facts."""


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
    """Return a model's text without the headings of lists, so that it cannot add to a list."""
    if not any(heading in text for heading in _HEADINGS):
        return text
    lines = [line for line in text.split("\n") if line.strip() not in _HEADINGS]
    return "\n".join(lines).strip()


def _parts(summary: str) -> _Parts:
    found: dict[str, list[str]] = {heading: [] for heading in ("", *_HEADINGS)}
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

    Facts of calls and their results have a list of their own. They get the room that the facts of
    conversation leave.
    """

    def __init__(
        self,
        messages: Sequence[ChatMessage],
        *,
        counter: TokenCounter,
    ) -> None:
        self._counter = counter
        parts = [_parts(message.text) for message in messages if is_summary(message)]
        earlier_rules = chain.from_iterable(part.rules for part in parts)
        new_rules = (rule for message in messages for rule in rules_of(message))
        self._rules = _newest_of_each((*earlier_rules, *new_rules))
        earlier = {
            SAID_HEADING: [f"{part.prose}\n{part.said}" for part in parts],
            TOOLS_HEADING: [part.of_tools for part in parts],
        }
        self._new: dict[str, list[VerbatimFact]] = {
            SAID_HEADING: _newest_first(messages, of_tools=False),
            TOOLS_HEADING: _newest_first(messages, of_tools=True),
        }
        self._earlier: dict[str, list[VerbatimFact]] = {
            heading: list(chain.from_iterable(map(facts_in, texts)))
            for heading, texts in earlier.items()
        }

    def listed(self, text: str, room: int) -> str:
        """Return the lists that a text needs, in at most `room` tokens, or "" for none.

        All rules are listed, oldest first. Of facts, those that the text does not have: first the
        facts of conversation, then those of tools. In each list, addresses and paths come before
        other facts. New facts and facts of earlier summaries take turns, so that neither fill a
        list for good. What has no room is left out.
        """
        if room <= 0:
            return ""
        rules = ""
        if self._rules:
            rules = self._ruled(room)
        if rules:
            room -= self._counter(f"{rules}\n")
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
        if shown:
            return RULES_HEADING + "\n".join(reversed(shown))
        return ""

    def _facts(self, text: str, room: int) -> str:
        """Return the lists of the facts that a text does not have."""
        taken: dict[str, list[str]] = {SAID_HEADING: [], TOOLS_HEADING: []}
        for heading in taken:
            if self._new[heading] or self._earlier[heading]:
                room -= self._counter(heading)
        known = {fact.text for fact in facts_in(text)}
        for heading, fact in self._in_order():
            if room < _LEAST_ROOM:
                break
            if fact.text in known:
                continue
            shown = fact.shown
            cost = self._counter(f" {shown};")
            if cost <= room:
                room -= cost
                taken[heading].append(shown)
                known.add(fact.text)
                known.update(each.text for each in facts_in(shown))
        lists = [heading + _SEPARATOR.join(facts) for heading, facts in taken.items() if facts]
        return "\n".join(lists)

    def _in_order(self) -> Iterator[tuple[str, VerbatimFact]]:
        """Yield all facts in the order in which they get room, with the headings of their lists."""
        for heading, new in self._new.items():
            for is_address in (True, False):
                both = zip_longest(
                    [fact for fact in new if (fact.rank == 0) == is_address],
                    [fact for fact in self._earlier[heading] if (fact.rank == 0) == is_address],
                )
                for fact in chain.from_iterable(both):
                    if fact is not None:
                        yield heading, fact


def is_summary(message: ChatMessage) -> bool:
    """Return whether a message is a summary. A speaker may be called so, too, and makes none."""
    is_made = bool(message.sources) or message.id.startswith(SUMMARY_ID)
    return message.role == SUMMARY_ROLE and is_made


def _newest_of_each(rules: Iterable[str]) -> list[str]:
    """Return each rule once, on a line and without credentials, in the order of last use."""
    last = {}
    for place, rule in enumerate(rules):
        line = " ".join(without_credentials(rule).split())
        last[line] = place
    return sorted(last, key=last.__getitem__)


def _newest_first(messages: Sequence[ChatMessage], *, of_tools: bool) -> list[VerbatimFact]:
    """Return the facts of messages but summaries, those of tools or all others.

    They are in the order of their ranks, of equals those of users first, then the newest. A date or
    number without words about it is left out unless a user said it.
    """
    found: list[tuple[tuple[int, bool], VerbatimFact]] = []
    for message in reversed(messages):
        if is_summary(message):
            continue
        for block in message.blocks:
            is_part = isinstance(block, ToolUseBlock | ToolResultBlock)
            if (is_part or message.role == "tool") != of_tools:
                continue
            is_users = message.role == "user"
            found += (
                ((fact.rank, not is_users), fact)
                for fact in facts_of(block)
                if is_users or fact.rank < RANK_OF_BARE_NUMBER
            )
    found.sort(key=itemgetter(0))
    return [fact for _, fact in found]
