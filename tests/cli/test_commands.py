"""The `kaosmem` command: its answers, its errors, and what it leaves on a terminal, in a pipe and on disk."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from kaosmem import (
    CorruptionError,
    InvalidArgumentError,
    NotFoundError,
    SectionSpec,
    SessionMemory,
)
from kaosmem.cli import main, run
from kaosmem.errors import InvalidNameError, MissingExtraError, MissingFileError
from kaosmem.formats import count_messages
from kaosmem.retrieval.rankers import RANKERS

QUESTION = "how long is the notice of termination"
PROCESS = [sys.executable, "-m", "kaosmem.cli"]


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def command(monkeypatch, capsys):
    """Run the command as its script does, in this process."""
    handler = signal.getsignal(signal.SIGINT)

    def outcome(*args):
        monkeypatch.setattr(sys, "argv", ["kaosmem", *map(str, args)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        return Outcome(int(str(ended.value.code)), *capsys.readouterr())

    yield outcome
    signal.signal(signal.SIGINT, handler)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A working folder with documents in `docs`, which are more than a question needs, and one foreign file."""
    docs = tmp_path / "docs"
    (docs / "contracts").mkdir(parents=True)
    for number in range(30):
        text = f"Clause {number}. Fees of {number} euros are due.\n\nThe notice of termination is {number} days.\n"
        (docs / "contracts" / f"{number:02}.md").write_text(text)
    (docs / "notes.txt").write_text(
        "Nothing of importance, but a bell \x07 and an escape \x1b[31mred\x1b[0m no\u200btice.\n"
    )
    (docs / "records.jsonl").write_text('{"id": "r1", "text": "A record of a notice."}\n')
    (docs / "picture.png").write_bytes(b"\x89PNG")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def files(folder):
    return {
        path.as_posix(): path.read_bytes() if path.is_file() else b"" for path in folder.rglob("*")
    }


def rows(table):
    """Return the cells of a plain table, its header first."""
    return [re.split(r" {2,}", line.strip()) for line in table.strip().splitlines()]


def test_a_pipe_gets_the_exact_context(place, command):
    """Stdout has the context and nothing else; the sums and the skipped files are on stderr."""
    args = "assemble", "docs", "--query", QUESTION, "--budget", 150
    answer = json.loads(command(*args, "--json").out)
    code, out, err = command(*args)
    assert code == 0
    assert out == answer["text"]
    files, skipped, sums = err.splitlines()
    assert files == "files: 32 new, 1 skipped; passages: 32 added, 0 removed"
    assert skipped == "skipped 1, an image: picture.png"
    items = len(answer["items"])
    assert (
        sums == f"shown: {items} items, {answer['used']} of 150 tokens, confidence "
        f"{answer['confidence']:.2f}"
    )


@pytest.fixture
def on_terminal(monkeypatch):
    """Run the command on a terminal, in this process; return its output without colours."""
    pty = pytest.importorskip("pty")
    handler = signal.getsignal(signal.SIGINT)

    def shown(*args, columns):
        reading, terminal = pty.openpty()
        with ThreadPoolExecutor(1) as pool, monkeypatch.context() as patch:
            output = pool.submit(read_all, reading)
            with os.fdopen(terminal, "w") as stdout, pytest.raises(SystemExit) as ended:
                patch.setattr(sys, "stdout", stdout)
                patch.setattr(sys, "argv", ["kaosmem", *args])
                patch.setenv("COLUMNS", str(columns))
                patch.setenv("TERM", "xterm")
                main()
            text = output.result().decode().replace("\r\n", "\n")
        os.close(reading)
        assert ended.value.code == 0
        return re.sub(r"\x1b\[[0-9;]*m", "", text)

    yield shown
    signal.signal(signal.SIGINT, handler)


