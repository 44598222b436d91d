"""What a window of a long tool-using conversation costs, in CPU, and what shortening lists does.

A window through `HistorySource`: a turn is appended to a thread of so many messages and 8,000
tokens of it are assembled. Beside LangChain's trim_messages and agent-framework's strategies, which
are given the whole list each turn and the same exact counter, where they are installed.
"""

from __future__ import annotations

import asyncio
import gc
import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median

import pytest

import kaosmem
from benchmarks.corpus import seeded_texts
from kaosmem import (
    ChatMessage,
    SessionMemory,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    get_counter,
)
from kaosmem.compaction import (
    CompactionPipeline,
    CompactionStrategy,
    SelectiveToolCallCompaction,
    SlidingWindowCompaction,
    SummarizationCompaction,
    TokenBudgetCompaction,
    ToolResultCompaction,
)
from kaosmem.compaction.facts import facts_in
from kaosmem.compaction.outline import MessageSizes
from kaosmem.sources import HistorySource
from kaosmem.stores import InMemoryHistoryProvider
from kaosmem.testing import ScriptedLLM

BUDGET = 8_000
LENGTHS = (1_000, 10_000, 100_000)
TURNS, WARM_UP = 30, 5
MOST_SPREAD = 1.5
LEAST_RATIO = 50
MOST_PASSES = 3
# Texts of a turn in words: a question, what is said beside the call, its arguments, its result and
# the answer.
WORDS = (30, 15, 10, 200, 80)
# Its time goes with the square of the messages.
SLOW = 1_000

STRATEGIES: dict[str, CompactionStrategy] = {
    "sliding window": SlidingWindowCompaction(),
    "tool results": ToolResultCompaction(),
    "tool calls": SelectiveToolCallCompaction(),
    "token budget, none": TokenBudgetCompaction([], BUDGET),
    "token budget, two": TokenBudgetCompaction(
        [ToolResultCompaction(), SelectiveToolCallCompaction()], BUDGET
    ),
    "pipeline of two": CompactionPipeline([ToolResultCompaction(), SlidingWindowCompaction()]),
}


