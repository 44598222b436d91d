"""How well questions find their passage in seven languages: the default ranking beside BM25.

`python -m benchmarks.bench_languages` prints, for each language, the share of questions whose
passage comes first, and the share whose passage is among the best three. The passages of all
languages stand in one section, so that a language is also told from the others. Each file of
`benchmarks/languages` has passages (`P`) and questions with the number of their passage (`Q`). Every
second question is held out: rules are written with the others in view, and the held-out figures are
the ones to quote. This project's authors wrote all sentences.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from kaosmem import BM25Ranker, LinearRanker, SectionSpec, SessionMemory
from kaosmem.retrieval.ranker import Ranker

FOLDER = Path(__file__).parent / "languages"
RANKERS: dict[str, Ranker] = {"default": LinearRanker(), "BM25": BM25Ranker()}


class Question(NamedTuple):
    """A question. passage: the id of the item that answers it."""

    language: str
    text: str
    passage: str
    is_held_out: bool


class Share(NamedTuple):
    """Shares of the questions, 0 to 1: the passage is the best one, or among the best three."""

    first: float
    among_three: float


def read() -> tuple[dict[str, str], list[Question]]:
    """Return the passages by id, and the questions."""
    passages: dict[str, str] = {}
    questions: list[Question] = []
    for file in sorted(FOLDER.glob("*.txt")):
        number = 0
        asked = 0
        for line in file.read_text(encoding="utf-8").splitlines():
            kind, _, rest = line.partition(" ")
            if kind == "P":
                number += 1
                passages[f"{file.stem}-{number}"] = rest
                continue
            passage, _, text = rest.partition(" ")
            asked += 1
            is_held_out = asked % 2 == 0
            questions.append(Question(file.stem, text, f"{file.stem}-{passage}", is_held_out))
    return passages, questions


def measure(ranker: Ranker, *, held_out: bool) -> dict[str, Share]:
    """Return the shares by language, for one half of the questions."""
    passages, questions = read()
    memory = SessionMemory.test_mode(sections=[SectionSpec("documents", ranker=ranker)])
    for item_id, text in passages.items():
        memory.add("documents", text, id=item_id)
    places: dict[str, list[int]] = {}
    for question in questions:
        if question.is_held_out != held_out:
            continue
        found = [hit.item.id for hit in memory.search(question.text, limit=3)]
        place = found.index(question.passage) if question.passage in found else 3
        places.setdefault(question.language, []).append(place)
    return {
        language: Share(each.count(0) / len(each), sum(at < 3 for at in each) / len(each))
        for language, each in places.items()
    }


def main() -> None:
    """Print a table for each half."""
    for held_out in (False, True):
        print("held out" if held_out else "tuning")
        shares = {name: measure(ranker, held_out=held_out) for name, ranker in RANKERS.items()}
        for language in shares["BM25"]:
            row = [
                f"{name} {each[language].first:.2f} {each[language].among_three:.2f}"
                for name, each in shares.items()
            ]
            print(f"  {language}  {'   '.join(row)}")


def test_no_language_is_behind_bm25() -> None:
    """Of the questions that are held out, the default finds as many as BM25, in each language."""
    default = measure(LinearRanker(), held_out=True)
    for language, of_bm25 in measure(BM25Ranker(), held_out=True).items():
        assert default[language].first >= of_bm25.first
        assert default[language].among_three >= of_bm25.among_three


if __name__ == "__main__":
    main()
