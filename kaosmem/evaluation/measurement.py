"""Measuring assemblers on questions with known answers."""

from __future__ import annotations

from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Container,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from itertools import product
from time import perf_counter
from typing import TypeAlias

from kaosmem.arguments import check_collection, check_count, check_instance, check_list_of
from kaosmem.errors import InvalidArgumentError
from kaosmem.evaluation.assemblers import ASSEMBLERS, Assembler, Packer, Selection, get_assembler
from kaosmem.evaluation.evidence import Corpus, Question
from kaosmem.evaluation.report import Outcome, Report, Staleness
from kaosmem.names import shown
from kaosmem.tokens import get_counter
from kaosmem.tokens.counters import AnyCounter

DEFAULT_BUDGETS = (512, 2_048, 8_192)

Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with the name of the current work, the number of assemblies done and the number of all."""


async def evaluate(
    corpora: Iterable[Corpus],
    *,
    budgets: Iterable[int] = DEFAULT_BUDGETS,
    assemblers: Iterable[Assembler | str] = ASSEMBLERS,
    counter: AnyCounter = None,
    progress: Progress | None = None,
) -> Report:
    """Ask every assembler every question at every budget, and return a report.

    Raises InvalidArgumentError, also for no assemblers or corpora, and for two of one name.

    Args:
        assemblers: Assemblers, or names that `kaosmem bench --assembler` takes.
        counter: For the named assemblers, and for items' texts.
    """
    counter = get_counter(counter)
    corpora = check_list_of(corpora, Corpus, "corpora")
    sizes = check_budgets(budgets)
    compared = []
    for each in check_collection(assemblers, "assemblers"):
        if isinstance(each, str):
            each = get_assembler(each, counter=counter)
        compared.append(check_instance(each, Assembler, "assembler"))
    names = _distinct((assembler.name for assembler in compared), "assemblers")
    _distinct((corpus.name for corpus in corpora), "corpora")
    outcomes: list[Outcome] = []
    load_seconds = dict.fromkeys(names, 0.0)
    counter("")  # its vocabulary is loaded when it is first asked, which is nobody's time
    total = sum(len(corpus.questions) for corpus in corpora) * len(sizes) * len(names)
    for corpus in corpora:
        tokens = {item.id: counter(item.text) for item in corpus.items}
        for assembler, (existing, questions) in product(compared, corpus.moments()):
            if progress:
                progress(f"{assembler.name} takes in {corpus.name}", len(outcomes), total)
            start = perf_counter()
            pack = assembler.load(existing)
            load_seconds[assembler.name] += perf_counter() - start
            known = {item.id: tokens[item.id] for item in existing}
            for budget in sizes:
                asked = _outcomes(corpus, questions, assembler.name, pack, budget, known)
                async for outcome in asked:
                    outcomes.append(outcome)
                    if progress:
                        progress(f"{assembler.name} on {corpus.name}", len(outcomes), total)
    items = {corpus.name: len(corpus.items) for corpus in corpora}
    return Report(items, names, sizes, tuple(outcomes), load_seconds)


def check_budgets(budgets: Iterable[int]) -> tuple[int, ...]:
    """Return budgets in ascending order, each once. Raises InvalidArgumentError."""
    checked = {
        check_count(each, "budget", least=1) for each in check_collection(budgets, "budgets")
    }
    if not checked:
        raise InvalidArgumentError("no budgets; give at least one whole number of tokens")
    return tuple(sorted(checked))


def _distinct(names: Iterable[str], kind: str) -> tuple[str, ...]:
    given = tuple(names)
    if not given:
        raise InvalidArgumentError(f"no {kind}; give at least one")
    if twice := [name for name in given if given.count(name) > 1]:
        raise InvalidArgumentError(
            f"two {kind} are named {shown(twice[0])}; give each a name of its own"
        )
    return given


def recall(
    question: Question,
    selection: Selection,
    violations: Collection[str],
    texts: Mapping[str, str],
) -> float | None:
    """Return the share of a question's evidence that is shown, 0 to 1; None if it has no answer.

    It is 0 if the selection breaks a rule. Items of one text count as one: a context shows a text
    once.

    Args:
        texts: Of all items, by id.
    """
    if not question.evidence_ids:
        return None
    if violations:
        return 0.0
    evidence = {texts[item_id] for item_id in question.evidence_ids}
    return len(evidence.intersection(map(texts.get, selection.item_ids))) / len(evidence)


def staleness(
    question: Question,
    selection: Selection,
    order: Mapping[str, int],
) -> Staleness:
    """Return how a selection treats the items that the evidence has superseded.

    Args:
        order: Place of each item in its corpus, by id.
    """
    if not question.stale_ids:
        return Staleness()
    places = {item_id: place for place, item_id in enumerate(selection.item_ids)}
    stale = [places[each] for each in question.stale_ids if each in places]
    if not stale:
        return Staleness(shown=False, alone=False)
    newest = max(question.evidence_ids, key=order.__getitem__, default=None)
    return Staleness(
        shown=True,
        alone=places.keys().isdisjoint(question.evidence_ids),
        last_word=newest in places and places[newest] > max(stale),
    )


def violations(
    selection: Selection,
    budget: int,
    known: Container[str],
) -> Iterator[str]:
    """Yield why a context can't be counted: too many tokens, an unknown item, or an item twice."""
    if selection.used > budget:
        yield f"{selection.used} tokens are over the budget of {budget}"
    if unknown := [item_id for item_id in selection.item_ids if item_id not in known]:
        yield f"no item has the id {shown(unknown[0])}"
    if len(set(selection.item_ids)) < len(selection.item_ids):
        yield "an item is in it twice"


async def _outcomes(
    corpus: Corpus,
    questions: Sequence[Question],
    assembler: str,
    pack: Packer,
    budget: int,
    tokens: Mapping[str, int],
) -> AsyncIterator[Outcome]:
    """Yield the outcome of an assembler for each of some questions at a budget.

    Args:
        tokens: Of each item that exists when they are asked, by id, in order.
    """
    order = {item.id: place for place, item in enumerate(corpus.items)}
    texts = {item.id: item.text for item in corpus.items}
    for question in questions:
        start = perf_counter()
        packed = await pack(question.query, budget)
        selection = check_instance(packed, Selection, f"a context of {assembler}")
        seconds = perf_counter() - start
        broken = tuple(violations(selection, budget, tokens))
        yield Outcome(
            corpus=corpus.name,
            question_id=question.id,
            category=question.category,
            assembler=assembler,
            budget=budget,
            recall=recall(question, selection, broken, texts),
            used=selection.used,
            content=sum(tokens.get(item_id, 0) for item_id in selection.item_ids),
            seconds=seconds,
            violations=broken,
            dataset=corpus.dataset,
            stale=staleness(question, selection, order),
        )
