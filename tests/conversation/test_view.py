"""The view of a log, case by case: what records take out of it, and what belongs together."""

from __future__ import annotations

import pytest

from kaosmem import InvalidArgumentError, Trust
from kaosmem.conversation import (
    ActionEvent,
    Condensation,
    ConversationView,
    ObservationEvent,
    SummaryEvent,
)
from kaosmem.conversation.log import event_of
from kaosmem.conversation.outline import ViewOutline
from tests.conversation.logs import (
    agent,
    call,
    ids,
    logged,
    loop,
    result,
    shown,
    system,
    user,
    view_of,
)


def messages(*numbers: int) -> list[ActionEvent]:
    return [user(f"e{number}") for number in numbers]


def forget(*event_ids: int, summary: str | None = None) -> Condensation:
    return Condensation(event_ids, summary=summary)


@pytest.mark.parametrize("first", range(5))
def test_a_summary_stands_where_the_first_of_its_events_was(first: int) -> None:
    view = view_of(*messages(0, 1, 2, 3, 4), forget(4, first, summary="S"))
    expected = ["e0", "e1", "e2", "e3"]
    expected[first : first + 1] = ["<S>"]
    assert shown(view) == expected


def test_a_summary_has_the_id_of_its_condensation() -> None:
    """So a later record can forget it by an id that is the same in every view."""
    log = logged(*messages(0, 1), forget(0, summary="A"))
    assert ids(ConversationView(log)) == ids(ConversationView(log)) == [2, 1]
    log.append(forget(2, summary="B"))
    view = ConversationView(log)
    assert shown(view) == ["<B>", "e1"]
    assert view[0].sources == (2,)


def test_a_summary_hides_the_earlier_one_that_it_covers() -> None:
    """A condensation may name all events since the beginning again."""
    first = forget(1, 2, summary="A")
    again = forget(1, 2, 3, 5, summary="B")
    log = logged(*messages(0, 1, 2, 3), first, *messages(5, 6), again)
    assert shown(log.view) == ["e0", "<B>", "e6"]
    assert log.view[1].sources == (4, 3, 5)
    log.append(forget(1, 2, 3, 5, 6, summary="C"))  # "B" stands for "A" too
    assert shown(log.view) == ["e0", "<C>"]
    assert shown(ConversationView(log.view)) == ["e0", "<C>"]


def test_a_summary_of_other_events_stays() -> None:
    """So does one if a later condensation covers a part of it, or shows no summary."""
    log = logged(*messages(0, 1, 2, 3), forget(0, 1, summary="A"))
    log.append(forget(1, 2, summary="B"))
    assert shown(log.view) == ["<A>", "<B>", "e3"]
    log.append(forget(0, 1, 2, 3))
    assert shown(log.view) == ["<A>", "<B>"]
    log.append(forget(3, summary="of nothing"))
    log.append(forget(0, 1, summary="C"))
    assert shown(log.view) == ["<C>", "<B>"]


def test_a_summary_that_names_an_earlier_one_takes_its_place() -> None:
    """However often; it names the earlier one, by which its events are found. A pinned summary stays."""
    log = logged(*messages(*range(7)))
    log.append(forget(0, 1, 2, 3, summary="1"))
    log.append(forget(7, 5, summary="2"))
    assert shown(log.view) == ["<2>", "e4", "e6"]
    assert log.view[0].sources == (7, 5)
    for number in range(3, 11):
        log.append(user("more"))
        earlier, new = ids(log.view)[:2]
        log.append(forget(earlier, new, summary=f"{number}"))
        assert shown(log.view)[0] == f"<{number}>"
        assert sum(isinstance(event, SummaryEvent) for event in log.view) == 1
    log = logged(*messages(0, 1, 2), forget(0, summary="pinned").changed(pinned=True))
    log.append(forget(1, 3, summary="of 1"))
    assert shown(log.view) == ["<pinned>", "<of 1>", "e2"]


def test_a_blank_summary_is_refused() -> None:
    """When it is made, and when it is read back."""
    with pytest.raises(InvalidArgumentError, match="blank"):
        forget(0, summary=" ")
    with pytest.raises(InvalidArgumentError, match="not a stored condensation"):
        event_of({"type": "condensation", "forgotten_ids": [0], "summary": " "})


