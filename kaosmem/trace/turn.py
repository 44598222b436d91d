"""One turn: what an assembly was asked, what it showed in which order, and each decision."""

from __future__ import annotations

import json
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from datetime import datetime
from typing import Any

from kaosmem.assembly.context import Context, Decision, Reason, SectionUse, SourceReport
from kaosmem.assembly.seen import Cutoff, Seen
from kaosmem.assembly.why import IN, gone
from kaosmem.assembly.windows import digest
from kaosmem.display import listed
from kaosmem.errors import CorruptionError, NotFoundError
from kaosmem.filters import parse_filter
from kaosmem.names import shown as shown_name
from kaosmem.trace.request import Splitter, digest_of, join, request_of
from kaosmem.types import JSONValue
from kaosmem.types.items import Item, item_dict, item_of_dict

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
_SUMS = ("at", "seconds", *_PLAIN, "sections", "items", "left_out")
"""The fields that are left of a turn that showed an erased item."""
_ROW = "item_id", "section", "reason", "rank", "score", "tokens", "lacking", "same_as"
"""The attributes of a decision that a turn keeps, in this order."""
_MIN_SAID_CHARS = 12
"""A query that has so much of an item's text, or is so much of it, goes when the item is erased."""


class KnownItems:
    """The items to which turns refer.

    Args:
        items: All versions at hand. Of one item, the last one is its newest.
        ended: The times at which items were removed or replaced, by id.
    """

    def __init__(self, items: Sequence[Item], ended: Mapping[str, datetime]) -> None:
        self.by_id = {item.id: item for item in items}
        self.ended = ended
        self.versions = {(item.id, digest(item)): item for item in items}

    def version(self, item_id: str, item_digest: str) -> Item | None:
        """Return an item as a turn showed it, or as it is now, None without one."""
        return self.versions.get((item_id, item_digest)) or self.by_id.get(item_id)


