"""Windows that only grow beside packing anew: evidence, tokens, cost and thinking over many turns.

    python -m benchmarks.bench_windows --data FOLDER [--sets locomo,finance] [--keep FILE] [--read 0.1] [--write 1.25]

FOLDER is laid out as for `benchmarks/evidence_recall.py`. Each question of a corpus is a turn: a user's message, a
request, and a scripted reply with thinking that `PrefixBinding` signs. Packing anew gives `rebase=True` to each call.
The other libraries get the block of packing anew in the user's message, and cut the whole conversation.

evidence    share of a question's evidence that its request shows
written     tokens a turn that do not begin the previous request; read: the others
cost        a turn in token-equivalents, with the prices of a token that is read and of one that is written
equal       cost beside packing anew at the same evidence, interpolated between sizes of its block
thinking    valid thinking blocks of all that were replied so far
rebases     of 100 turns

Each run is checked: a request extends the one before exactly, is within its budget, and a window shows at least the
evidence that packing anew shows with the same block.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import mean
from typing import NamedTuple

from rich.progress import Progress

from benchmarks.bench_prefix import agent_framework_window, langchain_window
from kaosmem import DEFAULT_SECTIONS, Context, SessionMemory, count_messages
from kaosmem.evaluation import Corpus, Question, read_corpora
from kaosmem.testing import PrefixBinding

WINDOWS = {8_000: (512, 2_000), 32_000: (2_000, 4_000), 128_000: (4_000, 8_000)}
"""The blocks of windows for each budget."""
PACKED = {8_000: (256, 512, 1_000, 2_000, 4_000), 32_000: (1_000, 2_000, 4_000, 8_000, 16_000)}
"""The blocks of packing anew for each budget. These histories take less than a quarter of 32,000, so that 128,000
changes nothing."""
SECTIONS = DEFAULT_SECTIONS.replace(messages={"budget": None, "eviction": "none"})
REPLY = "The passages above answer this. " * 8

Cut = Callable[[Sequence[dict[str, object]]], Sequence[dict[str, object]]]


class Turn(NamedTuple):
    """The evidence that a turn's request shows, its tokens, and the valid part of the thinking that came before."""

    evidence: float
    read: int
    written: int
    rebased: bool
    thinking: float | None = None


class Prices(NamedTuple):
    """The price of a token that is read from a provider's cache, and of one that is written to it."""

    read: float = 0.1
    written: float = 1.25

    def of(self, turns: Sequence[Turn]) -> float:
        return mean(self.read * turn.read + self.written * turn.written for turn in turns)


def evidence(turns: Sequence[Turn]) -> float:
    return mean(turn.evidence for turn in turns)


# runs


def windowed(corpus: Corpus, asked: Sequence[Question], budget: int, block: int) -> list[Turn]:
    """Ask the questions in a window that grows."""
    memory, provider, turns = loaded(corpus), PrefixBinding(), list[Turn]()
    previous: Context | None = None
    with asyncio.Runner() as runner:
        for number, question in enumerate(asked):
            memory.add("messages", question.query)
            context = runner.run(
                memory.assemble_context(question.query, budget=budget, format="anthropic", window="main", block=block)
            )
            reply = provider.reply(context.messages, context.system, content=[{"type": "text", "text": REPLY}])
            said = [each["content"] for each in context.messages if isinstance(each["content"], list)]
            valid = sum(block["type"] == "thinking" for blocks in said for block in blocks)
            assert context.used <= budget
            if previous is not None and context.rebased is None:
                assert context.system == previous.system
                assert context.messages[: len(previous.messages)] == previous.messages
                assert context.prefix_tokens == previous.used
            thinking = valid / number if number else None
            read, written, rebased = context.prefix_tokens, context.appended, bool(number and context.rebased)
            turns.append(Turn(found(question, context), read, written, rebased, thinking))
            memory.add_message({"role": "assistant", "content": reply}, format="anthropic")
            previous = context
    return turns


def packed(corpus: Corpus, asked: Sequence[Question], budget: int, blocks: Sequence[int]) -> dict[int, list[Turn]]:
    """Ask the questions with each block, every request packed anew: its thinking would not be valid."""
    memory = loaded(corpus)
    turns: dict[int, list[Turn]] = {block: [] for block in blocks}
    previous: dict[int, Context] = {}
    with asyncio.Runner() as runner:
        for question in asked:
            memory.add("messages", question.query)
            for block in blocks:
                call = partial(memory.assemble_context, question.query, budget=budget, format="anthropic")
                context = runner.run(call(window=str(block), block=block, rebase=True))
                assert context.used <= budget
                before = previous.get(block)
                read = 0 if before is None else context.shared_prefix(before)
                turns[block].append(Turn(found(question, context), read, context.used - read, before is not None, 0.0))
                previous[block] = context
            memory.add("messages", REPLY, role="assistant")
    return turns


