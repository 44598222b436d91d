"""Forming a section: reading what was said since its mark, and applying what a former proposes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from kaosmem.errors import InvalidArgumentError, SectionFullError
from kaosmem.formation.changes import (
    KINDS,
    NOT_PEOPLE,
    UNUSABLE,
    AppliedChange,
    Draft,
    ProposedChange,
)
from kaosmem.formation.conflict import doubt_about, is_run_of
from kaosmem.formation.grounding import Grounds, faults_of, find_grounds
from kaosmem.formation.schedule import FormsFrom
from kaosmem.formation.shelf import SHELF
from kaosmem.language.analysis import analyze
from kaosmem.language.duplicates import FORMED
from kaosmem.sections.archive import EvictedItem
from kaosmem.sections.ledger import AWAITED
from kaosmem.sections.operations import Credit, Form
from kaosmem.sections.section import Section
from kaosmem.session.delivery import deliver
from kaosmem.session.open_session import OpenSession
from kaosmem.session.proposals import as_proposal, let_wait
from kaosmem.types import JSONDict
from kaosmem.types.items import Item, decoded
from kaosmem.types.outcomes import RUN

AfterBatch: TypeAlias = Callable[[int, int], Awaitable[None]]

_COPIED = ("timestamp", "source")
"""Fields of the quoted message's metadata that a formed item takes over."""


@dataclass
class _Formed:
    """The outcome of a draft.

    Attributes:
        items: The ids of the items that come and leave by it.
        applied: The applied changes, in order.
        retired: The items that leave when the outcome is noted.
        refused: The reasons of the refused changes.
    """

    items: list[str] = field(default_factory=list)
    applied: list[AppliedChange] = field(default_factory=list)
    retired: list[Item] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


