"""What shortens conversations: messages in, a shorter list out, one strategy a file."""

from kaosmem.compaction.outline import MessageSizes, Outline
from kaosmem.compaction.pipeline import CompactionPipeline
from kaosmem.compaction.strategy import CompactionStrategy
from kaosmem.compaction.summarizer import SUMMARY_TEMPLATE, Summarizer

__all__ = ["SUMMARY_TEMPLATE", "CompactionPipeline", "CompactionStrategy", "MessageSizes", "Outline", "Summarizer"]
