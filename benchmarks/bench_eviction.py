"""What an evicting add, a proposal and a growing unit cost, and that it does not depend on how much is held."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable
from datetime import UTC, datetime
from statistics import median
from time import process_time

import pytest

from kaosmem.language.query import Query
from kaosmem.sections.eviction import POLICIES
from kaosmem.sections.section import Section
from kaosmem.sections.spec import SectionSpec
from kaosmem.types.items import Item
from kaosmem.units import Link, Units

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TOKENS = 10
EVICTING = [name for name, policy in POLICIES.items() if policy.key]
WORDS = [
    "lease",
    "merger",
    "party",
    "clause",
    "notice",
    "tenant",
    "breach",
    "remedy",
    "waiver",
    "escrow",
]


def items(first: int, count: int) -> list[Item]:
    rng = random.Random(first)
    return [
        Item(
            f"i{n}",
            "s",
            "user",
            " ".join(rng.choices(WORDS, k=6)),
            TOKENS,
            NOW,
            priority=rng.randrange(3),
        )
        for n in range(first, first + count)
    ]


def full_section(policy: str, size: int) -> Section:
    """Return a section that holds as many items as it can, some of them used."""
    section = Section(SectionSpec("s", size * TOKENS, eviction=policy, persistence="none"))
    for item in items(0, size):
        section.add(item)
    rng = random.Random(size)
    for _ in range(100):
        section.use(f"i{rng.randrange(size)}" for _ in range(10))
    return section


def add_all(section: Section, newcomers: list[Item]) -> None:
    """Add items above all that is held in priority, so that each policy makes room for each."""
    for item in newcomers:
        section.add(item)


def cpu_us(action: Callable[[], object], operations: int) -> float:
    gc.collect()
    begin = process_time()
    action()
    return (process_time() - begin) / operations * 1e6


@pytest.mark.parametrize("policy", EVICTING)
def test_each_evicting_add_takes_one_out(policy: str) -> None:
    section = full_section(policy, 200)
    before = {item.id for item in section}
    newcomers = [Item(f"new{n}", "s", "user", "text", TOKENS, NOW, priority=3) for n in range(50)]
    add_all(section, newcomers)
    assert section.used == 200 * TOKENS
    assert len(section.archive) == 50
    assert {item.id for item in section} | {
        version.item.id for version in section.archive.in_memory()
    } == before | {item.id for item in newcomers}


@pytest.mark.timed
def test_an_evicting_add_costs_the_same_at_any_size(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = (1_000, 100_000)
    rounds = 7
    batch = 500
    table = [
        f"{'policy':10}"
        + "".join(f"{size:>12,}" for size in sizes)
        + f"{'ratio':>8}   (us CPU per add)"
    ]
    ratios = {}
    for policy in EVICTING:
        sections = {size: full_section(policy, size) for size in sizes}
        costs: dict[int, list[float]] = {size: [] for size in sizes}
        for turn in range(rounds + 1):
            newcomers = [
                Item(f"new{turn}.{n}", "s", "user", "text", TOKENS, NOW, priority=3)
                for n in range(batch)
            ]
            for size, section in sections.items():  # in turn, so that a slow moment meets both
                cost = cpu_us(lambda s=section, new=newcomers: add_all(s, new), batch)
                if turn:  # the first one sorts the heap
                    costs[size].append(cost)
        small, large = (median(costs[size]) for size in sizes)
        ratios[policy] = large / small
        table.append(f"{policy:10}{small:12.2f}{large:12.2f}{large / small:8.2f}")
    with capsys.disabled():
        print("", *table, sep="\n")
    assert max(ratios.values()) <= 4


@pytest.mark.timed
def test_a_proposal_costs_the_same_at_any_size(capsys: pytest.CaptureFixture[str]) -> None:
    table = [
        f"{'placement':10}{'1,000':>12}{'100,000':>12}{'ratio':>8}   (ms CPU per proposal, cap "
        "4,000)"
    ]
    for placement in ("static", "history"):
        costs = []
        for size in (1_000, 100_000):
            spec = SectionSpec("s", placement=placement, eviction="none", retrieval_threshold=10**6)
            section = Section(spec)
            add_all(section, items(0, size))
            runs = [
                cpu_us(lambda s=section: s.propose(Query("merger"), cap=4_000), 1_000)
                for _ in range(9)
            ]
            costs.append(median(runs))
        table.append(f"{placement:10}{costs[0]:12.2f}{costs[1]:12.2f}{costs[1] / costs[0]:8.2f}")
        assert costs[1] <= 2 * costs[0]
    with capsys.disabled():
        print("", *table, sep="\n")


def answered(steps: int) -> list[Link]:
    """Return the calls of one answer, each followed by its result."""
    pairs = (
        (Link((f"c{n}",), served=("b",), role="assistant"), Link(answers=(f"c{n}",), role="tool"))
        for n in range(steps)
    )
    return [link for pair in pairs for link in pair]


def answered_late(steps: int) -> list[Link]:
    """Return the calls of one answer, then the results of all of them."""
    calls = [Link((f"c{n}",), served=("b",), role="assistant") for n in range(steps)]
    return [*calls, *(Link(answers=(f"c{n}",), role="tool") for n in range(steps))]


def grouped(links: list[Link]) -> Units:
    units = Units()
    for ordinal, link in enumerate(links):
        units.add(ordinal, link)
    return units


@pytest.mark.parametrize("history", [answered, answered_late])
def test_a_long_unit_holds_all_its_members(history: Callable[[int], list[Link]]) -> None:
    links = history(200)
    assert grouped(links).members(0) == tuple(range(len(links)))


@pytest.mark.timed
@pytest.mark.parametrize("history", [answered, answered_late])
def test_a_growing_unit_costs_the_same_per_entry(
    history: Callable[[int], list[Link]], capsys: pytest.CaptureFixture[str]
) -> None:
    costs = []
    for steps in (2_000, 20_000):
        links = history(steps)
        costs.append(
            median(cpu_us(lambda given=links: grouped(given), len(links)) for _ in range(5))
        )
    with capsys.disabled():
        print(
            f"\n{history.__name__}: {costs[0]:.2f} and {costs[1]:.2f} us CPU per entry at 2,000 "
            "and 20,000 steps"
        )
    assert costs[1] <= 3 * costs[0]