class SectionFormation:
    """The formation of one section of a session.

    Args:
        session: The session.
        section: The section that is formed. It is neither static nor one of the plan's sections.
        plan: The former, the sections to form from, and the conditions.

    Raises:
        InvalidArgumentError: If the section cannot be formed.
        NotFoundError: If there is no such section.
    """

    def __init__(
        self,
        session: OpenSession,
        section: str,
        plan: FormsFrom,
    ) -> None:
        self.name = section
        self.plan = plan
        self._session = session
        self._section = session.section(section)
        replace(self._section.spec, forms_from=plan)  # checks that the section can be formed
        self._sources = [session.section(name) for name in plan.sections]
        if plan.shelf is not None:
            session.shelves[plan.shelf.name] = plan.shelf  # so that `forget` reaches it
        self._known: dict[Hashable, str] = {}
        self._elsewhere: dict[str, Item | None] = {}
        self._saved: list[Item] = []
        self._spent_mark = f"tokens of {plan.former.name}"
        self._budget: int | None = getattr(plan.former, "budget", None)

    def has_waiting(self, number: int) -> bool:
        """Return whether so many messages of people wait, whichever worker took their turns."""
        for source in self._sources:
            since = self._mark(self.plan.mark(source.spec.name))
            for ordinal in reversed(source.held):
                if ordinal < since or number == 0:
                    break
                number -= source.held[ordinal].role.casefold() not in NOT_PEOPLE
        return number == 0

    async def run(self, after_batch: AfterBatch | None = None) -> list[AppliedChange]:
        """Form the section from all that was committed since its marks, and save nothing.

        Args:
            after_batch: Called after each draft of the former with the number of messages that are
                done, and of all.
        """
        await self._session.read_back(
            [section.spec.name for section in (self._section, *self._sources)]
        )
        self._known = {_said_by(item): item.id for item in self._section}
        applied: list[AppliedChange] = []
        for source in self._sources:
            applied += await self._form_from(source, after_batch)
        return applied

    async def deliver(self) -> None:
        """Bring the shelf of the plan up to what is committed, and save nothing."""
        if self.plan.shelf is not None:
            self._saved += await deliver(self._session, self._section, self.plan.shelf)

    async def take_back(self) -> None:
        """Erase facts from the shelf that were forgotten before the save after their delivery."""
        if self.plan.shelf is not None:
            forgotten = self._session.saver.forgotten  # here, or by another writer
            await self.plan.shelf.erase([item for item in self._saved if item.id in forgotten])
            self._saved.clear()

    def lasting(self, applied: Sequence[AppliedChange]) -> Iterator[AppliedChange]:
        """Yield the changes that are in the section: not those that others made first."""
        for each in applied:
            if each.item.id in self._section:
                is_lasting = each.change.action != "retire"
            else:  # it was retired or evicted, a newer version has replaced it, or it was elsewhere
                is_archived = self._section.archive.get(each.item.id) is not None
                is_lasting = is_archived or each.item.section != self.name
            if is_lasting:
                yield each

    async def _form_from(
        self,
        source: Section,
        after_batch: AfterBatch | None,
    ) -> list[AppliedChange]:
        """Ask the former until it has covered all messages, or covers no more."""
        mark = self.plan.mark(source.spec.name)
        since = self._mark(mark)
        # Only up to the items whose places in the log are final.
        until = source.held.taken - self._session.saver.number_unsaved(source.spec.name)
        found = await items_between(self._session, source, since, until)
        left = [*found.items()]
        total = len(left)
        applied: list[AppliedChange] = []
        while left and not self._is_spent:
            said = [item for _, item in left]
            draft = await self._draft(said)
            if self._mark(mark) != since:
                break  # another task has formed the same messages meanwhile
            formed = self._apply(draft, [item for item in said if self._is_there(item, source)])
            if self.plan.shelf is not None:
                # Before the commit: after a crash, they are retired once more.
                await self.plan.shelf.erase(formed.retired)
            covered = len(said) if draft.covered is None else draft.covered
            left = left[covered:] if covered else []
            if covered:
                since = left[0][0] if left else until
            self._note(mark, since, formed)
            self._note(self._spent_mark, self._mark(self._spent_mark) + draft.spent)
            applied += formed.applied
            if after_batch is not None:
                await after_batch(total - len(left), total)
            if draft.failure:
                self._session.note(
                    f"section {self.name!r} was not formed, as {draft.failure}; its messages wait, and "
                    "the next formation goes on from there"
                )
        if left and self._is_spent:
            self._session.note(
                f"former {self.plan.former.name!r} has spent its {self._budget:,} tokens of this "
                f"session, and forms nothing more in {self.name!r}; raise its budget, and form again"
            )
        return applied

    async def _draft(self, said: Sequence[Item]) -> Draft:
        """Return the former's draft, and read the facts of other sessions that it is about."""
        former = self.plan.former
        shelf = self.plan.shelf
        near = await shelf.near(said) if shelf else []
        elsewhere = [fact for fact in near if fact.id not in self._section.ledger.shelved]
        draft = await former.propose(said, [*self._section, *elsewhere])
        if not isinstance(draft, Draft):
            raise InvalidArgumentError(
                f"propose() of the former {former.name!r} gave a {type(draft).__name__}; "
                "return a Draft"
            )
        self._elsewhere = {}
        for key in {change.key for change in draft.changes if change.key}:
            if shelf is not None and self._section.keyed(key) is None:
                self._elsewhere[key] = await shelf.current(key)
        self._session.check_writable()
        return draft

    def _mark(self, name: str) -> int:
        return self._section.ledger.marks.get(name, 0)

    @property
    def _spent(self) -> int:
        """The tokens that the former has cost in all sections that it forms."""
        sections = self._session.sections.values()
        return sum(each.ledger.marks.get(self._spent_mark, 0) for each in sections)

    @property
    def _is_spent(self) -> bool:
        return self._budget is not None and self._spent >= self._budget

    def _is_there(self, item: Item, source: Section) -> bool:
        """Return whether a message was neither taken back nor forgotten meanwhile."""
        is_forgotten = item.id in self._session.saver.forgotten and item.id not in source
        return not is_forgotten and item.id not in source.removed

    def _note(
        self,
        mark: str,
        until: int,
        formed: _Formed | None = None,
    ) -> None:
        """Move a mark, and note in the same commit what was formed up to it."""
        formed = formed or _Formed()
        since = self._mark(mark)
        awaited = []
        if self.plan.shelf is not None:
            awaited = [(item_id, AWAITED) for item_id in formed.items if item_id in self._section]
        self._section.form(
            Form(self.name, mark, since, until, formed.items, formed.refused, awaited)
        )
        self._section.retire([item.id for item in formed.retired], at=self._session.clock())

    def _apply(self, draft: Draft, said: Sequence[Item]) -> _Formed:
        """Check each change of a draft, and apply it."""
        formed = _Formed(refused=[*draft.faults])
        for change in draft.changes:
            if change.kind in KINDS and change.kind not in (self.plan.kinds or KINDS):
                continue  # another section is formed of it
            grounds = find_grounds(change, said)
            if isinstance(grounds, str):
                reason = grounds
            else:
                faults = faults_of(change, grounds, explicit_only=self.plan.explicit_only)
                reason = next(faults, "")
                reason = reason or self._formed(change, grounds, formed, draft.has_exact_keys)
            if reason:
                formed.refused.append(reason)
        return formed

    def _formed(
        self,
        change: ProposedChange,
        grounds: Grounds,
        formed: _Formed,
        has_exact_key: bool,
    ) -> str:
        """Apply a grounded change, or return the reason why it is refused."""
        if change.is_run:
            for item_id in self._section.ledger.outcomes:
                if item_id in self._section and is_run_of(self._section.peek(item_id), change):
                    self._count(item_id, change, grounds)
                    return ""
            if not change.worked:
                return "never worked"
        try:
            item = self._made(change, grounds)
        except InvalidArgumentError:
            return UNUSABLE
        live = None
        if change.key:
            live = self._section.keyed(change.key) or self._elsewhere.get(change.key)
        is_end = change.action == "retire"
        is_late = live is not None and self._is_earlier(item, grounds, live)
        if is_end and (live is None or live in formed.retired or is_late):
            return "nothing to retire"
        if not is_end and (is_late or self._is_known(item, grounds)):
            return "nothing new"
        doubt = "review" if self.plan.review else ""
        if live is not None:
            doubt = doubt_about(item, live, change, has_exact_key=has_exact_key) or doubt
        if doubt:
            item = as_proposal(item, change.action, doubt, ends=live.id if live and is_end else "")
        if self.plan.review or (doubt and is_end):
            if live is not None and is_end and live.id not in self._section:
                return f"{doubt}, and the fact is of another session"
            let_wait(self._session, item)
        elif live is not None and is_end:
            formed.retired.append(live)
            formed.applied.append(AppliedChange(change, live))
            if live.id not in self._section:
                return ""
            item = live
        else:
            fault = self._add(change, item, grounds, formed)
            if fault:
                return fault
        formed.items.append(item.id)
        return ""

    def _is_earlier(self, item: Item, grounds: Grounds, live: Item) -> bool:
        """Return whether words without a time were said before a live item says that it began."""
        if item.stated_from is not None or live.stated_from is None:
            return False
        return grounds.quoted.created_at < live.stated_from <= self._session.clock()

    def _add(
        self,
        change: ProposedChange,
        item: Item,
        grounds: Grounds,
        formed: _Formed,
    ) -> str:
        try:
            self._section.add(item)
        except SectionFullError:
            return "no room in the section"
        self._known[_said_by(item)] = item.id
        formed.applied.append(AppliedChange(change, item))
        if change.is_run:
            self._count(item.id, change, grounds)
        return ""

    def _count(
        self,
        item_id: str,
        change: ProposedChange,
        grounds: Grounds,
    ) -> None:
        """Count a run under the name of the message that states its outcome."""
        run = grounds.quoted.id
        self._section.count_run(item_id, run, bool(change.worked), self._session.clock())

    def _is_known(self, item: Item, grounds: Grounds) -> bool:
        """Return whether a live item says the same. If it is older, it is verified."""
        known_id = self._known.get(_said_by(item), "")
        if known_id not in self._section:
            return False
        said_at = grounds.quoted.valid_from
        if self._section.peek(known_id).valid_from < said_at:
            self._section.credit(Credit(self.name, said_at, verified=(known_id,)))
        return True

    def _made(self, change: ProposedChange, grounds: Grounds) -> Item:
        """Return a change as an item, with the speaker, the time and the trust of its sources."""
        quoted = grounds.quoted
        metadata: JSONDict = {"kind": change.kind, "quote": change.quote}
        metadata |= {name: quoted.metadata[name] for name in _COPIED if name in quoted.metadata}
        metadata |= change.details
        if change.valid_from:
            metadata["timestamp"] = change.valid_from
        if change.is_run:
            metadata[RUN] = quoted.id
        if self.plan.shelf is not None:
            metadata[SHELF] = self.plan.shelf.name
        item = self._session.factory.make(
            self._section.spec,
            change.text.strip(),
            role="" if change.kind == "episodic" or change.is_run else quoted.role,
            key=change.key or None,
            tags=(FORMED, change.kind),
            metadata=metadata,
            sources=[source.id for source in grounds.items],
        )
        # The factory knows the trust of live sources alone.
        return replace(item, trust=grounds.trust)


async def items_between(
    session: OpenSession,
    section: Section,
    since: int,
    until: int,
) -> dict[int, Item]:
    """Return the items that a section took between two marks, by ordinal, oldest first.

    An item that was compacted or evicted since is read from the archive. Removed, superseded,
    corrected and expired items are left out, and so is a summary: its originals are there.
    """
    found: dict[int, Item] = {}
    now = session.clock()

    def note(ordinal: int, item: Item) -> None:
        is_summary = item.sources and FORMED not in item.tags
        if not is_summary and item.text.strip() and not item.is_expired(now):
            found.setdefault(ordinal, item)

    for ordinal in range(since, until):
        item = section.held.find(ordinal)
        if item is not None and not isinstance(item, EvictedItem):
            note(ordinal, decoded(item))
    if len(section.archive) and len(found) < until - since:
        for version in await session.archived(section):
            place = version.ordinal
            is_other = version.position is None and (version.ended or version.corrected)
            if place is not None and since <= place < until and not is_other:
                note(place, version.item)
    return dict(sorted(found.items()))


def _said_by(item: Item) -> tuple[str, tuple[str, ...]]:
    """Return what two items share if one speaker says the same in both."""
    return item.role, tuple(analyze(item.text))
