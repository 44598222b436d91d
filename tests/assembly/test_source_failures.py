"""Sources that fail or are late: named, left out, and raised where a context is worth nothing without them."""

import asyncio
import pickle
from datetime import UTC, datetime

import pytest

from kaosmem import InvalidArgumentError, Item, NotFoundError, Proposal, SectionSpec, SessionMemory
from kaosmem.assembly.context import SourceStatus
from kaosmem.errors import SourceError

SECRET = "postgres://user:hunter2@db"
NOTE = Item("n1", "notes", "", "the notice period is 30 days", 7, datetime(2024, 1, 1, tzinfo=UTC))


class Notes:
    """A source of one note, whose answers wait for, or fail by, what `before` does."""

    def __init__(self, name, before=lambda: asyncio.sleep(0)):
        self.spec = SectionSpec(name, None, 50)
        self.before = before
        self.forgotten = []

    async def propose(self, query, *, cap, wanted=None):
        await self.before()
        return Proposal.of([(NOTE, 1.0)])

    async def get(self, item_id):
        await self.before()
        return NOTE if item_id == NOTE.id and not self.forgotten else None

    async def forget(self, item_ids):
        await self.before()
        self.forgotten += item_ids


async def unreachable():
    raise ConnectionError(SECRET)


async def hanging():
    await asyncio.Event().wait()


async def timed_out_itself():
    raise TimeoutError(SECRET)


async def cancelled_inside():
    task = asyncio.ensure_future(hanging())
    await asyncio.sleep(0)
    task.cancel()
    await task


async def test_the_rest_is_assembled_and_what_each_source_did_is_said():
    """In the context and in its report; by the type of an error, never by its message."""
    memory = SessionMemory.test_mode()
    memory.add("documents", "our own memo on the notice period")
    await memory.attach(Notes("fine"))
    await memory.attach(Notes("broken", unreachable))
    await memory.attach(Notes("slow", hanging), timeout_s=0.01)
    await memory.attach(Notes("impatient", timed_out_itself), timeout_s=60)
    await memory.attach(Notes("torn", cancelled_inside))
    await memory.attach(Notes("none", lambda: asyncio.sleep(0)), name="unasked")
    names = ["documents", "fine", "broken", "slow", "impatient", "torn"]
    context = await memory.assemble_context("notice period", budget=500, sections=names)
    assert [item.section for item in context.items] == ["documents", "notes"]
    assert {name: str(report) for name, report in context.sources.items()} == {
        "fine": "ok, 1 proposed",
        "broken": "failed with ConnectionError",
        "slow": "late",
        "impatient": "failed with TimeoutError",
        "torn": "failed with CancelledError",
    }
    assert "source broken: failed with ConnectionError" in context.explain()
    assert "source slow: late" in context._repr_html_()
    assert SECRET not in context.explain() + context._repr_html_() + repr(context)
    assert (await memory.assemble_context(budget=500, sections=["documents"])).sources == {}


@pytest.mark.parametrize(
    ("before", "timeout_s", "kind", "said"),
    [
        (unreachable, 60, ConnectionError, "failed with ConnectionError"),
        (hanging, 0.02, TimeoutError, "within 0.02 s"),
    ],
)
async def test_what_is_required_is_raised(before, timeout_s, kind, said):
    """As one type of error that names the source and has the source's own as its cause, whoever fails beside it."""
    memory = SessionMemory.test_mode()
    await memory.attach(Notes("beside", unreachable))
    await memory.attach(Notes("needed", before), timeout_s=timeout_s, required=True)
    await memory.attach(Notes("needed-too", unreachable), required=True)
    with pytest.raises(SourceError, match=said) as raised:
        await memory.assemble_context("notice", budget=500)
    assert raised.value.sources == ("needed",)
    assert raised.value.late is (before is hanging)
    assert isinstance(raised.value.__cause__, kind)
    assert SECRET not in str(raised.value)
    again = pickle.loads(pickle.dumps(raised.value))
    assert (again.sources, again.late, str(again)) == (
        ("needed",),
        raised.value.late,
        str(raised.value),
    )
    context = await memory.assemble_context("notice", budget=500, sections=["beside"])
    assert context.sources["beside"].status is SourceStatus.FAILED


async def test_sources_are_awaited_together_and_left_when_the_turn_is_cancelled():
    """None waits for another's answer, and a cancelled turn is cancelled, not a failed source."""
    memory = SessionMemory.test_mode()
    met = asyncio.Barrier(3)
    for name in ("one", "two", "three"):
        await memory.attach(Notes(name, met.wait), timeout_s=60)
    context = await memory.assemble_context("notice", budget=500)
    assert {report.status for report in context.sources.values()} == {SourceStatus.OK}
    await memory.attach(Notes("endless", hanging))
    turn = asyncio.create_task(memory.assemble_context("notice", budget=500, sections=["endless"]))
    await asyncio.sleep(0.01)
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_fetch_asks_the_others_and_says_what_it_could_not_ask(tmp_path):
    """What another source, or the stored archive, has is found; only what may be in the missing one is not unknown."""
    async with SessionMemory.open(tmp_path, "s") as memory:
        gone = memory.add("documents", "archived long ago")
        memory.remove(gone.id)
    async with SessionMemory.open(tmp_path, "s") as memory:
        await memory.attach(Notes("broken", unreachable))
        with pytest.raises(SourceError, match="broken"):
            await memory.fetch("n1")
        assert (await memory.fetch(gone.id)).content == gone.content
        await memory.attach(Notes("fine"))
        assert (await memory.fetch("n1")).content == NOTE.content
    async with SessionMemory.open(tmp_path, "s") as memory:
        await memory.attach(Notes("fine"))
        with pytest.raises(NotFoundError):
            await memory.fetch("n2")


async def test_forgetting_goes_on_where_a_source_fails_and_names_it():
    """The session and the other sources forget; the one that failed, or can't be asked, may still hold the item."""
    memory = SessionMemory.test_mode()
    broken = Notes("broken")
    fine = Notes("fine")
    await memory.attach(broken)
    await memory.attach(Notes("away", hanging), timeout_s=0.01)
    await memory.attach(fine)
    item = memory.add("documents", NOTE.content, id="n1")
    broken.before = unreachable
    with pytest.raises(SourceError) as raised:
        await memory.forget(item.id)
    assert raised.value.sources == ("broken", "away")
    assert fine.forgotten == ["n1"]
    assert item.id not in memory


@pytest.mark.parametrize("timeout_s", [0, -1, float("inf"), float("nan"), True, "1"])
async def test_a_time_to_wait_is_a_number_above_0(timeout_s):
    """Anything else is refused, and nothing is attached."""
    memory = SessionMemory.test_mode()
    with pytest.raises(InvalidArgumentError, match="timeout_s"):
        await memory.attach(Notes("notes"), timeout_s=timeout_s)
    assert not memory.admin.sources
    assert await memory.attach(Notes("notes"), timeout_s=1) == "notes"
