"""The next request of a window: a turn that goes on, or the request that packs it anew."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from kaosmem.arguments import json_text, text_digest
from kaosmem.assembly.allocation import items_of
from kaosmem.assembly.context import Context, SectionUse
from kaosmem.assembly.growth import AppendedTurn, Sections, WindowRequest
from kaosmem.assembly.windows import (
    RebaseReason,
    VisibleItem,
    WindowState,
    shown_digest,
    stored_items,
)
from kaosmem.formats import Rendered
from kaosmem.sections import Candidate
from kaosmem.sections.section import Section
from kaosmem.types import JSONDict
from kaosmem.types.items import Item, digest

TurnRecord: TypeAlias = JSONDict
"""The record of a turn, which takes a window to the next one."""

_CHANGES_IN_PLACE = "graph"
"""The section whose items are updated in place: a window shows them again, marked as newer."""


def next_request(
    window: WindowState,
    request: WindowRequest,
    *,
    rebase: bool = False,
) -> tuple[TurnRecord, Context]:
    """Return the record of a window's next turn, and its context.

    The window goes on as long as nothing that it shows has changed and the turn fits. Else it is
    packed anew.

    Args:
        rebase: Pack a window anew that could go on.
    """
    if rebase and window.epoch:
        return _rebased(window, request, RebaseReason.ASKED)
    corrections = _corrections(window, request)
    reason = _reason_to_rebase(window, request, corrections)
    if reason:
        return _rebased(window, request, reason)
    new = _gained(window, request)
    if new is None:
        return _rebased(window, request, RebaseReason.HISTORY)
    appended_turn = AppendedTurn(window, request, new, corrections)
    if not appended_turn.fits:
        return _rebased(window, request, RebaseReason.FULL)
    turn = {
        **_record_of(window, request, appended_turn.items, appended_turn.by_section),
        **_rendered(appended_turn.rendered, appended_turn.used),
        "loop": appended_turn.loop,
    }
    if request.is_bound and request.call != window.call:
        # The new replies answer a request with the former instructions.
        turn["unbound"] = len(window.messages) + len(turn["messages"])
    return turn, appended_turn.context(window.after(turn))


def _rebased(
    window: WindowState,
    request: WindowRequest,
    reason: str,
) -> tuple[TurnRecord, Context]:
    """Return the record of a window that is packed anew, and its context."""
    context = request.context
    turn = {
        **_record_of(window, request, context.items, context.by_section),
        **_rendered(context.rendered, context.used),
        "loop": 0,
        "epoch": window.epoch + 1,
        "settings": request.settings(),
        "system": context.rendered.system,
    }
    grown = window.after(turn)
    return turn, replace(
        context,
        window=window.name,
        epoch=grown.epoch,
        rebased=str(reason),
        appended=context.used,
        cache_breakpoints=grown.breakpoints,
    )


# The record of a turn.


def _record_of(
    window: WindowState,
    request: WindowRequest,
    items: Iterable[Item],
    uses: Mapping[str, SectionUse],
) -> TurnRecord:
    """Return the part of a turn's record that a turn and a rebase share.

    Args:
        items: The items that the turn shows.
        uses: The tokens and items of each section.
    """
    return {
        "window": window.name,
        "epoch": window.epoch,
        "items": stored_items(_visible(items, request)),
        "marks": _marks(window, request),
        "question": text_digest(request.context.query),
        "call": request.call,
        "uses": {name: [use.used, use.items] for name, use in uses.items()},
    }


def _rendered(rendered: Rendered, used: int) -> JSONDict:
    """Return the part of a turn's record with the texts that it appends."""
    messages = list(map(json_text, rendered.messages or ()))
    return {"text": rendered.text, "messages": messages, "used": used}


