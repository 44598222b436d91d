"""Condensers that forget half of a view when the view is too large, with and without a summary."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from kaosmem.arguments import check_count
from kaosmem.clients import LLMClient
from kaosmem.compaction import Summarizer
from kaosmem.compaction.fallback import fallback_reason
from kaosmem.compaction.protection import places_in
from kaosmem.conversation.condensation import Condensation
from kaosmem.conversation.condensers import Condenser
from kaosmem.conversation.events import UNLOGGED
from kaosmem.conversation.outline import Unit, ViewOutline
from kaosmem.conversation.view import ConversationView
from kaosmem.errors import InvalidArgumentError, NoCondensationError, SummaryError
from kaosmem.formats import Format, get_format
from kaosmem.tokens import get_counter
from kaosmem.tokens.counters import AnyCounter

_LEAST_PROGRESS = 10
"""A condensation frees at least this part of a view, a tenth. Less is not worth a record."""
_MIN_SUMMARY_TOKENS = 64
_WITH_RESERVE = 0.9
"""The share of its tokens that a view may take, so that the next entry does not exceed them."""


class Size(NamedTuple):
    """The size of a view, or a limit of it: entries, and tokens."""

    entries: float
    tokens: float

    def fits(self, limit: Size) -> bool:
        """Return whether neither number is above a limit's."""
        return self.entries <= limit.entries and self.tokens <= limit.tokens


