"""Documents, tables, pages and mail: real files, written by the libraries that people use, read back."""

import asyncio
import csv
import errno
import gzip
import io
import json
import re
import sys
import zipfile
import zlib
from datetime import date
from email.message import EmailMessage
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaosmem import SessionMemory
from kaosmem.arguments import check_json, check_text
from kaosmem.corpora import InMemoryCorpus, ingest_files
from kaosmem.errors import MissingFileError
from kaosmem.ingest.listing import find_files
from kaosmem.ingest.office import read_csv
from kaosmem.ingest.passages import read_passages
from kaosmem.ingest.web import html_text
from kaosmem.names import check_item_id
from kaosmem.persistence.storage.objects import IsolatedMemoryFileSystem
from tests.lazily import Lazy

docx = Lazy("docx")
openpyxl = Lazy("openpyxl")
pptx = Lazy("pptx")
fpdf = Lazy("fpdf")


def read(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    (reading,) = read_passages(find_files(path)[0])
    assert len({check_item_id(passage.id) for passage in reading.passages}) == len(reading.passages)
    for passage in reading.passages:
        assert check_text(passage.text, "text").strip()
        check_json(passage.metadata, "metadata")
    return reading


def why(folder, name, content):
    reading = read(folder, name, content)
    assert reading.passages == []
    (skipped,) = reading.skipped
    return skipped.why


def a_pdf(pages, **protection):
    pdf = fpdf.FPDF()
    for number, text in enumerate(pages, 1):
        pdf.add_page()
        pdf.set_font("Helvetica", size=12)
        if text:
            pdf.start_section(f"Part {number}")
            pdf.multi_cell(0, text=text)
    if protection:
        pdf.set_encryption(**protection)
    return bytes(pdf.output())


def saved(document):
    stream = io.BytesIO()
    document.save(stream)
    return stream.getvalue()


def a_docx():
    document = docx.Document()
    document.add_heading("Master Agreement", 1)
    document.add_paragraph("The parties agree on the following. " * 40)
    document.add_heading("Termination", 2)
    document.add_paragraph("Either party may terminate on ninety days' notice. " * 30)
    table = document.add_table(2, 2)
    for cell, text in zip(table._cells, ("Fee", "Due", "500", "monthly"), strict=True):
        cell.text = text
    return saved(document)


def a_pptx():
    presentation = pptx.Presentation()
    for title, text in (("Plan", "Grow in Asia"), ("Budget", "Ten million")):
        slide = presentation.slides.add_slide(presentation.slide_layouts[1])
        slide.shapes.title.text = title
        slide.placeholders[1].text = text
    slide.notes_slide.notes_text_frame.text = "Say it slowly"
    return saved(presentation)


def edited(data, *changes):
    """Return a zipped document in which texts stand for those of patterns."""
    written = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(data)) as before,
        zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as after,
    ):
        for name in before.namelist():
            member = before.read(name)
            for pattern, text in changes:
                member = re.sub(pattern, text, member)
            after.writestr(name, member)
    return written.getvalue()


def an_xlsx():
    workbook = openpyxl.Workbook()
    sheet = workbook.active
    sheet.title = "Q3 Costs"
    sheet.append(["item", "euros"])
    for number in range(200):
        sheet.append([f"part {number}", number])
    workbook.create_sheet("Empty")
    return saved(workbook)


def a_mail():
    message = EmailMessage()
    message["From"], message["To"] = "Anna Karp <anna@example.org>", "bo@example.org"
    message["Subject"], message["Date"] = "Lease", "Fri, 15 Mar 2024 10:00:00 +0100"
    message.set_content("The lease ends in May.")
    message.add_attachment(b"x", maintype="application", subtype="pdf", filename="lease.pdf")
    return message.as_bytes()


def test_pdf_passages_know_their_page(tmp_path):
    """The number is metadata and part of the id; entries of the outline are titles."""
    first, second = read(
        tmp_path, "msa.pdf", a_pdf(["The notice is ninety days.", "The fee is five euros."])
    ).passages
    assert (first.id, first.metadata["page"], first.metadata["title"]) == (
        "msa.pdf#p1",
        1,
        "Part 1",
    )
    assert (second.id, second.metadata["page"]) == ("msa.pdf#p2", 2)
    assert "The fee is five euros." in second.text


