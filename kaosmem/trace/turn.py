"""One turn: what an assembly was asked, what it showed in which order, and each decision."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from datetime import datetime
from typing import Any

from kaosmem.assembly.assembled_turn import AssembledTurn
from kaosmem.assembly.context import Context, Decision, Reason, SectionUse, SourceReport
from kaosmem.assembly.why import INCLUDED_REASONS
from kaosmem.errors import CorruptionError, NotFoundError
from kaosmem.names import shown as shown_name
from kaosmem.trace.request import join_request, request_of, split_request
from kaosmem.types import JSONValue
from kaosmem.types.items import Item, digest, item_dict, item_of_dict

_PLAIN = (
    "format",
    "budget",
    "used",
    "frame",
    "window",
    "epoch",
    "rebased",
    "prefix_tokens",
    "appended",
)
"""The attributes of a context that a turn keeps as they are. They say nothing of an item."""
_ROW = "item_id", "section", "reason", "rank", "score", "tokens", "lacking", "same_as"
"""The attributes of a decision that a turn keeps, in this order."""
NOT_REPLAYABLE = "not replayable: it showed an item of a section with persistence='none'"
_MIN_COMMON_CHARS = 12
"""A query goes with an erased item if one of the two contains the other, from this length on."""


class KnownItems:
    """The items to which turns refer.

    Args:
        items: All versions at hand. Of one item, the last one is its newest.
        decide: Returns the decision of a turn on an item that no section offered to it.
    """

    def __init__(self, items: Sequence[Item], decide: Callable[[Turn, str], Decision]) -> None:
        self.decide = decide
        self.by_id = {item.id: item for item in items}
        self.versions = {(item.id, digest(item)): item for item in items}

    def version(self, item_id: str, item_digest: str) -> Item | None:
        """Return an item as a turn showed it, or as it is now, None without one."""
        return self.versions.get((item_id, item_digest)) or self.by_id.get(item_id)


@dataclass(frozen=True)
class Turn:
    """One turn of a session, as its trace keeps it. It holds no text of an item.

    Attributes:
        number: The first turn of a session is 1.
        data: The turn as JSON values: its `sums`, the items that no section holds as `whole_items`,
            and all that names an item as `seen`. If an item that the turn rests on is erased,
            `seen` goes.
    """

    number: int
    data: Mapping[str, Any] = field(repr=False)

    @property
    def is_erased(self) -> bool:
        """Whether the turn showed an item that was erased since. Its sums are left."""
        return "seen" not in self.data

    @property
    def sums(self) -> Mapping[str, Any]:
        """The figures of the turn, which say nothing of an item."""
        sums: Mapping[str, Any] = self.data["sums"]
        return sums

    @property
    def seen(self) -> Mapping[str, Any]:
        """The decisions, the request and all else that an erased turn lacks."""
        seen: Mapping[str, Any] = self.data.get("seen", {})
        return seen

    def query(self, known: KnownItems) -> str:
        """Return the query, "" where it was erased.

        A query that is the text of an item is kept as its id.
        """
        item = known.by_id.get(self.seen.get("asked", ""))
        if item is None:
            return str(self.seen.get("query", ""))
        return item.text

    @property
    def at(self) -> datetime:
        """The time of the assembly."""
        return datetime.fromisoformat(self.sums["at"])

    @property
    def shown(self) -> tuple[str, ...]:
        """The ids of the items that it showed, in order."""
        return tuple(item_id for item_id, _ in self.seen.get("shown", ()))

    @property
    def whole_items(self) -> Iterator[Item]:
        """Yield the items that the turn keeps whole, since no section holds them."""
        return map(item_of_dict, self.data["whole_items"])

    def as_assembled(self, known: KnownItems) -> AssembledTurn:
        """Return the turn as its context was: it answers why, and explains itself.

        Raises:
            NotFoundError: If the turn was erased.
        """
        if self.is_erased:
            raise NotFoundError(
                f"turn {self.number} showed an item that was erased since, so only its sums are left"
            )
        seen = self.seen
        sections = self.sums["sections"]
        return AssembledTurn(
            **{name: self.sums[name] for name in _PLAIN},
            query=self.query(known),
            notices=tuple(seen["notices"]),
            asked=tuple(seen["names"]),
            items=tuple(self._shown_items(known)),
            by_section={name: SectionUse(*use) for name, use in sections.items()},
            sources={name: SourceReport(*each) for name, each in seen["reports"].items()},
            _proposed=lambda: tuple(self._decisions(known)),
            _others=lambda item_id: self._decision_afterwards(item_id, known),
            _judge=lambda: seen["confidence"],
            _known=lambda _: known.by_id.values(),
        )

    def _shown_items(self, known: KnownItems) -> list[Item]:
        """Return the items that the turn showed, as it showed them, in order."""
        versions = [known.version(*each) for each in self.seen["shown"]]
        return [item for item in versions if item is not None]

    def _decisions(self, known: KnownItems) -> Iterator[Decision]:
        names = self.seen["signals"]
        for *values, signals in self.seen["decisions"]:
            fields = dict(zip(_ROW, values, strict=True))
            reason = Reason(fields.pop("reason"))
            yield Decision(
                **fields,
                included=reason in INCLUDED_REASONS,
                reason=reason,
                signals={name: value for name, value in zip(names, signals, strict=False) if value},
                item=known.by_id.get(fields["item_id"]),
            )

    def _decision_afterwards(self, item_id: str, known: KnownItems) -> Decision:
        """Return the decision on an item that no section offered in this turn.

        Raises NotFoundError.
        """
        item = known.by_id.get(item_id)
        if item is None:
            raise NotFoundError(f"no item {shown_name(item_id)} in the session")
        section = item.section
        out = Decision(
            item_id, section, False, Reason.OUTRANKED, None, None, item.tokens, item=item
        )
        if item_id in self.shown:
            return replace(out, included=True, reason=Reason.VISIBLE)
        if item.created_at > self.at:
            stored = f"{item.created_at:%Y-%m-%d %H:%M:%S}"
            fault = f"it was stored on {stored}, after this turn"
            return replace(out, reason=Reason.ARCHIVED, fault=fault)
        if section in self.seen["reports"]:
            report = SourceReport(*self.seen["reports"][section])
            return replace(out, fault=f"its source did not offer it ({report})")
        return known.decide(self, item_id)

    def request(self, known: KnownItems) -> JSONValue:
        """Return the request of the turn as it was sent: a text, or messages with their system.

        Raises:
            CorruptionError: If a text is not there any more.
            NotFoundError: If the turn showed an item that no file may hold.
        """
        if self.is_erased:
            raise CorruptionError(
                f"turn {self.number} showed an item that was erased since; it cannot be replayed"
            )
        if "request" not in self.seen:
            raise NotFoundError(f"turn {self.number} is {NOT_REPLAYABLE}")
        return join_request(self.seen["request"], self._shown_items(known))

    def without(self, forgotten: Container[str]) -> Turn:
        """Return the turn without erased items: only its sums, if it rests on one of them."""
        whole_items = []
        for stored in self.data["whole_items"]:
            ids = [stored["id"], *stored.get("sources", ())]
            if not any(item_id in forgotten for item_id in ids):
                whole_items.append(stored)
        left = {"sums": self.sums, "whole_items": whole_items}
        if self.is_erased or any(item_id in forgotten for item_id in self.seen["rests_on"]):
            return Turn(self.number, left)
        decisions = []
        for row in self.seen["decisions"]:
            item_id, *others, same_as, signals = row
            if item_id not in forgotten:
                kept = None if same_as is None or same_as in forgotten else same_as
                decisions.append([item_id, *others, kept, signals])
        return Turn(self.number, {**left, "seen": {**self.seen, "decisions": decisions}})


@dataclass(frozen=True)
class Assembly:
    """An assembly of this process, from which a turn is made when it is needed.

    Attributes:
        at: Its time.
        seconds: How long it took.
        visible: The ids of all that the window shows.
        is_stored: Whether a file may hold the texts of all shown items.
    """

    number: int
    context: Context
    at: datetime
    seconds: float
    visible: Collection[str] = ()
    is_stored: bool = True

    @property
    def turn(self) -> Turn:
        """The turn, as it is stored."""
        context = self.context
        whole_items = self._whole_items()
        sums: dict[str, Any] = {
            "at": self.at.isoformat(),
            "seconds": round(self.seconds, 6),
            **{name: getattr(context, name) for name in _PLAIN},
            "sections": {name: [*astuple(use)] for name, use in context.by_section.items()},
        }
        names = [*dict.fromkeys(name for each in context.decisions for name in each.signals)]
        shown = [item.id for item in context.items]
        seen: dict[str, Any] = {
            "query": context.query,
            "confidence": context.confidence,
            "shown": [[item.id, digest(item)] for item in context.items],
            "earlier": [item_id for item_id in self.visible if item_id not in shown],
            "signals": names,
            "decisions": _decisions(context, names),
            "reports": {name: [*astuple(each)] for name, each in context.sources.items()},
            "notices": [*context.notices],
            "names": [*context.asked],
            "rests_on": sorted({*self.visible, *self._quoted(whole_items), *shown}),
        }
        for item in context.items:
            if item.text == context.query:
                seen |= {"query": "", "asked": item.id}
        if context.filter is not None:
            seen["filter"] = json.loads(context.filter.text)
        if self.is_stored:
            seen["request"] = split_request(request_of(context.rendered), context.items)
        else:
            seen["notices"].append(NOT_REPLAYABLE)
        stored = [item_dict(item) for item in whole_items]
        return Turn(self.number, {"sums": sums, "whole_items": stored, "seen": seen})

    def _whole_items(self) -> list[Item]:
        """Return the shown items that no section holds: of sources, and shortened copies."""
        context = self.context
        # An item that was not offered is no copy. To decide on it, all archive files may be read.
        copies = {each.item_id for each in context.decisions if each.reason is Reason.SHORTENED}
        whole_items = []
        for item in context.items:
            is_copy = self.is_stored and item.id in copies
            if item.section in context.sources or is_copy:
                whole_items.append(item)
        return whole_items

    def _quoted(self, whole_items: Iterable[Item]) -> Iterator[str]:
        """Yield the ids of items with a text that the turn keeps: in its query, or in a whole item."""
        for item in whole_items:
            yield from item.sources
        query = self.context.query
        for decision in self.context.decisions:
            text = "" if decision.item is None else decision.item.text
            if min(len(text), len(query)) >= _MIN_COMMON_CHARS and (text in query or query in text):
                yield decision.item_id


def _decisions(context: Context, names: Sequence[str]) -> list[list[JSONValue]]:
    """Return a row for each decision: the attributes of `_ROW`, then its signals as `names` says."""
    rows = []
    for each in context.decisions:
        signals: list[JSONValue] = []
        if each.signals:
            signals += [round(each.signals.get(name, 0.0), 4) for name in names]
        rows.append([*(getattr(each, name) for name in _ROW), signals])
    return rows


def number_of(turn: int, total: int) -> int:
    """Return the number of a turn, where negative ones count from the end.

    Raises:
        NotFoundError: If there is no such turn.
    """
    number = total + 1 + turn if turn < 0 else turn
    if not 1 <= number <= total:
        there = f"there are turns 1 to {total:,}" if total > 1 else "there is only turn 1"
        if not total:
            there = "none is kept; call assemble_context, and open the session with trace=True"
        raise NotFoundError(f"no turn {turn}; {there}")
    return number
