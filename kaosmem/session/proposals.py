"""The proposals of formations that wait for a person, and the counts of the refused ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from kaosmem.errors import NotFoundError
from kaosmem.formation.changes import DISPUTED
from kaosmem.names import shown
from kaosmem.sections.operations import Form
from kaosmem.sections.section import Section
from kaosmem.session.open_session import OpenSession
from kaosmem.types.items import Item
from kaosmem.types.outcomes import RUN

_OWN_FIELDS = frozenset(("action", "doubt", "disputes", "of"))
"""Fields of metadata that only an open proposal has."""


@dataclass(frozen=True, slots=True)
class OpenProposal:
    """A proposal that waits for a person. It prints its text.

    Attributes:
        item: The item that is added if the proposal is accepted. If it is disputed, it is live.
        reason: Why it waits, such as "another speaker".
        action: `add`, `update` or `retire`.
        disputes: The id of the live item that it contradicts, or None.
    """

    item: Item
    reason: str
    action: str
    disputes: str | None

    @property
    def id(self) -> str:
        """The id by which `accept` and `reject` know the proposal."""
        return self.item.id

    def __str__(self) -> str:
        return self.item.text


class Proposals:
    """The open proposals of all sections. `memory.proposals` returns it.

    >>> from kaosmem import SessionMemory
    >>> from kaosmem.formation import FormsFrom, PatternFormer
    >>> memory = SessionMemory.test_mode()
    >>> item = memory.add("messages", "I live in Oslo.")
    >>> await memory.form(FormsFrom(PatternFormer(), review=True))
    []
    >>> [(proposal.reason, str(proposal)) for proposal in memory.proposals]
    [('review', 'I live in Oslo.')]
    >>> accepted = memory.proposals.accept(next(iter(memory.proposals)).id)
    >>> len(memory.proposals), memory.proposals.refused
    (0, {})
    """

    def __init__(self, session: OpenSession) -> None:
        self._session = session

    def __iter__(self) -> Iterator[OpenProposal]:
        for section in self._session.sections.values():
            for item in _waiting(section):
                doubt = item.metadata
                yield OpenProposal(
                    item, str(doubt["doubt"]), str(doubt["action"]), doubt.get("disputes")
                )

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"<Proposals: {len(self):,} open, {sum(self.refused.values()):,} refused>"

    @property
    def refused(self) -> Mapping[str, int]:
        """The number of refused proposals by reason, most frequent first, over all formations."""
        total: Counter[str] = Counter()
        for section in self._session.sections.values():
            total += section.ledger.refused
        return dict(total.most_common())

    def accept(self, proposal_id: str) -> Item:
        """Apply a proposal, and return the item that it adds or retires.

        A disputed item becomes the current version of its key.

        Raises:
            NotFoundError: If no open proposal has the id.
            SectionFullError: If the section has no room.
            ReadOnlyError: If the session cannot be changed.
        """
        section, waiting = self._found(proposal_id)
        item = _settled(waiting)
        now = self._session.clock()
        if proposal_id in section:
            section.update(item, at=now)
            return item
        settled = Form(section.spec.name, settled=(proposal_id,))
        if waiting.metadata["action"] == "retire":
            item = section.keyed(waiting.key or "") or waiting
            section.form(replace(settled, removed=(item.id,)))
            if item.id in section:
                section.remove(item.id, at=now)
            return item
        section.add(item)
        if RUN in item.metadata:
            section.count_run(item.id, str(item.metadata[RUN]), True, now)
        section.form(replace(settled, added=(item.id,)))
        return item

    def reject(self, proposal_id: str) -> None:
        """Drop a proposal. A disputed item moves to the archive.

        Raises:
            NotFoundError: If no open proposal has the id.
            ReadOnlyError: If the session cannot be changed.
        """
        section, _ = self._found(proposal_id)
        if proposal_id in section:
            section.remove(proposal_id, at=self._session.clock())
        else:
            section.form(Form(section.spec.name, settled=(proposal_id,)))

    def _found(self, proposal_id: str) -> tuple[Section, Item]:
        """Return an open proposal and its section. Raises NotFoundError and ReadOnlyError."""
        for name, section in self._session.sections.items():
            for item in _waiting(section):
                if item.id == proposal_id:
                    return self._session.writable(name), item
        raise NotFoundError(
            f"no open proposal {shown(proposal_id)}; memory.proposals lists the open ones"
        )


def _waiting(section: Section) -> list[Item]:
    """Return the proposals of a section that wait: hidden ones, and the disputed items."""
    disputed: list[Item] = []
    if section.ledger.marks:  # else nothing was formed in it
        disputed += (item for item in section if DISPUTED in item.tags)
    return [*section.ledger.pending.values(), *disputed]


def _settled(item: Item) -> Item:
    """Return an item as it is once a person has accepted it."""
    metadata = {name: value for name, value in item.metadata.items() if name not in _OWN_FIELDS}
    tags = tuple(tag for tag in item.tags if tag != DISPUTED)
    return replace(item, key=item.metadata.get("of", item.key), tags=tags, metadata=metadata)
