"""An eviction policy of your own: one `EvictionPolicy`, given to a section.

No other file changes.
"""

from __future__ import annotations

from pathlib import Path

from kaosmem import EvictionPolicy, SectionSpec, SessionMemory

# The key sorts units; the smallest makes room first. A unit's statistics are `first`, `last`,
# `items`, `tokens`, `priority`, `uses`, `last_use` and `pinned`. Set `counts_uses=True` if the key
# looks at uses.
LARGEST = EvictionPolicy("largest", lambda unit: (-unit.tokens,))
NOTES = SectionSpec("notes", 15, eviction=LARGEST)


def test_the_largest_note_makes_room() -> None:
    memory = SessionMemory.test_mode(sections=(NOTES,))
    for text in (
        "short",
        "a much longer note than all of the others in here",
        "brief",
        "one more short note to add",
    ):
        memory.add("notes", text)
    assert [item.text for item in memory["notes"]] == [
        "short",
        "brief",
        "one more short note to add",
    ]


async def test_the_policy_is_given_again_when_the_session_is_opened(tmp_path: Path) -> None:
    async with SessionMemory.open(str(tmp_path), "deal", sections=(NOTES,)) as memory:
        memory.add("notes", "a note of eight tokens, not one more")
        memory.add("notes", "short")
    async with SessionMemory.open(str(tmp_path), "deal", sections=(NOTES,)) as memory:
        memory.add("notes", "one more short note to add")
        assert [item.text for item in memory["notes"]] == ["short", "one more short note to add"]
    # Without its spec, a section is not shown.
    async with SessionMemory.open(str(tmp_path), "deal") as memory:
        assert "'notes'" in memory.notices[0]