def test_a_terminal_gets_the_summary_then_the_passages_by_rank(place, on_terminal):
    """The tables come first, then each passage under its whole source, shortened unless --full asks for all."""
    long = "\n".join(
        ["The notice of termination is long:", *(f"line {number}" for number in range(2, 12))]
    )
    (place / "docs" / "long.txt").write_text(long)
    args = "assemble", "docs", "-q", QUESTION, "-b", "200", "--counter", "estimate"
    shown = on_terminal(*args, columns=120)
    tables, *passages = re.split(r"\n\n(?=\S+:\d+-\d+\n {4})", shown)
    title, missed = tables.split("nearest misses")
    assert re.match(r"\n\d+ of 200 tokens used", title)
    found = re.findall(r"(?m)^documents +(\S+:\d+-\d+) .*? (\d+) +\d+\.\d ", title)
    ranks = [int(rank) for _, rank in found]
    assert ranks == sorted(ranks)
    assert "no_room" in missed
    sources = [source for source, _ in found]
    assert [passage.split("\n")[0] for passage in passages] == sources
    (shortened,) = [passage for passage in passages if passage.startswith("long.txt")]
    assert "    line 6\n    … 5 more lines; --full shows all" in shortened
    whole = on_terminal(*args, "--full", columns=120)
    assert "    line 11\n" in whole
    assert "more lines" not in whole


@pytest.mark.parametrize("columns", [60, 100])
def test_a_terminal_gets_a_long_line_shortened_and_readable_tables(place, on_terminal, columns):
    """A paragraph of one line takes its first six lines on the screen, and no column vanishes."""
    name = "a-rather-long-name-of-a-guide.md"
    sentence = "The notice period of the agreement is long. "
    (place / "docs" / name).write_text(f"# Notice\n\n{sentence * 40}\n")
    args = "assemble", f"docs/{name}", "-q", QUESTION, "-b", "2000", "--counter", "estimate"
    shown = on_terminal(*args, columns=columns)
    tables, _, passages = shown.partition(f"\n\n{name}:")
    assert max(map(len, shown.splitlines())) <= columns
    assert re.search(r"(?m)^documents +a-\S+ .* \d+ .* relevant", tables)
    (paragraph,) = [each for each in passages.split("\n\n") if sentence.strip()[:20] in each]
    lines = paragraph.splitlines()
    assert len([line for line in lines if line.startswith("    ")]) == 7
    assert re.fullmatch(r"    … \d+ more lines?; --full shows all", lines[-1])
    whole = on_terminal(*args, "--full", columns=columns)
    assert sentence * 39 in whole.replace("\n", "")


def test_a_stored_session_answers_without_a_path(place, command):
    """The session keeps its own sections, nothing on disk changes, and a missing session is named."""
    asked = "-q", QUESTION, "-b", 150, "--session", "kept/deal"
    with_path = command("assemble", "docs", *asked)
    before = files(place)
    without = command("assemble", *asked)
    assert without.code == 0
    assert without.out == with_path.out
    assert without.err == with_path.err.splitlines()[-1] + "\n"
    assert files(place) == before
    assert "no session 'other'" in command("assemble", *asked[:-1], "kept/other").err
    code, _, err = command("assemble", "-q", QUESTION)
    assert code == 2
    assert "--session" in err


def test_two_commands_that_read_one_folder_into_one_session_both_answer(
    command, place, monkeypatch
):
    """The one that saves later finds the files read."""
    ingest = SessionMemory.ingest
    others = [place / "kept"]

    async def ingest_beside(self, path, *given, **options):
        report = await ingest(self, path, *given, **options)
        while others:
            async with SessionMemory.open(others.pop(), "deal") as other:
                await ingest(other, path)
        return report

    monkeypatch.setattr(SessionMemory, "ingest", ingest_beside)
    code, _, err = command(*ASSEMBLE)
    assert (code, others) == (0, [])
    assert "unchanged" in err


def test_without_confidence_no_passage_is_printed(place, command):
    """With --min-confidence; the confidence is part of the answer, and a share above 1 is an error of one line."""
    args = "assemble", "docs", "-q", "Which wine goes with oysters?", "--json"
    shown, none = (json.loads(command(*args, "--min-confidence", least).out) for least in (0, 0.5))
    assert shown["items"]
    assert none["items"] == []
    assert shown["confidence"] == none["confidence"] < 0.5
    assert {decision["reason"] for decision in none["decisions"]} == {"low_confidence"}
    code, _, err = command(*args, "--min-confidence", 1.5)
    assert code == 2
    assert err == "kaosmem: min_confidence is 1.5; give a number from 0 to 1\n"


