"""Turns are kept: replayed byte for byte, erased by `forget`, covered by `verify`."""

import asyncio
import json
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kaosmem import (
    CorruptionError,
    InvalidArgumentError,
    NotFoundError,
    SectionSpec,
    SessionMemory,
    Window,
)
from kaosmem.persistence.archives import Archives
from kaosmem.persistence.storage.objects import IsolatedMemoryFileSystem
from kaosmem.session.saving.repair import repair_session
from kaosmem.session.tracing import Replay, turns_of
from kaosmem.sources import FactSource
from kaosmem.stores import InMemoryLongTermMemory
from kaosmem.trace.request import join_request, request_bytes, request_of, split_request
from kaosmem.view.page import page_data
from tests.places import files_in
from tests.session.test_repair import break_log

SECRET = "The password of the safe is swordfish-4711."
CALLS = [
    {"format": "text"},
    {"format": "openai"},
    {"format": "anthropic"},
    {"format": "openai", "window": "main"},
    {"format": "anthropic", "window": "other"},
]


def traced(place):
    return SessionMemory.open(place, "s", trace=True)


def add_rooms(memory, number):
    memory.add_many("documents", [f"Room {n} costs {n} euros." for n in range(number)])


def _replay(memory):
    return Replay(memory._session)


async def _talk(memory, turns, start=0):
    """Ask some questions in every format, and return the requests that were sent."""
    sent = []
    for number in range(start, start + turns):
        memory.add("messages", f"What does room {number} cost, with breakfast and a view?")
        for call in CALLS:
            context = await memory.assemble_context(budget=500, **call)
            sent.append(request_bytes(request_of(context.rendered)))
        memory.add("messages", f"It costs {number} euros,\nbreakfast included.", role="assistant")
    return sent


async def test_every_turn_is_replayed_byte_for_byte(place):
    """After reopening, each stored turn gives the bytes that were sent, in every format."""
    sent = []
    for number in range(3):
        async with traced(place) as memory:
            if not number:
                memory.add("role", "You are a careful clerk of a hotel.")
                add_rooms(memory, 60)
            sent += await _talk(memory, 2, 2 * number)
            fact = f"The guest of day {number} wants a room to the north."
            item = memory.add("findings", fact, key="wish")
            if number:
                memory.update(item.id, content=fact + " Breakfast is at eight.")
    async with SessionMemory.open(place, "s", read_only=True) as memory:
        replay = _replay(memory)
        assert [request_bytes(replay.request(n)) for n in range(1, len(sent) + 1)] == sent


async def test_a_turn_that_left_thinking_out_is_replayed(place):
    """A window that is packed anew leaves it out. The text that stands beside it is found all the same."""
    sent = []
    async with traced(place) as memory:
        for number in range(3):
            memory.add("messages", f"What does room {number} cost, with breakfast and a view?")
            window = Window("main", rebase=number == 2)
            context = await memory.assemble_context(budget=900, format="anthropic", window=window)
            sent.append(request_bytes(request_of(context.rendered)))
            thinking = {
                "type": "thinking",
                "thinking": f"I should look at the list of room {number}.",
                "signature": "seal",
            }
            said = {"type": "text", "text": f"Room {number} costs {number} euros, I think."}
            reply = {"role": "assistant", "content": [thinking, said]}
            memory.add_message(reply, format="anthropic")
    async with traced(place) as memory:
        replay = _replay(memory)
        assert [request_bytes(replay.request(number)) for number in (1, 2, 3)] == sent


async def test_to_keep_a_turn_reads_no_archive(place):
    """A visible message that was evicted before the save is no reason to read all files of a session."""
    spec = SectionSpec("messages", 2_000, placement="history")
    window = Window("main", block=150)
    async with SessionMemory.open(place, "s", sections=(spec,), trace=True) as memory:
        fact = memory.add("messages", SECRET)
        memory.add_many("messages", [f"Room {n} costs {n} euros a night." for n in range(140)])
        for question in ("What is the password of the safe?", "What does room 139 cost?"):
            memory.add("messages", question)
            context = await memory.assemble_context(budget=600, window=window)
            assert fact in context.items
        memory.add_many("messages", [f"House {n} costs {n} euros a night." for n in range(60)])
        assert fact.id not in memory
        with patch.object(Archives, "all", side_effect=AssertionError("all files are read")):
            await memory.save()


