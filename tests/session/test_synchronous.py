"""A program without `async` uses a session as others do."""

import asyncio
import inspect
import os
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from types import NoneType

import pytest

from kaosmem import InvalidArgumentError, SessionMemory, SyncSessionMemory
from kaosmem.errors import ConcurrentUseError


def test_it_has_every_member():
    """Each public member of a SessionMemory is there, with its documentation and parameters."""
    for name, member in vars(SessionMemory).items():
        if name.startswith("_"):
            continue
        own = getattr(SyncSessionMemory, name)
        if callable(member) and name != "turn":
            expected = [*inspect.signature(member).parameters]
            assert [*inspect.signature(own).parameters] == expected, name
        assert inspect.getdoc(own), name


def test_a_session_is_saved_at_the_end(tmp_path):
    with SyncSessionMemory.open(tmp_path, "deal") as memory:
        item = memory.add("findings", "Ann owns the deal.")
        assert memory.search("deal")[0].item == item
        assert item.id in memory
    with SyncSessionMemory.open(tmp_path, "deal") as memory:
        assert memory.fetch(item.id).text == "Ann owns the deal."
        assert memory.assemble_context("Who owns the deal?", budget=100).used > 0
        assert memory.at(as_of="2100-01-01").search("deal")
        assert [section.spec for section in memory] == list(memory.sections)
        memory.remove(item.id)
        assert len(memory.archive) == 1
        assert memory.archive.expand(item.id) == [memory.fetch(item.id)]
        assert [each.text for each in memory.archive.items()] == [item.text]
        assert memory.admin.inner.session_id == "deal"


def test_errors_are_those_of_the_session():
    with SyncSessionMemory.test_mode() as memory, pytest.raises(InvalidArgumentError):
        memory.assemble_context(budget=-1)
    with pytest.raises(InvalidArgumentError), SyncSessionMemory.test_mode(counter="no-such"):
        pass


async def test_it_works_where_a_loop_runs():
    """As in a notebook."""
    with SyncSessionMemory.test_mode() as memory:
        memory.add("findings", "Ann owns the deal.")
        assert "Ann" in (memory.assemble_context("deal", budget=100).text or "")


def test_threads_share_a_memory():
    """The turns of threads follow each other."""
    with SyncSessionMemory.test_mode() as memory:

        def turn(number):
            with memory.turn():
                memory.add("messages", f"question {number}")
                memory.add("messages", f"answer {number}", role="assistant")

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(turn, range(20)))
        texts = [item.text for item in memory["messages"]]
    assert sorted(texts) == sorted(
        f"{word} {number}" for word in ("question", "answer") for number in range(20)
    )
    for question, answer in zip(texts[::2], texts[1::2], strict=True):
        assert question.split()[1] == answer.split()[1]


def test_a_turn_inside_a_turn_is_refused(tmp_path):
    """Otherwise it would wait for itself."""
    refused = pytest.raises(ConcurrentUseError)
    with SyncSessionMemory.test_mode() as memory, memory.turn(), refused, memory.turn():
        pass
    first = SyncSessionMemory.open(tmp_path, in_turn=True)
    second = SyncSessionMemory.open(tmp_path, in_turn=True)
    with first, refused, second:
        pass


def test_a_callback_cannot_wait_for_its_own_loop(tmp_path):
    (tmp_path / "a.md").write_text("The rent is 900 euros.")
    with SyncSessionMemory.test_mode() as memory:
        with pytest.raises(ConcurrentUseError):
            memory.ingest(tmp_path, progress=lambda *_: memory.save())
        seen = []
        memory.ingest(tmp_path, progress=lambda source, *_: seen.append(source))
        assert seen == ["a.md"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_has_a_loop_of_its_own():
    """As the workers of a web server."""
    with SyncSessionMemory.test_mode() as memory:
        memory.add("findings", "Ann owns the deal.")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with SyncSessionMemory.test_mode() as memory:
                memory.add("findings", "Bob owns the deal.")
                code = 0 if memory.search("deal") else 2
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_streamed_reply_may_go_on_in_another_thread(tmp_path, is_whole):
    """As FastAPI runs a generator: each step in a copy of the context. The turn ends as in one thread."""

    def reply():
        with SyncSessionMemory.open(tmp_path, "a", in_turn=True) as memory:
            memory.add("messages", "Who?")
            try:
                with memory.collecting("openai") as collected:
                    for text in ("Ann ", "owns it."):
                        collected.add({"choices": [{"delta": {"content": text}}]})
                        yield text
            finally:
                memory.save()

    steps = reply()
    for _ in range(2 if is_whole else 1):
        copy_context().run(next, steps)
    if is_whole:
        with pytest.raises(StopIteration):
            copy_context().run(next, steps)
    else:
        copy_context().run(steps.close)
    with SyncSessionMemory.open(tmp_path, "a", in_turn=True) as memory:
        said = [item.text for item in memory["messages"]]
    assert said == ["Who?", "Ann owns it." if is_whole else "Ann "]


async def test_two_tasks_of_an_event_loop_do_not_wait_for_each_other_without_end(tmp_path):
    """The second one would stop the loop in which the first one goes on. Other sessions are free."""

    async def handle(session_id):
        with SyncSessionMemory.open(tmp_path, session_id, in_turn=True) as memory:
            memory.add("messages", "Who?")
            await asyncio.sleep(0.01)

    results = await asyncio.gather(*map(handle, "abab"), return_exceptions=True)
    assert [type(each) for each in results] == [NoneType, NoneType, *2 * [ConcurrentUseError]]
    assert "in async functions use SessionMemory" in str(results[2])
    await handle("a")
    with SyncSessionMemory.open(tmp_path, "a", in_turn=True) as memory:
        assert len(memory["messages"]) == 2
