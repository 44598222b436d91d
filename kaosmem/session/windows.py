"""The windows of a session: continued turn by turn, and kept in the session's log."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kaosmem.arguments import check_count, check_flag, check_text
from kaosmem.assembly.context import Context
from kaosmem.assembly.growth import WindowRequest
from kaosmem.assembly.next_request import is_changed, next_request
from kaosmem.assembly.offers import Offers
from kaosmem.assembly.packing import Limits, Packing
from kaosmem.assembly.windows import (
    RebaseReason,
    WindowState,
    default_block,
    history_limit,
    without_thinking,
)
from kaosmem.names import check_name
from kaosmem.sections.operations import WindowTurn
from kaosmem.sections.section import Section
from kaosmem.sections.spec import SectionSpec
from kaosmem.tokens.models import preserves_thinking
from kaosmem.types import JSONDict, JSONValue

_MAX_STORED_CHARS = 16 * 2**20
"""A snapshot keeps so many characters of windows, those continued last. Others are packed anew."""


@dataclass(frozen=True, slots=True)
class Window:
    """A window of a session, and how this call continues it.

    Args:
        name: The name of the window. A session may have several.
        block: Tokens of the block of retrieved items that one call appends. The default is a
            sixteenth of the budget, from 512 to 4,096; an eighth of a budget below 4,096.
        model: The model that the request is sent to. Thinking from before a rebase is left out.
            A model without preserved thinking keeps the thinking of the last message if its calls
            were just answered. The default is a model with preserved thinking.
        rebase: Pack the window anew.

    Raises:
        InvalidNameError: If the name is not valid.
        InvalidArgumentError: If another value is not valid.

    >>> from kaosmem import SessionMemory
    >>> memory = SessionMemory.test_mode()
    >>> item = memory.add("messages", "Who owns the deal?")
    >>> window = Window("main", block=200)
    >>> (await memory.assemble_context(budget=1_000, window=window)).window
    'main'
    """

    name: str
    block: int | None = None
    model: str | None = None
    rebase: bool = False

    def __post_init__(self) -> None:
        check_name(self.name, "window")
        check_flag(self.rebase, "rebase")
        if self.block is not None:
            check_count(self.block, "block")
        if self.model is not None:
            check_text(self.model, "model")

    @property
    def preserves_thinking(self) -> bool:
        """Whether the model binds its thinking to the request that produced it."""
        return self.model is None or preserves_thinking(self.model)

    def block_of(self, tokens: int) -> int:
        """Return the tokens of the block in a request of so many tokens."""
        if self.block is None:
            return default_block(tokens)
        return self.block


class Windows:
    """The windows of one session, and the turns that are not saved yet.

    Attributes:
        held: The windows by name, the one continued last being the last.
        journal: The turns that are not saved yet.
    """

    def __init__(self, stored: Iterable[Mapping[str, Any]] = ()) -> None:
        self.held = {each["name"]: WindowState.from_dict(each) for each in stored}
        self.journal: list[JSONDict] = []

    def apply(self, turn: Mapping[str, Any]) -> None:
        """Repeat a turn from a record.

        Raises KeyError, TypeError, ValueError for what is no turn.
        """
        name = turn["window"]
        if "settings" not in turn and "ended" not in turn and name not in self.held:
            raise ValueError("a window goes on that never began")
        after = self.held.get(name, WindowState(name)).after(turn)
        others = {each: self.held[each].beside(turn) for each in self.held if each != name}
        self.held = {**others, name: after}

    def drain(self) -> list[WindowTurn]:
        """Return the turns since the last drain."""
        turns = self.journal
        self.journal = []
        return [WindowTurn("", turn) for turn in turns]

    def to_list(self, sections: Mapping[str, Section]) -> list[JSONValue]:
        """Return the windows as JSON values.

        A window that shows a removed item ends: only the section knows that.
        """
        stored: list[JSONValue] = []
        left = _MAX_STORED_CHARS
        for window in reversed(self.held.values()):
            left -= len(window.text or "") + sum(map(len, window.messages))
            if not window.is_stored:
                window = window.needing_rebase(RebaseReason.UNSTORED)
            elif left < 0:
                window = window.needing_rebase(RebaseReason.FULL)
            elif is_changed(window, sections, {}):
                window = window.needing_rebase(RebaseReason.CHANGED)
            stored.append(window.to_dict())
        return stored[::-1]

    def forget(self, item_ids: Collection[str]) -> set[str]:
        """End the windows that show forgotten items, and return their names.

        An ended window keeps nothing of its items.
        """
        ended = set()
        for name, each in self.held.items():
            if not _visible_ids(each).isdisjoint(item_ids):
                ended.add(name)
        self.held |= {
            name: WindowState(name, self.held[name].epoch, RebaseReason.FORGOTTEN) for name in ended
        }
        return ended

    def visible(self, name: str) -> Collection[str]:
        """Return the ids of the items that a window shows, none without a window."""
        window = self.held.get(name)
        if window is None:
            return ()
        return window.shown.keys()

    def turn(
        self,
        window: Window,
        offers: Offers,
        *,
        sections: Mapping[str, Section],
        attached: Mapping[str, Section],
    ) -> tuple[Context, Packing]:
        """Continue a window by one turn, or pack it anew.

        Args:
            window: The window of the call.
            offers: All that may be shown.
            sections: The session's own sections.
            attached: The attached sections of other sessions.

        Returns:
            The context of the window, and the packing of a call without it.
        """
        bound = without_thinking(
            offers.specs, offers.proposals, keeps_open_loop=not window.preserves_thinking
        )
        block = window.block_of(offers.room)
        before = self.held.get(window.name, WindowState(window.name))

        def made(left: Offers) -> tuple[Context, tuple[JSONDict, Packing]]:
            limits = Limits(history_limit(left.room), block)
            packed = replace(left, proposals=bound).pack(limits)
            request = WindowRequest(
                left, sections, attached, window.model, window.preserves_thinking, *packed
            )
            turn, context = next_request(before, request, rebase=window.rebase)
            return context, (turn, request.packing)

        context, (turn, packing) = offers.with_instructions(made)
        self._take(turn, offers.specs)
        return context, packing

    def _take(self, turn: JSONDict, specs: Iterable[SectionSpec] = ()) -> None:
        """Apply a turn, and note it for the log.

        If the window shows items that no file may hold, its texts stay here.

        Args:
            specs: Of all that may be shown.
        """
        uses: Mapping[str, Any] = turn.get("uses", {})
        unstored = {spec.name for spec in specs if spec.persistence == "none"}
        if any(items for name, (_, items) in uses.items() if name in unstored):
            turn["is_stored"] = False
        self.apply(turn)
        window = self.held.get(turn["window"])
        if window is not None and not window.is_stored:
            turn = {
                "ended": RebaseReason.UNSTORED.value,
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

        Args:
            stored: The windows as the log has them now, if they were read.
            has_replies: Whether the session has unsaved replies, which may belong to a request that
                others went on from.
        """
        mine = {turn["window"]: dict(turn) for turn in ours}
        erased = self._showing(forgotten, ours)
        others = {turn["window"] for turn in theirs}
        if stored is not None:
            changed = {name for name, each in stored.held.items() if self.held.get(name) != each}
            others |= changed - mine.keys()
        ended = erased | {name for name in mine if is_history_changed or name in others}
        if has_replies:
            ended |= others
        self.journal = [dict(turn) for turn in ours if turn["window"] not in ended]
        followed: Sequence[Mapping[str, Any]] = self.journal
        if stored is None:
            followed = [turn for turn in theirs if turn["window"] not in mine]
        else:
            self.held = dict(stored.held)
        for turn in followed:
            self.apply(turn)
        for name in sorted(ended):
            epoch = self.held.get(name, WindowState(name)).epoch
            if name in mine:
                epoch = max(epoch, mine[name]["epoch"])
            reason = RebaseReason.FORGOTTEN if name in erased else RebaseReason.WRITERS
            self._take({"window": name, "epoch": epoch, "ended": reason.value})

    def _showing(self, item_ids: Container[str], turns: Sequence[Mapping[str, Any]]) -> set[str]:
        """Return the names of the windows of some turns that show any of these items.

        A window may be packed anew since a turn of its own.
        """
        names = set()
        for turn in turns:
            name = turn["window"]
            window = self.held.get(name)
            visible = {*turn.get("items", ())}
            if window is not None:
                visible |= _visible_ids(window)
            if any(item_id in item_ids for item_id in visible):
                names.add(name)
        return names


def _visible_ids(window: WindowState) -> set[str]:
    """Return the ids of the items that a window shows, with and without the name of a source."""
    ids = set(window.shown)
    return ids | {item_id.partition("/")[2] for item_id in ids if "/" in item_id}
