"""Measure how much evidence a budget holds, on items and questions of your own.

    corpora = read_corpora("items.jsonl", "questions.jsonl")
    report = await evaluate(corpora, budgets=[512, 2_048])
    print(report.figures("kaosmem", 512).recall)

evidence      files of items and questions, read and checked
assemblers    the assemblers to compare: kaosmem, recency and BM25 as they are used elsewhere, and your own
measurement   every question of every assembler at every budget
report        outcomes, their figures, a table and a picture
learning      the weights of the default ranker's signals, from questions whose answers are known
"""

from kaosmem.evaluation.assemblers import (
    ASSEMBLERS,
    DENSE,
    STANDARD,
    Assembler,
    ItemLines,
    OrderAssembler,
    Packer,
    Selection,
    SessionAssembler,
    get_assembler,
    standard_assemblers,
)
from kaosmem.evaluation.evidence import (
    Corpus,
    EvidenceItem,
    Question,
    read_corpora,
    read_items,
    read_questions,
    with_keys,
)
from kaosmem.evaluation.learning import Lesson, learn_weights, read_lessons
from kaosmem.evaluation.measurement import DEFAULT_BUDGETS, UNSCORED, check_budgets, evaluate
from kaosmem.evaluation.report import Figures, Outcome, Report, check_plot, save_plot

__all__ = [
    "ASSEMBLERS",
    "DEFAULT_BUDGETS",
    "DENSE",
    "STANDARD",
    "UNSCORED",
    "Assembler",
    "Corpus",
    "EvidenceItem",
    "Figures",
    "ItemLines",
    "Lesson",
    "OrderAssembler",
    "Outcome",
    "Packer",
    "Question",
    "Report",
    "Selection",
    "SessionAssembler",
    "check_budgets",
    "check_plot",
    "evaluate",
    "get_assembler",
    "learn_weights",
    "read_corpora",
    "read_items",
    "read_lessons",
    "read_questions",
    "save_plot",
    "standard_assemblers",
    "with_keys",
]
