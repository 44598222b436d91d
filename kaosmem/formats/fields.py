"""Fields of providers' messages: ids, names of tools, addresses of images, content."""

from __future__ import annotations

import hashlib
import json
import re
from binascii import a2b_base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from kaosmem.arguments import check_json, json_text
from kaosmem.errors import InvalidArgumentError
from kaosmem.formats.layout import HistoryEntry
from kaosmem.memos import memoized
from kaosmem.types import Content, ContentBlock, JSONDict, JSONObject, JSONValue, OpaqueBlock
from kaosmem.types.content import TextBlock, ToolResultBlock, ToolUseBlock
from kaosmem.types.items import ChatMessage

_PLAIN = re.compile(r"[a-zA-Z0-9_-]+")
NOT_PLAIN = re.compile(r"[^a-zA-Z0-9_-]")
_DIGEST_CHARS = 12
_MAX_ID_CHARS = 56  # of 64, which Converse takes: an id that was used before is numbered


def plain_id(text: str, *, max_chars: int) -> str:
    """Return an id made of any text, the same for the same text and, in practice, for no other."""
    digest = hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_CHARS]
    room = max_chars - _DIGEST_CHARS - 1
    name = NOT_PLAIN.sub("_", text)[:room] or "id"
    return f"{name}-{digest}"


class CallIds:
    """Gives each call of one request a plain id of its own, and its results the same one.

    A stored id that is plain and new stays as it is; one that was used before in the request is
    numbered.

    Args:
        taken: The ids that the request has already.
        kept: Ids that begin with one of these stay as they are.
    """

    def __init__(
        self,
        taken: Iterable[str] = (),
        *,
        kept: tuple[str, ...] = (),
    ) -> None:
        self._kept = kept
        self._taken = set(taken)
        self._names: dict[str, str] = {}  # stored id -> name of its latest call
        self._latest: dict[str, str] = {}  # stored id -> id given to its latest call

    def applied(self, entry: HistoryEntry) -> HistoryEntry:
        """Return the next entry of a history with new ids, and with the names of its results."""
        if not isinstance(entry, ChatMessage) or isinstance(entry.content, str):
            return entry
        return replace(entry, content=tuple(map(self._block, entry.content)))

    def _block(self, block: ContentBlock) -> ContentBlock:
        if isinstance(block, ToolUseBlock):
            self._names[block.id] = block.name
            return replace(block, id=self.call(block.id))
        if isinstance(block, ToolResultBlock):
            name = self._names.get(block.tool_use_id, block.name)
            return replace(block, tool_use_id=self.result(block.tool_use_id), name=name)
        return block

    def call(self, stored: str) -> str:
        """Return the id of the next call."""
        first = given = self._plain(stored)
        number = 1
        while given in self._taken and not self._is_kept(given):
            number += 1
            given = f"{first}-{number}"
        self._taken.add(given)
        self._latest[stored] = given
        return given

    def result(self, stored: str) -> str:
        """Return the id of the latest call with that stored id."""
        return self._latest.get(stored) or self._plain(stored)

    def _is_kept(self, stored: str) -> bool:
        return stored.startswith(self._kept)

    def _plain(self, stored: str) -> str:
        if self._is_kept(stored):
            return stored
        if _PLAIN.fullmatch(stored) and len(stored) <= _MAX_ID_CHARS:
            return stored
        return plain_id(stored, max_chars=_MAX_ID_CHARS)


MEDIA_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")
"""Source: Anthropic, "Vision", and OpenAI, "Images and vision": the same four."""

_ADDRESS = re.compile(r"https?://\S+", re.IGNORECASE)
_DATA_URL = re.compile(r"data:([^;,]+);base64,", re.IGNORECASE)


@memoized(32)
def sendable_url(url: str) -> str | None:
    """Return an image's URL as a provider takes it, None if no provider takes it."""
    match = _DATA_URL.match(url)
    if match is None:
        if _ADDRESS.fullmatch(url):
            return url
        return None
    media_type = match[1].lower().replace("image/jpg", "image/jpeg")
    data = "".join(url[match.end() :].split())
    if media_type not in MEDIA_TYPES or not _is_base64(data):
        return None
    return f"data:{media_type};base64,{data}"


def split_data_url(url: str) -> tuple[str, str] | None:
    """Return a `data:` URL's media type and base64 text; None for any other URL."""
    match = _DATA_URL.match(url)
    if match is None:
        return None
    return match[1], url[match.end() :]


def _is_base64(data: str) -> bool:
    """Return whether a text is bytes in base64, at least one."""
    try:
        return bool(a2b_base64(data, strict_mode=True))
    except ValueError:
        return False


