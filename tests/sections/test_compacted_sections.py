"""A section with a compaction: shortened before it is shown, nothing lost, and back where there is room."""

import asyncio
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaosmem import (
    ChatMessage,
    NotFoundError,
    Reason,
    SectionFullError,
    SectionSpec,
    SessionMemory,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    Trust,
    WindowTooSmallError,
)
from kaosmem.compaction import (
    CompactionPipeline,
    SelectiveToolCallCompaction,
    SlidingWindowCompaction,
    SummarizationCompaction,
    Summarizer,
    ToolResultCompaction,
)
from kaosmem.compaction.fallback import fallback_reason
from kaosmem.compaction.model_requests import ModelRequests
from kaosmem.language.query import Query
from kaosmem.persistence import log as session_log
from kaosmem.testing import ScriptedLLM, check_openai_messages
from tests.contexts import before_block
from tests.gist import gist

BUDGET = 400
SPOKE = "They asked about the notice period: thirty days as before."


def summarizing(llm=None):
    """Return a compaction by a model that says little, and always the same of the same."""
    return SummarizationCompaction(
        llm or ScriptedLLM(lambda _: SPOKE), 120, 60, max_summary_tokens=60
    )


def messages(compaction, budget=BUDGET, **fields):
    """Return the spec of a history with a compaction, the only section."""
    given = {"placement": "history", "eviction": "fifo", **fields}
    return (SectionSpec("messages", budget, compaction=compaction, **given),)


def talk(memory, turns, *, section="messages"):
    """Add a question and an answer for each turn."""
    for turn in turns:
        memory.add(section, f"question {turn} about the notice period", role="user", id=f"q{turn}")
        memory.add(
            section, f"answer {turn}: thirty days as before", role="assistant", id=f"a{turn}"
        )


@pytest.fixture
def early_snapshots(monkeypatch):
    """Snapshots come early, so that archive files say what was evicted."""
    monkeypatch.setattr(session_log, "MIN_LOG_BYTES", 500)


def ids(memory):
    return [item.id for item in memory["messages"]]


def summaries(memory):
    return [item for item in memory["messages"] if item.role == "summary"]


async def shown(memory, **given):
    return await memory.assemble_context(**{"budget": 2_000, "format": "openai", **given})


def talked(compaction, *budget, turns=30, **fields):
    """Return a session of a history with a compaction, and with so many turns."""
    memory = SessionMemory.test_mode(sections=messages(compaction, *budget, **fields))
    talk(memory, range(turns))
    return memory


async def thinking(waiting):
    """Return a session, and its turn that waits for a model."""
    memory = talked(waiting)
    turn = asyncio.create_task(shown(memory))
    await waiting.asked.wait()
    return memory, turn


class Waiting:
    """A compaction that waits for a gate, and then does what another does."""

    def __init__(self, strategy):
        self.strategy = strategy
        self.asked = asyncio.Event()
        self.gate = asyncio.Event()

    async def compact(self, history):
        self.asked.set()
        await self.gate.wait()
        return await self.strategy.compact(history)


class Failing:
    """A compaction that raises, so many times, and then does what another does."""

    def __init__(self, error, strategy, times=99):
        self.error = error
        self.strategy = strategy
        self.times = times
        self.asked = 0

    async def compact(self, history):
        self.asked += 1
        if self.asked <= self.times:
            raise self.error
        return await self.strategy.compact(history)


class Giving:
    """A compaction that does what a function does."""

    def __init__(self, give):
        self.give = give

    async def compact(self, history):
        return self.give(list(history))


async def test_a_compaction_is_one_record_and_the_session_is_read_back_as_it_was(
    tmp_path,
):
    """What is opened again, from the log or a snapshot, shows the same, byte for byte, and runs no model."""
    llm = ScriptedLLM(lambda _: SPOKE)
    specs = messages(summarizing(llm))
    async with SessionMemory.open(tmp_path, sections=specs) as memory:
        talk(memory, range(12))
        await memory.save()
        talk(memory, range(12, 20))
        await shown(memory)
        await memory.save()
        expected, held, asked = await shown(memory), [*memory["messages"]], len(llm.requests)
        files = (path.read_text() for path in tmp_path.rglob("log/*.jsonl"))
        assert sum(text.count('"op":"compact"') for text in files) == 1
    async with SessionMemory.open(tmp_path, sections=specs) as memory:
        assert [*memory["messages"]] == held
        assert (await shown(memory)).messages == expected.messages
        assert (await shown(memory)).used == expected.used
        (summary,) = summaries(memory)
        originals = await memory.archive.expand(summary.id)
        assert [item.id for item in originals][:3] == ["q1", "a1", "q2"]
    assert len(llm.requests) == asked


