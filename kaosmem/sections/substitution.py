"""Derived items: in the places of others after a compaction, and forgotten with their sources."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from kaosmem.arguments import check_text
from kaosmem.entities import Relationship, entity_item_id, graph_part_of
from kaosmem.errors import InvalidArgumentError, UnsupportedVersionError
from kaosmem.names import check_item_id
from kaosmem.types import Content, JSONDict, JSONObject
from kaosmem.types.content import Trust, check_content
from kaosmem.types.items import ChatMessage, Item

COMPACTED = "compacted"
"""The metadata field in which an item made by a compaction names the items that it replaced."""
_VERSION = 1


@dataclass(frozen=True, slots=True)
class ReplacedCounts:
    """The items that an item replaced.

    Attributes:
        items, tokens: Their number, and the tokens of their contents.
    """

    items: int
    tokens: int

    @classmethod
    def by(cls, item: Item) -> ReplacedCounts | None:
        """Return the items that an item replaced, None for one that no compaction made."""
        match item.metadata.get(COMPACTED):
            case {"items": int(items), "tokens": int(tokens)} if item.sources:
                return cls(items, tokens)
        return None


def compacted_in(items: Iterable[Item]) -> list[Item]:
    """Return the items that a compaction made."""
    return [item for item in items if ReplacedCounts.by(item)]


@dataclass(frozen=True, slots=True)
class Substitution:
    """Items in the places of others.

    Attributes:
        replaced: Ids of the items that leave, in stored order.
        items: The new items, each with the id whose place it takes.
    """

    replaced: tuple[str, ...]
    items: tuple[tuple[str, Item], ...]

    def to_dict(self) -> JSONDict:
        """Return it as JSON values."""
        items = [{**item.to_dict(), "place": place} for place, item in self.items]
        return {"version": _VERSION, "replaced": list(self.replaced), "items": items}

    @classmethod
    def from_dict(cls, stored: JSONObject, section: str) -> Substitution:
        """Return the one that `to_dict` stored.

        Raises UnsupportedVersionError, InvalidArgumentError, KeyError.
        """
        if stored["version"] != _VERSION:
            raise UnsupportedVersionError(
                f"section {section!r} was compacted in a way that is not known here; open it with "
                "a newer kaosmem"
            )
        items = tuple((entry["place"], Item.from_dict(entry, section)) for entry in stored["items"])
        return cls(tuple(stored["replaced"]), items)


def message_of(item: Item) -> ChatMessage:
    """Return an item as the message that a compaction strategy gets."""
    return replace(
        item.message, id=item.id, pinned=item.pinned, sources=item.sources, trust=item.trust
    )


def substitution(
    before: Sequence[Item],
    after: Sequence[ChatMessage],
    *,
    count: Callable[[Content], int],
    new_id: Callable[[str], str],
) -> Substitution:
    """Return the substitution of a section's items by the messages that were made of them.

    A message with the id of an item is that item, or takes its place where it says something else.
    Any other one takes the first place of the items gone between its neighbours.

    Args:
        count: Returns the tokens of a content.
        new_id: Gives an item's id, the one asked for where that is free.

    Raises:
        InvalidArgumentError: If messages are in another order, or there is no place for one.
    """
    by_id = {item.id: item for item in before}
    kept = set()
    for message in after:
        own = by_id.get(message.id)
        if own is not None and message == message_of(own):
            kept.add(message.id)
    gone = {item.id: item for item in before if item.id not in kept}
    items = []
    for own, message in zip(_owners(before, after, gone), after, strict=True):
        if message.id in kept:
            continue
        content = check_content(message.content)
        sources = _sources(own, message) or tuple(gone)
        item = replace(
            _derived(own, message, [by_id.get(source) for source in sources]),
            id=new_id("" if message.id == own.id else message.id),
            content=content,
            tokens=count(content),
            sources=sources,
        )
        items.append((own.id, _with_replaced(item, by_id, gone)))
    return Substitution(tuple(gone), tuple(items))


def _with_replaced(
    item: Item,
    by_id: Mapping[str, Item],
    gone: Container[str],
) -> Item:
    """Return a derived item that names what it replaced, and ends with the first of its sources."""
    sources = [by_id[source] for source in item.sources if source in by_id]
    ends = [source.expires_at for source in sources if source.expires_at is not None]
    stands_for = [source for source in sources if source.id in gone]
    replaced = ReplacedCounts(len(stands_for), sum(each.tokens for each in stands_for))
    metadata = {**item.metadata, COMPACTED: asdict(replaced)}
    return replace(item, expires_at=min(ends, default=None), metadata=metadata)


def _owners(
    before: Sequence[Item],
    after: Sequence[ChatMessage],
    gone: Container[str],
) -> list[Item]:
    """Return the item whose place each message takes, in order.

    That is the item of its own id, or one that is gone without a message.
    """
    places = {item.id: place for place, item in enumerate(before)}
    known = [places.get(message.id) for message in after]
    free = [item.id in gone for item in before]
    for own in known:
        if own is not None:
            free[own] = False
    owners: list[Item] = []
    place = -1
    for own in known:
        # Past the place of a message that comes later, that one has none.
        place += 1
        while place < len(before) and not (free[place] if own is None else place == own):
            place += 1
        if place == len(before):
            raise InvalidArgumentError(
                "a compaction gave messages that have no place; keep the others' order, and add no "
                "more than you take"
            )
        owners.append(before[place])
    return owners


def _sources(own: Item, message: ChatMessage) -> tuple[str, ...]:
    """Return the ids that a message stands for, none if it names none."""
    ids = message.sources
    if message.id == own.id:
        ids = (own.id, *(source for source in ids if source not in own.sources))
    return tuple(dict.fromkeys(map(check_item_id, ids)))


def _derived(
    own: Item,
    message: ChatMessage,
    sources: Sequence[Item | None],
) -> Item:
    """Return a message as an item in another's place, with its own content and sources."""
    trust = message.authority
    for item in sources:
        trust = min(trust, Trust.EXTERNAL if item is None else item.trust)
    if message.id == own.id:
        role = own.role if message.role == own.shown_role else check_text(message.role, "role")
        return replace(own, role=role, pinned=message.pinned, trust=trust)
    known = [item for item in sources if item is not None] or [own]
    newest = max(item.created_at for item in known)
    priority = max(item.priority for item in known)
    role = check_text(message.role, "role")
    return Item(
        "", own.section, role, "", 0, newest, priority=priority, pinned=message.pinned, trust=trust
    )