def test_pdf_without_text_or_password_says_so(tmp_path):
    """A scan needs OCR; a document that only restricts printing is read, one with a password is not."""
    assert why(tmp_path, "scan.pdf", a_pdf([""])) == "no text: it needs OCR first"
    for method in (fpdf.enums.EncryptionMethod.RC4, fpdf.enums.EncryptionMethod.AES_256):
        open_to_all = a_pdf(
            ["Printing is forbidden."], owner_password="o", encryption_method=method
        )
        assert "Printing is forbidden." in read(tmp_path, "open.pdf", open_to_all).passages[0].text
        closed = a_pdf(["Secret."], owner_password="o", user_password="u", encryption_method=method)
        assert (
            why(tmp_path, "closed.pdf", closed) == "password-protected: save it without a password"
        )


def test_pdf_that_expands_too_far_is_refused(tmp_path):
    """A file of 9,000 bytes, whose page has four million, is skipped before its text is laid out."""
    stream = zlib.compress(b"BT /F 9 Tf " + b"(hello) Tj " * 400_000 + b"ET")
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R>>",
        b"<</Length %d/Filter/FlateDecode>>stream\n%b\nendstream" % (len(stream), stream),
    ]
    body = b"".join(b"%d 0 obj%bendobj\n" % each for each in enumerate(objects, 1))
    pdf = b"%PDF-1.4\n" + body + b"trailer<</Size 5/Root 1 0 R>>\nstartxref\n0\n%%EOF"
    assert why(tmp_path, "bomb.pdf", pdf).startswith("too large: expands to more than 1,")


def test_a_word_document_has_its_headings_and_tables(tmp_path):
    """Headings are titles, and the innermost is shown in labels."""
    passages = read(tmp_path, "msa.docx", a_docx()).passages
    assert passages[-1].metadata["title"] == "Master Agreement > Termination"
    assert passages[-1].metadata["heading"] == "Termination"
    text = "\n".join(passage.text for passage in passages)
    assert "ninety days' notice" in text
    assert "| 500 | monthly" in text


def test_slides_have_numbers_titles_and_notes(tmp_path):
    """Each slide is a passage."""
    first, second = read(tmp_path, "deck.pptx", a_pptx()).passages
    assert (first.id, first.metadata["slide"], first.metadata["title"]) == (
        "deck.pptx#slide1",
        1,
        "Plan",
    )
    assert second.text.split("\n\n") == ["Budget", "Ten million", "Notes: Say it slowly"]


def test_sheets_are_rows_under_their_names(tmp_path):
    """Each passage begins with the columns' names, and says which rows of which sheet it has."""
    passages = read(tmp_path, "costs.xlsx", an_xlsx()).passages
    assert len(passages) > 1
    assert all(passage.text.startswith("item | euros\npart ") for passage in passages)
    assert {passage.metadata["sheet"] for passage in passages} == {"Q3 Costs"}
    assert passages[0].metadata["lines"][0] == 2
    assert passages[-1].metadata["lines"][1] == 201
    assert "part 199 | 199" in passages[-1].text


@pytest.mark.parametrize("value", [b"", b"0"])
def test_a_formula_that_nothing_has_computed_is_shown_itself(value, tmp_path):
    """A workbook that a program wrote has no values of formulas, or 0; its sums are not left out."""
    workbook = openpyxl.Workbook()
    workbook.active.append(["month", "euros"])
    workbook.active.append([date(2024, 5, 1), 0])
    workbook.active.append(["Sum", "=SUM(B2:B2)"])
    workbook.active.append(["Each", openpyxl.worksheet.formula.ArrayFormula("B4", "=B2:B2*2")])
    written = edited(saved(workbook), (rb"<v></v>", b"<v>%b</v>" % value))
    (passage,) = read(tmp_path, "costs.xlsx", written).passages
    assert passage.text == "month | euros\n2024-05-01 | 0\nSum | =SUM(B2:B2)\nEach | =B2:B2*2"


