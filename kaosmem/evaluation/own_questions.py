"""Measuring what a budget buys for the questions that a stored session was asked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from kaosmem.assembly.context import Context, Reason
from kaosmem.errors import InvalidArgumentError
from kaosmem.evaluation.assemblers import Packer, Selection, faults, handed_over
from kaosmem.evaluation.evidence import Corpus, EvidenceItem, Question
from kaosmem.evaluation.measurement import Progress, check_budgets, evaluate
from kaosmem.evaluation.report import Report
from kaosmem.retrieval.ranker import Ranker
from kaosmem.session.context_call import ContextCall
from kaosmem.session.memory import SessionMemory
from kaosmem.session.tracing import Replay
from kaosmem.session.what_if import Rehearsal, rehearsals
from kaosmem.units import Link

RELEVANT_SHARE = 0.1
"""An item is evidence for a question if it has this share of the best item's score.

A budget is filled with weak matches too. Recall of all of them would only say how large it is.
"""


async def evaluate_session(
    memory: SessionMemory,
    *,
    budgets: Iterable[int],
    rankers: Iterable[Ranker] = (),
    limit: int = 100,
    progress: Progress | None = None,
) -> Report:
    """Ask a session its own questions at every budget, and return a report.

    The questions are the queries of the kept turns, or the live user messages if there are none.
    Nobody has said which items answer them. So the evidence of a question is what the session's own
    ranker retrieves at the largest budget with at least a tenth of the best score. Recall is the
    share of it that a budget shows. Nothing in the session changes.

    Args:
        rankers: Rankers to compare with those of the session.
        limit: Number of questions, the last ones.

    Raises:
        InvalidArgumentError: If an argument is not valid, or the session has no questions.
        WindowTooSmallError: If the required items do not fit a budget, even cut.
        CorruptionError: If the session's archive is damaged.
    """
    sizes = check_budgets(budgets)
    replay = Replay(memory._session)
    asked = [turn.query(replay.items) for turn in replay.turns]
    queries = [*dict.fromkeys(filter(None, asked))] or [*dict.fromkeys(_user_messages(memory))]
    if not queries:
        raise InvalidArgumentError(
            f"session {memory.admin.session_id!r} has no questions; open it with trace=True to "
            "keep its turns, or add user messages"
        )
    named = await rehearsals(memory._session, rankers)
    assemblers = [RehearsedSession(name, memory, each) for name, each in named.items()]
    questions = []
    for number, query in enumerate(queries[-limit:], 1):
        context = await assemblers[0].context(query, sizes[-1])
        questions.append(Question(str(number), query, tuple(_relevant(context, memory))))
    items = [EvidenceItem(item.id, item.text) for item in replay.items.values()]
    return await evaluate(
        [Corpus(memory.admin.session_id, tuple(items), tuple(questions))],
        budgets=sizes,
        assemblers=assemblers,
        counter=memory.admin.counter,
        progress=progress,
    )


def _user_messages(memory: SessionMemory) -> Iterator[str]:
    for section in memory:
        if section.spec.placement == "history":
            for item in section:
                if item.role == "user" and item.text and not Link.of(item).is_results:
                    yield item.text


def _relevant(context: Context, memory: SessionMemory) -> list[str]:
    """Return the ids of the shown items that the query chose, with a score near the best one.

    If the query chose without scores, as in small sections, all chosen items count.
    """
    chosen = []
    for decision in context.decisions:
        is_query = memory[decision.section].spec.placement == "query"
        if decision.included and (is_query or decision.reason is Reason.RECALLED):
            chosen.append(decision)
    scores = [decision.score for decision in chosen if decision.score is not None]
    if not scores:
        return [decision.item_id for decision in chosen]
    best = max(scores)
    least = min(best, RELEVANT_SHARE * best)
    return [each.item_id for each in chosen if each.score is not None and each.score >= least]


@dataclass(frozen=True)
class RehearsedSession:
    """A session as it is, with all its sections, under one ranker."""

    name: str
    memory: SessionMemory = field(repr=False)
    rehearsal: Rehearsal = field(repr=False)

    def load(self, items: Sequence[EvidenceItem]) -> Packer:
        """Return the packer. The session has the items already."""

        async def pack(query: str, budget: int) -> Selection:
            context = await self.context(query, budget)
            ids = tuple(item.id for item in context.items)
            found = handed_over(context)
            return Selection(ids, context.used, found, lambda: faults(context, self.memory))

        return pack

    async def context(self, query: str, budget: int) -> Context:
        """Return the session's context for a query. Required items that do not fit are cut."""
        call = ContextCall(
            query,
            budget=budget,
            format="text",
            reserve=0,
            filter=None,
            overflow="cut",
            min_confidence=0.0,
        )
        return await self.rehearsal.context(call)
