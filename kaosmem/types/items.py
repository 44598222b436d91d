"""An item: one unit of memory, live or stored."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import wraps
from typing import Any, NamedTuple, TypeVar

from kaosmem.arguments import (
    MAX_JSON_CONTAINERS,
    JSONDict,
    JSONObject,
    JSONValue,
    check_metadata,
    check_text,
    check_time,
    json_text,
    text_digest,
)
from kaosmem.display import truncated
from kaosmem.errors import CorruptionError, InvalidArgumentError
from kaosmem.names import shown, shown_number
from kaosmem.types.content import (
    Content,
    ContentBlock,
    TextBlock,
    Trust,
    check_content,
    content_json,
    content_text,
    is_block,
    stored_blocks,
    trust_of,
)
from kaosmem.types.versions import Interval, aware, day_text

_YEAR_OR_MONTH = re.compile(r"[0-9]{4}(-[0-9]{2})?")


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message of a conversation.

    Messages with different times or runs are equal if all else is equal.
    Raises InvalidArgumentError if the role is no text, the content is neither a text nor blocks,
    the metadata are no JSON values, or the time is no datetime.

    Attributes:
        role: System, user, assistant or tool. Any other role is a user of that name.
        id: The name by which summaries refer to the message; "" for none.
        pinned: No strategy leaves the message out.
        sources: Ids of the messages that it was derived from.
        trust: The default follows from the role (see `trust_of`).
        metadata: JSON values of the caller.
        created_at: When the message was said, aware. None: unknown; a HistoryProvider sets the time
            of appending.
        run_id: The run of its thread that the message belongs to; "" for none. A HistoryProvider
            sets it.

    >>> ChatMessage("user", "Who owns the deal?").text
    'Who owns the deal?'
    """

    role: str
    content: Content
    id: str = field(default="", kw_only=True)
    pinned: bool = field(default=False, kw_only=True)
    sources: tuple[str, ...] = field(default=(), kw_only=True)
    trust: Trust | None = field(default=None, kw_only=True)
    metadata: JSONObject = field(default_factory=dict, kw_only=True, hash=False)
    created_at: datetime | None = field(default=None, kw_only=True, compare=False)
    run_id: str = field(default="", kw_only=True, compare=False)

    def __post_init__(self) -> None:
        if type(self.role) is not str:
            check_text(self.role, "role")
        content = self.content
        if type(content) is not str and not (
            type(content) is tuple and all(map(is_block, content))
        ):
            object.__setattr__(self, "content", check_content(content))
        if self.metadata or type(self.metadata) is not dict:
            object.__setattr__(self, "metadata", check_metadata(self.metadata))
        if self.created_at is not None:
            object.__setattr__(self, "created_at", check_time(self.created_at, "created_at"))

    def __repr__(self) -> str:
        role = truncated(self.role or "no role", 20)
        return f"<{type(self).__name__} {role}, {len(self.text):,} characters>"

    @property
    def authority(self) -> Trust:
        """Return its trust."""
        if self.trust is None:
            return trust_of(self.role, self.content)
        return self.trust

    @property
    def stated(self) -> JSONObject:
        """Return the metadata, with the time when it was said as the `timestamp` if they have none.

        >>> ChatMessage("user", "Hi", created_at=datetime(2024, 5, 7, tzinfo=UTC)).stated
        {'timestamp': '2024-05-07T00:00:00+00:00'}
        """
        if self.created_at is None:
            return self.metadata
        return {"timestamp": self.created_at.isoformat(), **self.metadata}

    @property
    def blocks(self) -> tuple[ContentBlock, ...]:
        """Return the content as blocks."""
        if isinstance(self.content, str):
            return (TextBlock(self.content),)
        return self.content

    @property
    def text(self) -> str:
        """Return the content as one text."""
        if isinstance(self.content, str):
            return self.content
        return content_text(self.content)


T = TypeVar("T")

MAX_ITEM_CHARS = 10_000_000
"""An item with more characters is refused, as a line of a session's log may have 64 MiB."""

MAX_ITEM_CONTAINERS = MAX_JSON_CONTAINERS

UNVERIFIED_SYSTEM = "unverified-system"
"""The role of a system message that is derived, or less trusted than the application."""


