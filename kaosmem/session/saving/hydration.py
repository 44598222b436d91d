"""A session's sections, to and from its log: read at open, written beside the turn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from kaosmem.errors import CorruptionError, InvalidArgumentError, UnsupportedVersionError
from kaosmem.persistence.files.items import decoded_entries
from kaosmem.persistence.files.records import FORMAT_VERSION, unknown_version
from kaosmem.persistence.log import SessionLog
from kaosmem.persistence.recovery import Recovered
from kaosmem.retrieval.ranker import Ranker
from kaosmem.sections.default_sections import DEFAULT_SECTIONS
from kaosmem.sections.eviction import POLICIES
from kaosmem.sections.lazy_index import StoredIndex
from kaosmem.sections.operations import (
    Describe,
    Forget,
    Operation,
    SectionOperation,
    TraceTurn,
    WindowTurn,
)
from kaosmem.sections.section import Section
from kaosmem.sections.spec import MAX_SECTIONS, PROPOSALS_SECTION, SectionSpec
from kaosmem.sections.substitution import ForgottenIds
from kaosmem.session.saving.partial_replay import (
    MALFORMED_DATA_ERRORS,
    intact_state,
    operation_of,
    repeat_intact,
)
from kaosmem.session.windows import Windows
from kaosmem.tokens import count_content, get_counter
from kaosmem.tokens.counters import TokenCounter
from kaosmem.trace.trace import Trace
from kaosmem.types import JSONObject, JSONValue

STATE_FIELDS = "states", "forgotten", "windows", "turns"
"""What a snapshot's header says beside the description of the session."""
HIDDEN_FROM_CONTEXT: JSONObject = {"in_context": False}
"""Of a section without a spec: nothing is added to it, and it is not shown."""


@dataclass
class Hydrated:
    """Sections as saved, by name, with the log's description of them and notices.

    Attributes:
        forgotten: Ids of all forgotten items.
        unpurged: The ids among them that files may still hold.
        is_partial: Whether items may be lost, as the session is damaged.
    """

    sections: dict[str, Section]
    description: JSONObject
    notices: list[str]
    forgotten: ForgottenIds
    unpurged: set[str]
    windows: Windows
    trace: Trace
    is_partial: bool


def stored_specs(recovered: Recovered) -> list[SectionSpec]:
    """Return the specs that a session was stored with.

    If a description is lost, the section has the default spec of its name, or is not shown.
    """
    described = _described(_descriptions(recovered))
    found = {name for name, _ in recovered.items}
    found.update(record.section for record in recovered.records)
    default = {spec.name: spec for spec in DEFAULT_SECTIONS}
    specs = []
    for name, stored in described.items():
        ranker = None
        if name in default:
            ranker = default[name].ranker
        specs.append(SectionSpec.from_dict(stored, ranker=ranker))
    for name in sorted(found - described.keys() - {""}):
        hidden = SectionSpec.from_dict({**HIDDEN_FROM_CONTEXT, "eviction": "none", "name": name})
        specs.append(default.get(name, hidden))
    return specs


def stored_counter(recovered: Recovered) -> TokenCounter:
    """Return the counter that a session is counted with, the default one if it is not here."""
    names = [each["counter"] for each in _descriptions(recovered)]
    with suppress(InvalidArgumentError):
        return get_counter(names[-1] if names else None)
    return get_counter()


def _descriptions(recovered: Recovered) -> list[Mapping[str, Any]]:
    """Return the stored descriptions of a session, oldest first."""
    found: list[Mapping[str, Any]] = []
    if recovered.header:
        found.append(recovered.header)
    found += [record.data for record in recovered.records if record.op == Describe.op]
    return found


