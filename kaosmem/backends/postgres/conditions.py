"""Conditions on metadata as SQL with bound parameters.

A condition lets every document through that passes the filter. The few others that it lets through, such as numbers
beyond 2**53 that differ in their last digits, are for the caller to test.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kaosmem.types import json_text

_ANY: tuple[str, list[Any]] = ("true", [])
_EXACT = 2**53
_ORDERS = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}


def condition(given: Mapping[str, Any]) -> tuple[str, list[Any]]:
    """Return an SQL expression over the column `fields`, and the values of its parameters. given: a checked filter.

    >>> condition({"source": {"$exists": True}})
    ('((fields IS NULL OR ((fields ? %s) = True)))', ['source'])
    """
    return _joined("AND", (_part(name, wanted) for name, wanted in given.items()))


def _part(name: str, wanted: Any) -> tuple[str, list[Any]]:
    match name:
        case "$and":
            return _joined("AND", map(condition, wanted))
        case "$or":
            return _joined("OR", map(condition, wanted))
        case "$not":
            return _ANY
    is_conditions = isinstance(wanted, Mapping) and any(isinstance(key, str) and key.startswith("$") for key in wanted)
    conditions = wanted.items() if is_conditions else (("$eq", wanted),)
    expression, values = _joined("AND", (_test(name, key, value) for key, value in conditions))
    return (f"(fields IS NULL OR {expression})", values) if "\0" not in name else _ANY


def _test(field: str, name: str, wanted: Any) -> tuple[str, list[Any]]:
    match name:
        case "$eq" if _is_plain(wanted):
            value = json_text(wanted)
            nested = """fields->%s @? '$[*] ? (@.type() == "array")'"""
            return f"(fields->%s @> %s::jsonb OR {nested})", [field, value, field]
        case "$in":
            return _joined("OR", (_test(field, "$eq", option) for option in wanted))
        case "$exists":
            return f"(fields ? %s) = {bool(wanted)}", [field]
        case "$gt" | "$gte" | "$lt" | "$lte" if _is_plain(wanted):
            kind, cast = ("string", "#>>'{}' COLLATE \"C\"") if isinstance(wanted, str) else ("number", "::numeric")
            value = "%s" if isinstance(wanted, str) else "%s::numeric"
            # CASE, as a server may test the parts of AND in any order.
            order = f"(fields->%s){cast} {_ORDERS[name]} {value}"
            return (
                f"CASE WHEN jsonb_typeof(fields->%s) = '{kind}' THEN {order} ELSE false END",
                [field, field, wanted if isinstance(wanted, str) else repr(wanted)],
            )
    return _ANY


def _is_plain(value: Any) -> bool:
    """Return whether jsonb compares a value as Python does."""
    if isinstance(value, str):
        return "\0" not in value
    return value is None or isinstance(value, bool) or (isinstance(value, int | float) and abs(value) < _EXACT)


def _joined(operator: str, parts: Iterable[tuple[str, list[Any]]]) -> tuple[str, list[Any]]:
    listed = list(parts)
    if not listed:
        return ("true" if operator == "AND" else "false"), []
    return f"({f' {operator} '.join(each for each, _ in listed)})", [value for _, values in listed for value in values]
