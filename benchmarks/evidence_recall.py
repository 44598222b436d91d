"""How much of the evidence gets into a budget: kaosmem, baselines and your own, without a model in the loop.

    KAOSMEM_DATA=FOLDER python -m benchmarks.evidence_recall --plot recall.png --json recall.json

FOLDER holds a folder for each data set, with `<corpus>.items.jsonl`, lines `{id, session, timestamp, role, text}` in
order, and `<corpus>.questions.jsonl`, lines `{id, query, evidence_ids, category}`. A question's recall is the share of
its evidence that is in the context, 0 if that is over its budget or holds an unknown item or one twice. A data set's is
the mean over all its questions but the `adversarial` ones, the headline the unweighted mean over data sets. Framing is
the share of a context that is not the texts of its items. Nothing is shared between budgets, as that would hide time.

To compare your own, save this as `mine.py`, and add `--assembler mine:Longest --assembler kaosmem`:

    from kaosmem.evaluation.assemblers import ItemLines

    class Longest:
        name = "longest"

        def load(self, items):
            lines = ItemLines(items)  # one line "{role}: {text}" each; or lay them out yourself, and return a Selection
            longest = sorted(range(len(items)), key=lambda place: -len(items[place].text))
            async def pack(query, budget):
                return lines.take_fitting(longest, budget)
            return pack
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from pkgutil import resolve_name

import numpy as np

from kaosmem.cli.measuring import print_report
from kaosmem.cli.terminal import ProgressLine
from kaosmem.errors import KaosmemError
from kaosmem.evaluation import evaluate, read_corpora
from kaosmem.evaluation.assemblers import (
    ASSEMBLERS,
    RANKER_ASSEMBLERS,
    Assembler,
    Order,
    OrderAssembler,
    best_first,
    by_rank_bm25,
    get_assembler,
)
from kaosmem.evaluation.evidence import EvidenceItem
from kaosmem.evaluation.measurement import DEFAULT_BUDGETS
from kaosmem.evaluation.report import check_plot, save_plot


def newest_of_best(items: Sequence[EvidenceItem], *, best: int = 50) -> Order:
    """Return the order of the newest first, of as many items as rank-bm25 finds best.

    So the oldest drop out.
    """
    order = by_rank_bm25(items)
    return lambda query: sorted(order(query)[:best], reverse=True)


def by_bm25s(items: Sequence[EvidenceItem]) -> Order:
    """Return the order of scores by `bm25s.BM25` with its own tokenizer."""
    import bm25s

    def terms(texts: list[str]) -> list[list[str]]:
        return bm25s.tokenize(texts, return_ids=False, show_progress=False)

    of_items = terms([item.text for item in items])
    model = bm25s.BM25()
    if any(of_items):
        model.index(of_items, show_progress=False)

    def order(query: str) -> list[int]:
        (asked,) = terms([query])
        if not asked or not any(of_items):
            return best_first(np.zeros(len(items)))
        return best_first(model.get_scores(asked))

    return order


OLDEST_OUT = OrderAssembler("oldest-out", newest_of_best, skips=False)
BM25S = OrderAssembler("bm25s", by_bm25s)
COMPARED = (
    *ASSEMBLERS,
    "benchmarks.evidence_recall:OLDEST_OUT",
    "benchmarks.evidence_recall:BM25S",
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print tables, and save what is asked for."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if not options.data:
        parser.error("no data: give --data FOLDER, or set KAOSMEM_DATA")
    for path in filter(None, (options.plot, options.json)):
        if not path.absolute().parent.is_dir():
            parser.error(f"there is no folder {str(path.parent)!r}; make it first")
    started = time.perf_counter()
    try:
        if options.plot:
            check_plot(options.plot)
        assemblers = [assembler_named(name) for name in options.assembler or COMPARED]
        with ProgressLine(per_second=1) as phases:  # drawing must not show in the times
            phases.begin("reading items and questions")
            corpora = read_corpora(options.data, datasets=options.datasets)
            phases.begin("measuring contexts")
            evaluating = evaluate(
                corpora,
                budgets=options.budgets,
                assemblers=assemblers,
                progress=phases.show,
            )
            report = asyncio.run(evaluating)
        if options.plot:
            save_plot(report, options.plot)
    except KaosmemError as error:
        parser.error(str(error))
    seconds = time.perf_counter() - started
    if options.json:
        options.json.write_text(
            json.dumps(report.to_dict(), ensure_ascii=False) + "\n", encoding="utf-8"
        )
    print_report(report)
    print(f"\n{seconds:.0f} s in all")


def assembler_named(name: str) -> Assembler:
    """Return an assembler by its name, or by its `module:attribute`."""
    if ":" not in name:
        return get_assembler(name)
    found = resolve_name(name)
    made: Assembler = found() if isinstance(found, type) else found
    return made


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.evidence_recall", description=__doc__.split("\n")[0]
    )
    add = parser.add_argument
    add(
        "--data",
        metavar="FOLDER",
        default=os.environ.get("KAOSMEM_DATA"),
        help="by default KAOSMEM_DATA",
    )
    add("--datasets", metavar="NAME,...", type=names, default=(), help="only these")
    add(
        "--budgets",
        metavar="TOKENS,...",
        type=budgets,
        default=DEFAULT_BUDGETS,
        help="by default 512,2048,8192",
    )
    add(
        "--assembler",
        metavar="NAME",
        action="append",
        help=f"only this one: {', '.join((*COMPARED, *RANKER_ASSEMBLERS))}, or your own as "
        "module:attribute; can be repeated",
    )
    add(
        "--plot",
        metavar="FILE",
        type=Path,
        help="draw recall to a .png, .svg or .pdf (extra plot)",
    )
    add("--json", metavar="FILE", type=Path, help="save the figures and every outcome")
    return parser


def names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def budgets(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


if __name__ == "__main__":
    main()
