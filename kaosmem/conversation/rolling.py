"""Condensers that forget half of a view when the view is too large, with and without a summary."""

from __future__ import annotations

from collections.abc import Sequence

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
_RESERVE = 10
"""One in so many tokens of a limit is left, so that the next entry does not exceed it."""


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
        limits = [most for most in (self.max_tokens, limit) if most is not None]
        used = 0
        if limits:
            used = sum(event.tokens(self._counter, self._format) for event in view)
        outline = ViewOutline(view, counter=self._counter, format=self._format)
        if used > min(limits, default=0):
            return await self._record(outline, outline.sizes, min(limits))
        if self.max_size is None or len(view) <= self.max_size:
            return view
        try:
            return await self._record(outline, [1] * len(view), self.max_size)
        except NoCondensationError:
            return view

    async def _record(
        self,
        outline: ViewOutline,
        weights: Sequence[int],
        most: int,
    ) -> Condensation:
        """Return the record that condenses a view.

        Args:
            weights: The measure that exceeds its limit: the tokens of each entry, or 1 for each.
            most: The limit.

        Raises:
            NoCondensationError: If there is none.
        """
        return Condensation(outline.ids_of(self._forgotten(outline, weights, most)))

    def _forgotten(
        self,
        outline: ViewOutline,
        weights: Sequence[int],
        most: int,
        *,
        replaced: int = 0,
    ) -> list[int]:
        """Return the positions to forget so that about half of the limit is left.

        What the agent did goes first. If that frees too little, users' requests go with their
        answers, then the other messages of users. If these free too little, protected units that
        give way go too, no more of them than the limit asks for.

        Args:
            replaced: The entries that come in the place of the forgotten ones. The tokens of a
                summary are at most half of theirs.

        Raises:
            NoCondensationError: If they free too little.
        """
        whole = sum(weights)
        worth = whole * (1 - _LEAST_PROGRESS)
        enough = min(most - most // _RESERVE, worth)
        left = whole + replaced
        chosen: list[Unit] = []
        for units, goal in (
            (outline.steps, most // 2),
            (outline.users, most // 2),
            ([unit for _, unit in outline.giving_way()], enough),
        ):
            if left <= enough:
                break
            for unit in units:
                if left <= goal:
                    break
                chosen.append(unit)
                left -= sum(weights[place] for place in unit)
        if left > min(most, worth):
            raise NoCondensationError(
                f"the protected entries take {left} of {most} tokens or entries; raise the limits "
                f"of {type(self).__name__}, or shorten them"
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

    async def _record(
        self,
        outline: ViewOutline,
        weights: Sequence[int],
        most: int,
    ) -> Condensation:
        """Return the record that forgets, with a summary. Raises NoCondensationError."""
        in_tokens = weights is outline.sizes
        forgotten = self._forgotten(outline, weights, most, replaced=0 if in_tokens else 1)
        messages = [outline.events[place].message for place in forgotten]
        # At most half as long as what it stands for, and half of the limit, with a least size.
        room = sum(outline.sizes[place] for place in forgotten)
        if in_tokens:
            room = min(room, most)
        limit = max(_MIN_SUMMARY_TOKENS, room // 2)
        try:
            made = await self._summarizer.summarize(messages, most=limit)
        except SummaryError as error:
            raise NoCondensationError(
                f"{len(messages)} entries are to be summarised, and no summary was made: {error}"
            ) from error
        return Condensation(outline.ids_of(forgotten), made.text)
