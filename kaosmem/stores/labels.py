"""Filters on metadata for databases and engines with SQL: labels, and a condition on them.

A label is a digest of a field's name and value. So no text of a caller stands in a condition.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from hashlib import blake2b

from kaosmem.types import JSONObject, JSONValue


def labels_of(metadata: JSONObject) -> list[str]:
    """Return the labels of metadata: one for each plain value of a field, or in its lists."""
    labels: list[str] = []
    for name, value in metadata.items():
        labels += [_label(name, each) for each in _members(value) if _is_plain(each)]
    return labels


def condition(given: JSONObject, test: str) -> str:
    """Return a condition that all rows satisfy that pass a checked filter, and perhaps others.

    It has the values that a field must equal, and those of `$in`, also within `$and`.

    Args:
        test: The engine's test of a row, with `{}` for the labels of which it has one.

    >>> condition({"$not": {"year": 2020}}, "array_has_any(labels, [{}])")
    'TRUE'
    """
    parts = ["TRUE"]
    for name, wanted in given.items():
        if name == "$and":
            parts += [condition(part, test) for part in wanted]
        if name.startswith("$"):
            continue
        options = [wanted]
        if isinstance(wanted, Mapping):
            options = wanted.get("$in", [wanted.get("$eq", wanted)])
        if options and all(map(_is_plain, options)):
            labels = [f"'{_label(name, each)}'" for each in options]
            parts.append(test.format(", ".join(labels)))
    return " AND ".join(parts)


def _members(value: JSONValue) -> Iterator[JSONValue]:
    """Yield a value, or the members of a list and of the lists in it."""
    if isinstance(value, list):
        for each in value:
            yield from _members(each)
    else:
        yield value


def _is_plain(value: object) -> bool:
    """Return whether a value has a label."""
    return isinstance(value, str | int | float | None)


def _label(name: str, value: object) -> str:
    """Return the label of a field with a value. 1 and 1.0 are one number."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return blake2b(json.dumps([name, value]).encode(), digest_size=12).hexdigest()
