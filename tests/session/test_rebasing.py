"""Several writers of one session: what each adds stays, and what both rewrite is refused to the second."""

import asyncio
import random
import threading
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kaosmem.persistence.log as log_module
from kaosmem import ConflictError, DurabilityError, SectionSpec, SessionMemory, SessionOptions
from kaosmem.compaction import SummarizationCompaction, Summarizer
from kaosmem.compaction.model_requests import ModelRequests
from kaosmem.errors import ReadOnlyError
from kaosmem.persistence.storage.objects import IsolatedMemoryFileSystem
from kaosmem.sections.default_sections import DEFAULT_SECTIONS
from kaosmem.testing import ScriptedLLM
from tests.gist import gist

SUMMARIZER = Summarizer(
    ModelRequests(ScriptedLLM(lambda request: gist(request, most=3)), pause_s=0),
    max_kept_tokens=0,
)
COMPACTION = SummarizationCompaction(SUMMARIZER, 40, 10, max_summary_tokens=20)
SPECS = (
    SectionSpec("role", placement="static", eviction="none"),
    SectionSpec("messages", budget=60, placement="history", eviction="fifo"),
    SectionSpec("notes", budget=60, eviction="lru"),
    SectionSpec("few", budget=20, eviction="refuse"),
    SectionSpec("documents", eviction="none"),
    SectionSpec("scratch", persistence="none"),
    SectionSpec("talk", budget=80, placement="history", compaction=COMPACTION),
)


@asynccontextmanager
async def writers(place, number=2):
    """Several memories over one session that has been saved once; what they have not saved at the end is dropped."""
    async with SessionMemory.open(place, sections=SPECS) as memory:
        memory.add("role", "Be brief.", id="role")
        memory.add("documents", "a contract", id="contract")
        memory.add("notes", "a note", id="note")
    with suppress(_DroppedError):
        async with AsyncExitStack() as stack:
            openings = (SessionMemory.open(place, sections=SPECS) for _ in range(number))
            yield [await stack.enter_async_context(opening) for opening in openings]


class _DroppedError(Exception):
    """Raised to leave without saving."""


def held(memory):
    """What a session holds, but for what is never stored."""
    return {
        spec.name: [(item.id, item.text) for item in memory[spec.name]]
        for spec in memory.sections
        if spec.persistence != "none"
    }


async def _is_as_stored(memory, place):
    """A session that took in what others did holds, finds and shows what one that is opened anew does."""
    async with SessionMemory.open(
        place, sections=SPECS, read_only=True, options=SessionOptions(missing_ok=True)
    ) as other:
        assert held(memory) == held(other)
        for spec in SPECS:
            keys = [item.key for item in memory[spec.name] if item.key]
            assert len(keys) == len(set(keys))
        names = [
            spec.name for spec in SPECS if spec.compaction is None
        ]  # a reader does not compact
        contexts = [
            await each.assemble_context("w", budget=100, sections=names) for each in (memory, other)
        ]
        assert contexts[0].text == contexts[1].text
        for query in ("w", "v w"):
            for name in names:
                assert memory.search(query, name, 50) == other.search(query, name, 50)


async def stored(place):
    async with SessionMemory.open(
        place, sections=SPECS, read_only=True, options=SessionOptions(missing_ok=True)
    ) as memory:
        assert memory.notices == ()
        return held(memory)


@pytest.mark.parametrize("section", ["messages", "documents", "few"])
@pytest.mark.parametrize("before", [False, True], ids=["a new key", "a key that both supersede"])
async def test_of_one_key_the_later_save_is_live(place, section, before):
    """Where both add under one key, the later committed is live alone, here and where it is stored."""
    async with writers(place, 3) as (first, one, other):
        if before:
            first.add(section, "version 0", key="k", id="0")
            await first.save()
            for memory in (one, other):
                memory.add("documents", "to catch up")
                await memory.save()
        other.add(section, "version 2", key="k", id="2")
        one.add(section, "version 1", key="k", id="1")
        await one.save()
        await other.save()
        assert [item.id for item in other[section] if item.key] == ["2"]
        for number in range(0 if before else 1, 2):
            assert (await other.fetch(str(number))).text == f"version {number}"
        assert held(other) == await stored(place)
        one.add(section, "version 3", key="k", id="3")
        await one.save()
        assert [item.id for item in one[section] if item.key] == ["3"]
        assert held(one) == await stored(place)


def say(memory, *numbers):
    for number in numbers:
        memory.add("talk", f"w {number} " * 4, id=f"t{number}", role="user")


def talked(memory):
    return [item.id if item.role == "user" else item.role for item in memory["talk"]]