@pytest.mark.parametrize("stated", ["A1", "A1:XFD1048576"])
def test_a_sheet_is_read_whatever_its_program_states_of_it(stated, tmp_path):
    """Many programs write no settings of calculation, or a size that is less than the sheet, or the largest one."""
    workbook = openpyxl.Workbook()
    workbook.active.append(["month", "euros"])
    workbook.active.append(["May", 900])
    size = (rb'<dimension ref="[^"]+"', f'<dimension ref="{stated}"'.encode())
    data = edited(saved(workbook), (rb"<calcPr[^>]*/>", b""), size)
    (passage,) = read(tmp_path, "costs.xlsx", data).passages
    assert passage.text == "month | euros\nMay | 900"


def with_member(data, name, text):
    """Return a zipped document with one more member."""
    written = io.BytesIO(data)
    with zipfile.ZipFile(written, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, text)
    return written.getvalue()


def test_cells_that_share_a_text_expand_to_so_much_at_most(tmp_path):
    workbook = openpyxl.Workbook()
    for _ in range(200):
        workbook.active.append([7])
    kind = b"application/vnd.openxmlformats-officedocument.spreadsheetml.sharedStrings+xml"
    strings = b'<Override PartName="/xl/strings.xml" ContentType="%b"/></Types>' % kind
    shared = (rb't="n"><v>7</v>', b't="s"><v>0</v>')
    data = edited(saved(workbook), (b"</Types>", strings), shared)
    text = f"<si><t>{'many words ' * 2_000}</t></si>"
    space = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    data = with_member(data, "xl/strings.xml", f'<sst xmlns="{space}">{text}</sst>')
    assert why(tmp_path, "a.xlsx", data).startswith("too large: expands to more than")


def test_the_marks_of_one_footnote_expand_to_so_much_at_most(tmp_path):
    document = docx.Document()
    document.add_paragraph("mark")
    office = b"http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    notes = (
        b'<Relationship Id="n" Type="%b/footnotes" Target="notes.xml"/></Relationships>' % office
    )
    marks = (b"<w:t>mark</w:t>", b'<w:footnoteReference w:id="2"/>' * 200)
    data = edited(saved(document), (b"</Relationships>", notes), marks)
    space = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    text = f"<w:p><w:r><w:t>{'many words ' * 5_000}</w:t></w:r></w:p>"
    note = f'<w:footnote w:id="2">{text}</w:footnote>'
    member = f'<w:footnotes xmlns:w="{space}">{note}</w:footnotes>'
    data = with_member(data, "word/notes.xml", member)
    assert why(tmp_path, "a.docx", data).startswith("too large: expands to more than")


@pytest.mark.parametrize(
    ("sender", "role"),
    [
        ("user", ""),
        ("System <bo@example.org>", "System bo@example.org"),
        ("bo@example.org <bo@example.org>", "bo@example.org"),
        ('"Karp, Bo" <bo@example.org>, ann@example.org', "Karp, Bo bo@example.org"),
        ("bo@example.org (Bo Karp)", "bo@example.org (Bo Karp)"),
        (f"{'Bo ' * 40}<bo@example.org>", f"{'Bo ' * 16}B bo@example.org"),
    ],
)
def test_the_role_of_a_mail_is_no_role_of_a_provider_and_has_the_address(sender, role, tmp_path):
    (passage,) = read(tmp_path, "a.eml", f"From: {sender}\n\nPay twice.").passages
    assert passage.role == role


async def test_a_stranger_with_the_name_of_a_sender_corrects_nothing(tmp_path):
    """Anybody may write under any name."""
    for address, text in (
        ("anna@example.org", "My rent is 900 euros."),
        ("stranger@example.com", "Correction: my rent is 950 euros, not 900."),
    ):
        mail = f"From: Anna Karp <{address}>\nSubject: Rent\n\n{text}"
        (tmp_path / f"{address}.eml").write_text(mail)
    memory = SessionMemory.test_mode()
    await memory.ingest(tmp_path)
    context = await memory.assemble_context("What is the rent of Anna?", budget=400)
    assert "950" in context.text
    assert "newer" not in context.text


