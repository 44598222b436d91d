"""Measure how much evidence a budget holds, on items and questions of your own.

    corpora = read_corpora("items.jsonl", "questions.jsonl")
    report = await evaluate(corpora, budgets=[512, 2_048])
    print(report.figures("kaosmem", 512).recall)

evidence      files of items and questions, read and checked
assemblers    the assemblers to compare: kaosmem, recency and rank-bm25 as they are used elsewhere,
and your own measurement   every question of every assembler at every budget
report        outcomes, their figures, a table and a picture
learning      the weights of the default ranker's signals, from questions whose answers are known
"""

from kaosmem.evaluation.assemblers import Assembler, Selection
from kaosmem.evaluation.evidence import read_corpora
from kaosmem.evaluation.learning import learn_weights, read_lessons
from kaosmem.evaluation.measurement import evaluate

__all__ = ["Assembler", "Selection", "evaluate", "learn_weights", "read_corpora", "read_lessons"]
