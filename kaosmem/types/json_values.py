"""Values that JSON and UTF-8 hold exactly."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from kaosmem.errors import InvalidArgumentError
from kaosmem.names import shown

JSONValue: TypeAlias = Any
"""None, bool, int within 64 bits, finite float, str, or a list or str-keyed mapping of these."""

MAX_JSON_DEPTH = 64
_SCALARS = str, bytes, bytearray
MAX_INTEGER = 2**63 - 1
MAX_JSON_VALUES, MAX_JSON_CONTAINERS = 2**22, 400_000


def check_text(text: str, what: str) -> str:
    """Return `text` if UTF-8 can hold it. Raises InvalidArgumentError that names the first lone surrogate."""
    if not isinstance(text, str):
        raise InvalidArgumentError(f"{what} is a {type(text).__name__}; give a str")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InvalidArgumentError(
                f"{what} has a lone surrogate {text[error.start]!a} at position {error.start}, which UTF-8 cannot "
                "hold; decode the text with errors='replace', or repair it with "
                "text.encode('utf-16', 'surrogatepass').decode('utf-16', 'replace')"
            ) from None
    return text


def is_integer(value: object) -> bool:
    """Return whether a value is an int that a log can hold."""
    return type(value) is int and -MAX_INTEGER - 1 <= value <= MAX_INTEGER


def check_metadata(metadata: Mapping[str, JSONValue] | None, what: str = "metadata") -> dict[str, JSONValue]:
    """Return a copy of metadata that JSON holds exactly. Raises InvalidArgumentError."""
    if metadata is None:
        return {}
    if not isinstance(metadata, Mapping):
        raise InvalidArgumentError(f"{what} is a {type(metadata).__name__}; give a mapping with str keys")
    copy: dict[str, JSONValue] = check_json(metadata, what)
    return copy


def check_json(value: JSONValue, what: str, depth: int = 0) -> JSONValue:
    """Return a copy of `value` that JSON holds exactly. Raises InvalidArgumentError that says where it can't.

    A list or mapping that stands in several places counts, and is copied, once for each.
    """
    if depth == 0:
        _check_size(value, what)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return check_text(value, what)
    if isinstance(value, int):
        if -MAX_INTEGER - 1 <= value <= MAX_INTEGER:
            return int(value)
        raise InvalidArgumentError(f"{what} is an integer beyond 64 bits; store it as text")
    if isinstance(value, float):
        if math.isfinite(value):
            return float(value)
        raise InvalidArgumentError(f"{what} is {value!r}, which JSON cannot hold; store None or text")
    if depth >= MAX_JSON_DEPTH:
        raise InvalidArgumentError(f"{what} is nested deeper than {MAX_JSON_DEPTH} levels; flatten it")
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise InvalidArgumentError(f"{what} has a key {shown(key)} that is not a str; convert it with str()")
        return {
            check_text(key, what): check_json(member, f"{what}[{shown(key)}]", depth + 1)
            for key, member in value.items()
        }
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [check_json(member, f"{what}[{index}]", depth + 1) for index, member in enumerate(value)]
    raise InvalidArgumentError(f"{what} is a {type(value).__name__}, which JSON cannot hold; convert it first")


def _check_size(value: JSONValue, what: str) -> None:
    """Raise InvalidArgumentError for more than can be stored, before it is copied. Shared parts count each time."""
    containers = values = 0
    level = [value]
    for _ in range(MAX_JSON_DEPTH + 1):
        level = [each for each in level if isinstance(each, Mapping | Sequence) and not isinstance(each, _SCALARS)]
        if not level:
            return
        containers, values = containers + len(level), values + sum(map(len, level))
        if containers > MAX_JSON_CONTAINERS or values > MAX_JSON_VALUES:
            raise InvalidArgumentError(
                f"{what} has more than {MAX_JSON_CONTAINERS:,} objects and lists or {MAX_JSON_VALUES:,} values, shared "
                "ones counted each time; split it"
            )
        level = [member for each in level for member in (each.values() if isinstance(each, Mapping) else each)]


def json_text(value: JSONValue) -> str:
    """Return strict, compact JSON text: no NaN, characters as they are."""
    return _encoder.encode(value)


_encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
