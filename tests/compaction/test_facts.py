"""What is found in a text to be said to the letter, and what is not."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaosmem import ImageBlock, TextBlock, ToolResultBlock, ToolUseBlock
from kaosmem.compaction.facts import MAX_FACT_CHARS, facts_in, facts_of

FOUND = {
    "See https://ex.com/a_(b)?x=1&y=2, or (http://foo.bar/baz).": [
        "https://ex.com/a_(b)?x=1&y=2",
        "http://foo.bar/baz",
    ],
    "Ask www.ex.com/find?q=a-1&n=2, not a.www.ex.com": [
        "www.ex.com/find?q=a-1&n=2",
        "a.www.ex.com",
    ],
    "On feature/new-login, in and/or out of read/write": ["feature/new-login"],
    "Edit src/app.py:12, ./run.sh, ../up and ~/.ssh/id_rsa.": [
        "src/app.py:12",
        "./run.sh",
        "../up",
        "~/.ssh/id_rsa",
    ],
    r"It is in C:\Users\bob\a.txt, or '/srv/my files/b.txt'.": [
        r"C:\Users\bob\a.txt",
        "/srv/my files/b.txt",
    ],
    r"It is in \\files01\deals$\a.txt or $HOME/bin, not in \\d+ and \\n\\n.": [
        r"\\files01\deals$\a.txt",
        "$HOME/bin",
    ],
    "TASK-17 and #42 by @alice in fooBar, FOO_BAR, main.py, .env": (
        ["TASK-17", "#42", "@alice", "fooBar", "FOO_BAR", "main.py", ".env"]
    ),
    "a@b.com std::vector --max-size v1.2.3 9f3ab2 sha256:ab01": (
        ["a@b.com", "std::vector", "--max-size", "v1.2.3", "9f3ab2", "sha256:ab01"]
    ),
    "$1,250,000.50, 8.5%, 9.9%. 2026-11-22T10:30, -5, 1e-9, 30s": (
        ["$1,250,000.50", "8.5%", "9.9%", "2026-11-22T10:30", "-5", "1e-9", "30s"]
    ),
    "1.500€, ₹500, $5-$10, 50%-60%, −5, ≥99.9%, ±0.2, 3+4, #5, .5": (
        ["1.500€", "₹500", "$5-$10", "50%-60%", "−5", "≥99.9%", "±0.2", "3+4", "#5", ".5"]
    ),
    "ファイルはsrc/app.pyで、値は42です。５００円": ["src/app.py", "42", "５００"],
    "1\u00a0234\u00a0567,50 km, 12\u202f000 and 7\u00a0days": [
        "1\u00a0234\u00a0567,50",
        "12\u202f000",
        "7",
    ],
    '{"path": "C:\\\\dir\\\\my file.txt", "rate": 1.10, "deep": [{"id": "k-7"}]}': [
        r"C:\dir\my file.txt",
        "1.10",
        "k-7",
    ],
    '{"/etc/hosts": {"TASK-1": []}, "/a b/c": {}, "id": "k-8", "id": "k-9"}': [
        "/etc/hosts",
        "TASK-1",
        "/a b/c",
        "k-8",
        "k-9",
    ],
    r'{"id": "k-7", "cut": "v_1 \ud83d"}': ["k-7", "v_1", "ud83d"],
    r'{"id": "k-7", "end": "v_1 \u0000"}': ["k-7", "v_1", "u0000"],
    "1. first\n2) second\n": [],
    "and/or, e.g. the U.S. market; well-known words (in brackets) ... -- [x] **bold** don't": [],
}


@pytest.mark.parametrize("text", FOUND)
def test_addresses_paths_identifiers_and_numbers_are_found(text):
    """Whole, without what surrounds them, in order; words and the numbers of lists are none."""
    assert [fact.text for fact in facts_in(text)] == FOUND[text]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("The gateway listens on port 8443.", "on port 8443"),
        ("Set timeout_s=30, please.", "Set timeout_s=30"),
        ("Notice is within 30 days of it.", "is within 30 days"),
        ("Of 9000 lines 12 of them failed", "Of 9000 lines"),
        ("first line\n77 of the second", "77 of the second"),
        ("- **7:30 AM**: Call the bank at once", "7:30 AM"),
        ("- **April 8**: Submit the first draft", "April 8: Submit the first"),
        ("- **Deadline**: May 3", "Deadline: May 3"),
        ("| Rent | $1,200 |", "Rent | $1,200"),
        ("Send it (by May 3)", "by May 3"),
        ("I'm 87.5% done", "I'm 87.5% done"),
        ("The party is on April 19, 2024.", "is on April 19, 2024"),
        ("done; 5 left", "5 left"),
    ],
)
def test_a_number_is_shown_with_the_words_about_it(text, shown):
    """Up to two before it, and its unit, from the same line and clause."""
    numbers = [fact.shown for fact in facts_in(text) if fact.place]
    assert numbers[0] == shown


def test_arguments_and_results_have_facts_too():
    """So have texts within results, and addresses of images, but no data."""
    blocks = (
        ToolUseBlock("c1", "read", '{"path": "/etc/hosts"}'),
        ToolResultBlock("c1", (TextBlock("found r-1"), ImageBlock("https://ex.com/b.png"))),
        ImageBlock("https://ex.com/a.png"),
        ImageBlock("data:image/png;base64,AAAA0000/+"),
    )
    found = [fact.text for block in blocks for fact in facts_of(block)]
    assert found == ["/etc/hosts", "r-1", "https://ex.com/a.png"]


def test_code_has_addresses_and_names_that_it_defines():
    """Its calls, numbers and placeholders are left out.

    Settings and logs in a block are read as any text.
    """
    python = (
        "Run `load_orders` first:\n```python\ndef save_order(order):\n    conn = "
        "db.connect('/srv/shop/orders.db', 5)\n"
        "    conn.execute(order.total_sum)\n    open('/path/to/file')\n```\nIt takes 30 s."
    )
    assert [fact.text for fact in facts_of(TextBlock(python))] == [
        "load_orders",
        "save_order",
        "/srv/shop/orders.db",
        "30",
    ]
    assert [
        fact.text for fact in facts_of(TextBlock("```yaml\nport: 5433\nuser: db_owner\n```"))
    ] == [
        "5433",
        "db_owner",
    ]
    assert [fact.text for fact in facts_in("<div>It costs $5.</div>")] == ["$5"]


def test_emphasis_is_no_number():
    assert list(facts_in("I'm 100% behind you, and I 100% agree.")) == []
    assert [fact.text for fact in facts_in("Coverage is 100% of lines.")] == ["100%"]


@pytest.mark.parametrize(
    "text",
    [
        "I am on page 32; saw chart 96.",
        "slide 12/40; figure 2b; cap. 2; col 3",
        "Look at rows 4 and fig. 12.",
        "Auf Seite 7, in Zeile 120.",
        "See p. 12, pp. 14-16 and item 4.",
        "In section 3.2 and § 14, then sec. 7.",
        "Kapitel 4, Abschnitt 3.1; chapitre 9.",
        "在第 7 页和第3章。",
    ],
)
def test_a_place_in_what_was_read_is_no_fact(text):
    """The reader of a summary does not have the pages."""
    assert list(facts_in(text)) == []


def test_a_number_of_its_own_is_a_fact_beside_a_place():
    found = facts_in("Page 32 says 96 charts cost $40; ticket line 20391 is on port 80.")
    assert [fact.text for fact in found] == ["96", "$40", "20391", "80"]


@pytest.mark.parametrize(
    ("text", "ranks"),
    [
        ("/srv/a.py and https://ex.com, a@b.com, TASK-17", [0, 0, 0, 0]),
        ("parse_date, v1.2, std::vector", [1, 1, 1]),
        ("costs $1,200 by May 3", [2, 2]),
        ("has 3 shops on LinkedIn", [3, 3]),
        ("| 17 |", [4]),
    ],
)
def test_the_surest_facts_come_first(text, ranks):
    """Addresses, identifiers, dates and numbers, digits and names of products, numbers without words."""
    assert sorted(fact.rank for fact in facts_in(text)) == ranks


def test_what_is_too_long_is_data():
    """It would fill the list alone."""
    for text in (
        "a1" * MAX_FACT_CHARS,
        "https://ex.com/" + "a" * MAX_FACT_CHARS,
        "/x" * MAX_FACT_CHARS,
    ):
        assert list(facts_in(text)) == []


_PIECES = (
    "/srv/a.txt ./b C:\\x\\y \\\\host\\s $HOME/b"
    " https://ex.com/q?a=1 http://h/(x) TASK-1 fooBar a_b x@y.de 42 1,250 8.5% $3 30s 2026-11-22 "
    "-5 1\u00a0234 ５"
    " 7 days port within of : = ; , . ( ) \" ' ` { } [ ] \\ | - -- # @ % ~ 日本 é \u2028 \u00a0 ... "
    ":// .:: 1. 2)"
)
fragments = st.sampled_from([*_PIECES.split(" "), "\n", "\t", " ", " ", " "])


@given(st.lists(fragments, max_size=30).map("".join) | st.text(max_size=80))
def test_facts_that_are_listed_are_found_again(text):
    """So that they are in the list of the next summary too, and of all after it."""
    facts = list(facts_in(text))
    listed = "; ".join(dict.fromkeys(fact.shown for fact in facts))
    assert {fact.text for fact in facts} <= {
        fact.text for fact in facts_in(f"It was done.\n\nKept:\n{listed}")
    }
    for fact in facts:
        assert fact.text in fact.shown
        if text.lstrip()[:1] not in ("{", "["):
            assert fact.text in text


@given(st.lists(fragments, max_size=12).map(" ".join), st.text(max_size=20))
def test_a_json_text_has_the_facts_of_what_it_says(value, key):
    """And not of its escapes."""
    value = value.replace("\\", "").replace('"', "")
    found = {fact.text for fact in facts_in(json.dumps({key: [value]}))}
    assert {fact.text for fact in facts_in(value) if fact.rank <= 1 and " " not in value} <= found


words = st.text("aB1日é_.:@#$/~\\,-+%", min_size=1, max_size=8)


@given(st.lists(words, max_size=8), st.sampled_from([" ", "\n", "\t"]))
def test_a_fact_is_found_wherever_it_stands(words, blank):
    """Between others as by itself."""
    alone = [fact.text for word in words for fact in facts_in(f"- {word}")]
    assert [fact.text for fact in facts_in(f"- {blank.join(words)}")] == alone


@pytest.mark.parametrize(
    "piece",
    [
        "a",
        "a/",
        "1,",
        "_",
        "http://",
        "a1 ",
        "[",
        '"/',
        "C:\\",
        "\\\\ab\\",
        "\\",
        "1.\n",
        "=1 ",
        "日1",
    ],
)
def test_a_long_text_of_one_kind_is_done_with(piece):
    """Its facts take time in line with its length."""
    assert sum(1 for _ in facts_in(piece * 15_000)) <= 15_000
