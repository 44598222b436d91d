"""Windows that only grow beside packing anew: evidence, tokens, cost and thinking over many turns.

    python -m benchmarks.bench_windows --data FOLDER [--sets locomo,finance] [--keep FILE] [--read
    0.1] [--write 1.25]

FOLDER is laid out as for `benchmarks/evidence_recall.py`. Each question of a corpus is a turn: a
user's message, a request, and a scripted reply with thinking that `PrefixBinding` signs. Packing
anew gives `rebase=True` to each call. The other libraries get the block of packing anew in the
user's message, and cut the whole conversation.

evidence    share of a question's evidence that its request shows
written     tokens a turn that do not begin the previous request; read: the others
cost        a turn in token-equivalents, with the prices of a token that is read and of one that is
written equal       cost beside packing anew at the same evidence, interpolated between sizes of its
block; "<" if the largest
            shows less
thinking    valid thinking blocks of all that were replied so far
rebases     of 100 turns

Each run is checked: a request extends the one before exactly, is within its budget, and a window
shows at least the evidence that packing anew shows with the same block.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from statistics import mean
from typing import NamedTuple

import pytest
from rich.progress import track

from benchmarks.bench_prefix import agent_framework_window, langchain_window
from kaosmem import DEFAULT_SECTIONS, Context, SessionMemory, Window
from kaosmem.evaluation import read_corpora
from kaosmem.evaluation.evidence import Corpus, EvidenceItem, Question
from kaosmem.formats import count_messages
from kaosmem.tokens.counters import TokenCounter
from tests.prefix_binding import PrefixBinding

WINDOWS = {8_000: (512, 2_000), 32_000: (2_000, 4_000), 128_000: (4_000, 8_000)}
"""The blocks of windows for each budget."""
PACKED = {8_000: (256, 512, 1_000, 2_000, 4_000), 32_000: (1_000, 2_000, 4_000, 8_000, 16_000)}
"""The blocks of packing anew for each budget.

These histories take less than a quarter of 32,000, so that 128,000
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


def windowed(
    corpus: Corpus, asked: Sequence[Question], budget: int, block: int, *, anew: bool = False
) -> list[Turn]:
    """Ask the questions in a window, and check each request. anew: pack each request anew."""
    memory = loaded(corpus)
    provider = PrefixBinding()
    turns = list[Turn]()
    previous: Context | None = None
    with asyncio.Runner() as runner:
        for number, question in enumerate(asked):
            memory.add("messages", question.query)
            call = partial(
                memory.assemble_context, question.query, budget=budget, format="anthropic"
            )
            context = runner.run(call(window=Window("main", block=block, rebase=anew)))
            reply = provider.reply(
                context.messages, context.system, content=[{"type": "text", "text": REPLY}]
            )
            memory.add_message({"role": "assistant", "content": reply}, format="anthropic")
            assert context.used <= budget
            read = context.prefix_tokens
            if previous is not None and anew:
                read = _shared_tokens(context, previous, memory.admin.counter)
            elif previous is not None and context.rebased is None:
                assert (context.system, read) == (previous.system, previous.used)
                assert context.messages[: len(previous.messages)] == previous.messages
            rebased = bool(number and context.rebased)
            valid = thoughts(context) / number if number else None
            turns.append(Turn(found(question, context), read, context.used - read, rebased, valid))
            previous = context
    return turns


def _shared_tokens(context: Context, previous: Context, counter: TokenCounter) -> int:
    """Return the number of leading tokens of a request that equal those of the previous one."""
    if context.system != previous.system:
        return 0
    shared = []
    for message, before in zip(context.messages, previous.messages, strict=False):
        if message != before:
            break
        shared.append(message)
    return count_messages(shared, context.format, system=context.system, counter=counter)


def thoughts(context: Context) -> int:
    """Return the number of thinking blocks that a request sends back."""
    said = [each["content"] for each in context.messages if isinstance(each["content"], list)]
    return sum(block["type"] == "thinking" for blocks in said for block in blocks)


