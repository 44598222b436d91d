"""Versions of a fact: a question about now is shown the current one, a question about the past both, labelled."""

import asyncio
import itertools
import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kaosmem import Reason, SectionSpec, SessionMemory, SessionOptions, WindowTooSmallError
from kaosmem.persistence import log as session_log
from kaosmem.persistence.storage.objects import IsolatedMemoryFileSystem
from kaosmem.sources import FactSource
from kaosmem.stores import InMemoryLongTermMemory
from tests.told import NAMES, World, hour, ops

OLD, NEW = "The user's address is 1 Elm Street.", "The user's address is 9 Oak Avenue."


def moved(others, **old):
    """Return a session in which an address was replaced, among so many other findings."""
    memory = SessionMemory.test_mode()
    memory.add(
        "findings", OLD, key="address", id="old", metadata={"timestamp": "2023-03-01"}, **old
    )
    for number in range(others):
        memory.add(
            "findings",
            f"Note {number}: the {('cat', 'dog', 'car')[number % 3]} is number {number * 7 % 13}.",
        )
    memory.add("findings", NEW, key="address", id="new", metadata={"timestamp": "2024-06-01"})
    return memory


@pytest.mark.parametrize("others", [0, 1, 40])
@pytest.mark.parametrize(
    "query",
    [
        "What was the user's address before?",
        "What was the user's address in May 2024?",
        "What was the user's original address?",
        "Who lived at 1 Elm Street before?",
    ],
)
async def test_a_question_about_the_past_is_shown_both(others, query):
    """The replaced version stands right before the current one, each with the interval in which it held."""
    context = await moved(others).assemble_context(query, budget=200)
    lines = context.text.splitlines()
    at = lines.index(f"[1 March 2023 until 1 June 2024] {OLD}")
    assert lines[at + 1] == f"[since 1 June 2024] {NEW}"
    assert context.decision("old").reason is Reason.RECALLED


@pytest.mark.parametrize("others", [0, 1, 40])
@pytest.mark.parametrize(
    "query", ["What is the user's address?", "Address in July 2024?", "Who lives in Elm Street?"]
)
async def test_a_question_about_now_is_shown_the_current_one(others, query):
    """A replaced version is not recalled, even if its words match best and everything fits."""
    context = await moved(others).assemble_context(query, budget=2_000)
    assert OLD not in context.text
    assert context.decision("old").reason is Reason.ARCHIVED
    if "address" in query.casefold():
        assert f"[1 June 2024] {NEW}" in context.text


async def test_a_version_without_a_timestamp_holds_since_it_was_added():
    """Its label leaves out the begin of a first version, which nobody stated."""
    memory = SessionMemory.test_mode()
    for text in ("Ann owns the deal.", "Bob owns the deal.", "Eve owns the deal."):
        memory.add("findings", text, key="owner")
    context = await memory.assemble_context("Who has ever owned the deal?", budget=200)
    assert context.text == (
        "## findings\n"
        "[until 1 January 2024] Ann owns the deal.\n"
        "[1 January 2024 until 1 January 2024] Bob owns the deal.\n"
        "[since 1 January 2024] Eve owns the deal.\n"
    )
    assert [item.interval is None for item in context.items] == [False, False, False]
    context = await memory.assemble_context("Who owned the deal before?", budget=200)
    assert "Ann" not in context.text
    assert "Bob" in context.text


async def test_a_section_that_shows_no_days_says_which_version_is_current():
    memory = SessionMemory.test_mode(sections=(SectionSpec("findings", dates="none"),))
    memory.add("findings", OLD, key="address")
    memory.add("findings", NEW, key="address")
    context = await memory.assemble_context("previous address", budget=200)
    assert context.text == f"## findings\n[replaced] {OLD}\n[current] {NEW}\n"


async def test_an_older_version_that_is_told_later_supersedes_nothing():
    """Its timestamp says that it held before; the live version stays, and a question about the past finds the other."""
    memory = SessionMemory.test_mode()
    new = memory.add("findings", NEW, key="address", metadata={"timestamp": "2024-06-01"})
    old = memory.add("findings", OLD, key="address", metadata={"timestamp": "2023-03-01"})
    assert [item.id for item in memory["findings"]] == [new.id]
    assert memory["findings"].keyed("address") == new
    context = await memory.assemble_context("What was the address before?", budget=200)
    assert [item.id for item in context.items] == [old.id, new.id]


async def test_a_change_back_is_no_duplicate():
    """Versions that say the same held at different times, and all that a question asks for are shown."""
    memory = SessionMemory.test_mode()
    for day, text in (("2022-01-01", OLD), ("2023-01-01", NEW), ("2024-01-01", OLD)):
        memory.add("findings", text, key="address", metadata={"timestamp": day})
    context = await memory.assemble_context("Which addresses has the user ever had?", budget=200)
    assert [item.text for item in context.items] == [OLD, NEW, OLD]


