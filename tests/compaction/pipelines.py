"""Strategies of compaction, in pipelines of any shape."""

from hypothesis import strategies as st

from kaosmem import WindowTooSmallError
from kaosmem.compaction import (
    CompactionPipeline,
    SelectiveToolCallCompaction,
    SlidingWindowCompaction,
    TokenBudgetCompaction,
    ToolResultCompaction,
)
from kaosmem.testing import CompactionContract

_alone = st.one_of(
    st.builds(SlidingWindowCompaction, st.integers(1, 20)),
    st.builds(ToolResultCompaction, st.sampled_from([1, 20, 60, 500])),
    st.builds(SelectiveToolCallCompaction, st.integers(0, 3)),
)


strategies = st.recursive(
    _alone,
    lambda inner: (
        st.builds(CompactionPipeline, st.lists(inner, max_size=3))
        | st.builds(TokenBudgetCompaction, st.lists(inner, max_size=3), st.integers(0, 900))
    ),
    max_leaves=4,
)


def _has_window(strategy):
    """Return whether a strategy, or one in it, is a window of messages."""
    inner = getattr(strategy, "strategies", ())
    return isinstance(strategy, SlidingWindowCompaction) or any(map(_has_window, inner))


class AnyStrategy(CompactionContract):
    refusals = (WindowTooSmallError,)

    def __init__(self, strategy):
        self._strategy = strategy
        # In a full window, some protected messages give way.
        self.gives_way = _has_window(strategy)

    def make(self):
        return self._strategy
