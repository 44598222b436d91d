"""How texts are cut: completely, within bounds, and where a reader would cut them."""

from itertools import groupby

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kaosmem import get_counter
from kaosmem.ingest.office import read_csv
from kaosmem.ingest.pieces import Syntax, cut_into_pieces
from kaosmem.ingest.segments import MAX_CHARS

SYNTAXES = list(Syntax)

FRAGMENTS = [
    "",
    "",
    "   ",
    "\t",
    "# Heading",
    "## Another one",
    "Title",
    "=====",
    "-----",
    "```python",
    "~~~",
    "| a | b |",
    "|---|---|",
    "a | b",
    "- an item",
    "    indented code, or the middle of a list",
    "class Reader:",
    "    def read(self):",
    "        return self.text",
    "@decorated",
    "# a comment above",
    '"""a docstring',
    '"""',
    "/* a comment",
    " */",
    "static int area(struct box *b)",
    "{",
    "}",
    "label:",
    "else:",
    "#endif",
    "ARTICLE IV",
    "IN CAPITALS",
    "A sentence ends here. Another one begins",
    "\x0c",
    "\u00a0",
    ".. _anchor:",
    "word " * 90,
    "x" * 900,
    "x" * 2_500,
    "A short one. " * 300,
]
lines = st.sampled_from(FRAGMENTS) | st.text(
    st.characters(exclude_characters="\r\n", codec="utf-8"), max_size=40
)
texts = st.lists(st.tuples(lines, st.integers(1, 12)), max_size=60).map(
    lambda runs: "\n".join(line for line, times in runs for _ in range(times))
)


def the_pieces(text, syntax):
    return list(cut_into_pieces(text, syntax))


def piece_with(text, syntax, marker):
    return next(piece for piece in cut_into_pieces(text, syntax) if marker in piece.text)


@given(text=texts, syntax=st.sampled_from(SYNTAXES))
@example(text="\x0c", syntax=Syntax.CODE)
def test_every_line_is_in_exactly_one_piece(text, syntax):
    """Pieces are the lines they name, unchanged, in order, and only blank lines lie between them.

    Among the rows of a table, a piece repeats the names of its columns first.
    """
    text_lines = text.split("\n")
    covered_to = 0
    for (first, last), parts in groupby(
        the_pieces(text, syntax), key=lambda piece: (piece.first, piece.last)
    ):
        pieces = list(parts)
        assert covered_to < first <= last
        assert not "".join(text_lines[covered_to : first - 1]).strip()
        written = "\n".join(text_lines[first - 1 : last])
        head, _, _ = "".join(piece.text for piece in pieces).rpartition(written)
        assert "".join(piece.text for piece in pieces) == head + written
        if head:
            names, below = head.removesuffix("\n").split("\n")
            assert below == "|---|---|"
            assert f"{names}\n{below}\n" in "\n".join(text_lines[: first - 1]) + "\n"
        assert text_lines[first - 1].strip()
        assert text_lines[last - 1].strip()
        if len(pieces) > 1:
            assert first == last
        assert [piece.part for piece in pieces] == (
            [0] if len(pieces) == 1 else list(range(1, len(pieces) + 1))
        )
        covered_to = last
    assert not "".join(text_lines[covered_to:]).strip()


@given(text=texts, syntax=st.sampled_from(SYNTAXES))
def test_no_piece_is_larger_than_the_maximum(text, syntax):
    """However the text is made, each piece has 1 to MAX_CHARS characters."""
    assert all(1 <= len(piece.text) <= MAX_CHARS for piece in cut_into_pieces(text, syntax))


functions = st.tuples(st.integers(1, 45), st.integers(0, 3), st.booleans(), st.booleans()).map(
    lambda shape: (
        "# Say what comes next.\n" * shape[2]
        + "@cached\n" * shape[3]
        + "def run(state):\n"
        + "\n".join(
            "    state.step()" + "\n" * (shape[1] and not step % (4 * shape[1]))
            for step in range(shape[0])
        )
    ).rstrip()
)


@given(st.lists(functions, max_size=25))
def test_a_function_that_fits_is_not_cut(written):
    """A function, with the comment and decorator above it and blank lines inside, stays whole up to the maximum."""
    pieces = the_pieces("\n\n\n".join(written), Syntax.CODE)
    assert sum(
        piece.text.count(function) > 0 for function in set(written) for piece in pieces
    ) >= len(set(written))
    assert "\n\n\n".join(piece.text for piece in pieces) == "\n\n\n".join(written)


