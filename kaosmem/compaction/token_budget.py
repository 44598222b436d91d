"""A strategy that runs others in turn until a history fits a budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from kaosmem.arguments import check_count, check_listed
from kaosmem.compaction.outline import MessageSizes, Outline
from kaosmem.compaction.pipeline import CompactionPipeline
from kaosmem.compaction.strategy import CompactionStrategy
from kaosmem.errors import InvalidArgumentError, WindowTooSmallError
from kaosmem.formats.openai import REPLY_TOKENS
from kaosmem.names import shown_name
from kaosmem.tokens import TokenCounter, context_length, get_counter
from kaosmem.types import ChatMessage


class TokenBudgetComposedStrategy:
    """Runs strategies in turn until the history is within a budget. If none brings it there, it is cut to a tail.

    A strategy that raises is passed over, and the next one gets the history as it was. A history is measured as
    `count_messages` counts it rendered for OpenAI. The tail is the longest that is within the budget with the protected
    messages before it.
    strategies: several, one, or a pipeline, whose strategies are run one by one. counter: None is the default one.
    Raises InvalidArgumentError; `compact` raises WindowTooSmallError, with the sums, where the protected messages alone
    are beyond the budget.
    """

    def __init__(
        self,
        strategies: Iterable[CompactionStrategy] | CompactionStrategy,
        token_budget: int,
        *,
        counter: TokenCounter | Callable[[str], int] | str | None = None,
    ) -> None:
        self.strategies = CompactionPipeline(strategies).strategies
        self.token_budget = check_count(token_budget, "token_budget")
        self._counter = get_counter(counter)

    @classmethod
    def from_model(
        cls,
        name: str,
        strategies: Iterable[CompactionStrategy] | CompactionStrategy,
        trigger_ratio: float = 0.80,
        *,
        counter: TokenCounter | Callable[[str], int] | str | None = None,
    ) -> TokenBudgetComposedStrategy:
        """Return a strategy whose budget is a share of a model's context length. Raises UnknownModelError."""
        is_number = isinstance(trigger_ratio, int | float) and not isinstance(trigger_ratio, bool)
        if not is_number or not 0 < trigger_ratio <= 1:
            raise InvalidArgumentError(
                f"trigger_ratio is {shown_name(trigger_ratio)}; give a share of the model's window, above 0 and up to 1"
            )
        return cls(strategies, int(context_length(name) * trigger_ratio), counter=counter)

    def __repr__(self) -> str:
        return f"TokenBudgetComposedStrategy({list(self.strategies)}, {self.token_budget})"

    async def compact(self, history: Sequence[ChatMessage]) -> list[ChatMessage]:
        """Return the history that the strategies leave, within the budget. Raises WindowTooSmallError."""
        sizes = MessageSizes(self._counter)
        left = check_listed(history, ChatMessage, "messages")
        failure: Exception | None = None
        for strategy in self.strategies:
            if sizes.total(left) <= self.token_budget:
                return left
            try:
                left = await strategy.compact(left)
            except Exception as error:  # whatever a model raises: the next strategy needs none
                failure = error
        outline = Outline(left, sizes=sizes)
        if outline.tokens <= self.token_budget:
            return left
        try:
            kept = outline.tail_within(outline.sizes, self.token_budget, limit="token_budget", frame=REPLY_TOKENS)
        except WindowTooSmallError as error:
            raise error from failure
        return outline.at(kept)