@dataclass(frozen=True, slots=True)
class Item:
    """One unit of memory. It never changes.

    Attributes:
        tokens: Tokens of the content alone, by the counter of the session.
        created_at: When it was added, aware and in UTC.
        key: Items of one section with the same key are versions of one thing. The newest is live.
        sources: Ids of the items that this item was derived from.
        expires_at: No context shows the item from this time on. None is never. Aware and in UTC.
        interval: The interval in which a version held, if a context shows it so. Else None.
        last_verified: When an old fact was last verified, if a context shows that. Else None.

    >>> from kaosmem import SessionMemory
    >>> item = SessionMemory.test_mode().add("findings", "Ann owns the deal.", key="owner")
    >>> item.section, item.text, item.tokens, item.key
    ('findings', 'Ann owns the deal.', 5, 'owner')
    """

    id: str
    section: str
    role: str
    content: Content
    tokens: int
    created_at: datetime
    priority: int = 0
    pinned: bool = False
    tags: tuple[str, ...] = ()
    metadata: JSONObject = field(default_factory=dict)
    key: str | None = None
    sources: tuple[str, ...] = ()
    trust: Trust = Trust.EXTERNAL
    expires_at: datetime | None = None
    interval: Interval | None = field(default=None, compare=False)
    last_verified: datetime | None = field(default=None, compare=False)
    _memos: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def shown_role(self) -> str:
        """Return the role that contexts show.

        Only texts of the application itself are shown as system messages.
        """
        if self.role == "system" and (self.trust < Trust.APPLICATION or self.sources):
            return UNVERIFIED_SYSTEM
        return self.role

    @property
    def timestamp(self) -> datetime | None:
        """Return when it happened or was said, as `metadata["timestamp"]` states it.

        Returns:
            None if the timestamp is no text in ISO 8601. A year or a month stands for its first
            moment.

        >>> from kaosmem import SessionMemory
        >>> memory = SessionMemory.test_mode()
        >>> said = {"timestamp": "2024-05-07"}
        >>> memory.add("findings", "Emi lives in Oslo.", metadata=said).timestamp
        datetime.datetime(2024, 5, 7, 0, 0)
        """
        return time_of(self.metadata.get("timestamp"))

    @property
    def date(self) -> str:
        """Return the date of the timestamp in words, "" without one.

        >>> from kaosmem import SessionMemory
        >>> memory = SessionMemory.test_mode()
        >>> for stated in ("2024-05-07T09:30", "2024-05", "2024"):
        ...     print(memory.add("findings", "Rain.", metadata={"timestamp": stated}).date)
        7 May 2024
        May 2024
        2024
        """
        return date_text(self.metadata.get("timestamp"))

    @property
    def valid_from(self) -> datetime:
        """Return when the item began to hold: as its timestamp says, else when it was added."""
        return self.stated_from or self.created_at

    @property
    def stated_from(self) -> datetime | None:
        """Return when the item began to hold by its timestamp, None without one.

        A timestamp without a zone is in UTC.
        """
        return stated_from(self.metadata)

    def is_expired(self, now: datetime) -> bool:
        """Return whether the time to live of the item is over."""
        return self.expires_at is not None and self.expires_at <= now

    def __repr__(self) -> str:
        # Without its content: tracebacks and logs are full of reprs.
        role = truncated(self.role or "no role", 20)
        pinned = ", pinned" if self.pinned else ""
        where = f"{truncated(self.id, 40, tail=24)} in {truncated(self.section, 30, tail=10)}"
        return f"<Item {where}, {role}, {self.tokens:,} tokens{pinned}>"

    def _repr_html_(self) -> str:
        from kaosmem.display import Markup, prose, table

        fields = {"section": self.section, **self.to_dict()}
        del fields["id"], fields["content"], fields["trust"]
        fields["trust"] = self.trust.name.lower()
        rows: list[tuple[str, str | Markup]] = []
        for name, value in fields.items():
            if not isinstance(value, str):
                value = json_text(value)
            rows.append((name, value))
        rows.append(("content", prose(self.text, max_chars=2_000)))
        return table(f"item {self.id}", (), rows)

    @property
    def message(self) -> ChatMessage:
        """Return the item as a message."""
        return ChatMessage(self.shown_role, self.content)

    @property
    def text(self) -> str:
        """Return the content as one text."""
        if isinstance(self.content, str):
            return self.content
        return content_text(self.content)

    def memo(self, name: str, make: Callable[[Item], T]) -> T:
        """Return `make(self)`, made once for each `name` in the item's life."""
        made: T | None = self._memos.get(name)
        if made is None:
            made = self._memos[name] = make(self)
        return made

    def to_dict(self) -> JSONDict:
        """Return the item as JSON values, without fields that have their defaults."""
        stored: JSONDict = {
            "id": self.id,
            "role": self.role,
            "content": content_json(self.content),
            "tokens": self.tokens,
            "created_at": self.created_at.isoformat(),
            "trust": int(self.trust),
        }
        if self.priority:
            stored["priority"] = self.priority
        if self.pinned:
            stored["pinned"] = True
        if self.tags:
            stored["tags"] = list(self.tags)
        if self.metadata:
            stored["metadata"] = dict(self.metadata)
        if self.key is not None:
            stored["key"] = self.key
        if self.sources:
            stored["sources"] = list(self.sources)
        if self.expires_at is not None:
            stored["expires_at"] = self.expires_at.isoformat()
        return stored

    @staticmethod
    def from_dict(stored: JSONObject, section: str) -> Item:
        """Return the item that `to_dict` stored. Raises InvalidArgumentError."""
        try:
            return _decoded(stored, section)
        except (KeyError, TypeError, ValueError) as error:
            # Not from the error: the messages of these show what was stored.
            raise InvalidArgumentError(f"not a stored item: {type(error).__name__}") from None


