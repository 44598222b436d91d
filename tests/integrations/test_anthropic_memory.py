"""Anthropic's memory tool over a session, run by the SDK's own runner and compared with its files."""

import json

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaosmem import (
    DEFAULT_SECTIONS,
    NotFoundError,
    SessionMemory,
    SyncSessionMemory,
    Trust,
)
from tests.lazily import Lazy

anthropic = Lazy("anthropic")
sdk_files = Lazy("anthropic.tools")
sdk_tools = Lazy("anthropic.lib.tools")
adapter = Lazy("kaosmem.integrations.anthropic_memory")
SCRIPT = [
    {"command": "view", "path": "/memories"},
    {"command": "create", "path": "/memories/ann.md", "file_text": "city: Rome\nage: 40\n"},
    {
        "command": "str_replace",
        "path": "/memories/ann.md",
        "old_str": "Rome",
        "new_str": "Oslo",
    },
    {"command": "insert", "path": "/memories/ann.md", "insert_line": 1, "insert_text": "likes tea"},
    {"command": "view", "path": "/memories/ann.md", "view_range": [1, 2]},
    {"command": "view", "path": "/memories/../etc/passwd"},
    {"command": "rename", "old_path": "/memories/ann.md", "new_path": "/memories/people/ann.md"},
    {"command": "delete", "path": "/memories/people"},
    {"command": "view", "path": "/memories/ann.md"},
]


class Script:
    """Plays Anthropic's service: one call of the tool in each reply. It keeps the results."""

    def __init__(self, commands):
        self._commands = iter(commands)
        self.results = []
        self.tools = []

    def answer(self, request):
        sent = json.loads(request.content)
        self.tools = sent.get("tools", self.tools)  # a continued thread has them on the server
        last = sent["messages"][-1]["content"]
        if isinstance(last, list):
            self.results.append((last[0]["content"], last[0].get("is_error", False)))
        command = next(self._commands, None)
        content = {"type": "text", "text": "Done."}
        if command is not None:
            content = {"type": "tool_use", "id": "c1", "name": "memory", "input": command}
        return httpx2.Response(
            200,
            json={
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "model": "claude-sonnet-5-5",
                "content": [content],
                "stop_reason": "end_turn" if command is None else "tool_use",
                "stop_sequence": None,
                "usage": {"input_tokens": 1, "output_tokens": 1},
            },
        )


def sections():
    return (*DEFAULT_SECTIONS, adapter.MEMORY_FILES)


def expected_of_the_script():
    edited = "The memory file has been edited. Here is the snippet showing the change (with line numbers):"
    listing = "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items:"
    return [
        (f"{listing}\n0B\t/memories", False),
        ("File created successfully at: /memories/ann.md", False),
        (f"{edited}\n     1\tcity: Oslo\n     2\tage: 40\n     3\t", False),
        ("The file /memories/ann.md has been edited.", False),
        (
            "Here's the content of /memories/ann.md with line numbers:\n"
            "     1\tcity: Oslo\n     2\tlikes tea",
            False,
        ),
        ("Path /memories/../etc/passwd would escape /memories directory", True),
        ("Successfully renamed /memories/ann.md to /memories/people/ann.md", False),
        ("Successfully deleted /memories/people", False),
        ("The path /memories/ann.md does not exist. Please provide a valid path.", True),
    ]


REQUEST = {
    "model": "claude-sonnet-5-5",
    "max_tokens": 1_000,
    "messages": [{"role": "user", "content": "Remember Ann."}],
}


async def test_the_asynchronous_runner_calls_it(tmp_path):
    """Six commands by the SDK's runner. Each version is kept, also after another process opened it."""
    script = Script(SCRIPT)
    transport = httpx2.MockTransport(script.answer)
    async with (
        SessionMemory.open(tmp_path, "agent", sections=sections()) as memory,
        anthropic.AsyncAnthropic(
            api_key="none", http_client=httpx2.AsyncClient(transport=transport)
        ) as client,
    ):
        tool = adapter.SessionMemoryTool(memory, cache_control={"type": "ephemeral"})
        runner = client.beta.messages.tool_runner(tools=[tool], **REQUEST)
        await runner.until_done()
        async with SessionMemory.open(tmp_path, "agent", read_only=True, sections=None) as reader:
            texts = [each.item.text for each in await reader.versions("/memories/ann.md")]
    assert script.tools[0]["type"] == "memory_20250818"
    assert script.results == expected_of_the_script()
    assert texts == [
        "city: Rome\nage: 40\n",
        "city: Oslo\nage: 40\n",
        "city: Oslo\nlikes tea\nage: 40\n",
    ]


def test_the_synchronous_runner_calls_it():
    script = Script(SCRIPT)
    transport = httpx2.MockTransport(script.answer)
    with (
        SyncSessionMemory.test_mode(sections=sections()) as memory,
        anthropic.Anthropic(
            api_key="none", http_client=httpx2.Client(transport=transport)
        ) as client,
    ):
        runner = client.beta.messages.tool_runner(
            tools=[adapter.SyncSessionMemoryTool(memory)], **REQUEST
        )
        runner.until_done()
    assert script.results == expected_of_the_script()


