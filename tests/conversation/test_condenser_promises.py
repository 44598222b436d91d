"""What every condenser promises, at every step of random logs."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kaosmem import get_counter
from kaosmem.compaction import SlidingWindowCompaction
from kaosmem.conversation import (
    ActionEvent,
    Condensation,
    Condenser,
    ConversationView,
    EventLog,
    LLMSummarizingCondenser,
    RollingCondenser,
    StrategyCondenser,
)
from kaosmem.conversation.log import event_json, event_of
from kaosmem.conversation.outline import ViewOutline
from kaosmem.errors import NoCondensationError
from kaosmem.formats import get_format
from kaosmem.testing import ScriptedLLM
from tests.conversation.condensers import brief, condensers, rolling, worked
from tests.conversation.logs import (
    agent,
    call,
    ids,
    logged,
    result,
    shown,
    system,
    user,
)


async def shown_of(condenser, log):
    """Return the view of a log, condensed if it can be."""
    try:
        return await condenser.condensed_view(log)
    except NoCondensationError:
        return log.view


def protected(view):
    """Return the ids of the entries that stay whatever the limits of a condenser are."""
    outline = ViewOutline(view)
    gives_way = {place for _, unit in outline.giving_way() for place in unit}
    return {view[place].id for place in outline.protected.keys() - gives_way}


@settings(max_examples=settings().max_examples * 2 // 5)
@given(condensers, worked())
def test_what_is_protected_stays_and_what_belongs_together_goes_together(condenser, events):
    """At every step whole units are left of the view before, nothing is left to repair, and the log only grows."""

    async def scenario():
        log = logged()
        for event in events:
            log.append(event)
            before = ConversationView(log)
            taken = list(log)
            view = await shown_of(condenser, log)
            left = set(ids(view))
            assert protected(before) <= left
            assert {event.id for event in before if event.pinned} <= left
            for unit in ViewOutline(before).units:
                assert len({before[place].id for place in unit} & left) in (0, len(unit))
            assert ids(ConversationView(view)) == ids(view)
            assert list(log)[: len(taken)] == taken
            assert all(isinstance(event, Condensation) for event in log[len(taken) :])

    asyncio.run(scenario())


FOUND = "found it in the client, " * 6
PAIRS = st.tuples(st.sampled_from(["", "look"]), st.sampled_from([FOUND, "x" * 999]))
ROUNDS = st.lists(st.one_of(PAIRS, PAIRS, st.just(("done",)), st.just(("and",))), max_size=40)


def rounds_of(drawn):
    """Return an agent's calls with their results, what it says, and now and then a user."""
    events = [system(), user("fix TASK-17")]
    for number, texts in enumerate(drawn):
        match texts:
            case (says, found):
                events += [call(f"{number}", says=says), result(f"{number}", found)]
            case ("and",) if number % 9 == 0:
                events.append(user("and the docs"))
            case _:
                events.append(
                    agent(
                        f"{number} parts are done and the others are not, as far as the agent can "
                        "say now"
                    )
                )
    return events