def _described(descriptions: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return the newest stored specs of sections, by name."""
    described: dict[str, Mapping[str, Any]] = {}
    for each in descriptions:
        described.update(each["sections"])
    return described


def hydrate(
    recovered: Recovered,
    specs: Sequence[SectionSpec],
    counter: TokenCounter,
    ranker: Ranker | None,
    *,
    read_only: bool = False,
) -> Hydrated:
    """Return the sections that a log holds, under today's specs.

    A stored section that no spec names is kept but not shown. Another counter than the stored one
    counts all again. In a damaged session, each change is repeated as far as its items are there.

    Args:
        read_only: If the records make no sense, take the session for a damaged one.

    Raises:
        CorruptionError: If the records make no sense.
        UnsupportedVersionError: If a newer version has written some of them.
    """
    try:
        return _hydrate(recovered, specs, counter, ranker)
    except UnsupportedVersionError:
        raise
    except MALFORMED_DATA_ERRORS as error:
        damage = _replay_error(error)
        if recovered.is_partial or not read_only:
            raise damage from None
        recovered.damage.append(damage)
        return hydrate(replace(recovered, is_partial=True), specs, counter, ranker)


def _replay_error(error: Exception) -> CorruptionError:
    """Return the error for records that make no sense."""
    if isinstance(error, CorruptionError):
        return error
    # Without the message of the error, which may show what was stored.
    return CorruptionError(
        f"the session's records are intact but cannot be replayed: {type(error).__name__}; open it "
        "with the version of kaosmem that wrote it"
    )


def _hydrate(
    recovered: Recovered,
    specs: Sequence[SectionSpec],
    counter: TokenCounter,
    ranker: Ranker | None,
) -> Hydrated:
    header = recovered.header or {}
    descriptions = _descriptions(recovered)
    _check_versions(descriptions)
    known = {spec.name: spec for spec in specs}
    described = _described(descriptions)
    counters = {each["counter"] for each in descriptions}
    if recovered.is_partial:
        recovered.items[:] = decoded_entries(recovered.items)
        described = {spec.name: spec.to_dict() for spec in stored_specs(recovered)}
        counters = counters or {"another counter"}
    if len(known.keys() | described.keys()) > MAX_SECTIONS:
        raise CorruptionError(
            f"the session's records describe more than {MAX_SECTIONS} sections, which no session "
            "has; bring it back from a copy"
        )
    unknown = {
        name: SectionSpec.from_dict({**stored, **HIDDEN_FROM_CONTEXT})
        for name, stored in described.items()
        if name not in known
    }
    sections = _restored(recovered, known | unknown, ranker)
    shown = () if recovered.is_partial else header.get("windows", ())
    windows = Windows(shown)
    operations = _repeated(recovered, sections)
    trace = Trace(header.get("turns", 0))
    unpurged = _apply_to_session(windows, trace, operations)
    notices = notices_of(sections, unknown, described)
    others = counters - {counter.name}
    if others:
        notices.append(
            f"counted again with {counter.name}: the session was counted with {min(others)}"
        )
        for section in sections.values():
            section.recount(lambda item: count_content(item.content, counter))
    newest = descriptions[-1] if descriptions else {}
    description = {name: value for name, value in newest.items() if name not in STATE_FIELDS}
    forgotten = ForgottenIds(header.get("forgotten", ()))
    forgotten.add(unpurged)
    is_partial = recovered.is_partial
    return Hydrated(sections, description, notices, forgotten, unpurged, windows, trace, is_partial)


def _repeated(recovered: Recovered, sections: Mapping[str, Section]) -> Iterator[Operation | None]:
    """Apply the operations of the records to their sections, and yield them."""
    for record in recovered.records:
        if recovered.is_partial:
            yield repeat_intact(sections, record, recovered.damage)
            continue
        operation = operation_of(record)
        if isinstance(operation, SectionOperation):
            sections[operation.section].apply(operation)
        yield operation


def _check_versions(descriptions: Iterable[JSONObject]) -> None:
    """Raise UnsupportedVersionError if a description is of a newer format."""
    for each in descriptions:
        if each["version"] > FORMAT_VERSION:
            raise unknown_version(each["version"])


def _apply_to_session(
    windows: Windows,
    trace: Trace,
    operations: Iterable[Operation | None],
) -> set[str]:
    """Repeat the turns of windows and of the trace, and return the ids of forgotten items."""
    forgotten: set[str] = set()
    for operation in operations:
        if isinstance(operation, WindowTurn):
            windows.apply(operation.data)
        if isinstance(operation, TraceTurn):
            trace.apply(operation.data)
        if isinstance(operation, Forget):
            windows.forget(operation.ids)
            trace.forget(operation.ids)
            forgotten.update(operation.ids)
    return forgotten


def _restored(
    recovered: Recovered,
    specs: Mapping[str, SectionSpec],
    ranker: Ranker | None,
) -> dict[str, Section]:
    """Return the sections as the snapshot has them, empty without one."""
    entries: dict[str, list[Any]] = {}
    for name, entry in recovered.items:
        entries.setdefault(name, []).append(entry)
    states = (recovered.header or {}).get("states", {})
    sections = {}
    for name, spec in specs.items():
        own = entries.get(name, [])
        state = states.get(name)
        if recovered.is_partial and (state or own):
            state = intact_state(state, own)
        if state is None:
            sections[name] = Section(spec, ranker=ranker)
        else:
            sections[name] = Section.restore(spec, state, own, ranker=ranker)
    return sections


def notices_of(
    sections: Mapping[str, Section],
    unknown: Iterable[str],
    described: Mapping[str, JSONObject],
) -> list[str]:
    """Return notices about stored sections whose spec is missing or gives less than before.

    A section may have no spec any more, a smaller budget, or another policy than the one of its
    own.
    """
    notices = [
        f"section {name!r} is stored but no spec names it: its {len(sections[name])} items are "
        "kept, not shown"
        for name in unknown
        if name != PROPOSALS_SECTION.name
    ]
    for name, spec in described.items():
        notice = _shrunk_notice(sections[name], spec.get("budget"))
        if notice:
            notices.append(notice)
    for name, spec in described.items():
        policy = spec.get("eviction", "none")
        now = sections[name].spec.policy.name
        if policy not in (*POLICIES, now):
            notices.append(
                f"section {name!r} was stored with the eviction policy {policy!r} and now has "
                f"{now!r}; give the policy with its spec to evict as before"
            )
    return notices


def _shrunk_notice(section: Section, stored: JSONValue) -> str:
    """Return a notice if a section's budget is smaller than the stored one, "" otherwise."""
    budget = section.budget
    if budget is None or (isinstance(stored, int) and budget >= stored):
        return ""
    before = f"{stored:,} tokens" if isinstance(stored, int) else "no bound"
    notice = f"section {section.spec.name!r} has a budget of {budget:,} tokens; it had {before}"
    if section.used > budget:
        notice += f", and it holds {section.used:,}; raise the budget, or the next item evicts some"
    return notice


def keep_indexes(
    log: SessionLog,
    sections: Mapping[str, Section],
    counter: str,
) -> None:
    """Tell sections of a log where their indexes are stored.

    Args:
        counter: The name of the session's counter. An index has the tokens of one counter.
    """
    for name, section in sections.items():
        section.index.keep_in(partial(_stored_index, log, name, counter))


def _stored_index(
    log: SessionLog,
    section: str,
    counter: str,
    ranker: str,
) -> StoredIndex | None:
    """Return the stored index of a section by a ranker, None without one of the same counter."""
    match log.index(section, ranker):
        case {"updates": int(updates), "counter": str(of)}, memoryview() as data if of == counter:
            return StoredIndex(updates, data)
    return None