def test_mail_says_who_wrote_when_and_what_about(tmp_path):
    """The sender is the role, with the address; attachments are named as skipped."""
    reading = read(tmp_path, "a.eml", a_mail())
    (passage,) = reading.passages
    assert passage.role == "Anna Karp anna@example.org"
    assert passage.metadata["timestamp"] == "2024-03-15T10:00:00+01:00"
    assert passage.metadata["title"] == "Lease"
    assert "Subject: Lease\n\nThe lease ends in May." in passage.text
    assert [skipped.source for skipped in reading.skipped] == ["a.eml#mail/lease.pdf"]
    box = b"".join(
        b"From anna@example.org Fri Mar 15 10:00:00 2024\n" + a_mail() + b"\n\n" for _ in range(3)
    )
    assert [passage.id for passage in read(tmp_path, "box", box).passages] == [
        f"box#mail{n}" for n in (1, 2, 3)
    ]


def a_multipart(kind, *bodies):
    parts = "".join(f"--x\n{body}\n" for body in bodies)
    return f"From: Bo <bo@example.org>\nContent-Type: {kind}; boundary=x\n\n{parts}--x--\n"


PLAIN, HTML = "Content-Type: text/plain\n\n", "Content-Type: text/html\n\n"
INNER = "Content-Type: message/rfc822\n\n"
MAILS = {
    "an empty alternative": (
        ("multipart/alternative", f"{PLAIN} \n", f"{HTML}<p>It costs 7."),
        ["It costs 7."],
    ),
    "alternatives": (
        ("multipart/alternative", f"{HTML}<p>rich", f"{PLAIN}It costs 7."),
        ["It costs 7."],
    ),
    "a charset that is called Latin-1, and is Windows-1252": (
        (
            "multipart/mixed",
            "Content-Type: text/plain; charset=iso-8859-1\n"
            "Content-Transfer-Encoding: quoted-printable\n\nIt costs 7 =80.",
        ),
        ["It costs 7 €."],
    ),
    "a text around an image": (
        (
            "multipart/mixed",
            f"{PLAIN}See here:",
            "Content-Type: image/png\n\nx",
            f"{PLAIN}It costs 7.",
        ),
        ["See here:", "It costs 7."],
    ),
    "a forwarded message": (
        (
            "multipart/mixed",
            f"{PLAIN}See below.",
            f"{INNER}Subject: Price\nFrom: Cy\n\nIt costs 7.",
        ),
        ["See below.", "From: Cy\nSubject: Price", "It costs 7."],
    ),
}


@pytest.mark.parametrize("kind", MAILS)
def test_each_text_of_a_mail_is_read(kind, tmp_path):
    """Of alternatives one is read that has text; every other text is read, also of a forwarded message."""
    written, texts = MAILS[kind]
    (passage,) = read(tmp_path, "a.eml", a_multipart(*written)).passages
    assert passage.text == "\n\n".join(["From: Bo <bo@example.org>", *texts])


def test_html_is_read_without_tags_scripts_and_styles(tmp_path):
    """Headings become titles, and labels show the last of them."""
    page = """<!DOCTYPE html><html><head><title>Guide</title><style>p {}</style>
<script>if (a < b) { "</p>" }</script></head>
<body><h2 title="a > b">Fees &amp; more</h2>
<p>It's <b>five</b>
euros.</p><pre># no heading
code</pre><ul><li>one<li>two</ul><table><tr><td>a<td>b</table></body></html>"""
    (passage,) = read(tmp_path, "a.html", page).passages
    assert passage.text == (
        "# Guide\n\n## Fees & more\n\nIt's five euros.\n\n```\n# no heading\ncode\n```\n\n- one\n- "
        "two\n\n| a | b"
    )
    assert passage.metadata["title"] == "Guide > Fees & more"
    assert passage.metadata["heading"] == "Fees & more"


TAGS = [
    "<",
    ">",
    "<p",
    "<b>",
    "</b>",
    "<!--",
    "-->",
    "'",
    '="',
    "<script>",
    "</script",
    "<td>",
    "<th>",
    "</tr>",
    "<p hidden>",
    "x",
    " ",
]
OPEN_TAGS = [
    "<!--",
    "<a ",
    "<a x='",
    "<a x=\">'",
    "</",
    "<![",
    "<script>",
    "&",
    "<td>y",
    "<td><p>y",
    "<tr><th>y<th>",
    "<div hidden><p>y</i>",
    "<p hidden a= a=",
    "<title>a<b>",
    "<table><tr><td rowspan=999 colspan=999>x<tr><td>",
]


