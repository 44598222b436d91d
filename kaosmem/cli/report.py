"""Contexts and sessions as people and programs read them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from kaosmem.assembly import Context, Decision, preview
from kaosmem.sections import Section
from kaosmem.session import SessionMemory
from kaosmem.types import Item

PIPE_COLUMNS = 160


@contextmanager
def watched() -> Iterator[Callable[[str, int, int], None]]:
    """Yield what `ingest` calls as it reads; on a terminal it draws a bar on stderr."""
    console = Console(stderr=True)
    columns = (
        TextColumn("reading"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}")
    )  # fmt: skip
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=None)

        def progress(what: str, done: int, total: int) -> None:
            bar.update(task, completed=done, total=total, description=what[-40:])

        yield progress


def print_context(context: Context) -> None:
    """Print a context, then what is in it, then what came nearest to being in."""
    if context.format == "text":
        sys.stdout.write(context.text)
    else:
        sys.stdout.write(json.dumps(context.messages, ensure_ascii=False, indent=2) + "\n")
    console = _stdout()
    console.print()
    included = [context.decision(item.id) for item in context.items]
    console.print(_decisions(f"in: {context.used} of {context.budget} tokens, {len(included)} items", included))
    missed = context.nearest_misses()
    if missed:
        console.print(_decisions("nearest misses", missed))


def context_json(context: Context) -> dict[str, Any]:
    """Return a context as JSON values."""
    handed_over = {"text": context.text} if context.format == "text" else {"messages": context.messages}
    return handed_over | {
        "format": context.format,
        "query": context.query,
        "used": context.used,
        "budget": context.budget,
        "items": [_item_json(item) for item in context.items],
        "decisions": [_decision_json(decision) for decision in context.decisions],
    }


def print_session(memory: SessionMemory, sections: Sequence[Section], *, limit: int, as_json: bool) -> None:
    """Print sections and the newest items of each."""
    newest = {section.spec.name: list(islice(reversed(section), limit)) for section in sections}
    if as_json:
        held = {name: [_item_json(item) for item in items] for name, items in newest.items()}
        sys.stdout.write(
            json.dumps({"session": memory.session_id, "sections": held}, ensure_ascii=False, indent=2) + "\n"
        )
        return
    console = _stdout()
    for section in sections:
        budget = "unbounded" if section.budget is None else f"{section.budget:,}"
        console.print(
            f"{section.spec.name}: {len(section):,} items, {section.used:,} of {budget} tokens, "
            f"{len(section.archive):,} archived",
            style="bold",
            markup=False,
        )
        for item in newest[section.spec.name]:
            label = f"  {item.id}  {item.role or '-'}  {item.tokens} tokens  "
            console.print(label + preview(item), markup=False, overflow="ellipsis", no_wrap=True)
        if len(section) > limit:
            console.print(f"  … and {len(section) - limit:,} older ones", markup=False)
    for notice in memory.notices:
        console.print(f"note: {notice}", markup=False)


def stats_of(memory: SessionMemory) -> dict[str, Any]:
    """Return a session's figures, by section."""
    return {
        "session": memory.session_id,
        "counter": memory.counter.name,
        "tokens": memory.used,
        "items": sum(len(memory[spec.name]) for spec in memory.sections),
        "archived": sum(len(memory[spec.name].archive) for spec in memory.sections),
        "sections": {
            spec.name: {
                "items": len(memory[spec.name]),
                "tokens": memory[spec.name].used,
                "budget": spec.budget,
                "archived": len(memory[spec.name].archive),
                "eviction": str(spec.eviction),
                "persistence": spec.persistence,
            }
            for spec in memory.sections
        },
        "notices": list(memory.notices),
    }


def print_stats(memory: SessionMemory, figures: Mapping[str, Any]) -> None:
    """Print a session's figures."""
    table = Table(
        title=f"{memory.session_id}: {figures['items']:,} items, {figures['tokens']:,} tokens ({figures['counter']})"
    )
    for column in ("section", "eviction"):
        table.add_column(column)
    for column in ("items", "tokens", "budget", "full", "archived"):
        table.add_column(column, justify="right")
    for name, section in figures["sections"].items():
        budget, tokens = section["budget"], section["tokens"]
        table.add_row(
            name,
            section["eviction"],
            f"{section['items']:,}",
            f"{tokens:,}",
            "-" if budget is None else f"{budget:,}",
            "-" if budget is None else f"{tokens / budget:.0%}",
            f"{section['archived']:,}",
        )
    console = _stdout()
    console.print(table)
    for notice in figures["notices"]:
        console.print(f"note: {notice}", markup=False)


def _stdout() -> Console:
    """Return a console that is as wide as the terminal, or wide enough for a table in a pipe."""
    return Console(highlight=False) if sys.stdout.isatty() else Console(highlight=False, width=PIPE_COLUMNS)


def _decisions(title: str, decisions: Sequence[Decision]) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("section", no_wrap=True)
    table.add_column("source", overflow="fold")
    for column in ("rank", "score", "tokens"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("reason", no_wrap=True)
    for decision in decisions:
        table.add_row(
            decision.section,
            decision.item_id.replace("[", "\\["),
            "-" if decision.rank is None else str(decision.rank),
            "-" if decision.score is None else f"{decision.score:.3f}",
            str(decision.tokens),
            decision.reason,
        )
    return table


def _item_json(item: Item) -> dict[str, Any]:
    return {"section": item.section, **item.to_dict()}


def _decision_json(decision: Decision) -> dict[str, Any]:
    return {
        "item_id": decision.item_id,
        "section": decision.section,
        "included": decision.included,
        "reason": decision.reason.value,
        "rank": decision.rank,
        "score": decision.score,
        "tokens": decision.tokens,
    }
