"""Contexts and sessions, printed for people and as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from kaosmem.assembly.assembled_turn import AssembledTurn
from kaosmem.assembly.context import Context, Decision
from kaosmem.assembly.explanation import best_first, explanation
from kaosmem.cli.terminal import screen_columns, screen_lines, write
from kaosmem.display import count_text, visible
from kaosmem.errors import CorruptionError
from kaosmem.ingest.passages import IngestReport
from kaosmem.sections.section import Section
from kaosmem.sections.substitution import compacted_in
from kaosmem.session.memory import SessionMemory
from kaosmem.types import JSONDict
from kaosmem.types.items import Item

_PASSAGE_LINES = 6
_MISSES = 10
_INDENT = "    "

NEWEST = {"newest": ("section", "id", "role", "tokens", "content")}
"""The fields of an item that the table of the newest items has."""


def ingest_summary(report: IngestReport, *, all_skipped: bool = False) -> Iterator[str]:
    """Yield a line with the counts of files, and one for each reason for skipping.

    Args:
        all_skipped: A line for each skipped file instead.
    """
    yield f"files: {report.counts('passages')}"
    if all_skipped:
        for skipped in report.skipped:
            yield f"skipped {skipped.source}: {skipped.why}"
    else:
        yield from report.reason_lines()


def print_notes(
    memory: SessionMemory,
    report: IngestReport | None,
    *,
    all_skipped: bool,
) -> None:
    """Print the notices of a session and the counts of the files that it read, to stderr."""
    lines = [f"note: {notice}" for notice in memory.notices]
    if report is not None:
        lines += ingest_summary(report, all_skipped=all_skipped)
    for line in lines:
        sys.stderr.write(f"{visible(line)}\n")


def print_context(context: Context, *, full: bool = False) -> None:
    """Print a context: exactly in a pipe, and for a person on a terminal.

    A person sees the sums, the reason for each item, the nearest misses, and then the content. The
    passages of a text come by rank. The sums of a pipe go to stderr, so that stdout holds the
    context alone.

    Args:
        full: Print whole passages on a terminal, in place of their first lines.
    """
    if not sys.stdout.isatty():
        write(_exact(context))
        sys.stderr.write(f"{_sums(context)}\n")
        for notice in context.notices:
            sys.stderr.write(f"note: {visible(notice)}\n")
        return
    write("\n")
    print_report(context, misses=_MISSES, most=len(context.items))
    if context.rendered.text is None:
        write(f"\n{_exact(context)}")
        return
    for decision in best_first([context.decision(item.id) for item in context.items]):
        write(f"\n{decision.label or decision.section}\n{_passage(decision, full=full)}\n")


def print_report(
    turn: AssembledTurn,
    *,
    misses: int,
    most: int,
) -> None:
    """Print the explanation of a turn, in the width of the terminal and with its colours.

    Args:
        misses: Number of items to list that are out.
        most: Number of items to list that are in, the best ones first.
    """
    color = sys.stdout.isatty()
    columns = screen_columns()
    report = explanation(turn, misses=misses, columns=columns, color=color, most=most)
    sys.stdout.write(f"{report}\n")


def _exact(context: Context) -> str:
    """Return the text of a context, or its request as JSON."""
    if context.rendered.text is not None:
        return context.text
    request: Any = context.messages if context.rendered.system is None else _handed_over(context)
    return json.dumps(request, ensure_ascii=False, indent=2) + "\n"


def _sums(context: Context) -> str:
    items = count_text(len(context.items), "item")
    judged = "" if context.confidence is None else f", confidence {context.confidence:.2f}"
    return f"shown: {items}, {context.used:,} of {context.budget:,} tokens{judged}"


def _passage(decision: Decision, *, full: bool) -> str:
    """Return an item's text, indented: its first lines on the screen, or all of it if `full`."""
    text = decision.item.text if decision.item is not None else ""
    if full:
        return "\n".join(f"{_INDENT}{line}" for line in text.splitlines())
    lines = screen_lines(text, indent=len(_INDENT))
    shown = [f"{_INDENT}{line}" for line in lines[:_PASSAGE_LINES]]
    more = len(lines) - len(shown)
    if more > 0:
        noun = "line" if more == 1 else "lines"
        shown.append(f"{_INDENT}… {more} more {noun}; --full shows all")
    return "\n".join(shown)


def context_json(context: Context) -> JSONDict:
    """Return a context as JSON values."""
    return _handed_over(context) | {
        "format": context.format,
        "query": context.query,
        "used": context.used,
        "budget": context.budget,
        "confidence": context.confidence,
        "items": [_item_json(item) for item in context.items],
        "decisions": [_decision_json(decision) for decision in context.decisions],
    }


def _handed_over(context: Context) -> JSONDict:
    if context.rendered.text is not None:
        return {"text": context.text}
    system = {} if context.rendered.system is None else {"system": context.system}
    return {**system, "messages": context.rendered.messages}


def session_json(
    memory: SessionMemory,
    sections: Sequence[Section],
    *,
    limit: int,
    as_json: bool,
) -> JSONDict:
    """Return the figures of sections, and the newest items of each, for a program or a person."""
    figures = []
    newest = []
    for section in sections:
        figures.append(_section_json(section))
        shown = islice(reversed(section), limit)
        newest += [_item_json(item, as_json=as_json) for item in shown]
    return {
        "session": memory.admin.session_id,
        "counter": memory.admin.counter.name,
        "tokens": memory.admin.used,
        "sections": figures,
        "newest": newest,
        "notices": list(memory.notices),
        "damage": damage_json(memory.damage),
    }


def _section_json(section: Section) -> JSONDict:
    return {
        "section": section.spec.name,
        "items": len(section),
        "compacted": len(compacted_in(section)),
        "tokens": section.used,
        "budget": section.budget,
        "archived": len(section.archive),
        "eviction": section.spec.policy.name,
        "persistence": section.spec.persistence,
    }


def item_json(memory: SessionMemory, item: Item, *, as_json: bool) -> JSONDict:
    """Return one item for a program or a person, its content last, and whether it is live."""
    stored = _item_json(item, as_json=as_json)
    content = stored.pop("content")
    return {"state": "live" if item.id in memory else "archived", **stored, "content": content}


def damage_json(damage: Iterable[CorruptionError]) -> list[JSONDict]:
    """Return the damage as JSON values."""
    return [
        {"file": error.file, "byte": error.byte, "seq": error.seq, "message": str(error)}
        for error in damage
    ]


def _item_json(item: Item, *, as_json: bool = True) -> JSONDict:
    stored = {"section": item.section, **item.to_dict()}
    if not as_json:
        # A person reads the text of calls and results. Thinking is no text.
        stored["content"] = item.text
    return stored


def _decision_json(decision: Decision) -> JSONDict:
    stored = decision.to_dict()
    del stored["item"]
    return stored
