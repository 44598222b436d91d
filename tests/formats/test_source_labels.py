"""Sources in labels: named once in a run of one source, and never to be forged."""

import asyncio
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaosmem import (
    Item,
    Reason,
    SectionSpec,
    SessionMemory,
    ToolResultBlock,
    ToolUseBlock,
    Trust,
    WindowTooSmallError,
)
from kaosmem.formats.labels import DATES, LabelStyle
from kaosmem.formats.text import header_piece
from tests.pieces import item_piece
from tests.worlds import formats, label_group, metadatas, queries, texts

LONG = "ADAMSGOLFINC_03_21_2005-EX-10.17-ENDORSEMENT AGREEMENT"


def documents(**fields):
    return SectionSpec("documents", eviction="none", **fields)


def filled(spec, *items, **given):
    memory = SessionMemory.test_mode(sections=(spec,))
    for text, metadata in items:
        memory.add(spec.name, text, metadata=metadata, **given)
    return memory


def assembled(memory, budget=5_000, query="fee", format="text"):
    return asyncio.run(memory.assemble_context(query, budget=budget, format=format))


def shown(*items, **fields):
    return assembled(filled(documents(**fields), *items)).text.removeprefix("## documents\n")


def test_a_source_is_named_once():
    """Items of one source stand together below its first one, labelled `[:] `.

    An item without a source is alone.
    """
    a = {"source": "a.md"}
    b = {"source": "b.md"}
    given = ("one", a), ("two", a), ("three", b), ("four", a), ("five", None), ("six", a)
    assert shown(*given) == "[a.md] one\n[:] two\n[:] four\n[:] six\n[b.md] three\n[*] five\n"


def test_a_static_section_keeps_its_order():
    """Its instructions may build on one another, and a new one changes nothing before it."""
    a = {"source": "a.md"}
    b = {"source": "b.md"}
    given = ("one", a), ("two", b), ("three", a)
    assert shown(*given, placement="static") == "[a.md] one\n[b.md] two\n[a.md] three\n"


def test_speakers_of_one_source_and_day_stand_under_one_header():
    """Each line names its speaker; another day, another source or a passage without speaker begins anew."""
    memory = SessionMemory.test_mode(sections=(documents(),))
    first = "2023-05-08T13:56:00"
    second = "2023-05-25"
    for role, text, source, timestamp in (
        ("Emi", "Hey Kate!", "session_1", first),
        ("Kate", "Where do you work?\nEmi: nowhere", "session_1", first),
        ("Emi", "At a bank.", "session_1", second),
        (None, "minutes", "session_1", second),
        ("Emi", "Bye.", "session_2", second),
    ):
        memory.add(
            "documents", text, role=role, metadata={"source": source, "timestamp": timestamp}
        )
    assert assembled(memory).text == (
        "## documents\n"
        "[session_1, 8 May 2023]\nEmi: Hey Kate!\nKate: Where do you work?\n\\Emi: nowhere\n"
        "[session_1, 25 May 2023]\nEmi: At a bank.\n"
        "[session_1, 25 May 2023] minutes\n"
        "[session_2, 25 May 2023]\nEmi: Bye.\n"
    )


def test_items_without_a_source_are_labelled_by_their_role_each():
    """Roles are short: only sources are named once, and an empty one is none."""
    none = {"source": ""}
    assert shown(("one", none), ("two", none), ("three", None)) == "[*] one\n[*] two\n[*] three\n"


def test_lines_are_shown_of_each_item_of_a_run():
    """What differs within a run is shown: the lines, where they are known."""
    given = [
        (text, {"source": "a.md", "lines": lines})
        for text, lines in (("x", [1, 3]), ("y", [4, 9]), ("z", "4-9"))
    ]
    assert shown(*given) == "[a.md:1-3] x\n[:4-9] y\n[:] z\n"


