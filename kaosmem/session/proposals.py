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
            for item in section.ledger.pending.values():
                metadata = item.metadata
                yield OpenProposal(item, str(metadata["doubt"]), str(metadata["action"]), None)
            if not section.ledger.marks:
                continue  # nothing was formed in it
            for item in section:
                if DISPUTED in item.tags and "disputes" in item.metadata:
                    metadata = item.metadata
                    disputed = str(metadata["disputes"])
                    yield OpenProposal(item, str(metadata["doubt"]), "update", disputed)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"<Proposals: {len(self):,} open, {sum(self.refused.values()):,} refused>"

    @property
    def refused(self) -> Mapping[str, int]:
        """The number of refused proposals by reason, most frequent first, over all formations."""
        total: Counter[str] = Counter()
        for section in self._session.sections.values():
            total.update(section.ledger.refused)
        return dict(total.most_common())

    def accept(self, proposal_id: str) -> Item:
        """Apply a proposal, and return the item that it adds or retires.

        A disputed item becomes the current version of its key.

        Raises:
            NotFoundError: If no open proposal has the id.
            SectionFullError: If the section has no room.
            ReadOnlyError: If the session cannot be changed.
        """
        section = self._section_of(proposal_id)
        waiting = section.ledger.pending.get(proposal_id)
        if waiting is None:
            item = _undisputed(section.peek(proposal_id))
            section.update(item, at=self._session.clock())
            return item
        settled = Form(section.spec.name, settled=(proposal_id,))
        if waiting.metadata["action"] == "retire":
            live = None if waiting.key is None else section.keyed(waiting.key)
            removed = () if live is None else (live.id,)
            section.form(replace(settled, removed=removed))
            if live is not None:
                section.remove(live.id, at=self._session.clock())
            return live or waiting
        item = _undisputed(waiting)
        section.add(item)
        if RUN in item.metadata:
            run = str(item.metadata[RUN])
            section.count_outcome(item.id, run, worked=True, at=self._session.clock())
        section.form(replace(settled, added=(item.id,)))
        return item

    def reject(self, proposal_id: str) -> None:
        """Drop a proposal. A disputed item moves to the archive.

        Raises:
            NotFoundError: If no open proposal has the id.
            ReadOnlyError: If the session cannot be changed.
        """
        section = self._section_of(proposal_id)
        if proposal_id in section.ledger.pending:
            section.form(Form(section.spec.name, settled=(proposal_id,)))
        else:
            section.remove(proposal_id, at=self._session.clock())

    def _section_of(self, proposal_id: str) -> Section:
        """Return the section of an open proposal. Raises NotFoundError and ReadOnlyError."""
        for section in self._session.sections.values():
            is_live = proposal_id in section
            is_disputed = is_live and DISPUTED in section.peek(proposal_id).tags
            if is_disputed or proposal_id in section.ledger.pending:
                return self._session.writable(section.spec.name)
        raise NotFoundError(
            f"no open proposal {shown(proposal_id)}; memory.proposals lists the open ones"
        )


def _undisputed(item: Item) -> Item:
    """Return an item as it is once a person has accepted it."""
    metadata = {name: value for name, value in item.metadata.items() if name not in _OWN_FIELDS}
    key = item.key
    if "of" in item.metadata:
        key = str(item.metadata["of"])
    tags = tuple(tag for tag in item.tags if tag != DISPUTED)
    return replace(item, key=key, tags=tags, metadata=metadata)
