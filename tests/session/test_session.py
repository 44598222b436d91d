"""SessionMemory: kept, opened again, isolated, and clear about bad input."""

import asyncio
import copy
import pickle
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaosmem import (
    DEFAULT_SECTIONS,
    BM25Ranker,
    ChatMessage,
    EvictionPolicy,
    InvalidArgumentError,
    NotFoundError,
    Reason,
    SectionFullError,
    SectionSpec,
    SessionMemory,
    SessionOptions,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    Trust,
    WindowTooSmallError,
    list_sessions,
)
from kaosmem.errors import (
    ConcurrentUseError,
    DuplicateError,
    DurabilityError,
    InvalidNameError,
    ReadOnlyError,
)
from kaosmem.sections.eviction import POLICIES
from kaosmem.tokens.counters import TiktokenCounter
from tests.worlds import worlds


def held(memory):
    """Return all that a memory keeps on disk of itself."""
    return {
        spec.name: (
            list(memory[spec.name]),
            len(memory[spec.name].archive),
            memory[spec.name].state(),
        )
        for spec in memory.sections
        if spec.persistence != "none"
    }


@given(worlds(), st.booleans())
def test_a_session_opened_again_is_the_session_that_was_saved(world, again):
    """Items, archives, uses and order survive, and the next context is the same."""

    async def run():
        memory = world.memory
        # What is due is compacted before: after a failure the model that both share is left alone
        # for a while, and the second session would have no summary.
        with suppress(WindowTooSmallError):
            await memory.assemble_context("notice of termination", budget=400)
        await memory.save()
        if again and world.accepted:
            memory.get(world.accepted[0])
            await memory.save()
        specs = memory.sections
        async with SessionMemory.open(memory.admin.fs, "test", sections=specs) as opened:
            assert held(opened) == held(memory)
            for item_id in world.accepted:
                assert await opened.fetch(item_id) == await memory.fetch(item_id)
            contexts = []
            for each in (memory, opened):
                try:
                    contexts.append(
                        await each.assemble_context("notice of termination", budget=400)
                    )
                except WindowTooSmallError as error:
                    contexts.append(str(error))
            assert contexts[0] == contexts[1]

    asyncio.run(run())


async def test_leaving_the_block_saves_and_an_exception_discards(tmp_path):
    """What is added in a block that ends well is kept; what an exception leaves unsaved is not."""
    async with SessionMemory.open(str(tmp_path), "deal-42") as memory:
        memory.add("messages", "kept")
    with pytest.raises(ZeroDivisionError):
        async with SessionMemory.open(str(tmp_path), "deal-42") as memory:
            memory.add("messages", "saved before the failure")
            await memory.save()
            memory.add("messages", "discarded")
            raise ZeroDivisionError
    async with SessionMemory.open(str(tmp_path), "deal-42", read_only=True) as memory:
        assert [item.content for item in memory["messages"]] == ["kept", "saved before the failure"]


