"""The trace of a session: its last turns in memory, and all of them in its log.

A stored turn is a record of the log first. A snapshot moves it to an archive file, beside the
items that left the session. So a turn is written twice at most, and is not read at open.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from kaosmem.arguments import Clock, json_text
from kaosmem.assembly.context import Context
from kaosmem.errors import CorruptionError, InvalidArgumentError
from kaosmem.trace.turn import Assembly, Turn
from kaosmem.types import JSONDict

TRACE_SECTION = "~trace"
"""The name under which archive files hold turns. No section can have it."""

KEPT_TURNS = 20
"""Number of the last turns that a session keeps in memory."""

Entry: TypeAlias = tuple[str, JSONDict]


def turn_entry(turn: Turn) -> JSONDict:
    """Return a turn as a log and an archive file hold it."""
    return {
        "id": f"~turn-{turn.number}",
        "created_at": turn.sums["at"],
        "sources": turn.seen.get("rests_on", []),
        "turn": dict(turn.data),
        "number": turn.number,
    }


def turn_of(stored: Mapping[str, Any]) -> Turn:
    """Return the turn that `turn_entry` stored. Raises CorruptionError."""
    match stored:
        case {
            "number": int(number),
            "turn": {"sums": {"at": str(), "sections": dict()}, "whole_items": list()} as data,
        } if number > 0:
            return Turn(number, data)
    raise CorruptionError("a stored turn makes no sense; bring the session back from a copy")


def is_turn(entry: Entry) -> bool:
    """Return whether an entry of an archive file is a turn."""
    return entry[0] == TRACE_SECTION


class Trace:
    """The turns of one session.

    Args:
        count: The number of turns that the log has.

    Attributes:
        mode: True to store every turn, None to keep the last ones in memory, False to keep none.
        held: The turns that the log has and no archive file has.
        stored: The number of turns that the log has. Later ones are unsaved.
    """

    def __init__(self, count: int = 0) -> None:
        self.mode: bool | None = None
        self.held: list[Turn] = []
        self.stored = count
        self._kept: dict[int, Assembly | Turn] = {}
        self._whole_items: dict[str, int] = {}

    # Turns of this process.

    @property
    def total(self) -> int:
        """The number of all turns of the session."""
        return max(self.stored, next(reversed(self._kept), 0))

    @property
    def has_unsaved(self) -> bool:
        """Whether there are turns that the log does not have."""
        return self.mode is True and self.total > self.stored

    def note(
        self,
        context: Context,
        clock: Clock,
        seconds: float,
        *,
        visible: Collection[str] = (),
        is_stored: bool = True,
    ) -> None:
        """Keep an assembly as a turn, as the mode says.

        The next save makes a turn of it. Made here, it would take half the time of the assembly.

        Args:
            visible: Ids of all items that the window shows.
            is_stored: Whether a file may hold the texts of all shown items.
        """
        if self.mode is not False:
            number = self.total + 1
            self._kept[number] = Assembly(number, context, clock(), seconds, visible, is_stored)
            self._drop_old_turns()

    def _drop_old_turns(self) -> None:
        """Let go of old turns that need not be saved any more."""
        newest = self.total - KEPT_TURNS
        if self.mode:
            newest = min(newest, self.stored)
        while next(iter(self._kept), self.total) <= newest:
            del self._kept[next(iter(self._kept))]

    def _turn(self, number: int) -> Turn:
        """Return a kept assembly as a turn, which needs no context any more.

        The first turn of this process that shows an item of a source keeps the item.
        """
        each = self._kept[number]
        if isinstance(each, Turn):
            return each
        turn = each.turn
        whole_items = []
        for stored in turn.data["whole_items"]:
            first = self._whole_items.setdefault(json_text(stored), number)
            if first == number:
                whole_items.append(stored)
        return replace(turn, data={**turn.data, "whole_items": whole_items})

    def context(self, number: int) -> Context | None:
        """Return the context of a turn that is in memory."""
        each = self._kept.get(number)
        if isinstance(each, Assembly):
            return each.context
        return None

    def last(self, window: str) -> Context | None:
        """Return the last context of a window that is in memory, None without one."""
        for each in reversed(self._kept.values()):
            if isinstance(each, Assembly) and each.context.window == window:
                return each.context
        return None

    def turns(
        self,
        archived: Iterable[Entry],
        forgotten: Container[str] = (),
        *,
        with_unsaved: bool = False,
    ) -> list[Turn]:
        """Return the turns of archive files and of the log, oldest first, without forgotten items.

        Args:
            archived: The entries of the archive files.
            with_unsaved: Return the turns of this process that are not saved, too.
        """
        turns = {turn.number: turn for turn in self.held}
        for entry in archived:
            if is_turn(entry):
                turn = turn_of(entry[1])
                turns.setdefault(turn.number, turn)
        if with_unsaved:
            for number in self._kept:
                if number not in turns:
                    turns[number] = self._turn(number)
        return [turns[number].without(forgotten) for number in sorted(turns)]

    # Turns in the log.

    def apply(self, stored: Mapping[str, Any]) -> None:
        """Take in a turn of a record. Raises CorruptionError."""
        turn = turn_of(stored)
        self.held.append(turn)
        self.stored = max(self.stored, turn.number)

    def unsaved(self) -> list[JSONDict]:
        """Return the turns that the log does not have, as it holds them."""
        if not self.has_unsaved:
            return []
        return [turn_entry(self._turn(number)) for number in self._kept if number > self.stored]

    def follow(self, theirs: Sequence[Mapping[str, Any]], stored: Trace | None) -> None:
        """Take in turns that others saved, and number the unsaved ones after them.

        Args:
            stored: The trace as the log has it now, if it was read.
        """
        before = self.stored
        if stored is None:
            for each in theirs:
                self.apply(each)
        else:
            self.held = [*stored.held]
            self.stored = stored.stored
        moved = self.stored - before
        kept = self._kept
        self._kept = {}
        self._whole_items = {}
        for number, turn in kept.items():
            new = number + moved if number > before else number
            self._kept[new] = replace(turn, number=new)

    def go_back(self, stored: Trace) -> None:
        """Drop the unsaved turns, and go on from the log."""
        self._kept = {}
        self.follow((), stored)

    def forget(self, item_ids: Container[str]) -> None:
        """Erase items from all turns in memory.

        Contexts hold texts, so turns take their place.
        """
        self.held = [each.without(item_ids) for each in self.held]
        for number in self._kept:
            self._kept[number] = self._turn(number).without(item_ids)

    def archived(self, turns: Sequence[Turn]) -> None:
        """Let go of turns that an archive file has now."""
        numbers = {each.number for each in turns}
        self.held = [each for each in self.held if each.number not in numbers]
        self._drop_old_turns()


def parse_mode(given: object) -> bool | None:
    """Return a given mode. Raises InvalidArgumentError."""
    if given is None or isinstance(given, bool):
        return given
    raise InvalidArgumentError(
        "trace is neither True, False nor None; use True to store every turn, None to keep the "
        f"last {KEPT_TURNS} in memory, False to keep none"
    )
