"""Condensers, case by case: when a view is condensed, what goes, and what never does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest

from kaosmem import ChatMessage, InvalidArgumentError
from kaosmem.compaction import Summarizer, ToolResultCompaction
from kaosmem.compaction.outline import MessageSizes
from kaosmem.conversation import (
    Condensation,
    Condenser,
    ConversationEvent,
    ConversationView,
    EventLog,
    LLMSummarizingCondenser,
    ObservationEvent,
    RollingCondenser,
    StrategyCondenser,
    SummaryEvent,
)
from kaosmem.conversation.outline import ViewOutline
from kaosmem.errors import NoCondensationError, SummaryError
from kaosmem.testing import ScriptedLLM
from kaosmem.testing.scripted_llm import Answer
from tests.conversation.logs import (
    agent,
    call,
    ids,
    logged,
    result,
    shown,
    system,
    user,
    view_of,
)
from tests.gist import gist


def said(count: int, *, first: int = 0) -> list[ConversationEvent]:
    """What an agent said, all of one size."""
    return [agent(f"the agent says {number + 10}") for number in range(first, first + count)]


def summarizing(
    answers: Callable[[Sequence[ChatMessage]], Answer] | Iterator[Answer] | None = None,
    **config: object,
):
    """Return a summarising condenser and its model, which repeats some words unless told otherwise."""
    model = ScriptedLLM(answers or gist)
    limits = {name: config.pop(name) for name in ("fallback",) if name in config}
    return LLMSummarizingCondenser(Summarizer(model, **limits), **config), model


async def condensed(condenser: Condenser, log: EventLog) -> Condensation:
    record = await condenser.condense(log.view)
    assert isinstance(record, Condensation)
    return log.append(record)


async def test_a_growing_view_is_condensed_to_half_again_and_again():
    condenser, model = summarizing(max_size=10)
    log = logged()
    sizes = []
    for event in said(100):
        log.append(event)
        match await condenser.condense(log.view):
            case ConversationView() as view:
                sizes.append(len(view))
            case record:
                log.append(record)
    assert sizes == [i + 1 if i < 10 else (i - 10) % 5 + 6 for i in range(len(sizes))]
    assert len(model.requests) == sum(isinstance(event, Condensation) for event in log) == 15


@pytest.mark.parametrize("steps", [0, 1, 7])
async def test_one_record_makes_room_however_many_answers_a_view_holds(steps):
    """Whole exchanges go at once where the agent's steps alone leave too many entries."""
    events = [user("begin")]
    for number in range(60):
        events += [*said(steps), agent(f"done {number}"), user(f"do {number}")]
    log = logged(*events)
    record = await RollingCondenser(max_size=20).condense(log.view)
    assert isinstance(record, Condensation)
    log.append(record)
    assert len(log.view) <= 20
    texts = [event.text for event in log.view]
    assert texts[-1] == "do 59"
    requests = [text.removeprefix("do ") for text in texts[1:-1] if text.startswith("do ")]
    answers = [text.removeprefix("done ") for text in texts if text.startswith("done ")]
    # "done 8" answers "do 7".
    assert all(str(int(number) + 1) in answers for number in requests)


class Asking(RollingCondenser):
    """Condenses when it is told to."""

    def __init__(self, *, asks: bool, **config: object) -> None:
        super().__init__(**config)
        self.asks = asks

    def should_condense(self, view: ConversationView, *, limit: int | None = None) -> bool:
        return self.asks


class Helpless(RollingCondenser):
    """Has no record to offer."""

    async def get_condensation(self, outline: ViewOutline, limit: int | None) -> Condensation:
        raise NoCondensationError("nothing may be left out")


@pytest.mark.parametrize("max_tokens", [None, 10])
@pytest.mark.parametrize("max_size", [None, 4])
async def test_size_alone_can_wait(max_size, max_tokens):
    """If no record can be made, a view of too many tokens is an error."""
    log = logged(*said(5))
    condenser = Helpless(max_size=max_size, max_tokens=max_tokens)
    assert condenser.should_condense(log.view) is bool(max_size or max_tokens)
    if max_tokens:
        with pytest.raises(NoCondensationError):
            await condenser.condense(log.view)
    else:
        assert await condenser.condense(log.view) is log.view


async def test_an_overridden_should_condense_decides():
    """If it says yes half of a short view goes; if it says no nothing of a long one does."""
    log = logged(*said(6))
    record = await condensed(Asking(asks=True), log)
    assert record.forgotten_ids == (0, 1, 2)
    log = logged(*said(30))
    never = Asking(asks=False, max_size=4, max_tokens=10)
    assert await never.condense(log.view, limit=5) is log.view


async def test_a_view_that_cannot_be_condensed_is_returned_if_only_should_condense_asks():
    log = logged(system(), user())
    assert await Asking(asks=True).condense(log.view) is log.view