def _visible(items: Iterable[Item], request: WindowRequest) -> dict[str, VisibleItem]:
    """Return items as they are stored, also if shown shortened, with the names of their sources."""
    proposed: dict[str, tuple[str, Item]] = {}
    for name, proposal in request.offers.proposals.items():
        for item in items_of(proposal.units):
            proposed[item.id] = name, item
    visible = {}
    for item in items:
        name, stored = proposed.get(item.id, (item.section, item))
        excerpts: tuple[str, ...] = ()
        if item.content != stored.content:
            excerpts = (digest(item),)
        visible[stored.id] = VisibleItem(name, shown_digest(stored), stored.key, excerpts)
    return visible


def _marks(window: WindowState, request: WindowRequest) -> JSONDict:
    """Return how many messages each history has had, and the id of its last proposed one."""
    marks: JSONDict = {name: [*mark] for name, mark in window.marks.items()}
    for spec in request.specs("history"):
        proposal = request.offers.proposals.get(spec.name)
        if proposal is not None:
            newest = max(proposal.candidates, key=lambda unit: unit.position, default=None)
            marks[spec.name] = [proposal.taken, newest.items[-1].id if newest else ""]
    return marks


# Reasons to pack a window anew.


def _gained(window: WindowState, request: WindowRequest) -> dict[str, list[Candidate]] | None:
    """Return the units that each history gained since the last request.

    Return None if earlier ones changed.
    """
    found: dict[str, list[Candidate]] = {}
    for spec in request.specs("history"):
        proposal = request.offers.proposals.get(spec.name)
        if proposal is None:
            continue  # a source that failed
        mark, last = window.marks.get(spec.name, (0, ""))
        units = sorted(proposal.candidates, key=lambda unit: unit.position)
        new = [unit for unit in units if unit.position >= mark]
        old = units[: len(units) - len(new)]
        gained = items_of(new)
        is_own = spec.name in request.own
        missing = proposal.taken - mark - len(gained)
        if missing and (is_own or not _stands_in(gained, missing)):
            return None
        if any(item.id in window.shown for item in gained) or _has_changed(window, old):
            return None
        if not is_own and old and old[-1].items[-1].id != last:
            return None
        found[spec.name] = [unit for unit in new if not unit.orphan]
    return found


def _stands_in(gained: Sequence[Item], missing: int) -> bool:
    """Return whether a new summary stands for messages that the window has not shown."""
    summarized = [len(item.sources) for item in gained if item.role == "summary"]
    return 0 < missing < max(summarized, default=0)


def _has_changed(window: WindowState, old: Iterable[Candidate]) -> bool:
    """Return whether a window lacks a part of an earlier unit, or a unit that is required now."""
    for unit in old:
        visible = sum(item.id in window.shown for item in unit.items)
        if not unit.orphan and (0 < visible < len(unit.items) or (unit.must and not visible)):
            return True
    return False


def _reason_to_rebase(
    window: WindowState,
    request: WindowRequest,
    corrections: Sequence[Item],
) -> str:
    """Return why a window has to be packed anew whatever the turn appends, "" if it goes on."""
    if window.ended:
        return window.ended
    for name, value in request.settings().items():
        if window.settings.get(name) != value:
            return name
    sections = {**request.attached, **request.own}
    if is_changed(window, request.own, request.attached):
        return RebaseReason.CHANGED
    if _has_lost_static(window, request, sections):
        return RebaseReason.STATIC
    if _is_outdated(window, request, corrections):
        return RebaseReason.CHANGED
    wanted = request.offers.call.wanted
    # If a newer version may not be shown, the older one may not stay.
    if wanted is not None and not all(wanted(item.metadata) for item in corrections):
        return RebaseReason.CHANGED
    return ""


def _has_lost_static(
    window: WindowState,
    request: WindowRequest,
    sections: Sections,
) -> bool:
    """Return whether a window shows a static item that is no longer in force, and nothing says so.

    A superseded item may stay visible if its live version is visible too, or is appended, marked as
    newer.
    """
    visible = {*window.shown}
    for share in request.packing.static_shares:
        visible.update(item.id for item in items_of(share.taken.values()))
    static = {spec.name for spec in request.specs("static")}
    for item_id, shown_item in window.shown.items():
        proposal = request.offers.proposals.get(shown_item.section)
        if shown_item.section not in static or proposal is None:
            continue  # without a proposal, its source failed
        section = sections.get(shown_item.section)
        if section is None:
            live = items_of(proposal.candidates)
            here = [item for item in live if item.id == item_id]
            if not any(shown_digest(item) == shown_item.digest for item in here):
                return True
        elif item_id not in section:
            if shown_item.key is None:
                live = []
            else:
                live = section.live_versions(shown_item.key)
            if not live or not all(item.id in visible for item in live):
                return True
    return False


