"""Windows that only grow: their states, and the thinking that they keep.

A window and the record of a turn give the next window, in this process or in another one. A
provider with preserved thinking binds the thinking of a reply to the request that it replies to.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import chain
from typing import Any

from kaosmem.formats import Format, Rendered
from kaosmem.sections import Candidate
from kaosmem.sections.proposal import Proposal
from kaosmem.sections.spec import SectionSpec
from kaosmem.tokens.counters import TokenCounter
from kaosmem.types import JSONDict, JSONObject
from kaosmem.types.content import ThinkingBlock, ToolUseBlock
from kaosmem.types.items import Item, digest, once_per_item
from kaosmem.units import Link

MAX_BREAKPOINTS = 4
"""How many cache markers a request may have. Source: Anthropic, "Prompt caching"."""

_HISTORY_SHARE = 4
_BLOCK_SHARE = 16
_LEAST_BLOCK = 512
_MOST_BLOCK = 4_096
_THRASHING_SHARE = 8


class RebaseReason(StrEnum):
    """The reason why a window was packed anew.

    The first eleven are in the order in which they are looked for.
    """

    ASKED = "asked"
    """The caller asked for it."""
    NEW = "new"
    """The window has no request yet."""
    FORGOTTEN = "forgotten"
    """An item that it showed was forgotten."""
    WRITERS = "writers"
    """Another writer continued the window, or its history, at the same time."""
    UNSTORED = "unstored"
    """It showed items of a section that is not kept on disk, and its state was read from there."""
    FORMAT = "format"
    COUNTER = "counter"
    BUDGET = "budget"
    MODEL = "model"
    FILTER = "filter"
    """The caller filters by other conditions: the window shows items that may not meet them."""
    STATIC = "static"
    """A static section lost an item, or other static sections or histories are shown."""
    CHANGED = "changed"
    """An item that it shows was updated or removed."""
    HISTORY = "history"
    """Earlier messages changed: a late result, or messages evicted before they were shown."""
    FULL = "full"
    """The turn would not fit."""


@dataclass(frozen=True, slots=True)
class VisibleItem:
    """An item that a window shows, as it was stored then.

    Attributes:
        excerpts: Digests of the shortened copies that are shown, () if the item is shown whole.
    """

    section: str
    digest: str
    key: str | None = None
    excerpts: tuple[str, ...] = ()

    @classmethod
    def read(cls, section: str, digest: str, key: str | None = None, *excerpts: str) -> VisibleItem:
        """Return an item as `stored_items` stores it. Raises TypeError."""
        return cls(section, digest, key, excerpts)

    def beside(self, earlier: VisibleItem | None) -> VisibleItem:
        """Return the item as a window shows it that has shown it before."""
        if earlier is None or not (self.excerpts and earlier.excerpts):
            return self
        return replace(self, excerpts=(*earlier.excerpts, *self.excerpts))


def shown_digest(item: Item) -> str:
    """Return a digest of all that a window shows of an item and that may change.

    These are its content, and its end while its announced successor is yet to begin.
    """
    if item.interval is None or not item.interval.is_announced or item.interval.end is None:
        return digest(item)
    return f"{digest(item)} until {item.interval.end.isoformat()}"


@dataclass(frozen=True, slots=True)
class WindowState:
    """A context that grows over many turns, after its last request.

    Attributes:
        epoch: How often the window was packed anew.
        ended: The reason why the next call packs it anew, "" if it does not.
        settings: The settings whose change ends the epoch.
        messages: The messages as JSON texts. A text format has `text` in their place.
        base: Number of messages that the epoch began with.
        sent: Number of messages before the last turn.
        used: Tokens of the request.
        uses: The tokens and items of each section.
        shown: The visible items by id.
        marks: For each history, the number of messages that it had, and the id of the last.
        foreign: The numbers of `marks` when another window was continued since. A reply after that
            may belong to the other window.
        question: A digest of the last question.
        loop: Tokens that were appended since that question was answered.
        is_stored: The log may hold the texts: the window shows no item of a section that is not
            kept on disk.
        call: A digest of the last call's own instructions and tools, "" without any.
        unbound: Number of leading messages whose thinking was bound to other instructions.
    """

    name: str
    epoch: int = 0
    ended: str = RebaseReason.NEW
    settings: JSONObject = field(default_factory=dict)
    system: str | None = None
    text: str | None = None
    messages: tuple[str, ...] = ()
    base: int = 0
    sent: int = 0
    used: int = 0
    uses: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    shown: Mapping[str, VisibleItem] = field(default_factory=dict)
    marks: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    foreign: Mapping[str, int] | None = None
    question: str = ""
    loop: int = 0
    is_stored: bool = True
    call: str = ""
    unbound: int = 0

    def after(self, turn: JSONObject) -> WindowState:
        """Return the window after the turn of a record.

        Raises KeyError, TypeError, ValueError for no record.
        """
        if "ended" in turn:
            return WindowState(self.name, max(self.epoch, turn["epoch"]), turn["ended"])
        first = self
        if "settings" in turn:
            first = WindowState(self.name)
        messages = tuple(map(_checked_text, turn["messages"]))
        shown = {
            item_id: each.beside(first.shown.get(item_id))
            for item_id, each in _read_items(turn["items"]).items()
        }
        text = None
        if turn["text"] is not None:
            text = (first.text or "") + _checked_text(turn["text"])
        return replace(
            first,
            epoch=int(turn["epoch"]),
            ended="",
            settings=turn.get("settings", first.settings),
            system=turn.get("system", first.system),
            text=text,
            messages=first.messages + messages,
            base=first.base or len(messages),
            sent=len(first.messages),
            used=int(turn["used"]),
            uses=_pairs(turn["uses"]),
            shown={**first.shown, **shown},
            marks={**first.marks, **_pairs(turn["marks"])},
            foreign=None,
            question=_checked_text(turn["question"]),
            loop=int(turn["loop"]),
            is_stored=first.is_stored and bool(turn.get("is_stored", True)),
            call=_checked_text(turn.get("call", "")),
            unbound=int(turn.get("unbound", first.unbound)),
        )

    def to_dict(self) -> JSONDict:
        """Return the window as JSON values."""
        stored = {name: getattr(self, name) for name in self.__slots__ if name != "shown"}
        return stored | {"shown": stored_items(self.shown), "ended": str(self.ended)}

    def needing_rebase(self, reason: str) -> WindowState:
        """Return the window without its texts; the next call packs it anew for a reason."""
        return WindowState(self.name, self.epoch, self.ended or reason)

    @classmethod
    def from_dict(cls, stored: JSONObject) -> WindowState:
        """Return the window that `to_dict` stored. Raises KeyError, TypeError, ValueError."""
        given = {name: stored[name] for name in cls.__slots__}
        given["messages"] = tuple(map(_checked_text, stored["messages"]))
        given["shown"] = _read_items(stored["shown"])
        given["uses"] = _pairs(stored["uses"])
        given["marks"] = _pairs(stored["marks"])
        return cls(**given)

    def beside(self, turn: JSONObject) -> WindowState:
        """Return the window after a turn of another window, whose reply may come next."""
        if self.ended or self.foreign is not None or "marks" not in turn:
            return self
        marks = _pairs(turn["marks"])
        return replace(self, foreign={name: taken for name, (taken, _) in marks.items()})

    @property
    def breakpoints(self) -> tuple[int, ...]:
        """Return the indexes of the messages where a cache marker pays."""
        ends = (self.base, self.sent, len(self.messages))
        places = {end - 1 for end in ends if end}
        return tuple(sorted(places))[-MAX_BREAKPOINTS:]

    @property
    def rendered(self) -> Rendered:
        """Return the request, of which nothing is shared with the window."""
        if self.text is not None:
            return Rendered(text=self.text)
        return Rendered(messages=list(map(json.loads, self.messages)), system=self.system)


def default_block(budget: int) -> int:
    """Return the default tokens of a window's block.

    It is a sixteenth of the budget, at least 512 tokens and at most 4,096. A budget below 4,096
    gets an eighth: a larger block would fill the window within a few turns.
    """
    least = min(_LEAST_BLOCK, budget // _THRASHING_SHARE)
    return min(_MOST_BLOCK, max(budget // _BLOCK_SHARE, least))


def history_limit(budget: int) -> int:
    """Return the most tokens of a history in a window that is packed anew."""
    return budget // _HISTORY_SHARE


def stored_items(shown: Mapping[str, VisibleItem]) -> JSONDict:
    """Return visible items as JSON values."""
    stored: JSONDict = {}
    for item_id, each in shown.items():
        stored[item_id] = [each.section, each.digest, each.key, *each.excerpts]
    return stored


def _read_items(stored: JSONObject) -> dict[str, VisibleItem]:
    return {item_id: VisibleItem.read(*each) for item_id, each in stored.items()}


def _pairs(stored: JSONObject) -> dict[str, tuple[Any, Any]]:
    """Return pairs by name, which JSON keeps as lists. Raises TypeError, ValueError."""
    return {name: (first, second) for name, (first, second) in stored.items()}


def _checked_text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("a window's record holds no text where one belongs")
    return value


def without_thinking(
    specs: Iterable[SectionSpec],
    proposals: Mapping[str, Proposal],
    *,
    keeps_open_loop: bool,
) -> dict[str, Proposal]:
    """Return the proposals without the thinking of their histories.

    Args:
        keeps_open_loop: Keep that of the newest unit if its calls were just answered, as models
            without preserved thinking require.
    """
    left = dict(proposals)
    for spec in specs:
        if spec.is_history and spec.name in left:
            proposal = left[spec.name]
            newest = max(
                (unit.position for unit in proposal.candidates if not unit.orphan), default=-1
            )
            candidates = []
            for unit in proposal.candidates:
                is_kept = keeps_open_loop and unit.position == newest and _calls(unit)
                if not is_kept:
                    unit = _unit_without_thinking(unit)
                candidates.append(unit)
            left[spec.name] = replace(proposal, candidates=tuple(candidates))
    return left


def without_unbound(
    window: WindowState,
    format: Format,
    counter: TokenCounter,
) -> tuple[Rendered, int, int]:
    """Return a window's request without the thinking that other instructions bound.

    Returns:
        The request, the tokens of the thinking, and the number of messages that had some.
    """
    rendered = window.rendered
    strip = getattr(format, "without_thinking", None)
    if not window.unbound or strip is None or rendered.messages is None:
        return rendered, 0, 0
    messages = []
    before = []
    after = []
    for at, message in enumerate(rendered.messages):
        if at < window.unbound:
            kept = strip(message)
        else:
            kept = message
        messages.append(kept)
        if kept is not message:
            before.append(message)
            after.append(kept)
    lost = format.count(Rendered(messages=before), counter)
    lost -= format.count(Rendered(messages=after), counter)
    return replace(rendered, messages=messages), lost, len(before)


def with_bound_thinking(units: Sequence[Candidate], foreign: int | None) -> list[Candidate]:
    """Return units with the thinking of replies to the last request alone.

    Others may be replies to another request, under which their thinking was bound.

    Args:
        foreign: Number of messages when another window was continued.
    """
    kept: list[Candidate] = []
    is_reply = True
    for unit in units:
        is_first = foreign is None or unit.position < foreign
        is_reply = is_reply and is_first and not _is_of_other(unit.items[0])
        kept.append(unit if is_reply else _unit_without_thinking(unit))
        # A message with results may ask something, too. The reply before it stays whole.
        is_reply = is_reply and _calls(unit) and not has_input_message(unit)
    return kept


def has_input_message(unit: Candidate) -> bool:
    """Return whether a unit has a message that is not the assistant's."""
    return any(map(_is_of_other, unit.items))


def _is_of_other(item: Item) -> bool:
    """Return whether an item says something, and is not the assistant's."""
    link = Link.of(item)
    return link.speaks and link.role != "assistant"


def _calls(unit: Candidate) -> bool:
    blocks = chain.from_iterable(item.message.blocks for item in unit.items)
    return any(isinstance(block, ToolUseBlock) for block in blocks)


def _unit_without_thinking(unit: Candidate) -> Candidate:
    items = tuple(map(_without_thinking, unit.items))
    if items == unit.items:
        return unit
    return unit._replace(items=items)


@once_per_item
def _without_thinking(item: Item) -> Item:
    """Return an item without its thinking: the same item if it has none."""
    if isinstance(item.content, str):
        return item
    blocks = tuple(each for each in item.content if not isinstance(each, ThinkingBlock))
    if len(blocks) == len(item.content):
        return item
    return replace(item, content=blocks)
