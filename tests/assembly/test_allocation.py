"""Grants: what each section gets of a window."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaosmem import SectionSpec, SessionMemory, WindowTooSmallError
from kaosmem.assembly import offers
from kaosmem.assembly.allocation import TokenNeed, allocate, scaled_floors


@st.composite
def requests(draw):
    count = draw(st.integers(1, 5))
    specs = []
    needs = {}
    for index in range(count):
        spec = SectionSpec(
            f"s{index}",
            draw(st.none() | st.integers(0, 300)),
            priority=draw(st.integers(0, 2)),
            floor=draw(st.sampled_from([0, 0.1, 0.2])),
            placement=draw(st.sampled_from(["static", "history", "query"])),
        )
        specs.append(spec)
        if draw(st.booleans()):
            must = draw(st.sampled_from([0, 0, 20, 60]))
            needs[spec.name] = TokenNeed(must, must + draw(st.integers(0, 400)))
    return specs, needs, draw(st.integers(0, 800))


def most(spec, need):
    return need.want if spec.budget is None else min(need.want, max(spec.budget, need.must))


@given(requests())
def test_grants_cover_musts_and_floors_and_stay_within_the_window(request):
    """Every section gets its must, its floor where it wants it, and no more than it wants; all get what there is."""
    specs, needs, budget = request
    musts = sum(need.must for need in needs.values())
    budget = max(budget, musts)
    grants = allocate(specs, needs, budget)
    assert grants.keys() == needs.keys()
    assert sum(grants.values()) <= budget
    floors = sum(int(spec.floor * budget) for spec in specs if spec.name in needs)
    for spec in specs:
        if spec.name in needs:
            need = needs[spec.name]
            assert need.must <= grants[spec.name] <= most(spec, need)
            if musts + floors <= budget:
                assert grants[spec.name] >= min(int(spec.floor * budget), most(spec, need))


@given(requests())
def test_nothing_is_kept_back_that_somebody_wants(request):
    """If a token for each section is left, no history and no section of the block wants more."""
    specs, needs, budget = request
    if sum(need.must for need in needs.values()) <= budget:
        grants = allocate(specs, needs, budget)
        if sum(grants.values()) <= budget - len(grants):
            for spec in specs:
                if spec.name in needs and spec.placement != "static":
                    assert grants[spec.name] == most(spec, needs[spec.name])


@given(requests())
def test_a_higher_priority_is_served_first(request):
    """Above floors and musts, a section gets something only when every one before it has all that it wants.

    Histories come before sections of the block, and a higher priority before a lower one.
    """
    specs, needs, budget = request
    specs = [spec for spec in specs if spec.name in needs and spec.placement != "static"]
    needs = {spec.name: needs[spec.name] for spec in specs}
    if sum(need.must for need in needs.values()) > budget:
        return
    grants = allocate(specs, needs, budget)
    for higher in specs:
        for lower in specs:
            order = [(spec.placement == "query", -spec.priority) for spec in (higher, lower)]
            if order[0] < order[1] and grants[higher.name] < most(higher, needs[higher.name]):
                floor = min(int(lower.floor * budget), most(lower, needs[lower.name]))
                assert grants[lower.name] <= max(floor, needs[lower.name].must)


def test_static_sections_leave_room_for_the_floors_and_musts_of_others():
    """A long playbook is trimmed to what floors and musts leave, and gets the rest where nobody claims it."""
    playbooks = SectionSpec("playbooks", placement="static", priority=9)
    messages = SectionSpec("messages", placement="history", floor=0.35)
    documents = SectionSpec("documents", floor=0.25)
    needs = {
        "playbooks": TokenNeed(0, 5_000),
        "messages": TokenNeed(100, 5_000),
        "documents": TokenNeed(0, 5_000),
    }
    assert allocate([playbooks, messages, documents], needs, 1_000) == {
        "playbooks": 400,
        "messages": 350,
        "documents": 250,
    }
    needs = {
        "playbooks": TokenNeed(0, 5_000),
        "messages": TokenNeed(100, 120),
        "documents": TokenNeed(0, 30),
    }
    assert allocate([playbooks, messages, documents], needs, 1_000) == {
        "playbooks": 850,
        "messages": 120,
        "documents": 30,
    }


def test_a_section_is_sure_of_the_tokens_that_its_need_says():
    """They are reserved as a floor is, and the section gets no more of them than it wants."""
    documents = SectionSpec("documents", priority=5)
    facts = SectionSpec("facts", priority=4)
    needs = {"documents": TokenNeed(0, 5_000), "facts": TokenNeed(20, 200, sure=120)}
    grants = allocate([documents, facts], needs, 1_000)
    assert grants == {"documents": 880, "facts": 120}
    needs["facts"] = TokenNeed(20, 60, sure=120)
    assert allocate([documents, facts], needs, 1_000) == {"documents": 940, "facts": 60}


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_floors_that_sum_above_the_window_are_scaled_to_it(floors):
    """Each keeps its proportion, so that none is served before another's floor; those that fit stay as they are."""
    specs = [SectionSpec(f"s{number}", floor=floor) for number, floor in enumerate(floors)]
    scaled = scaled_floors(specs)
    if sum(floors) <= 1:
        assert scaled == specs
    else:
        assert sum(spec.floor for spec in scaled) == pytest.approx(1)
        assert [spec.floor * sum(floors) for spec in scaled] == pytest.approx(floors)


