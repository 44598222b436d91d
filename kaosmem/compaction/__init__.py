"""Ways to shorten a list of messages: strategies, summaries, and the parts of a history that they keep."""

from kaosmem.compaction.fallback import fallback_reason
from kaosmem.compaction.outline import MessageSizes, Outline
from kaosmem.compaction.strategies import (
    CompactionPipeline,
    CompactionStrategy,
    SelectiveToolCallCompaction,
    SlidingWindowCompaction,
    TokenBudgetCompaction,
    ToolResultCompaction,
    TruncationCompaction,
)
from kaosmem.compaction.summarization import SummarizationCompaction
from kaosmem.compaction.summarizer import SUMMARY_TEMPLATE, Summarizer
from kaosmem.language.rules import RULE_CUES

__all__ = [
    "RULE_CUES",
    "SUMMARY_TEMPLATE",
    "CompactionPipeline",
    "CompactionStrategy",
    "MessageSizes",
    "Outline",
    "SelectiveToolCallCompaction",
    "SlidingWindowCompaction",
    "SummarizationCompaction",
    "Summarizer",
    "TokenBudgetCompaction",
    "ToolResultCompaction",
    "TruncationCompaction",
    "fallback_reason",
]
