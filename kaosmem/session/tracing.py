"""The turns of a session: read, asked why, and replayed."""

from __future__ import annotations

from collections.abc import Iterator

from kaosmem.assembly.context import Context
from kaosmem.assembly.why import Why
from kaosmem.assembly.windows import digest
from kaosmem.errors import NotFoundError
from kaosmem.sections.archive import Archived
from kaosmem.session.open_session import OpenSession
from kaosmem.session.saving.past import check_archived
from kaosmem.trace.trace import KEPT_TURNS, earlier, is_turn
from kaosmem.trace.turn import Turn
from kaosmem.types import JSONValue
from kaosmem.types.items import Item

_MOST_REQUESTS = 16
"""So many requests are kept: later turns go on from them."""


def why(session: OpenSession, words: str, turn: int) -> Why:
    """Return why an item was in or out of a turn, as `SessionMemory.why` does."""
    number = session.trace.number_of(turn)
    recent = session.trace.recent(number)
    if isinstance(recent, Context):
        return recent.why(words)
    found = {each.number: each for each in turns_of(session)}.get(number) or recent
    if found is None:
        raise NotFoundError(
            f"turn {number} is not kept: without trace=True a session keeps its last {KEPT_TURNS}"
        )
    return found.why(words, items_at_hand(session))


def turns_of(session: OpenSession) -> list[Turn]:
    """Return all turns that are kept, oldest first. This reads files. Raises CorruptionError."""
    archived = session.log.archive(check_archived) if session.trace.stored else []
    turns = session.trace.all_turns(archived)
    return [turn.without(session.saver.unpurged) for turn in turns]


def items_at_hand(session: OpenSession) -> dict[str, Item]:
    """Return the items of a session by id: archived ones in memory, then live ones."""
    items = {}
    for section in session.sections.values():
        for version in section.archive.in_memory():
            items[version.item.id] = version.item
    for _, section in session.roster.all_sections():
        for item in section:
            items[item.id] = item
    return items


class Replay:
    """The requests of a session's turns as they were sent.

    All texts of the session's files are read once.

    Raises:
        CorruptionError: If the archive is damaged.
    """

    def __init__(self, session: OpenSession) -> None:
        self.turns = turns_of(session)
        self.items: dict[str, Item] = {}
        self._find = earlier(self.turns)
        self._requests: dict[int, JSONValue] = {}
        self._versions: dict[tuple[str, str], Item] = {}
        for item in _all_versions(session):
            self.items[item.id] = item
            self._versions[item.id, digest(item)] = item

    def turn(self, number: int) -> Turn:
        """Return a turn. Raises CorruptionError for one that is not kept."""
        return self._find(number)

    def request(self, number: int) -> JSONValue:
        """Return the request of a turn: a text, or messages with their system.

        Raises:
            CorruptionError: If the turn showed an erased item, or is not kept.
        """
        chain = []
        left: int | None = number
        while left is not None and left not in self._requests:
            turn = self._find(left)
            chain.append(turn)
            left = turn.base
        for turn in reversed(chain):
            request = turn.request(self.version, self._requests.__getitem__)
            self._requests[turn.number] = request
        found = self._requests[number]
        while len(self._requests) > _MOST_REQUESTS:
            del self._requests[next(iter(self._requests))]
        return found

    def version(self, item_id: str, item_digest: str) -> Item | None:
        """Return an item as a turn showed it, or as it is now, None without one."""
        return self._versions.get((item_id, item_digest)) or self.items.get(item_id)


def _all_versions(session: OpenSession) -> Iterator[Item]:
    """Yield all versions of all items, live ones last."""
    unpurged = session.saver.unpurged
    for entry in session.log.archive(check_archived) if session.log.seq else ():
        if not is_turn(entry) and entry[1]["id"] not in unpurged:
            yield Archived.from_dict(entry[1], entry[0]).item
    yield from items_at_hand(session).values()
    for section in session.sections.values():
        for version in section.archive.in_memory():
            yield version.item
    for _, section in session.roster.all_sections():
        yield from section
