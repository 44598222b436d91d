"""The windows of a session: continued turn by turn, and kept in the session's log."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from kaosmem.assembly.context import Context
from kaosmem.assembly.growth import Request
from kaosmem.assembly.next_request import is_changed, next_request
from kaosmem.assembly.packing import Limits, Packing
from kaosmem.assembly.windows import (
    Rebased,
    WindowState,
    default_block,
    history_limit,
    thrashes,
    without_thinking,
)
from kaosmem.errors import InvalidArgumentError
from kaosmem.filters import MetadataFilter
from kaosmem.names import shown
from kaosmem.sections.operations import Turn
from kaosmem.sections.proposal import Proposal
from kaosmem.sections.section import Section
from kaosmem.sections.spec import SectionSpec
from kaosmem.tokens.models import preserves_thinking
from kaosmem.types import JSONValue

_MAX_STORED_CHARS = 16 * 2**20
"""A snapshot keeps windows of so many characters together. Others are packed anew after it."""

_REMOVED = "removed"
"""What a record says in place of a reason if the window was removed."""

_WATCHED_CALLS = 8
"""A window that was packed anew in half of its last calls is reported."""

Pack: TypeAlias = Callable[..., tuple[Context, Packing]]
"""`assemble` with the arguments of a call, except its proposals and limits."""


@dataclass(frozen=True, slots=True)
class WindowCall:
    """The checked arguments of a call that continues a window.

    Args:
        name: The name of the window.
        budget: Tokens of the request, without the reserve.
        block: Tokens of the block. None is a default by the budget.
        rebase: Pack the window anew.
        model: The model that the request is sent to. None is a model with preserved thinking.
        wanted: The filter of the call, or None.
        reserve: Tokens that the call keeps free beside its budget.
    """

    name: str
    budget: int
    block: int | None = None
    rebase: bool = False
    model: str | None = None
    wanted: MetadataFilter | None = None
    reserve: int = 0

    @property
    def limits(self) -> Limits:
        """Return the limits of the window's history and block."""
        block = default_block(self.budget) if self.block is None else self.block
        return Limits(history_limit(self.budget), block)


