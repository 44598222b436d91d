"""The result of a repair, for people and as JSON."""

from __future__ import annotations

from typing import Any

from kaosmem.cli.report import damage_json
from kaosmem.cli.terminal import Column, write, write_table
from kaosmem.session import RepairReport

_COLUMNS = (Column("section"), Column("items", "right"), Column("archived", "right"))
_SHOWN_DAMAGE = 20


def print_repair(report: RepairReport) -> None:
    """Print the rescued and the missing items, by section."""
    damage = report.damage[:_SHOWN_DAMAGE]
    if report.into is None:
        write(f"session {report.session_id}: nothing to repair, and nothing was written\n")
        for error in damage:
            write(f"note: {error}\n")
        return
    write(f"session {report.session_id} is damaged, and left as it is; session {report.into} has all that is intact\n")
    title = f"rescued: {sum(report.items.values()):,} items, {sum(report.archived.values()):,} archived versions"
    rows = [
        (name, f"{report.items.get(name, 0):,}", f"{report.archived.get(name, 0):,}")
        for name in dict.fromkeys((*report.items, *report.archived))
    ]
    write_table(title, _COLUMNS, rows)
    write("\n")
    for error in damage:
        write(f"damage: {error}\n")
    if len(report.damage) > len(damage):
        write(f"… and {len(report.damage) - len(damage):,} more; --json has all\n")


def repair_json(report: RepairReport) -> dict[str, Any]:
    """Return the result of a repair as JSON values."""
    return {
        "session": report.session_id,
        "into": report.into,
        "items": dict(report.items),
        "archived": dict(report.archived),
        "damage": damage_json(report.damage),
    }