HIDDEN = {
    "<div hidden><div>SECRET</div>SECRET<script>'</div>'</script>SECRET</div>shown": "shown",
    "<template><p>SECRET<template>SECRET</template>SECRET</template>shown": "shown",
    "<p>a <SPAN STYLE='color:red; display : none'>SECRET</SPAN>b</p>": "a b",
    "<p hidden>SECRET<p>shown": "shown",
    "<ul><li hidden>SECRET<ul><li>SECRET<li>SECRET</ul><li>shown</ul>": "- shown",
    "<ul><li hidden>SECRET</ul><p>shown": "shown",
    "<table><tr hidden><td>SECRET<tr><td>shown<td>b</table>": "| shown | b",
    "<form>a<input type=hidden><input hidden>b</form>": "ab",
    "<div title='hidden display:none' aria-hidden=true data-hidden>shown</div>": "shown",
    "<div hidden='until-found'>a</div><div role=tabpanel hidden>b</div>": "a\n\nb",
    "<html hidden><body style='display:none'>shown</body>": "shown",
    "<h2>Fees<a class=headerlink href=#fees>¶</a></h2>": "## Fees",
}


@pytest.mark.parametrize("html", HIDDEN)
def test_hidden_html_is_left_out(html):
    """Text that a reader of the page can't see is left out, and nothing after it."""
    assert html_text(html) == HIDDEN[html]


TABLES = {
    "<tr><th>a<br>b<th><p>c</p><p>d</p><tbody><tr><td>1<td>2": "| a b | c d\n| --- | --- |\n| 1 | 2",
    "<thead><tr><th></th><th>2024</th></tr></thead><tbody><tr><th>Sum</th><td>5</td></tr>"
    "<tr><td></td><td></td></tr><tr><td></td><td>6</td></tr>": "|  | 2024\n| --- | --- |\n| Sum | 5\n|  | 6",
    "<tr><th>Name</th><td>Ann</td></tr><tr><th>City</th><td>Ulm</td></tr>": "| Name | Ann\n| City | Ulm",
    "<tr><th rowspan=2>City<th colspan=2>Price<tr><th>low<th>high<tr><td>Ulm<td>1<td>2": (
        "| City | Price | Price\n| --- | --- | --- |\n| City | low | high\n| Ulm | 1 | 2"
    ),
    "<tr><td rowspan=2>Ulm<td>2020<tr><td>2021<tr><td rowspan=0>Bonn<td rowspan=x>2020": (
        "| Ulm | 2020\n| Ulm | 2021\n| Bonn | 2020"
    ),
    "<tr><th>Item<th>Price<th>Left<tr><td colspan=2>Sold out<td>0<tr><th colspan=3>Tea": (
        "| Item | Price | Left\n| --- | --- | --- |\n| Sold out |  | 0\n| Tea |  |"
    ),
    "<caption>Prices</caption><tr><td>a<br>b<td><ul><li>1<li>2": "Prices\n| a b | * 1 * 2",
    "<tr><td><p>In a</p><p>box</p>": "In a\n\nbox",
    f"<tr><td>Home<td><p>{'A page. ' * 400}</p><p>Ends": f"Home\n\n{'A page. ' * 400}".strip()
    + "\n\nEnds",
    "<tr><td><h1>Order</h1><p>Hello</p><table><tr><th>Item<th>Price<tr><td>Tea<td>3</table><p>Bye": (
        "# Order\n\nHello\n\n| Item | Price\n| --- | --- |\n| Tea | 3\n\nBye"
    ),
}


@pytest.mark.parametrize("html", TABLES)
def test_columns_of_html_keep_their_names(html):
    """A row of `th` names the columns, and an empty cell moves no value under another name.

    What stands in a table that only places things is read as elsewhere.
    """
    assert html_text(f"<table>{html}</table>") == TABLES[html]


def test_each_passage_of_a_long_html_table_names_the_columns(tmp_path):
    """A table of a page, or of a Word document whose heading row is marked, is cut as one of Markdown is."""
    rows = "".join(f"<tr><td>ware {number}</td><td>{number}</td></tr>" for number in range(300))
    page = (
        f"<table><thead><tr><th>item</th><th>euros</th></tr></thead><tbody>{rows}</tbody></table>"
    )
    passages = read(tmp_path, "prices.html", page).passages
    assert len(passages) > 3
    assert all(passage.text.startswith("| item | euros\n") for passage in passages)