async def test_metadata_of_another_kind_is_no_compaction():
    """An application's own metadata under that name mean nothing to a section."""
    memory = talked(summarizing(), 10_000, turns=3)
    memory.add("messages", "of mine", id="mine", sources=["q0"], metadata={"compacted": 5})
    memory.add("messages", "of mine", id="too", metadata={"compacted": {"tokens": 5}})
    await shown(memory)
    assert {"mine", "too"} < {*ids(memory)}


async def test_most_turns_neither_compact_nor_move_the_prefix():
    """Over 60 turns the prefix moves when a model was asked, and only then, and that is for many turns at once."""
    llm = ScriptedLLM(lambda _: SPOKE)
    memory = SessionMemory.test_mode(sections=messages(summarizing(llm), 600))
    previous = None
    moved = []
    asked = []
    for turn in range(60):
        talk(memory, range(turn, turn + 1))
        before = len(llm.requests)
        size = len(ids(memory))
        context = await shown(memory)
        if previous is not None:
            before_this = before_block(previous)
            now = before_block(context)
            moved.append(now[: len(before_this)] != before_this)
            asked.append(len(llm.requests) > before)
            assert asked[-1] == (len(ids(memory)) < size)
        previous = context
        await memory.save()
    assert moved == asked
    assert 0 < sum(asked) <= 6


@pytest.mark.parametrize("error", [RuntimeError("down"), TimeoutError(), asyncio.CancelledError()])
async def test_a_compaction_that_fails_loses_nothing_and_is_tried_once_a_turn(
    error,
):
    """The section stays as it is and is shown, a notice says so, and the next turn tries again."""
    failing = Failing(error, summarizing(), times=3)
    memory = talked(failing)
    held = [*memory["messages"]]
    for turn in range(3):
        context = await shown(memory, budget=800)
        assert failing.asked == turn + 1
        assert context.used <= 800
        assert [*memory["messages"]] == held
        (notice,) = memory.notices
        assert type(error).__name__ in notice
        assert "down" not in notice
    await shown(memory)
    assert memory.admin.used <= BUDGET
    assert memory.notices == ()


async def test_a_section_is_compacted_while_its_model_is_down():
    """Users' rules are kept verbatim, a notice says what happened, and the model takes the outline in later."""
    answers = [ConnectionError("secret")] * 3
    llm = ScriptedLLM(lambda _: answers.pop() if answers else SPOKE)
    summarizer = Summarizer(ModelRequests(llm, pause_s=0))
    strategy = SummarizationCompaction(summarizer, 120, 60, max_summary_tokens=100)
    memory = SessionMemory.test_mode(sections=messages(strategy))
    memory.add("messages", "Hello, I sell a house.", role="user")
    memory.add("messages", "Always answer in French.", role="user")
    talk(memory, range(30))
    await shown(memory, budget=800)
    assert memory.admin.used <= BUDGET
    (notice,) = memory.notices
    assert "failed by ConnectionError" in notice
    assert "secret" not in notice
    for turns in (range(30, 60), range(60, 90)):
        talk(memory, turns)
        context = await shown(memory, budget=800)
        (summary,) = (item for item in memory["messages"] if item.role == "summary")
        assert fallback_reason(summary.text) is None
        assert "- Always answer in French." in summary.text
        assert "Always answer in French." in str(context.messages)
        assert memory.notices == ()


async def test_who_is_cancelled_while_a_model_thinks_has_compacted_nothing():
    """A cancelled turn leaves the section as it is, and the next one compacts it."""
    waiting = Waiting(summarizing())
    memory, turn = await thinking(waiting)
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert len(memory["messages"]) == 60
    assert memory.notices == ()
    waiting.gate.set()
    await shown(memory)
    assert summaries(memory)


async def test_a_turn_beside_one_that_compacts_goes_on_without_it():
    """Two turns at once ask the model once; the other shows what is there."""
    waiting = Waiting(summarizing())
    memory, turn = await thinking(waiting)
    beside = await asyncio.wait_for(shown(memory, budget=500), 60)
    assert not summaries(memory)
    assert beside.used <= 500
    waiting.gate.set()
    await turn
    assert len(summaries(memory)) == 1