DIRECTORIES = ["/memories", "/memories/a", "/memories/a/b", "/memories/a/b/c"]
FILES = [f"{directory}/{name}" for directory in DIRECTORIES for name in ("x.md", "y.md", ".z")]
PATHS = st.sampled_from([*FILES, *DIRECTORIES, "/memories/none/x", "/other", "/memories/../x", "/"])
TEXTS = st.text("ab\n", max_size=6)
LINES = st.integers(-2, 6)
COMMANDS = st.one_of(
    st.fixed_dictionaries({"command": st.just("view"), "path": PATHS}),
    st.fixed_dictionaries(
        {
            "command": st.just("view"),
            "path": st.sampled_from(FILES),
            "view_range": st.tuples(LINES, st.integers(0, 6) | st.just(-1)).map(list),
        }
    ),
    st.fixed_dictionaries({"command": st.just("create"), "path": PATHS, "file_text": TEXTS}),
    st.fixed_dictionaries(
        {
            "command": st.just("str_replace"),
            "path": PATHS,
            "old_str": st.text("ab\n", min_size=1, max_size=2),
            "new_str": TEXTS,
        }
    ),
    st.fixed_dictionaries(
        {
            "command": st.just("insert"),
            "path": PATHS,
            "insert_line": LINES,
            "insert_text": TEXTS,
        }
    ),
    st.fixed_dictionaries({"command": st.just("delete"), "path": st.sampled_from(FILES)}),
    st.fixed_dictionaries(
        {
            "command": st.just("rename"),
            "old_path": st.sampled_from(FILES),
            "new_path": st.sampled_from([*FILES, *DIRECTORIES, "/other"]),
        }
    ),
)


def answered(tool, command):
    """Return the result or the error of a command, without the sizes of directories."""
    try:
        result = str(tool.call(command))
    except sdk_tools.ToolError as error:
        return f"error: {error}"
    lines = result.split("\n")
    if lines[0].startswith("Here're the files"):
        sized = [line for line in lines[2:] if not line.endswith("/")]
        named = [line.partition("\t")[2] for line in lines[1:]]
        return "\n".join([lines[0], *sized, *named])
    return result


@given(st.lists(COMMANDS, max_size=12))
def test_it_answers_as_the_sdks_own_files_do(tmp_path_factory, commands):
    """The same commands give the same results and errors. A directory stays while it has a file."""
    theirs = sdk_files.BetaLocalFilesystemMemoryTool(str(tmp_path_factory.mktemp("files")))
    with SyncSessionMemory.test_mode(sections=sections(), counter="estimate") as memory:
        ours = adapter.SyncSessionMemoryTool(memory)
        kept = [
            {"command": "create", "path": f"{directory}/kept", "file_text": "1\n"}
            for directory in DIRECTORIES
        ]
        for command in [*kept, *commands]:
            assert answered(ours, command) == answered(theirs, command), command


async def test_a_model_changes_only_its_own_files():
    """A guide that the program added is read. A failed command changes nothing."""
    memory = SessionMemory.test_mode(sections=sections())
    tool = adapter.SessionMemoryTool(memory)
    memory.add("memory_files", "Be kind.", key="/memories/guide.md", trust=Trust.APPLICATION)
    await tool.call({"command": "create", "path": "/memories/own.md", "file_text": "mine"})
    assert "Be kind." in str(await tool.call({"command": "view", "path": "/memories/guide.md"}))
    for command in (
        {"command": "delete", "path": "/memories/guide.md"},
        {"command": "insert", "path": "/memories/guide.md", "insert_line": 0, "insert_text": "x"},
        {"command": "rename", "old_path": "/memories/guide.md", "new_path": "/memories/g.md"},
        {"command": "create", "path": "/memories/own.md/x", "file_text": "x"},
        {"command": "create", "path": "/memories/a\nb", "file_text": "x"},
        {"command": "create", "path": "/memoriesx/a", "file_text": "x"},
    ):
        with pytest.raises(sdk_tools.ToolError):
            await tool.call(command)
    files = [(item.key, item.text, item.trust) for item in memory["memory_files"]]
    assert files == [
        ("/memories/guide.md", "Be kind.", Trust.APPLICATION),
        ("/memories/own.md", "mine", Trust.MODEL),
    ]
    # The files are part of the session: a question finds them.
    context = await memory.assemble_context("What is mine?", budget=200)
    assert "mine" in context.text
    with pytest.raises(NotFoundError):
        adapter.SessionMemoryTool(SessionMemory.test_mode())


async def test_a_text_that_a_model_leaves_out_is_empty():
    """The file is there, as the result says, and no error of Python reaches the model."""
    memory = SessionMemory.test_mode(sections=sections())
    tool = adapter.SessionMemoryTool(memory)
    path = "/memories/ann.md"
    await tool.call({"command": "create", "path": path})
    await tool.call({"command": "insert", "path": path, "insert_line": 0})
    assert [item.key for item in memory["memory_files"]] == [path]
