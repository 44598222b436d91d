"""How the time of every operation on a text grows with the text, over kinds of text that are hard to read.

Each operation takes texts of 16,384 to 131,072 characters of each kind. The exponent e is that of time ~ length ** e,
by least squares; n log n gives 1.05 to 1.1.
The figures are CPU seconds, the least of several runs without the garbage collector. An exponent above the limit is
measured again, up to three times, and the least counts: noise only ever adds time.

`KAOSMEM_BOUNDS=ingest` measures the operations with that in their names alone.
"""

from __future__ import annotations

import asyncio
import base64
import gc
import json
import os
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from time import process_time

import numpy as np
import pytest

from benchmarks.corpus import seeded_texts, text_item
from kaosmem import ChatMessage, SectionSpec, SessionMemory
from kaosmem.compaction import SummarizationCompaction
from kaosmem.compaction.facts import facts_of
from kaosmem.conversation import ActionEvent, EventLog, LLMSummarizingCondenser
from kaosmem.formation import PatternFormer
from kaosmem.ingest.files import UnreadableError
from kaosmem.ingest.kinds import KINDS as FILE_KINDS
from kaosmem.ingest.kinds import FileKind
from kaosmem.ingest.pieces import DocumentPart
from kaosmem.language.query import Query
from kaosmem.memos import clear_memos
from kaosmem.retrieval.rankers import LinearRanker
from kaosmem.types.content import TextBlock

LIMIT = 1.35
"""The greatest exponent allowed: n log n gives 1.1, and noise adds some."""
SIZES = tuple(1 << power for power in range(14, 18))
LEAST_SECONDS = 0.01
TINY_CHARS = 1_000
RUNS, ATTEMPTS = 3, 3
BUDGET = 4_000


