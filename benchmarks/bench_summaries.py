"""What survives five rounds of compaction of a conversation, by kind of fact, and how much the summaries grow.

The model is scripted to be as lossy as models were measured to be: of what it is given it names one path in ten, one
number in fifty. Beside it stands the ablation without the list of what is kept verbatim. A round's size is what is left
of the conversation against what was there; the growth of a summary, against the one that it took in, is told in rounds
without new facts, where a list must not grow.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import mean

import pytest

from kaosmem import ChatMessage, TextBlock, ToolResultBlock, ToolUseBlock, get_counter
from kaosmem.compaction import SummarizationCompaction, Summarizer
from kaosmem.compaction.outline import MessageSizes
from kaosmem.testing import ScriptedLLM

ROUNDS = 5
PROSE_TOKENS = 120
KEPT_BY_MODEL = {"path": 0.098, "number": 0.019, "id": 0.1, "url": 0.1, "task": 0.1, "name": 0.3}
"""What share of each kind the model names.

Source: paths and numbers as measured of models; the others are guesses.
"""
SURVIVING = ("path", "number", "id", "url", "task")
SEEDS = range(10)
_TEXT = "the agent looked into it and the result was not what anyone had expected so it went on with the next"
WORDS = _TEXT.split()
FIRST_NAMES, LAST_NAMES = (
    ("Dana", "Ilse", "Omar", "Wen", "Petra", "Luis"),
    ("Whitfield", "Okafor", "Lindqvist", "Ruiz"),
)

Facts = Mapping[str, Sequence[str]]
"""By kind."""


def planted(rng: random.Random, each: int) -> Facts:
    """Return facts to plant, `each` of every kind."""

    def word() -> str:
        return "".join(rng.choices("bcdfglmnprst", k=6))

    return {
        "path": [
            f"/srv/{word()}/{word()}.{rng.choice(['py', 'toml', 'log'])}" for _ in range(each)
        ],
        "number": [
            rng.choice([f"{rng.randrange(10**4, 10**7):,}", f"{rng.random() * 99:.2f}%"])
            for _ in range(each)
        ],
        "id": [
            f"{word()}_{word()}" if rng.random() < 0.5 else f"{rng.getrandbits(40):010x}a"
            for _ in range(each)
        ],
        "url": [
            f"https://{word()}.example.com/{word()}?id={rng.randrange(999)}" for _ in range(each)
        ],
        "task": [f"TASK-{rng.randrange(10**5)}" for _ in range(each)],
        "name": [f"{rng.choice(FIRST_NAMES)} {rng.choice(LAST_NAMES)}" for _ in range(each)],
    }


def conversation(rng: random.Random, facts: Facts, turns: int) -> Iterator[ChatMessage]:
    """Yield turns of a user, a call, its long result and an answer, the facts in all of them and at results' ends."""
    sayings = [f"{rng.choice(WORDS)} is {fact}" for kind in facts for fact in facts[kind]]
    rng.shuffle(sayings)

    def say(many: int) -> str:
        return " ".join(rng.choices(WORDS, k=many)) + ". "

    def some() -> str:
        return ". ".join(sayings.pop() for _ in range(min(len(sayings), -(-left // 4)))) + ". "

    for turn in range(turns):
        left = len(sayings) // (turns - turn) if turn < turns - 1 else len(sayings)
        call = f"c{rng.getrandbits(32)}"
        yield ChatMessage("user", say(20) + some())
        arguments = f'{{"query": "{some()}", "why": "{say(5)}"}}'
        yield ChatMessage(
            "assistant", (TextBlock(say(10)), ToolUseBlock(call, "search", arguments))
        )
        yield ChatMessage("tool", (ToolResultBlock(call, say(200) + some()),))
        yield ChatMessage("assistant", say(30) + some())


def lossy(seed: int, facts: Facts) -> ScriptedLLM:
    """Return a model that writes so many words whatever it reads, and names few of the facts in it."""
    rng = random.Random(seed)
    count = get_counter()

    def answer(request: Sequence[ChatMessage]) -> str:
        text = request[-1].text
        named = [
            fact
            for kind, share in KEPT_BY_MODEL.items()
            for fact in facts.get(kind, ())
            if fact in text and rng.random() < share
        ]
        words = rng.choices(WORDS, k=PROSE_TOKENS)
        said = [f"It is about {fact}." for fact in named]
        while count(f"They spoke of {' '.join(words)}. {' '.join(said)}") > PROSE_TOKENS:
            del (words or said)[0]
        return f"They spoke of {' '.join(words)}. {' '.join(said)}".rstrip()

    return ScriptedLLM(answer)


class Rounds:
    """A conversation that is compacted round after round.

    facts: all that were planted. sizes: of what was left against what was there. summaries: their
        tokens.
    """

    def __init__(self, seed: int, *, planted_in: int, each: int, turns: int, kept: int) -> None:
        rng = random.Random(seed)
        by_round = [planted(rng, each if number < planted_in else 0) for number in range(ROUNDS)]
        self.facts: Facts = {
            kind: [f for facts in by_round for f in facts[kind]] for kind in by_round[0]
        }
        summarizer = Summarizer(lossy(seed, self.facts), max_kept_tokens=kept)
        strategy = SummarizationCompaction(summarizer, 400, 400)
        self.sizes = []
        self.summaries = []
        self.history: list[ChatMessage] = [
            ChatMessage("user", "Find out what went wrong.", id="first")
        ]
        size = MessageSizes()
        for facts in by_round:
            self.history += conversation(rng, facts, turns)
            before = size.total(self.history)
            self.history = asyncio.run(strategy.compact(self.history))
            self.sizes.append(size.total(self.history) / before)
            self.summaries += [
                size(message) for message in self.history if message.role == "summary"
            ]
        assert len(self.summaries) == ROUNDS

    @property
    def survival(self) -> dict[str, float]:
        """Return what share of each kind is still said."""
        said = "\n".join(message.text for message in self.history)
        return {
            kind: sum(fact in said for fact in facts) / len(facts)
            for kind, facts in self.facts.items()
        }

    @property
    def growth(self) -> list[float]:
        """Return how large each summary is against the one before it."""
        return [after / before for before, after in pairwise(self.summaries)]


@pytest.mark.parametrize("planted_in", [1, ROUNDS])
def test_what_must_survive_does(planted_in: int) -> None:
    """All but names, which a list can't tell from words; without the list nearly nothing does."""
    kept = Rounds(0, planted_in=planted_in, each=4, turns=4, kept=2_000)
    assert {
        kind: share for kind, share in kept.survival.items() if kind != "name"
    } == dict.fromkeys(SURVIVING, 1.0)
    assert max(kept.sizes) <= 1.0
    bare = Rounds(0, planted_in=planted_in, each=4, turns=4, kept=0).survival
    assert all(bare[kind] < 0.5 for kind in SURVIVING)


@pytest.mark.timed
def test_survival_and_growth(capsys: pytest.CaptureFixture[str]) -> None:
    kinds = list(KEPT_BY_MODEL)
    table = [
        f"after {ROUNDS} rounds, mean of {len(SEEDS)} conversations",
        f"{'facts':>16}{'list':>7}"
        + "".join(f"{kind:>8}" for kind in kinds)
        + f"{'left':>14}{'summary against the last':>28}",
    ]
    for planted_in, each in ((1, 10), (ROUNDS, 6)):
        for kept in (2_000, 0):
            runs = [
                Rounds(seed, planted_in=planted_in, each=each, turns=8, kept=kept) for seed in SEEDS
            ]
            survival = {kind: mean(run.survival[kind] for run in runs) for kind in kinds}
            growth = [mean(steps) for steps in zip(*(run.growth for run in runs), strict=True)]
            sizes = [size for run in runs for size in run.sizes]
            table.append(
                f"{'in each round' if planted_in > 1 else 'in the first':>16}{'yes' if kept else 'no':>7}"
                + "".join(f"{survival[kind]:8.0%}" for kind in kinds)
                + f"{min(sizes):8.2f}..{max(sizes):.2f}    "
                + "".join(f"{step:8.2f}" for step in growth)
            )
            assert max(sizes) <= 1.0
            if kept:
                assert all(survival[kind] == 1.0 for kind in SURVIVING)
            if planted_in == 1:
                # Facts that the first summary names by itself move to the list. Then it settles.
                assert max(growth) <= 1.1
                assert max(growth[2:]) <= 1.03
    with capsys.disabled():
        print("", *table, sep="\n")
