"""A context explained: sums that add up, cutoffs, a legend, colours, and the notebook's difference."""

import re

from hypothesis import given
from hypothesis import strategies as st

from kaosmem import SessionMemory
from kaosmem.assembly.difference import difference

_COLOR = re.compile(r"\x1b\[\d+m")


async def _memory():
    memory = SessionMemory.test_mode()
    memory.add("role", "You are a careful clerk.")
    memory.add_many("documents", [f"Room {n} costs {n} euros." for n in range(100)])
    return memory


async def test_a_report_has_cutoffs_and_a_legend_of_its_reasons():
    memory = await _memory()
    context = await memory.assemble_context("room 17", budget=80)
    report = context.explain()
    lowest = min(each.score for each in context.decisions if each.included and each.score)
    assert re.search(rf"(?m)^documents .* {lowest:.1f}  █", report)
    legend = report[report.index("\nlegend") :]
    shown = [context.decision(item.id) for item in context.items]
    for decision in [*shown, *context.nearest_misses()]:
        assert f"  {decision.reason.value}" in legend
    assert ("\n  by: " in legend) == (" by " in report[: report.index("\nlegend")])
    assert " offered\n" in report


async def test_the_reason_of_a_duplicate_makes_way_for_the_items():
    """In 80 columns the items keep the most room: their reason is cut first."""
    memory = SessionMemory.test_mode()
    text = "The customer wants to leave by March, and the landlord knows of it."
    for number in (1, 2):
        metadata = {"source": f"letter-{number}.txt"}
        memory.add("findings", text + " " * number, metadata=metadata)
    report = (await memory.assemble_context("Who wants to leave?", budget=200)).explain()
    (row,) = re.findall(r"(?m)^findings .* duplicate of .*…$", report)
    assert len(row) <= 80
    assert "letter-1.txt The customer" in row


async def test_colours_change_nothing_but_colours():
    context = await (await _memory()).assemble_context("room 17", budget=80)
    colored = context.explain(color=True)
    assert "\x1b[32m" in colored
    assert _COLOR.sub("", colored) == context.explain()


async def test_a_notebook_shows_the_difference_from_the_turn_before():
    """The first turn has none; the next one names what came, went and was replaced."""
    memory = await _memory()
    memory.add("findings", "The guest wants the north.", key="wish")
    first = await memory.assemble_context("room 17", budget=80)
    assert "since the turn before" not in first._repr_html_()
    memory.add("findings", "The guest wants the south.", key="wish")
    second = await memory.assemble_context("room 18", budget=80)
    page = second._repr_html_()
    assert "since the turn before: 1 in, 1 out, 1 replaced" in page
    text = r"Room 18 costs 18 euros\."
    assert re.search(rf"<summary[^>]*>documents +{text}.*</summary><pre[^>]*>{text}</pre>", page)
    assert first.before is None
    assert second.before == first.items


@given(st.permutations(range(8)), st.integers(0, 8), st.integers(0, 8))
def test_a_difference_accounts_for_every_item(order, left, new):
    """Each item of both turns is in exactly one group, and without a reordering none moved."""
    memory = SessionMemory.test_mode()
    items = memory.add_many("findings", [f"Fact {n}." for n in range(16)])
    before = items[:8]
    after = [items[at] for at in order if at >= left] + items[8 : 8 + new]
    found = difference(before, after)
    assert found.items("in") == items[8 : 8 + new]
    assert found.items("out") == items[:left]
    moved = found.items("moved")
    stayed = [item for item in after if item in items[left:8] and item not in moved]
    assert stayed == sorted(stayed, key=items.index)
    assert len(found.changes) == new + left + len(moved)
    assert difference(before, before[left:]).items("moved") == []


def test_an_item_with_a_new_text_was_replaced():
    """An update keeps the id."""
    memory = SessionMemory.test_mode()
    before = memory.add_many("findings", ["Room 17.", "Room 18."])
    newer = memory.update(before[0].id, "Room 19.")
    found = difference(before, [newer, before[1]])
    assert found.changes == (("replaced", before[0]), ("replacing", newer))
    assert str(found) == "1 replaced"
