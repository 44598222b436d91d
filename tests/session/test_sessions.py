"""A server keeps the sessions of its users: opened on demand, one turn at a time, closed when idle."""

import asyncio
import re

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaosmem import InvalidArgumentError, SessionMemory, Sessions, delete_session
from kaosmem.errors import ConcurrentUseError, InvalidNameError, ReadOnlyError
from kaosmem.session import list_namespaces


async def texts(place, session_id):
    async with SessionMemory.open(place, session_id) as memory:
        return [item.text for item in memory["messages"]]


async def test_a_turn_sees_what_others_saved(tmp_path):
    async with Sessions(tmp_path) as one, Sessions(tmp_path) as two:
        for number in range(4):
            async with (one if number % 2 else two).turn("a") as memory:
                assert len(memory["messages"]) == number
                memory.add("messages", f"message {number}")


async def test_one_pool_serves_all_tenants(tmp_path):
    """A session id names another session in each namespace, and all of them share the limits."""
    async with Sessions(tmp_path, max_open=2, namespace="acme") as sessions:
        for namespace in (None, "beta", "gamma", "acme"):
            async with sessions.turn("a", namespace=namespace) as memory:
                said = [item.text for item in memory["messages"]]
                assert said == (["None"] if namespace == "acme" else [])
                memory.add("messages", str(namespace))
        assert len(sessions) == 2
        with pytest.raises(InvalidNameError, match="namespace"):
            async with sessions.turn("a", namespace=""):
                pass
    assert await list_namespaces(tmp_path) == ["acme", "beta", "gamma"]


async def test_a_turn_of_a_session_that_was_deleted_meanwhile_begins_anew(tmp_path):
    """As in a new process: a user who left may come back at once, and finds nothing of before."""
    async with Sessions(tmp_path) as sessions:
        for text in ("before", "after"):
            async with sessions.turn("a") as memory:
                assert len(memory["messages"]) == 0
                memory.add("messages", text)
            if text == "before":
                await delete_session(tmp_path, "a")
    assert await texts(tmp_path, "a") == ["after"]


async def test_what_a_reply_brought_can_be_kept_when_the_client_hangs_up(tmp_path):
    """A save runs to its end, however often a scope of anyio cancels the turn that waits for it."""
    async with Sessions(tmp_path) as sessions:
        with anyio.move_on_after(0.01) as scope:
            async with sessions.turn("a") as memory:
                memory.add("messages", "Who?")
                try:
                    async with memory.collecting("openai") as reply:
                        reply.add({"choices": [{"delta": {"content": "Ann "}}]})
                        await anyio.sleep(60)
                finally:
                    await memory.save()
        assert scope.cancelled_caught
    assert await texts(tmp_path, "a") == ["Who?", "Ann "]


async def test_idle_sessions_and_the_oldest_of_too_many_close(tmp_path):
    now = 0.0
    async with Sessions(tmp_path, max_open=2, idle_s=60, clock=lambda: now) as sessions:
        memories = {}
        for name in "abc":
            async with sessions.turn(name) as memory:
                memories[name] = memory
        assert len(sessions) == 2
        async with sessions.turn("c") as memory:
            assert memory is memories["c"]
        async with sessions.turn("a") as memory:
            assert memory is not memories["a"]
        with pytest.raises(ReadOnlyError):
            memories["b"].add("messages", "late")
        now = 61.0
        await sessions.close_idle()
        assert len(sessions) == 0
    with pytest.raises(ReadOnlyError):
        async with sessions.turn("a"):
            pass


async def test_closing_waits_for_the_turn_that_runs_and_refuses_those_that_wait(
    tmp_path,
):
    sessions = Sessions(tmp_path)
    order = []

    async def turn(text):
        async with sessions.turn("a") as memory:
            order.append(text)
            memory.add("messages", text)
            await asyncio.sleep(0.01)

    first = asyncio.create_task(turn("first"))
    while not order:
        await asyncio.sleep(0)
    second = asyncio.create_task(turn("second"))
    await asyncio.sleep(0)
    await sessions.close()
    results = await asyncio.gather(first, second, return_exceptions=True)
    assert results[0] is None
    assert isinstance(results[1], ReadOnlyError)
    assert await texts(tmp_path, "a") == ["first"]


async def test_a_turn_inside_a_turn_of_the_same_session_is_refused(tmp_path):
    """It would wait for itself, of whatever kind the two are, also in a task that the turn waits for."""

    def turn(kind, session_id):
        if kind == "sessions":
            return sessions.turn(session_id)
        if kind == "memory":
            return memory.turn()
        return SessionMemory.open(tmp_path, session_id, in_turn=True)

    async def inner(kind):
        async with turn(kind, "a"):
            pytest.fail("it waited for itself")

    kinds = ("sessions", "in_turn")
    async with asyncio.timeout(30), Sessions(str(tmp_path)) as sessions:
        for outer in kinds:
            async with (
                turn(outer, "a") as memory,
                sessions.turn("b") as other,
                memory.turn(),
                other.turn(),
            ):
                for kind in (*kinds, "memory"):
                    for nested in (inner(kind), asyncio.gather(inner(kind))):
                        with pytest.raises(ConcurrentUseError, match="would wait for itself"):
                            await nested
                memory.add("messages", outer)
    assert await texts(tmp_path, "a") == list(kinds)


