"""Contexts that other budgets and rankers would give, without a trace in the session."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kaosmem.arguments import check_instance, check_several
from kaosmem.assembly import Overflow, check_budget
from kaosmem.assembly.context import Context
from kaosmem.assembly.difference import Difference, difference
from kaosmem.display import aligned, listed, preview, visible
from kaosmem.errors import InvalidArgumentError
from kaosmem.filters import Filter
from kaosmem.formats import Format
from kaosmem.retrieval.ranker import Ranker
from kaosmem.session.context_call import ContextCall
from kaosmem.session.open_session import OpenSession

OWN = "own"
"""The name of the rankers that the session was opened with."""

_COLUMNS = "budget", "ranker", "used", "fill", "items", "compared with", "difference"
_NUMBERS = "budget", "used", "fill", "items"
_NAMED_ITEMS = 3


class Rehearsal:
    """Packs a session's contexts, and changes nothing: no use is marked, and no turn is kept.

    Args:
        session: The session. A rehearsal with a ranker shows it as it is now.
        ranker: Ranks the sections without their own ranker. None stands for the session's own.
    """

    def __init__(self, session: OpenSession, ranker: Ranker | None = None) -> None:
        self._session = session
        self._roster = session.roster
        if ranker is None:
            return
        sections = {}
        for name, section in session.sections.items():
            is_ranked = section.spec.ranker is None and section.spec.placement != "static"
            sections[name] = section.ranked_by(ranker) if is_ranked else section
        self._roster = session.roster.over(sections)
        self._roster.present = None

    async def context(self, call: ContextCall, sections: Iterable[str] | None = None) -> Context:
        """Return the context of a call. Raises as `SessionMemory.assemble_context`."""
        specs = self._roster.shown(sections)
        offers = await call.ask(self._roster, specs, self._session)
        context, _ = offers.pack()
        return context


@dataclass(frozen=True, repr=False)
class WhatIf:
    """Contexts for one query under several budgets and rankers. It prints as a table.

    A context of the session's own rankers is compared with the next smaller budget. A context of
    another ranker is compared with the session's own at the same budget.

    Attributes:
        contexts: The contexts by budget and name of the ranker, in ascending order of budget. The
            session's own rankers have the name `own`.

    >>> from kaosmem import SessionMemory
    >>> memory = SessionMemory.test_mode()
    >>> added = memory.add_many("documents", [f"Room {n} costs {n} euros." for n in range(40)])
    >>> print(await memory.what_if("What does room 17 cost?", budgets=[20, 40]))
    what if 'What does room 17 cost?'
    budget  ranker  used  fill  items  compared with  difference
        20  own       13  65 %      1
        40  own       33  82 %      3  own at 20      2 in
    own at 40: in Room 10 costs 10 euros., in Room 11 costs 11 euros.
    """

    contexts: Mapping[tuple[int, str], Context]

    def difference(self, budget: int, ranker: str = OWN) -> Difference | None:
        """Return the difference from the context that this one is compared with.

        The first context is compared with none. Raises KeyError for an unknown budget or ranker.
        """
        after = self.contexts[budget, ranker]
        base = self._base(budget, ranker)
        return None if base is None else difference(self.contexts[base].items, after.items)

    def _base(self, budget: int, ranker: str) -> tuple[int, str] | None:
        if ranker != OWN:
            return budget, OWN
        smaller = [size for size, _ in self.contexts if size < budget]
        return (max(smaller), OWN) if smaller else None

    def __repr__(self) -> str:
        query = next(iter(self.contexts.values())).query
        rows = [self._row(budget, ranker) for budget, ranker in self.contexts]
        lines = [f"what if '{preview(query)}'", *aligned(_COLUMNS, rows, _NUMBERS)]
        for budget, ranker in self.contexts:
            changes = self._changes(budget, ranker)
            if changes:
                lines.append(f"{visible(ranker)} at {budget:,}: {listed(changes, _NAMED_ITEMS)}")
        return "\n".join(lines)

    def _row(self, budget: int, ranker: str) -> tuple[str, ...]:
        context = self.contexts[budget, ranker]
        base = self._base(budget, ranker)
        found = self.difference(budget, ranker)
        return (
            f"{budget:,}",
            visible(ranker),
            f"{context.used:,}",
            f"{100 * context.used // max(1, budget)} %",
            f"{len(context.items):,}",
            "" if base is None else f"{base[1]} at {base[0]:,}",
            "" if found is None else str(found),
        )

    def _changes(self, budget: int, ranker: str) -> list[str]:
        found = self.difference(budget, ranker)
        changes = () if found is None else found.changes()
        return [f"{change} {preview(item.text, 40)}" for change, item in changes]


async def what_if(
    session: OpenSession,
    query: str | None,
    *,
    budgets: Iterable[int],
    rankers: Iterable[Ranker],
    format: str | Format,
    sections: Iterable[str] | None,
    filter: Filter | None,
    overflow: Overflow,
) -> WhatIf:
    """Return the contexts under these budgets and rankers, as `SessionMemory.what_if` does."""
    calls = {}
    for budget in sorted({check_budget(each) for each in check_several(budgets, "budgets")}):
        calls[budget] = ContextCall(
            query,
            budget=budget,
            format=format,
            filter=filter,
            overflow=overflow,
        )
    if not calls:
        raise InvalidArgumentError("no budgets; give at least one whole number of tokens")
    chosen = None if sections is None else [*check_several(sections, "sections")]
    named = await rehearsals(session, rankers)
    contexts = {}
    for budget, call in calls.items():
        for name, rehearsal in named.items():
            contexts[budget, name] = await rehearsal.context(call, chosen)
    return WhatIf(contexts)


async def rehearsals(session: OpenSession, rankers: Iterable[Ranker]) -> dict[str, Rehearsal]:
    """Return rehearsals by name: with the session's own rankers first, then with each of these.

    A second ranker of the same name gets a number.
    """
    session.expire()
    await session.read_back([*session.sections.values()])
    named = {OWN: Rehearsal(session)}
    for each in check_several(rankers, "rankers"):
        ranker = check_instance(each, Ranker, "ranker")
        name = ranker.name
        if name in named:
            name = f"{name} ({len(named)})"
        named[name] = Rehearsal(session, ranker)
    return named
