"""Strategies that shorten a list of messages, summaries, and the parts of a history that stay."""

from kaosmem.compaction.model_requests import ModelRequests
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
    "ModelRequests",
    "SelectiveToolCallCompaction",
    "SlidingWindowCompaction",
    "SummarizationCompaction",
    "Summarizer",
    "TokenBudgetCompaction",
    "ToolResultCompaction",
]