def cut_by_others(
    corpus: Corpus, asked: Sequence[Question], make: Callable[[], Cut], block: int
) -> list[Turn]:
    """Put what packing anew retrieves into each question, and let another library cut the conversation."""
    memory = loaded(corpus)
    cut = make()
    turns = list[Turn]()
    last: Sequence[dict[str, object]] = ()
    new: list[dict[str, object]] = []
    with asyncio.Runner() as runner:
        for question in asked:
            context = runner.run(
                memory.assemble_context(
                    question.query, budget=block, format="text", sections=["documents"]
                )
            )
            marks = " ".join(f"<{item.id}>" for item in context.items)
            new.append({"role": "user", "content": f"{marks}\n{context.text}\n{question.query}"})
            sent = list(cut(new))
            kept = next(
                (place for place, (a, b) in enumerate(zip(last, sent, strict=False)) if a != b),
                len(last),
            )
            read = count_messages(sent[:kept], "openai")
            used = count_messages(sent, "openai")
            said = json.dumps(sent, ensure_ascii=False)
            shown = [json.dumps(f"<{each}>")[1:-1] in said for each in question.evidence_ids]
            turns.append(Turn(mean(shown), read, used - read, kept < len(last)))
            last = sent
            new = [{"role": "assistant", "content": REPLY}]
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
        installed["agent-framework truncation"] = partial(
            agent_framework_window, loop, reloaded=False, budget=budget
        )
    return installed


def runs_of(
    corpus: Corpus, questions: int, budget: int, others: Mapping[str, Callable[[], Cut]]
) -> dict[str, Callable[[], list[Turn]]]:
    """Return the runs over a corpus, each by its kind, its budget and its block."""
    asked = [question for question in corpus.questions if question.evidence_ids][:questions]
    within = packed_budget(budget)
    runs: dict[str, Callable[[], list[Turn]]] = {}
    for block in PACKED[within]:
        runs[f"packing anew {within} {block}"] = partial(
            windowed, corpus, asked, within, block, anew=True
        )
    for block in WINDOWS[budget]:
        runs[f"growing window {budget} {block}"] = partial(windowed, corpus, asked, budget, block)
    for name, make in others.items():
        block = WINDOWS[budget][0]
        runs[f"{name} {budget} {block}"] = partial(cut_by_others, corpus, asked, make, block)
    return runs


def packed_budget(budget: int) -> int:
    """Return the budget in which packing anew is measured beside windows of a budget."""
    return min(budget, max(PACKED))


# comparison

Runs = Mapping[str, list[Turn]]
"""The turns of each run over one corpus."""


def check(runs: Runs, budget: int, block: int) -> None:
    """Raise AssertionError if a window shows less evidence in a turn than packing anew with the same block."""
    grown = runs[f"growing window {budget} {block}"]
    anew = runs[f"packing anew {packed_budget(budget)} {block}"]
    assert all(mine.evidence >= theirs.evidence for mine, theirs in zip(grown, anew, strict=True))


def at_equal_evidence(turns: Sequence[Turn], anew: Sequence[Sequence[Turn]], prices: Prices) -> str:
    """Return the cost of a run beside packing anew at the same evidence.

    It is "<0.32" if the run shows more than packing anew with its largest block, and "" if it shows
    less than with the smallest.
    """
    points = sorted((evidence(each), prices.of(each)) for each in anew)
    shown = evidence(turns)
    cost = prices.of(turns)
    place = bisect_left([each for each, _ in points], shown)
    if place == 0:
        return ""
    if place == len(points):
        return f"<{cost / points[-1][1]:.2f}"
    (low, cheap), (high, dear) = points[place - 1], points[place]
    return f"{cost / (cheap + (shown - low) / (high - low) * (dear - cheap)):.2f}"