@given(st.lists(st.sampled_from(TAGS)))
def test_any_html_is_read(parts):
    """Whatever is left open, reading ends, and a text without tags stays."""
    html_text("".join(parts))
    words = [part for part in parts if part in ("x", " ")]
    assert html_text("".join(words)).split() == "".join(words).split()


@pytest.mark.timed
def test_a_line_of_blanks_in_a_pdf_is_read_in_linear_time(tmp_path):
    """In quadratic time it takes over 25 s."""
    pdf = fpdf.FPDF()
    pdf.add_page()
    pdf.set_font("helvetica", size=8)
    pdf.text(1, 1, " " * 200_000 + "end")
    (tmp_path / "a.pdf").write_bytes(pdf.output())
    start = process_time()
    (reading,) = read_passages(find_files(tmp_path)[0])
    assert process_time() - start < 5
    assert reading.passages[-1].text.endswith("end")


@pytest.mark.timed
@pytest.mark.parametrize(
    ("name", "part"),
    [
        *(("a.html", part) for part in OPEN_TAGS),
        *(("a.csv", part) for part in ('"', ",", 'a,"b\n')),
        *(
            ("a.eml", part)
            for part in ("From: a <", 'To: "', "Subject: =?utf-8?q?", "To: a@b.c,\n ", "Date: ")
        ),
        ("a.mbox", "From x 2024\n"),
        ("a.md", "# x\n"),
        ("a", "\n."),
    ],
)
def test_a_hostile_file_is_read_in_linear_time(name, part, tmp_path):
    """A file of 200,000 characters that are left open is read at once; in quadratic time it takes over 10 s."""
    start = process_time()
    read(tmp_path, name, part * (200_000 // len(part)))
    assert process_time() - start < 5


@pytest.mark.parametrize("name", ["ls.1", "a.man", "a.pod"])
def test_manual_pages_are_text_as_they_are(name, tmp_path):
    """Macros of roff and commands of POD stay, and lines are those of the file."""
    page = ".TH LS 1\n.SH NAME\nls \\- list\n.BR dir (1),\n\n=head1 USE\n\nB<ls> lists.\n"
    (passage,) = read(tmp_path, name, page).passages
    assert passage.text == page.strip()
    assert passage.metadata["lines"] == [1, 8]


def test_a_notebook_is_read_by_cells(tmp_path):
    """Code and Markdown are passages with the cell's number, outputs too where they are text."""
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "Words."]},
        {
            "cell_type": "code",
            "source": "print(1)",
            "outputs": [
                {"output_type": "stream", "text": "1\n"},
                {"output_type": "display_data", "data": {"image": "x"}},
            ],
        },
    ]
    passages = read(tmp_path, "n.ipynb", json.dumps({"cells": cells})).passages
    assert [(passage.id, passage.text, passage.metadata["cell"]) for passage in passages] == [
        ("n.ipynb#cell1", "# Title\nWords.", 1),
        ("n.ipynb#cell2", "print(1)", 2),
        ("n.ipynb#cell2-output", "1", 2),
    ]


cells = st.text(st.characters(codec="utf-8", exclude_characters="\0\r\ufeff"), max_size=12)
tables = st.lists(st.lists(cells, min_size=2, max_size=4), min_size=1, max_size=40)


@given(tables, st.sampled_from(",;\t|"))
def test_every_row_of_a_table_is_in_a_passage_with_the_names(rows, delimiter):
    """Rows keep their text and order, and each passage begins with the names of the columns."""
    names = ["name", *(f"column {number}" for number in range(3))]
    stream = io.StringIO()
    writer = csv.writer(stream, delimiter=delimiter, lineterminator="\n")
    writer.writerows([names, *rows])
    (part,) = read_csv(stream.getvalue().encode())
    pieces = list(part.pieces)
    top = delimiter.join(names) + "\n"
    if any("".join(row).strip() for row in rows):
        assert all(piece.text.startswith(top) for piece in pieces)
    body = "".join(piece.text.removeprefix(top) for piece in pieces)
    for row in rows:
        for cell in row:
            assert "".join(cell.replace('"', '""').split()) in "".join(body.split()) or '"' in cell


