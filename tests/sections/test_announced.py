"""Announced versions: what holds until they begin, and holds on if they are taken back, against a plain model."""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kaosmem import SectionSpec, SessionMemory, SessionOptions, WindowTooSmallError
from kaosmem.persistence import log as session_log
from kaosmem.persistence.storage.objects import IsolatedMemoryFileSystem
from kaosmem.types.versions import day_text

SPECS = (
    SectionSpec("rules", placement="static"),
    SectionSpec("findings", max_items=3, recall=1.0),
    SectionSpec("flat", recall=0.0, dates="none"),
    SectionSpec("messages", placement="history"),
)
NAMES = ("rules", "findings", "flat")
QUERY = "Where does Ann live?"


def day(number):
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=number)


@dataclass
class Fact:
    """A version as a plain model has it, with the days on which things happened to it.

    ended: by a successor. removed: also by its time to live.
    """

    id: str
    begin: int
    stated: bool
    told: int
    dies: int | None
    ended: bool = False
    removed: bool = False
    forgotten: bool = False

    @property
    def is_gone(self):
        return self.ended or self.removed or self.forgotten


class Model:
    """The versions of one key in one section."""

    def __init__(self):
        self.facts = []

    def at_hand(self, now):
        """Return the versions that hold or are yet to begin, in the order in which they begin."""
        by_begin = {each.begin: each for each in self.facts if not each.is_gone}
        left = [by_begin[begin] for begin in sorted(by_begin)]
        begun = [each for each in left if each.begin <= now]
        return [*begun[-1:], *(each for each in left if each.begin > now)]

    def settle(self, now, live):
        """Let times pass: an announced version begins, unless its time to live is over before."""
        for each in self.facts:
            if each.dies is not None and each.dies <= min(now, each.begin):
                each.removed = True
        begun = [each for each in self.facts if not each.is_gone and each.begin <= now]
        begun = [each for each in begun if each.id in live]
        for each in sorted(begun, key=lambda each: each.begin)[:-1]:
            each.ended = True
        for each in self.facts:
            if each.dies is not None and each.dies <= now:
                each.removed = True

    def tell(self, fact, live):
        """Take a version in, which ends others that are live."""
        for each in self.facts:
            if each.is_gone or each.id not in live:
                continue
            if fact.begin > fact.told:
                each.ended = each.begin == fact.begin
            else:
                each.ended = each.begin <= fact.told or not fact.stated
        self.facts.append(fact)


