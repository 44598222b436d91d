"""Measuring what a budget buys for the questions that a stored session was asked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import product, zip_longest
from time import perf_counter

from kaosmem.assembly.context import Context, Reason
from kaosmem.assembly.credit import find_uses
from kaosmem.errors import InvalidArgumentError
from kaosmem.evaluation.assemblers import faults
from kaosmem.evaluation.measurement import Progress, check_budgets
from kaosmem.evaluation.report import Outcome, Report
from kaosmem.retrieval.ranker import Ranker
from kaosmem.session.context_call import ContextCall
from kaosmem.session.memory import SessionMemory
from kaosmem.session.tracing import Replay
from kaosmem.session.what_if import rehearsals
from kaosmem.types.items import Item
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
    has_replies = any(each.reply for each in asked)
    outcomes: list[Outcome] = []
    for rehearsal in named.values():
        # The first context loads a vocabulary and indexes sections. No question takes that time.
        await rehearsal.context(ContextCall(asked[0].query, budget=sizes[-1], overflow="cut"))
    for number, question in enumerate(asked, 1):
        contexts: dict[tuple[str, int], Context] = {}
        seconds: dict[tuple[str, int], float] = {}
        for name, budget in product(named, sizes):
            started = perf_counter()
            call = ContextCall(question.query, budget=budget, overflow="cut")
            contexts[name, budget] = await named[name].context(call)
            seconds[name, budget] = perf_counter() - started
        largest = [contexts[name, sizes[-1]] for name in named]
        evidence = question.used(largest) if has_replies else _relevant(largest[0], memory)
        for (name, budget), context in contexts.items():
            outcome = Outcome(
                corpus=memory.admin.session_id,
                question_id=str(number),
                category=BY_REPLIES if has_replies else BY_SCORES,
                assembler=name,
                budget=budget,
                recall=_share_shown(evidence, context),
                used=context.used,
                content=sum(item.tokens for item in context.items),
                seconds=seconds[name, budget],
                prefix_share=None,
                violations=tuple(faults(context, memory)),
            )
            outcomes.append(outcome)
        if progress:
            progress("questions", number, len(asked))
    corpora = {memory.admin.session_id: len(replay.known.by_id)}
    return Report(corpora, tuple(named), sizes, tuple(outcomes), {})


def _share_shown(evidence: Sequence[Item], context: Context) -> float | None:
    """Return the share of the evidence that a context shows, None without evidence.

    A reply may repeat an item word by word, and stand in its place: that counts as shown.
    """
    if not evidence:
        return None
    texts = {item.text for item in context.items}
    return sum(item.text in texts for item in evidence) / len(evidence)


@dataclass(frozen=True)
class _Asked:
    """A question that the session was asked, its time, and the reply that followed."""

    query: str
    at: datetime
    reply: str = ""

    def used(self, contexts: Iterable[Context]) -> list[Item]:
        """Return the older items that some contexts were offered and the reply used."""
        pool = {}
        for context in contexts:
            for decision in context.decisions:
                item = decision.item
                if item is not None and item.created_at < self.at:
                    pool[item.id] = item
        units = dict(zip(pool, pool, strict=True))
        uses = find_uses(self.reply, self.query, pool.values(), units)
        return [each.item for each in uses]


def _asked(replay: Replay, memory: SessionMemory) -> Iterator[_Asked]:
    """Yield the questions of the kept turns, each once, or the user messages if there are none."""
    histories = {spec.name for spec in memory.sections if spec.placement == "history"}
    said = [item for item in replay.known.by_id.values() if item.section in histories]
    said.sort(key=lambda item: item.created_at)
    asked = [(turn.query(replay.known), turn.at) for turn in replay.turns]
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


def _relevant(context: Context, memory: SessionMemory) -> list[Item]:
    """Return the shown items that the query chose, with a score near the best one.

    If the query chose without scores, as in small sections, all chosen items count.
    """
    chosen = []
    for item in context.items:
        decision = context.decision(item.id)
        is_query = memory[decision.section].spec.placement == "query"
        if is_query or decision.reason is Reason.RECALLED:
            chosen.append((decision.score or 0.0, item))
    best = max((score for score, _ in chosen), default=0.0)
    least = min(best, RELEVANT_SHARE * best)
    return [item for score, item in chosen if score >= least]
