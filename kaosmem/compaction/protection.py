"""The units of a history that stay, whatever else is left out of it, and those that give way."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TypeAlias

Unit: TypeAlias = tuple[int, ...]
"""The positions of messages that stay together, ascending."""
Kept: TypeAlias = dict[int, str]
"""The positions of messages that stay, each with the reason."""


@dataclass(frozen=True)
class Exchanges:
    """The questions and replies of a conversation, by their places.

    An exchange begins with the first question after a reply. It has one or more questions, the work
    on them, and replies. Its last reply is its answer. Only the newest exchange may have no answer.

    Args:
        questions: Places of users' messages, ascending.
        replies: Places of the agent's messages that have words and no calls, ascending.

    >>> exchanges = Exchanges(questions=[0, 1, 4, 7], replies=[2, 3, 5])
    >>> exchanges.answered
    {0: 3, 4: 5}
    >>> exchanges.first
    (0, 3)
    >>> exchanges.unanswered
    [7]
    """

    questions: Sequence[int]
    replies: Sequence[int]

    @property
    def answered(self) -> dict[int, int]:
        """The last reply of each exchange that has one, by its first question."""
        replies = {*self.replies}
        answered: dict[int, int] = {}
        start = -1
        for place in sorted((*self.questions, *self.replies)):
            if place not in replies:
                if start < 0 or start in answered:
                    start = place
            elif start >= 0:
                answered[start] = place
        return answered

    @property
    def first(self) -> tuple[int, ...]:
        """The first question, and the answer of its exchange."""
        answered = [*self.answered.items()]
        if answered:
            return answered[0]
        return tuple(self.questions[:1])

    @property
    def unanswered(self) -> Sequence[int]:
        """The questions after the newest reply."""
        if self.replies:
            newest = self.replies[-1]
        else:
            newest = -1
        return self.questions[bisect_right(self.questions, newest) :]

    def question_before(self, place: int) -> int | None:
        """Return the question that a history needs before it if it begins at a place.

        Returns:
            The newest question before the place. None if a question stands there, or none before.
        """
        following = bisect_left(self.questions, place)
        if place in self.questions[following : following + 1] or not following:
            return None
        return self.questions[following - 1]


SYSTEM_MESSAGES = "system messages"
PINNED = "pinned messages"
NEWEST_QUESTION = "the newest user message"
AWAITED = "calls without a result"
NEWEST_MESSAGES = "the newest messages"
UNANSWERED = "user messages without an answer"
LAST_ANSWERED = "the message that an open instruction answers, and its question"
FIRST_EXCHANGE = "the first user message and its answer"

YIELDING_REASONS = (UNANSWERED, LAST_ANSWERED, FIRST_EXCHANGE)
"""Reasons for which a message is kept only if a limit has room. The last gives way first."""


def places_in(units: Iterable[Iterable[int]]) -> list[int]:
    """Return the positions of units, ascending."""
    return sorted(chain.from_iterable(units))


def reasons_to_stay(exchanges: Exchanges, others: Mapping[str, Iterable[int]]) -> Kept:
    """Return the positions of messages that stay, ascending, each with the reason.

    Args:
        others: Positions by further reasons. Of two reasons, a later one counts.
    """
    places: dict[str, Iterable[int]] = {
        FIRST_EXCHANGE: exchanges.first,
        LAST_ANSWERED: (),
        UNANSWERED: exchanges.unanswered,
        NEWEST_MESSAGES: (),
        NEWEST_QUESTION: exchanges.questions[-1:],
    }
    reasons: Kept = {}
    for reason, found in {**places, **others}.items():
        reasons |= dict.fromkeys(found, reason)
    return dict(sorted(reasons.items()))


class Protection:
    """The units of a history, and the positions in it that stay.

    Attributes:
        units: The positions of each unit, ascending, in the order of their first.
        unit_of: The unit of each position.
        newest_unit: The unit of the newest message.
        reasons: Positions that stay, without the rest of their units, each with the reason.

    Args:
        newest: The position of the newest message; empty if there is none.
    """

    def __init__(
        self,
        units: Iterable[Unit],
        reasons: Mapping[int, str],
        newest: Iterable[int],
    ) -> None:
        self.units = tuple(units)
        self.unit_of: dict[int, Unit] = {}
        for unit in self.units:
            self.unit_of |= dict.fromkeys(unit, unit)
        self.reasons = reasons
        self.newest_unit = tuple(places_in(self.unit_of[place] for place in newest))

    @cached_property
    def protected(self) -> Mapping[int, str]:
        """The positions that may not be left out, in whole units, each with the reason.

        They are system and pinned messages, the first user message with its answer, the newest user
        message, earlier ones that are not answered yet, and the newest unit. Calls without a result
        are protected until another message than a result follows; after that they are abandoned.
        Where a limit has no room, the messages of `YIELDING_REASONS` may go.
        """
        protected = dict(self.reasons)
        units: Kept = {}
        for place, reason in self.reasons.items():
            units.setdefault(self.unit_of[place][0], reason)
        for first, reason in units.items():
            for other in self.unit_of[first]:
                protected.setdefault(other, reason)
        return dict(sorted(protected.items()))

    def giving_way(self, gives_way: Sequence[str] = YIELDING_REASONS) -> list[tuple[str, Unit]]:
        """Return the protected positions that may go where a limit has no room, with the reason.

        They come in the order in which they go, in groups of one or more units that go together:
        the first exchange, then the last answered one, then messages without an answer, the oldest
        first.

        Args:
            gives_way: Reasons that give way, the first of them last. The newest unit never does.
        """
        yielding: dict[str, list[Unit]] = {reason: [] for reason in reversed(gives_way)}
        for unit in self.units:
            reasons = {self.protected[place] for place in unit if place in self.protected}
            if reasons and unit != self.newest_unit and reasons.issubset(gives_way):
                yielding[min(reasons, key=gives_way.index)].append(unit)
        groups = []
        for reason, units in yielding.items():
            if reason in (FIRST_EXCHANGE, LAST_ANSWERED) and units:
                units = [tuple(places_in(units))]
            elif reason == SYSTEM_MESSAGES:
                units.reverse()
            groups += [(reason, unit) for unit in units]
        return groups

    def kept_within(
        self,
        weights: Sequence[int],
        room: int,
        *,
        gives_way: Sequence[str] = YIELDING_REASONS,
    ) -> Kept:
        """Return the protected positions. Those that give way are in only if they have room.

        Users' messages without an answer get at most half of the room, and so does the first
        exchange. Once a message has no room, the less important ones give way too.

        Args:
            weights: The weight of each position.
            room: The most that all may weigh. Positions that never give way may weigh more.
            gives_way: As in `giving_way`.
        """
        groups = self.giving_way(gives_way)
        kept = dict(self.protected)
        for _, group in groups:
            for place in group:
                del kept[place]
        left = room - sum(weights[place] for place in kept)
        shares = dict.fromkeys(gives_way, room) | dict.fromkeys(YIELDING_REASONS, room // 2)
        for reason, group in reversed(groups):
            weight = sum(weights[place] for place in group)
            left -= weight
            shares[reason] -= weight
            if min(left, shares[reason]) < 0:
                break
            kept |= dict.fromkeys(group, reason)
        return dict(sorted(kept.items()))
