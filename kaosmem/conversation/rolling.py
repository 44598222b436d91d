"""Condensers that act only when the view is too large, and then forget about half of it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from enum import StrEnum
from functools import cached_property
from itertools import accumulate
from math import ceil
from typing import TypeAlias, TypedDict

from kaosmem.arguments import check_count
from kaosmem.compaction.outline import MessageSizes, Outline, places_in
from kaosmem.conversation.condensation import Condensation, SummaryEvent
from kaosmem.conversation.condensers import Condenser
from kaosmem.conversation.events import (
    UNLOGGED,
    ActionEvent,
    ConversationEvent,
    EventSource,
    ObservationEvent,
)
from kaosmem.conversation.view import ConversationView
from kaosmem.errors import InvalidArgumentError, NoCondensationError
from kaosmem.formats import Format, get_format
from kaosmem.names import shown_number
from kaosmem.tokens import get_counter
from kaosmem.tokens.counters import TokenCounter
from kaosmem.types.content import Trust

Unit: TypeAlias = tuple[int, ...]
"""The positions of entries that stay together, ascending."""


class CondensationReason(StrEnum):
    """Reasons to condense a view."""

    SIZE = "size"
    TOKENS = "tokens"
    REQUEST = "request"


_LIMITS = (CondensationReason.SIZE, CondensationReason.TOKENS)


class ViewOutline(Outline):
    """The units of a view as it is now, with those kept by their role, and the tokens of each entry.

    start, stop: of the part that is outlined, which lacks nothing that belongs together with something in it; all
    positions are counted in it. events: its entries. counter, format: of the tokens.
    reasons, limits: why the view has to be condensed, and the limits of its tokens.
    """

    def __init__(
        self,
        view: ConversationView,
        start: int = 0,
        stop: int | None = None,
        *,
        counter: TokenCounter | None = None,
        format: str | Format = "openai",
        reasons: Collection[CondensationReason] = (),
        limits: Sequence[int] = (),
    ) -> None:
        self.events = tuple(view[start:stop])
        self._counter = get_counter(counter)
        self._format = get_format(format)
        messages = (event.message for event in self.events)
        links = (event.link for event in self.events)
        super().__init__(messages, links=links, sizes=MessageSizes(self._counter, self._format))
        self.reasons = frozenset(reasons)
        self.limits = limits
        self._kept = self._within(view.kept, start)
        self._gives_way = self._within(view.giving_way, start)

    def _within(self, places: Sequence[int], start: int) -> frozenset[int]:
        """Return those of the view's positions that are outlined, as positions of the outline."""
        end = start + len(self.events)
        found = places[bisect_left(places, start) : bisect_left(places, end)]
        return frozenset(place - start for place in found)

    @cached_property
    def kept(self) -> frozenset[int]:
        """The positions that no condenser forgets: whole units with an entry that the view keeps by its role."""
        units = (unit for unit in self.units if not self._kept.isdisjoint(unit))
        return frozenset(places_in(units))

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The tokens of each entry."""
        return tuple(event.tokens(self._counter, self._format) for event in self.events)

    def tokens_of(self, unit: Unit) -> int:
        """Return a unit's tokens."""
        return sum(self.sizes[place] for place in unit)

    @cached_property
    def giving_way(self) -> list[Unit]:
        """The kept units that may go where a limit is too small, in the order in which they go.

        The first user message goes with its answer, then so does the newest that is answered, then
        users' messages without an answer go, the oldest first. The newest stays.
        """
        exchanges = self.exchanges
        pairs: dict[tuple[int, ...], list[int]] = {exchanges.first: [], exchanges.last_answered: []}
        others = []
        for unit in self.units:
            reasons = self._kept.intersection(unit)
            if not reasons or not reasons <= self._gives_way:
                continue
            pair = next((places for of, places in pairs.items() if reasons.intersection(of)), None)
            if pair is None:
                others.append(unit)
            else:
                pair += unit
        return [*(tuple(pair) for pair in pairs.values() if pair), *others]

    def steps(self, *, keep_first: int = 0) -> list[Unit]:
        """Return the units to forget first, oldest first: what the agent did, without its answers.

        Units with the newest recall of some knowledge are left out, since knowledge may be recalled
        only once.

        Args:
            keep_first: Number of entries before the first unit that may go.
        """
        answers = {*self.exchanges.answers}
        return [
            unit
            for unit in self._forgettable(keep_first)
            if not self._is_users(unit)
            and answers.isdisjoint(unit)
            and self._recalls.isdisjoint(unit)
        ]

    def recalls(self, *, keep_first: int = 0) -> list[Unit]:
        """Return the units with the newest recall of some knowledge, oldest first."""
        units = self._forgettable(keep_first)
        return [unit for unit in units if not self._recalls.isdisjoint(unit)]

    def whole_exchanges(self, *, keep_first: int = 0) -> list[Unit]:
        """Return the questions and the answer of each exchange as one unit, oldest first.

        A request without its answer would make the agent do the work again. Exchanges of which
        something stays are left out.
        """
        free = set(places_in(self._forgettable(keep_first)))
        exchanges = self.exchanges
        units = []
        for start, answer in exchanges.answered:
            questions = [place for place in exchanges.questions if start <= place < answer]
            its = {self.unit_of[place] for place in (*questions, answer)}
            places = tuple(places_in(its))
            if free.issuperset(places):
                units.append(places)
        return units

    def users(self, *, keep_first: int = 0) -> list[Unit]:
        """Return the other units of users, oldest first, and summaries of users' messages alone.

        They have no answer, or it stays.
        """
        gone = set(places_in(self.whole_exchanges(keep_first=keep_first)))
        users = filter(self._is_users, self._forgettable(keep_first))
        return [unit for unit in users if gone.isdisjoint(unit)]

    @cached_property
    def answered_last(self) -> list[Unit]:
        """The question of the newest answered exchange, if it may give way."""
        question = self.exchanges.last_answered[:1]
        if not self._gives_way.issuperset(question) or question == self.exchanges.first[:1]:
            return []
        return [self.unit_of[place] for place in question]

    def longest_question(self, units: Collection[Unit], *, is_replaced: bool) -> list[Unit]:
        """Return the unit of the longest message of a user in some units, [] if there is none.

        Args:
            is_replaced: Whether a summary takes the message's place. If not, its answer goes too.
        """
        places = [place for place in places_in(units) if is_question(self.events[place])]
        longest = max(places, key=self.sizes.__getitem__, default=None)
        if longest is None:
            return []
        if is_replaced:
            return [self.unit_of[longest]]
        return [next(unit for unit in units if longest in unit)]

    def next_cut(self, position: int) -> int:
        """Return the first position from `position` on with no unit on both sides."""
        return self._cuts[min(bisect_left(self._cuts, position), len(self._cuts) - 1)]

    def place(self, forgotten: Collection[int]) -> int:
        """Return where a summary of entries goes, counted without them: where the last of them was."""
        cut = self._cuts[bisect_right(self._cuts, max(forgotten) + 1) - 1]
        return cut - sum(place < cut for place in forgotten)

    def fewest(self, units: Sequence[Unit], entries: int, tokens: int) -> list[Unit]:
        """Return the fewest first units with at least `entries` entries and more than `tokens` tokens, or all."""
        of_entries = shortest_prefix(map(len, units), entries - 1)
        of_tokens = shortest_prefix(map(self.tokens_of, units), tokens) if tokens > 0 else 0
        return list(units[: max(of_entries, of_tokens)])

    @cached_property
    def questions(self) -> tuple[int, ...]:
        """The positions of users' messages, ascending."""
        places = range(len(self.events))
        return tuple(p for p in places if is_question(self.events[p]))

    @cached_property
    def replies(self) -> tuple[int, ...]:
        """The positions of the agent's messages to users, ascending."""
        return tuple(p for p in range(len(self.events)) if is_reply(self.events[p]))

    @cached_property
    def _cuts(self) -> tuple[int, ...]:
        return self.cuts_beside(())

    @cached_property
    def _recalls(self) -> frozenset[int]:
        """The position of the newest recall of each knowledge, by its name."""
        newest = {
            each.name: place
            for place, event in enumerate(self.events)
            if isinstance(event, ObservationEvent)
            for each in event.recalled
        }
        return frozenset(newest.values())

    def _forgettable(self, keep_first: int) -> Iterator[Unit]:
        start = self.next_cut(keep_first)
        yield from (unit for unit in self.units if unit[0] >= start and unit[0] not in self.kept)

    def _is_users(self, unit: Unit) -> bool:
        return any(_is_of_user(self.events[place]) for place in unit)


