"""A request as references to the texts of items, and back, byte for byte.

A request repeats the texts of the items that it shows. A trace keeps a skeleton of the request, in
which each long text is replaced by its parts: literal text, such as a header, or a reference to a
slice of an item's text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from os.path import commonprefix
from typing import Any

from kaosmem.arguments import json_text
from kaosmem.errors import CorruptionError
from kaosmem.formats import Rendered
from kaosmem.types import JSONValue
from kaosmem.types.content import content_json
from kaosmem.types.items import Item

_MIN_CHARS = 16
"""Shorter texts are kept as they are: a reference would take as many characters."""

_ANCHOR_CHARS = 24
_PARTS = "\0"
"""The name of the parts of a text in a skeleton: `{"\\0": [part, ...]}`.

Own names that begin so get it once more.
"""


def request_of(rendered: Rendered) -> JSONValue:
    """Return a rendered context as JSON values: its text, or its messages with its system."""
    if rendered.text is not None:
        return rendered.text
    return {"system": rendered.system, "messages": rendered.messages}


def request_bytes(request: JSONValue) -> bytes:
    """Return the bytes of a request: its text, or its JSON."""
    return (request if isinstance(request, str) else json_text(request)).encode()


def digest_of(request: JSONValue) -> str:
    """Return the SHA-256 of the bytes of a request."""
    return sha256(request_bytes(request)).hexdigest()


class Splitter:
    """Splits a request into literal texts and references to the texts of items.

    Args:
        items: The items that the request shows, in order.
    """

    def __init__(self, items: Iterable[Item]) -> None:
        self._leaves: list[tuple[str, int, str]] = []
        self._whole: dict[str, tuple[str, int]] = {}
        for item in items:
            for place, text in enumerate(texts_of(item)):
                if len(text) >= _MIN_CHARS:
                    self._leaves.append((item.id, place, text))
                    self._whole.setdefault(text, (item.id, place))

    def split(self, value: Any) -> JSONValue:
        """Return the skeleton of a value."""
        if isinstance(value, str):
            return value if len(value) < _MIN_CHARS else {_PARTS: self._parts_of(value)}
        if isinstance(value, Mapping):
            return {_escaped(name): self.split(inner) for name, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self.split(inner) for inner in value]
        return value

    def _parts_of(self, text: str) -> list[JSONValue]:
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


def _matches(leaf: str, text: str, begin: int) -> Iterator[tuple[int, int, int]]:
    """Yield where parts of an item's text stand: its offset, the text's offset, the length.

    A text stands whole, or line by line as a layout indents it, or with its middle cut out.
    """
    at = text.find(leaf, begin)
    if at >= 0:
        yield 0, at, len(leaf)
        return
    start = 0
    for line in leaf.splitlines(keepends=True):
        place = start
        start += len(line)
        while start - place >= _ANCHOR_CHARS:
            at = text.find(leaf[place : place + _ANCHOR_CHARS], begin)
            if at < 0:
                place += _ANCHOR_CHARS
                continue
            rest = text[at : at + len(leaf) - place]
            length = len(commonprefix([leaf[place:], rest]))  # noqa: RUF071
            yield place, at, length
            begin = at + length
            place += length


def texts_of(item: Item) -> list[str]:
    """Return the texts of an item, in a fixed order: its text, or those in its blocks."""
    found: list[str] = []
    left: list[Any] = [content_json(item.content)]
    while left:
        value = left.pop()
        if isinstance(value, str):
            found.append(value)
        elif isinstance(value, Mapping):
            left.extend(value.values())
        elif isinstance(value, list | tuple):
            left.extend(value)
    return found


def _escaped(name: str) -> str:
    return _PARTS + name if name.startswith(_PARTS) else name


def join(skeleton: Any, items: Mapping[str, Item]) -> Any:
    """Return the value that `Splitter.split` took apart.

    Args:
        items: The items by id, with at least those that the skeleton refers to.

    Raises:
        CorruptionError: If the skeleton refers to a text that no item has.
    """
    texts = {item_id: texts_of(item) for item_id, item in items.items()}
    try:
        return _joined(skeleton, texts)
    except (IndexError, KeyError, TypeError, ValueError):
        raise CorruptionError(
            "a stored turn refers to a text that its session does not hold; its items changed or "
            "were erased since"
        ) from None


def _joined(value: Any, texts: Mapping[str, Sequence[str]]) -> Any:
    if isinstance(value, list):
        return [_joined(inner, texts) for inner in value]
    if not isinstance(value, dict):
        return value
    if _PARTS not in value:
        return {name.removeprefix(_PARTS): _joined(inner, texts) for name, inner in value.items()}
    written = ""
    for part in value[_PARTS]:
        if isinstance(part, str):
            written += part
        else:
            item_id, place, start, stop = part
            written += texts[item_id][place][start:stop]
    return written
