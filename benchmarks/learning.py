"""Learning the weights of the default ranker from questions with known answers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import mul
from statistics import fmean
from typing import TYPE_CHECKING

from kaosmem.errors import InvalidArgumentError
from kaosmem.evaluation.assemblers import SessionAssembler
from kaosmem.evaluation.evidence import Corpus
from kaosmem.evaluation.report import UNSCORED
from kaosmem.retrieval.candidate_signals import HAND_SET_WEIGHTS
from kaosmem.retrieval.linear_index import LinearIndex
from kaosmem.retrieval.rankers import DenseRanker, LinearRanker, Weights
from kaosmem.retrieval.scores import ONE
from kaosmem.sections.spec import SectionSpec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_STEPS = 50
_ROUNDS = 1_000
_ENOUGH = 1e-6


@dataclass(frozen=True)
class Lesson:
    """The candidates of one question.

    signals: by name, each of shape (n,). answers: shape (n,), shares that sum to 1.
    named: from 0 to 1, how surely the question names a document.
    """

    corpus: str
    dataset: str
    is_conversation: bool
    named: float
    signals: Mapping[str, NDArray[np.float64]]
    answers: NDArray[np.float64]


def read_lessons(
    corpora: Iterable[Corpus],
    *,
    ranker: LinearRanker | DenseRanker | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> list[Lesson]:
    """Return one example to learn from for each question with an answer among the candidates.

    ranker: whose signals they are; None is a `LinearRanker`.
    progress: called with the name of each corpus when it has been read.
    """
    lessons: list[Lesson] = []
    spec = SectionSpec("items", eviction="none", ranker=ranker or LinearRanker())
    for corpus in corpora:
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
DOCUMENTS = AXIOMS | {
    "match": (1.0, math.inf),
    "phrases": (2.0, math.inf),
    "likeness": (0.1, math.inf),
    "size": (-6.0, -6.0),
}
BOUNDS: Mapping[str, Bounds] = {
    "conversation": AXIOMS
    | {
        "words": (2.5, math.inf),
        "match": (2.0, math.inf),
        "phrases": (2.0, math.inf),
        "best_of_source": (0.0, 1.2),
        "likeness": (0.1, math.inf),
        "size": (-6.0, -6.0),
        "topic": (0.0, 1.0),
        "named_speaker": (2.0, 2.0),
        "rule": (2.5, 2.5),
        "answer": (6.0, 6.0),
    },
    "documents": DOCUMENTS
    | {
        "match": (1.0, 4.0),
        "phrases": (2.0, 2.0),
        "best_of_source": (0.0, 1.5),
        "nearby_words": (0.0, 0.6),
        "size": (-3.0, -3.0),
        "meaning": (0.5, math.inf),
    },
    "named_documents": DOCUMENTS,
}
"""The bounds for each kind of `Weights`.

