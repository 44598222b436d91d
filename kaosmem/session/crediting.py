"""Counting the items that a turn showed and its reply used."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kaosmem.assembly.context import Context
from kaosmem.sections.operations import Credit
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
        self._sections = session.sections
        self._forgotten = session.saver.forgotten
        self._clock = session.clock
        before = {item.id for item in context.before or ()} if context.window else set()
        self._shown = [item for item in context.items if item.id not in before]
        self._credited: set[str] = set()

    def count(self, used: Collection[Item], confirmed: Collection[Item]) -> None:
        """Count that the reply used items, and at the first call, which ones the turn showed.

        Args:
            confirmed: The items that a person has confirmed.
        """
        at = self._clock()
        credited = [item for item in used if item.id not in self._credited]
        for name, section in self._sections.items():
            # The newest messages are shown whatever they say.
            shown = self._shown if section.spec.placement == "query" else []
            credit = Credit(
                name, at, _ids_in(name, credited), _ids_in(name, shown), _ids_in(name, confirmed)
            )
            section.credit(credit.without(self._forgotten))
        self._shown = []
        self._credited.update(item.id for item in used)


def _ids_in(section: str, items: Iterable[Item]) -> tuple[str, ...]:
    """Return the ids of the items that are of a section."""
    return tuple(item.id for item in items if item.section == section)
