"""Forming a section: reading what was said since its mark, and applying what a former proposes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from kaosmem.errors import InvalidArgumentError
from kaosmem.formation.changes import NOT_PEOPLE, AppliedChange, Draft
from kaosmem.formation.schedule import FormsFrom
from kaosmem.language.duplicates import FORMED
from kaosmem.sections.archive import EvictedItem
from kaosmem.sections.ledger import NOT_ON_SHELF_YET
from kaosmem.sections.operations import Form
from kaosmem.sections.section import Section
from kaosmem.session.applying import AppliedDraft
from kaosmem.session.delivery import deliver
from kaosmem.session.open_session import OpenSession
from kaosmem.types.items import Item, decoded

AfterBatch: TypeAlias = Callable[[int, int], Awaitable[None]]


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
            is_live = each.item.id in self._section
            if each.change.action == "retire":
                is_lasting = not is_live
            else:  # it may be evicted, or a newer version may have replaced it
                is_lasting = is_live or self._section.archive.get(each.item.id) is not None
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
        applied: list[AppliedChange] = []
        covered = None
        while left and covered != 0 and not self._is_spent:
            said = [item for _, item in left]
            draft = await self._draft(said)
            elsewhere = await self._elsewhere(draft)
            if self._mark(mark) != since:
                return applied  # another task has formed the same messages meanwhile
            covered = len(said) if draft.covered is None else draft.covered
            left = left[covered:]
            if covered:
                since = left[0][0] if left else until
            outcome = AppliedDraft(self._session, self._section, self.plan, draft, elsewhere)
            outcome.apply([item for item in said if self._is_there(item, source)])
            await self._note(draft, outcome, mark, since)
            applied += outcome.applied
            if after_batch is not None:
                await after_batch(len(found) - len(left), len(found))
        if left and self._is_spent:
            self._session.note(
                f"former {self.plan.former.name!r} has spent its {self._budget:,} tokens of this "
                f"session, and forms nothing more in {self.name!r}; raise its budget, and form again"
            )
        return applied

    async def _draft(self, said: Sequence[Item]) -> Draft:
        """Return the former's draft. It knows the facts of other sessions with words of messages."""
        former = self.plan.former
        known = [*self._section]
        if self.plan.shelf is not None:
            near = await self.plan.shelf.near(said)
            known += [fact for fact in near if fact.id not in self._section.ledger.shelved]
        draft = await former.propose(said, known)
        if not isinstance(draft, Draft):
            raise InvalidArgumentError(
                f"propose() of the former {former.name!r} gave a {type(draft).__name__}; "
                "return a Draft"
            )
        return draft

    async def _elsewhere(self, draft: Draft) -> dict[str, Item | None]:
        """Return the facts of other sessions with the keys of a draft."""
        shelf = self.plan.shelf
        found: dict[str, Item | None] = {}
        for key in {change.key for change in draft.changes if change.key}:
            if shelf is not None and self._section.keyed(key) is None:
                found[key] = await shelf.current(key)
        self._session.check_writable()
        return found

    async def _note(
        self,
        draft: Draft,
        outcome: AppliedDraft,
        mark: str,
        until: int,
    ) -> None:
        """Move a mark, and note in the same commit what was formed up to it, and what it cost."""
        awaited = []
        if self.plan.shelf is not None:
            # Before the commit: after a crash, they are retired once more.
            await self.plan.shelf.erase(outcome.retired)
            awaited = [(each, NOT_ON_SHELF_YET) for each in outcome.items if each in self._section]
        since = self._mark(mark)
        self._section.form(
            Form(self.name, mark, since, until, outcome.items, outcome.refused, awaited)
        )
        self._section.retire([item.id for item in outcome.retired], at=self._session.clock())
        spent = self._mark(self._spent_mark)
        self._section.form(Form(self.name, self._spent_mark, spent, spent + draft.spent))
        if draft.failure:
            self._session.note(
                f"section {self.name!r} was not formed, as {draft.failure}; its messages wait, and "
                "the next formation goes on from there"
            )

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
