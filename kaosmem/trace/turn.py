"""One turn: what an assembly was asked, what it showed in which order, and each decision."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from datetime import datetime
from typing import Any, TypeAlias

from kaosmem.assembly.context import Context, Decision, Reason, SectionUse, SourceReport
from kaosmem.assembly.cutoffs import Cutoff
from kaosmem.assembly.seen import Seen
from kaosmem.assembly.why import IN, gone
from kaosmem.assembly.windows import digest
from kaosmem.display import listed
from kaosmem.errors import CorruptionError, NotFoundError
from kaosmem.filters import parse_filter
from kaosmem.names import shown as shown_name
from kaosmem.trace.request import Splitter, digest_of, join, request_of
from kaosmem.types import JSONValue
from kaosmem.types.items import Item, item_dict, item_of_dict

Version: TypeAlias = Callable[[str, str], Item | None]
"""Returns the item of an id and a digest, or None."""

_ERASED = "erased"
_MIN_SAID_CHARS = 12
"""A query that has so much of an item's text, or is so much of it, goes when the item is erased."""


@dataclass(frozen=True)
class Turn:
    """One turn of a session, as its trace keeps it. It holds no text of an item.

    number: the first turn of a session is 1. data: the turn as JSON values.
    """

    number: int
    data: Mapping[str, Any] = field(repr=False)

    @property
    def is_erased(self) -> bool:
        """Whether the turn showed an item that was erased since. Its sums are left."""
        return bool(self.data.get(_ERASED))

    def query(self, items: Mapping[str, Item]) -> str:
        """Return the query, "" where it was erased.

        Args:
            items: The items at hand, by id. A query that is the text of an item is kept as its id.
        """
        item = items.get(self.data.get("asked", ""))
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
    def by_section(self) -> dict[str, Cutoff]:
        """Where the share of each section ended."""
        found = {}
        for name, (_, _, *cutoff) in self.data["sections"].items():
            if cutoff:
                found[name] = Cutoff(*cutoff)
        return found

    def lacking(self, item_id: str) -> int | None:
        """Return how many more tokens would have let an item in, None if tokens did not decide."""
        for rows in self.data["decisions"].values():
            for row in rows:
                if row[0] == item_id:
                    found: int | None = row[6]
                    return found
        return None

    @property
    def guests(self) -> Iterator[Item]:
        """Yield the items of attached sources that it keeps, since no section holds them."""
        return map(item_of_dict, self.data.get("guests", ()))

    def seen(
        self, items: Mapping[str, Item], version: Version, ended: Mapping[str, datetime]
    ) -> Seen:
        """Return the turn as its context was: it answers why, and explains itself.

        Args:
            items: The items of the session, by id.
            version: Returns the item of an id and a digest, or None.
            ended: The times at which items were removed or replaced, by id.

        Raises:
            NotFoundError: If the turn was erased.
        """
        if self.is_erased:
            raise NotFoundError(
                f"turn {self.number} showed an item that was erased since, so only its sums are left"
            )
        data = self.data
        shown = [version(*each) for each in data["shown"]]
        uses = {name: SectionUse(*use[:2]) for name, use in data["sections"].items()}
        reports = {name: SourceReport(*each) for name, each in data["reports"].items()}
        return Seen(
            **{name: data[name] for name in _PLAIN},
            query=self.query(items),
            notices=tuple(data["notices"]),
            asked=tuple(data["names"]),
            items=tuple(item for item in shown if item is not None),
            by_section=uses,
            sources=reports,
            _proposed=lambda: tuple(self._decisions(items)),
            _others=lambda item_id: self._not_offered(item_id, items, ended),
            _judge=lambda: data["confidence"],
            _known=lambda _: items.values(),
            _cutoffs=self,
        )

    def _decisions(self, items: Mapping[str, Item]) -> Iterator[Decision]:
        names = self.data["signals"]
        for section, rows in self.data["decisions"].items():
            for item_id, reason, rank, score, tokens, same_as, _, signals in rows:
                given = zip(names, signals, strict=False)
                yield Decision(
                    item_id,
                    section,
                    reason in IN,
                    Reason(reason),
                    rank,
                    score,
                    tokens,
                    same_as,
                    {name: value for name, value in given if value},
                    items.get(item_id),
                )

    def _not_offered(
        self, item_id: str, items: Mapping[str, Item], ended: Mapping[str, datetime]
    ) -> Decision:
        """Return the decision on an item that no section offered. Raises NotFoundError."""
        item = items.get(item_id)
        if item is None:
            raise NotFoundError(f"no item {shown_name(item_id)} in the session")
        out = Decision(
            item_id, item.section, False, Reason.ARCHIVED, None, None, item.tokens, item=item
        )
        if item_id in self.shown:
            return replace(out, included=True, reason=Reason.VISIBLE)
        fault = gone(item, items.values(), self.at, ended.get(item_id))
        if item.created_at > self.at:
            fault = f"it was stored on {item.created_at:%Y-%m-%d %H:%M:%S}, after this turn"
        if fault:
            return replace(out, fault=fault)
        reason, fault = self._passed_over(item)
        return replace(out, reason=reason, fault=fault)

    def _passed_over(self, item: Item) -> tuple[Reason, str]:
        """Return why the turn left out an item that the session held."""
        report = self.data["reports"].get(item.section)
        if report is not None:
            return Reason.OUTRANKED, f"its source did not offer it ({SourceReport(*report)})"
        if item.section not in self.data["names"]:
            return Reason.NOT_SHOWN, ""
        if "filter" in self.data:
            wanted = parse_filter(self.data["filter"])
            if not wanted(item.metadata):
                return Reason.FILTERED, wanted.faults(item.metadata)
        cutoff = self.by_section.get(item.section)
        offered = 0 if cutoff is None else cutoff.offered
        said = f"it was not among the {offered:,} units that its section offered to turn"
        said += f" {self.number}"
        if cutoff is not None and cutoff.lowest is not None:
            said += f"; the lowest score that is in is {cutoff.lowest:.2f}"
        return Reason.OUTRANKED, said

    def request(self, version: Version) -> JSONValue:
        """Return the request of the turn as it was sent: a text, or messages with their system.

        Args:
            version: Returns the item of an id and a digest, or None.

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
        known = {}
        for item_id, item_digest in self.data["shown"]:
            item = version(item_id, item_digest)
            if item is not None:
                known[item_id] = item
        stored = self.data["request"]
        whole: JSONValue = join(stored["skeleton"], stored["parts"], known)
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
        data = {**self.data, "guests": guests}
        if self.is_erased:
            return Turn(self.number, data)
        if any(item_id in forgotten for item_id in self.data["sources"]):
            sums = {name: self.data[name] for name in _SUMS}
            return Turn(self.number, {**sums, "guests": guests, _ERASED: True})
        decisions = {}
        for name, rows in self.data["decisions"].items():
            kept = [list(row) for row in rows if row[0] not in forgotten]
            for row in kept:
                if row[5] is not None and row[5] in forgotten:
                    row[5] = None
            decisions[name] = kept
        return Turn(self.number, {**data, "decisions": decisions})


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
_SUMS = ("at", "seconds", *_PLAIN, "sections")
"""The fields that are left of a turn that showed an erased item."""


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
        names = _signal_names(context.decisions)
        items = self._stored_items()
        shown = [(item.id, digest(item)) for item in items]
        guests = [item for item in items if self._is_guest(item)]
        data: dict[str, Any] = {
            "at": self.at.isoformat(),
            "seconds": round(self.seconds, 6),
            **{name: getattr(context, name) for name in _PLAIN},
            **self._query(),
            "prefix_tokens": self._prefix(),
            "confidence": context.confidence,
            "sections": _sections(context),
            "shown": [list(each) for each in shown],
            "guests": [item_dict(item) for item in guests],
            "signals": names,
            "decisions": _decisions(context, names),
            "sources": sorted({*self.visible, *(each for each, _ in shown), *self._said(guests)}),
            "reports": {name: list(astuple(each)) for name, each in context.sources.items()},
            "notices": list(context.notices),
            "names": list(context.asked),
        }
        if self.unstored:
            data["notices"].append(
                f"not replayable, persistence='none' stores no text of: {listed(self.unstored, 8)}"
            )
        else:
            data["request"] = self._split(items)
        if context.filter is not None:
            data["filter"] = json.loads(context.filter.text)
        return Turn(self.number, data)

    def _stored_items(self) -> list[Item]:
        """Return the shown items, each as it is stored where a shortened copy is shown."""
        shortened = {
            decision.item_id
            for decision in self.context.decisions
            if decision.reason is Reason.SHORTENED
        }
        whole = {}
        if shortened:
            known = self.context._known(False)
            whole = {item.id: item for item in known if item.id in shortened}
        return [whole.get(item.id, item) for item in self.context.items]

    def _is_guest(self, item: Item) -> bool:
        """Return whether an attached source gave an item, which no section of the session holds."""
        decision = self.context._by_id.get(item.id)
        return decision is not None and decision.section in self.context.sources

    def _query(self) -> dict[str, JSONValue]:
        """Return the query, as the id of the shown item that has the same text, if there is one."""
        for item in self.context.items:
            if item.text == self.context.query:
                return {"asked": item.id}
        return {"query": self.context.query}

    def _said(self, guests: Iterable[Item]) -> Iterator[str]:
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
        context = self.context
        before = self.previous
        if context.window or before is None:
            return context.prefix_tokens
        return context.shared_prefix(before) if before.format == context.format else 0

    def _split(self, items: Sequence[Item]) -> dict[str, JSONValue]:
        request = request_of(self.context.rendered)
        splitter = Splitter(items)
        skeleton = splitter.split(request)
        return {"skeleton": skeleton, "parts": splitter.parts, "sha256": digest_of(request)}


_SHORT_OF_ROOM = Reason.NO_ROOM, Reason.BEFORE_TAIL
"""The reasons that more tokens would have changed."""


def _signal_names(decisions: Iterable[Decision]) -> list[str]:
    names: dict[str, None] = {}
    for decision in decisions:
        names |= dict.fromkeys(decision.signals)
    return list(names)


def _sections(context: Context) -> dict[str, list[JSONValue]]:
    sections = {}
    cutoffs = context._cutoffs.by_section
    for name, use in context.by_section.items():
        cutoff = cutoffs.get(name)
        bounds: list[JSONValue] = []
        if cutoff is not None:
            bounds = [*astuple(cutoff)]
        sections[name] = [use.used, use.items, *bounds]
    return sections


def _decisions(context: Context, names: Sequence[str]) -> dict[str, list[list[JSONValue]]]:
    """Return a row for each decision, by section: its id, reason, rank, score, tokens and so on."""
    rows: dict[str, list[list[JSONValue]]] = {}
    for each in context.decisions:
        signals: list[JSONValue] = [round(each.signals.get(name, 0.0), 4) for name in names]
        while signals and not signals[-1]:
            signals.pop()
        lacking = context._cutoffs.lacking(each.item_id) if each.reason in _SHORT_OF_ROOM else None
        rows.setdefault(each.section, []).append(
            [
                each.item_id,
                each.reason.value,
                each.rank,
                each.score,
                each.tokens,
                each.same_as,
                lacking,
                signals,
            ]
        )
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