@settings(max_examples=settings().max_examples // 2)
@given(rolling(fails=False), ROUNDS)
def test_a_view_stays_within_its_size_and_records_are_read_back(condenser, drawn):
    """After each step, whatever the model says; a log that was stored and read has the same view; twice is the same."""

    async def scenario():
        log = logged()
        for event in rounds_of(drawn):
            log.append(event)
            view = await shown_of(condenser, log)
            users = sum(isinstance(each, ActionEvent) and each.source == "user" for each in view)
            assert len(view) <= condenser.max_size + users
        assert [event_of(event_json(event)) for event in log] == list(log)
        again = EventLog.from_lines(log.lines())
        assert [event.message for event in again.view] == [event.message for event in log.view]
        return list(log.lines())

    assert asyncio.run(scenario()) == asyncio.run(scenario())


class Stubborn(Condenser):
    """Wants to forget one entry more each time, or nothing."""

    def __init__(self, *, forgets):
        self.forgets = forgets

    async def condense(self, view, *, limit=None):
        return Condensation(tuple(ids(view[: self.forgets])))


async def test_a_condensation_that_frees_nothing_is_an_error():
    """Nothing in the view goes, or its summary is as long; the log is as it was."""
    log = logged(*(agent(f"{number}") for number in range(30)))
    with pytest.raises(NoCondensationError, match="frees nothing: it forgets 0 of 30 entries"):
        await Stubborn(forgets=0).condensed_view(log)
    assert len(log) == 30


def delete_branches(number):
    """Return the log of an agent that has deleted one branch after another."""
    pairs = [(user(f"Delete branch {each}"), agent(f"Done {each}")) for each in range(number)]
    return logged(*(event for pair in pairs for event in pair))


@pytest.mark.parametrize("most", [6, 8, 12, 20])
@pytest.mark.parametrize(
    "condenser",
    [
        lambda most: RollingCondenser(max_size=most),
        lambda most: LLMSummarizingCondenser(ScriptedLLM(brief), max_size=most),
        lambda most: StrategyCondenser(SlidingWindowCompaction(most)),
    ],
)
async def test_a_request_and_its_answer_leave_a_view_together(condenser, most):
    """An agent that sees eleven requests without answers does all of the work again."""
    view = shown(await condenser(most).condensed_view(delete_branches(11)))
    for number in range(11):
        assert (f"Delete branch {number}" in view) == (f"Done {number}" in view)
    assert "Done 10" in view


@pytest.mark.parametrize(
    "condenser",
    [
        RollingCondenser(max_size=6),
        RollingCondenser(max_size=8),
        StrategyCondenser(SlidingWindowCompaction(6)),
        LLMSummarizingCondenser(ScriptedLLM(brief), max_size=8),
    ],
)
async def test_what_nobody_has_answered_is_not_forgotten_before_what_is(
    condenser,
):
    log = delete_branches(4)
    for number in range(6):
        log.append(user(f"Pending {number}"))
    view = shown(await condenser.condensed_view(log))
    assert [text for text in view if text.startswith("Pending")] == [
        f"Pending {number}" for number in range(6)
    ]
    for number in range(4):
        assert (f"Delete branch {number}" in view) == (f"Done {number}" in view)


@pytest.mark.parametrize(
    "condenser",
    [
        RollingCondenser(max_size=20),
        RollingCondenser(max_size=None, max_tokens=500),
        LLMSummarizingCondenser(ScriptedLLM(brief), max_size=20),
        LLMSummarizingCondenser(None, max_tokens=500),
        StrategyCondenser(SlidingWindowCompaction(20)),
    ],
)
async def test_a_chat_in_which_only_users_speak_goes_on(condenser):
    """What nobody has answered gives way to a limit, the oldest first. The newest stays."""
    log = logged(*(user(f"{number}: message of user about it " * 6) for number in range(60)))
    view = await condenser.condensed_view(log)
    assert len(view) <= 21
    assert view[-1].text.startswith("59: ")
    openai = get_format("openai")
    if isinstance(condenser, RollingCondenser) and condenser.max_tokens:
        assert sum(event.tokens(get_counter(None), openai) for event in view) <= 500


async def test_nothing_is_forgotten_where_what_is_kept_is_too_much_alone():
    """The error gives the sums; nothing was summarised for it."""
    model = ScriptedLLM(brief)
    log = logged(user("this " * 300), *(agent(f"the agent says {number}") for number in range(30)))
    condenser = LLMSummarizingCondenser(model, max_tokens=300)
    with pytest.raises(NoCondensationError, match=r"protected entries take 3\d\d of 300 tokens"):
        await condenser.condensed_view(log)
    assert not model.requests


async def test_what_is_said_while_the_model_thinks_stays():
    """The record names what it forgets; of two at once one is appended."""
    log = logged(*(agent(f"the agent says {number}") for number in range(21)))

    class Slow(ScriptedLLM):
        async def chat(self, messages, *, tools=()):
            log.append(user(f"{len(self.requests)}"))
            await asyncio.sleep(0)
            return await super().chat(messages)

    condenser = LLMSummarizingCondenser(Slow(brief), max_size=20)
    await asyncio.gather(condenser.condensed_view(log), condenser.condensed_view(log))
    assert sum(isinstance(event, Condensation) for event in log) == 1
    assert shown(log.view)[-2:] == ["0", "0"]
