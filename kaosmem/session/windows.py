"""The windows of a session: continued turn by turn, and kept in the session's log."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kaosmem.assembly import Context
from kaosmem.assembly.growth import Growth, Request, begin, gained
from kaosmem.assembly.windows import Rebased, Window, digest, thrashes
from kaosmem.names import shown
from kaosmem.persistence import Change
from kaosmem.sections import Section
from kaosmem.types import Item, JSONValue

WINDOW = "window"
"""The op of a record that continues or ends a window. It belongs to no section."""

_CHANGES_IN_PLACE = "graph"
"""The section whose items change by updates in the normal course: a window shows them again, marked as newer."""

_MAX_STORED_CHARS = 16 * 2**20
"""A snapshot keeps windows of so many characters together. Others are packed anew after it."""


class Windows:
    """The windows of one session by name, and the turns that are not saved yet.

    notices: advice on windows that are packed anew too often.
    """

    def __init__(self, stored: Iterable[Mapping[str, Any]] = ()) -> None:
        self.held = {each["name"]: Window.from_dict(each) for each in stored}
        self.journal: list[dict[str, JSONValue]] = []
        self.notices: dict[str, str] = {}

    def apply(self, turn: Mapping[str, Any]) -> None:
        """Repeat a turn from a record. Raises KeyError, TypeError, ValueError for what is no turn."""
        name = turn["window"]
        if "settings" not in turn and "ended" not in turn and name not in self.held:
            raise ValueError("a window goes on that never began")
        after = self.held.get(name, Window(name)).after(turn)
        self.held = {other: window.beside(turn) for other, window in self.held.items()} | {name: after}

    def go_back(self, stored: Windows) -> None:
        """Go on from the windows that the log holds, without the unsaved turns."""
        self.held, self.journal = dict(stored.held), []

    def drain(self) -> list[Change]:
        """Return the turns since the last drain."""
        turns, self.journal = self.journal, []
        return [Change("", WINDOW, turn) for turn in turns]

    def to_list(self, sections: Mapping[str, Section]) -> list[JSONValue]:
        """Return the windows as JSON values. A window that shows a removed item ends: only the section knows that."""
        stored: list[JSONValue] = []
        left = _MAX_STORED_CHARS
        for window in self.held.values():
            left -= len(window.text or "") + sum(map(len, window.messages))
            if left < 0 or _is_changed(window, sections):
                window = Window(
                    window.name, window.epoch, window.ended or (Rebased.FULL if left < 0 else Rebased.CHANGED)
                )
            stored.append(window.to_dict())
        return stored

    def forget(self, item_ids: Collection[str]) -> None:
        """End the windows that show forgotten items, of which they keep nothing."""
        for name, window in self.held.items():
            if any(item_id in window.shown for item_id in item_ids):
                self.held[name] = Window(name, window.epoch, Rebased.FORGOTTEN)

    def turn(
        self, name: str, request: Request, sections: Mapping[str, Section], *, rebase: bool, block: int
    ) -> Context:
        """Continue a window by one turn, or pack it anew, and return its context."""
        window = self.held.get(name, Window(name))
        request = replace(request, corrections=_corrections(window, request, sections))
        reason = Rebased.ASKED if rebase and window.epoch else _reason(window, request, sections)
        growth: Growth | None = None
        if not reason:
            new = gained(window, request)
            growth = None if new is None else Growth(window, request, new)
            reason = Rebased.HISTORY if growth is None else "" if growth.fits else Rebased.FULL
        if thrashes(block, request.budget):
            self.notices[name] = (
                f"window {shown(name)} has a block of {block:,} tokens in a budget of {request.budget:,}, and is "
                f"packed anew every few turns; use a block of at most {request.budget // 8:,}, an eighth"
            )
        if growth is None or reason:
            turn, context = begin(window, request, reason)
            self._take(turn)
            return context
        visible = _live(window, sections)
        self._take(growth.turn())  # even if it appends nothing: a reply may follow
        return growth.context(self.held[name], visible)

    def _take(self, turn: dict[str, JSONValue]) -> None:
        self.apply(turn)
        self.journal.append(turn)

    def follow(
        self,
        ours: Sequence[Mapping[str, Any]],
        theirs: Sequence[Mapping[str, Any]],
        stored: Windows | None,
        *,
        is_history_changed: bool,
        has_replies: bool,
    ) -> None:
        """Take in the turns that others saved, and let the unsaved ones follow them.

        A window that both continued ends: its next call packs it anew. So does one whose history others changed.
        stored: the windows as the log has them now, if they were read. has_replies: whether the session has unsaved
        replies, which may belong to a request that others went on from.
        """
        mine = {turn["window"]: dict(turn) for turn in ours}
        others = {turn["window"] for turn in theirs}
        if stored is not None:
            others |= {name for name, window in stored.held.items() if self.held.get(name) != window} - mine.keys()
        ended = {name for name in mine if is_history_changed or name in others}
        ended |= others if has_replies else set()
        if stored is not None:
            self.held = dict(stored.held)
        for turn in theirs if stored is None else ():
            if turn["window"] not in mine:
                self.apply(turn)
        self.journal = [dict(turn) for turn in ours if turn["window"] not in ended]
        for turn in self.journal if stored is not None else ():
            self.apply(turn)
        for name in sorted(ended):
            epoch = max(self.held.get(name, Window(name)).epoch, mine[name]["epoch"] if name in mine else 0)
            self._take({"window": name, "epoch": epoch, "ended": Rebased.WRITERS.value})


def _reason(window: Window, request: Request, sections: Mapping[str, Section]) -> str:
    """Return why a window has to be packed anew whatever the turn appends, "" if it goes on."""
    if window.ended:
        return window.ended
    for name, value in request.settings.items():
        if window.settings.get(name) != value:
            return name
    return Rebased.CHANGED if _is_changed(window, sections) else ""


def _is_changed(window: Window, sections: Mapping[str, Section]) -> bool:
    """Return whether an item that a window shows was updated or removed."""
    for item_id, visible in window.shown.items():
        if (section := sections.get(visible.section)) is None:
            continue
        if item_id in section.removed:
            return True
        if section.spec.name != _CHANGES_IN_PLACE and _is_updated(item_id, visible.digest, section):
            return True
    return False


def _corrections(window: Window, request: Request, sections: Mapping[str, Section]) -> list[Item]:
    """Return the live items that supersede visible ones, and visible items that changed in place."""
    queried = {spec.name for spec in request.specs if spec.placement == "query"} & sections.keys()
    found: dict[str, Item] = {}
    for item_id, visible in window.shown.items():
        if visible.section not in queried:
            continue
        section = sections[visible.section]
        if section.spec.name == _CHANGES_IN_PLACE and _is_updated(item_id, visible.digest, section):
            found[item_id] = section.peek(item_id)
        if visible.key is not None and (live := section.keyed(visible.key)) and live.id not in window.shown:
            found[live.id] = live
    return list(found.values())


def _is_updated(item_id: str, stored: str, section: Section) -> bool:
    return item_id in section and digest(section.peek(item_id)) != stored


def _live(window: Window, sections: Mapping[str, Section]) -> list[Item]:
    """Return the visible items that the session holds live, in the order in which they were shown."""
    return [
        section.peek(item_id)
        for item_id, visible in window.shown.items()
        if (section := sections.get(visible.section)) is not None and item_id in section
    ]
