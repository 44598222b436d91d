"""Contexts and sessions, printed for people and as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from kaosmem.assembly.context import Context, Decision, item_preview
from kaosmem.assembly.explanation import best_first, explanation
from kaosmem.assembly.seen import Seen
from kaosmem.assembly.why import Why
from kaosmem.cli.terminal import screen_columns, screen_lines, write, write_table
from kaosmem.display import visible
from kaosmem.errors import CorruptionError
from kaosmem.ingest.passages import IngestReport
from kaosmem.sections.section import Section
from kaosmem.sections.substitution import compacted_in
from kaosmem.session.memory import SessionMemory
from kaosmem.types import JSONDict
from kaosmem.types.items import Item

_SHOWN_NOTICES = 20
_PASSAGE_LINES = 6
_MISSES = 10
_INDENT = "    "
_ITEM_COLUMNS = "item", "role", "tokens", "content"
_SECTION_COLUMNS = (
    "section",
    "eviction",
    "items",
    "tokens",
    "share",
    "budget",
    "full",
    "archived",
)


def ingest_summary(report: IngestReport, *, all_skipped: bool = False) -> Iterator[str]:
    """Yield a line with the counts of files, and one for each reason for skipping.

    Args:
        all_skipped: A line for each skipped file instead.
    """
    yield f"files: {report.counts('passages')}"
    if all_skipped:
        yield from (f"skipped {skipped.source}: {skipped.why}" for skipped in report.skipped)
    else:
        yield from report.reason_lines()


def print_notes(memory: SessionMemory, report: IngestReport | None, *, all_skipped: bool) -> None:
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
        return
    write("\n")
    print_report(context, misses=_MISSES, most=len(context.items))
    if context.rendered.text is None:
        write(f"\n{_exact(context)}")
        return
    for decision in best_first([context.decision(item.id) for item in context.items]):
        write(f"\n{decision.label or decision.section}\n{_passage(decision, full=full)}\n")


def print_report(turn: Seen, *, misses: int, most: int) -> None:
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
    items = f"{len(context.items):,} item{'' if len(context.items) == 1 else 's'}"
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


def why_json(why: Why) -> JSONDict:
    """Return the answer to why an item was in or out as JSON values."""
    return {
        "sentence": why.sentence,
        "decision": None if why.decision is None else _decision_json(why.decision),
        "nearest": [_item_json(item) for item in why.nearest],
        "others": why.others,
    }


def print_session(memory: SessionMemory, sections: Sequence[Section], *, limit: int) -> None:
    """Print sections and the newest items of each."""
    write(f"session {memory.admin.session_id}: {memory.admin.used:,} tokens\n")
    for section in sections:
        budget = "" if section.budget is None else f" of {section.budget:,}"
        count = len(compacted_in(section))
        compacted = f", {count:,} compacted" if count else ""
        title = (
            f"{section.spec.name}: {len(section):,} items{compacted}, {section.used:,}{budget} "
            "tokens, "
            f"{len(section.archive):,} archived"
        )
        newest = islice(reversed(section), limit)
        rows = [
            (item.id, item.role or "-", f"{item.tokens:,}", item_preview(item)) for item in newest
        ]
        write_table(title, _ITEM_COLUMNS, rows)
        if len(section) > limit:
            write(f"… and {len(section) - limit:,} older\n")
    _print_notices(memory)


def session_json(memory: SessionMemory, sections: Sequence[Section], *, limit: int) -> JSONDict:
    """Return sections and the newest items of each as JSON values."""
    return {
        "session": memory.admin.session_id,
        "sections": {
            section.spec.name: [_item_json(item) for item in islice(reversed(section), limit)]
            for section in sections
        },
        "notices": list(memory.notices),
        "damage": damage_json(memory.damage),
    }


def print_item(memory: SessionMemory, item: Item) -> None:
    """Print an item, a line for each field, then its content in full."""
    fields = item_json(memory, item)
    content = fields.pop("content")
    fields["trust"] = item.trust.name.lower()
    for name, value in fields.items():
        write(
            f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}\n"
        )
    write(
        f"\n{content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, indent=2)}\n"
    )


def item_json(memory: SessionMemory, item: Item) -> JSONDict:
    """Return one item as JSON values, and whether it is live or archived."""
    return {"state": "live" if item.id in memory else "archived", **_item_json(item)}


def print_stats(memory: SessionMemory) -> None:
    """Print a session's figures."""
    figures = stats_json(memory)
    write(f"session {memory.admin.session_id}, counted with {figures['counter']}\n")
    title = f"{figures['items']:,} items, {figures['tokens']:,} tokens, {figures['archived']:,} archived"
    rows = [
        (
            name,
            section["eviction"],
            f"{section['items']:,}",
            f"{section['tokens']:,}",
            _percent(section["tokens"], figures["tokens"]),
            number_or_dash(section["budget"]),
            _percent(section["tokens"], section["budget"]),
            f"{section['archived']:,}",
        )
        for name, section in figures["sections"].items()
    ]
    write_table(title, _SECTION_COLUMNS, rows)
    _print_notices(memory)


def stats_json(memory: SessionMemory) -> JSONDict:
    """Return a session's figures, by section, as JSON values."""
    sections = [memory[spec.name] for spec in memory.sections]
    return {
        "session": memory.admin.session_id,
        "counter": memory.admin.counter.name,
        "tokens": memory.admin.used,
        "items": sum(map(len, sections)),
        "archived": sum(len(section.archive) for section in sections),
        "sections": {
            section.spec.name: {
                "items": len(section),
                "compacted": len(compacted_in(section)),
                "tokens": section.used,
                "share": section.used / max(1, memory.admin.used),
                "budget": section.budget,
                "archived": len(section.archive),
                "eviction": section.spec.policy.name,
                "persistence": section.spec.persistence,
            }
            for section in sections
        },
        "notices": list(memory.notices),
        "damage": damage_json(memory.damage),
    }


def damage_json(damage: Iterable[CorruptionError]) -> list[JSONDict]:
    """Return the damage as JSON values."""
    return [
        {"file": error.file, "byte": error.byte, "seq": error.seq, "message": str(error)}
        for error in damage
    ]


def number_or_dash(number: int | None) -> str:
    """Return a number with its thousands apart, and a dash for None."""
    return "-" if number is None else f"{number:,}"


def _percent(part: int, whole: int | None) -> str:
    return f"{part / whole:.0%}" if whole else "-"


def _print_notices(memory: SessionMemory) -> None:
    for notice in memory.notices[:_SHOWN_NOTICES]:
        write(f"note: {notice}\n")
    if len(memory.notices) > _SHOWN_NOTICES:
        write(f"… and {len(memory.notices) - _SHOWN_NOTICES:,} more notes; --json has all\n")


def _item_json(item: Item) -> JSONDict:
    return {"section": item.section, **item.to_dict()}


def _decision_json(decision: Decision) -> JSONDict:
    stored = decision.to_dict()
    del stored["item"]
    return stored