def test_every_skipped_file_can_be_listed(place, command):
    """By default files are counted by reason; with --skipped each has a line, with its reason and remedy."""
    for number in range(200):
        (place / "docs" / f"{number:03}.bin").write_bytes(b"\0")
    (place / "docs" / "latin.txt").write_bytes(b"caf\xe9")
    counted = command("assemble", "docs", "-q", QUESTION).err.splitlines()
    assert counted[0] == "files: 32 new, 202 skipped; passages: 32 added, 0 removed"
    assert counted[1:-1] == [
        "skipped 200, binary: 000.bin, 001.bin, 002.bin, …",
        "skipped 1, an image: picture.png",
        "skipped 1, not UTF-8: at byte 3; save it as UTF-8: latin.txt",
    ]
    listed = command("assemble", "docs", "-q", QUESTION, "--skipped").err.splitlines()
    assert len(listed) == 1 + 202 + 1
    assert listed[1] == "skipped 000.bin: binary"
    assert "skipped latin.txt: not UTF-8: at byte 3; save it as UTF-8" in listed


def test_json_is_all_of_stdout(place, command):
    """With --json a program reads text, used, budget, items with source and lines, and decisions."""
    code, out, err = command("assemble", "docs", "-q", QUESTION, "-b", 150, "--json")
    answer = json.loads(out)
    assert (code, answer["budget"], answer["query"]) == (0, 150, QUESTION)
    assert answer["used"] == count_messages(answer["text"], "text") <= 150
    assert err.startswith("files: ")
    included = {decision["item_id"] for decision in answer["decisions"] if decision["included"]}
    assert included == {item["id"] for item in answer["items"]}
    assert set(answer["decisions"][0]) == {
        "item_id",
        "section",
        "included",
        "reason",
        "rank",
        "score",
        "tokens",
        "same_as",
        "signals",
        "fault",
        "lacking",
    }
    for item in answer["items"]:
        source, (first, last) = item["metadata"]["source"], item["metadata"]["lines"]
        lines = (place / "docs" / source).read_text().splitlines()[first - 1 : last]
        assert item["content"] == "\n".join(lines)


def test_tables_in_a_pipe_are_plain(place, command):
    """No frame, no trailing blank, no colour, and a long source is neither cut nor folded."""
    long = "a-rather-long-name-" * 9
    (place / "docs" / f"{long}.txt").write_text(
        "The notice of termination, the notice, the notice.\n"
    )
    out = command("assemble", "docs", "-q", QUESTION, "-b", 200, "--session", "kept/deal").out
    assert f"[{long}.txt:1-1] " in out
    tables = command("show", "kept/deal", "--limit", 0).out
    assert tables.isascii()
    assert not re.search(r"[ \t]$|[|+]|--", tables, re.MULTILINE)


def test_a_context_reaches_a_pipe_unchanged_and_no_terminal_raw(place, on_terminal, capsys):
    """A terminal gets characters that are not seen in a readable form, tables of its width, and no more than that."""
    args = "assemble", "docs/notes.txt", "-q", "bell", "--counter", "estimate"
    piped = subprocess.run([*PROCESS, *args], capture_output=True, check=True).stdout.decode()
    assert "bell  and an escape red no\u200btice" in piped
    shown = on_terminal(*args, columns=100)
    assert r"bell \x07 and an escape \x1b[31mred\x1b[0m no\u200btice" in shown
    assert capsys.readouterr().err == "files: 1 new; passages: 1 added, 0 removed\n"
    assert "\x1b" not in shown
    table = shown[: shown.index("\nnotes.txt:1-1\n")]
    assert max(map(len, table.splitlines())) <= 100


def read_all(descriptor):
    data = b""
    while True:
        try:
            chunk = os.read(descriptor, 65_536)
        except OSError:  # how Linux says that the other side of a terminal is closed
            return data
        if not chunk:
            return data
        data += chunk


@pytest.mark.parametrize("budget", ["150", "50000"])
def test_a_reader_that_goes_away_is_no_failure_worth_a_traceback(place, budget):
    """When `head` has seen enough, the command ends without a word, however much it still had to say."""
    (place / "docs" / "long.txt").write_text("The notice of termination is long.\n\n" * 3_000)
    args = [*PROCESS, "assemble", "docs", "-q", QUESTION, "-b", budget, "--counter", "estimate"]
    with subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.close()
        assert process.stderr
        err = process.stderr.read().decode()
    assert process.returncode == 0
    assert [line.split()[0] for line in err.splitlines()] in (
        ["files:", "skipped"],
        ["files:", "skipped", "shown:"],
    )


