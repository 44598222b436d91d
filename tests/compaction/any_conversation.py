"""The contract of strategies, with random conversations beside its own."""

from __future__ import annotations

from typing import ClassVar

from hypothesis import HealthCheck, given, settings

from kaosmem.testing import CompactionContract
from tests.tool_conversations import conversations


class AnyConversation(CompactionContract):
    """The contract, for random conversations.

    Attributes:
        examples: Number of conversations that are tried.
    """

    examples: ClassVar[int] = 40

    def test_what_is_promised_holds_in_any_conversation(self):
        @settings(
            max_examples=self.examples,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        )
        @given(conversations())
        def holds(history):
            self.check(history)

        holds()
