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

from kaosmem.evaluation.assemblers import (
    Assembler,
    ItemLines,
    OrderAssembler,
    Packer,
    Selection,
    SessionAssembler,
    get_assembler,
)
from kaosmem.evaluation.evidence import Corpus, EvidenceItem, Question, read_corpora, with_keys
from kaosmem.evaluation.learning import learn_weights, read_lessons
from kaosmem.evaluation.measurement import evaluate
from kaosmem.evaluation.report import Report, save_plot

__all__ = [
    "Assembler",
    "Corpus",
    "EvidenceItem",
    "ItemLines",
    "OrderAssembler",
    "Packer",
    "Question",
    "Report",
    "Selection",
    "SessionAssembler",
    "evaluate",
    "get_assembler",
    "learn_weights",
    "read_corpora",
    "read_lessons",
    "save_plot",
    "with_keys",
]
