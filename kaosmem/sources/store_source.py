"""Common parts of all sources over stores: ids, trust and the size of a proposal."""

from __future__ import annotations

import copy
import math
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, ClassVar, TypeAlias, TypeVar

from kaosmem.compaction.outline import MessageSizes
from kaosmem.compaction.shortening import with_shorter_results
from kaosmem.errors import InvalidArgumentError, InvalidNameError
from kaosmem.filters import MetadataFilter
from kaosmem.language.duplicates import DuplicateFinder, part_of_room
from kaosmem.language.query import Query
from kaosmem.names import check_id
from kaosmem.retrieval.ranker import Ranker, ranking_of
from kaosmem.sections.proposal import Candidate, Proposal, with_items
from kaosmem.sections.spec import SectionSpec, renamed
from kaosmem.tokens import count_content, get_counter
from kaosmem.tokens.counters import TokenCounter
from kaosmem.types import Content, JSONObject
from kaosmem.types.content import Trust, content_text, unshown_chars
from kaosmem.types.items import Item

S = TypeVar("S", bound="StoreSource")

Scored: TypeAlias = tuple[Item, float | None]
"""An item and its score for the query, None if there was no query."""

TYPICAL_TOKENS = 100
"""The estimated tokens of a text in a store before any is seen."""
MAX_SEARCHED = 4_096
"""How many texts a store is asked for at most, where a filter lets few of them pass."""

_UNKNOWN_TIME = datetime.fromtimestamp(0, UTC)
_BYTES_A_TOKEN = 4


class StoreSource:
    """The items of a store, each under `<name of the source>/<id in the store>`.

    Raises InvalidArgumentError for another placement.

    Args:
        spec: Budget and title of the source. It has the placement `query`: a store's content is
            neither a system message nor a turn of the conversation.
        trust: Of all items from the store.
    """

    placement: ClassVar[str] = "query"

    def __init__(self, spec: SectionSpec, *, trust: Trust) -> None:
        if spec.placement != self.placement:
            raise InvalidArgumentError(
                f"source {spec.name!r} has placement {spec.placement!r}, and shows what a store "
                "holds; "
                f"use {self.placement!r}"
            )
        self._spec = spec
        self._trust = Trust(trust)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._spec.name!r})"

    @property
    def spec(self) -> SectionSpec:
        """Return how the source is budgeted and shown."""
        return self._spec

    def named(self: S, name: str) -> S:
        """Return the source under another name. Both share one store and its entries."""
        other = copy.copy(self)
        other._spec = renamed(self._spec, name)
        return other

    def _item(
        self,
        store_id: str,
        content: Content,
        *,
        role: str = "",
        metadata: JSONObject | None = None,
        created_at: datetime | None = None,
    ) -> Item:
        """Return an item of the store.

        Its tokens are guessed by its bytes, as the session counts them itself.

        Args:
            role: The default is the speaker that the metadata name.
        """
        speaker = (metadata or {}).get("speaker")
        return Item(
            f"{self._spec.name}/{store_id}",
            self._spec.name,
            role or (speaker if isinstance(speaker, str) else ""),
            content,
            (len(content_text(content).encode()) + unshown_chars(content)) // _BYTES_A_TOKEN,
            created_at or _UNKNOWN_TIME,
            metadata=metadata or {},
            trust=self._trust,
        )

    def _local(self, item_id: str) -> str | None:
        """Return the part of an id after the source's name, None for an id of another source."""
        prefix = f"{self._spec.name}/"
        if item_id.startswith(prefix):
            return item_id.removeprefix(prefix)
        return None

    def _store_id(self, item_id: str) -> str | None:
        """Return the id in the store of an item, None for one that can't be in it."""
        local = self._local(item_id)
        with suppress(InvalidNameError):
            if local is None:
                return None
            return check_id(local, "id")
        return None

    def _store_ids(self, item_ids: Iterable[str]) -> list[str]:
        return [each for each in map(self._store_id, item_ids) if each is not None]


def holding(spec: SectionSpec, **changes: Any) -> SectionSpec:
    """Return the spec of a section that holds the items of a source.

    It holds them as they are: nothing is evicted, and nothing is stored.
    """
    return replace(
        spec,
        budget=None,
        floor=0.0,
        eviction="none",
        max_items=None,
        compaction=None,
        persistence="none",
        **changes,
    )


def passing(found: Iterable[Scored], wanted: MetadataFilter | None) -> list[Scored]:
    """Return the items that pass a filter."""
    return [(item, score) for item, score in found if wanted is None or wanted(item.metadata)]


def proposed(
    found: Iterable[Scored],
    *,
    cap: int,
    wanted: MetadataFilter | None = None,
) -> Proposal:
    """Return a proposal of found items that pass a filter, up to twice `cap` tokens."""
    listed = list(found)
    if wanted is not None and listed:
        wanted = wanted.narrowed(lambda: [item.metadata for item, _ in listed])
    kept = []
    left = 2 * cap
    shown_before = DuplicateFinder()
    passed = passing(listed, wanted)
    for item, score in passed:
        if left <= 0:
            break
        kept.append((item, score))
        left -= part_of_room(item.tokens, item, cap, shown_before)
    if kept or wanted is None or not listed:
        return replace(Proposal.of(kept), offers_all=len(kept) == len(passed))
    return Proposal((), unanswered=unanswered([item for item, _ in listed], wanted))