async def test_working_sections_are_never_on_disk(tmp_path):
    """A section with persistence none leaves no byte behind."""
    async with SessionMemory.open(str(tmp_path)) as memory:
        memory.add("working", "canary-in-working-memory")
        memory.add("messages", "hello")
    assert not any(b"canary" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    async with SessionMemory.open(str(tmp_path)) as memory:
        assert len(memory["working"]) == 0


async def test_another_counter_counts_again(tmp_path):
    """Opened with another counter, the session is counted with it, and says so."""
    async with SessionMemory.open(str(tmp_path)) as memory:
        memory.add("messages", "hello there, how are you?")
    async with SessionMemory.open(str(tmp_path), counter=len) as memory:
        assert memory["messages"].used == len("hello there, how are you?")
        assert "o200k_base" in memory.notices[0]
        assert (await memory.assemble_context(budget=200)).used == len(
            "## messages\n[user] hello there, how are you?\n"
        )
    async with SessionMemory.open(str(tmp_path)) as memory:
        assert memory["messages"].used == 7


async def test_a_section_without_a_spec_is_kept_not_shown_and_said(tmp_path):
    """Opening with fewer specs loses nothing: the section comes back with its spec."""
    async with SessionMemory.open(
        str(tmp_path), sections=(SectionSpec("old"), SectionSpec("new"))
    ) as memory:
        item = memory.add("old", "still here")
    async with SessionMemory.open(str(tmp_path), sections=(SectionSpec("new"),)) as memory:
        assert "'old'" in memory.notices[0]
        context = await memory.assemble_context(budget=100)
        assert context.items == ()
        assert context.decision(item.id).reason is Reason.NOT_SHOWN
        memory.add("new", "more")
    async with SessionMemory.open(
        str(tmp_path), sections=(SectionSpec("old"), SectionSpec("new"))
    ) as memory:
        assert (len(memory["old"]), len(memory["new"]), memory.notices) == (1, 1, ())


async def test_a_section_whose_policy_is_not_given_again_is_kept(tmp_path):
    """A session whose section had an eviction policy of one's own opens without it, and with it is as before."""
    old = SectionSpec("old", eviction=EvictionPolicy("largest", lambda unit: (-unit.tokens,)))
    assert old.to_dict()["eviction"] == "largest"
    async with SessionMemory.open(str(tmp_path), sections=(old,)) as memory:
        item = memory.add("old", "still here")
    async with SessionMemory.open(str(tmp_path)) as memory:
        assert await memory.fetch(item.id) == item
        assert memory["old"].spec.policy.name == "none"
        assert "'old' is stored but no spec names it" in memory.notices[0]
        assert (
            "'old' was stored with the eviction policy 'largest' and now has 'none'"
            in memory.notices[1]
        )
    async with SessionMemory.open(
        str(tmp_path), sections=(SectionSpec("old"),), read_only=True
    ) as memory:
        assert [
            "'largest' and now has 'fifo'; give the policy" in each for each in memory.notices
        ] == [True]
    async with SessionMemory.open(str(tmp_path), sections=(old,), read_only=True) as memory:
        assert (memory["old"].spec.policy, memory.notices) == (old.eviction, ())


def test_a_policy_whose_key_is_no_tuple_is_refused():
    """Python's own error comes when the policy is made, not with the first eviction."""
    with pytest.raises(TypeError):
        EvictionPolicy("mine", lambda unit: unit.tokens)


def test_a_key_that_fails_later_refuses_the_addition_and_changes_nothing():
    """A key that is no tuple for some units fails the addition that needs room; the section stays as it was."""
    mine = EvictionPolicy("mine", lambda unit: (-unit.tokens,) if unit.tokens < 5 else None)
    memory = SessionMemory.test_mode(sections=(SectionSpec("notes", 12, eviction=mine),))
    for text in (
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
    ):  # the queue of victims is made
        memory.add("notes", text)
    with pytest.raises(TypeError):
        for text in ("a much longer note than all", "more", "yet more"):
            before = memory["notes"].used, [item.text for item in memory["notes"]]
            memory.add("notes", text)
    assert (memory["notes"].used, [item.text for item in memory["notes"]]) == before


def test_test_mode_is_deterministic_and_isolated():
    """Two memories give the same ids and times and share nothing, not even their filesystems."""
    one = SessionMemory.test_mode()
    other = SessionMemory.test_mode()
    items = [memory.add("messages", "hello") for memory in (one, other)]
    assert items[0] == items[1]
    assert items[0].created_at == datetime(2024, 1, 1, tzinfo=UTC)
    asyncio.run(one.save())
    assert asyncio.run(list_sessions(one.admin.fs)) == ["test"]
    assert asyncio.run(list_sessions(other.admin.fs)) == []


def test_loops_use_a_memory_one_after_another():
    """What one event loop saved, the next one finds in the same memory."""
    memory = SessionMemory.test_mode()
    memory.add("messages", "hello")
    assert asyncio.run(memory.assemble_context(budget=100)).items
    asyncio.run(memory.save())
    assert asyncio.run(memory.assemble_context(budget=100)).items
    asyncio.run(memory.save())


def test_a_test_memory_makes_no_file_and_no_connection(tmp_path):
    """A whole test-mode session runs where sockets and writing to disk raise."""
    code = """
import asyncio, builtins, os, socket
from kaosmem import SessionMemory
memory = SessionMemory.test_mode()
memory.add("messages", "warm up the encoding")
def refuse(*args, **kwargs): raise AssertionError(args)
socket.socket.connect = socket.create_connection = refuse
real_open, real_os_open = builtins.open, os.open
def read_only_open(file, mode="r", *args, **kwargs):
    return refuse(file) if set(mode) & set("wax+") else real_open(file, mode, *args, **kwargs)
def read_only_os_open(path, flags, *args, **kwargs):
    return refuse(path) if flags & (os.O_WRONLY | os.O_RDWR) else real_os_open(path, flags, *args, **kwargs)
builtins.open, os.open = read_only_open, read_only_os_open
os.mkdir = os.makedirs = refuse
async def main():
    async with memory:
        for n in range(30):
            memory.add("documents", f"clause {n} of the contract")
        await memory.save()
        print((await memory.assemble_context("clause 7", budget=100)).used)
asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stderr
    assert 0 < int(done.stdout) <= 100
    assert list(tmp_path.iterdir()) == []


async def test_a_text_is_counted_once():
    """An item is counted when it comes; assembling again, or once more after an answer, counts only what is new."""
    counted = []

    class Recording(TiktokenCounter):
        def __call__(self, text):
            counted.append(text)
            return super().__call__(text)

    memory = SessionMemory.test_mode(counter=Recording())
    clause = "Either party may terminate this agreement for convenience on thirty days written notice to the other."
    for number in range(30):
        memory.add("documents", f"Clause {number}. {clause}")
        memory.add("messages", f"Question {number}. {clause}")
    for name in ("text", "openai"):
        await memory.assemble_context(budget=1_000, format=name)
    assert len([text for text in counted if clause in text]) == 60
    counted.clear()
    memory.add("messages", "It does.", role="assistant")
    await memory.assemble_context(budget=1_000, format="openai")
    assert not [text for text in counted if len(text) > 60]


BAD_CALLS = {
    "unknown section to read": (lambda m: m["nowhere"], NotFoundError, "SectionSpec"),
    "duplicate id": (
        lambda m: [m.add(s, "x", id="same") for s in ("messages", "findings")],
        DuplicateError,
        "update",
    ),
    "item id": (lambda m: m.add("messages", "x", id="a\nb"), InvalidNameError, "item id"),
    "surrogate in role": (
        lambda m: m.add("messages", "x", role="\ud800"),
        InvalidArgumentError,
        "role",
    ),
    "surrogate in tag": (
        lambda m: m.add("messages", "x", tags=["\ud800"]),
        InvalidArgumentError,
        "tag",
    ),
    "metadata": (
        lambda m: m.add("messages", "x", metadata={"a": float("nan")}),
        InvalidArgumentError,
        "metadata",
    ),
    "too large": (lambda m: m.add("last_intent", "word " * 3_000), SectionFullError, "last_intent"),
    "content": (lambda m: m.add("messages", 5), InvalidArgumentError, "int"),
    "update of nothing": (lambda m: m.update("none", "x"), NotFoundError, "fetch"),
    "remove of nothing": (lambda m: m.remove("none"), NotFoundError, "fetch"),
    "foreign format": (lambda m: m.add_message({}, format="xml"), InvalidArgumentError, "openai"),
}


@pytest.mark.parametrize("name", BAD_CALLS)
def test_bad_input_gets_a_typed_error_and_changes_nothing(name):
    """The error names the remedy, and the memory is as it was."""
    call, error, remedy = BAD_CALLS[name]
    memory = SessionMemory.test_mode()
    memory.add("messages", "here before")
    before = [list(memory[spec.name]) for spec in memory.sections]
    with pytest.raises(error, match=remedy):
        call(memory)
    after = [[item for item in memory[spec.name] if item.id != "same"] for spec in memory.sections]
    assert after == before


async def test_a_reserve_above_the_budget_is_refused():
    """The error names the reserve."""
    with pytest.raises(InvalidArgumentError, match="reserve"):
        await SessionMemory.test_mode().assemble_context(budget=10, reserve=11)


async def test_a_closed_session_serves_and_refuses_changes(tmp_path):
    """Nobody would save them."""
    async with SessionMemory.open(tmp_path) as memory:
        kept = memory.add("messages", "kept")
    for change in (
        lambda: memory.add("messages", "lost"),
        lambda: memory.remove(kept.id),
    ):
        with pytest.raises(ReadOnlyError, match="was closed; open it again"):
            change()
    for awaited in (
        memory.save(),
        memory.admin.refresh(),
        memory.admin.refresh(discard=True),
        memory.assemble_context(budget=100, window="main"),
        memory.forget(kept.id),
        memory.ingest(tmp_path),
    ):
        with pytest.raises(ReadOnlyError, match="was closed; open it again"):
            await awaited
    assert (await memory.assemble_context(budget=100)).items == (kept,)
    await memory.admin.close()


async def test_a_block_whose_session_was_closed_inside_ends_without_an_error(
    tmp_path,
):
    """The changes before the close were given up by it; what was saved stays."""
    async with SessionMemory.open(tmp_path) as memory:
        memory.add("messages", "kept")
        await memory.save()
        memory.add("messages", "lost")
        await memory.admin.close()
    async with SessionMemory.open(tmp_path) as memory:
        assert [item.text for item in memory["messages"]] == ["kept"]


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_memory_is_never_there_twice(copied):
    """Two live memories over one log would both save the same changes."""
    with pytest.raises(ConcurrentUseError, match="cannot be copied"):
        copied(SessionMemory.test_mode())


async def test_reading_a_session_that_is_not_there_names_the_nearest(tmp_path):
    """A mistyped id raises, with the id that is most like it, unless an empty session will do; nothing is made."""
    with pytest.raises(NotFoundError, match="none is stored there"):
        async with SessionMemory.open(tmp_path, "rom", read_only=True):
            pytest.fail("it was opened")
    for session_id in ("room", "kitchen"):
        async with SessionMemory.open(tmp_path, session_id) as memory:
            memory.add("messages", "hello")
    with pytest.raises(NotFoundError, match=r"no session 'rom' in .*; the nearest of 2 is 'room'"):
        async with SessionMemory.open(tmp_path, "rom", read_only=True):
            pytest.fail("it was opened")
    async with SessionMemory.open(
        tmp_path, "rom", read_only=True, options=SessionOptions(missing_ok=True)
    ) as memory:
        assert memory.admin.used == 0
    assert await list_sessions(tmp_path) == ["kitchen", "room"]


async def test_ingest_reads_again_only_what_changed(tmp_path):
    """A changed file's passages replace their old ones, a vanished file's go to the archive, the rest is not read."""
    memory = SessionMemory.test_mode()
    read = []

    async def ingest():
        read.clear()
        return await memory.ingest(tmp_path, progress=lambda what, *_: read.append(what))

    (tmp_path / "a.md").write_text("# Fees\n\nThe fee is five per cent.\n")
    (tmp_path / "b.txt").write_text("Notice of thirty days.\n")
    (tmp_path / "c.png").write_bytes(b"\x00\x01")
    report = await ingest()
    assert (report.new, report.items_added) == (("a.md", "b.txt"), 2)
    assert [skip.source for skip in report.skipped] == ["c.png"]
    assert memory["documents"].get("a.md#L1-3").metadata["source"] == "a.md"
    assert next(iter(memory["documents"])).trust is Trust.EXTERNAL
    (tmp_path / "a.md").write_text("# Fees\n\nThe fee is seven per cent, payable at once.\n")
    (tmp_path / "b.txt").unlink()
    report = await ingest()
    assert (report.changed, report.vanished, read) == (("a.md",), ("b.txt",), ["a.md"])
    assert [item.content for item in memory["documents"]] == [
        "# Fees\n\nThe fee is seven per cent, payable at once."
    ]
    assert (await memory.fetch("b.txt#L1-1")).content == "Notice of thirty days."
    assert (await ingest()).items_added == 0
    assert read == []
    (tmp_path / "a.md").write_bytes(b"\xff It cannot be read.")
    assert (await ingest()).items_removed == 0


async def test_test_mode_takes_what_open_takes():
    """A ranker, sources and a counter named after a model do in test mode as they do in `open`."""
    asked = []

    class Ranker(BM25Ranker):
        def index(self, **options):
            asked.append("index")
            return super().index(**options)

    shared = SessionMemory.test_mode()
    shared.add("documents", "The notice period is 90 days.")
    memory = SessionMemory.test_mode(ranker=Ranker(), counter="gpt-4")
    await memory.attach(shared["documents"])
    for number in range(30):
        memory.add("findings", f"finding {number}")
    context = await memory.assemble_context("notice period", budget=500)
    assert memory.admin.counter.name == "cl100k_base"
    assert "The notice period is 90 days." in context.text
    assert [*memory.admin.sources] == ["documents-2"]
    assert asked


async def test_a_smaller_budget_is_told_at_opening():
    """The notice names both budgets, and the tokens that are over; an equal or larger budget gives none."""

    def with_budget(budget):
        return (SectionSpec("findings", budget),)

    memory = SessionMemory.test_mode(sections=with_budget(200))
    memory.add("findings", "The rent is 900 euros a month. " * 15)
    held = memory["findings"].used
    await memory.save()
    for budget in (200, 300, None):
        async with SessionMemory.open(
            memory.admin.fs, "test", sections=with_budget(budget), read_only=True
        ) as other:
            assert other.notices == ()
    async with SessionMemory.open(
        memory.admin.fs, "test", sections=with_budget(50), read_only=True
    ) as other:
        assert other.notices == (
            "section 'findings' has a budget of 50 tokens; it had 200 tokens, and it holds "
            f"{held}; "
            "raise the budget, or the next item evicts some",
        )


async def test_a_session_opens_with_the_sections_that_it_was_stored_with():
    """With `sections=None`; a new session gets the default ones, whose graph keeps its ranker."""
    memory = SessionMemory.test_mode(sections=(SectionSpec("decisions", 900, priority=80),))
    memory.add("decisions", "We ship on Monday.")
    await memory.save()
    async with SessionMemory.open(memory.admin.fs, "test", sections=None) as other:
        assert other.sections == memory.sections
        assert [item.text for item in other["decisions"]] == ["We ship on Monday."]
    async with SessionMemory.open(memory.admin.fs, "new", sections=None) as new:
        assert new.sections == tuple(DEFAULT_SECTIONS)
        new.add("findings", "Ann owns the deal.")
    async with SessionMemory.open(memory.admin.fs, "new", sections=None) as again:
        assert again.sections == tuple(DEFAULT_SECTIONS)


@pytest.mark.parametrize("policy", POLICIES)
async def test_the_stored_name_of_a_shipped_policy_brings_it_back(policy, tmp_path):
    """A session that is opened without a section's spec knows its policy, also after the next save."""
    async with SessionMemory.open(
        str(tmp_path), sections=(SectionSpec("old", 40, eviction=policy),)
    ) as memory:
        memory.add("old", "still here")
    for _ in range(2):
        async with SessionMemory.open(str(tmp_path)) as memory:
            assert (memory["old"].spec.policy.name, len(memory.notices)) == (policy, 1)
            memory.add("messages", "again")


def test_a_stored_spec_is_read_without_its_own_policy():
    """A policy of one's own is not stored: the spec that is read has none, and no limit that none could keep."""
    old = SectionSpec(
        "old", max_items=5, eviction=EvictionPolicy("largest", lambda unit: (-unit.tokens,))
    )
    assert SectionSpec.from_dict(old.to_dict()) == SectionSpec("old", eviction="none")


def test_a_memory_is_iterated_by_section_and_contains_ids_of_items():
    """Iteration gives all sections in order of declaration; `in` asks for an item's id."""
    memory = SessionMemory.test_mode(sections=(SectionSpec("notes"), SectionSpec("facts")))
    item = memory.add("notes", "The rent is due.")
    assert [section.spec.name for section in memory] == ["notes", "facts"]
    assert item.id in memory
    assert "notes" not in memory


def test_a_policy_has_a_name_of_its_own():
    """A policy of one's own may not pass for one of kaosmem, whose name a stored session may know."""
    assert (
        SectionSpec("a", eviction=POLICIES["lru"]).to_dict()
        == SectionSpec("a", eviction="lru").to_dict()
    )
    with pytest.raises(InvalidArgumentError, match="rename it"):
        SectionSpec("a", eviction=EvictionPolicy("fifo"))
    with pytest.raises(InvalidNameError):
        EvictionPolicy("")


def test_a_chat_message_is_added_without_a_format():
    """It keeps its blocks, its pin and its trust; any other message needs its format."""
    memory = SessionMemory.test_mode()
    call = ToolUseBlock("c1", "search", {"q": "fee"})
    items = [
        memory.add_message(
            ChatMessage("user", "From the page: pay now.", trust=Trust.EXTERNAL, pinned=True)
        ),
        memory.add_message(ChatMessage("assistant", (TextBlock("I look."), call))),
    ]
    assert [(item.role, item.trust, item.pinned) for item in items] == [
        ("user", Trust.EXTERNAL, True),
        ("assistant", Trust.MODEL, False),
    ]
    assert items[1].content == (TextBlock("I look."), call)
    with pytest.raises(InvalidArgumentError, match="needs its format"):
        memory.add_message({"role": "user", "content": "What is the fee?"})


@pytest.mark.parametrize(
    "budget", [-1, 1.5, "100", None, True, 10**3 * 1.0, float("nan"), float("inf")]
)
async def test_a_budget_is_a_whole_number_of_tokens(budget):
    """Anything else is refused with what to give; 0 shows nothing."""
    assert (await SessionMemory.test_mode().assemble_context(budget=0)).items == ()
    with pytest.raises(InvalidArgumentError, match="whole number"):
        await SessionMemory.test_mode().assemble_context(budget=budget)


async def test_the_question_is_what_the_user_says_beside_a_result():
    """A message of a result and a text asks with the text alone."""
    memory = SessionMemory.test_mode()
    memory.add("messages", [ToolUseBlock("c", "read", "{}")], role="assistant")
    memory.add(
        "messages",
        [ToolResultBlock("c", "governing law"), TextBlock("What is the fee?")],
        role="user",
    )
    assert (await memory.assemble_context(budget=200)).query == "What is the fee?"


def test_an_item_that_says_the_same_as_the_live_one_of_its_key_is_not_added():
    """A program adds its instructions whenever it starts: nothing is archived, and no window sees a change."""
    memory = SessionMemory.test_mode()
    said = {"source": "handbook.md"}
    first = memory.add("documents", "Ship on Friday.", key="ship", metadata=said)
    assert memory.add("documents", "Ship on Friday.", key="ship", metadata=said) is first
    assert len(memory["documents"]) == 1
    assert len(memory["documents"].archive) == 0


@pytest.mark.parametrize(
    "changed",
    [
        {"content": "Ship on Monday."},
        {"metadata": {"source": "other.md"}},
        {"tags": ["urgent"]},
        {"pinned": True},
        {"role": "Ann"},
        {"ttl_s": 60},
        {"key": "another"},
        {"id": "of-its-own"},
        {"section": "messages"},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_an_item_that_says_anything_else_is_a_version(changed):
    """So is one with an id of its own, and a message of a history, which may say the same words again."""
    given = {"section": "documents", "content": "Ship on Friday.", "key": "ship"}
    memory = SessionMemory.test_mode()
    first = memory.add(**given | {"section": changed.get("section", "documents")})
    second = memory.add(**given | changed)
    assert second.id != first.id


def test_a_value_that_comes_back_is_a_version():
    """Ann moves to Bergen and back: the third statement is newer than the second."""
    memory = SessionMemory.test_mode()
    for place in ("Oslo", "Bergen", "Oslo"):
        memory.add("findings", f"Ann lives in {place}.", key="ann/home")
    assert [item.text for item in memory["findings"]] == ["Ann lives in Oslo."]
    assert len(memory["findings"].archive) == 2


async def test_a_save_that_fails_as_the_block_is_left_says_that_its_changes_are_gone(tmp_path):
    """Inside the block, a failed save keeps them, and the next one stores them."""
    store = tmp_path / "store"
    with pytest.raises(DurabilityError, match=r"unsaved changes are gone; call save\(\) inside"):
        async with SessionMemory.open(store, "chat") as memory:
            memory.add("findings", "Ann owns the deal.", id="owner")
            store.write_text("no folder")
    with pytest.raises(ReadOnlyError, match="closed"):
        await memory.save()
    store.unlink()
    async with SessionMemory.open(store, "chat") as memory:
        memory.add("findings", "Ann owns the deal.", id="owner")
        store.write_text("no folder")
        with pytest.raises(DurabilityError, match="what was saved is safe, try again"):
            await memory.save()
        store.unlink()
    async with SessionMemory.open(store, "chat", read_only=True) as memory:
        assert "owner" in memory