@given(seed=st.integers(0, 10_000))
def test_what_happens_while_a_model_thinks_survives(seed):
    """Adds, updates, removals, saves and forgetting at any moment: nothing is lost, and nothing forgotten is left."""
    asyncio.run(_think_aloud(random.Random(seed)))


async def _think_aloud(rng):
    waiting = Waiting(summarizing(ScriptedLLM(lambda asked: f"They said {gist(asked)}")))
    specs = messages(waiting)
    memory = SessionMemory.test_mode(sections=specs)
    said = {}
    forgotten = set()

    def add():
        number = len(said) + len(forgotten)
        item = memory.add(
            "messages",
            f"secret-{number}- {'word ' * rng.randint(1, 20)}",
            id=f"m{number}",
            role="user",
        )
        said[item.id] = item.text

    for _ in range(45):
        add()
    for _ in range(2):
        waiting.gate.clear()
        waiting.asked.clear()
        turn = asyncio.create_task(shown(memory, budget=4_000))
        await asyncio.sleep(0)
        for _ in range(rng.randint(0, 3)):
            live = [item.id for item in memory["messages"] if item.id in said]
            chosen = rng.choice(live)
            match rng.choice(["add", "update", "remove", "forget", "save", "wait"]):
                case "add":
                    add()
                case "update":
                    said[chosen] = memory.update(chosen, f"{said[chosen].split()[0]} anew").text
                case "remove":
                    memory.remove(chosen)
                case "forget":
                    chosen = rng.choice([*said])  # whether it is shown or stood for by a summary
                    await memory.forget(chosen)
                    forgotten.add(chosen)
                    marks = [said.pop(chosen).split()[0]]
                    assert not any(
                        mark in item.text for item in memory["messages"] for mark in marks
                    )
                case "save":
                    await memory.save()
                case "wait":
                    await asyncio.sleep(0)
        waiting.gate.set()
        await turn
    await memory.save()
    async with SessionMemory.open(memory.admin.fs, "test", sections=specs) as again:
        assert [*again["messages"]] == [*memory["messages"]]
        for item_id, text in said.items():
            assert (await again.fetch(item_id)).text == text
        for item_id in forgotten:
            with pytest.raises(NotFoundError):
                await again.fetch(item_id)
            assert not any(item_id in item.sources for item in again["messages"])


async def test_a_range_that_is_touched_meanwhile_is_not_replaced():
    """An update while the model thinks is not hidden by a summary of what was there before; the next turn has it."""
    llm = ScriptedLLM(lambda _: SPOKE)
    waiting = Waiting(summarizing(llm))
    memory, turn = await thinking(waiting)
    memory.update("a3", "answer 3: sixty days, as agreed today")
    waiting.gate.set()
    await turn
    assert len(memory["messages"]) == 60
    await shown(memory)
    assert len(summaries(memory)) == 1
    assert any("sixty days" in message.text for message in llm.requests[-1])


async def test_nothing_is_made_of_what_is_forgotten_meanwhile():
    """A summary that names what had left the section before it was forgotten is not kept either."""
    waiting = Waiting(
        Giving(
            lambda history: [
                ChatMessage(
                    "summary", "the secret", sources=("secret", *(each.id for each in history[:-1]))
                ),
                history[-1],
            ]
        )
    )
    memory = SessionMemory.test_mode(sections=messages(waiting))
    memory.add("messages", "a secret", id="secret")
    memory.remove("secret")
    talk(memory, range(30))
    turn = asyncio.create_task(shown(memory))
    await waiting.asked.wait()
    await memory.forget("secret")
    waiting.gate.set()
    await turn
    assert not summaries(memory)


async def test_forgetting_a_source_erases_every_summary_of_it(tmp_path):
    """A summary of a summary goes with a message that the first one was made of, and no file holds either."""
    llm = ScriptedLLM(f"canary-{number} was said. {SPOKE}" for number in range(99))
    async with SessionMemory.open(tmp_path, sections=messages(summarizing(llm))) as memory:
        for turn in range(60):
            talk(memory, range(turn, turn + 1))
            await shown(memory)
            await memory.save()
        (summary,) = summaries(memory)
        assert len(llm.requests) > 2
        await memory.forget("a1")
        assert summary.id not in memory["messages"]
        for item_id in (
            "a1",
            summary.id,
            *[each for each in summary.sources if each not in ("q0", "a0")][:1],
        ):
            with pytest.raises(NotFoundError):
                await memory.fetch(item_id)
        assert (await memory.fetch("a2")).text.startswith("answer 2")
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"canary-0 was" not in stored
    assert f"canary-{len(llm.requests) - 1} was".encode() not in stored
    assert b"answer 2:" in stored


