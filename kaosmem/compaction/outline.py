"""The units of a history, the protected ones among them, and the size of each message."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import cached_property

from kaosmem.errors import WindowTooSmallError
from kaosmem.formats import Format, get_format
from kaosmem.tokens import TokenCounter, get_counter
from kaosmem.types import ChatMessage
from kaosmem.units import Link, Units, repair, repaired


class MessageSizes:
    """The tokens that each message takes in a format, as `count_messages` counts it.

    Each message is counted once.

    counter: None is the default one. format: a name, or a Format. Raises InvalidArgumentError.
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
        """The most tokens that all messages together take beside their own: with an assistant's message first."""
        first = ChatMessage("assistant", "")
        frame = self._format.frame_tokens(
            static=False, first=first, block=None, counter=self._counter
        )
        return frame + self._format.history_header_tokens("messages", self._counter)


class Outline:
    """A history's units, its protected positions and the tokens of each message: found once, in linear time.

    messages, links: by position, from 0. units: the positions of each unit, ascending, in the order of their first.
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

        They are system and pinned messages, the first and the newest user message, and the newest
        unit. Calls without a result are protected until another message than a result follows;
        after that they are abandoned.
        """
        reasons = {
            place: "system messages"
            for place, message in enumerate(self.messages)
            if message.role == "system"
        }
        for place, message in enumerate(self.messages):
            if message.pinned:
                reasons.setdefault(place, "pinned messages")
        questions = self.questions
        for place in questions[:1]:
            reasons.setdefault(place, "the first user message")
        for place in questions[-1:]:
            reasons.setdefault(place, "the newest user message")
        for unit in self.units:
            reason = next((reasons[place] for place in unit if place in reasons), None)
            if reason is None and self._held.is_waiting(unit[0]):
                reason = "calls without a result"
            if reason is None and self.newest in unit:
                reason = "the newest messages"
            if reason:
                for place in unit:
                    reasons.setdefault(place, reason)
        return dict(sorted(reasons.items()))

    @cached_property
    def newest(self) -> int | None:
        """The position of the newest message.

        Orphans, and system messages after another message, are passed over.
        """
        places = [place for place in range(len(self.messages)) if place not in self.orphans]
        said = (place for place in reversed(places) if self.links[place].role != "system")
        return next(said, places[-1] if places else None)

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
        return frozenset(
            place for unit in self.units if self._held.is_orphan(unit[0]) for place in unit
        )

    @cached_property
    def cuts(self) -> tuple[int, ...]:
        """The positions, 0 to n, where no unit is cut in two, except protected units, which stay in any case."""
        return self.cuts_beside(self.protected)

    def cuts_beside(self, shown: Container[int]) -> tuple[int, ...]:
        """Return the positions, 0 to n, where no unit is cut in two, except units that are shown in any case."""
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
        """The tokens of each message, with the results that stand after its calls when it is rendered."""
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
        kept: Mapping[int, str] | None = None,
    ) -> list[int]:
        """Return the positions of the longest tail with the kept messages before it.

        weights: of each position, 0 or more; the positions returned weigh at most `most` less
            `frame`.
        limit: the name of `most`, for the error. frame: the part of it that messages take beside
            their weights.
        kept: positions with reasons; None is `protected`. The tail begins at a cut beside them.
            Orphans are left out
        once anything is, since their calls may be.
        Raises WindowTooSmallError with the sums if the kept messages alone are too much.
        """
        kept = self.protected if kept is None else kept
        room = max(0, most - frame)
        weight = sum(weights)
        if weight <= room:
            return list(range(len(self.messages)))
        weight -= sum(weights[place] for place in self.orphans if place not in kept)
        cuts = set(self.cuts_beside(kept))
        for start in range(len(self.messages) + 1):
            if weight <= room and start in cuts:
                return self.shown_from(start, kept)
            if start < len(weights) and start not in kept and start not in self.orphans:
                weight -= weights[start]
        need: Counter[str] = Counter()
        for place, reason in kept.items():
            need[reason] += weights[place]
        if frame:
            need["(frame)"] = frame
        least = need.total()
        sums = ", ".join(f"{reason} {weight}" for reason, weight in need.items())
        raise WindowTooSmallError(
            f"{limit} is {most}, and the protected messages alone take {least} ({sums}); "
            f"raise it by {least - most}, unpin or shorten some, or answer open calls",
            need=dict(need),
        )

    def shown_from(self, start: int, kept: Container[int] | None = None) -> list[int]:
        """Return the positions of kept messages, and of all others from `start` on but orphans.

        kept: None is `protected`.
        """
        kept = self.protected if kept is None else kept
        return [
            place
            for place in range(len(self.messages))
            if place in kept or (place >= start and place not in self.orphans)
        ]

    def at(self, positions: Iterable[int]) -> list[ChatMessage]:
        """Return the messages at positions."""
        return [self.messages[place] for place in positions]
