"""Exchanges of a conversation: questions of users, and the replies that answer them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass


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
        return next(iter(self.answered.items()), (*self.questions[:1],))

    @property
    def last_answered(self) -> tuple[int, ...]:
        """The first question and the answer of the newest exchange that has an answer."""
        answered = self.answered
        if not answered:
            return ()
        return max(answered.items())

    @property
    def unanswered(self) -> Sequence[int]:
        """The questions after the newest reply."""
        newest = self.replies[-1] if self.replies else -1
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