async def test_many_replaced_versions_do_not_crowd_the_current_one_out():
    """A fact that was replaced a thousand times is shown in its current version alone."""
    memory = SessionMemory.test_mode()
    memory.add("findings", "The meter of the north gate counts visitors.")
    for number in range(1_000):
        memory.add("findings", f"The meter reads {number} now.", key="meter")
    for number in range(30):
        memory.add("findings", f"Note {number}.")
    context = await memory.assemble_context("What does the meter read?", budget=60)
    assert "reads 999 now" in context.text
    assert context.text.count("reads") == 1
    assert "north gate" in context.text


async def test_a_pinned_version_is_shown_as_ever():
    """What must be shown has the same label for any question; the replaced version stands before it."""
    memory = SessionMemory.test_mode()
    memory.add("findings", OLD, key="address")
    memory.add("findings", NEW, key="address", pinned=True)
    context = await memory.assemble_context("previous address", budget=200)
    assert context.text == f"## findings\n[until 1 January 2024] {OLD}\n[*] {NEW}\n"


LABEL = re.compile(
    r"^\[(?:[^\]\n]*, )?(?:\d+ \w+ \d{4} )?until \d+ \w+ \d{4}\]|^\[(?:[^\]\n]*, )?since ",
    re.MULTILINE,
)
QUESTIONS = (
    "note words",
    "Which note was there before?",
    "Any note ever?",
    "note in 2024",
    "the original note",
    "",
)


@given(
    ops,
    st.sampled_from(QUESTIONS),
    st.integers(0, 400),
    st.sampled_from(["text", "openai", "anthropic"]),
)
@example([("add", 0, "a", 0, 0), ("add", 0, "a", 30, 0)], "note words", 400, "text")
def test_a_replaced_fact_is_never_shown_as_if_current(steps, query, budget, format):
    """It is shown with its replacement, before it and next to it, and its label says that it is replaced.

    This holds whatever was replaced, removed, evicted, compacted, forgotten and reopened, and no text forges a label.
    """
    asyncio.run(_is_true_as_of_now(steps, query, budget, format))


async def _is_true_as_of_now(steps, query, budget, format):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session_log, "MIN_LOG_BYTES", 500)
        world = World()
        memory = await world.run(steps)
    try:
        context = await memory.assemble_context(query, budget=budget, format=format)
    except WindowTooSmallError:
        return
    ids = [item.id for item in context.items]
    for key in "ab":
        for name in NAMES:
            versions = await memory.versions(key, name)
            shown = [version.item.id for version in versions if version.item.id in ids]
            replaced = [
                version for version in versions if not version.is_current and version.item.id in ids
            ]
            if not replaced:
                continue
            now = hour(world.now)
            if query in ("note words", ""):  # the newest version is yet to begin
                assert all(version.valid_until > now for version in replaced)
            (newest,) = [version for version in versions if version.is_current]
            holding = [version for version in versions if version.holds_at(now)]
            assert [*holding, newest][0].item.id in shown
            block = [
                item_id for item_id in ids if item_id in shown and not _is_in_tail(context, item_id)
            ]
            assert block == [item_id for item_id in shown if item_id in block]
            if block:
                assert ids[ids.index(block[0]) :][: len(block)] == block
    labelled = [item for item in context.items if item.interval is not None]
    assert {item.id for item in labelled if item.interval and item.interval.end} == {
        version.item.id
        for name in NAMES
        for key in "ab"
        for version in await memory.versions(key, name)
        if not version.is_current
        and version.item.id in ids
        and not _is_in_tail(context, version.item.id)
    }
    assert sum(len(LABEL.findall(text)) for text in _texts(context)) == len(labelled)


def _is_in_tail(context, item_id):
    decision = context.decision(item_id)
    return decision.section in ("messages", "compacted") and decision.reason in (
        Reason.TAIL,
        Reason.MUST,
    )


def _texts(context):
    """Yield the text of a context, or the block of its messages: the other messages have no labels."""
    if context.rendered.text is not None:
        yield context.rendered.text
    for message in context.rendered.messages or ():
        content = message["content"]
        for text in (
            [content] if isinstance(content, str) else [block.get("text", "") for block in content]
        ):
            yield text.partition("<context>\n")[2].partition("\n</context>")[0]


@pytest.mark.parametrize("query", ["What is the rent?", "What is the rent today?"])
@pytest.mark.parametrize("begins", ["2026-06-02", "2026-06-01"], ids=["tomorrow", "today"])
async def test_a_version_that_is_yet_to_begin_is_shown_with_the_one_that_holds_now(begins, query):
    """An announced rent does not hide the rent that is due today. From its first day on, it stands alone."""
    now = datetime(2026, 6, 1, tzinfo=UTC)
    memory = SessionMemory.test_mode(options=SessionOptions(clock=lambda: now))
    facts = InMemoryLongTermMemory()
    for rent, day in (("800", "2024-01-01"), ("900", "2025-03-01"), ("950", begins)):
        text = f"The rent is {rent} euros."
        memory.add("findings", text, key="rent", metadata={"timestamp": day})
        await facts.save("clerk", text, key="rent", metadata={"timestamp": day})
    stored = SessionMemory.test_mode(options=SessionOptions(clock=lambda: now))
    await stored.attach(FactSource(facts, "clerk"))
    expected = ["[1 June 2026] The rent is 950 euros."]
    if begins == "2026-06-02":
        expected = [
            "[1 March 2025 until 2 June 2026] The rent is 900 euros.",
            "[since 2 June 2026] The rent is 950 euros.",
        ]
    for session in (memory, stored):
        context = await session.assemble_context(query, budget=200)
        assert [line for line in context.text.splitlines() if line.startswith("[")] == expected