def cut_by_others(corpus: Corpus, asked: Sequence[Question], make: Callable[[], Cut], block: int) -> list[Turn]:
    """Put what packing anew retrieves into each question, and let another library cut the conversation."""
    memory, cut, turns = loaded(corpus), make(), list[Turn]()
    last: Sequence[dict[str, object]] = ()
    new: list[dict[str, object]] = []
    with asyncio.Runner() as runner:
        for question in asked:
            context = runner.run(
                memory.assemble_context(question.query, budget=block, format="text", sections=["documents"])
            )
            marks = " ".join(f"<{item.id}>" for item in context.items)
            new.append({"role": "user", "content": f"{marks}\n{context.text}\n{question.query}"})
            sent = list(cut(new))
            kept = next((place for place, (a, b) in enumerate(zip(last, sent, strict=False)) if a != b), len(last))
            read, used = count_messages(sent[:kept], "openai"), count_messages(sent, "openai")
            said = json.dumps(sent, ensure_ascii=False)
            shown = [json.dumps(f"<{each}>")[1:-1] in said for each in question.evidence_ids]
            turns.append(Turn(mean(shown), read, used - read, kept < len(last), 0.0))
            last, new = sent, [{"role": "assistant", "content": REPLY}]
    return turns


def loaded(corpus: Corpus) -> SessionMemory:
    """Return a session with the items of a corpus in its documents."""
    memory = SessionMemory.test_mode(sections=SECTIONS)
    for item in corpus.items:
        metadata = {"source": item.session, "timestamp": item.timestamp}
        metadata = {name: value for name, value in metadata.items() if value}
        memory.add("documents", item.text, id=item.id, role=item.role or None, metadata=metadata)
    return memory


def found(question: Question, context: Context) -> float:
    """Return the share of a question's evidence that a context shows."""
    shown = {item.id for item in context.items}
    return mean(each in shown for each in question.evidence_ids)


def cuts(loop: asyncio.AbstractEventLoop, budget: int) -> dict[str, Callable[[], Cut]]:
    """Return the other libraries that are installed."""
    installed: dict[str, Callable[[], Cut]] = {}
    if find_spec("langchain_core"):
        installed["langchain trim_messages"] = partial(langchain_window, budget)
    if find_spec("agent_framework"):
        installed["agent-framework truncation"] = partial(agent_framework_window, loop, reloaded=False, budget=budget)
    return installed


# comparison

Runs = Mapping[str, list[Turn]]
"""The turns of each run over one corpus, by the run's name."""


