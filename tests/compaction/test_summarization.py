"""Summarisation passes the contract of strategies, keeps the newest and leaves one summary for the rest."""

from __future__ import annotations

from collections.abc import Sequence

from kaosmem import ChatMessage, SummarizationCompaction, SummaryError
from kaosmem.testing import ScriptedLLM
from kaosmem.testing.compaction_contract import CompactionContract


def shortened(messages: Sequence[ChatMessage]) -> str:
    """Say very little about whatever is asked, the same of the same."""
    return f"{len(messages[-1].text)} characters were said."


class TestSummarization(CompactionContract):
    refusals = (SummaryError,)

    def make(self) -> SummarizationCompaction:
        return SummarizationCompaction(ScriptedLLM(shortened), 100, 50, max_summary_tokens=80)


class TestSummarizationOfEverythingOld(CompactionContract):
    refusals = (SummaryError,)

    def make(self) -> SummarizationCompaction:
        return SummarizationCompaction(ScriptedLLM(shortened), 0, 0, max_summary_tokens=1_000)
