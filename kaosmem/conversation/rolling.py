"""Condensers that forget half of a view when the view is too large, with and without a summary."""

from __future__ import annotations

import math
from typing import NamedTuple

from kaosmem.arguments import check_count
from kaosmem.clients import LLMClient
from kaosmem.compaction import Summarizer
from kaosmem.compaction.protection import Unit, places_in
from kaosmem.conversation.condensers import Condenser
from kaosmem.conversation.outline import ViewOutline
from kaosmem.conversation.view import Condensation, ConversationView
from kaosmem.errors import NoCondensationError, SummaryError
from kaosmem.formats import Format, get_format
from kaosmem.tokens import get_counter
from kaosmem.tokens.counters import AnyCounter

_LEAST_PROGRESS = 0.1
"""A condensation frees at least this part of a view. Less is not worth a record."""
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
        self.max_size = None
        if max_size is not None:
            self.max_size = check_count(max_size, "max_size", least=4)
        self.max_tokens = None
        if max_tokens is not None:
            self.max_tokens = check_count(max_tokens, "max_tokens", least=1)
        self._counter = get_counter(counter)
        self._format = get_format(format)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(max_size={self.max_size}, max_tokens={self.max_tokens})"

    async def condense(
        self, view: ConversationView, *, limit: int | None = None
    ) -> ConversationView | Condensation:
        """Return the view if it is within its limits, else the record that condenses it.

        A view within its tokens is returned if no record can be made.

        Raises:
            NoCondensationError: If the view has too many tokens and no record can be made.
        """
        tokens = [most for most in (self.max_tokens, limit) if most is not None]
        if self.max_size is None:
            entries = math.inf
        else:
            entries = self.max_size
        limits = Size(entries, min(tokens, default=math.inf))
        used = 0
        if tokens:
            used = sum(event.tokens(self._counter, self._format) for event in view)
        if Size(len(view), used).fits(limits):
            return view
        outline = ViewOutline(view, counter=self._counter, format=self._format)
        try:
            return await self._record(outline, limits)
        except NoCondensationError:
            if used > limits.tokens:
                raise
            return view

    async def _record(self, outline: ViewOutline, limits: Size) -> Condensation:
        """Return the record that condenses a view. Raises NoCondensationError if there is none."""
        return Condensation(outline.ids_of(self._forgotten(outline, limits)))

    def _forgotten(
        self,
        outline: ViewOutline,
        limits: Size,
        *,
        replaced: int = 0,
    ) -> list[int]:
        """Return the positions to forget so that about half of the view's limit is left.

        What the agent did goes first. If that frees too little, users' requests go with their
        answers, then the other messages of users. If these free too little, protected units that
        give way go too, no more of them than the limit asks for.

        Args:
            replaced: Number of entries that come in the place of the forgotten ones. A summary is
                at most half as long as what it stands for.

        Raises:
            NoCondensationError: If they free too little.
        """
        whole = Size(len(outline.events), sum(outline.sizes))
        within = limits._replace(tokens=limits.tokens * _WITH_RESERVE)
        half = Size(math.inf, math.inf)
        if whole.tokens > limits.tokens:
            half = half._replace(tokens=limits.tokens // 2)
            worth = Size(math.inf, whole.tokens * (1 - (1 + replaced) * _LEAST_PROGRESS))
        if whole.entries > limits.entries:
            half = half._replace(entries=limits.entries // 2)
            worth = Size(whole.entries * (1 - _LEAST_PROGRESS), math.inf)
        left = whole._replace(entries=whole.entries + replaced)
        chosen: list[Unit] = []
        for units, goal in (
            (outline.steps, half),
            (outline.users, half),
            ([unit for _, unit in outline.giving_way()], within),
        ):
            if left.fits(within) and left.fits(worth):
                break
            for unit in units:
                if left.fits(goal):
                    break
                chosen.append(unit)
                tokens = sum(outline.sizes[place] for place in unit)
                left = Size(left.entries - len(unit), left.tokens - tokens)
        if left.tokens > limits.tokens or not left.fits(worth):
            raise NoCondensationError(
                f"the protected entries take {left.tokens} of {limits.tokens} tokens, and "
                f"{left.entries} of {limits.entries} entries; raise the limits of "
                f"{type(self).__name__}, or shorten them"
            )
        return places_in(chosen)


class LLMSummarizingCondenser(RollingCondenser):
    """Puts one summary in the place of the entries that it forgets, earlier summaries among them.

    A user's request is summarised with its answer, once the agent's other entries free too little.
    The summary has the lowest trust among its sources. If the model fails, the summary is an
    outline of the entries (`fallback_reason` tells it), and the next summary takes the outline in.

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
        if isinstance(llm, Summarizer):
            self._summarizer = llm
        else:
            self._summarizer = Summarizer(llm, counter=self._counter, format=self._format)

    async def _record(self, outline: ViewOutline, limits: Size) -> Condensation:
        """Return the record that forgets, with a summary. Raises NoCondensationError."""
        forgotten = self._forgotten(outline, limits, replaced=1)
        messages = [outline.events[place].message for place in forgotten]
        # At most half as long as what it stands for, and half of the limit, with a least size.
        room = min(sum(outline.sizes[place] for place in forgotten), limits.tokens)
        most = max(_MIN_SUMMARY_TOKENS, int(room // 2))
        try:
            made = await self._summarizer.summarize(messages, most=most)
        except SummaryError as error:
            raise NoCondensationError(
                f"{len(messages)} entries are to be summarised, and no summary was made: {error}"
            ) from error
        return Condensation(outline.ids_of(forgotten), made.text)