async def test_a_model_that_fails_once_is_asked_again():
    """The record is the one that it would have been, and the newest half of the view stays."""
    condenser, model = summarizing(
        iter([ConnectionError("gone"), "all of it: the agent says 11, 12, 13."]), max_size=10
    )
    log = logged(system(), *said(10))
    record = await condensed(condenser, log)
    assert ids(log.view) == [0, 11, 8, 9, 10]
    assert shown(log.view)[1].startswith("<all of it")
    assert "fallback" not in record.metadata
    assert len(model.requests) == 2


async def test_a_view_does_not_wait_for_ever_for_a_model_that_is_down():
    """It grows up to twice its limit, and is then shortened without the model."""
    model = ScriptedLLM(lambda _: ConnectionError("down"))
    log = logged(system())
    condenser = LLMSummarizingCondenser(model, max_size=20)
    sizes = []
    for step in range(100):
        log.append(agent(f"Step {step} in src/part_{step}.py. " * 8))
        sizes.append(len(await condenser.condensed_view(log)))
    assert max(sizes) == 40
    records = [event for event in log if isinstance(event, Condensation)]
    assert {record.metadata["fallback"] for record in records} == {"ConnectionError"}


async def test_a_model_that_fails_is_the_cause_and_a_soft_need_goes_on_without():
    """Where tokens are too many, an outline takes the summary's place, unless none is wanted."""
    for fallback in (False, True):
        condenser, _ = summarizing(
            lambda _: ConnectionError("gone"), max_size=10, fallback=fallback
        )
        log = logged(*said(11))
        assert await condenser.condense(log.view) is log.view
        if fallback:
            record = await condenser.condense(log.view, limit=80)
            assert isinstance(record, Condensation)
            assert record.metadata["fallback"] == "ConnectionError"
            assert (record.summary or "").startswith(
                "Shortened without a model (ConnectionError):\n"
            )
        else:
            with pytest.raises(NoCondensationError) as raised:
                await condenser.condense(log.view, limit=80)
            assert isinstance(raised.value.__cause__, SummaryError)
            assert raised.value.__cause__.reason == "ConnectionError"
            assert len(log.view) == 11


def test_the_smaller_limit_of_tokens_counts():
    for most, limit, tokens, expected in (
        (500, 100, 200, True),
        (100, 500, 200, True),
        (100, 500, 50, False),
    ):
        condenser = RollingCondenser(max_tokens=most, counter=len)
        frame = 3 + len("assistant")
        view = view_of(agent("x" * (tokens - frame)))
        assert condenser.should_condense(view, limit=limit) is expected


async def test_an_old_result_is_cut_and_answers_its_call():
    old = "secret" * 40
    view = view_of(user(), call("1"), result("1", old), call("2"), result("2", old))
    condenser = StrategyCondenser(ToolResultCompaction(6, keep_recent=1))
    cut = await condenser.condense(view)
    assert isinstance(cut, ConversationView)
    assert shown(cut) == ["please", "A1", "O1", "A2", "O2"]
    assert "message 2 is the whole" in cut[2].text
    assert cut[4] is view[4]
    assert cut.cuts_from(0) == view.cuts_from(0)


RECALL = ObservationEvent("workspace", "the repository is kaosmem")


async def test_the_second_summary_is_made_of_the_whole_first():
    first = (
        "Done: "
        + "the module was read and the words of the agent listed one by one. " * 60
        + "TASK-17 pending"
    )
    condenser, model = summarizing(
        iter(
            [first, "The module of the agent was read, the functions are listed. TASK-17 pending."]
        ),
        max_size=10,
        max_tokens=10_000,
    )
    log = logged(
        *(
            agent(f"{number} " + "the module was read, words of the agent, TASK-17 pending " * 60)
            for number in range(11)
        )
    )
    await condensed(condenser, log)
    assert shown(log.view)[0].startswith("<Done: the module")
    for event in said(6):
        log.append(event)
    await condensed(condenser, log)
    assert "TASK-17 pending" in model.requests[1][-1].text
    assert "TASK-17" in log.view[0].text
    assert [isinstance(event, SummaryEvent) for event in log.view].count(True) == 1


async def test_a_record_says_how_it_came_about():
    """By which condenser, why, and how large the view was."""
    condenser, _ = summarizing(max_size=10)
    record = await condensed(condenser, logged(*said(11)))
    assert record.metadata == {
        "condenser": "LLMSummarizingCondenser",
        "entries": 11,
        "tokens": MessageSizes().total(event.message for event in said(11)),
    }


async def test_events_that_no_log_has_taken_are_not_forgotten():
    """They have no ids yet, so that one record would forget them all."""
    with pytest.raises(InvalidArgumentError, match="append them to an EventLog"):
        await RollingCondenser(max_size=10).condense(ConversationView(said(11)))
