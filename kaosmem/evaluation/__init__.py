"""Measure what a budget buys, on items and questions of one's own.

    corpora = read_corpora("items.jsonl", "questions.jsonl")
    report = await evaluate(corpora, budgets=[512, 2_048])
    print(report.figures("kaosmem", 512).recall)

evidence      files of items and questions, read and checked
assemblers    what is compared: kaosmem, recency, rank-bm25, or your own
measurement   every question of every assembler at every budget
report        outcomes and their figures
table, plot   a report to look at
"""

from kaosmem.evaluation.assemblers import (
    Assembler,
    Packer,
    RankBM25Assembler,
    RecencyAssembler,
    Selection,
    SessionAssembler,
    standard_assemblers,
)
from kaosmem.evaluation.evidence import Corpus, EvidenceItem, Question, read_corpora, read_items, read_questions
from kaosmem.evaluation.measurement import DEFAULT_BUDGETS, check_budgets, evaluate
from kaosmem.evaluation.plot import check_plot, save_plot
from kaosmem.evaluation.report import Figures, Outcome, Report

__all__ = [
    "DEFAULT_BUDGETS",
    "Assembler",
    "Corpus",
    "EvidenceItem",
    "Figures",
    "Outcome",
    "Packer",
    "Question",
    "RankBM25Assembler",
    "RecencyAssembler",
    "Report",
    "Selection",
    "SessionAssembler",
    "check_budgets",
    "check_plot",
    "evaluate",
    "read_corpora",
    "read_items",
    "read_questions",
    "save_plot",
    "standard_assemblers",
]
