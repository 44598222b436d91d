"""The view of a log, case by case: what records take out of it, and what belongs together."""

import pytest

from kaosmem import InvalidArgumentError, Trust
from kaosmem.conversation import (
    ActionEvent,
    Condensation,
)
from kaosmem.conversation.log import event_of
from tests.conversation.logs import (
    agent,
    call,
    result,
    shown,
    system,
    user,
    view_of,
)


def messages(*numbers):
    return [user(f"e{number}") for number in numbers]


def forget(*event_ids, summary=None):
    return Condensation(event_ids, summary=summary)


@pytest.mark.parametrize("last", range(5))
def test_a_summary_stands_where_the_last_of_its_events_was(last):
    view = view_of(*messages(0, 1, 2, 3, 4), forget(0, last, summary="S"))
    expected = ["e0", "e1", "e2", "e3", "e4"]
    expected[last] = "<S>"
    assert shown(view) == [each for each in expected if each != "e0"]


def test_a_blank_summary_is_refused():
    """When it is made, and when it is read back."""
    with pytest.raises(InvalidArgumentError, match="blank"):
        forget(0, summary=" ")
    with pytest.raises(InvalidArgumentError, match="not a stored event"):
        event_of({"type": "condensation", "forgotten_ids": [0], "summary": " "})


def test_a_summary_is_trusted_as_the_least_of_what_it_stands_for():
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


def test_whatever_answers_a_call_closes_it():
    pairs = [(call("1"), result("1", kind="rejection")), (call("2"), result("2", kind="error"))]
    unknown = ActionEvent("nobody_knows", "", call("3").call), result("3", kind="error")
    view = view_of(*(event for pair in (*pairs, unknown) for event in pair))
    assert shown(view) == ["A1", "O1", "A2", "O2", "A3", "O3"]
    assert view.cuts_from(0) == [0, 2, 4, 6]