def ranked(
    items: Sequence[Item],
    query: Query,
    ranker: Ranker,
) -> list[Scored]:
    """Return the items that match a query, best first, then the others in order."""
    index = ranker.index()
    index.add(enumerate(items))
    scores = dict(ranking_of(index, query.text, len(items)).matches)
    found: list[Scored] = [(items[place], score) for place, score in scores.items()]
    found += [(item, None) for place, item in enumerate(items) if place not in scores]
    return found


def related(proposal: Proposal, query: Query) -> Proposal:
    """Return a proposal whose items without a score are shown only if the source fits whole.

    A query without a subject, such as "Summarise this", leaves all as they are.
    """
    if not query.has_topic:
        return proposal
    unscored = [unit.position for unit in proposal.candidates if unit.score is None]
    return replace(proposal, unrelated=frozenset(unscored))


def unanswered(items: Iterable[Item], wanted: MetadataFilter) -> str:
    """Return why none of some items can pass a filter, "" if it fits some of them."""
    entries = [item.metadata for item in items]
    return wanted.unanswered(entries, {field for entry in entries for field in entry})


async def searched(
    search: Callable[[int], Awaitable[tuple[list[Scored], bool]]],
    *,
    cap: int,
    wanted: MetadataFilter | None = None,
) -> Proposal:
    """Return a proposal of the items that a store finds, up to twice `cap` tokens.

    Args:
        search: Returns items among so many that the store finds, the same ones first whatever the
            limit, and whether the store may find more.
    """
    known: dict[str, Scored] = {}
    limit = max(1, math.ceil(2 * cap / TYPICAL_TOKENS))
    while True:
        limit = min(limit, MAX_SEARCHED)
        found, may_be_more = await search(limit)
        # A known item keeps its cost and its place where the store has changed meanwhile.
        known |= {each[0].id: each for each in found if each[0].id not in known}
        kept = passing(known.values(), wanted)
        shown_before = DuplicateFinder()
        weight = 0
        for item, _ in kept:
            weight += part_of_room(item.tokens, item, cap, shown_before)
        if not may_be_more or limit == MAX_SEARCHED or weight >= 2 * cap:
            proposal = proposed(known.values(), cap=cap, wanted=wanted)
            return replace(proposal, has_no_match=not known)
        limit = max(2 * limit, math.ceil(1.2 * limit * 2 * cap / max(1, weight)))


def corrected(proposal: Proposal, spec: SectionSpec) -> Proposal:
    """Return a proposal whose items are tied to the later ones that correct them.

    Items without a `timestamp` have no order, so nothing is tied if there is one.
    """
    units = {unit.position: unit.items[0] for unit in proposal.candidates if not unit.is_replaced}
    if not spec.corrections:
        return proposal
    for item in units.values():
        if item.timestamp is None:
            return proposal
    from kaosmem.language.corrections import Corrections

    corrections = Corrections(units)
    candidates = []
    for unit in proposal.candidates:
        if not unit.is_replaced:
            unit = unit._replace(needs=corrections.of(unit.position))
        candidates.append(unit)
    return replace(proposal, candidates=tuple(candidates))


_FOR_FORMATS = 0.75
"""The part of a cap that required units may take: a format adds tokens that a source does not know."""


def with_fitting_results(
    candidates: Sequence[Candidate],
    cap: int,
    counter: TokenCounter | None = None,
) -> tuple[Candidate, ...]:
    """Return candidates of which the required ones fit a cap, by results that are cut evenly.

    The results of the newest required unit that has any are cut to one length. Their items keep
    their ids, under which the source gives the whole. If this does not help, nothing is cut.

    Args:
        cap: The tokens of the source.
        counter: None is the default one.
    """
    required = sorted((unit for unit in candidates if unit.must), key=lambda unit: unit.position)
    most = int(cap * _FOR_FORMATS)
    if sum(unit.tokens for unit in required) <= most:
        return tuple(candidates)
    counter = counter or get_counter(None)
    items = [item for unit in required for item in unit.items]
    messages = [replace(item.message, id=item.id, pinned=item.pinned) for item in items]
    units = []
    begin = 0
    for unit in required:
        units.append(range(begin, begin + len(unit.items)))
        begin += len(unit.items)
    shorter = with_shorter_results(messages, most, MessageSizes(counter).total, units)
    if shorter is None:
        return tuple(candidates)
    cut = {}
    for item, message in zip(items, shorter, strict=True):
        if message.content != item.content:
            tokens = count_content(message.content, counter)
            cut[item.id] = replace(item, content=message.content, tokens=tokens)
    fitting = []
    for unit in candidates:
        if not cut.keys().isdisjoint(item.id for item in unit.items):
            unit = with_items(unit, [cut.get(item.id, item) for item in unit.items])
        fitting.append(unit)
    return tuple(fitting)
