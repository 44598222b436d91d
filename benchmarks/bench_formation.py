"""What formed memory gains: evidence, recovered facts and junk, without a model and without a judge.

    KAOSMEM_DATA=FOLDER python -m benchmarks.bench_formation [--sets statebench memorycode]

FOLDER holds data sets as `benchmarks.evidence_recall` reads them. `PatternFormer` forms each corpus. A question is
then asked three times: of the words alone, of the formed items alone, and of both. A piece of evidence counts as shown
if it is shown itself, or an item that was formed from it.

- recovered: share of the evidence items from which something was formed. With a large part of it in the words of
  assistants, which form nothing, it is far from 1.
- junk: share of the formed items that no gold fact supports. A gold fact is evidence, also superseded, of a question of
  the set, or a statement that a reader labelled as lasting (`unsupported.jsonl`). The labels of a set count for all of
  its items that no question supports.
- junk by questions alone: the same without the labels. It is an upper bound, and mostly true statements: half of the
  questions are held back, and no set asks for all that is true in it.
- stale: share of the questions with superseded evidence that show it without its replacement.
- wrongly retired: share of the live evidence whose formed item was superseded. Wrongly kept: share of the superseded
  evidence whose formed item is live beside that of its replacement.

Without data, the labelled sentences alone are measured: precision and recall of `PatternFormer`, by half.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from kaosmem import Item, SectionSpec, SessionMemory, Trust
from kaosmem.evaluation.assemblers import SECTION
from kaosmem.evaluation.evidence import EvidenceItem, Question, read_corpora
from kaosmem.formation import FormsFrom, PatternFormer

SENTENCES = Path(__file__).parent / "formation" / "sentences.jsonl"
UNSUPPORTED = SENTENCES.with_name("unsupported.jsonl")
SETS = ("statebench", "memorycode", "realmem", "locomo")
BUDGETS = (512, 2_048, 8_192)
DIGEST_CHARS = 12
ARMS = ("words", "formed", "both")
FACTS = SectionSpec("facts", None, eviction="none", persistence="none")
"""Formed facts have the room that the words leave."""
RULES = replace(FACTS, name="rules", min_score=0.1)
"""Formed rules have the share of a window that `--floor` reserves, if they match the question.

The rest of the window, and what they leave, is for the words.
"""
FORMED = (FACTS.name, RULES.name)


@dataclass(frozen=True)
class Sentence:
    """A labelled sentence: whether it states lasting knowledge of the speaker's own."""

    role: str
    text: str
    half: str
    is_lasting: bool


def labelled_sentences() -> list[Sentence]:
    """Return the labelled sentences whose text may be passed on."""
    found = []
    for line in SENTENCES.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if "text" in row:
            found.append(Sentence(row["role"], row["text"], row["half"], row["lasting"]))
    return found


def labels_of(name: str, corpus: str) -> dict[str, bool]:
    """Return whether labelled formed items of a corpus state something lasting, by their digests."""
    found = {}
    for line in UNSUPPORTED.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if (row["set"], row["corpus"]) == (name, corpus):
            found[row["digest"]] = row["lasting"]
    return found


async def is_formed(sentence: Sentence) -> bool:
    """Return whether the PatternFormer forms a sentence."""
    trust = Trust.USER if sentence.role == "user" else Trust.MODEL
    at = datetime(2024, 1, 1, tzinfo=UTC)
    item = Item("s", "messages", sentence.role, sentence.text, 1, at, trust=trust)
    return bool((await PatternFormer().propose([item], [])).changes)


async def precision_and_recall(sentences: Iterable[Sentence]) -> tuple[float, float]:
    """Return the precision and the recall of the PatternFormer on labelled sentences."""
    formed = right = lasting = 0
    for sentence in sentences:
        lasting += sentence.is_lasting
        if await is_formed(sentence):
            formed += 1
            right += sentence.is_lasting
    return right / max(1, formed), right / max(1, lasting)


