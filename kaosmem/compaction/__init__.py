"""Ways to shorten a list of messages: strategies, summaries, and the parts of a history that they keep."""

from kaosmem.compaction.fallback import fallback_reason
from kaosmem.compaction.outline import MessageSizes, Outline
from kaosmem.compaction.strategies import (
    CompactionPipeline,
    CompactionStrategy,
    SelectiveToolCallCompactionStrategy,
    SlidingWindowCompaction,
    TokenBudgetComposedStrategy,
    ToolResultCompactionStrategy,
    TruncationStrategy,
)
from kaosmem.compaction.summarization import SummarizationCompaction
from kaosmem.compaction.summarizer import SUMMARY_TEMPLATE, Summarizer
from kaosmem.rules import RULE_CUES

__all__ = [
    "RULE_CUES",
    "SUMMARY_TEMPLATE",
    "CompactionPipeline",
    "CompactionStrategy",
    "MessageSizes",
    "Outline",
    "SelectiveToolCallCompactionStrategy",
    "SlidingWindowCompaction",
    "SummarizationCompaction",
    "Summarizer",
    "TokenBudgetComposedStrategy",
    "ToolResultCompactionStrategy",
    "TruncationStrategy",
    "fallback_reason",
]
