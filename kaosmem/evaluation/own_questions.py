"""Measuring what a budget buys for the questions that a stored session was asked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import zip_longest

from kaosmem.assembly.context import Context, Reason
from kaosmem.assembly.credit import find_uses
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
"""Without replies, an item is evidence if it has this share of the best item's score.

A budget is filled with weak matches too. Recall of all of them would only say how large it is.
"""
BY_REPLIES = "the recorded reply used it"
BY_SCORES = "the session's own ranker gives it a tenth of the best score or more"


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
    The evidence of a question is pooled: of the items that any of the rankers offers at the largest
    budget, and that were stored before the question, those that the recorded reply used, as
    `Context.credit` finds them. A question whose reply used none is not scored. If the session has
    no replies, the evidence is what its own ranker retrieves with at least a tenth of the best
    score. The category of the questions says which. Recall is the share of the evidence that a
    budget shows. Nothing in the session changes.

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
    asked = [*_asked(replay, memory)][-limit:]
    if not asked:
        raise InvalidArgumentError(
            f"session {memory.admin.session_id!r} has no questions; open it with trace=True to "
            "keep its turns, or add user messages"
        )
    named = await rehearsals(memory._session, rankers)
    assemblers = [RehearsedSession(name, memory, each) for name, each in named.items()]
    has_replies = any(each.reply for each in asked)
    questions = []
    for number, each in enumerate(asked, 1):
        contexts = [await ranked.context(each.query, sizes[-1]) for ranked in assemblers]
        evidence = each.used(contexts) if has_replies else _relevant(contexts[0], memory)
        category = BY_REPLIES if has_replies else BY_SCORES
        questions.append(Question(str(number), each.query, tuple(evidence), category))
    items = [EvidenceItem(item.id, item.text) for item in replay.items.values()]
    return await evaluate(
        [Corpus(memory.admin.session_id, tuple(items), tuple(questions))],
        budgets=sizes,
        assemblers=assemblers,
        counter=memory.admin.counter,
        progress=progress,
    )


@dataclass(frozen=True)
class _Asked:
    """A question that the session was asked, its time, and the reply that followed."""

    query: str
    at: datetime
    reply: str = ""

    def used(self, contexts: Iterable[Context]) -> list[str]:
        """Return the ids of older items that some contexts were offered and the reply used."""
        pool = {}
        for context in contexts:
            for decision in context.decisions:
                item = decision.item
                if item is not None and item.created_at < self.at:
                    pool[item.id] = item
        units = dict(zip(pool, pool, strict=True))
        uses = find_uses(self.reply, self.query, pool.values(), units)
        return [each.item.id for each in uses]


def _asked(replay: Replay, memory: SessionMemory) -> Iterator[_Asked]:
    """Yield the questions of the kept turns, each once, or the user messages if there are none."""
    histories = {spec.name for spec in memory.sections if spec.placement == "history"}
    said = [item for item in replay.items.values() if item.section in histories]
    said.sort(key=lambda item: item.created_at)
    asked = [(turn.query(replay.items), turn.at) for turn in replay.turns]
    if not any(query for query, _ in asked):
        users = [item for item in said if item.role == "user" and not Link.of(item).is_results]
        asked = [(item.text, item.created_at) for item in users]
    ends = [at for _, at in asked[1:]]
    found = {}
    for (query, at), end in zip_longest(asked, ends):
        replies = []
        for item in said:
            is_next = item.created_at >= at and (end is None or item.created_at < end)
            if is_next and item.role == "assistant" and not item.sources:
                replies.append(item.text)
        if query:
            found[query] = _Asked(query, at, "\n".join(replies))
    yield from found.values()


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
        """Return the packer. The session has the items already.

        A reply may repeat an item word by word, and stand in its place: both count as shown.
        """
        same: dict[str, list[str]] = {}
        for each in items:
            same.setdefault(each.text, []).append(each.id)

        async def pack(query: str, budget: int) -> Selection:
            context = await self.context(query, budget)
            ids = []
            for item in context.items:
                ids += same.get(item.text, [item.id])
            found = handed_over(context)
            return Selection(tuple(ids), context.used, found, lambda: faults(context, self.memory))

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
