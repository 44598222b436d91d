"""Learning the weights of the default ranker from questions with known answers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kaosmem.errors import InvalidArgumentError
from kaosmem.evaluation.assemblers import SessionAssembler
from kaosmem.evaluation.evidence import Corpus, Question
from kaosmem.evaluation.measurement import UNSCORED
from kaosmem.retrieval.linear_index import BY_HAND, LinearIndex
from kaosmem.retrieval.rankers import DenseRanker, LinearRanker, Weights
from kaosmem.retrieval.shares import ONE
from kaosmem.sections.spec import SectionSpec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MOST_QUESTIONS = 60
"""So many questions of a data set are learned from, spread over all of them."""
BUDGETS: Mapping[int, float] = {512: 1.0, 2_048: 1.2, 8_192: 0.8}
"""Budgets in tokens for which conversations are learned, and how much each counts."""
_STEPS = 50
_ROUNDS = 1_000
_ENOUGH = 1e-6
_HALVINGS = 30
_FAR = 10.0
"""A score so far from the threshold is surely above or below it."""


@dataclass(frozen=True)
class Lesson:
    """The candidates of one question.

    Attributes:
        signals: Shape (n, k), of `names`.
        answers: Shape (n,), shares that sum to 1.
        costs: The tokens of each candidate: shape (n,).
    """

    corpus: str
    dataset: str
    is_conversation: bool
    names: tuple[str, ...]
    signals: NDArray[np.float64]
    answers: NDArray[np.float64]
    costs: NDArray[np.float64]


def read_lessons(
    corpora: Iterable[Corpus],
    *,
    ranker: LinearRanker | DenseRanker | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> list[Lesson]:
    """Return one example to learn from for each question with an answer among the candidates.

    There are at most MOST_QUESTIONS of each data set, spread over its corpora.

    Args:
        ranker: The ranker whose signals they are. None is a `LinearRanker`.
        progress: Called with the name of each corpus when it has been read.
    """
    lessons: list[Lesson] = []
    spec = SectionSpec("items", eviction="none", ranker=ranker or LinearRanker())
    for corpus in _sampled(list(corpora)):
        lessons += _lessons_of(corpus, spec)
        progress(corpus.name)
    return lessons


Bounds = Mapping[str, tuple[float, float]]
"""The least and the most that a signal may weigh, by name."""

_ANY = -math.inf, math.inf
AXIOMS: dict[str, tuple[float, float]] = {"assistant": _ANY}
"""Signals that may weigh anything.

Every other one is at least 0: a better match never makes a text worse.
"""
BOUNDS: Mapping[bool, Bounds] = {
    True: AXIOMS
    | {
        "words": (2.5, math.inf),
        "match": (2.0, math.inf),
        "phrases": (2.0, math.inf),
        "best_of_source": (0.0, 1.2),
        "likeness": (0.1, math.inf),
        "size": (-6.0, -6.0),
        "topic": (1.0, 1.0),
        "named_speaker": (2.0, 2.0),
        "rule": (2.5, 2.5),
    },
    False: AXIOMS
    | {
        "match": (1.0, math.inf),
        "phrases": (2.0, math.inf),
        "likeness": (0.1, math.inf),
        "size": (-3.0, -3.0),
    },
}
"""The bounds for conversations (True) and documents.