Beside the axioms they are chosen by hand, the same for all data sets. Plain BM25 keeps a share, so
that the model does not rank worse than BM25 on texts that are unlike all it has learned from.
Longer texts hold more answers and take more room; the effect depends on the data set, so the size
is not learned. Neither are `named_speaker`, as one data set alone has speakers with names, `rule`,
as few questions ask for standing rules, and `answer`, as few sets have short answers. Where a
question names no document, answers may stand in several, so most weights have bounds there: one
page, or a few texts that match best, would leave no room for others. All but `meaning` end at their
bounds: these are chosen by hand. `meaning` keeps a share there: texts that say it in other words
come before texts that say something else.
"""
OF_ANY_ENTRY = frozenset(
    {"match", "best_of_source", "nearby_words", "phrases", "size", "meaning"}
    | {"likeness", "likeness_in_source", "likeness_of_source"}
    | {"nearby_likeness", "further_likeness"}
)
"""The signals that weigh something in documents for a query that names none."""


def learn_weights(
    lessons: Sequence[Lesson], *, ridge: float = 0.003, bounds: Mapping[str, Bounds] = BOUNDS
) -> Weights:
    """Return the weights under which the answers of questions score highest among their candidates.

    They minimise the cross-entropy between the answers and the softmax of the scores plus `ridge`
    times the squares of the weights, by Newton's method within bounds. Each data set counts the
    same, however many questions it has.
    A data set of documents teaches the weights of named documents if most of its questions name
    one. A kind without lessons has the weights of another kind.
    bounds: for each kind; a signal without any is at least 0.
    Raises InvalidArgumentError if there are no lessons.
    Source: Cao et al. 2007, "Learning to rank: from pairwise approach to listwise approach"
        (ListNet).
    """
    if not lessons:
        raise InvalidArgumentError(
            "no question has an answer among its candidates; give more questions"
        )
    models = {}
    for kind, those in _by_kind(lessons).items():
        models[kind] = _learned(those, ridge, bounds.get(kind, {}))
    conversation = models.get("conversation") or next(iter(models.values()))
    documents = models.get("documents") or models.get("named_documents") or conversation
    return Weights(conversation, documents, models.get("named_documents") or documents)


def _by_kind(lessons: Iterable[Lesson]) -> Mapping[str, list[Lesson]]:
    """Return the lessons of each kind of `Weights`."""
    names: dict[str, list[float]] = {}
    for lesson in lessons:
        names.setdefault(lesson.dataset, []).append(lesson.named)
    kinds: dict[str, list[Lesson]] = {}
    for lesson in lessons:
        if lesson.is_conversation:
            kinds.setdefault("conversation", []).append(lesson)
        elif fmean(names[lesson.dataset]) >= 0.5:
            kinds.setdefault("named_documents", []).append(lesson)
        else:
            plain = {name: lesson.signals[name] for name in lesson.signals if name in OF_ANY_ENTRY}
            kinds.setdefault("documents", []).append(replace(lesson, signals=plain))
    return kinds


def _lessons_of(corpus: Corpus, spec: SectionSpec) -> Iterator[Lesson]:
    for existing, questions in corpus.moments():
        section = SessionAssembler(spec=spec).session(existing)[spec.name]
        with section.index.asked() as index:
            assert isinstance(index, LinearIndex)
            place_of = {item.id: place for place, item in enumerate(existing)}
            for question in questions:
                if question.category == UNSCORED:
                    continue
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
    return Lesson(
        corpus.name,
        corpus.dataset,
        index.is_conversation,
        found.matches.named / ONE,
        {name: found.signals[name] / ONE for name in found.signals if name not in HAND_SET_WEIGHTS},
        answers / answers.sum(),
    )


def _learned(lessons: Sequence[Lesson], ridge: float, bounds: Bounds) -> Mapping[str, float]:
    import numpy as np

    names = list(dict.fromkeys(name for lesson in lessons for name in lesson.signals))
    signals = [_matrix(lesson, names) for lesson in lessons]
    sizes = Counter(lesson.dataset for lesson in lessons)
    shares = [1 / (len(sizes) * sizes[lesson.dataset]) for lesson in lessons]
    low, high = np.array([bounds.get(name, (0.0, math.inf)) for name in names]).T

    def loss(weights: NDArray[np.float64]) -> float:
        found = (
            lesson.answers @ np.log(_softmax(each @ weights) + 1e-300)
            for lesson, each in zip(lessons, signals, strict=True)
        )
        return float(ridge * (weights @ weights) - sum(map(mul, shares, found)))

    weights = np.clip(np.zeros(len(names)), low, high)
    least = loss(weights)
    for _ in range(_STEPS):
        slope, curve = _derivatives(lessons, signals, shares, ridge, weights)
        step = _step(slope, curve, low - weights, high - weights)
        after = loss(weights + step)
        while after > least and np.abs(step).max() > _ENOUGH:
            step = step / 2
            after = loss(weights + step)
        weights = weights + step
        least = after
        if np.abs(step).max() < _ENOUGH:
            break
    return {name: round(float(weight), 3) for name, weight in zip(names, weights, strict=True)}


def _matrix(lesson: Lesson, names: Iterable[str]) -> NDArray[np.float64]:
    """Return the signals of a lesson, 0 for one that it lacks: shape (n, names)."""
    import numpy as np

    nothing = np.zeros(len(lesson.answers))
    return np.stack([lesson.signals.get(name, nothing) for name in names], axis=1)


def _derivatives(
    lessons: Sequence[Lesson],
    signals: Sequence[NDArray[np.float64]],
    shares: Sequence[float],
    ridge: float,
    weights: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the first and second derivatives of the loss at some weights."""
    import numpy as np

    slope = 2 * ridge * weights
    curve = 2 * ridge * np.eye(len(weights))
    for share, lesson, each in zip(shares, lessons, signals, strict=True):
        chances = _softmax(each @ weights)
        mean = chances @ each
        slope = slope + share * (mean - lesson.answers @ each)
        spread = each - mean
        curve = curve + share * (spread.T @ (chances[:, None] * spread))
    return slope, curve


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


def _softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    import numpy as np

    powers = np.exp(scores - scores.max())
    shares: NDArray[np.float64] = powers / powers.sum()
    return shares