def repeated(unit: str) -> Callable[[int], str]:
    """Return what makes a text of so many characters by repeating a unit."""
    return lambda size: (unit * (size // len(unit) + 1))[:size]


def _prose(size: int) -> str:
    return " ".join(seeded_texts(size // 800 + 1))[:size]


def _random(characters: Sequence[str], size: int) -> str:
    return "".join(random.Random(0).choices(characters, k=size))


def _base64(size: int) -> str:
    return base64.b64encode(random.Random(0).randbytes(size)).decode()[:size]


def _json(size: int) -> str:
    records = [
        {"id": number, "tags": ["a", {"b": [number, None]}], "note": "it\u00e9"}
        for number in range(size // 60)
    ]
    return json.dumps({"records": records})


def _steps(size: int) -> str:
    """Return lines that are indented ever more, and less again."""
    return "\n".join(" " * (at % 200) + f"- entry {at}" for at in range(size // 110))


def _headings(size: int) -> str:
    return "\n\n".join(
        f"Heading {at}\n" + chr(33 + at % 15) * 12 + "\n\ntext" for at in range(size // 36)
    )


THAI = [chr(code) for code in range(0x0E01, 0x0E2F)] + [chr(0x0E34), chr(0x0E48)]
TEXTS: dict[str, Callable[[int], str]] = {
    "prose": _prose,
    "[": repeated("["),
    "[ lines": repeated("[\n"),
    "nested [": lambda size: "[" * (size // 2) + "]" * (size // 2),
    "Thai": partial(_random, THAI),
    "Chinese": partial(_random, [chr(code) for code in range(0x4E00, 0x5200)]),
    "dash lines": repeated("-\n"),
    "definitions": repeated("def f("),
    "definition lines": repeated("def f(\n"),
    "calls": repeated("f(x) "),
    "one letter": repeated("a"),
    "capitals": repeated("Ab"),
    "spaces": repeated(" "),
    "spaced letters": lambda size: ("x" + " " * 64) * (size // 65),
    "blank lines": repeated("\n"),
    "spaced lines": repeated("  \n"),
    "emoji": repeated("\U0001f469\u200d\U0001f680"),
    "flags": repeated("\U0001f1e9\U0001f1ea"),
    "combining marks": lambda size: "a" + "\u0301" * (size - 1),
    "marked letters": repeated("a\u0323\u0307"),
    "base64": _base64,
    "JSON": _json,
    "nested JSON": lambda size: '{"a":' * (size // 6) + "1" + "}" * (size // 6),
    "open JSON": repeated('{"a":'),
    "HTML": repeated("<div class='a'><p>text</p>"),
    "open tags": repeated("<a "),
    "open comments": repeated("<!-- "),
    "block comments": repeated("/* "),
    "deep lists": _steps,
    "numbers": lambda size: " ".join(map(str, range(size // 6))),
    "digits": repeated("7"),
    "grouped digits": repeated("1,234"),
    "long lines": lambda size: "\n".join([_prose(size // 2)] * 2),
    "CRLF": repeated("a line of text\r\n"),
    "CR": repeated("a\r"),
    "zero width": repeated("a\u200b"),
    "joiners": repeated("\u200c\u200d"),
    "quotes": repeated('"'),
    "opened quotes": repeated("\u201cab cd "),
    "no-break spaces": repeated("\xa0"),
    "statements": lambda size: " ".join(f"I prefer w{at:x}q." for at in range(size // 17)),
    "apostrophes": repeated("it's 'a' "),
    "triple quotes": repeated("'''\n\"\"\"\n"),
    "backticks": repeated("`"),
    "fences": repeated("```\n~~~\n"),
    "braces": repeated("{}"),
    "open braces": repeated("{\n"),
    "parentheses": repeated("("),
    "table": repeated("| a | b | 12 |\n"),
    "commas": repeated(","),
    "dots": repeated("."),
    "URLs": repeated("https://example.com/a/b?c=d&e=f "),
    "one URL": lambda size: "https://example.com/" + "a/" * (size // 2),
    "slashes": repeated("/"),
    "backslashes": repeated("\\"),
    "underscores": repeated("_"),
    "snake case": repeated("ab_"),
    "at signs": repeated("a@b."),
    "hashes": repeated("#"),
    "hash lines": repeated("# a\n"),
    "adornments": _headings,
    "stars": repeated("*"),
    "equals": repeated("="),
    "colons": repeated("a: "),
    "sentences": repeated("No. "),
    "questions": repeated("why? "),
    "dates": repeated("May 5, 2026 "),
    "controls": repeated("\x1c\x1f"),
    "separators": repeated("\u2028\u0085"),
    "right to left": repeated("\u05d0\u05d1 "),
    "different words": lambda size: " ".join(f"w{at:x}q" for at in range(size // 8)),
    "mail": repeated("From a@b.c Mon Jan  1 00:00:00 2024\nSubject: a\n\nb\n\n"),
}
"""Kinds of text, by the number of characters wanted."""

Prepare = Callable[[str], Callable[[], object]]
"""Return the operation on a text; only the operation itself is measured."""


def _pieces(text: str, size: int = 400) -> list[str]:
    return [
        piece for at in range(0, len(text), size) if (piece := text[at : at + size]).strip()
    ] or ["none"]


def _session() -> SessionMemory:
    return SessionMemory.test_mode(
        sections=[SectionSpec("documents", eviction="none")], counter="estimate"
    )


def adding(text: str) -> Callable[[], object]:
    memory = SessionMemory.test_mode(sections=[SectionSpec("documents", eviction="none")])
    memory.admin.counter("loads its vocabulary")
    return lambda: memory.add("documents", text)


def ingesting(kind: FileKind, text: str) -> Callable[[], object]:
    """Return the reading of a file of this kind that holds the text."""
    holders: dict[str, Callable[[str], str]] = {
        "notebook": _notebook,
        "JSONL": _records,
        "e-mail": _mail,
        "mailbox": _mailbox,
    }
    held = holders.get(kind.name, str)(text)
    data = held.encode()

    def act() -> None:
        with suppress(UnreadableError):
            for part in kind.parts(data):
                if isinstance(part, DocumentPart):
                    list(part.pieces)

    return act


def _notebook(text: str) -> str:
    return json.dumps(
        {"cells": [{"cell_type": "markdown", "source": text}], "metadata": {}, "nbformat": 4}
    )


def _records(text: str) -> str:
    return json.dumps({"text": text}) + "\n" + "\n".join(map(json.dumps, _pieces(text)))


def _mail(text: str) -> str:
    return f"From: a@example.com\nSubject: a\n\n{text}"


def _mailbox(text: str) -> str:
    return f"From a@example.com Mon Jan  1 00:00:00 2024\n{_mail(text)}"


def ranking(text: str) -> Callable[[], object]:
    """Return the ranking of 30 documents by a query of any length."""
    index = LinearRanker().index()
    index.add((place, text_item(piece)) for place, piece in enumerate(_pieces(text)[:30]))
    return lambda: index.rank(Query.read(text, lambda: datetime(2026, 1, 1, tzinfo=UTC)).text, 30)


def indexing(text: str) -> Callable[[], object]:
    """Return the first ranking of ever more items by a short query."""
    items = list(enumerate(map(text_item, _pieces(text))))

    def act() -> None:
        index = LinearRanker().index()
        index.add(items)
        index.rank(text[:200], 50)

    return act


def assembling(text: str) -> Callable[[], object]:
    """Return the first context of ever more items."""
    memory = _session()
    memory.add_many("documents", _pieces(text))
    return lambda: asyncio.run(memory.assemble_context(text[:200], budget=BUDGET))


def assembling_one(text: str) -> Callable[[], object]:
    """Return the first context of one item, with its text as the query."""
    memory = _session()
    memory.add_many("documents", [text, "a short item", "another one"])
    return lambda: asyncio.run(memory.assemble_context(text, budget=BUDGET))


def compacting(text: str) -> Callable[[], object]:
    history = [
        ChatMessage("assistant" if at % 2 else "user", piece)
        for at, piece in enumerate(_pieces(text))
    ]
    strategy = SummarizationCompaction(None, 500, 0, counter="estimate")
    return lambda: asyncio.run(strategy.compact(history))


def condensing(text: str) -> Callable[[], object]:
    events = EventLog()
    for at, piece in enumerate(_pieces(text)):
        events.append(ActionEvent("message", piece, source="agent" if at % 2 else "user"))
    view = events.view
    condenser = LLMSummarizingCondenser(None, counter="estimate")
    return lambda: asyncio.run(condenser.condense(view))


def finding_facts(text: str) -> Callable[[], object]:
    return lambda: list(facts_of(TextBlock(text)))


def forming(text: str) -> Callable[[], object]:
    """Return the formation of what a message states."""
    memory = SessionMemory.test_mode(
        sections=[SectionSpec("messages", placement="history"), SectionSpec("findings")],
        counter="estimate",
    )
    memory.add("messages", text)
    return lambda: asyncio.run(memory.form(PatternFormer()))


_READ_BY_LIBRARIES = ("PDF", "document")


OPERATIONS: dict[str, Prepare] = {
    "add": adding,
    **{
        f"ingest {kind.name}": partial(ingesting, kind)
        for kind in FILE_KINDS
        if kind.name not in _READ_BY_LIBRARIES
    },
    "rank": ranking,
    "index": indexing,
    "assemble": assembling,
    "assemble one": assembling_one,
    "compact": compacting,
    "condense": condensing,
    "facts": finding_facts,
    "form": forming,
}


def seconds(prepare: Prepare, text: str, runs: int = RUNS) -> float:
    """Return the least CPU time of an operation that has nothing remembered of the text."""
    best = float("inf")
    for _ in range(runs):
        act = prepare(text)
        clear_memos()
        gc.collect()
        gc.disable()
        begin = process_time()
        try:
            act()
        finally:
            gc.enable()
        best = min(best, process_time() - begin)
    return best


def exponent(prepare: Prepare, text_of: Callable[[int], str]) -> float:
    """Return e of time ~ length ** e over SIZES; 0 where the largest takes next to no time."""
    taken = [seconds(prepare, text_of(size)) for size in SIZES]
    if taken[-1] < LEAST_SECONDS:
        return 0.0
    return float(np.polyfit(np.log(SIZES), np.log(taken), 1)[0])


def least_exponent(prepare: Prepare, text_of: Callable[[int], str]) -> float:
    """Return the exponent, measured again while it is over the limit."""
    found = exponent(prepare, text_of)
    for _ in range(ATTEMPTS - 1):
        if found <= LIMIT:
            break
        found = min(found, exponent(prepare, text_of))
    return found


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_operation_takes_every_text(operation: str) -> None:
    """A small text of every kind passes through the operation without an error."""
    for name, text_of in TEXTS.items():
        text = text_of(TINY_CHARS)
        assert len(text) <= TINY_CHARS + 100, name
        OPERATIONS[operation](text or "a")()


@pytest.mark.timed
@pytest.mark.parametrize(
    "operation", [name for name in OPERATIONS if os.environ.get("KAOSMEM_BOUNDS", "") in name]
)
def test_the_time_grows_as_n_log_n_at_most(
    operation: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each operation's exponent is at most LIMIT for every kind of text."""
    found = {
        name: least_exponent(OPERATIONS[operation], text_of) for name, text_of in TEXTS.items()
    }
    worst = sorted(found, key=found.__getitem__, reverse=True)[:5]
    with capsys.disabled():
        print(f"\n{operation:<22}", ", ".join(f"{name} {found[name]:.2f}" for name in worst))
    assert found[worst[0]] <= LIMIT
