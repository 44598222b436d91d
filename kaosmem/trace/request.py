"""A request as references to the texts of items, and back, byte for byte.

A request repeats the texts of the items that it shows. A trace keeps the form of the request, in
which a number stands for each long text, and the parts of these texts: literal text, such as a
header, or a reference to a slice of an item's text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from typing import Any

from kaosmem.arguments import json_text
from kaosmem.errors import CorruptionError
from kaosmem.formats import Rendered
from kaosmem.types import JSONDict, JSONValue
from kaosmem.types.content import content_json
from kaosmem.types.items import Item

_MIN_CHARS = 16
"""Shorter texts are kept as they are: a reference would take as many characters."""

_PLACE = "\0"
"""A text of a form that begins so has its parts elsewhere. Their number follows."""


def request_of(rendered: Rendered) -> JSONValue:
    """Return a rendered context as JSON values: its text, or its messages with its system."""
    if rendered.text is not None:
        return rendered.text
    return {"system": rendered.system, "messages": rendered.messages}


def request_bytes(request: JSONValue) -> bytes:
    """Return the bytes of a request: its text, or its JSON."""
    if isinstance(request, str):
        return request.encode()
    return json_text(request).encode()


def _digest(request: JSONValue) -> str:
    return sha256(request_bytes(request)).hexdigest()


def split_request(request: JSONValue, items: Iterable[Item]) -> JSONDict:
    """Return a request without the texts of items, as a trace keeps it.

    Args:
        items: The items that the request shows, in order.

    Returns:
        The form of the request, the parts of its long texts, and the digest of its bytes.
    """
    texts = _ShownTexts(items)
    parts: list[JSONValue] = []

    def placed(text: str) -> str:
        if len(text) < _MIN_CHARS and not text.startswith(_PLACE):
            return text
        parts.append(texts.parts_of(text))
        return f"{_PLACE}{len(parts) - 1}"

    form = _with_texts(request, placed)
    return {"form": form, "parts": parts, "sha256": _digest(request)}


def join_request(stored: Mapping[str, Any], items: Iterable[Item]) -> JSONValue:
    """Return the request that `split_request` took apart.

    Args:
        items: The items that the request shows.

    Raises:
        CorruptionError: If an item is not there as it was.
    """
    texts = {item.id: texts_of(item) for item in items}

    def written(text: str) -> str:
        if not text.startswith(_PLACE):
            return text
        whole = ""
        for part in stored["parts"][int(text.removeprefix(_PLACE))]:
            if isinstance(part, str):
                whole += part
            else:
                item_id, place, start, stop = part
                whole += texts[item_id][place][start:stop]
        return whole

    request = None
    with suppress(IndexError, KeyError, TypeError, ValueError):
        request = _with_texts(stored["form"], written)
    if request is None or _digest(request) != stored["sha256"]:
        raise CorruptionError(
            "the request of a stored turn cannot be put together: an item that it showed is not "
            "there as it was"
        )
    return request


def texts_of(item: Item) -> list[str]:
    """Return the texts of an item, in order: its text, or those in its blocks.

    Thinking comes last: a window may have left it out, and the places of the others stay.
    """
    found: list[str] = []
    content = content_json(item.content)
    if isinstance(content, list):
        content = sorted(content, key=lambda block: block["type"] == "thinking")
    _with_texts(content, found.append)
    return found


def _with_texts(value: Any, change: Callable[[str], Any]) -> Any:
    """Return a JSON value with each of its texts changed. The names of objects stay."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {name: _with_texts(inner, change) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_with_texts(inner, change) for inner in value]
    return value


class _ShownTexts:
    """The texts of the items that a request shows, to be found in it.

    Args:
        items: The items in the order in which they are shown.
    """

    def __init__(self, items: Iterable[Item]) -> None:
        self._leaves: list[tuple[str, int, str]] = []
        self._whole: dict[str, tuple[str, int]] = {}
        for item in items:
            for place, text in enumerate(texts_of(item)):
                if len(text) >= _MIN_CHARS:
                    self._leaves.append((item.id, place, text))
                    self._whole.setdefault(text, (item.id, place))

    def parts_of(self, text: str) -> list[JSONValue]:
        """Return the parts of a text: literal texts, and slices `[item id, place, start, stop]`."""
        known = self._whole.get(text)
        if known is not None:
            return [[*known, 0, len(text)]]
        parts: list[JSONValue] = []
        done = 0
        for item_id, place, leaf in self._leaves:
            for start, at, length in _matches(leaf, text, done):
                if at > done:
                    parts.append(text[done:at])
                parts.append([item_id, place, start, start + length])
                done = at + length
        if done < len(text):
            parts.append(text[done:])
        return parts


def _matches(
    leaf: str,
    text: str,
    begin: int,
) -> Iterator[tuple[int, int, int]]:
    """Yield where parts of an item's text stand: its offset, the text's offset, the length.

    A text stands whole, or line by line, as a layout indents it.
    """
    lines = [leaf] if leaf in text[begin:] else leaf.splitlines(keepends=True)
    start = 0
    for line in lines:
        size = len(line)
        if size >= _MIN_CHARS:
            at = text.find(line, begin)
            if at >= 0:
                yield start, at, size
                begin = at + size
        start += size