class RollingCondenser(Condenser):
    """Forgets half of the view when it is too large.

    The agent's oldest actions go first, and users' messages last.

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
        counter: AnyCounter = None,
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
        limits = self.limits(limit)
        tokens = 0
        if limits.tokens < math.inf:
            tokens = sum(event.tokens(self._counter, self._format) for event in view)
        return not Size(len(view), tokens).fits(limits)

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
        most = self.limits(limit).tokens
        has_too_many_tokens = sum(outline.sizes) > most
        if has_too_many_tokens:
            self._check_protected(outline, most)
        try:
            return await self.get_condensation(outline, limit)
        except NoCondensationError:
            if has_too_many_tokens:
                raise
            return view

    async def get_condensation(self, outline: ViewOutline, limit: int | None) -> Condensation:
        """Return the record that condenses a view. Raises NoCondensationError if there is none."""
        return self.record(outline, self.choice(outline, limit))

    def choice(
        self,
        outline: ViewOutline,
        limit: int | None,
        *,
        replaced: int = 0,
    ) -> list[Unit]:
        """Return the units to forget so that about half of the view's limit is left, oldest first.

        What the agent did goes first. If that frees too little, users' requests go with their
        answers, then the other messages of users. If these free too little, protected units that
        give way go too, no more of them than the limit asks for.

        Args:
            replaced: Number of entries that come in the place of the units.

        Raises:
            NoCondensationError: If they free too little.
        """
        whole = Size(len(outline.events), sum(outline.sizes))
        limits = self.limits(limit)
        within = limits._replace(tokens=limits.tokens * _WITH_RESERVE)
        half = self._half(whole, limits)
        left = whole._replace(entries=whole.entries + replaced)
        chosen: list[Unit] = []
        for units, goal in (
            (outline.steps, half),
            (outline.users, half),
            ([unit for _, unit in outline.giving_way()], within),
        ):
            if left.fits(within) and self._is_enough(whole, left, limits, replaced):
                break
            for unit in units:
                if left.fits(goal):
                    break
                chosen.append(unit)
                left = Size(left.entries - len(unit), left.tokens - outline.tokens_of(unit))
        if self._is_enough(whole, left, limits, replaced):
            return chosen
        raise NoCondensationError(
            f"of {whole.entries} entries {sum(map(len, chosen))} may be left out, which is too "
            f"little; raise the limits of {type(self).__name__}, or shorten the protected "
            "entries"
        )

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
            metadata={
                **noted,
                "condenser": type(self).__name__,
                "entries": len(outline.events),
                "tokens": outline.tokens,
            },
        )

    def limits(self, limit: int | None) -> Size:
        """Return the most entries and tokens of a view."""
        entries = math.inf if self.max_size is None else self.max_size
        tokens = [most for most in (self.max_tokens, limit) if most is not None]
        return Size(entries, min(tokens, default=math.inf))

    @staticmethod
    def _half(whole: Size, limits: Size) -> Size:
        """Return the size to which a view is brought: half of each limit that it exceeds."""
        if whole.fits(limits):
            # Half of a view of two or three would be one entry: too little for a record.
            entries = whole.entries - whole.entries // 2 if whole.entries >= 4 else math.inf
            return Size(entries, math.inf)
        halves = []
        for has, most in zip(whole, limits, strict=True):
            halves.append(most // 2 if has > most else math.inf)
        return Size(*halves)

    @staticmethod
    def _is_enough(
        whole: Size,
        left: Size,
        limits: Size,
        replaced: int,
    ) -> bool:
        """Return whether a view that is brought to a size is worth a record.

        A summary is at most half as long as what it stands for.
        """
        if whole.tokens <= limits.tokens or whole.entries > limits.entries:
            freed = whole.entries - left.entries
            return freed > 0 and freed * _LEAST_PROGRESS >= whole.entries
        freed = whole.tokens - left.tokens
        return freed * _LEAST_PROGRESS >= whole.tokens * (1 + replaced)

    def _check_protected(self, outline: ViewOutline, most: float) -> None:
        needed = sum(outline.sizes[place] for place in outline.kept_within(outline.sizes, 0))
        if needed > most:
            raise NoCondensationError(
                f"the protected entries take {needed} of {most} tokens; raise the "
                f"limits of {type(self).__name__}, or shorten it"
            )


class LLMSummarizingCondenser(RollingCondenser):
    """Puts one summary in the place of the entries that it forgets, earlier summaries among them.

    A user's request is summarised with its answer, once the agent's other entries free too little.
    The summary has the lowest trust among its sources. If the model fails, the summary is an
    outline of the entries. The record's metadata says so under "fallback", and the next summary
    takes the outline in. A view within its tokens waits for the model until it has twice `max_size`
    entries.

    Args:
        llm: A model, a Summarizer with limits of its own, or None for outlines alone.
        max_size: As of a RollingCondenser, and so are the others.
    """

    def __init__(
        self,
        llm: LLMClient | Summarizer | None,
        *,
        max_size: int | None = 100,
        max_tokens: int | None = None,
        counter: AnyCounter = None,
        format: str | Format = "openai",
    ) -> None:
        super().__init__(max_size=max_size, max_tokens=max_tokens, counter=counter, format=format)
        self._summarizer = (
            llm
            if isinstance(llm, Summarizer)
            else Summarizer(llm, counter=self._counter, format=self._format)
        )

    async def get_condensation(self, outline: ViewOutline, limit: int | None) -> Condensation:
        """Return the record that forgets, with a summary. Raises NoCondensationError."""
        units = self.choice(outline, limit, replaced=1)
        messages = [outline.events[place].message for place in places_in(units)]
        earlier = messages.pop(0) if messages[0].role == "summary" else None
        # At most half as long as what it stands for, and half of the limit, with a least size.
        limits = self.limits(limit)
        room = min(sum(map(outline.tokens_of, units)), limits.tokens)
        most = max(_MIN_SUMMARY_TOKENS, int(room // 2))
        is_small = len(outline.events) <= 2 * limits.entries
        waits = is_small and sum(outline.sizes) <= limits.tokens
        try:
            made = await self._summarizer.summarize(
                messages, earlier=earlier, most=most, fallback=not waits
            )
        except SummaryError as error:
            raise NoCondensationError(
                f"{len(messages)} entries are to be summarised, and no summary was made: {error}"
            ) from error
        return self.record(outline, units, summary=made.text, fallback=fallback_reason(made.text))
