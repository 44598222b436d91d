"""The sections of a damaged session: intact changes, repeated as far as their items are there."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from kaosmem.errors import (
    CorruptionError,
    InvalidArgumentError,
    NotFoundError,
    UnsupportedVersionError,
)
from kaosmem.names import shown_name
from kaosmem.persistence.files.items import decoded_entries
from kaosmem.persistence.files.records import FORMAT_VERSION, Record
from kaosmem.persistence.recovery import Recovered
from kaosmem.retrieval.ranker import Ranker
from kaosmem.sections.operations import (
    Add,
    Describe,
    Evict,
    Forget,
    Form,
    Operation,
    Remove,
    SectionOperation,
    Turn,
    Update,
    Use,
)
from kaosmem.sections.section import Section
from kaosmem.sections.spec import DEFAULT_SECTIONS, SectionSpec
from kaosmem.session.saving.hydration import DORMANT, Hydrated, hydrate, operation_of
from kaosmem.tokens import get_counter
from kaosmem.tokens.counters import TokenCounter
from kaosmem.types import JSONValue
from kaosmem.types.items import Item

_COUNTS = ("updates", "clock", "archived", "evicted")


def salvage_sections(
    recovered: Recovered, specs: Sequence[SectionSpec], counter: TokenCounter, ranker: Ranker | None
) -> Hydrated:
    """Return the sections that remain of a damaged session.

    Changes that cannot be repeated are entered in its damage. An update of a lost item adds it. A
    removal or use of a lost item is passed over. A section without a stored description is under
    the spec given, or dormant.

    Raises:
        CorruptionError: If nothing can be made of it.
        UnsupportedVersionError: If a change is not known.
    """

    def repeat(sections: Mapping[str, Section], record: Record) -> Operation | None:
        try:
            operation = operation_of(record)
            if isinstance(operation, SectionOperation):
                _repeat(sections[record.section], operation)
        except UnsupportedVersionError:
            raise
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            where = f"record {record.seq} of section {shown_name(record.section)}"
            what = f"{where} cannot be repeated without the records that are lost"
            recovered.damage.append(CorruptionError(what, seq=record.seq))
            return None
        return (
            None if isinstance(operation, Turn) else operation
        )  # a window that is not there is packed anew

    recovered.items[:] = decoded_entries(recovered.items)
    whole = replace(recovered, header=_whole_header(recovered))
    return hydrate(whole, specs, counter, ranker, repeat=repeat)


def _whole_header(recovered: Recovered) -> dict[str, Any]:
    """Return the header of the snapshot, with a description of each section that is left."""
    entries: dict[str, list[dict[str, JSONValue]]] = {}
    for name, entry in decoded_entries(recovered.items):
        entries.setdefault(name, []).append(entry)
    stored = recovered.header or {}
    states = stored.get("states", {})
    names = states.keys() | entries.keys()
    return {
        "version": FORMAT_VERSION,
        "counter": next((each["counter"] for each in _descriptions(recovered)), "another counter"),
        **stored,
        "sections": {spec.name: spec.to_dict() for spec in stored_specs(recovered)},
        "states": {name: _state(states.get(name), entries.get(name, [])) for name in names},
        "windows": (),
    }


def stored_specs(recovered: Recovered, names: Iterable[str] = ()) -> list[SectionSpec]:
    """Return the specs that a session was stored with.

    Where they are lost, return the usual ones of their names.

    names: further sections of the session.
    """
    described = {
        name: spec for each in _descriptions(recovered) for name, spec in each["sections"].items()
    }
    found = (
        {name for name, _ in recovered.items}
        | {record.section for record in recovered.records}
        | {*names}
    )
    usual = {spec.name: spec for spec in DEFAULT_SECTIONS}
    rankers = {spec.name: spec.ranker for spec in DEFAULT_SECTIONS}
    specs = [
        SectionSpec.from_dict(spec, ranker=rankers.get(name)) for name, spec in described.items()
    ]
    others = sorted(found - described.keys() - {""})
    return specs + [
        usual.get(name) or SectionSpec.from_dict({**DORMANT, "eviction": "none", "name": name})
        for name in others
    ]


def stored_counter(recovered: Recovered) -> TokenCounter:
    """Return the counter that a session is counted with, or else the default one."""
    names = [each["counter"] for each in _descriptions(recovered)]
    with suppress(InvalidArgumentError):
        return get_counter(names[-1] if names else None)
    return _Named(names[-1]) if len({*names}) == 1 else get_counter()


@dataclass(frozen=True)
class _Named:
    """A counter that is not here, where nothing has to be counted."""

    name: str
    additive = False

    def __call__(self, text: str) -> int:
        raise InvalidArgumentError(
            f"{shown_name(self.name)} is not here to count; open the session with it"
        )

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """Return the count of each text."""
        return list(map(self, texts))


def _descriptions(recovered: Recovered) -> Iterator[Mapping[str, Any]]:
    """Yield the stored descriptions of the session, oldest first."""
    if recovered.header:
        yield recovered.header
    yield from (record.data for record in recovered.records if record.op == Describe.op)


def _state(state: Mapping[str, Any] | None, entries: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the state of a section that may have lost items. Put its units in order.

    state: None if it is lost.
    """
    known = state or dict.fromkeys(_COUNTS, 0)
    positions = {entry["position"] for entry in entries}
    for entry in entries:
        if entry.get("unit") not in positions:  # the first item of its unit is lost
            entry.pop("unit", None)
    asking = known.get("asking")
    return {
        **known,
        "taken": max([known.get("taken", 0), *(position + 1 for position in positions)]),
        "clock": max([known["clock"], *(entry.get("last_use", 0) for entry in entries)]),
        "asking": asking if asking in positions else None,
    }


def _repeat(section: Section, operation: SectionOperation) -> None:
    """Apply an operation as far as the items that it names are live. Raises as `Section.apply`."""
    match operation:
        case Use() | Evict():
            operation = replace(operation, ids=_live(section, operation.ids))
        case Add() | Update():
            operation = replace(operation, evicted=_live(section, operation.evicted))
        case Form():
            operation = _without_gaps(section, operation)
    items = [item for item in operation.touched.values() if item is not None]
    for item in items:
        _end_older(section, item, operation.touched)
    try:
        section.apply(operation)
    except (InvalidArgumentError, NotFoundError):
        if isinstance(operation, Forget):
            raise
        for item_id, changed in operation.touched.items():
            if changed is None and item_id in section:
                section.apply(Remove(section.spec.name, item_id))
        for item in items:
            change = Update if item.id in section else Add
            section.apply(change(section.spec.name, item, ()))


def _without_gaps(section: Section, formation: Form) -> Form:
    """Return a formation whose mark stays if items are lost that were formed before it.

    The messages from there on are formed again, and what is there already is refused.
    """
    is_gap = formation.since > section.ledger.marks.get(formation.mark, 0)
    is_lost = len(_live(section, formation.added)) < len(formation.added)
    return replace(formation, mark="") if is_gap or is_lost else formation


def _live(section: Section, item_ids: Iterable[str]) -> list[str]:
    return [item_id for item_id in item_ids if item_id in section]


def _end_older(section: Section, item: Item, touched: Container[str]) -> None:
    """Remove the older version of a key if the record that superseded it is lost."""
    older = section.keyed(item.key) if item.key is not None else None
    if (
        older
        and older.id not in touched
        and older.id != item.id
        and older.valid_from <= item.valid_from
    ):
        section.apply(Remove(section.spec.name, older.id, item.valid_from))