@pytest.mark.parametrize("touch", ["update", "remove", "forget", "compact"])
async def test_a_compaction_of_what_another_touched_is_dropped(place, touch):
    """The save goes on without it, nothing of what was added is lost, and the next turn compacts what is there."""
    async with writers(place) as (one, other):
        say(one, *range(12))
        await one.save()
        other.add("documents", "to catch up")
        await other.save()
        say(other, 99)
        await other.assemble_context(budget=1_000)
        assert "summary" in talked(other)
        match touch:
            case "update":
                one.update("t3", "anew")
            case "remove":
                one.remove("t3")
            case "forget":
                await one.forget("t3")
            case "compact":
                await one.assemble_context(budget=1_000)
        await one.save()
        before = talked(one)
        await other.save()
        assert talked(other) == [*before, "t99"]
        assert held(other) == await stored(place)
        await other.assemble_context(budget=1_000)
        assert talked(other)[1] == "summary"
        await other.save()
        assert held(other) == await stored(place)


async def test_both_updating_one_item_is_a_conflict(place):
    """The second is refused, again and again, by the item's name; what is stored is the first's."""
    async with writers(place) as (one, other):
        one.update("contract", "the first's contract")
        other.update("contract", "the second's contract")
        other.add("messages", "beside it")
        await one.save()
        for _ in range(2):
            with pytest.raises(ConflictError, match="contract") as caught:
                await other.save()
            assert "second's" not in f"{caught.value!s}{caught.value!r}"
        assert other.get("contract").text == "the second's contract"
        assert (await stored(place))["documents"] == [("contract", "the first's contract")]
        raise _DroppedError


async def test_a_conflict_that_was_caught_is_not_raised_again(place):
    """Leaving the block raises a conflict that nobody has heard of, and no other; the other's changes stand."""
    with pytest.raises(ConflictError, match="contract"):
        async with writers(place) as (one, other):
            other.update("contract", "never told")
            one.update("contract", "the first's contract")
            await one.save()
    opened = [SessionMemory.open(place, sections=SPECS) for _ in range(2)]
    async with opened[0] as one, opened[1] as other:
        one.update("contract", "the second's contract")
        other.update("contract", "mine")
        await one.save()
        with pytest.raises(ConflictError):
            await other.save()
        other.add("messages", "said after it")
    assert (await stored(place))["documents"] == [("contract", "the second's contract")]
    async with SessionMemory.open(place, sections=SPECS) as memory:
        memory.update("contract", "mine, repeated")
    assert (await stored(place))["documents"] == [("contract", "mine, repeated")]


async def test_what_was_to_be_forgotten_is_forgotten_though_all_else_is_discarded(
    place, monkeypatch
):
    """A forgetting that failed is finished by the next save, also after a refresh."""
    async with writers(place, 1) as (one,):
        with monkeypatch.context() as patch:
            patch.setattr(log_module.SessionLog, "commit", _fails)
            with pytest.raises(DurabilityError):
                await one.forget("contract")
        await one.admin.refresh(discard=True)
        await one.save()
        assert (await stored(place))["documents"] == []
        raise _DroppedError


def _fails(*_):
    raise DurabilityError("the disk is full")


async def test_a_session_read_only_is_not_refreshed(place):
    """It shows one state, to all who share it."""
    async with writers(place), SessionMemory.open(place, read_only=True) as reader:
        with pytest.raises(ReadOnlyError, match="open it again"):
            await reader.admin.refresh()
        raise _DroppedError


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (lambda m: m.update("contract", "x"), lambda m: m.remove("contract")),
        (lambda m: m.remove("contract"), lambda m: m.update("contract", "x")),
        (lambda m: m.remove("contract"), lambda m: m.remove("contract")),
        (
            lambda m: m.add("documents", "x", id="same"),
            lambda m: m.add("documents", "y", id="same"),
        ),
        (lambda m: m.add("few", "word " * 15), lambda m: m.add("few", "word " * 15)),
    ],
    ids=[
        "update-remove",
        "remove-update",
        "remove-remove",
        "same-id",
        "no-room",
    ],
)
async def test_what_cannot_follow_is_a_conflict(place, ours, theirs):
    """Nothing of such a save is written, and nothing that is unsaved is lost here."""
    async with writers(place) as (one, other):
        theirs(one)
        await one.save()
        ours(other)
        other.add("messages", "beside it")
        before, expected = held(other), await stored(place)
        with pytest.raises(ConflictError, match="open the session again"):
            await other.save()
        assert held(other) == before
        assert await stored(place) == expected
        raise _DroppedError


async def test_what_others_count_otherwise_is_counted_again(place):
    """A session counted anew since it was opened counts what others add in their way, too."""
    async with (
        writers(place, 1) as (one,),
        SessionMemory.open(place, sections=SPECS, counter=len) as other,
    ):
        one.add("documents", "an annex", id="annex")
        await one.save()
        other.add("messages", "hello")
        await other.save()
        assert other["documents"].peek("annex").tokens == len("an annex")
        assert other["documents"].used == len("a contract") + len("an annex")