FOREIGN = {
    "foreign/default/notes/readme.txt": "no session",
    "foreign/default/log/log/readme.txt": "no segment",
    "foreign/default/broken/log/00000000000000000001.jsonl": '{"some": "json"}\n',
    "file": "no folder",
    "items.jsonl": '{"id": "i1", "text": "The notice is thirty days."}\n',
    "questions.jsonl": '{"id": "q1", "query": "notice?", "evidence_ids": ["i1"]}\n',
}
BENCH = ["bench", "items.jsonl", "questions.jsonl"]
ASSEMBLE = ["assemble", "docs", "-q", QUESTION, "--session", "kept/deal"]
BAD_INPUT = {
    "a fraction of a token": (
        [*ASSEMBLE, "--budget", "1.5"],
        InvalidArgumentError,
        "'1.5'; give a whole number",
    ),
    "an unknown encoding": (
        [*ASSEMBLE, "--counter", "gpt"],
        InvalidArgumentError,
        "use one of o200k_base",
    ),
    "a path that is not there": (
        ["assemble", "nope", *ASSEMBLE[2:]],
        MissingFileError,
        "check the path",
    ),
    "a session without a root": ([*ASSEMBLE[:-1], "deal"], InvalidNameError, "<root>/<session id>"),
    "a bucket without a session": (
        [*ASSEMBLE[:-1], "s3://bucket"],
        InvalidNameError,
        "<root>/<session id>",
    ),
    "a root that is a file": ([*ASSEMBLE[:-1], "file/deal"], InvalidNameError, "give a folder"),
    "a log that is damaged": ([*ASSEMBLE[:-1], "foreign/broken"], CorruptionError, "read_only"),
    "showing what is not there": (
        ["show", "kept/deal"],
        NotFoundError,
        "none is stored there; `kaosmem assemble PATH --session URL` makes one",
    ),
    "showing an id that is near another": (
        ["show", "foreign/lo"],
        NotFoundError,
        "the nearest of ",
    ),
    "listing what is not there": (["list", "nowhere"], NotFoundError, "check the path"),
    "verifying without a receipt": (
        ["verify", "kept/deal", "nope"],
        InvalidArgumentError,
        "give the file of --receipt",
    ),
    "measuring without questions": (BENCH[:2], MissingFileError, "name their file too"),
    "a budget to measure at that is no number": (
        [*BENCH, "-b", "512,x"],
        InvalidArgumentError,
        "'x'; give a whole",
    ),
    "a picture of no known kind": (
        ["bench", "nope", "--plot", "plot.gif"],
        InvalidArgumentError,
        "end the name in .png",
    ),
    "an assembler of no known name": (
        [*BENCH, "--assembler", "magic"],
        InvalidArgumentError,
        "use one of kaosmem, recency",
    ),
    "a folder without a data set": (
        ["bench", "docs"],
        MissingFileError,
        "holds some",
    ),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_is_one_line_with_the_remedy_and_creates_nothing(case, place, command):
    """A typed error, exit code 2, one line on stderr, nothing on stdout, and every file as it was."""
    args, error, remedy = BAD_INPUT[case]
    for path, text in FOREIGN.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_text(text)
    before = files(place)
    with pytest.raises(error):
        run(args)
    code, out, err = command(*args)
    assert (code, out) == (2, "")
    assert re.fullmatch(r"kaosmem: .+\n", err)
    assert remedy in err
    assert files(place) == before


@pytest.mark.parametrize(
    "args",
    [
        [],
        ["assemble"],
        ["assemble", "docs"],
        ["bogus"],
        [*ASSEMBLE, "--format", "xml"],
        ["show", "a/b", "--limit", "-1"],
        ["bench"],
        ["bench", "docs", "--plot", "nowhere/plot.png"],
    ],
    ids=lambda args: " ".join(args[-2:]) or "nothing",
)
def test_wrong_arguments_show_the_usage(args, place, command):
    """What the command line itself refuses ends with exit code 2 too, and creates nothing."""
    before = files(place)
    code, out, err = command(*args)
    assert code == 2
    assert "Usage: " in out + err
    assert files(place) == before


@pytest.mark.parametrize("package", ["typer", "rich"])
def test_without_its_extra_the_command_names_it(package):
    """Where the extra is not installed, one line says how to install it."""
    code = f"import sys; sys.modules[{package!r}] = None; from kaosmem.cli import main; main()"
    asked = [sys.executable, "-c", code, "show", "./s"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        done.stderr
        == "kaosmem: the kaosmem command needs the extra 'cli': pip install 'kaosmem[cli]'\n"
    )


def test_ctrl_c_keeps_what_was_saved(place, command, monkeypatch):
    """Interrupted while it ranks, the command says so and exits 130; what it had read need not be read again."""
    assemble_context = SessionMemory.assemble_context

    async def interrupted(*args, **options):
        signal.raise_signal(signal.SIGINT)
        return await assemble_context(*args, **options)

    with monkeypatch.context() as patched:
        patched.setattr(SessionMemory, "assemble_context", interrupted)
        assert command(*ASSEMBLE) == (
            130,
            "",
            "kaosmem: interrupted; what was saved before is kept\n",
        )
    assert command(*ASSEMBLE).err.startswith("files: 32 unchanged")


@pytest.fixture
def session(place):
    """A session with a prompt, messages of which some were evicted, and hostile text."""

    async def fill():
        async with SessionMemory.open(str(place / "kept"), "deal") as memory:
            memory.add("role", "You are careful.")
            for number in range(8):
                memory.add("messages", f"message {number}")
            memory.add("findings", "a bell \x07", id="finding")
            memory.remove(memory.add("findings", "removed").id)

    asyncio.run(fill())
    return "kept/deal"


def keep(session_id, **options):
    """Store a session with a message."""

    async def fill():
        async with SessionMemory.open("kept", session_id, **options) as memory:
            memory.add("messages", "hello")

    asyncio.run(fill())


def test_list_shows_the_sessions_of_a_place(session, place, command):
    """The last saved comes first, with its size; no session is opened, so a damaged one is listed too."""
    keep("newer")
    code, out, err = command("list", "kept")
    assert (code, err) == (0, "")
    assert out.startswith("root: kept\ntotal: 2\n\nsessions\n")
    header, *listed = rows(out[out.index("last_saved ") :])
    assert header == ["last_saved", "bytes", "namespace", "session"]  # an id may be long
    assert [row[-2:] for row in listed] == [["default", "newer"], ["default", "deal"]]
    (log,) = (place / "kept").glob("default/deal/log/*.jsonl")
    log.write_text('{"some": "json"}\n')
    before = files(place)
    found = json.loads(command("list", "kept", "--json").out)
    by_id = {each["session"]: each for each in found["sessions"]}
    assert by_id["newer"]["bytes"] > by_id["deal"]["bytes"] > 0
    assert all(each["last_saved"] for each in found["sessions"])
    assert files(place) == before
    assert len(json.loads(command("list", "kept", "--limit", 1, "--json").out)["sessions"]) == 1
    (place / "empty").mkdir()
    for nothing in ("empty", "kept/default"):
        code, out, err = command("list", nothing)
        assert (code, "total: 0" in out, "holds the namespaces" in err) == (0, True, True)


def test_the_sessions_of_all_tenants_are_listed_and_found(place, command):
    """Without --namespace, `list` lists every namespace, and `show` names the one that has the session."""
    for tenant in ("acme", "globex"):
        keep(f"{tenant}-1", namespace=tenant)
    found = json.loads(command("list", "kept", "--json").out)
    listed = {(each["namespace"], each["session"]) for each in found["sessions"]}
    assert listed == {("acme", "acme-1"), ("globex", "globex-1")}
    assert "globex" not in command("list", "kept", "--namespace", "acme").out
    code, _, err = command("show", "kept/acme-1")
    assert code == 2
    assert "namespace 'acme' has one" in err
    code, _, err = command("show", "kept/acme/acme-1")
    assert code == 2
    assert "namespace 'acme' of 'kept' has one" in err
    assert "hello" in command("show", "kept/acme-1", "--namespace", "acme").out


def test_a_session_is_shown_with_its_own_sections(place, command):
    """Budgets and sections are those that the session was stored with, also after an erasure by the command."""
    specs = SectionSpec("findings", 700), SectionSpec("decisions", 900)

    async def fill():
        async with SessionMemory.open(str(place / "kept"), "deal", sections=specs) as memory:
            memory.add("decisions", "We ship the notice on Monday.")
            memory.add("findings", "secret", id="secret")

    asyncio.run(fill())
    command("forget", "kept/deal", "secret")
    shown = json.loads(command("show", "kept/deal", "--json").out)
    assert {each["section"]: each["budget"] for each in shown["sections"]} == {"decisions": 900}
    assert shown["notices"] == []
    (findings,) = json.loads(command("show", "kept/deal", "--section", "findings", "--json").out)[
        "sections"
    ]
    assert (findings["budget"], findings["items"]) == (700, 0)
    assert "Monday" in command("assemble", "--session", "kept/deal", "-q", "When do we ship?").out


def test_show_prints_a_message_of_blocks_as_text_without_its_thinking(place, command):
    """A person reads texts, calls and results. The JSON has all that is stored."""
    reply = {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "pondering", "signature": "seal"},
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "call-1", "name": "read", "input": {"path": "a.md"}},
        ],
    }

    async def fill():
        async with SessionMemory.open(str(place / "kept"), "deal") as memory:
            return memory.add_message(reply, format="anthropic").id

    item_id = asyncio.run(fill())
    for asked in (["--item", item_id], []):
        code, out, _ = command("show", "kept/deal", *asked)
        assert code == 0
        assert "I look." in out
        assert 'read({"path":"a.md"})' in out
        assert "pondering" not in out
        assert "pondering" in command("show", "kept/deal", *asked, "--json").out


