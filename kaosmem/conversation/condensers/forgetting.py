"""Condensers without a summary: they drop old events, or keep only the newest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kaosmem.arguments import check_count, check_instance
from kaosmem.conversation.condensation import Condensation
from kaosmem.conversation.condensers.condenser import Condenser
from kaosmem.conversation.condensers.rolling import RollingCondenser, RollingConfig
from kaosmem.conversation.view import ConversationView
from kaosmem.errors import InvalidArgumentError
from kaosmem.tokens import TokenCounter

ON_REQUEST = RollingConfig(max_size=None)
"""However long the view is, it is not condensed until somebody asks."""


class AmortizedForgettingCondenser(RollingCondenser):
    """Forgets half of the view when it is too large: the agent's oldest actions first, users' messages last.

    >>> from kaosmem.conversation import ActionEvent, EventLog
    >>> log = EventLog()
    >>> for number in range(8):
    ...     event = log.append(ActionEvent("message", f"step {number}"))
    >>> view = await AmortizedForgettingCondenser(RollingConfig(max_size=6)).condensed_view(log)
    >>> [event.text for event in view]
    ['step 5', 'step 6', 'step 7']
    """

    async def get_condensation(self, view: ConversationView, *, limit: int | None = None) -> Condensation:
        """Return the record that forgets. Raises NoCondensationError."""
        outline = self.outline(view)
        return self.record(outline, self.choice(outline, limit=limit), limit=limit)


class ConversationWindowCondenser(AmortizedForgettingCondenser):
    """Forgets the older half of the agent's actions on request, and no message of a user."""

    forgets_users = False

    def __init__(
        self,
        config: RollingConfig = ON_REQUEST,
        *,
        counter: TokenCounter | Callable[[str], int] | str | None = None,
    ) -> None:
        super().__init__(config, counter=counter)


@dataclass(frozen=True, slots=True)
class RecentEventsConfig:
    """Limits of a RecentEventsCondenser.

    keep_first: shown entries at the start of a view. max_events: shown entries in all.
    Raises InvalidArgumentError.
    """

    keep_first: int = 1
    max_events: int = 10

    def __post_init__(self) -> None:
        check_count(self.keep_first, "keep_first")
        if check_count(self.max_events, "max_events", least=1) <= self.keep_first:
            raise InvalidArgumentError(
                f"keep_first is {self.keep_first} of at most {self.max_events} events, so that none is recent; "
                "raise max_events or keep fewer"
            )


class RecentEventsCondenser(Condenser):
    """Shows the first entries, the newest ones and the protected ones. It appends no record."""

    def __init__(self, config: RecentEventsConfig = RecentEventsConfig()) -> None:
        self.config = check_instance(config, RecentEventsConfig, "config")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.config})"

    async def condense(self, view: ConversationView, *, limit: int | None = None) -> ConversationView | Condensation:
        """Return the entries that are shown; a unit of several is shown whole or not.

        It takes time in proportion to these, however long the view is.
        """
        count = len(view)
        head = _head(view, min(self.config.keep_first, count))
        tail = _tail(view, max(head, count - (self.config.max_events - self.config.keep_first)))
        between = view.protected.union(view.unit(count - 1) if count else ())
        places = [*range(head), *sorted(place for place in between if head <= place < tail), *range(tail, count)]
        return ConversationView([view[place] for place in places], view.unhandled_condensation_request)


def _head(view: ConversationView, stop: int) -> int:
    """Return the first position from `stop` on that has no unit on both sides."""
    position = 0
    while position < stop:
        stop = max(stop, view.unit(position)[-1] + 1)
        position += 1
    return stop


def _tail(view: ConversationView, start: int) -> int:
    """Return the first position from `start` on that has no unit on both sides, found from the end."""
    first = found = len(view)
    for position in range(len(view) - 1, start - 1, -1):
        first = min(first, view.unit(position)[0])
        if first == position:
            found = position
    return found
