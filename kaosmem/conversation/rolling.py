"""Condensers that act only when the view is too large, and then forget about half of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import ceil
from typing import TypedDict

from kaosmem.arguments import check_count
from kaosmem.compaction.outline import places_in
from kaosmem.conversation.condensation import Condensation
from kaosmem.conversation.condensers import Condenser
from kaosmem.conversation.events import UNLOGGED
from kaosmem.conversation.outline import CondensationReason, Unit, ViewOutline
from kaosmem.conversation.view import ConversationView
from kaosmem.errors import InvalidArgumentError, NoCondensationError
from kaosmem.formats import Format, get_format
from kaosmem.names import shown_number
from kaosmem.tokens import get_counter
from kaosmem.tokens.counters import TokenCounter

_LIMITS = (CondensationReason.SIZE, CondensationReason.TOKENS)


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
                "for a summary and an entry more; "
                f"raise max_size to {2 * keep_first + 4} or keep fewer"
            )
        self.minimum_progress = _checked_progress(minimum_progress)
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

    async def get_condensation(self, outline: ViewOutline) -> Condensation:
        """Return the record that condenses a view.

        Raises NoCondensationError where there is none.
        """
        return self.record(outline, self.choice(outline))

    async def hard_reset(self, outline: ViewOutline, error: NoCondensationError) -> Condensation:
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
                f"limits of {type(self).__name__}, or shorten it"
            )
        try:
            return await self.get_condensation(outline)
        except NoCondensationError as error:
            if self.can_wait(outline):
                return view
            return await self.hard_reset(outline, error)

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
        stages = self.stages(outline)
        progress: list[Unit] = []
        for units in stages:
            chosen = self.enough(outline, units, replaced=replaced)
            if chosen and self._has_room(outline, chosen, replaced):
                return chosen
            progress = progress or chosen
        if progress:
            return progress
        most = stages[-1]
        if self.forgets_users and not outline.reasons.isdisjoint(_LIMITS):
            # No more of these than a limit asks for.
            newest = len(outline.events) - 1
            most = [*most, *(unit for unit in outline.giving_way if unit[-1] != newest)]
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

    def stages(self, outline: ViewOutline) -> list[list[Unit]]:
        """Return lists of units that may go; a list is tried if those before it free too little.

        What the agent did goes first. Then users' requests go with their answers, and then the
        other messages of users.
        """
        first = self.keep_first
        steps = outline.steps(keep_first=first)
        if not self.forgets_users:
            return [steps]
        answered = [*steps, *outline.whole_exchanges(keep_first=first)]
        return [steps, answered, [*answered, *outline.users(keep_first=first)]]

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


def _checked_progress(given: float) -> float:
    """Return the least share of a view that a condensation frees. Raises InvalidArgumentError."""
    if not isinstance(given, int | float) or isinstance(given, bool) or not 0 < given < 1:
        raise InvalidArgumentError(
            f"minimum_progress is {shown_number(given)}; give a share of the view, above 0 and "
            "below 1"
        )
    return given
