"""A compaction strategy of your own in one file: it passes its contract, and shortens threads, sections and logs."""

from __future__ import annotations

from collections.abc import Sequence

from kaosmem import ChatMessage, SectionSpec, SessionMemory
from kaosmem.compaction import CompactionStrategy
from kaosmem.compaction.outline import Outline
from kaosmem.context import AgentContext, ContextConfig
from kaosmem.conversation import (
    ActionEvent,
    Condensation,
    Condenser,
    ConversationView,
    EventLog,
    StrategyCondenser,
)
from kaosmem.conversation.outline import ViewOutline
from kaosmem.stores import InMemoryHistoryProvider
from kaosmem.testing import CompactionContract


class EveryOther:
    """Leaves out every second unit of the older half.

    `Outline` gives the units, and names the protected messages.
    """

    async def compact(self, history: Sequence[ChatMessage]) -> list[ChatMessage]:
        outline = Outline(history)
        if outline.tokens <= 200:
            return list(history)
        free = [unit for unit in outline.units if unit[0] not in outline.protected]
        gone = {place for unit in free[: len(free) // 2 : 2] for place in unit}
        return outline.at(place for place in range(len(history)) if place not in gone)


class TestEveryOther(CompactionContract):
    """Run by pytest: all that a host asks of a strategy."""

    settles = False  # it leaves out more each time

    def make(self) -> CompactionStrategy:
        return EveryOther()


SAID = [
    ChatMessage("user", "Please plan our move to the new office."),
    *(
        ChatMessage("assistant", f"Step {number} of the move to the new office is done.")
        for number in range(1, 20)
    ),
]
LEFT = [SAID[place].text for place in (0, 2, 4, 6, 8, *range(10, 20))]


async def test_one_strategy_shortens_a_thread_a_section_and_a_log() -> None:
    """Each of the three hosts shows the same messages."""
    context = AgentContext(ContextConfig(InMemoryHistoryProvider(), EveryOther()), "analyst")
    await context.append(SAID, "room-7")
    assert [message.text for message in await context.get_prompt_window("room-7")] == LEFT

    section = SectionSpec(
        "messages", 200, placement="history", compaction=EveryOther(), eviction="none"
    )
    memory = SessionMemory.test_mode(sections=(section,))
    for message in SAID:
        memory.add("messages", message.text, role=message.role)
    await memory.assemble_context(budget=4_000, format="openai")
    assert [item.text for item in memory["messages"]] == LEFT

    log = EventLog()
    for message in SAID:
        log.append(
            ActionEvent(
                "message", message.text, source="user" if message.role == "user" else "agent"
            )
        )
    view = await StrategyCondenser(EveryOther()).condensed_view(log)
    assert [event.text for event in view] == LEFT


class AtNight(Condenser):
    """Forgets all that may go but the newest, once somebody says good night."""

    async def condense(
        self, view: ConversationView, *, limit: int | None = None
    ) -> ConversationView | Condensation:
        outline = ViewOutline(view)
        free = [unit for unit in outline.units if unit[0] not in outline.protected]
        if not free[1:] or view[-1].text != "good night":
            return view
        return Condensation(outline.ids_of(place for unit in free[:-1] for place in unit))


async def test_a_condenser_of_your_own_says_when_to_condense() -> None:
    log = EventLog()
    for text in ("tea", "soup", "bread", "good night"):
        log.append(ActionEvent("message", text))
    assert [event.text for event in await AtNight().condensed_view(log)] == ["bread", "good night"]
