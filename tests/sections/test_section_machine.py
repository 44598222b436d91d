"""A section against a plain account of the rules, for every eviction policy, through restarts and replays."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from kaosmem.errors import DuplicateError, InvalidArgumentError, NotFoundError, SectionFullError
from kaosmem.language.query import Query
from kaosmem.sections.eviction import POLICIES
from kaosmem.sections.operations import Credit, Evict, parse_operation
from kaosmem.sections.section import Section
from kaosmem.sections.spec import SectionSpec
from kaosmem.sections.substitution import COMPACTED, ReplacedCounts, Substitution
from kaosmem.types.content import TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from kaosmem.types.items import Item
from kaosmem.units import Link
from tests.units.plain import PlainUnits, open_calls, speaks

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MADE = {COMPACTED: asdict(ReplacedCounts(1, 1))}

ORDER = {
    "fifo": lambda unit: (min(row.position for row in unit),),
    "lifo": lambda unit: (-max(row.position for row in unit),),
    "lru": lambda unit: (max(row.last_use for row in unit), unit[0].position),
    "lfu": lambda unit: (
        sum(row.uses for row in unit),
        max(row.last_use for row in unit),
        unit[0].position,
    ),
    "priority": lambda unit: (max(row.item.priority for row in unit), unit[0].position),
}


def asks(item):
    """Return whether an item is a user's message with more than results of tools."""
    return item.role == "user" and not Link.of(item).is_results


@dataclass
class Row:
    """One live item of the plain account."""

    item: Item
    position: int
    uses: int = 0
    last_use: int = 0


