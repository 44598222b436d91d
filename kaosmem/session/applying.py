"""Applying a draft: each proposed change is checked, and becomes an item, a proposal or a refusal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from kaosmem.errors import InvalidArgumentError, SectionFullError
from kaosmem.formation.changes import UNUSABLE, AppliedChange, Draft, ProposedChange
from kaosmem.formation.conflict import doubt_about, is_run_of
from kaosmem.formation.grounding import Grounds, grounds_or_fault
from kaosmem.formation.schedule import FormsFrom
from kaosmem.formation.shelf import SHELF
from kaosmem.language.analysis import analyze
from kaosmem.language.duplicates import FORMED
from kaosmem.sections.operations import Credit
from kaosmem.sections.section import Section
from kaosmem.session.open_session import OpenSession
from kaosmem.session.proposals import add_proposal, as_proposal
from kaosmem.types import JSONDict
from kaosmem.types.items import Item, once_per_item
from kaosmem.types.outcomes import RUN

_COPIED = ("timestamp", "source")
"""Fields of the quoted message's metadata that a formed item takes over."""


class AppliedDraft:
    """A draft whose changes are applied to a section, one after the other.

    Attributes:
        items: The ids of the items that come and leave by it.
        applied: The applied changes, in order.
        retired: The items that leave when the caller notes the outcome.
        refused: The reasons of the refused changes.

    Args:
        session: The session.
        section: The section that is formed.
        plan: The plan of its formation.
        draft: The draft.
        elsewhere: The facts of other sessions with the keys of the draft.
    """

    def __init__(
        self,
        session: OpenSession,
        section: Section,
        plan: FormsFrom,
        draft: Draft,
        elsewhere: Mapping[str, Item | None],
    ) -> None:
        self._session = session
        self._section = section
        self._plan = plan
        self._draft = draft
        self._elsewhere = elsewhere
        self._known = {_said_by(item): item.id for item in section}
        self.items: list[str] = []
        self.applied: list[AppliedChange] = []
        self.retired: list[Item] = []
        self.refused = [*draft.faults]

    def apply(self, said: Sequence[Item]) -> None:
        """Check and apply all changes of the draft, which it took from these messages."""
        for change in self._draft.changes:
            if self._plan.kinds and change.kind not in self._plan.kinds:
                continue  # another section is formed of it
            found = grounds_or_fault(change, said, explicit_only=self._plan.explicit_only)
            fault = found if isinstance(found, str) else self._apply(change, found)
            if fault:
                self.refused.append(fault)

    def _apply(self, change: ProposedChange, grounds: Grounds) -> str:
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
        if change.action == "retire":
            if live is None or live in self.retired:
                return "nothing to retire"
            return self._retire(change, item, live)
        if self._is_known(item, grounds):
            return "nothing new"
        return self._add(change, item, grounds, live)

    def _doubt(self, change: ProposedChange, item: Item, live: Item | None) -> str:
        """Return why a person has to decide on a change, "" if nobody has to."""
        doubt = ""
        if live is not None:
            doubt = doubt_about(item, live, change, has_exact_key=self._draft.has_exact_keys)
        if self._plan.review:
            return doubt or "review"
        return doubt

    def _retire(self, change: ProposedChange, item: Item, live: Item) -> str:
        doubt = self._doubt(change, item, live)
        is_here = live.id in self._section
        if doubt and not is_here:
            return f"{doubt}, and the fact is of another session"
        if doubt:
            add_proposal(self._session, as_proposal(item, change.action, doubt, ends=live.id))
            self.items.append(item.id)
            return ""
        self.retired.append(live)
        self.applied.append(AppliedChange(change, live))
        if is_here:
            self.items.append(live.id)
        return ""

    def _add(
        self,
        change: ProposedChange,
        item: Item,
        grounds: Grounds,
        live: Item | None,
    ) -> str:
        doubt = self._doubt(change, item, live)
        if doubt:
            item = as_proposal(item, change.action, doubt)
        if self._plan.review:
            add_proposal(self._session, item)
            self.items.append(item.id)
            return ""
        try:
            self._section.add(item)
        except SectionFullError:
            return "no room in the section"
        self.items.append(item.id)
        self._known[_said_by(item)] = item.id
        self.applied.append(AppliedChange(change, item))
        if change.is_run:
            self._count(item.id, change, grounds)
        return ""

    def _count(self, item_id: str, change: ProposedChange, grounds: Grounds) -> None:
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
            self._section.credit(Credit(self._section.spec.name, said_at, verified=(known_id,)))
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
        if self._plan.shelf is not None:
            metadata[SHELF] = self._plan.shelf.name
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


@once_per_item
def _said_by(item: Item) -> tuple[str, tuple[str, ...]]:
    """Return what two items share if one speaker says the same in both."""
    return item.role, tuple(analyze(item.text))