def once_per_item(make: Callable[[Item], T]) -> Callable[[Item], T]:
    """Let a function make its value once in the life of each item."""
    name = f"{make.__module__}.{make.__qualname__}"

    @wraps(make)
    def kept(item: Item) -> T:
        # As `Item.memo` does, without a call: a turn asks hundreds of times.
        made: T | None = item._memos.get(name)
        if made is None:
            made = item._memos[name] = make(item)
        return made

    return kept


@once_per_item
def digest(item: Item) -> str:
    """Return a digest of an item's role and content. A task's role is its status."""
    return text_digest(json_text([item.role, content_json(item.content)]))


def stated_from(metadata: JSONObject) -> datetime | None:
    """Return when an item with this metadata began to hold, as `Item.stated_from` does."""
    stated = time_of(metadata.get("timestamp"))
    if stated is None:
        return None
    return aware(stated)


def utc_time(metadata: JSONObject) -> datetime | None:
    """Return the `timestamp` of metadata in UTC, None if it is no time.

    A time without a zone is in UTC.

    >>> utc_time({"timestamp": "2024-05-07"})
    datetime.datetime(2024, 5, 7, 0, 0, tzinfo=datetime.timezone.utc)
    """
    stated = stated_from(metadata)
    try:
        return stated and stated.astimezone(UTC)
    except OverflowError:
        return None


def check_timestamp(metadata: JSONObject, name: str = "timestamp") -> None:
    """Raise InvalidArgumentError for metadata with a time of this name that is none.

    An empty one is not stated.
    """
    stated = metadata.get(name)
    if stated and utc_time({"timestamp": stated}) is None:
        raise InvalidArgumentError(
            f"{name} is {shown_number(stated)}; give a time in ISO 8601, such as "
            "'2024-05-07', or leave it out"
        )


def date_text(stated: JSONValue) -> str:
    """Return the date of a stated time in words, as exactly as it is stated, "" for no time.

    >>> date_text("2024-05-07T09:30"), date_text("2024-05"), date_text("2024")
    ('7 May 2024', 'May 2024', '2024')
    """
    time = time_of(stated)
    if time is None:
        return ""
    words = day_text(time).split(" ")
    if _YEAR_OR_MONTH.fullmatch(str(stated)):
        words = words[-1 - str(stated).count("-") :]
    return " ".join(words)


def time_of(stated: JSONValue) -> datetime | None:
    """Return a time stated in ISO 8601. A year or a month stands for its first moment."""
    if not stated:
        return None
    try:
        if _YEAR_OR_MONTH.fullmatch(str(stated)):
            return datetime.fromisoformat(f"{stated}-01-01"[:10])
        if isinstance(stated, str):
            return datetime.fromisoformat(stated)
        return None
    except ValueError:
        return None


class StoredItem(NamedTuple):
    """A plain item that is still a line of a file. It has a text and none of the optional fields.

    A section of stored items is read as these: opening 100,000 of them takes a fraction of the time
    that making Items takes (`benchmarks/bench_cold_turn.py`). `item` decodes one.

    Attributes:
        position: Number of items that its section had taken before it.
        parse: Returns the data of its kind of line, or raises CorruptionError.
    """

    id: str
    section: str
    role: str
    tokens: int
    position: int
    line: bytes
    parse: Callable[[bytes], JSONObject]

    @property
    def priority(self) -> int:
        """Return 0: a plain item has no priority."""
        return 0

    @property
    def pinned(self) -> bool:
        """Return False: a plain item is not pinned."""
        return False

    @property
    def key(self) -> str | None:
        """Return None: a plain item has no key."""
        return None

    def entry(self) -> JSONObject:
        """Return the entry in the line.

        Raises CorruptionError if it is another item than the file's end lists.
        """
        stored = self.parse(self.line)
        stated = tuple(map(stored.get, ("id", "role", "tokens", "position")))
        if stated != (self.id, *self[2:5]):
            raise CorruptionError("a stored item is another one than its file says at its end")
        return stored

    def item(self) -> Item:
        """Return the item. Raises CorruptionError."""
        try:
            return Item.from_dict(self.entry(), self.section)
        except InvalidArgumentError as error:
            raise CorruptionError(str(error)) from None

    def to_dict(self) -> JSONDict:
        """Return the item as JSON values, as `Item.to_dict` does. Raises CorruptionError."""
        return {name: value for name, value in self.entry().items() if name != "position"}


