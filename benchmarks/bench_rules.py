"""How well standing rules are recognised: precision and recall on labelled sentences in six languages.

`python -m benchmarks.bench_rules` prints a table of all parts. The patterns were written with
`tuning.tsv` in view. `held_out.tsv` was written before them. Nobody has looked at its sentences
since, only at its figures, while the patterns changed: these are the figures to quote.
`second_held_out.tsv` was written before the last change by the author of that change. Its figures
say how well the patterns cover the sentences that their author thinks of, which is less.
The held-out parts have rules and near misses in equal numbers. This project's authors wrote all.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from kaosmem.language.rules import rules_in

HALVES = ("tuning", "held_out", "second_held_out")
FOLDER = Path(__file__).parent / "rules"


class Sentence(NamedTuple):
    """A labelled sentence."""

    language: str
    is_rule: bool
    text: str


class Figures(NamedTuple):
    """Precision and recall, 0 to 1."""

    precision: float
    recall: float


def sentences(half: str) -> list[Sentence]:
    """Return the labelled sentences of a half."""
    found = []
    for line in (FOLDER / f"{half}.tsv").read_text(encoding="utf-8").splitlines():
        language, kind, text = line.split("\t")
        found.append(Sentence(language, kind == "rule", text))
    return found


def is_recognised(sentence: Sentence) -> bool:
    """Return whether a sentence is taken for a rule."""
    return any(rules_in(sentence.text))


def figures(given: list[Sentence]) -> Figures:
    """Return how well some sentences are recognised."""
    taken = [sentence for sentence in given if is_recognised(sentence)]
    right = sum(sentence.is_rule for sentence in taken)
    rules = sum(sentence.is_rule for sentence in given)
    return Figures(right / max(1, len(taken)), right / max(1, rules))


def test_standing_rules_are_recognised() -> None:
    """In each part, as well as when the patterns were last changed."""
    found = figures(sentences("tuning"))
    assert found.precision >= 0.98
    assert found.recall >= 0.97
    found = figures(sentences("held_out"))
    assert found.precision >= 0.908
    assert found.recall >= 0.872
    found = figures(sentences("second_held_out"))
    assert found.precision >= 0.98
    assert found.recall >= 0.97


def test_no_sentence_is_in_two_parts() -> None:
    """A held-out sentence is in no other part."""
    texts = [each.text for half in HALVES for each in sentences(half)]
    assert len(texts) == len(set(texts))


def main() -> None:
    """Print precision and recall of all parts, by language."""
    print(f"{'language':12}" + "".join(f"{half:>17}" for half in HALVES))
    for language in (*sorted({each.language for each in sentences("tuning")}), "all"):
        row = ""
        for half in HALVES:
            given = [each for each in sentences(half) if language in ("all", each.language)]
            found = figures(given)
            row += f"{found.precision:>10.2f}{found.recall:>7.2f}"
        print(f"{language:12}{row}")


if __name__ == "__main__":
    main()
