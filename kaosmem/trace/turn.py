"""One turn: what an assembly was asked, what it showed in which order, and each decision."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from kaosmem.assembly.context import Context, Decision, Reason
from kaosmem.assembly.cutoffs import Cutoff
from kaosmem.assembly.why import Facts, Why, answer, find_item, never_stored
from kaosmem.assembly.windows import digest
from kaosmem.display import preview
from kaosmem.errors import CorruptionError, NotFoundError
from kaosmem.trace.request import Splitter, digest_of, join, request_of
from kaosmem.types import JSONValue
from kaosmem.types.items import Item

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
    def uses(self) -> dict[str, tuple[int, int]]:
        """Tokens and items by section."""
        return {name: (use[0], use[1]) for name, use in self.data["sections"].items()}

    @property
    def cutoffs(self) -> dict[str, Cutoff]:
        """Where the share of each section ended."""
        found = {}
        for name, (_, _, *cutoff) in self.data["sections"].items():
            if cutoff:
                found[name] = Cutoff(*cutoff)
        return found

    def decisions(self, items: Mapping[str, Item]) -> Iterator[Decision]:
        """Yield the decisions, sections in order of declaration.

        Args:
            items: The items at hand, by id.
        """
        names = self.data.get("signals", ())
        for section, rows in self.data.get("decisions", {}).items():
            for item_id, reason, rank, score, tokens, same_as, _, signals in rows:
                yield Decision(
                    item_id,
                    section,
                    item_id in self._shown,
                    Reason(reason),
                    rank,
                    score,
                    tokens,
                    same_as,
                    {name: value for name, value in zip(names, signals, strict=False) if value},
                    items.get(item_id),
                )

    @property
    def _shown(self) -> frozenset[str]:
        return frozenset(self.shown)

    def why(self, words: str, items: Mapping[str, Item]) -> Why:
        """Return why an item was in or out, as `Context.why` does.

        Args:
            items: The items at hand, by id.

        Raises:
            NotFoundError: If the turn was erased.
        """
        if self.is_erased:
            raise NotFoundError(
                f"turn {self.number} showed an item that was erased since, so only its sums are left"
            )
        decided = {decision.item_id: decision for decision in self.decisions(items)}

        def order(item: Item) -> int:
            return 0 if item.id in self._shown else 1 if item.id in decided else 2

        found = find_item(words, items.values(), order)
        if found.item_id is None:
            return never_stored(words, found.nearest)
        decision = decided.get(found.item_id)
        if decision is None:
            return self._not_offered(items[found.item_id], items.values())
        return answer(self._facts(decision, items), found.others)

    def _not_offered(self, item: Item, items: Iterable[Item]) -> Why:
        """Return the answer for an item without a decision in this turn."""
        successor = _successor(item, items, self.at)
        if item.created_at > self.at:
            said = f"it was stored on {item.created_at:%Y-%m-%d %H:%M}, after this turn"
        elif item.is_expired(self.at) and item.expires_at is not None:
            said = f"it expired on {item.expires_at.isoformat()}"
        elif successor is not None:
            newer = preview(successor.text, 48)
            said = f"'{newer}' with the same key replaced it on {successor.valid_from.date()}"
        elif item.section not in self.data["sections"]:
            said = f"its section {item.section} was not asked for, or offered nothing"
        else:
            said = f"its section did not offer it to turn {self.number}"
            cutoff = self.cutoffs.get(item.section)
            if cutoff is not None and cutoff.offered:
                said += f": it offered {cutoff.offered:,} other units"
            if cutoff is not None and cutoff.lowest is not None:
                said += f", and the lowest score that is in is {cutoff.lowest:.2f}"
        return Why(None, f"'{preview(item.text, 48)}' ({item.section}) is out: {said}.")

    def _facts(self, decision: Decision, items: Mapping[str, Item]) -> Facts:
        twin = items.get(decision.same_as or "")
        lacking = None
        for row in self.data["decisions"][decision.section]:
            if row[0] == decision.item_id:
                lacking = row[6]
        return Facts(
            decision,
            self.cutoffs.get(decision.section),
            lacking,
            "" if twin is None else f"'{preview(twin.text, 48)}'",
            "" if twin is None else f" on {twin.valid_from.date()}",
            self.data.get("window", ""),
            self.data.get("confidence"),
        )

    def request(
        self, items: Callable[[str, str], Item | None], before: Callable[[int], JSONValue]
    ) -> JSONValue:
        """Return the request of the turn as it was sent: a text, or messages with their system.

        Args:
            items: Returns the item of an id and a digest, or None.
            before: Returns the request of an earlier turn, which this one goes on from.

        Raises:
            CorruptionError: If a text is not there any more.
        """
        if self.is_erased:
            raise CorruptionError(
                f"turn {self.number} showed an item that was erased since; it cannot be replayed"
            )
        stored = self.data["request"]
        known = {}
        for item_id, item_digest in self.data["shown"]:
            item = items(item_id, item_digest)
            if item is not None:
                known[item_id] = item
        own: Any = join(stored["skeleton"], stored["parts"], known)
        whole = own
        if self.base is not None:
            whole = _continued(before(self.base), own, stored["after"][1])
        if digest_of(whole) != stored["sha256"]:
            raise CorruptionError(
                f"turn {self.number} cannot be replayed: an item that it showed is not there as "
                "it was"
            )
        return whole

    @property
    def base(self) -> int | None:
        """The number of the turn whose request this one goes on from, None without one."""
        after = self.data.get("request", {}).get("after")
        return None if after is None else int(after[0])

    def without(self, forgotten: Container[str]) -> Turn:
        """Return the turn without erased items: only its sums, if it showed one of them."""
        if self.is_erased:
            return self
        if any(item_id in forgotten for item_id in self.data["sources"]):
            sums = {name: self.data[name] for name in _SUMS if name in self.data}
            return Turn(self.number, {**sums, _ERASED: True})
        mentioned = any(
            row[0] in forgotten or (row[5] is not None and row[5] in forgotten)
            for rows in self.data["decisions"].values()
            for row in rows
        )
        if not mentioned:
            return self
        decisions = {}
        for name, rows in self.data["decisions"].items():
            kept = [list(row) for row in rows if row[0] not in forgotten]
            for row in kept:
                if row[5] is not None and row[5] in forgotten:
                    row[5] = None
            decisions[name] = kept
        return Turn(self.number, {**self.data, "decisions": decisions})


_SUMS = (
    "at",
    "seconds",
    "format",
    "budget",
    "reserve",
    "used",
    "frame",
    "window",
    "epoch",
    "rebased",
    "prefix",
    "appended",
    "sections",
)
"""The fields of a turn that say nothing of an item."""


def _successor(item: Item, items: Iterable[Item], at: datetime) -> Item | None:
    """Return the newest item with the key of another one that was stored between it and a time."""
    if item.key is None:
        return None
    found = None
    for each in items:
        is_later = item.created_at < each.created_at <= at
        if is_later and (each.section, each.key) == (item.section, item.key):
            found = each if found is None or each.created_at > found.created_at else found
    return found


def _continued(before: Any, own: Any, count: int) -> Any:
    """Return a request that goes on from the first `count` characters or messages of another."""
    if isinstance(own, str):
        return before[:count] + own
    return {**own, "messages": [*before["messages"][:count], *own["messages"]]}


@dataclass(frozen=True)
class Assembly:
    """An assembly of this process, from which a turn is made when it is needed.

    at: its time. seconds: how long it took. visible: the ids of all that the window shows.
    """

    number: int
    context: Context
    at: datetime
    seconds: float
    visible: Collection[str] = ()

    def turn(self, previous: Assembly | None = None) -> Turn:
        """Return the turn.

        Args:
            previous: An earlier assembly that is kept, of the same window. The request is stored
                as the part after the beginning that both share.
        """
        context = self.context
        names = _signal_names(context.decisions)
        shown = [(item.id, digest(item)) for item in self._stored_items()]
        request = request_of(context.rendered)
        data: dict[str, Any] = {
            "at": self.at.isoformat(),
            "seconds": round(self.seconds, 6),
            **self._query(),
            "format": context.format,
            "budget": context.budget,
            "used": context.used,
            "frame": context.frame,
            "confidence": context.confidence,
            "prefix": self._prefix(previous),
            "sections": _sections(context),
            "shown": [list(each) for each in shown],
            "signals": names,
            "decisions": _decisions(context, names),
            "sources": sorted({*self.visible, *(each for each, _ in shown), *self._said()}),
            "reports": {name: str(report) for name, report in context.sources.items()},
            "notices": list(context.notices),
            "request": self._split(request, previous),
        }
        if context.window:
            data |= {
                "window": context.window,
                "epoch": context.epoch,
                "rebased": context.rebased,
                "appended": context.appended,
            }
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
            whole = {item.id: item for item in self.context._known() if item.id in shortened}
        return [whole.get(item.id, item) for item in self.context.items]

    def _query(self) -> dict[str, JSONValue]:
        """Return the query, as the id of the shown item that has the same text, if there is one."""
        for item in self.context.items:
            if item.text == self.context.query:
                return {"asked": item.id}
        return {"query": self.context.query}

    def _said(self) -> Iterator[str]:
        """Yield the ids of items whose text the query repeats, or is a part of."""
        query = self.context.query
        for decision in self.context.decisions:
            text = "" if decision.item is None else decision.item.text
            if min(len(text), len(query)) >= _MIN_SAID_CHARS and (text in query or query in text):
                yield decision.item_id

    def _prefix(self, previous: Assembly | None) -> int:
        """Return the tokens of the beginning that a provider's cache has."""
        if self.context.window:
            return self.context.prefix_tokens
        if previous is None or previous.context.format != self.context.format:
            return 0
        return self.context.shared_prefix(previous.context)

    def _split(self, request: Any, previous: Assembly | None) -> dict[str, JSONValue]:
        splitter = Splitter(self._stored_items())
        after = None
        own = request
        if previous is not None and self.context.window:
            after, own = _after(request, request_of(previous.context.rendered), previous.number)
        skeleton = splitter.split(own)
        stored: dict[str, Any] = {
            "skeleton": skeleton,
            "parts": splitter.parts,
            "sha256": digest_of(request),
        }
        if after is not None:
            stored["after"] = after
        return stored


def _after(request: Any, before: Any, number: int) -> tuple[list[JSONValue] | None, Any]:
    """Return how much of an earlier request a request repeats, and the rest of it."""
    if isinstance(request, str) and isinstance(before, str):
        if before and request.startswith(before):
            return [number, len(before)], request[len(before) :]
        return None, request
    if isinstance(request, str) or isinstance(before, str) or request["system"] != before["system"]:
        return None, request
    count = 0
    for mine, theirs in zip(request["messages"], before["messages"], strict=False):
        if mine != theirs:
            break
        count += 1
    if not count:
        return None, request
    return [number, count], {**request, "messages": request["messages"][count:]}


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
            bounds = [cutoff.cap, cutoff.used, cutoff.free, cutoff.lowest, cutoff.best_out]
            bounds.append(cutoff.offered)
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
