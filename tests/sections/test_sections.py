"""Sections: specs that are checked, and what a section proposes for a window."""

import pickle
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kaosmem.errors import (
    InvalidArgumentError,
    InvalidNameError,
    NotFoundError,
    SectionFullError,
    UnsupportedVersionError,
)
from kaosmem.language.query import Query
from kaosmem.sections.default_sections import DEFAULT_SECTIONS
from kaosmem.sections.operations import parse_operation
from kaosmem.sections.section import Section
from kaosmem.sections.spec import SectionSpec, check_specs
from kaosmem.types.content import TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from kaosmem.types.items import Item
from kaosmem.units import Link
from tests.cuts import cut_points

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def item(
    item_id,
    content="plain words",
    tokens=10,
    *,
    role="user",
    priority=0,
    pinned=False,
):
    return Item(item_id, "s", role, content, tokens, NOW, priority=priority, pinned=pinned)


def call(item_id, *calls, tokens=10):
    return item(
        item_id, tuple(ToolUseBlock(name, "find") for name in calls), tokens, role="assistant"
    )


def result(item_id, *calls, tokens=10):
    return item(
        item_id, tuple(ToolResultBlock(name, "found") for name in calls), tokens, role="tool"
    )


def section_of(*items, **spec):
    section = Section(SectionSpec("s", **spec))
    for each in items:
        section.add(each)
    return section


def ids(candidates):
    return [" ".join(each.id for each in candidate.items) for candidate in candidates]


# specs


@pytest.mark.parametrize(
    ("fields", "error", "remedy"),
    [
        ({"name": "../up"}, InvalidNameError, "safe_id"),
        ({"budget": -1}, InvalidArgumentError, "whole number of tokens"),
        ({"budget": 1.5}, InvalidArgumentError, "whole number of tokens"),
        ({"budget": True}, InvalidArgumentError, "whole number of tokens"),
        ({"budget": 2**63}, InvalidArgumentError, "budget"),
        ({"priority": 2**63}, ValueError, "priority"),
        ({"floor": -0.1}, ValueError, "from 0 to 1"),
        ({"priority": "high"}, ValueError, "a whole number"),
        ({"floor": 1.1}, ValueError, "from 0 to 1"),
        ({"floor": float("nan")}, ValueError, "from 0 to 1"),
        ({"recall": -0.1}, ValueError, "from 0 to 1"),
        ({"recall": "some"}, ValueError, "from 0 to 1"),
        ({"placement": "footer"}, ValueError, "static, history, query"),
        ({"eviction": "random"}, ValueError, "fifo"),
        ({"persistence": "disk"}, ValueError, "stream, none"),
        ({"retrieval_threshold": -1}, ValueError, "from 0 up"),
        ({"recent": 1.0}, ValueError, "from 0 up"),
        ({"max_items": 0}, ValueError, "from 1 up"),
        ({"max_items": 3, "eviction": "none"}, ValueError, "a policy that evicts"),
        ({"header": "two\nlines"}, ValueError, "one line"),
        ({"header": " "}, ValueError, "one line"),
    ],
)
def test_a_spec_that_makes_no_sense_is_refused_with_its_remedy(fields, error, remedy):
    """Each field is checked when the spec is made, and the message says what would do."""
    with pytest.raises(error, match=remedy) as caught:
        SectionSpec(**{"name": "s", **fields})
    assert isinstance(caught.value, ValueError)


def test_a_spec_survives_the_log_without_its_ranker():
    """What `to_dict` stores, `from_dict` gives back; a field from the future is refused."""
    for spec in DEFAULT_SECTIONS:
        assert SectionSpec.from_dict(spec.to_dict(), ranker=spec.ranker) == spec
    with pytest.raises(UnsupportedVersionError, match="newer kaosmem"):
        SectionSpec.from_dict({"name": "s", "colour": "red"})


def test_specs_must_differ_in_name_and_share_no_more_than_the_window():
    """A repeated name and floors above 1 are refused; floors of exactly 1 are not."""
    tenths = [SectionSpec(f"s{n}", floor=0.1) for n in range(10)]
    assert list(check_specs(tenths)) == [f"s{n}" for n in range(10)]
    with pytest.raises(ValueError, match="rename one"):
        check_specs([SectionSpec("s"), SectionSpec("s")])
    with pytest.raises(ValueError, match="lower them"):
        check_specs([*tenths, SectionSpec("last", floor=0.01)])


# holding


def test_an_item_larger_than_its_section_is_refused_by_every_policy_but_none():
    """The refusal says what would help, and evicts nothing first."""
    for policy in ("fifo", "lifo", "lru", "lfu", "priority", "refuse"):
        section = section_of(item("a"), budget=20, eviction=policy)
        with pytest.raises(SectionFullError, match="split it, or raise"):
            section.add(item("b", tokens=21))
        assert [each.id for each in section] == ["a"]
    assert section_of(item("a", tokens=21), budget=20, eviction="none").used == 21