def is_changed(
    window: WindowState,
    own: Sections,
    attached: Sections,
) -> bool:
    """Return whether an item that a window shows was updated or removed.

    Args:
        own: The session's own sections.
        attached: The attached sections of other sessions.
    """
    for item_id, visible, section in _in_sections(window, own, attached):
        if item_id in section.removed:
            return True
        if item_id not in section:
            if section.rewritten.get(item_id, visible.digest) != visible.digest:
                return True
            if visible.section not in own and _is_gone(item_id, section):
                return True
        elif section.spec.name != _CHANGES_IN_PLACE and _is_updated(item_id, visible, section):
            return True
    return False


def _is_gone(item_id: str, section: Section) -> bool:
    """Return whether a section holds an item no more, as after it was forgotten elsewhere.

    False if the section does not know all its evicted items.
    """
    if not section.spec.recalls or section.held.unloaded:
        return False
    return not section.held.evicted_among({item_id})


def _is_updated(item_id: str, visible: VisibleItem, section: Section) -> bool:
    """Return whether an item has another content than it is shown with.

    The end of a version that an announced one replaces is shown too, but not in a history's tail.
    """
    item = section.peek(item_id)
    if item.key is None or item.key not in section.held.keyed.several:
        return shown_digest(item) != visible.digest
    labelled = [each for each in section.live_versions(item.key) if each.id == item_id]
    known = {*map(shown_digest, labelled)}
    if section.spec.is_history:
        known.add(shown_digest(item))
    return visible.digest not in known


def _is_outdated(window: WindowState, request: WindowRequest, corrections: Sequence[Item]) -> bool:
    """Return whether a window shows a replaced fact as current, and this turn does not correct it.

    The version that holds now is visible, or the turn appends it. If it was removed, no version
    holds.
    """
    static = {spec.name for spec in request.specs("static")}
    kept = {(item.section, item.id) for item in corrections}
    replaced = set()
    for item_id, visible, section in _in_sections(window, request.own, request.attached):
        kept.add((visible.section, item_id))
        if visible.key is not None and item_id not in section and visible.section not in static:
            replaced.add((visible.section, visible.key))
    sections = {**request.attached, **request.own}
    for name, key in replaced:
        section = sections[name]
        if section.spec.is_history and section.keyed(key) is not None:
            continue  # a new message, which follows the others
        current = section.current_id(key)
        if current is None or (name, current) not in kept:
            return True
    return False


def _in_sections(
    window: WindowState,
    own: Sections,
    attached: Sections,
) -> Iterator[tuple[str, VisibleItem, Section]]:
    """Yield the visible items of sections, each with its section and the id that it has there."""
    for item_id, visible in window.shown.items():
        name = visible.section
        if name in own:
            yield item_id, visible, own[name]
        elif name in attached:
            yield item_id.removeprefix(f"{name}/"), visible, attached[name]


def _corrections(window: WindowState, request: WindowRequest) -> list[Item]:
    """Return live items that supersede visible ones, and visible items that changed in place."""
    queried = {spec.name for spec in request.specs("query")}
    found: dict[str, Item] = {}
    for item_id, visible in window.shown.items():
        section = request.own.get(visible.section)
        if section is None or visible.section not in queried:
            continue
        is_live = item_id in section
        changes = is_live and section.spec.name == _CHANGES_IN_PLACE
        if changes and _is_updated(item_id, visible, section):
            found[item_id] = section.peek(item_id)
        if visible.key is None:
            live = []
        else:
            live = section.live_versions(visible.key)
        found |= {item.id: item for item in live if item.id not in window.shown}
    return list(found.values())