async def test_a_turn_with_lines_of_a_long_message_is_replayed_and_erased(place):
    """The turn keeps what it showed of the message, and `forget` of the message erases it."""
    sent = []
    log = "Nothing new was found in this step of the search.\n" * 400
    async with traced(place) as memory:
        long = memory.add("messages", f"{log}{SECRET}\n{log}")
        for number in range(40):
            memory.add("messages", f"Please go on with chapter {number} of the novel. " * 3)
        for call in CALLS:
            memory.add("messages", "What is the password of the safe?")
            context = await memory.assemble_context(budget=4_000, **call)
            assert "swordfish" in str(request_of(context.rendered))
            sent.append(request_bytes(request_of(context.rendered)))
    async with traced(place) as memory:
        replay = _replay(memory)
        assert [request_bytes(replay.request(n)) for n in range(1, len(sent) + 1)] == sent
        assert await memory.admin.verify(await memory.forget(long.id)) == ()
    assert not any(b"swordfish" in data for data in files_in(place).values())


async def test_forget_erases_turns_and_verify_covers_them(place):
    """Turns that showed the item keep only sums, others lose its decision; no file holds it."""
    async with traced(place) as memory:
        add_rooms(memory, 30)
        before = await _talk(memory, 1)
        item = memory.add("findings", SECRET)
        shown = await memory.assemble_context("password of the safe", budget=500)
        assert item in shown.items
        out = await memory.assemble_context(f"room 3? {SECRET}", budget=45)
        assert item not in out.items
        plain = await memory.assemble_context("room 3", budget=45)
        assert item not in plain.items
        await memory.save()
        receipt = await memory.forget(item.id)
        assert await memory.admin.verify(receipt) == ()
        turns = {turn.number: turn for turn in turns_of(memory._session)}
        erased = [number for number, turn in turns.items() if turn.is_erased]
        assert erased == [len(before) + 1, len(before) + 2]
        assert turns[len(before) + 1].sums["sections"]["findings"][0] > 0
        replay = _replay(memory)
        for number in range(1, len(before) + 1):
            assert request_bytes(replay.request(number)) == before[number - 1]
        assert request_bytes(replay.request(len(turns))) == plain.text.encode()
        with pytest.raises(CorruptionError, match="erased"):
            replay.request(len(before) + 1)
        with pytest.raises(NotFoundError, match="only its sums"):
            memory.why("password", turn=len(before) + 1)
    assert not any(b"swordfish" in data for data in files_in(place).values())


async def test_a_trace_that_names_an_erased_item_fails_verification(place):
    """`verify` finds an erased item in a turn, were one left."""
    async with traced(place) as memory:
        add_rooms(memory, 30)
        item = memory.add("findings", SECRET)
        receipt = await memory.forget(item.id)
        await memory.assemble_context("room 3", budget=60)
        row = [item.id, "findings", "no_room", 1, 1.0, 5, None, None, []]
        turn = memory._session.trace.turns([], with_unsaved=True)[-1]
        turn.seen["decisions"].append(row)
        memory._session.trace._kept[turn.number] = turn
        await memory.save()
        assert any(
            "holds a turn that names" in reason for reason in await memory.admin.verify(receipt)
        )


async def test_items_of_sources_are_replayed_and_erased(place):
    """The trace keeps an item of an attached source once, answers for it, and forgets it."""
    facts = InMemoryLongTermMemory()
    await facts.save("u", SECRET)
    async with traced(place) as memory:
        await memory.attach(FactSource(facts, "u"))
        memory.add("findings", "Ann owns the deal.")
        contexts = [await memory.assemble_context("password of the safe", budget=500)]
        contexts.append(await memory.assemble_context("password?", budget=500, window="main"))
        (item,) = [each for each in contexts[0].items if each.section == "facts"]
    assert b"".join(files_in(place).values()).count(b"swordfish") == 2  # the trace, the window
    async with traced(place) as memory:
        replay = _replay(memory)
        for number, context in enumerate(contexts, 1):
            assert replay.request(number) == context.text
            assert "is in, " in str(memory.why("swordfish", turn=number))
        await memory.attach(FactSource(facts, "u"))
        receipt = await memory.forget(item.id)
        assert await memory.admin.verify(receipt) == ()
        assert "was erased" in str(memory.why(item.id))
    assert not any(b"swordfish" in data for data in files_in(place).values())