@pytest.mark.parametrize(
    ("policy", "advice"),
    [
        ("refuse", "choose a policy that evicts"),
        ("fifo", "unpin or remove items"),
        ("lru", "unpin or remove items"),
    ],
)
def test_a_full_section_gives_advice_for_its_policy(policy, advice):
    """Only a policy that evicts nothing is to be replaced by one that does."""
    section = section_of(item("a", tokens=20, pinned=True), budget=20, eviction=policy)
    with pytest.raises(SectionFullError, match=advice) as raised:
        section.add(item("b", tokens=5))
    assert ("choose a policy" in str(raised.value)) == (policy == "refuse")


def test_an_update_that_shrinks_never_needs_room():
    """A section that came to hold too much, by a smaller budget or another counter, can always be shrunk."""
    wide = section_of(item("a"), item("b"), eviction="refuse")
    spec = SectionSpec("s", 12, eviction="refuse")
    section = Section.restore(spec, wide.state(), wide.held.entries())
    section.update(item("a", "less", 5))
    assert section.used == 15


def test_entries_are_those_of_the_moment_they_were_asked_for():
    """A snapshot may be written while the section goes on."""
    section = section_of(item("a"), item("b"))
    entries = section.held.entries()
    section.remove("a")
    section.update(item("b", "changed"))
    assert [(entry["id"], entry["content"]) for entry in entries] == [
        ("a", "plain words"),
        ("b", "plain words"),
    ]


def test_peeking_is_no_use_and_getting_is():
    """Only `get` keeps an item from being the least recently used."""
    section = section_of(item("a"), item("b"), budget=20, eviction="lru")
    assert section.peek("a").id == "a"
    section.get("a")
    section.peek("b")
    section.add(item("c"))
    assert [each.id for each in section] == ["a", "c"]
    with pytest.raises(NotFoundError, match="check its id"):
        section.peek("b")


def test_a_change_from_the_future_is_not_guessed_at():
    """A journal with an unknown op is refused by name, as is a compaction of another version."""
    with pytest.raises(UnsupportedVersionError, match="'fold'"):
        parse_operation("s", "fold", {})
    with pytest.raises(UnsupportedVersionError, match="newer kaosmem"):
        parse_operation("s", "compact", {"version": 2, "replaced": [], "items": []})


def test_the_newest_user_item_is_one_that_says_something():
    """Tool results in user role are no question; an update may make or unmake one."""
    section = section_of(item("q1"), item("q2"), item("a", role="assistant"), placement="history")
    section.add(replace(result("r", "1"), role="user"))
    assert section.newest_question == section.peek("q2")
    section.update(replace(section.peek("q2"), role="assistant"))
    assert section.newest_question == section.peek("q1")
    section.update(replace(section.peek("a"), role="user"))
    section.update(replace(section.peek("q2"), role="user"))
    assert section.newest_question == section.peek("a")
    section.remove("a")
    assert section.newest_question == section.peek("q2")


# proposing


def test_units_too_large_for_the_cap_keep_no_room_from_those_that_fit():
    """However many units are larger than the cap and better, one that fits is proposed too; their number is bounded."""
    section = section_of(
        item("small", "other things", 10),
        *(item(f"i{n}", "the merger clause " * 3, 150) for n in range(30)),
        retrieval_threshold=5,
    )
    assert "small" in ids(section.proposer.propose(Query("merger"), cap=100).candidates)
    many = section_of(
        *(item(f"i{n}", "the merger clause", 150) for n in range(2_000)), retrieval_threshold=5
    )
    assert len(many.proposer.propose(Query("merger"), cap=100).candidates) < 400


def test_a_history_proposes_its_tail_newest_first_and_says_where_it_may_be_cut():
    """The newest question and the newest unit must be shown; a cut never parts a call from its result."""
    section = section_of(
        item("old", role="assistant"),
        item("pin", pinned=True, role="assistant"),
        item("ask"),
        call("c1", "1"),
        item("aside", role="system"),
        result("r1", "1"),
        result("lost", "9"),
        item("done", role="assistant"),
        placement="history",
    )
    candidates = section.proposer.propose(Query(""), cap=30).candidates
    assert ids(candidates) == ["done", "ask", "pin", "lost", "c1 r1", "aside"]
    assert [each.must for each in candidates] == [True, True, True, False, False, False]
    assert [each.orphan for each in candidates] == [False, False, False, True, False, False]
    assert {ids((each,))[0]: each.cut for each in candidates} == {
        "done": True,
        "lost": True,
        "aside": False,
        "c1 r1": True,
        "ask": True,
        "pin": True,
    }


ROLES = st.sampled_from(["user", "assistant", "system"])
SPOKEN = st.one_of(
    st.tuples(
        ROLES, st.sampled_from(["merger terms", "small talk", "merger merger", "nothing", ""])
    ),
    st.sampled_from("abc").map(lambda name: ("assistant", (ToolUseBlock(name, "find", "merger"),))),
    st.sampled_from("abc").map(
        lambda name: ("assistant", (ThinkingBlock("hm", "seal"), ToolUseBlock(name, "find")))
    ),
    st.sampled_from("abc").map(lambda name: ("tool", (ToolResultBlock(name, "terms"),))),
    st.sampled_from("abc").map(
        lambda name: ("user", (ToolResultBlock(name, "terms"), TextBlock("talk")))
    ),
)
ITEMS = st.lists(
    st.tuples(SPOKEN, st.integers(0, 30), st.sampled_from([False] * 7 + [True])), max_size=25
)
SPECS = st.builds(
    SectionSpec,
    st.just("s"),
    placement=st.sampled_from(["static", "history", "query"]),
    retrieval_threshold=st.integers(0, 8),
    recent=st.integers(0, 3),
    recall=st.sampled_from([0.0, 0.25, 1.0]),
)