@dataclass(frozen=True)
class Turn:
    """One turn of a session, as its trace keeps it. It holds no text of an item.

    number: the first turn of a session is 1. data: the turn as JSON values. sources: ids of the
        items that it rests on. If one of them is erased, only sums are left of the turn.
    """

    number: int
    data: Mapping[str, Any] = field(repr=False)
    sources: Sequence[str] = field(default=(), repr=False)

    @property
    def is_erased(self) -> bool:
        """Whether the turn showed an item that was erased since. Its sums are left."""
        return "decisions" not in self.data

    @property
    def sums(self) -> dict[str, Any]:
        """The figures of the turn, which say nothing of an item."""
        return {name: self.data[name] for name in _SUMS}

    @property
    def details(self) -> dict[str, Any]:
        """The decisions, the request and the rest that an erased turn lacks."""
        found = {name: value for name, value in self.data.items() if name not in _SUMS}
        del found["guests"]
        return found

    def query(self, known: KnownItems) -> str:
        """Return the query, "" where it was erased.

        A query that is the text of an item is kept as its id.
        """
        item = known.by_id.get(self.data.get("asked", ""))
        return self.data.get("query", "") if item is None else item.text

    @property
    def at(self) -> datetime:
        """The time of the assembly."""
        return datetime.fromisoformat(self.data["at"])

    @property
    def shown(self) -> tuple[str, ...]:
        """The ids of the items that it showed, in order."""
        return tuple(item_id for item_id, _ in self.data.get("shown", ()))

    @property
    def guests(self) -> Iterator[Item]:
        """Yield the items of attached sources that it keeps, since no section holds them."""
        return map(item_of_dict, self.data["guests"])

    def seen(self, known: KnownItems) -> Seen:
        """Return the turn as its context was: it answers why, and explains itself.

        Raises:
            NotFoundError: If the turn was erased.
        """
        if self.is_erased:
            raise NotFoundError(
                f"turn {self.number} showed an item that was erased since, so only its sums are left"
            )
        data = self.data
        shown = [known.version(*each) for each in data["shown"]]
        return Seen(
            **{name: data[name] for name in _PLAIN},
            query=self.query(known),
            notices=tuple(data["notices"]),
            asked=tuple(data["names"]),
            items=tuple(item for item in shown if item is not None),
            by_section={name: SectionUse(*use[:2]) for name, use in data["sections"].items()},
            sources={name: SourceReport(*each) for name, each in data["reports"].items()},
            _proposed=lambda: tuple(self._decisions(known)),
            _others=lambda item_id: self._not_offered(item_id, known),
            _judge=lambda: data["confidence"],
            _known=lambda _: known.by_id.values(),
        )

    def _decisions(self, known: KnownItems) -> Iterator[Decision]:
        names = self.data["signals"]
        for *values, signals in self.data["decisions"]:
            fields = dict(zip(_ROW, values, strict=True))
            reason = Reason(fields.pop("reason"))
            yield Decision(
                **fields,
                included=reason in IN,
                reason=reason,
                signals={name: value for name, value in zip(names, signals, strict=False) if value},
                item=known.by_id.get(fields["item_id"]),
            )

    def _not_offered(self, item_id: str, known: KnownItems) -> Decision:
        """Return the decision on an item that no section offered. Raises NotFoundError."""
        item = known.by_id.get(item_id)
        if item is None:
            raise NotFoundError(f"no item {shown_name(item_id)} in the session")
        reason, fault = self._standing(item, known)
        included = reason is Reason.VISIBLE
        return Decision(
            item_id, item.section, included, reason, None, None, item.tokens, item=item, fault=fault
        )

    def _standing(self, item: Item, known: KnownItems) -> tuple[Reason, str]:
        """Return why the turn showed an item that no section offered, or left it out."""
        data = self.data
        if item.id in self.shown:
            return Reason.VISIBLE, ""
        if item.created_at > self.at:
            stored = f"{item.created_at:%Y-%m-%d %H:%M:%S}"
            return Reason.ARCHIVED, f"it was stored on {stored}, after this turn"
        fault = gone(item, known.by_id.values(), self.at, known.ended.get(item.id))
        if fault:
            return Reason.ARCHIVED, fault
        if item.section in data["reports"]:
            report = SourceReport(*data["reports"][item.section])
            return Reason.OUTRANKED, f"its source did not offer it ({report})"
        if item.section not in data["names"]:
            return Reason.NOT_SHOWN, f"the turn asked for {listed(data['names'], 4)} alone"
        if "filter" in data:
            wanted = parse_filter(data["filter"])
            if not wanted(item.metadata):
                return Reason.FILTERED, wanted.faults(item.metadata)
        _, _, offered, lowest = data["sections"].get(item.section, (0, 0, 0, None))
        said = f"it was not among the {offered:,} items that its section offered to this turn"
        if lowest is not None:
            said += f"; the lowest score that is in is {lowest:.2f}"
        return Reason.OUTRANKED, said

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
        if "request" not in self.data:
            raise NotFoundError(f"turn {self.number} is {self.data['notices'][-1]}")
        items = {}
        for item_id, item_digest in self.data["shown"]:
            item = known.version(item_id, item_digest)
            if item is not None:
                items[item_id] = item
        stored = self.data["request"]
        whole: JSONValue = join(stored["skeleton"], items)
        if digest_of(whole) != stored["sha256"]:
            raise CorruptionError(
                f"turn {self.number} cannot be replayed: an item that it showed is not there as "
                "it was"
            )
        return whole

    def without(self, forgotten: Container[str]) -> Turn:
        """Return the turn without erased items: only its sums, if it showed one of them."""
        guests = []
        for guest in self.data["guests"]:
            ids = [guest["id"], *guest.get("sources", ())]
            if not any(item_id in forgotten for item_id in ids):
                guests.append(guest)
        if self.is_erased or any(item_id in forgotten for item_id in self.sources):
            return Turn(self.number, {**self.sums, "guests": guests})
        decisions = []
        for row in self.data["decisions"]:
            item_id, *others, same_as, signals = row
            if item_id not in forgotten:
                kept = None if same_as is None or same_as in forgotten else same_as
                decisions.append([item_id, *others, kept, signals])
        return replace(self, data={**self.data, "guests": guests, "decisions": decisions})


