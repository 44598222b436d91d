"""A plain model of a session's acknowledged state, computed from the beginning each time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from kaosmem.persistence import Change, Record

Version: TypeAlias = tuple[str, dict[str, Any]]
"""A section, and one of an item's versions there: its `id`, and an `n` that no other version has."""


@dataclass
class PlainSession:
    """The acknowledged changes of a session.

    changes: all that were committed; the first is record 1.
    archived: the newest record after which a snapshot was stored.
    purged: the newest record after which something was forgotten, 0 for none.
    """

    changes: list[Change] = field(default_factory=list)
    archived: int = 0
    purged: int = 0

    @property
    def seq(self) -> int:
        """Return the number of the last record."""
        return len(self.changes)

    def live(self, seq: int | None = None) -> list[Version]:
        """Return the items after record `seq`, None for the last, in order."""
        return [*self._replayed(seq)[0].values()]

    def left(self, *, after: int = 0, until: int | None = None) -> list[Version]:
        """Return the versions that were removed or replaced by these records, in order, but for forgotten items'."""
        return [version for seq, version in self._replayed(until)[1] if seq > after]

    def change(self, op: str, item_id: str, version: dict[str, Any]) -> Change:
        """Return a change that makes sense now: a new item is added, a known one updated or removed."""
        live = {data["id"]: section for section, data in self.live()}
        if item_id not in live:
            return Change("messages" if version["n"] % 2 else "findings", "add", version)
        return Change(live[item_id], op, version if op == "update" else {"id": item_id})

    def is_record(self, record: Record) -> bool:
        """Return whether a stored record equals the record acknowledged under its number."""
        change = self.changes[record.seq - 1]
        return (record.section, record.op, record.data) == (change.section, change.op, change.data)

    def _replayed(self, seq: int | None) -> tuple[dict[str, Version], list[tuple[int, Version]]]:
        live: dict[str, Version] = {}
        left: list[tuple[int, Version]] = []
        for number, change in enumerate(self.changes[:seq], 1):
            item_id: Any = change.data.get("id")
            match change.op:
                case "add":
                    live[item_id] = change.section, dict(change.data)
                case "update":
                    left.append((number, live[item_id]))
                    live[item_id] = change.section, dict(change.data)
                case "remove":
                    left.append((number, live.pop(item_id)))
                case "forget":
                    live.pop(item_id, None)
                    left = [(at, version) for at, version in left if version[1]["id"] != item_id]
        return live, left
