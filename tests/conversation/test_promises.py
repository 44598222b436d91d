"""What holds of every log: nothing is parted, nothing is lost, and every provider takes the messages."""

import json

from hypothesis import assume, given
from hypothesis import strategies as st

from kaosmem import render_messages
from kaosmem.conversation import (
    ActionEvent,
    Condensation,
    ConversationMemory,
    ConversationView,
    EventLog,
    ObservationEvent,
)
from kaosmem.conversation.log import event_json, event_of
from kaosmem.conversation.outline import ViewOutline
from kaosmem.testing import check_anthropic_messages, check_openai_messages
from kaosmem.types.content import Trust
from kaosmem.units import NO_RESULT, repair
from tests.conversation.logs import LOGS, agent, call, logged, result, user


def checked(messages):
    check_openai_messages(render_messages(messages, "openai").messages)
    rendered = render_messages(messages, "anthropic")
    check_anthropic_messages(rendered.messages, rendered.system)


@given(LOGS)
def test_every_provider_takes_the_messages_at_every_step(log):
    memory = ConversationMemory()
    view = ConversationView()
    for event in log:
        view.append(event)
        messages = memory.process_events(view)
        checked(messages)
        assert repair(messages) == messages


@given(LOGS)
def test_a_cut_at_a_legal_position_leaves_nothing_to_repair(log):
    """Both sides of a cut are views as they are, and their messages lack no result that the whole has."""
    view = ConversationView(log)
    assert list(ConversationView(view)) == list(view)
    for cut in view.cuts_from(0):
        before = view[:cut]
        after = view[cut:]
        assert list(ConversationView(before)) == before
        assert list(ConversationView(after)) == after
        parted = stated_as_missing(before) + stated_as_missing(after)
        assert parted == stated_as_missing(view)


def stated_as_missing(events):
    return sum(NO_RESULT in message.text for message in ConversationMemory().process_events(events))


FEW = st.lists(
    st.sampled_from(
        [call("1", reasons=True), result("1"), call("2"), result("2"), agent(), user()]
    ),
    max_size=12,
)


@given(st.one_of(LOGS, FEW.map(lambda events: logged(*events))), st.data())
def test_forgetting_whole_units_costs_no_other_event(log, data):
    """What is left of a view is what a record did not forget, where that is not a part of what belongs together.

    No unit of these holds a pinned event.
    """
    view = ConversationView(log)
    units = [
        unit for unit in ViewOutline(view).units if not any(view[place].pinned for place in unit)
    ]
    forgotten = (
        {place for unit in data.draw(st.lists(st.sampled_from(units))) for place in unit}
        if units
        else set()
    )
    left = [event for place, event in enumerate(view) if place not in forgotten]
    record = Condensation(tuple(view[place].id for place in forgotten))
    assert list(ConversationView([*log, record])) == left


@given(LOGS)
def test_each_result_stands_under_the_call_that_was_waiting_for_it(log):
    """A result answers the latest call with its id that had none: told apart by texts that no two calls share."""
    events = [numbered(event, place) for place, event in enumerate(log)]
    expected = dict(pairs(list(ConversationView(events))))
    told = ConversationMemory().process_events(ConversationView(events))
    given_results = [m.text for m in told if m.role == "tool" and NO_RESULT not in m.text]
    found = {}
    due = []
    for message in told:
        if message.role == "tool":
            found[due.pop(0)] = message.text
        else:
            due = [block.arguments for block in message.blocks if block.type == "tool_use"]
    assert {call: text for call, text in found.items() if NO_RESULT not in text} == expected
    assert len(given_results) == len(expected)


def numbered(event, place):
    if isinstance(event, ActionEvent) and event.call is not None:
        return event.changed(
            call=event.call.__class__(event.call.id, event.call.name, f'{{"at":{place}}}')
        )
    return (
        event.changed(content=f"result {place}")
        if isinstance(event, ObservationEvent) and event.call_id
        else event
    )


def pairs(events):
    waiting = []
    for event in events:
        if isinstance(event, ActionEvent) and event.call is not None:
            waiting.append(event)
        elif isinstance(event, ObservationEvent) and event.call_id:
            call = [action for action in waiting if action.call.id == event.call_id][-1]
            waiting.remove(call)
            yield call.call.arguments, event.content


@given(LOGS, st.data())
def test_a_result_that_never_came_costs_no_other_event(log, data):
    """Repair is local: without one result, what is shown lacks that result and calls of its answer at most."""
    events = [event for event in log if event.type in ("action", "observation")]
    view = list(ConversationView(events))
    results = [event for event in view if isinstance(event, ObservationEvent) and event.call_id]
    assume(results)
    lost = data.draw(st.sampled_from(results))
    others = [event for event in events if event is not lost and not is_called(event, lost.call_id)]
    whole = {
        event.id
        for event in ConversationView(
            [e for e in events if not is_called(e, lost.call_id) or e is lost]
        )
    }
    assume(lost.id in whole)
    gone = whole - {event.id for event in ConversationView(others)} - {lost.id}
    callers = [
        event
        for event in view
        if isinstance(event, ActionEvent) and event.call and event.id in gone
    ]
    assert len(callers) == len(gone)
    assert len({event.response or event.id for event in callers}) <= 1


def is_called(event, call_id):
    """Say whether an event is another result for this call id."""
    return isinstance(event, ObservationEvent) and event.call_id == call_id


@given(LOGS)
def test_a_log_is_the_same_after_a_round_trip_through_json(log):
    lines = list(log.lines())
    again = EventLog.from_lines(lines)
    assert list(again) == list(log)
    assert list(again.lines()) == lines
    for event in log:
        assert event_of(json.loads(json.dumps(event_json(event)))) == event


@given(LOGS)
def test_nothing_gains_authority(log):
    """What came from outside is never shown as the user's, the agent's or the application's own word."""
    for message in ConversationMemory().process_events(log):
        if message.role in (
            "tool",
            "environment",
            "knowledge",
            "workspace",
            "browser_output",
            "error",
            "result",
        ):
            assert message.authority <= Trust.TOOL


@given(st.one_of(LOGS, FEW.map(lambda events: logged(*events))), st.data())
def test_a_pinned_event_stays_whatever_is_forgotten(log, data):
    """What a view shows of pinned events it goes on showing, after a record of any of its events, and read back."""
    pinned = [event.id for event in log.view if event.pinned]
    forgotten = data.draw(st.lists(st.sampled_from(range(len(log)))) if len(log) else st.just([]))
    log.append(Condensation(tuple(forgotten), summary="S"))
    again = EventLog.from_lines(log.lines())
    for view in (log.view, again.view):
        assert [event.id for event in view if event.pinned and event.id in pinned] == pinned
    assert {event.id for event in again if event.pinned} == {
        event.id for event in log if event.pinned
    }
