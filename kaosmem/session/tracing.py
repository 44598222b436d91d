"""The turns of a session: read, asked why, and replayed."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from functools import cached_property

from kaosmem.assembly.context import Context
from kaosmem.assembly.seen import Seen
from kaosmem.assembly.why import Why
from kaosmem.assembly.windows import digest
from kaosmem.errors import CorruptionError, NotFoundError
from kaosmem.sections.archive import Archived
from kaosmem.session.open_session import OpenSession
from kaosmem.session.saving.past import check_archived, stored_versions
from kaosmem.trace.trace import KEPT_TURNS
from kaosmem.trace.turn import Turn, number_of
from kaosmem.types import JSONValue
from kaosmem.types.items import Item


def why(session: OpenSession, words: str, turn: int) -> Why:
    """Return why an item was in or out of a turn, as `SessionMemory.why` does."""
    number = number_of(turn, session.trace.total)
    context = session.trace.context(number)
    if words in session.saver.forgotten:
        return Why(None, f"Item {words!r} was erased, so no turn shows it any more.")
    return Replay(session).seen(number).why(words) if context is None else context.why(words)


def unstored_items(session: OpenSession, context: Context, visible: Collection[str]) -> list[str]:
    """Return the ids of shown items of sections that are not stored, whose texts no file may hold.

    Args:
        visible: Ids of all items that the window of the context shows.
    """
    found = []
    for item in context.items:
        section = session.sections.get(item.section)
        if section is not None and section.spec.persistence == "none":
            found.append(item.id)
    window = session.saver.windows.held.get(context.window)
    if not found and window is not None and not window.is_stored:
        found = [*visible]
    return found


def turns_of(session: OpenSession) -> list[Turn]:
    """Return all turns that are kept, oldest first. This reads files. Raises CorruptionError."""
    archived = session.log.archive(check_archived) if session.trace.stored else []
    turns = session.trace.all_turns(archived)
    return [turn.without(session.saver.unpurged) for turn in turns]


class Replay:
    """The turns of a session, and their requests as they were sent.

    All texts of the session's files are read once.

    Attributes:
        turns: The turns that are kept, oldest first.
        items: The items of the session and of its turns by id, each in its last version.

    Raises:
        CorruptionError: If the archive is damaged.
    """

    def __init__(self, session: OpenSession) -> None:
        self.turns = turns_of(session)
        self.items: dict[str, Item] = {}
        self._by_number = {turn.number: turn for turn in self.turns}
        self._ended: dict[str, datetime] = {}
        self._versions: dict[tuple[str, str], Item] = {}
        for turn in self.turns:
            self._note(*turn.guests)
        for version in stored_versions(session.log, session.saver.unpurged):
            self._note_archived(version)
        for section in session.sections.values():
            for version in section.archive.in_memory():
                self._note_archived(version)
        for _, each in session.roster.all_sections():
            self._note(*each)

    def _note(self, *items: Item) -> None:
        for item in items:
            self.items[item.id] = item
            self._versions[item.id, digest(item)] = item

    def _note_archived(self, version: Archived) -> None:
        self._note(version.item)
        if version.ended is not None:
            self._ended[version.item.id] = version.ended[1]

    @cached_property
    def total(self) -> int:
        """The number of the last turn, 0 without one."""
        return max(self._by_number, default=0)

    def turn(self, number: int) -> Turn:
        """Return a turn; -1 is the last one. Raises NotFoundError for one that is not kept."""
        found = self._by_number.get(number_of(number, self.total))
        if found is None:
            raise NotFoundError(
                f"turn {number} is not kept: without trace=True a session keeps its last "
                f"{KEPT_TURNS}, and damage may have taken it"
            )
        return found

    def seen(self, number: int) -> Seen:
        """Return a turn that says why. Raises NotFoundError if it is not kept, or was erased."""
        return self.turn(number).seen(self.items, self.version, self._ended)

    def request(self, number: int) -> JSONValue:
        """Return the request of a turn: a text, or messages with their system.

        Raises:
            CorruptionError: If the turn showed an erased item, or is not kept.
            NotFoundError: If the turn showed an item that no file may hold.
        """
        turn = self._by_number.get(number)
        if turn is None:
            raise CorruptionError(f"turn {number} is not kept")
        return turn.request(self.version)

    def version(self, item_id: str, item_digest: str) -> Item | None:
        """Return an item as a turn showed it, or as it is now, None without one."""
        return self._versions.get((item_id, item_digest)) or self.items.get(item_id)
