"""The units of a history, the protected ones among them, and the size of each message."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain

from kaosmem.compaction.exchanges import Exchanges
from kaosmem.errors import WindowTooSmallError
from kaosmem.formats import Format, get_format
from kaosmem.tokens import get_counter
from kaosmem.tokens.counters import TokenCounter
from kaosmem.types.items import ChatMessage
from kaosmem.units import Link, Units, repair, repaired

SYSTEM_MESSAGES = "system messages"
NEWEST_QUESTION = "the newest user message"
UNANSWERED = "user messages without an answer"
FIRST_EXCHANGE = "the first user message and its answer"

GIVING_WAY = (UNANSWERED, FIRST_EXCHANGE)
"""Reasons for which a message is kept only if a limit has room. The last gives way first."""


def places_in(units: Iterable[Iterable[int]]) -> list[int]:
    """Return the positions of units, ascending."""
    return sorted(chain.from_iterable(units))


class MessageSizes:
    """The tokens that each message takes in a format, as `count_messages` counts it.

    Each message is counted once.

    Args:
        counter: None is the default one.
        format: A name, or a Format. Raises InvalidArgumentError.
    """

    def __init__(
        self,
        counter: TokenCounter | Callable[[str], int] | str | None = None,
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


class Outline:
    """A history's units, its protected positions and the tokens of each message.

    They are found once, in linear time.

    Attributes:
        messages, links: By position, from 0.
        units: The positions of each unit, ascending, in the order of their first.
    """

    def __init__(
        self,
        history: Iterable[ChatMessage],
        *,
        links: Iterable[Link] = (),
        sizes: MessageSizes | None = None,
    ) -> None:
        self.messages = tuple(history)
        self.links = tuple(links) or tuple(map(Link.of, self.messages))
        self._sizes = sizes or MessageSizes()
        self._held = Units()
        for position, link in enumerate(self.links):
            self._held.add(position, link)
        members: dict[int, list[int]] = {}
        for position, first in enumerate(self._held.firsts(range(len(self.messages)))):
            members.setdefault(first, []).append(position)
        self.units = tuple(map(tuple, members.values()))

    @cached_property
    def protected(self) -> Mapping[int, str]:
        """The positions that no strategy may leave out, in whole units, each with the reason.

        They are system and pinned messages, the first user message with its answer, the newest user
        message, earlier ones that are not answered yet, and the newest unit. Calls without a result
        are protected until another message than a result follows; after that they are abandoned.
        Where a limit has no room, the messages of `GIVING_WAY` may go.
        """
        reasons = {}
        for place, message in enumerate(self.messages):
            if message.role == "system":
                reasons[place] = SYSTEM_MESSAGES
            elif message.pinned:
                reasons[place] = "pinned messages"
        for place in self.questions[-1:]:
            reasons.setdefault(place, NEWEST_QUESTION)
        for place in self.exchanges.unanswered:
            reasons.setdefault(place, UNANSWERED)
        for place in self.exchanges.first:
            reasons.setdefault(place, FIRST_EXCHANGE)
        for unit in self.units:
            reason = self._reason(unit, reasons)
            if reason:
                for place in unit:
                    reasons.setdefault(place, reason)
        return dict(sorted(reasons.items()))

    def _reason(self, unit: Sequence[int], reasons: Mapping[int, str]) -> str | None:
        """Return why a unit stays, None if it may be left out."""
        for place in unit:
            if place in reasons:
                return reasons[place]
        if self._held.is_waiting(unit[0]):
            return "calls without a result"
        return "the newest messages" if self.newest in unit else None

    def kept_within(
        self, weights: Sequence[int], room: int, *, gives_way: Sequence[str] = GIVING_WAY
    ) -> dict[int, str]:
        """Return the protected positions. Those that give way are in only if they have room.

        Users' messages without an answer get at most half of the room, and so does the first
        exchange. Once a message has no room, the less important ones give way too.

        Args:
            weights: The weight of each position.
            room: The most that all may weigh. Positions that never give way may weigh more.
            gives_way: Reasons that give way, the first of them last. The newest unit never does.
        """
        kept: dict[int, str] = {}
        yielding: dict[str, list[tuple[int, ...]]] = {reason: [] for reason in gives_way}
        for unit in self.units:
            if unit[0] not in self.protected:
                continue
            reason = self._yielded(unit, gives_way)
            if reason:
                yielding[reason].append(unit)
            else:
                kept |= {place: self.protected[place] for place in unit}
        left = room - sum(weights[place] for place in kept)
        for reason, units in yielding.items():
            share = room // 2 if reason in GIVING_WAY else room
            for group in _groups(reason, units):
                weight = sum(weights[place] for place in group)
                left -= weight
                share -= weight
                if min(left, share) < 0:
                    return dict(sorted(kept.items()))
                kept |= dict.fromkeys(group, reason)
        return dict(sorted(kept.items()))

    def _yielded(self, unit: Sequence[int], gives_way: Sequence[str]) -> str | None:
        """Return the reason of these for which a protected unit stays, None for another reason."""
        reasons = {self.protected[place] for place in unit}
        if self.newest in unit or not reasons.issubset(gives_way):
            return None
        return min(reasons, key=gives_way.index)

    @cached_property
    def exchanges(self) -> Exchanges:
        """The questions of users with the replies to them."""
        return Exchanges(self.questions, self.replies)

    @cached_property
    def replies(self) -> tuple[int, ...]:
        """The positions of the assistant's messages that have words and no calls, ascending."""
        return tuple(
            place
            for place, message in enumerate(self.messages)
            if message.role == "assistant" and not self.links[place].calls and message.text.strip()
        )

    @cached_property
    def newest(self) -> int | None:
        """The position of the newest message.

        Orphans, and system messages after another message, are passed over.
        """
        places = [place for place in range(len(self.messages)) if place not in self.orphans]
        said = (place for place in reversed(places) if self.links[place].role != "system")
        return next(said, places[-1] if places else None)

    @property
    def newest_unit(self) -> tuple[int, ...]:
        """The positions of the unit of the newest message."""
        return () if self.newest is None else self.unit_of[self.newest]

    @cached_property
    def questions(self) -> tuple[int, ...]:
        """The positions of users' messages, ascending, without tool results under a user's name."""
        return tuple(
            place
            for place, message in enumerate(self.messages)
            if message.role == "user" and not self.links[place].is_results
        )

    @cached_property
    def orphans(self) -> frozenset[int]:
        """The positions of results whose calls are missing or already answered."""
        units = (unit for unit in self.units if self._held.is_orphan(unit[0]))
        return frozenset(places_in(units))

    def cuts_beside(self, shown: Container[int]) -> tuple[int, ...]:
        """Return the positions, 0 to n, where no unit is cut in two.

        Units that are shown in any case may be cut.
        """
        cuts = []
        reach = -1
        for place in range(len(self.messages)):
            if reach < place:
                cuts.append(place)
            if place not in shown:
                reach = max(reach, self._held.last(place))
        return (*cuts, len(self.messages))

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The tokens of each message, with the results that follow its calls in a request."""
        return tuple(sum(map(self._sizes, part)) for part in repaired(self.messages))

    @property
    def tokens(self) -> int:
        """The tokens of all messages together."""
        return sum(self.sizes) + self._sizes.frame if self.messages else 0

    def tail_within(
        self,
        weights: Sequence[int],
        most: int,
        *,
        limit: str,
        frame: int = 0,
        gives_way: Sequence[str] = GIVING_WAY,
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
        if sum(weights) <= room:
            return list(range(len(self.messages)))
        kept = self.kept_within(weights, room, gives_way=gives_way)
        if sum(weights[place] for place in kept) > room:
            raise self._too_small(weights, most, kept, limit=limit, frame=frame)
        weight = sum(
            weights[place]
            for place in range(len(self.messages))
            if place in kept or place not in self.orphans
        )
        cuts = set(self.cuts_beside(kept))
        for start, own in enumerate(weights):
            before = self.questions_before(start, kept)
            if start in cuts and weight + sum(weights[place] for place in before) <= room:
                return self.shown_from(start, kept)
            if start not in kept and start not in self.orphans:
                weight -= own
        return self.shown_from(len(self.messages), kept)

    def _too_small(
        self, weights: Sequence[int], most: int, kept: Mapping[int, str], *, limit: str, frame: int
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

    def questions_before(self, start: int, kept: Container[int]) -> tuple[int, ...]:
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
        return unit if unit[-1] < start else ()

    @cached_property
    def unit_of(self) -> dict[int, tuple[int, ...]]:
        """The unit of each position."""
        units: dict[int, tuple[int, ...]] = {}
        for unit in self.units:
            units |= dict.fromkeys(unit, unit)
        return units

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


def _groups(reason: str, units: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Return the positions that stay or go together for a reason, the most important first."""
    if reason == FIRST_EXCHANGE:
        return [tuple(places_in(units))] if units else []
    return list(units) if reason == SYSTEM_MESSAGES else list(reversed(units))