Beside the axioms they are chosen by hand, the same for all data sets. Plain BM25 keeps a share, so
that the model does not rank worse than BM25 on texts that are unlike all it has learned from.
Longer texts hold more answers and take more room; the effect depends on the data set, so the size
is not learned. Neither are `named_speaker`, as one data set alone has speakers with names, `rule`,
as few questions ask for standing rules, and `topic`, as most questions share words with their
answers.
"""


def learn_weights(
    lessons: Sequence[Lesson], *, ridge: float = 0.003, bounds: Mapping[bool, Bounds] = BOUNDS
) -> Weights:
    """Return the weights under which the answers of questions are found.

    Each kind minimises a loss plus `ridge` times the squares of the weights, by Newton's method
    within bounds. Each data set counts the same, however many questions it has.

    - Documents: the cross-entropy between the answers and the softmax of the scores.
    - Conversations: how far the answers are below the score from which on candidates fill a
      budget, for each of BUDGETS. A softmax gives its weight to the best few. The answers in a long
      conversation are many, and a window has room for many.

    Args:
        bounds: For conversations (True) and documents. A signal without any is at least 0.

    Raises:
        InvalidArgumentError: If there are no lessons.

    Source: Cao et al. 2007, "Learning to rank: from pairwise approach to listwise approach"
        (ListNet).
    """
    if not lessons:
        raise InvalidArgumentError(
            "no question has an answer among its candidates; give more questions"
        )
    kinds = {
        kind: [each for each in lessons if each.is_conversation == kind] for kind in (True, False)
    }
    models = {
        kind: _learned(those, ridge, bounds.get(kind, {}), LOSSES[kind])
        for kind, those in kinds.items()
        if those
    }
    either = next(iter(models.values()))
    return Weights(conversation=models.get(True, either), documents=models.get(False, either))


def _sampled(corpora: Sequence[Corpus]) -> Iterator[Corpus]:
    """Yield corpora with at most MOST_QUESTIONS questions of each data set."""
    scored: dict[str, int] = Counter()
    for corpus in corpora:
        scored[corpus.dataset] += len(_scored(corpus))
    seen: dict[str, int] = Counter()
    for corpus in corpora:
        size = scored[corpus.dataset]
        most = min(MOST_QUESTIONS, size)
        kept = []
        for question in _scored(corpus):
            place = seen[corpus.dataset]
            seen[corpus.dataset] += 1
            # One question is kept wherever the share of all that is due reaches a whole number.
            if (place + 1) * most // size > place * most // size:
                kept.append(question)
        if kept:
            yield replace(corpus, questions=tuple(kept))


def _scored(corpus: Corpus) -> list[Question]:
    return [each for each in corpus.questions if each.category not in UNSCORED]


def _lessons_of(corpus: Corpus, spec: SectionSpec) -> Iterator[Lesson]:
    for existing, questions in corpus.moments():
        section = SessionAssembler(spec=spec).session(existing)[spec.name]
        with section.index.asked() as index:
            assert isinstance(index, LinearIndex)
            place_of = {item.id: place for place, item in enumerate(existing)}
            for question in questions:
                wanted = [place_of[each] for each in question.evidence_ids if each in place_of]
                lesson = _lesson(corpus, question.query, wanted, index)
                if lesson is not None:
                    yield lesson


def _lesson(corpus: Corpus, query: str, wanted: list[int], index: LinearIndex) -> Lesson | None:
    """Return the candidates of a question, None if no answer is among them."""
    import numpy as np

    found = index.candidates(query)
    if found is None:
        return None
    answers = np.isin(found.ordinals, wanted).astype(np.float64)
    if not answers.any():
        return None
    names = tuple(name for name in found.signals if name not in BY_HAND)
    signals = np.stack([found.signals[name] for name in names], axis=1) / ONE
    costs = index.tokens.values[index.slots.find_all(found.ordinals)]
    return Lesson(
        corpus=corpus.name,
        dataset=corpus.dataset,
        is_conversation=index.is_conversation,
        names=names,
        signals=signals,
        answers=answers / answers.sum(),
        costs=costs.astype(np.float64),
    )


@dataclass(frozen=True)
class Slope:
    """The loss of a question, with its derivatives by the weights.

    Attributes:
        slope: Shape (k,).
        curve: Shape (k, k). It has no negative eigenvalue.
    """

    loss: float
    slope: NDArray[np.float64]
    curve: NDArray[np.float64]


Loss = Callable[[Lesson, "NDArray[np.float64]"], Slope]
"""Returns the loss of a question under some weights."""


def softmax_loss(lesson: Lesson, weights: NDArray[np.float64]) -> Slope:
    """Return the cross-entropy between the answers and the softmax of the scores."""
    import numpy as np

    scores = lesson.signals @ weights
    powers = np.exp(scores - scores.max())
    chances = powers / powers.sum()
    mean = chances @ lesson.signals
    spread = lesson.signals - mean
    return Slope(
        loss=float(-(lesson.answers @ np.log(chances + 1e-300))),
        slope=mean - lesson.answers @ lesson.signals,
        curve=spread.T @ (chances[:, None] * spread),
    )


def budget_loss(lesson: Lesson, weights: NDArray[np.float64]) -> Slope:
    """Return how far the answers are below the thresholds of budgets.

    A candidate is shown with the chance sigmoid(score - threshold). The threshold is the one at
    which the chances times the costs fill the budget. It moves with the weights. A budget that
    has room for all candidates teaches nothing.
    """
    import numpy as np

    scores = lesson.signals @ weights
    whole = float(lesson.costs.sum())
    total = sum(BUDGETS.values())
    loss = 0.0
    slope = np.zeros(len(weights))
    curve = np.zeros((len(weights), len(weights)))
    for budget, counts in BUDGETS.items():
        if whole <= budget:
            continue
        share = counts / total
        chances = _sigmoid(scores - threshold(scores, lesson.costs, budget))
        doubts = lesson.answers * (1 - chances)
        moving = lesson.costs * chances * (1 - chances)
        border = moving @ lesson.signals / max(moving.sum(), 1e-9)
        above = lesson.signals - border
        loss -= share * float(lesson.answers @ np.log(chances + 1e-300))
        slope -= share * (doubts @ above)
        curve += share * (above.T @ ((doubts * chances)[:, None] * above))
    return Slope(loss, slope, curve)


def threshold(scores: NDArray[np.float64], costs: NDArray[np.float64], budget: float) -> float:
    """Return the score at which the chances of candidates, times their costs, fill a budget."""
    low = float(scores.min()) - _FAR
    high = float(scores.max()) + _FAR
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if float(costs @ _sigmoid(scores - middle)) > budget:
            low = middle
        else:
            high = middle
    return (low + high) / 2


LOSSES: Mapping[bool, Loss] = {True: budget_loss, False: softmax_loss}
"""The loss of conversations (True) and of documents."""


def _learned(
    lessons: Sequence[Lesson], ridge: float, bounds: Bounds, loss: Loss
) -> Mapping[str, float]:
    import numpy as np

    names = lessons[0].names
    sizes = Counter(lesson.dataset for lesson in lessons)
    low, high = np.array([bounds.get(name, (0.0, math.inf)) for name in names]).T

    def at(weights: NDArray[np.float64]) -> Slope:
        least = ridge * float(weights @ weights)
        slope = 2 * ridge * weights
        curve = 2 * ridge * np.eye(len(weights))
        for lesson in lessons:
            share = 1 / (len(sizes) * sizes[lesson.dataset])
            found = loss(lesson, weights)
            least += share * found.loss
            slope += share * found.slope
            curve += share * found.curve
        return Slope(least, slope, curve)

    weights = np.clip(np.zeros(len(names)), low, high)
    now = at(weights)
    for _ in range(_STEPS):
        step = _step(now.slope, now.curve, low - weights, high - weights)
        after = at(weights + step)
        while after.loss > now.loss and np.abs(step).max() > _ENOUGH:
            step = step / 2
            after = at(weights + step)
        if after.loss > now.loss:
            break
        weights = weights + step
        now = after
        if np.abs(step).max() < _ENOUGH:
            break
    return {name: round(float(weight), 3) for name, weight in zip(names, weights, strict=True)}


def _step(
    slope: NDArray[np.float64],
    curve: NDArray[np.float64],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the step within bounds to the least of a quadratic function.

    It is found by changing one weight after another.
    """
    import numpy as np

    step = np.zeros(len(slope))
    for _ in range(_ROUNDS):
        before = step.copy()
        for place in range(len(step)):
            rest = slope[place] + curve[place] @ step - curve[place, place] * step[place]
            step[place] = min(max(-rest / curve[place, place], low[place]), high[place])
        if np.abs(step - before).max() < _ENOUGH / 10:
            break
    return step


def _sigmoid(values: NDArray[np.float64]) -> NDArray[np.float64]:
    import numpy as np

    shares: NDArray[np.float64] = 1 / (1 + np.exp(-np.clip(values, -40, 40)))
    return shares