@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=5, unique=True),
    st.integers(0, 40),
)
async def test_what_holds_today_is_shown_whatever_is_announced(days, today):
    """Told in any order: the version that holds today, and after it all that are yet to begin."""

    def text(day):
        return f"The rent is {500 + day} euros."

    def session():
        return SessionMemory.test_mode(options=SessionOptions(clock=lambda: at(today)))

    def at(day):
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=day)

    memory, stored, facts = session(), session(), InMemoryLongTermMemory()
    for day in days:
        told = {"key": "rent", "metadata": {"timestamp": at(day).isoformat()}}
        memory.add("findings", text(day), **told)
        await facts.save("clerk", text(day), **told)
    await stored.attach(FactSource(facts, "clerk"))
    first = max([day for day in days if day <= today], default=min(days))
    expected = [text(day) for day in sorted(days) if day >= first]
    for each in (memory, stored):
        context = await each.assemble_context("What is the rent?", budget=400)
        assert [item.text for item in context.items] == expected


@given(
    st.lists(
        st.sampled_from(["note", "remove", "forget", "save", "reopen", "unstated"])
        | st.integers(1, 9),
        min_size=2,
        max_size=12,
    )
)
def test_a_session_shows_now_the_version_that_its_list_of_versions_calls_current(steps):
    """An older version that is told late is none, also if the newest one was evicted or removed before."""
    asyncio.run(_shows_the_current_version(steps))


async def _shows_the_current_version(steps):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session_log, "MIN_LOG_BYTES", 500)
        memory = await _told_in_any_order(steps)
    versions = await memory.versions("home")
    context = await memory.assemble_context("Where does Ann live?", budget=400)
    current = [version.item.id for version in versions if version.is_current]
    assert [item.id for item in context.items if item.key == "home"] == current
    assert memory["findings"].current_id("home") == (current or [None])[0]


async def _told_in_any_order(steps):
    """Return a session in which Ann moved on some days, and moves left it for room or by hand."""
    place = IsolatedMemoryFileSystem()
    hours = itertools.count()

    def clock():
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=next(hours))

    def session():
        specs = (SectionSpec("findings", max_items=2),)
        options = SessionOptions(clock=clock)
        return SessionMemory.open(place, "s", sections=specs, options=options)

    opened = session()
    memory = await opened.__aenter__()
    for number, step in enumerate(steps):
        live = memory["findings"].keyed("home")
        if step == "reopen":
            await opened.__aexit__(None, None, None)
            opened = session()
            memory = await opened.__aenter__()
        elif step == "save":
            await memory.save()
        elif step == "note":
            memory.add("findings", f"Invoice {number} is paid.")
        elif step == "remove":
            if live is not None:
                memory.remove(live.id)
        elif step == "forget":
            if live is not None:
                await memory.forget(live.id)
        else:
            told = None if step == "unstated" else {"timestamp": f"2024-01-0{step}"}
            memory.add("findings", f"Ann lives in house {number}.", key="home", metadata=told)
    return memory


async def test_an_evicted_fact_is_recalled_while_a_small_section_fits_whole():
    """A larger budget, in which all live items fit, hides no evicted item that a smaller one shows."""
    memory = SessionMemory.test_mode(sections=(SectionSpec("findings", max_items=2),))
    memory.add("findings", "Ann lives in Bergen.")
    memory.add_many("findings", ["Invoice 1 is paid.", "Invoice 2 is paid."])
    for budget in (40, 4_000):
        context = await memory.assemble_context("Where does Ann live?", budget=budget)
        assert "Ann lives in Bergen." in context.text


async def test_a_notice_names_a_version_that_is_older_than_a_removed_one():
    """Who takes back a wrong fact by `remove` and adds the right one learns why it is not shown, and how it is."""
    memory = SessionMemory.test_mode()
    wrong = memory.add(
        "findings", "Ann lives in Bergen.", key="home", metadata={"timestamp": "2023-01-01"}
    )
    memory.remove(wrong.id)
    right = {"key": "home", "metadata": {"timestamp": "2022-01-01"}}
    hidden = memory.add("findings", "Ann lives in Oslo.", **right)
    (notice,) = memory.notices
    assert repr(hidden.id) in notice
    await memory.forget(wrong.id)
    memory.add("findings", "Ann lives in Oslo.", **right)
    context = await memory.assemble_context("Where does Ann live?", budget=200)
    assert "Ann lives in Oslo." in context.text
    assert memory.notices == (notice,)
