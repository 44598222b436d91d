"""A conversation beside a session's own sections keeps every promise, whatever its log and condenser."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kaosmem import (
    NotFoundError,
    Reason,
    SectionSpec,
    SessionMemory,
    Source,
    Trust,
    WindowTooSmallError,
    get_counter,
)
from kaosmem.compaction import Summarizer, ToolResultCompaction
from kaosmem.compaction.model_requests import ModelRequests
from kaosmem.compaction.protection import YIELDING_REASONS
from kaosmem.conversation import (
    Condensation,
    ConversationView,
    EventLog,
    LLMSummarizingCondenser,
    ObservationEvent,
    RollingCondenser,
    StrategyCondenser,
)
from kaosmem.conversation.outline import ViewOutline
from kaosmem.errors import NoCondensationError, SourceError
from kaosmem.language.query import Query
from kaosmem.sources import ConversationSource
from kaosmem.testing import ScriptedLLM
from kaosmem.tokens import count_content
from tests.conversation.condensers import brief, condensers, down, unrecorded
from tests.conversation.condensers import worked as workings
from tests.conversation.logs import ANY_RUNS, agent, call, logged, result, system, user
from tests.formats.checked import check_context
from tests.worlds import queries


def worked(turns):
    """Return the log of an agent that has called a tool so often."""
    events = [
        each
        for n in range(turns)
        for each in (call(f"{n}"), result(f"{n}", f"result {n}: " + "found " * 20))
    ]
    return logged(system("You write code."), user("fix TASK-17"), *events)


def summarizing(**given):
    return LLMSummarizingCondenser(ScriptedLLM(brief), **given)


async def remembering(log, condenser=None):
    memory = SessionMemory.test_mode()
    memory.add("role", "Be careful.")
    memory.add("findings", "The fee is due in 30 days.")
    await memory.attach(ConversationSource(log, condenser))
    return memory


@settings(max_examples=settings().max_examples // 2)
@given(
    workings(),
    condensers,
    queries,
    st.integers(100, 1_500),
    st.sampled_from(["openai", "anthropic"]),
)
def test_the_budget_holds_and_the_messages_are_the_providers(
    events, condenser, query, budget, format
):
    """Counted again they are what the context says, within the budget, and the same again; what is shown is fetched in
    full, and each event that is proposed has a decision."""

    async def scenario():
        memory = await remembering(logged(*events), condenser)
        try:
            first, second = [
                await memory.assemble_context(query, budget=budget, format=format) for _ in range(2)
            ]
        except WindowTooSmallError:
            return
        assert first.messages == second.messages
        check_context(first)
        for decision in first.decisions:
            if decision.section == "conversation":
                assert (await memory.fetch(decision.item_id)).section == "conversation"
        for item in first.items:
            if item.section == "conversation" and "left out" not in item.text:
                assert (await memory.fetch(item.id)).text.startswith(item.text)

    asyncio.run(scenario())


def proposed_slowly(view, *, cap):
    """Return the proposal of a view by a look at all of it, its legal cuts, and whether it is all."""
    outline = ViewOutline(view)
    sizes = [count_content(event.message.content, get_counter()) for event in view]
    newest = next((unit for unit in outline.units if unit[-1] == len(sizes) - 1), ())
    gives_way = [place for place, reason in view.reasons.items() if reason in YIELDING_REASONS]
    without_room = [
        place
        for rank, place in enumerate(gives_way)
        if sum(sizes[each] for each in gives_way[rank:]) > cap // 2
    ]
    kept = set(view.reasons).difference(without_room)
    must = {place for unit in outline.units if kept.intersection(unit) for place in unit}
    must.update(newest)
    rows = []
    left = 2 * cap
    for unit in sorted(outline.units, key=lambda unit: (unit[0] not in must, -unit[-1])):
        if left <= 0 and unit[0] not in must:
            break
        left -= max(1, sum(sizes[place] for place in unit))
        events = tuple(f"conversation/{view[place].id}" for place in unit)
        rows.append((events, unit[0], unit[0] in must))
    return rows, cuts_beside(outline.units, must), len(rows) == len(outline.units)


def cuts_beside(units, must):
    """Return where no unit is on both sides, but for those that are shown in any case."""
    spans = [(unit[0], unit[-1]) for unit in units if unit[0] not in must]
    ends = range(max((unit[-1] + 1 for unit in units), default=0) + 1)
    return {cut for cut in ends if not any(first < cut <= last for first, last in spans)}


def check_positions(proposal, places, shown, whole):
    """The positions ascend as the places in the view do, and are those of the view without condensations."""
    positions = [unit.position for _, unit in sorted(zip(places, proposal.candidates, strict=True))]
    assert positions == sorted({*positions})
    assert proposal.taken == (
        whole.index(shown[-1]) + 1 if shown and shown[-1] in whole else len(whole)
    )
    if set(shown) <= set(whole):  # no summary
        assert [unit.position for unit in proposal.candidates] == [
            whole.index(shown[place]) for place in places
        ]


steps = st.lists(st.tuples(ANY_RUNS, st.sampled_from([None, 0, 1, 4, 8, 20, 200])), max_size=12)


@given(workings(), st.one_of(st.none(), unrecorded), steps)
def test_what_is_proposed_turn_by_turn_is_what_a_look_at_all_of_the_view_proposes(
    events, condenser, steps
):
    """However a log grew, records in it, and whenever it was asked; also where the log is read anew. A history begins
    nowhere but within twice the cap."""

    async def scenario():
        log = logged(*events)
        source = ConversationSource(log, condenser)
        for run, cap in steps:
            for event in run:
                log.append(event)
            if cap is not None:
                proposal = await source.propose(Query(""), cap=cap)
                units = [
                    (tuple(i.id for i in c.items), c.position, c.must) for c in proposal.candidates
                ]
                try:
                    view = ConversationView(log)
                    if condenser is not None:
                        view = await condenser.condense(view)
                except (
                    NoCondensationError
                ):  # pinned messages exceed its limit: the source shows the log as it is
                    view = ConversationView(log)
                slow, cuts, is_all = proposed_slowly(view, cap=cap)
                assert ([(ids, must) for ids, _, must in units], proposal.is_all) == (
                    [(ids, must) for ids, _, must in slow],
                    is_all,
                )
                places = [place for _, place, _ in slow]
                near = min((place for _, place, must in slow if not must), default=len(view))
                for unit, place in zip(proposal.candidates, places, strict=True):
                    assert unit.cut == (place in cuts) or (not unit.cut and place < near)
                whole = ConversationView(
                    event for event in log if not isinstance(event, Condensation)
                )
                check_positions(
                    proposal, places, [event.id for event in view], [event.id for event in whole]
                )
                anew = ConversationSource(EventLog.from_lines(log.lines()), condenser)
                assert (await anew.propose(Query(""), cap=cap)).candidates == proposal.candidates

    asyncio.run(scenario())


async def test_a_conversation_is_condensed_to_the_window():
    """A summary stands for what is old, nothing is cut off, and instructions are there at every step."""
    log = worked(0)
    memory = await remembering(log, summarizing())
    for number in range(60):
        for event in (call(f"{number}"), result(f"{number}", f"result {number}: " + "found " * 20)):
            log.append(event)
        context = await memory.assemble_context(budget=2_000, format="openai")
        shown = [item.text for item in context.items]
        assert {"You write code.", "fix TASK-17"} <= set(shown)
        assert any(text.startswith(f"result {number}:") for text in shown)
        assert not any(decision.reason is Reason.BEFORE_TAIL for decision in context.decisions)
    assert "summary" in [item.role for item in context.items]
    assert any(isinstance(event, Condensation) for event in log)


async def test_what_was_condensed_is_fetched_back():
    """A summary names what it stands for, by ids that bring each event in full, an earlier summary among them."""
    log = worked(40)
    memory = await remembering(log, summarizing(max_size=20))
    for _ in range(3):
        await memory.assemble_context(budget=4_000, format="openai")
        for number in range(20):
            log.append(agent(f"the agent says {len(log)} and {number}"))
    context = await memory.assemble_context(budget=4_000, format="openai")
    (summary,) = (item for item in context.items if item.role == "summary")
    assert summary.trust is Trust.TOOL
    found = [await memory.fetch(source) for source in summary.sources]
    (earlier,) = (item for item in found if item.role == "summary")
    while any(item.role == "summary" for item in found):
        found = [
            inner
            for item in found
            for inner in (
                [await memory.fetch(i) for i in item.sources] if item.role == "summary" else [item]
            )
        ]
    assert earlier.sources
    assert {f"result {number}: " + "found " * 20 for number in range(39)} <= {
        item.text for item in found
    }


async def test_a_cut_result_is_fetched_in_full():
    """The window has the beginning and a note, which names the event."""
    cutting = StrategyCondenser(ToolResultCompaction(10, keep_recent=1))
    memory = await remembering(worked(3), cutting)
    context = await memory.assemble_context(budget=4_000, format="openai")
    cut = [item for item in context.items if "message 3 is the whole" in item.text]
    assert [(await memory.fetch(item.id)).text[:9] for item in cut] == ["result 0:"]


async def test_a_window_that_is_too_small_condenses_nothing():
    """What must be shown takes more than it, so that a record would be of no use."""
    log = worked(40)
    memory = await remembering(log, summarizing())
    with pytest.raises(WindowTooSmallError):
        await memory.assemble_context(budget=20, format="openai")
    assert not any(isinstance(event, Condensation) for event in log)


async def test_where_a_model_fails_an_outline_of_the_conversation_is_shown():
    """The context names the model's error, and has nothing to report of a condenser without a model."""
    for llm, status in ((ScriptedLLM(down), "degraded with ConnectionError, "), (None, "ok, ")):
        memory = await remembering(worked(40), LLMSummarizingCondenser(llm))
        context = await memory.assemble_context("", budget=600, format="openai")
        assert str(context.sources["conversation"]).startswith(status)
        assert "Shortened without a model" in str(context.messages)
        assert "result 39" in str(context.messages)


