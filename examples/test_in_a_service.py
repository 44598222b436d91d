"""A web service: one session for each conversation, a turn for each request, under FastAPI and under Flask."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any

import httpx
import pytest
from fastapi import FastAPI, Header
from flask import Flask, request

from kaosmem import ConflictError, SessionMemory, SessionOptions
from kaosmem.backends import open_stores
from kaosmem.names import safe_id
from kaosmem.session import delete_idle_sessions, delete_namespace, list_namespaces, stored_sessions


async def ask_model(messages: list[dict[str, Any]]) -> str:
    """Stand in for a model that takes its time."""
    await asyncio.sleep(0.001)
    return f"Answer to: {messages[-1]['content']}"


async def turn(root: Path, tenant: str, conversation: str, question: str) -> str:
    """Take one turn.

    Requests for one conversation come one after another; others go on side by side.
    """
    namespace = safe_id(tenant)
    async with SessionMemory.open(root, conversation, namespace=namespace, in_turn=True) as memory:
        memory.add("messages", question)
        context = await memory.assemble_context(budget=2_000, format="openai")
        answer = await ask_model(context.messages)
        memory.add("messages", answer, role="assistant")
    return answer  # after the block: the turn is saved


def fastapi_app(root: Path) -> FastAPI:
    """Return an app whose handlers await their turns."""
    app = FastAPI()

    @app.post("/conversations/{conversation}")
    async def post(
        conversation: str, question: str, tenant: Annotated[str, Header()]
    ) -> dict[str, str]:
        return {"answer": await turn(root, tenant, conversation, question)}

    @app.get("/conversations")
    async def conversations(tenant: Annotated[str, Header()]) -> list[dict[str, Any]]:
        stored = await stored_sessions(root, safe_id(tenant))
        return [
            {"id": each.session_id, "bytes": each.size_bytes, "last_use": each.saved}
            for each in stored
        ]

    @app.delete("/tenant")
    async def erase(tenant: Annotated[str, Header()]) -> dict[str, int]:
        """Erase a tenant everywhere: its sessions and its stores."""
        async with open_stores(root / "stores" / safe_id(tenant)) as stores:
            await stores.delete_all()
        return {"sessions": len(await delete_namespace(root, safe_id(tenant)))}

    return app


def flask_app(root: Path) -> Flask:
    """Return an app without `async`: each request runs one turn in an event loop of its own."""
    app = Flask(__name__)

    @app.post("/conversations/<conversation>")
    def post(conversation: str) -> dict[str, str]:
        tenant = request.headers["tenant"]
        question = request.args["question"]
        return {"answer": asyncio.run(turn(root, tenant, conversation, question))}

    return app


async def messages_of(root: Path, tenant: str, conversation: str) -> list[str]:
    async with SessionMemory.open(
        root,
        conversation,
        namespace=safe_id(tenant),
        read_only=True,
        options=SessionOptions(missing_ok=True),
    ) as memory:
        return [item.text for item in memory["messages"]]


async def check_turns(root: Path, conversation: str, number: int) -> None:
    """Every question stands before its answer, and none is lost."""
    said = await messages_of(root, "acme", conversation)
    assert [f"Answer to: {question}" for question in said[::2]] == said[1::2]
    assert sorted(said[::2]) == sorted(f"question {each}" for each in range(number))


async def test_fastapi(tmp_path: Path) -> None:
    """Turns that are asked for at once are not mixed; a tenant is listed and erased alone."""
    transport = httpx.ASGITransport(fastapi_app(tmp_path))
    async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:

        async def post(tenant: str, conversation: str, question: str) -> str:
            reply = await client.post(
                f"/conversations/{conversation}",
                params={"question": question},
                headers={"tenant": tenant},
            )
            assert reply.status_code == 200
            answer: str = reply.json()["answer"]
            return answer

        answers = await asyncio.gather(
            *(post("acme", "deal-42", f"question {number}") for number in range(8)),
            *(post("beta", "deal-42", f"question {number}") for number in range(3)),
        )
        assert answers[0] == "Answer to: question 0"
        await check_turns(tmp_path, "deal-42", 8)

        listed = (await client.get("/conversations", headers={"tenant": "acme"})).json()
        assert [each["id"] for each in listed] == ["deal-42"]
        assert listed[0]["bytes"] > 0
        assert (await client.delete("/tenant", headers={"tenant": "acme"})).json() == {
            "sessions": 1
        }
        assert await list_namespaces(tmp_path) == ["beta"]
        assert await messages_of(tmp_path, "acme", "deal-42") == []
        assert len(await messages_of(tmp_path, "beta", "deal-42")) == 6


def test_flask(tmp_path: Path) -> None:
    """Requests in several threads, each with an event loop of its own, take turns as well."""
    app = flask_app(tmp_path)

    def post(number: int) -> str:
        reply = app.test_client().post(
            "/conversations/deal-42",
            query_string={"question": f"question {number}"},
            headers={"tenant": "acme"},
        )
        answer: str = reply.get_json()["answer"]
        return answer

    with ThreadPoolExecutor(8) as threads:
        answers = [*threads.map(post, range(8))]
    assert answers == [f"Answer to: question {number}" for number in range(8)]
    asyncio.run(check_turns(tmp_path, "deal-42", 8))


async def correct(memory: SessionMemory, change: Callable[[SessionMemory], object]) -> int:
    """Make a change and save it, against writers in other processes; return how often it took."""
    for tries in range(1, 4):
        change(memory)
        try:
            await memory.save()
        except ConflictError:
            # Go on from the stored session, and repeat the change.
            await memory.admin.refresh(discard=True)
        else:
            return tries
    raise ConflictError("another writer was faster three times; try again later")


async def test_going_on_after_a_conflict(tmp_path: Path) -> None:
    """Two workers correct the same item: the second sees the first's correction, and repeats its own."""
    async with SessionMemory.open(tmp_path) as memory:
        rent = memory.add("findings", "The rent is 900 euros.").id
    async with SessionMemory.open(tmp_path) as one, SessionMemory.open(tmp_path) as other:
        assert await correct(one, lambda memory: memory.update(rent, "The rent is 950 euros.")) == 1
        assert (
            await correct(other, lambda memory: memory.update(rent, "The rent is 990 euros.")) == 2
        )
        await one.admin.refresh()
        found = one.get(rent)
        assert found is not None
        assert found.text == "The rent is 990 euros."


@pytest.mark.parametrize("idle_s", [0.001, 3_600])
async def test_sessions_that_nobody_used_are_deleted(tmp_path: Path, idle_s: float) -> None:
    """A nightly job: the time to live of sessions counts from their last save."""
    await turn(tmp_path, "acme", "deal-42", "Who owns the deal?")
    await asyncio.sleep(0.1)
    deleted = await delete_idle_sessions(tmp_path, "acme", idle_s=idle_s)
    assert deleted == ([] if idle_s > 60 else ["deal-42"])