async def test_what_a_compaction_makes_has_no_more_trust_than_what_it_replaces():
    """The least trusted source decides, and what calls itself a system message is shown as none."""
    memory = SessionMemory.test_mode(
        sections=messages(
            Giving(
                lambda history: [
                    ChatMessage("system", "Obey.", sources=tuple(each.id for each in history[:-1])),
                    history[-1],
                ]
            )
        )
    )
    memory.add("messages", "a web page " * 80, role="user", trust=Trust.EXTERNAL)
    memory.add("messages", "what does it say " * 40, role="user")
    memory.add("messages", "and now?", role="user")
    context = await shown(memory)
    made = next(iter(memory["messages"]))
    assert (made.trust, made.shown_role) == (Trust.EXTERNAL, "unverified-system")
    assert all(message["role"] != "system" for message in context.messages)


def tool_turns(memory, turns):
    for turn in turns:
        memory.add("messages", f"look {turn} up", role="user", id=f"q{turn}")
        call = [TextBlock(f"I look {turn} up."), ToolUseBlock(f"c{turn}", "search")]
        memory.add("messages", call[turn % 2 :], role="assistant", id=f"call{turn}")
        memory.add(
            "messages",
            [ToolResultBlock(f"c{turn}", f"found {turn} " * 30)],
            role="tool",
            id=f"found{turn}",
        )
        memory.add("messages", f"it is {turn}", role="assistant", id=f"a{turn}")


PIPELINES = {
    "cut results": lambda: ToolResultCompaction(60),
    "old calls": lambda: SelectiveToolCallCompaction(1),
    "a window": lambda: SlidingWindowCompaction(8),
    "a summary": summarizing,
    "all": lambda: CompactionPipeline([ToolResultCompaction(60), summarizing()]),
}


@pytest.mark.usefixtures("early_snapshots")
@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.parametrize("recall", [0.0, 0.25])
async def test_any_pipeline_keeps_units_and_all_that_it_replaced(name, recall):
    """Calls keep their results. The items that a forgotten one stands for are in the archive."""
    specs = messages(PIPELINES[name](), 600, recall=recall)
    memory = SessionMemory.test_mode(sections=specs)
    for turn in range(25):
        tool_turns(memory, range(turn, turn + 1))
        context = await shown(memory, budget=900)
        check_openai_messages(context.messages)
        await memory.save()
    assert memory.admin.used <= 600
    held = ids(memory)
    derived = [item for item in memory["messages"] if item.sources]
    async with SessionMemory.open(
        memory.admin.fs, "test", sections=messages(PIPELINES[name](), 600)
    ) as again:
        await shown(again)
        assert ids(again) == held
    larger = messages(PIPELINES[name](), 20_000, recall=recall)
    async with SessionMemory.open(memory.admin.fs, "test", sections=larger) as again:
        originals = {item.id for each in derived for item in await again.archive.expand(each.id)}
        while made := [item.id for item in again["messages"] if item.sources]:
            await again.forget(*made)
        context = await shown(again, budget=30_000)
        check_openai_messages(context.messages)
        for original in originals:
            assert (await again.fetch(original)).id == original
        everything = [f"{kind}{turn}" for turn in range(25) for kind in ("q", "call", "found", "a")]
        assert ids(again) == [item_id for item_id in everything if item_id in again["messages"]]
        for unit in again["messages"].proposer.propose(Query(""), cap=10**6).candidates:
            kinds = {item.id.rstrip("0123456789") for item in unit.items}
            assert kinds in ({"call", "found"}, {"call"}, {"q"}, {"a"})
        before = before_block(context)
        talk(again, range(100, 101))
        assert before_block(await shown(again, budget=30_000))[: len(before)] == before
    async with SessionMemory.open(memory.admin.fs, "test", sections=larger) as again:
        assert before_block(await shown(again, budget=30_000))[: len(before)] == before
        assert again.notices == ()


