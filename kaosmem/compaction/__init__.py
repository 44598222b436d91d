"""Strategies that shorten a list of messages, one file each."""

from kaosmem.compaction.fallback import fallback_reason
from kaosmem.compaction.outline import MessageSizes, Outline
from kaosmem.compaction.pipeline import CompactionPipeline
from kaosmem.compaction.sliding_window import SlidingWindowCompaction
from kaosmem.compaction.strategy import CompactionStrategy
from kaosmem.compaction.summarization import SummarizationCompaction
from kaosmem.compaction.summarizer import SUMMARY_TEMPLATE, Summarizer
from kaosmem.compaction.token_budget import TokenBudgetComposedStrategy
from kaosmem.compaction.tool_calls import SelectiveToolCallCompactionStrategy
from kaosmem.compaction.tool_results import ToolResultCompactionStrategy
from kaosmem.compaction.truncation import TruncationStrategy
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
