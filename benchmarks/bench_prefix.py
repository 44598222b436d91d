"""How much of what is sent begins what is sent next, as a conversation grows: what a provider's prompt cache can reuse.

Each turn adds a reply and a question. A window of a session stands beside LangChain's trim_messages and
agent-framework's truncation, where they are installed.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from importlib.util import find_spec
from itertools import islice, pairwise
from statistics import mean

import pytest

import kaosmem
from benchmarks.corpus import seeded_texts
from kaosmem import SessionMemory, get_counter
from kaosmem.formats import count_messages
from kaosmem.formats.messages import REPLY_TOKENS

BUDGET, BLOCK = 8_000, 500
TURNS = 400
RELOADED = 100  # its time goes with the square of the turns
KEPT = 0.5  # share of the budget that agent-framework's truncation keeps
QUESTION_SHARE, SPREAD = 0.25, 0.5
CACHED, WRITTEN = 0.1, 1.25
HEADER = (
    f"{'a turn':>6}  {'window':<27}{'share':>7}{'fill':>8}{'cuts':>6}"
    f"{'cost/token':>12}{'cost/turn':>11}{'ms/turn':>9}"
)

Message = dict[str, object]
Window = Callable[[Sequence[Message]], Sequence[Message]]
"""Take the messages that a turn adds, and return what is sent to the model."""


@dataclass(frozen=True)
class Turn:
    """The tokens that a turn sends. kept: tokens that the turn before sent so too."""

    used: int
    kept: int


@dataclass(frozen=True)
class Run:
    """What a conversation sent. Its figures are of whole rounds, from its first cut to its last."""

    turns: Sequence[Turn]
    ms: float = 0.0

    @cached_property
    def cuts(self) -> list[int]:
        """The places of the turns that don't begin with all of the turn before."""
        return [
            place
            for place, (last, turn) in enumerate(pairwise(self.turns), 1)
            if turn.kept < last.used - REPLY_TOKENS
        ]

    @property
    def _sent(self) -> Sequence[Turn]:
        return self.turns[self.cuts[0] : self.cuts[-1]]

    @property
    def _next(self) -> Sequence[Turn]:
        return self.turns[self.cuts[0] + 1 : self.cuts[-1] + 1]

    @property
    def share(self) -> float:
        """The share of the tokens of each turn that the next begins with."""
        return sum(turn.kept for turn in self._next) / sum(turn.used for turn in self._sent)

    @property
    def fill(self) -> float:
        return mean(turn.used for turn in self._sent) / BUDGET

    @property
    def cost(self) -> float:
        """The mean cost of a turn, one token sent without a cache costing 1."""
        return mean(CACHED * turn.kept + WRITTEN * (turn.used - turn.kept) for turn in self._next)

    def row(self, tokens: int, window: str) -> str:
        a_token = self.cost / mean(turn.used for turn in self._next)
        return (
            f"{tokens:>6}  {window:<27}{self.share:>7.3f}{self.fill:>8.1%}{len(self.cuts):>6}"
            f"{a_token:>12.2f}{self.cost:>11,.0f}{self.ms:>9.2f}"
        )


