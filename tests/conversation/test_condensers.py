"""Condensers, case by case: when a view is condensed, what goes, and what never does."""

import pytest

from kaosmem import InvalidArgumentError
from kaosmem.compaction import Summarizer, ToolResultCompaction
from kaosmem.compaction.fallback import fallback_reason
from kaosmem.conversation import (
    Condensation,
    ConversationView,
    LLMSummarizingCondenser,
    RollingCondenser,
    StrategyCondenser,
)
from kaosmem.errors import NoCondensationError, SummaryError
from kaosmem.testing import ScriptedLLM
from tests.conversation.logs import (
    agent,
    call,
    logged,
    result,
    shown,
    user,
    view_of,
)
from tests.gist import gist


def said(count, *, first=0):
    """What an agent said, all of one size."""
    return [agent(f"the agent says {number + 10}") for number in range(first, first + count)]


def summarizing(
    answers=None,
    **config,
):
    """Return a summarising condenser and its model, which repeats some words unless told otherwise."""
    model = ScriptedLLM(answers or gist)
    limits = {name: config.pop(name) for name in ("fallback",) if name in config}
    return LLMSummarizingCondenser(Summarizer(model, **limits), **config), model


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


async def test_a_model_that_fails_has_an_outline_in_its_place():
    """Where no outline is wanted, too many tokens are an error, and too many entries stay."""
    condenser, _ = summarizing(lambda _: ConnectionError("gone"), max_size=10)
    record = await condenser.condense(logged(*said(11)).view)
    assert isinstance(record, Condensation)
    assert fallback_reason(record.summary or "") == "ConnectionError"
    condenser, _ = summarizing(lambda _: ConnectionError("gone"), max_size=10, fallback=False)
    log = logged(*said(11))
    assert await condenser.condense(log.view) is log.view
    with pytest.raises(NoCondensationError) as raised:
        await condenser.condense(log.view, limit=80)
    assert isinstance(raised.value.__cause__, SummaryError)
    assert raised.value.__cause__.reason == "ConnectionError"
    assert len(log.view) == 11


async def test_the_smaller_limit_of_tokens_counts():
    for most, limit, tokens, fits in (
        (500, 100, 200, False),
        (100, 500, 200, False),
        (100, 500, 50, True),
    ):
        condenser = RollingCondenser(max_tokens=most, counter=len)
        frame = 3 + len("assistant")
        log = logged(*(agent("x" * (tokens // 4 - frame)) for _ in range(4)))
        assert (await condenser.condense(log.view, limit=limit) is log.view) is fits


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


async def test_events_that_no_log_has_taken_are_not_forgotten():
    """They have no ids yet, so that one record would forget them all."""
    with pytest.raises(InvalidArgumentError, match="append them to an EventLog"):
        await RollingCondenser(max_size=10).condense(ConversationView(said(11)))
