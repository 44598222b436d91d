"""Corrections: an item is shown only with the later ones that give its subject another value."""

import asyncio
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from benchmarks.bench_corrections import labelled_pairs, measured
from kaosmem import BM25Ranker, Item, Reason, SectionSpec, SessionMemory, WindowTooSmallError
from kaosmem.formats import get_format
from kaosmem.language.corrections import Corrections, may_correct
from kaosmem.language.statements import are_of_one_subject, statements
from kaosmem.types.content import Trust
from tests.worlds import formats

SUBJECTS = (
    "the launch of Apollo is planned for day",
    "all method names in our code end with",
    "rent of the flat is now",
)
VALUES = ("12", "14", "'_x'", "'_md'", "950", "total_sum")
FILLERS = ("Thanks!", "Good morning, how are you?", "The weather is fine today.", "See you.")
TOLD_AT = datetime(2026, 1, 1, tzinfo=UTC)
ASKED = ("launch of Apollo", "method names in code", "rent of the flat", "weather", "")


def told(text, role="Emi", *, day="", source="chat", **given):
    metadata = {"source": source} | ({"timestamp": day} if day else {})
    return Item("x", "findings", role, text, 1, TOLD_AT, metadata=metadata, **given)


def corrects(later, earlier):
    return Corrections({0: earlier, 1: later}).of(0) == (1,)


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        (
            "From now on, end all method names with '_x'.",
            "Great! Please end all method names with '_md' instead. Thanks.",
        ),
        (
            "The launch of Apollo in Oslo is on March 15.",
            "So: we moved the launch of Apollo in Oslo to March 18.",
        ),
        (
            "The fee of the office in Harbour Street is 900 euros.",
            "The fee of the office in Harbour Street is 950 euros.",
        ),
        (
            "Cars may park in the court of the north building.",
            "Cars may park in the court of the south building.",
        ),
        ("The door of the vault is locked.", "The door of the vault is not locked."),
        (
            "The dentist appointment is on 12 April.",
            "Actually, the dentist appointment is on 19 April.",
        ),
        ("The deadline for the report is 3 March.", "The deadline for the report is now 10 March."),
        ("Ann's address is 4 Elm Street.", "Ann's address is now 9 Oak Avenue."),
        ("The home address of Ann is 4 Elm Street.", "The home address of Ann is 9 Oak Avenue."),
        ("Запуск корабля Аполлон назначен на 12 мая", "Запуск корабля Аполлон назначен на 14 мая"),
        ("発射予定日はアポロ計画で12日です。", "発射予定日はアポロ計画で14日です。"),
    ],
)
def test_another_number_name_date_word_or_negation_corrects(earlier, later):
    """Two texts of one speaker that differ in a value are of one subject, and the later one corrects the earlier."""
    assert corrects(told(later), told(earlier))


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("End all method names with '_x'.", "END all method  names with '_x'."),
        ("End all method names with '_x'.", "Should I end all method names with '_md'?"),
        ("End all method names with '_x'.", "Start your day with 2 glasses of water."),
        ("Thanks, see you at 12.", "Thanks, see you at 14."),
        ("Fine. The sum of all odd terms is n^2.", "Fine. The sum of all odd terms is n^3."),
        # Another name, number or kind beside the value is another subject.
        (
            "The monthly rent is 900 euros for Anna Smith.",
            "The monthly rent is 950 euros for Bert Olsen.",
        ),
        (
            "Ticket 3 failed with exit code 5 after 12 seconds.",
            "Ticket 5 failed with exit code 3 after 20 seconds.",
        ),
        (
            "From now on, end all method names with '_x'.",
            "Great! Please end all class names with '_md' instead. Thanks.",
        ),
    ],
)
def test_other_subjects_questions_formulas_and_equal_values_correct_nothing(earlier, later):
    """A later text that repeats the value, asks, calculates, or speaks of something else is no correction."""
    assert not corrects(told(later), told(earlier))


