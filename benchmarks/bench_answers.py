"""How well summaries are told from answers that are none: precision and recall on labelled texts.

`python -m benchmarks.bench_answers [--show]` prints a table of both halves, and the mistakes in the
half that the decision was made with. `answers/sources.json` holds eleven conversations in seven
languages. Each line of `answers/tuning.tsv` and `answers/held_out.tsv` is an answer about one of
them: a summary, some in another language than its source, or a refusal, an announcement, an
error's text, a call, half a sentence or a summary of something else. The held-out half was written
before the decision. Its totals were seen while the decision was made, not its mistakes. This
project's authors wrote all.

Precision is the share of the texts taken that are summaries, recall the share of the summaries
that are taken.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from kaosmem import InvalidArgumentError
from kaosmem.compaction.answers import check_answer, whole_part

HALVES = ("tuning", "held_out")
FOLDER = Path(__file__).parent / "answers"


class Answer(NamedTuple):
    """A labelled answer about a conversation."""

    source: str
    is_summary: bool
    text: str


class Figures(NamedTuple):
    """Precision and recall, 0 to 1."""

    precision: float
    recall: float


def sources() -> dict[str, str]:
    """Return the conversations by name."""
    found: dict[str, str] = json.loads((FOLDER / "sources.json").read_text(encoding="utf-8"))
    return found


def answers(half: str) -> list[Answer]:
    """Return the labelled answers of a half."""
    found = []
    for line in (FOLDER / f"{half}.tsv").read_text(encoding="utf-8").splitlines():
        source, kind, text = line.split("\t")
        found.append(Answer(source, kind == "good", text.replace("\\n", "\n")))
    return found


def is_taken(text: str, source: str) -> bool:
    """Return whether a text is taken as a summary of a conversation, and whole."""
    try:
        check_answer(text, source)
    except InvalidArgumentError:
        return False
    return whole_part(text) == text


def figures(given: Sequence[Answer]) -> Figures:
    """Return how well some answers are told."""
    said = sources()
    taken = [answer for answer in given if is_taken(answer.text, said[answer.source])]
    right = sum(answer.is_summary for answer in taken)
    summaries = sum(answer.is_summary for answer in given)
    return Figures(right / max(1, len(taken)), right / max(1, summaries))


def test_summaries_are_told_from_other_answers() -> None:
    """In each half, as well as when the decision was made."""
    found = figures(answers("tuning"))
    assert found.precision >= 0.97
    assert found.recall >= 0.97
    found = figures(answers("held_out"))
    assert found.precision >= 0.9
    assert found.recall >= 0.9


def test_no_answer_is_in_two_halves() -> None:
    """A held-out answer is in no other half."""
    texts = [answer.text for half in HALVES for answer in answers(half)]
    assert len(texts) == len(set(texts))


def main(arguments: Sequence[str] | None = None) -> None:
    """Print precision and recall of both halves."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_answers")
    parser.add_argument("--show", action="store_true", help="print the mistakes in the tuning half")
    options = parser.parse_args(arguments)
    for half in HALVES:
        given = answers(half)
        found = figures(given)
        good = sum(answer.is_summary for answer in given)
        print(
            f"{half:9} {good} summaries, {len(given) - good} others: "
            f"precision {found.precision:.3f}, recall {found.recall:.3f}"
        )
    said = sources()
    for answer in answers("tuning"):
        is_wrong = is_taken(answer.text, said[answer.source]) != answer.is_summary
        if options.show and is_wrong:
            mistake = "missed" if answer.is_summary else "wrong"
            print(f"{mistake}: {answer.source}: {answer.text!r}")


if __name__ == "__main__":
    main()
