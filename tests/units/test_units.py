"""Units: what stays together, where a history may be cut, and repair that never spreads."""

from dataclasses import replace
from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kaosmem.types.content import TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from kaosmem.types.items import ChatMessage, Item
from kaosmem.units import Link, Units, repair
from tests.cuts import cut_points
from tests.units.plain import PlainUnits, matches, open_calls, says_nothing

USER = Link(role="user")


def call(*ids):
    return Link(calls=ids, role="assistant")


def result(*ids):
    return Link(answers=ids, role="tool")


def grouped(*links):
    units = Units()
    for ordinal, link in enumerate(links):
        units.add(ordinal, link)
    return units


CALL_IDS = st.lists(st.sampled_from("abc"), max_size=3).map(tuple)
LINKS = st.builds(
    Link,
    calls=st.one_of(st.just(()), CALL_IDS),
    answers=st.one_of(st.just(()), CALL_IDS),
    served=st.sampled_from([(), (), (), ("p",), ("q",), ("s",), ("t", "s")]),
    role=st.sampled_from(["user", "assistant", "assistant", "tool", "tool", "system", "planner"]),
    mixed=st.booleans(),
)


# A second account of the rules, by sets of entries and scans over all of them.


class UnitsMachine(RuleBasedStateMachine):
    """Any adds, removals, changes and restarts leave Units as the plain account has them."""

    @initialize()
    def begin(self):
        self.units = Units()
        self.plain = PlainUnits()
        self.next = 0

    @rule(link=LINKS)
    def add(self, link):
        joined = {min(self.plain.group_of(other)) for other in self.plain.partners(self.next, link)}
        assert self.units.joins(self.next, link) == joined
        self.units.add(self.next, link)
        self.plain.add(self.next, link)
        self.next += 1

    @precondition(lambda self: self.plain.links)
    @rule(data=st.data())
    def remove(self, data):
        ordinals = data.draw(
            st.sets(st.sampled_from(sorted(self.plain.links)), min_size=1, max_size=3)
        )
        self.units.remove(ordinals)
        self.plain.remove(ordinals)

    @precondition(lambda self: self.plain.links)
    @rule(data=st.data())
    def remove_unit(self, data):
        ordinal = data.draw(st.sampled_from(sorted(self.plain.links)))
        members = self.units.members(ordinal)
        self.units.remove(members)
        self.plain.remove(set(members))

    @precondition(lambda self: self.plain.links)
    @rule(data=st.data(), link=LINKS)
    def replace(self, data, link):
        ordinal = data.draw(st.sampled_from(sorted(self.plain.links)))
        partners = self.plain.partners(ordinal, link) if link != self.plain.links[ordinal] else []
        joined = {min(self.plain.group_of(other)) for other in partners}
        assert self.units.joins(ordinal, link) | {self.units.first(ordinal)} == joined | {
            self.units.first(ordinal)
        }
        self.units.replace(ordinal, link)
        self.plain.place(ordinal, link, partners)

    @rule()
    def restart(self):
        entries = [(o, self.plain.links[o], self.units.first(o)) for o in sorted(self.plain.links)]
        self.units = Units.restore(entries, asking=self.units.asking)

    @invariant()
    def agrees(self):
        for group in self.plain.groups:
            links = {ordinal: self.plain.links[ordinal] for ordinal in group}
            answered = matches(links)
            for ordinal in group:
                assert self.units.members(ordinal) == tuple(sorted(group))
                assert self.units.first(ordinal) == min(group)
                assert self.units.last(ordinal) == max(group)
                assert self.units.is_open(ordinal) == bool(open_calls(links))
                assert self.units.is_waiting(ordinal) == (
                    bool(open_calls(links)) and self.plain.asking in group
                )
                assert self.units.is_orphan(ordinal) == all(
                    says_nothing(link) and not answered[other] for other, link in links.items()
                )
        assert self.units.asking == self.plain.asking


UnitsMachine.TestCase.settings = settings(stateful_step_count=25)
TestUnitsMachine = UnitsMachine.TestCase


@given(st.lists(LINKS, max_size=12))
def test_a_history_may_be_cut_exactly_where_no_unit_has_members_on_both_sides(
    links,
):
    """Cut points are all positions that no unit of the plain account straddles."""
    plain = PlainUnits()
    for ordinal, link in enumerate(links):
        plain.add(ordinal, link)
    expected = [
        position
        for position in range(len(links) + 1)
        if not any(min(group) < position <= max(group) for group in plain.groups)
    ]
    assert cut_points(links) == expected


def test_a_link_is_read_off_the_content_blocks():
    """Calls and results make the link; thinking ties a message to no other one."""
    blocks = (ThinkingBlock("hm", "seal"), ToolUseBlock("1", "find"), ToolUseBlock("2", "read"))
    assert Link.of(ChatMessage("assistant", blocks)) == call("1", "2")
    assert Link.of(ChatMessage("tool", (ToolResultBlock("1", "x"),))) == result("1")
    assert Link.of(ChatMessage("user", (ToolResultBlock("1"), TextBlock("and?")))).mixed
    item = Item("i", "s", "user", "plain", 1, datetime(2026, 1, 1, tzinfo=UTC))
    assert Link.of(item) == USER
    assert Link.of(item).is_plain


