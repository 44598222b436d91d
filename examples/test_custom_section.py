"""A section with its own budget and priority, and the policy that keeps its most important items."""

from __future__ import annotations

from kaosmem import DEFAULT_SECTIONS, SectionFullError, SectionSpec, SessionMemory

HYPOTHESES = SectionSpec(
    "hypotheses", 45, priority=75, floor=0.2, eviction="priority", header="working hypotheses"
)


async def test_a_section_keeps_its_most_important_items() -> None:
    memory = SessionMemory.test_mode(sections=(*DEFAULT_SECTIONS, HYPOTHESES))
    refused = 0
    for number in range(12):
        try:
            memory.add(
                "hypotheses",
                f"hypothesis {number}: the fee was waived in year {number}",
                priority=number % 4,
            )
        except SectionFullError:  # everything held is more important
            refused += 1
    kept = [item.priority for item in memory["hypotheses"]]
    assert memory["hypotheses"].used <= 45
    assert min(kept) == 3
    assert len(memory["hypotheses"]) + len(memory["hypotheses"].archive) + refused == 12

    memory.add("messages", "Was the fee waived?")
    context = await memory.assemble_context(budget=300)
    assert "## working hypotheses\n" in context.text
    assert context.by_section["hypotheses"].used <= 45
