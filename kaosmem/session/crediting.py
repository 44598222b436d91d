"""Counting the items that a turn showed and its reply used."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping

from kaosmem.arguments import Clock
from kaosmem.assembly.context import Context
from kaosmem.sections.operations import Credit
from kaosmem.sections.section import Section
from kaosmem.session.open_session import OpenSession
from kaosmem.types.items import Item


class TurnCredit:
    """The credit of one turn. Each item of the turn counts once, however often it is credited.

    It refers to the sections and not to the session: a context may outlive the session.

    Args:
        sections: The sections of the session.
        forgotten: The ids of all items that were ever forgotten.
        clock: The clock of the session.
        context: The context of the turn.
    """

    def __init__(
        self,
        sections: Mapping[str, Section],
        *,
        forgotten: Container[str],
        clock: Clock,
        context: Context,
    ) -> None:
        self._sections = sections
        self._forgotten = forgotten
        self._clock = clock
        self._context = context
        self._credited: set[str] = set()
        self._is_first = True

    @classmethod
    def of(cls, context: Context, session: OpenSession) -> TurnCredit:
        """Return the credit of a turn of a session."""
        forgotten = session.saver.forgotten
        return cls(session.sections, forgotten=forgotten, clock=session.clock, context=context)

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
        credited = _by_section(item for item in used if item.id not in self._credited)
        verified = _by_section(confirmed)
        shown = _by_section(self._shown()) if self._is_first else {}
        for name, section in self._sections.items():
            lists = [tuple(each.get(name, ())) for each in (credited, shown, verified)]
            section.credit(Credit(name, at, *lists).without(self._is_forgotten))
        self._is_first = False
        self._credited.update(item.id for item in used)

    def _shown(self) -> Iterable[Item]:
        """Yield the items that the turn showed anew for its question.

        The newest messages are shown whatever they say. That they were not used says nothing.
        """
        before: set[str] = set()
        if self._context.window:
            before.update(item.id for item in self._context.before or ())
        for item in self._context.items:
            section = self._sections.get(item.section)
            is_chosen = section is not None and section.spec.placement == "query"
            if is_chosen and item.id not in before:
                yield item

    def _is_forgotten(self, item_id: str) -> bool:
        if item_id not in self._forgotten:
            return False
        return not any(item_id in section for section in self._sections.values())


def _by_section(items: Iterable[Item]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for item in items:
        found.setdefault(item.section, []).append(item.id)
    return found