def filled(spec, made):
    section = Section(spec)
    for n, ((role, content), tokens, pinned) in enumerate(made):
        section.add(item(f"i{n}", content, tokens, role=role, pinned=pinned))
    return section


@given(SPECS, ITEMS, st.sampled_from(["merger", "talk terms", "zebra", ""]), st.integers(0, 150))
@settings(max_examples=2 * settings().max_examples)
def test_a_proposal_is_whole_units_in_order_of_want(spec, made, query, cap):
    """Every must is there and first, no item is proposed twice, and it ends at twice the cap or with the section."""
    section = filled(spec, made)
    proposal = section.proposer.propose(Query(query), cap=cap)
    candidates = proposal.candidates
    proposed = [each.id for candidate in candidates for each in candidate.items]
    assert len(set(proposed)) == len(proposed)
    assert [candidate.rank for candidate in candidates] == list(range(1, len(candidates) + 1))
    assert proposal.taken == len(section)
    musts = [candidate.must for candidate in candidates]
    assert musts == sorted(musts, reverse=True)
    pinned = {
        each.id
        for each in section
        if each.pinned or (spec.placement == "static" and each.role == "system")
    }
    shown = {
        each.id
        for candidate in candidates
        if candidate.must or candidate.orphan
        for each in candidate.items
    }
    assert pinned - shown <= {each.id for each in section if each.role == "tool"}
    everything = sum(len(candidate.items) for candidate in candidates) == len(section)
    walked = sum(max(1, candidate.tokens) for candidate in candidates)
    assert everything or walked >= 2 * cap
    for candidate in candidates:
        place = [each.id for each in section].index(candidate.items[0].id)
        assert candidate.position == place


@given(ITEMS, st.integers(0, 200), st.sampled_from(["merger", ""]))
@example(
    [
        (("assistant", (ToolUseBlock("a", "find", "merger"),)), 0, False),
        (("assistant", (ToolUseBlock("a", "find", "merger"),)), 0, False),
        (("user", "merger terms"), 0, False),
        (("tool", (ToolResultBlock("a", "terms"),)), 0, False),
        (("tool", (ToolResultBlock("a", "terms"),)), 17, False),
    ],
    9,
    "merger",
)
@settings(max_examples=2 * settings().max_examples)
def test_a_history_may_be_cut_where_units_allow_it(made, cap, query):
    """Walking back finds the cut points of the whole history, but for units that are shown anyway."""
    section = filled(SectionSpec("s", placement="history"), made)
    candidates = section.proposer.propose(Query(query), cap=cap).candidates
    shown_anyway = {
        each.id for candidate in candidates if candidate.must for each in candidate.items
    }
    links = [Link(role="system") if each.id in shown_anyway else Link.of(each) for each in section]
    whole = (
        filled(SectionSpec("s", placement="history"), made)
        .proposer.propose(Query(""), cap=10_000)
        .candidates
    )
    spans = [
        (candidate.position, max(int(each.id[1:]) for each in candidate.items))
        for candidate in whole
        if candidate.items[0].id not in shown_anyway
    ]
    walked = {candidate.position for candidate in candidates if not candidate.must}
    for candidate in candidates:
        legal = not any(first < candidate.position <= last for first, last in spans)
        assert legal or not candidate.cut
        if (
            candidate.position in walked
            and candidate.position >= min(walked)
            and len(candidates) == len(whole)
        ):
            assert candidate.cut == legal
    if not shown_anyway:
        assert {c.position for c in whole if c.cut} == set(cut_points(links)) & {
            c.position for c in whole
        }


@given(SPECS, ITEMS, st.sampled_from(["merger", "talk terms", ""]), st.integers(0, 150))
def test_the_same_section_proposes_the_same_whatever_led_to_it(spec, made, query, cap):
    """Proposing changes nothing, and a restart, earlier queries and detours leave no trace in a proposal."""
    section = filled(spec, made)
    other = Section(spec)
    for each in section:
        other.add(
            replace(each, content="a detour" if isinstance(each.content, str) else each.content)
        )
        other.proposer.propose(Query("merger detour"), cap=cap)
        other.update(each)
    before = section.state(), pickle.dumps(list(section.held.entries()))
    proposals = [
        section.proposer.propose(Query(query), cap=cap),
        section.proposer.propose(Query(query), cap=cap),
        other.proposer.propose(Query(query), cap=cap),
        Section.restore(spec, section.state(), section.held.entries()).proposer.propose(
            Query(query), cap=cap
        ),
    ]
    assert all(proposal == proposals[0] for proposal in proposals)
    assert (section.state(), pickle.dumps(list(section.held.entries()))) == before