def item_dict(item: Item) -> JSONDict:
    """Return an item as JSON values, its section included."""
    return {"section": item.section, **item.to_dict()}


def item_of_dict(stored: JSONObject) -> Item:
    """Return the item that `item_dict` returned. Raises InvalidArgumentError."""
    section: Any = stored.get("section")
    return Item.from_dict(stored, check_text(section, "the section of an item"))


def decoded(item: Item | StoredItem) -> Item:
    """Return an item that may still be a line. Raises CorruptionError."""
    if isinstance(item, StoredItem):
        return item.item()
    return item


# A frozen dataclass takes five times as long to make by its constructor, and a session reads
# thousands.
_PUT_FIELDS = [vars(Item)[name].__set__ for name in Item.__slots__]
_TRUSTS = {int(trust): trust for trust in Trust}
_KINDS = str, str, int, int, int, bool, dict


def _decoded(stored: JSONObject, section: str) -> Item:
    """Return the item of JSON values. Raises KeyError, TypeError, ValueError."""
    get = stored.get
    item_id = stored["id"]
    role = stored["role"]
    content = stored["content"]
    tokens = stored["tokens"]
    created_at = datetime.fromisoformat(stored["created_at"])
    trust = stored["trust"]
    priority = get("priority", 0)
    pinned = get("pinned", False)
    metadata = get("metadata", {})
    key = get("key")
    given = get("tags")
    if given is not None:
        tags = _texts_of(given)
    else:
        tags = ()
    given = get("sources")
    if given is not None:
        sources = _texts_of(given)
    else:
        sources = ()
    ends = get("expires_at")
    expires_at = None
    if ends is not None:
        expires_at = datetime.fromisoformat(ends)
    kinds = (
        type(item_id),
        type(role),
        type(tokens),
        type(trust),
        type(priority),
        type(pinned),
        type(metadata),
    )
    if kinds != _KINDS or not (key is None or type(key) is str):
        raise TypeError("a field is of the wrong type")
    if (
        tokens < 0
        or created_at.tzinfo is None
        or (expires_at is not None and expires_at.tzinfo is None)
    ):
        raise ValueError("a field is out of its range")
    if type(content) is not str:
        content = stored_blocks(content)
    values = (
        item_id,
        section,
        role,
        content,
        tokens,
        created_at,
        priority,
        pinned,
        tags,
        metadata,
        key,
        sources,
    )
    item = object.__new__(Item)
    for put, value in zip(
        _PUT_FIELDS, (*values, _TRUSTS[trust], expires_at, None, None, {}), strict=True
    ):
        put(item, value)
    return item


def _texts_of(stored: JSONValue) -> tuple[str, ...]:
    if type(stored) is not list or not all(type(text) is str for text in stored):
        raise TypeError("not a list of texts")
    return tuple(stored)


def check_storable(item: Item) -> None:
    """Check that an item can be stored and read back.

    Raises:
        InvalidArgumentError: If it has too much.
    """
    beside = (*item.tags, *item.sources, *item.metadata.values())
    if (
        isinstance(item.content, str)
        and len(item.content) < MAX_ITEM_CHARS // 2
        and len(beside) < 1_000
        and all(map(_is_short, beside))
    ):
        return
    chars = containers = 0
    left: list[JSONValue] = [item.to_dict()]
    while left:
        value = left.pop()
        if isinstance(value, str):
            chars += len(value)
        elif isinstance(value, dict):
            left += (*value, *value.values())
            containers += 1
        elif isinstance(value, list | tuple):
            left += value
            containers += 1
    if chars > MAX_ITEM_CHARS or containers > MAX_ITEM_CONTAINERS:
        raise InvalidArgumentError(
            f"item {shown(item.id)} has {chars:,} characters and {containers:,} objects and lists, "
            f"more than {MAX_ITEM_CHARS:,} or {MAX_ITEM_CONTAINERS:,}; split it"
        )


def _is_short(value: JSONValue) -> bool:
    if isinstance(value, str):
        return len(value) < 1_000
    return value is None or isinstance(value, int | float)
