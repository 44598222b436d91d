"""The contract of formats, with random layouts beside its own."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import ClassVar

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kaosmem import Item
from kaosmem.formats import Mark
from kaosmem.testing import FormatContract
from kaosmem.testing.contracts.format import PIECES
from kaosmem.units import repair
from tests.formats.drawn import MESSAGES
from tests.pieces import item_piece
from tests.tool_conversations import conversations
from tests.worlds import texts

_items = texts.map(
    lambda text: Item("a", "notes", "user", text, 0, datetime(2024, 1, 1, tzinfo=UTC))
)
_pieces = st.lists(st.sampled_from(PIECES) | _items.map(item_piece), max_size=3).map(tuple)
_entries = st.one_of(
    conversations().map(repair).map(list),
    st.lists(MESSAGES | st.builds(Mark, st.integers(1, 5_000)), max_size=5),
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
        def check(entries, static, block):
            self.check_sum(entries, static, block)

        check()
