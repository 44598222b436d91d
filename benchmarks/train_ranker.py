"""Learn what the default ranker's signals weigh, and measure it on corpora that it was not learned from.

    KAOSMEM_DATA=FOLDERS python -m benchmarks.train_ranker --validate --save kaosmem/retrieval/weights.json
    KAOSMEM_DATA=FOLDERS python -m benchmarks.train_ranker --dense --save kaosmem/retrieval/weights_dense.json
    KAOSMEM_DATA=FOLDERS python -m benchmarks.train_ranker --all kaosmem/retrieval

FOLDERS are folders as of `benchmarks.evidence_recall`, with `:` between them (`;` on Windows). Without `--save` the
weights are printed. `--validate` leaves each data set out in turn: it learns weights from the others, measures kaosmem
with them on that set, and compares with BM25 alone, also by category; `--parts` does so without each group of
signals in turn, at 2,048 tokens, which shows what it brings, and tells how long it takes. `--dense` does all that for
`DenseRanker`, and `--embedder module:class` with another embedder than its own; each text is embedded once. `--all`
learns every file of weights that comes with kaosmem, in a few minutes of two cores: it embeds the smaller corpora
alone. It prints how far the weights are from those that come with kaosmem.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from cProfile import Profile
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from pstats import Stats

import numpy as np
from numpy.typing import NDArray

from benchmarks.learning import Lesson, learn_weights, read_lessons
from kaosmem import BM25Ranker, DenseRanker, Embedder, LinearRanker, SectionSpec
from kaosmem.cli.measuring import print_report
from kaosmem.cli.terminal import ProgressLine
from kaosmem.evaluation import evaluate, read_corpora
from kaosmem.evaluation.assemblers import Packer, SessionAssembler
from kaosmem.evaluation.evidence import Corpus, EvidenceItem
from kaosmem.evaluation.measurement import DEFAULT_BUDGETS
from kaosmem.evaluation.report import Report
from kaosmem.retrieval.rankers import Weights, default_weights

SPEC = SectionSpec("items", eviction="none")


PARTS = {
    "source": ("source", "clause_and_source", "best_of_source", "clause_in_source"),
    "source's name": ("title", "title_share", "title_and_share"),
    "last clause": (
        "clause",
        "clause_and_source",
        "clause_in_source",
        "clause_meaning",
        "nearby_clause",
    ),
    "meaning": ("meaning", "clause_meaning", "nearby_meaning"),
    "phrases": ("phrases",),
    "neighbours": ("next_words", "nearby_words", "nearby_clause", "nearby_meaning"),
    "numbers": ("asked_numbers",),
    "speaker": ("assistant", "named_speaker"),
    "rules": ("rule",),
    "size": ("size",),
}
STEPS = {
    "source": ("_content_scores", "best_of_source", "place_in_source"),
    "source's name": ("_title_terms", "_match_titles", "title_shares"),
    "meaning": ("_meanings",),
    "topic": ("_topics",),
    "phrases": ("phrase_shares",),
    "neighbours": ("_with_others", "neighbours"),
    "speaker": ("_spoken",),
    "passage": ("passage_scores",),
    "all": ("rank",),
}
"""The functions in which the time of a part goes; a constructor is named by its file."""
LINEAR_PARTS = {"topic": ("topic",)}
DENSE_PARTS = {
    "likeness": (
        "likeness",
        "likeness_in_source",
        "likeness_of_source",
        "nearby_likeness",
        "further_likeness",
    ),
    "source's likeness": ("likeness_in_source", "likeness_of_source"),
    "neighbours' likeness": ("nearby_likeness", "further_likeness"),
}


FILES = {
    "weights.json": None,
    "weights_dense.json": "kaosmem.retrieval.embedders:MiniLMEmbedder",
}
"""The files of weights that come with kaosmem, with the embedder that each is learned with."""
MOST_TEXTS = 1_600
"""So many texts of a data set are embedded to learn the weights of `DenseRanker`."""


class Remembering:
    """An embedder that embeds no text twice."""

    def __init__(self, embedder: Embedder) -> None:
        self.name = embedder.name
        self.dimensions = embedder.dimensions
        self._embedder = embedder
        self._known: dict[str, NDArray[np.float32]] = {}

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of texts."""
        if new := [text for text in dict.fromkeys(texts) if text not in self._known]:
            self._known |= zip(new, self._embedder.embed(new), strict=True)
        return np.stack([self._known[text] for text in texts])

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of questions."""
        return self._embedder.embed_queries(texts)


@dataclass(frozen=True)
class HeldOut:
    """kaosmem, its weights for each corpus learned from the other data sets.

    weights: by the first item of a corpus.
    """

    ranker: LinearRanker | DenseRanker
    weights: dict[EvidenceItem, Weights]
    name: str = "held out"

    def load(self, items: Sequence[EvidenceItem]) -> Packer:
        """Load the items into a session with the weights that know nothing of them."""
        ranker = replace(self.ranker, weights=self.weights[items[0]])
        return SessionAssembler(self.name, spec=replace(SPEC, ranker=ranker)).load(items)


def held_out(
    ranker: LinearRanker | DenseRanker,
    corpora: Sequence[Corpus],
    lessons: Sequence[Lesson],
    name: str = "held out",
) -> HeldOut:
    """Return kaosmem with weights for each corpus that were learned from the other data sets of its kind.

    Where there is one data set, they are learned from its other corpora.
    """
    is_one = len({corpus.dataset for corpus in corpora}) == 1

    @cache
    def learned(left_out: str, *, kind: bool) -> Weights:
        others = [each for each in lessons if (each.corpus if is_one else each.dataset) != left_out]
        return learn_weights([each for each in others if each.is_conversation == kind] or others)

    def weights(corpus: Corpus) -> Weights:
        kind = len({item.role for item in corpus.items}) > 1
        return learned(corpus.name if is_one else corpus.dataset, kind=kind)

    return HeldOut(ranker, {corpus.items[0]: weights(corpus) for corpus in corpora}, name)


def without(lessons: Sequence[Lesson], signals: Collection[str]) -> list[Lesson]:
    """Return lessons that lack some signals."""

    def kept(lesson: Lesson) -> Lesson:
        left = {name: lesson.signals[name] for name in lesson.signals if name not in signals}
        return replace(lesson, signals=left)

    return list(map(kept, lessons))


async def validated(
    ranker: LinearRanker | DenseRanker,
    corpora: Sequence[Corpus],
    lessons: Sequence[Lesson],
    *,
    parts: bool,
) -> Report:
    """Return what kaosmem makes of each corpus with weights learned from the others."""
    with ProgressLine(per_second=1) as phases:
        phases.begin("learning")
        assemblers = [held_out(ranker, corpora, lessons)]
        of_ranker = PARTS | (DENSE_PARTS if isinstance(ranker, DenseRanker) else LINEAR_PARTS)
        if parts:
            for name, signals in of_ranker.items():
                assemblers.append(
                    held_out(ranker, corpora, without(lessons, signals), f"without {name}")
                )
        bm25 = SessionAssembler("BM25 alone", spec=replace(SPEC, ranker=BM25Ranker()))
        budgets = DEFAULT_BUDGETS[1:2] if parts else DEFAULT_BUDGETS
        return await evaluate(
            corpora, assemblers=[*assemblers, bm25], budgets=budgets, progress=phases.show
        )


def costs(
    ranker: LinearRanker | DenseRanker, corpora: Sequence[Corpus], *, questions: int = 20
) -> dict[str, float]:
    """Return the milliseconds of a ranking that each of STEPS takes, as the profiler sees it.

    questions: of each corpus at most.
    """
    profiler = Profile()
    asked = 0
    spec = replace(SPEC, ranker=ranker)
    for corpus in corpora:
        with SessionAssembler(spec=spec).session(corpus.items)[spec.name].index.asked() as index:
            for question in corpus.questions[:questions]:
                profiler.runcall(index.rank, question.query, 50)
                asked += 1
    spent: Counter[str] = Counter()
    for (file, _, name), (_, _, _, seconds, _) in Stats(profiler).stats.items():
        spent[Path(file).stem if name == "__init__" else name] += seconds
    return {
        part: 1_000 * sum(spent[name] for name in names) / max(1, asked)
        for part, names in STEPS.items()
    }


def dense_ranker(embedder: str | None) -> DenseRanker:
    """Return a ranker with an embedder of that name, or its own."""
    module, _, name = (embedder or "kaosmem.retrieval.embedders:MiniLMEmbedder").partition(":")
    return DenseRanker(embedder=Remembering(getattr(import_module(module), name)()))


def few_texts(corpora: Sequence[Corpus]) -> list[Corpus]:
    """Return the smallest corpora of each data set, with at most MOST_TEXTS texts in all.

    An embedder takes a minute for some thousand texts. A data set whose smallest corpus is larger
    is left out.
    """
    kept = []
    texts: Counter[str] = Counter()
    for corpus in sorted(corpora, key=lambda each: len(each.items)):
        size = texts[corpus.dataset] + len(corpus.items)
        if size <= MOST_TEXTS:
            texts[corpus.dataset] = size
            kept.append(corpus)
    return kept


def learn_all(corpora: Sequence[Corpus], folder: Path) -> None:
    """Learn every file of FILES from corpora, save them in a folder, and print how near they are."""
    for file, embedder in FILES.items():
        shipped = default_weights(file)
        ranker = LinearRanker() if embedder is None else dense_ranker(embedder)
        read = corpora if embedder is None else few_texts(corpora)
        with ProgressLine(per_second=1) as phases:
            phases.begin(f"learning {file}")
            learned = learn_weights(read_lessons(read, ranker=ranker))
        (folder / file).write_text(learned.to_json(), encoding="utf-8")
        for line in differences(learned, shipped):
            print(f"{file}: {line}")


def differences(learned: Weights, shipped: Weights) -> Iterator[str]:
    """Yield how far the learned weights of each kind are from those that come with kaosmem."""
    for kind in asdict(shipped):
        ours = getattr(learned, kind)
        known = getattr(shipped, kind)
        far = {name: abs(ours.get(name, 0.0) - known.get(name, 0.0)) for name in {**known, **ours}}
        most = max(far, key=far.__getitem__)
        same = sum(each <= 0.001 for each in far.values())
        yield (
            f"{kind}: {same} of {len(far)} weights within .001, "
            f"the farthest is {most!r} by {far[most]:.3f}"
        )


def main(arguments: Sequence[str] | None = None) -> None:
    """Learn, and print or save what was learned."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.train_ranker", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--data", metavar="FOLDERS", default=os.environ.get("KAOSMEM_DATA"))
    parser.add_argument(
        "--save", metavar="FILE", type=Path, help="of JSON; without it the weights are printed"
    )
    parser.add_argument(
        "--all", metavar="FOLDER", type=Path, help="save every file of weights in a folder"
    )
    parser.add_argument("--validate", action="store_true")
    parser.add_argument("--parts", action="store_true")
    parser.add_argument("--dense", action="store_true", help="of DenseRanker")
    parser.add_argument("--embedder", metavar="MODULE:CLASS", help="for --dense")
    options = parser.parse_args(arguments)
    if not options.data:
        parser.error("no data: give --data FOLDERS, or set KAOSMEM_DATA")
    corpora = tuple(
        corpus for folder in options.data.split(os.pathsep) for corpus in read_corpora(folder)
    )
    if options.all:
        learn_all(corpora, options.all)
        return
    with ProgressLine(per_second=1) as phases:
        phases.begin("reading what each question can be answered from")
        ranker = dense_ranker(options.embedder) if options.dense else LinearRanker()
        lessons = read_lessons(corpora, ranker=ranker)
    learned = learn_weights(lessons).to_json()
    if options.save:
        options.save.write_text(learned, encoding="utf-8")
    else:
        print(learned, end="")
    if options.validate or options.parts:
        print_report(asyncio.run(validated(ranker, corpora, lessons, parts=options.parts)))
    if options.parts:
        print(
            "of a ranking, in ms: "
            + ", ".join(f"{part} {each:.2f}" for part, each in costs(ranker, corpora).items())
        )


if __name__ == "__main__":
    main()