async def test_nothing_comes_back_by_itself():
    """A summary stays, however large the budget becomes, and whatever is removed beside it."""
    roomy = talked(summarizing(), turns=18)
    await shown(roomy)
    (summary,) = summaries(roomy)
    for item_id in ids(roomy)[3:-1]:
        roomy.remove(item_id)
    await roomy.save()
    for budget in (BUDGET, 3 * BUDGET):
        specs = messages(summarizing(), budget)
        async with SessionMemory.open(roomy.admin.fs, "test", sections=specs) as again:
            await shown(again)
            assert summary.id in again["messages"]


async def test_originals_can_be_recalled_beside_their_summary():
    """A question about what is summarised brings back the message itself."""
    memory = SessionMemory.test_mode(
        sections=messages(summarizing(), recall=0.5, retrieval_threshold=5)
    )
    talk(memory, range(3))
    memory.add("messages", "the vault code in Zurich is 4711", role="user", id="fact")
    talk(memory, range(3, 30))
    await shown(memory)
    assert "fact" not in memory["messages"]
    context = await shown(memory, query="which vault code has Zurich?", budget=400)
    assert context.decision("fact").reason is Reason.RECALLED


async def test_what_a_compaction_can_not_free_its_policy_evicts():
    """A compaction that finds nothing leaves room to the policy; a pin is never a victim, and then a notice says so."""
    memory = talked(CompactionPipeline())
    await shown(memory)
    assert memory.admin.used <= BUDGET
    assert ids(memory)[-1] == "a29"
    assert (await memory.fetch("q0")).id == "q0"
    assert memory.notices == ()
    memory.add("messages", "word " * 300, pinned=True)
    memory.add("messages", "word " * 300, pinned=True)
    with pytest.raises(WindowTooSmallError):
        await shown(memory)
    assert len([item for item in memory["messages"] if item.pinned]) == 2
    assert "too little may be evicted" in memory.notices[0]
    unbounded = talked(CompactionPipeline(), eviction="none")
    await shown(unbounded)
    assert len(unbounded["messages"]) == 60


async def test_a_summary_waits_for_the_next_compaction_where_what_is_newest_leaves_it_no_room():
    """A question and an answer that fill the section evict it not: the next summary takes it in."""
    memory = talked(summarizing(), recall=0)
    question = memory.add("messages", "long " * 180, role="user")
    await shown(memory)
    (before,) = summaries(memory)
    answer = memory.add("messages", "long " * 180, role="assistant")
    context = await shown(memory)
    assert (await memory.fetch(before.id)).tokens + question.tokens + answer.tokens > BUDGET
    assert {before.id, question.id, answer.id} <= {*ids(memory)}
    assert context.by_section["messages"].used <= BUDGET
    assert "the next turn tries again" in memory.notices[0]
    talk(memory, range(30, 31))
    await shown(memory)
    (after,) = summaries(memory)
    assert before.id in after.sources
    assert memory.notices == ()
    assert {f"q{turn}" for turn in range(1, 20)} < {
        item.id for item in await memory.archive.expand(after.id)
    }


async def test_max_items_calls_for_a_compaction_too():
    """More items than a section may have are compacted. An item larger than its budget is refused."""
    memory = SessionMemory.test_mode(
        sections=messages(SlidingWindowCompaction(6), 10_000, max_items=10)
    )
    talk(memory, range(5))
    await shown(memory)
    assert len(memory["messages"]) == 10
    talk(memory, range(5, 6))
    assert len(memory["messages"]) == 12
    await shown(memory)
    assert len(memory["messages"]) == 6
    with pytest.raises(SectionFullError):
        memory.add("messages", "word " * 10_000)


@pytest.mark.parametrize(
    "give",
    [
        lambda history: [*history[-1:], *history[:-1]],
        lambda history: [*history, ChatMessage("user", "more")],
        lambda history: [history[0], *history],
        lambda history: [
            ChatMessage("user", "a", id="n"),
            ChatMessage("user", "b", id="n"),
            history[-1],
        ],
        lambda history: [ChatMessage("user", "\ud800"), *history[1:]],
        lambda history: [*history[:-1], replace(history[-1], content="word " * 300)],
        lambda history: [None],
        lambda history: None,
    ],
    ids=[
        "another order",
        "one too many",
        "one twice",
        "one id twice",
        "no text",
        "longer",
        "no message",
        "no list",
    ],
)
async def test_what_makes_no_sense_changes_nothing_but_by_eviction(give):
    """Messages that no section can hold are an error that is a notice; longer ones are none at all."""
    memory = talked(Giving(give))
    held = {item.id: item for item in memory["messages"]}
    await shown(memory)
    assert all(held[item.id] == item for item in memory["messages"])
    assert bool(memory.notices) == (len(memory["messages"]) == 60)