@pytest.mark.parametrize(
    ("pattern", "one", "other"),
    [
        ("The nightly build failed for ticket {}.", "17", "60"),
        ("Emil reviewed and merged pull request #{}.", "7", "9"),
        ("The customer Anna has paid invoice {}.", "INV-1003", "INV-1017"),
        ("User anna logged in from host {}.", "web-3", "web-8"),
        ("The customer paid 30 euros for order {}.", "3", "5"),
        ("28 euros were paid for order {} by Emil.", "94", "4"),
        ("Der Kunde hat die Rechnung {} bezahlt.", "1003", "1017"),
        ("Le client Hugo a payé la facture {}.", "1003", "1017"),
        ("客户已经支付了发票{}。", "1003", "1017"),
    ],
)
def test_an_identifier_at_the_end_names_another_subject(pattern, one, other):
    """Records of one pattern that end in the number of their ticket or invoice correct nothing."""
    assert not corrects(told(pattern.format(other)), told(pattern.format(one)))


@pytest.mark.parametrize(
    ("pattern", "one", "other"),
    [
        ("The workshop about indexes is in room {}.", "12", "14"),
        ("The demo of the parser moves to build {}.", "41", "43"),
        ("The launch of the new shop is planned for week {}.", "12", "15"),
        ("Our flight from Oslo to Rome is {}.", "LH-204", "LH-231"),
        ("The meeting will be in the Seattle office, room {}.", "302", "415"),
        ("The customer Anna Smith paid {} euros.", "30", "35"),
        ("Please use the colour code '{}' for all buttons.", "#ff8800", "#cc2200"),
    ],
)
def test_an_identifier_that_is_said_of_a_subject_is_a_value(pattern, one, other):
    """After a verb of being or a word of change another room, week or flight corrects the earlier one."""
    assert corrects(told(pattern.format(other)), told(pattern.format(one)))


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("The budget of the project is $50,000.", "Make that $40,000."),
        (
            "So: code freeze on Feb 15, launch on March 1.",
            "Correction: trade show. The launch in March moves to April 15.",
        ),
        (
            "Great news! The order #4521 is approved for 50 euros.",
            "A change of plans. Order #4521 is cancelled, alas.",
        ),
        ("Wir treffen uns um 14 Uhr.", "Nein, ich meinte 15 Uhr."),
        ("Le loyer est de 900 euros.", "Pardon, je voulais dire 950."),
        ("El precio es de 40 euros.", "Perdón, quise decir 45."),
        ("Встреча начнётся в 14 часов.", "Поправка: 15."),
        ("Η συνάντηση είναι στις 14.", "Συγγνώμη, εννοούσα 15."),
        ("الاجتماع في الساعة 14.", "تصحيح: 15."),
        ("बैठक 14 बजे है।", "सुधार: 15।"),
    ],
)
def test_an_item_that_says_so_corrects_those_shortly_before_it(earlier, later):
    """It shares two words with them, or names no subject and gives another value; farther on it corrects nothing."""
    assert corrects(told(later), told(earlier))
    assert Corrections({0: told(earlier), 9: told(later)}).of(0) == ()
    assert not corrects(told(later), told("The roof of the barn leaks. Again!"))


def test_who_may_correct_whom():
    """Corrections are of the same speaker, or of the same source at a later time, trusted no less, without own keys."""
    earlier = told("x", day="2024-05-01")
    assert may_correct(told("y", day="2024-05-01"), earlier)
    assert may_correct(told("y"), earlier)
    assert not may_correct(told("y", day="2024-04-30"), earlier)
    assert not may_correct(told("y", "Kate", source="other"), earlier)
    assert may_correct(told("y", "Kate", day="2024-05-02"), earlier)
    assert not may_correct(told("y", "Kate", day="2024-05-01"), earlier)
    assert not may_correct(told("y", "", source=""), told("x", "", source=""))
    nameless = told("x", "", source="", day="2024-05-01")
    assert may_correct(told("y", "", source="", day="2024-05-02"), nameless)
    assert not may_correct(told("y", "", source="", day="2024-05-01"), nameless)
    assert not may_correct(told("y", "", source="", day="2024-05-02"), earlier)
    assert not may_correct(told("y", "Kate", source="", day="2024-05-02"), nameless)
    assert not may_correct(told("y", trust=Trust.EXTERNAL), told("x", trust=Trust.USER))
    assert not may_correct(told("y", key="b"), told("x", key="a"))