@dataclass
class PlainSection:
    """What a section holds, worked out from all its rows each time."""

    rows: list[Row] = field(default_factory=list)
    archived: list[Item] = field(default_factory=list)
    taken: int = 0
    total: int = 0
    clock: int = 0
    units: PlainUnits = field(default_factory=PlainUnits)  # by the positions of rows
    credited: Counter[str] = field(default_factory=Counter)
    shown: Counter[str] = field(default_factory=Counter)
    verified: set[str] = field(default_factory=set)

    @property
    def used(self):
        return sum(row.item.tokens for row in self.rows)

    def row(self, item_id):
        return next((row for row in self.rows if row.item.id == item_id), None)

    def unit(self, row):
        group = self.units.group_of(row.position)
        return [other for other in self.rows if other.position in group]

    def all_units(self):
        return [[row for row in self.rows if row.position in group] for group in self.units.groups]

    def own(self, item):
        """Return the positions of what an item, new or updated, would be one with."""
        link = Link.of(item)
        old = self.row(item.id)
        own = self.units.group_of(old.position) if old else set()
        if old is None or Link.of(old.item) != link:
            partners = self.units.partners(old.position if old else self.taken, link)
            own = own.union(*map(self.units.group_of, partners))
        return own

    def superseded(self, item):
        """Return the unit of the other item with an item's key."""
        older = [
            row
            for row in self.rows
            if item.key is not None and row.item.key == item.key and row.item.id != item.id
        ]
        return self.unit(older[0]) if older else []

    def victims(self, spec, item, growth, count):
        """Return what leaves, or None where there is no room. The newest question of a history leaves last."""
        question = self.question(spec, item)
        chosen = self.chosen(spec, item, growth, count, kept=question)
        if chosen is None and question:
            return self.chosen(spec, item, growth, count, kept=[])
        return chosen

    def question(self, spec, item):
        """Return the unit of a history's newest question, unless the item is a question itself."""
        if spec.placement != "history" or asks(item):
            return []
        asked = [row for row in self.rows if asks(row.item)]
        return self.unit(asked[-1]) if asked else []

    def chosen(self, spec, item, growth, count, *, kept):
        """Return what leaves, what is superseded first, then in the policy's order, or None where there is no room."""
        policy = POLICIES[spec.eviction]
        superseded = self.superseded(item)
        growth -= sum(row.item.tokens for row in superseded)
        count -= len(superseded)
        excess = (
            self.used + growth - spec.budget
            if spec.budget is not None and policy.bounded and growth > 0
            else 0
        )
        surplus = (
            len(self.rows) + count - spec.max_items
            if spec.max_items is not None and count > 0
            else 0
        )
        old = self.row(item.id)
        own = self.own(item)
        of_own = [row.item for row in self.rows if row.position in own and row is not old]
        priority = max(each.priority for each in [*of_own, item])
        units = [u for u in self.all_units() if not own & {row.position for row in u}]
        units = [u for u in units if not any(row in (*superseded, *kept) for row in u)]
        units = [u for u in units if not any(r.item.pinned for r in u) and not self.waits(u, item)]
        chosen = list(superseded)
        if spec.eviction in ORDER:
            for unit in sorted(units, key=ORDER[spec.eviction]):
                if excess <= 0 and surplus <= 0:
                    break
                if (
                    spec.eviction == "priority"
                    and max(row.item.priority for row in unit) > priority
                ):
                    break
                chosen += unit
                excess -= sum(row.item.tokens for row in unit)
                surplus -= len(unit)
        return chosen if excess <= 0 and surplus <= 0 else None

    def waits(self, unit, newcomer=None):
        """Return whether a unit has a call without a result, and nobody has spoken since, the newcomer included."""
        if newcomer is not None and self.row(newcomer.id) is None and speaks(Link.of(newcomer)):
            return False
        links = {row.position: self.units.links[row.position] for row in unit}
        return self.units.asking in links and bool(open_calls(links))

    def is_outranked(self, spec, item):
        """Return whether an item that finds no room goes to the archive: one that is in no unit with others."""
        old = self.row(item.id)
        alone = {old.position} if old else set()
        is_plain = Link.of(item).is_plain and not item.pinned and self.own(item) == alone
        return spec.eviction == "priority" and is_plain and not self.superseded(item)

    def drop(self, rows):
        for row in rows:
            self.rows.remove(row)
            self.archived.append(row.item)
        self.units.remove({row.position for row in rows})

    def compact(self, replaced, items, *, recalls):
        """Let items take the places of rows; what leaves in whole units, and stands for none, is archived last."""
        owners = [row for row, _ in items]
        leaving = [row for row in replaced if row not in owners and row.item.metadata != MADE]
        whole = [row for row in leaving if recalls and all(r in leaving for r in self.unit(row))]
        self.archived += [row.item for row in replaced if row not in whole]
        kept = len(self.archived)
        self.drop(whole)
        archived = [*self.archived]
        self.drop([row for row in replaced if row not in whole and row not in owners])
        self.archived = archived
        assert len(archived) == kept + len(whole)
        for row, item in items:
            self.change(row, item)

    def change(self, row, item):
        link = Link.of(item)
        is_changed = link != self.units.links[row.position]
        partners = self.units.partners(row.position, link) if is_changed else []
        row.item = item
        self.units.place(row.position, link, partners)

    def forget(self, item_ids):
        """Erase items and return how many versions of them there were."""
        doomed = [row for row in self.rows if row.item.id in item_ids]
        kept = [item for item in self.archived if item.id not in item_ids]
        erased = len(doomed) + len(self.archived) - len(kept)
        self.drop(doomed)
        self.archived = kept
        for item_id in item_ids:
            self.credited.pop(item_id, None)
            self.shown.pop(item_id, None)
            self.verified.discard(item_id)
        return erased

    def add(self, item):
        self.rows.append(Row(item, self.taken, last_use=self.clock))
        self.units.add(self.taken, Link.of(item))
        self.taken += 1

    def update(self, item):
        row = self.row(item.id)
        self.archived.append(row.item)
        self.change(row, item)

    def use(self, item_ids):
        rows = [row for row in self.rows if row.item.id in item_ids]
        self.clock += bool(rows)
        for row in rows:
            row.uses = row.uses + 1
            row.last_use = self.clock