class World:
    """A session that is told where Ann lives, and a model for each of its sections.

    Of the findings, some are evicted for room. They have no time to live.
    """

    def __init__(self):
        self.place = IsolatedMemoryFileSystem()
        self.now = 0
        self.models = {name: Model() for name in NAMES}
        self.number = 0
        # What was at hand on earlier days: the ids of each section.
        self.earlier = []

    def open(self, **given):
        options = SessionOptions(clock=lambda: day(self.now))
        return SessionMemory.open(self.place, "s", sections=SPECS, options=options, **given)

    async def run(self, steps):
        self.opened = self.open()
        self.memory = await self.opened.__aenter__()
        self.memory.add("messages", "Hello.", role="user")
        for op, number, ttl in steps:
            await self.step(op, number, ttl)
            self.settle()
        await self.check()
        await self.opened.__aexit__(None, None, None)

    def settle(self):
        for name, model in self.models.items():
            model.settle(self.now, {item.id for item in self.memory[name]})

    async def step(self, op, number, ttl):
        match op:
            case "announce":
                self.tell(self.now + 1 + number, ttl=ttl)
            case "tell":
                self.tell(self.now)
            case "unstated":
                if self.has_all_announced():
                    self.tell(self.now, is_stated=False)
            case "remove" | "forget":
                await self.take_back(op, number)
            case "wait":
                self.now += 1 + number
            case "note":
                self.number += 1
                self.memory.add("findings", f"Invoice {self.number} is paid.")
            case "reopen":
                await self.opened.__aexit__(None, None, None)
                self.opened = self.open()
                self.memory = await self.opened.__aenter__()
            case "ask":
                await self.check()
            case "look":
                await self.memory.save()
                async with self.open(read_only=True) as reader:
                    await self.check_now(reader)

    def has_all_announced(self):
        """Return whether no announced version was evicted: such a one is not taken back by a new one."""
        at_hand = self.models["findings"].at_hand(self.now)
        return all(each.id in self.memory for each in at_hand if each.begin > self.now)

    def tell(self, begin, *, is_stated=True, ttl=None):
        self.number += 1
        metadata = {"timestamp": day(begin).isoformat()} if is_stated else None
        for name, model in self.models.items():
            is_mortal = ttl is not None and name != "findings"
            ttl_s = (ttl + 1) * 86_400 if is_mortal else None
            dies = self.now + ttl + 1 if is_mortal else None
            live = {item.id for item in self.memory[name]}
            text = f"Ann lives in house{self.number}{name}."
            item_id = f"{name}{self.number}"
            self.memory.add(name, text, id=item_id, key="home", metadata=metadata, ttl_s=ttl_s)
            model.tell(Fact(item_id, begin, is_stated, self.now, dies), live)

    async def take_back(self, op, number):
        """Remove or forget one of the newest versions."""
        for model in self.models.values():
            left = [each for each in model.facts if not each.is_gone]
            if not left:
                continue
            fact = left[-1 - number % len(left)]
            if op == "forget":
                await self.memory.forget(fact.id)
                fact.forgotten = True
            elif fact.id in self.memory:
                self.memory.remove(fact.id)
                fact.removed = True

    async def check(self):
        self.settle()
        await self.check_now(self.memory)
        await self.check_window()
        for then, expected in self.earlier:
            view = self.memory.at(known_at=day(then))
            for name in ("rules", "flat"):
                known = {each.id: each for each in self.models[name].facts}
                left = [each for each in expected[name] if self.may_be_shown(known[each])]
                assert await self.ids(view, name) == left
        at_hand = {}
        for name, model in self.models.items():
            at_hand[name] = [each.id for each in model.at_hand(self.now)]
        if not any(then == self.now for then, _ in self.earlier):
            self.earlier.append((self.now, at_hand))
        self.earlier = [each for each in self.earlier if each[0] != self.now]

    def may_be_shown(self, fact):
        is_dead = fact.dies is not None and fact.dies <= self.now
        return not fact.forgotten and not is_dead

    async def ids(self, memory, name):
        context = await memory.assemble_context(QUERY, budget=4_000, sections=[name])
        return [item.id for item in context.items if item.key == "home"]

    async def check_now(self, memory):
        for name, model in self.models.items():
            expected = model.at_hand(self.now)
            ids = [each.id for each in expected]
            assert await self.ids(memory, name) == ids
            view = memory.at(known_at=day(self.now))
            assert await self.ids(view, name) == ids
            for at, each in enumerate(expected):
                then = memory.at(as_of=day(max(self.now, each.begin)))
                assert await self.ids(then, name) == ids[at : at + 1]
            context = await memory.assemble_context(QUERY, budget=4_000, sections=[name])
            for at, each in enumerate(expected):
                self.check_label(context.text, each, expected[at + 1 :])
            versions = {each.item.id: each for each in await memory.versions("home", name)}
            current = [item_id for item_id, each in versions.items() if each.is_current]
            assert current == ids[-1:]
            for each, newer in zip(expected, [*expected, None][1:], strict=True):
                end = None if newer is None else day(newer.begin)
                assert versions[each.id].valid_until == end

    def check_label(self, text, fact, later):
        """The last line of a fact says until when it holds, if that is known, else nothing of an end."""
        word = f"house{fact.id.removeprefix('rules').removeprefix('findings').removeprefix('flat')}"
        name = fact.id.rstrip("0123456789")
        line = [each for each in text.splitlines() if f"{word}{name}." in each][-1]
        assert ("until" in line) == bool(later)
        if later:
            assert f"until {day_text(day(later[0].begin))}" in line
        if fact.begin > self.now and not later and name != "flat":
            assert day_text(day(fact.begin)) in line

    async def check_window(self):
        """A window shows what holds, says of it what is announced, and nothing that was taken back."""
        self.number += 1
        self.memory.add("messages", f"{QUERY} {self.number}", role="user")
        try:
            context = await self.memory.assemble_context(
                budget=6_000, window="main", sections=[*NAMES, "messages"]
            )
        except WindowTooSmallError:
            return
        for name, model in self.models.items():
            at_hand = model.at_hand(self.now)
            for at, each in enumerate(at_hand):
                number = each.id.removeprefix(name)
                assert f"house{number}{name}." in context.text
                self.check_label_in_window(context.text, each, at_hand[at + 1 :])
            for each in model.facts:
                is_removed = each.removed and (each.dies is None or each.dies <= each.begin)
                if (is_removed and not each.ended) or each.forgotten:
                    number = each.id.removeprefix(name)
                    assert f"house{number}{name}." not in context.text

    def check_label_in_window(self, text, fact, later):
        if later:
            self.check_label(text, fact, later)
        elif fact.begin > self.now:
            self.check_label(text, fact, ())


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["announce"] * 4
            + ["remove", "forget"] * 2
            + ["wait"] * 3
            + ["tell", "unstated", "note", "reopen", "ask", "ask", "look"]
        ),
        st.integers(0, 4),
        st.none() | st.integers(0, 6),
    ),
    min_size=2,
    max_size=14,
)


@given(STEPS)
@example([("tell", 0, None), ("ask", 0, None), ("announce", 3, None), ("remove", 0, None)])
@example([("tell", 0, None), ("announce", 3, None), ("reopen", 0, None), ("forget", 0, None)])
@example([("tell", 0, None), ("announce", 3, 1), ("ask", 0, None), ("wait", 2, None)])
@example([("tell", 0, None), ("announce", 3, 1), ("ask", 0, None), ("wait", 9, None)])
@example([("tell", 0, None), *[("announce", at, None) for at in (4, 1)], ("remove", 0, None)])
@example([("tell", 0, None), ("announce", 0, None), ("ask", 0, None), ("wait", 3, None)] * 2)
@example([("tell", 0, None), ("announce", 1, None), ("wait", 3, None), ("remove", 0, None)])
@example([("tell", 0, None), ("announce", 1, None), ("ask", 0, None), ("remove", 1, None)])
def test_what_holds_is_shown_whatever_is_announced_and_taken_back(steps):
    """In any section, with windows and without, in any process, at other times, and in the list of versions.

    An announced version that was removed, forgotten or expired before it began changes nothing of the one that holds.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session_log, "MIN_LOG_BYTES", 500)
        asyncio.run(World().run(steps))


async def test_the_item_of_a_key_is_the_version_that_holds():
    """Announced ones follow it, so that a formed change compares with what holds, and retires it."""
    memory = SessionMemory.test_mode(options=SessionOptions(clock=lambda: day(0)))
    for begin in (-9, 9):
        metadata = {"timestamp": day(begin).isoformat()}
        memory.add("findings", "Ann lives.", key="home", id=f"from {begin}", metadata=metadata)
    assert memory["findings"].keyed("home").id == "from -9"
    assert [item.id for item in memory["findings"].live_versions("home")] == ["from -9", "from 9"]
