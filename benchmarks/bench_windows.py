"""Windows that only grow beside packing anew: evidence, tokens, cost and thinking over many turns.

    KAOSMEM_DATA=FOLDER python -m benchmarks.bench_windows [--sets locomo,finance] [--questions 60]

FOLDER is laid out as for `benchmarks/evidence_recall.py`. Each question of a corpus is a turn: a user's message, a
request, and a scripted reply with thinking that `PrefixBinding` signs. Evidence is the share of a question's evidence
that its request shows. A token that a request shares with the one before costs 0.1, any other 1.25. Packing anew takes
the same path with `rebase=True`; its cost at the evidence of the window is interpolated between sizes of its block.
The others get the block of packing anew in the user's message, and cut the whole conversation.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from statistics import mean

from benchmarks.bench_prefix import agent_framework_window, langchain_window
from kaosmem import DEFAULT_SECTIONS, Context, SessionMemory, count_messages
from kaosmem.evaluation import Corpus, Question, read_corpora
from kaosmem.testing import PrefixBinding

Loop = asyncio.AbstractEventLoop
READ, WRITTEN = 0.1, 1.25
CASES = ((8_000, 512), (32_000, 2_000), (32_000, 4_000), (128_000, 4_000))
BLOCKS = (256, 512, 1_000, 2_000, 4_000, 8_000)
SECTIONS = DEFAULT_SECTIONS.replace(messages={"budget": None, "eviction": "none"})
REPLY = "The passages above answer this. " * 8


@dataclass(frozen=True)
class Turn:
    """One turn: the evidence that its request shows, its tokens, and its thinking blocks of those that were replied."""

    evidence: float
    read: int
    written: int
    rebased: bool
    thinking: float | None = None

    @property
    def cost(self) -> float:
        return READ * self.read + WRITTEN * self.written


@dataclass(frozen=True)
class Run:
    """The mean turn."""

    turns: Sequence[Turn]

    def mean(self, name: str) -> float:
        return mean([float(value) for turn in self.turns if (value := getattr(turn, name)) is not None] or [0.0])

    def row(self, name: str) -> str:
        figures = [self.mean(each) for each in ("evidence", "written", "read", "cost", "thinking", "rebased")]
        evidence, written, read, cost, thinking, rebased = figures
        return (
            f"{name:<28}{evidence:>9.3f}{written:>9,.0f}{read:>9,.0f}{cost:>9,.0f}{thinking:>10.2f}"
            f"{100 * rebased:>9.1f}"
        )


def loaded(corpus: Corpus) -> SessionMemory:
    """Return a session with the items of a corpus in its documents."""
    memory = SessionMemory.test_mode(sections=SECTIONS)
    for item in corpus.items:
        metadata = {"source": item.session, "timestamp": item.timestamp}
        metadata = {name: value for name, value in metadata.items() if value}
        memory.add("documents", item.text, id=item.id, role=item.role, metadata=metadata)
    return memory


def windowed(loop: Loop, corpus: Corpus, queries: int, *, budget: int, block: int, anew: bool) -> Run:
    """Ask the questions in turn. anew: pack each request anew."""
    memory, provider = loaded(corpus), PrefixBinding()
    turns: list[Turn] = []
    previous: Context | None = None
    for number, question in enumerate(asked(corpus, queries)):
        memory.add("messages", question.query)
        context = loop.run_until_complete(
            memory.assemble_context(
                question.query, budget=budget, format="anthropic", window="main", block=block, rebase=anew
            )
        )
        valid = provider.check(context.messages, context.system)
        read = context.prefix_tokens
        if anew and previous is not None:
            read = context.shared_prefix(previous)
        shown = {item.id for item in context.items}
        found = sum(each in shown for each in question.evidence_ids) / len(question.evidence_ids)
        thinking = valid / number if number else None
        turns.append(Turn(found, read, context.used - read, context.rebased is not None and number > 0, thinking))
        content = provider.reply(context.messages, context.system, content=[{"type": "text", "text": REPLY}])
        memory.add_message({"role": "assistant", "content": content}, format="anthropic")
        previous = context
    return Run(turns)


def asked(corpus: Corpus, queries: int) -> list[Question]:
    """Return questions that have evidence, in order."""
    return [question for question in corpus.questions if question.evidence_ids][:queries]


Cut = Callable[[Sequence[dict[str, object]]], Sequence[dict[str, object]]]


def others(loop: Loop, corpus: Corpus, queries: int, cut: Cut, *, budget: int, block: int) -> Run:
    """Put what packing anew retrieves into each question, and let another library cut the conversation."""
    memory = loaded(corpus)
    turns: list[Turn] = []
    last: Sequence[dict[str, object]] = ()
    new: list[dict[str, object]] = []
    for question in asked(corpus, queries):
        context = loop.run_until_complete(
            memory.assemble_context(question.query, budget=block, format="text", sections=["documents"])
        )
        marks = " ".join(f"<{item.id}>" for item in context.items)
        new.append({"role": "user", "content": f"{marks}\n{context.text}\n{question.query}"})
        sent = list(cut(new))
        kept = next((place for place, (a, b) in enumerate(zip(last, sent, strict=False)) if a != b), len(last))
        read, used = count_messages(sent[:kept], "openai"), count_messages(sent, "openai")
        said = json.dumps(sent, ensure_ascii=False)
        found = sum(json.dumps(f"<{each}>")[1:-1] in said for each in question.evidence_ids)
        turns.append(Turn(found / len(question.evidence_ids), read, used - read, kept < len(last)))
        last, new = sent, [{"role": "assistant", "content": REPLY}]
    return Run(turns)


def at_equal_evidence(run: Run, packed: Sequence[Run]) -> float | None:
    """Return the cost of a run beside that of packing anew at the same evidence; None if that never reaches it."""
    points = sorted((each.mean("evidence"), each.mean("cost")) for each in packed)
    evidence = run.mean("evidence")
    place = bisect_left([each for each, _ in points], evidence)
    if place == len(points):
        return None
    (low, cheap), (high, dear) = points[max(0, place - 1)], points[place]
    share = (evidence - low) / (high - low) if high > low else 1.0
    return run.mean("cost") / (cheap + share * (dear - cheap))


def compared(loop: Loop, corpora: Sequence[Corpus], queries: int, budget: int, block: int) -> None:
    """Print the means over all corpora."""

    def over(run: Callable[[Corpus], Run]) -> Run:
        return Run([turn for corpus in corpora for turn in run(corpus).turns])

    grown = over(lambda corpus: windowed(loop, corpus, queries, budget=budget, block=block, anew=False))
    packed = {
        size: over(lambda corpus, size=size: windowed(loop, corpus, queries, budget=budget, block=size, anew=True))
        for size in BLOCKS
        if size * 2 <= budget
    }
    print(f"\nbudget {budget:,}, block {block:,}, {len(grown.turns):,} turns")
    print(f"{'':<28}{'evidence':>9}{'written':>9}{'read':>9}{'cost':>9}{'thinking':>10}{'rebases':>9}")
    print(grown.row("growing window"))
    for size, run in packed.items():
        print(run.row(f"packing anew, {size:,}"))
    for name, make in cuts(loop, budget).items():
        run = over(lambda corpus, make=make: others(loop, corpus, queries, make(), budget=budget, block=block))
        print(run.row(name))
    ratio = at_equal_evidence(grown, list(packed.values()))
    never = "packing anew with these blocks never shows as much"
    print(f"cost at equal evidence: {never if ratio is None else f'{ratio:.2f}'}", flush=True)


def cuts(loop: Loop, budget: int) -> dict[str, Callable[[], Cut]]:
    """Return the windows of others, those that are installed."""
    found: dict[str, Callable[[], Cut]] = {}
    if find_spec("langchain_core"):
        found["langchain trim_messages"] = lambda: langchain_window(budget)
    if find_spec("agent_framework"):
        found["agent-framework truncation"] = lambda: agent_framework_window(loop, reloaded=False, budget=budget)
    return found


def main() -> None:
    """Compare all cases over the corpora of a folder."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_windows", description=__doc__.split("\n")[0])
    parser.add_argument("--data", default=os.environ.get("KAOSMEM_DATA"), help="by default KAOSMEM_DATA")
    parser.add_argument("--sets", type=lambda text: text.split(","), default=(), help="only these data sets")
    parser.add_argument("--corpora", type=int, default=2, help="of each data set, by default 2")
    parser.add_argument("--budgets", type=lambda text: [*map(int, text.split(","))], help="only cases of these budgets")
    parser.add_argument("--questions", type=int, default=60, help="of each corpus, by default 60")
    options = parser.parse_args()
    if not options.data:
        parser.error("no data: give --data FOLDER, or set KAOSMEM_DATA")
    by_set: dict[str, list[Corpus]] = {}
    for corpus in read_corpora(Path(options.data), datasets=options.sets):
        by_set.setdefault(corpus.dataset, []).append(corpus)
    chosen = [corpus for each in by_set.values() for corpus in each[: options.corpora]]
    with asyncio.Runner() as runner:
        for budget, block in CASES:
            if options.budgets and budget not in options.budgets:
                continue
            compared(runner.get_loop(), chosen, options.questions, budget, block)


if __name__ == "__main__":
    main()