def conversation(turns: int, *, tokens: int, seed: int = 0) -> list[list[Message]]:
    """Return what each turn adds: the reply to the question before, if there is one, and a question.

    A question and its reply have so many tokens on average, their lengths being log-normal.
    """
    rng = random.Random(seed)
    stream = " ".join(seeded_texts(tokens * turns // 300 + 1, seed=seed)).split()
    roles = ["user", "assistant"] * turns
    means = {"user": QUESTION_SHARE, "assistant": 1 - QUESTION_SHARE}
    draws = [means[role] * rng.lognormvariate(0, SPREAD) for role in roles]
    scale = turns * tokens * len(stream) / get_counter()(" ".join(stream)) / sum(draws)
    words = iter(stream)
    messages: list[Message] = [
        {"role": role, "content": " ".join(islice(words, max(1, round(scale * draw))))}
        for role, draw in zip(roles, draws, strict=True)
    ]
    return [messages[:1], *(messages[2 * turn - 1 : 2 * turn + 1] for turn in range(1, turns))]


def run(window: Window, turns: Sequence[Sequence[Message]]) -> Run:
    """Send a conversation through a window, and compare each turn with the one before."""
    compared: list[Turn] = []
    last: Sequence[Message] = ()
    ms = 0.0
    for new in turns:
        started = time.process_time_ns()
        sent = window(new)
        ms += (time.process_time_ns() - started) / 1e6
        kept = next(
            (place for place, (a, b) in enumerate(zip(last, sent, strict=False)) if a != b),
            len(last),
        )
        compared.append(Turn(tokens_of(sent), tokens_of(sent[:kept])))
        last = sent
    return Run(compared, ms / len(turns))


def tokens_of(messages: Sequence[Message]) -> int:
    return count_messages(messages, "openai")


def size_of(message: Message) -> int:
    return tokens_of([message]) - REPLY_TOKENS


def kaosmem_window(loop: asyncio.AbstractEventLoop) -> Window:
    memory = SessionMemory.test_mode()

    def window(new: Sequence[Message]) -> Sequence[Message]:
        for message in new:
            memory.add_message(message, format="openai")
        return loop.run_until_complete(
            memory.assemble_context(
                budget=BUDGET, format="openai", window=kaosmem.Window("main", block=BLOCK)
            )
        ).messages

    return window


def langchain_window(budget: int = BUDGET) -> Window:
    """Return trim_messages over all messages, each counted once."""
    from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, trim_messages

    held: list[BaseMessage] = []
    sizes: dict[str | None, int] = {}

    def window(new: Sequence[Message]) -> Sequence[Message]:
        for message in new:
            kind = HumanMessage if message["role"] == "user" else AIMessage
            held.append(kind(message["content"], id=str(len(held))))
            sizes[held[-1].id] = size_of(message)
        kept = trim_messages(
            held,
            max_tokens=budget - REPLY_TOKENS,
            token_counter=lambda messages: sum(sizes[message.id] for message in messages),
            strategy="last",
            start_on="human",
            include_system=True,
        )
        roles = {"human": "user", "ai": "assistant"}
        return [{"role": roles[message.type], "content": message.content} for message in kept]

    return window


class Tokenizer:
    """Counts what agent-framework makes of a message, JSON, as what the API takes of it, once for each."""

    def __init__(self) -> None:
        self._sizes: dict[str, int] = {}

    def count_tokens(self, text: str) -> int:
        if text not in self._sizes:
            message = json.loads(text)
            content = "".join(part["text"] for part in message["contents"])
            self._sizes[text] = size_of({"role": message["role"], "content": content})
        return self._sizes[text]


def agent_framework_window(
    loop: asyncio.AbstractEventLoop, *, reloaded: bool, budget: int = BUDGET
) -> Window:
    """Return a truncation that starts over each turn from all messages, or goes on with what it left of them."""
    from agent_framework import Message as Held
    from agent_framework import TruncationStrategy, apply_compaction

    held: list[Held] = []
    tokenizer = Tokenizer()
    strategy = TruncationStrategy(
        max_n=budget - REPLY_TOKENS,
        compact_to=int(KEPT * budget) - REPLY_TOKENS,
        tokenizer=tokenizer,
    )

    def window(new: Sequence[Message]) -> Sequence[Message]:
        held.extend(Held(message["role"], [message["content"]]) for message in new)
        messages = [Held(message.role, [message.text]) for message in held] if reloaded else held
        kept = loop.run_until_complete(
            apply_compaction(messages, strategy=strategy, tokenizer=tokenizer)
        )
        return [{"role": message.role, "content": message.text} for message in kept]

    return window


def other_windows(loop: asyncio.AbstractEventLoop) -> dict[str, Callable[[], Window]]:
    """Return what makes the windows of others, those that are installed."""
    windows: dict[str, Callable[[], Window]] = {}
    if find_spec("langchain_core"):
        windows["langchain trim_messages"] = langchain_window
    if find_spec("agent_framework"):
        windows["agent-framework, going on"] = partial(agent_framework_window, loop, reloaded=False)
        windows["agent-framework, reloaded"] = partial(agent_framework_window, loop, reloaded=True)
    return windows


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    with asyncio.Runner() as runner:
        yield runner.get_loop()


@pytest.mark.parametrize("tokens", [400, 800])
def test_a_window_keeps_its_prefix_but_for_rebases(
    tokens: int, loop: asyncio.AbstractEventLoop
) -> None:
    sent = run(kaosmem_window(loop), conversation(60, tokens=tokens))
    assert max(turn.used for turn in sent.turns) <= BUDGET
    assert sent.share > 0.7


def test_a_window_that_starts_over_each_turn_keeps_little(loop: asyncio.AbstractEventLoop) -> None:
    """The windows of others that look at all messages anew lose most of the prefix, in the same conversation."""
    turns = conversation(45, tokens=400)
    sent = {name: run(make(), turns) for name, make in other_windows(loop).items()}
    if not sent:
        pytest.skip(
            "neither langchain-core nor agent-framework-core is installed; the extra bench has them"
        )
    ours = run(kaosmem_window(loop), turns)
    for name, others in sent.items():
        assert max(turn.used for turn in others.turns) <= BUDGET
        assert others.share < ours.share - 0.3 or "going on" in name


@pytest.mark.timed
def test_prefix_of_growing_conversations(
    capsys: pytest.CaptureFixture[str], loop: asyncio.AbstractEventLoop
) -> None:
    """A token from the cache costs 0.1 and one written to it 1.25 of what one costs without it."""
    with capsys.disabled():
        print(
            f"\n{TURNS} turns in {BUDGET:,} tokens, a block of {BLOCK}; reloaded: {RELOADED} "
            f"turns\n{HEADER}"
        )
        for tokens in (200, 400, 800):
            turns = conversation(TURNS, tokens=tokens)
            print(run(kaosmem_window(loop), turns).row(tokens, "kaosmem"))
            for name, make in other_windows(loop).items():
                print(
                    run(make(), turns[:RELOADED] if "reloaded" in name else turns).row(tokens, name)
                )
