"""Condensers that act only when the view is too large, and then shorten it by about half."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, NamedTuple

from kaosmem.arguments import check_count, check_instance
from kaosmem.conversation.condensation import Condensation, SummaryEvent
from kaosmem.conversation.condensers.condenser import Condenser
from kaosmem.conversation.condensers.outline import Unit, ViewOutline
from kaosmem.conversation.event import UNLOGGED, ConversationEvent
from kaosmem.conversation.view import ConversationView
from kaosmem.errors import InvalidArgumentError, NoCondensationError
from kaosmem.names import shown_name
from kaosmem.tokens import TokenCounter, get_counter


class CondensationReason(StrEnum):
    """Reasons to condense a view."""

    SIZE = "size"
    TOKENS = "tokens"
    REQUEST = "request"


@dataclass(frozen=True, slots=True)
class RollingConfig:
    """Limits of a rolling condenser.

    max_size: number of entries above which the view is halved. None: no limit.
    max_tokens: likewise in tokens.
    keep_first: entries at the start that stay, beside the protected ones.
    minimum_progress: least share of the view that a condensation frees, above 0 and below 1.
    Raises InvalidArgumentError, also if `keep_first` leaves no room for a summary and one more entry.
    """

    max_size: int | None = 100
    keep_first: int = 0
    max_tokens: int | None = None
    minimum_progress: float = 0.1

    def __post_init__(self) -> None:
        check_count(self.keep_first, "keep_first")
        if self.max_tokens is not None:
            check_count(self.max_tokens, "max_tokens", least=1)
        if self.max_size is not None and check_count(self.max_size, "max_size", least=1) // 2 < self.keep_first + 2:
            raise InvalidArgumentError(
                f"keep_first is {self.keep_first} and max_size {self.max_size}, of which half leaves no room for a "
                f"summary and an entry more; raise max_size to {2 * self.keep_first + 4} or keep fewer"
            )
        given = self.minimum_progress
        if not isinstance(given, int | float) or isinstance(given, bool) or not 0 < given < 1:
            raise InvalidArgumentError(
                f"minimum_progress is {shown_name(given)}; give a share of the view, above 0 and below 1"
            )


class Surplus(NamedTuple):
    """How much has to go from a view: at least so many entries and more than so many tokens, 0 for none."""

    entries: int
    tokens: int


class RollingCondenser(Condenser):
    """Shortens a view that has grown too large by about half, so that it rarely has to act.

    counter: of tokens. The default is o200k_base.
    """

    forgets_users: ClassVar[bool] = True
    """Whether it forgets users' messages where nothing else frees enough."""

    def __init__(
        self,
        config: RollingConfig = RollingConfig(),
        *,
        counter: TokenCounter | Callable[[str], int] | str | None = None,
    ) -> None:
        self.config = check_instance(config, RollingConfig, "config")
        self._counter = get_counter(counter)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.config})"

    def outline(self, view: ConversationView) -> ViewOutline:
        """Return the units of a view as it is now, whatever is appended to its log meanwhile."""
        return ViewOutline(view, counter=self._counter)

    def reasons(self, view: ConversationView, *, limit: int | None = None) -> frozenset[CondensationReason]:
        """Return why a view has to be condensed: none of them if it need not."""
        return self._reasons(view, is_requested=view.unhandled_condensation_request, limit=limit)

    def _reasons(
        self, entries: Sequence[ConversationEvent], *, is_requested: bool, limit: int | None
    ) -> frozenset[CondensationReason]:
        limits = self._limits(limit)
        tokens = sum(event.tokens(self._counter) for event in entries) if limits else 0
        reasons = {
            CondensationReason.SIZE: self.config.max_size is not None and len(entries) > self.config.max_size,
            CondensationReason.TOKENS: bool(limits) and tokens > min(limits),
            CondensationReason.REQUEST: is_requested,
        }
        return frozenset(reason for reason, holds in reasons.items() if holds)

    def should_condense(self, view: ConversationView, *, limit: int | None = None) -> bool:
        """Return whether to condense a view. Override it to condense at other times.

        If it returns True while `reasons` is empty, half of the view's entries are forgotten.

        >>> from kaosmem.conversation import ActionEvent, AmortizedForgettingCondenser, EventLog
        >>> class ForgetsNotes(AmortizedForgettingCondenser):
        ...     def should_condense(self, view, *, limit=None):
        ...         return sum(event.text.startswith("note") for event in view) > 3
        >>> log = EventLog()
        >>> for number in range(4):
        ...     _ = log.append(ActionEvent("message", f"note {number}"))
        >>> [event.text for event in await ForgetsNotes().condensed_view(log)]
        ['note 2', 'note 3']
        """
        return bool(self.reasons(view, limit=limit))

    @abstractmethod
    async def get_condensation(self, view: ConversationView, *, limit: int | None = None) -> Condensation:
        """Return the record that condenses a view. Raises NoCondensationError where there is none."""
        ...

    async def hard_reset(
        self, view: ConversationView, error: NoCondensationError, *, limit: int | None = None
    ) -> Condensation:
        """Return the record that leaves as little as can be, where the view has to be condensed and could not be.

        Raises NoCondensationError: this one has no such record.
        """
        raise error

    async def condense(self, view: ConversationView, *, limit: int | None = None) -> ConversationView | Condensation:
        """Return the view if `should_condense` says no, else the record that condenses it.

        If no record can be made, the view is returned unless its tokens are too many or somebody asked: then
        `hard_reset` makes the record.
        Raises NoCondensationError.
        """
        if not self.should_condense(view, limit=limit):
            return view
        reasons = self.reasons(view, limit=limit)
        if CondensationReason.TOKENS in reasons:
            self._check_kept(view, limit)
        try:
            return await self.get_condensation(view, limit=limit)
        except NoCondensationError as error:
            if reasons <= {CondensationReason.SIZE}:
                return view  # the size alone can wait
            return await self.hard_reset(view, error, limit=limit)

    def _check_kept(self, view: ConversationView, limit: int | None) -> None:
        """Raise NoCondensationError where all that may be forgotten would not be enough, so that none of it is."""
        outline = self.outline(view)
        kept, most = sum(outline.sizes[place] for place in outline.kept), min(self._limits(limit))
        if kept > most:
            raise NoCondensationError(
                f"the protected entries take {kept} of {most} tokens; raise the limits of {type(self).__name__}, or "
                "shorten it"
            )

    def _limits(self, limit: int | None) -> list[int]:
        return [tokens for tokens in (self.config.max_tokens, limit) if tokens is not None]

    def choice(self, outline: ViewOutline, *, limit: int | None = None, replaced: int = 0) -> list[Unit]:
        """Return the units to forget so that about half of the view's limit is left, oldest first.

        They are the agent's or, where these free too little, the user's: the longest message alone where it is tokens
        that are too many, else as few as will do. The unit with the newest entry stays.
        replaced: entries that come in their place. Raises NoCondensationError where nothing frees enough.
        """
        surplus = self.surplus(outline, limit=limit, replaced=replaced)
        agents = self.old(outline)
        users = outline.users(keep_first=self.config.keep_first) if self.forgets_users else []
        messages = [unit for unit in users if not isinstance(outline.events[unit[0]], SummaryEvent)]
        longest = sorted(messages, key=outline.tokens_of, reverse=True)[:1] if surplus.tokens else []
        for units in (agents, longest, users):
            if chosen := self.enough(outline, units, surplus, replaced=replaced):
                return chosen
        raise NoCondensationError(
            f"of {len(outline.events)} entries {sum(map(len, (*agents, *users)))} may be left out, "
            f"which frees less than a share of {self.config.minimum_progress}; raise the limits of "
            f"{type(self).__name__}, lower its minimum_progress, or shorten the protected entries"
        )

    def enough(self, outline: ViewOutline, units: Sequence[Unit], surplus: Surplus, *, replaced: int = 0) -> list[Unit]:
        """Return the first units that free a surplus, all if none do, [] if they free less than `minimum_progress`.

        replaced: entries that come in their place.
        """
        chosen = outline.fewest(units, entries=surplus.entries, tokens=surplus.tokens)
        return chosen if self._frees_enough(outline, chosen, surplus, replaced=replaced) else []

    def old(self, outline: ViewOutline, *, keep_first: int | None = None) -> list[Unit]:
        """Return the agent's units to forget, in the order in which they go, without the unit of the newest entry.

        keep_first: None is the configuration's.
        """
        newest, kept = len(outline.events) - 1, self.config.keep_first if keep_first is None else keep_first
        return [unit for unit in outline.agents(keep_first=kept) if unit[-1] != newest]

    def record(
        self,
        outline: ViewOutline,
        units: Iterable[Unit],
        *,
        limit: int | None = None,
        summary: str | None = None,
        fallback: str | None = None,
    ) -> Condensation:
        """Return the record that forgets units of a view, for a summary if there is one.

        fallback: why no model had a part in it, if one should have had.
        Raises InvalidArgumentError where they are not of a log.
        """
        forgotten = sorted(place for unit in units for place in unit)
        ids = tuple(outline.events[place].id for place in forgotten)
        if UNLOGGED in ids:
            raise InvalidArgumentError("a record can't name events that no log has taken; append them to an EventLog")
        return Condensation(
            forgotten_ids=ids,
            summary=summary,
            summary_offset=None if summary is None else outline.place(forgotten),
            metadata={
                **({"fallback": fallback} if fallback is not None else {}),
                "condenser": type(self).__name__,
                "reasons": sorted(self._reasons(outline.events, is_requested=outline.is_requested, limit=limit)),
                "entries": len(outline.events),
                "tokens": outline.tokens,
            },
        )

    def surplus(self, outline: ViewOutline, *, limit: int | None = None, replaced: int = 0) -> Surplus:
        """Return the amount to take from a view so that about half of its limit is left."""
        reasons = self._reasons(outline.events, is_requested=outline.is_requested, limit=limit)
        count = len(outline.events)
        is_asked = CondensationReason.REQUEST in reasons or not reasons  # none: an overridden should_condense asks
        entries = [count // 2] if is_asked else []
        if CondensationReason.SIZE in reasons:
            entries.append((self.config.max_size or 0) // 2)
        if not reasons - {CondensationReason.SIZE}:
            return Surplus(count + replaced - min(entries), 0)
        tokens = [most // 2 for most in self._limits(limit)]
        if CondensationReason.REQUEST in reasons:
            tokens.append(outline.tokens // 2)
        return Surplus(count + replaced - min(entries) if entries else 0, outline.tokens - min(tokens))

    def _frees_enough(self, outline: ViewOutline, units: Sequence[Unit], surplus: Surplus, *, replaced: int) -> bool:
        share = self.config.minimum_progress
        entries = sum(map(len, units)) - replaced
        if surplus.entries > 0 and entries >= max(1, share * len(outline.events)):
            return True
        # A summary is at most half as long as the entries that it stands for.
        return surplus.tokens > 0 and sum(map(outline.tokens_of, units)) // (1 + replaced) >= share * outline.tokens > 0