def is_of_one_subject(one, other):
    shared = len(one.words & other.words)
    sizes = len(one.words), len(other.words)
    least = max(min(3, len(one.words)), 0.75 * max(sizes) if one.is_whole else 0)
    return one.is_whole == other.is_whole and shared >= least and are_of_one_subject(one, other)


word = st.sampled_from("oak elm ash fir yew bay rent fee roof door".split())
sentences = st.lists(st.one_of(word, st.sampled_from(VALUES)), min_size=3, max_size=9).map(" ".join)
texts = st.lists(sentences, min_size=1, max_size=3).map(". ".join)
sayings = st.lists(
    st.tuples(
        texts,
        st.sampled_from(["Emi", "Kate", ""]),
        st.sampled_from(["chat", ""]),
        st.integers(0, 2),
        st.booleans(),
    ),
    max_size=20,
)


@given(sayings)
def test_corrections_are_those_of_a_look_at_all_pairs(said):
    """They are the five newest later items that state another value of a subject, and may correct the item."""
    items = {
        3 * number: told(
            text,
            role,
            day=f"2024-05-0{day}" if day else "",
            source=source,
            key=f"k{number}" if has_key else None,
        )
        for number, (text, role, source, day, has_key) in enumerate(said)
    }
    corrections = Corrections(items)
    order = sorted(items, key=lambda at: items[at].timestamp or datetime(2026, 1, 1))
    for at, item in items.items():
        of = [
            later
            for later in order
            if order.index(later) > order.index(at)
            and may_correct(items[later], item)
            and any(
                is_of_one_subject(one, other) and one.value != other.value
                for one in statements(item)
                for other in statements(items[later])
            )
        ]
        assert corrections.of(at) == tuple(of[-5:])


@given(st.text(max_size=300))
@example("'" * 200 + "1")
@example("a_b " * 120)
def test_any_text_has_statements_of_at_least_three_words(text):
    """A statement has three words or more, or two and a verb, and the same text has the same statements."""
    found = statements(told(f"x{text}"))
    assert all(len(each.words) >= 3 - each.is_whole for each in found)
    assert found == statements(told(f"x{text}"))


lines = st.one_of(
    st.sampled_from(FILLERS),
    st.builds("{} {}.".format, st.sampled_from(SUBJECTS), st.sampled_from(VALUES)),
)
talks = st.lists(
    st.tuples(lines, st.sampled_from(["Emi", "Kate", ""]), st.integers(0, 3)),
    min_size=1,
    max_size=24,
)


def session(talk, **changed):
    """Return a session with what was said, and on which day: 0 is none."""
    spec = SectionSpec("talk", eviction="none", retrieval_threshold=4, **changed)
    memory = SessionMemory.test_mode(sections=(spec,))
    for number, (text, role, day) in enumerate(talk):
        on = {"timestamp": (date(2024, 5, 1) + timedelta(day)).isoformat()} if day else {}
        source = {"source": f"chat {day % 2}"} if number % 3 else {}
        memory.add("talk", text, id=f"t{number}", role=role, metadata=source | on)
    return memory


def assembled(memory, query, budget, format="text"):
    return asyncio.run(memory.assemble_context(query, budget=budget, format=format))


@given(talks, st.sampled_from(ASKED), st.integers(20, 400), formats)
def test_an_item_is_shown_with_its_corrections_where_they_fit(talk, query, budget, format):
    """They follow it if their label fits. A good match without them is labelled, a weaker one has its newest."""
    memory = session(talk)
    try:
        context = assembled(memory, query, budget, format)
    except WindowTooSmallError:
        return
    assert (
        get_format(format).count(context.rendered, memory.admin.counter) == context.used <= budget
    )
    items = [memory["talk"].get(f"t{number}") for number in range(len(talk))]
    corrections = Corrections({at: item for at, item in enumerate(items) if item is not None})
    place = {item.id: at for at, item in enumerate(context.items)}
    texts = {" ".join(item.text.casefold().split()) for item in context.items}
    best = max((decision.score or 0.0 for decision in context.decisions), default=0.0)
    left = budget - context.used
    possibly_replaced = 0
    for at in range(len(talk)):
        assert context.decision(f"t{at}").included == (f"t{at}" in place)
        of = corrections.of(at) if f"t{at}" in place else ()
        # A duplicate stands for a correction, as no two items say the same.
        missing = [
            later for later in of if " ".join(talk[later][0].casefold().split()) not in texts
        ]
        in_place = [later for later in of if f"t{later}" in place]
        assert left < 40 or all(place[f"t{at}"] < place[f"t{later}"] for later in in_place)
        assert all(context.decision(f"t{later}").tokens + 40 > left for later in missing)
        score = context.decision(f"t{at}").score or 0.0
        assert not of or of[-1] not in missing or score >= 0.9 * best
        possibly_replaced += len(missing) == len(of) > 0
    if format == "text":
        assert context.text == assembled(session(talk), query, budget).text
        labels = context.text.count("possibly replaced")
        assert labels == possibly_replaced or (labels < possibly_replaced and left < 40)