def test_a_summary_is_trusted_as_the_least_of_what_it_stands_for() -> None:
    """Whatever a summary came from, it is no more than that, and never a system message."""
    for forgotten, trust in ((0, Trust.APPLICATION), (1, Trust.USER), (2, Trust.MODEL)):
        (summary,) = (
            e
            for e in view_of(system(), user(), agent(), forget(forgotten, summary="S"))
            if e.id == 3
        )
        assert (summary.trust, summary.message.authority, summary.message.role) == (
            trust,
            trust,
            "summary",
        )
    (summary,) = view_of(user(), call("1"), result("1"), forget(0, 1, 2, summary="S"))
    assert summary.trust is Trust.TOOL
    assert summary.message.sources == ("0", "1", "2")


def test_what_comes_while_a_call_is_open_stays_with_it() -> None:
    events = (
        user(),
        call("1", "r"),
        call("2", "r"),
        result("1"),
        user(),
        result("2"),
        user(),
        call("3"),
        result("3"),
    )
    assert view_of(*events).cut_points == [0, 1, 6, 7, 9]


def test_a_loop_of_signed_reasoning_may_be_cut_between_its_rounds() -> None:
    assert view_of(user(), *loop(3, reasons="all"), user()).cut_points == [0, 1, 3, 5, 7, 8]


def test_whatever_answers_a_call_closes_it() -> None:
    pairs = [(call("1"), result("1", kind="rejection")), (call("2"), result("2", kind="error"))]
    unknown = ActionEvent("nobody_knows", "", call("3").call), result("3", kind="error")
    view = view_of(*(event for pair in (*pairs, unknown) for event in pair))
    assert shown(view) == ["A1", "O1", "A2", "O2", "A3", "O3"]
    assert view.cut_points == [0, 2, 4, 6]


def test_a_round_that_is_forgotten_takes_no_other_with_it() -> None:
    """Its thinking is bound to its own answer."""
    assert shown(view_of(*loop(2, reasons="all"), forget(0))) == ["A2", "O2"]


def test_a_call_is_shown_at_its_place_before_its_result_comes() -> None:
    view = ConversationView()
    sizes = []
    for event in logged(user("U"), call("1"), user("V"), result("1"), call("2")):
        view.append(event)
        sizes.append(len(view))
    assert sizes == [1, 2, 3, 4, 5]
    assert shown(view) == ["U", "A1", "V", "O1", "A2"]


def test_a_loop_goes_on_from_any_round() -> None:
    """A cut may keep the newest rounds of a loop."""
    assert shown(view_of(*loop(4, reasons="all"), forget(0, 1, 2, 3))) == ["A3", "O3", "A4", "O4"]
    assert shown(view_of(*loop(4, reasons="all"), forget(2, 3))) == [
        "A1",
        "O1",
        "A3",
        "O3",
        "A4",
        "O4",
    ]


def test_a_call_without_a_result_is_kept_until_somebody_speaks() -> None:
    """Its words, or its answer's other results, stay while the call is the newest of what was said."""
    half = [call("1", "r"), call("2", "r"), result("1")]
    for events, kept in (
        ([user(), agent(), call("1", says="I look")], {0, 1, 2}),
        ([user(), agent(), call("1", says="I look"), agent()], {0, 3}),
        ([user(), agent(), *half], {0, 1, 2, 3, 4}),
        ([user(), agent(), *half, call("3"), result("3")], {0, 1, 5, 6}),
    ):
        assert {*ViewOutline(view_of(*events)).protected} == kept, events


def test_a_slice_is_a_list_and_an_index_an_event() -> None:
    view = view_of(*messages(0, 1, 2), forget(0))
    assert shown(view[:1]) == ["e1"]
    assert shown([view[-1]]) == ["e2"]
    assert isinstance(view[:], list)


@pytest.mark.parametrize("position", ["x", None, 1.0, (0, 1)])
def test_a_position_that_is_none_is_refused(position: object) -> None:
    view = view_of(*messages(0, 1))
    with pytest.raises(
        InvalidArgumentError, match="no position in a view; give a whole number or a slice"
    ):
        view[position]


def test_a_view_takes_the_events_of_another() -> None:
    """What a condenser makes of a view is a view again."""
    view = view_of(user("U"), call("1"), result("1"), forget(0, summary="S"))
    again = ConversationView(view)
    assert list(again) == list(view)


def test_null_actions_and_states_are_not_shown() -> None:
    hidden = (
        ActionEvent("null"),
        ActionEvent("recall_request", "what?"),
        event_of({"type": "observation", "kind": "agent_state"}),
    )
    assert shown(view_of(user("U"), *hidden)) == ["U"]
    assert shown(view_of(call("1"), ObservationEvent("agent_state", "paused", "1"))) == ["A1", "O1"]
