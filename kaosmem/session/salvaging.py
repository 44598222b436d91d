"""The sections of a damaged session, as far as they are intact."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from kaosmem.errors import CorruptionError, InvalidArgumentError, UnsupportedVersionError
from kaosmem.names import shown_name
from kaosmem.persistence import Recovered, decoded
from kaosmem.retrieval import Ranker
from kaosmem.sections import DEFAULT_SECTIONS, Forgotten, SectionSpec
from kaosmem.sections.operations import Describe, Forget, Operation, SectionOperation, Turn, parse_operation
from kaosmem.session.hydration import DORMANT, STATE_FIELDS, Hydrated, check_count, notices_of, recount
from kaosmem.session.remains import Remains
from kaosmem.tokens import TokenCounter, get_counter

_Description = Mapping[str, Any]


def salvage(
    recovered: Recovered, specs: Sequence[SectionSpec], counter: TokenCounter, ranker: Ranker | None
) -> Hydrated:
    """Return the sections that remain of a damaged session; what of them makes no sense is added to its damage.

    A change to what is lost does what it can: an update adds, a removal or use is passed over, a forgotten item stays
    forgotten. Sections whose description is lost are under the spec given, or dormant.
    Raises CorruptionError, and UnsupportedVersionError for changes that are not known.
    """
    known = {spec.name: spec for spec in specs}
    events = sorted(_events(recovered), key=lambda event: event.seq)
    descriptions = [event.data for event in events if event.op == Describe.op and event.data]
    names = {name: None for event in events for name in (event.section, *(event.entries or ())) if name}
    described = {name: stored for each in descriptions for name, stored in _dict(each.get("sections")).items()}
    check_count({*known, *described, *names})
    unknown = {name: _dormant(name, described.get(name)) for name in (described | names) if name not in known}
    remains = {name: Remains(spec) for name, spec in (known | unknown).items() if spec is not None}
    forgotten, unpurged = Forgotten(), set[str]()
    seq = 0
    for event in events:
        for each in remains.values():
            each.taken += max(0, event.seq - seq - 1) if seq else 0  # of each lost record may have come an item
        seq = event.seq
        operation = _operation(event)
        if isinstance(operation, Forget):
            unpurged.update(operation.ids)
            forgotten.add(operation.ids)
        if useless := _take(event, operation, remains, forgotten):
            recovered.damage.append(_useless(useless, event))
    sections = {name: each.section(ranker) for name, each in remains.items()}
    notices = notices_of(sections, [name for name in unknown if name in sections])
    others = {str(each.get("counter")) for each in descriptions} - {counter.name}
    if others or not descriptions:
        notices.append(
            f"counted again with {counter.name}: the session was counted with {min(others, default='another')}"
        )
        recount(sections.values(), counter)
    newest = descriptions[-1] if descriptions else {}
    description = {name: value for name, value in newest.items() if name not in STATE_FIELDS}
    return Hydrated(sections, description, notices, forgotten, unpurged)


def stored_specs(recovered: Recovered, names: Iterable[str] = ()) -> list[SectionSpec]:
    """Return the specs that a session was stored with; where these are lost, the usual ones of their names.

    names: of sections that it has beside those in what was recovered.
    """
    events = list(_events(recovered))
    usual = {spec.name: spec for spec in DEFAULT_SECTIONS}
    described = {name: spec for event in events if event.op == Describe.op for name, spec in _described(event.data)}
    found = {name: None for event in events for name in (event.section, *(event.entries or ())) if name}
    others = [name for name in (*found, *sorted({*names} - {*found})) if name not in described]
    return [*described.values(), *(spec for name in others if (spec := usual.get(name) or _dormant(name, None)))]


def stored_counter(recovered: Recovered) -> TokenCounter:
    """Return the counter that a session is counted with, or else one that counts as usual."""
    names = [each.data["counter"] for each in _events(recovered) if isinstance(each.data.get("counter"), str)]
    with suppress(InvalidArgumentError):
        return get_counter(names[-1] if names else None)
    return _Named(names[-1]) if len(set(names)) == 1 else get_counter()


@dataclass(frozen=True)
class _Named:
    """Stands for a counter that is not here, where nothing has to be counted."""

    name: str
    additive = False

    def __call__(self, text: str) -> int:
        raise InvalidArgumentError(f"{shown_name(self.name)} is not here to count; open the session with it")

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """Return the count of each text."""
        return list(map(self, texts))


def _described(description: _Description) -> Iterator[tuple[str, SectionSpec]]:
    for name, stored in _dict(description.get("sections")).items():
        with suppress(AttributeError, TypeError, ValueError):
            yield name, SectionSpec.from_dict({**_dict(stored), "name": name})


@dataclass(frozen=True)
class _Event:
    """Something that is known to have been so after record `seq`. entries: of a snapshot, by section."""

    seq: int
    section: str
    op: str
    data: _Description
    entries: Mapping[str, Sequence[Any]] | None = None


def _events(recovered: Recovered) -> Iterator[_Event]:
    if recovered.header is not None or recovered.items:
        yield _Event(0, "", Describe.op, recovered.header or {}, _by_section(decoded(recovered.items)))
    for record in recovered.records:
        yield _Event(record.seq, record.section, record.op, record.data)
    for part in recovered.parts:
        yield _Event(part.seq, "", Describe.op, part.header, _by_section(decoded(part.items)))


def _operation(event: _Event) -> Operation | None:
    """Return the operation of a record, None if its data make no sense. Raises UnsupportedVersionError."""
    try:
        return parse_operation(event.section, event.op, event.data)
    except UnsupportedVersionError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return None


def _take(event: _Event, operation: Operation | None, remains: Mapping[str, Remains], forgotten: Forgotten) -> int:
    """Apply an event to the remains, and return how many parts of it had no effect."""
    if isinstance(operation, Turn):  # a window that is not there is packed anew
        return 0
    if isinstance(operation, SectionOperation) and event.section in remains:
        return remains[event.section].apply(operation)
    if not isinstance(operation, Describe):
        return 1
    if isinstance(digests := event.data.get("forgotten"), list):
        forgotten.update(Forgotten(digest for digest in digests if isinstance(digest, str)))
    entries = event.entries or {}
    states = _dict(event.data.get("states"))
    useless = sum(len(each) for name, each in entries.items() if name not in remains)
    for name, each in remains.items():
        if event.entries is not None:
            each.forget(forgotten)
        useless += each.find(states.get(name), entries.get(name, ()))
    return useless


def _dormant(name: str, stored: object) -> SectionSpec | None:
    """Return the spec of a section that is kept but not shown, None if the name can be none's."""
    with suppress(AttributeError, TypeError, ValueError):
        return SectionSpec.from_dict({**_dict(stored), **DORMANT, "name": name})
    with suppress(ValueError):
        return SectionSpec.from_dict({**DORMANT, "name": name})
    return None


def _by_section(items: Iterable[tuple[str, Any]]) -> dict[str, list[Any]]:
    entries: dict[str, list[Any]] = {}
    for name, entry in items:
        entries.setdefault(name, []).append(entry)
    return entries


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _useless(count: int, event: _Event) -> CorruptionError:
    what = f"record {event.seq}" if event.op != Describe.op else "a snapshot"
    where = f" of section {shown_name(event.section)}" if event.section else ""
    return CorruptionError(f"{what}{where} holds {count} things that cannot be made sense of", seq=event.seq or None)
