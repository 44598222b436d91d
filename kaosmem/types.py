"""What a session is made of: items, messages and content blocks. All are frozen."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, SupportsIndex, TypeAlias, TypeVar, cast

from kaosmem.display import fitted
from kaosmem.errors import CorruptionError, InvalidContentError
from kaosmem.names import shown

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")

JSONValue: TypeAlias = Any
"""None, bool, int within 64 bits, finite float, str, or a list or str-keyed mapping of these."""

MAX_JSON_DEPTH = 64
MAX_INTEGER = 2**63 - 1
MAX_LINE_TEXT_CHARS = 2**16
MAX_STRUCTURE_CHARS = 2**24
MAX_STRUCTURE_CONTAINERS = 400_000
_MAX_REASON_CHARS = 200

# How pydantic reads the blocks below: it is imported when the first block is checked, not with kaosmem.
_CHECKED: dict[str, Any] = {"extra": "forbid", "revalidate_instances": "always"}


def _sized(value: Any) -> str:
    """Return the repr of what is content or holds it: how long it is, not what it says."""
    role = f"{fitted(value.role or 'no role', 20)}, " if isinstance(value, ChatMessage) else ""
    return f"<{type(value).__name__} {role}{len(content_text(_content_of(value))):,} characters>"


def _content_of(value: Any) -> Content:
    return value.content if isinstance(value, ChatMessage) else (value,)


@dataclass(frozen=True, slots=True)
class TextBlock:
    """Plain text."""

    text: str
    type: Literal["text"] = "text"
    __pydantic_config__: ClassVar[dict[str, Any]] = _CHECKED
    __repr__ = _sized


@dataclass(frozen=True, slots=True)
class ThinkingBlock:
    """A model's reasoning; `signature` is the provider's seal, without which it may not be sent back.

    data: reasoning that the provider gave out only in encrypted form; then there is no other.
    """

    thinking: str
    signature: str = ""
    data: str = ""
    type: Literal["thinking"] = "thinking"
    __pydantic_config__: ClassVar[dict[str, Any]] = _CHECKED
    __repr__ = _sized

    @property
    def is_sealed(self) -> bool:
        """Return whether the provider takes it back."""
        return bool(self.signature or self.data)


@dataclass(frozen=True, slots=True)
class ToolUseBlock:
    """A call of a tool. `arguments` is JSON text as the model wrote it, so that it goes back unchanged."""

    id: str
    name: str
    arguments: str = "{}"
    type: Literal["tool_use"] = "tool_use"
    __pydantic_config__: ClassVar[dict[str, Any]] = _CHECKED
    __repr__ = _sized


@dataclass(frozen=True, slots=True)
class ImageBlock:
    """An image: a URL, `data:` URLs included. `detail` is how closely OpenAI's models look at it."""

    url: str
    media_type: str = ""
    detail: str = ""
    type: Literal["image"] = "image"
    __pydantic_config__: ClassVar[dict[str, Any]] = _CHECKED
    __repr__ = _sized


@dataclass(frozen=True, slots=True)
class ToolResultBlock:
    """The result of the call with the id `tool_use_id`: a text, or texts and images."""

    tool_use_id: str
    content: str | tuple[TextBlock | ImageBlock, ...] = ""
    is_error: bool = False
    type: Literal["tool_result"] = "tool_result"
    __pydantic_config__: ClassVar[dict[str, Any]] = _CHECKED
    __repr__ = _sized


@dataclass(frozen=True, slots=True)
class DocumentBlock:
    """A document inside a message."""

    text: str
    title: str = ""
    type: Literal["document"] = "document"
    __pydantic_config__: ClassVar[dict[str, Any]] = _CHECKED
    __repr__ = _sized


ContentBlock: TypeAlias = TextBlock | ThinkingBlock | ToolUseBlock | ToolResultBlock | ImageBlock | DocumentBlock
Content: TypeAlias = str | tuple[ContentBlock, ...]


