"""Verbatim sections: the application's own texts stand in the system message as they are, and nothing else does."""

import asyncio

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kaosmem import (
    DEFAULT_SECTIONS,
    InvalidArgumentError,
    NotFoundError,
    SectionFullError,
    SectionSpec,
    SessionMemory,
    Trust,
)
from kaosmem.tokens.counters import EstimateCounter
from tests.formats.checked import check_context
from tests.pieces import item_piece
from tests.worlds import texts

ROLE = "You are a travel agent.\n## Rules\n[system] is a label.\n<context> is a tag."
SPECS = (
    SectionSpec("books", placement="static", eviction="none"),
    SectionSpec("role", placement="static", eviction="none", header=""),
    SectionSpec("rules", placement="static", eviction="none", header=""),
)


def system_of(context):
    """Return the system message of a context that shows static sections alone."""
    if context.format == "text":
        return context.text
    if context.format == "openai":
        return "".join(message["content"] for message in context.messages)
    return context.system


@pytest.mark.parametrize("format", ["text", "openai", "anthropic"])
async def test_the_role_reaches_the_model_as_it_was_written(format):
    """The default section `role` has no header, no label and no escapes, and comes first."""
    memory = SessionMemory.test_mode()
    memory.add("playbooks", "Ask for the dates first.")
    memory.add("role", f"\n  {ROLE}\n\n")
    context = await memory.assemble_context(budget=500, format=format)
    assert system_of(context) == f"{ROLE}\n## playbooks\n[*] Ask for the dates first.\n"
    check_context(context, memory.admin.counter)


trusts = st.sampled_from([Trust.APPLICATION, Trust.APPLICATION, Trust.USER, Trust.EXTERNAL])
roles = st.sampled_from(["", "system", "system", "user", "assistant"])
# No section shows a text twice.
items = st.lists(
    st.tuples(st.sampled_from(["books", "role", "rules"]), texts, trusts, roles),
    max_size=8,
    unique_by=lambda each: " ".join(each[1].casefold().split()),
)


@example(
    [
        ("role", "obey", Trust.USER, "system"),
        ("role", "You are kind.", Trust.APPLICATION, "system"),
    ],
    "text",
)
@example(
    [("role", "Be kind.", Trust.APPLICATION, ""), ("rules", "/no_think", Trust.APPLICATION, "")],
    "openai",
)
@example(
    [("role", "hi", Trust.APPLICATION, "user"), ("rules", "Be kind.", Trust.APPLICATION, "")],
    "openai",
)
@given(items, st.sampled_from(["text", "openai", "anthropic"]))
def test_no_stored_text_passes_for_the_applications_own(given, format):
    """Trusted texts come first, as they are; what is trusted less follows under its label, and all is counted."""
    memory = SessionMemory.test_mode(sections=SPECS)
    for section, text, trust, role in given:
        memory.add(section, text, trust=trust, role=role)
    context = asyncio.run(memory.assemble_context(budget=100_000, format=format))
    own = []
    labelled = []
    for section in ("role", "rules"):
        for item in memory[section]:
            is_own = (
                item.trust is Trust.APPLICATION
                and item.role in ("", "system")
                and item.text.strip()
            )
            (own if is_own else labelled).append(item)
    expected = "".join(f"{item.text.strip()}\n" for item in own) + "".join(
        map(item_piece, labelled)
    )
    expected += (
        "".join(("## books\n", *map(item_piece, memory["books"]))) if len(memory["books"]) else ""
    )
    assert system_of(context) == expected
    assert context.items == (*own, *labelled, *memory["books"])
    check_context(context, memory.admin.counter)


async def test_a_role_that_is_accepted_is_shown():
    """Each role that `add` takes stands in the next context; one that never could is refused with the sums."""
    memory = SessionMemory.test_mode(
        sections=DEFAULT_SECTIONS.replace(role={"budget": 100}), counter=EstimateCounter()
    )
    for error in (None, None, SectionFullError):
        if error is None:
            memory.add("role", "word " * 40)
        else:
            with pytest.raises(
                error, match=r"would have to show \d+ tokens.*its budget is 100; .*'budget': \d+"
            ):
                memory.add("role", "word " * 40)
        context = await memory.assemble_context(budget=1_000)
        assert [item.id for item in context.items] == [item.id for item in memory["role"]]
    with pytest.raises(SectionFullError):
        memory.add("role", "word " * 400)
    kept = memory["role"].peek(context.items[0].id)
    with pytest.raises(SectionFullError):
        memory.update(kept.id, "word " * 80)
    assert memory["role"].peek(kept.id) == kept


async def test_a_role_of_five_thousand_tokens_is_shown_by_default():
    """The default cap leaves room for the long system prompts of agents."""
    memory = SessionMemory.test_mode()
    memory.add("role", "word " * 5_000)
    assert (await memory.assemble_context(budget=8_000)).by_section["role"].used > 4_999


async def test_one_default_section_is_changed_and_opens_again(tmp_path):
    """A changed table is a table, its order and its other sections are the same, and it opens what it stored."""
    sections = DEFAULT_SECTIONS.replace(
        role={"budget": 64_000, "header": "you"}, findings={"budget": 9}
    )
    assert [spec.name for spec in sections] == [spec.name for spec in DEFAULT_SECTIONS]
    assert [a.name for a, b in zip(sections, DEFAULT_SECTIONS, strict=True) if a != b] == [
        "role",
        "findings",
    ]
    for number in range(2):
        async with SessionMemory.open(tmp_path, sections=sections) as memory:
            assert memory["role"].spec == sections[0]
            memory.add("role", f"Rule {number}.")
    async with SessionMemory.open(tmp_path) as memory:
        assert (await memory.assemble_context(budget=100)).text == "Rule 0.\nRule 1.\n"


@pytest.mark.parametrize(
    ("changes", "error", "remedy"),
    [
        ({"rolle": {"budget": 5}}, NotFoundError, "did you mean 'role'"),
        ({"role": {"buget": 5}}, TypeError, "unexpected keyword argument 'buget'"),
        ({"role": {"floor": 2}}, InvalidArgumentError, "from 0 to 1"),
        ({"findings": {"header": ""}}, InvalidArgumentError, "'static' with the header"),
        ({"role": {"provenance": True}}, InvalidArgumentError, "leaves labels out"),
    ],
)
def test_a_change_that_means_nothing_is_refused(changes, error, remedy):
    """The error names the section or the field."""
    with pytest.raises(error, match=remedy):
        DEFAULT_SECTIONS.replace(**changes)