def runs_over(
    corpus: Corpus, questions: int, budget: int, *, kept: Runs, others: bool, advance: Callable[[], None]
) -> Iterator[tuple[str, list[Turn]]]:
    """Yield each run over a corpus that is not kept already, checked."""
    asked = [question for question in corpus.questions if question.evidence_ids][:questions]
    done = dict(kept)
    within = packed_budget(budget)
    if any(f"packed {within} {block}" not in done for block in PACKED[within]):
        for block, turns in packed(corpus, asked, within, PACKED[within]).items():
            done[f"packed {within} {block}"] = turns
            yield f"packed {within} {block}", turns
    advance()
    for block in WINDOWS[budget]:
        if (name := f"window {budget} {block}") not in done:
            yield name, (grown := windowed(corpus, asked, budget, block))
            anew = done[f"packed {within} {block}"]
            assert all(mine.evidence >= theirs.evidence for mine, theirs in zip(grown, anew, strict=True))
        advance()
    with closing(asyncio.new_event_loop()) as loop:
        for other, make in cuts(loop, budget).items() if others else ():
            block = WINDOWS[budget][len(WINDOWS[budget]) // 2]
            if (name := f"{other} {budget} {block}") not in done:
                yield name, cut_by_others(corpus, asked, make, block)
            advance()


def packed_budget(budget: int) -> int:
    """Return the budget in which packing anew is measured beside windows of a budget."""
    return min(budget, max(PACKED))


def at_equal_evidence(turns: Sequence[Turn], anew: Sequence[Sequence[Turn]], prices: Prices) -> float | None:
    """Return the cost of a run beside packing anew at the same evidence; None if that always shows more, or less."""
    points = sorted((evidence(each), prices.of(each)) for each in anew)
    shown = evidence(turns)
    place = bisect_left([each for each, _ in points], shown)
    if place in (0, len(points)):
        return None
    (low, cheap), (high, dear) = points[max(0, place - 1)], points[place]
    share = (shown - low) / (high - low) if high > low else 1.0
    return prices.of(turns) / (cheap + share * (dear - cheap))


HEADER = (
    f"{'':<36}{'evidence':>9}{'written':>9}{'read':>9}{'cost':>9}{'equal':>8}{'thinking':>10}{'rebases':>9}{'turns':>7}"
)


def table(over: Sequence[Runs], budget: int, prices: Prices) -> Iterator[str]:
    """Yield the lines of a table with the means over all turns of some corpora."""
    parts = f" {budget} ", f"packed {packed_budget(budget)} "
    names = dict.fromkeys(name for runs in over for name in runs if any(part in name for part in parts))
    merged = {name: [turn for runs in over for turn in runs.get(name, ())] for name in names}
    anew = [turns for name, turns in merged.items() if name.startswith("packed")]
    for name, turns in merged.items():
        kind, _, block = name.rsplit(" ", 2)
        equal = None if kind == "packed" else at_equal_evidence(turns, anew, prices)
        kind = {"window": "growing window", "packed": "packing anew"}.get(kind, kind)
        valid = [turn.thinking for turn in turns if turn.thinking is not None]
        yield (
            f"{f'{kind}, block {int(block):,}':<36}{evidence(turns):>9.3f}{mean(turn.written for turn in turns):>9,.0f}"
            f"{mean(turn.read for turn in turns):>9,.0f}{prices.of(turns):>9,.0f}"
            f"{'' if equal is None else f'{equal:.2f}':>8}{mean(valid):>10.2f}"
            f"{100 * mean(turn.rebased for turn in turns):>9.1f}{len(turns):>7,}"
        )


def is_conversation(corpus: Corpus) -> bool:
    """Return whether someone speaks in a corpus."""
    return any(item.role for item in corpus.items)


def main() -> None:
    """Compare all budgets and blocks over the corpora of a folder."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_windows", description=__doc__.split("\n")[0])
    parser.add_argument("--data", default=os.environ.get("KAOSMEM_DATA"), help="by default KAOSMEM_DATA")
    parser.add_argument("--sets", type=lambda text: text.split(","), default=(), help="only these data sets")
    parser.add_argument("--corpora", type=int, help="of each data set, by default all")
    parser.add_argument("--questions", type=int, default=60, help="of each corpus, by default 60")
    parser.add_argument("--budgets", type=lambda text: [*map(int, text.split(","))], default=[*WINDOWS])
    parser.add_argument("--read", type=float, default=Prices().read, help="price of a token that is read")
    parser.add_argument("--write", type=float, default=Prices().written, help="price of a token that is written")
    parser.add_argument("--no-others", action="store_true", help="leave out the other libraries, which take long")
    parser.add_argument("--keep", type=Path, help="a file that keeps each run; a run that it has is not repeated")
    options = parser.parse_args()
    if not options.data:
        parser.error("no data: give --data FOLDER, or set KAOSMEM_DATA")
    by_set: dict[str, list[Corpus]] = {}
    for corpus in read_corpora(Path(options.data), datasets=options.sets):
        by_set.setdefault(corpus.dataset, []).append(corpus)
    chosen = {corpus.name: corpus for each in by_set.values() for corpus in each[: options.corpora]}
    kept: dict[str, dict[str, list[Turn]]] = {name: {} for name in chosen}
    for line in options.keep.read_text().splitlines() if options.keep and options.keep.exists() else ():
        stored = json.loads(line)
        kept.setdefault(stored["corpus"], {})[stored["run"]] = [Turn(*each) for each in stored["turns"]]
    for missing in {"langchain_core", "agent_framework"}:
        if not find_spec(missing):
            print(f"{missing} is not installed, and is left out")
    with Progress() as progress:
        with closing(asyncio.new_event_loop()) as loop:
            steps = sum(1 + len(WINDOWS[budget]) + len(cuts(loop, budget)) for budget in options.budgets)
        task = progress.add_task("corpora", total=steps * len(chosen))
        for name, corpus in chosen.items():
            progress.update(task, description=name)
            for budget in options.budgets:
                advance = partial(progress.advance, task)
                runs = runs_over(
                    corpus,
                    options.questions,
                    budget,
                    kept=kept[name],
                    others=not options.no_others,
                    advance=advance,
                )
                for run, turns in runs:
                    kept[name][run] = turns
                    if options.keep:
                        with options.keep.open("a") as file:
                            file.write(json.dumps({"corpus": name, "run": run, "turns": turns}) + "\n")
    prices = Prices(options.read, options.write)
    for budget in options.budgets:
        groups = {
            "all corpora": list(chosen),
            "conversations": [name for name, corpus in chosen.items() if is_conversation(corpus)],
            "documents": [name for name, corpus in chosen.items() if not is_conversation(corpus)],
        }
        for group, names in groups.items():
            if names:
                print(f"\nbudget {budget:,}, {group}: {len(names)}\n{HEADER}")
                print(*table([kept[name] for name in names], budget, prices), sep="\n")


if __name__ == "__main__":
    main()