@dataclass(frozen=True)
class Assembly:
    """An assembly of this process, from which a turn is made when it is needed.

    at: its time. seconds: how long it took. visible: the ids of all that the window shows. unstored:
        ids of shown items that no file may hold. previous: the context before it, without a window.
    """

    number: int
    context: Context
    at: datetime
    seconds: float
    visible: Collection[str] = ()
    unstored: Sequence[str] = ()
    previous: Context | None = None

    @property
    def turn(self) -> Turn:
        """The turn, as it is stored."""
        context = self.context
        items = self._stored_items()
        guests = [item for item in items if item.section in context.sources]
        included = {each.item_id for each in context.decisions if each.included}
        included.update(item.id for item in items)
        names = [*dict.fromkeys(name for each in context.decisions for name in each.signals)]
        data: dict[str, Any] = {
            "at": self.at.isoformat(),
            "seconds": round(self.seconds, 6),
            **{name: getattr(context, name) for name in _PLAIN},
            "prefix_tokens": self._prefix(),
            "sections": _sections(context),
            "items": len(included),
            "left_out": sum(not each.included for each in context.decisions),
            "query": context.query,
            "confidence": context.confidence,
            "shown": [[item.id, digest(item)] for item in items],
            "guests": [item_dict(item) for item in guests],
            "signals": names,
            "decisions": _decisions(context, names),
            "reports": {name: [*astuple(each)] for name, each in context.sources.items()},
            "notices": [*context.notices],
            "names": [*context.asked],
        }
        for item in items:
            if item.text == context.query:
                data |= {"query": "", "asked": item.id}
        if context.filter is not None:
            data["filter"] = json.loads(context.filter.text)
        if self.unstored:
            data["notices"].append(
                f"not replayable, persistence='none' stores no text of: {listed(self.unstored, 8)}"
            )
        else:
            request = request_of(context.rendered)
            skeleton = Splitter(items).split(request)
            data["request"] = {"skeleton": skeleton, "sha256": digest_of(request)}
        sources = {*self.visible, *self._quoted(guests), *(item.id for item in items)}
        return Turn(self.number, data, sorted(sources))

    def _stored_items(self) -> list[Item]:
        """Return the shown items, each as it is stored where a shortened copy is shown."""
        shortened = set()
        for decision in self.context.decisions:
            if decision.reason is Reason.SHORTENED:
                shortened.add(decision.item_id)
        known = self.context._known(False) if shortened else ()
        whole = {item.id: item for item in known if item.id in shortened}
        return [whole.get(item.id, item) for item in self.context.items]

    def _quoted(self, guests: Iterable[Item]) -> Iterator[str]:
        """Yield the ids of items with a text that the turn keeps: in its query, or in a guest."""
        for guest in guests:
            yield from guest.sources
        query = self.context.query
        for decision in self.context.decisions:
            text = "" if decision.item is None else decision.item.text
            if min(len(text), len(query)) >= _MIN_SAID_CHARS and (text in query or query in text):
                yield decision.item_id

    def _prefix(self) -> int:
        """Return the tokens of the beginning that a provider's cache has."""
        before = self.previous
        if self.context.window or before is None or before.format != self.context.format:
            return self.context.prefix_tokens
        return self.context.shared_prefix(before)


def _sections(context: Context) -> dict[str, list[JSONValue]]:
    """Return the tokens, the items, the offered items and the lowest score in, by section."""
    sections: dict[str, list[JSONValue]] = {}
    for name, use in context.by_section.items():
        cutoff = context.cutoffs.get(name, Cutoff(0, None))
        sections[name] = [use.used, use.items, cutoff.offered, cutoff.lowest]
    return sections


def _decisions(context: Context, names: Sequence[str]) -> list[list[JSONValue]]:
    """Return a row for each decision: the attributes of `_ROW`, then its signals as `names` says."""
    rows = []
    for each in context.decisions:
        signals: list[JSONValue] = [round(each.signals.get(name, 0.0), 4) for name in names]
        while signals and not signals[-1]:
            signals.pop()
        rows.append([*(getattr(each, name) for name in _ROW), signals])
    return rows


def number_of(turn: int, total: int) -> int:
    """Return the number of a turn, where negative ones count from the end.

    Raises:
        NotFoundError: If there is no such turn.
    """
    number = total + 1 + turn if turn < 0 else turn
    if not 1 <= number <= total:
        there = f"there are turns 1 to {total:,}"
        if not total:
            there = "none is kept; call assemble_context, and open the session with trace=True"
        raise NotFoundError(f"no turn {turn}; {there}")
    return number