def block_text(block: ContentBlock) -> str:
    """Return a block as the text that is counted, searched and shown where a format has no blocks."""
    match block:
        case TextBlock() | DocumentBlock(title=""):
            return block.text
        case DocumentBlock():
            return f"{block.title}\n{block.text}"
        case ThinkingBlock():
            return block.thinking
        case ToolUseBlock():
            return f"{block.name}({block.arguments})"
        case ToolResultBlock():
            return block.content if isinstance(block.content, str) else "\n".join(map(block_text, block.content))
        case ImageBlock():
            return f"[image {block.media_type}]".replace(" ]", "]")


def content_text(content: Content) -> str:
    """Return content as one text, a block a paragraph."""
    return content if isinstance(content, str) else "\n".join(map(block_text, content))


class Trust(IntEnum):
    """Where a text comes from, least trusted first."""

    EXTERNAL = 0
    TOOL = 1
    MODEL = 2
    USER = 3
    APPLICATION = 4


_ROLE_TRUST = {"system": Trust.APPLICATION, "user": Trust.USER, "assistant": Trust.MODEL, "tool": Trust.TOOL}


def trust_of(role: str, content: Content) -> Trust:
    """Return what the role says, but no more than a tool's where a tool's result is in it, whoever handed it over."""
    of_role = _ROLE_TRUST.get(role, Trust.MODEL)
    holds_results = not isinstance(content, str) and any(isinstance(block, ToolResultBlock) for block in content)
    return min(of_role, Trust.TOOL) if holds_results else of_role


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message of a conversation. A role outside system, user, assistant and tool is a user of that name.

    id: "" for none; what shortens a conversation names messages by it. pinned: no strategy may leave it out.
    sources: ids of the messages that it was derived from. trust: None is what `trust_of` says.
    """

    role: str
    content: Content
    id: str = field(default="", kw_only=True)
    pinned: bool = field(default=False, kw_only=True)
    sources: tuple[str, ...] = field(default=(), kw_only=True)
    trust: Trust | None = field(default=None, kw_only=True)
    __repr__ = _sized

    @property
    def authority(self) -> Trust:
        """Return how far it is trusted."""
        return trust_of(self.role, self.content) if self.trust is None else self.trust

    @property
    def blocks(self) -> tuple[ContentBlock, ...]:
        """Return the content as blocks."""
        return (TextBlock(self.content),) if isinstance(self.content, str) else self.content

    @property
    def text(self) -> str:
        """Return the content as one text."""
        return content_text(self.content)


UNVERIFIED_SYSTEM = "unverified-system"
"""The role that a system message is shown under which is derived, or not trusted as the application is."""


@dataclass(frozen=True, slots=True)
class Item:
    """One unit of memory.

    tokens: of the content alone, as the session's counter counts it.
    created_at: aware, in UTC.
    key: items of one section with the same key are versions of one thing, of which the newest is live.
    sources: ids of the items that this one was derived from.
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
    metadata: Mapping[str, JSONValue] = field(default_factory=dict)
    key: str | None = None
    sources: tuple[str, ...] = ()
    trust: Trust = Trust.EXTERNAL
    _memos: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    _line: StoredLine | None = field(default=None, init=False, repr=False, compare=False)  # of an UnreadItem

    @property
    def shown_role(self) -> str:
        """Return the role it is shown under: only what the application itself wrote is shown as a system message."""
        if self.role == "system" and (self.trust < Trust.APPLICATION or self.sources):
            return UNVERIFIED_SYSTEM
        return self.role

    def __repr__(self) -> str:
        # Without its content: tracebacks and logs are full of reprs.
        role = fitted(self.role or "no role", 20)
        pinned = ", pinned" if self.pinned else ""
        where = f"{fitted(self.id, 40, tail=24)} in {fitted(self.section, 30, tail=10)}"
        return f"<Item {where}, {role}, {self.tokens:,} tokens{pinned}>"

    def _repr_html_(self) -> str:
        from kaosmem.notebook import prose, table

        fields = {name: value for name, value in self.to_dict().items() if name not in ("id", "content", "trust")}
        fields = {"section": self.section, **fields, "trust": self.trust.name.lower()}
        rows = [(name, value if isinstance(value, str) else json_text(value)) for name, value in fields.items()]
        return table(f"item {self.id}", (), [*rows, ("content", prose(self.text, max_chars=2_000))])

    @property
    def message(self) -> ChatMessage:
        """Return the item as a message."""
        return ChatMessage(self.shown_role, self.content)

    @property
    def text(self) -> str:
        """Return the content as one text."""
        return content_text(self.content)

    def memo(self, name: str, make: Callable[[Item], T]) -> T:
        """Return `make(self)`, made once for each `name` in the item's life."""
        made: T | None = self._memos.get(name)
        if made is None:
            made = self._memos[name] = make(self)
        return made

    def size(self, form: str, measure: Callable[[Item], int]) -> int:
        """Return `measure(self)`, measured once for each `form` in the item's life."""
        return self.memo(form, measure)

    def to_dict(self) -> dict[str, JSONValue]:
        """Return the item as JSON values; what has its default is left out."""
        stored: dict[str, JSONValue] = {
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
        return stored

    @classmethod
    def from_dict(cls, stored: Mapping[str, JSONValue], section: str) -> Item:
        """Return the item that `to_dict` stored. Raises InvalidContentError."""
        try:
            item = _drafted(stored)
        except (KeyError, TypeError, ValueError) as error:
            # Not from the error: the messages of these show what was stored.
            raise InvalidContentError(f"not a stored item: {type(error).__name__}") from None
        item.section = section
        item.__class__ = cls
        return item  # type: ignore[no-any-return]


# A tuple, since one is made of each line of a snapshot that is read.
StoredLine: TypeAlias = "tuple[int, int, bytes, Callable[[bytes], Mapping[str, JSONValue]]]"
"""How many items and tokens a section had ever taken before an item, the line that holds it, and what parses that."""


class UnreadItem(Item):
    """An item that is still a line: asked for more than is known of it, it is decoded, and an Item from then on.

    Its content is a text. Asking raises CorruptionError where the line is of another item.
    """

    __slots__ = ()
    priority = 0
    pinned = False
    key = None

    @staticmethod
    def of(item_id: str, section: str, role: str, tokens: int, line: StoredLine) -> UnreadItem:
        """Return the item of a line, of which this is known."""
        draft: Any = _Draft()
        draft.id, draft.section, draft.role, draft.tokens, draft._line = item_id, section, role, tokens, line
        draft.__class__ = UnreadItem
        return draft  # type: ignore[no-any-return]

    @property
    def place(self) -> tuple[int, int]:
        """Return how many items and tokens its section had ever taken before it."""
        return cast("StoredLine", self._line)[:2]

    def entry(self) -> Mapping[str, JSONValue]:
        """Return what its line says, which leaves it unread."""
        return _said_of(self, cast("StoredLine", self._line))

    def item(self) -> Item:
        """Return it decoded, which leaves it unread."""
        return _decoded(self)

    def to_dict(self) -> dict[str, JSONValue]:
        """Return what an Item would, which leaves it unread."""
        if (line := self._line) is None:  # another thread has just read it
            return Item.to_dict(self)
        return {name: value for name, value in _said_of(self, line).items() if name not in ("position", "offset")}

    def __getattr__(self, name: str) -> Any:
        if name not in Item.__slots__:
            raise AttributeError(name)
        _read(self)
        return getattr(self, name)

    def __eq__(self, other: object) -> bool:
        _read(self)
        return self == other

    __hash__ = Item.__hash__

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        _read(self)
        return self.__reduce_ex__(protocol)


# No methods: where two threads ask at once, an unread item becomes an Item while the other is about to call them.


def _read(item: Item) -> None:
    """Make an unread item an Item."""
    if (decoded := _decoded(item)) is not item:
        for slot in _SLOTS:  # the line last: as long as it is there, others who ask decode it too
            slot.__set__(item, slot.__get__(decoded))
    object.__setattr__(item, "__class__", Item)


def _decoded(item: Item) -> Item:
    if (line := item._line) is None:
        return item
    try:
        return Item.from_dict(_said_of(item, line), item.section)
    except InvalidContentError as error:
        raise CorruptionError(str(error)) from None


def _said_of(item: Item, line: StoredLine) -> Mapping[str, JSONValue]:
    position, offset, data, parse = line
    stored = parse(data)
    said = tuple(map(stored.get, ("id", "role", "tokens", "position", "offset")))
    if said != (item.id, item.role, item.tokens, position, offset):
        raise CorruptionError("a stored item is another one than its file says at its end")
    return stored


class _Draft:
    """An item whose fields can still be set: a frozen one takes five times as long to make, field by field."""

    __slots__ = Item.__slots__


_SLOTS = [vars(Item)[name] for name in Item.__slots__]

_TRUSTS = {int(trust): trust for trust in Trust}
_KINDS = str, str, int, int, int, bool, dict


def _drafted(stored: Mapping[str, JSONValue]) -> Any:
    """Return an item made of JSON values, but for its section. Raises KeyError, TypeError, ValueError."""
    draft: Any = _Draft()
    get = stored.get
    draft.id = item_id = stored["id"]
    draft.role = role = stored["role"]
    draft.content = content = stored["content"]
    draft.tokens = tokens = stored["tokens"]
    draft.created_at = created_at = datetime.fromisoformat(stored["created_at"])
    draft.trust = _TRUSTS[trust := stored["trust"]]
    draft.priority = priority = get("priority", 0)
    draft.pinned = pinned = get("pinned", False)
    draft.metadata = metadata = get("metadata", {})
    draft.key = key = get("key")
    draft.tags = _texts_of(tags) if (tags := get("tags")) is not None else ()
    draft.sources = _texts_of(sources) if (sources := get("sources")) is not None else ()
    draft._memos = {}
    draft._line = None
    kinds = type(item_id), type(role), type(tokens), type(trust), type(priority), type(pinned), type(metadata)
    if kinds != _KINDS or not (key is None or type(key) is str):
        raise TypeError("a field is of the wrong type")
    if tokens < 0 or created_at.tzinfo is None:
        raise ValueError("a field is out of its range")
    if type(content) is not str:
        draft.content = _blocks().validate_python(content)
    return draft


def _texts_of(stored: JSONValue) -> tuple[str, ...]:
    if type(stored) is not list or not all(type(text) is str for text in stored):
        raise TypeError("not a list of texts")
    return tuple(stored)


@cache
def _blocks() -> TypeAdapter[tuple[ContentBlock, ...]]:
    from pydantic import Field, TypeAdapter

    return TypeAdapter(tuple[Annotated[ContentBlock, Field(discriminator="type")], ...])


def check_text(text: str, what: str) -> str:
    """Return `text` if UTF-8 can hold it. Raises InvalidContentError that names the first lone surrogate."""
    if not isinstance(text, str):
        raise InvalidContentError(f"{what} is a {type(text).__name__}; give a str")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InvalidContentError(
                f"{what} has a lone surrogate {text[error.start]!a} at position {error.start}, which UTF-8 cannot "
                "hold; decode the text with errors='replace', or repair it with "
                "text.encode('utf-16', 'surrogatepass').decode('utf-16', 'replace')"
            ) from None
    return text


def check_content(content: str | Iterable[ContentBlock | Mapping[str, JSONValue]]) -> Content:
    """Return content as a str or a tuple of blocks. Raises InvalidContentError."""
    if isinstance(content, str):
        return check_text(content, "content")
    try:
        given = tuple(content)
    except TypeError:
        raise InvalidContentError(
            f"content is a {type(content).__name__}; give a str or content blocks, such as TextBlock"
        ) from None
    for index, block in enumerate(given):
        for name, text in _texts(block):
            check_text(text, f"block {index} of content, {name},")
    try:
        return _blocks().validate_python(given)
    except ValueError as error:
        reason = error.errors()[0]["msg"][:_MAX_REASON_CHARS] if hasattr(error, "errors") else type(error).__name__
        raise InvalidContentError(f"content is neither a str nor content blocks: {reason}") from None


def content_json(content: Content) -> JSONValue:
    """Return content as JSON values, of which `check_content` makes it again."""
    return content if isinstance(content, str) else list(_blocks().dump_python(content))


def _texts(block: object) -> Iterator[tuple[str, str]]:
    """Yield the texts in a block, and in blocks within it, each with the name of its field."""
    slots = getattr(block, "__slots__", ())
    fields = block.items() if isinstance(block, Mapping) else ((name, getattr(block, name)) for name in slots)
    for name, value in fields:
        if isinstance(value, str):
            yield name, value
        elif isinstance(value, list | tuple):
            for inner in value:
                yield from _texts(inner)


def is_integer(value: object) -> bool:
    """Return whether a value is an int that a log can hold."""
    return type(value) is int and -MAX_INTEGER - 1 <= value <= MAX_INTEGER


def check_metadata(metadata: Mapping[str, JSONValue] | None) -> dict[str, JSONValue]:
    """Return a copy of metadata that JSON holds exactly. Raises InvalidContentError."""
    if metadata is None:
        return {}
    if not isinstance(metadata, Mapping):
        raise InvalidContentError(f"metadata is a {type(metadata).__name__}; give a mapping with str keys")
    copy: dict[str, JSONValue] = check_json(metadata, "metadata")
    return copy


def check_extent(item: Item) -> None:
    """Raise InvalidContentError for an item that has more beside a text than can be stored and read back."""
    beside = (*item.tags, *item.sources, *item.metadata.values())
    if isinstance(item.content, str) and len(beside) < 1_000 and all(map(_is_short, beside)):
        return
    chars = containers = 0
    left: list[JSONValue] = [item.to_dict()]
    while left:
        value = left.pop()
        if isinstance(value, str):
            chars += len(value) if len(value) <= MAX_LINE_TEXT_CHARS else 0  # a longer one has a place of its own
        elif isinstance(value, dict):
            left += (*value, *value.values())
            containers += 1
        elif isinstance(value, list | tuple):
            left += value
            containers += 1
    if chars > MAX_STRUCTURE_CHARS or containers > MAX_STRUCTURE_CONTAINERS:
        raise InvalidContentError(
            f"item {shown(item.id)} has {chars} characters and {containers} objects and lists in its blocks and "
            f"metadata, more than {MAX_STRUCTURE_CHARS} or {MAX_STRUCTURE_CONTAINERS}; split it, or store one text"
        )


def _is_short(value: JSONValue) -> bool:
    return len(value) < 1_000 if isinstance(value, str) else value is None or isinstance(value, int | float)


def check_json(value: JSONValue, what: str, depth: int = 0) -> JSONValue:
    """Return a copy of `value` that JSON holds exactly. Raises InvalidContentError that says where it can't."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return check_text(value, what)
    if isinstance(value, int):
        if -MAX_INTEGER - 1 <= value <= MAX_INTEGER:
            return int(value)
        raise InvalidContentError(f"{what} is an integer beyond 64 bits; store it as text")
    if isinstance(value, float):
        if math.isfinite(value):
            return float(value)
        raise InvalidContentError(f"{what} is {value!r}, which JSON cannot hold; store None or text")
    if depth >= MAX_JSON_DEPTH:
        raise InvalidContentError(f"{what} is nested deeper than {MAX_JSON_DEPTH} levels; flatten it")
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise InvalidContentError(f"{what} has a key {shown(key)} that is not a str; convert it with str()")
        return {
            check_text(key, what): check_json(member, f"{what}[{shown(key)}]", depth + 1)
            for key, member in value.items()
        }
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [check_json(member, f"{what}[{index}]", depth + 1) for index, member in enumerate(value)]
    raise InvalidContentError(f"{what} is a {type(value).__name__}, which JSON cannot hold; convert it first")


def json_text(value: JSONValue) -> str:
    """Return strict, compact JSON text: no NaN, characters as they are."""
    return _encoder.encode(value)


_encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