async def test_a_turn_with_an_item_that_no_file_may_hold_says_so(place):
    """Its request is not kept, short texts included; its note says why, also in the page."""
    async with traced(place) as memory:
        memory.add("findings", "The deal closes in May.")
        pin = memory.add("working", "PIN 471142", id="pin")
        memory.add("messages", "When does it close?")
        for _ in range(2):
            shown = await memory.assemble_context(budget=500, window="main", format="openai")
            assert pin.id in {item.id for item in shown.items}
        memory.remove(pin.id)
        plain = await memory.assemble_context(budget=500, window="main", format="openai")
    assert not any(b"471142" in data for data in files_in(place).values())
    async with SessionMemory.open(place, "s", read_only=True) as memory:
        replay = _replay(memory)
        for number in (1, 2):
            with pytest.raises(NotFoundError, match=r"not replayable: .* persistence='none'"):
                replay.request(number)
            assert "persistence='none'" in replay.assembled(number).explain()
            assert "persistence='none'" in str(page_data(memory._session).turns[number]["notices"])
        assert request_bytes(replay.request(3)) == request_bytes(request_of(plain.rendered))


async def test_texts_are_stored_once(place):
    """A trace adds no second copy of an item's text, of a message or of the query."""
    marks = [f"mark-{n:04d}-abcdefghijklmnop" for n in range(8)]
    async with traced(place) as memory:
        for mark in marks[:4]:
            memory.add("findings", f"A finding with {mark} in it.")
        for mark in marks[4:]:
            memory.add("messages", f"A question with {mark} in it?")
            await memory.assemble_context(budget=2_000, format="openai")
            await memory.assemble_context(budget=2_000)
    data = b"".join(files_in(place).values())
    assert [data.count(mark.encode()) for mark in marks] == [1] * 8


async def test_a_repaired_copy_keeps_its_turns(place):
    """All turns but the damaged one are in the copy, and are replayed."""
    async with traced(place) as memory:
        add_rooms(memory, 30)
        memory.add("documents", "A text.", id="long")
        sent = await _talk(memory, 2)
    break_log(place)
    report = await repair_session(place, "s")
    assert report.into is not None
    assert "~trace" not in {*report.items, *report.archived}
    async with SessionMemory.open(place, report.into, trace=True) as memory:
        replay = _replay(memory)
        kept = [turn.number for turn in replay.turns]
        (lost,) = {*range(1, len(sent) + 1)}.difference(kept)
        for turn in replay.turns:
            assert request_bytes(replay.request(turn.number)) == sent[turn.number - 1]
        assert "is in, " in str(memory.why("room 3 costs", turn=1))
        with pytest.raises(NotFoundError, match="damage may have taken it"):
            memory.why("room 3 costs", turn=lost)
        await memory.assemble_context("room 3", budget=60)
    async with SessionMemory.open(place, report.into, read_only=True) as memory:
        assert _replay(memory).turns[-1].number == len(sent) + 1


async def test_without_a_trace_the_last_turns_are_in_memory():
    """The default keeps 20 turns in memory, False none; a turn that is gone is refused by name."""
    memory = SessionMemory.test_mode()
    item = memory.add("findings", "Ann owns the deal.")
    with pytest.raises(NotFoundError, match="trace=True"):
        memory.why("Ann")
    for _ in range(30):
        await memory.assemble_context("deal?", budget=100)
    assert memory.why("Ann", turn=-20).decision == memory.why(item.id, turn=30).decision
    for turn in (10, 31, 0, -31):
        with pytest.raises(NotFoundError):
            memory.why("Ann", turn=turn)
    none = SessionMemory.test_mode(trace=False)
    await none.assemble_context("deal?", budget=100)
    with pytest.raises(NotFoundError):
        none.why("Ann")
    with pytest.raises(InvalidArgumentError, match="every turn"):
        SessionMemory.test_mode(trace="all")


