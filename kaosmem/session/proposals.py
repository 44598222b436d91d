"""The proposals of formations that wait for a person, and the counts of the refused ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from kaosmem.errors import NotFoundError
from kaosmem.formation.changes import DISPUTED
from kaosmem.language.duplicates import FORMED
from kaosmem.names import shown
from kaosmem.sections.section import Section
from kaosmem.sections.spec import WAITING
from kaosmem.session.open_session import OpenSession
from kaosmem.types import JSONValue
from kaosmem.types.items import Item
from kaosmem.types.outcomes import RUN

_OWN_FIELDS = frozenset(("action", "doubt", "disputes", "of", "section"))
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
            if not section.ledger.marks and section.spec.name != WAITING.name:
                continue  # nothing was formed in it
            for item in section:
                doubt = item.metadata
                if "doubt" in doubt and FORMED in item.tags:
                    reason, action = str(doubt["doubt"]), str(doubt["action"])
                    yield OpenProposal(item, reason, action, doubt.get("disputes"))

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
        proposal = self._found(proposal_id)
        section = self._session.writable(proposal.item.section)
        stated = proposal.item.metadata
        home = self._session.writable(str(stated["section"]))
        key = stated.get("of")
        now = self._session.clock()
        item = replace(
            proposal.item,
            section=home.spec.name,
            key=key,
            tags=tuple(tag for tag in proposal.item.tags if tag != DISPUTED),
            metadata={name: value for name, value in stated.items() if name not in _OWN_FIELDS},
        )
        if home is section:
            home.update(item, at=now)
            return item
        if proposal.action == "retire":
            item = home.keyed(key or "") or item
            if item.id in home:
                home.remove(item.id, at=now)
        else:
            home.add(item)
            if RUN in stated:
                home.count_run(item.id, str(stated[RUN]), True, now)
        section.remove(proposal_id, at=now)
        return item

    def reject(self, proposal_id: str) -> None:
        """Drop a proposal: it moves to the archive.

        Raises:
            NotFoundError: If no open proposal has the id.
            ReadOnlyError: If the session cannot be changed.
        """
        section = self._session.writable(self._found(proposal_id).item.section)
        section.remove(proposal_id, at=self._session.clock())

    def _found(self, proposal_id: str) -> OpenProposal:
        for proposal in self:
            if proposal.id == proposal_id:
                return proposal
        raise NotFoundError(
            f"no open proposal {shown(proposal_id)}; memory.proposals lists the open ones"
        )


def disputed(item: Item, doubt: str, live: Item) -> Item:
    """Return an item that contradicts the live one of its key, and stands beside it."""
    return _doubtful(item, {"action": "update", "doubt": doubt, "disputes": live.id}, DISPUTED)


def let_wait(session: OpenSession, item: Item, action: str, doubt: str) -> str:
    """Put an item into the section of the proposals that wait, and return its id."""
    persistence = session.sections[item.section].spec.persistence
    spec = replace(WAITING, persistence=persistence)
    waiting = session.sections.setdefault(spec.name, Section(spec))
    proposal = _doubtful(item, {"action": action, "doubt": doubt})
    waiting.add(replace(proposal, section=spec.name))
    return item.id


def _doubtful(item: Item, doubt: dict[str, JSONValue], *tags: str) -> Item:
    """Return an item that is no version of its key until a person accepts it."""
    metadata = {**item.metadata, **doubt, "of": item.key, "section": item.section}
    return replace(item, key=None, tags=(*item.tags, *tags), metadata=metadata)
