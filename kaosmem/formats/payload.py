"""Reading objects of a provider's API or SDK as plain values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kaosmem.errors import InvalidArgumentError
from kaosmem.types import Content, ContentBlock, JSONValue, TextBlock


def mapping_of(value: object, what: str) -> Mapping[str, JSONValue]:
    """Return a dict, or an object of an SDK, as a mapping. Raises InvalidArgumentError for any other value."""
    if isinstance(value, Mapping):
        return value
    dump = getattr(value, "model_dump", None)
    if dump is None or isinstance(value, type):
        raise InvalidArgumentError(
            f"{what} is a dict or an object of the provider's package, not a {type(value).__name__}"
        )
    dumped: Mapping[str, JSONValue] = dump(exclude_none=True)
    return dumped


def parts_of(content: object, what: str) -> list[Mapping[str, JSONValue]]:
    """Return the parts that content is a list of. Raises InvalidArgumentError."""
    if isinstance(content, str | bytes | Mapping) or not isinstance(content, Iterable):
        raise InvalidArgumentError(f"the content of {what} is a str or a list of parts, not a {type(content).__name__}")
    return [mapping_of(part, f"a part of {what}") for part in content]


def text_field(given: Mapping[str, JSONValue], key: str, what: str) -> str:
    """Return a field that must be a str. Raises InvalidArgumentError."""
    value = given.get(key)
    if not isinstance(value, str):
        raise InvalidArgumentError(f"{what} needs a {key} that is a str; this one has a {type(value).__name__}")
    return value


def plainest(blocks: Sequence[ContentBlock]) -> Content:
    """Return blocks in the plainest form of content: one text alone is a str."""
    if not blocks:
        return ""
    return blocks[0].text if len(blocks) == 1 and isinstance(blocks[0], TextBlock) else tuple(blocks)
