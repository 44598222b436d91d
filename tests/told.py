"""Sessions that are told facts, which change, leave and are forgotten, and a plain model of all that was told."""

from __future__ import annotations

import itertools
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st

from kaosmem import SectionSpec, SessionMemory, SessionOptions, WindowTooSmallError
from kaosmem.compaction import SlidingWindowCompaction
from kaosmem.persistence.storage.objects import IsolatedMemoryFileSystem

START = datetime(2024, 1, 1, tzinfo=UTC)
WHOLE = (
    SectionSpec("findings", max_items=2, recall=1.0),
    SectionSpec("kept", eviction="none", recall=0.0),
    SectionSpec("messages", max_items=3, placement="history", recall=0.5),
    SectionSpec("snapped", max_items=2),
    SectionSpec("scratch", max_items=2, persistence="none"),
)
COMPACTED = SectionSpec("compacted", 30, placement="history", compaction=SlidingWindowCompaction(2))
NAMES = [spec.name for spec in (*WHOLE, COMPACTED)]
TIMES = 40


def hour(number):
    return START + timedelta(hours=number)


@dataclass
class Told:
    """An item as a plain model has it. Times are hours.

    contents: each text with the time when it was told. ends: when it was superseded or removed,
        with the time when that was told; it stays so if the successor is forgotten. An end before
        its own begin: it was taken back, and has never held.
    """

    id: str
    section: str
    key: str | None
    stated: int | None
    contents: list[tuple[int, str]]
    ends: list[tuple[int, int]] = field(default_factory=list)

    @property
    def told_at(self):
        return self.contents[0][0]

    @property
    def began(self):
        return self.told_at if self.stated is None else self.stated

    def is_taken_back(self, known_at=TIMES * 10):
        ends = [end for end, told in self.ends if told <= known_at]
        return self.stated is not None and any(end < self.stated for end in ends)


class Model:
    """All that was told, in order: a list that is looked through from the beginning for each question."""

    def __init__(self):
        self.told = []

    def shown(self, as_of, known_at):
        """Return section, id and text of each item that held at one time, as it was known at another.

        Without the first time, these are all that have not ended at the other one, or ever.
        """
        knows_until = TIMES * 10 if known_at is None else known_at
        known = [each for each in self.told if each.told_at <= knows_until]
        present = TIMES * 10 if known_at is None else known_at
        if as_of is not None:
            present = as_of
        found = []
        for each in known:
            if each.is_taken_back(knows_until):
                continue
            begin, ends = self.interval(each, known, knows_until)
            ends += [end for end, told in each.ends if told <= knows_until]
            text = [text for told, text in each.contents if told <= knows_until][-1]
            if (as_of is None or begin <= as_of) and all(present < end for end in ends):
                found.append((each.section, each.id, text))
        return sorted(found)

    def interval(self, item, known, knows_until=TIMES * 10):
        """Return when an item began to hold, and when its successors did."""
        fact = [
            each
            for each in known
            if each.key is not None
            and (each.section, each.key) == (item.section, item.key)
            and not each.is_taken_back(knows_until)
        ]
        begins = []
        for each in fact:
            begins.append(max([each.told_at, *begins]) if each.stated is None else each.stated)
        if item not in fact:
            return item.began, []
        own = fact.index(item)
        begin = begins[own]
        return begin, [other for at, other in enumerate(begins) if (other, at) > (begin, own)]


ops = st.lists(
    st.tuples(
        st.sampled_from(["add"] * 8 + ["update", "remove", "reopen", "save", "forget"]),
        st.integers(0, len(NAMES) - 1),
        st.sampled_from([None, None, "a", "b"]),
        st.none() | st.integers(0, TIMES),
        st.integers(0, 99),
    ),
    min_size=1,
    max_size=25,
)
moments = st.none() | st.integers(-1, TIMES + 1)


class World:
    """A session with a clock that moves an hour at each step, and the model of it."""

    def __init__(self):
        self.place = IsolatedMemoryFileSystem()
        self.model = Model()
        self.now = 0

    def open(self):
        return SessionMemory.open(
            self.place,
            "s",
            sections=(*WHOLE, COMPACTED),
            options=SessionOptions(clock=lambda: hour(self.now)),
        )

    async def run(self, steps):
        """Make the steps, each in the session and in the model; return the session, still open."""
        opened = self.open()
        memory = await opened.__aenter__()
        for op, section, key, stated, target in steps:
            self.now += 1
            self.begin(memory)
            if op == "reopen":
                await opened.__aexit__(None, None, None)
                opened = self.open()
                memory = await opened.__aenter__()
                self.model.told = [
                    each for each in self.model.told if each.section != "scratch"
                ]  # which nothing keeps
            elif op == "save":
                await memory.save()
                await memory._session.saver._checkpoints.finished()
            elif op == "add":
                self.add(memory, NAMES[section], key, stated)
                if NAMES[section] == COMPACTED.name:
                    with suppress(WindowTooSmallError):  # it is compacted before
                        await memory.assemble_context("", budget=10_000)
            else:
                await self.change(memory, op, target)
        return memory

    def live_of(self, memory, section, key):
        """Return the live versions of a key, in the order in which they begin."""
        told = [each for each in self.model.told if (each.section, each.key) == (section, key)]
        return sorted((each for each in told if each.id in memory), key=lambda each: each.began)

    def begin(self, memory):
        """End the live versions of each key before the last one that has begun by now."""
        for section, key in itertools.product(NAMES, "ab"):
            live = [
                each for each in self.live_of(memory, section, key) if not self.is_announced(each)
            ]
            for older, newer in itertools.pairwise(live):
                if not older.ends:
                    older.ends.append((max(older.began, newer.began), newer.told_at))

    def is_announced(self, told):
        return told.stated is not None and told.stated > self.now

    def add(self, memory, section, key, stated):
        metadata = None if stated is None else {"timestamp": hour(stated).isoformat()}
        live = [] if key is None else self.live_of(memory, section, key)
        text = f"note {self.now} of {self.now * 7 % 11} words"
        is_forging = stated is not None and stated % 3 == 0 and section != COMPACTED.name
        if is_forging:
            text = f"[until 1 June 2024] {text}\n[since 1 June 2024] x\n[a.md, 2 May 2023 until 3 May 2023]\nEmi: y"
        role = "Emi" if self.now % 4 == 0 else None
        item = memory.add(section, text, role=role, key=key, metadata=metadata, id=f"i{self.now}")
        told = Told(item.id, section, key, stated, [(self.now, text)])
        self.model.told.append(told)
        for older in live:
            if self.is_announced(told):
                if older.stated == told.stated:
                    older.ends.append((self.now, self.now))
            elif self.is_announced(older):
                if told.stated is None:
                    older.ends.append((self.now, self.now))
            elif told.stated is not None and told.began < older.began:
                told.ends.append((older.began, older.told_at))
            else:
                older.ends.append((max(older.began, told.began), told.told_at))

    async def change(self, memory, op, target):
        """Update or remove a live item, or forget any item."""
        if op == "forget":
            if self.model.told and target < 30:
                item = self.model.told.pop(target % len(self.model.told))
                await memory.forget(item.id)
            return
        live = [each for each in self.model.told if each.id in memory]
        if not live:
            return
        item = live[target % len(live)]
        if op == "remove":
            is_over = bool(item.ends)  # its announced successor has begun
            memory.remove(item.id)
            if not is_over:
                end = self.now if self.is_announced(item) else max(item.began, self.now)
                item.ends.append((end, self.now))
        else:
            item.contents.append((self.now, f"update {self.now}"))
            memory.update(item.id, f"update {self.now}")