def test_show_prints_the_newest_of_each_section(session, place, command):
    """Sections that hold something are shown with their newest items, and nothing on disk changes."""
    before = files(place)
    code, out, err = command("show", session, "--limit", 3)
    assert (code, err) == (0, "")
    figures = rows(out[out.index("sections\n") + 9 : out.index("\nnewest\n")])
    assert [row[0] for row in figures] == ["section", "role", "messages", "findings"]
    assert re.findall(r"message \d", out) == ["message 7", "message 6", "message 5"]
    assert files(place) == before


def test_show_prints_one_item_in_full(session, place, command):
    """What it is and all of its content, from the archive too; programs get the same as JSON."""
    before = files(place)
    code, out, err = command("show", session, "--item", "finding")
    assert (code, err) == (0, "")
    assert out.startswith("state: live\nsection: findings\nid: finding\n")
    assert out.endswith("\ncontent: a bell \x07\n")
    archived = json.loads(command("show", session, "--item", archived_id(place), "--json").out)
    assert (archived["state"], archived["section"], archived["content"]) == (
        "archived",
        "findings",
        "removed",
    )
    code, out, err = command("show", session, "--item", "nope")
    assert (code, out) == (2, "")
    assert "no item 'nope', live or archived" in err
    assert files(place) == before