TEXTS = st.sampled_from(["alpha", "beta gamma", "delta"])
CALLS = st.lists(st.sampled_from("abc"), min_size=1, max_size=2, unique=True)
SPOKEN = st.one_of(
    st.tuples(st.sampled_from(["user", "user", "assistant", "system"]), TEXTS),
    CALLS.map(lambda ids: ("assistant", tuple(ToolUseBlock(name, "find") for name in ids))),
    CALLS.map(
        lambda ids: (
            "assistant",
            (ThinkingBlock("hm", "seal"), *(ToolUseBlock(name, "find") for name in ids)),
        )
    ),
    CALLS.map(lambda ids: ("tool", tuple(ToolResultBlock(name, "found") for name in ids))),
    CALLS.map(
        lambda ids: ("user", (*(ToolResultBlock(name, "found") for name in ids), TextBlock("and?")))
    ),
)
SIZES = st.integers(0, 40)
PRIORITIES = st.integers(0, 2)
PINNED = st.sampled_from([False] * 9 + [True])
KEYS = st.sampled_from([None, None, None, "plan", "owner"])


class SectionMachine(RuleBasedStateMachine):
    """Any history of changes leaves a section as the plain account has it, and every refusal moves nothing."""

    policy = "fifo"

    @initialize(
        budget=st.sampled_from([40, 60, 60, None]),
        max_items=st.sampled_from([3, None, 5]),
        placement=st.sampled_from(["static", "history", "query"]),
    )
    def begin(self, budget, max_items, placement):
        bounded = POLICIES[self.policy].bounded
        self.spec = SectionSpec(
            "s",
            budget,
            eviction=self.policy,
            max_items=max_items if bounded else None,
            placement=placement,
        )
        self.section = Section(self.spec)
        self.plain = PlainSection()
        self.flushed = []
        self.journal = []
        self.made = self.accepted = 0
        self.outranked = None

    def item(
        self,
        item_id,
        spoken,
        tokens,
        priority,
        *,
        pinned,
        key,
    ):
        role, content = spoken
        return Item(
            item_id, "s", role, content, tokens, NOW, priority=priority, pinned=pinned, key=key
        )

    def known_ids(self):
        return [row.item.id for row in self.plain.rows]

    def attempt(self, change, item, growth, count):
        """Make a change that may be refused; return whether it was made."""
        superseded = self.plain.superseded(item)
        if superseded and superseded[0].position in self.plain.own(item):
            before = self.seen()
            with pytest.raises(InvalidArgumentError, match="has the key of"):
                change(item)
            assert self.seen() == before
            return False
        too_large = (
            POLICIES[self.policy].bounded
            and self.spec.budget is not None
            and item.tokens > self.spec.budget
        )
        victims = None if too_large else self.plain.victims(self.spec, item, growth, count)
        if self.policy not in ORDER and POLICIES[self.policy].key:
            victims = self.whatever_goes(change, item)
        elif victims is None and not too_large and self.plain.is_outranked(self.spec, item):
            change(item)
            assert self.section.journal[-1] == Evict("s", (item.id,))
            assert self.section.journal[-2].evicted == []
            self.outranked = item.id
            return True
        elif victims is None:
            before = self.seen()
            with pytest.raises(SectionFullError):
                change(item)
            assert self.seen() == before
        else:
            change(item)
            assert sorted(self.section.journal[-1].evicted) == sorted(
                row.item.id for row in victims
            )
        if victims is not None:
            self.plain.drop(
                sorted(victims, key=lambda row: self.section.journal[-1].evicted.index(row.item.id))
            )
        return victims is not None

    def settle(self, item):
        """Count an accepted change, and archive the item if the change was the outranked item's own."""
        self.accepted += 1
        if self.outranked == item.id:
            self.plain.drop([row for row in self.plain.rows if row.item.id == item.id])
        self.outranked = None

    def whatever_goes(self, change, item):
        """Make a change under a policy of which the plain account knows no order: believe the section's choice."""
        before = self.seen()
        try:
            change(item)
        except SectionFullError:
            assert self.seen() == before
            return None
        evicted = self.section.journal[-1].evicted
        rows = [row for row in self.plain.rows if row.item.id in evicted]
        superseded = self.plain.superseded(item)
        assert all(row in rows for row in superseded)
        for row in rows:
            unit = self.plain.unit(row)
            assert all(each in rows for each in unit)
            if row not in superseded:
                assert not any(each.item.pinned for each in unit)
                assert not self.plain.waits(unit, item)
        return rows

    def seen(self):
        section = self.section
        return (
            section.state(),
            list(section.held.entries()),
            len(section.archive),
            len(section.journal),
            section.used,
        )

    @rule(spoken=SPOKEN, tokens=SIZES, priority=PRIORITIES, pinned=PINNED, key=KEYS)
    def add(self, spoken, tokens, priority, pinned, key):
        item = self.item(f"i{self.made}", spoken, tokens, priority, pinned=pinned, key=key)
        self.made += 1
        if self.attempt(self.section.add, item, tokens, 1):
            self.plain.add(item)
            self.settle(item)

    @rule(notes=st.lists(st.tuples(SPOKEN, PRIORITIES, st.integers(0, 2)), min_size=2, max_size=6))
    def fill(self, notes):
        """Items of one size that are used more or less often, so that some have to leave."""
        for spoken, priority, uses in notes:
            self.add(spoken, 15, priority, pinned=False, key=None)
            for _ in range(uses):
                self.use_all(self.known_ids()[-1:])

    def use_all(self, item_ids):
        self.section.use(item_ids)
        if POLICIES[self.policy].counts_uses:
            self.plain.use(item_ids)

    @precondition(lambda self: self.plain.rows)
    @rule(data=st.data(), spoken=SPOKEN, tokens=SIZES, priority=PRIORITIES, pinned=PINNED, key=KEYS)
    def update(
        self,
        data,
        spoken,
        tokens,
        priority,
        pinned,
        key,
    ):
        old = data.draw(st.sampled_from(self.plain.rows)).item
        if data.draw(st.booleans()):
            spoken = (old.role, old.content)
            key = old.key
        item = self.item(old.id, spoken, tokens, priority, pinned=pinned, key=key)
        if self.attempt(self.section.update, item, tokens - old.tokens, 0):
            self.plain.update(item)
            self.settle(item)

    @precondition(lambda self: self.plain.rows)
    @rule(data=st.data())
    def remove(self, data):
        row = data.draw(st.sampled_from(self.plain.rows))
        self.section.remove(row.item.id)
        self.plain.drop([row])

    @rule(data=st.data())
    def bring_back_what_was_archived(self, data):
        gone = [item for item in self.plain.archived if item.id not in self.known_ids()]
        if gone:
            item = data.draw(st.sampled_from(gone))
            if self.attempt(self.section.add, item, item.tokens, 1):
                self.plain.add(item)
                self.settle(item)

    @precondition(lambda self: self.plain.rows)
    @rule(data=st.data(), spoken=st.lists(SPOKEN, max_size=3))
    def compact(self, data, spoken):
        chosen = data.draw(
            st.sets(st.integers(0, len(self.plain.rows) - 1), min_size=1, max_size=8)
        )
        replaced = [self.plain.rows[at] for at in sorted(chosen)]
        items = []
        for row, (role, content) in zip(replaced, spoken, strict=False):
            item = Item(
                f"c{self.made}", "s", role, content, row.item.tokens // 2, NOW, metadata=MADE
            )
            self.made += 1
            items.append(
                (
                    row,
                    replace(
                        item, key=row.item.key, sources=tuple(each.item.id for each in replaced)
                    ),
                )
            )
        change = Substitution(
            tuple(row.item.id for row in replaced),
            tuple((row.item.id, item) for row, item in items),
        )
        assert self.section.compact(change)
        self.plain.compact(replaced, items, recalls=self.spec.recalls)
        self.accepted += len(items)
        before = self.seen()
        assert not self.section.compact(Substitution(change.replaced, ()))
        assert self.seen() == before

    @rule(tokens=st.integers(0, 60), data=st.data())
    def make_room(self, tokens, data):
        kept = (
            data.draw(st.lists(st.sampled_from(self.plain.rows), max_size=2))
            if self.plain.rows
            else []
        )
        stay = [*self.plain.rows[-1:], *kept]
        units = [u for u in self.plain.all_units() if not any(row in stay for row in u)]
        units = [
            u for u in units if not any(row.item.pinned for row in u) and not self.plain.waits(u)
        ]
        chosen = []
        if self.policy in ORDER:
            for unit in sorted(units, key=ORDER[self.policy]):
                if sum(row.item.tokens for row in chosen) < tokens:
                    chosen += unit
        is_enough = sum(row.item.tokens for row in chosen) >= tokens
        before = self.seen()
        assert self.section.make_room(tokens, keep=[row.item.id for row in kept]) == is_enough
        if is_enough:
            self.plain.drop(chosen)
        else:
            assert self.seen() == before

    @rule(data=st.data())
    def forget(self, data):
        known = dict.fromkeys([*self.known_ids(), *(item.id for item in self.plain.archived)])
        item_ids = data.draw(st.lists(st.sampled_from([*known, "nowhere"]), max_size=3))
        self.journal += self.section.drain_journal()
        tombstone = self.section.forget(item_ids, stored=self.flushed)
        assert tombstone.ids == sorted(set(item_ids) & known.keys())
        self.journal.append(tombstone)
        self.flushed = [version for version in self.flushed if version.item.id not in item_ids]
        self.accepted -= self.plain.forget(item_ids)
        assert self.section.journal == []

    @precondition(lambda self: self.section.journal)
    @rule()
    def refuse_to_forget_what_is_not_logged_yet(self):
        before = self.seen()
        with pytest.raises(ValueError, match="drain and log them first"):
            self.section.forget(self.known_ids())
        assert self.seen() == before

    @precondition(lambda self: self.plain.rows)
    @rule(data=st.data())
    def use(self, data):
        item_ids = data.draw(st.lists(st.sampled_from([*self.known_ids(), "nowhere"]), max_size=4))
        self.use_all(item_ids)

    @precondition(lambda self: self.plain.rows)
    @rule(data=st.data())
    def credit(self, data):
        """What a reply used is counted apart, and changes no standing."""
        ids = st.lists(st.sampled_from(self.known_ids()), max_size=3, unique=True).map(tuple)
        credit = Credit("s", NOW, *(data.draw(ids) for _ in range(3)))
        self.section.credit(credit)
        for counts, item_ids in (
            (self.plain.credited, credit.credited),
            (self.plain.shown, credit.shown),
        ):
            counts.update(item_ids)
        self.plain.verified.update(credit.verified)

    @precondition(lambda self: self.plain.rows)
    @rule(data=st.data())
    def get(self, data):
        item = data.draw(st.sampled_from(self.plain.rows)).item
        assert self.section.get(item.id) == item
        if POLICIES[self.policy].counts_uses:
            self.plain.use([item.id])

    @precondition(lambda self: self.plain.rows)
    @rule(data=st.data())
    def refuse_what_makes_no_sense(self, data):
        live = data.draw(st.sampled_from(self.plain.rows)).item
        before = self.seen()
        with pytest.raises(DuplicateError):
            self.section.add(live)
        with pytest.raises(NotFoundError):
            self.section.update(replace(live, id="nowhere"))
        with pytest.raises(NotFoundError):
            self.section.remove("nowhere")
        with pytest.raises(ValueError, match="is of section"):
            self.section.add(replace(live, id="new", section="elsewhere"))
        assert self.section.get("nowhere") is None
        assert self.seen() == before

    @rule()
    def restart(self):
        on_disk = self.section.archive.in_memory()
        self.section.archive.release(on_disk)
        self.flushed += on_disk
        self.journal += self.section.drain_journal()
        stored = json.loads(json.dumps([self.section.state(), list(self.section.held.entries())]))
        self.section = Section.restore(self.spec, *stored)

    @precondition(lambda self: self.section.held.unloaded)
    @rule()
    def load_what_was_evicted_before_a_restart(self):
        self.section.load(self.flushed)

    @invariant()
    def holds_what_the_plain_account_holds(self):
        section = self.section
        plain = self.plain
        assert list(section) == [row.item for row in plain.rows]
        assert list(reversed(section)) == [row.item for row in reversed(plain.rows)]
        assert section.used == plain.used
        for entry, row in zip(section.held.entries(), plain.rows, strict=True):
            first = plain.unit(row)[0].position
            assert entry["position"] == row.position
            assert entry.get("unit", row.position) == first
            assert (entry.get("uses", 0), entry.get("last_use", 0)) == (row.uses, row.last_use)

    @invariant()
    def counts_what_replies_used(self):
        """Archived items keep their counts, forgotten ones lose them, restarts change nothing."""
        usage = self.section.ledger
        assert usage.credited == self.plain.credited
        assert usage.shown == self.plain.shown
        assert usage.used_at.keys() == self.plain.credited.keys()
        assert usage.verified_at.keys() == self.plain.verified

    @invariant()
    def one_item_of_a_key_is_live(self):
        live = {item.key: item for item in self.section if item.key is not None}
        assert len(live) == sum(item.key is not None for item in self.section)
        for key in ("plan", "owner"):
            assert self.section.keyed(key) == live.get(key)

    @invariant()
    def proposes_whole_units(self):
        proposed = [
            [item.id for item in each.items]
            for each in self.section.proposer.propose(Query(""), cap=10**6).candidates
        ]
        units = [[row.item.id for row in unit] for unit in self.plain.all_units()]
        assert sorted(proposed) == sorted(units)

    @invariant()
    def nothing_is_lost_and_budgets_hold(self):
        archived = [version.item for version in (*self.flushed, *self.section.archive.in_memory())]
        assert archived == self.plain.archived
        assert len(self.section.archive) == len(archived)
        assert len(self.section) + len(archived) == self.accepted
        if POLICIES[self.policy].bounded:
            assert self.spec.budget is None or self.section.used <= self.spec.budget
            assert self.spec.max_items is None or len(self.section) <= self.spec.max_items

    def teardown(self):
        """Replay the whole journal into an empty section: it ends in the same state."""
        if not hasattr(self, "section"):
            return
        again = Section(self.spec)
        for each in self.journal + self.section.journal:
            logged = json.loads(json.dumps(each.data))
            stored = parse_operation(each.section, each.op, logged)
            assert stored.data == logged and stored.touched.keys() == each.touched.keys()
            again.apply(stored)
        assert again.state() == self.section.state()
        assert list(again.held.entries()) == list(self.section.held.entries())
        assert [version.item for version in again.archive.in_memory()] == self.plain.archived
        self.section.load(self.flushed)
        assert (
            again.proposer.propose(Query(""), cap=10**6).earlier
            == self.section.proposer.propose(Query(""), cap=10**6).earlier
        )
        assert again.journal == []


@pytest.mark.parametrize("policy", POLICIES)
def test_a_section_agrees_with_the_plain_account_under_every_policy(policy):
    """Nothing is lost, budgets hold, refusals move nothing, restarts and replays change nothing."""
    machine = type(f"SectionMachine_{policy}", (SectionMachine,), {"policy": policy})
    run_state_machine_as_test(machine, settings=settings(max_examples=25, stateful_step_count=30))


def test_a_call_that_became_text_is_waited_for_after_a_restart():
    """A restart changes nothing, whatever became of the call."""
    section = Section(SectionSpec("s"))
    content = (ToolUseBlock("c", "find"),)
    call = Item("a", "s", "assistant", content, tokens=0, created_at=NOW)
    section.add(call)
    section.update(replace(call, content="alpha", role="user"))
    again = Section.restore(section.spec, section.state(), list(section.held.entries()))
    assert again.state() == section.state()
