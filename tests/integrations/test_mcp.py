"""The MCP server, asked by the official client: in a process of its own, over stdio and HTTP."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from contextlib import asynccontextmanager, contextmanager

import httpx2
import pytest
from mcp import StdioServerParameters
from mcp.client import Client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, TextContent, TextResourceContents

from kaosmem import (
    ConflictError,
    InvalidArgumentError,
    NotFoundError,
    SessionMemory,
    Sessions,
    Trust,
)
from kaosmem.cli.mcp import mcp
from kaosmem.integrations.mcp import memory_server
from kaosmem.tokens import get_counter

TOKEN = "a-token-made-for-this-test"
OURS = {
    "search_memory",
    "read_memory",
    "remember",
    "correct_memory",
    "forget_memory",
    "assemble_context",
    "explain_context",
    "list_versions",
}
THEIRS = {
    "create_entities",
    "create_relations",
    "add_observations",
    "delete_entities",
    "delete_observations",
    "delete_relations",
    "read_graph",
    "search_nodes",
    "open_nodes",
}


@asynccontextmanager
async def in_process(place, **arguments):
    async with (
        Sessions(place, sections=None) as sessions,
        Client(await memory_server(sessions, "agent", **arguments)) as client,
    ):
        yield client


def by_stdio(place):
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "kaosmem.cli", "mcp", str(place / "agent")]
    )
    return Client(stdio_client(server), mode="legacy")  # its handshake may take any time


@contextmanager
def http_server(place):
    """A server in a process of its own. Yields its URL."""
    command = [sys.executable, "-m", "kaosmem.cli", "mcp", str(place / "agent")]
    process = subprocess.Popen(
        [*command, "--http", "127.0.0.1:0"],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "KAOSMEM_MCP_TOKEN": TOKEN},
    )
    try:
        told = process.stderr.readline()
        yield told.split()[-1]
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)


@asynccontextmanager
async def by_http(url):
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=None) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        yield client


async def told(client, name, **arguments):
    """Return the text of a result."""
    result = await client.call_tool(name, arguments)
    assert isinstance(result, CallToolResult)
    assert not result.is_error, result
    return text_of(result)


def text_of(result):
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


async def refusal(client, name, **arguments):
    result = await client.call_tool(name, arguments)
    assert result.is_error
    return text_of(result)


async def test_two_clients_over_stdio_share_a_session(tmp_path):
    """Each client has a server process of its own, and loses nothing of the other's."""
    async with by_stdio(tmp_path) as one, by_stdio(tmp_path) as two:
        facts = [(one, "Ann lives in Rome."), (two, "Bob lives in Oslo.")]
        await asyncio.gather(*(told(client, "remember", text=text) for client, text in facts))
        for client in (one, two):
            found = await told(client, "search_memory", query="Who lives where?")
            assert "Rome" in found
            assert "Oslo" in found
        node = {"name": "Ann", "entityType": "person", "observations": []}
        await told(one, "create_entities", entities=[node])
        # Both change the same item: the later one runs again on the other's result.
        await asyncio.gather(
            *(
                told(client, "add_observations", observations=[observed("Ann", text)])
                for client, text in ((one, "likes tea"), (two, "likes rain"))
            )
        )
        graph = json.loads(await told(two, "open_nodes", names=["Ann"]))
        assert {*graph["entities"][0]["observations"]} == {"likes tea", "likes rain"}


async def test_a_call_that_meets_conflicts_runs_again(tmp_path, monkeypatch):
    """The model hears nothing of what other processes changed meanwhile, and its fact is there once."""
    save = SessionMemory.save
    conflicts = [ConflictError("a") for _ in range(3)]

    async def conflicting(self):
        if conflicts:
            raise conflicts.pop()
        await save(self)

    async with in_process(tmp_path) as client:
        monkeypatch.setattr(SessionMemory, "save", conflicting)
        await told(client, "remember", text="Ann lives in Rome.")
        found = await told(client, "search_memory", query="Where does Ann live?")
        assert found.count("Rome") == 1
        conflicts += [ConflictError("another writer") for _ in range(9)]
        assert "another writer" in await refusal(client, "remember", text="Bob lives in Oslo.")


async def test_two_clients_over_http_share_a_session(tmp_path):
    with http_server(tmp_path) as url:
        async with by_http(url) as one, by_http(url) as two:
            await asyncio.gather(
                *(
                    told(client, "remember", text=f"Fact {number} of client {name}.")
                    for number in range(3)
                    for name, client in (("one", one), ("two", two))
                )
            )
            for client in (one, two):
                found = await told(client, "assemble_context", query="facts", budget=500)
                assert found.count("Fact") == 6
        async with httpx2.AsyncClient(timeout=None) as nobody:
            for headers in ({}, {"Authorization": "Bearer a-wrong-token-of-some-length"}):
                refused = await nobody.post(url, json={}, headers=headers)
                assert refused.status_code == 401
    async with SessionMemory.open(tmp_path, "agent") as memory:
        assert len(memory["findings"]) == 6


