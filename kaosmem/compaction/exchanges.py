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
    >>> exchanges.answers
    [3, 5]
    >>> exchanges.first
    (0, 3)
    >>> exchanges.unanswered
    [7]
    """

    questions: Sequence[int]
    replies: Sequence[int]

    @property
    def starts(self) -> list[int]:
        """The place of the first question of each exchange."""
        starts: list[int] = []
        known = 0
        for question in self.questions:
            replies = bisect_left(self.replies, question)
            if not starts or replies > known:
                starts.append(question)
            known = replies
        return starts

    @property
    def answered(self) -> list[tuple[int, int]]:
        """The places of the first question and the last reply of each exchange with a reply."""
        answered = []
        starts = self.starts
        for number, start in enumerate(starts, 1):
            newest = len(self.replies)
            if number < len(starts):
                newest = bisect_left(self.replies, starts[number])
            if newest and self.replies[newest - 1] > start:
                answered.append((start, self.replies[newest - 1]))
        return answered

    @property
    def answers(self) -> list[int]:
        """The place of the last reply of each exchange that has one."""
        return [answer for _, answer in self.answered]

    @property
    def first(self) -> tuple[int, ...]:
        """The first question, and the answer of its exchange."""
        if not self.questions:
            return ()
        question = self.questions[0]
        reply = bisect_left(self.replies, question)
        if reply == len(self.replies):
            return (question,)
        following = bisect_left(self.questions, self.replies[reply])
        if following == len(self.questions):
            return question, self.replies[-1]
        answer = bisect_left(self.replies, self.questions[following]) - 1
        return question, self.replies[answer]

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