RESULTS = st.builds(
    ToolResultBlock, st.sampled_from("abc"), st.sampled_from(["x", "y"]), st.booleans()
)
BLOCKS = st.one_of(
    st.builds(TextBlock, st.sampled_from(["hello", "bye"])),
    st.builds(ToolUseBlock, st.sampled_from("abc"), st.just("find")),
    RESULTS,
    st.builds(ThinkingBlock, st.just("hm"), st.sampled_from(["", "seal"])),
)
MESSAGES = st.builds(
    ChatMessage,
    st.sampled_from(["user", "assistant", "tool", "system"]),
    st.one_of(st.sampled_from(["one", "two"]), st.lists(BLOCKS, max_size=4).map(tuple)),
)
HISTORIES = st.lists(MESSAGES, max_size=10)


def obeys(messages):
    """Return whether each call is directly followed by its one result, in call order, and no result stands alone."""
    expected = []
    for message in messages:
        results = [block for block in message.blocks if isinstance(block, ToolResultBlock)]
        if expected:
            if message.role != "tool" or len(message.content) != 1 or not results:
                return False
            if results[0].tool_use_id != expected.pop(0):
                return False
        elif results:
            return False
        calls = [block.id for block in message.blocks if isinstance(block, ToolUseBlock)]
        if len(set(calls)) < len(calls):
            return False
        expected += calls
    return not expected


@given(HISTORIES)
@settings(max_examples=2 * settings().max_examples)
def test_repair_makes_any_history_valid_and_repairing_again_changes_nothing(
    history,
):
    """Whatever came in, each call is followed by its one result, and a valid history stays as it is."""
    repaired = repair(history)
    assert obeys(repaired)
    assert repair(repaired) == repaired


@given(HISTORIES)
def test_repair_loses_no_words_and_invents_no_results(history):
    """All blocks but results stay, in order; results are those of the history, or say that there is none."""

    def rest(messages):
        blocks = [
            block for m in messages for block in m.blocks if not isinstance(block, ToolResultBlock)
        ]
        return [
            replace(block, id="any") if isinstance(block, ToolUseBlock) else block
            for block in blocks
        ]

    repaired = repair(history)
    assert rest(repaired) == rest(history)
    known = [block for m in history for block in m.blocks if isinstance(block, ToolResultBlock)]
    for block in (
        block for m in repaired for block in m.blocks if isinstance(block, ToolResultBlock)
    ):
        if block in known:
            known.remove(block)
        else:
            assert block.is_error and "no result was recorded" in block.content


@given(HISTORIES)
def test_repair_of_each_unit_alone_gives_the_messages_of_the_whole(
    history,
):
    """Repair is local: no unit's repair depends on what stands outside it."""
    units = grouped(*map(Link.of, history))
    firsts = dict.fromkeys(units.first(ordinal) for ordinal in range(len(history)))
    apart = [m for first in firsts for m in repair([history[o] for o in units.members(first)])]
    assert sorted(map(repr, apart)) == sorted(map(repr, repair(history)))


def test_repair_hands_back_plain_messages_and_well_formed_pairs_as_the_same_objects():
    """What needs no repair is not made anew, so that what was measured about it stays known."""
    history = [
        ChatMessage("user", "find it"),
        ChatMessage("assistant", (TextBlock("looking"), ToolUseBlock("1", "find"))),
        ChatMessage("tool", (ToolResultBlock("1", "here"),)),
    ]
    assert all(after is before for after, before in zip(repair(history), history, strict=True))


def test_calls_that_share_an_id_get_ids_of_their_own():
    """Of two calls with one id in a message the first keeps it and its result, the second is said to have none."""
    asked = ChatMessage(
        "assistant",
        (ToolUseBlock("1", "find"), ToolUseBlock("1", "read"), ToolUseBlock("1-2", "f")),
    )
    results = [ChatMessage("tool", (ToolResultBlock(call, call),)) for call in ("1", "1-2")]
    repaired = repair([asked, *results])
    assert [block.id for block in repaired[0].blocks] == ["1", "1-3", "1-2"]
    assert repaired[1] == results[0]
    assert "no result" in repaired[2].text
    assert repaired[3] == results[1]


def test_a_late_result_moves_up_and_what_came_between_moves_down():
    """A user message logged inside an open call comes after the result."""
    asked = ChatMessage("assistant", (ToolUseBlock("1", "find"), ToolUseBlock("2", "read")))
    between = ChatMessage("user", "hurry")
    late = ChatMessage(
        "user", (ToolResultBlock("2", "b"), TextBlock("by the way"), ToolResultBlock("1", "a"))
    )
    assert repair([asked, between, late]) == [
        asked,
        ChatMessage("tool", (ToolResultBlock("1", "a"),)),
        ChatMessage("tool", (ToolResultBlock("2", "b"),)),
        between,
        ChatMessage("user", (TextBlock("by the way"),)),
    ]