def mapping_of(value: object, what: str) -> JSONObject:
    """Return a dict, or an object of an SDK, as a mapping with the names of the API.

    Fields that an SDK adds for its callers alone, `__api_exclude__`, are left out.

    Raises:
        InvalidArgumentError: If the value is neither.
    """
    if isinstance(value, Mapping):
        return value
    dump = getattr(value, "model_dump", None)
    if dump is None or isinstance(value, type):
        raise InvalidArgumentError(
            f"{what} is a dict or an object of the provider's package, not a {type(value).__name__}"
        )
    added = getattr(value, "__api_exclude__", None)
    dumped: JSONObject = dump(
        mode="json", by_alias=True, exclude_none=True, exclude=added, warnings=False
    )
    return dumped


def parts_of(content: object, what: str) -> list[JSONObject]:
    """Return the parts that content is a list of. Raises InvalidArgumentError."""
    if isinstance(content, str | bytes | Mapping) or not isinstance(content, Iterable):
        raise InvalidArgumentError(
            f"the content of {what} is a str or a list of parts, not a {type(content).__name__}"
        )
    return [mapping_of(part, f"a part of {what}") for part in content]


def only_one(parts: object, what: str) -> JSONObject:
    """Return the only part that there is. Raises InvalidArgumentError for several.

    Args:
        what: The parts, for the error.
    """
    found = parts_of(parts, what)
    if len(found) != 1:
        raise InvalidArgumentError(f"{what} are {len(found)}; give the message of one")
    return found[0]


def opaque_block(
    part: JSONObject,
    provider: str,
    what: str,
    *,
    kind: JSONValue = None,
) -> OpaqueBlock:
    """Return a part that only its provider can read as a block. Its cache breakpoint is left out.

    Args:
        kind: The name of the part's field, of providers whose parts have no type.

    Raises:
        InvalidArgumentError: If the part has no type, or values that JSON cannot hold.
    """
    kind = kind or part.get("type")
    if not isinstance(kind, str) or not kind:
        raise InvalidArgumentError(
            f"a part of {what} needs a type that is a str; give the part as its provider gave it"
        )
    kept = {name: value for name, value in part.items() if name != "cache_control"}
    data = json_text(check_json(kept, f"a part of {what}"))
    return OpaqueBlock(provider, kind, data, _file_name(part))


def _file_name(part: JSONObject) -> str:
    """Return the name of the file or the tool that a part is about, or ""."""
    names = [part.get("title"), part.get("name")]
    file = part.get("file")
    if isinstance(file, Mapping):
        names.append(file.get("filename"))
    for name in names:
        if isinstance(name, str):
            return name
    return ""


def sent_part(block: OpaqueBlock, provider: str) -> JSONDict | None:
    """Return the part that a block was made of, or None if it is another provider's."""
    if block.provider != provider:
        return None
    part: JSONDict = json.loads(block.data)
    return part


FIELDS_ELSEWHERE = ("parts", "text", "message", "output")
"""The fields in which other APIs have the content of a message."""


def json_object(text: str) -> JSONDict | None:
    """Return the JSON object of a text, {} for a blank one; None for a text that is none."""
    if not text.strip():
        return {}
    value = json_value(text)
    if isinstance(value, dict):
        return value
    return None


def json_value(text: str) -> JSONValue:
    """Return the JSON value of a text; None for a text that is none, or that cannot be sent."""
    try:
        value: JSONValue = json.loads(text)
        json_text(value).encode()  # NaN, infinity and lone surrogates can be read, but not sent
    except (ValueError, RecursionError):
        return None
    return value


def extra_text(given: JSONObject, names: Iterable[str]) -> str:
    """Return the named fields that are given as JSON text, "" for none.

    Raises:
        InvalidArgumentError: If JSON cannot hold them.
    """
    extra = {name: given[name] for name in names if given.get(name) is not None}
    if extra:
        return json_text(check_json(extra, "a call"))
    return ""


def extra_fields(extra: str, names: Iterable[str]) -> JSONDict:
    """Return the named fields that `extra_text` kept, without those of other providers."""
    fields = json_object(extra) or {}
    return {name: fields[name] for name in names if name in fields}


def check_has_content(given: JSONObject, what: str) -> None:
    """Check that a message has content, or an empty one and no field of another API.

    Raises:
        InvalidArgumentError: If the content is missing, or in the field of another API.
    """
    content = given.get("content")
    others = [name for name in FIELDS_ELSEWHERE if name in given]
    if content or (content is not None and not others):
        return
    instead = f", but {others[0]!r}" if others else ""
    raise InvalidArgumentError(
        f"{what} has no content{instead}; give 'content', a str or a list of parts"
    )


def text_field(
    given: JSONObject,
    key: str,
    what: str,
) -> str:
    """Return a field that must be a str. Raises InvalidArgumentError."""
    value = given.get(key)
    if not isinstance(value, str):
        raise InvalidArgumentError(
            f"{what} needs a {key} that is a str; this one has a {type(value).__name__}"
        )
    return value


def plainest(blocks: Sequence[ContentBlock]) -> Content:
    """Return blocks in the plainest form of content: one text alone is a str."""
    match blocks:
        case []:
            return ""
        case [TextBlock(text=text, extra="")]:
            return text
    return tuple(blocks)
