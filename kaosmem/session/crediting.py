"""Counting the items that a turn showed and its reply used."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kaosmem.assembly.context import Context
from kaosmem.sections.operations import Credit
from kaosmem.sections.section import Section
from kaosmem.session.open_session import OpenSession
from kaosmem.types.items import Item


class TurnCredit:
    """The credit of one turn. Each item of the turn counts once, however often it is credited.

    It refers to the sections and not to the session: a context may outlive the session.

    Args:
        context: The context of the turn.
        session: The session that assembled it.
    """

    def __init__(self, context: Context, session: OpenSession) -> None:
        self._context = context
        self._sections = session.sections
        self._forgotten = session.saver.forgotten
        self._clock = session.clock
        self._credited: set[str] = set()
        self._has_counted = False

    def units(self, items: Iterable[Item]) -> dict[str, object]:
        """Return the unit of each item, by id. Items of one unit have equal ones."""
        units: dict[str, object] = {}
        for item in items:
            units[item.id] = item.id
            section = self._sections.get(item.section)
            if section is not None and item.id in section:
                ordinal = section.held.ordinal(item.id)
                units[item.id] = item.section, section.held.units.first(ordinal)
        return units

    def count(self, used: Collection[Item], confirmed: Collection[Item]) -> None:
        """Count that the reply used items, and at the first call, which ones the turn showed.

        Args:
            confirmed: The items that a person has confirmed.
        """
        at = self._clock()
        credited = [item for item in used if item.id not in self._credited]
        shown = [] if self._has_counted else self._newly_shown()
        for section in self._sections.values():
            credit = Credit(
                section.spec.name,
                at,
                credited=self._ids(credited, section),
                shown=self._ids(shown, section),
                verified=self._ids(confirmed, section),
            )
            section.credit(credit)
        self._has_counted = True
        self._credited.update(item.id for item in used)

    def _newly_shown(self) -> list[Item]:
        """Return the items that the turn showed anew for its question.

        The newest messages are shown whatever they say. That they were not used says nothing.
        """
        context = self._context
        before = {item.id for item in context.before or ()} if context.window else set()
        found = []
        for item in context.items:
            section = self._sections.get(item.section)
            is_chosen = section is not None and section.spec.placement == "query"
            if is_chosen and item.id not in before:
                found.append(item)
        return found

    def _ids(self, items: Iterable[Item], section: Section) -> tuple[str, ...]:
        """Return the ids of a section's items, without those that were forgotten meanwhile."""
        found = []
        for item in items:
            is_forgotten = item.id in self._forgotten and item.id not in section
            if item.section == section.spec.name and not is_forgotten:
                found.append(item.id)
        return tuple(found)
