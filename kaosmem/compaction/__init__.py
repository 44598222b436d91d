"""Ways to shorten a list of messages: strategies, summaries, and the parts of a history that they keep."""

from kaosmem.compaction.fallback import fallback_reason
from kaosmem.compaction.model_requests import STATE_TEMPLATE, ModelRequests
from kaosmem.compaction.outline import MessageSizes, Outline
from kaosmem.compaction.strategies import (
    CompactionPipeline,
    CompactionStrategy,
    SelectiveToolCallCompaction,
    SlidingWindowCompaction,
    SummarizationCompaction,
    TokenBudgetCompaction,
    ToolResultCompaction,
    TruncationCompaction,
)
from kaosmem.compaction.summarizer import SUMMARY_TEMPLATE, Summarizer
from kaosmem.language.rules import RULE_CUES

__all__ = [
    "RULE_CUES",
    "STATE_TEMPLATE",
    "SUMMARY_TEMPLATE",
    "CompactionPipeline",
    "CompactionStrategy",
    "MessageSizes",
    "ModelRequests",
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