class Windows:
    """The windows of one session by name, and the turns that are not saved yet.

    notices: advice on windows that are packed anew too often.
    """

    def __init__(self, stored: Iterable[Mapping[str, Any]] = ()) -> None:
        self.held = {each["name"]: WindowState.from_dict(each) for each in stored}
        self.journal: list[dict[str, JSONValue]] = []
        self.notices: dict[str, str] = {}
        self._reasons: dict[str, deque[str]] = {}

    def apply(self, turn: Mapping[str, Any]) -> None:
        """Repeat a turn from a record.

        Raises KeyError, TypeError, ValueError for what is no turn.
        """
        name = turn["window"]
        if "settings" not in turn and "ended" not in turn and name not in self.held:
            raise ValueError("a window goes on that never began")
        after = self.held.get(name, WindowState(name)).after(turn)
        self.held = {other: window.beside(turn) for other, window in self.held.items()} | {
            name: after
        }
        if after.ended == _REMOVED:
            del self.held[name]

    def go_back(self, stored: Windows) -> None:
        """Go on from the windows that the log holds, without the unsaved turns."""
        self.held = dict(stored.held)
        self.journal = []

    def drain(self) -> list[Turn]:
        """Return the turns since the last drain."""
        turns = self.journal
        self.journal = []
        return [Turn("", turn) for turn in turns]

    def to_list(self, sections: Mapping[str, Section]) -> list[JSONValue]:
        """Return the windows as JSON values.

        A window that shows a removed item ends: only the section knows that.
        """
        stored: list[JSONValue] = []
        left = _MAX_STORED_CHARS
        for window in self.held.values():
            left -= len(window.text or "") + sum(map(len, window.messages))
            if not window.is_stored:
                window = window.over(Rebased.UNSTORED)
            elif left < 0 or is_changed(window, sections):
                window = window.over(Rebased.FULL if left < 0 else Rebased.CHANGED)
            stored.append(window.to_dict())
        return stored

    def forget(self, item_ids: Collection[str]) -> set[str]:
        """End the windows that show forgotten items, and return their names.

        An ended window keeps nothing of its items.
        """
        ended = {
            name
            for name, each in self.held.items()
            if any(item_id in each.shown for item_id in item_ids)
        }
        self.held |= {
            name: WindowState(name, self.held[name].epoch, Rebased.FORGOTTEN) for name in ended
        }
        return ended

    def remove(self, name: str) -> None:
        """Drop a window. Raises InvalidArgumentError for a name that no window has."""
        window = self.held.get(name)
        if window is None:
            there = (
                f"there are {', '.join(map(shown, self.held))}" if self.held else "there is none"
            )
            raise InvalidArgumentError(f"no window {shown(name)}; {there}")
        self._take({"window": name, "epoch": window.epoch, "ended": _REMOVED})
        self.notices.pop(name, None)
        self._reasons.pop(name, None)

    def turn(
        self,
        call: WindowCall,
        specs: Mapping[str, SectionSpec],
        proposals: Mapping[str, Proposal],
        pack: Pack,
        *,
        sections: Mapping[str, Section],
        attached: Mapping[str, Section],
    ) -> tuple[Context, Packing]:
        """Continue a window by one turn, or pack it anew.

        specs, proposals: of all that may be shown. sections: the session's own. attached: those of
            other sessions.
        Returns the context of the window, and the packing of a call without it.
        """
        keeps_open_loop = call.model is not None and not preserves_thinking(call.model)
        bound = without_thinking(specs.values(), proposals, keeps_open_loop=keeps_open_loop)
        context, packing = pack(bound, limits=call.limits)
        window = self.held.get(call.name, WindowState(call.name))
        request = Request(
            list(specs.values()),
            proposals,
            sections,
            attached,
            call.budget + call.reserve,
            call.model,
            context,
            packing,
            call.wanted,
        )
        turn, context = next_request(window, request, rebase=call.rebase)
        self._watch(call, context.rebased or "")
        self._take(turn, specs.values())
        return context, packing

    def _watch(self, call: WindowCall, reason: str) -> None:
        """Give advice on a window that is packed anew too often, or take the advice back."""
        reasons = self._reasons.setdefault(call.name, deque(maxlen=_WATCHED_CALLS))
        reasons.append(str(reason))
        rebased = Counter(each for each in reasons if each not in ("", Rebased.NEW, Rebased.ASKED))
        block = call.limits.block
        self.notices.pop(call.name, None)
        if thrashes(block, call.budget):
            self.notices[call.name] = (
                f"window {shown(call.name)} has a block of {block:,} tokens in a budget of "
                f"{call.budget:,}, and is "
                f"packed anew every few turns; use a block of at most {call.budget // 8:,}, an "
                "eighth"
            )
        elif 2 * rebased.total() >= _WATCHED_CALLS:
            why = ", ".join(f"{each} {times}" for each, times in rebased.most_common())
            self.notices[call.name] = (
                f"window {shown(call.name)} was packed anew in {rebased.total()} of its last "
                f"{len(reasons)} calls "
                f"({why}), and loses its thinking each time; raise its budget, or change visible "
                "items less often"
            )

    def _take(self, turn: dict[str, JSONValue], specs: Iterable[SectionSpec] = ()) -> None:
        """Apply a turn, and note it for the log.

        If the window shows items that no file may hold, its texts stay here.

        specs: of all that may be shown.
        """
        uses: Mapping[str, Any] = turn.get("uses", {})
        unstored = {spec.name for spec in specs if spec.persistence == "none"}
        if any(items for name, (_, items) in uses.items() if name in unstored):
            turn["is_stored"] = False
        self.apply(turn)
        window = self.held.get(turn["window"])
        if window is not None and not window.is_stored:
            turn = {
                "ended": Rebased.UNSTORED.value,
                **{name: turn[name] for name in ("window", "epoch", "marks")},
            }
        self.journal.append(turn)

    def follow(
        self,
        ours: Sequence[Mapping[str, Any]],
        theirs: Sequence[Mapping[str, Any]],
        stored: Windows | None,
        *,
        forgotten: Container[str],
        is_history_changed: bool,
        has_replies: bool,
    ) -> None:
        """Take in the turns that others saved, and let the unsaved ones follow them.

        A window that both continued ends: its next call packs it anew. So does one whose history
        others changed, and one that shows an item that they have forgotten: its unsaved turns hold
        the text, and must not reach the log.
        stored: the windows as the log has them now, if they were read. has_replies: whether the
            session has unsaved
        replies, which may belong to a request that others went on from.
        """
        mine = {turn["window"]: dict(turn) for turn in ours}
        visible = [(name, self.held[name].shown) for name in mine if name in self.held]
        visible += [
            (turn["window"], turn.get("items", ())) for turn in ours
        ]  # it may be packed anew since
        erased = {name for name, item_ids in visible if any(each in forgotten for each in item_ids)}
        removed = {name for name, turn in mine.items() if turn.get("ended") == _REMOVED}
        others = {turn["window"] for turn in theirs}
        if stored is not None:
            others |= {
                name for name, window in stored.held.items() if self.held.get(name) != window
            } - mine.keys()
        ended = erased | {name for name in mine if is_history_changed or name in others}
        ended = (ended | others if has_replies else ended) - removed
        if stored is not None:
            self.held = dict(stored.held)
        if stored is None:
            for turn in theirs:
                if turn["window"] not in mine:
                    self.apply(turn)
        kept = [turn for turn in mine.values() if turn["window"] in removed]
        kept += [dict(turn) for turn in ours if turn["window"] not in ended | removed]
        self.journal = kept
        if stored is not None:
            for turn in kept:
                self.apply(turn)
        for name in sorted(ended):
            epoch = max(
                self.held.get(name, WindowState(name)).epoch,
                mine[name]["epoch"] if name in mine else 0,
            )
            reason = Rebased.FORGOTTEN if name in erased else Rebased.WRITERS
            self._take({"window": name, "epoch": epoch, "ended": reason.value})


class NamedWindows(Mapping[str, int]):
    """The windows of a session by name, with the tokens of each one's last request.

    A window that the next call packs anew whatever happens has 0 tokens. The mapping follows the
    session.

    Args:
        windows: The windows of the session.
        check_writable: Raises ReadOnlyError if the session cannot be changed.
    """

    def __init__(self, windows: Windows, *, check_writable: Callable[[], None]) -> None:
        self._windows = windows
        self._check_writable = check_writable

    def __getitem__(self, name: str) -> int:
        return self._windows.held[name].used

    def __iter__(self) -> Iterator[str]:
        return iter(self._windows.held)

    def __len__(self) -> int:
        return len(self._windows.held)

    def __repr__(self) -> str:
        return repr(dict(self))

    def remove(self, name: str) -> None:
        """Remove a window: its state is dropped with the next save. Its items and messages stay.

        A later call with the same name begins a new window. Raises InvalidArgumentError for an
        unknown name.
        """
        self._check_writable()
        self._windows.remove(name)