async def test_a_server_over_http_needs_a_token(tmp_path, monkeypatch):
    monkeypatch.delenv("KAOSMEM_MCP_TOKEN", raising=False)
    arguments = {"section": "findings", "max_tokens": 100, "counter": "estimate"}
    for http, remedy in (("127.0.0.1:0", "set KAOSMEM_MCP_TOKEN"), ("8000", "give HOST:PORT")):
        with pytest.raises(InvalidArgumentError, match=remedy):
            await mcp(str(tmp_path / "agent"), "default", http=http, **arguments)
    async with Sessions(tmp_path) as sessions:
        with pytest.raises(InvalidArgumentError, match="at least 16"):
            await memory_server(sessions, "agent", token="short")
        with pytest.raises(NotFoundError):
            await memory_server(sessions, "agent", section="nowhere")
        with pytest.raises(InvalidArgumentError, match="static"):
            await memory_server(sessions, "agent", section="role")


async def test_the_tools_are_ours_and_the_reference_servers(tmp_path):
    async with in_process(tmp_path) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert {*tools} == OURS | THEIRS
        for schema in SessionMemory.test_mode().tools("anthropic"):
            listed = tools[str(schema["name"])]
            expected = schema["input_schema"]
            assert listed.description == schema["description"]
            assert {*listed.input_schema["properties"]} == {*expected["properties"]}
            assert listed.input_schema["required"] == expected["required"]
        for tool in tools.values():
            assert tool.description
            assert tool.annotations is not None
            described = tool.input_schema.get("properties", {})
            assert all(name == name.strip("_") for name in described)
        relation = tools["create_relations"].input_schema["$defs"]["RelationEdge"]
        assert {*relation["properties"]} == {"from", "to", "relationType"}


async def test_a_model_asks_its_memory(tmp_path):
    async with in_process(tmp_path) as client:
        await told(client, "remember", text="The user lives in Rome.", key="user/home")
        stored = await told(client, "remember", text="The user lives in Oslo.", key="user/home")
        newest, oldest = (await told(client, "list_versions", key="user/home")).splitlines()
        assert " to now: " in newest
        assert "Oslo" in newest
        assert "Rome" in oldest
        item_id = stored.split()[-1]
        context = await told(client, "assemble_context", query="Where is the user?", budget=100)
        assert "Oslo" in context
        why = await told(client, "explain_context", query="Where is the user?", id=item_id)
        assert why.startswith("in: ")
        assert "tokens used" in await told(client, "explain_context", query="Where is it?", id="")
        assert "forgot" in await told(client, "forget_memory", id=item_id)
        assert await told(client, "list_versions", key="nothing") == "no item has this key"
        # Errors say what helps, and leave the session as it was.
        assert "item" in await refusal(client, "read_memory", id=item_id)
        assert "budget" in await refusal(client, "assemble_context", query="x", budget=0)
        assert "required" in await refusal(client, "remember")
        assert "Rome" in await told(client, "list_versions", key="user/home")


async def test_resources_are_sections(tmp_path):
    async with in_process(tmp_path) as client:
        for number in range(3):
            await told(client, "remember", text=f"Fact {number}.")
        listed = [each.uri for each in (await client.list_resources()).resources]
        assert "kaosmem://sections/findings" in listed
        assert "memory://knowledge-graph" in listed
        (contents,) = (await client.read_resource("kaosmem://sections/findings")).contents
        assert isinstance(contents, TextResourceContents)
        assert [line[-2] for line in contents.text.splitlines()] == ["2", "1", "0"]


def observed(name, *contents):
    return {"entityName": name, "contents": [*contents]}