async def test_appending_leaves_the_prefix():
    """As long as nothing is condensed, all messages before the query's block stay as they are."""
    log = worked(2)
    memory = await remembering(log, summarizing(max_size=40))
    before = []
    for number in range(12):
        context = await memory.assemble_context(budget=8_000, format="openai")
        assert context.messages[: len(before)] == before
        before = context.messages[:-1]
        log.append(agent(f"the agent says {number}"))


async def test_what_no_model_sees_is_not_fetched():
    """Nor an event that is not there, nor one of another source; and a log is never forgotten."""
    log = logged(user("hello"), Condensation(()), ObservationEvent("agent_state", "finished"))
    memory = await remembering(log)
    for item_id in (
        "conversation/1",
        "conversation/2",
        "conversation/9",
        "conversation/x",
        "conversation/",
        "conversation/²",
        "other/0",
    ):
        with pytest.raises(NotFoundError):
            await memory.fetch(item_id)
    with pytest.raises(SourceError, match="conversation"):
        await memory.forget("conversation/0")


async def test_two_conversations_have_ids_of_their_own():
    """The second is named anew, and both are shown."""
    memory = await remembering(logged(user("one")))
    source = ConversationSource(logged(user("two")))
    assert isinstance(source, Source)
    await source.propose(Query(""), cap=500)
    name = await memory.attach(source)
    context = await memory.assemble_context(budget=500, format="openai")
    assert {item.id: item.text for item in context.items if item.role == "user"} == {
        "conversation/0": "one",
        f"{name}/0": "two",
    }