def archived_id(place):
    """Return the id of the one item that was removed."""
    log = "".join(path.read_text() for path in (place / "kept").rglob("*.jsonl"))
    return re.search(r'"op":"remove","d":\{"id":"(\w+)"', log)[1]


def test_figures_add_up(session, place, command):
    """The figures by section add up to the session's, in the table and in JSON."""
    before = files(place)
    shown = json.loads(command("show", session, "--limit", 0, "--json").out)
    sections = shown["sections"]
    assert (shown["session"], shown["counter"], shown["newest"]) == ("deal", "o200k_base", [])
    assert sum(each["items"] for each in sections) == 10
    assert sum(each["archived"] for each in sections) == 1
    assert sum(each["tokens"] for each in sections) == shown["tokens"] > 0
    code, out, err = command("show", session, "--limit", 0)
    assert (code, err) == (0, "")
    assert f"tokens: {shown['tokens']}\n" in out
    assert rows(out[out.index("sections\n") + 9 :])[1][:2] == ["role", "1"]
    assert files(place) == before


def test_forget_erases_items_and_verify_says_so(session, place, command):
    """The receipt's file is JSON; a file that comes back from a copy is named, with exit code 1."""
    before = files(place)
    code, out, err = command("forget", session, "finding", "--receipt", "receipt.json")
    assert (code, err) == (0, "")
    assert out.startswith("session_id: deal\n")
    assert "items: finding\n" in out
    receipt = json.loads((place / "receipt.json").read_text())
    assert receipt["items"] == ["finding"]
    assert command("verify", session, "receipt.json") == (
        0,
        "erased: no file of the session holds the items\n",
        "",
    )
    path = receipt["files"][0]
    whole = place / "kept/default/deal" / path
    whole.write_bytes(before[whole.as_posix()])
    code, out, _ = command("verify", session, "receipt.json")
    assert code == 1
    assert path in out
    assert json.loads(command("forget", session, "--json").out or "{}") == {}