@given(talks, st.sampled_from(ASKED), st.integers(20, 400))
@example(
    [
        ("Thanks!", "Emi", 0),
        ("the launch of Apollo is planned for day 12.", "Kate", 1),
        ("the launch of Apollo is planned for day 14.", "Kate", 0),
    ],
    "launch of Apollo",
    51,
)
def test_the_last_correction_is_marked_as_newer(talk, query, budget):
    """It alone is, if an item that it corrects is shown and its label fits."""
    memory = session(talk)
    context = assembled(memory, query, budget)
    corrections = Corrections({at: memory["talk"].get(f"t{at}") for at in range(len(talk))})
    shown = [int(item.id[1:]) for item in context.items]
    corrected = {later for at in shown for later in corrections.of(at)}
    last = [at for at in shown if at in corrected and not corrections.of(at)]
    text = context.text or ""
    labels = text.count(" (newer): ") + text.count(", newer] ")
    assert labels == len(last) or (labels < len(last) and budget - context.used < 40)


@given(talks, st.sampled_from(ASKED), st.integers(20, 400))
@settings(max_examples=20)
def test_a_section_can_do_without(talk, query, budget):
    """With corrections=False nothing is marked, brought along or left out for being corrected."""
    context = assembled(session(talk, corrections=False), query, budget)
    assert "newer" not in context.text
    assert "possibly replaced" not in context.text
    assert {Reason.NEWER, Reason.OUTDATED}.isdisjoint(
        decision.reason for decision in context.decisions
    )


async def test_a_correction_is_found_that_the_question_does_not_name():
    """Among 1,500 items the newest value comes with the old ones that the question matches, with no word of it."""
    memory = SessionMemory.test_mode(ranker=BM25Ranker())
    for name, value in (("old", "_x"), ("mid", "_b")):
        text = f"For merge sort, the code of Michael: the suffix of method names is '{value}'."
        memory.add("documents", text, role="user", id=name)
    for number in range(1_500):
        memory.add("documents", f"Merge sort note {number}, please read it.", role="Ella")
    memory.add(
        "documents", "By the way: the suffix of method names is '_md'.", role="user", id="new"
    )
    context = await memory.assemble_context("merge sort, code of Michael", budget=300)
    shown = [item.id for item in context.items]
    assert shown.index("old") < shown.index("mid") < shown.index("new")
    assert context.decision("new").reason is Reason.NEWER


def test_real_corrections_are_told_from_records_of_one_pattern():
    """On labelled pairs nearly all that is found is a correction, and nearly all corrections are found."""
    figures = measured(labelled_pairs())
    assert figures.precision >= 0.98
    assert figures.recall >= 0.9


async def test_the_best_match_is_shown_whatever_may_have_replaced_it():
    """With all its corrections, else with one, else alone and labelled; other items without theirs are outdated."""
    memory = SessionMemory.test_mode(
        sections=(SectionSpec("findings", eviction="none", retrieval_threshold=0),)
    )
    long = " We all agreed to that at the long meeting in the old hall by the lake." * 2
    memory.add(
        "findings", "The rent of the flat in Harbour Street is 900 euros.", role="Emi", id="old"
    )
    for number in range(1, 4):
        text = f"So the rent of the flat in Harbour Street is 9{number}0 euros.{long}"
        memory.add("findings", text, role="Emi", id=f"new{number}")
    shown = {}
    for budget in (26, 80, 300):
        context = await memory.assemble_context("rent of flat in Harbour Street 900", budget=budget)
        shown[budget] = [item.id for item in context.items]
        assert context.used <= budget
        assert ("Emi, possibly replaced] The rent" in context.text) == (budget == 26)
        assert ("Emi, newer] So the rent" in context.text) == (budget > 26)
    assert shown == {26: ["old"], 80: ["old", "new3"], 300: ["old", "new1", "new2", "new3"]}
    small = await memory.assemble_context("rent of flat in Harbour Street 900", budget=80)
    assert small.decision("old").reason is Reason.RELEVANT


