"""The turns of a session: read, asked why, and replayed."""

from __future__ import annotations

from dataclasses import replace

from kaosmem.assembly.assembled_turn import AssembledTurn
from kaosmem.assembly.context import Decision, Reason
from kaosmem.assembly.why import Why
from kaosmem.errors import NotFoundError
from kaosmem.filters import parse_filter
from kaosmem.language.query import Query
from kaosmem.session.open_session import OpenSession
from kaosmem.session.unoffered_items import EVICTED, UnofferedItems
from kaosmem.trace.trace import KEPT_TURNS
from kaosmem.trace.turn import KnownItems, Turn, number_of
from kaosmem.types import JSONValue
from kaosmem.types.items import Item

_RANKED_TODAY = "its section did not offer it to this turn (its rank and score are those of today)"


def why(
    session: OpenSession,
    words: str,
    turn: int,
) -> Why:
    """Return why an item was in or out of a turn, as `SessionMemory.why` does."""
    number = number_of(turn, session.trace.total)
    context = session.trace.context(number)
    if words in session.saver.forgotten:
        return Why(None, f"Item {words!r} was erased, so no turn shows it any more.")
    if context is None:
        return Replay(session).assembled(number).why(words)
    return context.why(words)


def turns_of(session: OpenSession) -> list[Turn]:
    """Return all turns that are kept, oldest first. This reads files. Raises CorruptionError."""
    archived = session.log.archives.all() if session.trace.stored else []
    return session.trace.turns(archived, session.saver.unpurged, with_unsaved=True)


class Replay:
    """The turns of a session, and their requests as they were sent.

    All texts of the session's files are read once.

    Attributes:
        turns: The turns that are kept, oldest first.
        known: The items of the session and of its turns, in all their versions.

    Raises:
        CorruptionError: If the archive is damaged.
    """

    def __init__(self, session: OpenSession) -> None:
        self.turns = turns_of(session)
        self._by_number = {turn.number: turn for turn in self.turns}
        self._session = session
        self._archived = [*session.version_history.stored()]
        items: list[Item] = []
        for turn in self.turns:
            items += turn.whole_items
        items += [version.item for version in self._archived]
        for section in session.sections.values():
            items += [version.item for version in section.archive.in_memory()]
        for _, live in session.registry.all_sections():
            items += live
        self.known = KnownItems(items, self._decided)

    def _decided(self, turn: Turn, item_id: str) -> Decision:
        """Return the decision of a turn on an item that no section offered to it.

        It is made anew, at the time of the turn, from the items as they are now.
        """
        session = self._session
        query = Query.read(turn.query(self.known), lambda: turn.at)
        given = turn.seen.get("filter")
        wanted = None if given is None else parse_filter(given)
        specs = {}
        for name, section in session.registry.all_sections():
            if name in turn.seen["names"]:
                specs[name] = section.spec
        unoffered = UnofferedItems(
            session.registry, specs, query, wanted, lambda: turn.at, lambda: self._archived
        )
        decision = unoffered.decide(item_id)
        # An item that was evicted since may have been live then.
        is_archived = decision.reason is Reason.ARCHIVED and decision.same_as is None
        is_held = is_archived and (not decision.fault or decision.fault.startswith(EVICTED))
        if is_held or decision.reason in (Reason.OUTRANKED, Reason.UNRELATED):
            return replace(decision, reason=Reason.OUTRANKED, fault=_RANKED_TODAY)
        return decision

    def turn(self, number: int) -> Turn:
        """Return a turn; -1 is the last one. Raises NotFoundError for one that is not kept."""
        number = number_of(number, max(self._by_number, default=0))
        found = self._by_number.get(number)
        if found is None:
            raise NotFoundError(
                f"turn {number} is not kept: without trace=True a session keeps its last "
                f"{KEPT_TURNS}, and damage may have taken it"
            )
        return found

    def assembled(self, number: int) -> AssembledTurn:
        """Return a turn that says why. Raises NotFoundError if it is not kept, or was erased."""
        return self.turn(number).as_assembled(self.known)

    def request(self, number: int) -> JSONValue:
        """Return the request of a turn: a text, or messages with their system.

        Raises:
            CorruptionError: If the turn showed an erased item.
            NotFoundError: If the turn is not kept, or showed an item that no file may hold.
        """
        return self.turn(number).request(self.known)
