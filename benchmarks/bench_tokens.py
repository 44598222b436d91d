"""What the extra `fast` gains: ten megabytes counted by tiktoken and by toktok in one run, text by text."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import median

import pytest

import kaosmem
from benchmarks.corpus import seeded_texts
from kaosmem.tokens.counters import TiktokenCounter, TokenCounter, ToktokCounter

pytestmark = pytest.mark.skipif(
    find_spec("toktok") is None, reason="the extra 'fast' is not installed"
)

MEGABYTES = 10
ROUNDS = 3
KINDS = "prose", "code", "JSON", "Japanese", "no words"
JAPANESE = (
    "本契約は、三十日前までに書面で通知することにより、いずれの当事者も解除することができる。"
)


def texts_of(kind: str, *, size: int) -> list[str]:
    """Return texts of a kind, each of about a thousand characters, that have `size` bytes between them."""
    from pydoc_data.topics import topics

    sources = [
        path.read_text(encoding="utf-8")
        for path in sorted(Path(kaosmem.__file__).parent.rglob("*.py"))
    ]
    one = {
        "prose": lambda: "\n".join(topics.values()),  # the Python language reference
        "no words": lambda: "\n".join(
            seeded_texts(1_000)
        ),  # most are made up, which is hard on a tokenizer
        "code": lambda: "\n".join(sources),
        "JSON": lambda: json.dumps(
            [{"id": i * 7919 % 99_991, "score": i / 7, "ok": i % 3 == 0} for i in range(9_999)]
        ),
        "Japanese": lambda: JAPANESE * 1_000,
    }[kind]()
    repeated = one * (1 + size // len(one.encode()))
    per_char = len(one.encode()) / len(one)
    return [repeated[start : start + 1_000] for start in range(0, int(size / per_char), 1_000)]


def cpu_s(counters: Sequence[TokenCounter], texts: Sequence[str]) -> tuple[list[float], int]:
    """Return the median CPU seconds that each takes, in turn, for all texts, and the tokens of which they agree."""
    rounds: list[list[float]] = [[] for _ in counters]
    counts: list[list[int]] = []
    for _ in range(ROUNDS):
        for counter, durations in zip(counters, rounds, strict=True):
            started = time.process_time()
            counts.append([*map(counter, texts)])
            durations.append(time.process_time() - started)
    assert all(each == counts[0] for each in counts)
    return list(map(median, rounds)), sum(counts[0])


@pytest.mark.parametrize("kind", KINDS)
def test_counts_are_the_same(kind: str) -> None:
    texts = texts_of(kind, size=200_000)
    assert [*map(ToktokCounter(), texts)] == [*map(TiktokenCounter(), texts)]


@pytest.mark.timed
def test_speed_of_counting_ten_megabytes(capsys: pytest.CaptureFixture[str]) -> None:
    """Print megabytes per second of CPU, texts of 1,000 characters and one text of it all; five times is the goal."""
    counters: list[TokenCounter] = [TiktokenCounter(), ToktokCounter()]
    for counter in counters:
        counter("the first count loads the vocabulary, the first é what it needs")
    mixed = [
        text
        for kind in KINDS[:-1]
        for text in texts_of(kind, size=MEGABYTES * 1_000_000 // len(KINDS[:-1]))
    ]
    corpora = {kind: texts_of(kind, size=MEGABYTES * 1_000_000) for kind in KINDS} | {
        "four in turn": mixed
    }
    with capsys.disabled():
        print(
            f"\n{'text':>14}{'texts':>9}{'tokens':>12}{'tiktoken MB/s':>16}{'toktok MB/s':>14}{'ratio':>8}"
        )
        for kind, texts in corpora.items():
            for cut in (texts, ["".join(texts)]):
                (default, fast), tokens = cpu_s(counters, cut)
                size = sum(len(text.encode()) for text in cut) / 1e6
                print(
                    f"{kind:>14}{len(cut):>9,}{tokens:>12,}{size / default:>16.1f}{size / fast:>14.1f}"
                    f"{default / fast:>8.1f}"
                )
