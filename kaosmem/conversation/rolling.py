"""A condenser that forgets half of a view when the view is too large."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from kaosmem.arguments import check_count
from kaosmem.compaction.outline import places_in
from kaosmem.conversation.condensation import Condensation
from kaosmem.conversation.condensers import Condenser
from kaosmem.conversation.events import UNLOGGED
from kaosmem.conversation.outline import Unit, ViewOutline
from kaosmem.conversation.view import ConversationView
from kaosmem.errors import InvalidArgumentError, NoCondensationError
from kaosmem.formats import Format, get_format
from kaosmem.tokens import get_counter
from kaosmem.tokens.counters import TokenCounter

_LEAST_PROGRESS = 10
"""A condensation frees at least this part of a view, a tenth. Less is not worth a record."""


class Excess(NamedTuple):
    """What a view has beyond its limits: entries, and tokens. A number below 1 is none."""

    entries: int
    tokens: int

    @property
    def is_some(self) -> bool:
        """Return whether the view exceeds a limit."""
        return self.entries > 0 or self.tokens > 0


class RollingCondenser(Condenser):
    """Forgets half of the view when it is too large: the agent's oldest actions first, users' messages last.

    Args:
        max_size: Number of entries above which the view is halved. None: no limit.
        max_tokens: Likewise in tokens.
        counter: Of tokens. The default is o200k_base.
        format: Of the request in which tokens are counted.

    Raises:
        InvalidArgumentError: If a limit is out of range.

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
        counter: TokenCounter | Callable[[str], int] | str | None = None,
        format: str | Format = "openai",
    ) -> None:
        self.max_size = None if max_size is None else check_count(max_size, "max_size", least=4)
        self.max_tokens = (
            None if max_tokens is None else check_count(max_tokens, "max_tokens", least=1)
        )
        self._counter = get_counter(counter)
        self._format = get_format(format)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(max_size={self.max_size}, max_tokens={self.max_tokens})"

    def should_condense(self, view: ConversationView, *, limit: int | None = None) -> bool:
        """Return whether to condense a view. Override it to condense at other times.

        If it returns True for a view within its limits, half of the entries are forgotten.

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
        tokens = 0
        if self._most_tokens(limit) is not None:
            tokens = sum(event.tokens(self._counter, self._format) for event in view)
        return self._excess(len(view), tokens, limit).is_some

    async def condense(
        self, view: ConversationView, *, limit: int | None = None
    ) -> ConversationView | Condensation:
        """Return the view if `should_condense` says no, else the record that condenses it.

        A view within its tokens is returned if no record can be made.

        Raises:
            NoCondensationError: If the view has too many tokens and no record can be made.
        """
        if not self.should_condense(view, limit=limit):
            return view
        outline = ViewOutline(view, counter=self._counter, format=self._format)
        excess = self._excess(len(outline.events), sum(outline.sizes), limit)
        most = self._most_tokens(limit)
        if most is not None and excess.tokens > 0:
            self._check_protected(outline, most)
        try:
            return await self.get_condensation(outline, limit)
        except NoCondensationError:
            if excess.tokens > 0:
                raise
            return view

    async def get_condensation(self, outline: ViewOutline, limit: int | None) -> Condensation:
        """Return the record that condenses a view. Raises NoCondensationError where there is none."""
        return self.record(outline, self.choice(outline, limit))

    def choice(self, outline: ViewOutline, limit: int | None, *, replaced: int = 0) -> list[Unit]:
        """Return the units to forget so that about half of the view's limit is left, oldest first.

        What the agent did goes first. Then users' requests go with their answers, then the other
        messages of users. If these free too little, protected units that give way go too, no more
        of them than the limit asks for.

        Args:
            replaced: Number of entries that come in the place of the units.

        Raises:
            NoCondensationError: If they free too little.
        """
        entries = len(outline.events)
        tokens = sum(outline.sizes)
        excess = self._excess(entries, tokens, limit)
        surplus = self._excess(entries + replaced, tokens, limit, half=True)
        if not excess.is_some:
            # Half of a view of two or three would be one entry: too little for a record.
            surplus = Excess(entries // 2 + replaced if entries >= 4 else 0, 0)
        chosen: list[Unit] = []
        for units in outline.stages():
            chosen = outline.fewest(units, *surplus)
            if self._is_enough(outline, chosen, excess, replaced) and self._fits(
                outline, chosen, replaced, limit
            ):
                return chosen
        if excess.is_some:
            # With a reserve: else the next entry would exceed the limit again.
            reserve = (self._most_tokens(limit) or 0) // _LEAST_PROGRESS
            wanted = excess.tokens + reserve if excess.tokens > 0 else 0
            most = [*chosen, *outline.giving_way]
            more = outline.fewest(most, excess.entries + replaced, wanted)
            if self._is_enough(outline, more, excess, replaced):
                return more
        if not self._is_enough(outline, chosen, excess, replaced):
            raise NoCondensationError(
                f"of {entries} entries {sum(map(len, chosen))} may be left out, which is too "
                f"little; raise the limits of {type(self).__name__}, or shorten the protected "
                "entries"
            )
        return chosen

    def record(
        self,
        outline: ViewOutline,
        units: Iterable[Unit],
        *,
        summary: str | None = None,
        fallback: str | None = None,
    ) -> Condensation:
        """Return the record that forgets units of a view, for a summary if there is one.

        Args:
            fallback: Why no model had a part in the summary, if one should have had.

        Raises:
            InvalidArgumentError: If the units are not of a log.
        """
        forgotten = places_in(units)
        ids = tuple(outline.events[place].id for place in forgotten)
        if UNLOGGED in ids:
            raise InvalidArgumentError(
                "a record can't name events that no log has taken; append them to an EventLog"
            )
        noted = {} if fallback is None else {"fallback": fallback}
        return Condensation(
            forgotten_ids=ids,
            summary=summary,
            summary_offset=None if summary is None else outline.place(forgotten),
            metadata={
                **noted,
                "condenser": type(self).__name__,
                "entries": len(outline.events),
                "tokens": outline.tokens,
            },
        )

    def _most_tokens(self, limit: int | None) -> int | None:
        given = [tokens for tokens in (self.max_tokens, limit) if tokens is not None]
        return min(given, default=None)

    def _excess(
        self, entries: int, tokens: int, limit: int | None, *, half: bool = False
    ) -> Excess:
        """Return what a view has beyond its limits.

        Args:
            half: Count from half of each limit that is exceeded.
        """
        share = 2 if half else 1
        excess = [0, 0]
        for place, has, most in (
            (0, entries, self.max_size),
            (1, tokens, self._most_tokens(limit)),
        ):
            if most is not None and has > most:
                excess[place] = has - most // share
        return Excess(*excess)

    @staticmethod
    def _is_enough(
        outline: ViewOutline, units: Sequence[Unit], excess: Excess, replaced: int
    ) -> bool:
        """Return whether some units free enough to be worth a record.

        A summary in their place is at most half as long.
        """
        freed = sum(map(len, units)) - replaced
        if excess.tokens <= 0 or excess.entries > 0:
            return freed > 0 and freed * _LEAST_PROGRESS >= len(outline.events)
        tokens = sum(map(outline.tokens_of, units))
        return tokens * _LEAST_PROGRESS >= sum(outline.sizes) * (1 + replaced)

    def _fits(
        self, outline: ViewOutline, units: Sequence[Unit], replaced: int, limit: int | None
    ) -> bool:
        """Return whether a view is within its limits without some units."""
        entries = len(outline.events) - sum(map(len, units)) + replaced
        tokens = sum(outline.sizes) - sum(map(outline.tokens_of, units))
        return not self._excess(entries, tokens, limit).is_some

    def _check_protected(self, outline: ViewOutline, most: int) -> None:
        kept = outline.kept.difference(places_in(outline.giving_way))
        needed = sum(outline.sizes[place] for place in kept)
        if needed > most:
            raise NoCondensationError(
                f"the protected entries take {needed} of {most} tokens; raise the "
                f"limits of {type(self).__name__}, or shorten it"
            )