HEADER = (
    f"{'':<40}{'evidence':>9}{'written':>9}{'read':>9}{'cost':>9}"
    f"{'equal':>8}{'thinking':>10}{'rebases':>9}{'turns':>7}"
)


def table(over: Sequence[Runs], budget: int, prices: Prices) -> Iterator[str]:
    """Yield the lines of a table with the means over all turns of some corpora."""
    parts = f" {budget} ", f"packing anew {packed_budget(budget)} "
    kinds = "packing anew", "growing window"
    names = sorted(
        {name for runs in over for name in runs if any(part in name for part in parts)},
        key=lambda name: (
            [not name.startswith(kind) for kind in kinds],
            name.rsplit(" ", 1)[0],
            int(name.split()[-1]),
        ),
    )
    merged = {name: [turn for runs in over for turn in runs.get(name, ())] for name in names}
    anew = [turns for name, turns in merged.items() if name.startswith("packing anew")]
    yield HEADER
    for name, turns in merged.items():
        kind, _, block = name.rsplit(" ", 2)
        equal = "" if turns in anew else at_equal_evidence(turns, anew, prices)
        valid = [turn.thinking for turn in turns if turn.thinking is not None]
        yield (
            f"{f'{kind}, block {int(block):,}':<40}{evidence(turns):>9.3f}{mean(turn.written for turn in turns):>9,.0f}"
            f"{mean(turn.read for turn in turns):>9,.0f}{prices.of(turns):>9,.0f}"
            f"{equal:>8}{f'{mean(valid):.2f}' if valid else '':>10}"
            f"{100 * mean(turn.rebased for turn in turns):>9.1f}{len(turns):>7,}"
        )


def tables(
    corpora: Sequence[Corpus], kept: Mapping[str, Runs], budget: int, prices: Prices
) -> Iterator[str]:
    """Yield the lines of a table over all corpora, one over conversations and one over documents."""
    speaks = {corpus.name: any(item.role for item in corpus.items) for corpus in corpora}
    for group, wanted in (
        ("all corpora", (True, False)),
        ("conversations", (True,)),
        ("documents", (False,)),
    ):
        if over := [
            kept[name] for name, is_conversation in speaks.items() if is_conversation in wanted
        ]:
            yield f"\nbudget {budget:,}, {group}: {len(over)}"
            yield from table(over, budget, prices)


def read_kept(path: Path | None) -> dict[str, dict[str, list[Turn]]]:
    """Return the runs that a file keeps, by corpus."""
    kept: dict[str, dict[str, list[Turn]]] = {}
    if path and path.exists():
        for line in path.read_text().splitlines():
            stored = json.loads(line)
            kept.setdefault(stored["corpus"], {})[stored["run"]] = [
                Turn(*each) for each in stored["turns"]
            ]
    return kept


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.bench_windows", description=__doc__.split("\n")[0]
    )
    data = os.environ.get("KAOSMEM_DATA")
    parser.add_argument("--data", default=data, required=not data, help="by default KAOSMEM_DATA")
    parser.add_argument(
        "--sets", type=lambda text: text.split(","), default=(), help="only these data sets"
    )
    parser.add_argument("--corpora", type=int, help="of each data set, by default all")
    parser.add_argument("--questions", type=int, default=60, help="of each corpus, by default 60")
    parser.add_argument(
        "--budgets", type=lambda text: [*map(int, text.split(","))], default=[*WINDOWS]
    )
    parser.add_argument(
        "--read", type=float, default=Prices().read, help="price of a token that is read"
    )
    parser.add_argument(
        "--write", type=float, default=Prices().written, help="price of a token that is written"
    )
    parser.add_argument(
        "--no-others", action="store_true", help="leave out the other libraries, which take long"
    )
    parser.add_argument(
        "--keep", type=Path, help="a file that keeps each run; a run that it has is not repeated"
    )
    return parser.parse_args()