def shortest_prefix(sizes: Iterable[int], above: int) -> int:
    """Return how many of the first sizes are more than `above` together: none for less than 1, at most all."""
    if above <= 0:
        return 0
    count = 0
    for total in accumulate(sizes):
        count += 1
        if total > above:
            break
    return count


def _is_of_user(event: ConversationEvent) -> bool:
    """Return whether an event is a user's message, or a summary of users' messages alone."""
    if isinstance(event, SummaryEvent):
        return event.trust >= Trust.USER
    return isinstance(event, ActionEvent) and event.source is EventSource.USER


def is_question(event: ConversationEvent) -> bool:
    """Return whether an event is a user's message."""
    return isinstance(event, ActionEvent) and event.role == "user"


def is_reply(event: ConversationEvent) -> bool:
    """Return whether an event is a message of the agent to its users."""
    if not isinstance(event, ActionEvent) or event.call is not None:
        return False
    return event.kind == "message" and event.role == "assistant"


class CondenserLimits(TypedDict, total=False):
    """The arguments of each rolling condenser."""

    max_size: int | None
    max_tokens: int | None
    keep_first: int
    minimum_progress: float
    forgets_users: bool
    counter: TokenCounter | Callable[[str], int] | str | None
    format: str | Format


class RollingCondenser(Condenser):
    """Forgets half of the view when it is too large: the agent's oldest actions first, users' messages last.

    max_size: number of entries above which the view is halved. None: no limit.
    max_tokens: likewise in tokens.
    keep_first: entries at the start that stay, beside the protected ones.
    minimum_progress: least share of the view that a condensation frees, above 0 and below 1.
    forgets_users: whether users' messages may go if the other units free too little.
    counter: of tokens. The default is o200k_base. format: of the request in which they are counted.
    Raises InvalidArgumentError, also if `keep_first` leaves no room for a summary and one more entry.

    >>> from kaosmem.conversation import ActionEvent, EventLog
    >>> log = EventLog()
    >>> for number in range(8):
    ...     event = log.append(ActionEvent("message", f"step {number}"))
    >>> view = await RollingCondenser(max_size=6).condensed_view(log)
    >>> [event.text for event in view]
    ['step 5', 'step 6', 'step 7']
    """

    def __init__(
        self,
        *,
        max_size: int | None = 100,
        max_tokens: int | None = None,
        keep_first: int = 0,
        minimum_progress: float = 0.1,
        forgets_users: bool = True,
        counter: TokenCounter | Callable[[str], int] | str | None = None,
        format: str | Format = "openai",
    ) -> None:
        self.keep_first = check_count(keep_first, "keep_first")
        self.max_tokens = (
            None if max_tokens is None else check_count(max_tokens, "max_tokens", least=1)
        )
        self.max_size = None if max_size is None else check_count(max_size, "max_size", least=1)
        if max_size is not None and max_size // 2 < keep_first + 2:
            raise InvalidArgumentError(
                f"keep_first is {keep_first} and max_size {max_size}, of which half leaves no room "
                "for a "
                f"summary and an entry more; raise max_size to {2 * keep_first + 4} or keep fewer"
            )
        given = minimum_progress
        if not isinstance(given, int | float) or isinstance(given, bool) or not 0 < given < 1:
            raise InvalidArgumentError(
                f"minimum_progress is {shown_number(given)}; give a share of the view, above 0 and "
                "below 1"
            )
        self.minimum_progress = minimum_progress
        self.forgets_users = forgets_users
        self._counter = get_counter(counter)
        self._format = get_format(format)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(max_size={self.max_size}, max_tokens={self.max_tokens})"

    def outline(self, view: ConversationView, *, limit: int | None = None) -> ViewOutline:
        """Return the units of a view as it is now, whatever is appended to its log meanwhile."""
        reasons = self.reasons(view, limit=limit)
        return ViewOutline(
            view,
            counter=self._counter,
            format=self._format,
            reasons=reasons,
            limits=self._limits(limit),
        )

    def reasons(
        self, view: ConversationView, *, limit: int | None = None
    ) -> frozenset[CondensationReason]:
        """Return why a view has to be condensed: none of them if it need not."""
        limits = self._limits(limit)
        reasons = {
            CondensationReason.SIZE: self.max_size is not None and len(view) > self.max_size,
            CondensationReason.TOKENS: bool(limits) and self._tokens(view) > min(limits),
            CondensationReason.REQUEST: view.unhandled_condensation_request,
        }
        return frozenset(reason for reason, holds in reasons.items() if holds)

    def _tokens(self, view: ConversationView) -> int:
        return sum(event.tokens(self._counter, self._format) for event in view)

    def _limits(self, limit: int | None) -> list[int]:
        return [tokens for tokens in (self.max_tokens, limit) if tokens is not None]

    def should_condense(self, view: ConversationView, *, limit: int | None = None) -> bool:
        """Return whether to condense a view. Override it to condense at other times.

        If it returns True while `reasons` is empty, half of the view's entries are forgotten.

        >>> from kaosmem.conversation import ActionEvent, RollingCondenser, EventLog
        >>> class ForgetsNotes(RollingCondenser):
        ...     def should_condense(self, view, *, limit=None):
        ...         return sum(event.text.startswith("note") for event in view) > 3
        >>> log = EventLog()
        >>> for number in range(4):
        ...     _ = log.append(ActionEvent("message", f"note {number}"))
        >>> [event.text for event in await ForgetsNotes().condensed_view(log)]
        ['note 2', 'note 3']
        """
        return bool(self.reasons(view, limit=limit))

    async def get_condensation(
        self, view: ConversationView, *, limit: int | None = None
    ) -> Condensation:
        """Return the record that condenses a view.

        Raises NoCondensationError where there is none.
        """
        outline = self.outline(view, limit=limit)
        return self.record(outline, self.choice(outline))

    async def hard_reset(
        self, view: ConversationView, error: NoCondensationError, *, limit: int | None = None
    ) -> Condensation:
        """Return the record that leaves as little as can be, where the view has to be condensed and could not be.

        Raises NoCondensationError: this one has no such record.
        """
        raise error

    async def condense(
        self, view: ConversationView, *, limit: int | None = None
    ) -> ConversationView | Condensation:
        """Return the view if `should_condense` says no, else the record that condenses it.

        If no record can be made, the view is returned, unless it has too many tokens or a
        condensation request: then `hard_reset` makes the record.
        Raises NoCondensationError.
        """
        if not self.should_condense(view, limit=limit):
            return view
        outline = self.outline(view, limit=limit)
        kept = outline.kept.difference(places_in(outline.giving_way))
        needed = sum(outline.sizes[place] for place in kept)
        if CondensationReason.TOKENS in outline.reasons and needed > min(outline.limits):
            raise NoCondensationError(
                f"the protected entries take {needed} of {min(outline.limits)} tokens; raise the "
                "limits of "
                f"{type(self).__name__}, or shorten it"
            )
        try:
            return await self.get_condensation(view, limit=limit)
        except NoCondensationError as error:
            if self.can_wait(outline):
                return view
            return await self.hard_reset(view, error, limit=limit)

    @staticmethod
    def can_wait(outline: ViewOutline) -> bool:
        """Return whether a view may stay as it is: its tokens are within the limits, and it has no request."""
        return {*outline.reasons} <= {CondensationReason.SIZE}

    def is_overdue(self, outline: ViewOutline) -> bool:
        """Return whether a view does not wait for a model any longer: it has over twice the entries of its limit."""
        return self.max_size is not None and len(outline.events) > 2 * self.max_size

    def choice(self, outline: ViewOutline, *, replaced: int = 0) -> list[Unit]:
        """Return the units to forget so that about half of the view's limit is left, oldest first.

        They are of the first of `stages` that leaves the view within its number of entries. If no
        stage does, they are of the first that frees enough. If none does and a limit asks,
        protected units that give way may go too. The unit with the newest entry stays.

        Args:
            replaced: Number of entries that come in their place.

        Raises:
            NoCondensationError: If no stage frees enough.
        """
        most: list[Unit] = []
        progress: list[Unit] = []
        for units in self.stages(outline, is_replaced=replaced > 0):
            chosen = self.enough(outline, units, replaced=replaced)
            if chosen and self._has_room(outline, chosen, replaced):
                return chosen
            progress = progress or chosen
            most = max(most, units, key=len)
        if progress:
            return progress
        if self.forgets_users and not outline.reasons.isdisjoint(_LIMITS):
            # No more of these than a limit asks for.
            most = [*most, *self._without_newest(outline, outline.giving_way)]
            chosen = self.enough(outline, most, replaced=replaced, share=1.0)
            if chosen:
                return chosen
        raise NoCondensationError(
            f"of {len(outline.events)} entries {sum(map(len, most))} may be left out, "
            f"which frees less than a share of {self.minimum_progress}; raise the limits of "
            f"{type(self).__name__}, lower its minimum_progress, or shorten the protected entries"
        )

    def _has_room(self, outline: ViewOutline, chosen: Iterable[Unit], replaced: int) -> bool:
        """Return whether the view has at most `max_size` entries without the chosen units."""
        left = len(outline.events) - sum(map(len, chosen)) + replaced
        return self.max_size is None or left <= self.max_size

    def stages(self, outline: ViewOutline, *, is_replaced: bool = False) -> list[list[Unit]]:
        """Return lists of units that may go; a list is tried if those before it free too little.

        What the agent did goes first. Where tokens are too many, the longest message of a user is
        next, alone. Then users' requests go with their answers, then the other messages of users,
        and recalled knowledge with them. It does not go alone, or with earlier summaries alone,
        while tokens are within the limits.
        """
        first = self.keep_first
        steps = self.old(outline)
        recalls = self._without_newest(outline, outline.recalls(keep_first=first))
        users: list[Unit] = []
        exchanges: list[Unit] = []
        if self.forgets_users:
            users = self._without_newest(outline, outline.users(keep_first=first))
            exchanges = self._without_newest(outline, outline.whole_exchanges(keep_first=first))
        stages = [steps]
        if self.surplus(outline)[1]:
            questions = [*exchanges, *users, *outline.answered_last]
            stages.append(outline.longest_question(questions, is_replaced=is_replaced))
        stages += [[*steps, *exchanges], [*steps, *exchanges, *users]]
        others = stages[-1]
        is_alone = all(isinstance(outline.events[unit[0]], SummaryEvent) for unit in others)
        if not is_alone or CondensationReason.TOKENS in outline.reasons:
            stages.append([*others, *recalls])
        return stages

    def enough(
        self,
        outline: ViewOutline,
        units: Sequence[Unit],
        *,
        replaced: int = 0,
        share: float = 0.5,
    ) -> list[Unit]:
        """Return the first units that free the surplus, all if none do.

        Args:
            replaced: Number of entries that come in their place.
            share: The share of the limits that is left.

        Returns:
            [] if they free less than `minimum_progress`.
        """
        entries, tokens = self.surplus(outline, replaced=replaced, share=share)
        least = max(1, ceil(self.minimum_progress * len(outline.events)))
        # A summary is at most half as long as the entries that it stands for.
        least_tokens = ceil(self.minimum_progress * outline.tokens) * (1 + replaced)
        if entries > 0:
            entries = max(entries, least + replaced)
        if tokens > 0:
            tokens = max(tokens, least_tokens)
        chosen = outline.fewest(units, entries, tokens)
        if entries > 0 and sum(map(len, chosen)) - replaced >= least:
            return chosen
        if tokens > 0 and sum(map(outline.tokens_of, chosen)) >= least_tokens > 0:
            return chosen
        return []

    def surplus(
        self, outline: ViewOutline, *, replaced: int = 0, share: float = 0.5
    ) -> tuple[int, int]:
        """Return (entries, tokens) that have to go so that a share of the limit is left, 0 for none.

        `entries` is the least number, `tokens` a number to exceed.
        """
        reasons = outline.reasons
        count = len(outline.events)
        is_asked = CondensationReason.REQUEST in reasons
        entries = []
        tokens = []
        if CondensationReason.SIZE in reasons:
            entries.append(int((self.max_size or 0) * share))
        if is_asked or not reasons:  # without a reason, an overridden should_condense asks
            entries.append(int(count * share))
        if not self.can_wait(outline):
            tokens = [int(most * share) for most in outline.limits]
        if is_asked:
            tokens.append(int(outline.tokens * share))
        surplus = count + replaced - min(entries) if entries else 0
        surplus_tokens = outline.tokens - min(tokens) if tokens else 0
        return surplus, surplus_tokens

    def old(self, outline: ViewOutline, *, keep_first: int | None = None) -> list[Unit]:
        """Return what the agent did, in the order in which it goes, without the unit of the newest entry.

        Args:
            keep_first: Entries at the start that stay. None is the condenser's own number.
        """
        kept = self.keep_first if keep_first is None else keep_first
        return self._without_newest(outline, outline.steps(keep_first=kept))

    @staticmethod
    def _without_newest(outline: ViewOutline, units: Iterable[Unit]) -> list[Unit]:
        newest = len(outline.events) - 1
        return [unit for unit in units if unit[-1] != newest]

    def record(
        self,
        outline: ViewOutline,
        units: Iterable[Unit],
        *,
        summary: str | None = None,
        fallback: str | None = None,
    ) -> Condensation:
        """Return the record that forgets units of a view, for a summary if there is one.

        fallback: why no model had a part in it, if one should have had.
        Raises InvalidArgumentError where they are not of a log.
        """
        forgotten = places_in(units)
        ids = tuple(outline.events[place].id for place in forgotten)
        if UNLOGGED in ids:
            raise InvalidArgumentError(
                "a record can't name events that no log has taken; append them to an EventLog"
            )
        return Condensation(
            forgotten_ids=ids,
            summary=summary,
            summary_offset=None if summary is None else outline.place(forgotten),
            metadata={
                **({"fallback": fallback} if fallback is not None else {}),
                "condenser": type(self).__name__,
                "reasons": sorted(outline.reasons),
                "entries": len(outline.events),
                "tokens": outline.tokens,
            },
        )