@dataclass
class Figures:
    """The sums over one data set.

    Attributes:
        shown: By arm and budget, the share of the evidence shown, one number a question.
        alone: By arm and budget, whether superseded evidence is shown alone, one number a question.
    """

    shown: dict[tuple[str, int], list[float]] = field(default_factory=dict)
    alone: dict[tuple[str, int], list[bool]] = field(default_factory=dict)
    formed: int = 0
    unsupported: int = 0
    labelled: int = 0
    not_lasting: int = 0
    evidence: int = 0
    recovered: int = 0
    current: int = 0
    wrongly_retired: int = 0
    superseded: int = 0
    wrongly_kept: int = 0
    messages: int = 0
    seconds: float = 0.0

    def recall(self, arm: str, budget: int) -> float:
        """Return the mean share of the evidence that an arm shows in a budget."""
        return _mean(self.shown[arm, budget])

    def behind(self) -> list[int]:
        """Return the budgets in which both show less than the words alone."""
        return [each for each in BUDGETS if self.recall("both", each) < self.recall("words", each)]

    @property
    def junk_by_questions(self) -> float:
        """Return the share of the formed items that no question supports."""
        return self.unsupported / max(1, self.formed)

    @property
    def junk(self) -> float:
        """Return the share of the formed items that neither a question nor a label supports."""
        return self.junk_by_questions * self.not_lasting / max(1, self.labelled)

    def staleness(self, arm: str, budget: int) -> float:
        """Return the share of questions that show superseded evidence alone."""
        return _mean(self.alone.get((arm, budget), ()))


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers) if numbers else 0.0


async def formed_session(
    items: Sequence[EvidenceItem], floor: float
) -> tuple[SessionMemory, float]:
    """Return a session with the words of a corpus and what was formed from them, and the seconds."""
    words = replace(SECTION, persistence="none")
    memory = SessionMemory.test_mode(sections=(words, FACTS, replace(RULES, floor=floor)))
    for item in items:
        stated = {"source": item.session, "timestamp": item.timestamp}
        metadata = {name: value for name, value in stated.items() if value}
        memory.add(SECTION.name, item.text, id=item.id, role=item.role, metadata=metadata)
    started = time.process_time()
    for name, kind in ((FACTS.name, "semantic"), (RULES.name, "procedural")):
        plan = FormsFrom(PatternFormer(), (SECTION.name,), kinds=(kind,))
        await memory.form(plan, section=name)
    return memory, time.process_time() - started


async def ask(memory: SessionMemory, question: Question, figures: Figures) -> None:
    """Ask one question of all arms, in all budgets."""
    sections = {"words": [SECTION.name], "formed": FORMED, "both": None}
    for budget in BUDGETS:
        for arm in ARMS:
            context = await memory.assemble_context(
                question.query, budget=budget, sections=sections[arm]
            )
            ids = {item.id for item in context.items}
            for item in context.items:
                ids.update(item.sources)
            found = [each in ids for each in question.evidence_ids]
            figures.shown.setdefault((arm, budget), []).append(_mean(found))
            if question.stale_ids:
                is_alone = not ids.isdisjoint(question.stale_ids) and not any(found)
                figures.alone.setdefault((arm, budget), []).append(is_alone)


async def count_formed(
    memory: SessionMemory,
    questions: Sequence[Question],
    figures: Figures,
    labels: Mapping[str, bool],
) -> None:
    """Add the numbers of formed items, of recovered evidence, and of wrong versions.

    Args:
        labels: Whether labelled items state something lasting, by the digests of their texts.
    """
    live: dict[str, Item] = {}
    archived: dict[str, Item] = {}
    for name in FORMED:
        for item in memory[name]:
            live |= dict.fromkeys(item.sources, item)
        for version in memory[name].archive.in_memory():
            archived |= dict.fromkeys(version.item.sources, version.item)
    formed = live | archived
    evidence = {each for question in questions for each in question.evidence_ids}
    stale = {each for question in questions for each in question.stale_ids} - evidence
    figures.formed += len(formed)
    unsupported = formed.keys() - evidence - stale
    figures.unsupported += len(unsupported)
    for source in unsupported:
        digest = hashlib.sha256(formed[source].text.encode()).hexdigest()[:DIGEST_CHARS]
        if digest in labels:
            figures.labelled += 1
            figures.not_lasting += not labels[digest]
    figures.evidence += len(evidence)
    figures.recovered += len(formed.keys() & evidence)
    figures.current += len(formed.keys() & evidence)
    figures.wrongly_retired += len((formed.keys() - live.keys()) & evidence)
    for question in questions:
        if not live.keys().isdisjoint(question.evidence_ids):
            old = formed.keys() & {*question.stale_ids}
            figures.superseded += len(old)
            figures.wrongly_kept += len(old & live.keys())