@pytest.mark.parametrize("format_", ["text", "openai", "anthropic"])
async def test_tokens_that_add_up_are_packed_once(format_, monkeypatch):
    """With a counter that is additive, what is chosen fits at once: nothing is packed again with less."""
    memory = SessionMemory.test_mode(counter="estimate")
    memory.add("messages", "How long is the notice?", role="user")
    memory.add("documents", "Notice is thirty days.")
    memory.add("findings", "Rent is due.")
    made = []
    packer = offers.WindowPacker
    monkeypatch.setattr(
        offers, "WindowPacker", lambda *given, **named: made.append(1) or packer(*given, **named)
    )
    assembled = 0
    for budget in range(1, 90):
        try:
            await memory.assemble_context(budget=budget, format=format_)
        except WindowTooSmallError:
            made.clear()
            continue
        assembled += 1
        assert len(made) == 1, budget
        made.clear()
    assert assembled > 30


@given(requests(), st.integers(0, 100))
def test_a_larger_window_never_grants_a_history_less(request, more):
    specs, needs, budget = request
    if sum(need.must for need in needs.values()) <= budget:
        specs = scaled_floors([spec for spec in specs if spec.name in needs])
        less = allocate(specs, needs, budget)
        greater = allocate(specs, needs, budget + more)
        assert all(
            less[spec.name] <= greater[spec.name] for spec in specs if spec.placement == "history"
        )


def test_floors_of_others_take_nothing_from_a_history_as_the_window_grows():
    """Five floors that each grow by a token at once do not shorten a tail."""
    history = SectionSpec("messages", placement="history")
    specs = [history, *(SectionSpec(f"s{number}", floor=0.15) for number in range(5))]
    needs = {spec.name: TokenNeed(0, 1_000) for spec in specs}
    grants = [allocate(specs, needs, budget)["messages"] for budget in range(400)]
    assert grants == sorted(grants)


async def test_a_unit_that_is_too_large_leaves_its_room_to_the_next():
    """The search for units that fit goes on behind one that does not."""
    memory = SessionMemory.test_mode()
    small = memory.add("documents", "Rooms need no notice.")
    memory.add("documents", "The notice of the lease is long. " * 40)
    context = await memory.assemble_context("notice lease long", budget=60)
    assert context.items == (small,)


@pytest.mark.parametrize("budget", [100, 150, 250])
async def test_a_section_takes_what_another_leaves(budget):
    """A letter does not fit half of the window, so that notes may fill all of it."""
    specs = [SectionSpec("letters", floor=0.5), SectionSpec("notes", floor=0.5)]
    memory = SessionMemory.test_mode(sections=specs)
    memory.add("letters", "The rent is high. " * 60)
    memory.add_many("notes", [f"The rent of room {n} is {n} euros." for n in range(10, 60)])
    context = await memory.assemble_context("What is the rent?", budget=budget)
    assert context.by_section["letters"].items == 0
    assert context.used > 0.9 * budget


def test_a_history_is_served_before_a_section_of_the_block():
    """A fault that serves the block first is caught here alone; the properties above miss it."""
    documents = SectionSpec("documents", priority=9)
    messages = SectionSpec("messages", placement="history", priority=1)
    needs = {name: TokenNeed(0, 100) for name in ("documents", "messages")}
    assert allocate([documents, messages], needs, 100) == {"documents": 0, "messages": 100}