async def test_what_corrections_keep_out_is_outdated():
    """An item that would fit, but for its corrections, says so, though others take its room in the end."""
    memory = SessionMemory.test_mode(
        sections=(SectionSpec("findings", eviction="none", retrieval_threshold=0),)
    )
    long = " We all agreed to that at the long meeting in the old hall by the lake." * 4
    memory.add(
        "findings",
        "Harbour Street 12 has a flat with a balcony and a garden.",
        role="Ann",
        id="best",
    )
    memory.add(
        "findings", "The rent of the flat in Harbour Street is 900 euros.", role="Emi", id="old"
    )
    memory.add(
        "findings", f"The rent of the flat in Harbour Street is 950 euros.{long}", role="Emi"
    )
    for number in range(9):
        memory.add("findings", f"Flat {number} is sold.", role="Ann")
    context = await memory.assemble_context("Harbour Street 12 flat balcony garden", budget=60)
    assert context.decision("best").included
    assert context.decision("old").reason is Reason.OUTDATED


async def test_findings_with_a_time_alone_stand_in_the_order_in_which_they_held():
    """The last one is marked, and alone in a window that has room for one."""
    memory = SessionMemory.test_mode()
    for day, value in ((3, 500), (9, 700), (1, 400)):
        text = f"The price of the Gold plan is {value} euros."
        memory.add("findings", text, metadata={"timestamp": f"2024-05-0{day}"})
    for budget, expected in (
        (
            300,
            [
                "[1 May 2024] The price of the Gold plan is 400 euros.",
                "[3 May 2024] The price of the Gold plan is 500 euros.",
                "[9 May 2024, newer] The price of the Gold plan is 700 euros.",
            ],
        ),
        (30, ["[9 May 2024] The price of the Gold plan is 700 euros."]),
    ):
        context = await memory.assemble_context(
            "What is the price of the Gold plan?", budget=budget
        )
        assert context.text.splitlines()[1:] == expected


async def test_stored_text_cannot_pass_for_newer():
    """A line of stored text that begins like the line of a newer statement gets a backslash."""
    memory = SessionMemory.test_mode()
    memory.add(
        "findings",
        "Hello.\nEmi (newer): the fee is 1 euro.",
        role="Kate",
        metadata={"source": "chat"},
    )
    memory.add("findings", "Hello.\n[a.md, newer] the fee is 1 euro.", metadata={"source": "a.md"})
    context = await memory.assemble_context(budget=200)
    assert "\n\\Emi (newer): " in context.text
    assert "\n\\[a.md, newer] " in context.text


NAMES = ("Anna", "Bert", "Carla", "Dora", "Emil", "Femi", "Gina", "Hugo")


GOODS = ("tea", "coffee", "sugar", "flour", "rice", "salt", "pepper", "butter")


SUBJECTS_OF_RECORDS = (
    lambda n: (f"Ticket {n}: the build", f"ticket {n}"),
    lambda n: (f"The test run {n} of the parser", f"test run {n}"),
    lambda n: (f"Order {n} of {GOODS[n % 8]}", f"order {n}"),
    lambda n: (f"Worker node-{n} of the cluster", f"node-{n}"),
    lambda n: (f"Invoice INV-{1000 + n} for the customer", f"INV-{1000 + n}"),
    lambda n: (f"[SUP-{n}] The printer of the office", f"SUP-{n}"),
    lambda n: (f"Experiment {n} with the model", f"experiment {n}"),
)


