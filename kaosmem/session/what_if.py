"""Contexts that other budgets and rankers would give, without a trace in the session."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kaosmem.arguments import check_collection, check_instance
from kaosmem.assembly.context import Context
from kaosmem.assembly.difference import Difference, difference
from kaosmem.assembly.offers import ContextCall, check_budget
from kaosmem.display import aligned, comma_list, preview, visible
from kaosmem.errors import InvalidArgumentError
from kaosmem.filters import Filter
from kaosmem.formats import Format
from kaosmem.retrieval.ranker import Ranker
from kaosmem.session.context_call import ask
from kaosmem.session.open_session import OpenSession
from kaosmem.session.source_registry import SourceRegistry

OWN_RANKER = "own"
"""The name of the rankers that the session was opened with."""

_COLUMNS = "budget", "ranker", "used", "fill", "items", "difference"
_NUMBERS = "budget", "used", "fill", "items"
_NAMED_ITEMS = 3


async def rehearse(
    session: OpenSession,
    registry: SourceRegistry,
    call: ContextCall,
) -> Context:
    """Return the context of a call, and change nothing: no use is marked, and no turn is kept.

    Args:
        registry: One of `registries_by_ranker`.

    Raises:
        WindowTooSmallError: If the required items do not fit.
        SourceError: If a required source fails.
    """
    offers = await ask(call, registry, registry.shown(None), session)
    context, _ = offers.pack()
    return context


async def registries_by_ranker(
    session: OpenSession, rankers: Iterable[Ranker]
) -> dict[str, SourceRegistry]:
    """Return the session with its own rankers, then with each of these, by the name of the ranker.

    A ranker ranks the sections without their own, as they are now. A second ranker of the same name
    gets a number.
    """
    session.expire()
    await session.read_back(session.sections)
    named = {OWN_RANKER: session.registry}
    for each in check_collection(rankers, "rankers"):
        ranker = check_instance(each, Ranker, "ranker")
        name = ranker.name
        if name in named:
            name = f"{name} ({len(named)})"
        named[name] = _ranked_by(session, ranker)
    return named


def _ranked_by(session: OpenSession, ranker: Ranker) -> SourceRegistry:
    sections = {}
    for name, section in session.sections.items():
        is_ranked = section.spec.ranker is None and section.spec.placement != "static"
        sections[name] = section.ranked_by(ranker) if is_ranked else section
    registry = session.registry.with_sections(sections)
    registry.present = None
    return registry


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
    budget  ranker  used  fill  items  difference
        20  own       13  65 %      1
        40  own       33  82 %      3  2 in
    own at 40: in 'Room 38 costs 38 euros.', in 'Room 39 costs 39 euros.'
    """

    contexts: Mapping[tuple[int, str], Context]

    def difference(self, budget: int, ranker: str = OWN_RANKER) -> Difference | None:
        """Return the difference from the context that this one is compared with.

        The first context is compared with none. Raises KeyError for an unknown budget or ranker.
        """
        after = self.contexts[budget, ranker]
        smaller = [size for size, _ in self.contexts if size < budget]
        if ranker != OWN_RANKER:
            base = self.contexts[budget, OWN_RANKER]
        elif smaller:
            base = self.contexts[max(smaller), OWN_RANKER]
        else:
            return None
        return difference(base.items, after.items)

    def __repr__(self) -> str:
        rows = []
        changes = []
        for (budget, ranker), context in self.contexts.items():
            found = self.difference(budget, ranker)
            named = []
            if found:
                for change, item in found.changes:
                    named.append(f"{change} '{preview(item.text, 28)}'")
            if named:
                changes.append(
                    f"{visible(ranker)} at {budget:,}: {comma_list(named, _NAMED_ITEMS)}"
                )
            fill = f"{100 * context.used // max(1, budget)} %"
            sums = f"{context.used:,}", fill, f"{len(context.items):,}"
            rows.append((f"{budget:,}", visible(ranker), *sums, str(found or "")))
        query = next(iter(self.contexts.values())).query
        table = aligned(_COLUMNS, rows, _NUMBERS)
        return "\n".join([f"what if '{preview(query)}'", *table, *changes])


async def what_if(
    session: OpenSession,
    query: str | None,
    *,
    budgets: Iterable[int],
    rankers: Iterable[Ranker],
    format: str | Format,
    filter: Filter | None,
) -> WhatIf:
    """Return the contexts under these budgets and rankers, as `SessionMemory.what_if` does."""
    sizes = sorted({check_budget(each) for each in check_collection(budgets, "budgets")})
    if not sizes:
        raise InvalidArgumentError("no budgets; give at least one whole number of tokens")
    contexts = {}
    registries = await registries_by_ranker(session, rankers)
    for budget in sizes:
        call = ContextCall(query, budget=budget, format=format, filter=filter, overflow="cut")
        for name, registry in registries.items():
            contexts[budget, name] = await rehearse(session, registry, call)
    return WhatIf(contexts)