def main() -> None:
    """Compare all budgets and blocks over the corpora of a folder."""
    options = arguments()
    loop = asyncio.new_event_loop()
    by_set: dict[str, list[Corpus]] = {}
    for corpus in read_corpora(Path(options.data), datasets=options.sets):
        by_set.setdefault(corpus.dataset, []).append(corpus)
    chosen = [corpus for each in by_set.values() for corpus in each[: options.corpora]]
    kept = read_kept(options.keep)
    todo: dict[tuple[str, str], Callable[[], list[Turn]]] = {}
    for budget, corpus in product(options.budgets, chosen):
        others = {} if options.no_others else cuts(loop, budget)
        runs = runs_of(corpus, options.questions, budget, others)
        held = kept.setdefault(corpus.name, {})
        todo |= {(corpus.name, name): run for name, run in runs.items() if name not in held}
    for library in ("langchain_core", "agent_framework"):
        if not options.no_others and not find_spec(library):
            print(f"{library} is not installed and is left out")
    for name, run in track(todo, "runs", transient=True):
        kept[name][run] = todo[name, run]()
        if options.keep:
            with options.keep.open("a") as file:
                file.write(
                    json.dumps({"corpus": name, "run": run, "turns": kept[name][run]}) + "\n"
                )
    for budget in options.budgets:
        for corpus, block in product(chosen, WINDOWS[budget]):
            check(kept[corpus.name], budget, block)
        print(*tables(chosen, kept, budget, Prices(options.read, options.write)), sep="\n")
    loop.close()


# a small sample


def sample() -> Corpus:
    """Return a conversation on twelve rooms, and questions on six of them."""
    facts = ("rent", "fee")
    items = tuple(
        EvidenceItem(
            f"{fact}-{room}",
            f"The {fact} of room {room} is number {len(fact) * room}.",
            "talk",
            role="user",
        )
        for fact in facts
        for room in range(12)
    )
    asked = tuple(
        Question(f"{fact}-{room}", f"What is the {fact} of room {room}?", (f"{fact}-{room}",))
        for fact in facts
        for room in range(0, 12, 2)
    )
    return Corpus("rooms", items, asked)


def test_a_window_shows_no_less_than_packing_anew_and_costs_less(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each request of a window extends the one before, within its budget; at equal evidence it is cheaper."""
    monkeypatch.setitem(WINDOWS, 1_000, (60, 120))
    monkeypatch.setitem(PACKED, 1_000, (60, 120))
    monkeypatch.setattr("benchmarks.bench_windows.packed_budget", lambda budget: budget)
    runs = {name: run() for name, run in runs_of(sample(), 60, 1_000, {}).items()}
    for block in WINDOWS[1_000]:
        check(runs, 1_000, block)
        grown = runs[f"growing window 1000 {block}"]
        anew = runs[f"packing anew 1000 {block}"]
        assert sum(turn.written for turn in grown) < sum(turn.written for turn in anew)
        assert (
            mean(turn.thinking or 0 for turn in grown)
            > mean(turn.thinking or 0 for turn in anew)
            == 0
        )
    assert any(turn.rebased for turn in runs["growing window 1000 120"])
    assert len(list(table([runs], 1_000, Prices()))) == 1 + len(runs)


def test_cost_at_equal_evidence_is_interpolated() -> None:
    """It lies between the two nearest sizes of the block.

    Above all sizes it is a bound, below them there is none.
    """
    anew = [[Turn(0.4, 0, 1_000, True)], [Turn(0.6, 0, 2_000, True)]]
    assert at_equal_evidence([Turn(0.5, 0, 750, False)], anew, Prices()) == "0.50"
    assert at_equal_evidence([Turn(0.3, 0, 750, False)], anew, Prices()) == ""
    assert at_equal_evidence([Turn(0.7, 0, 750, False)], anew, Prices()) == "<0.38"


if __name__ == "__main__":
    main()