def conversation(messages: int) -> list[ChatMessage]:
    """Return turns of a question, a call, its result and an answer."""
    columns = [
        seeded_texts(min(messages // 4, 500), seed=place, words=words)
        for place, words in enumerate(WORDS)
    ]
    made: list[ChatMessage] = []
    for turn in range(messages // 4):
        question, aside, query, result, answer = (column[turn % len(column)] for column in columns)
        call = ToolUseBlock(f"call_{turn}", "search", json.dumps({"query": query}))
        made += [
            ChatMessage("user", question, id=f"q{turn}"),
            ChatMessage("assistant", (TextBlock(aside), call), id=f"c{turn}"),
            ChatMessage("tool", (ToolResultBlock(call.id, result),), id=f"r{turn}"),
            ChatMessage("assistant", answer, id=f"a{turn}"),
        ]
    return made


def cpu_ms(act: Callable[[], object], times: int, warm_up: int = 0) -> float:
    """Return the median CPU time of an act, collections of garbage apart."""
    taken = []
    gc.collect()
    gc.disable()
    try:
        for round_ in range(warm_up + times):
            start = time.process_time()
            act()
            if round_ >= warm_up:
                taken.append((time.process_time() - start) * 1_000)
    finally:
        gc.enable()
    return median(taken)


def kaosmem_window(
    messages: Sequence[ChatMessage], loop: asyncio.AbstractEventLoop
) -> Callable[[], int]:
    """Return what appends a turn and assembles a window, and says how many tokens it takes."""
    provider = InMemoryHistoryProvider()
    turns = iter(range(10**9))
    memory = SessionMemory.test_mode()
    extra = conversation(4)

    async def start() -> None:
        await provider.append_many("a", messages, session_id="s")
        await memory.attach(HistorySource(provider, "a", "s"))

    async def turn() -> int:
        number = next(turns)
        call = ToolUseBlock(f"new_{number}", "search")
        answered = ChatMessage("tool", (ToolResultBlock(call.id, extra[2].text),))
        new = [extra[0], ChatMessage("assistant", (call,)), answered, extra[3]]
        await provider.append_many("a", new, session_id="s")
        return (await memory.assemble_context("", budget=BUDGET, format="openai")).used

    loop.run_until_complete(start())
    return lambda: loop.run_until_complete(turn())


def langchain_window(messages: Sequence[ChatMessage]) -> Callable[[], int]:
    from langchain_core.messages import (
        AIMessage,
        BaseMessage,
        HumanMessage,
        ToolMessage,
        trim_messages,
    )

    counter = get_counter()

    def made(message: ChatMessage) -> BaseMessage:
        if message.role == "user":
            return HumanMessage(message.text)
        for block in message.blocks:
            if isinstance(block, ToolUseBlock):
                call = {"name": block.name, "args": json.loads(block.arguments), "id": block.id}
                return AIMessage(message.blocks[0].text, tool_calls=[call])  # type: ignore[union-attr]
            if isinstance(block, ToolResultBlock):
                return ToolMessage(str(block.content), tool_call_id=block.tool_use_id)
        return AIMessage(message.text)

    def size(message: BaseMessage) -> int:
        calls = getattr(message, "tool_calls", ())
        called = sum(
            counter(call["id"]) + counter(call["name"]) + counter(json.dumps(call["args"]))
            for call in calls
        )
        return 3 + counter(message.type) + counter(str(message.content)) + called

    held = [made(message) for message in messages]
    return lambda: len(
        trim_messages(
            held,
            max_tokens=BUDGET,
            token_counter=lambda some: sum(map(size, some)) + 3,
            strategy="last",
            start_on="human",
            include_system=True,
        )
    )


def agent_framework_windows(
    messages: Sequence[ChatMessage], loop: asyncio.AbstractEventLoop
) -> dict[str, Callable[[], int]]:
    """Return its strategies, each over messages that it sees for the first time, as a stateless worker's are."""
    import agent_framework as af

    class Tokenizer:
        def __init__(self) -> None:
            self._counter = get_counter()

        def count_tokens(self, text: str) -> int:
            return self._counter(text)

    def made(message: ChatMessage) -> af.Message:
        contents = []
        for block in message.blocks:
            match block:
                case ToolUseBlock():
                    contents.append(
                        af.Content.from_function_call(
                            block.id, block.name, arguments=block.arguments
                        )
                    )
                case ToolResultBlock():
                    contents.append(
                        af.Content.from_function_result(
                            block.tool_use_id, result=str(block.content)
                        )
                    )
                case TextBlock():
                    contents.append(af.Content.from_text(block.text))
        return af.Message(message.role, contents)

    tokenizer = Tokenizer()
    strategies = {
        "truncation": af.TruncationStrategy(
            max_n=BUDGET, compact_to=BUDGET // 2, tokenizer=tokenizer
        ),
        "sliding window": af.SlidingWindowStrategy(keep_last_groups=50),
        "tool calls": af.SelectiveToolCallCompactionStrategy(keep_last_tool_call_groups=5),
    }

    def window(strategy: af.CompactionStrategy) -> int:
        held = [made(message) for message in messages]
        return len(
            loop.run_until_complete(
                af.apply_compaction(held, strategy=strategy, tokenizer=tokenizer)
            )
        )

    return {name: partial(window, strategy) for name, strategy in strategies.items()}


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    with asyncio.Runner() as runner:
        yield runner.get_loop()


def test_a_window_is_filled(loop: asyncio.AbstractEventLoop) -> None:
    """Of a long thread between half of the budget and all of it is used, turn after turn."""
    window = kaosmem_window(conversation(400), loop)
    assert all(0.4 * BUDGET <= window() <= BUDGET for _ in range(10))


def test_each_strategy_shortens_a_long_conversation(loop: asyncio.AbstractEventLoop) -> None:
    """To less than it was, and the last message stays."""
    messages = conversation(600)
    sizes = MessageSizes()
    for strategy in STRATEGIES.values():
        left = loop.run_until_complete(strategy.compact(messages))
        assert sizes.total(left) < sizes.total(messages)
        assert left[-1] == messages[-1]


@pytest.mark.timed
def test_cost_of_a_window(
    capsys: pytest.CaptureFixture[str], loop: asyncio.AbstractEventLoop
) -> None:
    """It is the same in any thread, and a fiftieth of what trim_messages takes of 10,000 messages."""
    with capsys.disabled():
        print(
            f"\na window of {BUDGET:,} tokens, CPU "
            f"ms\n{'messages':>9}{'kaosmem':>10}{'trim_messages':>15}{'ratio':>8}"
        )
        ours = {}
        for length in LENGTHS:
            messages = conversation(length)
            ours[length] = cpu_ms(kaosmem_window(messages, loop), TURNS, WARM_UP)
            print(f"{length:>9,}{ours[length]:>10.2f}", end="")
            if find_spec("langchain_core") and length <= 10_000:
                trimming = cpu_ms(langchain_window(messages), 5, 1)
                print(f"{trimming:>15.1f}{trimming / ours[length]:>8.1f}", end="")
                assert length < 10_000 or trimming > LEAST_RATIO * ours[length]
            print()
    assert max(ours.values()) < MOST_SPREAD * min(ours.values())


@pytest.mark.timed
def test_cost_beside_agent_framework(
    capsys: pytest.CaptureFixture[str], loop: asyncio.AbstractEventLoop
) -> None:
    """Its strategies, which count again in a loop, take longer for any list."""
    if not find_spec("agent_framework"):
        pytest.skip("agent-framework-core is not installed; the extra bench has it")
    messages = conversation(SLOW)
    ours = cpu_ms(kaosmem_window(messages, loop), TURNS, WARM_UP)
    with capsys.disabled():
        print(f"\nof {SLOW:,} messages, CPU ms\n{'kaosmem, a window':<34}{ours:>10.2f}")
        for name, window in agent_framework_windows(messages, loop).items():
            theirs = cpu_ms(window, 1)
            print(f"{'agent-framework, ' + name:<34}{theirs:>10.1f}{theirs / ours:>10,.0f} x")
            assert theirs > ours


@pytest.mark.timed
def test_cost_of_strategies(
    capsys: pytest.CaptureFixture[str], loop: asyncio.AbstractEventLoop
) -> None:
    """Each takes at most three passes of counting, of 10,000 messages and of 100,000."""
    with capsys.disabled():
        print(f"\n{'strategy':<22}{'messages':>9}{'ms':>10}{'passes of counting':>20}")
        for length in LENGTHS[1:]:
            messages = conversation(length)
            counting = cpu_ms(lambda messages=messages: MessageSizes().total(messages), 3, 1)  # type: ignore[misc]
            print(f"{'counting':<22}{length:>9,}{counting:>10.1f}{1:>20.2f}")
            nothing_old = SummarizationCompaction(
                ScriptedLLM([]), recent_token_budget=10**9, min_old_tokens=0
            )
            all_old = SummarizationCompaction(ScriptedLLM(lambda _: "They searched."), 3_000, 1_000)
            summaries = {"summary, nothing old": nothing_old, "summary, nearly all": all_old}
            for name, strategy in {**STRATEGIES, **summaries}.items():

                def shorten(
                    strategy: CompactionStrategy = strategy, messages: list[ChatMessage] = messages
                ) -> None:
                    loop.run_until_complete(strategy.compact(messages))

                taken = cpu_ms(shorten, 3, 1)
                print(f"{name:<22}{length:>9,}{taken:>10.1f}{taken / counting:>20.2f}")
                assert taken < MOST_PASSES * counting


@pytest.mark.timed
def test_cost_of_looking_for_facts(capsys: pytest.CaptureFixture[str]) -> None:
    """In line with the length of a text of any kind; by the number of what is found, and so beyond the texts above."""
    rng = random.Random(0)
    words = " ".join(seeded_texts(1, seed=0, words=100_000)).split()
    numbers = [str(rng.randrange(10 ** rng.randint(1, 6))) for _ in words]
    sources = sorted(Path(kaosmem.__file__).parent.rglob("*.py"))
    kinds = {
        "prose": words,
        "a number in ten words": [
            numbers[place] if place % 10 == 0 else word for place, word in enumerate(words)
        ],
        "numbers alone": numbers,
        "code": "\n".join(path.read_text("utf-8") for path in sources).split(" "),
    }
    with capsys.disabled():
        print(f"\n{'facts in':<24}{'found a MB':>12}{'ms a MB':>10}{'of twice as much':>18}")
        for kind, pieces in kinds.items():
            text = " ".join(pieces)
            found = sum(1 for _ in facts_in(text))
            once, twice = (
                cpu_ms(lambda text=each: list(facts_in(text)), 3, 1)
                for each in (text, f"{text} {text}")
            )  # type: ignore[misc]
            size = len(text.encode()) / 1e6
            print(f"{kind:<24}{found / size:>12,.0f}{once / size:>10.1f}{twice / once:>18.2f}")
            assert twice < 3 * once
