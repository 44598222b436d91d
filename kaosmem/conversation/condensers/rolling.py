"""Condensers that shorten a conversation now and then, and far, when it has grown too large."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum

from kaosmem.arguments import check_count
from kaosmem.compaction import MessageSizes
from kaosmem.conversation.condensation import Condensation
from kaosmem.conversation.condensers.condenser import Condenser
from kaosmem.conversation.condensers.outline import Outline, Standing, Unit
from kaosmem.conversation.view import View
from kaosmem.errors import InvalidArgumentError, NoCondensationError
from kaosmem.names import shown_name
from kaosmem.tokens import TokenCounter


class Reason(StrEnum):
    """Why a view has to be condensed."""

    SIZE = "size"
    TOKENS = "tokens"
    REQUEST = "request"


class Need(Enum):
    """Whether a view has to be condensed: not, if it can be, or before anything else can go on."""

    NONE = "none"
    SOFT = "soft"
    HARD = "hard"

    @classmethod
    def of(cls, reasons: frozenset[Reason]) -> Need:
        """Return the need that reasons make: size alone can wait."""
        if not reasons:
            return cls.NONE
        return cls.SOFT if reasons == {Reason.SIZE} else cls.HARD


@dataclass(frozen=True, slots=True)
class RollingConfig:
    """When a view is condensed, and to what.

    max_size: entries above which it is condensed, to half of them. max_tokens: likewise, None for no limit.
    keep_first: entries at its start that stay, beside those that always do. minimum_progress: the share of the view
    that a condensation frees at least, above 0 and below 1.
    Raises InvalidArgumentError, also where `keep_first` leaves no room for a summary and one entry more.
    """

    max_size: int = 100
    keep_first: int = 0
    max_tokens: int | None = None
    minimum_progress: float = 0.1

    def __post_init__(self) -> None:
        check_count(self.max_size, "max_size", least=1)
        check_count(self.keep_first, "keep_first")
        if self.max_tokens is not None:
            check_count(self.max_tokens, "max_tokens", least=1)
        if self.max_size // 2 - self.keep_first < 2:
            raise InvalidArgumentError(
                f"keep_first is {self.keep_first} and half of max_size {self.max_size // 2}, which leaves no room for a "
                f"summary and one entry more; raise max_size to {2 * (self.keep_first + 2)} or keep fewer"
            )
        given = self.minimum_progress
        if not isinstance(given, int | float) or isinstance(given, bool) or not 0 < given < 1:
            raise InvalidArgumentError(
                f"minimum_progress is {shown_name(given)}; give a share of the view, above 0 and below 1"
            )


class RollingCondenser(Condenser):
    """Forgets what is old when the view has grown too large, so much that it need not again for long.

    counter: of tokens; None is the default one.
    """

    def __init__(self, config: RollingConfig, *, counter: TokenCounter | Callable[[str], int] | str | None = None) -> None:
        self.config = config
        self._sizes = MessageSizes(counter)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.config})"

    def outline(self, view: View) -> Outline:
        """Return the units of a view, and what protects them."""
        return Outline(view, sizes=self._sizes)

    def reasons(self, view: View, *, limit: int | None = None) -> frozenset[Reason]:
        """Return why a view has to be condensed: none of them if it need not."""
        limits = [tokens for tokens in (self.config.max_tokens, limit) if tokens is not None]
        reasons = {
            Reason.SIZE: len(view) > self.config.max_size,
            Reason.TOKENS: bool(limits) and self._sizes.total(event.message for event in view) > min(limits),
            Reason.REQUEST: view.unhandled_condensation_request,
        }
        return frozenset(reason for reason, holds in reasons.items() if holds)

    def should_condense(self, view: View, *, limit: int | None = None) -> Need:
        """Return whether a view has to be condensed."""
        return Need.of(self.reasons(view, limit=limit))

    @abstractmethod
    async def get_condensation(self, view: View, *, limit: int | None = None) -> Condensation:
        """Return the record that condenses a view. Raises NoCondensationError where there is none."""
        ...

    async def hard_reset(self, view: View, error: NoCondensationError) -> Condensation:
        """Return the record that leaves as little as can be, where the view has to be condensed and could not be.

        Raises NoCondensationError: this one has no such record.
        """
        raise error

    async def condense(self, view: View, *, limit: int | None = None) -> View | Condensation:
        """Return the view if it need not be condensed, or could wait and can't be; else the record that does it.

        Raises NoCondensationError.
        """
        need = self.should_condense(view, limit=limit)
        if need is Need.NONE:
            return view
        try:
            return await self.get_condensation(view, limit=limit)
        except NoCondensationError as error:
            if need is Need.SOFT:
                return view
            return await self.hard_reset(view, error)