async def test_use_marks_alone_write_nothing_but_for_lru_and_lfu(tmp_path):
    """Being shown is no change of a section whose policy does not ask for it."""
    async with writers(tmp_path) as (memory, _):
        before = {path: path.stat().st_size for path in tmp_path.rglob("*.jsonl")}
        memory.get("contract")
        await memory.save()
        assert before == {path: path.stat().st_size for path in tmp_path.rglob("*.jsonl")}
        memory.get("note")
        await memory.save()
        assert before != {path: path.stat().st_size for path in tmp_path.rglob("*.jsonl")}


async def test_closing_that_is_cancelled_can_be_done_again(tmp_path, monkeypatch):
    """Neither a snapshot being written nor the close after it is cut short by it."""
    monkeypatch.setattr(log_module, "MIN_LOG_BYTES", 1)
    written = threading.Event()
    snapshot = log_module.SessionLog.snapshot

    def slow(*args, **options):
        written.wait(30)
        return snapshot(*args, **options)

    monkeypatch.setattr(log_module.SessionLog, "snapshot", slow)
    written.set()
    async with writers(tmp_path, 0):
        pass
    written.clear()
    manager = SessionMemory.open(tmp_path, sections=SPECS)
    memory = await manager.__aenter__()
    memory.add("documents", "an annex " * 1_000)  # longer than the snapshot before: one is due
    await memory.save()
    closing = asyncio.create_task(memory.admin.close())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    written.set()
    await memory.admin.close()
    assert sorted(path.name for path in tmp_path.rglob("snap/*"))


OPS = (
    "add",
    "add",
    "update",
    "remove",
    "get",
    "turn",
    "save",
    "save",
    "refresh",
    "discard",
    "reopen",
)
NAMES = ("messages", "notes", "documents", "role", "talk", "talk", "talk")
wishes = st.tuples(
    st.sampled_from(OPS), st.integers(0, 2), st.sampled_from(NAMES), st.integers(1, 30)
)


@given(steps=st.lists(wishes, max_size=30))
def test_every_order_of_two_writers_ends_in_one_session(
    steps,
):
    """After each save or discard its writer holds what is stored, and nothing acknowledged is ever gone."""
    asyncio.run(_play(steps, _is_as_stored))


@given(seed=st.integers(0, 10**6))
@settings(max_examples=20)
def test_every_order_of_two_that_compact_ends_in_one_session(seed):
    """The same where each of them compacts what the other adds to, updates and removes."""
    rng = random.Random(seed)
    steps = [
        (rng.choice(OPS), rng.randrange(2), rng.choice(NAMES), rng.randint(1, 30))
        for _ in range(40)
    ]
    asyncio.run(_play(steps, _holds_what_is_stored))


async def _holds_what_is_stored(memory, place):
    assert held(memory) == await stored(place)


async def _play(steps, check):
    place = IsolatedMemoryFileSystem()
    smallest = log_module.MIN_LOG_BYTES
    log_module.MIN_LOG_BYTES = 2_000
    memories = {}
    acknowledged = {}
    pending = {}
    changed = set()
    number = 0

    async def opened(writer):
        if writer not in memories:
            manager = SessionMemory.open(place, sections=SPECS)
            memories[writer] = manager, await manager.__aenter__()
            pending[writer] = {}
            changed.discard(writer)
        return memories[writer][1]

    async def discarded(writer):
        memory = memories[writer][1]
        await memory.admin.refresh(discard=True)
        pending[writer] = {}
        changed.discard(writer)
        await check(memory, place)

    async def dropped(writer):
        await memories.pop(writer)[1].admin.close()

    try:
        for op, writer, section, size in steps:
            memory = await opened(writer)
            live = list(memory[section])
            if op == "add" or (live and op in ("update", "remove")):
                changed.add(writer)
            match op:
                case "add":
                    keys = [None] * 4 if section == "talk" else [[None, "k", "l"][size % 3]]
                    for key in keys:
                        number += 1
                        item = memory.add(section, "w " * size, id=f"i{number}", key=key)
                        pending[writer][item.id] = item.text
                case "update" if live:
                    memory.update(live[size % len(live)].id, "v " * size)
                case "remove" if live:
                    memory.remove(live[size % len(live)].id)
                case "get" if live:
                    memory.get(live[size % len(live)].id)
                case "turn":
                    await memory.assemble_context(budget=1_000)
                    changed |= {writer} if memory["talk"].journal else set()
                case "save":
                    try:
                        await memory.save()
                    except ConflictError:
                        await (discarded(writer) if size % 2 else dropped(writer))
                    else:
                        acknowledged |= pending[writer]
                        pending[writer] = {}
                        if (
                            writer in changed
                        ):  # else it writes nothing, and need not look at what others do
                            await check(memory, place)
                        changed.discard(writer)
                case "refresh":
                    try:
                        await memory.admin.refresh()
                    except ConflictError:
                        await discarded(writer)
                    else:
                        if writer not in changed:
                            await check(memory, place)
                        for item_id in pending[writer]:
                            await memory.fetch(item_id)
                case "discard":
                    await discarded(writer)
                case "reopen":
                    await dropped(writer)
        async with SessionMemory.open(place, sections=SPECS) as memory:
            for item_id in acknowledged:
                await memory.fetch(item_id)
    finally:
        log_module.MIN_LOG_BYTES = smallest
        for writer in list(memories):
            await dropped(writer)


