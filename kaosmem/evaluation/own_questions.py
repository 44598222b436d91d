"""Measuring what a budget buys for the questions that a stored session was asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

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
from kaosmem.session.roster import Roster
from kaosmem.session.tracing import Replay
from kaosmem.session.what_if import rehearse, rosters_by_ranker
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
    name = memory.admin.session_id
    replay = Replay(memory._session)
    asked = _asked(replay, memory)[-limit:]
    if not asked:
        raise InvalidArgumentError(
            f"session {name!r} has no questions; open it with trace=True to keep its turns, or add "
            "user messages"
        )
    items: dict[str, Item] = {}
    for item in replay.known.by_id.values():
        items.setdefault(item.text, item)
    rosters = await rosters_by_ranker(memory._session, rankers)
    rehearsed = [_Rehearsed(each, memory, rosters[each], items) for each in rosters]
    has_replies = any(each.reply for each in asked)
    questions = []
    for number, each in enumerate(asked, 1):
        largest = [await ranked.context(each.query, sizes[-1]) for ranked in rehearsed]
        evidence = each.used(largest) if has_replies else _relevant(largest[0])
        ids = dict.fromkeys(items.get(item.text, item).id for item in evidence)
        category = BY_REPLIES if has_replies else BY_SCORES
        questions.append(Question(str(number), each.query, tuple(ids), category))
        if progress:
            progress("evidence", number, len(asked))
    known = tuple(EvidenceItem(item.id, item.text) for item in items.values())
    return await evaluate(
        [Corpus(name, known, tuple(questions))],
        budgets=sizes,
        assemblers=rehearsed,
        counter=memory.admin.counter,
        progress=progress,
    )


@dataclass(frozen=True)
class _Rehearsed:
    """A session with one of its rankers, as an assembler to compare.

    Attributes:
        items: The first item of each text. A reply may repeat an item word by word, and stand in
            its place, so items of one text count as one.
    """

    name: str
    memory: SessionMemory
    roster: Roster
    items: Mapping[str, Item]

    async def context(self, query: str, budget: int) -> Context:
        """Return the context of a query. Nothing in the session changes."""
        call = ContextCall(query, budget=budget, overflow="cut")
        return await rehearse(self.memory._session, self.roster, call)

    def load(self, items: Sequence[EvidenceItem]) -> Packer:
        """Return the session, which has all items."""
        return self._pack

    async def _pack(self, query: str, budget: int) -> Selection:
        context = await self.context(query, budget)
        ids = dict.fromkeys(self.items.get(item.text, item).id for item in context.items)
        sound = partial(faults, context, self.memory)
        return Selection(tuple(ids), context.used, handed_over(context), sound)


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


def _asked(replay: Replay, memory: SessionMemory) -> list[_Asked]:
    """Return the questions of the kept turns, each once, or the user messages if there are none."""
    histories = {spec.name for spec in memory.sections if spec.placement == "history"}
    said = [item for item in replay.known.by_id.values() if item.section in histories]
    said.sort(key=lambda item: item.created_at)
    replies = [item for item in said if item.role == "assistant" and not item.sources]
    asked = [(turn.at, turn.query(replay.known)) for turn in replay.turns]
    asked = [(at, query) for at, query in asked if query]
    if not asked:
        users = [item for item in said if item.role == "user" and not Link.of(item).is_results]
        asked = [(item.created_at, item.text) for item in users]
    ends = [at for at, _ in asked[1:]] + [datetime.max.replace(tzinfo=UTC)]
    found = {}
    for (at, query), end in zip(asked, ends, strict=False):
        texts = [item.text for item in replies if at <= item.created_at < end]
        found[query] = _Asked(query, at, "\n".join(texts))
    return list(found.values())


def _relevant(context: Context) -> list[Item]:
    """Return the shown items that the query retrieved, with a score near the best one."""
    retrieved = []
    for item in context.items:
        decision = context.decision(item.id)
        if decision.reason in (Reason.RELEVANT, Reason.RECALLED):
            retrieved.append((decision.score or 0.0, item))
    least = RELEVANT_SHARE * max((score for score, _ in retrieved), default=0.0)
    return [item for score, item in retrieved if score >= least]