def test_event_loops_follow_each_other(tmp_path):
    """A program that runs each request in a loop of its own opens the session anew in each."""
    sessions = Sessions(tmp_path)

    async def request(number):
        async with asyncio.timeout(30), sessions.turn("a") as memory:
            memory.add("messages", f"message {number}")

    for number in range(3):
        asyncio.run(request(number))
    assert asyncio.run(texts(tmp_path, "a")) == ["message 0", "message 1", "message 2"]


async def test_a_turn_in_a_second_event_loop_at_the_same_time_is_refused(tmp_path):
    """The error names the remedies; once the turn has ended, another loop may hold one."""

    async def request():
        async with asyncio.timeout(30), sessions.turn("a") as memory:
            memory.add("messages", "elsewhere")

    async with Sessions(tmp_path) as sessions:
        async with sessions.turn("a") as memory:
            memory.add("messages", "here")
            with pytest.raises(ConcurrentUseError, match=r"another event loop.*SyncSessionMemory"):
                await asyncio.to_thread(asyncio.run, request())
        await asyncio.to_thread(asyncio.run, request())
        async with sessions.turn("a") as memory:
            assert [item.text for item in memory["messages"]] == ["here", "elsewhere"]


WRONG = [
    ({"max_open": 0}, "max_open is 0"),
    ({"idle_s": -1}, "idle_s is -1"),
    ({"clock": lambda: "noon"}, "time.monotonic"),
    ({"clock": 3}, "time.monotonic"),
    ({"rankr": None}, "no argument 'rankr'; did you mean 'ranker'?"),
    ({"read_only": True}, "no argument 'read_only': a turn waits for others, and saves"),
    ({"in_turn": True}, "open the session by SessionMemory.open"),
    ({"session_id": "a"}, "no argument 'session_id'; use one of namespace, max_open"),
    ({"ranker": "bm25"}, "give a Ranker"),
    ({"counter": "gpt-99"}, "no encoding 'gpt-99'"),
    ({"sections": ["messages"]}, "give a list of SectionSpec"),
    ({"trace": "yes"}, "use True"),
    ({"options": {}}, "give a SessionOptions"),
    ({"namespace": "../a"}, "namespace"),
]


@pytest.mark.parametrize(("wrong", "words"), WRONG)
def test_a_wrong_or_unknown_argument_is_refused_at_once(wrong, words, tmp_path):
    """Not at the first turn, which runs inside a server or a framework. The error names the remedy."""
    with pytest.raises(InvalidArgumentError, match=re.escape(words)):
        Sessions(tmp_path, **wrong)


@pytest.mark.parametrize("place", ["nosuch://bucket", 3, __file__, "https://user:pass@host/x"])
def test_a_place_that_can_hold_no_session_is_refused_at_once(place):
    """The error shows no password."""
    with pytest.raises(InvalidNameError, match="no session can be kept in") as raised:
        Sessions(place)
    assert "pass@" not in str(raised.value)


def test_making_sessions_reads_and_writes_nothing(tmp_path):
    """A program may make them before its storage is there. A clock of the program's own is taken."""
    Sessions(tmp_path / "later", clock=lambda: 0, ranker=None, trace=True)
    assert list(tmp_path.iterdir()) == []


async def test_wrong_ids_are_refused(tmp_path):
    async with Sessions(tmp_path) as sessions:
        with pytest.raises(InvalidNameError):
            async with sessions.turn("../a"):
                pass
        assert len(sessions) == 0


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.booleans()), max_size=14),
    st.integers(1, 3),
)
def test_no_turn_is_lost(turns, max_open):
    """Each turn that did not raise is stored once, whatever runs, waits, fails or closes meanwhile."""

    async def run():
        fs = SessionMemory.test_mode().admin.fs
        done = {user: [] for user in range(4)}

        async def turn(number, user, pauses, fails):
            async with sessions.turn(f"user-{user}") as memory:
                memory.add("messages", f"message {number}")
                for _ in range(pauses):
                    await asyncio.sleep(0)
                if fails:
                    raise KeyError(number)
                done[user].append(f"message {number}")

        async with Sessions(fs, max_open=max_open, idle_s=0) as sessions:
            results = await asyncio.gather(
                *(turn(number, *each) for number, each in enumerate(turns)), return_exceptions=True
            )
        assert all(each is None or isinstance(each, KeyError) for each in results), results
        for user, expected in done.items():
            assert await texts(fs, f"user-{user}") == expected

    asyncio.run(run())


async def test_a_source_is_attached_for_one_turn(tmp_path):
    """A turn that attaches its sources does the same in a session that stays open and in a new one."""
    async with SessionMemory.open(tmp_path, "faq") as faq:
        faq.add("documents", "A refund takes five days.")
    async with (
        SessionMemory.open(tmp_path, "faq", read_only=True) as faq,
        Sessions(tmp_path) as sessions,
    ):
        for _ in range(3):
            async with sessions.turn("a") as memory:
                assert not memory.admin.sources
                assert await memory.attach(faq["documents"]) == "documents-2"
                memory.add("messages", "How long does a refund take?")
                context = await memory.assemble_context(budget=500, window="main")
                assert "five days" in context.text
                assert list(context.sources) == ["documents-2"]
                memory.add("messages", "Five days.", role="assistant")
        async with sessions.turn("a") as memory:
            # Nothing that the turns before have kept needs the source.
            assert "is in" in str(memory.why("five days"))