async def test_what_another_superseded_is_not_updated(place):
    """An update of an item that has left meanwhile is a conflict, as of one that was evicted."""
    async with writers(place) as (one, other):
        one.add("notes", "version 1", key="k", id="1")
        await one.save()
        other.add("documents", "to catch up")
        await other.save()
        other.update("1", "changed")
        one.add("notes", "version 2", key="k", id="2")
        await one.save()
        with pytest.raises(ConflictError, match="another writer has changed"):
            await other.save()
        raise _DroppedError


async def test_a_refresh_shows_what_another_saved_and_commits_nothing(place):
    """Unsaved changes stay unsaved, after the other's; a refresh without log_changes changes nothing."""
    async with writers(place) as (one, other):
        one.add("messages", "from one")
        await one.save()
        other.add("messages", "from the other")
        other.add("scratch", "a scratch note", id="scratch")
        before = await stored(place)
        for _ in range(2):
            await other.admin.refresh()
            assert [item.text for item in other["messages"]] == ["from one", "from the other"]
            assert await stored(place) == before
        await other.admin.refresh(discard=True)
        assert held(other) == before
        assert "scratch" in other
        await other.save()
        assert await stored(place) == before
        raise _DroppedError


@pytest.mark.parametrize("is_forgetting", [False, True])
async def test_one_id_in_two_sections_is_a_conflict(place, is_forgetting):
    """An id is of one live item, in whichever sections two writers give it, and however much the log still tells."""
    async with writers(place) as (one, other):
        other.add("documents", "mine", id="same")
        one.add("role", "theirs", id="same")
        await (one.forget("contract") if is_forgetting else one.save())
        with pytest.raises(ConflictError, match=r"open .* again"):
            await other.save()
        assert "same" not in dict((await stored(place))["documents"])
        raise _DroppedError


async def test_what_is_never_stored_goes_with_what_another_forgets(place):
    """A note of one's own on what another writer has forgotten goes with the next save."""
    async with writers(place) as (one, other):
        other.add("scratch", "on the contract", id="mine", sources=["contract"])
        other.add("scratch", "on that", id="more", sources=["mine"])
        other.add("scratch", "on the note", id="other", sources=["note"])
        await one.forget("contract")
        other.add("documents", "an annex")
        await other.save()
        assert [item.id for item in other["scratch"]] == ["other"]


async def test_other_items_and_uses_are_no_conflict(place):
    """Updates of different items, updates beside additions, and uses go together."""
    async with writers(place) as (one, other):
        one.update("contract", "amended")
        one.get("note")
        other.add("documents", "an annex", id="annex")
        other.get("note")
        other.update("note", "a better note")
        await one.save()
        await other.save()
        assert dict((await stored(place))["documents"]) == {
            "contract": "amended",
            "annex": "an annex",
        }
        assert (await stored(place))["notes"] == [("note", "a better note")]


async def test_a_section_that_others_brought_is_kept(place):
    """A writer that has no spec for what another writes keeps it, through its own snapshots too."""
    async with writers(place) as (memory, _):
        wide = (*SPECS, SectionSpec("extra", eviction="none"))
        async with SessionMemory.open(place, sections=wide) as other:
            other.add("extra", "more", id="more")
        memory.add("messages", "hello")
        await memory.save()
        assert [item.id for item in memory["extra"]] == ["more"]
        async with SessionMemory.open(place, sections=wide) as other:
            other.add("extra", "still more")
        memory.add("messages", "hello again")
        await memory.save()
        assert len(memory["extra"]) == 2


@pytest.mark.parametrize("sections", [SPECS, DEFAULT_SECTIONS])
async def test_first_opens_at_once(place, sections):
    """All who open a session that is not there yet, and save, are in it."""

    async def take_part(number):
        async with SessionMemory.open(place, sections=sections) as memory:
            memory.add("documents", f"part {number}", id=str(number))

    await asyncio.gather(*map(take_part, range(12)))
    async with SessionMemory.open(place, sections=sections) as memory:
        assert sorted(int(item.id) for item in memory["documents"]) == [*range(12)]