async def test_forget_erases_turns_in_memory_too():
    memory = SessionMemory.test_mode()
    item = memory.add("findings", SECRET)
    memory.add("documents", "The rent is 900 euros.")
    await memory.assemble_context("safe", budget=100)
    await memory.assemble_context("rent", budget=100, sections=["documents"])
    await memory.forget(item.id)
    with pytest.raises(NotFoundError, match="erased"):
        memory.why("rent", turn=1)
    assert memory.why("rent", turn=2).decision is not None
    assert memory.why("swordfish", turn=2).decision is None


async def test_a_stored_turn_answers_as_its_context_did():
    """The sentence of a stored turn is that of the context, for each item that was offered."""
    memory = SessionMemory.test_mode(trace=True)
    add_rooms(memory, 300)
    for number in range(15):
        memory.add("messages", f"A question about room {number} and its view?")
    contexts = [await memory.assemble_context("room 17", budget=size) for size in (60, 200, 900)]
    for query in ("room 17", "room 18"):
        memory.add("messages", query)
        context = await memory.assemble_context(budget=2_000, window=Window("main", block=100))
        contexts.append(context)
    replay = _replay(memory)
    for number, context in enumerate(contexts, 1):
        turn = replay.assembled(number)
        if not context.window:  # its visible items that were not offered have no rank in the trace
            assert turn.explain() == context.explain()
        for item_id in [
            *(each.item_id for each in context.decisions),
            *(each.id for each in context.items),
        ]:
            assert str(turn.why(item_id)) == str(context.why(item_id))


_STEPS = st.lists(
    st.sampled_from(["add", "key", "update", "remove", "turn", "turn", "save", "reopen", "forget"]),
    max_size=24,
)


@given(_STEPS, st.randoms(use_true_random=False))
@settings(max_examples=15)
def test_whatever_happens_turns_are_replayed(steps, chosen):
    """After any changes, saves and erasures, each turn that showed no erased item has its bytes."""
    asyncio.run(_live(["add", "turn", *steps, "turn", "reopen"], chosen))


async def _live(steps, chosen):
    place = IsolatedMemoryFileSystem()
    sent = []
    with patch("kaosmem.persistence.log.MIN_LOG_BYTES", 3_000):
        for segment in " ".join(steps).split("reopen"):
            async with traced(place) as memory:
                for step in segment.split():
                    await _take(memory, step, chosen, sent)
        async with SessionMemory.open(place, "s", read_only=True) as memory:
            replay = _replay(memory)
    for turn, request in zip(replay.turns, sent, strict=True):
        if not turn.is_erased:
            assert request_bytes(replay.request(turn.number)) == request


async def _take(memory, step, chosen, sent):
    """Take one step, and note the request of a turn. A turn that shows an erased item is erased."""
    text = f"Room {chosen.randrange(9)} costs\n{chosen.randrange(99)} euros, said Ann."
    items = [item for section in memory for item in section]
    if step in ("add", "key"):
        section = chosen.choice(["findings", "documents", "messages"])
        memory.add(section, text, key="owner" if step == "key" else None)
    elif step == "turn":
        context = await memory.assemble_context(text, budget=200, **chosen.choice(CALLS))
        sent.append(request_bytes(request_of(context.rendered)))
    elif step == "save":
        await memory.save()
    elif items:
        item = chosen.choice(items)
        if step == "update":
            memory.update(item.id, content=text)
        elif step == "remove":
            memory.remove(item.id)
        else:
            await memory.forget(item.id)
            showing = [turn for turn in turns_of(memory._session) if item.id in turn.shown]
            assert showing == []


_TEXTS = st.text(st.sampled_from('ab \n<\0é"\\'), max_size=80)


@given(st.lists(_TEXTS, max_size=4), st.lists(_TEXTS, max_size=4), st.data())
def test_a_request_is_joined_as_it_was_split(texts, others, data):
    """Whatever a layout made of the items, and whatever stands between, the bytes come back."""
    memory = SessionMemory.test_mode()
    items = [memory.add("findings", text) for text in texts if text.strip()]
    pieces = [text.replace("\n", "\n  ") for text in texts] + texts + others
    pieces = data.draw(st.permutations(pieces))
    request = {
        "system": "\0" + "".join(others),
        "messages": ["".join(pieces), *pieces, 1, None],
        "input": {f"\0{name}": {name: [name]} for name in others},
    }
    stored = json.loads(json.dumps(split_request(request, items)))
    assert join_request(stored, items) == request