async def measured(folder: Path, name: str, max_questions: int, floor: float) -> Figures:
    """Return the figures of one data set."""
    figures = Figures()
    for corpus in read_corpora(folder / name):
        scored = [each for each in corpus.questions if each.evidence_ids]
        labels = labels_of(name, corpus.name)
        left = max_questions
        for items, questions in corpus.moments():
            asked = [each for each in questions if each in scored][:left]
            if not asked:
                continue
            left -= len(asked)
            memory, seconds = await formed_session(items, floor)
            figures.seconds += seconds
            figures.messages += len(items)
            await count_formed(memory, scored, figures, labels)
            for question in asked:
                await ask(memory, question, figures)
    return figures


def row(name: str, figures: Figures) -> str:
    """Return the figures of a data set in a line."""
    cells = [name]
    for budget in BUDGETS:
        recalls = [f"{figures.recall(arm, budget):.3f}" for arm in ARMS]
        cells.append(" / ".join(recalls))
    cells.append(f"{figures.recovered / max(1, figures.evidence):.2f}")
    cells.append(f"{figures.junk_by_questions:.2f}")
    cells.append(f"{figures.junk:.3f} ({figures.labelled})")
    cells.append(f"{figures.wrongly_retired}/{figures.current}")
    cells.append(f"{figures.wrongly_kept}/{figures.superseded}")
    cells.append(f"{1e6 * figures.seconds / max(1, figures.messages):.0f}")
    stale = [f"{figures.staleness(arm, 512):.2f}" for arm in ARMS]
    cells.append(" / ".join(stale))
    return "| " + " | ".join(cells) + " |"


async def report(
    folder: Path | None, sets: Sequence[str], max_questions: int, floor: float
) -> None:
    """Print the tables."""
    for half in ("development", "held-out"):
        chosen = [each for each in labelled_sentences() if each.half == half]
        precision, recall = await precision_and_recall(chosen)
        print(f"{len(chosen)} {half} sentences: precision {precision:.2f}, recall {recall:.2f}")
    if folder is None:
        return
    heads = [f"{budget:,}: words / formed / both" for budget in BUDGETS]
    print("| set |", " | ".join(heads), end=" | ")
    print(
        "recovered | junk by questions alone | junk (labels) | wrongly retired | wrongly kept | us a message",
        "| stale at 512 |",
    )
    found = {}
    for name in sets:
        if (folder / name).is_dir():
            found[name] = await measured(folder, name, max_questions, floor)
            print(row(name, found[name]), flush=True)
    print(verdict(found))


def verdict(found: Mapping[str, Figures]) -> str:
    """Return whether what is required holds, by the figures of the data sets by name."""
    behind = [f"{name} at {each.behind()}" for name, each in found.items() if each.behind()]
    words = _mean([figures.recall("words", 512) for figures in found.values()])
    both = _mean([figures.recall("both", 512) for figures in found.values()])
    junk = max((figures.junk for figures in found.values()), default=0.0)
    return (
        f"both behind the words alone: {', '.join(behind) or 'nowhere'}. "
        f"Mean of the sets in 512 tokens: words alone {words:.3f}, both {both:.3f}. "
        f"Junk: at most {junk:.3f} in a set."
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--max-questions", type=int, default=10_000, help="of each corpus")
    parser.add_argument("--floor", type=float, default=0.2, help="share kept for rules")
    given = parser.parse_args(arguments)
    data = os.environ.get("KAOSMEM_DATA")
    folder = Path(data) if data else None
    asyncio.run(report(folder, given.sets, given.max_questions, given.floor))


async def test_the_pattern_former_is_precise() -> None:
    """At least nine in ten formed sentences are lasting, on either half."""
    for half in ("development", "held-out"):
        chosen = [each for each in labelled_sentences() if each.half == half]
        precision, recall = await precision_and_recall(chosen)
        assert precision >= 0.9
        assert recall >= 0.5


if __name__ == "__main__":
    main()