@pytest.mark.parametrize("receipt", ["nowhere/receipt.json", "docs"])
def test_forget_erases_nothing_if_its_receipt_has_no_place(receipt, session, place, command):
    """An erasure can't be undone, so its proof must not get lost."""
    before = files(place)
    code, out, err = command("forget", session, "finding", "--receipt", receipt)
    assert (code, out) == (2, "")
    assert "Nothing was done" in " ".join(err.split())
    assert files(place) == before


@pytest.fixture
def evidence(place):
    """A folder of two corpora: lockers and their codes, asked for by number, and one question that is a trap."""
    folder = place / "evidence"
    folder.mkdir()
    for name, start in (("north", 0), ("south", 1_000)):
        numbers = range(start, start + 60)
        items = [
            {"id": f"i{n}", "text": f"The code of locker {n} is {n * 7919}.", "role": "guard"}
            for n in numbers
        ]
        asked = [
            {
                "id": f"q{n}",
                "query": f"code of locker {n}",
                "evidence_ids": [f"i{n}"],
                "category": "code",
            }
            for n in numbers[:6]
        ]
        asked.append(
            {
                **asked[0],
                "id": "trap",
                "category": "adversarial",
                "evidence_ids": [f"i{start + 30}"],
            }
        )
        for kind, values in (("items", items), ("questions", asked)):
            (folder / f"{name}.{kind}.jsonl").write_text(
                "".join(json.dumps(value) + "\n" for value in values)
            )
    return folder


def test_bench_prints_what_each_budget_buys(evidence, place, command):
    """A row for each budget and assembler, plain in a pipe, and nothing is written or said beside it."""
    before = files(place)
    code, out, err = command("bench", "evidence", "--budgets", "200,100")
    assert (code, err) == (0, "")
    assert out.startswith("questions: 14\nitems: 120\ncorpora: 2\n")
    assert "\nload_seconds: kaosmem " in out
    header, *table = rows(out[out.index("assembler  budget") :])
    assert header[:5] == ["assembler", "budget", "category", "recall", "fill"]
    assert [row[:2] + row[3:4] for row in table[:6]] == [
        [assembler, budget, recall]
        for budget in ("100", "200")
        for assembler, recall in (
            ("kaosmem", "1.000"),
            ("recency", "0.000"),
            ("rank-bm25", "1.000"),
        )
    ]
    assert {row[header.index("violations")] for row in table} == {"0"}
    assert files(place) == before


def test_bench_takes_one_pair_of_files_and_some_assemblers(evidence, command):
    """Items and questions can be named; what is compared can be chosen."""
    pair = ("evidence/north.items.jsonl", "evidence/north.questions.jsonl")
    out = command(
        "bench",
        *pair,
        "-b",
        100,
        "--assembler",
        "recency",
        "--assembler",
        "kaosmem",
    ).out
    assert out.startswith("questions: 7\nitems: 60\ncorpora: 1\n")
    table = rows(out[out.index("assembler  budget") :])
    assert [row[:4] + row[5:6] for row in table[-4:]] == [
        ["recency", "100", "adversarial", "0.000", "1"],
        ["kaosmem", "100", "adversarial", "0.000", "1"],
        ["recency", "100", "code", "0.000", "6"],
        ["kaosmem", "100", "code", "1.000", "6"],
    ]


def test_bench_draws_a_plot(evidence, place, command):
    """The picture is where it was asked for, and stderr says so."""
    code, _, err = command("bench", "evidence", "-b", "64,128", "--plot", "bought.svg")
    assert (code, err) == (0, "plot: bought.svg\n")
    drawn = (place / "bought.svg").read_text()
    assert drawn.startswith("<?xml")
    assert all(f"<!-- {name} -->" in drawn for name in ("kaosmem", "recency", "rank-bm25"))


def test_the_readme_uses_options_that_exist(command):
    """Every option of the command that the README names is in its help."""
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    used = re.findall(r"kaosmem (assemble .*)\n", readme) + re.findall(r"`(--[^`]+)`", readme)
    options = set(re.findall(r"(?<!\S)--[a-z-]+", " ".join(used)))
    assert {"--query", "--budget", "--session", "--json"} <= options
    helps = (command(name, "--help").out for name in ("assemble", "show", "list", "bench"))
    assert options <= {option for text in helps for option in re.findall(r"--[a-z-]+", text)}
    for name in re.findall(r"`kaosmem (\w+)`", readme):
        assert command(name, "--help").code == 0
    assert re.fullmatch(r"kaosmem \d+\.\d+\.\d+\n", command("--version").out)