@pytest.mark.parametrize(
    "top",
    [
        [["Sales of 2026, in thousand euros"], [], ["region", "quarter", "revenue"]],
        [["product", 2024, 2025]],
        [[None, 2026, 2025]],
        [[None, None, "region", "revenue"]],
        [["Sales"], ["x" * 390], ["region", "revenue"]],
    ],
)
def test_a_sheet_has_its_names_below_a_title_and_beside_empty_cells(top, tmp_path):
    """Each passage has the names of the columns, also years, and the title, which may have the unit."""
    workbook = openpyxl.Workbook()
    for row in [*top, *(["", f"a value {number}", number, 7.5] for number in range(200))]:
        workbook.active.append(row)
    passages = read(tmp_path, "a.xlsx", saved(workbook)).passages
    first = " | ".join(map(str, [cell or "" for cell in top[0]])) + "\n"
    names = " | ".join(map(str, [cell or "" for cell in top[-1]])) + "\n"
    rows = [passage for passage in passages if "a value" in passage.text]
    assert len(rows) > 3
    assert all(names in passage.text for passage in rows)
    assert all(len(passage.text) <= 2_000 for passage in passages)
    is_short = sum(map(len, map(str, top))) < 390
    assert all(passage.text.startswith(first) for passage in rows if is_short)
    assert passages[0].text.startswith(first)


@pytest.mark.parametrize("first", ["Ann,1990", "Ann,1990,1995", "1,2", "a,,b", "a,a"])
def test_a_first_row_of_values_is_no_row_of_names(first, tmp_path):
    """Values are not repeated above other values."""
    text = f"{first}\n" + "Bob,1985,1986\n" * 200
    passages = read(tmp_path, "a.csv", text).passages
    assert len(passages) > 1
    assert sum(passage.text.count(first) for passage in passages) == 1


def test_a_wide_or_broken_table_is_read(tmp_path):
    """With long names, or in a huge row, each value follows its name; a quote left open costs nothing."""
    names = [f"a column with a long name {number}" for number in range(40)]
    wide = read(tmp_path, "wide.csv", ",".join(names) + "\n" + ",".join("7" * 40) + "\n")
    assert "a column with a long name 39: 7" in "".join(passage.text for passage in wide.passages)
    huge = read(tmp_path, "huge.csv", "a,b\n1," + "word " * 60_000 + "\n2,3\n")
    assert sum(passage.text.count("word") for passage in huge.passages) == 60_000
    assert max(len(passage.text) for passage in huge.passages) <= 2_000
    broken = read(tmp_path, "broken.csv", 'a,b\n1,"x\n' + "2,3\n" * 50_000)
    assert sum(passage.text.count("2,3") for passage in broken.passages) == 50_000


MAKERS = {
    "a.pdf": lambda: a_pdf(["One page of text.", "Another."]),
    "a.docx": a_docx,
    "a.pptx": a_pptx,
    "a.xlsx": an_xlsx,
    "a.eml": a_mail,
    "a.txt.gz": lambda: gzip.compress(b"A text. " * 500),
}


@pytest.mark.parametrize("name", MAKERS)
def test_a_damaged_document_is_read_in_part_or_skipped(name, tmp_path):
    """However it is cut off or garbled, reading ends without an error."""
    whole = MAKERS[name]()
    for share in (0.1, 0.5, 0.9, 0.99):
        cut = int(len(whole) * share)
        read(tmp_path, name, whole[:cut])
        read(
            tmp_path, name, whole[:cut] + bytes(reversed(whole[cut : cut + 40])) + whole[cut + 40 :]
        )


@pytest.mark.parametrize("name", ["a.pdf", "a.docx", "a.pptx", "a.xlsx", "a.html"])
def test_without_the_extra_the_remedy_is_named(name, tmp_path, monkeypatch):
    """The file is skipped, and all others are read."""
    document = {**MAKERS, "a.html": lambda: "<p>A page.</p>"}[name]()
    for package in ("pypdf", "mammoth", "pptx", "openpyxl", "turbohtml"):
        monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, "kaosmem.ingest.pdf", raising=False)
    for kind in __import__("kaosmem.ingest.kinds").ingest.kinds.KINDS:
        kind.__dict__.pop("reader", None)
    assert why(tmp_path, name, document) == "needs the extra 'docs': pip install 'kaosmem[docs]'"
    with pytest.raises(MissingFileError, match="needs the extra 'docs': pip install"):
        asyncio.run(SessionMemory.test_mode().ingest(tmp_path))


