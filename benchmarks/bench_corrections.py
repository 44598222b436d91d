"""How well corrections are told from records of one pattern: precision and recall on labelled pairs of texts.

    python -m benchmarks.bench_corrections [--show]

`correction_pairs.jsonl` holds lines `{kind, corrects, earlier, later}`: two texts of one speaker, and whether the later
one gives the subject of the earlier one another value. Eight kinds hold records of one pattern about different
subjects. The pairs of the kinds "held out" were written after the rules.
Precision is the share of the pairs found that are corrections, recall the share of the corrections that are found.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from kaosmem import Item
from kaosmem.language.corrections import Corrections

PAIRS = Path(__file__).with_name("correction_pairs.jsonl")


class Pair(NamedTuple):
    """Two texts, and whether the later one corrects the earlier one."""

    kind: str
    corrects: bool
    earlier: str
    later: str


class Figures(NamedTuple):
    """Precision and recall over all pairs."""

    precision: float
    recall: float


def labelled_pairs() -> list[Pair]:
    """Return the labelled pairs."""
    return [Pair(**json.loads(line)) for line in PAIRS.read_text(encoding="utf-8").splitlines()]


def is_found(pair: Pair) -> bool:
    """Return whether the later text of a pair is taken for a correction of the earlier one."""
    items = {}
    for place, text in enumerate((pair.earlier, pair.later)):
        items[place] = Item(
            str(place), "findings", "user", text, 1, datetime(2026, 1, 1, tzinfo=UTC)
        )
    return Corrections(items).of(0) == (1,)


def measured(pairs: Sequence[Pair]) -> Figures:
    """Return the figures of some pairs."""
    found = [pair for pair in pairs if is_found(pair)]
    right = sum(pair.corrects for pair in found)
    return Figures(right / max(1, len(found)), right / sum(pair.corrects for pair in pairs))


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the figures, and by kind how many pairs are taken for corrections."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_corrections")
    parser.add_argument(
        "--show", action="store_true", help="print the pairs that are judged wrongly"
    )
    options = parser.parse_args(arguments)
    pairs = labelled_pairs()
    figures = measured(pairs)
    all_of = Counter(pair.kind for pair in pairs)
    found_of = Counter(pair.kind for pair in pairs if is_found(pair))
    for kind, count in all_of.items():
        print(f"{kind:12} {count:>4} pairs, {found_of[kind]:>4} taken for corrections")
    print(f"precision {figures.precision:.3f}, recall {figures.recall:.3f}")
    for pair in pairs:
        if options.show and is_found(pair) != pair.corrects:
            print(f"{'missed' if pair.corrects else 'wrong'}: {pair.earlier} / {pair.later}")


if __name__ == "__main__":
    main()