async def test_it_takes_the_place_of_the_reference_server(tmp_path):
    """The calls, results and refusals of the reference server."""
    ann = {"name": "Ann", "entityType": "person", "observations": ["likes tea"]}
    acme = {"name": "Acme", "entityType": "company", "observations": []}
    works = {"from": "Ann", "to": "Acme", "relationType": "works at"}
    async with in_process(tmp_path) as client:
        result = await client.call_tool("create_entities", {"entities": [ann, acme, ann]})
        assert result.structured_content == {"entities": [ann, acme]}
        assert json.loads(text_of(result)) == result.structured_content
        result = await client.call_tool("create_relations", {"relations": [works, works]})
        assert result.structured_content == {"relations": [works]}
        unknown = {**works, "to": "Nobody"}
        assert "Nobody" in await refusal(client, "create_relations", relations=[unknown])
        added = await client.call_tool(
            "add_observations", {"observations": [observed("Ann", "likes tea", "likes rain")]}
        )
        assert added.structured_content == {
            "results": [{"entityName": "Ann", "addedObservations": ["likes rain"]}]
        }
        assert "Bob" in await refusal(client, "add_observations", observations=[observed("Bob")])
        ann["observations"] = ["likes tea", "likes rain"]
        whole = await client.call_tool("read_graph", {})
        assert whole.structured_content == {"entities": [acme, ann], "relations": [works]}
        for query in ("rain", "ERSO", "Who likes rain?"):
            found = json.loads(await told(client, "search_nodes", query=query))
            assert [node["name"] for node in found["entities"]][:1] == ["Ann"], query
            assert found["relations"] == [works]
        assert json.loads(await told(client, "search_nodes", query="zebra")) == {
            "entities": [],
            "relations": [],
        }
        deleted = await told(
            client,
            "delete_observations",
            deletions=[
                {"entityName": "Ann", "observations": ["likes tea", "is old"]},
                {"entityName": "Bob", "observations": []},
            ],
        )
        assert deleted == "Deleted 1 of 2 observations"
        gone = await told(client, "delete_relations", relations=[works, unknown])
        assert gone == "Deleted 1 of 2 relations"
        gone = await told(client, "delete_entities", entityNames=["Ann", "Bob"])
        assert gone == "Deleted 1 of 2 entities"
        whole = await client.call_tool("read_graph", {})
        assert whole.structured_content == {"entities": [acme], "relations": []}


async def test_a_client_changes_only_what_clients_created(tmp_path):
    async with SessionMemory.open(tmp_path, "agent") as memory:
        memory.graph.add(
            [{"id": "Acme", "description": "supplier"}, {"id": "Beta"}],
            [{"source": "Acme", "target": "Beta", "type": "supplies"}],
        )
    edge = {"from": "Acme", "to": "Beta", "relationType": "supplies"}
    async with in_process(tmp_path) as client:
        graph = json.loads(await told(client, "read_graph"))
        assert graph["entities"][1]["observations"] == ["supplier"]
        for name, arguments in (
            ("delete_entities", {"entityNames": ["Acme"]}),
            ("delete_relations", {"relations": [edge]}),
            ("add_observations", {"observations": [observed("Acme", "is bankrupt")]}),
        ):
            assert "may not change" in await refusal(client, name, **arguments)
        assert json.loads(await told(client, "read_graph")) == graph
        node = {"name": "Ann", "entityType": "person", "observations": ["owns the deal"]}
        await told(client, "create_entities", entities=[node])
    async with SessionMemory.open(tmp_path, "agent") as memory:
        assert memory["graph"].peek("entity:Ann").trust == Trust.MODEL


@pytest.mark.parametrize("max_tokens", [150, 400, 1_500, 4_000])
async def test_a_graph_is_read_within_its_budget(tmp_path, max_tokens):
    """A long graph is cut between its parts, the newest entities first, and the note counts the rest."""
    entities = [
        {
            "name": f"Person {number}",
            "entityType": "person",
            "observations": [f"fact {each} of person {number}" for each in range(20)],
        }
        for number in range(30)
    ]
    relations = [
        {"from": f"Person {number}", "to": f"Person {number - 1}", "relationType": "knows"}
        for number in range(1, 30)
    ]
    count = get_counter("o200k_base")
    async with in_process(tmp_path, max_tokens=max_tokens) as client:
        await client.call_tool("create_entities", {"entities": entities})
        await client.call_tool("create_relations", {"relations": relations})
        for name, arguments in (
            ("read_graph", {}),
            ("search_nodes", {"query": "person"}),
            ("open_nodes", {"names": [node["name"] for node in reversed(entities)]}),
        ):
            text = await told(client, name, **arguments)
            assert count(text) <= max_tokens
            graph = json.loads(text)
            assert f"{len(graph['entities'])} of 30 entities" in graph["note"]
            assert graph["entities"]
            names = {node["name"] for node in graph["entities"]}
            assert all(names & {edge["from"], edge["to"]} for edge in graph["relations"])
            for node in graph["entities"][:-1]:
                assert node in entities
            if name != "search_nodes":
                assert graph["entities"][0]["name"] == "Person 29"
                assert graph["entities"][0]["observations"][-1] == "fact 19 of person 29"