async def test_labels_show_pages_sheets_slides_and_headings(tmp_path):
    """The place in a source stands in its label, so that an answer can be looked up."""
    for name, make in MAKERS.items():
        (tmp_path / name.replace("a.", "msa.")).write_bytes(make())
    memory = SessionMemory.test_mode()
    await memory.ingest(tmp_path)
    text = (await memory.assemble_context("text", budget=20_000)).text
    for label in (
        "[msa.pdf p. 1] ",
        "[:p. 2] ",
        "[msa.pptx slide 1] ",
        "[msa.docx § ",
    ):
        assert label in text
    assert "[msa.xlsx Q3_Costs:2-" in text


async def test_the_second_run_says_what_is_true(tmp_path):
    """Each file is counted once: what could not be read is never new, what was touched alone is unchanged."""
    for number in range(16):
        (tmp_path / f"{number}.txt").write_text(f"Text {number}.\n")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9 \xe9\xe8")
    (tmp_path / "blank.txt").write_text(" \n")
    memory = SessionMemory.test_mode()
    report = await memory.ingest(tmp_path)
    assert (len(report.new), len(report.skipped)) == (16, 2)
    assert {skipped.source: skipped.reason for skipped in report.skipped} == {
        "latin.txt": "not UTF-8",
        "blank.txt": "no text",
    }
    (tmp_path / "0.txt").write_text("Text 0.\n")
    report = await memory.ingest(tmp_path)
    assert repr(report) == "IngestReport(16 unchanged, 2 skipped; items: 0 added, 0 removed)"


@pytest.mark.parametrize("into", ["session", "corpus"])
async def test_a_folder_that_cannot_be_listed_keeps_its_passages(into, monkeypatch):
    """A drive or bucket that fails for a moment takes nothing away, and the report names the folder."""
    filesystem = IsolatedMemoryFileSystem()
    for path in ("a.md", "sub/b.md", "sub/deep/c.md", "subway/d.md"):
        filesystem.pipe_file(f"/{path}", b"# Some text")
    memory = SessionMemory.test_mode()
    corpus = InMemoryCorpus()

    async def ingest():
        if into == "session":
            return await memory.ingest(filesystem)
        return await ingest_files(filesystem, corpus, workers=0)

    await ingest()
    filesystem.rm_file("/subway/d.md")
    listed = IsolatedMemoryFileSystem.ls

    def failing(self, path, **options):
        if path.strip("/") == "sub":
            raise OSError(errno.EIO, "Input/output error")
        return listed(self, path, **options)

    with monkeypatch.context() as patch:
        patch.setattr(IsolatedMemoryFileSystem, "ls", failing)
        report = await ingest()
    assert (report.unchanged, report.vanished) == (("a.md",), ("subway/d.md",))
    assert [each.source for each in report.skipped] == ["sub/"]
    report = await ingest()
    assert report.unchanged == ("a.md", "sub/b.md", "sub/deep/c.md")
    assert (report.items_added, report.items_removed) == (0, 0)


async def test_of_a_file_that_has_changed_in_part_the_version_is_known(tmp_path):
    """After one of its passages has changed, it is not read again until it changes again."""
    paragraphs = [f"Paragraph {number}. " + "word " * 200 for number in range(5)]
    path = tmp_path / "a.txt"
    path.write_text("\n\n".join(paragraphs))
    memory = SessionMemory.test_mode()
    read_again = list[str]()
    await memory.ingest(tmp_path)
    for place in (3, 0):
        path.write_text(
            "\n\n".join(
                [*paragraphs[:place], "Changed. " + "word " * 200, *paragraphs[place + 1 :]]
            )
        )
        report = await memory.ingest(tmp_path)
        assert (report.changed, report.unchanged) == (("a.txt",), ())
        report = await memory.ingest(
            tmp_path, progress=lambda source, *_: read_again.append(source)
        )
        assert (report.unchanged, read_again) == (("a.txt",), [])
