"""The outline of a history: its units, the messages that stay, and the size of each message."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from functools import cached_property

from kaosmem.compaction.protection import (
    AWAITED,
    NEWEST_MESSAGES,
    PINNED,
    SYSTEM_MESSAGES,
    YIELDING_REASONS,
    Exchanges,
    Protection,
    Unit,
    places_in,
    reasons_to_stay,
)
from kaosmem.errors import WindowTooSmallError
from kaosmem.formats import Format, get_format
from kaosmem.tokens import get_counter
from kaosmem.tokens.counters import AnyCounter
from kaosmem.types.items import ChatMessage
from kaosmem.units import Link, Units, cuts, repair, repaired


class MessageSizes:
    """The tokens that each message takes in a format, as `count_messages` counts it.

    Each message is counted once.

    Args:
        counter: None is the default one.
        format: A name, or a Format. Raises InvalidArgumentError.
    """

    def __init__(
        self,
        counter: AnyCounter = None,
        format: str | Format = "openai",
    ) -> None:
        self._counter = get_counter(counter)
        self._format = get_format(format)
        self._known: dict[
            int, tuple[ChatMessage, int]
        ] = {}  # by identity, and kept, so that no other takes its id

    def __call__(self, message: ChatMessage) -> int:
        known = self._known.get(id(message))
        if known is None:
            known = message, self._format.entry_tokens(message, self._counter)
            self._known[id(message)] = known
        return known[1]

    def total(self, messages: Iterable[ChatMessage]) -> int:
        """Return the tokens of messages together, stated results of abandoned calls included."""
        tokens = sum(map(self, repair(messages)))
        return tokens + self.frame if tokens else 0

    @cached_property
    def frame(self) -> int:
        """The most tokens that all messages together take beside their own.

        They take most with an assistant's message first.
        """
        first = ChatMessage("assistant", "")
        frame = self._format.frame_tokens(
            static=False, first=first, block=None, counter=self._counter
        )
        return frame + self._format.history_header_tokens("messages", self._counter)


class Outline(Protection):
    """A history's units, its protected positions and the tokens of each message.

    They are found once, in linear time.

    Attributes:
        messages, links: By position, from 0.
        orphans: The positions of results whose calls are missing or already answered.
        exchanges: The questions of users, without tool results under a user's name, with the
            replies to them: the assistant's messages that have words and no calls.
    """

    def __init__(
        self, history: Iterable[ChatMessage], *, sizes: MessageSizes | None = None
    ) -> None:
        self.messages = tuple(history)
        self.links = tuple(map(Link.of, self.messages))
        self._sizes = sizes or MessageSizes()
        self._held = Units()
        for place, link in enumerate(self.links):
            self._held.add(place, link)
        units = list(self._held.of(range(len(self.messages))))
        orphans = (unit for unit in units if self._held.is_orphan(unit[0]))
        self.orphans = frozenset(places_in(orphans))
        users = self._places_of("user")
        questions = [place for place in users if not self.links[place].is_results]
        self.exchanges = Exchanges(questions, self._replies())
        newest = self._newest()
        others = {
            NEWEST_MESSAGES: newest,
            AWAITED: self._held.awaited,
            PINNED: [place for place, message in enumerate(self.messages) if message.pinned],
            SYSTEM_MESSAGES: self._places_of("system"),
        }
        super().__init__(units, reasons_to_stay(self.exchanges, others), newest)

    def _places_of(self, role: str) -> list[int]:
        return [place for place, message in enumerate(self.messages) if message.role == role]

    def _replies(self) -> list[int]:
        answers = [place for place in self._places_of("assistant") if not self.links[place].calls]
        return [place for place in answers if self.messages[place].text.strip()]

    def _newest(self) -> list[int]:
        """Return the position of the newest message, [] if there is none.

        Orphans, and system messages after another message, are passed over.
        """
        places = [place for place in range(len(self.messages)) if place not in self.orphans]
        said = [place for place in places if self.links[place].role != "system"]
        return (said or places)[-1:]

    def cuts_beside(self, shown: Container[int]) -> tuple[int, ...]:
        """Return the positions, 0 to n, where no unit is cut in two.

        Units that are shown in any case may be cut.
        """
        lasts = map(self._held.last, range(len(self.messages)))
        return tuple(cuts(lasts, shown=shown))

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The tokens of each message, with the results that follow its calls in a request."""
        return tuple(sum(map(self._sizes, part)) for part in repaired(self.messages))

    @property
    def tokens(self) -> int:
        """The tokens of all messages together."""
        if self.messages:
            return sum(self.sizes) + self._sizes.frame
        return 0

    def tail_within(
        self,
        weights: Sequence[int],
        most: int,
        *,
        limit: str,
        frame: int = 0,
        gives_way: Sequence[str] = YIELDING_REASONS,
    ) -> list[int]:
        """Return the positions of the longest tail with the kept messages before it.

        A tail that begins within an exchange has the newest question before it. Orphans are left
        out once anything is, since their calls may be.

        Args:
            weights: The weight of each position, 0 or more.
            most: The most that the returned positions may weigh, together with the frame.
            limit: The name of `most`, for the error.
            frame: The part of `most` that messages take beside their weights.
            gives_way: As in `kept_within`.

        Raises:
            WindowTooSmallError: If the messages that do not give way are too much. It has the sums.
        """
        room = max(0, most - frame)
        size = len(self.messages)
        if sum(weights) <= room:
            return list(range(size))
        kept = self.kept_within(weights, room, gives_way=gives_way)
        if sum(weights[place] for place in kept) > room:
            raise self._too_small(weights, most, kept, limit=limit, frame=frame)
        weight = 0
        for place in range(size):
            if place in kept or place not in self.orphans:
                weight += weights[place]
        cuts = set(self.cuts_beside(kept))
        for start, own in enumerate(weights):
            before = self.questions_before(start, kept)
            if start in cuts and weight + sum(weights[place] for place in before) <= room:
                return self.shown_from(start, kept)
            if start not in kept and start not in self.orphans:
                weight -= own
        return self.shown_from(size, kept)

    def _too_small(
        self,
        weights: Sequence[int],
        most: int,
        kept: Mapping[int, str],
        *,
        limit: str,
        frame: int,
    ) -> WindowTooSmallError:
        need: Counter[str] = Counter()
        for place, reason in kept.items():
            need[reason] += weights[place]
        if frame:
            need["(frame)"] = frame
        least = need.total()
        sums = ", ".join(f"{reason} {weight}" for reason, weight in need.items())
        return WindowTooSmallError(
            f"{limit} is {most}, and the protected messages alone take {least} ({sums}); "
            f"raise it by {least - most}, unpin or shorten some, or answer open calls",
            need=dict(need),
        )

    def questions_before(self, start: int, kept: Container[int]) -> Unit:
        """Return the unit of the question that a tail from a position needs before it.

        Returns:
            Its positions; () if the tail needs none, or if the question is kept.
        """
        if start >= len(self.messages):
            return ()
        question = self.exchanges.question_before(start)
        if question is None or question in kept:
            return ()
        unit = self.unit_of[question]
        if unit[-1] < start:
            return unit
        return ()

    def shown_from(self, start: int, kept: Container[int]) -> list[int]:
        """Return the positions of kept messages, and of all others from `start` on but orphans.

        The newest question stands before a tail that begins within its exchange.

        Args:
            kept: Positions that stay.
        """
        before = self.questions_before(start, kept)
        return [
            place
            for place in range(len(self.messages))
            if place in kept or place in before or (place >= start and place not in self.orphans)
        ]

    def at(self, positions: Iterable[int]) -> list[ChatMessage]:
        """Return the messages at positions."""
        return [self.messages[place] for place in positions]