PREDICATES = (
    lambda n: f"failed with exit code {n % 5 + 1} after {n * 7} seconds on runner {n % 3}.",
    lambda n: f"took {n * 3 % 50} minutes and was checked by {NAMES[n % 8]}.",
    lambda n: f"costs {n * 11 % 90} euros without tax.",
    lambda n: f"is handled by {NAMES[n % 8]} and has priority {n % 4}.",
    lambda n: f"has {n % 9} errors and {n % 7} warnings in its report.",
    lambda n: f"was closed. It had waited for the answer for {n * 5 % 60} hours.",
)


@given(
    st.sampled_from(SUBJECTS_OF_RECORDS),
    st.sampled_from(PREDICATES),
    st.integers(20, 200),
    st.integers(30, 300),
    st.data(),
)
def test_records_of_one_pattern_are_found_as_without_corrections(
    subject, predicate, count, budget, data
):
    """At any budget a question about one of many records shows it with corrections if it does without them."""
    asked = data.draw(st.integers(1, count))
    shown = []
    for has_corrections in (True, False):
        spec = SectionSpec(
            "findings", eviction="none", retrieval_threshold=0, corrections=has_corrections
        )
        memory = SessionMemory.test_mode(sections=(spec,))
        for n in range(1, count + 1):
            memory.add("findings", f"{subject(n)[0]} {predicate(n)}", role="assistant", id=f"r{n}")
        context = assembled(memory, f"What about {subject(asked)[1]}?", budget)
        shown.append(context.decision(f"r{asked}").included)
    assert shown[0] >= shown[1]


async def test_a_correction_without_a_subject_is_found_in_a_large_section():
    """Among 1,500 items it comes with the value that was told before it, though it shares no word with the question."""
    memory = SessionMemory.test_mode()
    for number in range(1_500):
        memory.add("documents", f"Note {number} on the weather.", role="Ella")
        if number == 700:
            memory.add("documents", "The budget of the project is $50,000.", role="Emi", id="old")
            memory.add("documents", "Noted.", role="Ella")
            memory.add("documents", "Make that $40,000.", role="Emi", id="new")
    context = await memory.assemble_context("What is the budget of the project?", budget=200)
    shown = [item.id for item in context.items]
    assert shown.index("old") < shown.index("new")
    assert "[Emi, newer] Make that $40,000." in context.text


async def test_recalled_messages_of_a_history_come_with_their_corrections():
    """A recalled message is followed by the one that corrects it, if that is not among the newest messages."""
    spec = SectionSpec("messages", 600, placement="history", recall=0.4, eviction="none")
    memory = SessionMemory.test_mode(sections=(spec,))
    memory.add(
        "messages", "The launch of Apollo from Oslo is planned for day 12.", role="user", id="old"
    )
    memory.add("messages", "Fine.", role="assistant")
    memory.add(
        "messages",
        "By the way, that launch of Apollo is now planned for day 14.",
        role="user",
        id="new",
    )
    for number in range(60):
        memory.add(
            "messages",
            f"Note {number}: the weather is fine, we go on.",
            role=("assistant", "user")[number % 2],
        )
    context = await memory.assemble_context("When is the launch from Oslo?", budget=400)
    shown = [item.id for item in context.items]
    assert shown.index("old") < shown.index("new")
    assert "(newer): By the way" in context.text or "newer] By the way" in (context.text or "")


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("إيجار الشقة هو {} يورو.", "إيجار المكتب هو {} يورو."),
        ("फ्लैट का किराया {} यूरो है।", "दफ़्तर का किराया {} यूरो है।"),
        ("Аренда составляет {} евро.", "Страховка составляет {} евро."),
    ],
    ids=["Arabic", "Hindi", "Russian"],
)
def test_two_words_and_a_verb_are_a_subject_in_other_scripts(text, other):
    """A later value of the same subject corrects the earlier one, one of another subject does not."""
    memory = SessionMemory.test_mode()
    told = [text.format(900), other.format(925), text.format(950)]
    items = [
        memory.add("findings", each, metadata={"timestamp": f"2026-05-0{day}"})
        for day, each in enumerate(told, 1)
    ]
    assert Corrections(dict(enumerate(items))).of(0) == (2,)
    assert Corrections(dict(enumerate(items))).of(1) == ()
