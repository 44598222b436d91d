"""Measuring what a budget buys for the questions that a stored session was asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise, product
from time import perf_counter

from kaosmem.assembly.context import Context, Reason
from kaosmem.assembly.credit import find_uses
from kaosmem.assembly.offers import ContextCall
from kaosmem.errors import InvalidArgumentError
from kaosmem.evaluation.measurement import Progress, check_budgets
from kaosmem.evaluation.report import Outcome, Report
from kaosmem.retrieval.ranker import Ranker
from kaosmem.session.memory import SessionMemory
from kaosmem.session.source_registry import SourceRegistry
from kaosmem.session.tracing import Replay
from kaosmem.session.what_if import registries_by_ranker, rehearse
from kaosmem.units import Link

RELEVANT_SHARE = 0.1
"""Without replies, an item is evidence if it has this share of the best item's score.

A budget is filled with weak matches too. Recall of all of them would only say how large it is.
"""
BY_REPLIES = "used in replies"
BY_SCORES = "best matches"


@dataclass(frozen=True)
class _Asked:
    """A question that the session was asked, its time, and the reply that followed."""

    query: str
    at: datetime
    reply: str

    def used(self, contexts: Iterable[Context]) -> set[str]:
        """Return the texts of older items that some contexts were offered and the reply used."""
        pool = {}
        for context in contexts:
            for decision in context.decisions:
                item = decision.item
                if item is not None and item.created_at < self.at:
                    pool[item.id] = item
        uses = find_uses(self.reply, self.query, pool.values())
        return {each.item.text for each in uses}


async def evaluate_session(
    memory: SessionMemory,
    *,
    budgets: Iterable[int],
    rankers: Iterable[Ranker] = (),
    limit: int = 100,
    progress: Progress | None = None,
) -> Report:
    """Ask a session its own questions at every budget, and return a report.

    The questions are the queries of the kept turns, or the user messages if there are none. The
    evidence of a question is pooled: of the items that any of the rankers offers at the largest
    budget, and that were stored before the question, those that the recorded reply used, as
    `Context.credit` finds them. A question whose reply used none is not scored. If the session has
    no replies, the evidence is what its own ranker retrieves with at least a tenth of the best
    score. The category of the questions says which. Recall is the share of the evidence that a
    budget shows, where items of one text count as one. Nothing in the session changes.

    Args:
        rankers: Rankers to compare with those of the session.
        limit: Number of questions, the last ones.

    Raises:
        InvalidArgumentError: If an argument is not valid, or the session has no questions.
        WindowTooSmallError: If the required items do not fit a budget, even cut.
        CorruptionError: If the session's archive is damaged.
    """
    sizes = check_budgets(budgets)
    name = memory.admin.session_id
    replay = Replay(memory._session)
    asked = _asked(replay)[-limit:]
    if not asked:
        raise InvalidArgumentError(
            f"session {name!r} has no questions; open it with trace=True to keep its turns, or add "
            "user messages"
        )
    registries = await registries_by_ranker(memory._session, rankers)
    has_replies = any(each.reply for each in asked)
    # The first call makes the indexes, whose time is not counted.
    await _rehearsed(memory, registries, sizes[-1:], asked[0].query)
    outcomes = []
    for number, each in enumerate(asked, 1):
        runs = await _rehearsed(memory, registries, sizes, each.query)
        largest = [context for _, budget, context, _ in runs if budget == sizes[-1]]
        if has_replies:
            evidence = each.used(largest)
        else:
            evidence = _relevant(largest[0])
        for ranker, budget, context, seconds in runs:
            shown = {item.text for item in context.items}
            outcome = Outcome(
                corpus=name,
                question_id=str(number),
                category=BY_REPLIES if has_replies else BY_SCORES,
                assembler=ranker,
                budget=budget,
                recall=len(evidence & shown) / len(evidence) if evidence else None,
                used=context.used,
                # The tokens of an item are those of its thinking, too, which a text leaves out.
                content=sum(memory.admin.counter(item.text) for item in context.items),
                seconds=seconds,
            )
            outcomes.append(outcome)
        if progress:
            progress("measuring contexts", number, len(asked))
    items = {name: len(replay.known.by_id)}
    return Report(items, tuple(registries), sizes, tuple(outcomes), {})


async def _rehearsed(
    memory: SessionMemory,
    registries: Mapping[str, SourceRegistry],
    budgets: Iterable[int],
    query: str,
) -> list[tuple[str, int, Context, float]]:
    """Return the ranker, the budget, the context and its seconds of each call for a query."""
    runs = []
    for ranker, budget in product(registries, budgets):
        call = ContextCall(query, budget=budget, overflow="cut")
        started = perf_counter()
        context = await rehearse(memory._session, registries[ranker], call)
        runs.append((ranker, budget, context, perf_counter() - started))
    return runs


def _asked(replay: Replay) -> list[_Asked]:
    """Return the questions of the kept turns, each once, or the user messages if there are none."""
    said = sorted(replay.known.by_id.values(), key=lambda item: item.created_at)
    replies = [item for item in said if item.role == "assistant" and not item.sources]
    asked = [(turn.at, turn.query(replay.known)) for turn in replay.turns]
    asked = [(at, query) for at, query in asked if query]
    if not asked:
        users = [item for item in said if item.role == "user" and not Link.of(item).is_results]
        asked = [(item.created_at, item.text) for item in users]
    end = datetime.max.replace(tzinfo=UTC)
    found = {}
    for (at, query), (next_at, _) in pairwise([*asked, (end, "")]):
        texts = [item.text for item in replies if at <= item.created_at < next_at]
        # A question that is tried again without a reply keeps its earlier one.
        if texts or query not in found:
            found[query] = _Asked(query, at, "\n".join(texts))
    return [*found.values()]


def _relevant(context: Context) -> set[str]:
    """Return the texts that the query retrieved, with a score near the best one."""
    scores: dict[str, float] = {}
    for item in context.items:
        decision = context.decision(item.id)
        if decision.reason in (Reason.RELEVANT, Reason.RECALLED):
            scores[item.text] = decision.score or 0.0
    least = RELEVANT_SHARE * max(scores.values(), default=0.0)
    return {text for text, score in scores.items() if score >= least}