async def test_the_newest_result_is_shown_or_it_is_said_that_it_does_not_fit():
    """A result is cut to the window; words of a user are only where they may be."""
    memory = await remembering(logged(user(), call("1"), result("1", "found " * 500)))
    context = await memory.assemble_context(budget=300, format="openai")
    assert any("message conversation/2 is the whole" in item.text for item in context.items)
    assert (await memory.fetch("conversation/2")).text == "found " * 500
    memory = await remembering(logged(user("found " * 500)))
    with pytest.raises(WindowTooSmallError):
        await memory.assemble_context(budget=300, format="openai")
    context = await memory.assemble_context(budget=300, format="openai", overflow="cut")
    assert context.decision("conversation/0").reason is Reason.SHORTENED


def test_what_no_conversation_can_be_shown_by_is_refused():
    with pytest.raises(ValueError, match="use 'history'"):
        ConversationSource(logged(), spec=SectionSpec("c"))


async def test_where_a_condenser_fails_the_conversation_is_shown_as_it_is():
    """As much of it as fits, and the context says what it did without."""
    log = worked(40)
    failing = LLMSummarizingCondenser(
        Summarizer(ModelRequests(ScriptedLLM([]), attempts=1), fallback=False)
    )
    memory = await remembering(log, failing)
    context = await memory.assemble_context("", budget=600, format="openai")
    assert str(context.sources["conversation"]).startswith("degraded with NoCondensationError, ")
    assert "result 39" in str(context.messages)
    assert not any(isinstance(event, Condensation) for event in log)


@pytest.mark.parametrize("format", ["text", "openai", "anthropic"])
async def test_a_conversation_in_which_only_users_speak_is_shown(format):
    """What nobody has answered is required while it takes half of the window. The newest stays in any case."""
    condensers = [None, RollingCondenser(max_size=20), LLMSummarizingCondenser(None, max_size=20)]
    for condenser in condensers:
        for budget in (300, 1_000):
            texts = [f"{number}: message of user about it " * 6 for number in range(60)]
            memory = await remembering(logged(*map(user, texts)), condenser)
            context = await memory.assemble_context("it", budget=budget, format=format)
            assert context.used <= budget
            shown = [item.text for item in context.items if item.section == "conversation"]
            assert texts[-1] in shown
            assert len(shown) >= budget // 150
