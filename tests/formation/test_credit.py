"""Credit: which shown items a reply used, counted once a turn, in the log, by two workers."""

from collections import Counter
from contextlib import AsyncExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaosmem import InvalidArgumentError, NotFoundError, SessionMemory, SyncSessionMemory
from kaosmem.errors import ReadOnlyError
from kaosmem.testing import paths_holding
from kaosmem.types.content import ToolResultBlock, ToolUseBlock

RENT = "The rent is 900 euros."
OWNER = "In May the deal went to Ann Smith."
NOTICE = "Notice is thirty days."


async def asked(memory, question="How about the contract?"):
    return await memory.assemble_context(question, budget=500)


def filled(*texts):
    memory = SessionMemory.test_mode()
    for place, text in enumerate(texts):
        memory.add("findings", text, id=f"fact-{place}")
    return memory


def credited(memory):
    return memory["findings"].ledger.credited


@pytest.mark.parametrize(
    ("reply", "used"),
    [
        ("You pay 900 a month.", {"fact-0": "number 900"}),
        ("The owner is Ann now.", {"fact-1": "name Ann"}),
        ("The notice is thirty days long.", {"fact-2": "quote 'Notice is thirty days'"}),
        ("Ann pays 900 for it.", {"fact-0": "number 900", "fact-1": "name Ann"}),
        ("Ann asked.", {"fact-1": "name Ann"}),
        ("I do not know.", {}),
        ("1. Pay. 2. Leave.", {}),
        ("", {}),
    ],
)
async def test_a_reply_uses_items_by_quotes_names_and_numbers(reply, used):
    memory = filled(RENT, OWNER, NOTICE)
    context = await asked(memory)
    if not reply:
        with pytest.raises(InvalidArgumentError, match="nothing to credit"):
            context.credit(reply)
        return
    assert {each.item.id: each.reason for each in context.credit(reply)} == used


async def test_what_the_question_or_another_item_has_is_no_use():
    """Harm case: a reply that repeats the question, or a name that all items have, credits none."""
    memory = filled("Ann pays 900 euros.", "Ann was born in 1971.", "Ann likes 1971.")
    context = await asked(memory, "Is it 900 euros that Ann pays?")
    assert context.credit("Yes, Ann pays 900 euros. In 1971 Ann did not.") == []


async def test_a_single_digit_of_a_list_is_no_use():
    """Harm case: the numbers of the points of a reply say nothing."""
    memory = filled("Room 3 is free.", "Lunch is at 1.")
    assert (await asked(memory)).credit("1. Pay\n2. Leave\n3. Rest") == []


async def test_a_turn_counts_once():
    """A reply may be credited in parts, and twice. The second call returns the same."""
    memory = filled(RENT, OWNER, NOTICE)
    context = await asked(memory)
    assert context.credit("You pay 900") == context.credit("You pay 900")
    context.credit("You pay 900, the owner is Ann.")
    context.credit(ids=["fact-0"])
    usage = memory["findings"].ledger
    assert usage.credited == {"fact-0": 1, "fact-1": 1}
    assert usage.shown == {"fact-0": 1, "fact-1": 1, "fact-2": 1}
    (await asked(memory)).credit("Still 900.")
    assert usage.credited["fact-0"] == usage.shown["fact-2"] == 2


async def test_the_callers_word_counts():
    memory = filled(RENT, OWNER)
    context = await asked(memory)
    (used,) = context.credit(ids=["fact-1"], confirmed=True)
    assert str(used) == f"{OWNER} (the caller says so)"
    assert memory["findings"].ledger.verified_at.keys() == {"fact-1"}
    with pytest.raises(NotFoundError, match="shows no item 'other'"):
        context.credit(ids=["other"])
    with pytest.raises(InvalidArgumentError, match="ids is a str"):
        context.credit(ids="fact-1")


async def test_a_message_of_the_provider_is_a_reply():
    memory = filled(RENT)
    context = await memory.assemble_context("What?", budget=500, format="openai")
    assert context.credit({"role": "assistant", "content": "It is 900 euros."})


async def test_a_call_and_its_result_are_one_unit():
    """A number that the call and its own result share tells them from all other items."""
    memory = SessionMemory.test_mode()
    memory.add("messages", "Look the order up.")
    call = ToolUseBlock("a", "find", {"order": "4711"})
    memory.add("messages", (call,), role="assistant")
    memory.add("messages", (ToolResultBlock("a", "Order 4711 is shipped."),), role="tool")
    context = await memory.assemble_context(budget=500)
    assert context.credit("Your order 4711 is on its way.")