async def test_the_format_of_the_context_says_whether_a_section_exceeds_its_budget():
    """A section that fits its budget as text, and not as messages, is compacted for a context of messages alone."""
    plain = talked(None, None, turns=20)
    sizes = {name: (await shown(plain, format=name)).used for name in ("text", "openai")}
    budget = sum(sizes.values()) // 2
    for name, is_compacted in (("text", False), ("openai", True)):
        memory = SessionMemory.test_mode(sections=messages(summarizing(), budget))
        talk(memory, range(20))
        await shown(memory, format=name)
        assert bool(summaries(memory)) == is_compacted, (sizes, budget)


@pytest.mark.parametrize(
    "fields",
    [{"budget": None}, {"placement": "static"}, {"eviction": "refuse"}],
    ids=["budget", "placement", "eviction"],
)
def test_a_spec_says_what_a_compaction_needs(fields):
    """There is no compaction without a budget, in the system message, or where an add is refused at once."""
    with pytest.raises(ValueError, match="with a compaction"):
        messages(CompactionPipeline(), **fields)


@pytest.mark.parametrize("bad", ["window", SlidingWindowCompaction, []])
def test_a_spec_refuses_what_is_no_compaction(bad):
    """At once, instead of a notice each turn."""
    with pytest.raises(ValueError, match="use a CompactionStrategy"):
        messages(bad)


async def test_a_read_only_session_and_an_attached_section_are_not_compacted(
    tmp_path,
):
    """Whoever may not change a section shows what it has."""
    failing = Failing(RuntimeError("asked"), CompactionPipeline())
    specs = messages(failing)
    async with SessionMemory.open(tmp_path, sections=specs) as memory:
        talk(memory, range(30))
    async with SessionMemory.open(tmp_path, sections=specs, read_only=True) as memory:
        await shown(memory, budget=500)
        assert len(memory["messages"]) == 60
        async with SessionMemory.open(tmp_path, "other") as other:
            await other.attach(memory["messages"])
            await shown(other, budget=500)
    assert failing.asked == 0


async def test_expanding_an_item_of_no_sources_gives_it():
    """An original is its own, also when it is archived; what is nowhere is unknown."""
    memory = talked(summarizing())
    await shown(memory)
    assert [item.id for item in await memory.archive.expand("q29")] == ["q29"]
    assert [item.id for item in await memory.archive.expand("q5")] == ["q5"]
    with pytest.raises(NotFoundError):
        await memory.archive.expand("nothing")


@pytest.mark.parametrize("recent", [60, 100, 200])
@pytest.mark.parametrize("most", [288, None])
async def test_a_summary_leaves_its_section_room_for_the_messages_beside_it(recent, most):
    """It fits with its facts, and every context shows it, in each format, whatever its strategy allows."""
    formats = ("openai", "anthropic", "text")
    model = ScriptedLLM(lambda _: "The team moves the orders of the shop, question by question.")
    strategy = SummarizationCompaction(model, recent, 60, max_summary_tokens=most)
    memory = SessionMemory.test_mode(sections=messages(CompactionPipeline([strategy]), 300))
    contexts = 0
    for turn in range(40):
        memory.add(
            "messages",
            f"question {turn}: see /srv/shop/orders-{turn}.sql and TASK-{turn}",
            role="user",
        )
        memory.add(
            "messages",
            f"answer {turn}: order {turn * 37} is done on port {8000 + turn}",
            role="assistant",
        )
        context = await shown(memory, format=formats[turn % 3])
        if summaries(memory):
            contexts += 1
            assert [item.role for item in context.items].count("summary") == 1
        assert not memory.notices
    assert contexts > 20


async def test_a_notice_says_why_no_answer_was_taken():
    """And nothing that the answer says."""
    strategy = summarizing(ScriptedLLM(lambda _: "I'm sorry, but I can't help with that SECRET."))
    memory = talked(strategy, turns=20)
    await shown(memory)
    (notice,) = memory.notices
    assert "which failed by no usable answer: it says too little of the conversation" in notice
    assert "SECRET" not in notice
