"""Filters on metadata for engines with SQL: labels of a passage, and an expression over them.

A label is a digest of a field's name and value. So no text of a caller stands in an expression.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import Any

from kaosmem.types import JSONValue

_ANY = "TRUE"
_PLAIN = str | bool | int | float


def labels_of(metadata: Mapping[str, JSONValue]) -> list[str]:
    """Return the labels of a passage: one for each field, and one for each plain value in it."""
    labels: dict[str, None] = {}
    for name, value in metadata.items():
        labels[_label(name)] = None
        for plain in _plain_values(value):
            labels[_label(name, plain)] = None
    return list(labels)


def condition(given: Mapping[str, Any], test: str) -> str:
    """Return an expression that all rows satisfy that pass a checked filter, and perhaps others.

    Negations let everything through, and comparisons of order all that have the field.

    Args:
        test: The engine's test of a row, with `{}` for the label that it has.

    >>> condition({"$not": {"year": 2020}}, "array_has(labels, '{}')")
    '(TRUE)'
    """
    return _joined("AND", [_part(name, wanted, test) for name, wanted in given.items()])


def _part(name: str, wanted: Any, test: str) -> str:
    match name:
        case "$and" | "$or":
            return _joined(name[1:].upper(), [condition(part, test) for part in wanted])
        case "$not" | "$if_present":
            return _ANY
    is_conditions = isinstance(wanted, Mapping) and any(
        isinstance(key, str) and key.startswith("$") for key in wanted
    )
    conditions = wanted.items() if is_conditions else (("$eq", wanted),)
    return _joined("AND", [_test(name, key, value, test) for key, value in conditions])


def _test(field: str, name: str, wanted: Any, test: str) -> str:
    if name == "$ne" or (name == "$exists" and not wanted):
        return _ANY
    if name == "$in":
        return _joined("OR", [_test(field, "$eq", option, test) for option in wanted])
    is_value = name == "$eq" and (wanted is None or isinstance(wanted, _PLAIN))
    return test.format(_label(field, wanted) if is_value else _label(field))


def _joined(operator: str, parts: list[str]) -> str:
    if not parts:
        return "TRUE" if operator == "AND" else "FALSE"
    return f"({f' {operator} '.join(parts)})"


def _plain_values(value: JSONValue) -> Iterator[str | bool | int | float | None]:
    """Yield the values that a condition finds in a field: a list has those of its members."""
    if isinstance(value, list):
        for member in value:
            yield from _plain_values(member)
    elif value is None or isinstance(value, _PLAIN):
        yield value


def _label(*parts: object) -> str:
    """Return the label of a field, or of a field with a value. 1 and 1.0 are one number."""
    plain: Iterable[object] = [
        int(part) if isinstance(part, float) and part.is_integer() else part for part in parts
    ]
    return blake2b(json.dumps(plain).encode(), digest_size=12).hexdigest()
