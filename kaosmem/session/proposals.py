"""The proposals of formations that wait for a person, and the counts of the refused ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from kaosmem.errors import NotFoundError
from kaosmem.language.duplicates import FORMED, PROPOSAL
from kaosmem.names import shown
from kaosmem.sections.section import Section
from kaosmem.sections.spec import PROPOSALS_SECTION
from kaosmem.session.open_session import OpenSession
from kaosmem.types.items import Item
from kaosmem.types.outcomes import RUN

_ENDS = "ends"


class Proposals:
    """The open proposals of all sections. `memory.proposals` returns it.

    An open proposal is an item. Its metadata has the field `proposal`: the `action` (`add`,
    `update` or `retire`), the `doubt` (why it waits, such as "another speaker"), and the `section`
    and the `key` that the item is for.

    >>> from kaosmem import SessionMemory
    >>> from kaosmem.formation import FormsFrom, PatternFormer
    >>> memory = SessionMemory.test_mode()
    >>> item = memory.add("messages", "I live in Oslo.")
    >>> await memory.form(FormsFrom(PatternFormer(), review=True))
    []
    >>> [(item.metadata["proposal"]["doubt"], item.text) for item in memory.proposals]
    [('review', 'I live in Oslo.')]
    >>> accepted = memory.proposals.accept(next(iter(memory.proposals)).id)
    >>> memory.proposals
    <Proposals: 0 open, 0 refused>
    """

    def __init__(self, session: OpenSession) -> None:
        self._session = session

    def __repr__(self) -> str:
        return f"<Proposals: {len(self):,} open, {sum(self.refused.values()):,} refused>"

    def __iter__(self) -> Iterator[Item]:
        for section in self._session.sections.values():
            # Other sections have no proposals.
            if section.ledger.marks or section.spec.name == PROPOSALS_SECTION.name:
                for item in section:
                    if PROPOSAL in item.metadata and FORMED in item.tags:
                        yield item

    def __len__(self) -> int:
        return sum(1 for _ in self)

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
        proposal = self._found(proposal_id)
        metadata = {**proposal.metadata}
        stated = metadata.pop(PROPOSAL)
        home = self._session.writable(stated["section"])
        now = self._session.clock()
        item = replace(
            proposal,
            section=home.spec.name,
            key=stated["key"],
            metadata=metadata,
        )
        if proposal_id in home:
            home.update(item, at=now)
            return item
        live = home.keyed(item.key or "")
        if stated["action"] == "retire":
            if live is not None and live.id == stated[_ENDS]:
                item = live
                home.retire((live.id,), at=now)
        else:
            home.add(item)
            if RUN in metadata:
                home.count_run(item.id, metadata[RUN], True, now)
        self.reject(proposal_id)
        return item

    def reject(self, proposal_id: str) -> None:
        """Drop a proposal: it moves to the archive.

        Raises:
            NotFoundError: If no open proposal has the id.
            ReadOnlyError: If the session cannot be changed.
        """
        section = self._session.writable(self._found(proposal_id).section)
        section.remove(proposal_id, at=self._session.clock())

    def _found(self, proposal_id: str) -> Item:
        for proposal in self:
            if proposal.id == proposal_id:
                return proposal
        raise NotFoundError(
            f"no open proposal {shown(proposal_id)}; memory.proposals lists the open ones"
        )


def as_proposal(
    item: Item,
    action: str,
    doubt: str,
    *,
    ends: str = "",
) -> Item:
    """Return an item that is no version of its key until a person accepts it.

    Args:
        ends: The id of the item that it would retire.
    """
    stated = {"action": action, "doubt": doubt, "section": item.section, "key": item.key}
    if ends:
        stated[_ENDS] = ends
    metadata = {**item.metadata, PROPOSAL: stated}
    return replace(item, key=None, metadata=metadata)


def add_proposal(session: OpenSession, item: Item) -> None:
    """Put a proposal into the section of those that wait."""
    spec = replace(PROPOSALS_SECTION, persistence=session.sections[item.section].spec.persistence)
    waiting = session.sections.setdefault(spec.name, Section(spec))
    waiting.add(replace(item, section=spec.name))
