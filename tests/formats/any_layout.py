"""The contract of formats, with random layouts beside its own."""

from __future__ import annotations

from typing import ClassVar

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kaosmem import ChatMessage
from kaosmem.formats import HistoryEntry, Mark
from kaosmem.testing import FormatContract
from kaosmem.testing.contracts.format import PIECES
from kaosmem.units import repair
from tests.tool_conversations import conversations

_pieces = st.lists(st.sampled_from(PIECES), max_size=3).map(tuple)
_messages = st.builds(
    ChatMessage, st.sampled_from(["user", "assistant", "critic"]), st.text(max_size=20)
)
_entries = st.one_of(
    conversations().map(repair).map(list),
    st.lists(_messages | st.builds(Mark, st.integers(1, 5_000)), max_size=5),
)


class AnyLayout(FormatContract):
    """The contract, for random layouts.

    Attributes:
        examples: Number of layouts that are tried.
    """

    examples: ClassVar[int] = 20

    def test_its_parts_add_up_in_any_layout(self):
        @settings(
            max_examples=self.examples, deadline=None, suppress_health_check=list(HealthCheck)
        )
        @given(_entries, _pieces, _pieces)
        def check(
            entries: list[HistoryEntry], static: tuple[str, ...], block: tuple[str, ...]
        ) -> None:
            self.check_sum(entries, static, block)

        check()
