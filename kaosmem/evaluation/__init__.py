"""Measure how much evidence a budget holds, on items and questions of your own.

    corpora = read_corpora("items.jsonl", "questions.jsonl")
    report = await evaluate(corpora, budgets=[512, 2_048])
    print(report.figures("kaosmem", 512).recall)

evidence      files of items and questions, read and checked
assemblers    the assemblers to compare: kaosmem, recency, rank-bm25, and your own
measurement   every question of every assembler at every budget
report        outcomes, their figures, a table and a picture
"""

from kaosmem.evaluation.assemblers import Assembler, Selection, SessionAssembler
from kaosmem.evaluation.evidence import read_corpora
from kaosmem.evaluation.measurement import evaluate

__all__ = ["Assembler", "Selection", "SessionAssembler", "evaluate", "read_corpora"]