@given(st.lists(functions, min_size=1, max_size=25))
def test_a_method_that_fits_is_not_cut(written):
    """What holds for functions holds inside a class."""
    methods = [
        "\n".join("    " + line if line else "" for line in function.split("\n"))
        for function in written
    ]
    text = "class Machine:\n" + "\n\n".join(methods)
    texts_ = [piece.text for piece in cut_into_pieces(text, Syntax.CODE)]
    for method in methods:
        if len(method) <= MAX_CHARS - len("class Machine:\n"):
            assert any(method in piece for piece in texts_)


blocks = st.one_of(
    st.integers(1, 200).map(lambda words: "A word and another. " * (words // 4) + "The end."),
    st.integers(1, 40).map(lambda rows: "| name | value |\n" * rows + "| last | row |"),
    st.integers(1, 60).map(lambda rows: "```python\n" + "step()\n\nstep()\n" * (rows // 2) + "```"),
)


@given(st.lists(blocks, max_size=20))
def test_a_block_of_markdown_that_fits_is_not_cut(written):
    """A paragraph, a table and a fence with blank lines in it stay whole up to the maximum."""
    pieces = [piece.text for piece in cut_into_pieces("\n\n".join(written), Syntax.MARKDOWN)]
    assert all(
        any(block.rstrip() in piece for piece in pieces)
        for block in written
        if len(block) <= MAX_CHARS
    )


def test_a_heading_stays_with_its_text():
    """A new section begins a piece, its heading is in it, and headings above it are its title."""
    section = "\n\n".join(["A paragraph of the section. " * 12] * 4)
    text = (
        f"# Guide\n\n## Setup\n\n{section}\n\n## Usage\n\n{section}\n\n### Options\n\n{section}\n"
    )
    pieces = the_pieces(text, Syntax.MARKDOWN)
    titles = {
        piece.text.split("\n")[0]: piece.title for piece in pieces if piece.text.startswith("#")
    }
    assert titles == {
        "# Guide": "Guide > Setup",
        "## Usage": "Guide > Usage",
        "### Options": "Guide > Usage > Options",
    }
    assert all(len(piece.text) > 300 for piece in pieces)


def test_a_comment_in_a_fence_is_not_a_heading():
    """`# install` in a fence of shell commands leaves the section as it is."""
    text = "# Guide\n\n```sh\n# install\nmake\n```\n" + "\nMore of it. " * 300
    assert {piece.title for piece in cut_into_pieces(text, Syntax.MARKDOWN)} == {"Guide"}


@pytest.mark.parametrize(
    "head",
    ["| item | euros |\n|---|---|\n", "item | euros\n:-- | --:\n", "  | item | euros |\n  |-|-|\n"],
)
def test_each_piece_of_a_long_table_has_the_names_of_its_columns(head):
    """A row far below the names of a Markdown table's columns can be understood."""
    rows = [f"| thing {number} | {number} |\n" for number in range(300)]
    text = f"# Prices\n\n{head}{''.join(rows)}\nAll prices hold.\n\n" + "More words. " * 300
    pieces = the_pieces(text, Syntax.MARKDOWN)
    in_table = [piece for piece in pieces if "| thing" in piece.text]
    assert len(in_table) > 3
    assert all(piece.text.count(head.strip()) == 1 for piece in in_table)
    assert all(len(piece.text) <= MAX_CHARS for piece in in_table)
    assert [piece for piece in pieces if "item | euros" in piece.text] == in_table


@pytest.mark.parametrize(
    "table",
    [
        "```\n| item | euros |\n|---|---|\n" + "| thing | 3 |\n" * 300 + "```\n",
        f"| {'item ' * 100} | euros |\n|---|---|\n" + "| thing | 3 |\n" * 300,
        "| item | 7 |\n" + "| thing | 3 |\n" * 300,
    ],
)
def test_nothing_else_is_repeated(table):
    """A table in a fence is code, long names would crowd out the rows, and a first row may be a value."""
    assert "\n".join(
        piece.text for piece in cut_into_pieces(table, Syntax.MARKDOWN)
    ) == table.rstrip("\n")


def test_restructured_text_has_levels_in_order_of_their_marks():
    """The mark used first is the outermost level."""
    body = "\n\n".join(["Some words on the matter. " * 20] * 3)
    headings = ["=====\nGuide\n=====", ".. _setup:\n\nSetup\n-----", "Tools\n~~~~~", "Use\n---"]
    text = "\n\n".join(f"{heading}\n\n{body}" for heading in headings)
    assert piece_with(text, Syntax.TEXT, "Setup\n---").title == "Guide > Setup"
    assert piece_with(text, Syntax.TEXT, "Tools\n~~~").title == "Guide > Setup > Tools"
    assert piece_with(text, Syntax.TEXT, "Use\n---").title == "Guide > Use"


def test_a_contract_is_cut_at_its_clauses():
    """In plain text a numbered clause on a line of its own is a heading."""
    clause = "\n\n".join(["The Parties agree to keep it. " * 15] * 3)
    headings = ["MERGER AGREEMENT", "ARTICLE I", "Section 1.1 Terms", "ARTICLE II"]
    text = "\n\n".join(f"{heading}\n\n{clause}" for heading in headings)
    assert (
        piece_with(text, Syntax.TEXT, "Section 1.1").title
        == "MERGER AGREEMENT > ARTICLE I > Section 1.1 Terms"
    )
    assert piece_with(text, Syntax.TEXT, "ARTICLE II").title == "MERGER AGREEMENT > ARTICLE II"


PYTHON = '''"""A module."""

import os


class Reader:
    """Read.

    def not_a_function(): this is text.
    """

    def first(self):
        BODY

    # What comes next is cached.
    @cached
    def second(self):
        BODY


def last():
    BODY
'''


def test_a_title_names_the_definition_that_a_piece_is_in():
    """Methods are named with their class; what only looks like a definition, inside a string, names nothing."""
    text = PYTHON.replace("BODY", "\n        ".join(f"first_{step}()" for step in range(130)))
    pieces = the_pieces(text, Syntax.CODE)
    assert {piece.title for piece in pieces} == {
        "",
        "Reader",
        "Reader.first",
        "Reader.second",
        "last",
    }
    assert piece_with(text, Syntax.CODE, "def second").text.lstrip().startswith("# What comes next")


def test_a_banner_goes_with_what_it_announces():
    """A comment between blank lines is the beginning of what follows, even if that has to be cut."""
    long = "\n\n".join(
        f"    def step_{number}(self):\n        return {number}" for number in range(90)
    )
    text = f"class Reader:\n{long}\n\n# =======\n# Writing\n# =======\n\nclass Writer:\n{long}\n"
    assert "class Writer" in piece_with(text, Syntax.CODE, "# Writing").text


def test_a_short_method_after_a_long_one_stays_whole():
    """It may be put with the end of the long one, but a blank line inside it is no place to cut."""
    short = "    def short(self):\n        self.stop()\n\n        return self"
    for steps in range(80, 140):
        long = "    def long(self):\n" + "\n\n".join(
            f"        self.step({number})" for number in range(steps)
        )
        assert (
            short
            in piece_with(f"class Machine:\n{long}\n\n{short}\n", Syntax.CODE, "def short").text
        )


@pytest.mark.parametrize("steps", [100, 200])
def test_the_first_and_last_lines_of_a_long_function_are_not_alone(steps):
    """Where a body without blank lines has to be cut, its beginning keeps the name."""
    body = "\n".join(f"        total += step({number});" for number in range(steps))
    text = f"static int\narea(void)\n{{\n    while (more)\n{body}\n    return total;\n}}\n"
    pieces = the_pieces(text, Syntax.CODE)
    assert "step(0)" in pieces[0].text
    assert all(len(piece.text) >= 300 for piece in pieces)


def test_braces_need_no_keyword():
    """In C a function is a name, parentheses and a brace on the next line; a prototype or a call is none."""
    body = "\n".join(f"    total += step({step});" for step in range(60))
    comment = "/* Add up.\n\n   It keeps no state.\n */"
    area = f"static int\narea(void)\n{{\n{body}\n}}"
    perimeter = f"int\nperimeter(struct box *b) {{\n{body}\n}}"
    text = f"int area(void);\n\n{comment}\n{area}\n\n{perimeter}\n"
    pieces = the_pieces(text, Syntax.CODE)
    assert [piece.title for piece in pieces] == ["area", "perimeter"]
    assert pieces[1].text.startswith("int\nperimeter")


def test_neighbours_are_joined_up_to_the_target():
    """Two hundred short functions make few pieces, none of them tiny."""
    text = "\n\n".join(f"def short_{number}():\n    return {number}" for number in range(200))
    sizes = [len(piece.text) for piece in cut_into_pieces(text, Syntax.CODE)]
    assert 1_000 <= sum(sizes) / len(sizes) <= 1_300
    assert min(sizes) >= 300


def test_one_enormous_line_is_cut_at_sentences():
    """A paragraph without a newline gives whole sentences, each piece a part of the one line."""
    pieces = the_pieces("This is a sentence. " * 1_000, Syntax.TEXT)
    assert len(pieces) > 10
    assert {(piece.first, piece.last) for piece in pieces} == {(1, 1)}
    assert all(
        piece.text.startswith("This is") and piece.text.endswith("sentence. ") for piece in pieces
    )


@pytest.mark.parametrize("syntax", SYNTAXES)
@pytest.mark.parametrize(
    "line",
    [
        "x" * 1_000_000,
        "# " + " " * 500_000 + "x" + "#" * 500_000,
        "word " * 200_000,
        '""" ' * 250_000,
        "/* " * 300_000,
        "a(b " * 250_000 + "{",
        "export " * 150_000,
        "." * 500_000 + ")" * 500_000,
        "\n".join(" " * (depth % 180) + "x" for depth in range(10_000)),
    ],
    ids=[
        "letters",
        "hashes",
        "words",
        "quotes",
        "comments",
        "parentheses",
        "modifiers",
        "marks",
        "staircase",
    ],
)
def test_a_hostile_text_is_cut_in_linear_time(syntax, line):
    """A megabyte that a pattern could stumble over is cut at once; squared, it would take hours."""
    assert (
        sum(len(piece.text) for piece in cut_into_pieces(line, syntax)) >= len(line) * 0.9
        or "\n" in line
    )


def test_a_passage_of_chinese_costs_about_as_much_as_one_of_english():
    """A character of Chinese is most of a token, so passages of as many characters would cost thrice as much."""
    english = "The tenant pays the rent in advance, and the deposit when the lease begins. "
    chinese = "承租人应在每月五日前预付租金，并在租约开始时支付押金。"
    count = get_counter()
    for whole in ("{0}\n\n", "{0}"):  # as paragraphs, and as one enormous line
        largest = []
        for sentence in (english, chinese):
            text = "".join(whole.format(sentence * 2) for _ in range(60))
            largest.append(max(count(piece.text) for piece in cut_into_pieces(text, Syntax.TEXT)))
        assert 0.6 < largest[0] / largest[1] < 1.6
    rows = "".join(f"{number},{chinese}\n" for number in range(90))
    (part,) = read_csv(f"号码,条款\n{rows}".encode())
    assert max(count(piece.text) for piece in part.pieces) < 512


SETTINGS = {
    "YAML": [
        f'  service{n}:\n    image: img{n}\n    ports:\n      - "{n}:80"\n' for n in range(90)
    ],
    "JSON": [
        f'    {{\n      "name": "user{n}",\n      "roles": [\n        "a"\n      ]\n    }},\n'
        for n in range(90)
    ],
}


@pytest.mark.parametrize("language", SETTINGS)
def test_an_entry_of_settings_is_not_cut_after_its_first_line(language):
    """A key of YAML looks like a label of C, and a brace of JSON like that below a definition."""
    entries = SETTINGS[language]
    pieces = [piece.text for piece in cut_into_pieces("all:\n" + "".join(entries), Syntax.CODE)]
    assert len(pieces) > 2
    for entry in entries:
        assert any(entry.rstrip() in f"    {piece}" for piece in pieces)


def test_a_label_or_a_brace_stays_with_the_line_before():
    """As below the definition of a function of C, and of a part of a class of C++."""
    method = "    int area(int side)\n    {\n        return side * side;\n    }\n"
    members = "".join(f"{method}  public:\n" for _ in range(60))
    starts = {
        piece.text.lstrip()[:7]
        for piece in cut_into_pieces(f"class A {{\n{members}}}\n", Syntax.CODE)
    }
    assert starts == {"class A", "int are"}


def test_a_passage_of_numbers_costs_about_as_much_as_one_of_words():
    """Rows of numbers have twice the tokens of prose of their length. The names of columns are repeated."""
    count = get_counter()
    cells = [
        (f"Region {n}", f"Q{n % 4}", 1_000.5 + n, f"2024-{n % 12 + 1:02}-01") for n in range(300)
    ]
    rows = "".join(f"| {' | '.join(map(str, row))} |\n" for row in cells)
    head = "| region | quarter | amount | date |\n|---|---|---|---|\n"
    table = [piece.text for piece in cut_into_pieces(head + rows, Syntax.MARKDOWN)]
    values = "".join(f"{','.join(map(str, row))}\n" for row in cells)
    (part,) = read_csv(f"region,quarter,amount,date\n{values}".encode())
    for texts in (table, [piece.text for piece in part.pieces]):
        assert all(250 < count(text) < 512 for text in texts[:-1])
        assert all(text.startswith(("| region |", "region,")) for text in texts)


def test_a_row_of_many_numbers_keeps_the_names_of_its_columns():
    """A row is cut only if it is longer than any passage may be."""
    head = "| a | b |\n|---|---|\n"
    row = f"| {' '.join('12' for _ in range(550))} | x |\n"
    pieces = [piece.text for piece in cut_into_pieces(head + row * 3, Syntax.MARKDOWN)]
    assert pieces[-3:] == [f"{head}{row}".rstrip()] * 3
