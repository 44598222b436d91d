"""A view that grows, beside one that is made anew and a plain account of the rules that looks at everything."""

from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kaosmem.conversation import (
    ActionEvent,
    Condensation,
    ConversationView,
    ObservationEvent,
    SummaryEvent,
)
from kaosmem.conversation.outline import ViewOutline
from tests.conversation.logs import ANY_RUNS, link_of, logged
from tests.cuts import cut_points
from tests.units.plain import PlainUnits, open_calls

HIDDEN = "null", "recall_request", "agent_state"
LISTS = "task_list", "task_tracker", "todo_write", "workspace"


class PlainView:
    """The rules of View, decided by looking at everything each time."""

    def __init__(self):
        self.entries = []

    def groups(self):
        plain = PlainUnits()
        for ordinal, event in enumerate(self.entries):
            plain.add(ordinal, link_of(event))
        return plain

    def append(self, event):
        if isinstance(event, Condensation):
            self.condense(event)
        elif (isinstance(event, ObservationEvent) and event.call_id) or event.kind not in HIDDEN:
            self.entries.append(event)
            newest = len(self.entries) - 1
            if (
                isinstance(event, ObservationEvent)
                and event.call_id
                and self.groups().group_of(newest) == {newest}
            ):
                self.entries.pop()

    def shown(self):
        return self.entries

    def waiting(self):
        """Return the positions of the newest answer, if it is the newest of what was said and lacks a result."""
        groups = self.groups()
        said = [
            place
            for place, event in enumerate(self.entries)
            if isinstance(event, ActionEvent) and event.role != "system"
        ]
        answer = groups.group_of(said[-1]) if said else set()
        if not open_calls({place: link_of(self.entries[place]) for place in answer}):
            return []
        return sorted(answer)

    def condense(self, record):
        forgotten = {*record.forgotten_ids}
        answers = self.groups()
        lost = set()
        pinned = {
            other for o, e in enumerate(self.entries) if e.pinned for other in answers.group_of(o)
        }
        for ordinal, event in enumerate(self.entries):
            if event.id in forgotten and ordinal not in pinned:
                lost |= answers.group_of(ordinal)
        gone = [self.entries[ordinal] for ordinal in sorted(lost)]
        cuts = cut_points(list(map(link_of, self.entries)))
        self.entries = [event for ordinal, event in enumerate(self.entries) if ordinal not in lost]
        if record.summary is not None and gone:
            trust = min(event.message.authority for event in gone)
            ids = tuple(event.id for event in gone)
            summary = SummaryEvent(record.summary, ids, trust=trust, id=record.id)
            given = {
                "timestamp": record.timestamp,
                "source": record.source,
                "pinned": record.pinned,
            }
            cut = max(each for each in cuts if each <= max(lost) + 1)
            place = cut - len([ordinal for ordinal in lost if ordinal < cut])
            self.entries.insert(place, replace(summary, **given))


def kept_of(plain):
    """Return the positions of what no condenser forgets, by a look at all events."""
    events = plain.shown()
    waiting = plain.waiting()
    kept = {place for place, event in enumerate(events) if event.pinned or is_system(event)}
    asked = [place for place, event in enumerate(events) if is_asked(event)]
    spoken = [place for place, event in enumerate(events) if is_spoken(event)]
    unanswered = [place for place in asked if not spoken or place > spoken[-1]]
    kept |= {*asked[:1], *asked[-1:], *unanswered, *waiting, *range(len(events))[-1:]}
    if unanswered and spoken:
        earlier = [place for place in asked if place < spoken[-1]]
        if earlier:  # the first question since a reply before the newest of them
            replied = [place for place in spoken if place < earlier[-1]]
            kept.add(spoken[-1])
            kept.add(min(place for place in earlier if not replied or place > replied[-1]))
    answers = [place for place in spoken if asked and place > asked[0]]
    following = [place for place in asked if answers and place > answers[0]]
    kept.update([place for place in answers if not following or place < following[0]][-1:])
    for name in LISTS:
        kept.update([place for place, event in enumerate(events) if name in names_of(event)][-1:])
    groups = plain.groups()
    return {place for each in kept for place in groups.group_of(each)}


def is_system(event):
    return event.message.role == "system"


def is_asked(event):
    return isinstance(event, ActionEvent) and event.message.role == "user"


def is_spoken(event):
    return (
        isinstance(event, ActionEvent)
        and event.call is None
        and event.source == "agent"
        and event.kind == "message"
    )


def names_of(event):
    yield getattr(event, "kind", "")
    if isinstance(event, ActionEvent) and event.call is not None:
        yield event.call.name


class ViewMachine(RuleBasedStateMachine):
    """However a log grows, and whenever its view is read, the view is the one made anew, and as the rules say."""

    @initialize()
    def begin(self):
        self.log = logged()
        self.view = ConversationView()
        self.plain = PlainView()

    @rule(run=ANY_RUNS)
    def append(self, run):
        for event in run:
            taken = self.log.append(event)
            self.view.append(taken)
            self.plain.append(taken)

    @rule(runs=st.lists(ANY_RUNS, min_size=2, max_size=4))
    def append_unread(self, runs):
        for run in runs:
            self.append(run)

    @precondition(lambda self: len(self.view))
    @rule(data=st.data(), again=st.booleans())
    def condense(self, data, again):
        """Append a condensation of some that are shown, and again of those that the newest one forgot."""
        ids = data.draw(
            st.lists(st.sampled_from([event.id for event in self.view]), min_size=1, max_size=3)
        )
        newest = [
            event.forgotten_ids
            for event in self.log
            if isinstance(event, Condensation) and event.forgotten_ids
        ]
        before = newest[-1] if again and newest else ()
        self.append([Condensation((*before, *ids), summary="again")])

    @invariant()
    def agrees(self):
        again = ConversationView(self.log)
        assert list(self.view) == list(again) == self.plain.shown()
        assert self.view.cuts_from(0) == cut_points(list(map(link_of, self.plain.shown())))
        assert [self.view[place] for place in range(len(self.view))] == self.view[:]
        assert {*ViewOutline(self.view).protected} == kept_of(self.plain)

    @invariant()
    def parts_are_whole(self):
        """What is made of a part of it is what is made of all of it, and the newest begin where it may be cut."""
        cuts = {*self.view.cuts_from(0)}
        units = ViewOutline(self.view).units
        for place in range(len(self.view)):
            assert tuple(self.view.unit(place)) in units
            assert place in self.view.unit(place)
            assert self.view.cut_before(place) == max(cut for cut in cuts if cut <= place)


ViewMachine.TestCase.settings = settings(stateful_step_count=12)
TestViewMachine = ViewMachine.TestCase
