"""Learning the weights of the default ranker from questions with known answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import mul
from typing import TYPE_CHECKING

from kaosmem.errors import InvalidContentError
from kaosmem.evaluation.assemblers import SessionAssembler
from kaosmem.evaluation.evidence import Corpus
from kaosmem.evaluation.measurement import UNSCORED
from kaosmem.retrieval.dense import DenseRanker
from kaosmem.retrieval.linear import LinearRanker
from kaosmem.retrieval.linear_index import LinearIndex
from kaosmem.retrieval.weights import Weights
from kaosmem.sections.spec import SectionSpec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_STEPS = 50
_ENOUGH = 1e-6


@dataclass(frozen=True)
class Lesson:
    """The candidates of one question. signals: shape (n, k), of `names`. answers: shape (n,), shares that sum to 1."""

    corpus: str
    dataset: str
    is_conversation: bool
    names: tuple[str, ...]
    signals: NDArray[np.float64]
    answers: NDArray[np.float64]


def read_lessons(
    corpora: Iterable[Corpus],
    *,
    ranker: LinearRanker | DenseRanker | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> list[Lesson]:
    """Return what can be learned from each question of which some answer is a candidate.

    ranker: whose signals they are; None is a `LinearRanker`.
    progress: called with the name of each corpus when it has been read.
    """
    lessons, spec = [], SectionSpec("items", eviction="none", ranker=ranker or LinearRanker())
    for corpus in corpora:
        lessons += _lessons_of(corpus, spec)
        progress(corpus.name)
    return lessons


def learn_weights(lessons: Sequence[Lesson], *, ridge: float = 0.003) -> Weights:
    """Return the weights under which what answers a question scores highest among its candidates.

    They minimise the cross-entropy between the answers and the softmax of the scores, questions of a data set
    together counting as much as those of any other, plus `ridge` times the squares of the weights, by Newton's method.
    Raises InvalidContentError where there are no lessons.
    Source: Cao et al. 2007, "Learning to rank: from pairwise approach to listwise approach" (ListNet).
    """
    if not lessons:
        raise InvalidContentError("no question has an answer among its candidates; give more questions")
    kinds = {kind: [each for each in lessons if each.is_conversation == kind] for kind in (True, False)}
    models = {kind: _learned(those, ridge) for kind, those in kinds.items() if those}
    either = next(iter(models.values()))
    return Weights(conversation=models.get(True, either), documents=models.get(False, either))


def _lessons_of(corpus: Corpus, spec: SectionSpec) -> list[Lesson]:
    section = SessionAssembler(spec=spec).session(corpus.items)[spec.name]
    with section.index() as index:
        assert isinstance(index, LinearIndex)
        return list(_lessons(corpus, index))


def _lessons(corpus: Corpus, index: LinearIndex) -> Iterator[Lesson]:
    import numpy as np

    place_of = {item.id: place for place, item in enumerate(corpus.items)}
    for question in corpus.questions:
        found = None if question.category in UNSCORED else index.candidates(question.query)
        if found is None:
            continue
        wanted = [place_of[item_id] for item_id in question.evidence_ids]
        answers = np.isin(found.ordinals, wanted).astype(np.float64)
        if answers.any():
            names = tuple(found.signals)
            signals = np.stack([found.signals[name] for name in names], axis=1)
            shares = answers / answers.sum()
            yield Lesson(corpus.name, corpus.dataset, index.is_conversation, names, signals, shares)


def _learned(lessons: Sequence[Lesson], ridge: float) -> Mapping[str, float]:
    import numpy as np

    names = lessons[0].names
    sizes = Counter(lesson.dataset for lesson in lessons)
    shares = [1 / (len(sizes) * sizes[lesson.dataset]) for lesson in lessons]

    def loss(weights: NDArray[np.float64]) -> float:
        found = (lesson.answers @ np.log(_softmax(lesson.signals @ weights) + 1e-300) for lesson in lessons)
        return float(ridge * (weights @ weights) - sum(map(mul, shares, found)))

    weights = np.zeros(len(names))
    least = loss(weights)
    for _ in range(_STEPS):
        slope, curve = 2 * ridge * weights, 2 * ridge * np.eye(len(names))
        for share, lesson in zip(shares, lessons, strict=True):
            chances = _softmax(lesson.signals @ weights)
            mean = chances @ lesson.signals
            slope = slope + share * (mean - lesson.answers @ lesson.signals)
            spread = lesson.signals - mean
            curve = curve + share * (spread.T @ (chances[:, None] * spread))
        step = np.linalg.solve(curve, slope)
        while (after := loss(weights - step)) > least and np.abs(step).max() > _ENOUGH:
            step = step / 2
        weights, least = weights - step, after
        if np.abs(step).max() < _ENOUGH:
            break
    return {name: round(float(weight), 3) for name, weight in zip(names, weights, strict=True)}


def _softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    import numpy as np

    powers = np.exp(scores - scores.max())
    shares: NDArray[np.float64] = powers / powers.sum()
    return shares
