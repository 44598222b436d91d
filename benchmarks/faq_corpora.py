"""Make corpora of questions that name no document, from documentation whose headings are questions.

    apt-get download debian-faq debian-faq-de python3.11-doc python-django-doc apache2-doc
    for package in *.deb; do dpkg -x $package unpacked; done
    python -m benchmarks.faq_corpora OUT faq-debian=unpacked/usr/share/doc/debian/FAQ ...

`train_ranker` and `evidence_recall` read OUT. Each argument names a data set and a folder of HTML pages. A heading
that ends in a question mark is a question, and the passages under it are its evidence. The heading itself is taken
out of them, and out of all lists of headings: it answers nothing, and readers ask in words of their own.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from kaosmem import SectionSpec, SessionMemory
from kaosmem.evaluation.evidence import ITEMS_SUFFIX, QUESTIONS_SUFFIX
from kaosmem.types.items import Item

NO_PAGES = ("genindex*", "py-modindex*", "search*", "_sources/**", "whatsnew/**", "releases/**")
_NUMBER = re.compile(r"^(?:[^\W\d]+ )?[\d.]+\s+")
_MARK = re.compile(r"[?？]\s*¶?$")


async def passages_of(folder: Path) -> list[Item]:
    """Return the passages of the pages in a folder."""
    section = SectionSpec("documents", 100_000_000, eviction="none")
    memory = SessionMemory.test_mode(sections=[section], counter="estimate")
    await memory.ingest(folder, include=["*.html", "**/*.html"], exclude=NO_PAGES)
    return list(memory["documents"])


def asked_by(passage: Item) -> str:
    """Return the question that the heading of a passage asks, "" for none."""
    heading = str(passage.metadata.get("heading", ""))
    return _NUMBER.sub("", heading).rstrip("¶ ") if _MARK.search(heading) else ""


def without(text: str, questions: Iterable[str]) -> str:
    """Return a text without the questions that it lists."""
    for question in questions:
        text = text.replace(question, "")
    return text


def lines_of(passages: Sequence[Item]) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    """Return the items and the questions of a corpus."""
    items: list[dict[str, object]] = []
    evidence: dict[str, list[str]] = {}
    for passage in passages:
        question = asked_by(passage)
        if question:
            evidence.setdefault(question, []).append(passage.id)
    for passage in passages:
        text = passage.text
        if asked_by(passage) and text.startswith("#"):
            _, _, text = text.partition("\n\n")
        text = without(text, evidence)
        if text.strip():
            source = passage.metadata["source"]
            items.append({"id": passage.id, "text": text, "session": source})
    kept = {item["id"] for item in items}
    questions: list[dict[str, object]] = []
    for number, (question, ids) in enumerate(evidence.items(), 1):
        found = [each for each in ids if each in kept]
        questions.append({"id": f"q{number}", "query": question, "evidence_ids": found})
    return items, questions


def save(file: Path, lines: Iterable[dict[str, object]]) -> None:
    """Write a file of JSON lines."""
    texts = [json.dumps(line, ensure_ascii=False) + "\n" for line in lines]
    file.write_text("".join(texts), encoding="utf-8")


def main(arguments: Sequence[str]) -> None:
    """Write the corpora of folders, and print their sizes."""
    out = Path(arguments[0])
    for number, argument in enumerate(arguments[1:], 1):
        dataset, _, folder = argument.partition("=")
        items, questions = lines_of(asyncio.run(passages_of(Path(folder))))
        place = out / dataset
        place.mkdir(parents=True, exist_ok=True)
        save(place / f"{number}{ITEMS_SUFFIX}", items)
        save(place / f"{number}{QUESTIONS_SUFFIX}", questions)
        print(f"{dataset} {folder}: {len(items):,} passages, {len(questions)} questions")


if __name__ == "__main__":
    main(sys.argv[1:])
