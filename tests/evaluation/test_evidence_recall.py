"""The benchmark of evidence recall, on a folder so small that its figures can be worked out by hand."""

import json
import re
import textwrap
from functools import partial

import pytest

from benchmarks import evidence_recall
from kaosmem import get_counter
from kaosmem.evaluation.assemblers import OrderAssembler
from kaosmem.evaluation.evidence import EvidenceItem

pytest.importorskip("bm25s")

# Each line "user: <text>\n" has 8 tokens, so that a budget of 20 holds two.
CHAT = [
    ("c0", "blue blue paint costs nine"),
    ("c1", "red red paint costs five"),
    ("c2", "the green door costs four"),
    ("c3", "a blue door costs six"),
    ("c4", "we all went home later"),
]
CHAT_ASKED = [
    ("blue", ["c0", "c3"], "plain"),
    ("red", ["c1", "c4"], "plain"),
    ("green door", ["c2"], "adversarial"),
]
DEED = [
    ("d0", "Clause on notice periods here."),
    ("d1", "Clause on payment of rent."),
    ("d2", "Clause on final law."),
]
DEED_ASKED = [("notice", ["d0"], "clauses")]
BUDGET = 20


def write(folder, corpus, role, items, asked):
    folder.mkdir()
    lines = [
        {"id": name, "session": corpus, "timestamp": "2024", "role": role, "text": text}
        for name, text in items
    ]
    (folder / f"{corpus}.items.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in lines)
    )
    lines = [
        {"id": f"q{number}", "query": query, "evidence_ids": evidence, "category": category}
        for number, (query, evidence, category) in enumerate(asked)
    ]
    (folder / f"{corpus}.questions.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in lines)
    )


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    write(folder / "chats", "chat", "user", CHAT, CHAT_ASKED)
    write(folder / "deeds", "deed", "", DEED, DEED_ASKED)
    return folder


def tokens_of(item):
    return get_counter()(f"{item.text}\n")


async def test_oldest_out_drops_the_oldest_of_the_best_until_the_rest_fits():
    """Of the two best of three, the older goes first, however good it is; items of no known word are the newest."""
    items = [
        EvidenceItem("i0", "notice notice period"),
        EvidenceItem("i1", "notice"),
        EvidenceItem("i2", "x y z"),
    ]
    items += [EvidenceItem(f"f{number}", f"filler {number} of some words") for number in range(6)]
    order = partial(evidence_recall.newest_of_best, best=2)
    pack = OrderAssembler("oldest-out", order, skips=False).load(items)
    both = tokens_of(items[0]) + tokens_of(items[1])
    for budget, chosen in (
        (both, ("i0", "i1")),
        (both - 1, ("i1",)),
        (tokens_of(items[1]) - 1, ()),
    ):
        assert (await pack("notice", budget)).item_ids == chosen
    assert (await pack("unknown", 1_000)).item_ids == ("f4", "f5")


def measured(tmp_path, *arguments):
    saved = tmp_path / "found.json"
    evidence_recall.main([*arguments, "--json", str(saved)])
    return json.loads(saved.read_text())


def recalls(found, assembler):
    return {
        (entry["dataset"], entry["category"]): entry["recall"]
        for entry in found["figures"]
        if entry["assembler"] == assembler
    }


def test_a_line_costs_what_the_example_says():
    """The figures below are worked out from these."""
    count = get_counter()
    assert {count(f"user: {text}\n") for _, text in CHAT} == {8}
    assert [count(f"{text}\n") for _, text in DEED] == [6, 6, 5]


def test_the_baselines_get_what_their_definitions_say(data, tmp_path):
    """Two lines of the chat and all of the deed fit in 20 tokens; of equal scores the newest comes first."""
    found = measured(tmp_path, "--data", str(data), "--budgets", str(BUDGET))
    assert recalls(found, "recency") == {
        (None, None): pytest.approx(
            (0.5 + 1) / 2
        ),  # of the chat c3 and c4: half of each plain question's evidence
        ("chats", None): 0.5,
        ("deeds", None): 1.0,
        ("chats", "adversarial"): 0.0,
        ("chats", "plain"): 0.5,
        ("deeds", "clauses"): 1.0,
    }
    for name in ("rank-bm25", "bm25s"):
        assert recalls(found, name) == {
            (None, None): 1.0,  # c0 and c3; c1 and, of the rest, the newest, c4; c2 and c3
            ("chats", None): 1.0,
            ("deeds", None): 1.0,
            ("chats", "adversarial"): 1.0,
            ("chats", "plain"): 1.0,
            ("deeds", "clauses"): 1.0,
        }
    assert recalls(found, "oldest-out") == recalls(
        found, "recency"
    )  # fewer than 50 items: all are among the best
    assert [entry["violations"] for entry in found["figures"]] == [0] * len(found["figures"])
    figures = {
        entry["assembler"]: entry for entry in found["figures"] if entry["dataset"] == "chats"
    }
    assert figures["recency"]["framing"] == pytest.approx(6 / 16)  # "user: " and the line's end
    assert figures["recency"]["fill"] == pytest.approx(16 / BUDGET)
    assert found["figures"][0]["scored"] == 3


def test_the_ten_lines_of_the_docstring_are_an_assembler(data, tmp_path, monkeypatch, capsys):
    """Saved in the current folder they are compared, on the data that the environment names, and drawn."""
    docstring = str(evidence_recall.__doc__)
    code = textwrap.dedent("    " + docstring[docstring.index("from kaosmem.evaluation") :])
    assert len([line for line in code.splitlines() if line]) <= 11
    (tmp_path / "mine.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # as `python -m` does with the current folder
    monkeypatch.setenv("KAOSMEM_DATA", str(data))
    evidence_recall.main(
        ["--assembler", "mine:Longest", "--budgets", "10", "--datasets", "deeds", "--plot", "p.svg"]
    )
    assert "longest" in capsys.readouterr().out
    assert (tmp_path / "p.svg").read_text().startswith("<?xml")


@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        ([], "give --data FOLDER, or set KAOSMEM_DATA"),
        (["--data", "nowhere"], "does not exist; check the path"),
        (["--data", "data", "--budgets", "0"], "from 1 up"),
        (["--data", "data", "--budgets", "x"], "invalid budgets value: 'x'"),
        (
            ["--data", "data", "--json", "nowhere/p.json"],
            "there is no folder 'nowhere'; make it first",
        ),
    ],
)
def test_wrong_arguments_are_said_and_end_with_2(
    arguments,
    remedy,
    data,
    monkeypatch,
    capsys,
):
    """The usage, what is wrong and the way out; nothing is measured."""
    monkeypatch.chdir(data.parent)
    monkeypatch.delenv("KAOSMEM_DATA", raising=False)
    with pytest.raises(SystemExit) as ended:
        evidence_recall.main(arguments)
    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (2, "")
    assert re.search(remedy, err)
