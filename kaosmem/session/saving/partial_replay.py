"""What a damaged session has left: states without lost items, and changes as far as they can go."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kaosmem.errors import (
    CorruptionError,
    InvalidArgumentError,
    NotFoundError,
    UnsupportedVersionError,
)
from kaosmem.names import shown_name
from kaosmem.persistence.files.records import Record
from kaosmem.sections.keyed_versions import is_announced
from kaosmem.sections.operations import (
    Add,
    Evict,
    Forget,
    Form,
    Operation,
    Remove,
    SectionOperation,
    Update,
    Use,
    WindowTurn,
    parse_operation,
)
from kaosmem.sections.section import Section
from kaosmem.types import JSONDict, JSONObject
from kaosmem.types.items import Item

MALFORMED_DATA_ERRORS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""The errors of stored data that make no sense."""

_NO_STATE: JSONObject = {"updates": 0, "archived": 0, "evicted": 0}


def operation_of(record: Record) -> Operation:
    """Return the operation of a record. Raises as `parse_operation`."""
    return parse_operation(record.section, record.op, record.data)


def intact_state(state: Mapping[str, Any] | None, entries: Sequence[dict[str, Any]]) -> JSONDict:
    """Return the state of a section that may have lost items. Put its units in order.

    Args:
        state: The stored state, or None if it is lost.
        entries: The items that are left.
    """
    known = state or _NO_STATE
    taken = known.get("taken", 0)
    clock = known.get("clock", 0)
    positions = {entry["position"] for entry in entries}
    for entry in entries:
        taken = max(taken, entry["position"] + 1)
        clock = max(clock, entry.get("last_use", 0))
        if entry.get("unit") not in positions:  # the first item of its unit is lost
            entry.pop("unit", None)
    asking = known.get("asking")
    if asking not in positions:
        asking = None
    return {**known, "taken": taken, "clock": clock, "asking": asking}


def repeat_intact(
    sections: Mapping[str, Section],
    record: Record,
    damage: list[CorruptionError],
) -> Operation | None:
    """Apply the operation of a record as far as its items are there, and return the operation.

    An update of a lost item adds it. A removal or use of a lost item is passed over.

    Returns:
        None for a turn of a window, which is packed anew, and for an operation that cannot be
        repeated. Its record is entered in the damage.

    Raises:
        UnsupportedVersionError: If the operation is not known.
    """
    try:
        operation = operation_of(record)
        if isinstance(operation, SectionOperation):
            _repeat(sections[record.section], operation)
    except UnsupportedVersionError:
        raise
    except MALFORMED_DATA_ERRORS:
        where = f"record {record.seq} of section {shown_name(record.section)}"
        what = f"{where} cannot be repeated without the records that are lost"
        damage.append(CorruptionError(what, seq=record.seq))
        return None
    if isinstance(operation, WindowTurn):
        return None
    return operation


def _repeat(section: Section, operation: SectionOperation) -> None:
    """Apply an operation as far as the items that it names are live. Raises as `Section.apply`."""
    match operation:
        case Use() | Evict():
            operation = replace(operation, ids=_live(section, operation.ids))
        case Add() | Update():
            operation = replace(operation, evicted=_live(section, operation.evicted))
        case Form():
            # If items are lost that were formed here or before, all messages from there on are
            # formed again, and what is there already is refused.
            has_all = len(_live(section, operation.items)) == len(operation.items)
            if operation.since > section.ledger.marks[operation.mark] or not has_all:
                operation = replace(operation, mark="")
    items = [item for item in operation.touched.values() if item is not None]
    for item in items:
        _end_older(section, item, operation.touched)
    try:
        section.apply(operation)
    except (InvalidArgumentError, NotFoundError):
        if isinstance(operation, Forget):
            raise
        for item_id in _live(section, operation.touched):
            if operation.touched[item_id] is None:
                section.apply(Remove(section.spec.name, item_id))
        for item in items:
            change = Update if item.id in section else Add
            section.apply(change(section.spec.name, item, ()))


def _live(section: Section, item_ids: Iterable[str]) -> list[str]:
    """Return the ids of live items among some ids."""
    return [item_id for item_id in item_ids if item_id in section]


def _end_older(
    section: Section,
    item: Item,
    touched: Container[str],
) -> None:
    """Remove the older version of a key if the record that superseded it is lost."""
    if item.key is None:
        return
    older = section.keyed(item.key)
    if older is None or older.id == item.id or older.id in touched:
        return
    if is_announced(item, item.created_at):  # the older one holds until it begins
        return
    if older.valid_from <= item.valid_from:
        ended = item.valid_from, item.created_at
        section.apply(Remove(section.spec.name, older.id, ended))
