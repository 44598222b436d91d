"""How much evidence the labels of items cost: recall with the present layout, with others, and with texts alone.

    KAOSMEM_DATA=FOLDER pytest -m timed -s benchmarks/bench_framing.py

KAOSMEM_DATA names a folder as `evidence_recall.py` reads it, with the data set `locomo`. A layout is a `LabelStyle`.
The share of a context that is not the texts of its items is its framing.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, fields, replace
from pathlib import Path

import pytest

from kaosmem import SectionSpec, SessionMemory
from kaosmem.evaluation import evaluate, read_corpora
from kaosmem.evaluation.assemblers import SessionAssembler
from kaosmem.formats.labels import LabelStyle
from kaosmem.types.items import Item

DATA = Path(os.environ.get("KAOSMEM_DATA") or os.devnull)
DATASET = "locomo"
BUDGETS = 512, 2_048, 8_192
BUDGET, MOST_LOST = 2_048, 0.015


class Texts(LabelStyle):
    """Texts alone: neither source, day nor speaker."""

    def label(self, item: Item, *, continued: bool = False, **marks: object) -> str:
        return ""


class Speakers(LabelStyle):
    """A speaker's name before each text: neither source nor day."""

    def label(self, item: Item, *, continued: bool = False, **marks: object) -> str:
        return super().label(item, continued=True)


class Days(LabelStyle):
    """One header for each day: no source."""

    def _find_group(self, item: Item) -> tuple[str | None, ...]:
        return "", self._day(item)

    def _header(self, item: Item, trust: str = "") -> str:
        return f"[{self._day(item)}]"


class IsoDates(LabelStyle):
    """One header for each source and day, the day in ISO 8601."""

    def _day(self, item: Item) -> str:
        return item.timestamp.date().isoformat() if item.timestamp else ""


class Initials(LabelStyle):
    """One header for each source and day, speakers by the first letter of their name."""

    def label(self, item: Item, *, continued: bool = False, **marks: object) -> str:
        return (
            super().label(item, continued=continued).replace(f"{item.role}: ", f"{item.role[:1]}: ")
        )


class EachItem(LabelStyle):
    """No headers: source, day and speaker before each text."""

    def label(self, item: Item, *, continued: bool = False, **marks: object) -> str:
        return super().label(item).replace("\n", " ")


LAYOUTS: dict[str, type[LabelStyle]] = {
    "texts alone": Texts,
    "speaker": Speakers,
    "header: day": Days,
    "header: source, ISO day": IsoDates,
    "header, initials": Initials,
    "all on each line": EachItem,
    "as shown": LabelStyle,
}


@dataclass(frozen=True)
class LaidOut(SectionSpec):
    """A section whose items are labelled by another style."""

    style: type[LabelStyle] = LabelStyle

    @property
    def labels(self) -> LabelStyle:
        shown = super().labels
        return self.style(shown.dates, shown.provenance, shown.verbatim)


def assembler(name: str) -> SessionAssembler:
    plain = SessionAssembler(name)
    given = {field.name: getattr(plain.spec, field.name) for field in fields(SectionSpec)}
    return replace(plain, spec=LaidOut(**given, style=LAYOUTS[name]))


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout_keeps_its_budget(name: str) -> None:
    memory = SessionMemory.test_mode(sections=(assembler(name).spec,))
    for place in range(40):
        metadata = {"source": f"session_{place // 5}", "timestamp": f"2024-05-{1 + place // 5:02}"}
        memory.add(
            "documents",
            f"I moved {place} boxes.",
            role=("Emi", "Kate")[place % 2],
            metadata=metadata,
        )
    context = asyncio.run(memory.assemble_context("Who moved boxes?", budget=200))
    assert len(context.items) > 5
    assert memory.admin.counter(context.text) == context.used <= 200


@pytest.mark.timed
@pytest.mark.skipif(
    not (DATA / DATASET).is_dir(),
    reason=f"KAOSMEM_DATA names no folder with the data set {DATASET}",
)
def test_evidence_lost_to_framing(capsys: pytest.CaptureFixture[str]) -> None:
    """At 2,048 tokens, labels cost at most 0.015 of recall."""
    corpora = read_corpora(DATA, datasets=[DATASET])
    report = asyncio.run(
        evaluate(corpora, assemblers=list(map(assembler, LAYOUTS)), budgets=BUDGETS)
    )
    with capsys.disabled():
        print(
            f"\n{DATASET}{'recall at':>27}{BUDGETS[0]:>8,}{BUDGETS[1]:>8,}{BUDGETS[2]:>8,}{'framing':>10}"
        )
        for name in LAYOUTS:
            recalls = (report.figures(name, budget).recall for budget in BUDGETS)
            row = "".join(f"{each:>8.3f}" for each in recalls if each is not None)
            print(f"{name:<33}{row}{report.figures(name, BUDGET).framing:>10.3f}")
    shown, alone = (report.figures(name, BUDGET).recall for name in ("as shown", "texts alone"))
    assert shown is not None
    assert alone is not None
    assert alone - shown <= MOST_LOST
