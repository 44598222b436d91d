"""What state looks like: reprs, tables in notebooks, and the explanation of a context."""

import asyncio
import re
from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from kaosmem import SectionSpec, SessionMemory
from kaosmem.display import comma_list, truncated, visible, width
from tests.contexts import sums_of
from tests.worlds import HOSTILE

MARKUP = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'><b>",
    "&lt;i&gt;<i>",
    "</td></tr></table><h1>",
    "</pre><style>",
    "<!--",
    "\x1b[31mred\x07",
    "right\u202eleft",
    "日本語のテキスト" * 20,
    "👨‍👩‍👧‍👦" * 20,
    "a\u0301\u0302\u0303" * 80,
    "☺️" * 50,
    "हिन्दी पाठ" * 20,
    "زمان\u200cبندی",
    "x" * 5_000,
)
texts = st.one_of(st.sampled_from(MARKUP), st.sampled_from(HOSTILE), st.text(max_size=300))
storable = texts.map(lambda text: text.encode("utf-8", "replace").decode())
item_ids = st.one_of(
    st.sampled_from([text[:256] for text in MARKUP]), st.text(min_size=1, max_size=256)
).map(lambda text: re.sub(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]", "~", text))
section_names = st.text("abAB09._-@:+", min_size=1, max_size=128).map(
    lambda name: f"s{name.replace('..', '-')}"[:128]
)


@st.composite
def memories(draw):
    """Draw a session whose names, ids, roles, metadata and texts are hostile."""
    names = draw(st.lists(section_names, min_size=1, max_size=3, unique=True))
    specs = [
        SectionSpec(
            name,
            draw(st.sampled_from([None, 200])),
            eviction=draw(st.sampled_from(["none", "lru"])),
        )
        for name in names
    ]
    memory = SessionMemory.test_mode(sections=specs, counter="estimate")
    contents = draw(st.lists(storable, min_size=1, max_size=5))
    for item_id, content in zip(
        draw(st.lists(item_ids, min_size=len(contents), max_size=len(contents), unique=True)),
        contents,
        strict=True,
    ):
        section = memory[draw(st.sampled_from(names))]
        if section.budget is None or memory.admin.counter(content) <= section.budget:
            memory.add(
                section.spec.name,
                content,
                id=item_id,
                role=draw(storable),
                pinned=False,
                metadata={"source": content},
            )
    return memory


def assembled(memory, query="clause", budget=300):
    return asyncio.run(memory.assemble_context(query, budget=budget))


class Page(HTMLParser):
    """The tags, styles and text of a piece of HTML; whatever is not closed in order is an error."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.tags = set()
        self.styles = []
        self.text = ""
        self._open = []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        assert {name for name, _ in attrs} <= {"style"}
        self.tags.add(tag)
        self.styles += [value or "" for _, value in attrs]
        self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        self.text += data

    def handle_comment(self, data):
        raise AssertionError(data)

    handle_decl = handle_pi = unknown_decl = handle_comment


TAGS = {"div", "p", "b", "table", "thead", "tbody", "tr", "th", "td", "span", "pre"}
TAGS |= {"details", "summary"}


@given(memories(), storable)
def test_no_stored_text_becomes_markup(memory, query):
    """Whatever ids, roles, metadata, texts and queries hold, the tables have only their own tags and styles."""
    context = assembled(memory, query)
    sections = [memory[spec.name] for spec in memory.sections]
    for each in (memory, context, *sections, *(item for section in sections for item in section)):
        page = Page(each._repr_html_())
        assert page.tags <= TAGS
        assert page.text.replace("\n", "").isprintable() or not re.search(
            r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", page.text
        )
        for style in page.styles:
            assert not re.search(
                r"background:(?!currentColor|none)|(?<!-)\bcolor:|url|expression", style
            )


@given(memories(), storable)
def test_an_explanation_fits_80_columns_and_hides_nothing_from_the_eye(memory, query):
    """Every line is at most 80 columns wide on a terminal, without control characters, one line for each item."""
    context = assembled(memory, query)
    lines = context.explain(misses=3).split("\n")
    assert max(map(cell_len, lines)) <= 80
    assert max(map(width, lines)) <= 80
    assert not any(
        re.search(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]", line) for line in lines
    )
    reasons = [re.sub(r"  (duplicate) of .*", r"  \1", line).rsplit("  ", 1)[-1] for line in lines]
    start = reasons.index("reason") + 1
    included = [context.decision(item.id).reason.value for item in context.items]
    assert reasons[start : start + len(included)] == included
    missed = [decision.reason.value for decision in context.nearest_misses(3)]
    nearest = start + len(included) + 2
    assert reasons[nearest : nearest + len(missed)] == missed


@given(memories())
def test_a_repr_is_one_short_line(memory):
    """However long ids, names, roles and texts are, a repr is one printable line of at most 250 characters."""
    context = assembled(memory)
    sections = [memory[spec.name] for spec in memory.sections]
    for each in (memory, context, *sections, *(item for section in sections for item in section)):
        shown = repr(each)
        assert len(shown) <= 350
        assert width(shown) <= 250
        assert shown == visible(shown)


def corpus(count=40):
    memory = SessionMemory.test_mode()
    memory.add("role", "You are careful.")
    for number in range(count):
        text = f"Clause {number}. Either party may terminate on {number} days' notice."
        memory.add("documents", text, id=f"contracts/{number:02}.md#L1-3")
    return memory


def test_reprs_tell_what_there_is():
    """Names, counts and budgets are in the reprs; what an item says is not."""
    memory = corpus()
    memory.add("messages", "Who may\nterminate?", id="m1", pinned=True)
    assert (
        repr(memory)
        == f"<SessionMemory 'test': {memory.admin.used} tokens; role 1, messages 1, documents 40>"
    )
    assert repr(memory["messages"]) == (
        f"<Section messages: 1 items, {memory['messages'].used} tokens of 32,000, 0 archived, "
        "eviction fifo>"
    )
    assert "unbounded" in repr(memory["documents"])
    assert repr(memory.get("m1")) == "<Item m1 in messages, user, 5 tokens, pinned>"
    assert repr(SessionMemory.test_mode()) == "<SessionMemory 'test': 0 tokens; empty>"
    context = assembled(memory)
    held = len(context.items) - 2
    assert (
        repr(context)
        == f"<Context text: {context.used} of 300 tokens; role 1, messages 1, documents {held}>"
    )


def test_tables_are_bounded_however_much_there_is():
    """Of 2,000 items a section shows the newest ten and how many are older; a context its first and how many more."""
    memory = corpus(2_000)
    page = memory["documents"]._repr_html_()
    assert "… and 1,990 older" in page
    assert "Clause 1999." in page
    assert "Clause 1989." not in page
    context = assembled(memory, "notice", budget=40_000)
    assert len(context.items) > 1_000
    shown = context._repr_html_()
    assert f"… and {len(context.items) - 30:,} more" in shown
    assert max(map(len, (page, memory._repr_html_(), shown))) < 40_000
    long = memory.add("documents", "word " * 100_000, metadata={"source": "s" * 10_000})
    assert "… and 498,000 more characters" in long._repr_html_()
    assert len(long._repr_html_()) < 4_000


def test_an_explanation_s_sums_add_up_and_its_rows_are_aligned():
    """Used and section tokens are those of the context; every number of a column ends in the same place."""
    context = assembled(corpus())
    report = context.explain(misses=2)
    sums = {name: used for name, used, _ in sums_of(report)}
    assert sums.pop("budget") == sum(sums.values()) == context.budget
    assert context.budget - sums["(free)"] == context.used == int(report.split()[0])
    assert "query: clause" in report
    decisions = report[report.index("\n\nsection") :]
    rows = [
        line
        for line in decisions.splitlines()
        if line.startswith(("section ", "role ", "documents "))
    ]
    assert len(rows) == 1 + len(context.items) + 2
    for column in ("rank", "score", "tokens"):
        end = rows[0].index(column) + len(column)
        assert all(row[end - 1] != " " and row[end] == " " for row in rows)
    width = rows[0].index("rank") - rows[0].index("item") - 2
    for item in context.items:
        assert context.decision(item.id).summary(width) in report
        assert item.text[:4] in report
    assert "nearest misses, 2 of " in report


def test_a_decision_tells_its_item_by_source_key_or_given_id_and_its_text():
    """An id that was made at random is not shown; the decision has it."""
    memory = SessionMemory.test_mode()
    made = memory.add("findings", "Ann owns the deal.")
    memory.add(
        "findings",
        "The notice period\nis two months.",
        metadata={"source": "msa.md", "lines": [3, 9]},
    )
    memory.add("findings", "The rent is due.", key="rent")
    memory.add("findings", "Bob left.", id="f-1")
    context = assembled(memory, "who?")
    summaries = {decision.summary() for decision in context.decisions}
    assert summaries == {
        "Ann owns the deal.",
        "msa.md:3-9 The notice period is two months.",
        "rent The rent is due.",
        "f-1 Bob left.",
    }
    assert made.id not in context.explain() + context._repr_html_()
    assert context.decision(made.id).item_id == made.id


@given(texts | st.sampled_from(["𝌀" * 9, "䷀䷿", "☰"]), st.integers(1, 100), st.data())
def test_fitted_text_is_no_wider_than_its_room(text, columns, data):
    """It is at most so wide for us and for rich, holds nothing a terminal obeys, and is the text if that fits."""
    tail = data.draw(st.integers(0, columns - 1))
    shown = truncated(text, columns, tail=tail)
    assert cell_len(shown) <= width(shown) <= columns
    assert len(shown) <= 2 * columns
    assert visible(shown) == shown
    if text.isascii() and text.isprintable():
        assert shown == (
            text
            if len(text) <= columns
            else text[: columns - tail - 1] + "…" + text[len(text) - tail :]
        )


def test_what_changes_the_reading_of_a_line_is_shown_as_an_escape():
    """Escapes, bells, bidirectional overrides and lone surrogates are spelt out; joiners and letters stay."""
    assert visible("\x1b[1m\x07\u202e\ud800") == r"\x1b[1m\x07\u202e\ud800"
    assert (
        visible("a\ufe01\u3164\U000e0100\U000e0041❤️") == r"a\ufe01\u3164\U000e0100\U000e0041" + "❤️"
    )
    assert visible("زمان\u200cبندی 日本") == "زمان\u200cبندی 日本"
    assert comma_list(["a", "b", "c"], 2) == "a, b, 1 more"