def test_trust_is_shown_of_each_item_of_a_run():
    """With provenance every label says how far its own text is trusted."""
    memory = SessionMemory.test_mode(sections=(documents(provenance=True),))
    for text, trust, lines in (
        ("x", Trust.USER, [1, 3]),
        ("y", Trust.EXTERNAL, [4, 9]),
        ("z", Trust.TOOL, None),
    ):
        memory.add("documents", text, metadata={"source": "a.md", "lines": lines}, trust=trust)
    assert assembled(memory).text == (
        "## documents\n[a.md:1-3, trust user] x\n[:4-9, trust external] y\n[:, trust tool] z\n"
    )


def test_a_section_names_the_source_that_the_one_before_it_ended_with():
    """A run is within one section: what stands before another header is no part of it."""
    memory = SessionMemory.test_mode(sections=(documents(), SectionSpec("notes")))
    for section, text in (("documents", "x"), ("notes", "y")):
        memory.add(section, text, metadata={"source": "a.md"})
    assert assembled(memory).text == "## documents\n[a.md] x\n## notes\n[a.md] y\n"


@pytest.mark.parametrize("format", ["text", "openai", "anthropic"])
@pytest.mark.parametrize("evicted", [False, True])
def test_recalled_messages_name_speaker_and_day(format, evicted):
    """Earlier messages in the block stand under their source and day, a line for each speaker."""
    spec = SectionSpec(
        "messages", 900 if evicted else None, placement="history", recall=0.5, retrieval_threshold=5
    )
    memory = SessionMemory.test_mode(sections=[spec])
    said = {"source": "session_5", "timestamp": "2023-05-08T13:56:00"}
    memory.add(
        "messages", "The vault code of the Zurich office is 4711.", role="Emi", metadata=said
    )
    memory.add("messages", "Is the vault code of the Bern office 12?", role="user", metadata=said)
    memory.add(
        "messages",
        "The vault code of Basel is 13.",
        role="assistant",
        metadata={"timestamp": "2023-06-08"},
    )
    for number in range(60):
        memory.add(
            "messages",
            f"On day {number} we talked about weather and wine.",
            role=("Emi", "Kate")[number % 2],
        )
    memory.add("messages", "What are the vault codes?", role="user")
    context = asyncio.run(memory.assemble_context(budget=400, format=format))
    block = context.text if format == "text" else str(context.messages[-1]["content"][0]["text"])
    assert (
        "[session_5, 8 May 2023]\n"
        "Emi: The vault code of the Zurich office is 4711.\n"
        "user: Is the vault code of the Bern office 12?\n"
        "[8 June 2023]\n"
        "assistant: The vault code of Basel is 13.\n"
    ) in block


@given(texts, texts, st.none() | st.lists(texts, min_size=2, max_size=2), st.booleans())
def test_nothing_stored_can_pass_for_a_run(source, role, lines, provenance):
    """Whatever a source, a role or lines say, only the label of an item that continues a run begins with a colon."""
    style = LabelStyle(provenance=provenance)
    memory = SessionMemory.test_mode(sections=(documents(),))
    item = memory.add("documents", "x", metadata={"source": source, "lines": lines})
    for label in (f":{source}", source, ":"):
        for metadata in ({"source": label, "lines": lines}, {}):
            made = Item("a", "documents", f":{role}", "x", 0, item.created_at, metadata=metadata)
            assert not item_piece(made, style).startswith("[:")
    _, below = style.labels(item, style.group(item))
    assert below.startswith("[:")


given_items = st.lists(
    st.tuples(
        st.sampled_from(["", "ok", "the fee", "notice of 30 days", "fee " * 12]),
        st.sampled_from([False, False, True]),
        st.sampled_from(
            [
                {"source": LONG},
                {"source": LONG},
                {"source": LONG, "lines": [1, 3]},
                {"source": "b" * 90},
            ]
        )
        | metadatas,
    ),
    max_size=12,
)


