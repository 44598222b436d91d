"""Ways to shorten a list of messages: strategies, summaries, and the parts of a history that they keep."""

from kaosmem.compaction.strategies import (
    CompactionPipeline,
    CompactionStrategy,
    SelectiveToolCallCompaction,
    SlidingWindowCompaction,
    SummarizationCompaction,
    TokenBudgetCompaction,
    ToolResultCompaction,
)
from kaosmem.compaction.summarizer import Summarizer

__all__ = [
    "CompactionPipeline",
    "CompactionStrategy",
    "SelectiveToolCallCompaction",
    "SlidingWindowCompaction",
    "SummarizationCompaction",
    "Summarizer",
    "TokenBudgetCompaction",
    "ToolResultCompaction",
]