def test_a_pipe_learns_why_nothing_is_shown(place, command):
    """A budget in which no passage fits is a note on stderr."""
    out, err = command("assemble", "docs/contracts", "--query", "notice", "--budget", "5")[1:]
    assert (out, "note: nothing fits: the best match needs " in err) == ("", True)


@pytest.mark.parametrize(
    ("name", "usage"),
    [
        ("assemble", "[OPTIONS] [PATH]"),
        ("forget", "[OPTIONS] {URL} {ID}..."),
        ("show", "--limit N"),
    ],
)
def test_the_help_names_values_plainly(name, usage, command):
    assert usage in " ".join(command(name, "--help").out.split())


@pytest.mark.parametrize("ranker", RANKERS)
def test_each_ranker_can_be_named(ranker, place, command):
    """With --ranker, also for a session that is kept, which may be asked by any."""
    args = (
        "assemble",
        "docs",
        "-q",
        "How long in advance must one say that it ends?",
        "-b",
        150,
        "--json",
    )
    code, out, _ = command(*args, "--session", "kept/deal", "--ranker", ranker)
    signals = [
        decision["signals"] for decision in json.loads(out)["decisions"] if decision["included"]
    ]
    assert code == 0
    assert any("likeness" in each for each in signals) == (ranker == "dense")
    assert json.loads(command(*args, "--ranker", ranker).out)["text"] == json.loads(out)["text"]
    assert command(*args, "--ranker", "magic").code == 2


def test_a_path_with_undecodable_bytes_is_read(place):
    """A folder whose name is no UTF-8 is ingested, and one that is not there is an error of one line."""
    folder = os.fsencode(place) + b"/caf\xe9"
    os.mkdir(folder)  # noqa: PTH102
    (place / os.fsdecode(folder) / "a.txt").write_text("The notice is thirty days.")
    for path, code in ((folder, 0), (folder + b"\xff", 2)):
        args = [*PROCESS, "assemble", path, "-q", "notice", "--counter", "estimate"]
        done = subprocess.run(args, capture_output=True, check=False)
        assert done.returncode == code
        assert b"Traceback" not in done.stderr
        assert (b"The notice is thirty days." in done.stdout) == (code == 0)


def test_the_openai_format_gives_messages(place, command):
    """Messages are printed as JSON, in --json under their own key, counted in their own format."""
    answer = json.loads(
        command("assemble", "docs", "-q", QUESTION, "--format", "openai", "--json").out
    )
    assert answer["used"] == count_messages(answer["messages"], "openai")
    printed = command("assemble", "docs", "-q", QUESTION, "--format", "openai").out
    assert printed.startswith(json.dumps(answer["messages"], ensure_ascii=False, indent=2))


def test_a_driver_that_is_missing_is_named(place, monkeypatch):
    """A session on an object store whose package is not installed says which it needs."""
    from fsspec.registry import _registry

    monkeypatch.setitem(sys.modules, "s3fs", None)
    monkeypatch.delitem(
        _registry, "s3", raising=False
    )  # which knows the class if another test has used it
    with pytest.raises(
        MissingExtraError, match=r"'s3://bucket' needs a package that is not installed.*s3fs"
    ):
        run([*ASSEMBLE[:-1], "s3://bucket/deal"])


def test_bench_measures_data_sets_and_named_assemblers(evidence, place, command):
    """Of a folder of folders each is a data set."""
    for name in ("lockers", "copies"):
        shutil.copytree(evidence, place / "both" / name)
    chosen = ("--assembler", "rank-bm25", "--assembler", "recency")
    out = command("bench", "both", "-b", 100, *chosen).out
    assert out.startswith("questions: 28\nitems: 240\ncorpora: 4\n")
    table = rows(out[out.index("assembler  budget") :])
    assert table[0][:6] == ["assembler", "budget", "dataset", "category", "recall", "fill"]
    by_dataset = [row[:5] + row[7:8] for row in table if row[3] == "-" and row[2] != "-"]
    assert by_dataset == [
        [assembler, "100", name, "-", recall, "12"]
        for name in ("copies", "lockers")
        for assembler, recall in (("rank-bm25", "1.000"), ("recency", "0.000"))
    ]
    out = command("bench", "both/lockers", "-b", 100, *chosen).out
    assert out.startswith("questions: 14\nitems: 120\ncorpora: 2\n")