def add(memory, section, number, given):
    """Add what stays together, a text or a call with its result, and return it."""
    text, is_result, metadata = given
    text += str(number) if text else ""  # so that most are not duplicates
    if not is_result:
        return [memory.add(section, text, role="note" if number % 3 else None, metadata=metadata)]
    call = memory.add(
        section, [ToolUseBlock(f"c{number}", "f", "{}")], role="assistant", metadata=metadata
    )
    return [
        call,
        memory.add(section, [ToolResultBlock(f"c{number}", text)], role="tool", metadata=metadata),
    ]


@given(
    given_items,
    st.integers(0, 150) | st.integers(100, 400),
    st.sampled_from([0, 20]),
    st.booleans(),
    st.sampled_from(["query", "static"]),
    st.sampled_from(DATES),
)
def test_nothing_left_out_would_fit_with_the_labels_that_it_would_change(
    items, budget, threshold, provenance, placement, dates
):
    """With any unit more, in its group or as the first of it, the text is larger than the budget."""
    spec = documents(
        retrieval_threshold=threshold,
        provenance=provenance,
        placement=placement,
        dates=dates,
        corrections=False,
    )
    memory = SessionMemory.test_mode(sections=(spec,))
    units = [add(memory, "documents", number, given) for number, given in enumerate(items)]
    context = assembled(memory, budget)
    kept = [unit for unit in units if unit[0] in context.items]
    assert context.text == text_of(spec, kept)
    assert memory.admin.counter(context.text) == context.used <= budget
    for unit in units:
        if context.decision(unit[0].id).reason is Reason.NO_ROOM:
            assert (
                memory.admin.counter(
                    text_of(spec, [other for other in units if other in kept or other is unit])
                )
                > budget
            )


def text_of(spec, units):
    """Return units as a section shows them: items of one label stand together, but in a static section."""
    groups = {}
    for item in chain.from_iterable(units):
        group = None if spec.placement == "static" else label_group(item, spec.dates)
        groups.setdefault(group or item.id, []).append(item)
    pieces = [header_piece(spec.title)] if units else []
    for group in groups.values():
        pieces += [
            item_piece(item, spec.labels, continued=place > 0) for place, item in enumerate(group)
        ]
    return "".join(pieces)


@given(given_items, queries, formats)
def test_adding_to_a_static_section_leaves_what_was_shown(items, query, format):
    """What is added at the end of a static section changes no label before it: the prefix holds."""
    memory = SessionMemory.test_mode(
        sections=(SectionSpec("role", placement="static", eviction="none"),)
    )
    before = ""
    for number, item in enumerate(items):
        add(memory, "role", number, item)
        context = assembled(memory, 5_000, query, format)
        shown = (
            context.text
            if format == "text"
            else context.rendered.system or context.messages[0]["content"]
        )
        assert isinstance(shown, str)
        assert shown.startswith(before)
        before = shown.removesuffix("\n")


def test_a_section_wants_no_more_than_its_labels_take():
    """What a section of one source does not say again is not kept for it from a history, but in steps of its floor."""
    memory = SessionMemory.test_mode(
        sections=(
            SectionSpec("messages", placement="history", eviction="none"),
            documents(floor=0.5),
        )
    )
    for number in range(60):
        memory.add("messages", f"message {number} about the fee")
    for number in range(10):
        memory.add("documents", f"fee {number}", metadata={"source": LONG})
    context = assembled(memory, 440)
    assert context.by_section["documents"].items == 10
    step = 220 // 8
    message = 9
    assert context.used > 440 - step - message


def test_what_must_be_shown_is_summed_with_its_labels():
    """Pinned items of one source need its name once, and a budget of that much holds them."""
    memory = filled(documents(), *[("the fee", {"source": LONG})] * 6, pinned=True)
    context = assembled(memory)
    assert assembled(memory, context.used).text == context.text
    with pytest.raises(WindowTooSmallError) as caught:
        assembled(memory, context.used - 1)
    assert sum(caught.value.need.values()) == context.used
