"""What shortens conversations: messages in, a shorter list out, one strategy a file."""

from kaosmem.compaction.outline import MessageSizes, Outline
from kaosmem.compaction.pipeline import CompactionPipeline
from kaosmem.compaction.strategy import CompactionStrategy

__all__ = ["CompactionPipeline", "CompactionStrategy", "MessageSizes", "Outline"]