def derived_from(item_ids: Iterable[str], items: Iterable[Item]) -> set[str]:
    """Return these ids and those of all that was derived from them, in any number of steps.

    Args:
        items: Live and archived ones, all versions of each: an item is derived if one of its
            versions was. A relationship is derived from the entities at its ends, whose names it
            shows.
    """
    children: dict[str, list[str]] = {}
    for item in items:
        for parent in _parents(item):
            children.setdefault(parent, []).append(item.id)
    found = set(item_ids)
    left = list(found)
    while left:
        new = set(children.get(left.pop(), ())) - found
        found |= new
        left += new
    return found


def _parents(item: Item) -> Iterator[str]:
    yield from item.sources
    # One in a static section, where no item names sources, is derived all the same.
    if "relationship" not in item.metadata:
        return
    part = graph_part_of(item.metadata)
    if isinstance(part, Relationship):
        yield entity_item_id(part.source)
        yield entity_item_id(part.target)


class ForgottenIds:
    """The ids of items that were forgotten, as digests: an id may repeat its item's text."""

    def __init__(self, digests: Iterable[str] = ()) -> None:
        self._digests = {*digests}

    def __contains__(self, item_id: object) -> bool:
        return isinstance(item_id, str) and _digest(item_id) in self._digests

    def add(self, item_ids: Iterable[str]) -> None:
        """Enter ids."""
        self._digests.update(map(_digest, item_ids))

    def update(self, other: ForgottenIds) -> None:
        """Enter all that another has."""
        self._digests |= other._digests

    def to_list(self) -> list[str]:
        """Return the digests, sorted."""
        return sorted(self._digests)


def _digest(item_id: str) -> str:
    return hashlib.sha256(item_id.encode()).hexdigest()[:32]