async def test_credits_survive_restarts_and_archives():
    """The next save stores them. An archived item keeps its counts, in snapshots too."""
    memory = filled(RENT, OWNER)
    (await asked(memory)).credit("It is 900, says Ann.")
    memory.remove("fact-1")
    await memory.save()
    for _ in range(2):
        async with SessionMemory.open(memory.admin.fs, "test") as again:
            assert credited(again) == {"fact-0": 1, "fact-1": 1}
            item = again.add("findings", "More.")
            await again.forget(item.id)  # writes the session anew


@pytest.mark.parametrize("where", ["objects", "disk"])
async def test_forget_erases_credits(where, tmp_path):
    """No file names the item, and a turn that showed it counts it no more."""
    place = tmp_path
    if where == "objects":
        place = SessionMemory.test_mode().admin.fs
    async with SessionMemory.open(place, "s") as memory:
        memory.add("findings", RENT, id="a-secret-id")
        context = await asked(memory)
        context.credit("900 it is.")
        await memory.save()
        receipt = await memory.forget("a-secret-id")
        assert receipt.items == ("a-secret-id",)
        assert context.credit("900 it is.", ids=["a-secret-id"], confirmed=True)
        assert not memory["findings"].ledger.to_dict()
        await memory.save()
        assert await memory.admin.verify(receipt) == ()
    assert paths_holding(place, "a-secret-id") == []


async def test_a_credit_of_another_worker_ends_no_window():
    memory = SessionMemory.test_mode()
    memory.add("messages", "The rent is 900 euros.", id="m")
    await memory.assemble_context("And now?", budget=500, window="main")
    await memory.save()
    async with SessionMemory.open(memory.admin.fs, "test") as other:
        (await asked(other)).credit("900")
    memory.add("messages", "Thanks.", role="assistant")
    await memory.save()
    context = await memory.assemble_context("More?", budget=500, window="main")
    assert context.rebased is None
    assert memory["messages"].ledger.credited == {"m": 1}


async def test_a_turn_without_credit_writes_nothing():
    """Shows are counted in turns that are credited: others cost no record."""
    memory = filled(RENT)
    await memory.save()
    before = memory._session.log.seq
    await asked(memory)
    await memory.save()
    assert memory._session.log.seq == before
    assert "ledger" not in memory["findings"].state()


async def test_only_a_turn_of_a_writable_session_is_credited():
    memory = filled(RENT)
    await memory.save()
    view = await memory.at(as_of="2030-01-01").assemble_context("What?", budget=500)
    with pytest.raises(InvalidArgumentError, match="view of another time"):
        view.credit("900")
    async with SessionMemory.open(memory.admin.fs, "test", read_only=True) as reader:
        with pytest.raises(ReadOnlyError):
            (await asked(reader)).credit("900")


def test_a_synchronous_memory_counts_in_its_own_thread():
    with SyncSessionMemory.test_mode() as memory:
        memory.add("findings", RENT, id="a")
        (used,) = memory.assemble_context("What?", budget=500).credit("900 it is")
        assert used.item.id == "a"
        assert memory["findings"].ledger.credited == {"a": 1}


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["credit", "credit", "save", "forget", "reopen"]),
        st.integers(0, 1),
        st.integers(0, 2),
    ),
    max_size=12,
)


@given(steps=STEPS)
async def test_counts_add_up_whatever_two_workers_do(steps):
    """Each credited turn counts once, and a forgotten item has no count, in any schedule."""
    first = filled(RENT, OWNER, NOTICE)
    await first.save()
    place = first.admin.fs
    async with AsyncExitStack() as stack:
        workers = [first, await stack.enter_async_context(SessionMemory.open(place, "test"))]
        counted = Counter()
        forgotten = set()
        for step, who, place_of in steps:
            worker = workers[who]
            item_id = f"fact-{place_of}"
            if step == "credit" and item_id in worker:
                (await asked(worker)).credit(ids=[item_id])
                counted[item_id] += 1
            elif step == "forget" and item_id in worker:
                await worker.forget(item_id)
                forgotten.add(item_id)
            elif step != "credit":
                await worker.save()
            if step == "reopen":
                opened = SessionMemory.open(place, "test")
                workers[who] = await stack.enter_async_context(opened)
        for worker in (*workers, *workers):
            await worker.save()
            await worker.admin.refresh()
        left = {item_id: n for item_id, n in counted.items() if item_id not in forgotten}
        assert [credited(worker) for worker in workers] == [left, left]
