"""The trace of a session: its last turns in memory, and all of them in its log.

A stored turn is a record of the log first. A snapshot moves it to an archive file, beside the
items that left the session. So a turn is written twice at most, and is not read at open.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from kaosmem.arguments import Clock
from kaosmem.assembly.context import Context
from kaosmem.errors import CorruptionError, InvalidArgumentError
from kaosmem.trace.turn import Assembly, Turn, number_of
from kaosmem.types import JSONValue
from kaosmem.types.items import Item

TRACE_SECTION = "~trace"
"""The name under which archive files hold turns. No section can have it."""

KEPT_TURNS = 20
"""Number of the last turns that a session keeps in memory."""

_MOST_UNSAVED = 64
"""So many assemblies wait for the next save as they are. Older ones are made turns before."""

Entry: TypeAlias = tuple[str, dict[str, JSONValue]]


def turn_entry(turn: Turn) -> dict[str, JSONValue]:
    """Return a turn as a log and an archive file hold it."""
    return {
        "id": f"~turn-{turn.number}",
        "created_at": turn.data["at"],
        "sources": list(turn.data.get("sources", ())),
        "turn": {name: value for name, value in turn.data.items() if name != "sources"},
        "number": turn.number,
    }


def turn_of(stored: Mapping[str, Any]) -> Turn:
    """Return the turn that `turn_entry` stored. Raises InvalidArgumentError."""
    number = stored.get("number")
    data = stored.get("turn")
    if type(number) is not int or number < 1 or not isinstance(data, dict):
        raise InvalidArgumentError("not a stored turn")
    if "at" not in data or "sections" not in data or not isinstance(stored.get("sources"), list):
        raise InvalidArgumentError("not a stored turn")
    return Turn(number, {**data, "sources": stored["sources"]})


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
    """

    def __init__(self, count: int = 0) -> None:
        self.mode: bool | None = None
        self.held: list[Turn] = []
        self._count = count
        self._unsaved: list[Assembly | Turn] = []
        self._recent: deque[Assembly | Turn] = deque(maxlen=KEPT_TURNS)
        self._last: dict[str, Assembly] = {}

    # Turns of this process.

    @property
    def total(self) -> int:
        """The number of all turns of the session."""
        recent = max((each.number for each in self._recent), default=0)
        return max(self._count + len(self._unsaved), recent)

    @property
    def has_unsaved(self) -> bool:
        """Whether there are turns that the log does not have."""
        return bool(self._unsaved)

    @property
    def stored(self) -> int:
        """The number of turns that the log has."""
        return self._count

    def note(
        self, context: Context, clock: Clock, seconds: float, visible: Collection[str]
    ) -> None:
        """Keep an assembly as a turn, as the mode says."""
        if self.mode is False:
            return
        assembly = Assembly(self.total + 1, context, clock(), seconds, visible)
        self._recent.append(assembly)
        if self.mode:
            self._unsaved.append(assembly)
            if len(self._unsaved) > _MOST_UNSAVED:
                self._make_turns(len(self._unsaved) // 2)

    def _make_turns(self, number: int) -> None:
        """Make the oldest unsaved assemblies turns, which need no context any more."""
        for place, each in enumerate(self._unsaved[:number]):
            if isinstance(each, Assembly):
                window = each.context.window
                self._unsaved[place] = each.turn(self._last.get(window))
                self._last[window] = each

    def items_before(self, window: str) -> tuple[Item, ...] | None:
        """Return the items of the last kept assembly of a window, None without one."""
        for each in reversed(self._recent):
            if isinstance(each, Assembly) and each.context.window == window:
                return each.context.items
        return None

    def recent(self, number: int) -> Context | Turn | None:
        """Return a turn that is in memory: its context, or its record."""
        for each in self._recent:
            if each.number == number:
                return each.context if isinstance(each, Assembly) else each
        return None

    def number_of(self, turn: int) -> int:
        """Return the number of a turn, where -1 is the last one. Raises NotFoundError."""
        return number_of(turn, self.total)

    def all_turns(self, archived: Iterable[Entry]) -> list[Turn]:
        """Return all turns that are kept anywhere, oldest first.

        Args:
            archived: The entries of the archive files.
        """
        self._make_turns(len(self._unsaved))
        turns = {}
        for each in archived_turns(archived):
            turns[each.number] = each
        for each in self.held:
            turns[each.number] = each
        previous: dict[str, Assembly] = {}
        for kept in self._recent:
            if isinstance(kept, Turn):
                turns.setdefault(kept.number, kept)
                continue
            if kept.number not in turns:
                turns[kept.number] = kept.turn(previous.get(kept.context.window))
            previous[kept.context.window] = kept
        for unsaved in self._unsaved:
            if isinstance(unsaved, Turn):
                turns[unsaved.number] = unsaved
        return [turns[number] for number in sorted(turns)]

    # Turns in the log.

    def apply(self, stored: Mapping[str, Any]) -> None:
        """Take in a turn of a record. Raises InvalidArgumentError."""
        turn = turn_of(stored)
        self.held.append(turn)
        self._count = max(self._count, turn.number)

    def drain(self) -> list[dict[str, JSONValue]]:
        """Return the unsaved turns, as the log holds them."""
        self._make_turns(len(self._unsaved))
        drained = [turn_entry(each) for each in self._unsaved if isinstance(each, Turn)]
        self._unsaved = []
        return drained

    def give_back(self, drained: Iterable[Mapping[str, Any]]) -> None:
        """Take back drained turns that were not committed."""
        self._unsaved = [*map(turn_of, drained), *self._unsaved]

    def follow(self, theirs: Sequence[Mapping[str, Any]], stored: Trace | None) -> None:
        """Take in turns that others saved, and number the unsaved ones after them.

        Args:
            stored: The trace as the log has it now, if it was read.
        """
        before = self._count
        if stored is not None:
            self.held = list(stored.held)
            self._count = stored.stored
        else:
            for each in theirs:
                self.apply(each)
        moved = self._count - before
        if moved:
            self._unsaved = [_renumbered(each, moved, before) for each in self._unsaved]
            self._last = {}
            self._recent = deque(
                (_renumbered(each, moved, before) for each in self._recent), maxlen=KEPT_TURNS
            )

    def go_back(self, stored: Trace) -> None:
        """Drop the unsaved turns, and go on from the log."""
        self.held = list(stored.held)
        self._count = stored.stored
        self._unsaved = []
        self._last = {}
        self._recent.clear()

    def forget(self, item_ids: Container[str]) -> None:
        """Erase items from all turns in memory.

        Contexts hold texts, so turns take their place.
        """
        self._make_turns(len(self._unsaved))
        self._unsaved = [each.without(item_ids) for each in self._unsaved if isinstance(each, Turn)]
        self.held = [each.without(item_ids) for each in self.held]
        self._last = {}
        recent = []
        for each in self._recent:
            turn = each.turn() if isinstance(each, Assembly) else each
            recent.append(turn.without(item_ids))
        self._recent = deque(recent, maxlen=KEPT_TURNS)

    def archived(self, turns: Sequence[Turn]) -> None:
        """Let go of turns that an archive file has now."""
        numbers = {each.number for each in turns}
        self.held = [each for each in self.held if each.number not in numbers]


def archived_turns(entries: Iterable[Entry]) -> list[Turn]:
    """Return the turns among the entries of archive files, each once."""
    turns = {}
    for entry in entries:
        if is_turn(entry):
            turn = turn_of(entry[1])
            turns[turn.number] = turn
    return [turns[number] for number in sorted(turns)]


def earlier(turns: Iterable[Turn]) -> Callable[[int], Turn]:
    """Return a function that finds a turn by its number, and raises CorruptionError."""
    by_number = {turn.number: turn for turn in turns}

    def find(number: int) -> Turn:
        if number not in by_number:
            raise CorruptionError(f"turn {number} is not kept, so no later one can be replayed")
        return by_number[number]

    return find


def _renumbered(each: Assembly | Turn, moved: int, before: int) -> Any:
    """Return a turn that follows more turns than it was numbered after."""
    if each.number <= before:
        return each
    if isinstance(each, Assembly):
        return replace(each, number=each.number + moved)
    data = dict(each.data)
    after = data.get("request", {}).get("after")
    if after is not None and after[0] > before:
        data["request"] = {**data["request"], "after": [after[0] + moved, after[1]]}
    return Turn(each.number + moved, data)


def parse_mode(given: object) -> bool | None:
    """Return a given mode. Raises InvalidArgumentError."""
    if given is None or isinstance(given, bool):
        return given
    raise InvalidArgumentError(
        "trace is neither True, False nor None; use True to store every turn, None to keep the "
        f"last {KEPT_TURNS} in memory, False to keep none"
    )
